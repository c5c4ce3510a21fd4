"""Predicted cost of the runs of an agreement, and the state of those that earlier calls have computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lithowave.agreement.planning import BASE, FINER, WIDER, AgreementPlan, PlannedRun
from lithowave.agreement.storage import stored_state
from lithowave.errors import InputError
from lithowave.output.run_folder import read_report
from lithowave.run.check import CheckReport, check_simulation
from lithowave.run.progress import rate_key
from lithowave.run.status import FINISHED


@dataclass(frozen=True)
class RunForecast:
    """The requirements of a planned run.

    Attributes
    ----------
    run : the planned run.
    state : of its folder: ``waiting``, ``finished``, ``stopped``, ... ; ``other`` if it contains another run.
    report : the dry run, as of ``lithowave check``.
    loop_s : predicted time in the time loop, s: measured for base runs, and for control runs in proportion to the
        number of points or elements and of steps; 0 for a finished run; None if unknown.
    """

    run: PlannedRun
    state: str
    report: CheckReport
    loop_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values for JSON."""
        return {
            "name": self.run.name, "method": self.run.method, "kind": self.run.kind, "state": self.state,
            "points_per_wavelength": self.run.points, "unit": self.report.unit, "units": unit_count(self.report),
            "steps": self.report.plan["steps"], "memory_bytes": self.report.memory_bytes, "loop_s": self.loop_s,
            "directory": str(self.run.directory), "problems": self.report.problems, "warnings": self.report.warnings,
        }  # fmt: skip


def unit_count(report: CheckReport) -> int:
    """Return the number of points or elements of a run."""
    return int(report.plan[f"{report.unit.removesuffix('s')}_count"])


def forecast_runs(
    plan: AgreementPlan, *, measure: bool = True
) -> tuple[dict[tuple[str, str], RunForecast], dict[tuple[str, str], str]]:
    """Return the requirements of all runs by (method, kind), and the reasons why control runs are not possible.

    measure : measure the speed of each method on this machine (a few seconds each), unless a finished run states it.

    Raises
    ------
    InputError : a run that compares the methods is not possible.
    """
    forecasts: dict[tuple[str, str], RunForecast] = {}
    impossible = dict(plan.untested)
    for method in plan.methods:
        base = _forecast(plan.runs[method, BASE], measure)
        forecasts[method, BASE] = base
        for key in (key for key in plan.runs if key[0] == method and key[1] != BASE):
            try:
                forecasts[key] = _scaled(_forecast(plan.runs[key], False), base)
            except InputError as error:
                impossible[key] = str(error).splitlines()[0].rstrip(".")
                continue
            if forecasts[key].report.problems:
                impossible[key] = forecasts.pop(key).report.problems[0]
    return forecasts, impossible


def _forecast(run: PlannedRun, measure: bool) -> RunForecast:
    state = stored_state(run)
    rate = _stored_rate(run) if state == FINISHED else None
    report = check_simulation(run.simulation, measure=measure and rate is None)
    loop = report.loop_s
    if rate is not None:
        loop = unit_count(report) * report.plan["steps"] / rate
    return RunForecast(run, state, report, loop)


def _stored_rate(run: PlannedRun) -> float | None:
    """Return the points or elements per second of a finished run."""
    report = read_report(run.directory)
    return report.get(rate_key(report["unit"])) if "unit" in report else None


def _scaled(forecast: RunForecast, base: RunForecast) -> RunForecast:
    """Return a forecast with the time of the base run in proportion to the work."""
    if base.loop_s is None:
        return forecast
    work, reference = (unit_count(one.report) * one.report.plan["steps"] for one in (forecast, base))
    return RunForecast(forecast.run, forecast.state, forecast.report, base.loop_s * work / reference)


def remaining_time(forecasts: Iterable[RunForecast]) -> float | None:
    """Return the predicted time of the runs that are not finished, s; None if it is unknown."""
    times = [0.0 if one.state == FINISHED else one.loop_s for one in forecasts]
    return None if any(time is None for time in times) else sum(time for time in times if time is not None)


def required_runs(
    plan: AgreementPlan, forecasts: Mapping[tuple[str, str], RunForecast], full: bool = False
) -> list[tuple[str, str]]:
    """Return the runs that are always computed: the base runs, and the control runs of one method (all if `full`)."""
    control = control_method(plan, forecasts)
    return [key for key in forecasts if key[1] == BASE or full or key[0] == control]


def control_method(plan: AgreementPlan, forecasts: Mapping[tuple[str, str], RunForecast]) -> str:
    """Return the method whose control runs are always computed: one with finished ones, else the cheapest."""

    def cost(method: str) -> tuple[bool, float, int]:
        controls = [forecasts[key] for key in ((method, FINER), (method, WIDER)) if key in forecasts]
        finished = bool(controls) and all(one.state == FINISHED for one in controls)
        loop = forecasts[method, BASE].loop_s
        if not controls:
            loop = float("inf")
        return not finished, 0.0 if loop is None else loop, plan.methods.index(method)

    return min(plan.methods, key=cost)
