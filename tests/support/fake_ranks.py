"""Ranks without MPI: threads of one process that hand values to each other, for tests of what is cut into parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lithowave.parallel import Ranks


class _Board:
    """Where the threads leave values for each other."""

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=120)


class ThreadRanks(Ranks):
    """One of several threads."""

    def __init__(self, rank: int, size: int, board: _Board) -> None:
        self.rank, self.size, self.local_rank, self.local_size, self._board = rank, size, rank, size, board

    def all_gather(self, value: Any) -> list[Any]:
        """See `Ranks`."""
        self._board.values[self.rank] = value
        self._board.barrier.wait()
        found = list(self._board.values)
        self._board.barrier.wait()
        return found

    def gather(self, value: Any) -> list[Any] | None:
        """See `Ranks`."""
        found = self.all_gather(value)
        return found if self.is_root else None

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """See `Ranks`."""
        return [theirs[self.rank] for theirs in self.all_gather(list(values))]

    def broadcast(self, value: Any) -> Any:
        """See `Ranks`."""
        return self.all_gather(value)[0]

    def largest(self, value: float) -> float:
        """See `Ranks`."""
        return max(super(ThreadRanks, self).largest(one) for one in self.all_gather(value))

    def smallest(self, value: float) -> float:
        """See `Ranks`."""
        return min(self.all_gather(value))

    def total(self, value: Any) -> Any:
        """See `Ranks`."""
        first, *others = self.all_gather(value)
        return sum(others, start=first)

    def barrier(self) -> None:
        """See `Ranks`."""
        self._board.barrier.wait()


def on_ranks(size: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """What `work(ranks)` returns on each of so many ranks; the first error of any of them is raised."""
    board, found, errors = _Board(size), [None] * size, []

    def run(rank: int) -> None:
        try:
            found[rank] = work(ThreadRanks(rank, size, board))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            errors.append(error)
            board.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


