"""The output watch: ends a run at once if an output job fails, and measures the share of outputs in the time loop."""

from __future__ import annotations

from lithowave.output.background import WAITING, WriterThread
from lithowave.output.recorders import OUTPUTS
from lithowave.phases import recorded_phases
from lithowave.run.callback import Callback
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver


class OutputWatch(Callback):
    """The callback that checks the thread of output jobs after each step; when it is closed, all jobs are complete."""

    def __init__(self, jobs: WriterThread) -> None:
        self.jobs = jobs
        self._before = (0.0, 0.0)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Begin to measure."""
        self._before = _seconds()

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Raise the error of a job, if one has failed."""
        self.jobs.check()

    def facts(self, loop_s: float) -> dict[str, float]:
        """Return the entries of run.json on a time loop of `loop_s` seconds.

        ``outputs_s`` : seconds in which the loop started copies of fields and converted those of several ranks.
        ``waiting_for_outputs_s`` : seconds in which it waited for jobs. ``output_share`` : fraction of both.
        """
        work, waiting = (now - before for now, before in zip(_seconds(), self._before, strict=True))
        share = (work + waiting) / loop_s if loop_s > 0 else 0.0
        return {
            "outputs_s": round(work, 6), "waiting_for_outputs_s": round(waiting, 6), "output_share": round(share, 4),
        }  # fmt: skip

    def close(self) -> None:
        """Complete all jobs."""
        self.jobs.close()


def _seconds() -> tuple[float, float]:
    seconds = recorded_phases().seconds
    return seconds.get(OUTPUTS, 0.0), seconds.get(WAITING, 0.0)
