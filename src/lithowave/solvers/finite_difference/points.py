r"""Points off the grid: weights that spread a source over the grid and read a receiver from it.

**Weights of points along one axis of the grid.** The weights are a sinc in a Kaiser window of 8 points (Hicks 2002,
Geophysics 67, 156-165, r = 4, b = 6.31), with the smallest change that makes polynomials up to degree 3 exact. Within
six cells of a free or rigid face they are those of polynomials through 6 or 4 points: the window of a source would
reach into the near field of the face, and weights that are shifted inward become large and read the near field of a
source. A value that is known to vanish on a face counts as one of the points.

For the same reason, a source and a receiver near each other have fewer points (`CLEARANCES`): the lobes of eight points
reach from one to the other along the axes of the grid, where the field of a shear couple is smallest, and so do those
of six points below a face.

**Velocities at a free surface, read from grid points on it and below.** Half nodes of vz are half a cell below the
surface. The vanishing traction gives the slope of vz there,

.. math:: \partial_z v_z = -r\,(\partial_x v_x + \partial_y v_y), \qquad r = \lambda / (\lambda + 2\mu)

(in an anisotropic medium c13 / c33 with the derivative along x, and c23 / c33 with that along y), so that a polynomial
through two half nodes reads vz from points within a cell and a half,

.. math:: v_z(0) = \tfrac98 v_z(-\tfrac12) - \tfrac18 v_z(-\tfrac32) - \tfrac38 h r\,(\partial_x v_x + \partial_y v_y),

where the weights of eight half nodes would reach into the near field of a shallow source.

The closures of the stencils (`coefficients.py`) underestimate waves and static fields at the surface by about (k h)^2 /
15 and (k h)^2 / 20, with k the horizontal wavenumber. These factors follow from comparison with a grid that is six
times finer, for P and S waves and static fields of wavelengths down to six cells and vp/vs from 1.75 to 4; orders 4, 6
and 8 differ little. The correction is

.. math:: v_h \mathrel{-}= \tfrac{h^2}{15} \nabla_h (\nabla_h \cdot v_h), \qquad
    v_z \mathrel{-}= \tfrac{h^2}{20} \nabla_h^2 v_z .

The field of a source a few cells away is not resolved below the surface, so that fewer points are used there: the
correction of vz is reduced (`Gains`), and within `NEAR_SOURCE` cells only the uppermost half nodes are read,

**Weights of points** are products of those along the axes (`line_weights`).

In the coarse mode of attenuation, a moment acts with equal weights on points with even and odd indices along each axis
(*balanced* weights, except along the normal of a near face), because strains and stresses vary within a cube of eight
nodes: a source at one node would have a wrong amplitude, by a part of the order 1/Q. Stresses are read in the same way.

Beside an interface the weights along z are exact for a jump of the slope there, and stresses along the interface are
those of one side (`interfaces.py`). `points.py` describes how velocities are read at a free surface. A
force uses the weights of a receiver divided by the volume of the grid points (at a closed face: its quadrature
weights), which makes forces and receivers exact adjoints of each other: reciprocity holds up to round-off, also at the
surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lithowave.backends.loops import parts_in_order
from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.solvers.finite_difference.law import FIELDS, STAGGER

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


NEAR_SOURCE = 3.0  # cells
HERMITE = (9.0 / 8.0, -1.0 / 8.0, -3.0 / 8.0)  # of the first two half nodes and of h times the upward slope
LINEAR = (1.0, 0.0, -1.0 / 2.0)
SECOND = (-1.0, 2.0, -1.0)  # second difference, negative


@dataclass(frozen=True)
class Blocks:
    """Weights of boxes of points of a field, one box of the same shape for each of m positions.

    owner : (m,) index of the position. first : (m, 3) first indices along x, y, z. weight : (m, planes, rows, columns).
    """

    field: str
    owner: np.ndarray
    first: np.ndarray
    weight: np.ndarray

    def moved(self, field: str, shift: tuple[int, int, int], weight: np.ndarray) -> Blocks:
        """Return blocks of a field whose first points are shifted along x, y, z, with other weights."""
        return Blocks(field, self.owner, self.first + np.array(shift), weight)


@dataclass(frozen=True)
class Gains:
    """Strength of the correction of velocities at the surface.

    horizontal, vertical : factors of h^2. start : cells from a source up to which vz is not corrected; the correction
    is complete two cells further.
    """

    horizontal: float
    vertical: float
    start: float

    def vertical_at(self, clearance: np.ndarray | float) -> np.ndarray | float:
        """Return the factor of vz at these distances, in cells, from the nearest source."""
        return self.vertical * np.clip((clearance - self.start) / 2.0, 0.0, 1.0)


# At order 2 dispersion is larger than the correction. Orders 6 and 8 use a slightly larger distance.
GAINS = {
    2: Gains(0.0, 0.0, 0.0),
    4: Gains(1 / 15, 1 / 20, 2.5),
    6: Gains(1 / 15, 1 / 20, 1.5),
    8: Gains(1 / 15, 1 / 20, 1.0),
}


@dataclass(frozen=True)
class FreeSurface:
    """Data for reading velocities at the free surface.

    ratios : function of the node indices (..., columns) along x and (..., rows) along y that returns c13 / c33 and
    c23 / c33 there, (2, ..., rows, columns). coefficients : coefficients of the stencil. shape : nodes of the global
    grid along x and y.
    """

    ratios: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    gains: Gains
    shape: tuple[int, int]


def outer(field: str, owner: np.ndarray, x: Lines, y: Lines, z: Lines) -> Blocks:
    """Return the blocks whose weights are products of those along the axes; all lines of an axis have equal counts."""
    first = np.stack([x.first, y.first, z.first], axis=1)
    return Blocks(field, owner, first, z.used()[:, :, None, None] * _flat(x, y)[:, None])


def _flat(x: Lines, y: Lines) -> np.ndarray:
    """Return the products (n, rows, columns) of the weights along x and y."""
    return y.used()[:, :, None] * x.used()[:, None]


def read_horizontal(surface: FreeSurface, blocks: Blocks, top: int) -> list[Blocks]:
    """Return the corrections of the weights of vx or vy on the plane of the surface, the last one of nodes.

    For vx: -h^2 gain d_x (d_x vx + d_y vy); vy likewise.
    """
    plane, gain = top - blocks.first[:, 2], surface.gains.horizontal
    some = (plane >= 0) & (plane < blocks.weight.shape[1])
    some &= _has_room(surface, blocks.field, blocks.first, blocks.weight.shape[2:])
    if gain == 0.0 or not some.any():
        return []
    plane, first = plane[some], blocks.first[some]
    first[:, 2] = top
    flat = Blocks(blocks.field, blocks.owner[some], first, blocks.weight[some, plane][:, None])
    weight = gain * flat.weight
    if blocks.field == "vx":
        second = flat.moved("vx", (-1, 0, 0), _convolved(weight, (1.0,), SECOND))
        return [second, flat.moved("vy", (0, -1, 0), _convolved(weight, (-1.0, 1.0), (1.0, -1.0)))]
    second = flat.moved("vy", (0, -1, 0), _convolved(weight, SECOND, (1.0,)))
    return [second, flat.moved("vx", (-1, 0, 0), _convolved(weight, (1.0, -1.0), (-1.0, 1.0)))]


def read_vertical(
    surface: FreeSurface, owner: np.ndarray, x: Lines, y: Lines, depth: np.ndarray, top: int, clearance: np.ndarray
) -> list[Blocks]:
    """Return the blocks that read vz at depths (n,), in cells, from equally many points.

    x, y : lines along x and y. top : plane of the surface; half node n of z is half a cell above plane n. clearance :
    (n,) cells to the nearest source.
    """
    points = np.concatenate([[0.0], 0.5 + np.arange(top)])
    index, weights = polynomial_weights(depth, points, int(points_along_z(depth[:1])[0]))
    flat = Blocks("vz", owner, np.stack([x.first, y.first, np.full(owner.size, top)], axis=1), _flat(x, y)[:, None])
    found = []
    for number, weight in enumerate(weights.T):
        below, one = index + number, replace(flat, weight=weight[:, None, None, None] * flat.weight)
        at_surface = below == 0
        if at_surface.any():
            found += _surface_value(surface, _some(one, at_surface), clearance[at_surface])
        deeper = _some(one, ~at_surface)
        deeper.first[:, 2] -= below[~at_surface]
        found.append(deeper)
    return found


def points_along_z(depth: np.ndarray) -> np.ndarray:
    """Return the number of points from which vz is read at depths (n,), in cells."""
    return np.where(depth > 1e-9, np.where(depth < DEEP, 4, 6), 1)


def _some(blocks: Blocks, rows: np.ndarray) -> Blocks:
    return Blocks(blocks.field, blocks.owner[rows], blocks.first[rows], blocks.weight[rows])


def _surface_value(surface: FreeSurface, flat: Blocks, clearance: np.ndarray) -> list[Blocks]:
    """Return the blocks that read vz on the surface; flat : weights (m, 1, rows, columns) of the nodes there."""
    weight, (rows, columns) = flat.weight, flat.weight.shape[2:]
    linear = (clearance < NEAR_SOURCE)[:, None]
    first, second, slope = np.where(linear, LINEAR, HERMITE).T[..., None, None, None]
    blocks = [flat.moved("vz", (0, 0, -1), first * weight), flat.moved("vz", (0, 0, -2), second * weight)]
    gain = surface.gains.vertical_at(clearance) * _has_room(surface, "vz", flat.first, (rows, columns))
    laplacian = _convolved(weight, (0.0, 1.0, 0.0), SECOND) + _convolved(weight, SECOND, (0.0, 1.0, 0.0))
    blocks.append(flat.moved("vz", (-1, -1, -1), gain[:, None, None, None] * laplacian))
    x, y = (flat.first[:, axis, None] + np.arange(count) for axis, count in enumerate((columns, rows)))
    sloped_x, sloped_y = slope[:, 0] * weight[:, 0] * surface.ratios(x, y)
    along_x, along_y = (
        derivative_matrices(nodes, surface.coefficients, count)
        for nodes, count in zip((x, y), surface.shape, strict=True)
    )
    reach = len(surface.coefficients)
    blocks.append(flat.moved("vx", (-reach, 0, 0), (sloped_x @ along_x)[:, None]))
    blocks.append(flat.moved("vy", (0, -reach, 0), (along_y.swapaxes(1, 2) @ sloped_y)[:, None]))
    return blocks


def derivative_matrices(nodes: np.ndarray, coefficients: np.ndarray, count: int) -> np.ndarray:
    """Return h d/dn at contiguous nodes (m, nodes) of a line of `count`, (m, nodes, half nodes from reach before the
    first one).

    Where the stencil does not fit, next to a face, two half nodes are used, and on a rigid face, where the normal
    velocity vanishes, one.
    """
    reach, (size, width) = len(coefficients), nodes.shape
    matrices = np.zeros((size, width, width + 2 * reach - 1))
    full = np.concatenate([-coefficients[::-1], coefficients])
    middle = slice(reach - 1, reach + 1)
    for row, node in enumerate(nodes.T):
        lines = matrices[:, row, row : row + 2 * reach]
        inside = (node >= reach) & (node < count - reach)
        lines[inside] = full
        lines[~inside, middle] = np.where((node > 0) & (node < count - 1), [[-1.0], [1.0]], [[0.0], [2.0]]).T[~inside]
        lines[node >= count - 1, middle] = [-2.0, 0.0]
    return matrices


def _convolved(weight: np.ndarray, rows: tuple[float, ...], columns: tuple[float, ...]) -> np.ndarray:
    """Return weights (..., rows, columns) convolved with a line along each axis; larger by their lengths less one."""
    height, width = weight.shape[-2:]
    found = np.zeros((*weight.shape[:-2], height + len(rows) - 1, width + len(columns) - 1))
    for row, column in np.argwhere(np.outer(rows, columns)):
        found[..., row : row + height, column : column + width] += rows[row] * columns[column] * weight
    return found


def _has_room(surface: FreeSurface, field: str, first: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """True (m,) if the corrections, which reach one point further, remain on the grid.

    first : (m, 3) first indices. shape : rows and columns.
    """
    end = np.array(surface.shape) - np.array(STAGGER[field][:2]) - 1
    return ((first[:, :2] > 0) & (first[:, :2] + np.array(shape[::-1]) < end)).all(axis=1)


AT_SURFACE = 1.5  # cells from the free surface
FEW_PAIRS = 1_000_000  # of positions, whose distances are computed without a search tree
AT_ONCE = 512  # positions whose weights are computed together, so that they remain in the cache


class Sides(Protocol):
    """How points beside interfaces are read: see `interfaces.InterfaceReading`."""

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
    `reach`."""
    positions, others = positions.reshape(-1, 3), others.reshape(-1, 3)
    if len(positions) * len(others) > FEW_PAIRS:
        from scipy.spatial import cKDTree

        return cKDTree(others).query(positions, distance_upper_bound=reach)[0]
    distance = np.linalg.norm(positions[:, None] - others, axis=2).min(axis=1, initial=np.inf)
    return np.where(distance < reach, distance, np.inf)


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
        """True (n,) for places (n, 3), in grid spacings, that are read by the method of `points`, which does
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
