"""Comparison of two runs, receiver by receiver, at common times.

Receivers are matched by name. The runs are compared at the samples of the coarser sampling interval within the time
that both runs cover; the finer run is interpolated at these times by the polynomial through the twelve nearest samples
(exact if the times coincide with its samples). By default neither run is filtered, since the coarser run was also
sampled without a filter; with a maximum frequency, both runs are low-passed at their own samples first, cut to the
common time so that the filter continues both alike beyond its end. If the durations differ, the filtered traces are
also tapered there, because the continuation is not their motion.

Envelope and phase misfits cover the frequencies that both runs resolve: up to the requested maximum frequency, or else
the lower of the two `solver.max_frequency`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lithowave.compare.misfits import (
    WEAK,
    frequency_band,
    low_pass,
    relative_l2,
    time_shift,
    wavelet_misfits,
    weak_receivers,
)
from lithowave.compare.results import RunMisfits
from lithowave.errors import InputError, LithowaveError, OutputError
from lithowave.figures.style import read_description
from lithowave.labels import first_names
from lithowave.output.geometry import common_positions, epicenter, epicentral_distance
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import Seismograms, load_seismograms

STENCIL = 12
TAPER_PERIODS = 2.0
"""Length of the taper of low-passed traces of runs of different duration, in periods of the corner frequency."""

LONGEST_TAPER = 0.25  # of the common time


def common_time(*runs: Seismograms) -> np.ndarray:
    """Return the sample times (s) of the coarsest run that all runs cover."""
    if not all(len(run.time) for run in runs):
        return np.zeros(0)
    coarsest = max(runs, key=lambda run: run.sampling_interval)
    end = min(run.time[-1] for run in runs)
    return coarsest.time[coarsest.time <= end + 1e-6 * coarsest.sampling_interval]


def resample(run: Seismograms, rows: list[int], time: np.ndarray, max_frequency: float | None = None) -> np.ndarray:
    """Return the samples (len(rows), 3, len(time)) of the receivers `rows` at `time`, which the run covers.

    max_frequency : corner frequency of a low-pass, Hz, of the samples up to the end of `time`; None: no low-pass.
    """
    data = np.asarray(run.data[rows], dtype=float)
    if max_frequency is not None:
        last = int(np.ceil(time[-1] / run.sampling_interval - 1e-6))
        data = low_pass(data[..., : last + 1], run.sampling_interval, max_frequency)
    samples = time / run.sampling_interval
    nearest = np.rint(samples).astype(int)
    if np.allclose(samples, nearest, rtol=0.0, atol=1e-6):
        return data[..., nearest]
    return interpolate(data, samples)


def end_taper(time: np.ndarray, corner: float | None) -> tuple[np.ndarray, float]:
    """Return the weights (n_samples,) of a taper at the end of low-passed traces, and its length (s).

    Half a period of a cosine, from 1 to 0, over `TAPER_PERIODS` periods of the corner frequency (Hz), at most
    `LONGEST_TAPER` of the time; 1 throughout without a low-pass (None).
    """
    if corner is None:
        return np.ones(len(time)), 0.0
    length = min(TAPER_PERIODS / corner, LONGEST_TAPER * float(time[-1] - time[0]))
    return 0.5 + 0.5 * np.cos(np.pi * np.clip(1.0 - (time[-1] - time) / length, 0.0, 1.0)), length


def interpolate(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the values (..., m) at fractional sample indices `places` (m,), from 0 to n - 1, of samples (..., n).

    The values are those of the polynomial through the STENCIL nearest samples (all samples of a shorter record), in
    Lagrange form. With 12 samples, the error of a sine is 3e-3 of its amplitude at 4 samples per period, 2e-6 at 8.
    """
    count = data.shape[-1]
    width = min(STENCIL, count)
    start = np.clip(np.floor(places).astype(int) - (width // 2 - 1), 0, count - width)
    position = places - start
    values = np.zeros((*data.shape[:-1], len(places)))
    for node in range(width):
        weight = np.ones(len(places))
        for other in range(width):
            if other != node:
                weight *= (position - other) / (node - other)
        values += weight * data[..., start + node]
    return values


# The wavelet misfits take a considerable part of a second per receiver.
MOST_WAVELET_RECEIVERS = 100
SAME_PLACE = 1.0e-3


class Comparison(RunMisfits):
    """Misfits of run A relative to the reference run B, for n common receivers.

    Attributes
    ----------
    label_a, label_b, methods : names of the runs, and their methods, as ``finite difference (order 4)``; empty if
        unknown.
    names : names of the n receivers.
    positions : (n, 3), m, from run B.
    quantity, units : of the data.
    time : (n_samples,), s.
    data_a, data_b : (n, 3, n_samples), components E, N, Z in `units`, low-passed if requested, and then tapered at the
        end if the durations differ (see `notes`).
    relative_l2 : (n,) relative L2 misfit, ||a - b|| / ||b||, over all components of a receiver.
    component_l2 : (n, 3) relative L2 misfit of each component.
    overall_l2 : relative L2 misfit over all receivers and components.
    time_shift : (n,), s, positive if run A is late.
    max_frequency : corner frequency of the low-pass filter, Hz; None without a filter.
    band : (lowest, highest) frequency of the envelope and phase misfits, Hz; None without these.
    envelope_misfit, phase_misfit : (n, 3); NaN if not computed for a receiver; None without ObsPy.
    notes : sentences on omitted receivers and differences between the runs.
    shortfalls : those of the notes that state which run is incomplete.
    weak : (n,) True for receivers with little motion compared with the others, as on a node of the radiation pattern,
        whose relative misfits say little.
    notes : sentences on omitted and weak receivers and differences between the runs.
    """

    def figure(self, path: str | Path) -> Path:
        """Draw the traces of both runs and the misfits of all receivers to the file `path`; return the path."""
        from lithowave.figures.comparisons import comparison_figure

        return comparison_figure(self, path)

    def report(self, path: str | Path) -> Path:
        """Write an HTML file with the misfits and the traces of all receivers to `path`; return the path."""
        from lithowave.report.collections import report_comparison

        return report_comparison(self, path)


def compare_runs(
    directory_a: str | Path,
    directory_b: str | Path,
    *,
    wavelets: bool = True,
    max_frequency: float | None = None,
) -> Comparison:
    """Compute the misfits of run A relative to the reference run B.

    Parameters
    ----------
    directory_a, directory_b : run folders, or ``seismograms.h5`` files.
    wavelets : also compute envelope and phase misfits, if ObsPy is installed.
    max_frequency : Hz; low-pass both runs at this frequency (see `misfits.low_pass`) and limit the envelope and phase
        misfits to it. Default: no low-pass; these misfits extend to the lower `solver.max_frequency` of the runs or, if
        neither run has one, to the maximum frequency in the spectrum of the reference.

    Returns
    -------
    Comparison : misfits of all receivers that both runs contain.

    Raises
    ------
    InputError : the runs have no receiver or no time in common, contain different quantities, or `max_frequency` is not
        between 0 and the Nyquist frequency of the coarser run.
    OutputError : a folder contains no seismograms, or they are damaged.
    """
    run_a, run_b = load_seismograms(directory_a), load_seismograms(directory_b)
    where = f"{directory_a} and {directory_b}"
    names = _common_names(run_a, run_b, where)
    time = common_time(run_a, run_b)
    if len(time) < 2:
        raise InputError(where, "fewer than two samples are in common", "extend the duration of the shorter run")
    interval = float(time[1] - time[0])
    _check_frequency(max_frequency, interval)
    rows_a, rows_b = (_rows(run, names) for run in (run_a, run_b))
    run_a, run_b, turns = _along_same_axes(run_a, run_b, rows_a, rows_b)
    data_a, data_b, tapered = _resampled_pair(run_a, run_b, rows_a, rows_b, time, max_frequency)
    shortfalls = [
        f"The {label} run is {run.shortfall}." for label, run in (("first", run_a), ("second", run_b)) if run.shortfall
    ]
    notes = turns + _differences(run_a, run_b, names, rows_a, rows_b) + shortfalls + tapered
    resolved = _resolved_frequencies(directory_a, directory_b)
    notes += _beyond(max_frequency, resolved)
    highest = max_frequency or min((value for value in resolved if value), default=None)
    relative = relative_l2(data_a, data_b, axis=(1, 2))
    weak = weak_receivers(data_b, _source_distances(run_b)[rows_b])
    notes += _weak_notes(names, weak, relative)
    band, envelope, phase = (
        _wavelet_misfits(data_a, data_b, interval, highest, notes) if wavelets else (None, None, None)
    )
    shift = np.array([time_shift(a, b, interval) for a, b in zip(data_a, data_b, strict=True)])
    return Comparison(
        label_a=str(directory_a), label_b=str(directory_b), names=names, positions=run_b.positions[rows_b],
        quantity=run_b.quantity, units=run_b.units, time=time, data_a=data_a, data_b=data_b, relative_l2=relative,
        component_l2=relative_l2(data_a, data_b, axis=2), overall_l2=relative_l2(data_a, data_b), time_shift=shift,
        methods=(_method_text(directory_a), _method_text(directory_b)), max_frequency=max_frequency, band=band,
        envelope_misfit=envelope, phase_misfit=phase, weak=~np.isnan(weak), notes=notes, shortfalls=shortfalls,
    )  # fmt: skip


def _resampled_pair(
    run_a: Seismograms, run_b: Seismograms, rows_a: list[int], rows_b: list[int], time: np.ndarray,
    max_frequency: float | None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:  # fmt: skip
    """Return the data (n, 3, n_samples) of both runs at common times; if the durations differ, tapered at the end, with
    a note on it."""
    data_a, data_b = (resample(run, rows, time, max_frequency) for run, rows in ((run_a, rows_a), (run_b, rows_b)))
    if not _durations_differ(run_a, run_b):
        return data_a, data_b, []
    weights, length = end_taper(time, max_frequency)
    return weights * data_a, weights * data_b, [_common_time_note(run_a, run_b, time, length)]


def _durations_differ(run_a: Seismograms, run_b: Seismograms) -> bool:
    """True if the last samples differ by more than the sampling intervals explain."""
    interval = max(run_a.sampling_interval, run_b.sampling_interval)
    return bool(abs(run_a.time[-1] - run_b.time[-1]) > (1.0 - 1e-6) * interval)


def _common_time_note(run_a: Seismograms, run_b: Seismograms, time: np.ndarray, length: float) -> str:
    ends = f"{run_a.time[-1]:g} s and the second at {run_b.time[-1]:g} s"
    tapered = f", with a taper of the last {length:.3g} s, where the low-pass lacks the continuation" if length else ""
    return f"The first run ends at {ends}: compared up to t = {time[-1]:g} s{tapered}."


def _source_distances(run: Seismograms) -> np.ndarray:
    """Return the distances (n,) of all receivers from the centroid of the sources, m; 1 without sources."""
    if run.sources.centroid is None:
        return np.ones(len(run))
    return np.hypot(epicentral_distance(run), run.positions[:, 2] - epicenter(run)[2])


def _weak_notes(names: list[str], weak: np.ndarray, misfits: np.ndarray) -> list[str]:
    """Return a note on receivers with little motion. weak : from `weak_receivers`. misfits : (n,), relative."""
    indices = np.flatnonzero(~np.isnan(weak))
    if not indices.size:
        return []
    worst = indices[int(np.argmax(misfits[indices]))]
    listed = first_names([names[index] for index in indices])
    return [
        f"* {indices.size} of {len(names)} receivers move less than {WEAK:.0%} of the strongest, also in proportion to "
        f"their distances, as on a node of the radiation pattern: {listed}. Their relative misfits say little (largest "
        f"at {names[worst]}, which moves {weak[worst]:.2g} of the strongest: {misfits[worst]:.3%}); judge them by the "
        "misfit of all receivers."
    ]


def _common_names(run_a: Seismograms, run_b: Seismograms, where: str) -> list[str]:
    """Return the names of the receivers of both runs, in the order of B; both runs must contain the same quantity."""
    if run_a.quantity != run_b.quantity:
        raise InputError(
            where,
            f"one run contains {run_a.quantity}, the other {run_b.quantity}",
            "both runs must contain the same quantity",
        )
    known = set(run_a.names)
    names = [name for name in run_b.names if name in known]
    if not names:
        raise InputError(
            where, "the runs have no receiver in common", "receivers are matched by name",
            f"the first run has {first_names(run_a.names) or 'none'}, the second {first_names(run_b.names) or 'none'}",
        )  # fmt: skip
    return names


def _rows(run: Seismograms, names: list[str]) -> list[int]:
    places = {name: row for row, name in enumerate(run.names)}
    return [places[name] for name in names]


def _check_frequency(max_frequency: float | None, interval: float) -> None:
    nyquist = 0.5 / interval
    if max_frequency is not None and not 0.0 < max_frequency < nyquist:
        raise InputError(
            "--fmax",
            f"{max_frequency:g} Hz is out of range",
            f"expected a frequency above 0 and below the Nyquist frequency of the coarser run, {nyquist:g} Hz",
        )


def _folder(path: str | Path) -> Path:
    """Return the run folder; `path` may be its seismogram file."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def _resolved_frequencies(*directories: str | Path) -> list[float | None]:
    """Return `solver.max_frequency` of each run, Hz; None if unknown."""
    found = []
    for directory in directories:
        solver = read_description(_folder(directory)).get("solver")
        value = solver.get("max_frequency") if isinstance(solver, Mapping) else None
        found.append(float(value) if isinstance(value, (int, float)) and value > 0 else None)
    return found


def resolved_frequency(run: str | Path) -> float | None:
    """Return the highest frequency that a run resolves, from its ``simulation.yaml``, Hz; None if unknown."""
    from lithowave.description.simulation import Simulation

    stated = _resolved_frequencies(run)[0]
    if stated is not None:
        return stated
    try:
        return Simulation.from_file(_folder(run) / "simulation.yaml").resolved_frequency
    except LithowaveError:  # input files of the run have moved, or its material is a Python function
        return None


def _beyond(max_frequency: float | None, resolved: list[float | None]) -> list[str]:
    """Return notes about runs that do not resolve the requested maximum frequency."""
    return [
        f"The {label} run resolves frequencies only up to {value:g} Hz (solver.max_frequency)."
        for label, value in zip(("first", "second"), resolved, strict=True)
        if max_frequency and value and max_frequency > value * (1.0 + 1e-9)
    ]


def _method_text(directory: str | Path) -> str:
    """Return method and accuracy from the plan in ``run.json``: ``finite difference (order 4)``; empty without one."""
    try:
        plan = read_report(_folder(directory))["plan"]
        name = plan["method"].replace("_", " ")
    except (OutputError, KeyError):
        return ""
    accuracy = [f"{key} {plan[key]}" for key in ("order", "degree") if plan.get(key) is not None]
    return f"{name} ({', '.join(accuracy)})" if accuracy else name


def _wavelet_misfits(
    data_a: np.ndarray, data_b: np.ndarray, interval: float, highest: float | None, notes: list[str]
) -> tuple[tuple[float, float] | None, np.ndarray | None, np.ndarray | None]:
    """Return (band, EM, PM), or None for each with a note that states the reason."""
    if find_spec("obspy") is None:
        notes.append("No envelope and phase misfits: they require ObsPy (pip install 'lithowave[formats]').")
        return None, None, None
    if data_b.shape[-1] < 16 or not data_b.any():
        notes.append("No envelope and phase misfits: the reference is too short, or zero.")
        return None, None, None
    chosen = np.unique(np.linspace(0, len(data_b) - 1, MOST_WAVELET_RECEIVERS).astype(int))
    if len(chosen) < len(data_b):
        notes.append(f"Envelope and phase misfits were computed for {len(chosen)} of {len(data_b)} receivers.")
    band = frequency_band(data_b, interval, max_frequency=highest)
    envelope, phase = np.full((2, len(data_b), 3), np.nan)
    for index in chosen:
        if data_b[index].any():
            envelope[index], phase[index] = wavelet_misfits(data_a[index], data_b[index], interval, band)
    return band, envelope, phase


def _along_same_axes(
    run_a: Seismograms, run_b: Seismograms, rows_a: list[int], rows_b: list[int]
) -> tuple[Seismograms, Seismograms, list[str]]:
    """Return both runs, along true East and North with a note if their components are along different axes."""
    known = run_a.geographic_origin is not None and run_b.geographic_origin is not None
    if not known or np.array_equal(run_a.north_azimuth[rows_a], run_b.north_azimuth[rows_b]):
        return run_a, run_b, []
    note = "Components of both runs were turned to true East and North, since the axes of the runs differ."
    return run_a.along_true_north(), run_b.along_true_north(), [note]


def _differences(
    run_a: Seismograms, run_b: Seismograms, names: list[str], rows_a: list[int], rows_b: list[int]
) -> list[str]:
    notes = []
    left = len(run_a) + len(run_b) - 2 * len(names)
    if left:
        notes.append(f"{left} receivers are in one run only and were omitted.")
    distance = np.linalg.norm(np.subtract(*common_positions(run_a, rows_a, run_b, rows_b)), axis=1)
    if (distance > SAME_PLACE).any():
        worst = int(distance.argmax())
        notes.append(
            f"{np.count_nonzero(distance > SAME_PLACE)} receivers have different positions in the two runs, "
            f"{names[worst]} by {distance[worst]:.3g} m."
        )
    if run_a.start_time and run_b.start_time and run_a.start_time != run_b.start_time:
        notes.append(
            f"Times are relative to t = 0, which is {run_a.start_time} in the first run and "
            f"{run_b.start_time} in the second."
        )
    return notes
