"""Amplitudes of sources at future time steps, computed in blocks of steps and copied to the device.

They are values of the time functions of many sources; those of finite faults are evaluated by one compiled loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.description.fault_sources import SubfaultFunction
from lithowave.solvers.common.resampling import Resampling, combine
from lithowave.solvers.interface import Schedule

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend
    from lithowave.description.sources import PointSource

BLOCK = 256


class SourceAmplitudes:
    """Values of time functions at t = (step + shift) * time_step, a block of steps at a time.

    If the schedule removes the error of the time steps, they are those of the time functions with which the scheme has
    the exact solution; see `resampling`.

    Parameters
    ----------
    sources : point sources.
    schedule : time step, and the frequency up to which its error is removed.
    shift : in steps; 0.5 for sources that act half a step later.
    moment, force : methods of the time functions of moment tensors, `rate` or `released`, and of forces, `amplitude` or
        `impulse`.
    """

    def __init__(
        self, sources: Sequence[PointSource], schedule: Schedule, shift: float, moment: str = "rate",
        force: str = "amplitude",
    ) -> None:  # fmt: skip
        self.sources, self.time_step, self.shift = list(sources), schedule.time_step, shift
        self.moment, self.force = moment, force
        frequency = schedule.corrected_frequency
        self._mapped = frequency is not None and Resampling(self.time_step, schedule.end, frequency, "sources")

    def block(self, step: int, some: slice = slice(None)) -> np.ndarray:
        """Return amplitudes (BLOCK, sources) of some sources in the block of steps that contains this one, in double
        precision.

        Blocks begin at multiples of their length, so that a restarted run computes the same ones.
        """
        if not self._mapped:
            return source_values(self.sources[some], self._times(step), self.moment, self.force)
        first, weights = self._mapped.weights(self._places(step), self.shift)
        numbers = np.arange(first.min(), first.max() + self._mapped.length)
        values = source_values(self.sources[some], (numbers + self.shift) * self.time_step, self.moment, self.force)
        found = np.empty((len(first), values.shape[1]))
        combine(first - numbers[0], weights, values, found)
        return found

    def acting(self, step: int) -> slice:
        """Return the range of sources of which some may act in the block of steps that contains this one."""
        first, last = self._times(step)[[0, -1]]
        if self._mapped:
            last = self._mapped.ends(self._places(step))[-1] * self.time_step
            first = last - (BLOCK + self._mapped.length) * self.time_step
        numbers = np.flatnonzero((self._supports[0] <= last) & (self._supports[1] >= first))
        return slice(int(numbers[0]), int(numbers[-1]) + 1) if numbers.size else slice(0, 0)

    @cached_property
    def _supports(self) -> np.ndarray:
        return supports(self.sources)

    def _places(self, step: int) -> np.ndarray:
        """Return the times of the block, in steps."""
        return step - step % BLOCK + np.arange(BLOCK) + self.shift

    def _times(self, step: int) -> np.ndarray:
        return self._places(step) * self.time_step


class Amplitudes(Protocol):
    """Time functions of sources."""

    def block(self, step: int) -> np.ndarray:
        """Return amplitudes (BLOCK, columns) of the block of steps that contains this one."""


class AmplitudeTable:
    """Present block of amplitudes on a device. array : (BLOCK, columns), double precision."""

    def __init__(self, backend: Backend, amplitudes: Amplitudes, columns: int) -> None:
        self._backend, self._amplitudes = backend, amplitudes
        self.array = backend.zeros((BLOCK, columns), np.float64)

    def load(self, step: int) -> None:
        """Copy the block that contains this step to the device."""
        self._backend.assign(self.array, self._amplitudes.block(step))


class AmplitudeRow:
    """Row of the present step in tables of amplitudes, which kernels increment at the end of the step.

    Parameters
    ----------
    backend : the device.
    tables : the tables, loaded when a block begins and after a jump in time.

    Attributes
    ----------
    array : (1,) on the device.
    """

    def __init__(self, backend: Backend, tables: Sequence[AmplitudeTable]) -> None:
        self._backend, self._tables, self._next = backend, tables, -1
        self.array = backend.zeros((1,), np.int64)

    def begin(self, step: int, count: int = 1) -> None:
        """Prepare `count` steps from `step`, all in one block."""
        if step != self._next or step % BLOCK == 0:
            self._backend.assign(self.array, np.array([step % BLOCK]))
            for table in self._tables:
                table.load(step)
        self._next = step + count


def upload_entries(
    backend: Backend, target: np.ndarray, weight: np.ndarray, owner: np.ndarray
) -> tuple[Array, Array, Array, Array]:
    """Return the lists of a kernel `inject` on the device: target, begin, weight, owner.

    Parameters
    ----------
    target : (entries,), index of the value on which a source acts.
    weight : (entries, ...), change of this value for an amplitude of one.
    owner : (entries,), column of the amplitude.

    Returns
    -------
    Distinct targets in ascending order, (targets,); first entry of each and the end, (targets + 1,); weights and owners
    of the entries, by target and owner.
    """
    order = np.lexsort((owner, target))
    target, weight, owner = target[order], weight[order], owner[order]
    targets, begin = np.unique(target, return_index=True)
    return (
        backend.upload(targets, np.int64), backend.upload(np.append(begin, len(target)), np.int64),
        backend.upload(weight, np.float64), backend.upload(owner, np.int64),
    )  # fmt: skip


def source_values(
    sources: Sequence[PointSource], times: np.ndarray, moment: str, force: str = "amplitude"
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


def supports(sources: Sequence[PointSource]) -> np.ndarray:
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
