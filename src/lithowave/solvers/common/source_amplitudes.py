"""Amplitudes of many sources at the steps to come, computed in blocks: shared by all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

BLOCK = 256


class SourceAmplitudes:
    """Values of time functions at t = (step + shift) * time_step, a block of steps at a time.

    Parameters
    ----------
    functions : one callable for each source, t (s) -> amplitude.
    time_step : s.
    shift : in steps; 0.5 for what acts half a step later.
    """

    def __init__(self, functions: Sequence[Callable[[np.ndarray], np.ndarray]], time_step: float, shift: float) -> None:
        self.functions, self.time_step, self.shift = list(functions), time_step, shift

    def block(self, step: int) -> np.ndarray:
        """Amplitudes (BLOCK, n_sources) of the block of steps that holds this one, in double precision.

        Blocks begin at multiples of their length, so that a restarted run computes the same ones.
        """
        if not self.functions:
            return np.zeros((BLOCK, 0))
        times = (step - step % BLOCK + np.arange(BLOCK) + self.shift) * self.time_step
        return np.stack([function(times) for function in self.functions], axis=1)
