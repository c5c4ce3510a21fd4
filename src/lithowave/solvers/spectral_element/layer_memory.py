"""Memory variables of the points at which an absorbing layer begins, on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.absorption import LayerPoints


@dataclass(frozen=True)
class LayerMemory:
    """Points with the same number of filters, and the arrays of `unstretch` (see `arguments`).

    numbers : indices of the points, on the host; point : the same on the device.
    """

    numbers: np.ndarray
    stretched: Any
    memory: Any
    point: Any
    filters: Any

    @classmethod
    def allocate(cls, backend: Any, points: LayerPoints) -> LayerMemory:
        """Return zero memory variables on the device of a backend."""
        count, filters, _ = points.filters.shape
        return cls(
            points.point, backend.zeros((count, 3)), backend.zeros((count, filters, 3)),
            backend.upload(points.point, np.int64), backend.upload(points.filters),
        )  # fmt: skip

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of `unstretch` after the momentum."""
        return self.stretched, self.memory, self.point, self.filters

    def downloaded(self, backend: Any) -> np.ndarray:
        """Return the variables of each point, (points, 3 + 3 filters)."""
        memory = backend.download(self.memory)
        columns = memory.shape[1] * memory.shape[2]
        return np.concatenate([backend.download(self.stretched), memory.reshape(len(memory), columns)], axis=1)

    def restore(self, backend: Any, values: np.ndarray) -> None:
        """Set the variables from those of `downloaded`."""
        if len(self.numbers):
            backend.assign(self.stretched, np.ascontiguousarray(values[:, :3]))
            backend.assign(self.memory, np.ascontiguousarray(values[:, 3:]).reshape(self.memory.shape))
