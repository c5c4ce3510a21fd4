r"""Points off the grid: weights that spread a source over the grid and read a receiver from it.

The weights are products of those along the axes (`line_weights`).

In the coarse mode of attenuation, a moment acts with equal weights on points with even and odd indices along each axis
(*balanced* weights, except along the normal of a near face), because strains and stresses vary within a cube of eight
nodes: a source at one node would have a wrong amplitude, by a part of the order 1/Q. Stresses are read in the same way.

Beside an interface the weights along z are exact for a jump of the slope there, and stresses along the interface are
those of one side (`interface_reading.py`). `surface_reading.py` describes how velocities are read at a free surface. A
force uses the weights of a receiver divided by the volume of the grid points (at a closed face: its quadrature
weights), which makes forces and receivers exact adjoints of each other: reciprocity holds up to round-off, also at the
surface.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lithowave.backends.host_threads import parts_in_order
from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.solvers.finite_difference.fields import FIELDS, STAGGER
from lithowave.solvers.finite_difference.line_weights import (
    CLEARANCES,
    HALF_WIDTH,
    NEAR_FACE,
    Ends,
    Lines,
    line_weights,
)
from lithowave.solvers.finite_difference.surface_reading import (
    Blocks,
    FreeSurface,
    outer,
    points_along_z,
    read_horizontal,
    read_vertical,
)

AT_SURFACE = 1.5  # cells from the free surface
AT_ONCE = 512  # positions whose weights are computed together, so that they remain in the cache


class Sides(Protocol):
    """How points beside interfaces are read: see `interface_reading.InterfaceReading`."""

    present: np.ndarray
    kinks: np.ndarray

    def blocks(self, blocks: Blocks) -> list[Blocks]: ...


@dataclass(frozen=True)
class PointWeights:
    """Weights of many points: values of the flattened field number `field` at `index`, of point p from begin[p]."""

    field: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    begin: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """Index of the point that owns each entry."""
        return np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin))


def nearest_distances(positions: np.ndarray, others: np.ndarray, reach: float) -> np.ndarray:
    """Return the distances (n,) of positions (n, 3) from the nearest of other positions (m, 3); infinite beyond
    `reach`. The loop is over the smaller set."""
    found = np.full(len(positions), np.inf)
    swapped = len(positions) < len(others)
    few, many = (positions, others) if swapped else (others, positions)
    order = np.argsort(many[:, 0], kind="stable")
    many = many[order]
    firsts, ends = (np.searchsorted(many[:, 0], few[:, 0] + step) for step in (-reach, reach))
    for number in np.flatnonzero(firsts < ends):
        some = slice(firsts[number], ends[number])
        distances = np.linalg.norm(many[some] - few[number], axis=1)
        rows = number if swapped else order[some]
        found[rows] = np.minimum(found[rows], distances.min() if swapped else distances)
    return np.where(found < reach, found, np.inf)


class PointStencil:
    """Weights for fields on a grid or subdomain (there only for its nodes).

    Parameters
    ----------
    grid : the grid or subdomain of the field arrays.
    halo : cells around it in the field arrays.
    line_volume : for each axis (weights of nodes, weights of half nodes) of the global grid in grid spacings: 1 except
    at closed faces.
    strides : strides in elements along x, y and z in the field arrays.
    faces : kind of each face of the global grid, ``x_min`` .. ``z_max``.
    surface : method of reading velocities at the free surface, at the top; None without one.
    own : nodes of the global grid that only this rank reads for receivers; None for all.
    balanced : True if moments and readings of stress have balanced weights.
    receiver_positions : of all receivers, (m, 3), m, near which sources have fewer points.
    """

    def __init__(
        self,
        grid: Grid,
        halo: int,
        line_volume: list[tuple[np.ndarray, np.ndarray]],
        strides: tuple[int, int, int],
        faces: dict[str, str],
        surface: FreeSurface | None = None,
        own: NodeRanges | None = None,
        balanced: bool = False,
        receiver_positions: np.ndarray | None = None,
    ) -> None:
        self.balanced = balanced
        self.grid, self.halo, self.line_volume, self.strides = grid, halo, line_volume, strides
        self.faces, self.surface = faces, surface
        self.present = [(first, first + count) for first, count in zip(grid.first, grid.shape, strict=True)]
        self.own = own or self.present
        receivers = np.zeros((0, 3)) if receiver_positions is None else receiver_positions
        self._deep_receivers = receivers[~self._at_surface(self._places(receivers))]

    def receivers(
        self, fields: Sequence[str], positions: np.ndarray, clearance: np.ndarray | None = None,
        sides: Sides | None = None,
    ) -> PointWeights:  # fmt: skip
        """Return weights that read fields at positions (n, 3), m; point p of field f is number f n + p.

        clearance : cells from each position to the nearest source; None without sources. sides : of interfaces near
        these positions; None without interfaces.
        """
        return self._weights(fields, positions, clearance, sides, self.own, as_source=False)

    def sources(self, field: str, positions: np.ndarray, sides: Sides | None = None) -> PointWeights:
        """Return weights, 1/m^3, that spread a unit point source at positions (n, 3), m, over a field.

        A force on a velocity acts on the points that a receiver reads. See `moments` for moment tensors.
        """
        return self._weights([field], positions, self.from_receivers(positions), sides, self.present, as_source=True)

    def from_receivers(self, positions: np.ndarray) -> np.ndarray:
        """Return the cells (n,) from sources at positions (n, 3), m, to the nearest receiver that is not at the free
        surface; infinite if far away."""
        spacing = self.grid.whole.spacing
        return nearest_distances(positions, self._deep_receivers, CLEARANCES[-1] * spacing) / spacing

    def may_read(self, positions: np.ndarray) -> np.ndarray:
        """True (n,) if receivers at these positions (n, 3), m, may read own nodes of this subdomain."""
        return self._reach(self._places(positions), self.own)

    def nodes(self, index: np.ndarray) -> np.ndarray:
        """Return the nodes (entries, 3) of the global grid, along x, y and z, at indices in a flattened field."""
        _, pitch, plane = self.strides
        local = np.stack([index % plane % pitch, index % plane // pitch, index // plane], axis=-1)
        return local - self.halo + np.array(self.grid.first)

    def volumes(self, field: str, nodes: np.ndarray) -> np.ndarray:
        """Return the volumes (entries,), m^3, of a field's points at nodes (entries, 3)."""
        lines = [volumes[half] for volumes, half in zip(self.line_volume, STAGGER[field], strict=True)]
        parts = [line[nodes[:, axis]] for axis, line in enumerate(lines)]
        return np.prod(parts, axis=0) * self.grid.whole.spacing**3

    def is_own(self, nodes: np.ndarray) -> np.ndarray:
        """True for nodes (entries, 3) that only this rank owns."""
        low, end = np.array(self.own).T
        return ((nodes >= low) & (nodes < end)).all(axis=1)

    def lie_in(self, index: np.ndarray, boxes: Sequence[NodeRanges]) -> np.ndarray:
        """Select the indices in a flattened field that are points of one of some boxes (first, end along x, y, z)."""
        _, pitch, plane = self.strides
        places = (index % plane % pitch, index % plane // pitch, index // plane)
        found = np.zeros(index.shape, bool)
        for box in boxes:
            inside = np.ones(index.shape, bool)
            for place, (first, end) in zip(places, box, strict=True):
                inside &= (place >= first + self.halo) & (place < end + self.halo)
            found |= inside
        return found

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Return positions (n, 3), m, in grid spacings from node 0 of the global grid."""
        whole = self.grid.whole
        return (positions.reshape(-1, 3) - np.array(whole.origin)) / whole.spacing

    def _at_surface(self, places: np.ndarray) -> np.ndarray:
        """True (n,) for places (n, 3), in grid spacings, that are read by the method of `surface_reading`, which does
        not require fewer points."""
        shallow = self.grid.whole.shape[2] - 1 - places[:, 2] < AT_SURFACE
        return shallow & (self.surface is not None)

    def _reach(self, places: np.ndarray, ranges: NodeRanges) -> np.ndarray:
        """True (n,) if weights of places (n, 3), in grid spacings, may include nodes in these ranges."""
        reach, (low, end) = 2 * HALF_WIDTH + self.halo + 1, np.array(ranges).T
        return ((places >= low - reach) & (places < end + reach)).all(axis=1)

    def _weights(
        self, fields: Sequence[str], positions: np.ndarray, clearance: np.ndarray | None,
        sides: Sides | None, ranges: NodeRanges, as_source: bool,
    ) -> PointWeights:  # fmt: skip
        """Return the weights of fields at positions (n, 3), m, in ranges of nodes; those of sources per volume."""
        places = self._places(positions)
        cells = np.full(len(places), np.inf) if clearance is None else clearance
        reaching = np.flatnonzero(self._reach(places, ranges))
        counts, found = np.zeros((len(fields), len(places)), np.int64), _Entries()
        for number, field in enumerate(fields):

            def entries(part: slice, field: str = field) -> tuple[slice, list[np.ndarray]]:
                blocks = self._reading(field, places, reaching[part], cells, sides)
                return part, self._joined(blocks, reaching[part], ranges, as_source)

            for part, (sizes, *parts) in parts_in_order(entries, reaching.size, AT_ONCE):
                counts[number, reaching[part]] = sizes
                found.append(parts, (number + part.stop / reaching.size) / len(fields))
        return PointWeights(*found.arrays(), np.concatenate([[0], np.cumsum(counts)]))

    def _reading(
        self, field: str, places: np.ndarray, numbers: np.ndarray, clearance: np.ndarray,
        sides: Sides | None,
    ) -> Iterator[Blocks]:  # fmt: skip
        """Yield the blocks of weights that read a field at places[numbers], in cells; those of a place in order."""
        surface, top, velocity = self.surface, self.grid.whole.shape[2] - 1, field[0] == "v"
        place, cells, balanced = places[numbers], clearance[numbers], self.balanced and not velocity
        apart = np.where(self._at_surface(place), np.inf, cells)
        depth = top - place[:, 2]
        shallow = (depth < NEAR_FACE) & (velocity and surface is not None)
        beside = ~shallow & (False if sides is None else sides.present[numbers])
        kinks = None
        if sides is not None and beside.any():
            kinks = np.where(beside[:, None], sides.kinks[numbers], np.nan)
        x, y = (self._lines(field, axis, place[:, axis], balanced, None, apart) for axis in (0, 1))
        z = self._lines(field, 2, place[:, 2], balanced, kinks, apart)
        special = shallow & (field == "vz")
        along_z = np.where(special, points_along_z(depth), z.count)
        for rows in _groups(x.count, y.count, along_z, shallow, beside):
            owner, first = numbers[rows], rows[0]
            if surface is not None and special[first]:
                yield from read_vertical(surface, owner, x[rows], y[rows], depth[rows], top, cells[rows])
                continue
            blocks = outer(field, owner, x[rows], y[rows], z[rows])
            yield from sides.blocks(blocks) if sides is not None and beside[first] else [blocks]
            if surface is not None and shallow[first]:
                yield from read_horizontal(surface, blocks, top)

    def _lines(
        self, field: str, axis: int, place: np.ndarray, balanced: bool, kinks: np.ndarray | None, cells: np.ndarray
    ) -> Lines:
        """Return the weights along an axis for positions (n,) in grid spacings from node 0; see `line_weights`."""
        half = STAGGER[field][axis]
        kinds = [self.faces[f"{AXES[axis]}_{side}"] for side in ("min", "max")]
        vanishing = "rigid" if field[0] == "v" else "free"  # velocities, or tractions, at half nodes next to the face
        ends = Ends(
            half,
            tuple(kind != "absorbing" for kind in kinds),
            tuple(half == 1 and kind == vanishing for kind in kinds),
        )
        last = self.grid.whole.shape[axis] - 1 - half
        kinks = None if kinks is None else kinks - 0.5 * half
        return line_weights(place - 0.5 * half, last, ends, balanced, kinks, cells)

    def _joined(
        self, blocks: Iterator[Blocks], numbers: np.ndarray, ranges: NodeRanges, as_source: bool
    ) -> list[np.ndarray]:
        """Return the number of entries of the places with these numbers (n,), ascending, in ranges of nodes, and their
        fields, indices and weights, in order of places."""
        parts, ends = [], np.zeros(numbers.size, np.int64)
        for block in blocks:
            row, (index, weight) = np.searchsorted(numbers, block.owner), self._entries(block, ranges, as_source)
            used = weight != 0.0
            parts.append((FIELDS.index(block.field), row, ends[row], index, weight, used))
            ends[row] += np.count_nonzero(used, axis=1)
        begin, total = np.cumsum(ends) - ends, int(ends.sum())
        fields, indices, weights = np.empty(total, np.uint8), np.empty(total, np.int64), np.empty(total)
        for field, row, before, index, weight, used in parts:
            place = np.arange(used.shape[1]) if used.all() else np.cumsum(used, axis=1, dtype=np.int32) - 1
            place = (begin[row] + before)[:, None] + place
            if not used.all():
                place, index, weight = place[used], index[used], weight[used]
            fields[place], indices[place], weights[place] = field, index, weight
        return [ends, fields, indices, weights]

    def _entries(self, blocks: Blocks, ranges: NodeRanges, as_source: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices in the flattened field and the weights (m, entries) of blocks; 0 outside the ranges."""
        weight, index = blocks.weight, np.zeros((1, 1, 1, 1), np.int64)
        for axis in range(3):
            half, shape = STAGGER[blocks.field][axis], [-1, 1, 1, 1]
            line = blocks.first[:, axis, None] + np.arange(weight.shape[3 - axis])
            shape[3 - axis] = line.shape[1]
            if as_source:
                inside = np.clip(line, 0, self.grid.whole.shape[axis] - 1)
                volume = self.line_volume[axis][half][inside] * self.grid.whole.spacing
                weight = weight / volume.reshape(shape)
            first, end = ranges[axis]
            here = (line >= first) & (line < min(end, self.grid.whole.shape[axis] - half))
            if not here.all():
                weight = weight * here.reshape(shape)
            index = index + ((line - self.grid.first[axis] + self.halo) * self.strides[axis]).reshape(shape)
        size = math.prod(weight.shape[1:])
        return index.reshape(-1, size), weight.reshape(-1, size)


class _Entries:
    """Field, index and weight of entries, in arrays that grow by the expected total: parts that are joined at the end
    would be in memory twice."""

    def __init__(self) -> None:
        self._size, self._columns = 0, [np.empty(0, kind) for kind in (np.int64, np.int64, np.float64)]

    def append(self, parts: Sequence[np.ndarray], share: float) -> None:
        """Append entries; share : the fraction of all points up to the last one of these."""
        size, end = self._size, self._size + parts[0].size
        if end > self._columns[0].size:
            for number, column in enumerate(self._columns):
                self._columns[number] = np.empty(int(1.05 * end / share), column.dtype)
                self._columns[number][:size] = column[:size]
        for column, part in zip(self._columns, parts, strict=True):
            column[size:end] = part
        self._size = end

    def arrays(self) -> list[np.ndarray]:
        """Return the three arrays."""
        return [column[: self._size] for column in self._columns]


def _groups(*keys: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows with equal values of all keys (n,)."""
    _, number = np.unique(np.stack(keys), axis=1, return_inverse=True)
    order = np.argsort(number, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
