"""Halo exchange between threads that are ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class Turns:
    """Messages between threads, of which one works at a time: kernels are not made for several."""

    def __init__(self, ranks: Any, backend: Any, lock: threading.Lock) -> None:
        self.ranks, self.backend, self.lock = ranks, backend, lock

    def message(self, sends: dict[int, int], receives: dict[int, int]) -> Turns:
        assert sends == receives
        self.sizes = dict(sorted(sends.items()))
        self.outgoing, self.incoming = (self.backend.zeros(max(1, sum(sends.values()))) for _ in range(2))
        return self

    def start(self, pack: Callable[[], None]) -> None:
        pack()
        sent = np.split(self.backend.download(self.outgoing).copy(), np.cumsum(list(self.sizes.values()))[:-1])
        parts: list[Any] = [None] * self.ranks.size
        for rank, values in zip(self.sizes, sent, strict=True):
            parts[rank] = values
        self.lock.release()
        self.came = [values for values in self.ranks.all_to_all(parts) if values is not None]
        self.lock.acquire()

    def finish(self, unpack: Callable[[], None]) -> None:
        self.backend.assign(self.incoming, np.concatenate(self.came))
        unpack()
