"""Launches of the kernels on a CUDA device, and their packed arguments.

It contains arguments that are structures passed by value, packed as the CUDA sources declare them; `update_velocity`
and `update_stress`, with tiles and tensor maps that are created once per run (`GridUpdate`); `one_pass`, which computes
velocity and stress in one pass inside a box that no layer and no face touches (`OnePass`); and the kernels over faces
and points. All are called as on the CPU, with the argument lists of `kernels.py`.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.common.kernels import FEW, WARP, KernelLauncher, named_arguments
from lithowave.solvers.finite_difference.grid_plan import possible
from lithowave.solvers.finite_difference.kernels import ARGUMENTS
from lithowave.solvers.finite_difference.law import FIELDS, LAWS, LawFields
from lithowave.solvers.finite_difference.tiles import (
    DIRECT,
    UNIT,
    Boxes,
    LayerRanges,
    TileLayout,
    TileShape,
    around,
    chunk_planes,
    common,
    fill_sectors,
    inner_box,
    pieces,
    room_for_block,
    share_material,
    tile_box,
    tile_layouts,
    worthwhile,
)

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, DeviceArray, DeviceBackend
    from lithowave.solvers.common.kernels import Arguments
    from lithowave.solvers.finite_difference.law import Fields

# Scales (low, step) of the codes of each material array; None if the arrays hold values.
Scales = dict[str, tuple[float, float]] | None


def address(array: DeviceArray | np.ndarray) -> int:
    """Return the address of an array in device memory."""
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def element_strides(array: Array) -> tuple[int, ...]:
    """Return the strides of an array in elements."""
    return tuple(step // array.itemsize for step in array.strides)


def blob(packed: bytes) -> np.ndarray:
    """Return bytes as an array that the launch passes as a structure by value."""
    return np.frombuffer(packed, np.uint8)


def pack_layout(field: Array, halo: int) -> np.ndarray:
    """Return `Layout` of stencil.cuh."""
    planes, rows, columns = (count - 2 * halo for count in field.shape)
    plane, pitch, _ = element_strides(field)
    return blob(struct.pack("iiiiq", columns, rows, planes, pitch, plane))


def layer_ranges(backend: DeviceBackend, named: Arguments, axis: str, nodes: int) -> LayerRanges:
    """Return the nonzero ranges of the layers along an axis."""
    starts = tuple(int(start) for start in backend.download(named[f"{axis}_start"]))
    if not starts:
        return LayerRanges(nodes, 0, (), ())
    half, node = (backend.download(named[f"{axis}_{part}"]).reshape(3, len(starts), -1) for part in ("half", "node"))
    used = []
    for side, start in enumerate(starts):
        nonzero = np.flatnonzero((half[:, side] != 0).any(axis=0) | (node[:, side] != 0).any(axis=0))
        used.append((start + int(nonzero[0]), start + int(nonzero[-1]) + 1))
    ends = used[-1][1] == nodes and half[0, -1, -1] == 0  # the half node after the last node is outside the grid
    return LayerRanges(nodes, half.shape[2], starts, tuple(used), bool(ends))


def pack_layers(named: Arguments, ranges: dict[str, LayerRanges]) -> np.ndarray:
    """Return `LayerSet` of layers.cuh."""
    packed = b""
    for axis, found in ranges.items():
        pointers = (address(named[f"{axis}_{part}"]) for part in ("memory", "half", "node"))
        sides, used = len(found.starts), found.used
        middle = used[1][0] if sides == 2 else found.nodes
        if axis == "x":  # whole sectors of memory variables, where the profiles are zero, too
            used = tuple((start, min(start + found.depths, found.nodes)) for start in found.starts)
            middle = max(used[1][0], found.used[0][1]) if sides == 2 else middle
        starts = (*found.starts, 0, 0)[:2]
        (low, low_end), (high, high_end) = (*used, (0, 0), (0, 0))[:2]
        packed += struct.pack(
            "3Q10i", *pointers, sides, found.depths, middle, *starts, low, high, low_end, high_end, 0
        )
    return blob(packed)


def pack_scales(scales: Scales, *names: str) -> np.ndarray:
    """Return `Scale` of stencil.cuh for each of these material arrays; zeros unless they hold codes."""
    values = [float(value) for name in names for value in (scales[name] if scales else (0.0, 0.0))]
    return blob(struct.pack(f"{len(values)}f", *values))


def moduli_of(law: Sequence[Array], fields: LawFields) -> Fields:
    """Return the moduli in the argument `law` of a kernel by name."""
    first = len(fields.memory) + 3 if fields.mechanisms else 0
    return dict(zip(fields.moduli, law[first:], strict=False))


def pack_law(law: Sequence[Array], fields: LawFields, scales: Scales, after: Sequence[Array] = ()) -> np.ndarray:
    """Return `Law` of law.cuh: the moduli in the order of the table, then their scales, and `Memory` with attenuation.

    law : argument of the kernels. after : arrays for the updated memory variables; default: those in `law`.
    """
    if not fields.mechanisms:
        return np.concatenate([pack_fields(law), pack_scales(scales, *fields.moduli)])
    count = len(fields.memory)
    memory, (codes, part, unit) = law[:count], law[count : count + 3]
    moduli = list(moduli_of(law, fields).values())
    plane, pitch, _ = element_strides(codes)
    grid = codes.shape[0] // fields.mechanisms * plane
    packed = struct.pack("3q", grid, plane, pitch) + unit.tobytes().ljust(8, b"\0")
    pointers = pack_fields([*memory, *(after or memory), codes, part])
    return np.concatenate([pack_fields(moduli), pack_scales(scales, *fields.moduli), pointers, blob(packed)])


def pack_fields(fields: Sequence[Array]) -> np.ndarray:
    """Return a structure of pointers to arrays, as `Fields` of point_kernels.cu."""
    return blob(struct.pack(f"{len(fields)}Q", *map(address, fields)))


def signed(step: float) -> int:
    """Return a step that may have wrapped around as an unsigned integer."""
    return (int(step) + 2**63) % 2**64 - 2**63


def pack_face(field: Array, named: Arguments) -> tuple[np.ndarray, tuple[int, int]]:
    """Return `Face` of boundary_kernels.cu, and the rows and columns of the face."""
    strides = element_strides(field)

    def offset(steps: Sequence[int]) -> int:
        return sum(signed(step) * stride for step, stride in zip(steps, strides, strict=True))

    normal = next(axis for axis in range(3) if named["shape"][axis] == 1)
    over, along = (axis for axis in range(3) if axis != normal)
    rows, columns = named["shape"][over], named["shape"][along]
    places = [offset(named.get(name, named["first"])) for name in ("first", "half")]
    steps = [offset(named.get(name, (0, 0, 0))) for name in ("inward", "n", "t", "u")]
    reach = [0, 0, 0]
    if "node_change" in named:
        reach = [*named["node_change"].shape, named["half_change"].shape[1]]
    packed = struct.pack("8q6i", *places, *steps, strides[over], strides[along], rows, columns, *reach, 2 - normal)
    return blob(packed), (rows, columns)


def pack_box(field: Array, named: Arguments) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Return `Box` of boundary_kernels.cu, and its columns, rows and planes."""
    plane, pitch, _ = element_strides(field)
    x, x_end, y, y_end, z, z_end = named["box"]
    shape = (x_end - x, y_end - y, z_end - z)
    node = named["halo"] * (plane + pitch + 1)
    limits = named.get("limits", (0,) * 6)
    return blob(struct.pack("4q12i", node, pitch, plane, named["place"], x, y, z, *shape, *limits)), shape


PACKAGE = "lithowave.solvers.finite_difference"
LINE, SECTOR_BYTES = 128, 32  # bytes of a memory line, and of its parts
RING_FILE, DIRECT_FILE = "update_ring.cu", "update_direct.cu"


@dataclass(frozen=True)
class CopyBox:
    """Box of a field that is copied with each plane: columns (0: the tile's, 1: one more, 2: with both margins), and
    rows ("tall": those of the stencil, "more": one more, otherwise the tile's)."""

    field: str
    columns: int = 0
    rows: str = ""
    material: bool = False


# Boxes of the state, in the order of the maps in update_ring.cu, and the role of the material whose boxes follow.
STATE_BOXES = {
    "update_velocity": (
        CopyBox("sxx", 2), CopyBox("sxy", 2, "tall"), CopyBox("syy", 0, "tall"), CopyBox("sxz", 2),
        CopyBox("syz", 0, "tall"), CopyBox("szz"),
        CopyBox("vx"), CopyBox("vy"), CopyBox("vz"),
    ),
    "update_stress": (
        CopyBox("vx", 2, "tall"), CopyBox("vy", 2, "tall"), CopyBox("vz", 2, "tall"), CopyBox("sxx"), CopyBox("syy"),
        CopyBox("szz"), CopyBox("sxy"), CopyBox("sxz"), CopyBox("syz"),
    ),
}  # fmt: skip
MATERIAL_ROLE = {"update_velocity": "density", "update_stress": "modulus"}


def ring_boxes(kernel: str, law: LawFields) -> list[CopyBox]:
    """Return the boxes of a kernel in the order of the maps in update_ring.cu."""
    material = [field for field in law.material if field.role == MATERIAL_ROLE[kernel]]
    boxes = [CopyBox(field.name, *((1, "more") if field.neighbors else (0, "")), True) for field in material]
    return [*STATE_BOXES[kernel], *boxes]


def material_box(more: bool, item: int, count: int = 1) -> tuple[int, int]:
    """Return the columns and rows of a box with this number of columns and rows of material, or more, whose elements
    have `item` bytes. more : with neighbors."""
    return 16 // item * (count + more), count + more


def box_size(box: CopyBox, tile: TileShape, order: int, item: int, equal: bool = False) -> tuple[int, int]:
    """Return the columns and rows of a box whose elements have `item` bytes. equal : as in `TileLayout`."""
    if equal and box.material:
        return material_box(box.rows == "more", item, 2)
    columns = tile.columns + (0, 16 // item, 2 * ring_margin(order, item))[box.columns]
    return columns, tile.rows + {"": 0, "more": 1, "tall": order - 1}[box.rows]


def ring_margin(order: int, item: int) -> int:
    """Return the columns copied on either side of a tile: those of the stencil, in multiples of 16 bytes."""
    aligned = 16 // item
    return -(-(order // 2) // aligned) * aligned


def shared_bytes(kernel: str, law: LawFields, how: TileLayout, order: int, item: int, material_item: int) -> int:
    """Return the shared memory of a block: slots, with arrays aligned to 128 bytes, and two barriers per slot.

    item, material_item : bytes of a value of a field and of the material.
    """
    items = {box: material_item if box.material else item for box in ring_boxes(kernel, law)}

    def slot(shape: TileShape) -> int:
        sizes = (math.prod(box_size(box, shape, order, size, how.equal)) * size for box, size in items.items())
        return sum(-(-size // 128) * 128 for size in sizes) + 16

    return how.slots * max(slot(how.inside), slot(how.edge))


def ring_layout(
    kernel: str, precision: str, order: int, layered: bool, law: LawFields, compact: bool, edges: bool = False
) -> TileLayout:
    """Return the fastest layout for devices with a copy engine whose blocks fit into shared memory.

    edges : True if no tile is inside.
    """
    item = 4 if precision == "single" else 8
    material_item = 2 if compact else item
    strained = law.mechanisms > 0 and kernel == "update_stress"
    for layout in tile_layouts(precision, order, layered, edges, strained):
        kernels = (shared_bytes(kernel, law, layout, order, item, material_item) for kernel in STATE_BOXES)
        if max(kernels) <= room_for_block(layout):
            return layout
    raise ValueError(f"no tiles of the {law.name} law fit into shared memory: order {order}, {precision} precision")


def index_type(field: Array, law: LawFields) -> str:
    """Return the type of indices into a field or the memory variables of a law: 64 bits for 2^32 or more elements."""
    elements = field.shape[0] * element_strides(field)[0] * max(1, law.mechanisms)
    return "unsigned" if elements < 2**32 else "unsigned long long"


def pack_coefficients(named: Arguments, dtype: np.dtype) -> np.ndarray:
    """Return `Coefficients` of stencil.cuh."""
    return blob(np.concatenate([named[name] for name in ("cx", "cy", "cz")]).astype(dtype).tobytes())


def tensor_map(
    backend: DeviceBackend, array: Array, halo: int, size: tuple[int, int], beyond: bool = False,
    whole_lines: bool = True,
) -> np.ndarray:  # fmt: skip
    """Return a tensor map of boxes of this size that begins at the first column of points, with zeros for the halo.

    beyond : True if columns after the last one are needed, as for the material. whole_lines : see
    `lithowave.backends.cuda.tensor_map`.
    """
    return backend.tensor_map(array[:, :, halo:] if beyond else array[:, :, halo:-halo], 0, size, whole_lines)


def columns_before(field: Array, halo: int) -> int:
    """Return the columns by which the first memory line of a field begins before its first point."""
    return (address(field) + halo * field.itemsize) % LINE // field.itemsize


def place_of_material(field: Array, halo: int, size: tuple[int, int], shift: int) -> tuple[int, int] | None:
    """Return a column and a row at which the kernels read the material of all tiles that do not touch the far ends of a
    grid whose columns of material are all equal; None if the grid is too small.

    field : any field. size : columns and rows that a tile copies, after its first column and row. shift : see
    `columns_before`.
    """
    place, (_, rows, columns) = (UNIT - shift, 2 * halo), (count - 2 * halo for count in field.shape)
    return place if place[0] + size[0] <= columns and place[1] + size[1] <= rows else None


def equal_places(tiles: np.ndarray, columns: int, rows: int, unit: int) -> np.ndarray:
    """Return the column and the row at which each of these `Tile`s copies material in a grid whose columns of material
    are all equal: the first ones, and for tiles at the far ends the last ones but one, since the last ones have
    neighbors outside the grid. unit : columns in 16 bytes, at multiples of which a copy begins."""
    last = (columns - 2) // unit * unit, rows - 2
    return np.where(tiles[:, 3:5] == (columns, rows), last, 0)


class GridUpdate:
    """`update_velocity` or `update_stress` over the tiles of some boxes of the grid.

    The tiles and tensor maps of a launch are created at the first call for these arrays and cached, so that a later
    call can be captured in a graph.
    """

    def __init__(
        self, backend: DeviceBackend, kernel: str, order: int, scales: Scales, law: LawFields,
        equal_columns: bool = False,
    ) -> None:  # fmt: skip
        self.backend, self.kernel, self.order, self.scales, self.law = backend, kernel, order, scales, law
        self.equal_columns = equal_columns
        self.boxes = ring_boxes(kernel, law)
        self.material_item = 2 if scales else backend.dtype.itemsize
        self._kept: dict[tuple, tuple[TileLayout, Arguments]] = {}

    def __call__(self, *arguments: object) -> None:
        self.into({}, *arguments)

    def into(self, outputs: Fields, *arguments: object) -> None:
        """Perform the call, but write the results to `outputs` and leave the inputs unchanged."""
        named = named_arguments(ARGUMENTS, self.kernel, arguments)
        boxes = named.pop("boxes")
        key = (boxes.tobytes(), *(address(array) for array in (*(named[name] for name in FIELDS), *outputs.values())))
        if key not in self._kept:
            self._kept[key] = self._arrange(named, boxes, outputs)
        how, kept = self._kept[key]
        shared = 0
        if how.slots:
            shared = shared_bytes(self.kernel, self.law, how, self.order, named["vx"].itemsize, self.material_item)
        index = index_type(named["vx"], self.law)
        defines = {"ORDER": self.order, "INDEX": index, "COMPACT": int(bool(self.scales))}
        defines |= self.law.defines() | how.defines()
        program = self.backend.program(PACKAGE, RING_FILE if how.slots else DIRECT_FILE, defines)
        program.launch(self.kernel, (len(kept["tiles"]),), (how.inside.threads,), named | outputs | kept, shared)

    def _arrange(
        self, named: Arguments, boxes: np.ndarray, outputs: Fields
    ) -> tuple[TileLayout, Arguments]:
        field, halo = named["vx"], self.order // 2
        shift, shape = columns_before(field, halo), tuple(count - 2 * halo for count in field.shape[::-1])
        ranges = {
            axis: layer_ranges(self.backend, named, axis, nodes) for axis, nodes in zip("xyz", shape, strict=True)
        }
        layered = any(one.used for one in ranges.values())
        how, lines = DIRECT, list(ranges.values())
        if self.backend.copy_engine:
            traits = self.kernel, self.backend.precision, self.order, layered, self.law, bool(self.scales)
            how = ring_layout(*traits)
            if not self._sections(how, lines, boxes, shift)[0]:
                how = ring_layout(*traits, edges=True)
                how = replace(how, equal=self.equal_columns and how.inside == how.edge)
        kept = {
            "layout": pack_layout(field, halo),
            "coefficients": pack_coefficients(named, field.dtype),
            "layers": pack_layers(named, ranges),
        }
        tiles = self._tiles(how, lines, boxes, shift)
        if "law" in named:
            after = [outputs[name] for name in self.law.memory if name in outputs]
            kept["law"] = pack_law(named["law"], self.law, self.scales, after)
        else:
            kept["density_scale"] = pack_scales(self.scales, "density")
        if how.slots:
            if ranges["x"].ends:
                tiles = fill_sectors(tiles, shape[0], shift, SECTOR_BYTES // field.itemsize)
            if how.equal:
                tiles[:, 9:] = equal_places(tiles, *shape[:2], 16 // self.material_item)
            elif self.equal_columns:
                tiles = share_material(tiles, self._place_of_material(how, field, shift), *shape[:2])
            kept |= {"maps": self._maps(how, how.inside, named), "edge_maps": self._maps(how, how.edge, named)}
        return how, kept | {"tiles": self.backend.upload(tiles, np.int32)}

    def _place_of_material(self, how: TileLayout, field: Array, shift: int) -> tuple[int, int] | None:
        shapes = how.inside, how.edge
        size = max(one.columns for one in shapes) + 16 // self.material_item, max(one.rows for one in shapes) + 1
        return place_of_material(field, self.order // 2, size, shift)

    def _sections(
        self, how: TileLayout, ranges: list[LayerRanges], boxes: np.ndarray, shift: int
    ) -> tuple[list[Boxes], list[Boxes]]:
        """Return the sections of the boxes that are updated by inner tiles, and the others."""
        inner = inner_box(ranges, shift)
        inside, outside = [], []
        for box in boxes.reshape(-1, 3, 2).tolist():
            core = worthwhile(common(box, inner), how.inside)
            inside += [core] if core else []
            outside += around(core, box) if core else [box]
        return inside, outside

    def _tiles(self, how: TileLayout, ranges: list[LayerRanges], boxes: np.ndarray, shift: int) -> np.ndarray:
        """Return the tiles in memory order: concurrent blocks share halos in the cache."""
        inside, outside = self._sections(how, ranges, boxes, shift)
        across = 0
        for pieces_of, shape, layered in ((inside, how.inside, False), (outside, how.edge, True)):
            tall = (one for one in pieces_of if not inside or one[2] == inside[0][2])
            across += sum(len(tile_box([*one[:2], (0, 1)], shape, 1, layered, shift)) for one in tall)
        planes = max((end - first for _, _, (first, end) in inside or outside), default=1)
        chunk = how.chunk
        if how.slots:
            chunk = chunk_planes(planes, across, self.backend.multiprocessors * how.blocks, how.chunk)
        tiles = [np.zeros((0, 11), np.int32), *(tile_box(one, how.edge, chunk, True, shift) for one in outside)]
        table = np.concatenate(tiles + [tile_box(one, how.inside, chunk, False, shift) for one in inside])
        return table[np.lexsort((table[:, 0], table[:, 1], table[:, 2]))]

    def _maps(self, how: TileLayout, shape: TileShape, named: Arguments) -> np.ndarray:
        found = []
        arrays = named | moduli_of(named.get("law", ()), self.law)
        for box in self.boxes:
            array = arrays[box.field]
            size = box_size(box, shape, self.order, array.itemsize, how.equal)
            found.append(
                tensor_map(self.backend, array, self.order // 2, size, box.columns == 1, how.whole_lines)
            )
        return np.concatenate(found)


ONE_PASS_FILE = "one_pass.cu"
FEWEST_PLANES = 24  # of a part of a column of tiles
# In the order of `Maps` in one_pass.cu; additional rows beyond those of the tile with its velocities.
MAPS = (
    ("sxx", 0), ("sxy", 1), ("syy", 1), ("sxz", 0), ("syz", 1), ("szz", 0), ("vx", 0), ("vy", 0), ("vz", 0),
)  # fmt: skip


@dataclass(frozen=True)
class PassShape:
    """Tile of the pass; rows_of_thread; slots of the ring; planes by which a block may be ahead of others. equal : all
    columns of material are equal, and a block copies one of them."""

    columns: int
    rows: int
    rows_of_thread: int
    slots: int
    slack: int
    equal: bool = False

    def defines(self) -> dict[str, int]:
        """Return the definitions for compiling the source."""
        return {
            "OUT_X": self.columns, "OUT_Y": self.rows, "ROWS": self.rows_of_thread, "STAGES": self.slots,
            "SLACK": self.slack, "EQUAL": int(self.equal),
        }  # fmt: skip


# By law: more material leaves room for fewer rows or slots. With attenuation, the tile also contains memory variables.
SHAPES = {
    "isotropic": PassShape(32, 22, 2, 3, 4),
    "transverse": PassShape(32, 20, 2, 3, 4),
    "orthorhombic": PassShape(32, 22, 2, 2, 4),
}
ATTENUATING_SHAPES = {
    "isotropic": PassShape(32, 20, 2, 3, 4),
    "transverse": PassShape(32, 18, 2, 3, 4),
    "orthorhombic": PassShape(32, 20, 2, 2, 4),
}


# If all columns are equal, with the material of one column.
EQUAL_SHAPE, ATTENUATING_EQUAL_SHAPE = PassShape(32, 22, 2, 4, 3, True), PassShape(32, 22, 2, 3, 3, True)


def pass_shape(law: LawFields, equal: bool) -> PassShape:
    """Return the tile of the pass for a law. equal : all columns of material are equal."""
    if equal:
        return ATTENUATING_EQUAL_SHAPE if law.mechanisms else EQUAL_SHAPE
    return (ATTENUATING_SHAPES if law.mechanisms else SHAPES)[law.name]


class OnePass:
    """Update of the velocity and stress of a box from one set of fields into another."""

    def __init__(
        self, backend: DeviceBackend, order: int, scales: Scales, law: LawFields, equal_columns: bool = False
    ) -> None:
        self.equal_columns = equal_columns
        self.backend, self.order, self.reach, self.scales, self.law = backend, order, order // 2, scales, law
        self.shape = pass_shape(law, False)
        self.margin = 16 // backend.dtype.itemsize
        self.material_unit = 8 if scales else self.margin  # elements in 16 bytes
        self._kept: dict[tuple, Arguments] = {}

    def __call__(
        self,
        old: Fields,
        new: Fields,
        material: Fields,
        law: Sequence[Array],
        ratio: np.floating,
        coefficients: Sequence[np.ndarray],
        box: Boxes,
    ) -> None:
        """Advance from velocities and the stresses after them in `old` to those of the next step in `new`."""
        key = tuple(address(fields[name]) for fields in (old, new) for name in FIELDS)
        if key not in self._kept:
            after = [new[name] for name in self.law.memory]
            packed = pack_law(law, self.law, self.scales, after)
            self._kept[key] = self._arrange(old, material, packed, coefficients, box)
        kept = self._kept[key]
        index = index_type(old["vx"], self.law)
        defines = {"ORDER": self.order, "INDEX": index, "COMPACT": int(bool(self.scales))}
        defines |= self.law.defines() | self.shape.defines()
        program = self.backend.program(PACKAGE, ONE_PASS_FILE, defines)
        count = kept["reached"].size
        program.launch("clear_counts", (-(-count // 256),), (256,), {"reached": kept["reached"], "count": count})
        blocks = min(self._processors, kept["tile_count"])
        arguments = {name: new[name] for name in FIELDS} | kept | {"ratio": ratio}
        program.launch("one_pass", (blocks,), (self._threads(),), arguments, self._shared_bytes())

    @property
    def _processors(self) -> int:
        """Return the multiprocessors available to blocks: some may be reserved for concurrent work."""
        return self.backend.multiprocessors - self.backend.spared_multiprocessors

    def _threads(self) -> int:
        """Return the threads of a block: warps for the tile with its velocities, and one that fills the ring."""
        wide = (self.shape.columns + 2 * self.reach) * (self.shape.rows + 2 * self.reach)
        return 32 * (-(-wide // self.shape.rows_of_thread // 32) + 1)

    def _boxes(self) -> dict[str, tuple[int, int]]:
        """Return the columns and rows of each array that are copied."""
        wide, tall = self.shape.columns + 2 * self.margin, self.shape.rows + 2 * self.reach
        boxes = {name: (wide, tall + more * (2 * self.reach - 1)) for name, more in MAPS}
        for field in self.law.material:
            more = int(field.neighbors)
            if self.shape.equal:
                boxes[field.name] = material_box(field.neighbors, 16 // self.material_unit)
            elif field.role == "density":  # for the tile with the velocities around it
                boxes[field.name] = (self.shape.columns + 2 * self.material_unit, tall + 1)
            else:
                boxes[field.name] = (self.shape.columns + more * self.material_unit, self.shape.rows + more)
        return boxes

    def _shared_bytes(self) -> int:
        """Return the size of `Shared` of one_pass.cu."""

        item = self.backend.dtype.itemsize

        def aligned(count: int, size: int = item) -> int:
            return -(-count * size // 128) * 128

        wide = (self.shape.columns + 2 * self.reach) * (self.shape.rows + 2 * self.reach)
        material = {field.name for field in self.law.material}
        slot = sum(
            aligned(math.prod(size), 16 // self.material_unit if name in material else item)
            for name, size in self._boxes().items()
        )
        kept = aligned(2 * self.reach * 3 * wide) + aligned(self.reach * 3 * self.shape.columns * self.shape.rows)
        if self.law.mechanisms:  # memory variables, and the codes of the fractions
            tile = self.shape.columns * self.shape.rows
            kept += aligned(len(self.law.memory) * tile) + aligned(tile)
        barriers = 8 * (2 * self.shape.slots + self.reach)
        return self.shape.slots * slot + kept + -(-barriers // 128) * 128

    def _arrange(
        self, old: Fields, material: Fields, law: np.ndarray, coefficients: Sequence[np.ndarray], box: Boxes
    ) -> Arguments:
        field = old["vx"]
        rows, columns = (count - 2 * self.reach for count in field.shape[1:])
        shift = columns_before(field, self.reach)
        inside = box[0][1] < columns and box[1][1] < rows  # else the last points have neighbors outside the grid
        place = place_of_material(field, self.reach, material_box(True, 16 // self.material_unit), shift)
        self.shape = pass_shape(self.law, self.equal_columns and inside and place is not None)
        arrays, boxes = old | material, self._boxes()
        maps = [
            tensor_map(self.backend, arrays[name], self.reach, boxes[name], name in material)
            for name in (*(name for name, _ in MAPS), *material)
        ]
        tiles = self._tiles(box, shift)
        if self.shape.equal:
            tiles[:, 9:] = place
        planes = int((tiles[:, 5] - tiles[:, 2]).max()) + 4 * self.reach
        waves = -(-len(tiles) // self._processors)
        named = dict(zip(("cx", "cy", "cz"), coefficients, strict=True))
        return {
            "maps": np.concatenate(maps),
            "tiles": self.backend.upload(tiles, np.int32),
            "tile_count": len(tiles),
            "layout": pack_layout(field, self.reach),
            "density_scale": pack_scales(self.scales, "density"),
            "law": law,
            "coefficients": pack_coefficients(named, field.dtype),
            "reached": self.backend.zeros((waves * planes,), np.uint32),
            "planes_counted": planes,
        }

    def _tiles(self, box: Boxes, shift: int = 0) -> np.ndarray:
        """Return tiles that blocks take sequentially: rounds of one tile per processor through all planes, and the rest
        in parts along z that leave few processors idle."""
        shape, planes = TileShape(self.shape.columns, self.shape.rows), box[2][1] - box[2][0]
        columns = tile_box(box, shape, planes, False, shift)
        whole = len(columns) // self._processors * self._processors
        rest = len(columns) - whole

        def cost(parts: int) -> float:
            return -(-rest * parts // self._processors) * (-(-planes // parts) + 6 * self.reach)

        parts = min(range(1, max(1, planes // FEWEST_PLANES) + 1), key=cost)
        chunk = max(end - first for first, end in pieces(0, planes, -(-planes // parts)))
        divided = tile_box(box, shape, chunk, False, shift).reshape(-1, *columns.shape)[:, whole:]
        return np.concatenate([columns[:whole], divided.reshape(-1, columns.shape[1])])


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


def variants() -> Iterator[tuple[str, dict[str, str | int], tuple[int, int]]]:
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
        found = [*dict.fromkeys(layouts)]
        for layout in found + [replace(one, equal=True) for one in found if one.inside == one.edge]:
            yield RING_FILE, common | layout.defines(), (9, 0)
        if possible(precision, order, law):
            for equal in (False, True):
                yield ONE_PASS_FILE, common | pass_shape(law, equal).defines(), (9, 0)


# --------------------------------------------------------------------------------------------- faces and points


class SmallKernels(KernelLauncher):
    """Kernels over faces, points and the surface."""

    def __init__(self, backend: DeviceBackend, order: int, scales: Scales, law: LawFields) -> None:
        defines = {"ORDER": order, "INDEX": "unsigned", "COMPACT": int(bool(scales)), "FIELD_COUNT": len(FIELDS)}
        defines |= law.defines()
        super().__init__(backend, PACKAGE, ARGUMENTS, defines)
        self.halo, self.scales, self.law = order // 2, scales, law

    def _close(self, kernel: str, arguments: tuple[object, ...]) -> None:
        named = self.named(kernel, arguments)
        face, (rows, columns) = pack_face(named["vn"], named)
        named |= {"face": face} | self._material(named)
        depths = named["node_change"].shape[0]
        self.launch("boundary_kernels.cu", kernel, (columns, rows, depths), named, BLOCK)

    def _material(self, named: Arguments) -> dict[str, np.ndarray]:
        """Return the structures of the material arguments of a call."""
        if "law" in named:
            return {"law": pack_law(named["law"], self.law, self.scales)}
        return {"density_scale": pack_scales(self.scales, "density")}

    def close_velocity(self, *arguments: object) -> None:
        """See `kernels.close_velocity`."""
        self._close("close_velocity", arguments)

    def close_stress(self, *arguments: object) -> None:
        """See `kernels.close_stress`."""
        self._close("close_stress", arguments)

    def zero_on_face(self, *arguments: object) -> None:
        """See `kernels.zero_on_face`."""
        named = self.named("zero_on_face", arguments)
        face, (rows, columns) = pack_face(named["vt"], named)
        self.launch("boundary_kernels.cu", "zero_on_face", (columns, rows), named | {"face": face}, BLOCK)

    def free_surface(self, *arguments: object) -> None:
        """See `kernels.free_surface`."""
        named = self.named("free_surface", arguments)
        plane, pitch, _ = element_strides(named["szz"])
        _, rows, columns = (count - 2 * self.halo for count in named["szz"].shape)
        named |= {
            "first": named["plane"] * plane + self.halo * (pitch + 1), "rows": rows, "columns": columns, "pitch": pitch,
        }  # fmt: skip
        self.launch("boundary_kernels.cu", "free_surface", (columns, rows), named | self._material(named), BLOCK)

    def layer_differences(self, *arguments: object) -> None:
        """See `kernels.layer_differences`."""
        self._in_box("layer_differences", arguments)

    def add_layer_differences(self, *arguments: object) -> None:
        """See `kernels.add_layer_differences`."""
        self._in_box("add_layer_differences", arguments)

    def _in_box(self, kernel: str, arguments: tuple[object, ...]) -> None:
        named = self.named(kernel, arguments)
        box, shape = pack_box(named["field"], named)
        self.launch("boundary_kernels.cu", kernel, shape, named | {"box": box}, BLOCK)

    def pack(self, *arguments: object) -> None:
        """See `kernels.pack`."""
        self._copy("pack", arguments)

    def unpack(self, *arguments: object) -> None:
        """See `kernels.unpack`."""
        self._copy("unpack", arguments)

    def _copy(self, kernel: str, arguments: tuple[object, ...]) -> None:
        """Launch a row of blocks per box; few blocks, so that other work can run concurrently."""
        named = self.named(kernel, arguments)
        boxes, size = named["table"].shape[0], named["buffer"].size
        if boxes:
            blocks = min(COPY_BLOCKS, -(-size // (boxes * COPY_THREADS)))
            named |= {"fields": pack_fields(named["fields"])}
            self.launch("point_kernels.cu", kernel, (blocks * COPY_THREADS, boxes), named, (COPY_THREADS, 1))

    def inject(self, *arguments: object) -> None:
        """See `kernels.inject`."""
        named = self.named("inject", arguments)
        count = named["target"].size
        named |= {"fields": pack_fields(named["fields"]), "count": count, "sources": named["amplitude"].shape[1]}
        self.launch("point_kernels.cu", "inject", (count,), named, FEW)

    def inject_moments(self, *arguments: object) -> None:
        """See `kernels.inject_moments`; one block per brick."""
        named = self.named("inject_moments", arguments)
        plane, pitch, _ = element_strides(named["fields"][0])
        named |= {"fields": pack_fields(named["fields"]), "pitch": pitch, "plane": plane}
        program = self.backend.program(self.package, "point_kernels.cu", self.defines)
        program.launch("inject_moments", (named["brick"].shape[0],), (BRICK_THREADS,), named, STAGED_BYTES)

    def count_step(self, row: Array) -> None:
        """See `kernels.count_step`."""
        self.launch("point_kernels.cu", "count_step", (1,), {"row": row}, (1,))

    def sample(self, *arguments: object) -> None:
        """See `kernels.sample`; one warp per point."""
        named = self.named("sample", arguments)
        count = named["begin"].size - 1
        named |= {"fields": pack_fields(named["fields"]), "count": count}
        self.launch("point_kernels.cu", "sample", (count * WARP,), named, (128,))

    def interpolate(self, *arguments: object) -> None:
        """See `kernels.interpolate`."""
        named = self.named("interpolate", arguments)
        planes, rows, columns, components = named["out"].shape
        plane, pitch, _ = element_strides(named["field"])
        named |= {
            "planes": planes, "rows": rows, "columns": columns, "components": components, "pitch": pitch,
            "plane": plane,
        }  # fmt: skip
        self.launch("point_kernels.cu", "interpolate", (columns, rows, planes), named, BLOCK)

    def surface_peaks(self, *arguments: object) -> None:
        """See `kernels.surface_peaks`."""
        named = self.named("surface_peaks", arguments)
        plane, pitch, _ = element_strides(named["vx"])
        _, rows, columns = named["displacement"].shape
        named |= {
            "first": named["plane"] * plane + named["halo"] * (pitch + 1), "rows": rows, "columns": columns,
            "pitch": pitch, "plane": plane,
        }  # fmt: skip
        self.launch("point_kernels.cu", "surface_peaks", (columns, rows), named, BLOCK)

    def largest_magnitude(self, *arguments: object) -> None:
        """See `kernels.largest_magnitude`; one warp per value of `out`."""
        named = self.named("largest_magnitude", arguments)
        named["count"] = named["vx"].shape[0] * element_strides(named["vx"])[0]
        self.launch("point_kernels.cu", "largest_magnitude", (named["out"].size * WARP,), named)


def make_kernels(
    backend: DeviceBackend, order: int, scales: Scales = None, law: LawFields = LAWS["isotropic"],
    equal_columns: bool = False,
) -> SimpleNamespace:  # fmt: skip
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
