"""Callbacks of the time loop: the protocol, and how a user's callback stops a run on all ranks at the same step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lithowave.errors import InputError
from lithowave.parallel.ranks import Ranks
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver


@runtime_checkable
class Callback(Protocol):
    """Work done by the time loop between steps; derive a class from this one and define ``__call__``.

    After each step the loop calls each callback that is due, in list order. Recorders, the instability watch,
    checkpoints and progress are callbacks; callbacks of the user are called after the recorders of the same step and
    before the others.

    A callback reads the solution from `solver` (:class:`lithowave.solvers.gathered.GatheredSolver`):
    ``receiver_velocities()``, ``plane(axis, coordinate, field)``, ``largest_velocity()`` and ``acquisition``; and the
    time from `clock`: ``step``, ``steps``, ``time`` and ``time_step``. It stops the run with ``clock.stop(reason)``:
    the run is then complete at this step, and its files contain the samples up to this time.

    With several ranks, each rank has its own instance. `due` must return the same on all ranks, and all ranks must call
    the same methods of `solver` in the same order, since these exchange messages; their results are the same on all
    ranks. A run stops if any of its ranks calls ``clock.stop``.

    Checkpoints do not contain the state of callbacks: a restarted run creates them again and calls `start` at the step
    of the checkpoint.
    """

    def due(self, clock: Clock) -> bool:
        """True if the loop calls the callback after this step (default: after every step)."""
        return True

    @abstractmethod
    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Do the work after a step."""

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Prepare, once before the first step of the loop."""

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Finish, once after the last step; not called if the run fails or a signal stops it."""

    def close(self) -> None:
        """Release resources such as files, at the end of any run."""


class UserCallback:
    """A user's callback that stops the run on all ranks at the same step.

    stopped : True if this callback has stopped the run.
    """

    def __init__(self, callback: Callback, ranks: Ranks) -> None:
        self.callback, self.ranks = callback, ranks
        self.name = type(callback).__name__
        self.stopped = False

    def due(self, clock: Clock) -> bool:
        """See `Callback`; False after another callback has stopped the run."""
        return clock.stop_reason is None and self.callback.due(clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Call the callback, and agree with the other ranks on whether the run ends."""
        self.callback(solver, clock)
        self._agree(clock)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """See `Callback`; a run that is stopped here makes no step."""
        before = clock.stop_reason
        self.callback.start(solver, clock)
        if before is None:
            self._agree(clock)

    def _agree(self, clock: Clock) -> None:
        """If the callback has stopped the run on some rank, stop it on all, for the reason of the first such rank."""
        reasons = [reason for reason in self.ranks.all_gather(clock.stop_reason) if reason is not None]
        if reasons:
            clock.stop_reason, self.stopped = reasons[0], True

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """See `Callback`."""
        self.callback.finish(solver, clock)

    def close(self) -> None:
        """See `Callback`."""
        self.callback.close()


def user_callbacks(callbacks: Sequence[Callback], ranks: Ranks) -> list[UserCallback]:
    """Return the callbacks of a user, ready for the loop.

    Raises
    ------
    InputError : one of them is not a `Callback`.
    """
    for index, callback in enumerate(callbacks):
        if isinstance(callback, type) or not isinstance(callback, Callback):
            what = f"the class {callback.__name__}" if isinstance(callback, type) else type(callback).__name__
            raise InputError(
                f"callbacks[{index}]", f"{what} is not a callback", "allowed: instances of a subclass of "
                "lithowave.Callback", "derive a class from it, define __call__(solver, clock), and pass an instance",
            )  # fmt: skip
    return [UserCallback(callback, ranks) for callback in callbacks]
