"""Where points of space lie in the mesh, and what sources and receivers there need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.solvers.spectral_element.geometry import PlacesInElements, find_elements, metric, shape_derivatives
from lithowave.solvers.spectral_element.gll import lagrange_derivatives, lagrange_values

TOLERANCE = 1e-6  # of reference coordinates: how far outside an element a point may be
ON_GROUND = 1.0  # the same for points on a ground that the elements follow only as far as their size allows


@dataclass(frozen=True)
class Places:
    """Points in elements: which, and the Lagrange polynomials there.

    point : number of the point, rising; several rows where elements share it, by the elements' numbers in the whole
    mesh. element; reference : xi (rows, 3). excess : how far outside the element the point was. values, slopes :
    (rows, 3, n), l_a(xi_d) and its slope.
    """

    point: np.ndarray
    element: np.ndarray
    reference: np.ndarray
    excess: np.ndarray
    values: np.ndarray
    slopes: np.ndarray

    def rows(self, some: np.ndarray) -> Places:
        """Some of the rows."""
        return Places(*(getattr(self, one.name)[some] for one in fields(self)))

    def numbered(self, numbers: np.ndarray) -> Places:
        """The same rows; points are called by these numbers."""
        return replace(self, point=numbers[self.point])


def find_places(mesh: HexahedralMesh, degree: int, positions: np.ndarray, tolerance: float = TOLERANCE) -> Places:
    """All elements that hold each of `positions` (points, 3), m; points in no element have no row.

    tolerance : reference coordinates by which a point that is in no element may lie outside the nearest one; it is then
    moved onto it. Elements meet a smooth surface at their corners only.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    candidates = _near(mesh, positions)
    candidates = candidates[np.argsort(mesh.numbers_in_whole[candidates])]
    nodes = mesh.element_nodes(candidates)
    found = find_elements(nodes, positions, TOLERANCE)
    if tolerance > TOLERANCE:
        lost = np.setdiff1d(np.arange(len(positions)), found.point)
        found = _with_nearest(found, find_elements(nodes, positions[lost], tolerance), lost)
    values = _tidy(lagrange_values(degree, found.reference))
    slopes = lagrange_derivatives(degree, found.reference)
    return Places(found.point, candidates[found.element], found.reference, found.excess, values, slopes)


def _with_nearest(found: PlacesInElements, near: PlacesInElements, lost: np.ndarray) -> PlacesInElements:
    """Places joined with the nearest element of each of the points that were lost; of equally near ones the first."""
    order = np.lexsort((near.element, np.rint(1e9 * near.excess), near.point))
    _, first = np.unique(near.point[order], return_index=True)
    best = order[first]
    added = (lost[near.point[best]], near.element[best], near.reference[best], near.excess[best])
    before = (found.point, found.element, found.reference, found.excess)
    joined = [np.concatenate(pair) for pair in zip(before, added, strict=True)]
    place = np.argsort(joined[0], kind="stable")
    return PlacesInElements(*(array[place] for array in joined))


def _near(mesh: HexahedralMesh, positions: np.ndarray) -> np.ndarray:
    """Elements whose corners come near the box of all positions: the others are not looked at."""
    if not len(positions):
        return np.zeros(0, np.int64)
    low, high = positions.min(axis=0), positions.max(axis=0)
    near = np.ones(mesh.element_count, bool)
    for axis in range(3):
        corners = mesh.vertices[:, axis][mesh.elements]
        least, most = corners.min(axis=1), corners.max(axis=1)
        margin = most - least
        near &= (least - margin <= high[axis]) & (most + margin >= low[axis])
    return np.flatnonzero(near)


def _tidy(values: np.ndarray) -> np.ndarray:
    """Exact zeros where a polynomial vanishes but for rounding: kernels skip them."""
    return np.where(np.abs(values) < 1e-12, 0.0, values)


def refuse_missing(missing: np.ndarray, names: Sequence[str], positions: np.ndarray, where: str) -> None:
    """InputError: there are points, by their numbers, that are in no element."""
    if missing.size:
        n = int(missing[0])
        x, y, z = positions[n]
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise InputError(
            where, f"{names[n]} at ({x:z.12g}, {y:z.12g}, {z:z.12g}) m is in no element of the mesh{more}",
            "it must lie within the mesh, on its surface at most",
        )  # fmt: skip


def inverse_jacobians(mesh: HexahedralMesh, places: Places) -> np.ndarray:
    """dxi_d / dx_c (rows, d, c), 1/m, at the places."""
    nodes = mesh.element_nodes(places.element)
    slopes = shape_derivatives(places.reference, nodes.shape[1])
    return metric(np.einsum("mda,mac->mcd", slopes, nodes))[0]


def symmetric(six: Any) -> np.ndarray:
    """The 3 x 3 matrix of (xx, yy, zz, xy, xz, yz)."""
    xx, yy, zz, xy, xz, yz = np.asarray(six, float)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def strain_of(gradient: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Strain (..., m, 6) as xx, yy, zz, xy, xz, yz from du_c / dxi_d (..., 9, m) and dxi_d / dx_e (m, d, e)."""
    shape = gradient.shape
    reference = np.moveaxis(gradient, -2, -1).reshape(*shape[:-2], shape[-1], 3, 3)
    full = reference @ inverse
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.stack([0.5 * (full[..., a, b] + full[..., b, a]) for a, b in pairs], axis=-1)


def stress_of(strain: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """Stress (..., m, 6) as xx, yy, zz, xy, xz, yz from strain in that order and Voigt's matrices (m, 6, 6)."""
    voigt = strain[..., [0, 1, 2, 5, 4, 3]] * np.array([1, 1, 1, 2, 2, 2])
    return np.einsum("mab,...mb->...ma", stiffness, voigt)[..., [0, 1, 2, 5, 4, 3]]
