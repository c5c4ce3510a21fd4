r"""Weights of points along one axis of the grid.

The weights are a sinc in a Kaiser window of 8 points (Hicks 2002, Geophysics 67, 156-165, r = 4, b = 6.31), with the
smallest change that makes polynomials up to degree 3 exact. Within six cells of a free or rigid face they are those of
polynomials through 6 or 4 points: the window of a source would reach into the near field of the face, and weights that
are shifted inward become large and read the near field of a source. A value that is known to vanish on a face counts as
one of the points.

For the same reason, a source and a receiver near each other have fewer points (`CLEARANCES`): the lobes of eight points
reach from one to the other along the axes of the grid, where the field of a shear couple is smallest, and so do those
of six points below a face.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

HALF_WIDTH = 4
WIDTH = 2 * HALF_WIDTH
KAISER = 6.31
NEAR_FACE = 6.0  # cells from a closed face within which the weights are polynomials
DEEP = 4.0  # cells from a face from which nodes are read from 6 points instead of 4
# Cells between a source and a receiver below which they have 4 or 6 points, and half nodes near a face 4.
CLEARANCES = (4.5, 7.0, 9.0)
POINTS = (4, 6, WIDTH, WIDTH)
FEWEST_BALANCED = 6  # balanced weights of 4 points change waves of 7 points per wavelength by 8%
AT_NODE = 1e-6  # cells within which an interface is at the outermost node


@dataclass(frozen=True)
class Lines:
    """Weights of n positions at contiguous points of an axis.

    first : (n,) index of the first point. count : (n,) number of points. weight : (n, WIDTH), zero after the last one.
    """

    first: np.ndarray
    count: np.ndarray
    weight: np.ndarray

    @classmethod
    def empty(cls, size: int) -> Lines:
        """Return lines without points."""
        return cls(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros((size, WIDTH)))

    def __getitem__(self, rows: np.ndarray) -> Lines:
        return Lines(self.first[rows], self.count[rows], self.weight[rows])

    def used(self) -> np.ndarray:
        """Return the weights (n, count) without zeros after the last one; all counts are equal."""
        return self.weight[:, : int(self.count.max(initial=0))]

    def set(self, rows: np.ndarray, first: np.ndarray, weight: np.ndarray) -> None:
        """Set the lines of some rows to equally many points: first (n,), weight (n, count)."""
        count = weight.shape[1]
        self.first[rows], self.count[rows], self.weight[rows, :count] = first, count, weight


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
    position: np.ndarray, last: int, ends: Ends = OPEN, balanced: bool = False, kinks: np.ndarray | None = None,
    clearance: np.ndarray | None = None,
) -> Lines:
    """Return the weights that read a smooth function at positions (n,) from its values at the points 0 .. last.

    balanced : True for equal sums of the weights at even and odd indices, except near a face. kinks : (n, m) positions
    where the slope of the function jumps, NaN for none; they are not considered near a face. clearance : (n,) cells
    between source and receiver, infinite by default; not considered beside a kink.
    """  # fmt: skip
    cells = np.full(position.size, np.inf) if clearance is None else clearance
    zone = np.searchsorted(CLEARANCES, cells, side="right")
    if kinks is None:
        pairs, number = np.unique(position + 1j * zone, return_inverse=True)
        return _line_weights(pairs.real, last, ends, balanced, None, pairs.imag.astype(int))[number]
    zone = np.where(np.isnan(kinks).all(axis=1), zone, len(CLEARANCES))
    return _line_weights(position, last, ends, balanced, kinks, zone)


def _line_weights(
    position: np.ndarray, last: int, ends: Ends, balanced: bool, kinks: np.ndarray | None, zone: np.ndarray
) -> Lines:
    """Return the weights of `line_weights`; zone : (n,) number of `CLEARANCES` that are exceeded."""
    found, nearest = Lines.empty(position.size), np.rint(position)
    on_node = (np.abs(position - nearest) < 1e-9) & (nearest >= 0) & (nearest <= last) & (not balanced)
    found.set(np.flatnonzero(on_node), nearest[on_node].astype(np.int64), np.ones((np.count_nonzero(on_node), 1)))
    depth = np.stack([position, last - position]) + 0.5 * ends.half
    depth[~np.array(ends.closed)] = np.inf
    side, near = depth.argmin(axis=0), depth.min(axis=0) < NEAR_FACE
    for one in np.unique(zone):
        some = np.flatnonzero(~on_node & ~near & (zone == one))
        _set_sinc(found, some, position, last, balanced, kinks, max(POINTS[one], FEWEST_BALANCED * balanced))
    for end in range(2):
        some = np.flatnonzero(~on_node & near & (side == end))
        _set_near_face(found, some, position[some], last, ends, end, zone[some] < len(CLEARANCES))
    return found


def _set_near_face(
    found: Lines, rows: np.ndarray, position: np.ndarray, last: int, ends: Ends, end: int, close: np.ndarray
) -> None:
    """Set the lines of positions near the face at one end: polynomials through some of the points, and the face if the
    field vanishes there.

    Half nodes have 6 points, which represent sources of shear stress best at all depths, and 4 if a receiver is close;
    nodes have 4 within `DEEP` cells of the face, since those near the face act on it with the exponential of their own
    depth.
    """
    distance, points = last - position if end else position, np.arange(last + 1.0)
    if ends.zero[end] and ends.half:
        first, weight = polynomial_weights(distance, np.append(-0.5, points), 4)
        inner = first > 0
        parts = [(rows[inner], first[inner] - 1, weight[inner]), (rows[~inner], first[~inner], weight[~inner, 1:])]
    else:
        few = close if ends.half else distance < DEEP
        parts = [
            (rows[some], *polynomial_weights(distance[some], points, count)) for some, count in ((few, 4), (~few, 6))
        ]
    for chosen, first, weight in parts:
        if end:  # the distances are mirrored
            first, weight = last - first - weight.shape[1] + 1, weight[:, ::-1]
        found.set(chosen, first, weight)


def polynomial_weights(position: np.ndarray, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index (n,) and the weights (n, count) of polynomials through the `count` ascending points
    nearest to positions (n,)."""
    count = min(count, len(points))
    start = np.searchsorted(points, position, side="right") - (count + 1) // 2
    start = np.clip(start, 0, len(points) - count)
    chosen = points[start[:, None] + np.arange(count)]
    differences = chosen[:, :, None] - chosen[:, None] + np.eye(count)
    distance = (position[:, None] - chosen)[:, None]
    factors = np.where(np.eye(count, dtype=bool), 1.0, distance / differences)
    return start, factors.prod(axis=2)


def _set_sinc(
    found: Lines, rows: np.ndarray, position: np.ndarray, last: int, balanced: bool, kinks: np.ndarray | None,
    points: int,
) -> None:
    """Set the lines of the windowed sinc; exact up to degree 5 if they are balanced, shifted inward at an absorbing
    end, or have fewer points."""
    start = np.floor(position[rows]).astype(np.int64) - points // 2 + 1
    first = np.clip(start, 0, max(last - points + 1, 0))
    nodes = np.arange(min(points, last + 1))
    for moved, degree in ((False, 3 if points == WIDTH else 5), (True, 5)):
        some = np.flatnonzero((first != start) == moved)
        reached = None if moved or kinks is None else kinks[rows[some]]
        for part, among in _kinks_between(first[some], nodes[-1], reached):
            one = some[part]
            index = first[one, None] + nodes
            found.set(rows[one], first[one], windowed_sinc(index, position[rows[one]], degree, balanced, among))


def _kinks_between(
    first: np.ndarray, reach: int, kinks: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the rows with equally many kinks between the points first .. first + reach, and these kinks (rows, m)."""
    if kinks is None:
        yield np.arange(first.size), None
        return
    start = first[:, None]
    between = (kinks > start + AT_NODE) & (kinks < start + reach - AT_NODE)
    counts = between.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        yield rows, kinks[rows][between[rows]].reshape(-1, count) if count else None


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
    fewer = balanced and index.shape[1] < WIDTH
    degree = min(5 if balanced and kinks is None else degree, index.shape[1] - 1 - fewer)
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
