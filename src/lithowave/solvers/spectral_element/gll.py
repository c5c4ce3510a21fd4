r"""Gauss-Lobatto-Legendre points, weights and Lagrange polynomials on [-1, 1].

The n + 1 points of degree n are -1, 1 and the zeros of :math:`P_n'`; quadrature with the weights

.. math:: w_i = \frac{2}{n (n+1) P_n(x_i)^2}

is exact for polynomials up to degree 2n - 1 (Canuto et al. 2006, Spectral Methods, eq. 2.3.12). The polynomial that is
1 at point j and 0 at all others, and the matrix of derivatives at the points (Berrut & Trefethen 2004, SIAM Review 46,
501-517, eqs. 3.2 and 9.4), are

.. math:: \ell_j(x) = \prod_{m \ne j} \frac{x - x_m}{x_j - x_m}, \qquad
    D_{ij} = \ell_j'(x_i) = \frac{\lambda_j / \lambda_i}{x_i - x_j}, \quad D_{ii} = -\sum_{j \ne i} D_{ij}, \qquad
    \lambda_j^{-1} = \prod_{m \ne j} (x_j - x_m).

All values are dimensionless and in double precision. Arrays that depend only on the degree are cached and read-only.
Every function raises ValueError for a degree that is not 1 to 10.

Inversion of the maps of elements: reference coordinates of points, by Newton's method, for many points at a time.

**Geometry of hexahedra of 8 nodes (trilinear) and 27 nodes (triquadratic).** An element maps the reference cube [-1,
1]^3 by

.. math:: x(\xi) = \sum_a N_a(\xi)\, x_a, \qquad J_{cd} = \partial x_c / \partial \xi_d,

with N_a products of three Lagrange polynomials of degree 1 or 2. `nodes` is always an array (elements, 8 or 27, 3) in
m. The corners are ordered counter-clockwise around the bottom, then around the top. The order of 27 nodes is Gmsh's:
corners, edges (0,1) (0,3) (0,4) (1,2) (1,5) (2,3) (2,6) (3,7) (4,5) (4,7) (5,6) (6,7), faces bottom, front (y low),
left (x low), right, back, top, and the center. GLL points have array axes [element, k, j, i], x fastest. Tables are
computed for all given elements: pass a large mesh in sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import fsum

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import InputError
from lithowave.mesh.arrays import product
from lithowave.solvers.elements.locations import PointCells, PointLocations

DEGREES = range(1, 11)


def legendre(degree: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return P_n(x) and P_n'(x) by the three-term recurrence, shapes of x."""
    before, value = np.zeros_like(x), np.ones_like(x)
    derivative_before, derivative = np.zeros_like(x), np.zeros_like(x)
    for n in range(degree):
        following = ((2 * n + 1) * x * value - n * before) / (n + 1)
        derivative_following = derivative_before + (2 * n + 1) * value
        before, value = value, following
        derivative_before, derivative = derivative, derivative_following
    return value, derivative


@lru_cache
def gll_points(degree: int) -> np.ndarray:
    """Return the points in ascending order, shape (degree + 1,), exactly symmetric about 0.

    Newton's method for P_n' = 0 from the Chebyshev points -cos(pi i / n), with P_n'' from Legendre's equation
    (1 - x^2) P_n'' = 2 x P_n' - n (n + 1) P_n.
    """
    _check(degree)
    x = -np.cos(np.pi * np.arange(1, degree) / degree)
    for _ in range(8):  # quadratic convergence: four are enough
        value, slope = legendre(degree, x)
        curvature = (2 * x * slope - degree * (degree + 1) * value) / (1 - x**2)
        x = x - slope / curvature
    x = np.concatenate([[-1.0], x, [1.0]])
    return _read_only((x - x[::-1]) / 2)


@lru_cache
def gll_weights(degree: int) -> np.ndarray:
    """Return the quadrature weights, shape (degree + 1,), positive, with sum 2, exactly symmetric."""
    value, _ = legendre(degree, gll_points(degree))
    weights = 2.0 / (degree * (degree + 1) * value**2)
    return _read_only((weights + weights[::-1]) / 2)


def lagrange_values(degree: int, x: np.ndarray | float) -> np.ndarray:
    """Return l_j(x) at any points: shape (*shape of x, degree + 1).

    For a list of points this is the matrix that interpolates to them from the GLL points. At a GLL point the values are
    exactly 0 and 1.
    """
    points = gll_points(degree)
    x = np.asarray(x, dtype=float)[..., None]
    others = [np.delete(points, j) for j in range(degree + 1)]
    return np.stack([((x - other) / (point - other)).prod(-1) for point, other in zip(points, others, strict=True)], -1)


def lagrange_derivatives(degree: int, x: np.ndarray | float) -> np.ndarray:
    """Return l_j'(x) at any points, shape (*shape of x, degree + 1): derivatives at the GLL points, interpolated."""
    return lagrange_values(degree, x) @ derivative_matrix(degree)


@lru_cache
def derivative_matrix(degree: int) -> np.ndarray:
    """Return D, shape (degree + 1, degree + 1): f'(x_i) = sum_j D_ij f(x_j).

    The diagonal is minus the sum of the rest of its row, so that the derivative of constants vanishes, and D_ij is
    exactly -D_(n-i)(n-j).
    """
    points = gll_points(degree)
    distance = points[:, None] - points[None, :]
    np.fill_diagonal(distance, 1.0)
    inverse = distance.prod(axis=1)
    inverse = (inverse + (-1) ** degree * inverse[::-1]) / 2
    matrix = inverse[:, None] / inverse[None, :] / distance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, [-fsum(row) for row in matrix])
    return _read_only(matrix)


def _check(degree: int) -> None:
    if degree not in DEGREES:
        raise ValueError(f"degree is {degree}; allowed: {DEGREES[0]} to {DEGREES[-1]}")


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


ITERATIONS, HALVINGS = 51, 6  # the last iteration is one more than those that may converge
CONVERGED, ROUND_OFF = 1e-12, 1e-8  # steps in reference coordinates


@exact_part
def invert_maps(first, end, nodes, element, points, q, order, line, xi):  # pragma: no cover - compiled
    """Compute rows first..end - 1 of xi (m, 3) of `points` (m, 3) in elements (m,) of `nodes` (n, 8 or 27, 3); NaN
    without solution.

    q : nodes along an axis. order : index in tensor order of each node. line : coordinates of the grid of starting
    points.
    """
    tensor, starts, slopes = np.empty((3, q, q, q)), np.empty((line.size, q)), np.empty(q)
    for n in range(line.size):
        _polynomials(line[n], starts[n], slopes)
    for row in range(first, end):
        own = nodes[element[row]]
        for a in range(len(order)):
            k, rest = divmod(order[a], q * q)
            for c in range(3):
                tensor[c, k, rest // q, rest % q] = own[a, c]
        _start(tensor, points[row], line, starts, xi[row])
        _iterate(tensor, points[row], xi[row])


@exact_part
def _iterate(tensor, point, xi):  # pragma: no cover - compiled
    """Compute xi of a point by Newton's method from a starting point: NaN if the iteration diverges or does not
    converge. A step that increases the misfit is halved, unless it is at the level of round-off."""
    tables, misfit, matrix = np.empty((2, 3, tensor.shape[1])), np.empty(3), np.empty((3, 3))
    step, trial = np.zeros(3), np.empty(3)
    distance, moved, last = np.inf, 1.0, False
    for _ in range(1 + ITERATIONS):  # the first evaluates the starting point
        for halvings in range(HALVINGS + 1):
            for d in range(3):
                trial[d] = xi[d] + step[d]
            found = _evaluate(tensor, point, tables, trial, misfit, matrix)
            if not (found > distance and moved > ROUND_OFF) or halvings == HALVINGS:
                break
            for d in range(3):
                step[d] /= 2.0
            moved /= 2.0
        for d in range(3):
            xi[d] = trial[d]
        if last:
            return
        if not np.isfinite(moved):
            break
        distance, last = found, moved < CONVERGED
        moved = _solve_linear(matrix, misfit, step)
        if moved > 1.0:
            for d in range(3):
                step[d] /= moved
            moved = 1.0
    for d in range(3):
        xi[d] = np.nan


@exact_part
def _start(tensor, point, line, starts, xi):  # pragma: no cover - compiled
    """Set xi to the nearest point of a grid. starts : polynomials at the coordinates `line` of its points."""
    q, nearest = tensor.shape[1], np.inf
    plane, row = np.empty((3, q, q)), np.empty((3, q))
    for z in range(line.size):
        for c in range(3):
            for j in range(q):
                for i in range(q):
                    total = 0.0
                    for k in range(q):
                        total += starts[z, k] * tensor[c, k, j, i]
                    plane[c, j, i] = total
        for y in range(line.size):
            for c in range(3):
                for i in range(q):
                    total = 0.0
                    for j in range(q):
                        total += starts[y, j] * plane[c, j, i]
                    row[c, i] = total
            for x in range(line.size):
                distance = 0.0
                for c in range(3):
                    total = point[c]
                    for i in range(q):
                        total -= starts[x, i] * row[c, i]
                    distance += total**2
                if distance < nearest:
                    nearest, xi[0], xi[1], xi[2] = distance, line[x], line[y], line[z]


@exact_part
def _polynomials(x, value, slope):  # pragma: no cover - compiled
    """Compute the polynomials of the nodes along an axis, and their slopes."""
    if value.size == 2:
        value[0], value[1], slope[0], slope[1] = (1.0 - x) / 2.0, (1.0 + x) / 2.0, -0.5, 0.5
    else:
        value[0], value[1], value[2] = x * (x - 1.0) / 2.0, 1.0 - x * x, x * (x + 1.0) / 2.0
        slope[0], slope[1], slope[2] = x - 0.5, -2.0 * x, x + 0.5


@exact_part
def _evaluate(tensor, point, tables, xi, misfit, matrix):  # pragma: no cover - compiled
    """Compute the vector from the image of xi to the point and the Jacobian matrix; return the vector's squared
    length."""
    for d in range(3):
        _polynomials(xi[d], tables[0, d], tables[1, d])
    value, slope, q = tables[0], tables[1], tensor.shape[1]
    for c in range(3):
        image = along_x = along_y = along_z = 0.0
        for k in range(q):
            for j in range(q):
                total = turned = 0.0
                for i in range(q):
                    total += value[0, i] * tensor[c, k, j, i]
                    turned += slope[0, i] * tensor[c, k, j, i]
                image += value[2, k] * value[1, j] * total
                along_x += value[2, k] * value[1, j] * turned
                along_y += value[2, k] * slope[1, j] * total
                along_z += slope[2, k] * value[1, j] * total
        misfit[c] = point[c] - image
        matrix[c, 0], matrix[c, 1], matrix[c, 2] = along_x, along_y, along_z
    return misfit[0] ** 2 + misfit[1] ** 2 + misfit[2] ** 2


@exact_part
def _solve_linear(matrix, right, solution):  # pragma: no cover - compiled
    """Solve a system of three equations by cofactors; return the largest component, NaN if there is none."""
    determinant = 0.0
    for d in range(3):
        e, f = (d + 1) % 3, (d + 2) % 3
        solution[d] = 0.0
        for c in range(3):
            r, s = (c + 1) % 3, (c + 2) % 3
            cofactor = matrix[r, e] * matrix[s, f] - matrix[r, f] * matrix[s, e]
            solution[d] += cofactor * right[c]
            if d == 0:
                determinant += matrix[c, 0] * cofactor
    largest = 0.0
    for d in range(3):
        solution[d] /= determinant
        largest = max(largest, abs(solution[d]))
        if np.isnan(solution[d]):
            return np.nan
    return largest


PART = 1024  # elements or points that are searched at a time

# Position of each node in steps from the lowest corner (x, y, z), in Gmsh's order.
_STEPS_8 = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
_STEPS_27 = (
    *((2 * x, 2 * y, 2 * z) for x, y, z in _STEPS_8),
    *((1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 1, 0), (2, 0, 1), (1, 2, 0)),
    *((2, 2, 1), (0, 2, 1), (1, 0, 2), (0, 1, 2), (2, 1, 2), (1, 2, 2)),
    *((1, 1, 0), (1, 0, 1), (0, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 1)),
)


def map_degree(count: int) -> int:
    """Return the degree of the map for this number of nodes: 1 for 8, 2 for 27; ValueError for any other number."""
    if count not in (8, 27):
        raise ValueError(f"elements have {count} nodes; allowed: 8, 27")
    return 1 if count == 8 else 2


@lru_cache
def tensor_order(count: int) -> np.ndarray:
    """Return the index of each node in tensor order, x fastest: nodes_gmsh = nodes_tensor[tensor_order(count)]."""
    degree = map_degree(count)
    steps = np.array(_STEPS_8 if degree == 1 else _STEPS_27)
    order = steps @ [1, degree + 1, (degree + 1) ** 2]
    order.flags.writeable = False
    return order


def shape_functions(reference: np.ndarray, count: int) -> np.ndarray:
    """Return N_a at reference points (..., 3): shape (..., count)."""
    line = lagrange_values(map_degree(count), reference)
    return _product(line[..., 0, :], line[..., 1, :], line[..., 2, :], count)


def shape_derivatives(reference: np.ndarray, count: int) -> np.ndarray:
    """Return dN_a / dxi_d at reference points (..., 3): shape (..., 3, count)."""
    degree = map_degree(count)
    value, slope = lagrange_values(degree, reference), lagrange_derivatives(degree, reference)
    factors = [[slope if axis == d else value for axis in range(3)] for d in range(3)]
    return np.stack([_product(*(f[axis][..., axis, :] for axis in range(3)), count) for f in factors], axis=-2)


def _product(x: np.ndarray, y: np.ndarray, z: np.ndarray, count: int) -> np.ndarray:
    tensor = z[..., :, None, None] * y[..., None, :, None] * x[..., None, None, :]
    return tensor.reshape(*x.shape[:-1], count)[..., tensor_order(count)]


@lru_cache
def _gll_tables(count: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return N (points, count) and dN/dxi (3 * points, count) at the GLL points, x fastest."""
    line = gll_points(degree)
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    reference = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    slopes = np.moveaxis(shape_derivatives(reference, count), 1, 0).reshape(-1, count)
    return shape_functions(reference, count), slopes


def gll_positions(nodes: np.ndarray, degree: int) -> np.ndarray:
    """Return the positions of the GLL points, m, shape (elements, k, j, i, 3)."""
    elements, count, _ = nodes.shape
    values = product(nodes.transpose(0, 2, 1).reshape(-1, count), _gll_tables(count, degree)[0].T)
    return np.moveaxis(values.reshape(elements, 3, *(degree + 1,) * 3), 1, -1)


def jacobian_matrix(nodes: np.ndarray, degree: int) -> np.ndarray:
    """Return J_cd = dx_c / dxi_d at the GLL points, m, shape (elements, k, j, i, 3, 3).

    The result is a view with contiguous points, so that determinant and inverse are vectorized along them.
    """
    elements, count, _ = nodes.shape
    values = nodes.transpose(0, 2, 1).reshape(-1, count) @ _gll_tables(count, degree)[1].T
    return np.moveaxis(values.reshape(elements, 3, 3, *(degree + 1,) * 3), (1, 2), (-2, -1))


def determinant(matrix: np.ndarray) -> np.ndarray:
    """Return the determinants of matrices (..., 3, 3); of the Jacobian matrix, m^3."""
    return sum(matrix[..., 0, d] * _cofactor(matrix, 0, d) for d in range(3))


def metric(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return inverse [d, c] = dxi_d / dx_c (1/m) and determinant (m^3) of Jacobian matrices (..., 3, 3).

    By cofactors; infinite or NaN if the determinant is 0: check for bad elements first.
    """
    jacobian = determinant(matrix)
    inverse = np.moveaxis(np.empty((3, 3, *jacobian.shape)), (0, 1), (-2, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        for c in range(3):
            for d in range(3):
                inverse[..., d, c] = _cofactor(matrix, c, d) / jacobian
    return inverse, jacobian


def _cofactor(m: np.ndarray, row: int, column: int) -> np.ndarray:
    r, s, c, d = (row + 1) % 3, (row + 2) % 3, (column + 1) % 3, (column + 2) % 3
    return m[..., r, c] * m[..., s, d] - m[..., r, d] * m[..., s, c]


# Points in elements


def reference_coordinates(
    nodes: np.ndarray, points: np.ndarray, element: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """Return xi of `points` (m, 3) in elements of `nodes` (n, 8 or 27, 3); NaN without solution.

    element : (m,) index of the element of each point; default: 0, 1, ..., m - 1. threads : see `over_parts`.

    Newton's method starts from the nearest of 5 x 5 x 5 points; each step is limited to 1 and halved while the distance
    to the point grows. Convergence means a step below 1e-12, after which one more is made.
    """
    count, xi = nodes.shape[1], np.empty((len(points), 3))
    element = np.arange(len(points)) if element is None else element.astype(np.int64)
    nodes, points = np.ascontiguousarray(nodes, float), np.ascontiguousarray(points, float)
    tables = map_degree(count) + 1, tensor_order(count), gll_points(4)
    over_parts(
        lambda part: invert_maps(part.start, part.stop, nodes, element, points, *tables, xi), len(points), PART, threads
    )
    return xi


def find_elements(nodes: np.ndarray, points: np.ndarray, tolerance: float = 1e-8) -> PointLocations:
    """Return every element that contains each of `points` (p, 3), by point and element: several for a point on a shared
    face, edge or vertex. The excess is that of the largest |xi_d| over 1.

    tolerance : amount by which a reference coordinate may exceed [-1, 1] and still count as inside.
    A point in no element does not appear in the result.
    """
    nodes, points = np.ascontiguousarray(nodes, float), np.ascontiguousarray(points, float)
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)))]
    if len(points) and len(nodes):
        boxes = over_parts(lambda part: bounding_boxes(nodes[part]), len(nodes), PART)
        low, high = (np.concatenate(ends) for ends in zip(*boxes, strict=True))
        margin = tolerance * (high - low).max(axis=1)[:, None]
        low, high = low - margin, high + margin
        cells = PointCells.of(points)

        def search(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            element, point = cells.inside(low[part], high[part])
            element += part.start
            xi = reference_coordinates(nodes, points[point], element, threads=1)
            inside = np.abs(xi).max(axis=1, initial=0.0) <= 1.0 + tolerance  # NaN does not satisfy this
            return element[inside], point[inside], xi[inside]

        found += over_parts(search, len(nodes), PART)
    element, point, xi = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((element, point))
    xi = xi[order]
    excess = np.maximum(np.abs(xi).max(axis=1, initial=0.0) - 1.0, 0.0)
    return PointLocations(point[order], element[order], np.clip(xi, -1.0, 1.0), excess, element[order])


def bounding_boxes(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum coordinates (elements, 3) of boxes that contain the elements.

    A curved element may extend beyond its nodes, but never beyond the control points of its Bernstein form.
    """
    if map_degree(nodes.shape[1]) == 2:
        line = np.array([[1.0, 0.0, 0.0], [-0.5, 2.0, -0.5], [0.0, 0.0, 1.0]])
        order = tensor_order(27)
        nodes = np.kron(line, np.kron(line, line))[np.ix_(order, order)] @ nodes
    return nodes.min(axis=1), nodes.max(axis=1)


@dataclass(frozen=True)
class BadElements:
    """Elements whose Jacobian is not positive at every GLL point: indices (m,), corners (m, 8, 3) in m, and the minimum
    Jacobian (m,) in m^3."""

    element: np.ndarray
    corners: np.ndarray
    jacobian: np.ndarray


def bad_elements(nodes: np.ndarray, degree: int = 4) -> BadElements:
    """Return the inverted, folded or flat elements; a NaN counts as bad."""
    jacobian = determinant(jacobian_matrix(nodes, degree)).reshape(len(nodes), -1).min(axis=1)
    bad = np.flatnonzero(~(jacobian > 0.0))
    return BadElements(bad, nodes[bad, :8], jacobian[bad])


def refuse_bad_elements(nodes: np.ndarray, degree: int = 4, *, ids: np.ndarray | None = None) -> None:
    """Raise InputError if there are bad elements, with the ID (default: index) and corners of the worst."""
    bad = bad_elements(nodes, degree)
    if not bad.element.size:
        return
    worst = int(np.argmin(bad.jacobian))  # NaN first
    name = bad.element[worst] if ids is None else ids[bad.element[worst]]
    corners = ", ".join("({:.6g}, {:.6g}, {:.6g})".format(*corner) for corner in bad.corners[worst])
    count = bad.element.size
    many = "1 element is" if count == 1 else f"{count} elements are"
    raise InputError(
        "mesh",
        f"{many} inverted, folded or flat; the worst is element {name}, with Jacobian {bad.jacobian[worst]:.4g} m^3 "
        f"and corners {corners} m",
        "allowed: a positive Jacobian at every point of an element",
        "Order the corners counter-clockwise around the bottom, seen from above, then around the top",
    )
