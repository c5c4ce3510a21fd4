"""Shape functions of hexahedra with 8 nodes (trilinear) and 27 nodes (triquadratic): positions and Jacobians.

Nodes are in Gmsh's order: the eight corners of `numbering.CORNERS`; then, of 27, those at the centers of the edges
`MIDDLE_EDGES`, of the faces `MIDDLE_FACES`, and of the element. Local coordinates i, j, k run from -1 to 1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lithowave.mesh.numbering import CORNERS, EDGES, FACES
from lithowave.mesh.products import product

# Corners of the edges that contain nodes 8 to 19.
EDGE_CORNERS = np.array(
    [[0, 1], [0, 3], [0, 4], [1, 2], [1, 5], [2, 3], [2, 6], [3, 7], [4, 5], [4, 7], [5, 6], [6, 7]], dtype=np.int64
)
# The edges (of `numbering.EDGES`) and faces (of `numbering.FACES`) of nodes 8 to 19 and 20 to 25.
MIDDLE_EDGES = np.array([np.flatnonzero((np.sort(EDGES, axis=1) == edge).all(axis=1))[0] for edge in EDGE_CORNERS])
MIDDLE_FACES = np.array([4, 2, 0, 1, 3, 5])

# Position of each of the 27 nodes in the lattice of 3 x 3 x 3, in steps (i, j, k) of 0, 1 or 2.
NODE_STEPS = np.concatenate(
    [2 * CORNERS, CORNERS[EDGE_CORNERS].sum(axis=1), CORNERS[FACES[MIDDLE_FACES]].sum(axis=1) // 2, [[1, 1, 1]]]
)


def line_values(coordinates: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Lagrange polynomials of degree 1 (8 nodes) or 2 (27 nodes) and derivatives, each (..., degree + 1)."""
    x = np.asarray(coordinates, float)
    if count == 8:
        return np.stack([(1 - x) / 2, (1 + x) / 2], axis=-1), np.stack([x * 0 - 0.5, x * 0 + 0.5], axis=-1)
    values = np.stack([x * (x - 1) / 2, 1 - x * x, x * (x + 1) / 2], axis=-1)
    return values, np.stack([x - 0.5, -2 * x, x + 0.5], axis=-1)


def shape_tables(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return shape functions (p, count) of the nodes at local coordinates (p, 3), and their derivatives (3, p, count).

    ValueError: the number of nodes is neither 8 nor 27.
    """
    if count not in (8, 27):
        raise ValueError(f"elements have {count} nodes; allowed are 8 and 27")
    steps = CORNERS if count == 8 else NODE_STEPS
    values, slopes = line_values(points, count)
    factors = [[slopes if axis == along else values for axis in range(3)] for along in (0, 1, 2, None)]
    tables = [np.prod([f[axis][:, axis, steps[:, axis]] for axis in range(3)], axis=0) for f in factors]
    return tables[3], np.stack(tables[:3])


def lattice(points: np.ndarray) -> np.ndarray:
    """Return local coordinates (n^3, 3) of the points at all combinations of `points` (n), i fastest."""
    k, j, i = np.meshgrid(points, points, points, indexing="ij")
    return np.stack([i, j, k], axis=-1).reshape(-1, 3)


@lru_cache
def lattice_slopes(size: int, count: int) -> np.ndarray:
    """Return derivatives (3 size^3, count) of the shape functions at `size` equidistant points per axis, -1 to 1."""
    slopes = shape_tables(lattice(np.linspace(-1, 1, size)), count)[1]
    return np.ascontiguousarray(slopes.reshape(-1, count))


def jacobians(columns: np.ndarray, nodes: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return determinants (p, m), m3, of d(x, y, z)/d(i, j, k) with i, j, k from -1 to 1.

    columns : positions (3, n), m. nodes : indices (m, 8 or 27) of each element's nodes. slopes : derivatives (3 p,
    count) along i at all points, then along j, then along k. One matrix product is used for each of x, y and z: pass a
    few thousand elements at a time, which fit into the cache.
    """
    turned = nodes.T
    x, y, z = (product(slopes, columns[axis][turned]).reshape(3, -1, len(nodes)) for axis in range(3))
    found = x[0] * (y[1] * z[2] - y[2] * z[1])
    found += x[1] * (y[2] * z[0] - y[0] * z[2])
    found += x[2] * (y[0] * z[1] - y[1] * z[0])
    return found
