"""How the kernels are launched on a CUDA device: tiles, boxes for the copy engine, structures by value.

The kernels are called as on the CPU, with the argument lists of `arguments.py`.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from lithowave.solvers.finite_difference.arguments import ARGUMENTS, FIELDS, named_arguments

PACKAGE = "lithowave.solvers.finite_difference"
RING_FILE, DIRECT_FILE = "update_ring.cu", "update_direct.cu"
BLOCK = (32, 8)
WARP = 32


@dataclass(frozen=True)
class Shape:
    """A tile of columns, and the rows of it that a thread has."""

    columns: int
    rows: int
    rows_of_thread: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.columns * self.rows // self.rows_of_thread


@dataclass(frozen=True)
class Arrangement:
    """How an update goes over the grid: tiles inside and tiles that touch a layer, with as many threads each; the slots
    of the ring (0: no ring); the most planes of a tile."""

    inside: Shape
    edge: Shape
    slots: int
    chunk: int

    def defines(self) -> dict[str, int]:
        """What the source is compiled with."""
        tile = {"TILE_X": self.inside.columns, "TILE_Y": self.inside.rows}
        if not self.slots:
            return tile | {"BLOCKS": 2}
        edge = {"EDGE_X": self.edge.columns, "EDGE_Y": self.edge.rows, "EDGE_ROWS": self.edge.rows_of_thread}
        return tile | edge | {"ROWS": self.inside.rows_of_thread, "STAGES": self.slots, "BLOCKS": 1}


# Measured on an H200; see docs/gpu.md. Neighbours that march through more planes drift apart and lose the cache.
RING = {
    ("single", 2): Arrangement(Shape(128, 8, 2), Shape(32, 16), 3, 64),
    ("single", 4): Arrangement(Shape(128, 8, 2), Shape(32, 16), 3, 64),
    ("single", 6): Arrangement(Shape(64, 16, 2), Shape(32, 16), 3, 64),
    ("single", 8): Arrangement(Shape(64, 16, 2), Shape(32, 16), 3, 64),
    ("double", 2): Arrangement(Shape(64, 16, 4), Shape(32, 8), 2, 64),
    ("double", 4): Arrangement(Shape(64, 16, 4), Shape(32, 8), 2, 64),
    ("double", 6): Arrangement(Shape(64, 8, 2), Shape(32, 8), 2, 64),
    ("double", 8): Arrangement(Shape(64, 8, 2), Shape(32, 8), 2, 64),
}
DIRECT = Arrangement(Shape(32, 16), Shape(32, 16), 0, 8)


def variants() -> Iterator[tuple[str, dict[str, Any], tuple[int, int]]]:
    """Everything that a run may compile: file, defines, least compute capability."""
    for precision, real in (("single", "float"), ("double", "double")):
        for order in (2, 4, 6, 8):
            common = {"REAL": real, "ORDER": order, "INDEX": "unsigned"}
            yield "boundary_kernels.cu", common, (0, 0)
            yield "point_kernels.cu", common, (0, 0)
            yield DIRECT_FILE, common | DIRECT.defines(), (0, 0)
            yield RING_FILE, common | RING[precision, order].defines(), (9, 0)


# ---------------------------------------------------------------------------------------------- structures by value


def address(array: Any) -> int:
    """Where an array begins in the memory of its device."""
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def element_strides(array: Any) -> tuple[int, ...]:
    """Steps in elements along the axes of an array."""
    return tuple(step // array.itemsize for step in array.strides)


def blob(packed: bytes) -> np.ndarray:
    """Bytes as the launch wants a structure by value."""
    return np.frombuffer(packed, np.uint8)


def pack_layout(field: Any, halo: int) -> np.ndarray:
    """`Layout` of stencil.cuh."""
    planes, rows, columns = (count - 2 * halo for count in field.shape)
    plane, pitch, _ = element_strides(field)
    return blob(struct.pack("iiiiq", columns, rows, planes, pitch, plane))


@dataclass(frozen=True)
class Ranges:
    """The layers along one axis on the host: nodes, depths of a side, and for each side the first node of its profiles
    and the range of nodes where they are not zero."""

    nodes: int
    depths: int
    starts: tuple[int, ...]
    used: tuple[tuple[int, int], ...]


def layer_ranges(backend: Any, named: dict[str, Any], axis: str, nodes: int) -> Ranges:
    """Where the layers along an axis do something."""
    starts = tuple(int(start) for start in backend.download(named[f"{axis}_start"]))
    if not starts:
        return Ranges(nodes, 0, (), ())
    half, node = (backend.download(named[f"{axis}_{part}"]).reshape(3, len(starts), -1) for part in ("half", "node"))
    used = []
    for side, start in enumerate(starts):
        nonzero = np.flatnonzero((half[:, side] != 0).any(axis=0) | (node[:, side] != 0).any(axis=0))
        used.append((start + int(nonzero[0]), start + int(nonzero[-1]) + 1))
    return Ranges(nodes, half.shape[2], starts, tuple(used))


def pack_layers(named: dict[str, Any], ranges: dict[str, Ranges]) -> np.ndarray:
    """`LayerSet` of layers.cuh."""
    packed = b""
    for axis, found in ranges.items():
        pointers = (address(named[f"{axis}_{part}"]) for part in ("memory", "half", "node"))
        sides = len(found.starts)
        middle = found.nodes // 2 if sides == 2 else found.nodes
        starts = (*found.starts, 0, 0)[:2]
        (low, low_end), (high, high_end) = (*found.used, (0, 0), (0, 0))[:2]
        packed += struct.pack(
            "3Q10i", *pointers, sides, found.depths, middle, *starts, low, high, low_end, high_end, 0
        )
    return blob(packed)


def pack_fields(named: dict[str, Any]) -> np.ndarray:
    """`Fields` of point_kernels.cu."""
    return blob(struct.pack("9Q", *(address(named[name]) for name in FIELDS)))


def signed(step: Any) -> int:
    """A step that may have wrapped around as an unsigned number."""
    return (int(step) + 2**63) % 2**64 - 2**63


def pack_face(field: Any, named: dict[str, Any]) -> tuple[np.ndarray, tuple[int, int]]:
    """`Face` of boundary_kernels.cu, and the rows and columns of the face."""
    strides = element_strides(field)

    def offset(steps: Any) -> int:
        return sum(signed(step) * stride for step, stride in zip(steps, strides, strict=True))

    normal = next(axis for axis in range(3) if named["shape"][axis] == 1)
    over, along = (axis for axis in range(3) if axis != normal)
    rows, columns = named["shape"][over], named["shape"][along]
    places = [offset(named.get(name, named["first"])) for name in ("first", "half")]
    steps = [offset(named.get(name, (0, 0, 0))) for name in ("inward", "n", "t", "u")]
    reach = [0, 0, 0]
    if "node_change" in named:
        reach = [*named["node_change"].shape, named["half_change"].shape[1]]
    packed = struct.pack("8q6i", *places, *steps, strides[over], strides[along], rows, columns, *reach, 0)
    return blob(packed), (rows, columns)


# ------------------------------------------------------------------------------------------------- the whole grid


def chunk_planes(planes: int, columns_of_tiles: int, processors: int, largest: int) -> int:
    """Planes that a block marches through, so that the last round of blocks leaves few processors idle."""
    fewest = -(-planes // largest)

    def cost(parts: int) -> tuple[float, int]:
        chunk = -(-planes // parts)
        rounds = math.ceil(max(1, columns_of_tiles) * -(-planes // chunk) / processors)
        return rounds * (chunk + 8), parts  # 8: filling the ring and the columns takes some planes' time

    return -(-planes // min(range(fewest, max(fewest, planes // 8) + 1), key=cost))


def pieces(first: int, end: int, size: int, even: bool = True) -> list[tuple[int, int]]:
    """Ranges of at most `size` nodes, as even as possible or whole but for the last."""
    if not even:
        return [(start, min(start + size, end)) for start in range(first, end, size)]
    count = -(-(end - first) // size)
    edges = [first + (end - first) * part // count for part in range(count + 1)] if count else []
    return list(itertools.pairwise(edges))


def tile_box(box: Sequence[tuple[int, int]], shape: Shape, chunk: int, layered: bool) -> np.ndarray:
    """`Tile`s that cover a box of (first, end) along x, y, z; x fastest. Whole tiles along x: rows stay aligned."""
    sizes = ((shape.columns, False), (shape.rows, True), (chunk, True))
    ranges = [
        np.array(pieces(*sides, *size), int).reshape(-1, 2) for sides, size in zip(box, sizes, strict=True)
    ]
    z, y, x = (grid.ravel() for grid in np.indices([len(one) for one in ranges[::-1]]))
    chosen = [one[place] for one, place in zip(ranges, (x, y, z), strict=True)]
    rest = np.broadcast_to([[int(layered), 0]], (x.size, 2))
    return np.hstack([*(one[:, :1] for one in chosen), *(one[:, 1:] for one in chosen), rest]).astype(np.int32)


def inner_box(ranges: Sequence[Ranges], unit: int) -> list[tuple[int, int]]:
    """What no layer touches, along x in whole units; empty ranges where nothing is left."""
    found = []
    for axis, one in enumerate(ranges):
        low = max((end for first, end in one.used if first == 0), default=0)
        high = min((first for first, end in one.used if first > 0), default=one.nodes)
        if axis == 0:
            low, high = -(-low // unit) * unit, high if high == one.nodes else high // unit * unit
        found.append((low, max(low, high)))
    return found if all(first < end for first, end in found) else [(0, 0)] * 3


def shell(inner: Sequence[tuple[int, int]], shape: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Boxes around the inner box: whole planes below and above, whole rows at its height, the rest at its sides."""
    x, y, z = inner
    nx, ny, nz = shape
    boxes = [[(0, nx), (0, ny), sides] for sides in ((0, z[0]), (z[1], nz))]
    boxes += [[(0, nx), sides, z] for sides in ((0, y[0]), (y[1], ny))]
    boxes += [[sides, y, z] for sides in ((0, x[0]), (x[1], nx))]
    return [box for box in boxes if all(first < end for first, end in box)]


@dataclass(frozen=True)
class Box:
    """A box of a field that comes with each plane: columns (0: the tile's, 1: one more, 2: with both margins), and
    whether it has the rows of the stencil ("tall"), one more row ("more") or the tile's own."""

    field: str
    columns: int = 0
    rows: str = ""


# In the order of the maps in update_ring.cu.
RING_BOXES = {
    "update_velocity": (
        Box("sxx", 2), Box("sxy", 2, "tall"), Box("syy", 0, "tall"), Box("sxz", 2), Box("syz", 0, "tall"), Box("szz"),
        Box("vx"), Box("vy"), Box("vz"), Box("density", 1, "more"),
    ),
    "update_stress": (
        Box("vx", 2, "tall"), Box("vy", 2, "tall"), Box("vz", 2, "tall"), Box("sxx"), Box("syy"), Box("szz"),
        Box("sxy"), Box("sxz"), Box("syz"), Box("lam"), Box("compliance", 1, "more"),
    ),
}  # fmt: skip


def box_size(box: Box, tile: Shape, order: int, item: int) -> tuple[int, int]:
    """Columns and rows of a box."""
    aligned = 16 // item
    margin = ring_margin(order, item)
    columns = tile.columns + (0, aligned, 2 * margin)[box.columns]
    return columns, tile.rows + {"": 0, "more": 1, "tall": order - 1}[box.rows]


def ring_margin(order: int, item: int) -> int:
    """Columns that come on either side of a tile: those of the stencil, in whole units of 16 bytes."""
    aligned = 16 // item
    return -(-(order // 2) // aligned) * aligned


class GridUpdate:
    """`update_velocity` or `update_stress` over all tiles of the grid.

    What a launch needs beyond its arguments (tiles, maps) is made at the first call for these arrays and kept, so that
    a later call may be captured in a graph.
    """

    def __init__(self, backend: Any, kernel: str, order: int) -> None:
        self.backend, self.kernel, self.order = backend, kernel, order
        self.arrangement = RING[backend.precision, order] if backend.copy_engine else DIRECT
        self.file = RING_FILE if self.arrangement.slots else DIRECT_FILE
        self._kept: dict[tuple, dict[str, Any]] = {}

    def __call__(self, *arguments: Any) -> None:
        named = named_arguments(self.kernel, arguments)
        key = tuple(address(named[name]) for name in FIELDS)
        if key not in self._kept:
            self._kept[key] = self._arrange(named)
        kept, shapes = self._kept[key], (self.arrangement.inside, self.arrangement.edge)
        shared = max(self.shared_bytes(shape, named["vx"].itemsize) for shape in shapes)
        self.program(named["vx"]).launch(
            self.kernel, (len(kept["tiles"]),), (shapes[0].threads,), named | kept, shared
        )

    def shared_bytes(self, shape: Shape, item: int) -> int:
        """Shared memory of a block: the slots, each array of them on 128 bytes, and two barriers for each."""
        sizes = (math.prod(box_size(box, shape, self.order, item)) * item for box in RING_BOXES[self.kernel])
        return self.arrangement.slots * (sum(-(-size // 128) * 128 for size in sizes) + 16)

    def program(self, field: Any) -> Any:
        """The compiled source; places in arrays of more than 2^32 elements need 64 bits."""
        memory = field.shape[0] * element_strides(field)[0]
        wide = "unsigned" if memory < 2**32 else "unsigned long long"
        defines = {"ORDER": self.order, "INDEX": wide} | self.arrangement.defines()
        return self.backend.program(PACKAGE, self.file, defines)

    def _arrange(self, named: dict[str, Any]) -> dict[str, Any]:
        field, halo = named["vx"], self.order // 2
        shape = tuple(count - 2 * halo for count in field.shape[::-1])
        coefficients = np.concatenate([named[name] for name in ("cx", "cy", "cz")]).astype(field.dtype)
        ranges = {
            axis: layer_ranges(self.backend, named, axis, nodes) for axis, nodes in zip("xyz", shape, strict=True)
        }
        arrangement = {
            "layout": pack_layout(field, halo),
            "coefficients": blob(coefficients.tobytes()),
            "layers": pack_layers(named, ranges),
            "tiles": self.backend.upload(self._tiles(list(ranges.values())), np.int32),
        }
        if self.arrangement.slots:
            arrangement["maps"] = self._maps(self.arrangement.inside, named)
            arrangement["edge_maps"] = self._maps(self.arrangement.edge, named)
        return arrangement

    def _tiles(self, ranges: list[Ranges]) -> np.ndarray:
        """In the order of memory: blocks at work at the same time share halos in the cache."""
        how = self.arrangement
        inner = inner_box(ranges, how.edge.columns)
        outer = shell(inner, [one.nodes for one in ranges])
        planes = inner[2][1] - inner[2][0] or ranges[2].nodes
        across = len(tile_box([*inner[:2], (0, 1)], how.inside, 1, False))
        across += sum(len(tile_box([*box[:2], (0, 1)], how.edge, 1, True)) for box in outer if box[2] == inner[2])
        chunk = chunk_planes(planes, across, self.backend.multiprocessors, how.chunk) if how.slots else how.chunk
        tiles = [tile_box(box, how.edge, chunk, True) for box in outer] + [tile_box(inner, how.inside, chunk, False)]
        table = np.concatenate(tiles)
        return table[np.lexsort((table[:, 0], table[:, 1], table[:, 2]))]

    def _maps(self, shape: Shape, named: dict[str, Any]) -> np.ndarray:
        return np.concatenate([self._map(box, shape, named[box.field]) for box in RING_BOXES[self.kernel]])

    def _map(self, box: Box, shape: Shape, array: Any) -> np.ndarray:
        """A map that begins at the first column of points; beyond the last the material is needed, fields are zero."""
        halo = self.order // 2
        points = array[:, :, halo:] if box.columns == 1 else array[:, :, halo:-halo]
        return self.backend.tensor_map(points, 0, box_size(box, shape, self.order, array.itemsize))


# --------------------------------------------------------------------------------------------- faces and points


class SmallKernels:
    """Kernels over faces, points and the surface."""

    def __init__(self, backend: Any, order: int) -> None:
        self.backend, self.halo = backend, order // 2
        self.defines = {"ORDER": order, "INDEX": "unsigned"}

    def _launch(
        self, file: str, kernel: str, size: tuple[int, ...], named: dict[str, Any], block: tuple[int, ...] = BLOCK
    ) -> None:
        """One thread for each of `size` = (columns, rows, planes) points."""
        if min(size) > 0:
            grid = tuple(-(-count // width) for count, width in zip(size, (*block, 1, 1), strict=False))
            self.backend.program(PACKAGE, file, self.defines).launch(kernel, grid, block, named)

    def _close(self, kernel: str, arguments: tuple[Any, ...]) -> None:
        named = named_arguments(kernel, arguments)
        face, (rows, columns) = pack_face(named["vn"], named)
        self._launch("boundary_kernels.cu", kernel, (columns, rows), named | {"face": face})

    def close_velocity(self, *arguments: Any) -> None:
        """See `boundary_kernels.close_velocity`."""
        self._close("close_velocity", arguments)

    def close_stress(self, *arguments: Any) -> None:
        """See `boundary_kernels.close_stress`."""
        self._close("close_stress", arguments)

    def hold(self, *arguments: Any) -> None:
        """See `boundary_kernels.hold`."""
        named = named_arguments("hold", arguments)
        face, (rows, columns) = pack_face(named["vt"], named)
        self._launch("boundary_kernels.cu", "hold", (columns, rows), named | {"face": face})

    def free_surface(self, *arguments: Any) -> None:
        """See `kernels.free_surface`."""
        named = named_arguments("free_surface", arguments)
        plane, pitch, _ = element_strides(named["szz"])
        _, rows, columns = (count - 2 * self.halo for count in named["szz"].shape)
        named |= {
            "first": named["plane"] * plane + self.halo * (pitch + 1), "rows": rows, "columns": columns, "pitch": pitch
        }  # fmt: skip
        self._launch("boundary_kernels.cu", "free_surface", (columns, rows), named)

    def inject(self, *arguments: Any) -> None:
        """See `point_kernels.inject`."""
        named = named_arguments("inject", arguments)
        count = named["target"].size
        named |= {"fields": pack_fields(named), "count": count, "sources": named["amplitude"].shape[1]}
        self._launch("point_kernels.cu", "inject", (count,), named, (64,))

    def count_step(self, row: Any) -> None:
        """See `point_kernels.count_step`."""
        self._launch("point_kernels.cu", "count_step", (1,), {"row": row}, (1,))

    def sample(self, *arguments: Any) -> None:
        """See `point_kernels.sample`; a warp has a point."""
        named = named_arguments("sample", arguments)
        count = named["begin"].size - 1
        points = max(1, count // named["out"].shape[1])
        named |= {"fields": pack_fields(named), "points": points, "count": count}
        self._launch("point_kernels.cu", "sample", (count * WARP,), named, (128,))

    def interpolate(self, *arguments: Any) -> None:
        """See `point_kernels.interpolate`."""
        named = named_arguments("interpolate", arguments)
        planes, rows, columns, components = named["out"].shape
        plane, pitch, _ = element_strides(named["field"])
        named |= {
            "planes": planes, "rows": rows, "columns": columns, "components": components, "pitch": pitch,
            "plane": plane,
        }  # fmt: skip
        self._launch("point_kernels.cu", "interpolate", (columns, rows, planes), named)

    def surface_peaks(self, *arguments: Any) -> None:
        """See `point_kernels.surface_peaks`."""
        named = named_arguments("surface_peaks", arguments)
        plane, pitch, _ = element_strides(named["vx"])
        _, rows, columns = named["displacement"].shape
        named |= {
            "first": named["plane"] * plane + named["halo"] * (pitch + 1), "rows": rows, "columns": columns,
            "lift_count": named["lift"].size, "pitch": pitch, "plane": plane,
        }  # fmt: skip
        self._launch("point_kernels.cu", "surface_peaks", (columns, rows), named)

    def largest_magnitude(self, *arguments: Any) -> None:
        """See `point_kernels.largest_magnitude`; a warp has one of the numbers."""
        named = named_arguments("largest_magnitude", arguments)
        named["count"] = named["vx"].shape[0] * element_strides(named["vx"])[0]
        self._launch("point_kernels.cu", "largest_magnitude", (named["out"].size * WARP,), named, (256,))


def make_kernels(backend: Any, order: int) -> SimpleNamespace:
    """The kernels of the finite differences on a CUDA device, to be called as those on the CPU."""
    small = SmallKernels(backend, order)
    found: dict[str, Callable[..., None]] = {name: getattr(small, name) for name in ARGUMENTS if hasattr(small, name)}
    found |= {name: GridUpdate(backend, name, order) for name in ("update_velocity", "update_stress")}
    return SimpleNamespace(**found)
