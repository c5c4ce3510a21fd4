"""Natural cubic splines through samples: smooth interpolation whose integral is known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class NaturalSpline:
    """The cubic spline through samples whose second derivative is zero at both ends; zero outside them.

    On an interval of length h, with a = (t₁ − t)/h and b = (t − t₀)/h,

        f(t) = a y₀ + b y₁ + ((a³ − a) m₀ + (b³ − b) m₁) h²/6,

    m being the second derivatives, which solve a tridiagonal system (de Boor 1978, chapter IV).

    Parameters
    ----------
    times : strictly increasing, shape (n,), n ≥ 2.
    values : shape (n,).
    """

    times: np.ndarray
    values: np.ndarray

    @cached_property
    def second_derivatives(self) -> np.ndarray:
        """Second derivative at each sample, shape (n,); zero at both ends."""
        count = self.times.size
        curvature = np.zeros(count)
        if count < 3:
            return curvature
        step = np.diff(self.times)
        slope = np.diff(self.values) / step
        diagonal = 2.0 * (step[:-1] + step[1:])
        right = 6.0 * np.diff(slope)
        # Forward elimination and back substitution; diagonally dominant, so no pivoting is needed.
        for i in range(1, count - 2):
            factor = step[i] / diagonal[i - 1]
            diagonal[i] -= factor * step[i]
            right[i] -= factor * right[i - 1]
        for i in range(count - 3, -1, -1):
            curvature[i + 1] = (right[i] - step[i + 1] * curvature[i + 2]) / diagonal[i]
        return curvature

    @cached_property
    def _integral_at_samples(self) -> np.ndarray:
        step, m = np.diff(self.times), self.second_derivatives
        pieces = 0.5 * step * (self.values[:-1] + self.values[1:]) - step**3 / 24.0 * (m[:-1] + m[1:])
        return np.concatenate([[0.0], np.cumsum(pieces)])

    @property
    def area(self) -> float:
        """Integral over all times."""
        return float(self._integral_at_samples[-1])

    def _interval(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the index of the interval of each time, its length h, and b = (t − t₀)/h."""
        index = np.clip(np.searchsorted(self.times, time, side="right") - 1, 0, self.times.size - 2)
        step = self.times[index + 1] - self.times[index]
        return index, step, (time - self.times[index]) / step

    def __call__(self, time: np.ndarray) -> np.ndarray:
        """Return the spline at any times; zero before the first and after the last sample."""
        time = np.asarray(time, dtype=float)
        index, step, b = self._interval(time)
        a = 1.0 - b
        y, m = self.values, self.second_derivatives
        bend = (a**3 - a) * m[index] + (b**3 - b) * m[index + 1]
        value = a * y[index] + b * y[index + 1] + bend * step**2 / 6.0
        return np.where((time >= self.times[0]) & (time <= self.times[-1]), value, 0.0)

    def integral(self, time: np.ndarray) -> np.ndarray:
        """Return the integral from the first sample to each time; zero before it, ``area`` after the last one."""
        time = np.clip(np.asarray(time, dtype=float), self.times[0], self.times[-1])
        index, step, b = self._interval(time)
        a = 1.0 - b
        y, m = self.values, self.second_derivatives
        straight = step * ((1.0 - a**2) * y[index] + b**2 * y[index + 1]) / 2.0
        bend = (2.0 * a**2 - a**4 - 1.0) * m[index] + (b**4 - 2.0 * b**2) * m[index + 1]
        return self._integral_at_samples[index] + straight + bend * step**3 / 24.0
