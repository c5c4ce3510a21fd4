"""Predicted cost of the runs of an agreement, and the state of those that earlier calls have computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lithowave.agreement.planning import BASE, FINER, WIDER, AgreementPlan, Key, PlannedRun, require_two_methods
from lithowave.agreement.storage import stored_state
from lithowave.errors import InputError, ResourceError
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
        number of points or elements and of steps; None if unknown.
    """

    run: PlannedRun
    state: str
    report: CheckReport
    loop_s: float | None

    @property
    def units(self) -> int:
        """Number of points or elements."""
        return int(self.report.plan[f"{self.report.unit.removesuffix('s')}_count"])

    @property
    def work(self) -> int:
        """Number of updates of points or elements."""
        return self.units * int(self.report.plan["steps"])

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values for JSON."""
        return {
            "name": self.run.name, "method": self.run.method, "kind": self.run.kind, "state": self.state,
            "points_per_wavelength": self.run.points, "unit": self.report.unit, "units": self.units,
            "steps": self.report.plan["steps"], "memory_bytes": self.report.memory_bytes, "loop_s": self.loop_s,
            "directory": str(self.run.directory), "warnings": self.report.warnings,
        }  # fmt: skip


@dataclass(frozen=True)
class AgreementForecast:
    """The requirements of all runs of an agreement.

    Attributes
    ----------
    plan : the runs; methods whose base run is not possible here are excluded unless they were requested.
    runs : the forecast of each run by (method, kind).
    untested : the reason for each control run that is not possible.
    """

    plan: AgreementPlan
    runs: Mapping[Key, RunForecast]
    untested: Mapping[Key, str]

    def required(self, full: bool = False) -> list[Key]:
        """Return the runs that are always computed: base runs, and the control runs of one method (all if `full`)."""
        control = self.control_method
        return [key for key in self.runs if key[1] == BASE or full or key[0] == control]

    @property
    def control_method(self) -> str:
        """The method whose control runs are always computed: one with finished ones, else the cheapest."""

        def cost(method: str) -> tuple[bool, bool, float, int]:
            controls = [self.runs[key] for key in ((method, FINER), (method, WIDER)) if key in self.runs]
            finished = bool(controls) and all(one.state == FINISHED for one in controls)
            loop = self.runs[method, BASE].loop_s
            return not controls, not finished, 0.0 if loop is None else loop, self.plan.methods.index(method)

        return min(self.plan.methods, key=cost)

    def remaining_time(self, keys: Iterable[Key]) -> float | None:
        """Return the predicted time of those of the given runs that are not finished, s; None if it is unknown."""
        times = [0.0 if self.runs[key].state == FINISHED else self.runs[key].loop_s for key in keys]
        return None if None in times else sum(time for time in times if time is not None)


def forecast_agreement(plan: AgreementPlan, *, measure: bool = True) -> AgreementForecast:
    """Return the requirements of all runs.

    measure : measure the speed of each method on this machine (a few seconds each), unless a finished run states it.

    Raises
    ------
    InputError, ResourceError : the base run of the file's own method or of a requested method is not possible here, or
        fewer than two methods remain.
    """
    runs: dict[Key, RunForecast] = {}
    untested, excluded = dict(plan.untested), dict(plan.excluded)
    for method in plan.methods:
        try:
            base = _base_forecast(plan.runs[method, BASE], measure)
        except (InputError, ResourceError) as error:
            if plan.requested or method == plan.own_method:
                raise
            excluded[method] = str(error).splitlines()[0]
            continue
        runs[method, BASE] = base
        for key in (key for key in plan.runs if key[0] == method and key[1] != BASE):
            try:
                control = _scaled(_forecast(plan.runs[key], False), base)
            except InputError as error:
                untested[key] = str(error).splitlines()[0].rstrip(".")
                continue
            if control.report.problems and control.state != FINISHED:
                untested[key] = control.report.problems[0]
            elif reason := _not_finer(control, base, plan.refinement):
                untested[key] = reason
            else:
                runs[key] = control
    methods = tuple(method for method in plan.methods if (method, BASE) in runs)
    require_two_methods(methods, excluded)
    untested = {key: reason for key, reason in untested.items() if key[0] in methods}
    return AgreementForecast(replace(plan, methods=methods, excluded=excluded), runs, untested)


def _not_finer(control: RunForecast, base: RunForecast, refinement: float) -> str:
    """Return why a finer run is none, from the actual numbers of points or elements; empty if it is one, or another.

    Its number grows with the third power of the refinement, by less in thin layers; much less if the meshes differ, for
    example because the elements of one of them do not follow an interface.
    """
    if control.run.kind != FINER or control.units > refinement * base.units:
        return ""
    return (
        f"the finer run has {control.units:,} {control.report.unit}, the base run {base.units:,}: its mesh is not "
        "finer everywhere, for example because it does not follow the same interfaces (see the warnings of both runs)"
    )


def _base_forecast(run: PlannedRun, measure: bool) -> RunForecast:
    forecast = _forecast(run, measure)
    if forecast.report.problems and forecast.state != FINISHED:
        raise ResourceError(f"{run.label}: {'; '.join(forecast.report.problems)}.")
    return forecast


def _forecast(run: PlannedRun, measure: bool) -> RunForecast:
    state = stored_state(run)
    rate = _stored_rate(run) if state == FINISHED else None
    report = check_simulation(run.simulation, measure=measure and rate is None)
    forecast = RunForecast(run, state, report, report.loop_s)
    return forecast if rate is None else replace(forecast, loop_s=forecast.work / rate)


def _stored_rate(run: PlannedRun) -> float | None:
    """Return the points or elements per second of a finished run."""
    report = read_report(run.directory)
    return report.get(rate_key(report["unit"])) if "unit" in report else None


def _scaled(forecast: RunForecast, base: RunForecast) -> RunForecast:
    """Return a forecast with the time of the base run in proportion to the work."""
    return forecast if base.loop_s is None else replace(forecast, loop_s=base.loop_s * forecast.work / base.work)
