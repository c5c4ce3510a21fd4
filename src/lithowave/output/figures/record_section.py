"""Record sections: traces by distance or signed offset from the source, with the first arrivals of P and S."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.figures import style
from lithowave.output.figures.travel_times import (
    drawn_phases,
    first_arrival,
    global_arrivals,
    has_taup,
    phase_color,
    require_flat,
)
from lithowave.output.geometry import component, distance_unit, epicenter, offsets
from lithowave.output.seismograms import Seismograms

MOST_TRACES = 90
LABEL_GAP = 0.021
ROUND_OFF = 1e-5  # relative to the largest component of a receiver: smaller traces are not enlarged
NORMALISATIONS = {
    "trace": "amplitudes: each trace relative to its own peak",
    "receiver": "amplitudes: each receiver relative to its largest component",
    "all": "true relative amplitudes: one scale for all traces",
}


def record_section(
    seismograms: Seismograms,
    path: str | Path,
    components: str = "ZRT",
    *,
    normalise: str = "trace",
    reduction_speed: float | None = None,
    layers: tuple[list[float], list[float], list[float]] | None = None,
    speeds: Mapping[str, float] | None = None,
    model: str | None = None,
    gain: float = 1.0,
    clip: float | None = None,
) -> Path:
    """Draw one panel per component, with traces over time at their distance from the source; return `path`.

    Traces of receivers on a line with the source are at their signed offset (see `geometry.offsets`). Distances in a
    chunk of the globe are in degrees.

    Parameters
    ----------
    components : letters from E, N, Z, R (radial, away from the source), T (transverse) and P (pressure).
    normalise : ``trace`` (each by its own peak), ``receiver`` (by the peak of its three components) or
        ``all`` (one scale for all: true relative amplitudes); the pressure always has a separate scale.
    gain : factor of all normalized traces.
    clip : the normalized traces, after the gain, are drawn up to this absolute value; None: completely.
    reduction_speed : m/s; the time axis then shows t - distance / reduction_speed.
    layers : (tops, vp, vs) of flat layers (m, m/s), for the curves of the first P and S arrivals.
    speeds : from label to velocity (m/s): straight moveout lines at distance / velocity.
    model : ``prem``, ``ak135`` or ``iasp91``: curves of the main phases in this Earth model by TauP, if ObsPy is
        installed.

    Raises
    ------
    OutputError : there is nothing to draw, or the file cannot be written.
    ValueError : unknown component or normalization, or flat layers of a chunk of the globe.
    """
    if normalise not in NORMALISATIONS:
        raise ValueError(f"normalise must be one of {', '.join(NORMALISATIONS)}, not {normalise!r}")
    if not len(seismograms) or not len(seismograms.time):
        raise OutputError(f"{path}: nothing to draw: no receivers or no samples.")
    require_flat(seismograms, layers)
    place, label = offsets(seismograms)
    chosen = choose_traces(place, MOST_TRACES)
    scale, unit = distance_unit(seismograms)
    curves = _arrival_curves(seismograms, place, layers, speeds or {}, model)
    curves = [(name, scale * line, moments, color) for name, line, moments, color in curves]
    reduction = None if reduction_speed is None else scale * reduction_speed  # in the unit of distances per second
    with style.styled():
        figure = style.new_figure(1.6 + 2.9 * len(components), 6.8, layout="constrained")
        panels = figure.subplots(1, len(components), sharex=True, sharey=True, squeeze=False)[0]
        extents = []
        for panel, name in zip(panels, components, strict=True):
            values = component(seismograms, name)
            traces = normalised(values[:, None] if name == "P" else seismograms.data, values, normalise)[chosen]
            traces = np.clip(gain * traces, *((-np.inf, np.inf) if clip is None else (-clip, clip)))
            extents.append(_draw_traces(panel, seismograms.time, scale * place[chosen], traces, reduction))
            panel.set_title(style.COMPONENT_NAMES[name])
            _draw_curves(panel, curves, reduction, _last_moment(seismograms, scale * place, reduction))
        _finish_axes(panels, seismograms, scale * place, f"{label} ({unit})", extents, reduction)
        _label_stations(panels[-1], [seismograms.names[index] for index in chosen], scale * place[chosen])
        title = f"{seismograms.title}: " if seismograms.title else ""
        quantity = recorded_quantity(seismograms, components)
        title = style.marked(f"{title}{quantity}", seismograms.shortfall)
        figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold")
        note = amplitude_note(len(chosen), len(place), normalise, gain, clip) + _model_note(model)
        figure.supxlabel(note, size=7.5, color=style.MUTED, x=0.99, ha="right")
        return style.save(figure, path)


def _model_note(model: str | None) -> str:
    """Return the origin of the travel times in a radial Earth model, or why there are none."""
    if model is None:
        return ""
    return f", travel times: {model} (TauP)" if has_taup() else ", travel times require ObsPy (extra formats)"


def amplitude_note(shown: int, count: int, normalise: str, gain: float, clip: float | None) -> str:
    """Return how many receivers are drawn, and the scale of their amplitudes."""
    parts = [] if shown == count else [f"{shown} of {count} receivers"]
    parts.append(NORMALISATIONS[normalise])
    parts += [] if gain == 1.0 else [f"gain {gain:g}"]
    parts += [] if clip is None else [f"clipped at {clip:g}"]
    return ", ".join(parts)


def choose_traces(distance: np.ndarray, most: int) -> np.ndarray:
    """Return indices of at most `most` receivers by ascending distance, omitting those whose traces would overlap."""
    order = np.argsort(distance, kind="stable")
    if len(order) <= most:
        return order
    step = (distance.max() - distance.min()) / most
    if step == 0:
        return order[:most]
    bins = np.floor((distance[order] - distance.min()) / step)
    return order[np.unique(bins, return_index=True)[1]][:most]


def recorded_quantity(seismograms: Seismograms, components: str) -> str:
    """Return the quantity in the panels: ground velocity, pressure, or both."""
    if "P" not in components:
        return f"ground {seismograms.quantity}"
    return "pressure" if components == "P" else f"pressure and {seismograms.quantity}"


def normalised(data: np.ndarray, traces: np.ndarray, normalise: str) -> np.ndarray:
    """Return the traces of one component over its peak or that of all traces (n_receivers, n_components, n_samples).

    Traces that are round-off of the other components of their receiver are not enlarged to amplitude 1.
    """
    if normalise == "trace":
        peaks = np.maximum(np.abs(traces).max(axis=1), ROUND_OFF * np.abs(data).max(axis=(1, 2)))
    else:
        peaks = np.abs(data).max(axis=(1, 2))
        if normalise == "all":
            peaks = np.full_like(peaks, peaks.max())
    return traces / np.where(peaks > 0, peaks, 1.0)[:, None]


def _span(distance: np.ndarray) -> float:
    """Return the range of distances of the traces; never 0."""
    return float(np.ptp(distance)) or max(float(np.abs(distance).max()), 1.0)


def _reduced(time: np.ndarray, distance: Any, reduction_speed: float | None) -> np.ndarray:
    return time if reduction_speed is None else time - np.abs(distance) / reduction_speed


def _draw_traces(
    panel: Any, time: np.ndarray, distance: np.ndarray, traces: np.ndarray, reduction: float | None
) -> tuple[float, float]:
    """Draw traces of amplitude 1 at their distances (km or degrees), and return the range that they cover."""
    span = _span(distance)
    height = float(np.clip(1.05 * span / len(traces), span / 55, span / 9))
    width = float(np.clip(22.0 / len(traces), 0.45, 0.85))
    color = style.INK
    for place, trace in zip(distance, traces, strict=True):
        moment, line = _reduced(time, place, reduction), place + height * trace
        panel.fill_between(moment, place, line, where=trace > 0, color=color, alpha=0.28, linewidth=0)
        panel.plot(moment, line, color=color, linewidth=width, solid_joinstyle="round", gid="trace")
    lines = distance[:, None] + height * traces
    return float(lines.min()), float(lines.max())


def _arrival_curves(
    seismograms: Seismograms,
    distance: np.ndarray,
    layers: tuple[list[float], list[float], list[float]] | None,
    speeds: Mapping[str, float],
    model: str | None,
) -> list[tuple[str, np.ndarray, np.ndarray, str]]:
    """Return (label, distances in m, times in s, color) of the curves."""
    margin = 0.06 * _span(distance)
    low = distance.min() - margin
    line = np.linspace(low if distance.min() < 0 else max(low, 0.0), distance.max() + margin, 201)
    curves = []
    source_z, receiver_z = epicenter(seismograms)[2], float(np.median(seismograms.positions[:, 2]))
    if model is not None and has_taup() and seismograms.sources.centroid is not None:
        line = line[::4]  # TauP takes a hundredth of a second per distance
        phases = drawn_phases(source_z)
        for label, times in global_arrivals(model, np.abs(line), source_z, receiver_z, phases).items():
            times = times + seismograms.sources.onset
            if (times < seismograms.time[-1]).any():
                curves.append((label, line, times, phase_color(label)))
    elif layers is not None and seismograms.sources.centroid is not None:
        tops, vp, vs = layers
        for label, speed, color in (("P", vp, style.P_COLOR), ("S", vs, style.S_COLOR)):
            if min(speed) == 0:
                continue  # S waves do not propagate through a fluid
            times = seismograms.sources.onset + first_arrival(np.abs(line), source_z, receiver_z, tops, speed)
            curves.append((label, line, times, color))
    for label, speed in speeds.items():
        curves.append((label, line, np.abs(line) / speed, style.MUTED))
    return curves


def _last_moment(seismograms: Seismograms, distance: np.ndarray, reduction: float | None) -> float:
    """Return the end of the time axis, s."""
    end = float(seismograms.time[-1])
    return end if reduction is None else end - float(np.abs(distance).min()) / reduction


def _draw_curves(
    panel: Any, curves: list[tuple[str, np.ndarray, np.ndarray, str]], reduction: float | None, end: float
) -> None:
    """Draw curves, each with its label at its last point before the end of the time axis, s."""
    for label, distance, time, color in curves:
        moment = _reduced(time, distance, reduction)
        panel.plot(moment, distance, color=color, linewidth=1.3, alpha=0.9, dashes=(5, 2), zorder=4)
        known = np.flatnonzero(moment <= end)  # False for NaN
        if not known.size:
            continue
        leaves = known[-1] < np.flatnonzero(np.isfinite(moment))[-1]  # through the right edge
        panel.annotate(
            label,
            (moment[known[-1]], distance[known[-1]]),
            xytext=(0, 2),
            textcoords="offset points",
            color=color,
            size=9,
            weight="bold",
            ha="right" if leaves else "center" if len(label) == 1 else "left",
            va="bottom",
            path_effects=style.halo(),
            annotation_clip=True,
            zorder=6,
        )


def _finish_axes(
    panels: Any,
    seismograms: Seismograms,
    distance: np.ndarray,
    label: str,
    extents: list[tuple[float, float]],
    reduction: float | None,
) -> None:
    """Set labels and limits; distance, extents : of the traces and ranges that they cover, in the unit of the label."""
    span, time = _span(distance), seismograms.time
    low, high = (limit(values) for limit, values in zip((min, max), zip(*extents, strict=True), strict=True))
    low, high = min(low, distance.min() - 0.05 * span), max(high, distance.max() + 0.05 * span)
    panels[0].set_ylim(low - 0.02 * span, high + 0.06 * span)  # the phases are labeled at the upper end
    if reduction is None:
        panels[0].set_xlim(time[0], time[-1])
    else:
        panels[0].set_xlim(time[0] - 0.02 * time[-1], _last_moment(seismograms, distance, reduction))
    panels[0].set_ylabel(label)
    unit = distance_unit(seismograms)[1]
    time_label = "Time (s)" if reduction is None else f"Time − distance / {reduction:.4g} {unit}/s (s)"
    for panel in panels:
        panel.set_xlabel(time_label)
        panel.grid(axis="x")


def _label_stations(panel: Any, names: list[str], distance: np.ndarray) -> None:
    """Write names at the right edge: all if there are few receivers, moved apart if they overlap; else some."""
    low, high = panel.get_ylim()
    gap = LABEL_GAP * (high - low)
    kept, heights = np.arange(len(names)), distance
    if len(names) * gap <= 0.7 * (high - low):
        heights = move_apart(distance, gap, low + gap / 2, high - gap / 2)
    else:
        # Too many labels to move: some are drawn at their positions.
        kept = choose_traces(distance, int(0.6 * (high - low) / gap))
        kept = kept[np.diff(distance[kept], prepend=-np.inf) >= gap]
        heights = distance[kept]
    for index, height in zip(kept, heights, strict=True):
        panel.plot(
            [1.0, 1.03, 1.045],
            [distance[index], height, height],
            transform=panel.get_yaxis_transform(),
            color=style.MUTED,
            linewidth=0.4,
            clip_on=False,
        )
        panel.text(
            1.055,
            height,
            names[index],
            transform=panel.get_yaxis_transform(),
            va="center",
            size=6.5,
            color=style.MUTED,
        )


def move_apart(places: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Return `places` (ascending) with minimal changes such that they are `gap` apart between `low` and `high`."""
    # Blocks of touching labels are centered on the mean of their requested positions, and blocks that overlap are
    # merged.
    blocks: list[list[float]] = []
    for place in places:
        blocks.append([float(place), 1.0])
        while (
            len(blocks) > 1 and _bottom(blocks[-1], gap, low, high) < _top(blocks[-2], gap, low, high) + gap
        ):
            center, count = blocks.pop()
            before, others = blocks.pop()
            blocks.append([(center * count + before * others) / (count + others), count + others])
    heights = []
    for block in blocks:
        heights += list(_bottom(block, gap, low, high) + gap * np.arange(int(block[1])))
    return np.array(heights)


def _bottom(block: list[float], gap: float, low: float, high: float) -> float:
    half = 0.5 * gap * (block[1] - 1)
    return max(min(block[0] - half, high - 2 * half), low)


def _top(block: list[float], gap: float, low: float, high: float) -> float:
    return _bottom(block, gap, low, high) + gap * (block[1] - 1)
