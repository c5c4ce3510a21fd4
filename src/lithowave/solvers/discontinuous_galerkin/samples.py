"""Samples of velocity and stress in tetrahedra."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lithowave.solvers.common.programs import Launch
from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.elements.samples import Samples


class TetrahedralSamples(Samples):
    """Points at which velocity and stress are read, and the blocks that must be complete for this."""

    def prepare(self, solver: Any) -> None:
        """See `Samples`."""
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        arrangement = tables.arrangement
        block, lane = np.divmod(arrangement.place[self.locations.element], arrangement.layout.lanes)
        blocks = np.unique(block)
        self._parts = []
        for group in arrangement.groups:
            first, end = np.searchsorted(blocks, [group.first, group.end])
            if end > first:
                self._parts.append((group, backend.upload(blocks[first:end], np.int32), int(first)))
        self._completed = backend.zeros(arrangement.layout.coefficients(max(1, len(blocks)), tables.modes))
        self._base = backend.upload(tables.index(np.searchsorted(blocks, block), lane, 0, 0), np.int64)
        self._values = backend.upload(basis_values(plan.order, self.locations.reference).T)

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
        """See `Samples`; with 9 rows velocity is followed by the stress."""
        if not self.count:
            return []
        completing = [solver.completion(group, blocks, self._completed, first) for group, blocks, first in self._parts]
        return [*completing, partial(solver.kernels.sample, self._completed, self._base, self._values, out, slot)]

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``stress`` (times, locations, 6), Pa."""
        return {"stress": rows}
