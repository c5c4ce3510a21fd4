"""Where points of space lie in the mesh, and what sources and receivers there need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.solvers.source_amplitudes import BLOCK, SourceAmplitudes
from lithowave.solvers.spectral_element.geometry import PlacesInElements, find_elements, metric, shape_derivatives
from lithowave.solvers.spectral_element.gll import lagrange_derivatives, lagrange_values

TOLERANCE = 1e-6  # of reference coordinates: how far outside an element a point may be
ON_GROUND = 1.0  # the same for points on a ground that the elements follow only as far as their size allows


@dataclass(frozen=True)
class Places:
    """Points in elements: which, and the Lagrange polynomials there.

    point : number of the point, rising; several rows where elements share it. element; reference : xi (rows, 3).
    values, slopes : (rows, 3, n), l_a(xi_d) and its slope.
    """

    point: np.ndarray
    element: np.ndarray
    reference: np.ndarray
    values: np.ndarray
    slopes: np.ndarray

    def first(self) -> Places:
        """The first element of each point alone."""
        _, rows = np.unique(self.point, return_index=True)
        return Places(*(array[rows] for array in (self.point, self.element, self.reference, self.values, self.slopes)))

    def missing(self, count: int) -> np.ndarray:
        """Those of `count` points that are in no element."""
        return np.setdiff1d(np.arange(count), self.point)


def find_places(mesh: HexahedralMesh, degree: int, positions: np.ndarray, tolerance: float = TOLERANCE) -> Places:
    """All elements that hold each of `positions` (points, 3), m; points in no element have no row.

    tolerance : reference coordinates by which a point that is in no element may lie outside the nearest one; it is then
    moved onto it. Elements meet a smooth surface at their corners only.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    candidates = _near(mesh, positions)
    nodes = mesh.element_nodes(candidates)
    found = find_elements(nodes, positions, TOLERANCE)
    if tolerance > TOLERANCE:
        lost = np.setdiff1d(np.arange(len(positions)), found.point)
        found = _with_nearest(found, find_elements(nodes, positions[lost], tolerance), lost)
    values = _tidy(lagrange_values(degree, found.reference))
    slopes = lagrange_derivatives(degree, found.reference)
    return Places(found.point, candidates[found.element], found.reference, values, slopes)


def _with_nearest(found: PlacesInElements, near: PlacesInElements, lost: np.ndarray) -> PlacesInElements:
    """Places joined with the nearest element of each of the points that were lost."""
    order = np.lexsort((near.excess, near.point))
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


def require_places(places: Places, names: Sequence[str], positions: np.ndarray, where: str) -> None:
    """InputError: a point is in no element."""
    missing = places.missing(len(names))
    if missing.size:
        n = int(missing[0])
        x, y, z = positions[n]
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise InputError(
            where, f"{names[n]} at ({x:.12g}, {y:.12g}, {z:.12g}) m is in no element of the mesh{more}",
            "it must lie within the mesh, on its surface at most",
        )  # fmt: skip


def inverse_jacobians(mesh: HexahedralMesh, places: Places) -> np.ndarray:
    """dxi_d / dx_c (rows, d, c), 1/m, at the places."""
    nodes = mesh.element_nodes(places.element)
    slopes = shape_derivatives(places.reference, nodes.shape[1])
    return metric(np.einsum("mda,mac->mcd", slopes, nodes))[0]


class SourceList:
    """Points that sources act on: momenta gained for a unit of amplitude.

    A moment tensor M acts as the force -M : grad delta, that is M : grad N_a at the point of shape function N_a; a
    force as F N_a. Where elements share the place each takes an equal part.

    Parameters
    ----------
    plan : mesh, numbers of points, time step.
    """

    def __init__(self, backend: Any, plan: Any, sources: Sequence[Any]) -> None:
        self.backend, mesh, numbers = backend, plan.mesh, plan.numbers
        positions = np.array([source.position for source in sources], float).reshape(-1, 3)
        places = find_places(mesh, plan.degree, positions, plan.tolerance)
        names = [getattr(source, "name", "") or f"source {number}" for number, source in enumerate(sources)]
        require_places(places, names, positions, "sources")
        point, weight, owner = _source_entries(mesh, numbers, sources, places)
        order = np.lexsort((owner, point))
        point, weight, owner = point[order], weight[order], owner[order]
        target, begin = np.unique(point, return_index=True)
        self.count = len(target)
        self._lists = (
            backend.upload(target, np.int64), backend.upload(np.append(begin, len(point)), np.int64),
            backend.upload(weight, np.float64), backend.upload(owner, np.int64),
        )  # fmt: skip
        functions = [s.time_function.released if s.force is None else s.time_function.amplitude for s in sources]
        self._amplitudes = SourceAmplitudes(functions, plan.schedule.time_step, 0.5)
        self._table = backend.zeros((BLOCK, len(sources)), np.float64)

    def load(self, step: int) -> None:
        """Bring the amplitudes of the block of steps that holds this one."""
        if self.count:
            self.backend.assign(self._table, self._amplitudes.block(step))

    def arguments(self) -> tuple[Any, ...]:
        """Of `inject`, behind the momenta and before the row."""
        return *self._lists, self._table


def _source_entries(
    mesh: HexahedralMesh, numbers: np.ndarray, sources: Sequence[Any], places: Places
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Point, weight (3) and source of every entry."""
    n = numbers.shape[1]
    share = 1.0 / np.bincount(places.point, minlength=len(sources))[places.point]
    inverse = inverse_jacobians(mesh, places)
    points, weights, owners = [np.zeros(0, np.int64)], [np.zeros((0, 3))], [np.zeros(0, np.int64)]
    for row, owner in enumerate(places.point):
        x, y, z = places.values[row]
        source = sources[owner]
        if source.force is not None:
            shape = np.einsum("k,j,i->kji", z, y, x)
            weight = shape[..., None] * np.asarray(source.force, float)
        else:
            sx, sy, sz = places.slopes[row]
            slopes = np.stack([np.einsum("k,j,i->kji", *f) for f in ((z, y, sx), (z, sy, x), (sz, y, x))], axis=-1)
            weight = slopes @ inverse[row] @ symmetric(source.moment)
        points.append(numbers[places.element[row]].ravel())
        weights.append(share[row] * weight.reshape(-1, 3))
        owners.append(np.full(n**3, owner))
    point, weight, owner = (np.concatenate(parts) for parts in (points, weights, owners))
    acting = (weight != 0).any(axis=1)
    return point[acting], weight[acting], owner[acting]


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
