"""A copy on its way to main memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Pending:
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
