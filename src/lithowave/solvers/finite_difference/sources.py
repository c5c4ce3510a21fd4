r"""Sources on the grid: moments, the sums they represent, and lists of points.

**Moment tensors on the grid, as products of weights along the three axes.** A source of moment rate M s(t) changes the
stresses of a step by -M s(t) dt w_x w_y w_z, with weights at nodes and at half nodes along each axis (see
`line_weights`). Only these lines of weights are stored, about 0.5 kB per source: a finite fault of 100,000 subfaults
has 3 x 10^8 products. The kernel adds them in bricks of 8 x 8 x 8 nodes, each of which has a list of the sources that
reach it in ascending order, so that the sum at a node does not depend on the partition of the grid. In each block of
steps it skips sources before the first and after the last one that acts. A source beside an interface has several
products (see `interfaces`).

**Forces and moment tensors that the weights of sources at grid points represent.** The weights of a moment tensor times
the volumes of the grid points sum to it everywhere: the polynomials of `points` reproduce constants. The weights of a
force are those of a velocity receiver, which sum to one unless points are omitted because the velocity vanishes there,
near rigid faces and at the outer end of absorbing layers.

Lists of the grid points and weights of sources and receivers, in device memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from lithowave.mesh.grid import AXES, NodeRanges
from lithowave.solvers.common.reports import Records
from lithowave.solvers.common.source_amplitudes import BLOCK, AmplitudeTable, SourceAmplitudes
from lithowave.solvers.finite_difference.interfaces import (
    InterfaceReading,
    MomentParts,
    SourceColumns,
    parts_of_moments,
    whole_moments,
)
from lithowave.solvers.finite_difference.law import FIELDS, STAGGER, STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.points import HALF_WIDTH, NEAR_FACE, WIDTH, Ends, PointStencil, line_weights
from lithowave.solvers.interface import FORCE, MOMENT, Placement, Schedule

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.sources import PointSource
    from lithowave.solvers.finite_difference.grid_plan import GridPlan
    from lithowave.solvers.finite_difference.medium import GridMaterial

BRICK = 8  # nodes along each axis


class MomentList:
    """Moment tensors that change stresses of this rank.

    Parameters
    ----------
    sources : those with a moment tensor. schedule : see `SourceAmplitudes`. columns : moduli near the sources.

    Attributes
    ----------
    known : (n,) indices of the sources of the parts of moment tensors that reach this rank. count : their number.
    """

    kernel = "inject_moments"

    def __init__(
        self, backend: Backend, stencil: PointStencil, sources: Sequence[PointSource], schedule: Schedule,
        columns: SourceColumns,
    ) -> None:  # fmt: skip
        first, weight, parts = _parts_of(stencil, sources, columns)
        grid = stencil.grid
        local = first - np.array(grid.first)[:, None]
        low, end = np.maximum(local.min(axis=2), 0), np.minimum(local.max(axis=2) + WIDTH, grid.shape)
        reaching = np.flatnonzero((low < end).all(axis=1))
        self.known, self._share = parts.source[reaching], parts.share[reaching]
        self._backend, self._stencil, self.count = backend, stencil, reaching.size
        self._first, self._weight = first[reaching], weight[reaching]
        brick, begin, source = bricks_of(low[reaching], end[reaching], grid.shape)
        per_volume = self._weight / self._line_volumes()
        per_volume[:, 2] *= parts.gain[reaching]
        self._lists = (
            backend.upload(brick + stencil.halo, np.int64), backend.upload(begin, np.int64),
            backend.upload(source, np.int64), backend.upload(local[reaching] + stencil.halo, np.int64),
            backend.upload(per_volume, np.float64),
            backend.upload(-schedule.time_step * parts.moment[reaching], np.float64),
        )  # fmt: skip
        amplitudes = SourceAmplitudes([sources[number] for number in self.known], schedule, 0.0)
        self.table = WindowedTable(backend, amplitudes, self.count)

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments of `inject_moments` between the fields and the row."""
        return *self._lists, self.table.array, self.table.window

    def bricks(self) -> np.ndarray:
        """Return the bricks (m, 6), first and end nodes of this rank's grid along x, y, z."""
        return np.asarray(self._backend.download(self._lists[0])) - self._stencil.halo

    def moments(self) -> np.ndarray:
        """Return the moment tensors (count, 6) that act on nodes of this rank only."""
        sums = np.empty((self.count, 3, 2))
        for axis, (first, end) in enumerate(self._stencil.own):
            node = self._first[:, axis, :, None] + np.arange(WIDTH)
            own = (node >= first) & (node < end)
            sums[:, axis] = np.where(own, self._weight[:, axis], 0.0).sum(axis=-1)
        (x, east), (y, north), (z, up) = np.moveaxis(sums, 0, -1)
        normal = x * y * z
        parts = [normal, normal, normal, east * north * z, east * y * up, x * north * up]
        return np.stack(parts, axis=1) * self._share

    def _line_volumes(self) -> np.ndarray:
        """Return the volume of each point of a line, along the line, m (count, 3, 2, WIDTH)."""
        found, spacing = np.empty(self._weight.shape), self._stencil.grid.whole.spacing
        for axis, half in itertools.product(range(3), range(2)):
            volumes = self._stencil.line_volume[axis][half]
            node = self._first[:, axis, half, None] + np.arange(WIDTH)
            found[:, axis, half] = volumes[np.clip(node, 0, len(volumes) - 1)] * spacing
        return found


class WindowedTable(AmplitudeTable):
    """Amplitudes of the sources that act in the present block of steps, row by row.

    array : (BLOCK * sources,), of which the first BLOCK * (end - first) are used. window : (2,) first source, and end;
    on the device.
    """

    _amplitudes: SourceAmplitudes

    def __init__(self, backend: Backend, amplitudes: SourceAmplitudes, columns: int) -> None:
        self._backend, self._amplitudes = backend, amplitudes
        self.array = backend.zeros((BLOCK * columns,), np.float64)
        self.window = backend.zeros((2,), np.int64)

    def load(self, step: int) -> None:
        """Copy the block that contains this step to the device."""
        some = self._amplitudes.acting(step)
        block = self._amplitudes.block(step, some)
        self._backend.assign(self.window, np.array([some.start, some.stop]))
        self._backend.assign(self.array[: block.size], block.ravel())


def _parts_of(
    stencil: PointStencil, sources: Sequence[PointSource], columns: SourceColumns
) -> tuple[np.ndarray, np.ndarray, MomentParts]:
    """Return the parts of the moment tensors of sources, and the first nodes and weights of each; see `lines_of`."""
    positions = np.array([source.position for source in sources], float).reshape(-1, 3)
    moments = np.array([source.moment for source in sources], float).reshape(-1, len(STRESSES))
    interfaces = columns.interfaces(positions)
    if not interfaces.present.any():
        return *lines_of(stencil, positions), whole_moments(moments, WIDTH)
    first, weight = lines_of(stencil, positions, interfaces.z)
    beside = np.flatnonzero(interfaces.present)
    below = np.array([sources[number].side != "above" for number in beside])
    here = columns.at_sources(positions[beside], below)
    there = columns.at_nodes(positions[beside], first[beside, 2], WIDTH)
    parts = parts_of_moments(moments[beside], here, there)
    others = np.flatnonzero(~interfaces.present)
    plain = whole_moments(moments[others], WIDTH)
    source = np.concatenate([others[plain.source], beside[parts.source]])
    order = np.argsort(source, kind="stable")
    joined = (
        np.concatenate([getattr(plain, name), getattr(parts, name)])[order] for name in ("moment", "share", "gain")
    )
    return first[source[order]], weight[source[order]], MomentParts(source[order], *joined)


def lines_of(
    stencil: PointStencil, positions: np.ndarray, interfaces: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first node (n, 3, 2) and the weights (n, 3, 2, WIDTH), zero after the last one, of each position.

    positions : (n, 3), m. interfaces : (n, m) z of interfaces near them, m, NaN for none. The second index is the axis,
    the third 0 for nodes and 1 for half nodes along it.
    """
    whole = stencil.grid.whole
    first = np.zeros((len(positions), 3, 2), np.int64)
    weight = np.zeros((len(positions), 3, 2, WIDTH))
    cells = stencil.from_receivers(positions)
    for axis, half in itertools.product(range(3), range(2)):
        closed = tuple(stencil.faces[f"{AXES[axis]}_{side}"] != "absorbing" for side in ("min", "max"))
        place, last = whole.index(axis, positions[:, axis]) - 0.5 * half, whole.shape[axis] - 1 - half
        kinks = None if interfaces is None or axis < 2 else whole.index(axis, interfaces) - 0.5 * half
        lines = line_weights(place, last, Ends(half, closed), stencil.balanced, kinks, cells)
        first[:, axis, half], weight[:, axis, half] = lines.first, lines.weight
    return first, weight


def bricks_of(
    low: np.ndarray, end: np.ndarray, shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bricks (m, 6), first and end nodes along x, y, z, and the sources that reach them.

    Parameters
    ----------
    low, end : (n, 3) first node and end of each source. shape : nodes of the grid.

    Returns
    -------
    The bricks, the index of the first source of each in a list, and its end (m + 1,); the list of sources, in ascending
    order for each brick.
    """
    counts = -(-np.array(shape) // BRICK)
    lowest, highest = low // BRICK, (end - 1) // BRICK
    pairs = [np.zeros((0, 2), np.int64)]
    reach = range(int((highest - lowest).max(initial=-1)) + 1)
    for step in itertools.product(reach, repeat=3):
        at = lowest + np.array(step)
        some = np.flatnonzero((at <= highest).all(axis=1))
        pairs.append(np.column_stack([np.ravel_multi_index(tuple(at[some].T), tuple(counts)), some]))
    brick, source = np.concatenate(pairs).T
    order = np.lexsort((source, brick))
    names, begin = np.unique(brick[order], return_index=True)
    corner = BRICK * np.column_stack(np.unravel_index(names, tuple(counts)))
    table = np.concatenate([corner, np.minimum(corner + BRICK, shape)], axis=1)
    return table, np.append(begin, source.size), source[order]


REACH = NEAR_FACE + HALF_WIDTH  # cells from an end of the grid within which weights of a force may be omitted


L_co = TypeVar("L_co", covariant=True)


class PlacingSolver(Protocol):
    """What `add_sources` uses of a `FiniteDifferenceSolver`."""

    @property
    def plan(self) -> GridPlan: ...
    @property
    def stencil(self) -> PointStencil: ...
    @property
    def step(self) -> PlacingStep: ...


class PlacingStep(Protocol):
    """The material of a step, and its sources by kind."""

    @property
    def material(self) -> GridMaterial: ...
    @property
    def regions(self) -> PlacingRegions: ...


class PlacingRegions(Protocol):
    """The regions in which moment tensors and forces act."""

    @property
    def stress(self) -> PlacingRegion[MomentList]: ...
    @property
    def velocity(self) -> PlacingRegion[SourceList]: ...


class PlacingRegion(Protocol[L_co]):
    """A region with its sources."""

    @property
    def sources(self) -> L_co: ...


def add_sources(placement: Placement, solver: PlacingSolver, sources: Sequence[PointSource]) -> None:
    """Add the moment tensors and forces of the sources that change points of this rank."""
    kinds = [source.force is not None for source in sources]
    moments, forces = (np.flatnonzero(np.array(kinds, bool) == kind) for kind in (False, True))
    _add_moments(placement, solver.step.regions.stress.sources, sources, moments)
    time_step, material = solver.plan.schedule.time_step, solver.step.material
    number, index, weight, owner = solver.step.regions.velocity.sources.entries()
    nodes = solver.stencil.nodes(index)
    own = solver.stencil.is_own(nodes)
    for component, name in enumerate(VELOCITIES):
        chosen = own & (number == FIELDS.index(name))
        rates = weight[chosen] * solver.stencil.volumes(name, nodes[chosen]) / time_step
        rates = rates / material.buoyancy(name, index[chosen], solver.stencil.strides)
        source = forces[owner[chosen]]
        np.add.at(placement.totals[:, FORCE][:, component], source, rates)
        placement.acts[source[(rates != 0) & ~held(solver.stencil, name, nodes[chosen])]] = True
    for number in forces:
        placement.inexact[number] = _near_end(solver.stencil, sources[number].position)


def _add_moments(
    placement: Placement, moments: MomentList, sources: Sequence[PointSource], numbers: np.ndarray
) -> None:
    """Add the moment tensors of sources with these indices."""
    here = numbers[moments.known]
    if here.size:
        parts = moments.moments()
        np.add.at(placement.totals[:, MOMENT], here, parts)
        placement.acts[here[(parts != 0).any(axis=1)]] = True


def held(stencil: PointStencil, name: str, nodes: np.ndarray) -> np.ndarray:
    """True for nodes (entries, 3) where a rigid face sets a velocity field to zero."""
    found = np.zeros(len(nodes), bool)
    for axis, letter in enumerate(AXES):
        for side, end in (("min", 0), ("max", stencil.grid.whole.shape[axis] - 1)):
            if name[0] == "v" and not STAGGER[name][axis] and stencil.faces[f"{letter}_{side}"] == "rigid":
                found |= nodes[:, axis] == end
    return found


def _near_end(stencil: PointStencil, position: Sequence[float]) -> bool:
    """True if weights of a force may have been omitted at an end of the grid."""
    whole = stencil.grid.whole
    for axis, letter in enumerate(AXES):
        place = whole.index(axis, position[axis])
        for side, distance in (("min", place), ("max", whole.shape[axis] - 1 - place)):
            if distance < REACH and stencil.faces[f"{letter}_{side}"] != "free":
                return True
    return False


class SourceList:
    """Forces: the grid points that they change, and the change per unit of amplitude.

    Entries that change the same point of the same field are contiguous, so that a thread can add them in order.

    Parameters
    ----------
    strengths : (n_sources, 3), force times time step. buoyancy : function that returns 1 / density for points of a
    field. amplitudes : amplitudes as functions of time. boxes : boxes of points (first, end along x, y, z), relative to
    the first one of the arrays; only points in them are changed. columns : moduli near the sources; None for a uniform
    medium.
    """

    kernel = "inject"

    def __init__(
        self,
        backend: Backend,
        stencil: PointStencil,
        sources: Sequence[PointSource],
        strengths: np.ndarray,
        buoyancy: Callable[[str, np.ndarray], np.ndarray],
        amplitudes: SourceAmplitudes,
        boxes: Sequence[NodeRanges],
        columns: SourceColumns | None = None,
    ) -> None:
        number, target, weight, owner = _entries(stencil, sources, strengths, buoyancy, columns)
        inside = stencil.lie_in(target, boxes)
        number, target, weight, owner = number[inside], target[inside], weight[inside], owner[inside]
        order = np.lexsort((owner, target, number))
        number, target, weight, owner = number[order], target[order], weight[order], owner[order]
        new = np.concatenate([[True], (np.diff(number) != 0) | (np.diff(target) != 0)])[: target.size]
        begin = np.append(np.flatnonzero(new), target.size)
        self.backend, self.count = backend, int(new.sum())
        self._lists = (
            backend.upload(number[new], np.int64),
            backend.upload(target[new], np.int64),
            backend.upload(begin, np.int64),
            backend.upload(weight, np.float64),
            backend.upload(owner, np.int64),
        )
        self.table = AmplitudeTable(backend, amplitudes, len(sources))

    def entries(self) -> tuple[np.ndarray, ...]:
        """Index of the field, index in the field, weight and index of the source of every entry, as on the device."""
        number, target, begin, weight, owner = map(self.backend.download, self._lists)
        counts = np.diff(begin)
        return np.repeat(number, counts), np.repeat(target, counts), weight, owner

    def arguments(self) -> tuple[object, ...]:
        """Arguments of `inject` between the fields and the row."""
        return *self._lists, self.table.array


def _entries(
    stencil: PointStencil,
    sources: Sequence[PointSource],
    strengths: np.ndarray,
    buoyancy: Callable[[str, np.ndarray], np.ndarray],
    columns: SourceColumns | None,
) -> tuple[np.ndarray, ...]:
    """Return the field index, the index in the field, the weight and the source of every entry."""
    none = np.zeros(0, np.int64)
    parts: list[tuple[np.ndarray, ...]] = [(none, none, np.zeros(0), none)]
    for component, name in enumerate(VELOCITIES):
        acting = np.flatnonzero(strengths[:, component]) if len(sources) else np.zeros(0, int)
        if acting.size:
            positions = np.array([sources[number].position for number in acting], float)
            sides = None if columns is None else InterfaceReading(columns, stencil, positions, stress=False)
            weights = stencil.sources(name, positions, sides)
            owner = acting[weights.owner]
            weight = weights.weight * strengths[owner, component]
            for field in np.unique(weights.field).tolist():
                some = weights.field == field
                weight[some] *= buoyancy(FIELDS[field], weights.index[some])
            parts.append((weights.field, weights.index, weight, owner))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


class ReceiverList:
    """Receivers and their recorded values.

    Each rank has the receivers that may read its nodes; the contributions of the ranks add up. numbers : their indices.

    Parameters
    ----------
    positions : (n, 3), m. clearance : cells from each to the nearest source; None without sources. columns : moduli
    near the receivers; None for a uniform medium.
    """

    def __init__(
        self, backend: Backend, stencil: PointStencil, positions: np.ndarray, clearance: np.ndarray | None = None,
        columns: SourceColumns | None = None,
    ) -> None:  # fmt: skip
        self.backend, self.stencil, self.records = backend, stencil, Records(backend)
        self.numbers = np.flatnonzero(stencil.may_read(positions))
        self.positions = positions[self.numbers]
        self.clearance = None if clearance is None else clearance[self.numbers]
        self._columns = columns

    def start(self, capacity: int, stress: bool) -> None:
        """Create the lists, and space for `capacity` records."""
        names = VELOCITIES + (STRESSES if stress else ())
        sides = None if self._columns is None else InterfaceReading(self._columns, self.stencil, self.positions, stress)
        weights = self.stencil.receivers(names, self.positions, self.clearance, sides)
        self._lists = (
            self.backend.upload(weights.field, np.int64),
            self.backend.upload(weights.index, np.int64),
            self.backend.upload(weights.weight, np.float64),
            self.backend.upload(weights.begin, np.int64),
        )
        self.records.start((capacity, len(names), len(self.positions)), np.float64)

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments of `sample` after the fields."""
        return *self._lists, self.records.array, self.records.slot


def split_records(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return velocity (count, n_receivers, 3) and, if present, stress (count, n_receivers, 6)."""
    block = np.moveaxis(parts["records"], 1, 2)
    found = {"velocity": block[..., :3].copy()}
    return found | ({"stress": block[..., 3:].copy()} if block.shape[-1] > 3 else {})
