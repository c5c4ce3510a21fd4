"""Peaks of velocity and displacement at points of the surface."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lithowave.solvers.common.programs import Launch
from lithowave.solvers.elements.samples import Samples


class SurfacePeaks:
    """Peaks on a regular grid of points on the surface.

    Parameters
    ----------
    backend : the device.
    x, y : lines of the grid, m.
    samples : those of its points that this rank has.
    displacement_rows : values that `surface_peaks` stores at a point to integrate the velocity.

    Attributes
    ----------
    arrays : by name, (rows, points) on the device: displacement, peak_velocity, peak_displacement.
    """

    def __init__(self, backend: Any, x: np.ndarray, y: np.ndarray, samples: Samples, displacement_rows: int) -> None:
        self._backend, self._x, self._y, self._samples = backend, x, y, samples
        count = max(1, samples.count)
        sizes = {"displacement": displacement_rows, "peak_velocity": 3, "peak_displacement": 3}
        self.arrays = {name: backend.zeros((size, count)) for name, size in sizes.items()}
        self._velocity, self._slot = backend.zeros((1, 3, count)), backend.zeros((1,), np.int64)

    @property
    def point(self) -> np.ndarray:
        """Indices (n,), x fastest, of the points of the grid that this rank has."""
        return self._samples.point

    def launches(self, solver: Any) -> list[Launch]:
        """Return the launches that read the present velocities and update the peaks."""
        step = self._backend.scalar(solver.plan.schedule.time_step)
        update = partial(solver.kernels.surface_peaks, self._velocity, step, *self.arrays.values())
        return [*self._samples.launches(solver, self._velocity, self._slot), update]

    def results(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver.peaks`."""
        velocity, displacement = (self.downloaded(name) for name in ("peak_velocity", "peak_displacement"))
        return {
            "x": self._x, "y": self._y, "points": self.point, "velocity": velocity, "displacement": displacement
        }  # fmt: skip

    def downloaded(self, name: str) -> np.ndarray:
        """Return an array (rows, n) of the points that this rank has."""
        return self._backend.download(self.arrays[name])[:, : self._samples.count]

    def restore(self, name: str, values: np.ndarray) -> None:
        """Set an array from values (n, rows)."""
        if self._samples.count:
            self._backend.assign(self.arrays[name], np.ascontiguousarray(values.T))
