"""Nodes, volumes and quality of hexahedra of 8 and 27 nodes, in the order of `lithowave`'s spectral elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.solvers.spectral_element import (
    determinant,
    gll_positions,
    gll_weights,
    jacobian_matrix,
    map_degree,
    tensor_order,
)

# nodes_vtk = nodes_gmsh[GMSH_TO_VTK] (VTK_TRIQUADRATIC_HEXAHEDRON, type 29).
GMSH_TO_VTK = np.array(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 9, 16, 18, 19, 17, 10, 12, 14, 15, 22, 23, 21, 24, 20, 25, 26]
)

EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7)])
FACES = np.array([(0, 3, 2, 1), (0, 1, 5, 4), (0, 4, 7, 3), (1, 2, 6, 5), (2, 3, 7, 6), (4, 5, 6, 7)])


def reference_nodes(count: int) -> np.ndarray:
    """Return the reference coordinates of the nodes, shape (count, 3)."""
    steps = map_degree(count) + 1
    return np.stack(np.unravel_index(tensor_order(count), (steps,) * 3)[::-1], axis=-1) * (2.0 / (steps - 1)) - 1.0


def volumes(nodes: np.ndarray, degree: int = 4) -> np.ndarray:
    """Return the volume of each element, m^3, by GLL quadrature: exact for degree >= 2 (8 nodes) or >= 3 (27 nodes)."""
    weights = gll_weights(degree)
    return np.einsum("ekji,k,j,i->e", determinant(jacobian_matrix(nodes, degree)), weights, weights, weights)


@dataclass(frozen=True)
class Quality:
    """Quality measures of each element, shape (elements,).

    jacobian : minimum determinant at the GLL points, m^3. jacobian_ratio : minimum over maximum, 1 for a box. skewness
    : equiangle skewness of the straight-edged faces, max over angles of (a - 90) / 90 and (90 - a) / 90: 0 for right
    angles, 1 for a degenerate angle. edge_ratio : longest straight edge over shortest. distance : minimum distance of
    neighboring GLL points, m.
    """

    jacobian: np.ndarray
    jacobian_ratio: np.ndarray
    skewness: np.ndarray
    edge_ratio: np.ndarray
    distance: np.ndarray


def quality(nodes: np.ndarray, degree: int = 4) -> Quality:
    """Return the quality measures of every element."""
    jacobian = determinant(jacobian_matrix(nodes, degree)).reshape(len(nodes), -1)
    edges = np.linalg.norm(nodes[:, EDGES[:, 1]] - nodes[:, EDGES[:, 0]], axis=-1)
    positions = gll_positions(nodes, degree)
    steps = [np.linalg.norm(np.diff(positions, axis=axis), axis=-1).reshape(len(nodes), -1) for axis in (1, 2, 3)]
    distance = np.min([step.min(axis=1) for step in steps], axis=0)
    low, high = jacobian.min(axis=1), jacobian.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Quality(low, low / high, skewness(nodes), edges.max(axis=1) / edges.min(axis=1), distance)


def skewness(nodes: np.ndarray) -> np.ndarray:
    """Return the equiangle skewness, shape (elements,), from the 24 angles of the faces."""
    corner = nodes[:, FACES]
    to_next, to_last = np.roll(corner, -1, axis=2) - corner, np.roll(corner, 1, axis=2) - corner
    angle = np.arctan2(np.linalg.norm(np.cross(to_next, to_last), axis=-1), (to_next * to_last).sum(-1))
    return np.abs(angle / (np.pi / 2) - 1.0).max(axis=(1, 2))
