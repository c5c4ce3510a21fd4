"""Tiles of the GPU kernels of the grid: their shapes, and the tiles that cover the grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

# A box: (first, end) along x, y, z.
Boxes = Sequence[tuple[int, int]]


UNIT, SECTOR = 32, 8  # columns of a memory line, and of the parts of it that are read alone, in single precision


@dataclass(frozen=True)
class LayerRanges:
    """Layers along one axis on the host: nodes, depths of a side, for each side the first node of its profiles and the
    range of nodes where they are nonzero, and whether the last layer ends with the grid of all ranks."""

    nodes: int
    depths: int
    starts: tuple[int, ...]
    used: tuple[tuple[int, int], ...]
    ends: bool = False


@dataclass(frozen=True)
class TileShape:
    """Columns and rows of a tile, and the rows per thread."""

    columns: int
    rows: int
    rows_of_thread: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.columns * self.rows // self.rows_of_thread


@dataclass(frozen=True)
class TileLayout:
    """Tiles of an update: shapes of inner tiles and of tiles that touch a layer, with the same number of threads; the
    slots of the ring (0: no ring); the maximum planes of a tile; minimum blocks per multiprocessor; whether the
    second-level cache loads whole lines, see `tensor_map`. equal : no tile is inside, all columns of material are
    equal, and a block copies the material of a few of them."""

    inside: TileShape
    edge: TileShape
    slots: int
    chunk: int
    blocks: int = 1
    whole_lines: bool = True
    equal: bool = False

    def defines(self) -> dict[str, int]:
        """Return the definitions for compiling the source."""
        tile = {"TILE_X": self.inside.columns, "TILE_Y": self.inside.rows}
        if not self.slots:
            return tile | {"BLOCKS": self.blocks}
        edge = {"EDGE_X": self.edge.columns, "EDGE_Y": self.edge.rows, "EDGE_ROWS": self.edge.rows_of_thread}
        more = {"STAGES": self.slots, "BLOCKS": self.blocks, "EQUAL": int(self.equal)}
        return tile | edge | {"ROWS": self.inside.rows_of_thread} | more


# Measured on an H200; see docs/gpu.md. Neighbors that march through more planes drift apart and lose the cache. With
# layers, whose tiles wait for memory more often, two blocks share a multiprocessor if registers allow it.
RING = {
    ("single", 2): TileLayout(TileShape(64, 32, 4), TileShape(32, 16), 2, 64),
    ("single", 4): TileLayout(TileShape(64, 32, 4), TileShape(32, 16), 2, 64),
    ("single", 6): TileLayout(TileShape(128, 8, 2), TileShape(32, 16), 3, 64),
    ("single", 8): TileLayout(TileShape(128, 8, 2), TileShape(32, 16), 3, 64),
    ("double", 2): TileLayout(TileShape(128, 8, 4), TileShape(32, 8), 2, 64),
    ("double", 4): TileLayout(TileShape(128, 8, 4), TileShape(32, 8), 2, 64),
    ("double", 6): TileLayout(TileShape(64, 8), TileShape(64, 8), 3, 64),
    ("double", 8): TileLayout(TileShape(64, 8), TileShape(64, 8), 3, 64),
}
LAYERED_RING = {
    ("single", 2): TileLayout(TileShape(64, 8, 2), TileShape(32, 8), 3, 32, 2),
    ("single", 4): TileLayout(TileShape(64, 8, 2), TileShape(32, 8), 3, 32, 2),
    ("single", 6): TileLayout(TileShape(64, 16, 2), TileShape(32, 16), 3, 32),
    ("single", 8): TileLayout(TileShape(64, 16, 2), TileShape(32, 16), 3, 32),
    ("double", 2): TileLayout(TileShape(64, 16, 4), TileShape(64, 8, 2), 2, 32),
    ("double", 4): TileLayout(TileShape(64, 16, 4), TileShape(64, 8, 2), 2, 32),
    ("double", 6): TileLayout(TileShape(64, 8), TileShape(64, 8), 3, 32),
    ("double", 8): TileLayout(TileShape(64, 8), TileShape(64, 8), 3, 32),
}
# If no tile is inside, the kernels need fewer registers, and four blocks share a multiprocessor, or three if there are
# memory variables. The strips at both ends of x are one tile wide, so that no other block needs the rest of the lines
# that contain their halo.
EDGE_RING = {("single", order): TileLayout(TileShape(32, 8), TileShape(32, 8), 2, 28, 4, False) for order in (2, 4)}
SHARED_MEMORY, RESERVED = 233_472, 1024  # bytes of a multiprocessor, and those that the system takes for each block
FEWEST_PLANES = 16  # through which tiles march: filling their columns takes as many planes as the stencil has
DIRECT = TileLayout(TileShape(32, 8), TileShape(32, 8), 0, 32, 4)


def chunk_planes(planes: int, columns_of_tiles: int, processors: int, largest: int) -> int:
    """Return the planes that a block marches through, so that the last round of blocks leaves few processors idle."""
    fewest = -(-planes // largest)

    def cost(parts: int) -> tuple[float, int]:
        chunk = -(-planes // parts)
        rounds = math.ceil(max(1, columns_of_tiles) * -(-planes // chunk) / processors)
        return rounds * (chunk + 8), parts  # 8: filling the ring and the columns takes the time of some planes

    return -(-planes // min(range(fewest, max(fewest, planes // 8) + 1), key=cost))


def tile_layouts(
    precision: str, order: int, layered: bool, edges: bool = False, strained: bool = False
) -> Iterator[TileLayout]:
    """Yield layouts for devices with a copy engine, the fastest first, each with less shared memory than the previous.

    A law with many arrays leaves no room for the first. edges : True if no tile is inside. strained : True if the
    kernel updates memory variables, which need registers, as layers do.
    """
    if edges and (precision, order) in EDGE_RING:
        best = EDGE_RING[precision, order]
        yield from (replace(best, slots=slots, blocks=3) for slots in (3, 2)) if strained else (best,)
    best = (LAYERED_RING if layered or strained else RING)[precision, order]
    yield best
    if best.slots > 2:
        yield replace(best, slots=2)
    inside, edge = best.inside, best.edge
    if inside.rows_of_thread > 1:
        lower = replace(inside, rows=inside.rows // 2, rows_of_thread=inside.rows_of_thread // 2)
        yield from (replace(best, inside=lower, slots=slots) for slots in (3, 2))
    small = TileShape(inside.columns // 2, inside.rows // 2, inside.rows_of_thread)
    yield replace(best, inside=small, edge=TileShape(edge.columns, small.threads // edge.columns), slots=2)


def room_for_block(layout: TileLayout) -> int:
    """Return the bytes of shared memory that a block may use, if all blocks of a multiprocessor run concurrently."""
    return SHARED_MEMORY // layout.blocks - RESERVED


def pieces(first: int, end: int, size: int, even: bool = True) -> list[tuple[int, int]]:
    """Return ranges of at most `size` nodes, as equal as possible (`even`) or full except for the last."""
    if not even:
        return [(start, min(start + size, end)) for start in range(first, end, size)]
    count = -(-(end - first) // size)
    edges = [first + (end - first) * part // count for part in range(count + 1)] if count else []
    return list(itertools.pairwise(edges))


def tile_box(
    box: Sequence[tuple[int, int]], shape: TileShape, chunk: int, layered: bool, shift: int = 0
) -> np.ndarray:
    """Return `Tile`s that cover a box of (first, end), x fastest. Full tiles along x keep rows aligned; the first one
    begins at a memory line, `shift` columns before one of UNIT columns, and may begin before the box."""
    (x_first, x_end), *others = box
    start = (x_first + shift) // UNIT * UNIT - shift
    sides = [(start, max(x_end, start) if x_end > x_first else start), *others]
    sizes = ((shape.columns, False), (shape.rows, True), (chunk, True))
    ranges = [np.array(pieces(*side, *size), int).reshape(-1, 2) for side, size in zip(sides, sizes, strict=True)]
    z, y, x = (grid.ravel() for grid in np.indices([len(one) for one in ranges[::-1]]))
    chosen = [one[place] for one, place in zip(ranges, (x, y, z), strict=True)]
    firsts, ends = (np.stack([one[:, side] for one in chosen], axis=1) for side in range(2))
    rest = np.broadcast_to([[int(layered), x_first]], (x.size, 2))
    return np.hstack([firsts, ends, rest, ends[:, :1], firsts[:, :2]]).astype(np.int32)


def fill_sectors(tiles: np.ndarray, columns: int, shift: int, sector: int) -> np.ndarray:
    """Return `Tile`s that also set the padding after the last column of the grid to zero, up to the end of a sector:
    the device would read the rest of a sector that it does not write as a whole.

    shift : columns by which the first memory line begins before the grid. sector : its columns.
    """
    last = tiles[:, 3] == columns
    tiles[last, 8] = -(-(columns + shift) // sector) * sector - shift
    return tiles


def share_material(tiles: np.ndarray, place: tuple[int, int] | None, columns: int, rows: int) -> np.ndarray:
    """Return `Tile`s that copy the material at one place of a grid whose columns of material are all equal, so that
    it stays in the cache; except those at the far ends, whose last points have neighbors outside the grid.

    place : column and row; None if the columns differ.
    """
    inside = (tiles[:, 3] < columns) & (tiles[:, 4] < rows)
    if place is not None:
        tiles[inside, 9:] = place
    return tiles


def whole_lines(sides: tuple[int, int], end: int, shift: int, unit: int = UNIT) -> tuple[int, int]:
    """Return a range of columns without incomplete memory lines at its sides, except at column 0 and at `end`.

    shift : columns of the first line before column 0. unit : columns of a line.
    """
    low = -(-(sides[0] + shift) // unit) * unit - shift if sides[0] else 0
    high = sides[1] if sides[1] == end else (sides[1] + shift) // unit * unit - shift
    return low, high


def line_shift(low: int, high: int, columns: int) -> int:
    """Return the columns by which the first memory line begins before the grid, so that the strips of incomplete lines
    beside a box inside the grid touch the fewest lines.

    low, high : columns of the grid at both ends of a row that are not in the box.
    """
    if not low or low + high >= columns:
        return 0

    def cost(shift: int) -> tuple[int, int]:
        first, end = whole_lines((low, columns - high), columns, shift)
        lines = -(-(first + shift) // UNIT) + -(-(columns - end) // UNIT)
        return lines, first + columns - end

    return min(range(0, UNIT, SECTOR), key=cost)


def inner_box(ranges: Sequence[LayerRanges], shift: int = 0) -> list[tuple[int, int]]:
    """Return the box that no layer touches, along x without incomplete memory lines; empty ranges if no points
    remain."""
    found = []
    for axis, one in enumerate(ranges):
        low = max((end for first, end in one.used if first == 0), default=0)
        high = min((first for first, end in one.used if first > 0), default=one.nodes)
        if axis == 0:
            low, high = whole_lines((low, high), one.nodes, shift)
        found.append((low, max(low, high)))
    return found if all(first < end for first, end in found) else [(0, 0)] * 3


def shell(inner: Sequence[tuple[int, int]], shape: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return boxes around the inner box: planes below and above, rows at its height, the rest at its sides."""
    x, y, z = inner
    nx, ny, nz = shape
    boxes = [[(0, nx), (0, ny), sides] for sides in ((0, z[0]), (z[1], nz))]
    boxes += [[(0, nx), sides, z] for sides in ((0, y[0]), (y[1], ny))]
    boxes += [[sides, y, z] for sides in ((0, x[0]), (x[1], nx))]
    return [box for box in boxes if all(first < end for first, end in box)]


def around(inner: Boxes, outer: Boxes) -> list[list[tuple[int, int]]]:
    """Return boxes that cover the points of `outer` not in `inner`, which is inside it or empty."""
    if any(first >= end for first, end in inner):
        return [list(outer)]
    firsts = [first for first, _ in outer]
    moved = [(first - start, end - start) for (first, end), start in zip(inner, firsts, strict=True)]
    return [
        [(first + start, end + start) for (first, end), start in zip(box, firsts, strict=True)]
        for box in shell(moved, [end - first for first, end in outer])
    ]


def common(one: Boxes, other: Boxes) -> list[tuple[int, int]]:
    """Return the intersection of two boxes; the end of an empty range is not before its beginning."""
    return [(max(first, start), min(end, stop)) for (first, end), (start, stop) in zip(one, other, strict=True)]


def worthwhile(box: Boxes, tile: TileShape) -> Boxes | None:
    """Return the box, or None if it is thinner than the large tiles inside a grid."""
    least = (tile.columns, tile.rows, FEWEST_PLANES)
    return box if all(end - first >= size for (first, end), size in zip(box, least, strict=True)) else None
