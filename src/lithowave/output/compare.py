"""Two runs held against each other, receiver by receiver.

Receivers are matched by name. The samples compared are those of the coarser of the two sampling intervals
over the time that both runs cover; the finer run is taken at these times by the polynomial through the twelve
nearest samples (exactly, where the times are its own samples). It is not filtered first, as the coarser run was
sampled without a filter too, unless a highest frequency is asked for: then both runs are low-passed at their own
samples.

Envelope and phase misfits are taken over the frequencies at which both runs are meant to be right: up to the highest
frequency asked for, or else the lower of the two `solver.max_frequency`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError, OutputError
from lithowave.output.figures.description import read_description
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.verification.misfits import frequency_band, low_pass, relative_l2, time_shift, wavelet_misfits

# the wavelet misfits take a good part of a second for each receiver
MOST_WAVELET_RECEIVERS = 100
SAME_PLACE = 1.0e-3
STENCIL = 12
WAVELET_MISFITS = ("envelope_misfit", "phase_misfit")


@dataclass(frozen=True)
class Comparison:
    """Misfits of run A against run B, the reference, for n common receivers.

    methods : of A and B, as ``finite difference (order 4)``; empty where a run does not tell.
    names : n names; `positions` (n, 3) in m after run B.
    time : (n_samples,) s; data_a, data_b : (n, 3, n_samples), E, N, Z, in `units`, low-passed where asked for.
    relative_l2 : (n,) over all components of a receiver; component_l2 : (n, 3); overall_l2 : over everything.
    time_shift : (n,) s by which A is late.
    max_frequency : Hz, corner of the low-pass; None without one.
    band : (lowest, highest) frequency, Hz, of the envelope and phase misfits, or None without these.
    envelope_misfit, phase_misfit : (n, 3), NaN where not computed, or None without ObsPy.
    notes : sentences on what was left out or differs between the runs.
    """

    label_a: str
    label_b: str
    names: list[str]
    positions: np.ndarray
    quantity: str
    units: str
    time: np.ndarray
    data_a: np.ndarray
    data_b: np.ndarray
    relative_l2: np.ndarray
    component_l2: np.ndarray
    overall_l2: float
    time_shift: np.ndarray
    methods: tuple[str, str] = ("", "")
    max_frequency: float | None = None
    band: tuple[float, float] | None = None
    envelope_misfit: np.ndarray | None = None
    phase_misfit: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)

    def largest(self, name: str) -> np.ndarray | None:
        """(n,) largest over the components of ``envelope_misfit`` or ``phase_misfit``; NaN where not computed."""
        values = getattr(self, name)
        return None if values is None else values.max(axis=1)

    def worst_component(self) -> tuple[int, int] | None:
        """(receiver, component) where EM^2 + PM^2 is largest; None where neither was computed."""
        if self.envelope_misfit is None or np.isnan(self.envelope_misfit).all():
            return None
        together = np.nan_to_num(self.envelope_misfit**2 + self.phase_misfit**2, nan=-1.0)
        receiver, component = np.unravel_index(np.argmax(together), together.shape)
        return int(receiver), int(component)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Of each misfit that was computed: median and largest over the receivers, and the receiver of the largest.

        Envelope and phase misfits of a receiver are here the largest over its components, time shifts without sign.
        """
        misfits = {"relative_l2": self.relative_l2, "time_shift": np.abs(self.time_shift)}
        misfits |= {name: self.largest(name) for name in WAVELET_MISFITS}
        found = {}
        for name, values in misfits.items():
            if values is not None and not np.isnan(values).all():
                worst = int(np.nanargmax(values))
                found[name] = {
                    "median": float(np.nanmedian(values)),
                    "largest": float(values[worst]),
                    "receiver": self.names[worst],
                }
        return found

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a receiver: name, misfits over and of its components, shift (s); for tables and JSON."""
        rows = []
        for index, name in enumerate(self.names):
            row: dict[str, Any] = {"name": name, "relative_l2": float(self.relative_l2[index])}
            row |= {f"relative_l2_{axis}": float(self.component_l2[index, k]) for k, axis in enumerate("ENZ")}
            row["time_shift"] = float(self.time_shift[index])
            for label in WAVELET_MISFITS:
                values = getattr(self, label)
                known = values is not None and not np.isnan(values[index]).any()
                row[label] = float(values[index].max()) if known else None
                for k, axis in enumerate("ENZ"):
                    row[f"{label}_{axis}"] = float(values[index, k]) if known else None
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything but the traces, as plain values for JSON."""
        return {
            "run": self.label_a,
            "reference": self.label_b,
            "run_method": self.methods[0] or None,
            "reference_method": self.methods[1] or None,
            "quantity": self.quantity,
            "units": self.units,
            "samples": len(self.time),
            "sampling_interval": float(self.time[1] - self.time[0]),
            "max_frequency": self.max_frequency,
            "misfit_band": None if self.band is None else list(self.band),
            "overall_relative_l2": self.overall_l2,
            "summary": self.summary(),
            "receivers": self.rows(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([*_head(self), *_table(self), *self.notes])

    def figure(self, path: str | Path) -> Path:
        """Draw both runs' traces and the misfits of all receivers into `path`; returns it."""
        from lithowave.output.figures.comparison import comparison_figure

        return comparison_figure(self, path)


def compare_runs(
    directory_a: str | Path,
    directory_b: str | Path,
    *,
    wavelets: bool = True,
    max_frequency: float | None = None,
) -> Comparison:
    """Misfits of run A against run B, the reference; each a run folder or a ``seismograms.h5``.

    Parameters
    ----------
    wavelets : also compute envelope and phase misfits, where ObsPy is installed.
    max_frequency : Hz; all misfits are of the runs low-passed at it (see `misfits.low_pass`), and it is the highest
        frequency of the envelope and phase misfits. Default: no low-pass, and these misfits go up to the lower of the
        runs' own `solver.max_frequency` or, where neither gives one, as far as the spectrum of the reference.

    Raises
    ------
    InputError : when the runs have no receiver or no time in common, hold different quantities, or `max_frequency`
        is not between 0 and the Nyquist frequency of the coarser run.
    OutputError : when a folder holds no seismograms, or they are damaged.
    """
    run_a, run_b = load_seismograms(directory_a), load_seismograms(directory_b)
    where = f"{directory_a} and {directory_b}"
    names = _common_names(run_a, run_b, where)
    time = common_time(run_a, run_b)
    if len(time) < 2:
        raise InputError(where, "fewer than two samples in common", "let both runs go far enough")
    interval = float(time[1] - time[0])
    _check_frequency(max_frequency, interval)
    rows_a, rows_b = (_rows(run, names) for run in (run_a, run_b))
    data_a, data_b = (
        resample(run, rows, time, max_frequency) for run, rows in ((run_a, rows_a), (run_b, rows_b))
    )
    notes = _differences(run_a, run_b, names, rows_a, rows_b)
    resolved = _resolved_frequencies(directory_a, directory_b)
    notes += _beyond(max_frequency, resolved)
    highest = max_frequency or min((value for value in resolved if value), default=None)
    band, envelope, phase = (
        _wavelet_misfits(data_a, data_b, interval, highest, notes) if wavelets else (None, None, None)
    )
    return Comparison(
        label_a=str(directory_a),
        label_b=str(directory_b),
        names=names,
        positions=run_b.positions[rows_b],
        quantity=run_b.quantity,
        units=run_b.units,
        time=time,
        data_a=data_a,
        data_b=data_b,
        relative_l2=relative_l2(data_a, data_b, axis=(1, 2)),
        component_l2=relative_l2(data_a, data_b, axis=2),
        overall_l2=relative_l2(data_a, data_b),
        time_shift=np.array([time_shift(a, b, interval) for a, b in zip(data_a, data_b, strict=True)]),
        methods=(_method_text(directory_a), _method_text(directory_b)),
        max_frequency=max_frequency,
        band=band,
        envelope_misfit=envelope,
        phase_misfit=phase,
        notes=notes,
    )


def common_time(run_a: Seismograms, run_b: Seismograms) -> np.ndarray:
    """Times (s) of the coarser run's samples that both runs cover."""
    if not len(run_a.time) or not len(run_b.time):
        return np.zeros(0)
    coarser = run_a if run_a.sampling_interval >= run_b.sampling_interval else run_b
    end = min(run_a.time[-1], run_b.time[-1])
    return coarser.time[coarser.time <= end + 1e-6 * coarser.sampling_interval]


def resample(run: Seismograms, rows: list[int], time: np.ndarray, max_frequency: float | None = None) -> np.ndarray:
    """(len(rows), 3, len(time)) samples of the receivers `rows` at `time`, which the run covers.

    max_frequency : Hz at which the run is low-passed first, with all its samples; None: it is not.
    """
    data = np.asarray(run.data[rows], dtype=float)
    if max_frequency is not None:
        data = low_pass(data, run.sampling_interval, max_frequency)
    samples = time / run.sampling_interval
    nearest = np.rint(samples).astype(int)
    if np.allclose(samples, nearest, rtol=0.0, atol=1e-6):
        return data[..., nearest]
    return interpolate(data, samples)


def interpolate(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(..., m) values between the samples (..., n) at `places` (m,), counted in samples from 0 to n - 1.

    The polynomial through the STENCIL nearest samples (fewer of a shorter record), in Lagrange's form. With
    12 of them the error of a sine is 3e-3 of its amplitude at 4 samples a period and 2e-6 at 8.
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


def _common_names(run_a: Seismograms, run_b: Seismograms, where: str) -> list[str]:
    """Names of the receivers of both runs, in the order of B; both must hold the same quantity."""
    if run_a.quantity != run_b.quantity:
        raise InputError(
            where,
            f"one holds {run_a.quantity}, the other {run_b.quantity}",
            "both must hold the same quantity",
        )
    known = set(run_a.names)
    names = [name for name in run_b.names if name in known]
    if not names:
        raise InputError(
            where,
            "no receiver is in both",
            "receivers are matched by name",
            f"the one has {_some(run_a.names)}, the other {_some(run_b.names)}",
        )
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
            f"expected a frequency above 0 and below the Nyquist of the coarser run, {nyquist:g} Hz",
        )


def _folder(path: str | Path) -> Path:
    """The run folder, where `path` may be its seismogram file."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def _resolved_frequencies(*directories: str | Path) -> list[float | None]:
    """`solver.max_frequency` of each run, Hz; None where it is not told."""
    found = []
    for directory in directories:
        solver = read_description(_folder(directory)).get("solver")
        value = solver.get("max_frequency") if isinstance(solver, Mapping) else None
        found.append(float(value) if isinstance(value, (int, float)) and value > 0 else None)
    return found


def _beyond(max_frequency: float | None, resolved: list[float | None]) -> list[str]:
    """What is to be said where more is asked for than a run resolves."""
    return [
        f"The {label} run resolves frequencies up to {value:g} Hz only (solver.max_frequency)."
        for label, value in zip(("first", "second"), resolved, strict=True)
        if max_frequency and value and max_frequency > value * (1.0 + 1e-9)
    ]


def _method_text(directory: str | Path) -> str:
    """Method and accuracy after the plan in ``run.json``, as ``finite difference (order 4)``; empty without one."""
    try:
        plan = read_report(_folder(directory))["plan"]
        name = plan["method"].replace("_", " ")
    except (OutputError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return ""
    accuracy = [f"{key} {plan[key]}" for key in ("order", "degree") if plan.get(key) is not None]
    return f"{name} ({', '.join(accuracy)})" if accuracy else name


def _wavelet_misfits(
    data_a: np.ndarray, data_b: np.ndarray, interval: float, highest: float | None, notes: list[str]
) -> tuple[tuple[float, float] | None, np.ndarray | None, np.ndarray | None]:
    """(band, EM, PM), or Nones and a note on why there are none."""
    if find_spec("obspy") is None:
        notes.append("No envelope and phase misfits: they need ObsPy (pip install 'lithowave[formats]').")
        return None, None, None
    if data_b.shape[-1] < 16 or not data_b.any():
        notes.append("No envelope and phase misfits: the reference is too short, or zero throughout.")
        return None, None, None
    chosen = np.unique(np.linspace(0, len(data_b) - 1, MOST_WAVELET_RECEIVERS).astype(int))
    if len(chosen) < len(data_b):
        notes.append(f"Envelope and phase misfits of {len(chosen)} of {len(data_b)} receivers only.")
    band = frequency_band(data_b, interval, max_frequency=highest)
    envelope, phase = np.full((2, len(data_b), 3), np.nan)
    for index in chosen:
        if data_b[index].any():
            envelope[index], phase[index] = wavelet_misfits(data_a[index], data_b[index], interval, band)
    return band, envelope, phase


def _head(comparison: Comparison) -> list[str]:
    """What was compared, over which times and frequencies."""
    labels = (comparison.label_a, comparison.label_b)
    run, reference = (
        f"{label}, {method}" if method else label for label, method in zip(labels, comparison.methods, strict=True)
    )
    lines = [
        f"{run}, against {reference}:" if any(comparison.methods) else f"{run} against {reference}:",
        f"{comparison.quantity}, {len(comparison.names)} receivers, "
        f"t = {comparison.time[0]:g} to {comparison.time[-1]:g} s"
        + (f", below {comparison.max_frequency:g} Hz" if comparison.max_frequency else ""),
    ]
    if comparison.band is not None:
        lowest, highest = comparison.band
        lines.append(f"envelope and phase misfits from {lowest:.3g} to {highest:.3g} Hz, largest of the components")
    return lines


def _table(comparison: Comparison) -> list[str]:
    """A line for each receiver, for the median and the largest of several, and for all together."""
    lines = [f"{'receiver':<14} {'rel. L2':>9} {'shift (s)':>10} {'envelope':>9} {'phase':>9}"]
    rows = comparison.rows()
    if len(rows) > 1:
        summary = comparison.summary()
        for label in ("median", "largest"):
            rows.append({"name": label} | {name: values[label] for name, values in summary.items()})
    for row in rows:
        misfits = (row.get(name) for name in WAVELET_MISFITS)
        columns = " ".join("        -" if value is None else f"{value:9.2%}" for value in misfits)
        lines.append(f"{row['name']:<14} {row['relative_l2']:9.3%} {row['time_shift']:z10.2g} {columns}")
    return [*lines, f"{'all':<14} {comparison.overall_l2:9.3%}"]


def _differences(
    run_a: Seismograms, run_b: Seismograms, names: list[str], rows_a: list[int], rows_b: list[int]
) -> list[str]:
    notes = []
    left = len(run_a) + len(run_b) - 2 * len(names)
    if left:
        notes.append(f"{left} receivers are in one run only and were left out.")
    distance = np.linalg.norm(run_a.positions[rows_a] - run_b.positions[rows_b], axis=1)
    if (distance > SAME_PLACE).any():
        worst = int(distance.argmax())
        notes.append(
            f"{np.count_nonzero(distance > SAME_PLACE)} receivers stand at different places in the two runs, "
            f"{names[worst]} by {distance[worst]:.3g} m."
        )
    for label, run in (("first", run_a), ("second", run_b)):
        if not run.complete:
            notes.append(f"The {label} run is not complete: {len(run.time)} of {run.sample_count} samples.")
    if run_a.start_time and run_b.start_time and run_a.start_time != run_b.start_time:
        notes.append(
            f"Times are counted from t = 0, which is {run_a.start_time} in the first run and "
            f"{run_b.start_time} in the second."
        )
    return notes


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") if names else "none"
