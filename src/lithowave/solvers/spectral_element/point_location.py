"""Location of points in hexahedra, and strain and stress there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.physics.tensors import SWAPPED, TENSOR_PAIRS
from lithowave.solvers.elements.point_location import PART, PointLocations
from lithowave.solvers.spectral_element.geometry import find_elements, metric, shape_derivatives
from lithowave.solvers.spectral_element.gll import lagrange_derivatives, lagrange_values

TOLERANCE = 1e-6  # of reference coordinates: distance outside an element at which a point is still accepted


def locate_points(mesh: HexahedralMesh, positions: np.ndarray, tolerance: float = TOLERANCE) -> PointLocations:
    """Return all elements that contain each of `positions` (points, 3), m; points in no element have no row.

    tolerance : distance in reference coordinates at which a point outside all elements is accepted and moved onto the
    nearest one. Elements touch a smooth surface only at their corners.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    candidates = _near(mesh, positions)
    candidates = candidates[np.argsort(mesh.numbers_in_whole[candidates])]
    nodes = mesh.element_nodes(candidates)
    found = find_elements(nodes, positions, TOLERANCE)
    found = replace(found, excess=np.zeros(len(found.point)))
    if tolerance > TOLERANCE:
        lost = found.missing(len(positions))
        near = find_elements(nodes, positions[lost], tolerance)
        found = found.with_nearest(near, lost)
    element = candidates[found.element]
    return replace(found, element=element, key=mesh.numbers_in_whole[element])


def interpolation_tables(degree: int, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Lagrange polynomials l_a(xi_d) and their slopes, (rows, 3, n), at reference coordinates (rows, 3)."""
    values, slopes = np.empty((*reference.shape, degree + 1)), np.empty((*reference.shape, degree + 1))

    def evaluate(part: slice) -> None:
        values[part] = _tidy(lagrange_values(degree, reference[part]))
        slopes[part] = lagrange_derivatives(degree, reference[part])

    over_parts(evaluate, len(reference), PART)
    return values, slopes


def _near(mesh: HexahedralMesh, positions: np.ndarray) -> np.ndarray:
    """Return the elements whose corners are near the box of all positions, to limit the search."""
    if not len(positions):
        return np.zeros(0, np.int64)
    low, high = positions.min(axis=0), positions.max(axis=0)
    near = np.empty(mesh.element_count, bool)
    over_parts(
        lambda part: compare_boxes(mesh.elements[part], mesh.vertices, low, high, near[part]), len(near), PART
    )
    return np.flatnonzero(near)


@exact_part
def compare_boxes(elements, vertices, low, high, near):  # pragma: no cover - compiled
    """Compute whether the box of the corners of each element, enlarged on each side by its size, overlaps that between
    `low` and `high`."""
    for element in range(len(elements)):
        near[element] = True
        for axis in range(3):
            least = most = vertices[elements[element, 0], axis]
            for corner in range(1, 8):
                position = vertices[elements[element, corner], axis]
                least, most = min(least, position), max(most, position)
            margin = most - least
            near[element] &= (least - margin <= high[axis]) & (most + margin >= low[axis])


def _tidy(values: np.ndarray) -> np.ndarray:
    """Return exact zeros where a polynomial vanishes up to round-off: kernels skip them."""
    return np.where(np.abs(values) < 1e-12, 0.0, values)


def inverse_jacobians(mesh: HexahedralMesh, places: PointLocations) -> np.ndarray:
    """Return dxi_d / dx_c (rows, d, c), 1/m, at points in elements."""
    nodes = mesh.element_nodes(places.element)
    slopes = shape_derivatives(places.reference, nodes.shape[1])
    return metric(np.einsum("mda,mac->mcd", slopes, nodes))[0]


def symmetric(six: Any) -> np.ndarray:
    """Return the 3 x 3 matrix of (xx, yy, zz, xy, xz, yz)."""
    xx, yy, zz, xy, xz, yz = np.asarray(six, float)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def strain_of(gradient: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return strain (..., m, 6) as xx, yy, zz, xy, xz, yz from du_c / dxi_d (..., m, 9) and dxi_d / dx_e (m, d, e)."""
    full = gradient.reshape(*gradient.shape[:-1], 3, 3) @ inverse
    return np.stack([0.5 * (full[..., a, b] + full[..., b, a]) for a, b in TENSOR_PAIRS], axis=-1)


def stress_of(strain: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """Return stress (..., m, 6) as xx, yy, zz, xy, xz, yz from strain in that order and Voigt's matrices (m, 6, 6)."""
    voigt = strain[..., SWAPPED] * np.array([1, 1, 1, 2, 2, 2])
    return np.einsum("mab,...mb->...ma", stiffness, voigt)[..., SWAPPED]
