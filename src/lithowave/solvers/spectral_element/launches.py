"""Launches of the kernels on a CUDA device.

The kernels are called as on the CPU, with the argument lists of `element_lines.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.common.kernels import WARP, PointKernels, named_arguments
from lithowave.solvers.spectral_element.element_kinds import ElementKind
from lithowave.solvers.spectral_element.element_layout import (
    BLOCKS,
    MAP_VALUES,
    device_layout,
    pack_cuboid,
    pack_upright,
)
from lithowave.solvers.spectral_element.element_lines import ARGUMENTS
from lithowave.solvers.spectral_element.layers import ALIGNED, DAMPED
from lithowave.solvers.spectral_element.relaxation import carrier_count, carrier_indices, carrier_sets

if TYPE_CHECKING:
    from lithowave.backends.interface import DeviceBackend

PACKAGE = "lithowave.solvers.spectral_element"
ELEMENTS_FILE = "elements.cu"
MAPS = ("affine", "trilinear", "triquadratic", "cuboid", "upright")  # by the definition MAP
VALUE_BYTES = {"single": 4, "double": 8}
DEFAULT_DEGREE = 4
ADAPTED_DEGREES = (3, DEFAULT_DEGREE)  # in single precision: see `blocks_per_multiprocessor`

MOVED = 2  # points that a thread of the element kernel moves for later blocks
# Blocks between one that moves points and the first that reads them, in single precision: about as many as a device
# executes at the same time, so that few have to wait, and few enough that the cache still holds the points.
BLOCKS_AHEAD = 800
PACK_BYTES, PACKS_AT_ONCE = 16, 8  # which shared memory moves at once, if they are in different banks
NO_TASK = 0xFFFF
# Preferred shared memory with attenuation, percent. Registers permit seven blocks of cuboids per multiprocessor, but
# the reads that are under way need room in the cache.
RELAXING_CARVEOUT = 72
LAYERS = (0, 1, 3, 7, DAMPED, ALIGNED + 1, ALIGNED + 3, ALIGNED + 7)  # with programs of their own, in a solid


def packs(degree: int, components: int, value_bytes: int) -> int:
    """Return the number of packs of a thread's line in shared memory."""
    return -(-components * (degree + 1) * value_bytes // PACK_BYTES)


def point_stride(degree: int, components: int, value_bytes: int) -> int:
    """Return the distance in packs between the lines of two threads: odd, so that equal packs of the eight threads that
    are served at once are in different banks."""
    return packs(degree, components, value_bytes) | 1


def defines(degree: int, precision: str, kind: ElementKind, atomic: bool) -> dict[str, str | int]:
    """Return the definitions for compiling `elements.cu`."""
    own = device_layout("cuda", degree)
    return {
        "DEGREE": degree, "MAP": MAPS.index(kind.map), "COMPONENTS": kind.components,
        "ANISOTROPIC": int(kind.anisotropic),
        "VARYING": int(kind.varying), "GRAVITY": int(kind.gravity), "AXES": kind.axes, "DAMPED": int(kind.damped),
        "ALIGNED": int(kind.aligned), "ATOMIC": int(atomic), "MOVED": MOVED, "WAITS": int(precision == "single"),
        "ELEMENTS": own.elements, "THREADS": own.lanes,
        "BLOCKS": blocks_per_multiprocessor(degree, precision, kind),
        "POINT_STRIDE": point_stride(degree, kind.components, VALUE_BYTES[precision]),
        "ELEMENT_STRIDE": element_stride(degree, kind.components, VALUE_BYTES[precision]),
        "ROUNDS": len(task_table(degree, kind.components, VALUE_BYTES[precision])), **carrier_defines(degree, kind),
    }  # fmt: skip


def blocks_per_multiprocessor(degree: int, precision: str, kind: ElementKind) -> int:
    """Return the minimum number of blocks that a multiprocessor processes at a time, which bounds the registers.

    Maps other than affine and upright ones, and memory variables of attenuation at many points, need more registers;
    maps other than affine ones in an absorbing layer, with these variables or with gravity need even more: variables in
    memory instead of registers cost more time than fewer blocks.
    """
    blocks = BLOCKS[degree][1 if precision == "single" else 2]
    if precision == "double" or degree not in ADAPTED_DEGREES:
        return blocks
    upright, curved = kind.map == "upright", kind.map in ("trilinear", "triquadratic")
    many = kind.mechanisms > 0 and not shared_carriers(degree, kind)
    more = kind.layer > 0 or many or kind.gravity
    return blocks - (curved or many or (upright and more)) - (curved and more)


def carrier_defines(degree: int, kind: ElementKind) -> dict[str, str | int]:
    """Return the definitions for the mechanisms of attenuation, see `relaxation.cuh`."""
    if not kind.mechanisms:
        return {"MECHANISMS": 0}
    points = carrier_indices(degree, kind.carriers)
    return {
        "MECHANISMS": kind.mechanisms, "CARRIERS": len(points), "CARRIER_LIST": ",".join(map(str, points)),
        "SPARSE": int(shared_carriers(degree, kind) > 0),
    }  # fmt: skip


def shared_carriers(degree: int, kind: ElementKind) -> int:
    """Return the number of carrying points of an element that the threads of a block share: all, if they are few."""
    count = carrier_count(degree, kind.carriers)
    return count if 4 * count < (degree + 1) ** 3 else 0


def variants() -> Iterator[tuple[str, dict[str, str | int], tuple[int, int]]]:
    """Yield every program that a run may compile, with 3 mechanisms: file, defines, minimum compute capability."""
    for precision, real in (("single", "float"), ("double", "double")):
        yield PointKernels.file, {"REAL": real}, (0, 0)
        for degree in BLOCKS:
            for kind, atomic in _kind_variants(degree):
                yield ELEMENTS_FILE, {"REAL": real} | defines(degree, precision, kind, atomic), (0, 0)


def _kind_variants(degree: int) -> Iterator[tuple[ElementKind, bool]]:
    """Yield kinds of elements, and whether additions are atomic."""
    for shape in MAPS:
        for anisotropic, varying in ((False, False), (False, True), (True, False), (True, True)):
            for layer in _layers(degree, shape):
                kind = ElementKind(shape, anisotropic, varying, layer)
                yield kind, True
                if degree == 4 and not layer:
                    yield kind, False
                if shape in ("affine", "cuboid") and not varying or degree == 4 and not layer:
                    for carriers in range(1, len(carrier_sets(degree)) + 1):
                        yield replace(kind, mechanisms=3, carriers=carriers), True
                if degree == 4 and shape in ("upright", "triquadratic") and varying and not layer:
                    yield replace(kind, gravity=True), True
                    for carriers in range(1, len(carrier_sets(degree)) + 1):
                        yield replace(kind, gravity=True, mechanisms=3, carriers=carriers), True
                if not anisotropic:
                    yield replace(kind, fluid=True), True
                    if degree == 4 and not layer:
                        yield replace(kind, fluid=True), False


def _layers(degree: int, shape: str) -> tuple[int, ...]:
    """Return the codes of layers of the elements with this map in `variants`: see `element_kinds`."""
    if degree != 4 or shape == "trilinear":
        return (0,)
    general = shape in ("affine", "triquadratic")
    return tuple(code for code in LAYERS if code == 0 or code > ALIGNED or general)


def programs(
    precision: str, degree: int, kinds: Sequence[ElementKind], deterministic: bool
) -> Iterator[tuple[str, dict[str, str | int], dict[str, str]]]:
    """Yield the sources for kinds of elements: file, definitions, generated headers."""
    yield PointKernels.file, {}, {}
    for kind in kinds:
        yield ELEMENTS_FILE, defines(degree, precision, kind, not deterministic), {}


@lru_cache
def element_stride(degree: int, components: int, value_bytes: int) -> int:
    """Return the distance in packs between the elements of a block in shared memory: that with the fewest transfers.

    In a step, the threads move the packs of their lines as often as the tasks move the values of the lines.
    """
    own, lines = device_layout("cuda", degree), (degree + 1) ** 2
    element, line = np.divmod(np.arange(own.elements * lines), lines)
    point = point_stride(degree, components, value_bytes)

    def transfers(stride: int) -> int:
        banks = (element * stride + line * point) % PACKS_AT_ONCE
        groups = np.split(banks, range(PACKS_AT_ONCE, len(banks), PACKS_AT_ONCE))
        of_threads = packs(degree, components, value_bytes) * sum(int(np.bincount(group).max()) for group in groups)
        return of_threads + lines * len(_grouped_tasks(degree, components, value_bytes, stride))

    return min(range(lines * point, lines * point + PACKS_AT_ONCE), key=transfers)


def _grouped_tasks(degree: int, components: int, value_bytes: int, stride: int) -> np.ndarray:
    """Return the place of the first value of each task, (groups, banks), each in the column of its bank; else NO_TASK.

    stride : distance of elements in packs. Shared memory serves the threads of a group at once.
    """
    width, values = PACK_BYTES // value_bytes, components * (degree + 1)
    elements = np.arange(device_layout("cuda", degree).elements)
    places = np.add.outer(elements * stride * width, np.arange(values)).ravel()
    banks = places % (width * PACKS_AT_ONCE)
    table = np.full((np.bincount(banks).max(), width * PACKS_AT_ONCE), NO_TASK, np.uint16)
    for bank in np.unique(banks):
        own = places[banks == bank]
        table[: len(own), bank] = own
    return table


@lru_cache
def task_table(degree: int, components: int, value_bytes: int) -> np.ndarray:
    """Return the values that each thread differentiates, (rounds, threads): the place of a value on an element's first
    line in shared memory; NO_TASK for none. The values of threads that are served at once are in different banks."""
    stride = element_stride(degree, components, value_bytes)
    tasks = _grouped_tasks(degree, components, value_bytes, stride).ravel()
    threads = device_layout("cuda", degree).lanes
    return np.pad(tasks, (0, -len(tasks) % threads), constant_values=NO_TASK).reshape(-1, threads)


class ElementKernel:
    """Kernel `add_forces` for one kind of elements, compiled when it is created, before the time loop."""

    def __init__(self, backend: DeviceBackend, degree: int, kind: ElementKind, deterministic: bool) -> None:
        own, value_bytes = device_layout("cuda", degree), backend.dtype.itemsize
        tasks = task_table(degree, kind.components, value_bytes)
        self.tasks, self.threads = backend.upload(tasks, np.uint16), own.lanes
        definitions = defines(degree, backend.precision, kind, not deterministic)
        self.program = backend.program(PACKAGE, ELEMENTS_FILE, definitions)
        relaxing = 8 * (1 + kind.mechanisms) * shared_carriers(degree, kind)  # values, see `relaxation.cuh`
        fields = 2 * PACK_BYTES * element_stride(degree, kind.components, value_bytes)
        element = fields + value_bytes * (MAP_VALUES["cuda"][kind.map] + relaxing)
        self.shared_bytes = own.elements * element
        self.carveout = RELAXING_CARVEOUT if relaxing else -1

    def __call__(self, *arguments: object) -> None:
        """See `element_kernels.make_add_forces`. The blocks of each color are a separate launch."""
        named = named_arguments(ARGUMENTS, "add_forces", arguments) | {"tasks": self.tasks}
        named |= {"moving": int(named["moves"].size > 0)}
        for first, end in itertools.pairwise(named["begin"]):
            named |= {"own_block": int(first)}
            grid, block = (int(end - first),), (self.threads,)
            self.program.launch("add_forces", grid, block, named, self.shared_bytes, self.carveout)


LISTED, PAIRED = ("damp", "unstretch", "save_momenta", "pack", "unpack"), ("couple", "uncouple")


class HexahedralPointKernels(PointKernels):
    """Kernels over points."""

    def update_displacement(self, *arguments: object) -> None:
        """See `point_kernels.update_displacement`."""
        named = self.named("update_displacement", arguments)
        self.points("update_displacement", named["count"], named)

    def listed(self, kernel: str, *arguments: object) -> None:
        """Launch one of the kernels `LISTED`: one thread per point in a list."""
        named = self.named(kernel, arguments)
        more = {"axes": named["memory"].shape[1]} if kernel == "unstretch" else {}
        self.points(kernel, named["point"].size, named | {"count": named["point"].size} | more)

    def paired(self, kernel: str, *arguments: object) -> None:
        """Launch one of the kernels `PAIRED`: one thread per pair of points."""
        named = self.named(kernel, arguments)
        more = {"count": named["solid"].size, "stretched": int(named["coupled"].size > 0)}
        self.points(kernel, named["solid"].size, named | more)

    def keep_rates(self, *arguments: object) -> None:
        """See `point_kernels.keep_rates`."""
        named = self.named("keep_rates", arguments)
        count = named["earlier"].size
        self.points("keep_rates", count, named | {"count": count})

    def sample_fluid(self, *arguments: object) -> None:
        """See `point_kernels.sample_fluid`; one warp per location."""
        named = self.named("sample_fluid", arguments)
        _, rows, width = named["out"].shape
        count = named["place"].size
        named |= {"count": count, "width": width, "rows": rows, "n": named["values"].shape[2]}
        self.points("sample_fluid", count * WARP, named, (128,))

    def sample(self, *arguments: object) -> None:
        """See `point_kernels.sample`; one warp per location."""
        named = self.named("sample", arguments)
        _, rows, width = named["out"].shape
        count = named["element"].size
        named |= {"count": count, "width": width, "rows": rows, "n": named["values"].shape[2]}
        self.points("sample", count * WARP, named, (128,))

    def rotate_velocity(self, *arguments: object) -> None:
        """See `point_kernels.rotate_velocity`."""
        named = self.named("rotate_velocity", arguments)
        _, rows, width = named["out"].shape
        count = named["axes"].shape[0]
        self.points("rotate_velocity", count, named | {"count": count, "width": width, "rows": rows})

    def largest_velocity(self, *arguments: object) -> None:
        """See `point_kernels.largest_velocity`; one warp per value."""
        named = self.named("largest_velocity", arguments)
        self.points("largest_velocity", named["out"].size * WARP, named | {"count": named["momentum"].shape[0] - 1})


def make_kernels(backend: DeviceBackend, degree: int, precision: str, deterministic: bool = False) -> SimpleNamespace:
    """Return the CUDA kernels, callable like those on the CPU, and the layout and packing of blocks."""
    own, points = device_layout("cuda", degree), HexahedralPointKernels(backend, PACKAGE, ARGUMENTS)
    made: dict[ElementKind, ElementKernel] = {}

    def pack_moduli(moduli: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Return (slots, c); at every point (blocks, k, lanes, 2), or (blocks, k, c, lanes) for anisotropic moduli or
        with gravity; 0 without an element."""
        if moduli.ndim > 2:
            return own.of_components(moduli, slots, 0, 3 if moduli.shape[1] == 2 else None)
        packed = own.of_elements(moduli, slots)
        empty = np.append(slots, np.full(-len(slots) % own.elements, -1)) < 0
        return np.where(empty[:, None], 0, packed)

    def pack_maps(coefficients: np.ndarray, slots: np.ndarray, kind: ElementKind) -> np.ndarray:
        """Return (slots, 4 to 84), see `map.cuh`."""
        return own.of_elements(coefficients, slots, MAP_PACKERS[kind.map], backend.dtype)

    def add_forces(kind: ElementKind) -> Callable[..., None]:
        if kind not in made:
            made[kind] = ElementKernel(backend, degree, kind, deterministic)
        return made[kind]

    listed = {name: partial(points.listed, name) for name in LISTED}
    listed |= {name: partial(points.paired, name) for name in PAIRED}
    return SimpleNamespace(
        **points.by_name(), **listed, arrangement=own, moved_by_block=MOVED * own.lanes,
        blocks_ahead=BLOCKS_AHEAD if precision == "single" else 0,
        pack_moduli=pack_moduli, pack_maps=pack_maps, add_forces=add_forces,
    )  # fmt: skip


def pack_affine(coefficients: np.ndarray) -> np.ndarray:
    """Return nine cofactors and 1 / J of parallelepipeds, (elements, 12)."""
    matrix = coefficients[..., 0, 0, 1], coefficients[..., 0, 1, 0], coefficients[..., 1, 0, 0]
    packed = np.zeros((len(coefficients), 12))
    for d, c in itertools.product(range(3), range(3)):  # faster than np.cross, with the same round-off
        a, b = matrix[d - 2], matrix[d - 1]
        packed[:, 3 * d + c] = a[:, c - 2] * b[:, c - 1] - a[:, c - 1] * b[:, c - 2]
    packed[:, 9] = 1.0 / np.einsum("ec,ec->e", np.ascontiguousarray(matrix[0]), packed[:, :3])
    return packed


def pack_trilinear(coefficients: np.ndarray) -> np.ndarray:
    """Return (elements, 24)."""
    return coefficients.reshape(len(coefficients), -1)


def pack_triquadratic(coefficients: np.ndarray) -> np.ndarray:
    """Return (elements, 84), with padding after the 27 coefficients of each component."""
    padded = np.zeros((len(coefficients), 3, 28))
    padded[:, :, :27] = coefficients.reshape(len(coefficients), 3, 27)
    return padded.reshape(-1, 84)


MAP_PACKERS = {
    "cuboid": pack_cuboid, "affine": pack_affine, "trilinear": pack_trilinear, "upright": pack_upright,
    "triquadratic": pack_triquadratic,
}  # fmt: skip
