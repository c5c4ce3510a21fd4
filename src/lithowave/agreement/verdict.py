"""The causes of differences in sentences, with the keys and values that reduce them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lithowave.agreement.misfits import Attribution
from lithowave.agreement.planning import BASE, FINER, WIDER, Key, outward_shift
from lithowave.agreement.result import Agreement, Finding
from lithowave.description.solver import METHODS
from lithowave.errors import InputError
from lithowave.verification.misfits import weak_receivers

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
    setting = f"points_per_wavelength={math.ceil(2.0 * points * ratio) / 2.0:g}"
    return text, f"Use {_option(agreement, method, setting)}."


def _option(agreement: Agreement, method: str, setting: str) -> str:
    """Return the option that sets a key of ``solver`` for one method."""
    return f"--set solver.{setting}" if method == agreement.plan.own_method else f"--solver {method}.{setting}"


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
