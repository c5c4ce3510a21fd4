"""Samples of seismograms at any interval from values at steps, and the steps of snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.resampling import Resampling, combine

ROWS = 64  # samples whose weights are computed at once
GROUPS = 4  # of them, whose weights are kept


class Sampling:
    """Samples at multiples of an interval, from values at steps that arrive in blocks.

    A sample between steps, or from which the error of the time steps is removed, is a sum over steps before and after
    it (`Resampling`), and is complete some steps later; the last samples of a run make do with fewer later steps.

    Parameters
    ----------
    schedule : time step, samples, and the frequency up to which the error of the steps is removed.
    averaged : True if the motion is a trapezoidal sum or a difference over two steps, like means of tensors.
    shapes : shapes of the values at one step, by name. first : step of the first value that will arrive; before it, all
    is at rest.
    """

    def __init__(
        self, schedule: Schedule, averaged: bool, shapes: Mapping[str, tuple[int, ...]], first: int = 0
    ) -> None:  # fmt: skip
        self.schedule, self.next = schedule, 0
        step, end, frequency = schedule.time_step, schedule.end, schedule.corrected_frequency
        self._tensors = None if schedule.sample_every else Resampling(step, end, frequency, averaged=True)
        self._motion = self._tensors if averaged or frequency is None else Resampling(step, end, frequency)
        count = 0 if self._tensors is None else self._tensors.length
        self.first = first - count  # step of the first value that is kept
        self.kept = {name: np.zeros((count, *shape)) for name, shape in shapes.items()}
        self._groups: dict[tuple[bool, int, int], tuple[np.ndarray, np.ndarray]] = {}

    def samples(self, values: dict[str, np.ndarray], last: int, every: int) -> dict[str, np.ndarray]:
        """Return the samples (times, ...) that values (steps, ...) complete.

        last : step of the last values. every : steps between two of them, 1 unless samples are on steps.
        """
        count = len(next(iter(values.values())))
        if self._tensors is None:
            return self._chosen(values, last - every * np.arange(count)[::-1])
        self.kept = {name: np.concatenate([self.kept[name], part]) for name, part in values.items()}
        places = self._places()
        complete = np.minimum(self._tensors.ends(places) - 1, self.schedule.steps) <= last
        return self._combined(places[complete], self.schedule.steps)

    def remaining(self) -> dict[str, np.ndarray]:
        """Return the samples up to the last step that has arrived."""
        if self._tensors is None:
            return {name: values[:0] for name, values in self.kept.items()}
        places = self._places()
        return self._combined(places[places <= self._last + 1e-6], self._last)

    @property
    def _last(self) -> int:
        """Step of the last value that has arrived."""
        return self.first + len(next(iter(self.kept.values()))) - 1

    def _places(self) -> np.ndarray:
        """Return the times of the samples that are not yet complete, in steps, up to the last step that has arrived."""
        interval = self.schedule.sampling_interval / self.schedule.time_step
        until = min(self.schedule.sample_count, math.floor((self._last + 1) / interval) + 1)
        return np.arange(self.next, until) * interval

    def _chosen(self, values: dict[str, np.ndarray], steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values at the steps of samples."""
        every = self.schedule.sample_every
        wanted = (steps % every == 0) & (steps // every < self.schedule.sample_count) & (steps >= 0)
        return {name: part[wanted] for name, part in values.items()}

    def _combined(self, places: np.ndarray, last: int) -> dict[str, np.ndarray]:
        """Return the samples at places (n,) from steps up to the last one, and forget what no later one requires."""
        found, numbers = {}, self.next + np.arange(len(places))
        for name, values in self.kept.items():
            first, weights = self._weights(self._motion if name == "motion" else self._tensors, numbers, last)
            lines = np.ascontiguousarray(values, float).reshape(len(values), math.prod(values.shape[1:]))
            sums = np.empty((len(places), lines.shape[1]))
            combine(first - self.first, weights, lines, sums)
            found[name] = sums.reshape(len(places), *values.shape[1:])
        self.next += len(places)
        following = self.next * self.schedule.sampling_interval / self.schedule.time_step
        begin = int(self._tensors.ends(np.array([following]))[0]) - self._tensors.length
        spent = min(max(begin - self.first, 0), self._last + 1 - self.first)
        self.kept = {name: values[spent:] for name, values in self.kept.items()}
        self.first += spent
        return found

    def _weights(self, resampling: Resampling, numbers: np.ndarray, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first steps and the weights of samples.

        They are computed for groups of samples that do not depend on the blocks, so that a restarted run computes the
        same ones.
        """
        firsts, rows = [np.zeros(0, np.int64)], [np.zeros((0, resampling.length))]
        for group in np.unique(numbers // ROWS):
            key = resampling.averaged, int(group), last
            if key not in self._groups:
                if len(self._groups) >= GROUPS:
                    self._groups.pop(next(iter(self._groups)))
                interval = self.schedule.sampling_interval / self.schedule.time_step
                places = (group * ROWS + np.arange(ROWS)) * interval
                self._groups[key] = resampling.weights(places, last=last)
            first, weights = self._groups[key]
            some = numbers[numbers // ROWS == group] % ROWS
            firsts.append(first[some])
            rows.append(weights[some])
        return np.concatenate(firsts), np.concatenate(rows)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that a restart requires."""
        return {"next": np.array(self.next), "first": np.array(self.first)} | {
            f"kept_{name}": values for name, values in self.kept.items()
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Resume from a state."""
        self.next, self.first = int(state["next"]), int(state["first"])
        self.kept = {name.removeprefix("kept_"): values for name, values in state.items() if name.startswith("kept_")}


@dataclass(frozen=True)
class SnapshotSteps:
    """The steps of snapshots: those closest to multiples of the interval, from time 0 to the last sample; every step if
    the interval is shorter than one.

    The loop continues for some steps after the last sample, which seismograms need.
    """

    interval: float
    schedule: Schedule

    @property
    def _ratio(self) -> float:
        return max(1.0, self.interval / self.schedule.time_step)

    def until(self, step: int) -> int:
        """Return the number of snapshots up to a step."""
        return math.ceil((min(step, self.schedule.last_step) + 0.5) / self._ratio * (1.0 - 1e-12))

    def __len__(self) -> int:
        return self.until(self.schedule.last_step)

    def __contains__(self, step: int) -> bool:
        return step == 0 or self.until(step) > self.until(step - 1)
