"""Matching of observed traces to the receivers of a run: codes, components, and traces that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from lithowave.output.observed import ObservedTrace, joined
from lithowave.output.record_defects import find_defect
from lithowave.output.seismograms import Seismograms

SHORTEST_OVERLAP = 0.5
"""Fraction of the window that an observed trace must cover."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Checked options. start : ns since 1970 of t = 0. frequency : upper corner, or None to derive it."""

    quantity: str
    start: int
    low: float | None
    high: float | None
    window: tuple[float, float]
    max_shift: float
    channels: tuple[str, ...]
    rotate: bool


def match_traces(
    run: Seismograms, traces: list[ObservedTrace], settings: ComparisonSettings, notes: list[str]
) -> tuple[list[tuple[int, dict[str, ObservedTrace]]], list[str]]:
    """Return (row of the receiver, traces by component) of the stations with usable traces, and those without data."""
    stations: dict[tuple[str, str], dict[str, list[ObservedTrace]]] = {}
    for trace in traces:
        if _selected(trace, settings.channels):
            channels = stations.setdefault((trace.network, trace.station), {})
            channels.setdefault(f"{trace.location}.{trace.channel}", []).append(trace)
    found, missing = [], []
    codes = zip(run.networks, run.stations, run.locations, strict=True)
    for row, (network, station, location) in enumerate(codes):
        channels = stations.get((network, station), {})
        if location:
            channels = {code: each for code, each in channels.items() if code.startswith(f"{location}.")}
        if not channels:
            missing.append(run.names[row])
            continue
        usable = dict(_usable(run.names[row], channels, settings, notes))
        if usable:
            found.append((row, usable))
    known = set(zip(run.networks, run.stations, strict=True))
    unknown = sorted({f"{network}.{station}" for network, station in stations} - {".".join(pair) for pair in known})
    if missing:
        notes.append(f"{len(missing)} receivers have no data: {some_names(missing)}.")
    if unknown:
        notes.append(f"{len(unknown)} stations of the data are not in the run: {some_names(unknown)}.")
    return found, missing


def _selected(trace: ObservedTrace, patterns: Sequence[str]) -> bool:
    codes = trace.channel, f"{trace.location}.{trace.channel}"
    return not patterns or any(fnmatchcase(code, pattern) for code in codes for pattern in patterns)


def _usable(
    name: str, channels: dict[str, list[ObservedTrace]], settings: ComparisonSettings, notes: list[str]
) -> Iterator[tuple[str, ObservedTrace]]:
    """Yield the trace of each component; notes state why others are not used."""
    wanted = "RTZEN" if settings.rotate else "ENZ"
    components: dict[str, list[str]] = {}
    for code in channels:
        components.setdefault(code[-1:], []).append(code)
    others = sorted(code for letter, codes in components.items() if letter not in wanted for code in codes)
    if others:
        notes.append(f"{name}: {some_names(others)} not used: the orientation is not {', '.join(wanted)}.")
    for letter in wanted:
        codes = components.get(letter, [])
        if len(codes) > 1:
            several = f"several channels for {letter}, {some_names(codes)}"
            notes.append(f"{name}: {several}: none used; select with --channel.")
        elif codes:
            record = joined(channels[codes[0]])
            trouble = record if isinstance(record, str) else _trouble(record, settings)
            if trouble:
                notes.append(f"{name}: {codes[0].lstrip('.')} not used: {trouble}.")
            else:
                assert isinstance(record, ObservedTrace)
                yield letter, record


def _trouble(trace: ObservedTrace, settings: ComparisonSettings) -> str:
    """Return why a trace cannot be compared in the window; empty if it can."""
    start, end = settings.window
    first, last = trace.seconds_from(settings.start)
    if min(last, end) - max(first, start) < SHORTEST_OVERLAP * (end - start):
        return f"it covers t = {first:.6g} to {last:.6g} s, less than half of the window"
    return find_defect(cut_trace(trace, settings, settings.max_shift)[1], trace.interval)


def cut_trace(trace: ObservedTrace, settings: ComparisonSettings, margin: float) -> tuple[float, np.ndarray]:
    """Return the time of the first sample on the axis of the run, and the samples up to a margin around the window."""
    first, _ = trace.seconds_from(settings.start)
    low = max(0, int(np.floor((settings.window[0] - margin - first) / trace.interval)))
    high = int(np.ceil((settings.window[1] + margin - first) / trace.interval)) + 1
    return first + low * trace.interval, trace.data[low:high]


def some_names(names: Sequence[str]) -> str:
    return ", ".join(name.lstrip(".") for name in names[:3]) + (", ..." if len(names) > 3 else "")
