"""Sources of this rank: which points they act on, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.solvers.source_amplitudes import BLOCK, SourceAmplitudes
from lithowave.solvers.spectral_element.places import inverse_jacobians, symmetric
from lithowave.solvers.spectral_element.shared_places import SharedPlaces, require_everywhere, share_places


class SourceList:
    """Points that sources act on: momenta gained for a unit of amplitude.

    A moment tensor M acts as the force -M : grad delta, that is M : grad N_a at the point of shape function N_a; a
    force as F N_a. Where elements share the place each takes an equal part. Of several ranks each has what its own
    elements take.

    Parameters
    ----------
    plan : mesh, numbers of points, time step. on_border : only what acts on points that other ranks have, too (True),
    or only the rest (False); None for all.

    Raises
    ------
    InputError : a source is in no element of any rank.
    """

    def __init__(self, backend: Any, plan: Any, sources: Sequence[Any], on_border: bool | None = None) -> None:
        self.backend, mesh, numbers = backend, plan.mesh, plan.numbers
        positions = np.array([source.position for source in sources], float).reshape(-1, 3)
        found = share_places(plan, positions, plan.tolerance)
        names = [getattr(source, "name", "") or f"source {number}" for number, source in enumerate(sources)]
        require_everywhere(found, plan.ranks, names, positions, "sources")
        point, weight, owner = _source_entries(mesh, numbers, sources, found)
        if on_border is not None:
            some = np.isin(point, plan.border.points) == on_border
            point, weight, owner = point[some], weight[some], owner[some]
        known, owner = np.unique(owner, return_inverse=True)
        sources = [sources[number] for number in known]
        order = np.lexsort((owner, point))
        point, weight, owner = point[order], weight[order], owner[order]
        target, begin = np.unique(point, return_index=True)
        self.count, self.known = len(target), known
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

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Point, weight (3) and index of the source of every entry, as they are on the device."""
        target, begin, weight, owner = map(self.backend.download, self._lists)
        return np.repeat(target, np.diff(begin)), weight.reshape(-1, 3), self.known[owner]

    def arguments(self) -> tuple[Any, ...]:
        """Of `inject`, behind the momenta and before the row."""
        return *self._lists, self._table


def _source_entries(
    mesh: HexahedralMesh, numbers: np.ndarray, sources: Sequence[Any], found: SharedPlaces
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Point, weight (3) and source of every entry."""
    n, places, share = numbers.shape[1], found.places, 1.0 / found.sharing
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
