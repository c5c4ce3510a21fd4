"""Samples of velocity, strain and stress in hexahedra.

In a fluid the pressure P = -d phi / dt is known at the times of the records, and phi at half steps. The velocity is
grad phi / rho, where a parabola through the last three potentials has an error of (omega dt)^3 / 16 in phase and
9 / 128 (omega dt)^4 in amplitude. The stress is -P I, and the strain that of the volume, -P / (3 kappa) I. Near sea
floors and rigid faces see `face_reading`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from lithowave.physics.tensors import TENSOR_PAIRS
from lithowave.solvers.common.programs import Launch
from lithowave.solvers.elements.point_location import PointLocations
from lithowave.solvers.elements.samples import Samples
from lithowave.solvers.spectral_element.face_reading import FaceReadings
from lithowave.solvers.spectral_element.point_location import (
    interpolation_tables,
    inverse_jacobians,
    strain_of,
    stress_of,
)

SIX = [0, 3, 4, 3, 1, 5, 4, 5, 2]  # places in (xx, yy, zz, xy, xz, yz) of the nine components of a tensor
ISOTROPIC = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


class HexahedralSamples(Samples):
    """Points at which velocity and the gradient of the displacement are read.

    After the columns of the locations, an output may have those of `face_reading`: velocities of fluids on faces, then
    those of the solids there.
    """

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
        self._fluid, self._faces = np.flatnonzero(plan.materials.is_fluid[self.locations.element]), None
        if len(self._fluid):
            self._fluid_lists = self._prepare_fluid(solver, self.locations, self._fluid, self._lists)
            found = FaceReadings.find(plan, self.locations)
            if len(found.row):
                self._prepare_faces(solver, found)

    def _prepare_fluid(
        self, solver: Any, locations: PointLocations, columns: np.ndarray, lists: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Upload the arguments of the kernel `sample_fluid`, and begin to keep the rates of its elements.

        locations : of all columns of the output. columns : those in fluids. lists : arguments of `sample`.
        """
        plan, backend, some = self._plan, solver.backend, locations.rows(columns)
        known, number = np.unique(some.element, return_inverse=True)
        mobility = inverse_jacobians(plan.mesh, some) / self._densities(some)[:, None, None]
        earlier = backend.zeros((len(known), (plan.degree + 1) ** 3))
        base, strides, values, slopes, rate = lists
        kept = backend.upload(solver.tables.base(known), np.int64), strides, earlier
        solver.kernels.keep_rates(solver.momentum, solver.points, *kept)
        solver.kept_rates.append(kept)
        return (
            base, strides, values, slopes, backend.upload(mobility), backend.upload(columns, np.int64),
            backend.upload(number, np.int64), earlier, rate,
        )  # fmt: skip

    def _prepare_faces(self, solver: Any, found: FaceReadings) -> None:
        """Upload the arguments of the kernels that read the velocities on faces."""
        plan, backend, size = self._plan, solver.backend, len(found.row)
        rows = np.concatenate([np.arange(self.count), found.row, found.row])
        reference = self.locations.reference[rows]
        reference[self.count :] = np.tile(found.places.reference, (2, 1))
        every = replace(self.locations.rows(rows), reference=reference)
        values, slopes = map(backend.upload, interpolation_tables(plan.degree, reference))
        _, strides, *_, rate = self._lists
        lists = backend.upload(solver.tables.base(every.element), np.int64), strides, values, slopes, rate
        columns = self.count + np.arange(size)
        self._face_lists = self._prepare_fluid(solver, every, columns, lists)
        n = plan.degree + 1
        base = np.append(np.zeros(self.count + size, np.int64), n**3 * np.arange(size))
        self._solid_points = backend.upload(found.solid, np.uint32)
        self._solid_lists = (
            backend.upload(base, np.int64), backend.upload(np.array([n * n, n, 1]), np.int64), values, slopes, rate
        )  # fmt: skip
        density = self._densities(found.places) / self._densities(self.locations.rows(found.row))
        change, normal = found.change * density[:, None], found.normal
        if self.axes is not None:
            self._face_turns = backend.upload(self.axes[rows].reshape(-1, 9))
            normal, change = (np.einsum("mac,mc->ma", self.axes[found.row], each) for each in (normal, change))
        self._faces = replace(found, normal=normal, change=change)

    @property
    def columns(self) -> int:
        """See `Samples`."""
        return self.count + (0 if self._faces is None else 2 * len(self._faces.row))

    def _densities(self, locations: PointLocations) -> np.ndarray:
        """Return rho at locations (rows,)."""
        values, _ = interpolation_tables(self._plan.degree, locations.reference)
        weights = np.einsum("rk,rj,ri->rkji", values[:, 2], values[:, 1], values[:, 0])
        materials = self._plan.materials
        pairs = zip(locations.element.tolist(), weights, strict=True)
        return np.array([materials.within(element, weight)[1] for element, weight in pairs])

    def _medium(self, place: int) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a location."""
        x, y, z = self._values[place]
        return self._plan.materials.within(int(self.locations.element[place]), np.einsum("k,j,i->kji", z, y, x))

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
        """See `Samples`; with 12 rows velocity is followed by the gradient of the displacement."""
        if not self.count:
            return []
        kernels, state, found = solver.kernels, (solver.displacement, solver.momentum), []
        with_faces = self.count < self.columns == out.shape[2]
        if with_faces:  # all columns, of which the next kernels replace all but the last ones
            found.append(partial(kernels.sample, *state, self._solid_points, *self._solid_lists, out, slot))
        found.append(partial(kernels.sample, *state, solver.points, *self._lists, out, slot))
        if len(self._fluid):
            found.append(partial(kernels.sample_fluid, *state, solver.points, *self._fluid_lists, out, slot))
        if with_faces:
            found.append(partial(kernels.sample_fluid, *state, solver.points, *self._face_lists, out, slot))
        if self._turns is not None:
            turns = self._face_turns if with_faces else self._turns
            found.append(partial(kernels.rotate_velocity, out, slot, turns))
        return found

    def velocity(self, rows: np.ndarray) -> np.ndarray:
        """See `Samples`."""
        found, faces = super().velocity(rows), self._faces
        if faces is not None and rows.shape[2] == self.columns:
            fluid, solid = np.split(np.moveaxis(rows[:, :3, self.count :].astype(float), 1, 2), 2, axis=1)
            known = np.einsum("tmc,mc->tm", solid - fluid, faces.normal)
            np.add.at(found, (slice(None), faces.row), known[..., None] * faces.change)
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
    return np.stack([full[..., a, b] for a, b in TENSOR_PAIRS], axis=-1)
