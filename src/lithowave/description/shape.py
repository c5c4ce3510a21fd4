"""What the shapes of time functions have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import model_validator

from lithowave.description.base import DescriptionModel
from lithowave.errors import InputError


class TimeFunctionShape(DescriptionModel):
    """The shape of a time function; :class:`.time_functions.TimeFunction` says what each method does."""

    if TYPE_CHECKING:  # each shape declares its own, in its own words
        delay: float

    @model_validator(mode="after")
    def _settle_delay(self) -> Self:
        # Written into the instance, so that a description that is written out shows the delay that was taken.
        if self.delay is None:
            self.__dict__["delay"] = self._default_delay()
        return self

    def _default_delay(self) -> float:
        """Return the default delay."""
        return 0.0

    @property
    def final(self) -> float:
        """The cumulative moment at the end."""
        return 1.0

    @abstractmethod
    def amplitude(self, time: np.ndarray) -> np.ndarray:
        """Return the factor of a force, peak one."""

    def rate(self, time: np.ndarray) -> np.ndarray:
        """Return the moment-rate shape, unit area, in 1/s."""
        raise self._no_moment()

    def released(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of the rate from the beginning to each time."""
        raise self._no_moment()

    @abstractmethod
    def impulse(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of the amplitude from the beginning to each time, s."""

    @abstractmethod
    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        """Return the first and last time between which the function may exceed ``fraction`` of its peak."""

    @abstractmethod
    def maximum_frequency(self, fraction: float = 0.05) -> float:
        """Return the frequency beyond which the amplitude spectrum stays below ``fraction`` of its maximum, in Hz."""

    def moment_refusal(self) -> str | None:
        """Return why this function cannot be a moment rate; None if it can."""
        return None

    def onset_amplitude(self) -> float:
        """Return the largest value before time 0 relative to the peak."""
        # Wider than any threshold a caller may have; a thousand times within it resolve every shape there is.
        start, end = self.support(1e-12)
        if start >= 0.0:
            return 0.0
        just_before = np.nextafter(0.0, -1.0)
        peak = np.abs(self.amplitude(np.linspace(start, end, 2001))).max()
        cut = np.abs(self.amplitude(np.linspace(start, min(end, just_before), 2001))).max()
        return float(min(cut / peak, 1.0))

    def input_files(self) -> list[Path]:
        """Return the files that the function refers to."""
        return []

    def _since(self, time: np.ndarray) -> np.ndarray:
        return np.asarray(time, dtype=float) - self.delay

    def _no_moment(self) -> InputError:
        return InputError("time_function", self.moment_refusal() or "has no moment rate")


def last_crossing(function: Callable[[np.ndarray], np.ndarray], bound: float, level: float) -> float:
    """Return the largest argument between 0 and ``bound`` at which a function reaches ``level``.

    The function oscillates no faster than once a unit, reaches the level somewhere, and is below it from
    ``bound`` on.
    """
    grid = np.linspace(0.0, bound, int(np.clip(64.0 * bound, 4096, 2_000_000)))
    above = np.flatnonzero(function(grid) >= level)
    low = grid[above[-1]]
    high = grid[min(above[-1] + 1, grid.size - 1)]
    for _ in range(60):
        middle = 0.5 * (low + high)
        if function(np.asarray(middle)) >= level:
            low = middle
        else:
            high = middle
    return float(low)
