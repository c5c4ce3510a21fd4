"""`update_velocity` and `update_stress` on a CUDA device: tiles and tensor maps, created once per run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.common.kernel_arguments import named_arguments
from lithowave.solvers.finite_difference.arguments import ARGUMENTS
from lithowave.solvers.finite_difference.fields import FIELDS, LawFields
from lithowave.solvers.finite_difference.packing import (
    Scales,
    address,
    blob,
    element_strides,
    layer_ranges,
    moduli_of,
    pack_law,
    pack_layers,
    pack_layout,
    pack_scales,
)
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
    room_for_block,
    share_material,
    tile_box,
    tile_layouts,
    worthwhile,
)

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
    boxes = (CopyBox(field.name, 1, "more") if field.neighbors else CopyBox(field.name) for field in material)
    return [*STATE_BOXES[kernel], *boxes]


def box_size(box: CopyBox, tile: TileShape, order: int, item: int) -> tuple[int, int]:
    """Return the columns and rows of a box whose elements have `item` bytes."""
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
    material = {field.name for field in law.material}
    items = {box: material_item if box.field in material else item for box in ring_boxes(kernel, law)}

    def slot(shape: TileShape) -> int:
        sizes = (math.prod(box_size(box, shape, order, size)) * size for box, size in items.items())
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
    # Memory variables need registers, as layers do.
    strained = law.mechanisms > 0 and kernel == "update_stress"
    for layout in tile_layouts(precision, order, layered or strained, edges):
        kernels = (shared_bytes(kernel, law, layout, order, item, material_item) for kernel in STATE_BOXES)
        if max(kernels) <= room_for_block(layout):
            return layout
    raise ValueError(f"no tiles of the {law.name} law fit into shared memory: order {order}, {precision} precision")


def index_type(field: Any, law: LawFields) -> str:
    """Return the type of indices into a field or the memory variables of a law: 64 bits for 2^32 or more elements."""
    elements = field.shape[0] * element_strides(field)[0] * max(1, law.mechanisms)
    return "unsigned" if elements < 2**32 else "unsigned long long"


def pack_coefficients(named: dict[str, Any], dtype: np.dtype) -> np.ndarray:
    """Return `Coefficients` of stencil.cuh."""
    return blob(np.concatenate([named[name] for name in ("cx", "cy", "cz")]).astype(dtype).tobytes())


def tensor_map(
    backend: Any, array: Any, halo: int, size: tuple[int, int], beyond: bool = False, whole_lines: bool = True
) -> np.ndarray:
    """Return a tensor map of boxes of this size that begins at the first column of points, with zeros for the halo.

    beyond : True if columns after the last one are needed, as for the material. whole_lines : see
    `lithowave.backends.tensor_map.tensor_map`.
    """
    return backend.tensor_map(array[:, :, halo:] if beyond else array[:, :, halo:-halo], 0, size, whole_lines)


def columns_before(field: Any, halo: int) -> int:
    """Return the columns by which the first memory line of a field begins before its first point."""
    return (address(field) + halo * field.itemsize) % LINE // field.itemsize


def place_of_material(field: Any, halo: int, size: tuple[int, int], shift: int) -> tuple[int, int] | None:
    """Return a column and a row at which the kernels read the material of all tiles that do not touch the far ends of a
    grid whose columns of material are all equal; None if the grid is too small.

    field : any field. size : columns and rows that a tile copies, after its first column and row. shift : see
    `columns_before`.
    """
    place, (_, rows, columns) = (UNIT - shift, 2 * halo), (count - 2 * halo for count in field.shape)
    return place if place[0] + size[0] <= columns and place[1] + size[1] <= rows else None


class GridUpdate:
    """`update_velocity` or `update_stress` over the tiles of some boxes of the grid.

    The tiles and tensor maps of a launch are created at the first call for these arrays and cached, so that a later
    call can be captured in a graph.
    """

    def __init__(
        self, backend: Any, kernel: str, order: int, scales: Scales, law: LawFields, equal_columns: bool = False
    ) -> None:
        self.backend, self.kernel, self.order, self.scales, self.law = backend, kernel, order, scales, law
        self.equal_columns = equal_columns
        self.boxes = ring_boxes(kernel, law)
        self.material_item = 2 if scales else backend.dtype.itemsize
        self._kept: dict[tuple, tuple[TileLayout, dict[str, Any]]] = {}

    def __call__(self, *arguments: Any) -> None:
        self.into({}, *arguments)

    def into(self, outputs: dict[str, Any], *arguments: Any) -> None:
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
        self, named: dict[str, Any], boxes: np.ndarray, outputs: dict[str, Any]
    ) -> tuple[TileLayout, dict[str, Any]]:
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
            if self.equal_columns:
                tiles = share_material(tiles, self._place_of_material(how, field, shift), *shape[:2])
            kept |= {"maps": self._maps(how, how.inside, named), "edge_maps": self._maps(how, how.edge, named)}
        return how, kept | {"tiles": self.backend.upload(tiles, np.int32)}

    def _place_of_material(self, how: TileLayout, field: Any, shift: int) -> tuple[int, int] | None:
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

    def _maps(self, how: TileLayout, shape: TileShape, named: dict[str, Any]) -> np.ndarray:
        found = []
        arrays = named | moduli_of(named.get("law", ()), self.law)
        for box in self.boxes:
            array = arrays[box.field]
            size = box_size(box, shape, self.order, array.itemsize)
            found.append(
                tensor_map(self.backend, array, self.order // 2, size, box.columns == 1, how.whole_lines)
            )
        return np.concatenate(found)
