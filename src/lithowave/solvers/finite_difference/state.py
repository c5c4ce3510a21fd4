"""State of a finite-difference run, or of one rank's subdomain, addressed by nodes of the global grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES, NodeRanges
from lithowave.solvers.array_sections import ArraySection, Hyperslab, Selection
from lithowave.solvers.finite_difference.cpml import AxisLayers


@dataclass(frozen=True)
class ArraySlice:
    """Slice of a device array.

    name : name of the array of the entire run. part : the slice, a view. axes : order that moves its z, y, x (or y, x)
    to the front. ranges : nodes of the global grid along x, y, z (or x, y). whole : shape of the array of the run along
    its first axes.
    """

    name: str
    part: Any
    axes: tuple[int, ...]
    ranges: NodeRanges
    whole: tuple[int, ...]

    @property
    def box(self) -> Hyperslab:
        """Hyperslab of the slice in the array of the run."""
        first = tuple(first for first, _ in self.ranges[::-1])
        return Hyperslab(first, tuple(end - first for first, end in self.ranges[::-1]), self.whole)


def mechanism_arrays(name: str, array: Any, planes: int) -> dict[str, Any]:
    """Return the memory variables of each mechanism, (planes, rows, columns), by name; `array` contains them all."""
    return {f"{name}/{first // planes}": array[first : first + planes] for first in range(0, array.shape[0], planes)}


class CheckpointArrays:
    """All arrays of a checkpoint.

    Parameters
    ----------
    plan : grid and own nodes of this rank. layers : layers along the axes. fields, memory, peaks : arrays of the solver
    on the device.
    """

    def __init__(
        self,
        plan: Any,
        layers: Sequence[AxisLayers],
        fields: dict[str, Any],
        memory: dict[str, list[Any]],
        peaks: dict[str, Any],
    ) -> None:
        self.plan, self.layers, self.fields, self.memory, self.peaks = plan, layers, fields, memory, peaks
        self.whole = plan.grid.whole.shape[::-1]

    def sections(self, download: Callable[[Any], np.ndarray]) -> dict[str, ArraySection]:
        """Return the sections that only this rank owns."""
        return {
            array.name: ArraySection(array.box, np.ascontiguousarray(download(array.part).transpose(array.axes)))
            for array in self._arrays(self.plan.own)
        }

    def selections(self) -> dict[str, Selection]:
        """Return the selections of everything that this rank stores, ghosts included."""
        return {array.name: array.box for array in self._arrays(self._with_halo())}

    def restore(self, values: dict[str, np.ndarray], assign: Callable[[Any, np.ndarray], None]) -> None:
        """Copy the values of `selections` into the arrays."""
        for array in self._arrays(self._with_halo()):
            assign(array.part, np.ascontiguousarray(values[array.name].transpose(np.argsort(array.axes))))

    def _with_halo(self) -> NodeRanges:
        """Return the nodes of the rank's grid and those of the halo around it that other ranks own."""
        grid, halo = self.plan.grid, self.plan.halo
        return [
            (max(0, first - halo), min(nodes, first + count + halo))
            for first, count, nodes in zip(grid.first, grid.shape, grid.whole.shape, strict=True)
        ]

    def _arrays(self, ranges: NodeRanges) -> Iterator[ArraySlice]:
        """Yield the slices of all arrays at nodes of these ranges of the global grid."""
        halo, first = self.plan.halo, self.plan.grid.first
        x, y, z = (
            slice(low - start + halo, end - start + halo) for (low, end), start in zip(ranges, first, strict=True)
        )
        for name, field in self.fields.items():
            yield ArraySlice(f"field/{name}", field[z, y, x], (0, 1, 2), ranges, self.whole)
        grid = self.plan.grid
        inside = [
            (max(low, start), min(end, start + count))
            for (low, end), start, count in zip(ranges, first, grid.shape, strict=True)
        ]
        for kind, arrays in self.memory.items():
            for axis, array in enumerate(arrays):
                yield from self._layer_arrays(f"layers/{AXES[axis]}/{kind}", axis, array, inside)
        for name, array in self.peaks.items():
            if array.size:
                x, y = (slice(low - start, end - start) for (low, end), start in zip(inside[:2], first, strict=False))
                yield ArraySlice(f"peaks/{name}", array[:, y, x], (1, 2, 0), inside[:2], self.whole[1:])

    def _layer_arrays(self, name: str, axis: int, array: Any, ranges: NodeRanges) -> Iterator[ArraySlice]:
        """Yield the memory variables of the layers of one axis, each side separately."""
        found, first = self.layers[axis], self.plan.grid.first
        for number, (side, start) in enumerate(zip(found.sides, found.starts, strict=True)):
            depths = found.memory[3] if axis == 0 else found.memory[2 - axis] // len(found.sides)
            here = list(ranges)
            low, end = first[axis] + start, first[axis] + start + depths
            here[axis] = (max(ranges[axis][0], low), min(ranges[axis][1], end))
            if here[axis][0] >= here[axis][1]:
                continue
            at = [slice(low - start, end - start) for (low, end), start in zip(here, first, strict=True)]
            along = slice(here[axis][0] - low, here[axis][1] - low)
            behind = slice(number * depths + along.start, number * depths + along.stop)
            index = {
                0: (at[2], at[1], slice(3 * number, 3 * number + 3), along),
                1: (at[2], behind, slice(None), at[0]),
                2: (behind, at[1], slice(None), at[0]),
            }[axis]
            axes = (0, 1, 3, 2)  # the derivative after z, y, x
            yield ArraySlice(f"{name}/{side}", array[index], axes, here, self.whole)
