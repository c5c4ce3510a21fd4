"""Table of the sources of a run, and plots of their time functions and spectra, for a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.description.chunk import Chunk
from lithowave.description.simulation import Simulation
from lithowave.description.sources import PointSource
from lithowave.output.figures import style
from lithowave.output.report.page import Page, data_table, packed
from lithowave.output.source_table import SourceTable

MAX_SOURCES = 20  # with a line in the plots and a row in the table
MAX_SUMMED = 2000
SPECTRUM_SAMPLES = (2000, 40_000)


@dataclass(frozen=True)
class Signal:
    """Moment rate (N m/s) or force (N) as a function of time (s), which is zero outside start and end.

    highest : frequency at which its spectrum falls to 5% of the maximum, Hz.
    """

    label: str
    history: Callable[[np.ndarray], np.ndarray]
    start: float
    end: float
    highest: float


def add_source(page: Page, simulation: Simulation, picture: str) -> None:
    """Add the section about the sources: table, mechanism, time functions and their spectra.

    picture : element of the mechanism; may be empty.
    """
    sources = simulation.acquisition.sources
    if not sources:
        return
    shown = [sources[index] for index in style.spread(len(sources), MAX_SOURCES)]
    signals = source_signals(sources)
    kinds = {"Moment rate (N m/s)" if source.moment is not None else "Force (N)" for source in shown}
    plots = [
        picture,
        _function_plot(page, signals, " or ".join(sorted(kinds)), simulation.duration),
        _spectrum_plot(page, signals, simulation.resolved_frequency),
    ]
    table = _source_table(shown, len(sources), simulation.domain.chunk)
    page.add("Source", table, f'<div class="columns">{"".join(plots)}</div>')


def _source_table(sources: Sequence[PointSource], count: int, chunk: Chunk | None) -> str:
    rows = []
    stated = SourceTable.from_points(sources)
    for number, source in enumerate(sources, start=1):
        x, y, z = source.position
        kind, unit, values = "moment tensor", "N m", stated.moments[number - 1]
        if source.moment is None:
            kind, unit, values = "force", "N", stated.forces[number - 1]
        strength = ", ".join(f"{value:.3g}" for value in values) + f" {unit}"
        place = [x / 1000, y / 1000, z / 1000]
        if chunk is not None:
            place = [*(float(value) for value in chunk.map.to_geographic(x, y)), 0.0 - z / 1000]
        rows.append([source.name or str(number), kind, *place, strength, source.time_function.kind])
    columns = ["x (km)", "y (km)", "z (km)"] if chunk is None else ["Longitude (°)", "Latitude (°)", "Depth (km)"]
    header = ["Source", "Kind", *columns, "xx, yy, zz, xy, xz, yz; or E, N, Up", "Time function"]
    omitted = "" if len(sources) == count else f", {len(sources)} of {count}"
    return data_table(header, rows, f"Sources{omitted}")


def source_signals(sources: Sequence[PointSource]) -> list[Signal]:
    """Return the signals of the sources and, of several moment tensors, the sum of their scalar moment rates.

    Of many sources, only the sum is returned, or of forces evenly spaced ones. The sum of more than MAX_SUMMED sources
    is estimated from evenly spaced ones, and scaled to the total moment.
    """
    signals = []
    total = len(sources) > 1 and all(source.moment is not None for source in sources)
    if total:
        signals.append(_sum(sources))
    if not total or len(sources) <= MAX_SOURCES:
        shown = style.spread(len(sources), MAX_SOURCES)
        signals += [_signal(sources[index], sources[index].name or f"source {index + 1}") for index in shown]
    return signals


def _signal(source: PointSource, label: str) -> Signal:
    function = source.time_function
    strength = float(np.linalg.norm(source.force)) if source.moment is None else _moments([source])[0]

    def history(time: np.ndarray) -> np.ndarray:
        return strength * (function.amplitude(time) if source.moment is None else function.rate(time))

    return Signal(label, history, *function.support(1e-6), function.maximum_frequency())


def _sum(sources: Sequence[PointSource]) -> Signal:
    moments = _moments(sources)
    chosen = style.spread(len(sources), MAX_SUMMED)
    parts = [_signal(sources[index], "") for index in chosen]
    factor = moments.sum() / moments[chosen].sum()
    name = f"sum of {len(sources)} sources"
    if len(chosen) < len(sources):
        name += f", estimated from {len(chosen)}"
    return Signal(
        name,
        lambda time: factor * np.sum([part.history(time) for part in parts], axis=0),
        min(part.start for part in parts),
        max(part.end for part in parts),
        max(part.highest for part in parts),
    )


def _moments(sources: Sequence[PointSource]) -> np.ndarray:
    """Return the scalar moments, N m."""
    return SourceTable.from_points(sources).scalar_moments


def _function_plot(page: Page, signals: Sequence[Signal], name: str, duration: float) -> str:
    start = min(0.0, *(signal.start for signal in signals))
    end = max(min(max(signal.end for signal in signals), duration), start + 1e-6)
    time = np.linspace(start, end, 1201)
    lines = [_line(signal, time, signal.history(time)) for signal in signals]
    layout = {
        "xaxis": {"title": {"text": "Time (s)"}},
        "yaxis": {"title": {"text": name}, "exponentformat": "power"},
        **_legend(signals),
    }
    return page.add_plot(lines, layout, f"{name} over time{_first_label(signals)}.")


def _line(signal: Signal, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "name": page_text(signal.label), "x": packed(x), "y": packed(y)}


def page_text(label: str) -> str:
    """Return a label without the characters that Plotly interprets as markup."""
    return label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _legend(signals: Sequence[Signal]) -> dict[str, Any]:
    few = 1 < len(signals) <= 4
    return {"showlegend": True, "legend": {"orientation": "h", "y": 1.15}} if few else {}


def _first_label(signals: Sequence[Signal]) -> str:
    return f", {signals[0].label}" if signals[0].label.startswith("sum of") else ""


def spectrum(signal: Signal, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies (Hz) up to `highest`, and the amplitude spectrum of a signal over its maximum."""
    margin = 0.01 * (signal.end - signal.start)
    count = int(np.clip(16.0 * highest * (signal.end - signal.start), *SPECTRUM_SAMPLES))
    time = np.linspace(signal.start - margin, signal.end + margin, count)
    padded = max(4 * count, int(np.ceil(100.0 / (highest * (time[1] - time[0])))))
    values = np.abs(np.fft.rfft(signal.history(time), padded))
    frequency = np.fft.rfftfreq(padded, time[1] - time[0])
    inside = (frequency > 0) & (frequency <= highest)
    return frequency[inside], values[inside] / (values.max() or 1.0)


def _spectrum_plot(page: Page, signals: Sequence[Signal], resolved: float | None) -> str:
    highest = 2.0 * max(resolved or 0.0, *(signal.highest for signal in signals))
    lines = []
    for signal in signals:
        frequency, amplitude = spectrum(signal, highest)
        every = style.spread(len(frequency), 600)
        lines.append(_line(signal, frequency[every], np.maximum(amplitude[every], 1e-6)))
    text = "Amplitude spectrum of the time function, relative to its maximum"
    scale = {"type": "log", "range": [-4, 0.2], "exponentformat": "power"}
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "Frequency (Hz)"}},
        "yaxis": {"title": {"text": "Relative amplitude"}, **scale},
    }
    if resolved is not None:
        mark = {"type": "line", "x0": resolved, "x1": resolved, "yref": "paper", "y0": 0, "y1": 1}
        layout["shapes"] = [mark | {"line": {"color": "#d55e00", "width": 1.5, "dash": "dash"}}]
        layout["annotations"] = [{
            "x": resolved, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
            "text": f"resolved to {resolved:.4g} Hz",
        }]  # fmt: skip
        text += f"; dashed line: the highest frequency that the grid resolves, {resolved:.4g} Hz"
    return page.add_plot(lines, layout, text + ".")
