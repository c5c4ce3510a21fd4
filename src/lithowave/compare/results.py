"""The results of comparisons: of two runs, and of a run with observed seismograms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

    from lithowave.json_types import Entries

WAVELET_MISFITS = ("envelope_misfit", "phase_misfit")


@dataclass(frozen=True)
class RunMisfits:
    """The values of a `lithowave.compare.runs.Comparison`, which also draws them."""

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
    weak: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)

    def largest(self, name: str) -> np.ndarray | None:
        """Return (n,) maxima over the components of ``envelope_misfit`` or ``phase_misfit``; NaN if not computed.

        name : ``envelope_misfit`` or ``phase_misfit``.
        """
        values = getattr(self, name)
        return None if values is None else values.max(axis=1)

    def worst_component(self) -> tuple[int, int] | None:
        """Return (receiver, component) of the maximum of EM^2 + PM^2; None if neither misfit was computed."""
        if self.envelope_misfit is None or self.phase_misfit is None or np.isnan(self.envelope_misfit).all():
            return None
        together = np.nan_to_num(self.envelope_misfit**2 + self.phase_misfit**2, nan=-1.0)
        receiver, component = np.unravel_index(np.argmax(together), together.shape)
        return int(receiver), int(component)

    def summary(self) -> dict[str, Entries]:
        """Return the median and the maximum over the receivers, and the receiver of the maximum, of each computed
        misfit.

        For a receiver, envelope and phase misfits are maxima over its components; time shifts are absolute values.
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

    def rows(self) -> list[Entries]:
        """Return one dictionary per receiver with name, misfits and time shift (s), for tables and JSON."""
        rows = []
        for index, name in enumerate(self.names):
            row: Entries = {"name": name, "relative_l2": float(self.relative_l2[index])}
            row |= {f"relative_l2_{axis}": float(self.component_l2[index, k]) for k, axis in enumerate("ENZ")}
            row["time_shift"] = float(self.time_shift[index])
            row["weak"] = self.weak is not None and bool(self.weak[index])
            for label in WAVELET_MISFITS:
                values = getattr(self, label)
                known = values is not None and not np.isnan(values[index]).any()
                row[label] = float(values[index].max()) if known else None
                for k, axis in enumerate("ENZ"):
                    row[f"{label}_{axis}"] = float(values[index, k]) if known else None
            rows.append(row)
        return rows

    def to_dict(self) -> Entries:
        """Return all results except the traces, as plain values for JSON."""
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

    def to_pandas(self) -> DataFrame:
        """Return the misfits as a pandas DataFrame with one row per receiver.

        Raises
        ------
        MissingPackageError : pandas is not installed.
        """
        from lithowave.output.results import data_frame

        return data_frame(self.rows(), "name", {"time_shift": "s"})

    def __repr__(self) -> str:
        return (
            f"<Comparison of {self.label_a} with {self.label_b}: {len(self.names)} receivers, relative L2 misfit "
            f"{self.overall_l2:.3%}>"
        )

    def __str__(self) -> str:
        return "\n".join([*_head(self), *_table(self), *self.notes])


def _head(comparison: RunMisfits) -> list[str]:
    """Return header lines: the runs, times and frequencies that were compared."""
    labels = (comparison.label_a, comparison.label_b)
    run, reference = (
        f"{label}, {method}" if method else label for label, method in zip(labels, comparison.methods, strict=True)
    )
    lines = [
        f"{run}, relative to {reference}:" if any(comparison.methods) else f"{run} relative to {reference}:",
        f"{comparison.quantity}, {len(comparison.names)} receivers, "
        f"t = {comparison.time[0]:g} to {comparison.time[-1]:g} s"
        + (f", below {comparison.max_frequency:g} Hz" if comparison.max_frequency else ""),
    ]
    if comparison.band is not None:
        lowest, highest = comparison.band
        lines.append(f"envelope and phase misfits from {lowest:.3g} to {highest:.3g} Hz, maximum over the components")
    return lines


def _table(comparison: RunMisfits) -> list[str]:
    """Return a line per receiver, then for several receivers the median and the maximum, and the overall misfit."""
    lines = [f"{'receiver':<14} {'rel. L2':>9} {'shift (s)':>10} {'envelope':>9} {'phase':>9}"]
    rows = comparison.rows()
    if len(rows) > 1:
        summary = comparison.summary()
        for label in ("median", "largest"):
            rows.append({"name": label} | {name: values[label] for name, values in summary.items()})
    for row in rows:
        misfits = (row.get(name) for name in WAVELET_MISFITS)
        columns = " ".join("        -" if value is None else f"{value:9.2%}" for value in misfits)
        name = f"{row['name']} *" if row.get("weak") else row["name"]
        lines.append(f"{name:<14} {row['relative_l2']:9.3%} {row['time_shift']:z10.2g} {columns}")
    return [*lines, f"{'all':<14} {comparison.overall_l2:9.3%}"]


@dataclass(frozen=True)
class StationMisfits:
    """Misfits of one station.

    components : letters of the compared components. window : (start, end), s. relative_l2, correlation : over all
    components, before and after the shift. time_shift : s, positive if the run is late. amplitude_ratio : root mean
    square of the run divided by that of the data.
    """

    name: str
    components: str
    channels: tuple[str, ...]
    window: tuple[float, float]
    relative_l2: float
    correlation: float
    time_shift: float
    shifted_l2: float
    shifted_correlation: float
    amplitude_ratio: float
    component_l2: dict[str, float]


@dataclass(frozen=True)
class DataMisfits:
    """The values of a `lithowave.compare.data.DataComparison`, which also draws them."""

    label_run: str
    label_data: str
    quantity: str
    units: str
    band: tuple[float | None, float]
    components: str
    time: np.ndarray
    start_time: str
    data_run: np.ndarray
    data_observed: np.ndarray
    stations: list[StationMisfits]
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shortfall: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the stations."""
        return [station.name for station in self.stations]

    def rows(self) -> list[Entries]:
        """Return one dictionary per station, for tables and JSON."""
        rows = []
        for station in self.stations:
            row = {**vars(station), "window": list(station.window), "channels": list(station.channels)}
            row |= {f"relative_l2_{axis}": station.component_l2.get(axis) for axis in self.components}
            del row["component_l2"]
            rows.append(row)
        return rows

    def to_dict(self) -> Entries:
        """Return all results except the traces, as plain values for JSON."""
        return {
            "run": self.label_run,
            "data": self.label_data,
            "quantity": self.quantity,
            "units": self.units,
            "band": list(self.band),
            "sampling_interval": float(self.time[1] - self.time[0]),
            "start_time": self.start_time,
            "window": [float(self.time[0]), float(self.time[-1])],
            "stations": self.rows(),
            "missing": list(self.missing),
            "notes": list(self.notes),
        }

    def to_pandas(self) -> DataFrame:
        """Return the misfits as a pandas DataFrame with the station as index.

        Raises
        ------
        MissingPackageError : pandas is not installed.
        """
        from lithowave.output.results import data_frame

        return data_frame(self.rows(), "name", {"time_shift": "s", "window": "s"})

    def __str__(self) -> str:
        low, high = self.band
        filtered = f"below {high:g} Hz" if low is None else f"{low:g} to {high:g} Hz"
        lines = [
            f"{self.label_run} relative to {self.label_data}:",
            f"{self.quantity}, {len(self.stations)} stations, {filtered}, every {self.time[1] - self.time[0]:.4g} s "
            f"from t = {self.time[0]:g} to {self.time[-1]:g} s, t = 0 is {self.start_time}",
            f"{'station':<14} {'':3} {'rel. L2':>9} {'corr.':>6} {'shift (s)':>10} {'rel. L2':>9} {'corr.':>6} "
            f"{'run/data':>9}",
            f"{'':<14} {'':3} {'before':>9} {'':6} {'run late':>10} {'after':>9}",
        ]
        for one in self.stations:
            lines.append(
                f"{one.name:<14} {one.components:<3} {one.relative_l2:9.2%} {one.correlation:6.3f} "
                f"{one.time_shift:z10.3g} {one.shifted_l2:9.2%} {one.shifted_correlation:6.3f} "
                f"{one.amplitude_ratio:9.3g}"
            )
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return f"<DataComparison of {self.label_run} with {self.label_data}: {len(self.stations)} stations>"
