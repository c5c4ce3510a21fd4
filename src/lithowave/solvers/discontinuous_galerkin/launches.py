"""Launches of the kernels on a CUDA device.

The kernels are called as on the CPU, with the argument lists of `kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.common.kernels import WARP, PointKernels, named_arguments
from lithowave.solvers.discontinuous_galerkin.kernels import ARGUMENTS
from lithowave.solvers.discontinuous_galerkin.materials import (
    ALIKE,
    ANISOTROPIC_LAW,
    FACE_NUMBERS,
    FASTER,
    GPU_LANES,
    LAW_NUMBERS,
    PADDED_NUMBERS,
    QUANTITIES,
    SLOWER,
    SPLIT_BLOCKS,
    SPLIT_ORDERS,
    STRESSES,
    VELOCITIES,
    device_layout,
    law_numbers,
)
from lithowave.solvers.discontinuous_galerkin.reference import (
    ORDERS,
    face_mode_count,
    make_reference,
    mode_count,
    modes,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.backends.interface import Array, DeviceBackend
    from lithowave.solvers.common.kernels import Arguments

PACKAGE = "lithowave.solvers.discontinuous_galerkin"
ELEMENT_FILE = "element.cu"
LANES, COLUMN = GPU_LANES, GPU_LANES + 1  # elements of a block; values per row of traces in shared memory
THREADS = LANES * QUANTITIES
COMPILED_MECHANISMS = 3  # of the variants with attenuation in `variants`
VALUE_BYTES = {"single": 4, "double": 8}
LAYOUT = {"LANES": LANES, "QUANTITIES": QUANTITIES, "STRESSES": STRESSES, "VELOCITIES": VELOCITIES}

# By precision and order: minimum blocks per multiprocessor, which bounds the registers of a thread; the maximum of this
# number for elements with neighbors that step twice as often, which send both halves of a step, and for elements with
# attenuation. In an absorbing layer there is one block less.
SHAPES = {
    "single": {
        2: (6, 5, 5), 3: (4, 3, 3), 4: (4, 3, 3), 5: (3, 2, 2), 6: (2, 1, 2), 7: (1, 1, 1),
    },
    "double": {
        2: (4, 3, 3), 3: (3, 2, 2), 4: (2, 1, 1), 5: (1, 1, 1), 6: (1, 1, 1), 7: (1, 1, 1),
    },
}  # fmt: skip
SHARED_BYTES, BLOCK_BYTES, RESERVED_BYTES = 228 << 10, 163 << 10, 1 << 10  # of a multiprocessor; of a block, at most
DERIVATIVES = {False: 18, True: 27}  # that quantities exchange, in isotropic and in anisotropic media


@dataclass(frozen=True)
class BlockShape:
    """Shape of the blocks of a kernel.

    blocks : minimum per multiprocessor. rows, faces : of derivatives and of traces in shared
    memory at the same time, as many as fit. values : in shared memory for these. stresses : values of stresses by the
    faces, which follow in elements with attenuation. split : True if a step is two kernels.
    """

    blocks: int
    rows: int
    faces: int
    values: int
    stresses: int
    split: bool


def block_shape(order: int, precision: str, anisotropic: bool, mixed: int, layer: bool, mechanisms: int) -> BlockShape:
    """Return the shape of the blocks of a kernel."""
    usual, faster, relaxing = SHAPES[precision][order]
    blocks = min(usual, faster if mixed == FASTER else usual, relaxing if mechanisms else usual)
    blocks = max(1, blocks - layer)
    stresses = STRESSES * mode_count(order - 1) * LANES if mechanisms else 0
    space = min(BLOCK_BYTES, SHARED_BYTES // blocks - RESERVED_BYTES) // VALUE_BYTES[precision] - stresses
    split = order >= SPLIT_ORDERS[precision] and not mechanisms
    of_row, of_face = DERIVATIVES[anisotropic] * LANES, QUANTITIES * face_mode_count(order) * COLUMN
    rows, faces = min(mode_count(order - 1), space // of_row), 4 if 4 * of_face <= space else 2
    return BlockShape(blocks, rows, faces, max(rows * of_row, faces * of_face, stresses), stresses, split)


def shared_bytes(precision: str, shape: BlockShape) -> int:
    """Return the shared memory of a block."""
    return (shape.values + shape.stresses) * VALUE_BYTES[precision]


def defines(
    order: int, precision: str, anisotropic: bool, mixed: int, layer: bool, mechanisms: int
) -> dict[str, str | int]:
    """Return the definitions for compiling `element.cu`."""
    shape = block_shape(order, precision, anisotropic, mixed, layer, mechanisms)
    own = law_numbers(anisotropic, layer)
    return {
        "ORDER": order, "ANISOTROPIC": int(anisotropic), "MIXED": mixed, "LAYER": int(layer), "SLOWER": SLOWER,
        "FASTER": FASTER, "BLOCKS": shape.blocks, "SLOPE_ROWS": shape.rows, "FACES": shape.faces,
        "COLUMN": COLUMN, "FACE_NUMBERS": PADDED_NUMBERS[anisotropic],
        "LAW": law_numbers(anisotropic, layer, mechanisms), "GAINS": LAW_NUMBERS[anisotropic],
        "JUMPS": LAW_NUMBERS[anisotropic] + ANISOTROPIC_LAW, "DECAY": own - 2, "DAMPING": own - 1,
        "MECHANISMS": mechanisms, "WEIGHTS": own, "FACE_STRESSES": shape.values, "SPLIT": int(shape.split), **LAYOUT,
    }  # fmt: skip


def variants() -> Iterator[tuple[str, dict[str, str | int], tuple[int, int]]]:
    """Yield every program that a run may compile: file, defines, minimum compute capability."""
    for precision, real in (("single", "float"), ("double", "double")):
        yield PointKernels.file, {"REAL": real} | LAYOUT, (0, 0)
        for order in ORDERS:
            for kind in product((False, True), (ALIKE, SLOWER, FASTER), (False, True), (0, COMPILED_MECHANISMS)):
                yield ELEMENT_FILE, {"REAL": real} | defines(order, precision, *kind), (0, 0)


def programs(
    precision: str, order: int, layer: bool, mechanisms: int
) -> Iterator[tuple[str, dict[str, str | int], dict[str, str]]]:
    """Yield the sources for isotropic media with local time steps: file, definitions, generated headers.

    mechanisms : of attenuation; 0 without it. Some may not be required, if no element has such neighbors.
    """
    yield PointKernels.file, dict(LAYOUT), {}
    for in_layer, mixed in product((False, True) if layer else (False,), (ALIKE, SLOWER, FASTER)):
        definitions = defines(order, precision, False, mixed, in_layer, mechanisms)
        yield ELEMENT_FILE, definitions, generated_headers(definitions)


def generated_headers(definitions: dict[str, str | int]) -> dict[str, str]:
    """Return `reference.cuh` for the order in the definitions of a source."""
    return {"reference.cuh": reference_header(int(definitions["ORDER"]))} if "ORDER" in definitions else {}


@lru_cache
def reference_header(order: int) -> str:
    """Return the matrices of an order as tables of their entries, in C++; see `unrolled.cuh`."""
    reference = make_reference(order)
    tables = {f"Derivative{n}": matrix for n, matrix in enumerate(reference.derivatives)}
    tables |= {f"Trace{n}": matrix.T for n, matrix in enumerate(reference.traces[:3])}
    odd = [p % 2 for p, _, _ in modes(order)]
    return "\n".join(
        [
            "#pragma once", "struct Reference {",
            f"static constexpr int modes = {reference.count}, face_modes = {reference.face_count};",
            f"static constexpr int B1 = {reference.levels[1]};", f"static {_numbers('int', 'level', reference.levels)}",
            f"struct Odd {{ static {_numbers('int', 'value', odd)} }};",
            *(_table(name, matrix) for name, matrix in tables.items()), "};", "",
        ]
    )  # fmt: skip


def _table(name: str, matrix: np.ndarray) -> str:
    row, column = np.nonzero(matrix)
    begin = np.searchsorted(row, np.arange(len(matrix) + 1))
    entries = (
        _numbers("int", "begin", begin), _numbers("int", "column", column),
        _numbers("double", "value", matrix[row, column]),
    )  # fmt: skip
    return f"struct {name} {{ " + " ".join(f"static {part}" for part in entries) + " };"


def _numbers(kind: str, name: str, values: npt.ArrayLike) -> str:
    listed = ", ".join(repr(value) for value in np.asarray(values).tolist())
    return f"constexpr {kind} {name}[] = {{{listed}}};"


class ElementKernels:
    """`step` and `complete` for one kind of blocks, compiled when they are created, before the time loop."""

    def __init__(
        self, backend: DeviceBackend, order: int, anisotropic: bool, mixed: int, layer: bool, mechanisms: int
    ) -> None:
        definitions = defines(order, backend.precision, anisotropic, mixed, layer, mechanisms)
        self.program = backend.program(PACKAGE, ELEMENT_FILE, definitions, generated_headers(definitions))
        shape = block_shape(order, backend.precision, anisotropic, mixed, layer, mechanisms)
        self.backend, self.split, self.modes = backend, shape.split, mode_count(order - 1)
        self.shared_bytes = shared_bytes(backend.precision, shape)
        self.terms: tuple[Array, ...] = ()

    def reserve(self, blocks: int) -> None:
        """Allocate what a step of this number of blocks requires."""
        blocks = min(SPLIT_BLOCKS, blocks) if self.split else 0
        if blocks > len(self.terms):
            self.terms = self.backend.zeros((blocks, QUANTITIES, self.modes, LANES))

    def _launch(self, kernel: str, blocks: int, named: Arguments) -> None:
        if blocks > 0:
            self.program.launch(kernel, (blocks,), (THREADS,), named, self.shared_bytes)

    def step(self, *arguments: object) -> None:
        """See `kernels.make_step`."""
        named = named_arguments(ARGUMENTS, "step", arguments)
        first, end = named["first"], named["end"]
        if not self.split:
            self._launch("step", end - first, named)
            return
        for begin in range(first, end, SPLIT_BLOCKS):
            part = named | {"first": begin, "terms": self.terms}
            for kernel in ("begin_step", "finish_step"):
                self._launch(kernel, min(SPLIT_BLOCKS, end - begin), part)

    def complete(self, *arguments: object) -> None:
        """See `kernels.make_complete`."""
        named = named_arguments(ARGUMENTS, "complete", arguments)
        self._launch("complete", named["blocks"].size, named)

    def complete_memory(self, *arguments: object) -> None:
        """See `kernels.make_complete_memory`."""
        named = named_arguments(ARGUMENTS, "complete_memory", arguments)
        self._launch("complete_memory", named["blocks"].size, named)

    def complete_relaxation(self, *arguments: object) -> None:
        """See `kernels.make_complete_relaxation`."""
        named = named_arguments(ARGUMENTS, "complete_relaxation", arguments)
        self._launch("complete_relaxation", named["blocks"].size, named)


TRACES = ("pack_traces", "unpack_traces")


class TetrahedralPointKernels(PointKernels):
    """Kernels over points."""

    def traces(self, kernel: str, *arguments: object) -> None:
        """Launch one of the kernels `TRACES`: one thread per value of the traces of a message."""
        named = self.named(kernel, arguments)
        count = VELOCITIES * named["modes"] * named["traces"].shape[0]
        self.points(kernel, count, named | {"count": count, "width": named["even"].shape[2]})

    def sample(self, *arguments: object) -> None:
        """See `kernels.sample`; one warp per quantity of a location."""
        named = self.named("sample", arguments)
        _, rows, width = named["out"].shape
        count = named["base"].size
        named |= {"count": count, "width": width, "rows": rows, "modes": named["values"].shape[1]}
        self.points("sample", count * rows * WARP, named, (128,))

    def largest_velocity(self, *arguments: object) -> None:
        """See `kernels.largest_velocity`; one warp per value."""
        named = self.named("largest_velocity", arguments)
        blocks, _, modes_of_block, _ = named["coefficients"].shape
        named |= {"blocks": blocks, "modes": modes_of_block, "warps": named["out"].size}
        self.points("largest_velocity", named["out"].size * WARP, named)


def make_kernels(backend: DeviceBackend, order: int, precision: str) -> SimpleNamespace:
    """Return the CUDA kernels, callable like those on the CPU, and the layout of blocks and faces."""
    points = TetrahedralPointKernels(backend, PACKAGE, ARGUMENTS, LAYOUT)
    made: dict[tuple[bool, int, bool, int], ElementKernels] = {}

    def of(anisotropic: bool, mixed: int, layer: bool = False, mechanisms: int = 0) -> ElementKernels:
        key = anisotropic, mixed, layer, mechanisms
        if key not in made:
            made[key] = ElementKernels(backend, order, *key)
        return made[key]

    def pack_faces(numbers: np.ndarray) -> np.ndarray:
        """Return (blocks, lanes, 4, c)."""
        anisotropic = numbers.shape[-1] == FACE_NUMBERS[True]
        assert numbers.shape[-1] == FACE_NUMBERS[anisotropic]
        padded = np.zeros((len(numbers), 4, PADDED_NUMBERS[anisotropic]))
        padded[..., : numbers.shape[-1]] = numbers
        return padded.reshape(-1, LANES, *padded.shape[1:])

    def kernel(name: str) -> Callable[..., Callable[..., None]]:
        return lambda *variant: getattr(of(*variant), name)

    def prepare(variant: tuple[bool, int, bool, int], blocks: int) -> None:
        """Compile the kernels of a group, and allocate what its steps require."""
        of(*variant).reserve(blocks)

    names = ("step", "complete", "complete_memory", "complete_relaxation")
    traces = {name: partial(points.traces, name) for name in TRACES}
    return SimpleNamespace(
        **points.by_name(), **traces, **{name: kernel(name) for name in names},
        layout=device_layout("cuda", precision), pack_faces=pack_faces, prepare=prepare,
    )  # fmt: skip
