"""Copies between devices and main memory, possibly in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np


class PendingCopy:
    """Copy to main memory that may be in progress, returned by `fetch` of a backend.

    Parameters
    ----------
    array : destination in main memory. finish : waits for the end of the copy; None if the copy is complete.

    Attributes
    ----------
    shape, size : of the array. in_pieces : True if `pieces` requires less main memory than `wait`.
    """

    in_pieces = False

    def __init__(self, array: np.ndarray, finish: Callable[[], None] | None = None) -> None:
        self._array, self._finish = array, finish
        self.shape, self.size = array.shape, array.size

    def wait(self) -> np.ndarray:
        """Return the array after the copy is complete; may be called repeatedly.

        Raises
        ------
        ResourceError : the device has failed.
        """
        if self._finish is not None:
            self._finish()
            self._finish = None
        return self._array

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the values in order, in flat pieces along the first axes; each is valid until the next one is taken.

        Raises
        ------
        ResourceError : the device has failed.
        """
        yield self.wait().reshape(-1)


class HostMirror:
    """An array of a device and its image in main memory, which other processes can read; on a CPU they are one array.

    host : the image.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.host = array

    def pull(self) -> None:
        """Start copying the array to the image, in device order."""

    def wait(self) -> None:
        """Wait until the last `pull` is complete."""

    def push(self) -> None:
        """Start copying the image to the array, in device order."""
