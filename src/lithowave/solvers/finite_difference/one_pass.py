"""Launch of `one_pass.cu`: velocity and stress in one pass, inside a box that no layer and no face touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.finite_difference.fields import FIELDS, LawFields
from lithowave.solvers.finite_difference.grid_update import (
    PACKAGE,
    columns_before,
    index_type,
    pack_coefficients,
    place_of_material,
    tensor_map,
)
from lithowave.solvers.finite_difference.packing import Scales, address, pack_law, pack_layout, pack_scales
from lithowave.solvers.finite_difference.tiles import Boxes, TileShape, pieces, share_material, tile_box

ONE_PASS_FILE = "one_pass.cu"
FEWEST_PLANES = 24  # of a part of a column of tiles
# In the order of `Maps` in one_pass.cu; additional rows beyond those of the tile with its velocities.
MAPS = (
    ("sxx", 0), ("sxy", 1), ("syy", 1), ("sxz", 0), ("syz", 1), ("szz", 0), ("vx", 0), ("vy", 0), ("vz", 0),
)  # fmt: skip


@dataclass(frozen=True)
class PassShape:
    """Tile of the pass; rows_of_thread; slots of the ring; planes by which a block may be ahead of others."""

    columns: int
    rows: int
    rows_of_thread: int
    slots: int
    slack: int

    def defines(self) -> dict[str, int]:
        """Return the definitions for compiling the source."""
        return {
            "OUT_X": self.columns, "OUT_Y": self.rows, "ROWS": self.rows_of_thread, "STAGES": self.slots,
            "SLACK": self.slack,
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


def pass_shape(law: LawFields) -> PassShape:
    """Return the tile of the pass for a law."""
    return (ATTENUATING_SHAPES if law.mechanisms else SHAPES)[law.name]


class OnePass:
    """Update of the velocity and stress of a box from one set of fields into another."""

    def __init__(
        self, backend: Any, order: int, scales: Scales, law: LawFields, equal_columns: bool = False
    ) -> None:
        self.equal_columns = equal_columns
        self.backend, self.order, self.reach, self.scales, self.law = backend, order, order // 2, scales, law
        self.shape = pass_shape(law)
        self.margin = 16 // backend.dtype.itemsize
        self.material_unit = 8 if scales else self.margin  # elements in 16 bytes
        self._kept: dict[tuple, dict[str, Any]] = {}

    def __call__(
        self,
        old: dict[str, Any],
        new: dict[str, Any],
        material: dict[str, Any],
        law: Sequence[Any],
        ratio: Any,
        coefficients: Any,
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
            if field.role == "density":  # for the tile with the velocities around it
                boxes[field.name] = (self.shape.columns + 2 * self.material_unit, tall + 1)
            else:
                more = int(field.neighbors)
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
        self, old: dict[str, Any], material: dict[str, Any], law: np.ndarray, coefficients: Any, box: Boxes
    ) -> dict[str, Any]:
        field = old["vx"]
        arrays, boxes = old | material, self._boxes()
        maps = [
            tensor_map(self.backend, arrays[name], self.reach, boxes[name], name in material)
            for name in (*(name for name, _ in MAPS), *material)
        ]
        shift = columns_before(field, self.reach)
        tiles = self._tiles(box, shift)
        if self.equal_columns:
            place = place_of_material(field, self.reach, boxes["density"], shift)
            rows, columns = (count - 2 * self.reach for count in field.shape[1:])
            tiles = share_material(tiles, place, columns, rows)
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
