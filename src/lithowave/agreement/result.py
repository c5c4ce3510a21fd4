"""The result of an agreement: misfits between methods, changes by control runs, and causes, also as sentences.

All traces are arrays (n_receivers, 3, n_samples) at the same times, low-passed in the same way. The sentences about
causes of differences name the keys and values that reduce them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.agreement.planning import (
    BASE,
    FINER,
    WIDER,
    AgreementPlan,
    Key,
    PlannedRun,
    ReceiverPosition,
    outward_shift,
    receiver_position,
)
from lithowave.compare.misfits import frequency_band, relative_l2, time_shift, wavelet_misfits, weak_receivers
from lithowave.description.solver import METHODS
from lithowave.errors import InputError
from lithowave.labels import table_lines
from lithowave.output.files import writing
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries

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

    def as_dict(self) -> Entries:
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

    def to_dict(self) -> Entries:
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

    def _run_entry(self, key: Key) -> Entries:
        run = self.plan.runs[key]
        return {
            "method": key[0], "kind": key[1], "label": run.label, "points_per_wavelength": run.points,
            "directory": str(run.directory), "wall_s": self.wall_s.get(key),
        }  # fmt: skip

    def _pair_entry(self, pair: Key) -> Entries:
        misfit, found = self.pairs[pair], self.attributions.get(pair)
        entry: Entries = {"method": pair[0], "reference": pair[1], **misfit.as_dict(self.names)}
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
        from lithowave.figures.comparisons import agreement_figure

        pair = self.worst
        receiver = self.pairs[pair].worst
        methods = sorted(self.plan.methods, key=lambda method: method != self.reference)
        traces = {self.run(method).label: self.traces[method, BASE][receiver] for method in methods}
        title = f"{self.names[receiver]}: {self.position(receiver).text()}"
        misfits = {
            self.run(method).label: self.pairs[method, self.reference].receivers for method in self.plan.methods
            if method != self.reference
        }  # fmt: skip
        return agreement_figure(
            self.time, traces, self.units, title, misfits, self.names, self.tolerance,
            path or self.directory / FIGURE_NAME,
        )  # fmt: skip

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
        return "\n".join([*table_lines(self.table()), *self.summary])


WEAKEST = 1.0e-3
"""Norm of a receiver relative to the strongest one, below which misfits are relative to this fraction of the latter."""


@dataclass(frozen=True)
class Misfit:
    """Misfits of the traces u of a run relative to the traces r of another.

    Attributes
    ----------
    overall : relative L2 misfit over all receivers and components.
    components : (n, 3), ||u_c - r_c|| / ||r||, with ||r|| over all components of the receiver, so that a silent
        component has a small misfit; ||r|| is at least `WEAKEST` times that of the strongest receiver.
    receivers : (n,), the same over all components.
    worst : index of the receiver with the largest misfit.
    shift : time shift at this receiver, s; positive if u is late.
    amplitude : ||u|| / ||r|| - 1 at this receiver.
    envelope, phase : envelope and phase misfits at this receiver, maximum over the components; None without ObsPy.
    """

    overall: float
    components: np.ndarray
    receivers: np.ndarray
    worst: int
    shift: float
    amplitude: float
    envelope: float | None = None
    phase: float | None = None

    @property
    def largest(self) -> float:
        """Largest relative L2 misfit of a receiver."""
        return float(self.receivers[self.worst])

    @property
    def worst_component(self) -> str:
        """The component with the largest misfit at the worst receiver: E, N or Z."""
        return "ENZ"[int(np.argmax(self.components[self.worst]))]

    def as_dict(self, names: Sequence[str]) -> Entries:
        """Return all misfits as plain values for JSON. names : of the receivers."""
        rows = [
            {"name": name, "relative_l2": float(self.receivers[index])}
            | {f"relative_l2_{axis}": float(self.components[index, k]) for k, axis in enumerate("ENZ")}
            for index, name in enumerate(names)
        ]
        return {
            "overall_relative_l2": self.overall, "largest_relative_l2": self.largest, "worst": names[self.worst],
            "worst_component": self.worst_component, "time_shift_s": self.shift, "amplitude": self.amplitude,
            "envelope_misfit": self.envelope, "phase_misfit": self.phase, "receivers": rows,
        }  # fmt: skip


def receiver_norms(reference: np.ndarray) -> np.ndarray:
    """Return (n,) norms over components and samples, at least `WEAKEST` times the largest."""
    norms = np.sqrt(np.sum(reference**2, axis=(1, 2)))
    return np.maximum(norms, WEAKEST * norms.max(initial=0.0))


def misfit(traces: np.ndarray, reference: np.ndarray, interval: float, highest: float | None = None) -> Misfit:
    """Return the misfits of `traces` relative to `reference`.

    Parameters
    ----------
    interval : sampling interval, s.
    highest : maximum frequency of the envelope and phase misfits, Hz; None omits these.
    """
    norms = receiver_norms(reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.sqrt(np.sum((traces - reference) ** 2, axis=2))
        components = np.where(difference == 0.0, 0.0, difference / norms[:, None])
    receivers = np.sqrt(np.sum(components**2, axis=1))
    worst = int(np.argmax(receivers))
    ours, theirs = traces[worst], reference[worst]
    envelope, phase = _wavelets(ours, theirs, interval, highest)
    norm = float(np.linalg.norm(theirs))
    return Misfit(
        overall=relative_l2(traces, reference), components=components, receivers=receivers, worst=worst,
        shift=time_shift(ours, theirs, interval), amplitude=float(np.linalg.norm(ours)) / norm - 1.0 if norm else 0.0,
        envelope=envelope, phase=phase,
    )  # fmt: skip


def _wavelets(
    traces: np.ndarray, reference: np.ndarray, interval: float, highest: float | None
) -> tuple[float | None, float | None]:
    if highest is None or find_spec("obspy") is None or reference.shape[-1] < 16 or not reference.any():
        return None, None
    band = frequency_band(reference, interval, max_frequency=highest)
    envelope, phase = wavelet_misfits(traces, reference, interval, band)
    return float(envelope.max()), float(phase.max())


@dataclass(frozen=True)
class Attribution:
    """The shares of single causes in the difference of two runs.

    Attributes
    ----------
    shares : for each cause, its share in the squared difference; shares and `unexplained` add up to 1.
    factors : for each cause, the factor from the measured change to the estimated error.
    errors : for each cause, the largest error at a receiver relative to the reference, ||D|| sqrt(share) with D and the
        share of this receiver.
    unexplained, unexplained_error : the same for no known cause.
    """

    shares: Mapping[Key, float]
    factors: Mapping[Key, float]
    errors: Mapping[Key, float]
    unexplained: float
    unexplained_error: float

    def causes(self, smallest: float = 0.2) -> list[Key]:
        """Return the causes with at least this share, the largest first."""
        chosen = [cause for cause, share in self.shares.items() if share >= smallest]
        return sorted(chosen, key=lambda cause: -self.shares[cause])


def attribute(
    difference: np.ndarray,
    changes: Mapping[Key, np.ndarray],
    largest: Mapping[Key, float],
    norms: np.ndarray,
) -> Attribution:
    r"""Return the shares of the causes of a difference between two runs.

    The difference D of two runs is the difference of their errors. A control run k, which lacks a part of one error,
    changes the traces by v_k. The estimated error is c_k v_k: c_k = 1 for a control run that removes the error, and
    c_k = 1 / (1 - r^-p), according to Richardson, for a run with r times as many points per wavelength and an error of
    order p. The factors minimize ||D - \sum_k c_k v_k|| for 1 <= c_k <= `largest[k]`. The share of a cause with c_k = 1
    is <D, v_k> / <D, D>. That of the others is <D', c_k v_k> / <D, D> with D' = D - \sum_j v_j over all causes j with
    c_j = 1: a finer run also changes the discretization of absorbing layers, which is no error of the resolution. The
    rest is unexplained. All inner products weight each receiver with its inverse squared norm. A change that is
    uncorrelated with the difference, for example the reflections of faces that were moved, has no share.

    Parameters
    ----------
    difference : D, (n_receivers, 3, n_samples).
    changes : v_k of each cause, with the sign that it has in D.
    largest : upper bound of each factor, at least 1.
    norms : (n_receivers,), of the reference.
    """
    weights = np.where(norms > 0.0, 1.0 / np.where(norms > 0.0, norms, 1.0), 0.0)[:, None, None]
    target = (weights * difference).ravel()
    names = list(changes)
    columns = np.array([(weights * changes[name]).ravel() for name in names]).reshape(len(names), target.size)
    factors = bounded_factors(columns, target, np.array([largest[name] for name in names]))
    total = float(target @ target)
    parts = factors[:, None] * columns
    fixed = np.array([largest[name] == 1.0 for name in names], dtype=bool)
    remainder = target - parts[fixed].sum(axis=0)
    products = parts * np.where(fixed[:, None], target, remainder)
    shares = products.sum(axis=1) / total if total else np.zeros(len(names))

    def largest_error(product: np.ndarray) -> float:
        return float(np.sqrt(np.maximum(product.reshape(len(norms), -1).sum(axis=1), 0.0).max(initial=0.0)))

    return Attribution(
        shares=dict(zip(names, shares.tolist(), strict=True)), factors=dict(zip(names, factors.tolist(), strict=True)),
        errors={name: largest_error(product) for name, product in zip(names, products, strict=True)},
        unexplained=float(1.0 - shares.sum()), unexplained_error=largest_error(target**2 - products.sum(axis=0)),
    )  # fmt: skip


def bounded_factors(columns: np.ndarray, target: np.ndarray, largest: np.ndarray, sweeps: int = 100) -> np.ndarray:
    """Return the factors c, 1 <= c_k <= largest_k, that minimize ||target - c @ columns||, by coordinate descent.

    columns : (m, n). target : (n,). largest : (m,), at least 1.
    """
    gram, moments = columns @ columns.T, columns @ target
    factors = np.ones(len(columns))
    for _ in range(sweeps):
        before = factors.copy()
        for k in range(len(columns)):
            if gram[k, k] > 0.0:
                rest = moments[k] - gram[k] @ factors + gram[k, k] * factors[k]
                factors[k] = np.clip(rest / gram[k, k], 1.0, largest[k])
        if np.abs(factors - before).max(initial=0.0) < 1e-9:
            break
    return factors


SMALLEST_SHARE = 0.2  # of the squared difference: causes below are not reported
HIGHEST_ORDER = 4.0  # of convergence, assumed for recommendations


def percent(value: float) -> str:
    """Return a fraction as a percentage with two digits."""
    return f"{float(f'{100.0 * value:.2g}'):g}%"


def find_causes(agreement: Agreement) -> list[Finding]:
    """Return the causes of all differences beyond the tolerance, the largest error of each cause only."""
    strongest: dict[tuple[str, str | None], Finding] = {}
    for pair in agreement.attributions:
        for finding in _pair_causes(agreement, pair):
            key = (finding.cause, finding.method)
            if key not in strongest or finding.error > strongest[key].error:
                strongest[key] = finding
    for finding in _control_causes(agreement):
        strongest.setdefault((finding.cause, finding.method), finding)
    return sorted(strongest.values(), key=lambda finding: (finding.cause == "unexplained", -finding.error))


def _pair_causes(agreement: Agreement, pair: Key) -> Iterator[Finding]:
    """Yield the causes of the difference of a pair of methods with a considerable share."""
    found = agreement.attributions[pair]
    for cause in found.causes(SMALLEST_SHARE):
        yield _finding(agreement, cause, found.errors[cause], found.factors[cause], found.shares[cause], pair)
    if found.unexplained >= SMALLEST_SHARE:
        yield _unexplained(agreement, pair, found)


def _control_causes(agreement: Agreement) -> Iterator[Finding]:
    """Yield errors that a control run reveals, also if the methods agree because they have the same error.

    If a method differs from another one, the shares in their difference decide about its resolution.
    """
    for key, one in agreement.controls.items():
        decided = key[1] == FINER and any(key in found.shares for found in agreement.attributions.values())
        if one.largest > agreement.tolerance and not decided:
            yield _finding(agreement, key, one.largest, _richardson(agreement.plan.refinement, 2.0), None, None)


def _finding(
    agreement: Agreement, cause: Key, error: float, factor: float, share: float | None, pair: Key | None
) -> Finding:
    method, kind = cause
    part = "" if share is None else f", {percent(share)} of the squared difference"
    if kind == FINER:
        text, remedy = _resolution(agreement, method, error, factor, part)
        return Finding("resolution", method, error, text, remedy, share, pair)
    misfit = agreement.controls[cause] if pair is None else agreement.pairs[pair]
    text, remedy = _boundary(agreement, method, error, misfit.worst, part)
    return Finding("boundary", method, error, text, remedy, share, pair)


def _richardson(refinement: float, order: float) -> float:
    return 1.0 / (1.0 - refinement**-order)


def _resolution(agreement: Agreement, method: str, error: float, factor: float, part: str) -> tuple[str, str]:
    """Return the sentences about the resolution of a method, with the resolution that its order of convergence
    requires for an error of half the tolerance."""
    run, refinement = agreement.run(method), agreement.plan.refinement
    points = run.points or 0.0
    order = HIGHEST_ORDER
    if factor > _richardson(refinement, HIGHEST_ORDER):
        order = -math.log1p(-1.0 / factor) / math.log(refinement)
    ratio = max(refinement, (2.0 * error / agreement.tolerance) ** (1.0 / max(order, 1.0)))
    text = (
        f"The resolution of {run.label} ({points:.3g} points per wavelength) causes an error of about "
        f"{percent(error)}{part}."
    )
    if method == agreement.plan.own_method and run.simulation.solver.spacing is not None:
        return text, f"Set solver.spacing to {run.simulation.solver.spacing / ratio:.3g} m."
    option = "--set solver" if method == agreement.plan.own_method else f"--solver {method}"
    return text, f"Use {option}.points_per_wavelength={math.ceil(2.0 * points * ratio) / 2.0:g}."


def _boundary(agreement: Agreement, method: str, error: float, receiver: int, part: str) -> tuple[str, str]:
    """Return the sentences about the absorbing boundary of a method, at a receiver given by its index."""
    run, position = agreement.run(method), agreement.position(receiver)
    absorption = run.simulation.absorption
    face = position.reflecting_face or position.face or ""
    name = agreement.names[receiver]
    text = (
        f"The absorbing boundary of {run.label} ({absorption}) causes an error of about {percent(error)}{part}. The "
        f"shortest reflected path to {name} is by way of {face}; {name} is {position.text()}."
    )
    shift = outward_shift(run.simulation, agreement.plan.frequency)
    away = f"move {face} outwards by more than {float(f'{shift:.2g}'):g} m (domain.{face[:1]})"
    if absorption != "layer" and _supports_layers(agreement, method):
        return text, f"Set boundaries.absorption: layer, or {away}."
    key = "elements" if METHODS[method].in_elements else "cells"
    if absorption == "layer":
        return text, f"Increase boundaries.layer.{key}, or {away}."
    return text, f"{away[0].upper()}{away[1:]}."


def _supports_layers(agreement: Agreement, method: str) -> bool:
    try:
        agreement.run(method).simulation.with_overrides({"boundaries.absorption": "layer"})
    except InputError:
        return False
    return True


def _unexplained(agreement: Agreement, pair: Key, found: Attribution) -> Finding:
    labels = " and ".join(agreement.run(method).label for method in pair)
    missing = [f"{key[0]} ({key[1]}): {reason}" for key, reason in agreement.untested.items() if key[0] in pair]
    text = (
        f"{percent(found.unexplained)} of the squared difference between {labels} is explained neither by their "
        f"resolution nor by their absorbing boundaries."
    )
    if missing:
        text += f" Not tested: {'; '.join(missing)}."
    remedy = (
        "Use --refinement 2, and examine material interfaces near the source and the receivers, which the methods "
        "represent differently."
    )
    return Finding("unexplained", None, found.unexplained_error, text, remedy, None, pair)


def summarize(agreement: Agreement) -> list[str]:
    """Return sentences that state the result, its causes and their remedies."""
    pair = agreement.worst
    one = agreement.pairs[pair]
    where = f"at {agreement.names[one.worst]} ({one.worst_component}), {agreement.position(one.worst).text()}"
    labels = " and ".join(agreement.run(method).label for method in pair)
    limit = percent(agreement.tolerance)
    where += _weakness(agreement, one.worst)
    if agreement.agreed:
        lines = [
            f"The methods agree within {limit} at every receiver; {labels} differ most, by {percent(one.largest)} "
            f"{where}."
        ]
        return lines + list(_control_sentences(agreement))
    if one.largest <= agreement.tolerance:
        lines = [
            f"The methods agree within {limit}, but a control run shows an error that they may have in common; "
            f"{labels} differ most, by {percent(one.largest)} {where}."
        ]
    else:
        lines = [f"The methods do not agree within {limit}: {labels} differ by {percent(one.largest)} {where}."]
    return lines + [f"{finding.text} {finding.remedy}" for finding in agreement.findings]


def _weakness(agreement: Agreement, receiver: int) -> str:
    """Return a clause if the receiver moves too little for a meaningful relative misfit; empty otherwise."""
    sources = agreement.plan.simulation.acquisition.source_positions
    distances = np.linalg.norm(agreement.positions[:, None] - sources, axis=2).min(axis=1)
    weak = weak_receivers(agreement.traces[agreement.reference, BASE], distances)[receiver]
    if np.isnan(weak):
        return ""
    return (
        f", which moves only {percent(weak)} of the strongest receiver, also in proportion to its distance, as on a "
        "node of the radiation pattern, so that its relative misfit says little; judge it by the misfit of all "
        "receivers, or move or omit it"
    )


def _control_sentences(agreement: Agreement) -> Iterator[str]:
    for (method, kind), one in agreement.controls.items():
        run = agreement.run(method, kind)
        how = {
            FINER: f"{agreement.plan.refinement:g} times as many points per wavelength change",
            WIDER: "absorbing faces further out change",
        }[kind]
        label = agreement.run(method, BASE).label
        yield f"{how[0].upper()}{how[1:]} {label} by at most {percent(one.largest)} ({run.name})."
    for (method, kind), reason in agreement.untested.items():
        if kind == WIDER and not any(key[1] == WIDER for key in agreement.controls):
            yield f"The absorbing boundaries were not tested with {method} ({reason})."
