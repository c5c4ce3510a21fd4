"""Lists of kernel launches that are repeated: built once, captured by a device as one graph.

A launch is a function without arguments, usually `functools.partial` of a kernel and its arrays. It must not refer to
the solver that stores it: a solver is then freed with its last reference, without a garbage collection.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

Launch = Callable[[], None]


def run_launches(launches: Iterable[Launch]) -> None:
    """Call all launches in order."""
    for launch in launches:
        launch()


def captured(backend: Any, launches: Iterable[Launch]) -> Launch:
    """Return a function that runs the launches, which must always use the same kernels and arrays."""
    launches = tuple(launches)
    return backend.capture_graph(partial(run_launches, launches)) if launches else partial(run_launches, ())


class Programs:
    """Captured lists of launches by key."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._captured: dict[Hashable, Launch] = {}

    def run(self, key: Hashable, make: Callable[[], Iterable[Launch]]) -> None:
        """Run the launches of a key; `make` returns them when the key is used for the first time."""
        if key not in self._captured:
            self._captured[key] = captured(self._backend, make())
        self._captured[key]()

    def clear(self) -> None:
        """Release all lists, whose arrays may have been replaced."""
        self._captured.clear()
