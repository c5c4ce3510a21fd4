"""Values of the time functions of many sources; those of finite faults are evaluated by one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.description.slip_rates import SubfaultFunction


def source_values(
    sources: Sequence[Any], times: np.ndarray, moment: str, force: str = "amplitude"
) -> np.ndarray:
    """Return the values (times, sources) of time functions at times (times,), s.

    moment, force : methods of the time functions of moment tensors, `rate` or `released`, and of forces, `amplitude` or
    `impulse`.
    """
    found = np.zeros((len(times), len(sources)))
    faults: dict[int, list[int]] = {}
    for column, source in enumerate(sources):
        function = source.time_function
        if isinstance(function, SubfaultFunction):
            faults.setdefault(id(function.table), []).append(column)
        else:
            found[:, column] = getattr(function, moment if source.force is None else force)(times)
    for columns in faults.values():
        table = sources[columns[0]].time_function.table
        numbers = np.array([sources[column].time_function.number for column in columns])
        acting = (table.start[numbers] <= times.max()) & ((table.end[numbers] >= times.min()) | (moment == "released"))
        evaluate_slip_rates(
            table.start, table.interval, table.offsets, table.rates, table.released, numbers[acting],
            np.array(columns)[acting], times, moment == "released", found,
        )  # fmt: skip
    return found


def supports(sources: Sequence[Any]) -> np.ndarray:
    """Return the first and last times (2, sources), s, at which the moment rate of a subfault differs from zero;
    infinite for other sources."""
    found = np.full((len(sources), 2), [-np.inf, np.inf])
    for row, source in zip(found, sources, strict=True):
        if isinstance(source.time_function, SubfaultFunction):
            row[:] = source.time_function.support()
    return found.T


@njit(error_model="numpy", cache=True, parallel=True)
def evaluate_slip_rates(start, interval, offsets, rates, released, numbers, columns, times, integral, out):
    """Set column columns[n] of out to function numbers[n] of `SlipRates` at some times, or to its integral."""
    for n in prange(numbers.size):
        number, column = numbers[n], columns[n]
        first, last = offsets[number], offsets[number + 1] - offsets[number] - 1
        for row in range(times.size):
            place = (times[row] - start[number]) / interval[number]
            if place >= 0.0 and place <= last:
                low = min(int(place), last - 1)
                part, at = place - low, first + low
                slope = rates[at + 1] - rates[at]
                if integral:
                    out[row, column] = released[at] + interval[number] * part * (rates[at] + 0.5 * part * slope)
                else:
                    out[row, column] = rates[at] + part * slope
            elif integral and place > last:
                out[row, column] = released[first + last]
