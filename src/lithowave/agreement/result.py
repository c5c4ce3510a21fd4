"""The result of an agreement: misfits between methods, changes by control runs, causes, and sentences about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.agreement.geometry import ReceiverPosition, receiver_position
from lithowave.agreement.misfits import Attribution, Misfit
from lithowave.agreement.planning import BASE, AgreementPlan, Key, PlannedRun
from lithowave.output.hdf5 import writing
from lithowave.version import __version__

FILE_NAME = "agree.json"
FIGURE_NAME = "agree.png"


@dataclass(frozen=True)
class Finding:
    """A cause of a difference.

    cause : ``resolution``, ``boundary`` or ``unexplained``. method : to which it applies; None if unexplained. error :
    estimated relative error. share : in the squared difference of `pair`; None if it was measured by a control run
    only. text : a sentence. remedy : an imperative sentence with key and value; may be empty.
    """

    cause: str
    method: str | None
    error: float
    text: str
    remedy: str
    share: float | None = None
    pair: Key | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values for JSON."""
        return {**vars(self), "pair": None if self.pair is None else list(self.pair)}


@dataclass(frozen=True)
class Agreement:
    """Differences between the seismograms of several methods, and their causes.

    Attributes
    ----------
    plan : the runs.
    tolerance : largest relative L2 misfit of a receiver that counts as agreement.
    reference : the method with which the others are compared: that of the file, unless the estimated error of another
        one is less than half as large.
    corner : corner frequency of the zero-phase low-pass filter of all seismograms, Hz.
    names, positions : names of the receivers, and their positions, (n, 3) in m.
    quantity, units : of the seismograms.
    time : (n_samples,), s.
    traces : (n, 3, n_samples) of each run by (method, kind), low-passed.
    pairs : misfits of one method relative to another by (method, other method).
    controls : misfits of a base run relative to a control run by (method, kind).
    attributions : the causes of each difference beyond the tolerance, by (method, other method).
    untested : the reason for each control run, by (method, kind), that was not possible.
    wall_s : wall time of each run, s.
    findings : causes of differences beyond the tolerance.
    summary : sentences that state the result.
    """

    plan: AgreementPlan
    tolerance: float
    reference: str
    corner: float
    names: list[str]
    positions: np.ndarray
    quantity: str
    units: str
    time: np.ndarray
    traces: Mapping[Key, np.ndarray]
    pairs: Mapping[Key, Misfit]
    controls: Mapping[Key, Misfit]
    attributions: Mapping[Key, Attribution] = field(default_factory=dict)
    untested: Mapping[Key, str] = field(default_factory=dict)
    wall_s: Mapping[Key, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    summary: Sequence[str] = ()

    @property
    def agreed(self) -> bool:
        """True if no receiver of any pair of methods and of any control run differs by more than the tolerance."""
        return all(one.largest <= self.tolerance for one in (*self.pairs.values(), *self.controls.values()))

    @property
    def directory(self) -> Path:
        """The folder with all runs and results."""
        return self.plan.directory

    @property
    def worst(self) -> Key:
        """The pair of methods with the largest misfit of a receiver."""
        return max(self.pairs, key=lambda pair: self.pairs[pair].largest)

    def run(self, method: str, kind: str = BASE) -> PlannedRun:
        """Return a run."""
        return self.plan.runs[method, kind]

    def position(self, receiver: int) -> ReceiverPosition:
        """Return the distances of a receiver, given by its index, from the sources and the absorbing faces."""
        return receiver_position(self.plan.simulation, self.positions[receiver], self.plan.frequency)

    def to_dict(self) -> dict[str, Any]:
        """Return all results except the traces, as plain values for JSON."""
        return {
            "lithowave": __version__, "title": self.plan.simulation.title, "agreed": self.agreed,
            "tolerance": self.tolerance, "reference": self.reference, "methods": list(self.plan.methods),
            "max_frequency": self.plan.frequency, "low_pass": self.corner, "refinement": self.plan.refinement,
            "quantity": self.quantity, "units": self.units,
            "time": [float(self.time[0]), float(self.time[-1]), len(self.time)],
            "runs": [self._run_entry(key) for key in self.traces],
            "pairs": [self._pair_entry(pair) for pair in self.pairs],
            "controls": [
                {"method": key[0], "kind": key[1], **one.as_dict(self.names)} for key, one in self.controls.items()
            ],
            "excluded": dict(self.plan.excluded),
            "untested": [{"method": key[0], "kind": key[1], "reason": text} for key, text in self.untested.items()],
            "findings": [finding.as_dict() for finding in self.findings],
            "summary": list(self.summary), "notes": list(self.plan.notes),
        }  # fmt: skip

    def _run_entry(self, key: Key) -> dict[str, Any]:
        run = self.plan.runs[key]
        return {
            "method": key[0], "kind": key[1], "label": run.label, "points_per_wavelength": run.points,
            "directory": str(run.directory), "wall_s": self.wall_s.get(key),
        }  # fmt: skip

    def _pair_entry(self, pair: Key) -> dict[str, Any]:
        misfit, found = self.pairs[pair], self.attributions.get(pair)
        entry: dict[str, Any] = {"method": pair[0], "reference": pair[1], **misfit.as_dict(self.names)}
        entry["worst_position"] = self.position(misfit.worst).as_dict()
        if found is not None:
            entry["causes"] = [
                {"method": cause[0], "kind": cause[1], "share": share, "factor": found.factors[cause],
                 "error": found.errors[cause]}
                for cause, share in found.shares.items()
            ]  # fmt: skip
            entry |= {"unexplained_share": found.unexplained, "unexplained_error": found.unexplained_error}
        return entry

    def write(self) -> Path:
        """Write ``agree.json`` to the folder of the agreement; return its path."""
        path = self.directory / FILE_NAME
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")
        return path

    def figure(self, path: str | Path | None = None) -> Path:
        """Draw the waveforms of all base runs at the worst receiver; return the path (default: ``agree.png``)."""
        from lithowave.output.figures.agreement import agreement_figure

        pair = self.worst
        receiver = self.pairs[pair].worst
        traces = {self.run(method).label: self.traces[method, BASE][receiver] for method in self._ordered_methods()}
        title = f"{self.names[receiver]}: {self.position(receiver).text()}"
        misfits = {
            self.run(method).label: self.pairs[method, self.reference].receivers for method in self.plan.methods
            if method != self.reference
        }  # fmt: skip
        return agreement_figure(
            self.time, traces, self.units, title, misfits, self.names, self.tolerance,
            path or self.directory / FIGURE_NAME,
        )  # fmt: skip

    def _ordered_methods(self) -> list[str]:
        return sorted(self.plan.methods, key=lambda method: method != self.reference)

    def table(self) -> list[list[str]]:
        """Return the rows of the table that ``lithowave agree`` prints, with a header."""
        rows = [["run", "relative to", "all", "worst", "receiver", "shift (s)", "amplitude", "envelope", "phase"]]
        for (method, other), one in self.pairs.items():
            rows.append([self.run(method).label, self.run(other).label, *self._cells(one)])
        for (method, kind), one in self.controls.items():
            rows.append([self.run(method).label, f"the same, {kind}", *self._cells(one)])
        return rows

    def _cells(self, one: Misfit) -> list[str]:
        def share(value: float | None, sign: str = "") -> str:
            return "-" if value is None else f"{value:{sign}.2%}"

        receiver = f"{self.names[one.worst]} {one.worst_component}"
        return [
            share(one.overall), share(one.largest), receiver, f"{one.shift:z.2g}", share(one.amplitude, "+"),
            share(one.envelope), share(one.phase),
        ]  # fmt: skip

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.summary])
