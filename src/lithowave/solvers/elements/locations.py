r"""Location of points in elements, and sources spread over small balls.

**Location of points in the elements of all ranks.** Each rank searches for points in its own elements and reports the
results to one rank, which the index of the point determines. That rank returns the number of elements of the global
mesh that contain the point, and the first one.

Points sorted into the cells of a regular grid, to find those in boxes.

**Sides of sources and receivers that are exactly on an interface between elements.** The strain along the normal of an
interface differs on both sides, and so do the waves of a moment tensor there. Such a source acts in the elements on one
side, ``sources[].side``: those below, or above, along a short step down or up. At a vertical interface, where both
sides are below, it acts in the medium with the greater shear modulus. Forces need no side, except between a fluid and a
solid, whose motion differs.

The stresses and strains at a receiver differ in the same way, and are those below the interface; between a fluid and a
solid see `solver.SeaFloor`.

**Point sources of element methods, spread over small balls.** In the polynomials of an element a point source is least
accurate near it, and its error depends on its position in the element. Distant waves do not depend on the spreading of
a source over a ball: the field outside of a source density w(r) in a homogeneous neighborhood is that of a point source
times

.. math:: \int w(r)\, \frac{\sin k r}{k r}\, dV = 1 - \frac{k^2 \langle r^2 \rangle}{6}
    + \frac{k^4 \langle r^4 \rangle}{120} - \dots

for P and S waves of wavenumber k, near fields and reflections at the free surface included. The density

.. math:: w(r) \propto (1 - s^2)^3 (A + B s^2), \qquad s = r / a,

has :math:`\langle r^2 \rangle = 0`; with the radius a below, the rest is less than 0.5% at the shortest wavelength.
It is represented by points with weights, each of which is a point source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.description.receivers import Receiver
from lithowave.errors import InputError
from lithowave.parallel.ranks import Ranks
from lithowave.solvers.common.warnings import surface_heights

if TYPE_CHECKING:
    from lithowave.description.domain import Domain
    from lithowave.description.experiment import Experiment
    from lithowave.description.sources import PointSource
    from lithowave.mesh.hexahedra import HexahedralMesh
    from lithowave.mesh.tetrahedra import TetrahedralMesh
    from lithowave.solvers.interface import Schedule

    Mesh = HexahedralMesh | TetrahedralMesh


PART = 16_384  # elements that are examined at a time
SURFACE_TOLERANCE = 1.0  # of points on a topography, which elements follow only as far as their size allows
EXCESS_SCALE = 1e9  # excesses are compared as integers of 1e-9 reference coordinates, so that round-off has no effect


@dataclass(frozen=True)
class PointLocations:
    """Points in elements; several rows where elements share a point.

    point : (rows,) index of the point, ascending. element : (rows,) index of the element. reference : (rows, 3)
    coordinates in the reference element. excess : (rows,) distance in reference coordinates by which the point was
    outside of the element before it was moved onto it; 0 for a point in the element. key : (rows,) key of the element
    in the global mesh.
    """

    point: np.ndarray
    element: np.ndarray
    reference: np.ndarray
    excess: np.ndarray
    key: np.ndarray

    @classmethod
    def none(cls) -> PointLocations:
        """Return the locations of no points."""
        indices = np.zeros(0, np.int64)
        return cls(indices, indices, np.zeros((0, 3)), np.zeros(0), indices)

    def rows(self, selection: np.ndarray) -> PointLocations:
        """Return some of the rows."""
        return PointLocations(*(getattr(self, field.name)[selection] for field in fields(self)))

    def renumbered(self, numbers: np.ndarray) -> PointLocations:
        """Return the same rows with these indices of the points."""
        return replace(self, point=numbers[self.point])

    def missing(self, count: int) -> np.ndarray:
        """Return the indices of those of `count` points that are in no element."""
        return np.setdiff1d(np.arange(count), self.point)

    def with_nearest(self, near: PointLocations, lost: np.ndarray) -> PointLocations:
        """Return these rows and, for each point of `near`, the element with the smallest excess, then the lowest key.

        Parameters
        ----------
        near : candidates for the points lost[near.point].
        lost : indices of points that are in no element.
        """
        order = np.lexsort((near.key, _integer(near.excess), near.point))
        _, first = np.unique(near.point[order], return_index=True)
        nearest = near.rows(order[first]).renumbered(lost)
        pairs = ((getattr(part, field.name) for part in (self, nearest)) for field in fields(self))
        joined = PointLocations(*(np.concatenate(tuple(pair)) for pair in pairs))
        return joined.rows(np.argsort(joined.point, kind="stable"))


@dataclass(frozen=True)
class SharedLocations:
    """Points in elements of this rank, restricted to the elements selected among all ranks.

    locations : a row for each element that contains a point. sharing : (rows,) number of elements of the global mesh
    that contain the point. first : (rows,) True if the element has the lowest key of them.
    """

    locations: PointLocations
    sharing: np.ndarray
    first: np.ndarray

    def first_only(self) -> SharedLocations:
        """Return each point in its first element only, so on one rank only."""
        ones = np.ones(int(self.first.sum()), np.int64)
        return SharedLocations(self.locations.rows(self.first), ones, self.first[self.first])


def resolve_owners(found: PointLocations, ranks: Ranks, numbers: np.ndarray | None = None) -> SharedLocations:
    """Return the selected locations: all elements that contain a point, or the nearest one of all ranks.

    This call is collective.

    Parameters
    ----------
    found : locations in the elements of this rank.
    numbers : global indices of the points of this rank, ascending; None if all ranks have the same points.
    """
    order = np.lexsort((found.key, found.point))
    point, begin, counts = np.unique(found.point[order], return_index=True, return_counts=True)
    lowest = order[begin]
    number = point if numbers is None else numbers[point]
    claims = np.column_stack([number, _integer(found.excess[lowest]), found.key[lowest], counts])
    sharing, wins = _answers(claims, ranks)
    row = np.searchsorted(point, found.point)
    first = np.zeros(len(row), bool)
    first[lowest] = wins
    counting = sharing[row] > 0
    locations = found if numbers is None else found.renumbered(numbers)
    return SharedLocations(locations.rows(counting), sharing[row][counting], first[counting])


def _integer(excess: np.ndarray) -> np.ndarray:
    return np.rint(EXCESS_SCALE * excess).astype(np.int64)


def _answers(claims: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of elements (points,) of the global mesh that have each point, 0 if another rank has a nearer
    one, and whether this rank has the first of them.

    claims : (points, 4) index of the point, excess, lowest key, number of elements.
    """
    if ranks.size == 1:
        return claims[:, 3], np.ones(len(claims), bool)
    judge = claims[:, 0] % ranks.size
    sent = [np.flatnonzero(judge == rank) for rank in range(ranks.size)]
    answers = ranks.all_to_all(_judged(ranks.all_to_all([claims[rows] for rows in sent])))
    sharing, wins = np.empty(len(claims), np.int64), np.empty(len(claims), bool)
    for rows, (count, first) in zip(sent, answers, strict=True):
        sharing[rows], wins[rows] = count, first
    return sharing, wins


def _judged(claims: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the answers of `_answers` to the claims of each rank."""
    number, excess, key, count = np.concatenate(claims).T
    order = np.lexsort((key, excess, number))
    begins = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(order)])
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
    first = np.zeros(len(order), bool)
    first[order[begins]] = True
    inside = excess == 0
    total = np.bincount(group, count * inside, len(begins)).astype(np.int64)
    sharing = np.where(inside, total[group], np.where(first, 1, 0))
    ends = np.cumsum([len(rows) for rows in claims])[:-1]
    return list(zip(np.split(sharing, ends), np.split(first, ends), strict=True))


def require_located(
    found: SharedLocations, ranks: Ranks, names: Sequence[str], positions: np.ndarray, where: str
) -> None:
    """Require that each point is in an element of some rank (collective call).

    Raises
    ------
    InputError : on all ranks, with the name and position of the first missing point and the key `where`.
    """
    known = np.concatenate(ranks.all_gather(np.unique(found.locations.point)))
    missing = np.setdiff1d(np.arange(len(names)), known)
    if missing.size:
        index = int(missing[0])
        x, y, z = positions[index]
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise InputError(
            where, f"{names[index]} at ({x:z.12g}, {y:z.12g}, {z:z.12g}) m is in no element of the mesh{more}",
            "allowed: positions in the mesh or on its surface",
        )  # fmt: skip


T = TypeVar("T")


class LocatedPlan(Protocol):
    """What locations in elements and readings use of an `ElementPlan`."""

    @property
    def mesh(self) -> Mesh: ...
    @property
    def ranks(self) -> Ranks: ...
    @property
    def domain(self) -> Domain: ...
    @property
    def bounds(self) -> tuple[tuple[float, float], ...] | None: ...
    @property
    def schedule(self) -> Schedule: ...
    @property
    def materials(self) -> FluidMaterials: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def surface_spacing(self) -> float: ...
    @property
    def inside_tolerance(self) -> float: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def element_count(self) -> int: ...
    def once(self, name: str, compute: Callable[[], T]) -> T: ...
    def from_mesh(self, positions: np.ndarray) -> np.ndarray: ...
    def axes_at(self, positions: np.ndarray) -> np.ndarray | None: ...
    def outside(self, reference: np.ndarray) -> np.ndarray: ...
    def reference_gradients(self, locations: PointLocations) -> np.ndarray: ...
    def voigt_diagonals(self, locations: PointLocations) -> np.ndarray: ...
    def in_layer(self, positions: np.ndarray, margins: bool = False) -> np.ndarray: ...
    def element_center(self, element: int) -> np.ndarray: ...
    def locate(
        self, positions: np.ndarray, tolerance: float, numbers: np.ndarray | None = None,
        owners: Sequence[PointSource | Receiver] | None = None, outside: np.ndarray | None = None,
    ) -> SharedLocations: ...  # fmt: skip


class FluidMaterials(Protocol):
    """Materials of elements. is_fluid : (elements,), True for fluids. values : at points; None if they are constant."""

    @property
    def is_fluid(self) -> np.ndarray: ...
    @property
    def values(self) -> np.ndarray | None: ...


def point_names(points: Sequence[PointSource | Receiver], kind: str) -> list[str]:
    """Return the names of sources or receivers for messages: their own, or their kind and index."""
    return [getattr(point, "name", "") or f"{kind} {index}" for index, point in enumerate(points)]


def point_positions(points: Sequence[PointSource | Receiver]) -> np.ndarray:
    """Return the positions (n, 3), m, of sources or receivers."""
    return np.array([point.position for point in points], float).reshape(-1, 3)


def reach(plan: LocatedPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (3,) and (3,), m, of a box in local coordinates with all points in or near the mesh of a rank."""
    return plan.once("reach", lambda: _reach(plan))


def _reach(plan: LocatedPlan) -> tuple[np.ndarray, np.ndarray]:
    vertices, elements = np.ascontiguousarray(plan.from_mesh(plan.mesh.vertices)), plan.mesh.elements
    margin = np.max(over_parts(lambda part: largest_sizes(elements[part], vertices), len(elements), PART), axis=0)
    return vertices.min(axis=0) - margin, vertices.max(axis=0) + margin


@exact_part
def largest_sizes(elements, vertices):  # pragma: no cover - compiled
    """Return the largest extents (3,) of elements along the axes."""
    found = np.zeros(3)
    for element in range(len(elements)):
        for axis in range(3):
            least = most = vertices[elements[element, 0], axis]
            for corner in range(1, elements.shape[1]):
                position = vertices[elements[element, corner], axis]
                least, most = min(least, position), max(most, position)
            found[axis] = max(found[axis], most - least)
    return found


def within_reach(plan: LocatedPlan, positions: np.ndarray) -> np.ndarray:
    """Return True for each of positions (points, 3), m, in the box of `reach`."""
    low, high = reach(plan)
    return ((positions >= low) & (positions <= high)).all(axis=1)


@dataclass(frozen=True)
class PointCells:
    """Points in the cells of a regular grid around them, on average about one in each.

    points : (p, 3), m. origin, width : of the grid and its cells, (3,), m. shape : number of cells along x, y, z.
    starts : points of all cells before each, z fastest, and of all. order : indices of the points by cell.
    """

    points: np.ndarray
    origin: np.ndarray
    width: np.ndarray
    shape: np.ndarray
    starts: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray) -> PointCells:
        """Sort points (p, 3), at least one."""
        origin, extent = points.min(axis=0), np.ptp(points, axis=0)
        shape = _grid_shape(extent, len(points))
        width = np.where(extent > 0, extent, 1.0) / shape
        x, y, z = np.clip(np.floor((points - origin) / width), 0, shape - 1).astype(np.int64).T
        cells = (x * shape[1] + y) * shape[2] + z
        starts = np.append(0, np.cumsum(np.bincount(cells, minlength=shape.prod())))
        return cls(points, origin, width, shape, starts, np.argsort(cells, kind="stable"))

    def inside(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (box, point) of all points within boxes with these corners (n, 3), m, by box."""
        grid = self.points, self.origin, self.width, self.shape, self.starts, self.order
        pairs = np.empty((2, _pairs_inside(low, high, *grid, np.empty((2, 0), np.int64))), np.int64)
        _pairs_inside(low, high, *grid, pairs)
        return pairs[0], pairs[1]


def _grid_shape(extent: np.ndarray, count: int) -> np.ndarray:
    """Return numbers of cells (3,) along the sides of a box: about `count` cells with equal edges, one across sides
    shorter than an edge."""
    shape = np.ones(3, np.int64)
    axes = [int(axis) for axis in np.argsort(extent) if extent[axis] > 0]
    while axes:
        edge = (extent[axes].prod() / count) ** (1 / len(axes))
        if extent[axes[0]] >= edge:
            shape[axes] = np.ceil(extent[axes] / edge)
            break
        axes = axes[1:]
    return shape


@exact_part
def _pairs_inside(
    low, high, points, origin, width, shape, starts, order, pairs
):  # pragma: no cover - compiled
    """Store the pairs of `PointCells.inside` in pairs (2, n) as far as there is space; return their number."""
    count = 0
    first, last = np.empty(3, np.int64), np.empty(3, np.int64)
    for box in range(len(low)):
        apart = False
        for axis in range(3):
            begin = np.floor((low[box, axis] - origin[axis]) / width[axis])
            end = np.floor((high[box, axis] - origin[axis]) / width[axis])
            apart |= end < 0 or begin > shape[axis]
            first[axis] = min(max(begin, 0), shape[axis] - 1)
            last[axis] = min(max(end, 0), shape[axis] - 1)
        if apart:
            continue
        for x in range(first[0], last[0] + 1):
            for y in range(first[1], last[1] + 1):
                row = (x * shape[1] + y) * shape[2]
                for place in range(starts[row + first[2]], starts[row + last[2] + 1]):
                    point = order[place]
                    within = True
                    for axis in range(3):
                        within &= low[box, axis] <= points[point, axis] <= high[box, axis]
                    if within:
                        if count < pairs.shape[1]:
                            pairs[0, count], pairs[1, count] = box, point
                        count += 1
    return count


ALIKE = 0.05  # relative difference of moduli up to which elements have one medium
STEP = 1e-3  # of the reference element: length of the step up or down
MARGIN = 0.02  # of the step, by which it may leave the element: along a face, up to 1 degree off
AT_FACE = 1e-4  # of the reference element, within which a point may be shared by elements
MOMENT, FORCE, RECEIVER = 0, 1, 2  # kinds of points


def select_sides(
    plan: LocatedPlan, found: PointLocations, positions: np.ndarray, owners: Sequence[PointSource | Receiver]
) -> np.ndarray:
    """Return True for rows of locations that are on the side of their source or receiver (collective call).

    Parameters
    ----------
    found : locations in the elements of this rank, before the owners are resolved.
    positions : of the points, m, in local coordinates. owners : source or receiver of each point.
    """
    gathered = np.concatenate(plan.ranks.all_gather(_table(plan, found, positions, owners)))
    drops = {(int(point), int(key)) for point, key in _rejected(gathered)}
    if not drops:
        return np.ones(len(found.point), bool)
    return np.array([pair not in drops for pair in zip(found.point.tolist(), found.key.tolist(), strict=True)], bool)


def _table(
    plan: LocatedPlan, found: PointLocations, positions: np.ndarray, owners: Sequence[PointSource | Receiver]
) -> np.ndarray:
    """Return the rows that may be shared: index of the point, key of the element, 1 if it is on the side of the source
    or receiver, the kind of the point, and the diagonal of Voigt's matrix in the element, Pa."""
    shared = np.flatnonzero((found.excess == 0) & (plan.outside(found.reference) > -AT_FACE))
    rows = found.rows(shared)
    chosen = [owners[point] for point in rows.point.tolist()]
    up = np.array([1.0 if getattr(one, "side", "below") == "above" else -1.0 for one in chosen])
    axes = plan.axes_at(positions[rows.point])
    direction = up[:, None] * (np.array([0.0, 0.0, 1.0]) if axes is None else axes[:, 2])
    step = np.einsum("rdc,rc->rd", plan.reference_gradients(rows), direction)
    step *= STEP / np.maximum(np.abs(step).max(axis=1, initial=0.0), 1e-300)[:, None]
    inside = plan.outside(rows.reference + step) <= MARGIN * STEP
    kinds = [
        RECEIVER if isinstance(one, Receiver) else MOMENT if one.force is None else FORCE for one in chosen
    ]
    columns = [rows.point, rows.key, inside, kinds, *plan.voigt_diagonals(rows).T]
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def _rejected(table: np.ndarray) -> list[tuple[float, float]]:
    """Return point and key of the rows of all ranks on the other side of an interface; see `_table`."""
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    begin = np.flatnonzero(np.append(True, np.diff(table[:, 0]) != 0)[: len(table)])
    found: list[tuple[float, float]] = []
    several = np.flatnonzero(np.diff(np.append(begin, len(table))) > 1)
    for number in several.tolist():
        rows = table[begin[number] : begin[number + 1] if number + 1 < len(begin) else len(table)]
        inside, kind, moduli = rows[:, 2] != 0, rows[0, 3], rows[:, 4:]
        wet = moduli[:, -1] == 0.0
        sea_floor = wet.any() and not wet.all()
        if _alike(moduli) or kind == FORCE and not sea_floor or kind == RECEIVER and sea_floor:
            continue
        kept = inside if inside.any() else np.ones(len(rows), bool)
        if not _alike(moduli[kept]):
            stiffest = moduli[kept][np.argmax(moduli[kept][:, 3:].sum(axis=1))]
            kept &= np.array([_alike(np.stack([one, stiffest])) for one in moduli])
        found += [tuple(pair) for pair in rows[~kept, :2]]
    return found


def _alike(moduli: np.ndarray) -> bool:
    """True if the media (rows, 6) differ by at most `ALIKE`."""
    return bool((np.ptp(moduli, axis=0) <= ALIKE * moduli.max(axis=0)).all())


RADII, POLAR = 5, 5  # points along the radius and the polar angle; twice as many in azimuth
OF_DISTANCE, OF_WAVELENGTH = 0.95, 0.29  # largest radius over the distance to the nearest receiver, the wavelength
SHRINK = (1.0, 0.75, 0.5, 0.35, 0.2)  # radii that are tried until a ball is in the mesh and in one material
UNRESOLVED = 0.2  # sizes of the element: nothing nearer to a source is resolved
ALIKE = 0.1  # relative change of wave velocities up to which it is one material

# Function of positions (n, 3), m: slowest and fastest wave velocity, m/s, and size of the element there, m (n, 3);
# infinite outside of all elements. Collective; the result is identical on all ranks.
Surroundings = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SpreadSources:
    """Points that represent sources. positions : (n, 3), m. source : index (n,) of the source. weight : (n,)."""

    positions: np.ndarray
    source: np.ndarray
    weight: np.ndarray


@cache
def unit_ball() -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 3) in the unit ball and their weights (n,), whose sum is 1 and whose second moments vanish.

    Polynomials of up to the ninth degree in the angles are integrated exactly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(RADII)
    radius, weights = 0.5 * (1.0 + nodes), 0.5 * weights
    density = weights * radius**2 * (1.0 - radius**2) ** 3
    moments = [(density * radius**power).sum() for power in (0, 2, 4)]
    # sum of weights 1, second moment 0
    a, b = np.linalg.solve([moments[:2], moments[1:]], [1.0, 0.0])
    radial = density * (a + b * radius**2)
    cosine, polar = np.polynomial.legendre.leggauss(POLAR)
    azimuth = np.pi * (np.arange(2 * POLAR) + 0.5) / POLAR
    sine = np.sqrt(1.0 - cosine**2)
    directions = np.stack([
        np.outer(sine, np.cos(azimuth)), np.outer(sine, np.sin(azimuth)), np.outer(cosine, np.ones(2 * POLAR))
    ], axis=-1).reshape(-1, 3)  # fmt: skip
    angular = np.repeat(0.5 * polar / (2 * POLAR), 2 * POLAR)
    return (radius[:, None, None] * directions).reshape(-1, 3), np.outer(radial, angular).ravel()


def recorded_distances(
    experiment: Experiment, top: float, size: np.ndarray, unresolved: float = UNRESOLVED
) -> np.ndarray:
    """Return the distance (sources,), m, of each source from receivers, and from the surface if peak motion is recorded
    there.

    Receivers nearer than `unresolved` elements are omitted, since no record there is accurate.

    Parameters
    ----------
    top : elevation of the surface, m, without topography.
    size : of the elements at the sources (sources,), m. unresolved : in such sizes.
    """
    sources = experiment.acquisition.source_positions
    receivers = experiment.acquisition.receiver_positions
    least, found = unresolved * size, np.full(len(sources), np.inf)
    for number, source in enumerate(sources if len(receivers) else []):
        distances = np.sqrt(((receivers - source) ** 2).sum(axis=1))
        found[number] = distances[distances >= least[number]].min(initial=np.inf)
    if experiment.output.peak_motion:
        found = np.minimum(found, np.maximum(surface_heights(experiment, sources, top) - sources[:, 2], least))
    return found


def spread_sources(
    experiment: Experiment, top: float, reach: float, largest: float, surroundings: Surroundings,
    forces: bool | np.ndarray = True,
) -> SpreadSources:
    """Return the points that represent the sources of a simulation (collective call).

    Parameters
    ----------
    top : as in `recorded_distances`.
    reach : sizes of the element; sources farther from receivers are not spread.
    largest : radius of a ball over the size of the element, at most.
    surroundings : function that returns wave velocities and element sizes.
    forces : True to spread forces also; for all sources, or for each (sources,).
    """
    positions = experiment.acquisition.source_positions
    here = surroundings(positions)
    slowest, _, size = here.T
    distances = recorded_distances(experiment, top, np.where(np.isfinite(size), size, 0.0))
    wavelength = slowest / experiment.highest_frequency
    radii = np.minimum(OF_DISTANCE * distances, np.minimum(largest * size, OF_WAVELENGTH * wavelength))
    spread = np.isfinite(size) & (distances < reach * size) & (radii > 1e-3 * size)
    spread &= forces | np.array([one.force is None for one in experiment.acquisition.sources], bool)
    offsets, weights = unit_ball()
    balls, left = np.zeros((len(positions), 1, 1)), np.flatnonzero(spread)
    for part in SHRINK:
        if not len(left):
            break
        around = positions[left, None] + part * radii[left, None, None] * offsets
        speeds = surroundings(around.reshape(-1, 3)).reshape(*around.shape)[..., :2]
        fits = (np.abs(speeds - here[left, None, :2]) <= ALIKE * here[left, None, :2]).all(axis=(1, 2))
        balls[left[fits], 0, 0] = part * radii[left[fits]]
        left = left[~fits]
    some = balls[:, 0, 0] > 0.0
    numbers = np.arange(len(positions))
    found = SpreadSources(
        np.concatenate([positions[~some], (positions[some, None] + balls[some] * offsets).reshape(-1, 3)]),
        np.concatenate([numbers[~some], np.repeat(numbers[some], len(weights))]),
        np.concatenate([np.ones(int((~some).sum())), np.tile(weights, int(some.sum()))]),
    )
    return _by_source(found)


def _by_source(points: SpreadSources) -> SpreadSources:
    order = np.argsort(points.source, kind="stable")
    return SpreadSources(points.positions[order], points.source[order], points.weight[order])


def of_all_ranks(found: np.ndarray, ranks: Ranks) -> np.ndarray:
    """Return the minimum of the values of all ranks; infinite if no rank has one."""
    return np.min(ranks.all_gather(found), axis=0)


def locate_sources(plan: LocatedPlan, sources: Sequence[PointSource], spread: SpreadSources) -> SharedLocations:
    """Return the elements of all ranks that contain the points of sources (collective call).

    Raises
    ------
    InputError : a source is in no element of any rank.
    """
    owners, names = [sources[index] for index in spread.source.tolist()], point_names(sources, "source")
    outside = plan.in_layer(point_positions(sources))[spread.source] | plan.in_layer(spread.positions, margins=True)
    found = plan.locate(spread.positions, plan.tolerance, owners=owners, outside=outside)
    require_located(found, plan.ranks, [names[index] for index in spread.source], spread.positions, "sources")
    return found
