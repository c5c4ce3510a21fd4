"""Elements as the kernels read them: groups of one kind of map and material, their points, moduli and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.numbering import largest_numbers
from lithowave.mesh.partition import color_elements
from lithowave.solvers.spectral_element.arrays import Members, group_arrays, group_members
from lithowave.solvers.spectral_element.element_kinds import ElementKind
from lithowave.solvers.spectral_element.element_layout import ElementLayout
from lithowave.solvers.spectral_element.layers import dependence
from lithowave.solvers.spectral_element.materials import gravity_values
from lithowave.solvers.spectral_element.partition import color_greedily
from lithowave.solvers.spectral_element.relaxation import COMPONENTS, carrier_count, distinct_moduli, recursion

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.solvers.spectral_element.element_kinds import GroupedPlan

LAUNCHES, LEAST_BLOCKS, GROWTH = 3, 30_000, 1.4  # of a group on a GPU: see `division`


# Of rotated coordinates, the positions in Voigt's order xx, yy, zz, yz, xz, xy.
VOIGT_ROTATIONS = ((0, 1, 2, 3, 4, 5), (1, 2, 0, 4, 5, 3), (2, 0, 1, 5, 3, 4))
UPPER_NUMBER = np.zeros((6, 6), np.int64)
UPPER_NUMBER[np.triu_indices(6)] = np.arange(21)
UPPER_NUMBER = np.maximum(UPPER_NUMBER, UPPER_NUMBER.T)


def rotated_moduli(moduli: np.ndarray, axis: int) -> np.ndarray:
    """Return moduli (elements, c, ...) in coordinates that begin with `axis`."""
    if moduli.shape[1] < 21:
        return moduli
    order = np.array(VOIGT_ROTATIONS[axis])
    return moduli[:, UPPER_NUMBER[np.ix_(order, order)][np.triu_indices(6)]]


@dataclass(frozen=True)
class ElementGroup:
    """Blocks of elements of one kind, and their order of execution.

    order : block indices by color; begin : offset of each color or launch in `order`, and the end. moves : see
    `element_lines`. members : elements; places : their slots in the blocks of this group. memory, filters : arrays of
    an absorbing layer (`arguments`), empty outside. relaxing, relaxation, recursion : arrays of attenuation, empty in
    elastic elements.
    """

    kind: ElementKind
    first_block: int
    order: Array
    begin: np.ndarray
    moves: Array
    moduli: Array
    geometry: Array
    memory: Array
    filters: Array
    relaxing: Array
    relaxation: Array
    recursion: Array
    members: np.ndarray
    places: np.ndarray

    def arguments(self, displacement: Array, momentum: Array, points: Array, shared: int) -> tuple[object, ...]:
        """Return the arguments of `add_forces`."""
        return (
            displacement, momentum, points, self.moduli, self.geometry, self.memory, self.filters,
            self.relaxing, self.relaxation, self.recursion, self.kind.first_axis, self.first_block, shared, self.moves,
            self.order, self.begin,
        )  # fmt: skip


@dataclass(frozen=True)
class Slots:
    """Element in each slot of a group's blocks (-1: none), the blocks by color, and the offsets of the colors."""

    elements: np.ndarray
    order: np.ndarray
    begin: np.ndarray


def place_elements(
    members: np.ndarray, corners: np.ndarray, arrangement: ElementLayout, conflict_free: bool, divided: bool = False
) -> Slots:
    """Assign slots to the elements of a group.

    corners : vertices (elements, 8) of all elements. On a CPU elements retain their order, and blocks get colors, so
    that threads never update the same point. On a GPU blocks may share points, since additions are atomic, unless
    conflict_free is set: then the elements of a block, and all blocks of a color, have one color. divided : True
    for several launches, see `division`.
    """
    size = arrangement.elements
    if arrangement.lanes and conflict_free:
        colors = color_elements(corners[members])
        parts = [_filled(members[colors == color], size) for color in range(int(colors.max(initial=-1)) + 1)]
        begin = np.concatenate([[0], np.cumsum([len(part) // size for part in parts], dtype=np.int64)])
        slots = np.concatenate([np.zeros(0, np.int64), *parts])
        return Slots(slots, np.arange(len(slots) // size), begin)
    slots = _filled(members, size)
    blocks = len(slots) // size
    if arrangement.lanes:
        return Slots(slots, np.arange(blocks), division(blocks) if divided else np.array([0, blocks]))
    held = np.where(slots[:, None] >= 0, corners[np.maximum(slots, 0)], -1).reshape(blocks, -1)
    colors = color_greedily(held)
    begin = np.concatenate([[0], np.cumsum(np.bincount(colors))]) if blocks else np.array([0, 0])
    return Slots(slots, np.argsort(colors, kind="stable"), begin)


def _filled(elements: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([elements, np.full(-len(elements) % size, -1, np.int64)])


def division(blocks: int) -> np.ndarray:
    """Return the offsets of the launches of a group on a GPU that move points for later ones: up to three of
    increasing size. At the end of a launch the device is partly idle, so that small groups are not divided."""
    launches = max(1, min(LAUNCHES, blocks // LEAST_BLOCKS))
    return np.rint(blocks * (GROWTH ** np.arange(launches + 1) - 1) / (GROWTH**launches - 1)).astype(np.int64)


def block_moves(reach: np.ndarray, horizon: np.ndarray, capacity: int, shared: int) -> np.ndarray:
    """Return the number of points that have moved before each block moves its own, and at the end: (blocks + 1,).

    reach : number of points up to the last one that a block and those before it have. horizon : last block whose points
    must have moved then. capacity : largest number of points that a block moves. shared : points that move in all.
    """
    limit = capacity * np.arange(len(reach) + 1)
    least = np.append(reach[horizon], shared) - limit
    return np.maximum.accumulate(least[::-1])[::-1] + limit


class ElementTables:
    """All groups on a device, and the location of each element's points in memory.

    outer : groups of the elements that have points of other ranks; inner : groups of the other elements.

    Parameters
    ----------
    backend, kernels : objects of the run; `kernels` provides the layout and packs moduli and maps. plan : mesh, point
    indices, materials, maps.
    """

    def __init__(self, backend: Backend, kernels: SimpleNamespace, plan: GroupedPlan) -> None:
        self.backend, self.kernels, self.plan = backend, kernels, plan
        self.arrangement: ElementLayout = kernels.arrangement
        self._slots: list[np.ndarray] = []
        self._blocks = 0
        self.moved_first = plan.shared  # points that move before the forces
        every = [(members.outer, self._group(members)) for members in group_members(plan)]
        self.outer, self.inner = ([group for own, group in every if own == outer] for outer in (True, False))
        points = self.arrangement.of_indices(plan.numbers, np.concatenate(self._slots), plan.total_points)
        self.points = backend.upload(points, np.uint32)

    def _moves(self, slots: Slots) -> np.ndarray:
        """Return `moves` of the blocks of the first group, and set `moved_first`.

        A block moves points of blocks as far ahead as the device needs (`kernels.blocks_ahead`), or of later launches.
        """
        shared, size = self.plan.shared, self.arrangement.elements
        largest = largest_numbers(self.plan.numbers.reshape(self.plan.element_count, -1), shared)
        own = np.where(slots.elements >= 0, largest[slots.elements], -1)
        reach = np.maximum.accumulate(own.reshape(-1, size).max(axis=1)).astype(np.int64) + 1
        if self.kernels.blocks_ahead:
            horizon = np.minimum(np.arange(len(reach)) + self.kernels.blocks_ahead, len(reach) - 1)
        else:
            horizon = np.repeat(slots.begin[1:] - 1, np.diff(slots.begin))
        moves = block_moves(reach, horizon, self.kernels.moved_by_block, shared)
        self.moved_first = int(moves[0])
        return moves

    @property
    def _moves_ahead(self) -> bool:
        """True if blocks may move points of later ones: with other ranks, momenta of shared points are set to zero
        before the first launch (see `SharedMomenta`), and the elements of a color are everywhere in the mesh."""
        plan = self.plan
        return self.kernels.moved_by_block > 0 and not plan.deterministic and not plan.border.with_rank

    @property
    def groups(self) -> list[ElementGroup]:
        """All groups."""
        return [*self.outer, *self.inner]

    def _group(self, own_members: Members) -> ElementGroup:
        """Return elements of one kind in blocks after those of the previous groups."""
        plan, backend, kernels = self.plan, self.backend, self.kernels
        kind, members = own_members.kind, own_members.elements
        moving = self._moves_ahead and self._blocks == 0  # later groups have points of the first one
        divided = moving and not kernels.blocks_ahead
        slots = place_elements(members, plan.mesh.elements, self.arrangement, plan.deterministic, divided)
        if kind.fluid:
            moduli, rows = plan.materials.mobility(members), np.arange(len(members))
        else:
            moduli, rows = plan.materials.moduli(members)
        rotated = bool(kind.layer) and not kind.aligned
        if kind.gravity or rotated:
            moduli, rows = moduli[rows], np.arange(len(members))
        if kind.gravity:
            moduli = np.concatenate([moduli, gravity_values(plan, members, moduli.dtype)], axis=1)
        inside = np.full(plan.element_count, -1, np.int64)
        inside[members] = np.arange(len(members))
        own = np.where(slots.elements >= 0, inside[slots.elements], -1)
        maps, in_maps = plan.coefficients, slots.elements
        if kind.affine:  # the powers of a parallelepiped: 0 and 1, also in a mesh of 27 nodes
            maps = maps[..., :2, :2, :2]
        if rotated:
            maps, in_maps = maps[members][:, kind.rotation], own
            moduli = rotated_moduli(moduli, kind.first_axis)
        first, self._blocks = self._blocks, self._blocks + len(slots.elements) // self.arrangement.elements
        self._slots.append(slots.elements)
        places = np.empty(len(members), np.int64)
        places[own[own >= 0]] = np.flatnonzero(own >= 0)
        table = group_arrays(plan.degree, backend.dtype, self.arrangement, backend.name, kind, len(own))
        values = {
            "order": slots.order + first, "moduli": kernels.pack_moduli(moduli, np.where(own < 0, -1, rows[own])),
            "geometry": kernels.pack_maps(maps, in_maps, kind), "filters": self._filters(kind, members, own),
            **self._relaxing(kind, members, own),
        }  # fmt: skip
        arrays = {name: table.upload(backend, name, array) for name, array in values.items()}
        arrays |= {name: table.zeros(backend, name) for name in ("memory", "relaxation")}
        moves = backend.upload(self._moves(slots) if moving else np.zeros(0), np.uint32)
        return ElementGroup(
            kind=kind, first_block=first, begin=slots.begin, moves=moves, members=members, places=places, **arrays
        )

    def _filters(self, kind: ElementKind, members: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Return the filters of an absorbing layer in the elements of a group."""
        plan, arrangement, n = self.plan, self.arrangement, self.plan.degree + 1
        if not kind.layer:
            return np.zeros(0)
        chosen, place = plan.stretching.representatives(members)
        if kind.aligned:
            directions = kind.rotation[: kind.axes]
            axes = dependence(plan.coefficients[chosen])[:, :, directions].argmax(axis=1)
            lines = plan.stretching.lines(chosen, axes, directions).reshape(len(chosen), -1)
            return arrangement.of_elements(lines, np.where(slots < 0, -1, place[slots]))
        filters = plan.stretching.filters(chosen)[..., kind.rotation[: kind.axes], :]
        if not kind.damped:
            begins = plan.stretching.begins(chosen)[..., kind.rotation[: kind.axes]]
            filters[..., 0] *= np.where(begins, -1.0, 1.0)
        filters = filters[place]
        if not kind.damped:
            filters = np.concatenate([filters, plan.layer_friction(members)[..., None, :]], axis=-2)
        values = np.moveaxis(filters.reshape(len(members), n, n, n, -1), -1, 1)
        return arrangement.of_components(values, slots, 1.0)

    def _relaxing(self, kind: ElementKind, members: np.ndarray, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Return the moduli of the mechanisms of a group, and their recursion."""
        plan, backend, arrangement = self.plan, self.backend, self.arrangement
        if not kind.mechanisms:
            return {"relaxing": np.zeros(0), "recursion": np.zeros(0)}
        affine = plan.element_statistics.affine[members]
        moduli, place = distinct_moduli(
            plan.mesh, plan.materials, plan.degree, members, kind.carriers, backend.dtype, affine
        )
        packed = arrangement.of_carriers(moduli, np.where(slots < 0, -1, place[slots]))
        return {"relaxing": packed, "recursion": recursion(plan.materials.losses.body, plan.schedule.time_step)}

    def _relaxing_groups(self, carriers: int) -> list[ElementGroup]:
        return [group for group in self.groups if group.kind.carriers == carriers]

    def relaxing_elements(self, carriers: int) -> np.ndarray:
        """Return the global indices of the elements with memory variables of attenuation at the points of this set."""
        members = [group.members for group in self._relaxing_groups(carriers)]
        return self.plan.mesh.numbers_in_whole[np.concatenate([np.zeros(0, np.int64), *members])]

    def freeze_relaxation(self, carriers: int) -> Callable[[], np.ndarray]:
        """Return a function of the memory variables of these elements, (elements, 6 n points) [point, mechanism,
        component]."""
        columns = COMPONENTS * self.plan.mechanisms * carrier_count(self.plan.degree, carriers)
        groups = self._relaxing_groups(carriers)
        return self._rows(self.arrangement.from_carriers, groups, [group.relaxation for group in groups], columns)

    def _rows(
        self, arrange: Callable[[np.ndarray, np.ndarray], np.ndarray], groups: Sequence[ElementGroup],
        arrays: Sequence[Array], columns: int,
    ) -> Callable[[], np.ndarray]:  # fmt: skip
        """Return a function of the present values of one array of each group, (elements, columns)."""
        frozen = [self.backend.freeze(array) for array in arrays]

        def rows() -> np.ndarray:
            parts = [
                arrange(values.wait(), group.places).reshape(-1, columns)
                for values, group in zip(frozen, groups, strict=True)
            ]
            return np.concatenate([np.zeros((0, columns), self.backend.dtype), *parts])

        return rows

    def restore_relaxation(self, carriers: int, values: np.ndarray) -> None:
        """Set the memory variables from those of `freeze_relaxation`."""
        points, first = carrier_count(self.plan.degree, carriers), 0
        for group in self._relaxing_groups(carriers):
            count = len(group.members)
            own = values[first : first + count].reshape(count, points, -1)
            slots = np.full(self.arrangement.elements * group.relaxation.shape[0], -1, np.int64)
            slots[group.places] = np.arange(count)
            self.backend.assign(group.relaxation, self.arrangement.of_carriers(own, slots))
            first += count

    def _layer_groups(self, filters: int, fluid: bool) -> list[ElementGroup]:
        return [group for group in self.groups if (group.kind.filters, group.kind.fluid) == (filters, fluid)]

    def layer_elements(self, filters: int, fluid: bool = False) -> np.ndarray:
        """Return the global indices of the elements of a layer with this number of filters, in a medium."""
        members = [group.members for group in self._layer_groups(filters, fluid)]
        return self.plan.mesh.numbers_in_whole[np.concatenate([np.zeros(0, np.int64), *members])]

    def freeze_layer_memory(self, filters: int, fluid: bool = False) -> Callable[[], np.ndarray]:
        """Return a function of the memory variables of these elements, (elements, variables n^3) [variable, k, j, i].
        """
        columns = (1 if fluid else 3) * filters * (self.plan.degree + 1) ** 3
        groups = self._layer_groups(filters, fluid)
        return self._rows(self.arrangement.from_components, groups, [group.memory for group in groups], columns)

    def restore_layer_memory(self, filters: int, fluid: bool, values: np.ndarray) -> None:
        """Set the memory variables from those of `freeze_layer_memory`."""
        n, first = self.plan.degree + 1, 0
        for group in self._layer_groups(filters, fluid):
            count = len(group.members)
            own = values[first : first + count].reshape(count, group.kind.memory_variables, n, n, n)
            slots = np.full(self.arrangement.elements * group.memory.shape[0], -1, np.int64)
            slots[group.places] = np.arange(count)
            self.backend.assign(group.memory, self.arrangement.of_components(own, slots, 0.0))
            first += count
