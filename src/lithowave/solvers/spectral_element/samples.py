"""Samples of velocity, strain and stress in hexahedra."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from lithowave.solvers.common.programs import Launch
from lithowave.solvers.elements.samples import Samples
from lithowave.solvers.spectral_element.point_location import (
    interpolation_tables,
    inverse_jacobians,
    strain_of,
    stress_of,
)

SIX = [0, 3, 4, 3, 1, 5, 4, 5, 2]  # places in (xx, yy, zz, xy, xz, yz) of the nine components of a tensor
PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class HexahedralSamples(Samples):
    """Points at which velocity and the gradient of the displacement are read."""

    def prepare(self, solver: Any) -> None:
        """See `Samples`."""
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        self._plan = plan
        self._values, slopes = interpolation_tables(plan.degree, self.locations.reference)
        self._lists = (
            backend.upload(tables.base(self.locations.element), np.int64),
            backend.upload(np.array(tables.arrangement.strides), np.int64),
            backend.upload(self._values), backend.upload(slopes),
            backend.scalar(1.0 / plan.schedule.time_step),
        )  # fmt: skip
        self._turns = None if self.axes is None else backend.upload(self.axes.reshape(-1, 9))

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
        """See `Samples`; with 12 rows velocity is followed by the gradient of the displacement."""
        if not self.count:
            return []
        fields = solver.displacement, solver.momentum, solver.points
        sampling = partial(solver.kernels.sample, *fields, *self._lists, out, slot)
        if self._turns is None:
            return [sampling]
        return [sampling, partial(solver.kernels.rotate_velocity, out, slot, self._turns)]

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return dxi_d / dx_c (rows, d, c), 1/m, and Voigt's matrix (rows, 6, 6), Pa, at each location."""
        stiffness = []
        for element, (x, y, z) in zip(self.locations.element, self._values, strict=True):
            stiffness.append(self._plan.materials.within(int(element), np.einsum("k,j,i->kji", z, y, x))[0])
        return inverse_jacobians(self._plan.mesh, self.locations), np.array(stiffness).reshape(-1, 6, 6)

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``strain`` and ``stress``, Pa, (times, locations, 6) from du_c / dxi_d (times, locations, 9), m."""
        inverse, stiffness = self._tables
        strain = strain_of(rows, inverse)
        found = {"strain": strain, "stress": stress_of(strain, stiffness)}
        return {name: turned(values, self.axes) for name, values in found.items()} if self.axes is not None else found


def turned(tensors: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return components of tensors (..., m, 6) along the rows of axes (m, 3, 3): A T A^T."""
    full = tensors[..., SIX].reshape(*tensors.shape[:-1], 3, 3)
    full = axes @ full @ np.swapaxes(axes, -1, -2)
    return np.stack([full[..., a, b] for a, b in PAIRS], axis=-1)
