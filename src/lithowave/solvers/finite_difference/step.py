"""Two halves of a step on one rank, applied to a set of fields in a region of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.phases import phase
from lithowave.solvers.common.source_amplitudes import AmplitudeRow
from lithowave.solvers.finite_difference.cpml import axis_layers
from lithowave.solvers.finite_difference.faces import TANGENTS, UNIT, unsigned
from lithowave.solvers.finite_difference.fields import FIELDS, VELOCITIES, state_arrays
from lithowave.solvers.finite_difference.material import GridMaterial
from lithowave.solvers.finite_difference.moments import MomentList
from lithowave.solvers.finite_difference.passes import column_shift
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.point_lists import SourceList
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.regions import Region, StepRegions
from lithowave.solvers.finite_difference.source_interfaces import SourceColumns
from lithowave.solvers.finite_difference.sweep import Sweep

PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels", "boundary_kernels", "point_kernels")

Fields = dict[str, Any]


class Step:
    """Kernels, material, absorbing layers, faces and sources of one rank.

    kernels : kernels of the device. layers, memory, profiles : absorbing layers along x, y, z. regions : sections of
    the grid, with their faces and sources. row : index of the present step in the tables of source amplitudes.
    """

    def __init__(
        self, plan: FiniteDifferencePlan, backend: Any, material: GridMaterial, stencil: PointStencil,
        sources: Sequence, columns: SourceColumns,
    ) -> None:  # fmt: skip
        self.plan, self.backend, self.material = plan, backend, material
        with phase("kernels"):
            self.kernels = backend.kernels(
                PACKAGE, *KERNELS, order=plan.order, scales=material.scales, law=plan.law_fields,
                equal_columns=plan.equal_columns,
            )
        self.coefficients = tuple(tuple(map(backend.scalar, line)) for line in plan.coefficients)
        self.ratio = backend.scalar(plan.schedule.time_step / plan.grid.spacing)
        self.layers = [axis_layers(plan.grid, axis, plan.layer, plan.schedule.time_step) for axis in range(3)]
        self.memory = {kind: [backend.zeros(one.memory) for one in self.layers] for kind in ("velocity", "stress")}
        self.profiles = [
            (backend.upload(one.half), backend.upload(one.node), backend.upload(np.array(one.starts), np.uint64))
            for one in self.layers
        ]
        with phase("sources"):
            self.regions = StepRegions(plan, backend, stencil, material, sources, columns)
        self.row = AmplitudeRow(backend, self.regions.tables())

    def new_fields(self) -> Fields:
        """Return arrays of zeros for velocities, stresses and memory variables."""
        plan, shift = self.plan, column_shift(self.plan)
        field = partial(self.backend.field, halo=plan.halo, shift=shift)
        found = {name: field(plan.padded_shape()) for name in FIELDS}
        return found | {name: field(plan.memory_shape()) for name in plan.law_fields.memory}

    def law(self, f: Fields) -> tuple[Any, ...]:
        """Return the argument `law` of kernels that change the stresses of a set of fields."""
        return self.material.law([f[name] for name in self.plan.law_fields.memory])

    def count_step(self) -> None:
        """Advance to the next step in the tables of source amplitudes."""
        if self.regions.act:
            self.kernels.count_step(self.row.array)

    # ------------------------------------------------------------------------------------------------- stresses

    def advance_stress(self, f: Fields, region: Region) -> None:
        """Update the stresses in a region."""
        self.kernels.update_stress(*self.stress_arguments(f, region.boxes))
        self.finish_stress(f, region)

    def finish_stress(self, f: Fields, region: Region) -> None:
        """Apply closures, sources and the free surface to the stresses."""
        self.close_stress(f, region)
        self.inject(region.sources, f)
        for plane in region.free_planes:  # zero normal traction
            self.kernels.free_surface(plane, f["sxx"], f["syy"], f["szz"], self.law(f), self.ratio)

    def close_stress(self, f: Fields, region: Region) -> None:
        """Apply the closures of free and rigid faces to the stresses."""
        for face, closure in region.closed:
            self.kernels.close_stress(
                *_stress_fields(f, face.axis), self.law(f), *closure, face.first, face.half, face.shape,
                face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def stress_arguments(self, f: Fields, boxes: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of the kernel `update_stress`."""
        return (
            *state_arrays(f), self.law(f), self.ratio, *self.coefficients, self.backend.threads, boxes,
            *self._layer_arguments("stress"),
        )  # fmt: skip

    def advance_both(self, f: Fields, sweep: Sweep) -> None:
        """Update the stresses, and the velocities of rows that are not late; complete the stresses, then update the
        late rows."""
        material = self.material.arrays["density"], self.law(f)
        memory = tuple(self.memory["velocity"]), tuple(self.memory["stress"])
        profiles = [array for profile in self.profiles for array in profile]
        self.kernels.update_both(
            *state_arrays(f), *material, self.ratio, *self.coefficients, sweep.blocks, sweep.late, *memory, *profiles
        )
        self.finish_stress(f, self.regions.stress)
        self.advance_velocity(f, replace(self.regions.velocity, boxes=sweep.late_boxes))

    # ----------------------------------------------------------------------------------------------- velocities

    def advance_velocity(self, f: Fields, region: Region) -> None:
        """Update the velocities in a region."""
        self.kernels.update_velocity(*self.velocity_arguments(f, region.boxes))
        self.finish_velocity(f, region)

    def finish_velocity(self, f: Fields, region: Region) -> None:
        """Apply closures, sources and rigid faces to the velocities."""
        self.close_velocity(f, region)
        self.inject(region.sources, f)
        for face in region.rigid_faces():  # the closure makes the normal velocity zero, this the tangential velocity
            tangential = (f[VELOCITIES[tangent]] for tangent in TANGENTS[face.axis])
            self.kernels.zero_on_face(*tangential, face.first, face.shape)

    def close_velocity(self, f: Fields, region: Region) -> None:
        """Apply the closures of free and rigid faces to the velocities."""
        for face, closure in region.closed:
            self.kernels.close_velocity(
                *_velocity_fields(f, face.axis), self.material.arrays["density"], *closure, face.first, face.half,
                face.shape, face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def velocity_arguments(self, f: Fields, boxes: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of the kernel `update_velocity`."""
        return (
            *state_arrays(f), self.material.arrays["density"], self.ratio, *self.coefficients, self.backend.threads,
            boxes, *self._layer_arguments("velocity"),
        )  # fmt: skip

    def inject(self, sources: SourceList | MomentList, f: Fields) -> None:
        """Add the contributions of sources at this step."""
        if sources.count:
            inject = getattr(self.kernels, sources.kernel)
            inject(state_arrays(f), *sources.arguments(), self.row.array)

    def _layer_arguments(self, kind: str) -> list[Any]:
        return [a for memory, profile in zip(self.memory[kind], self.profiles, strict=True) for a in (memory, *profile)]


def _axes(axis: int) -> tuple:
    return tuple(unsigned(UNIT[a]) for a in (axis, *TANGENTS[axis]))


def _velocity_fields(f: Fields, axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    return (*velocities, f[stress_name(axis, axis)], f[stress_name(axis, t)], f[stress_name(axis, u)])


def _stress_fields(f: Fields, axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    pairs = ((0, 0), (1, 1), (2, 2), (axis, t), (axis, u))
    return (*velocities, *(f[stress_name(*pair)] for pair in pairs))


def stress_name(a: int, b: int) -> str:
    """Return the name of a stress component from its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))
