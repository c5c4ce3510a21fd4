"""Progress of a run, and the efficiency of its loop.

Progress is reported to a callable for display, and written to progress.json for other processes. The efficiency refers
to an ideal loop, which updates only the points or elements of the domain, without absorbing layers, at the stability
limit and at the rate of the kernels on this device:

    ideal = N (T / dt_max) / r

with N updates per step of the domain, the simulated time T, the largest stable time step dt_max and the rate r, which
is stored by an earlier measurement (`machine_rates`). The time of the loop is the ideal loop and these losses: steps
shorter than dt_max or after the last sample; the first step, beyond a usual one, in which kernels are compiled or
loaded; outputs; and the rest, which is spent in absorbing layers, at boundaries and on the exchange between ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lithowave.output.run_folder import RunFolder
from lithowave.run.loop import Callback
from lithowave.solvers.interface import Clock, GatheredSolver, Plan

if TYPE_CHECKING:
    from lithowave.json_types import Entries

MOST = 1.15  # efficiency above which a stored rate is not that of this machine
SMALLEST_LOSS = 0.02  # of the loop, which is reported


@dataclass(frozen=True)
class LoopTimes:
    """Measured times of a loop, s.

    loop_s : of the entire loop. first_step_s : of the first step. outputs_s : of outputs, waiting included. steps :
    number of steps. simulated_s : time covered by the requested samples, s.
    """

    loop_s: float
    first_step_s: float
    outputs_s: float
    steps: int
    simulated_s: float

    @property
    def first_step_loss(self) -> float:
        """Time of the first step beyond that of a usual step, s."""
        if self.steps < 2:
            return 0.0
        rest = max(self.loop_s - self.first_step_s - self.outputs_s, 0.0)
        return max(self.first_step_s - rest / (self.steps - 1), 0.0)

    @property
    def steps_s(self) -> float:
        """Time of the steps without outputs and without the loss of the first step, s."""
        return max(self.loop_s - self.first_step_loss - self.outputs_s, 0.0)


def loop_efficiency(plan: Plan, summary: Entries, times: LoopTimes, rate: float | None, devices: int = 1) -> Entries:
    """Return the entries of run.json on the efficiency of the loop.

    plan, summary : of the run. rate : updates per second of one device; None if unknown. devices : number of ranks.

    ``ideal_updates`` : updates in the ideal loop; ``ideal_loop_s`` : its time; ``loop_efficiency`` : ideal_loop_s /
    loop_s, both None without a rate; ``stored_rate_too_low`` : True if the run was faster than the rate permits, which
    is then not used; ``loop_losses`` : list of losses, name, seconds and text, the largest first.
    """
    fraction = summary["time_step_s"] / summary["time_step_limit_s"]
    layers = 1.0 - plan.domain_count / plan.unit_count
    updates = plan.domain_count * fraction * times.simulated_s / plan.schedule.time_step
    losses = [
        ("first step", times.first_step_loss,
         f"first step compiled or loaded kernels for {times.first_step_loss:.2g} s"),
        ("outputs", times.outputs_s, f"outputs {times.outputs_s / times.loop_s:.0%} of the loop"),
    ]  # fmt: skip
    ideal = None
    too_low = rate is not None and updates > MOST * rate * devices * times.loop_s
    if rate is None or too_low:
        useful = min(times.simulated_s / (times.steps * plan.schedule.time_step), 1.0)
        step = times.steps_s * (1.0 - fraction * useful)
    else:
        ideal, domain = updates / (rate * devices), times.steps * plan.domain_count / (rate * devices)
        step, rest = max(domain - ideal, 0.0), max(times.steps_s - domain, 0.0)
        losses.append(_rest(rest, rest / times.steps_s if times.steps_s else 0.0, layers, devices))
    losses.append(("time step", step, f"time step {fraction:.0%} of the limit"))
    found = [
        {"name": name, "seconds": round(seconds, 6), "text": text}
        for name, seconds, text in sorted(losses, key=lambda one: -one[1]) if seconds > SMALLEST_LOSS * times.loop_s
    ]  # fmt: skip
    return {
        "ideal_updates": updates, "ideal_loop_s": ideal,
        "loop_efficiency": None if ideal is None else ideal / times.loop_s,
        "stored_rate_too_low": too_low, "loop_losses": found,
    }  # fmt: skip


def _rest(seconds: float, share: float, layers: float, devices: int) -> tuple[str, float, str]:
    """Return the loss inside steps: in absorbing layers, if there are any, at boundaries, and between ranks."""
    more = " and exchange" if devices > 1 else ""
    if layers > 0.0:
        return "layers", seconds, f"absorbing layers{more} {share:.0%} of the step ({layers:.0%} of its updates)"
    return "boundaries", seconds, f"boundaries, sources, receivers{more} {share:.0%} of the step"


def efficiency_line(report: Entries, method: str) -> str:
    """Return the line that a command prints at the end of a run, from run.json."""
    losses = report.get("loop_losses") or []
    if report.get("loop_efficiency") is None:
        known = f"; largest known loss: {losses[0]['text']}" if losses else ""
        why = "no rate of this device is stored"
        if report.get("stored_rate_too_low"):
            why = "this run was faster than the stored rate of this device, which a busy machine may have measured"
        return (
            f"unknown, as {why}{known}. `lithowave check` of the simulation file or "
            f"`lithowave bench --method {method}` measures it"
        )
    text = f"{report['loop_efficiency']:.0%} (loop {report['loop_s']:.3g} s, ideal {report['ideal_loop_s']:.3g} s)"
    return text + (f"; largest loss: {losses[0]['text']}" if losses else "")


ProgressCallback = Callable[["Entries"], None]

DISPLAY_INTERVAL, WRITE_INTERVAL = 0.25, 1.0
"""Wall time, s, between two calls of `show`, and between two versions of progress.json."""


def rate_key(unit: str) -> str:
    """Return the name of a rate in reports: ``rate_points_per_s``."""
    return f"rate_{unit}_per_s"


def rate_text(rate: float, unit: str) -> str:
    """Return a rate as text: ``28.5 million points/s``."""
    return f"{rate / 1e6:.4g} million {unit}/s"


class Progress(Callback):
    """The callback that reports the progress of a run.

    Parameters
    ----------
    folder : the run folder, for progress.json.
    plan : for the number of points or elements updated in each step.
    show : function called with the entries; the command line passes a progress bar or a printer of lines.
    """

    def __init__(self, folder: RunFolder, plan: Plan, show: ProgressCallback | None = None) -> None:
        self.folder, self.unit, self.show = folder, plan.unit, show
        self.total, self.count = plan.unit_total, plan.unit_count

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start the measurement, and report the first step."""
        self.started = time.perf_counter()
        self.next_shown = self.next_written = self.started
        # Steps are timed from the end of the first one, in which kernels are loaded or compiled.
        self.timed_from: tuple[int, float] = (clock.step, self.started)
        self.first_step = clock.step
        self.update(clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Report the progress if the interval has elapsed."""
        self.update(clock)

    def close(self) -> None:
        """Remove progress.json: it exists only during the time loop."""
        self.folder.end_progress()

    def update(self, clock: Clock) -> None:
        """Report the progress if the interval has elapsed."""
        now = time.perf_counter()
        if clock.step == self.first_step + 1:
            self.timed_from = (clock.step, now)
        if now < self.next_shown and not clock.finished:
            return
        self.next_shown = now + DISPLAY_INTERVAL
        entries = self.entries(clock, now)
        if self.show:
            self.show(entries)
        if now >= self.next_written:
            self.next_written = now + WRITE_INTERVAL
            self.folder.write_progress(entries)

    def entries(self, clock: Clock, now: float) -> Entries:
        """Return step, time, rate and remaining time; rate and remaining time are None until they are known."""
        rate = self.rate(clock, now)
        left = self.count * (clock.steps - clock.step)
        return {
            "unit": self.unit,
            self.unit: self.total,
            "step": clock.step,
            "steps": clock.steps,
            "time_s": clock.time,
            "end_s": clock.steps * clock.time_step,
            "elapsed_s": now - self.started,
            "remaining_s": left / rate if rate else None,
            rate_key(self.unit): rate,
        }

    def rate(self, clock: Clock, now: float | None = None) -> float | None:
        """Return the points (or elements) updated per second since the first step; None before the second step."""
        step, begin = self.timed_from
        elapsed = (time.perf_counter() if now is None else now) - begin
        if clock.step - step < 1 or step == self.first_step or elapsed <= 0.0:
            return None
        return self.count * (clock.step - step) / elapsed
