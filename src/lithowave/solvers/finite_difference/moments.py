r"""Moment tensors on the grid, as products of weights along the three axes.

A source of moment rate M s(t) changes the stresses of a step by -M s(t) dt w_x w_y w_z, with weights at nodes and at
half nodes along each axis (see `line_weights`). Only these lines of weights are stored, about 0.5 kB per source: a
finite fault of 100,000 subfaults has 3 x 10^8 products. The kernel adds them in bricks of 8 x 8 x 8 nodes, each of
which has a list of the sources that reach it in ascending order, so that the sum at a node does not depend on the
partition of the grid. In each block of steps it skips sources before the first and after the last one that acts. A
source beside an interface has several products (see `source_interfaces`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.source_amplitudes import BLOCK, AmplitudeTable, SourceAmplitudes
from lithowave.solvers.finite_difference.fields import STRESSES
from lithowave.solvers.finite_difference.line_weights import WIDTH, Ends, line_weights
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.source_interfaces import (
    MomentParts,
    SourceColumns,
    parts_of_moments,
    whole_moments,
)

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
        self, backend: Any, stencil: PointStencil, sources: Sequence[Any], schedule: Schedule,
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

    def arguments(self) -> tuple[Any, ...]:
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

    def __init__(self, backend: Any, amplitudes: SourceAmplitudes, columns: int) -> None:
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
    stencil: PointStencil, sources: Sequence[Any], columns: SourceColumns
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
