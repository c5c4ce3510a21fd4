"""Efficiency of a time loop against the ideal loop, and what the rest of its time was used for.

The ideal loop updates only the points or elements of the domain, without absorbing layers, at the stability limit and
at the rate of the kernels on this device:

    ideal = N (T / dt_max) / r

with N updates per step of the domain, the simulated time T, the largest stable time step dt_max and the rate r, which
is stored by an earlier measurement (`machine_rates`). The time of the loop is the ideal loop and these losses: steps
shorter than dt_max or after the last sample; the first step, beyond a usual one, in which kernels are compiled or
loaded; outputs; and the rest, which is spent in absorbing layers, at boundaries and on the exchange between ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


def loop_efficiency(
    plan: Any, summary: dict[str, Any], times: LoopTimes, rate: float | None, devices: int = 1
) -> dict[str, Any]:
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


def efficiency_line(report: dict[str, Any], method: str) -> str:
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
