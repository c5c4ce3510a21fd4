"""Memory layout of the points of elements: blocks of elements, arranged for a device.

On a CPU the elements of a block are the fastest index, so that a vector instruction processes all of them; on a GPU a
block belongs to a block of threads, with a thread for each line of points along the third local axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import SelfCheckError

if TYPE_CHECKING:
    import numpy.typing as npt

PART = 256  # blocks of points that are arranged at a time
ELEMENTS = 4096  # elements whose values are arranged at a time
LANES = 16  # elements of a block on a CPU
ENTITIES = 27  # corners, edges, faces, and the inside of an element
# On a GPU, by degree: threads of a block, which processes as many elements as fit, and the minimum number of blocks per
# multiprocessor in single and in double precision, which bounds the registers of a thread.
BLOCKS = {
    2: (128, 6, 3), 3: (128, 6, 2), 4: (128, 6, 3), 5: (256, 2, 1), 6: (256, 2, 1), 7: (128, 4, 2), 8: (256, 2, 1)
}  # fmt: skip
MAP_VALUES = {  # of the mapping of an element, by device
    "cpu": {"cuboid": 4, "affine": 24, "trilinear": 24, "upright": 28, "triquadratic": 81},
    "cuda": {"cuboid": 4, "affine": 12, "trilinear": 24, "upright": 28, "triquadratic": 84},
}


def pack_cuboid(coefficients: np.ndarray) -> np.ndarray:
    """Return the cofactors that are not zero, of xi, eta and zeta, and 1 / J: (elements, 4)."""
    x, y, z = coefficients[:, 0, 0, 0, 1], coefficients[:, 1, 0, 1, 0], coefficients[:, 2, 1, 0, 0]
    return np.stack([y * z, z * x, x * y, 1.0 / (x * y * z)], axis=1)


def pack_upright(coefficients: np.ndarray) -> np.ndarray:
    """Return dx/dxi, the coefficients of z up to the powers 2 except for the constant one, and dy/deta: (elements, 28).
    """
    powers, packed = coefficients.shape[-1], np.zeros((len(coefficients), 28))
    packed[:, :27].reshape(-1, 3, 3, 3)[:, :powers, :powers, :powers] = coefficients[:, 2]
    packed[:, 0], packed[:, 27] = coefficients[:, 0, 0, 0, 1], coefficients[:, 1, 0, 1, 0]
    return packed


@dataclass(frozen=True)
class ElementLayout:
    """Layout of elements and their points.

    points : n, GLL points along an axis of an element. elements : elements per block. lanes : threads of a block on a
    GPU; 0 for the layout of a CPU.

    Arrays of points are (blocks, n, n, n, elements) on a CPU, indexed [block, k, j, i, element], and (blocks, n, lanes)
    on a GPU, indexed [block, k, lane] with lane = (element * n + j) * n + i. Element number s in the order of the
    arrays is element s % elements of block s // elements.
    """

    points: int
    elements: int
    lanes: int = 0

    def block_count(self, elements: int) -> int:
        """Return the number of blocks for this many elements."""
        return -(-elements // self.elements)

    def point_shape(self, slots: int) -> tuple[int, ...]:
        """Return the shape of an array of points of this many slots."""
        n, blocks = self.points, self.block_count(slots)
        return (blocks, n, self.lanes) if self.lanes else (blocks, n, n, n, self.elements)

    def component_shape(self, slots: int, components: int, axis: int | None = None) -> tuple[int, ...]:
        """Return the shape of an array of several values of each point; axis : see `of_components`."""
        shape = list(self.point_shape(slots))
        shape.insert(self.component_axis if axis is None else axis, components)
        return tuple(shape)

    def element_shape(self, slots: int, values: int) -> tuple[int, ...]:
        """Return the shape of an array of values of elements; see `of_elements`."""
        blocks = self.block_count(slots)
        return (blocks * self.elements, values) if self.lanes else (blocks, values, self.elements)

    def index_shape(self, slots: int) -> tuple[int, ...]:
        """Return the shape of the indices of points, see `of_indices`."""
        if not self.lanes:
            return self.point_shape(slots)
        return self.block_count(slots) * self.elements, ENTITIES, 2 if self.points > 3 else 1

    def of_indices(self, numbers: np.ndarray, slots: np.ndarray, fill: int) -> np.ndarray:
        """Arrange indices of points, int32 (elements, k, j, i), as the element kernels read them, uint32.

        On a CPU, as an array of points. On a GPU by entity, (slots, 27, 2): corners, edges, faces and the inside of an
        element, [k][j][i], 0 at the low end, 1 between the ends, 2 at the high end; of each the index of the first
        point, and what is added to it per step along i, j and k: 8 bits each, from the lowest ones on, of a signed
        number. Of degree 2, where an entity has one point, only the index. fill : all indices of empty slots.
        """
        if not self.lanes:
            points = np.empty(self.point_shape(len(slots)), numbers.dtype)
            self._arrange([numbers], slots, fill, [points])
            return points.view(np.uint32)
        arranged = np.empty(self.index_shape(len(slots)), np.uint32)
        padded = np.full(len(arranged), -1, np.int64)
        padded[: len(slots)] = slots

        def arrange(part: slice) -> bool:
            return arrange_entities(numbers, padded[part], np.uint32(fill), arranged[part])

        if not all(over_parts(arrange, len(padded), ELEMENTS)):
            raise SelfCheckError("the points of an edge, a face or the inside of an element are not numbered in steps.")
        return arranged

    def _arrange(
        self, values: Sequence[np.ndarray], slots: np.ndarray, fill: float, arranged: Sequence[np.ndarray]
    ) -> None:
        """Arrange each of several values (elements, k, j, i) in its array of points."""
        padded = np.full(len(arranged[0]) * self.elements, -1, np.int64)
        padded[: len(slots)] = slots
        places, filling = padded.reshape(-1, self.elements), values[0].dtype.type(fill)
        width = self.lanes or self.elements

        def arrange(part: slice) -> None:
            for own, target in zip(values, arranged, strict=True):
                rows, blocks = own.reshape(len(own), -1), target[part]
                blocks = blocks.reshape(len(blocks), -1, width)
                assert np.may_share_memory(blocks, target)
                arrange_points(rows, places[part], self.points**2, self.lanes > 0, filling, blocks)

        over_parts(arrange, len(places), PART)

    def of_components(
        self, values: np.ndarray, slots: np.ndarray, fill: float, axis: int | None = None
    ) -> np.ndarray:
        """Arrange several values of each point (elements, c, k, j, i): (blocks, c, k, j, i, elements) on a CPU,
        (blocks, k, c, lanes) on a GPU. axis : of the components instead, from 0."""
        axis = self.component_axis if axis is None else axis
        arranged = np.empty(self.component_shape(len(slots), values.shape[1], axis), values.dtype)
        if values.shape[1]:
            self._arrange(list(np.moveaxis(values, 1, 0)), slots, fill, list(np.moveaxis(arranged, axis, 0)))
        return arranged

    @property
    def component_axis(self) -> int:
        """Axis of the components in `of_components`."""
        return 2 if self.lanes else 1

    def from_components(self, arranged: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the values (elements, c, k, j, i) in the slots `places`: the inverse of `of_components`."""
        n = self.points
        values = np.moveaxis(arranged, self.component_axis, 0)
        if self.lanes:  # (c, blocks, k, lanes)
            values = values[..., : self.elements * n * n].reshape(*values.shape[:3], self.elements, n, n)
            values = np.moveaxis(values, 3, 2)
        else:
            values = np.moveaxis(values, -1, 2)
        values = values.reshape(len(values), -1, n, n, n)
        return np.moveaxis(values[:, places], 0, 1)

    def carrier_shape(self, blocks: int, points: int, components: int) -> tuple[int, ...]:
        """Return the shape of an array of values at some points of each element: (blocks, points, c, elements) on a
        CPU, (blocks, elements, points, c) on a GPU."""
        own = (points, components)
        return (blocks, self.elements, *own) if self.lanes else (blocks, *own, self.elements)

    def of_carriers(self, values: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Arrange values (elements, points, c) as in `carrier_shape`; 0 without an element."""
        arranged = np.empty(self.carrier_shape(self.block_count(len(slots)), *values.shape[1:]), values.dtype)

        def arrange(part: slice) -> None:
            some = slots[part.start * self.elements : part.stop * self.elements]
            held = np.zeros((part.stop - part.start, self.elements, *values.shape[1:]), values.dtype)
            there = some >= 0
            held.reshape(-1, *values.shape[1:])[: len(some)][there] = values[some[there]]
            arranged[part] = held if self.lanes else np.moveaxis(held, 1, -1)

        over_parts(arrange, len(arranged), PART)
        return arranged

    def from_carriers(self, arranged: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the values (elements, points, c) in the slots `places`: the inverse of `of_carriers`."""
        held = arranged if self.lanes else np.moveaxis(arranged, -1, 1)
        return held.reshape(-1, *held.shape[2:])[places]

    def of_elements(
        self, values: np.ndarray, slots: np.ndarray, pack: Callable[[np.ndarray], np.ndarray] | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Arrange values of elements (elements, c) as (blocks, c, elements) on a CPU, (slots, c) on a GPU.

        Empty slots get the values of the first element. pack : function of the values of some elements, (n, ...) -> (n,
        c). dtype : of the result; default: that of the values.
        """
        chosen = pack or (lambda held: held)
        blocks = self.block_count(len(slots))
        padded = np.zeros(blocks * self.elements, np.int64)
        padded[: len(slots)] = np.maximum(slots, 0)
        count = chosen(values[:1]).shape[1]
        arranged = np.empty(self.element_shape(len(slots), count), dtype or values.dtype)

        def arrange(part: slice) -> None:
            rows = slice(part.start * self.elements, part.stop * self.elements)
            held = chosen(values[padded[rows]])
            if self.lanes:
                arranged[rows] = held
            else:
                arranged[part] = held.reshape(-1, self.elements, count).transpose(0, 2, 1)

        over_parts(arrange, blocks, -(-ELEMENTS // self.elements))
        return arranged


@exact_part
def arrange_points(values, slots, square, in_lanes, fill, arranged):  # pragma: no cover - compiled
    """Arrange values (elements, points) in blocks (blocks, rows, columns); see `ElementLayout`. slots : (blocks,
    elements) of a block. square : points of an element with one k."""
    for block in range(len(slots)):
        if in_lanes:
            arranged[block] = fill
        for place in range(slots.shape[1]):
            element = slots[block, place]
            for point in range(values.shape[1]):
                value = values[element, point] if element >= 0 else fill
                if in_lanes:
                    arranged[block, point // square, place * square + point % square] = value
                else:
                    arranged[block, point, place] = value


@exact_part
def arrange_entities(numbers, slots, fill, arranged):  # pragma: no cover - compiled
    """Arrange indices of points (elements, k, j, i) by entity (slots, 27, columns), see `ElementLayout.of_indices`;
    return False if the arranged values do not give all of them."""
    n, right = numbers.shape[1], True
    first, ahead = np.array([0, 1, n - 1]), np.array([0, min(2, n - 1), 0])
    for slot in range(len(slots)):
        element = slots[slot]
        if element < 0:
            arranged[slot] = 0
            arranged[slot, :, 0] = fill
            continue
        own = numbers[element]
        for c in range(3):
            for b in range(3):
                for a in range(3):
                    k, j, i = first[c], first[b], first[a]
                    begin = own[k, j, i]
                    along_i = own[k, j, ahead[a]] - begin if a == 1 and n > 3 else 0
                    along_j = own[k, ahead[b], i] - begin if b == 1 and n > 3 else 0
                    along_k = own[ahead[c], j, i] - begin if c == 1 and n > 3 else 0
                    right &= max(abs(along_i), abs(along_j), abs(along_k)) < 128
                    arranged[slot, 9 * c + 3 * b + a, 0] = begin
                    if n > 3:
                        steps = (along_i & 255) | (along_j & 255) << 8 | (along_k & 255) << 16
                        arranged[slot, 9 * c + 3 * b + a, 1] = steps
                    for z in range(k, n - 1 if c == 1 else k + 1):
                        for y in range(j, n - 1 if b == 1 else j + 1):
                            for x in range(i, n - 1 if a == 1 else i + 1):
                                moved = along_i * (x - i) + along_j * (y - j) + along_k * (z - k)
                                right &= own[z, y, x] == begin + moved
    return right


def device_layout(device: str, degree: int) -> ElementLayout:
    """Return the layout of the blocks of a device: ``cpu`` or ``cuda``."""
    if device == "cpu":
        return ElementLayout(degree + 1, LANES)
    threads = BLOCKS[degree][0]
    return ElementLayout(degree + 1, threads // (degree + 1) ** 2, threads)
