"""Traces: three components by station, on one or more pages, and record sections.

Record sections have traces by distance or signed offset from the source, with the first arrivals of P and S: those in
flat layers, or phases of radial Earth models by TauP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import OutputError
from lithowave.figures import style
from lithowave.globe_coordinates import RADIUS
from lithowave.output.attributes import chunk_map
from lithowave.output.geometry import azimuth, component, distance_unit, epicenter, epicentral_distance, offsets
from lithowave.output.seismograms import Seismograms

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATIONS_PER_PAGE = 7
MOST_PAGES = 12


def traces(
    seismograms: Seismograms,
    path: str | Path,
    components: str = "ENZ",
    *,
    most_pages: int = MOST_PAGES,
    layers: tuple[list[float], list[float], list[float]] | None = None,
    model: str | None = None,
) -> list[Path]:
    """Draw the components of each receiver side by side, nearest receivers first; return the pages written.

    The components of motion of a receiver share one scale, and the pressure has its own; the number in each panel is
    its peak. A single page is written to
    `path`; of several, page 1 of ``traces.png`` is ``traces_1.png``. If `most_pages` cannot show all receivers,
    evenly spaced ones are drawn, and the title states their number.

    Parameters
    ----------
    components : letters from E, N, Z, R, T, and P (pressure).
    layers : (tops, vp, vs) of flat layers (m, m/s), for marks of the first P and S arrivals.
    model : radial Earth model (prem, ak135, iasp91) for these marks by TauP, if ObsPy is installed.

    Raises
    ------
    OutputError : there is nothing to draw, or a file cannot be written.
    """
    require_samples(seismograms, path)
    order = np.argsort(epicentral_distance(seismograms), kind="stable")
    chosen = order[style.spread(len(order), most_pages * STATIONS_PER_PAGE)]
    pages = [chosen[start : start + STATIONS_PER_PAGE] for start in range(0, len(chosen), STATIONS_PER_PAGE)]
    motions = {name: component(seismograms, name) for name in components}
    arrivals = receiver_arrivals(seismograms, layers, model, chosen)
    written = []
    for number, page in enumerate(pages, 1):
        label = f"page {number} of {len(pages)}" if len(pages) > 1 else ""
        if len(chosen) < len(order):
            label += f", {len(chosen)} of {len(order)} receivers"
        with style.styled():
            figure = _draw_page(seismograms, motions, page, arrivals, label)
            written.append(style.save(figure, page_path(Path(path), number, len(pages))))
    return written


def page_path(path: Path, number: int, count: int) -> Path:
    """Return the file of page `number` of `count`."""
    return path if count == 1 else path.with_name(f"{path.stem}_{number:0{len(str(count))}}{path.suffix}")


def _draw_page(
    seismograms: Seismograms,
    motions: dict[str, np.ndarray],
    page: np.ndarray,
    arrivals: list[tuple[str, np.ndarray, str]],
    label: str,
) -> Figure:
    from matplotlib.ticker import MaxNLocator

    rows = len(page)
    figure = style.new_figure(11.0, 1.15 + 0.98 * rows)
    top, bottom = 1.0 - 0.62 / figure.get_figheight(), 0.48 / figure.get_figheight()
    panels = figure.subplots(
        rows, len(motions), sharex=True, sharey=False, squeeze=False,
        gridspec_kw={"left": 0.105, "right": 0.985, "top": top, "bottom": bottom, "hspace": 0.1, "wspace": 0.03},
    )  # fmt: skip
    scale, length = distance_unit(seismograms)
    distance, direction = scale * offsets(seismograms)[0], azimuth(seismograms)
    for row, index in zip(panels, page, strict=True):
        scales = _scales({name: motion[index] for name, motion in motions.items()}, seismograms.units)
        for panel, (name, motion) in zip(row, motions.items(), strict=True):
            factor, unit, limit = scales[name]
            _draw_trace(panel, seismograms.time, motion[index] * factor, unit, f"{seismograms.names[index]}.{name}")
            panel.set_ylim(-limit, limit)
            for phase, times, color in arrivals:
                _mark_arrival(panel, phase, times[index], color, first=panel is panels[0][0])
        where = f"{distance[index]:.1f}{' km' if length == 'km' else length}, {direction[index]:.0f}°"
        row[0].text(-0.03, 0.56, seismograms.names[index], transform=row[0].transAxes, ha="right", weight="bold")
        row[0].text(-0.03, 0.44, where, transform=row[0].transAxes, ha="right", va="top", size=7, color=style.MUTED)
    for panel, name in zip(panels[0], motions, strict=True):
        panel.set_title(style.COMPONENT_NAMES[name])
    for panel in panels[-1]:
        panel.set_xlabel("Time (s)")
        # The last tick is omitted: its label would overlap the first one of the next panel.
        panel.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], prune="upper"))
        panel.set_xlim(seismograms.time[0], max(seismograms.time[-1], seismograms.sampling_interval))
    title = style.heading(seismograms.title, recorded_quantity(seismograms, "".join(motions)))
    height = 1.0 - 0.12 / figure.get_figheight()
    figure.text(0.012, height, title, size=12, weight="bold", va="top")
    label = style.marked(label, seismograms.shortfall).strip()
    figure.text(0.985, height, label, size=8, color=style.MUTED, ha="right", va="top")
    return figure


def _scales(traces: dict[str, np.ndarray], units: str) -> dict[str, tuple[float, str, float]]:
    """Return (factor, unit, limit of the axis) of each component: one for the motion, and one for the pressure."""
    scales = {}
    for names, unit in (([name for name in traces if name != "P"], units), (["P"], "Pa")):
        peak = max((float(np.abs(traces[name]).max()) for name in names if name in traces), default=0.0)
        factor, shown = style.readable_unit(peak, unit)
        scales |= {name: (factor, shown, 1.18 * peak * factor or 1.0) for name in names}
    return scales


def _draw_trace(panel: Axes, time: np.ndarray, motion: np.ndarray, unit: str, name: str) -> None:
    panel.axhline(0.0, color=style.FAINT, linewidth=0.8, zorder=0)
    panel.plot(time, motion, color=style.INK, linewidth=0.9, gid=name)
    panel.text(
        0.992, 0.93, f"{style.number(float(np.abs(motion).max()))} {unit}", transform=panel.transAxes, ha="right",
        va="top", size=7.5, color=style.MUTED, path_effects=style.halo(2.0),
    )  # fmt: skip
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.tick_params(left=False, labelleft=False, bottom=False)
    panel.grid(axis="x")


def _mark_arrival(panel: Axes, phase: str, time: float, color: str, first: bool) -> None:
    if not np.isfinite(time):
        return
    panel.plot([time, time], [0.12, 0.88], transform=panel.get_xaxis_transform(), color=color, linewidth=1.1)
    if first:
        panel.annotate(
            phase, (time, 0.9), xycoords=panel.get_xaxis_transform(), xytext=(-3, 0), textcoords="offset points",
            color=color, size=7.5, weight="bold", ha="right", va="top",
        )  # fmt: skip


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
    require_samples(seismograms, path)
    require_flat(seismograms, layers)
    place, label = offsets(seismograms)
    chosen = choose_traces(place, MOST_TRACES)
    scale, unit = distance_unit(seismograms)
    curves = _arrival_curves(seismograms, place, scale, layers, speeds or {}, model)
    reduction = None if reduction_speed is None else scale * reduction_speed  # in the unit of distances per second
    with style.styled():
        figure = style.new_figure(1.6 + 2.9 * len(components), 6.8, layout="constrained")
        panels = figure.subplots(1, len(components), sharex=True, sharey=True, squeeze=False)[0]
        extents = []
        for panel, name in zip(panels, components, strict=True):
            traces = _scaled_traces(seismograms, name, normalise, gain, clip)[chosen]
            extents.append(_draw_traces(panel, seismograms.time, scale * place[chosen], traces, reduction))
            panel.set_title(style.COMPONENT_NAMES[name])
            _draw_curves(panel, curves, reduction, _last_moment(seismograms, scale * place, reduction))
        _finish_axes(panels, seismograms, scale * place, f"{label} ({unit})", extents, reduction)
        _label_stations(panels[-1], [seismograms.names[index] for index in chosen], scale * place[chosen])
        title = style.heading(seismograms.title, recorded_quantity(seismograms, components))
        figure.suptitle(style.marked(title, seismograms.shortfall), x=0.01, ha="left", size=12, weight="bold")
        note = amplitude_note(len(chosen), len(place), normalise, gain, clip) + _model_note(model)
        figure.supxlabel(note, size=7.5, color=style.MUTED, x=0.99, ha="right")
        return style.save(figure, path)


def _scaled_traces(seismograms: Seismograms, name: str, normalise: str, gain: float, clip: float | None) -> np.ndarray:
    """Return the traces (n, n_samples) of one component as they are drawn; see `record_section`."""
    values = component(seismograms, name)
    traces = gain * normalised(values[:, None] if name == "P" else seismograms.data, values, normalise)
    return np.clip(traces, *((-np.inf, np.inf) if clip is None else (-clip, clip)))


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


def _reduced(time: np.ndarray, distance: npt.ArrayLike, reduction_speed: float | None) -> np.ndarray:
    return time if reduction_speed is None else time - np.abs(distance) / reduction_speed


def _draw_traces(
    panel: Axes, time: np.ndarray, distance: np.ndarray, traces: np.ndarray, reduction: float | None
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
    scale: float,
    layers: tuple[list[float], list[float], list[float]] | None,
    speeds: Mapping[str, float],
    model: str | None,
) -> list[tuple[str, np.ndarray, np.ndarray, str]]:
    """Return (label, distances in the unit of the figure, times in s, color) of the curves.

    distance : m. scale : from meters to the unit of the figure.
    """
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
    return [(label, scale * distances, times, color) for label, distances, times, color in curves]


def _last_moment(seismograms: Seismograms, distance: np.ndarray, reduction: float | None) -> float:
    """Return the end of the time axis, s."""
    end = float(seismograms.time[-1])
    return end if reduction is None else end - float(np.abs(distance).min()) / reduction


def _draw_curves(
    panel: Axes, curves: list[tuple[str, np.ndarray, np.ndarray, str]], reduction: float | None, end: float
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
            label, (moment[known[-1]], distance[known[-1]]), xytext=(0, 2), textcoords="offset points", color=color,
            size=9, weight="bold", ha="right" if leaves else "center" if len(label) == 1 else "left", va="bottom",
            path_effects=style.halo(), annotation_clip=True, zorder=6,
        )  # fmt: skip


def _finish_axes(
    panels: Sequence[Axes],
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


def _label_stations(panel: Axes, names: list[str], distance: np.ndarray) -> None:
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
            [1.0, 1.03, 1.045], [distance[index], height, height], transform=panel.get_yaxis_transform(),
            color=style.MUTED, linewidth=0.4, clip_on=False,
        )  # fmt: skip
        panel.text(
            1.055, height, names[index], transform=panel.get_yaxis_transform(), va="center", size=6.5,
            color=style.MUTED,
        )  # fmt: skip


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


PHASES = {
    "P": ("p", "P", "Pn", "Pdiff"), "S": ("s", "S", "Sn", "Sdiff"), "pP": ("pP",), "sS": ("sS",), "PP": ("PP",),
    "SS": ("SS",), "PcP": ("PcP",), "ScS": ("ScS",), "PKP": ("PKP", "PKIKP"), "SKS": ("SKS", "SKIKS"),
}  # fmt: skip
"""Labels of phases in figures, and the phases of TauP whose earliest arrival they are."""

SHALLOWEST_REFLECTED = 20e3  # m: depth of a source above which pP and sS are too close to P and S to be drawn
Layers = tuple[list[float], list[float], list[float]]
Phase = tuple[str, np.ndarray, str]


def has_taup() -> bool:
    """True if ObsPy, which contains TauP, is installed."""
    return find_spec("obspy") is not None


def global_arrivals(
    model: str, distances: np.ndarray, source_z: float, receiver_z: float, phases: Sequence[str] = tuple(PHASES)
) -> dict[str, np.ndarray]:
    """Return the earliest arrival (s after the onset) of phases in a radial Earth model, by TauP.

    Parameters
    ----------
    model : ``prem``, ``ak135`` or ``iasp91``.
    distances : (n,) epicentral distances at the radius of the surface, m.
    source_z, receiver_z : m above the surface.

    Returns
    -------
    Arrays (n,) by label in PHASES, NaN at distances without the phase.

    References
    ----------
    Crotwell, Owens & Ritsema (1999), The TauP Toolkit, Seismol. Res. Lett. 70, 154-160.
    """
    from obspy.taup import TauPyModel

    taup = TauPyModel(model)
    found = {label: np.full(len(distances), np.nan) for label in phases}
    names = [name for label in phases for name in PHASES[label]]
    for index, distance in enumerate(np.degrees(np.asarray(distances) / RADIUS)):
        arrivals = taup.get_travel_times(
            max(0.0, -source_z / 1e3), float(distance), names, receiver_depth_in_km=max(0.0, -receiver_z / 1e3)
        )
        for label in phases:
            times = [arrival.time for arrival in arrivals if arrival.name in PHASES[label]]
            found[label][index] = min(times, default=np.nan)
    return found


def drawn_phases(source_z: float) -> tuple[str, ...]:
    """Return the labels of the phases that figures show for a source at this depth."""
    return tuple(label for label in PHASES if source_z < -SHALLOWEST_REFLECTED or label not in ("pP", "sS"))


def phase_color(label: str) -> str:
    """Return the color of a phase, by the type of its first leg."""
    return style.P_COLOR if label[0] in "Pp" else style.S_COLOR


def require_samples(seismograms: Seismograms, path: str | Path) -> None:
    """Refuse to draw seismograms without receivers or samples to the file `path`.

    Raises
    ------
    OutputError : there is nothing to draw.
    """
    if not len(seismograms) or not len(seismograms.time):
        raise OutputError(f"{path}: nothing to draw: no receivers or no samples.")


def require_flat(seismograms: Seismograms, layers: Layers | None) -> None:
    """Refuse travel times in flat layers for a chunk of the globe.

    Raises
    ------
    ValueError : the seismograms are of a chunk.
    """
    if layers is not None and chunk_map(seismograms.geographic_origin) is not None:
        raise ValueError("layers are flat, and the seismograms are of a chunk of the globe; use model")


def receiver_arrivals(
    seismograms: Seismograms, layers: Layers | None, model: str | None, chosen: np.ndarray | None = None
) -> list[Phase]:
    """Return (label, times (n_receivers,), color) of first P and S waves at the receivers, s on the time axis of a run.

    layers : (tops, vp, vs) of flat layers (m, m/s). model : radial Earth model, used if ObsPy is installed, in which
    TauP takes 0.02 s per receiver. chosen : indices of receivers; the times of others are NaN. Default: all receivers.
    """
    require_flat(seismograms, layers)
    if seismograms.sources.centroid is None or not len(seismograms):
        return []
    distance, source_z, onset = epicentral_distance(seismograms), epicenter(seismograms)[2], seismograms.sources.onset
    heights = seismograms.positions[:, 2]
    if model is not None and has_taup():
        chosen = np.arange(len(distance)) if chosen is None else chosen
        times = {label: np.full(len(distance), np.nan) for label in ("P", "S")}
        for level in np.unique(heights[chosen]):
            rows = chosen[heights[chosen] == level]
            for label, values in global_arrivals(model, distance[rows], source_z, level, ("P", "S")).items():
                times[label][rows] = onset + values
        return [(label, values, phase_color(label)) for label, values in times.items()]
    phases: list[Phase] = []
    for label, speeds in zip(("P", "S"), () if layers is None else layers[1:], strict=False):
        if min(speeds) == 0:
            continue  # S waves do not propagate through a fluid
        times = [
            onset + float(first_arrival(place, source_z, receiver_z, layers[0], speeds))
            for place, receiver_z in zip(distance, heights, strict=True)
        ]
        phases.append((label, np.array(times), phase_color(label)))
    return phases


def first_arrival(
    distance: np.ndarray, source_z: float, receiver_z: float, tops: Sequence[float], speeds: Sequence[float]
) -> np.ndarray:
    """Return the time (s) of the first of the direct and the critically refracted waves.

    Direct: X(p) = sum h p v / sqrt(1 - p^2 v^2) is solved for the ray parameter p by bisection, T = p X +
    sum h sqrt(1/v^2 - p^2). Refracted along the top of a faster layer n below both ends: T = X / v_n +
    sum h sqrt(1/v^2 - 1/v_n^2), from the critical distance on (Aki & Richards 2002, section 9.3.1).

    Parameters
    ----------
    distance : horizontal distances, m.
    source_z, receiver_z : z of both ends, m.
    tops, speeds : z of each layer's top (m), from the top down, and its velocity (m/s); the last is a half-space.
    """
    distance = np.asarray(distance, dtype=float)
    tops, speeds = np.asarray(tops, dtype=float), np.asarray(speeds, dtype=float)
    # Positions above the highest top (usually the surface) belong to the first layer.
    roofs = np.concatenate([[np.inf], tops[1:]])
    floors = np.concatenate([tops[1:], [-np.inf]])
    low, high = min(source_z, receiver_z), max(source_z, receiver_z)

    def thickness(bottom: float, top: float) -> np.ndarray:
        return np.maximum(np.minimum(roofs, top) - np.maximum(floors, bottom), 0.0)

    between = thickness(low, high)
    # With both ends at one depth, the wave runs along it, in the layer that contains this depth.
    level = max(int(np.count_nonzero(tops >= low)) - 1, 0)
    best = _direct(distance, between, speeds) if between.any() else distance / speeds[level]
    for layer in range(1, len(speeds)):
        path = between + 2.0 * thickness(tops[layer], low)
        crossed = path > 0
        if tops[layer] > low or (speeds[:layer][crossed[:layer]] >= speeds[layer]).any():
            continue
        p, slowness = 1.0 / speeds[layer], 1.0 / speeds[crossed]
        vertical = np.sqrt(slowness**2 - p**2)
        critical = np.sum(path[crossed] * p / vertical)
        head = distance * p + np.sum(path[crossed] * vertical)
        best = np.where(distance >= critical, np.minimum(best, head), best)
    return best


def _direct(distance: np.ndarray, path: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    crossed = path > 0
    path, speeds = path[crossed], speeds[crossed]
    low, high = np.zeros_like(distance), np.full_like(distance, 1.0 / speeds.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        sine = middle[..., None] * speeds
        reach = np.sum(path * sine / np.sqrt(np.maximum(1.0 - sine**2, 1e-30)), axis=-1)
        low, high = np.where(reach < distance, middle, low), np.where(reach < distance, high, middle)
    p = low[..., None]
    return low * distance + np.sum(path * np.sqrt(np.maximum(speeds**-2.0 - p**2, 0.0)), axis=-1)
