"""Results that functions of positions store for the next plane of a grid, whose columns are the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()  # of all objects, so that they can be copied


class RecentResults(Generic[T]):
    """Results by key; the oldest are removed. Several threads may use it at the same time.

    Parameters
    ----------
    most : maximum sum of the sizes of the stored results.
    size : function that returns the size of a result.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size = most, size
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a key, which `make` returns if it is not stored."""
        with _LOCK:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        result = make()
        with _LOCK:
            self._known[key] = result
            while sum(map(self._size, self._known.values())) > self._most:
                self._known.popitem(last=False)
        return result
