"""Samples of velocity, strain and stress in hexahedra.

In a fluid the pressure P = -d phi / dt is known at the times of the records, and phi at half steps. The velocity is
grad phi / rho, where a parabola through the last three potentials has an error of (omega dt)^3 / 16 in phase and
9 / 128 (omega dt)^4 in amplitude. The stress is -P I, and the strain that of the volume, -P / (3 kappa) I.
"""

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
ISOTROPIC = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


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
        self._fluid = np.flatnonzero(plan.materials.is_fluid[self.locations.element])
        if len(self._fluid):
            self._prepare_fluid(solver)

    def _prepare_fluid(self, solver: Any) -> None:
        """Upload the arguments of the kernel `sample_fluid`, and begin to keep the rates of its elements."""
        plan, backend, some = self._plan, solver.backend, self._fluid
        known, number = np.unique(self.locations.element[some], return_inverse=True)
        density = [self._medium(place)[1] for place in some]
        mobility = inverse_jacobians(plan.mesh, self.locations.rows(some)) / np.array(density)[:, None, None]
        earlier = backend.zeros((len(known), (plan.degree + 1) ** 3))
        base, strides, values, slopes, rate = self._lists
        kept = backend.upload(solver.tables.base(known), np.int64), strides, earlier
        solver.kernels.keep_rates(solver.momentum, solver.points, *kept)
        solver.kept_rates.append(kept)
        self._fluid_lists = (
            base, strides, values, slopes, backend.upload(mobility), backend.upload(some, np.int64),
            backend.upload(number, np.int64), earlier, rate,
        )  # fmt: skip

    def _medium(self, place: int) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a location."""
        x, y, z = self._values[place]
        return self._plan.materials.within(int(self.locations.element[place]), np.einsum("k,j,i->kji", z, y, x))

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
        """See `Samples`; with 12 rows velocity is followed by the gradient of the displacement."""
        if not self.count:
            return []
        fields = solver.displacement, solver.momentum, solver.points
        found = [partial(solver.kernels.sample, *fields, *self._lists, out, slot)]
        if len(self._fluid):  # replaces what `sample` reads there
            found.append(partial(solver.kernels.sample_fluid, *fields, *self._fluid_lists, out, slot))
        if self._turns is not None:
            found.append(partial(solver.kernels.rotate_velocity, out, slot, self._turns))
        return found

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return dxi_d / dx_c (rows, d, c), 1/m, and Voigt's matrix (rows, 6, 6), Pa, at each location."""
        stiffness = [self._medium(place)[0] for place in range(self.count)]
        return inverse_jacobians(self._plan.mesh, self.locations), np.array(stiffness).reshape(-1, 6, 6)

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``strain`` and ``stress``, Pa, (times, locations, 6) from du_c / dxi_d (times, locations, 9), m."""
        inverse, stiffness = self._tables
        strain = strain_of(rows, inverse)
        stress = stress_of(strain, stiffness)
        rate = rows[:, self._fluid, :1]  # of the potential: -P
        stress[:, self._fluid] = rate * ISOTROPIC
        strain[:, self._fluid] = rate * ISOTROPIC / (3.0 * stiffness[self._fluid, :1, 0])
        found = {"strain": strain, "stress": stress}
        return {name: turned(values, self.axes) for name, values in found.items()} if self.axes is not None else found


def turned(tensors: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return components of tensors (..., m, 6) along the rows of axes (m, 3, 3): A T A^T."""
    full = tensors[..., SIX].reshape(*tensors.shape[:-1], 3, 3)
    full = axes @ full @ np.swapaxes(axes, -1, -2)
    return np.stack([full[..., a, b] for a, b in PAIRS], axis=-1)
