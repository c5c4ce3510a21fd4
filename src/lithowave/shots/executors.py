"""Executors of shots: processes of this machine, or an object with the interface of `concurrent.futures.Executor`."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from lithowave.errors import InputError, MissingPackageError, ResourceError
from lithowave.shots.slots import ShotSlot
from lithowave.shots.task import ShotOutcome, ShotTask, run_task

CONNECTION_TIMEOUT = 30.0  # s


class LocalProcesses(ThreadPoolExecutor):
    """Executor on this machine: one thread per slot, which waits for the process of a shot."""

    def __init__(self, slots: Sequence[ShotSlot]) -> None:
        super().__init__(len(slots), thread_name_prefix="lithowave-shot")
        self._slots: SimpleQueue[ShotSlot] = SimpleQueue()
        for slot in slots:
            self._slots.put(slot)

    def submit(self, function: Callable[[ShotTask], ShotOutcome], task: ShotTask) -> Future:  # type: ignore[override]
        """Run a shot in the next free slot."""
        return super().submit(self._in_slot, function, task)

    def _in_slot(self, function: Callable[[ShotTask], ShotOutcome], task: ShotTask) -> ShotOutcome:
        slot = self._slots.get()
        try:
            return function(replace(task, environment=slot.environment, threads=slot.threads, sharing=1))
        finally:
            self._slots.put(slot)


class ShotExecutor:
    """The executor of a survey.

    given : an executor, a Dask client, or a function that returns one of them. An executor that the function returns is
    shut down at the end, and replaced if it breaks because a worker was lost.
    """

    def __init__(self, given: Any) -> None:
        self._make: Callable[[], Any] | None = None
        if isinstance(given, type) or not hasattr(given, "submit"):
            if not callable(given):
                raise InputError(
                    "executor", f"{type(given).__name__} has no method submit",
                    "allowed: a concurrent.futures.Executor, a Dask client, or a function that returns one of them",
                )  # fmt: skip
            self._make = given
        self._executor: Executor = self._adapted(given if self._make is None else self._make())

    @staticmethod
    def _adapted(executor: Any) -> Executor:
        return executor.get_executor() if hasattr(executor, "get_executor") else executor

    @property
    def is_dask(self) -> bool:
        """True for an executor of Dask Distributed."""
        return type(self._executor).__module__.startswith("distributed.")

    def shots_per_machine(self) -> int:
        """Return the number of shots that may share the cores of a machine."""
        if self.is_dask:
            workers = self._executor._client.nthreads()  # type: ignore[attr-defined]
            hosts: Counter[str] = Counter()
            for address, threads in workers.items():
                hosts[urlsplit(address).hostname or ""] += threads
            return max(hosts.values(), default=1)
        for name in ("num_workers", "_max_workers"):  # of mpi4py.futures, and of concurrent.futures
            if isinstance(count := getattr(self._executor, name, None), int):
                return max(1, count)
        return 1

    def submit(self, task: ShotTask, label: str) -> Future:
        """Submit a shot; a broken executor is replaced.

        Raises
        ------
        ResourceError : the executor is broken and cannot be replaced.
        """
        # Dask treats tasks with equal keys as one task, also those of different surveys.
        more = {"key": f"{label}-{uuid.uuid4().hex}"} if self.is_dask else {}
        try:
            return self._executor.submit(run_task, task, **more)
        except BrokenExecutor as error:
            if self._make is None:
                raise ResourceError(
                    f"the executor of the survey is broken ({error}). Run the survey again with a new executor, which "
                    "resumes the unfinished shots, or pass a function that returns an executor."
                ) from error
        except (RuntimeError, OSError) as error:  # after a shutdown, or a lost connection
            raise ResourceError(
                f"the executor of the survey accepts no shots ({error}). Run the survey again with a new executor, "
                "which resumes the unfinished shots."
            ) from error
        self.close()
        self._executor = self._adapted(self._make())
        return self._executor.submit(run_task, task, **more)

    def lost(self, done: Iterable[Future]) -> str | None:
        """Return the error if the scheduler of Dask was lost, which cancels all shots; else None.

        done : futures that have ended. The client may have connected to another scheduler in the meantime, which does
        not have the shots.
        """
        if not self.is_dask:
            return None
        client = self._executor._client  # type: ignore[attr-defined]
        if client.status == "running" and not any(future.cancelled() for future in done):
            return None
        return f"the connection to the Dask scheduler {client._start_arg or ''} was lost".replace("  ", " ")

    def close(self) -> None:
        """Shut the executor down if a function has made it."""
        if self._make is not None:
            self._executor.shutdown(wait=True)


@contextmanager
def dask_client(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, by its address or by its scheduler file, inside the block.

    Raises
    ------
    MissingPackageError : Dask Distributed is not installed. ResourceError : the scheduler does not respond.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError("distributed", "A survey on a Dask cluster", "dask") from None
    place = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        client = Client(**place, timeout=CONNECTION_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"--scheduler {scheduler}: the Dask scheduler does not respond ({error}). Start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS --nthreads 1`."
        ) from error
    with client:
        try:
            yield client
        finally:
            if client.status != "running":  # the error is reported; Dask would add the traceback of each attempt
                logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
