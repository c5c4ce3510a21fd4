"""Memory estimates: code that element methods share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lithowave.solvers.elements.point_location import reach, within_reach
from lithowave.solvers.elements.snapshot_grids import points_within, select_snapshot_grid, surface_grid

PEAK_VALUES = 15  # of a point of the surface: velocity and displacement before and now, and their peaks


def held_arrays(*parts: Any) -> Iterator[np.ndarray]:
    """Yield the arrays among the attributes of objects, and those in dictionaries of them."""
    for part in parts:
        for value in vars(part).values():
            inside: Iterable[Any] = value.values() if isinstance(value, dict) else (value,)
            yield from (item for item in inside if isinstance(item, np.ndarray))


def held_bytes(*parts: Any) -> int:
    """Return the bytes of distinct arrays among the attributes of objects; the repeated values of a view count once."""
    arrays = {id(array): array for array in held_arrays(*parts)}.values()
    sizes = ([n for n, step in zip(array.shape, array.strides, strict=True) if step] for array in arrays)
    return sum(array.itemsize * math.prod(size) for array, size in zip(arrays, sizes, strict=True))


def sampling_bytes(plan: Any, simulation: Any, location_bytes: Callable[[int, bool], int], tensor_rows: int) -> int:
    """Return the bytes of the locations of receivers, points of snapshots and points of the surface with peaks.

    Parameters
    ----------
    location_bytes : function of a number of points and True if stress is read there, which returns bytes.
    tensor_rows : rows of `sample` with the values from which stress is computed.
    """
    output = simulation.output
    total = location_bytes(len(simulation.acquisition.receivers), output.tensors)
    for selection in output.snapshots:
        tensors = tuple(selection.fields) != ("velocity",)
        points = len(points_within(select_snapshot_grid(plan, selection), *reach(plan)))
        total += location_bytes(points, tensors) + points * plan.value_bytes * (tensor_rows if tensors else 3)
    if output.peak_motion:
        points = int(within_reach(plan, surface_grid(plan)[2]).sum())
        total += location_bytes(points, False) + points * PEAK_VALUES * plan.value_bytes
    return total
