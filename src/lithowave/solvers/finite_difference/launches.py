"""Launches of the kernels on a CUDA device.

The kernels are called as on the CPU, with the argument lists of `arguments.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from lithowave.solvers.common.point_launches import FEW, WARP, KernelLauncher
from lithowave.solvers.finite_difference.arguments import ARGUMENTS
from lithowave.solvers.finite_difference.fields import FIELDS, LAWS, LawFields
from lithowave.solvers.finite_difference.grid_update import (
    DIRECT_FILE,
    PACKAGE,
    RING_FILE,
    STATE_BOXES,
    GridUpdate,
    ring_layout,
)
from lithowave.solvers.finite_difference.one_pass import ONE_PASS_FILE, OnePass, pass_shape
from lithowave.solvers.finite_difference.packing import (
    Scales,
    element_strides,
    pack_box,
    pack_face,
    pack_fields,
    pack_law,
    pack_scales,
)
from lithowave.solvers.finite_difference.passes import possible
from lithowave.solvers.finite_difference.tiles import DIRECT

BLOCK = (32, 8)
# Storage, law and order of programs with attenuation that are compiled in tests: every law, storage and mode.
ATTENUATING_VARIANTS = (
    (("single", 0), LAWS["isotropic"].attenuating(1, True), 4),
    (("single", 1), LAWS["transverse"].attenuating(1, True), 4),
    (("single", 0), LAWS["orthorhombic"].attenuating(3, False), 8),
    (("double", 0), LAWS["transverse"].attenuating(1, True), 2),
    (("double", 0), LAWS["isotropic"].attenuating(3, False), 4),
)
BRICK_THREADS = 512  # nodes of a brick in `inject_moments`
STAGED_BYTES = 8 * (54 * 8 + 6 * 4)  # of `StagedMoments`
COPY_BLOCKS, COPY_THREADS = 64, 256  # blocks per box that is sent to another rank


def variants() -> Iterator[tuple[str, dict[str, Any], tuple[int, int]]]:
    """Yield every program that a run may compile: file, defines, minimum compute capability."""
    storage = (("single", 0), ("single", 1), ("double", 0))
    elastic = itertools.product(storage, LAWS.values(), (2, 4, 6, 8))
    for (precision, compact), law, order in itertools.chain(elastic, ATTENUATING_VARIANTS):
        real = "float" if precision == "single" else "double"
        common = {"REAL": real, "ORDER": order, "INDEX": "unsigned", "COMPACT": compact} | law.defines()
        for file in ("boundary_kernels.cu", "point_kernels.cu"):
            yield file, common | {"FIELD_COUNT": len(FIELDS)}, (0, 0)
        yield DIRECT_FILE, common | DIRECT.defines(), (0, 0)
        kernels = STATE_BOXES if law.mechanisms else ("update_stress",)
        cases = itertools.product(kernels, (False, True), (False, True))
        layouts = (ring_layout(kernel, precision, order, on, law, bool(compact), edges) for kernel, on, edges in cases)
        for layout in dict.fromkeys(layouts):
            yield RING_FILE, common | layout.defines(), (9, 0)
        if possible(precision, order, law):
            yield ONE_PASS_FILE, common | pass_shape(law).defines(), (9, 0)


# --------------------------------------------------------------------------------------------- faces and points


class SmallKernels(KernelLauncher):
    """Kernels over faces, points and the surface."""

    def __init__(self, backend: Any, order: int, scales: Scales, law: LawFields) -> None:
        defines = {"ORDER": order, "INDEX": "unsigned", "COMPACT": int(bool(scales)), "FIELD_COUNT": len(FIELDS)}
        defines |= law.defines()
        super().__init__(backend, PACKAGE, ARGUMENTS, defines)
        self.halo, self.scales, self.law = order // 2, scales, law

    def _close(self, kernel: str, arguments: tuple[Any, ...]) -> None:
        named = self.named(kernel, arguments)
        face, (rows, columns) = pack_face(named["vn"], named)
        named |= {"face": face} | self._material(named)
        depths = named["node_change"].shape[0]
        self.launch("boundary_kernels.cu", kernel, (columns, rows, depths), named, BLOCK)

    def _material(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the structures of the material arguments of a call."""
        if "law" in named:
            return {"law": pack_law(named["law"], self.law, self.scales)}
        return {"density_scale": pack_scales(self.scales, "density")}

    def close_velocity(self, *arguments: Any) -> None:
        """See `boundary_kernels.close_velocity`."""
        self._close("close_velocity", arguments)

    def close_stress(self, *arguments: Any) -> None:
        """See `boundary_kernels.close_stress`."""
        self._close("close_stress", arguments)

    def zero_on_face(self, *arguments: Any) -> None:
        """See `boundary_kernels.zero_on_face`."""
        named = self.named("zero_on_face", arguments)
        face, (rows, columns) = pack_face(named["vt"], named)
        self.launch("boundary_kernels.cu", "zero_on_face", (columns, rows), named | {"face": face}, BLOCK)

    def free_surface(self, *arguments: Any) -> None:
        """See `kernels.free_surface`."""
        named = self.named("free_surface", arguments)
        plane, pitch, _ = element_strides(named["szz"])
        _, rows, columns = (count - 2 * self.halo for count in named["szz"].shape)
        named |= {
            "first": named["plane"] * plane + self.halo * (pitch + 1), "rows": rows, "columns": columns, "pitch": pitch,
        }  # fmt: skip
        self.launch("boundary_kernels.cu", "free_surface", (columns, rows), named | self._material(named), BLOCK)

    def layer_differences(self, *arguments: Any) -> None:
        """See `boundary_kernels.layer_differences`."""
        self._in_box("layer_differences", arguments)

    def add_layer_differences(self, *arguments: Any) -> None:
        """See `boundary_kernels.add_layer_differences`."""
        self._in_box("add_layer_differences", arguments)

    def _in_box(self, kernel: str, arguments: tuple[Any, ...]) -> None:
        named = self.named(kernel, arguments)
        box, shape = pack_box(named["field"], named)
        self.launch("boundary_kernels.cu", kernel, shape, named | {"box": box}, BLOCK)

    def pack(self, *arguments: Any) -> None:
        """See `point_kernels.pack`."""
        self._copy("pack", arguments)

    def unpack(self, *arguments: Any) -> None:
        """See `point_kernels.unpack`."""
        self._copy("unpack", arguments)

    def _copy(self, kernel: str, arguments: tuple[Any, ...]) -> None:
        """Launch a row of blocks per box; few blocks, so that other work can run concurrently."""
        named = self.named(kernel, arguments)
        boxes, size = named["table"].shape[0], named["buffer"].size
        if boxes:
            blocks = min(COPY_BLOCKS, -(-size // (boxes * COPY_THREADS)))
            named |= {"fields": pack_fields(named["fields"])}
            self.launch("point_kernels.cu", kernel, (blocks * COPY_THREADS, boxes), named, (COPY_THREADS, 1))

    def inject(self, *arguments: Any) -> None:
        """See `point_kernels.inject`."""
        named = self.named("inject", arguments)
        count = named["target"].size
        named |= {"fields": pack_fields(named["fields"]), "count": count, "sources": named["amplitude"].shape[1]}
        self.launch("point_kernels.cu", "inject", (count,), named, FEW)

    def inject_moments(self, *arguments: Any) -> None:
        """See `point_kernels.inject_moments`; one block per brick."""
        named = self.named("inject_moments", arguments)
        plane, pitch, _ = element_strides(named["fields"][0])
        named |= {"fields": pack_fields(named["fields"]), "pitch": pitch, "plane": plane}
        program = self.backend.program(self.package, "point_kernels.cu", self.defines)
        program.launch("inject_moments", (named["brick"].shape[0],), (BRICK_THREADS,), named, STAGED_BYTES)

    def count_step(self, row: Any) -> None:
        """See `point_kernels.count_step`."""
        self.launch("point_kernels.cu", "count_step", (1,), {"row": row}, (1,))

    def sample(self, *arguments: Any) -> None:
        """See `point_kernels.sample`; one warp per point."""
        named = self.named("sample", arguments)
        count = named["begin"].size - 1
        named |= {"fields": pack_fields(named["fields"]), "count": count}
        self.launch("point_kernels.cu", "sample", (count * WARP,), named, (128,))

    def interpolate(self, *arguments: Any) -> None:
        """See `point_kernels.interpolate`."""
        named = self.named("interpolate", arguments)
        planes, rows, columns, components = named["out"].shape
        plane, pitch, _ = element_strides(named["field"])
        named |= {
            "planes": planes, "rows": rows, "columns": columns, "components": components, "pitch": pitch,
            "plane": plane,
        }  # fmt: skip
        self.launch("point_kernels.cu", "interpolate", (columns, rows, planes), named, BLOCK)

    def surface_peaks(self, *arguments: Any) -> None:
        """See `point_kernels.surface_peaks`."""
        named = self.named("surface_peaks", arguments)
        plane, pitch, _ = element_strides(named["vx"])
        _, rows, columns = named["displacement"].shape
        named |= {
            "first": named["plane"] * plane + named["halo"] * (pitch + 1), "rows": rows, "columns": columns,
            "pitch": pitch, "plane": plane,
        }  # fmt: skip
        self.launch("point_kernels.cu", "surface_peaks", (columns, rows), named, BLOCK)

    def largest_magnitude(self, *arguments: Any) -> None:
        """See `point_kernels.largest_magnitude`; one warp per value of `out`."""
        named = self.named("largest_magnitude", arguments)
        named["count"] = named["vx"].shape[0] * element_strides(named["vx"])[0]
        self.launch("point_kernels.cu", "largest_magnitude", (named["out"].size * WARP,), named)


def make_kernels(
    backend: Any, order: int, scales: Scales = None, law: LawFields = LAWS["isotropic"], equal_columns: bool = False
) -> SimpleNamespace:
    """Return the CUDA kernels of the finite differences, callable like those on the CPU.

    scales : scales of the material codes, if the material is stored in codes. law : arrays of the law. equal_columns :
    whether all columns of material are equal; the kernels then read those of one tile.
    """
    found = SmallKernels(backend, order, scales, law).by_name()
    found |= {
        name: GridUpdate(backend, name, order, scales, law, equal_columns)
        for name in ("update_velocity", "update_stress")
    }
    if backend.copy_engine and possible(backend.precision, order, law):
        found["one_pass"] = OnePass(backend, order, scales, law, equal_columns)
    return SimpleNamespace(**found)
