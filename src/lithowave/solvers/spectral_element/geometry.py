r"""Geometry of hexahedra of 8 nodes (trilinear) and 27 nodes (triquadratic).

An element maps the reference cube [-1, 1]^3 by

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

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.errors import InputError
from lithowave.mesh.products import product
from lithowave.solvers.elements.point_cells import PointCells
from lithowave.solvers.elements.point_location import PointLocations
from lithowave.solvers.spectral_element.gll import gll_points, lagrange_derivatives, lagrange_values
from lithowave.solvers.spectral_element.map_inversion import invert_maps

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
