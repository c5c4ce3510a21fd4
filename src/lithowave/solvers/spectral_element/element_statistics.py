r"""Statistics of a mesh before the first step: mass, volume, minimum Jacobian, stable time step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import over_parts, parts_in_order
from lithowave.mesh.arrays import product
from lithowave.mesh.numbering import largest_numbers, shared_count
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_points, gll_weights, map_degree, tensor_order

if TYPE_CHECKING:
    from lithowave.mesh.hexahedra import HexahedralMesh

PART = 4096  # elements that are measured at a time
STRAIGHT = 1e-11  # coefficients of higher powers over the others in parallelepipeds, which are measured at one point


def map_coefficients(nodes: np.ndarray) -> np.ndarray:
    """Return the maps of elements as monomials, (elements, 3, q, q, q) [component, power of zeta, of eta, of xi], m.

    nodes : (elements, 8 or 27, 3); q is 2 or 3. The constant term, which derivatives do not need, is relative to the
    element's first node, so that single precision has enough digits.
    """
    count = nodes.shape[1]
    q = map_degree(count) + 1
    line = np.linalg.inv(np.linspace(-1, 1, q)[:, None] ** np.arange(q))  # powers from values
    tensor = np.empty((len(nodes), 3, count))
    tensor[:, :, tensor_order(count)] = (nodes - nodes[:, :1]).transpose(0, 2, 1)
    whole = np.kron(line, np.kron(line, line))
    return product(tensor.reshape(-1, count), whole.T).reshape(len(nodes), 3, q, q, q)


# Shapes of elements: any, upright (x is linear in xi and y in eta, and neither depends on another local coordinate),
# parallelepipeds, and those of them that are aligned with x, y and z.
GENERAL, UPRIGHT, AFFINE, CUBOID = range(4)


def element_shapes(coefficients: np.ndarray) -> np.ndarray:
    """Return the shape of each element, the last possible one of `GENERAL`, `UPRIGHT`, `AFFINE` and `CUBOID`."""
    found = np.empty(len(coefficients), np.int8)
    over_parts(lambda some: compare_powers(coefficients[some], found[some]), len(found), PART)
    return found


def is_affine(coefficients: np.ndarray) -> np.ndarray:
    """True for each element that is a parallelepiped."""
    return element_shapes(coefficients) >= AFFINE


@njit(cache=True, nogil=True, error_model="numpy")
def compare_powers(coefficients, shapes):  # pragma: no cover - compiled
    """Compute the shapes of elements: powers whose coefficients vanish in comparison with the others are absent."""
    q = coefficients.shape[2]
    for element in range(len(coefficients)):
        largest, curved, turned, leaning = 0.0, 0.0, 0.0, 0.0
        for component in range(3):
            for r in range(q):
                for s in range(q):
                    for t in range(q):
                        size = abs(coefficients[element, component, r, s, t])
                        largest = max(largest, size)
                        straight = r + s + t == 1 and (t, s, r)[component] == 1
                        if r + s + t > 1:
                            curved = max(curved, size)
                        if r + s + t > 0 and not straight:
                            turned = max(turned, size)
                            leaning = max(leaning, size) if component < 2 else leaning
        limit = 1e-9 * largest
        special = UPRIGHT if leaning <= limit else GENERAL
        shapes[element] = CUBOID if turned <= limit else AFFINE if curved <= limit else special


@lru_cache
def largest_eigenvalue(degree: int) -> float:
    """Return the largest eigenvalue of the stiffness of one element [-1, 1] with free ends, for rho = mu = 1."""
    derivative, weights = derivative_matrix(degree), gll_weights(degree)
    stiffness = derivative.T @ (weights[:, None] * derivative)
    root = np.sqrt(weights)
    return float(np.linalg.eigvalsh(stiffness / root[:, None] / root)[-1])


@dataclass(frozen=True)
class ElementStatistics:
    """Sums and extremes over all elements.

    mass : mass of each point, kg; of a fluid, with 1 / kappa instead of rho, m^3/Pa. frequency2 : bound of the largest
    eigenvalue of each element, 1/s^2. jacobian : minimum determinant in each element, m^3. shape : see
    `element_shapes`.
    """

    mass: np.ndarray
    frequency2: np.ndarray
    jacobian: np.ndarray
    shape: np.ndarray

    @property
    def affine(self) -> np.ndarray:
        """True for each parallelepiped."""
        return self.shape >= AFFINE


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _measure(coefficients, vp, powers, weights, volumes, frequency2, jacobian):  # pragma: no cover - compiled
    """Compute the volume of each point of elements, frequency2 (without the factor of the degree) and jacobian."""
    n, q = weights.size, coefficients.shape[2]
    varying = vp.shape[1] > 1
    m, plane, line = np.empty((3, 3)), np.empty((2, 3, q, q)), np.empty((3, 3, q))
    for e in range(coefficients.shape[0]):
        least, most, straight, det, gradients = np.inf, 0.0, is_straight(coefficients[e]), 0.0, 0.0
        for k in range(n):
            if not straight or k == 0:
                collapse_plane(coefficients[e], powers[:, k], plane)
            for j in range(n):
                if not straight or k + j == 0:
                    collapse_line(plane, powers[:, j], line)
                for i in range(n):
                    point = (k * n + j) * n + i
                    if not straight or point == 0:
                        jacobian_matrix(line, powers[:, i], m)
                        det = determinant(m)
                        gradients = spread(m, det)
                    least = min(least, det)
                    volumes[e, point] = weights[i] * weights[j] * weights[k] * det
                    most = max(most, vp[e, point if varying else 0] ** 2 * gradients)
        frequency2[e], jacobian[e] = most, least


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_own_masses(volumes, inertia, numbers, begin, mass, later):  # pragma: no cover - compiled
    """Add the masses of the points of elements from number `begin` on. later : (number, volume, inertia) of the other
    points, in their order; return their count."""
    count, last = 0, inertia.shape[1] - 1
    for e in range(numbers.shape[0]):
        for point in range(numbers.shape[1]):
            number, density = numbers[e, point], inertia[e, min(point, last)]
            if number >= begin:
                mass[number] += volumes[e, point] * density
            else:
                later[0][count], later[1][count], later[2][count] = number, volumes[e, point], density
                count += 1
    return count


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_masses(count, numbers, volumes, inertia, mass):  # pragma: no cover - compiled
    """Add the masses of points, in their order."""
    for place in range(count):
        mass[numbers[place]] += volumes[place] * inertia[place]


def point_masses(coefficients: np.ndarray, inertia: np.ndarray, degree: int) -> np.ndarray:
    """Return the mass that each element gives to each of its points, (elements, points), kg; see `ElementStatistics`.

    coefficients : see `map_coefficients`. inertia : (elements, 1) or (elements, points), see `materials.inertia`.
    """
    count, powers = len(coefficients), power_tables(gll_points(degree), coefficients.shape[2])
    volumes, unused = np.empty((count, (degree + 1) ** 3)), np.empty((2, count))
    _measure(coefficients, np.ones((count, 1)), powers, gll_weights(degree), volumes, *unused)
    return volumes * inertia


def power_tables(points: np.ndarray, powers: int) -> np.ndarray:
    """Return x^t and its slope at points: (2, points, powers)."""
    exponents = np.arange(powers)
    slopes = exponents * points[:, None] ** np.maximum(exponents - 1, 0)
    return np.stack([points[:, None] ** exponents, slopes])


@njit(inline="always")
def is_straight(c):
    """True for a parallelepiped up to round-off: the Jacobian matrix is the same at all its points."""
    largest, curved = 0.0, 0.0
    for component in range(3):
        for r in range(c.shape[1]):
            for s in range(c.shape[1]):
                for t in range(c.shape[1]):
                    size = abs(c[component, r, s, t])
                    if r + s + t > 1:
                        curved = max(curved, size)
                    else:
                        largest = max(largest, size)
    return curved <= STRAIGHT * largest


@njit(inline="always")
def collapse_plane(c, z, plane):
    """Compute the map as polynomials in eta and xi at a value of zeta: plane[0], and its slope along zeta: plane[1]."""
    q = c.shape[1]
    for component in range(3):
        for s in range(q):
            for t in range(q):
                value, slope = 0.0, 0.0
                for r in range(q):
                    value += z[0, r] * c[component, r, s, t]
                    slope += z[1, r] * c[component, r, s, t]
                plane[0, component, s, t], plane[1, component, s, t] = value, slope


@njit(inline="always")
def collapse_line(plane, y, line):
    """Compute the map as polynomials in xi at a value of eta: line[0]; slopes along eta and zeta: line[1], line[2]."""
    q = plane.shape[2]
    for component in range(3):
        for t in range(q):
            value, along_y, along_z = 0.0, 0.0, 0.0
            for s in range(q):
                value += y[0, s] * plane[0, component, s, t]
                along_y += y[1, s] * plane[0, component, s, t]
                along_z += y[0, s] * plane[1, component, s, t]
            line[0, component, t], line[1, component, t], line[2, component, t] = value, along_y, along_z


@njit(inline="always")
def jacobian_matrix(line, x, m):
    """Compute m[d, component] = d x_component / d xi_d."""
    for component in range(3):
        a, b, g = 0.0, 0.0, 0.0
        for t in range(line.shape[2]):
            a += x[1, t] * line[0, component, t]
            b += x[0, t] * line[1, component, t]
            g += x[0, t] * line[2, component, t]
        m[0, component], m[1, component], m[2, component] = a, b, g


@njit(inline="always")
def determinant(m):
    """Return the determinant of the Jacobian matrix, m^3."""
    j0 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
    j1 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
    j2 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
    return m[0, 0] * j0 + m[0, 1] * j1 + m[0, 2] * j2


@njit(inline="always")
def spread(m, det):
    """Return the sum over d and e of |grad xi_d . grad xi_e|, 1/m^2, from the Jacobian matrix."""
    total, scale = 0.0, 1.0 / det
    inverse = np.empty((3, 3))
    for d in range(3):
        e, f = (d + 1) % 3, (d + 2) % 3
        for c in range(3):
            r, s = (c + 1) % 3, (c + 2) % 3
            inverse[d, c] = (m[e, r] * m[f, s] - m[e, s] * m[f, r]) * scale
    for d in range(3):
        for e in range(3):
            total += abs(
                inverse[d, 0] * inverse[e, 0] + inverse[d, 1] * inverse[e, 1] + inverse[d, 2] * inverse[e, 2]
            )
    return total


class SpeedOfElements(Protocol):
    """What the statistics use of the materials of elements."""

    def inertia(self, some: slice) -> np.ndarray: ...
    def speed(self, some: slice) -> np.ndarray: ...


def compute_element_statistics(
    mesh: HexahedralMesh, numbers: np.ndarray, point_count: int, materials: SpeedOfElements
) -> tuple[np.ndarray, ElementStatistics]:
    r"""Return the maps of the elements and the statistics, in one pass over all points of all elements.

    mesh : object with element_nodes(elements). numbers : indices of points [element, k, j, i]. materials : object with
    inertia(elements) and speed(elements) -> (elements, 1) or (elements, points of an element): the density, or 1 /
    kappa in a fluid, and the velocity of the fastest wave, m/s. The first result is that of `map_coefficients`.

    The largest eigenvalue of an element's stiffness over its mass bounds that of the global mesh (Fried 1972, J. Sound
    Vib. 22, 407-418); for a parallelepiped it is at most vp^2 L sum_de |grad xi_d . grad xi_e|, L that of the line
    element; other elements are represented by their worst point.
    """
    degree, q = numbers.shape[1] - 1, 2 if mesh.nodes is None else 3
    numbers = numbers.reshape(len(numbers), -1)
    mass, coefficients = np.zeros(point_count), np.empty((len(numbers), 3, q, q, q))
    frequency2, jacobian, shapes = (np.empty(len(numbers), dtype) for dtype in (float, float, np.int8))
    powers, weights = power_tables(gll_points(degree), q), gll_weights(degree)
    # The masses of a point are added in the order of its elements for any number of threads: each part of the elements
    # adds those of points that no earlier part has; the others follow when the earlier parts are complete.
    shared = shared_count(point_count, len(numbers), degree)
    largest = np.maximum.reduceat(largest_numbers(numbers, shared), np.arange(0, len(numbers), PART))
    begin = np.maximum.accumulate(np.append(-1, largest)) + 1

    def measure(some: slice) -> tuple[int, ...]:
        coefficients[some] = map_coefficients(mesh.element_nodes(some))
        shapes[some] = element_shapes(coefficients[some])
        later = tuple(np.empty(numbers[some].size, dtype) for dtype in (np.int64, float, float))
        volumes, inertia = np.empty(numbers[some].shape), materials.inertia(some)
        _measure(
            coefficients[some], materials.speed(some), powers, weights, volumes, frequency2[some], jacobian[some]
        )
        count = _add_own_masses(volumes, inertia, numbers[some], begin[some.start // PART], mass, later)
        return count, *later

    for later in parts_in_order(measure, len(numbers), PART):
        _add_masses(*later, mass)
    return coefficients, ElementStatistics(mass, largest_eigenvalue(degree) * frequency2, jacobian, shapes)
