"""A copy on its way to main memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class PendingCopy:
    """What `fetch` of a backend returns.

    Parameters
    ----------
    array : where the copy arrives, in main memory. finish : returns when it has arrived; None where it has.
    """

    def __init__(self, array: np.ndarray, finish: Callable[[], None] | None = None) -> None:
        self._array, self._finish = array, finish

    def wait(self) -> np.ndarray:
        """The array, once it is complete; may be called again.

        Raises
        ------
        ResourceError : when the device has failed meanwhile.
        """
        if self._finish is not None:
            self._finish()
            self._finish = None
        return self._array


class HostMirror:
    """An array of a device and its image in main memory, where other processes can read it; here they are one.

    host : the image.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.host = array

    def pull(self) -> None:
        """Begin to bring the array into the image, in the order of the device's work."""

    def wait(self) -> None:
        """Wait until the last `pull` is done."""

    def push(self) -> None:
        """Begin to bring the image into the array, in the order of the device's work."""
