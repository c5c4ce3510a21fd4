"""Solvers of several ranks in one process: threads that take turns, and hand messages to each other."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fake_ranks import on_ranks
from lithowave.parallel import Halo, Message, Ranks


class Exchange:
    """What the ranks of a run have in common: letters between them, and whose turn it is to compute."""

    def __init__(self) -> None:
        self.letters: dict[tuple[int, int], queue.Queue] = defaultdict(queue.Queue)
        self.turn = threading.Lock()
        self.sent: dict[int, int] = defaultdict(int)  # numbers, by each rank


class ThreadMessage(Message):
    """Handed over in main memory. What was packed too early, or is unpacked too late, shows in the results."""

    def _send(self) -> None:
        values, exchange = np.array(self.backend.download(self.outgoing)), self.halo.exchange
        for rank, count in self.sends.items():
            first = self.first_sent[rank]
            exchange.letters[self.halo.ranks.rank, rank].put(values[first : first + count])
            exchange.sent[self.halo.ranks.rank] += count

    def _receive(self) -> None:
        exchange, found = self.halo.exchange, np.zeros(self.incoming.shape, self.incoming.dtype)
        exchange.turn.release()
        try:
            for rank, count in self.receives.items():
                letter = exchange.letters[rank, self.halo.ranks.rank].get(timeout=120)
                assert len(letter) == count
                found[self.first_received[rank] : self.first_received[rank] + count] = letter
        finally:
            exchange.turn.acquire()
        self.backend.assign(self.incoming, found)


class ThreadHalo(Halo):
    """The halo of one thread."""

    def __init__(self, ranks: Ranks, backend: Any, exchange: Exchange) -> None:
        self.ranks, self.backend, self.exchange = ranks, backend, exchange
        self.silent, self.transport = False, "threads"

    def message(self, sends: Mapping[int, int], receives: Mapping[int, int]) -> Message:
        """See `Halo`."""
        return ThreadMessage(self, sends, receives)


def run_on_ranks(
    size: int, make: Callable[[Ranks, Exchange], Any], work: Callable[[Any], Any], exchange: Exchange | None = None
) -> list[Any]:
    """What `work(make(ranks, exchange))` gives on each rank. Only one thread works at a time, until it waits for a
    letter."""
    common = exchange or Exchange()

    def run(ranks: Ranks) -> Any:
        made = make(ranks, common)
        with common.turn:
            return work(made)

    return on_ranks(size, run)
