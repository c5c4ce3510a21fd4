"""Two runs held against each other, receiver by receiver.

Receivers are matched by name. The samples compared are those of the coarser of the two sampling intervals
over the time that both runs cover; the finer run is taken at these times by the polynomial through the twelve
nearest samples (exactly, where the times are its own samples). It is not filtered first: the coarser run was
sampled without a filter too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.verification.misfits import frequency_band, relative_l2, time_shift, wavelet_misfits

# the wavelet misfits take a good part of a second for each receiver
MOST_WAVELET_RECEIVERS = 100
SAME_PLACE = 1.0e-3
STENCIL = 12


@dataclass(frozen=True)
class Comparison:
    """Misfits of run A against run B, the reference, for n common receivers.

    names : n names; `positions` (n, 3) in m after run B.
    time : (n_samples,) s; data_a, data_b : (n, 3, n_samples), E, N, Z, in `units`.
    relative_l2 : (n,) over all components of a receiver; component_l2 : (n, 3); overall_l2 : over everything.
    time_shift : (n,) s by which A is late.
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
    envelope_misfit: np.ndarray | None = None
    phase_misfit: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a receiver: name, misfits over its components, shift (s); for tables and JSON."""
        rows = []
        for index, name in enumerate(self.names):
            row: dict[str, Any] = {
                "name": name,
                "relative_l2": float(self.relative_l2[index]),
                "relative_l2_E": float(self.component_l2[index, 0]),
                "relative_l2_N": float(self.component_l2[index, 1]),
                "relative_l2_Z": float(self.component_l2[index, 2]),
                "time_shift": float(self.time_shift[index]),
            }
            for label in ("envelope_misfit", "phase_misfit"):
                values = getattr(self, label)
                row[label] = (
                    None if values is None or np.isnan(values[index, 0]) else float(values[index].max())
                )
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything but the traces, as plain values for JSON."""
        return {
            "run": self.label_a,
            "reference": self.label_b,
            "quantity": self.quantity,
            "units": self.units,
            "samples": len(self.time),
            "sampling_interval": float(self.time[1] - self.time[0]),
            "overall_relative_l2": self.overall_l2,
            "receivers": self.rows(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.label_a} against {self.label_b}: {self.quantity}, {len(self.names)} receivers, "
            f"t = {self.time[0]:g} to {self.time[-1]:g} s",
            f"{'receiver':<14} {'rel. L2':>9} {'shift (s)':>10} {'envelope':>9} {'phase':>9}",
        ]
        for row in self.rows():
            misfits = (row["envelope_misfit"], row["phase_misfit"])
            columns = " ".join("        -" if value is None else f"{value:9.2%}" for value in misfits)
            lines.append(f"{row['name']:<14} {row['relative_l2']:9.3%} {row['time_shift']:10.2g} {columns}")
        lines.append(f"{'all':<14} {self.overall_l2:9.3%}")
        return "\n".join([*lines, *self.notes])

    def figure(self, path: str | Path) -> Path:
        """Draw both runs' traces and the misfits of all receivers into `path`; returns it."""
        from lithowave.output.figures.comparison import comparison_figure

        return comparison_figure(self, path)


def compare_runs(directory_a: str | Path, directory_b: str | Path, *, wavelets: bool = True) -> Comparison:
    """Misfits of run A against run B, the reference; each a run folder or a ``seismograms.h5``.

    Parameters
    ----------
    wavelets : also compute envelope and phase misfits, where ObsPy is installed.

    Raises
    ------
    InputError : when the runs have no receiver or no time in common, or hold different quantities.
    OutputError : when a folder holds no seismograms, or they are damaged.
    """
    run_a, run_b = load_seismograms(directory_a), load_seismograms(directory_b)
    where = f"{directory_a} and {directory_b}"
    if run_a.quantity != run_b.quantity:
        raise InputError(
            where,
            f"one holds {run_a.quantity}, the other {run_b.quantity}",
            "both must hold the same quantity",
        )
    places_a, places_b = ({name: row for row, name in enumerate(run.names)} for run in (run_a, run_b))
    names = [name for name in places_b if name in places_a]
    if not names:
        raise InputError(
            where,
            "no receiver is in both",
            "receivers are matched by name",
            f"the one has {_some(run_a.names)}, the other {_some(run_b.names)}",
        )
    time = common_time(run_a, run_b)
    if len(time) < 2:
        raise InputError(where, "fewer than two samples in common", "let both runs go far enough")
    rows_a, rows_b = ([places[name] for name in names] for places in (places_a, places_b))
    data_a, data_b = (resample(run, rows, time) for run, rows in ((run_a, rows_a), (run_b, rows_b)))
    interval = float(time[1] - time[0])
    notes = _differences(run_a, run_b, names, rows_a, rows_b)
    envelope, phase = _wavelet_misfits(data_a, data_b, interval, notes) if wavelets else (None, None)
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


def resample(run: Seismograms, rows: list[int], time: np.ndarray) -> np.ndarray:
    """(len(rows), 3, len(time)) samples of the receivers `rows` at `time`, which the run covers."""
    data = np.asarray(run.data[rows], dtype=float)
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


def _wavelet_misfits(
    data_a: np.ndarray, data_b: np.ndarray, interval: float, notes: list[str]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if find_spec("obspy") is None:
        notes.append("No envelope and phase misfits: they need ObsPy (pip install 'lithowave[formats]').")
        return None, None
    if data_b.shape[-1] < 16 or not data_b.any():
        notes.append("No envelope and phase misfits: the reference is too short, or zero throughout.")
        return None, None
    chosen = np.unique(np.linspace(0, len(data_b) - 1, MOST_WAVELET_RECEIVERS).astype(int))
    if len(chosen) < len(data_b):
        notes.append(f"Envelope and phase misfits of {len(chosen)} of {len(data_b)} receivers only.")
    band = frequency_band(data_b, interval)
    envelope, phase = np.full((2, len(data_b), 3), np.nan)
    for index in chosen:
        if data_b[index].any():
            envelope[index], phase[index] = wavelet_misfits(data_a[index], data_b[index], interval, band)
    return envelope, phase


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
    return notes


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") if names else "none"
