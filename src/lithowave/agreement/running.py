"""Running an agreement: the runs that are missing, and the comparison of their seismograms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.agreement.planning import (
    BASE,
    FINER,
    REFINEMENT,
    WIDER,
    AgreementForecast,
    AgreementPlan,
    Key,
    PlannedRun,
    Settings,
    forecast_agreement,
    plan_agreement,
    require_same,
    stored_state,
)
from lithowave.agreement.result import (
    Agreement,
    Attribution,
    Misfit,
    attribute,
    find_causes,
    misfit,
    receiver_norms,
    summarize,
)
from lithowave.compare.runs import common_time, resample
from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, LithowaveWarning
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.parallel.ranks import make_ranks
from lithowave.run.launch import restart_run, run_simulation
from lithowave.run.progress import ProgressCallback
from lithowave.run.status import FINISHED, LOST, RUNNING, STOPPED

if TYPE_CHECKING:
    from lithowave.json_types import Entries

TOLERANCE = 0.05
CORNER = 0.8
"""Corner of the low-pass relative to the maximum frequency, at which the gain is then 0.14."""
BETTER = 0.5  # ratio of estimated errors below which another method replaces the file's own as the reference

Note = Callable[[str], None]


def agree(
    simulation: Simulation,
    methods: Sequence[str] | None = None,
    *,
    output: str | Path | None = None,
    tolerance: float = TOLERANCE,
    solver: Settings | None = None,
    refinement: float = REFINEMENT,
    full: bool = False,
    overwrite: bool = False,
    show: ProgressCallback | None = None,
    **overrides: object,
) -> Agreement:
    """Run a simulation by several methods at the same resolved frequency, and find the causes of their differences.

    Each method runs once with the resolution of the file or its recommended points per wavelength. The cheapest method
    also runs with more points per wavelength (finer) and with its absorbing faces further out (wider). If two methods
    differ by more than the tolerance, both run finer and wider. Finished runs of the same description in the output
    folder are used again. The results are written to ``agree.json``.

    Parameters
    ----------
    simulation : the validated description, without a survey.
    methods : names of the methods; default: all methods that support the description.
    output : folder of all runs; default: ``output.directory`` with the suffix ``_agree``.
    tolerance : largest relative L2 misfit of a receiver that counts as agreement.
    solver : entries of ``solver`` for single methods: ``{"spectral_element": {"points_per_wavelength": 9}}``.
    refinement : ratio of the points per wavelength of finer and base runs.
    full : run all methods finer and wider, also if they agree.
    overwrite : replace runs of other descriptions in the output folder.
    show : function called during each run, as in :func:`lithowave.run_simulation`, with the additional entry ``run``.
    overrides : keys of ``compute`` by name (``backend="cpu"``, ``precision="double"``).

    Returns
    -------
    Agreement : misfits, causes and sentences about them.

    Raises
    ------
    InputError : fewer than two methods support the description, an argument is invalid, several ranks were started, or
        the output folder contains other runs. Errors of single runs are those of :func:`lithowave.run_simulation`;
        after a signal, the same call resumes the agreement.
    """
    if overrides:
        simulation = simulation.with_overrides({f"compute.{key}": value for key, value in overrides.items()})
    check_tolerance(tolerance)
    plan = plan_agreement(simulation, methods, output=output, solver=solver, refinement=refinement)
    forecast = forecast_agreement(plan)
    return run_agreement(forecast, tolerance=tolerance, full=full, overwrite=overwrite, show=show)


def check_tolerance(tolerance: float) -> None:
    """Require a tolerance between 0 and 1."""
    if not 0.0 < tolerance < 1.0:
        raise InputError("--tolerance", f"{tolerance:g} is out of range", "allowed: above 0 and below 1, or in percent")


def run_agreement(
    forecast: AgreementForecast,
    *,
    tolerance: float = TOLERANCE,
    full: bool = False,
    overwrite: bool = False,
    show: ProgressCallback | None = None,
    note: Note | None = None,
) -> Agreement:
    """Compute all runs that are required, compare them, and write ``agree.json``; see `agree`.

    forecast : from `forecast_agreement`. note : function called with a line of text about each run.
    """
    refuse_ranks()
    plan, untested = forecast.plan, forecast.untested
    if not overwrite:
        for key in forecast.runs:
            require_same(plan.runs[key])
    walls = {key: _computed(plan.runs[key], show, note) for key in forecast.required(full)}
    result = compare_methods(plan, walls, tolerance, untested)
    differing = {method for pair, one in result.pairs.items() if one.largest > tolerance for method in pair}
    further = [key for key in forecast.runs if key[0] in differing and key not in walls]
    if further:
        if note:
            note(f"methods differ by up to {result.pairs[result.worst].largest:.2g}; control runs find the causes")
        walls |= {key: _computed(plan.runs[key], show, note) for key in further}
        result = compare_methods(plan, walls, tolerance, untested)
    result.write()
    return result


def compare_methods(
    plan: AgreementPlan, walls: Mapping[Key, float], tolerance: float, untested: Mapping[Key, str]
) -> Agreement:
    """Return the comparison of the finished runs. walls : wall time of each finished run, s."""
    runs = {key: load_seismograms(plan.runs[key].directory) for key in walls}
    names = runs[plan.methods[0], BASE].names
    time = _common_times(runs.values(), plan)
    corner = CORNER * plan.frequency
    traces = {key: resample(run, [run.names.index(name) for name in names], time, corner) for key, run in runs.items()}
    first = runs[plan.methods[0], BASE]
    return analyze(
        plan, traces, time, names, np.asarray(first.positions), first.quantity, first.units, tolerance, untested, walls
    )


def analyze(
    plan: AgreementPlan, traces: Mapping[Key, np.ndarray], time: np.ndarray, names: list[str], positions: np.ndarray,
    quantity: str, units: str, tolerance: float, untested: Mapping[Key, str], walls: Mapping[Key, float],
) -> Agreement:  # fmt: skip
    """Return misfits, causes and sentences from the low-passed traces (n, 3, n_samples) of each run at common times."""
    interval = float(time[1] - time[0])

    def compared(key: Key, other: Key) -> Misfit:
        return misfit(traces[key], traces[other], interval, plan.frequency)

    controls = {key: compared((key[0], BASE), key) for key in traces if key[1] != BASE}
    reference = reference_method(plan, controls)
    others = [method for method in plan.methods if method != reference]
    pairs = {(method, reference): compared((method, BASE), (reference, BASE)) for method in others}
    pairs |= {(b, a): compared((b, BASE), (a, BASE)) for a, b in combinations(others, 2)}
    attributions = {
        pair: _attribution(traces, pair, one.receivers > tolerance, plan.refinement)
        for pair, one in pairs.items()
        if one.largest > tolerance and any((method, kind) in traces for method in pair for kind in (FINER, WIDER))
    }
    result = Agreement(
        plan, tolerance, reference, CORNER * plan.frequency, names, positions, quantity, units, time, traces, pairs,
        controls, attributions, untested, walls,
    )  # fmt: skip
    result = replace(result, findings=find_causes(result))
    return replace(result, summary=summarize(result))


def reference_method(plan: AgreementPlan, controls: Mapping[Key, Misfit]) -> str:
    """Return the file's own method, unless another one has less than half its estimated error.

    The error of a method is estimated from its control runs: sqrt((c h)^2 + b^2), with the overall misfits h relative
    to the finer and b relative to the wider run, and c = 1 / (1 - r^-2) for the ratio r of the resolutions.
    """
    factor = 1.0 / (1.0 - plan.refinement**-2.0)
    errors = {}
    for method in plan.methods:
        if (method, FINER) in controls:
            boundary = controls[method, WIDER].overall if (method, WIDER) in controls else 0.0
            errors[method] = float(np.hypot(factor * controls[method, FINER].overall, boundary))
    first = plan.methods[0]
    best = min(errors, key=lambda method: errors[method], default=first)
    return best if first in errors and errors[best] < BETTER * errors[first] else first


def _attribution(traces: Mapping[Key, np.ndarray], pair: Key, differing: np.ndarray, refinement: float) -> Attribution:
    """Return the causes of the difference of two methods at the receivers that differ."""
    first, second = traces[pair[0], BASE], traces[pair[1], BASE]
    norms = receiver_norms(second)[differing]
    changes: dict[Key, np.ndarray] = {}
    largest: dict[Key, float] = {}
    for method, sign in zip(pair, (1.0, -1.0), strict=True):
        for kind, bound in ((WIDER, 1.0), (FINER, 1.0 / (1.0 - 1.0 / refinement))):
            if (method, kind) in traces:
                change = sign * (traces[method, BASE] - traces[method, kind])[differing]
                changes[method, kind], largest[method, kind] = change, bound
    return attribute((first - second)[differing], changes, largest, norms)


def _common_times(runs: Iterable[Seismograms], plan: AgreementPlan) -> np.ndarray:
    """Return the sample times (s) of the coarsest run that all runs cover."""
    time = common_time(*runs)
    if len(time) < 2:
        raise InputError(str(plan.directory), "fewer than two samples are in common", "", "use a longer duration")
    return time


def _computed(run: PlannedRun, show: ProgressCallback | None, note: Note | None) -> float:
    """Compute or resume a run, unless it is finished; return its wall time, s."""

    def shown(entries: Entries) -> None:
        assert show is not None
        show({**entries, "run": run.name})

    state, callback = stored_state(run), None if show is None else shown
    if state == FINISHED:
        if note:
            note(f"{run.label}: finished earlier, used again")
    else:
        if state == RUNNING:
            raise InputError("--output", f"a run is running in {run.directory}", "", "wait for it, or stop it")
        with warnings.catch_warnings():
            if run.kind != BASE:  # those of the base run, which run.json of the control run also contains
                warnings.simplefilter("ignore", LithowaveWarning)
            _run_or_resume(run, state, callback)
    with suppress(KeyError, TypeError):
        return float(read_report(run.directory)["wall_s"])
    return 0.0


def _run_or_resume(run: PlannedRun, state: str, show: ProgressCallback | None) -> None:
    if state in (STOPPED, LOST):
        compute = run.simulation.compute
        restart_run(run.directory, show=show, backend=compute.backend, threads=compute.threads)
    else:
        run_simulation(run.simulation, overwrite=run.directory.exists(), show=show)


def refuse_ranks() -> None:
    """Refuse several ranks."""
    ranks = make_ranks()
    if ranks.size > 1:
        raise InputError(
            "agree", f"{ranks.size} ranks were started, but the runs of an agreement use one process",
            "allowed on several ranks: lithowave run",
            "write the descriptions with lithowave agree FILE --prepare, run each of them by mpiexec lithowave run, "
            "and start lithowave agree without mpiexec, which uses the finished runs",
        )  # fmt: skip


__all__ = ["agree", "check_tolerance", "compare_methods", "refuse_ranks", "run_agreement"]
