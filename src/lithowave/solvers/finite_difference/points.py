r"""Points off the grid: weights that spread a source over the grid and read a receiver from it.

Along each axis the weights are a sinc in a Kaiser window of 8 points (Hicks 2002, Geophysics 67, 156-165, r = 4,
b = 6.31), with the smallest change that makes polynomials up to degree 3 exact. Next to a free or rigid face, where the
window would reach outside, it is moved inward and made exact up to degree 5. A source uses the same weights divided by
the volume of the grid points (at a closed face: its quadrature weights), which makes sources and receivers exact
adjoints of each other: reciprocity holds to rounding, at the surface too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.mesh.grid import Grid, Ranges

HALF_WIDTH = 4
KAISER = 6.31
# Half cells towards +x, +y, +z at which each field lives.
STAGGER = {
    "vx": (1, 0, 0), "vy": (0, 1, 0), "vz": (0, 0, 1),
    "sxx": (0, 0, 0), "syy": (0, 0, 0), "szz": (0, 0, 0),
    "sxy": (1, 1, 0), "sxz": (1, 0, 1), "syz": (0, 1, 1),
}  # fmt: skip


@dataclass(frozen=True)
class PointWeights:
    """Weights of many points on one field: `index` into the flattened field, of point p from begin[p]."""

    index: np.ndarray
    weight: np.ndarray
    begin: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """The point that each entry belongs to."""
        return np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin))


def line_weights(position: float, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights that read a smooth function at `position` from its values at the integers first .. last."""
    nearest = round(position)
    if abs(position - nearest) < 1e-9 and first <= nearest <= last:
        return np.array([nearest]), np.array([1.0])
    start = int(np.floor(position)) - HALF_WIDTH + 1
    moved = min(max(start, first), max(last - 2 * HALF_WIDTH + 1, first))
    index = np.arange(moved, min(moved + 2 * HALF_WIDTH, last + 1))
    distance = index - position
    inside = np.abs(distance) < HALF_WIDTH
    envelope = np.i0(KAISER * np.sqrt(np.where(inside, 1 - (distance / HALF_WIDTH) ** 2, 0.0))) / np.i0(KAISER)
    weight = np.where(inside, np.sinc(distance) * envelope, 0.0)
    degree = min(3 if moved == start else 5, index.size - 1)
    # Least change in the norm that lets near points change most: w += E A^T (A E A^T)^-1 (e_0 - A w).
    freedom = 1.0 / (1.0 + distance**2) ** 2
    powers = (distance / HALF_WIDTH) ** np.arange(degree + 1)[:, None]
    missing = -powers @ weight
    missing[0] += 1.0
    weight = weight + freedom * (powers.T @ np.linalg.solve((powers * freedom) @ powers.T, missing))
    return index, weight


class PointStencil:
    """Builds weights for fields on a grid, or on a part of one: then for the nodes alone that are there.

    Parameters
    ----------
    grid : the grid, or the part that the field arrays are of.
    halo : cells around it in the field arrays.
    line_volume : for each axis (weights of nodes, weights of half nodes) of the whole grid in grid steps: 1 but at
    closed faces.
    strides : steps in elements along x, y and z in the field arrays.
    own : nodes of the whole grid from which receivers are read, those that no other rank reads; None for all.
    """

    def __init__(
        self,
        grid: Grid,
        halo: int,
        line_volume: list[tuple[np.ndarray, np.ndarray]],
        strides: tuple[int, int, int],
        own: Ranges | None = None,
    ) -> None:
        self.grid, self.halo, self.line_volume, self.strides = grid, halo, line_volume, strides
        self.present = [(first, first + count) for first, count in zip(grid.first, grid.shape, strict=True)]
        self.own = own or self.present

    def receivers(self, field: str, positions: np.ndarray) -> PointWeights:
        """Weights that read a field at positions (n, 3), m."""
        return self._weights(field, positions, as_source=False)

    def sources(self, field: str, positions: np.ndarray) -> PointWeights:
        """Weights, 1/m^3, that spread a unit point source at positions (n, 3), m, over a field."""
        return self._weights(field, positions, as_source=True)

    def is_read(self, position: np.ndarray) -> bool:
        """Whether a receiver reads any own node of any field."""
        return any(
            all(self._line(field, axis, position[axis], as_source=False)[0].size for axis in range(3))
            for field in STAGGER
        )

    def lie_in(self, index: np.ndarray, boxes: Sequence[Ranges]) -> np.ndarray:
        """Which places in a flattened field are points of one of some boxes (first, end along x, y, z)."""
        _, pitch, plane = self.strides
        places = (index % plane % pitch, index % plane // pitch, index // plane)
        found = np.zeros(index.shape, bool)
        for box in boxes:
            inside = np.ones(index.shape, bool)
            for place, (first, end) in zip(places, box, strict=True):
                inside &= (place >= first + self.halo) & (place < end + self.halo)
            found |= inside
        return found

    def _weights(self, field: str, positions: np.ndarray, as_source: bool) -> PointWeights:
        indices, weights = [], []
        for position in positions:
            index, weight = np.zeros(1, dtype=np.int64), np.ones(1)
            for axis in (2, 1, 0):
                line_index, line_weight = self._line(field, axis, position[axis], as_source)
                offset = (line_index - self.grid.first[axis] + self.halo) * self.strides[axis]
                index = (index[:, None] + offset[None, :]).ravel()
                weight = (weight[:, None] * line_weight[None, :]).ravel()
            indices.append(index)
            weights.append(weight)
        begin = np.concatenate([[0], np.cumsum([len(index) for index in indices])]).astype(np.int64)
        if not indices:
            return PointWeights(np.zeros(0, np.int64), np.zeros(0), begin)
        return PointWeights(np.concatenate(indices), np.concatenate(weights), begin)

    def _line(self, field: str, axis: int, coordinate: float, as_source: bool) -> tuple[np.ndarray, np.ndarray]:
        half, whole = STAGGER[field][axis], self.grid.whole
        last = whole.shape[axis] - 1 - half
        index, weight = line_weights(whole.index(axis, coordinate) - 0.5 * half, 0, last)
        if as_source:
            weight = weight / (self.line_volume[axis][half][index] * whole.spacing)
        first, end = self.present[axis] if as_source else self.own[axis]
        here = (index >= first) & (index < end)
        return index[here], weight[here]
