"""Device arrays for the records of receivers."""

from __future__ import annotations

from typing import Any

import numpy as np


class Records:
    """Two device arrays for records: one is filled while the other is copied to the host.

    Kernels write a record to `array[slot[0]]` and then increment `slot`, so that the launches of a record are the same
    each time.

    Attributes
    ----------
    array : (capacity, ...), the array that is being filled.
    filling : which of the two arrays that is, 0 or 1.
    slot : (1,) on the device, index of the next record.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def start(self, shape: tuple[int, ...], dtype: Any = None) -> None:
        """Allocate the arrays. shape : (capacity, ...); dtype : None for the precision of the run."""
        self._arrays = [self._backend.zeros(shape, dtype) for _ in range(2)]
        self.filling = 0
        self.slot, self._next = self._backend.zeros((1,), np.int64), 0

    @property
    def array(self) -> Any:
        """Array that is being filled."""
        return self._arrays[self.filling]

    def seek(self, slot: int) -> None:
        """Prepare one record at index `slot`, after which the kernels have incremented the index."""
        if slot != self._next:
            self._backend.assign(self.slot, np.array([slot]))
        self._next = slot + 1

    def fetch(self, count: int) -> Any:
        """Start to copy the first `count` records to the host, and return the pending copy.

        Further records are written to the other array.
        """
        full, self.filling = self._arrays[self.filling], 1 - self.filling
        return self._backend.fetch(full[:count])
