"""Memory layout of elements: in blocks that a device processes in parallel, by kind and by cluster.

Elements that use the same kernel are contiguous: isotropic ones, and those that are anisotropic or have an anisotropic
neighbor; among each those in the domain, and those in an absorbing layer; among each of these elastic ones, and those
with attenuation; among each of these those whose neighbors are all in the same cluster, those that also have neighbors
with longer steps, and those that have neighbors with shorter steps; and among these the outer elements, for which other
ranks wait, before the inner ones. In each of these groups they are sorted by cluster, so that at any time those whose
step begins are the first blocks of the group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES

LANES = {"single": 16, "double": 8}  # elements of a block on a CPU
GPU_LANES = 32  # and on a GPU: those of a warp
# From this order on, a step on a GPU is two kernels, which process this number of blocks at a time.
SPLIT_ORDERS, SPLIT_BLOCKS = {"single": 7, "double": 6}, 4224
PADDED_NUMBERS = {False: 16, True: 44}  # values of a face on a GPU, padded for alignment

PART = 65_536  # slots that a thread links at a time

# Step of an element's neighbor at a face: as often, half as often, twice as often. Of an element: FASTER if any of its
# neighbors is, else SLOWER if any is.
ALIKE, SLOWER, FASTER = 0, 1, 2


@dataclass(frozen=True)
class BlockLayout:
    """Arrangement of the values of blocks on a device.

    lanes : elements in a block. mode_major : True for coefficients [block, mode, quantity, lane], as on a CPU; on a GPU
    [block, quantity, mode, lane].
    """

    lanes: int
    mode_major: bool

    def trace_width(self, face_modes: int) -> int:
        """Return the number of values stored for a component of a trace."""
        return -(-face_modes // 4) * 4

    def packed(self, values: np.ndarray) -> np.ndarray:
        """Arrange values (slots, c) of elements as (blocks, c, lanes)."""
        return np.ascontiguousarray(values.reshape(-1, self.lanes, values.shape[1]).swapaxes(1, 2))

    def coefficients(self, blocks: int, modes: int, quantities: int = QUANTITIES) -> tuple[int, int, int, int]:
        """Return the shape of the coefficients of this many blocks."""
        return (blocks, *((modes, quantities) if self.mode_major else (quantities, modes)), self.lanes)

    def own_index(self, place: int, face: int, face_modes: int) -> np.ndarray:
        """Return indices (3, face modes) in the flattened stored traces; see `element_kernels` for a CPU."""
        width = self.trace_width(face_modes)
        component, mode = np.arange(3)[:, None], np.arange(face_modes)
        if not self.mode_major:
            return ((4 * place + face) * 3 + component) * width + mode
        block, lane = divmod(place, self.lanes)
        return ((block * 4 + face) * 3 * width + component * face_modes + mode) * self.lanes + lane

    def of_host(self, values: np.ndarray) -> np.ndarray:
        """Arrange coefficients (blocks * lanes, quantities, modes) as on the device."""
        split = values.reshape(-1, self.lanes, *values.shape[1:])
        return np.ascontiguousarray(split.transpose(0, 3, 2, 1) if self.mode_major else split.transpose(0, 2, 3, 1))

    def to_host(self, values: np.ndarray) -> np.ndarray:
        """Invert `of_host`."""
        split = values.transpose(0, 3, 2, 1) if self.mode_major else values.transpose(0, 3, 1, 2)
        return split.reshape(-1, *split.shape[2:])


@dataclass(frozen=True)
class Group:
    """Blocks that use the same kernel.

    first. ends : end of each cluster's blocks, (clusters,). anisotropic : itself or a neighbor. layer : in an absorbing
    layer. mechanisms : of attenuation. mixed : ALIKE, SLOWER or FASTER. outer : a neighbor is on another rank.
    """

    first: int
    ends: tuple[int, ...]
    anisotropic: bool
    layer: bool
    mechanisms: int
    mixed: int
    outer: bool = False

    @property
    def kind(self) -> tuple[bool, bool, int]:
        """Anisotropic, in a layer, and mechanisms: blocks with the same coefficients."""
        return self.anisotropic, self.layer, self.mechanisms

    @property
    def variant(self) -> tuple[bool, int, bool, int]:
        """Anisotropic, mixed, in a layer, and mechanisms: blocks with the same kernel."""
        return self.anisotropic, self.mixed, self.layer, self.mechanisms

    @property
    def end(self) -> int:
        """Index after the last block."""
        return self.ends[-1]


@dataclass(frozen=True)
class ElementLayout:
    """Slots of the elements.

    slots : element in each slot, -1 for none. place : slot of each element. groups. block_cluster : cluster of each
    block.
    """

    layout: BlockLayout
    slots: np.ndarray
    place: np.ndarray
    groups: tuple[Group, ...]
    block_cluster: np.ndarray

    @property
    def block_count(self) -> int:
        """Blocks of all groups."""
        return len(self.block_cluster)

    def of_elements(self, values: np.ndarray, some: slice = slice(None)) -> np.ndarray:
        """Return values of elements (elements, ...) in the slots `some`; 0 for an empty slot."""
        slots = self.slots[some]
        found = values[np.maximum(slots, 0)]
        found[slots < 0] = 0
        return found


def make_arrangement(
    layout: BlockLayout, cluster: np.ndarray, neighbors: np.ndarray, anisotropic: np.ndarray, clusters: int = 1,
    layer: np.ndarray | None = None, mechanisms: np.ndarray | None = None,
) -> ElementLayout:  # fmt: skip
    """Assign slots to elements; those in each group and cluster retain their order.

    neighbors : (elements, 4), -1 for none; those of other ranks have indices after the own elements. cluster,
    anisotropic : of each element, those of other ranks included. clusters : minimum number of clusters.
    layer : True for own elements of an absorbing layer; None for no layer. mechanisms : of attenuation of own elements;
    None for elastic ones.
    """
    there, elements = neighbors >= 0, len(neighbors)
    relaxing = np.zeros(elements, np.int64) if mechanisms is None else mechanisms
    layered = np.zeros(elements, bool) if layer is None else layer
    own_cluster = cluster[:elements]
    kind, count = np.empty(elements, np.uint16), max(clusters, int(cluster.max(initial=0)) + 1)
    amounts = np.unique(relaxing)

    def examine(part: slice) -> None:
        some, across = there[part], neighbors[part]
        near = anisotropic[:elements][part] | (some & anisotropic[across]).any(axis=1)
        further = np.where(some, cluster[across] - own_cluster[part, None], 0)
        mixed = np.select([(further < 0).any(axis=1), (further > 0).any(axis=1)], [FASTER, SLOWER], ALIKE)
        inner = (across < elements).all(axis=1)
        parts = near, layered[part], np.searchsorted(amounts, relaxing[part]), mixed, inner
        kind[part] = np.ravel_multi_index(tuple(value.astype(np.int64) for value in parts), sizes)

    sizes = 2, 2, len(amounts), 3, 2
    over_parts(examine, elements, PART)
    groups, slots, clusters_of_blocks, blocks = [], [], [], 0
    # Of 16 bits, a stable sort takes time in proportion to the number of elements.
    code = kind * np.uint16(count) + own_cluster.astype(np.uint16)
    order = np.argsort(code, kind="stable")
    ends_of = np.cumsum(np.bincount(code, minlength=math.prod(sizes) * count)).reshape(-1, count)
    for number, last in enumerate(ends_of):
        begin = ends_of[number - 1, -1] if number else 0
        if begin == last[-1]:
            continue
        first, ends = blocks, []
        for c in range(count):
            own, begin = order[begin : last[c]], last[c]
            own = np.append(own, np.full(-len(own) % layout.lanes, -1))
            slots.append(own)
            blocks += len(own) // layout.lanes
            clusters_of_blocks.append(np.full(len(own) // layout.lanes, c, np.int32))
            ends.append(blocks)
        near, layered_too, amount, mixed, inner = (int(one) for one in np.unravel_index(number, sizes))
        groups.append(
            Group(first, tuple(ends), bool(near), bool(layered_too), int(amounts[amount]), mixed, not inner)
        )
    joined = np.concatenate(slots)
    place = np.empty(elements, np.int64)
    place[joined[joined >= 0]] = np.flatnonzero(joined >= 0)
    return ElementLayout(layout, joined, place, tuple(groups), np.concatenate(clusters_of_blocks))


@dataclass(frozen=True)
class Links:
    """Slots from which the faces of elements read their neighbors' traces; a slot holds one trace.

    neighbor : (element slots, 4), slot that the neighbor at a face writes; the slot of zeros without a neighbor. second
    : (element slots, 4), 4 times the slot of a second half plus the step of the neighbor: if it steps faster, this
    element writes there the trace of the second half of its step; if it steps slower, the neighbor does. Traces
    received from other ranks have separate slots. slots : number of slots, including the slot of zeros, which is the
    last one.
    """

    neighbor: np.ndarray
    second: np.ndarray
    slots: int


def make_links(arrangement: ElementLayout, cluster: np.ndarray, neighbors: np.ndarray) -> Links:
    """Return links. neighbors : (elements, 4), 4 x neighbor + its local face, -1 for none; cluster : of each."""
    slots, elements = arrangement.slots, len(arrangement.place)
    remote = len(cluster) - elements
    neighbor, relation = np.empty((len(slots), 4), np.int64), np.empty((len(slots), 4), np.int64)
    lists = slots, arrangement.place, cluster, neighbors, neighbor, relation
    over_parts(lambda part: link_slots(part.start, part.stop, *lists), len(slots), PART)
    # Slots: all faces of all elements; second halves; faces across shared ones, and their second halves.
    faster, slower = relation == FASTER, relation == SLOWER
    writers = np.flatnonzero(faster)
    first_remote = 4 * len(slots) + len(writers)
    far = neighbor >= 4 * len(slots)
    neighbor[far] += len(writers)
    halves = np.full(first_remote + remote, -1, np.int64)
    halves[writers] = 4 * len(slots) + np.arange(len(writers))
    readers = np.unique(neighbor[far & slower])
    halves[readers] = first_remote + remote + np.arange(len(readers))
    last = first_remote + remote + len(readers)
    second = relation.copy()
    second.ravel()[writers] += 4 * halves[writers]
    second[slower] += 4 * halves[neighbor[slower]]
    neighbor[neighbor < 0] = last
    return Links(neighbor, second, last + 1)


@exact_part
def link_slots(first, end, slots, place, cluster, neighbors, neighbor, relation):  # pragma: no cover - compiled
    """Compute for some slots the slots that the neighbors write, -1 for none, and how often they step; the elements of
    other ranks follow all slots of this rank."""
    for slot in range(first, end):
        element = slots[slot]
        for face in range(4):
            across = neighbors[element, face] if element >= 0 else -1
            neighbor[slot, face], relation[slot, face] = -1, ALIKE
            if across >= 0:
                other = across // 4
                if other < len(place):
                    neighbor[slot, face] = 4 * place[other] + across % 4
                else:
                    neighbor[slot, face] = 4 * len(slots) + other - len(place)
                if cluster[other] > cluster[element]:
                    relation[slot, face] = SLOWER
                elif cluster[other] < cluster[element]:
                    relation[slot, face] = FASTER


def device_layout(device: str, precision: str) -> BlockLayout:
    """Return the layout of the blocks of a device: ``cpu`` or ``cuda``."""
    if device == "cpu":
        return BlockLayout(LANES[precision], mode_major=True)
    return BlockLayout(GPU_LANES, mode_major=False)
