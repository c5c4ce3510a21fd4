r"""Points off the grid: weights that spread a source over the grid and read a receiver from it.

Along each axis the weights are a sinc in a Kaiser window of 8 points (Hicks 2002, Geophysics 67, 156-165, r = 4,
b = 6.31), with the smallest change that makes polynomials up to degree 3 exact. Within six cells of a free or rigid
face they are those of polynomials through 6 or 4 points: the window of a source would reach into the near field of the
face, and weights that are shifted inward become large and read the near field of a source. A value that is known to
vanish on a face counts as one of the points.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.solvers.finite_difference.fields import FIELDS, STAGGER
from lithowave.solvers.finite_difference.surface_reading import (
    DEEP,
    Block,
    FreeSurface,
    outer,
    polynomial_weights,
    read_horizontal,
    read_vertical,
)

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.interface_reading import InterfaceReading

HALF_WIDTH = 4
KAISER = 6.31
NEAR_FACE = 6.0  # cells from a closed face within which the weights are polynomials
AT_NODE = 1e-6  # cells within which an interface is at the outermost node


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


@dataclass(frozen=True)
class Ends:
    """Properties of the two ends of a line of points.

    half : 1 if the points are half nodes, whose faces are half a cell beyond the first and the last. closed : True for
    ends at free or rigid faces. zero : True for ends where the field is known to vanish.
    """

    half: int = 0
    closed: tuple[bool, bool] = (False, False)
    zero: tuple[bool, bool] = (False, False)


OPEN = Ends()


def line_weights(
    position: float, first: int, last: int, ends: Ends = OPEN, balanced: bool = False,
    kinks: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return contiguous indices and weights that read a smooth function at `position` from its values at first .. last.

    first, last : integers. balanced : True for equal sums of the weights at even and odd indices, except near a face.
    kinks : positions where the slope of the function jumps, NaN for none; they are not considered near a face.
    """  # fmt: skip
    nearest = round(position)
    if not balanced and abs(position - nearest) < 1e-9 and first <= nearest <= last:
        return np.array([nearest]), np.array([1.0])
    depths = (position - first + 0.5 * ends.half, last - position + 0.5 * ends.half)
    side = min((0, 1), key=lambda end: depths[end] if ends.closed[end] else np.inf)
    if not ends.closed[side] or depths[side] >= NEAR_FACE:
        return _sinc_weights(position, first, last, balanced, kinks)
    if side == 1:  # mirrored, so that the face is at the low end
        index, weight = _weights_near_face(last - position, last - first, ends.half, depths[1], ends.zero[1])
        return (last - index)[::-1], weight[::-1]
    index, weight = _weights_near_face(position - first, last - first, ends.half, depths[0], ends.zero[0])
    return first + index, weight


def _weights_near_face(
    position: float, last: int, half: int, depth: float, zero: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of a polynomial through some of the points 0 .. last, and of the face if the field vanishes there.

    Half nodes have 6 points, which represent sources of shear stress best at all depths; nodes have 4 within `DEEP`
    cells of the face, since those near the face act on it with the exponential of their own depth.
    """
    if zero and half:
        index, weight = polynomial_weights(position, np.concatenate([[-0.5], np.arange(last + 1)]), 4)
        inside = index > 0
        return index[inside] - 1, weight[inside]
    return polynomial_weights(position, np.arange(last + 1.0), 6 if half or depth >= DEEP else 4)


def _sinc_weights(
    position: float, first: int, last: int, balanced: bool, kinks: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of the windowed sinc; exact up to degree 5 if they are balanced or shifted inward at an absorbing
    end."""
    start = int(np.floor(position)) - HALF_WIDTH + 1
    moved = min(max(start, first), max(last - 2 * HALF_WIDTH + 1, first))
    index = np.arange(moved, min(moved + 2 * HALF_WIDTH, last + 1))
    bends = None
    if kinks is not None and moved == start:
        reached = kinks[(kinks > index[0] + AT_NODE) & (kinks < index[-1] - AT_NODE)]
        bends = reached[None] if reached.size else None
    return index, windowed_sinc(index[None], np.array([position]), 3 if moved == start else 5, balanced, bends)[0]


def windowed_sinc(
    index: np.ndarray, position: np.ndarray, degree: int, balanced: bool, kinks: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights (n, m) of points at integers `index` (n, m) for positions (n,).

    The weights are those of a sinc in a Kaiser window, with the smallest change that makes polynomials up to a degree
    (5 if they are balanced) exact; with kinks (n, k), positions between the points, cubic polynomials, and functions
    whose slope jumps at a kink.
    """
    distance = index - position[:, None]
    inside = np.abs(distance) < HALF_WIDTH
    envelope = np.i0(KAISER * np.sqrt(np.where(inside, 1 - (distance / HALF_WIDTH) ** 2, 0.0))) / np.i0(KAISER)
    weight = np.where(inside, np.sinc(distance) * envelope, 0.0)
    degree = min(5 if balanced and kinks is None else degree, index.shape[1] - 1)
    # Minimum change in a norm that favors changes of near points: w += E A^T (A E A^T)^-1 (e_0 - A w).
    freedom = 1.0 / (1.0 + distance[:, None] ** 2) ** 2
    powers = (distance[:, None] / HALF_WIDTH) ** np.arange(degree + 1)[:, None]
    if balanced and degree < index.shape[1] - 1:
        powers = np.concatenate([powers, (-1.0) ** index[:, None]], axis=1)
    if kinks is not None:
        away = np.sign(kinks - position[:, None])[..., None]  # the source is where these functions vanish
        ramps = np.maximum(np.where(away == 0, 1.0, away) * (index[:, None] - kinks[..., None]), 0.0)
        powers = np.concatenate([powers, ramps / np.linalg.norm(ramps, axis=2, keepdims=True)], axis=1)
    missing = -powers @ weight[..., None]
    missing[:, 0] += 1.0
    changes = np.linalg.solve((powers * freedom) @ powers.swapaxes(1, 2), missing)
    return weight + (freedom * (changes.swapaxes(1, 2) @ powers))[:, 0]


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
    ) -> None:
        self.balanced = balanced
        self.grid, self.halo, self.line_volume, self.strides = grid, halo, line_volume, strides
        self.faces, self.surface = faces, surface
        self.present = [(first, first + count) for first, count in zip(grid.first, grid.shape, strict=True)]
        self.own = own or self.present

    def receivers(
        self, field: str, positions: np.ndarray, clearance: np.ndarray | None = None,
        sides: InterfaceReading | None = None,
    ) -> PointWeights:  # fmt: skip
        """Return weights that read a field at positions (n, 3), m.

        clearance : cells from each position to the nearest source; None without sources. sides : of interfaces near
        these positions; None without interfaces.
        """
        cells = np.full(len(positions), np.inf) if clearance is None else clearance
        blocks = (
            self._reading(field, position, number, sides, cells[number]) for number, position in enumerate(positions)
        )
        return self._joined(blocks, self.own, as_source=False)

    def sources(self, field: str, positions: np.ndarray, sides: InterfaceReading | None = None) -> PointWeights:
        """Return weights, 1/m^3, that spread a unit point source at positions (n, 3), m, over a field.

        A force on a velocity acts on the points that a receiver reads. See `moments` for moment tensors.
        """
        blocks = (self._reading(field, position, number, sides) for number, position in enumerate(positions))
        return self._joined(blocks, self.present, as_source=True)

    def may_read(self, position: np.ndarray) -> bool:
        """True if a receiver at this position may read own nodes of this subdomain."""
        reach = 2 * HALF_WIDTH + self.halo + 1
        places = (self.grid.whole.index(axis, position[axis]) for axis in range(3))
        return all(first - reach <= place < end + reach for place, (first, end) in zip(places, self.own, strict=True))

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

    def _reading(
        self, field: str, position: np.ndarray, number: int, sides: InterfaceReading | None, clearance: float = np.inf
    ) -> list[Block]:
        """Return the blocks of weights that read a field at a position, m."""
        place = np.array([self.grid.whole.index(axis, position[axis]) for axis in range(3)])
        surface, top = self.surface, self.grid.whole.shape[2] - 1
        if surface is None or field[0] != "v" or top - place[2] >= NEAR_FACE:
            beside = sides is not None and bool(sides.present[number])
            kinks = sides.kinks[number] if sides is not None and beside else None
            block = self._block(field, place, self.balanced and field[0] == "s", kinks)
            return sides.blocks(block, number) if sides is not None and beside else [block]
        if field == "vz":
            lines = [self._line(field, axis, place) for axis in (0, 1)]
            return read_vertical(surface, lines, top - place[2], top, clearance)
        block = self._block(field, place)
        return [block, *read_horizontal(surface, block, top)]

    def _block(
        self, field: str, place: np.ndarray, balanced: bool = False, kinks: np.ndarray | None = None
    ) -> Block:
        lines = [self._line(field, axis, place, balanced) for axis in (0, 1)]
        return outer(field, *lines, self._line(field, 2, place, balanced, kinks))

    def _line(
        self, field: str, axis: int, place: np.ndarray, balanced: bool = False, kinks: np.ndarray | None = None
    ) -> tuple[int, np.ndarray]:
        """Return the first index and weights along an axis, for a position in grid spacings from node 0."""
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
        index, weight = line_weights(place[axis] - 0.5 * half, 0, last, ends, balanced, kinks)
        return int(index[0]), weight

    def _joined(self, points: Iterator[list[Block]], ranges: NodeRanges, as_source: bool) -> PointWeights:
        """Concatenate the entries of the blocks of all points in these ranges of nodes; those of sources per volume."""
        fields, indices, weights, begin = [], [], [], [0]
        for blocks in points:
            for block in blocks:
                index, weight = self._entries(block, ranges, as_source)
                fields.append(np.full(index.size, FIELDS.index(block.field), np.int64))
                indices.append(index)
                weights.append(weight)
            begin.append(begin[-1] + sum(index.size for index in indices[len(indices) - len(blocks) :]))
        joined = [np.concatenate([np.zeros(0, kind), *parts]) for kind, parts in (
            (np.int64, fields), (np.int64, indices), (float, weights),
        )]  # fmt: skip
        return PointWeights(*joined, np.array(begin, np.int64))

    def _entries(self, block: Block, ranges: NodeRanges, as_source: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices in the flattened field and the nonzero weights of a block."""
        index, weight = np.zeros(1, np.int64), block.weight
        for axis in (2, 1, 0):
            half = STAGGER[block.field][axis]
            line = block.first[axis] + np.arange(block.weight.shape[2 - axis])
            if as_source:
                inside = np.clip(line, 0, self.grid.whole.shape[axis] - 1)
                volume = self.line_volume[axis][half][inside] * self.grid.whole.spacing
                weight = weight / volume.reshape([-1 if 2 - axis == place else 1 for place in range(3)])
            first, end = ranges[axis]
            here = (line >= first) & (line < min(end, self.grid.whole.shape[axis] - half))
            weight = np.compress(here, weight, axis=2 - axis)
            offset = (line[here] - self.grid.first[axis] + self.halo) * self.strides[axis]
            index = (index[:, None] + offset[None, :]).ravel()
        used = np.flatnonzero(weight)
        return index[used], weight.ravel()[used]
