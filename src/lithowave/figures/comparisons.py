"""Figures of comparisons: of two runs, of a run with data, and of several methods.

Of two runs, the traces with the largest, the median and the smallest misfit are drawn; of a run and data, those of up
to ten stations; of several methods, those at one receiver; in addition the misfits of all receivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.compare.misfits import wavelet_misfit_maps
from lithowave.compare.results import DataMisfits, RunMisfits
from lithowave.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpecBase

MAX_NAMES = 40
MAX_COLUMNS = 1000
MAX_STATIONS = 10
# Misfit maps of runs that agree up to round-off are blank.
SMALLEST_PERCENT = 1.0e-3


def comparison_figure(comparison: RunMisfits, path: str | Path) -> Path:
    """Draw `comparison` to `path` and return the path.

    Top: E, N, Z of the receivers with the largest, the median and the smallest misfit, the reference below the other
    run. Center: the time-frequency envelope and phase misfits, if computed, of the component with the largest ones.
    Bottom: the misfits of all receivers.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    order = np.argsort(comparison.relative_l2)
    shown = order[np.unique([0, len(order) // 2, len(order) - 1])[::-1]]
    worst = comparison.worst_component()
    heights = [float(len(shown)), *([1.5] if worst is not None else []), 1.35]
    labels = f"{_short(comparison.label_b)} (reference)", _short(comparison.label_a)
    with style.styled():
        figure = style.new_figure(11.0, 1.55 + 1.35 * sum(heights), layout="constrained")
        blocks = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        grid = blocks[0].subgridspec(len(shown), 3)
        for row, index in enumerate(shown):
            pair = comparison.data_b[index], comparison.data_a[index]
            texts = [f"{value:.2%}" for value in comparison.component_l2[index]]
            _draw_pair(figure, grid, row, comparison, pair, labels, comparison.names[index], "ENZ", texts)
        if worst is not None:
            _draw_maps(figure, blocks[1].subgridspec(1, 2), comparison, *worst)
        falling = order[::-1]
        misfits = (
            (comparison.relative_l2, "o", style.INK, "relative L2"),
            (comparison.largest("envelope_misfit"), "^", style.P_COLOR, "envelope"),
            (comparison.largest("phase_misfit"), "s", style.S_COLOR, "phase"),
        )
        markers = [(values[falling], sign, color, text) for values, sign, color, text in misfits if values is not None]
        panel = figure.add_subplot(blocks[len(heights) - 1])
        names = [comparison.names[index] for index in falling]
        _draw_misfits(panel, markers, names, "Receivers, from the largest misfit to the smallest")
        panel.set_ylabel("Misfit (%)")
        panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
        figure.suptitle(title(comparison), x=0.01, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def title(comparison: RunMisfits) -> str:
    """Return the quantity, the frequencies, the total misfit and, if known, the methods of a comparison, and which run
    is incomplete."""
    below = f" below {comparison.max_frequency:g} Hz" if comparison.max_frequency else ""
    misfit = f"relative L2 misfit {comparison.overall_l2:.2%} over {len(comparison.names)} receivers"
    text = f"Ground {comparison.quantity}{below}: {misfit}"
    if any(comparison.methods):
        text += "\n" + " against ".join(method or "unknown method" for method in comparison.methods)
    return "\n".join([text, *comparison.shortfalls])


def _draw_pair(
    figure: Figure, grid: GridSpecBase, row: int, comparison: RunMisfits | DataMisfits,
    pair: tuple[np.ndarray, np.ndarray], labels: tuple[str, str], name: str, components: str, texts: Sequence[str],
) -> list[Axes]:  # fmt: skip
    """Draw the components of a reference and, above it, of a run at one receiver; return the panels.

    pair, labels : of the reference and of the run. texts : one for each component.
    """
    peak = float(np.nanmax(np.abs(np.stack(pair))))
    factor, unit = style.readable_unit(peak, comparison.units)
    last = row == grid.nrows - 1
    panels = []
    for column, component in enumerate(components):
        panel = figure.add_subplot(grid[row, column])
        for values, color, width, label in zip(pair, style.RUN_COLORS[::-1], (1.5, 0.9), labels, strict=True):
            panel.plot(comparison.time, values[column] * factor, color=color, linewidth=width, label=label)
        panel.set_ylim(-1.15 * peak * factor or -1.0, 1.15 * peak * factor or 1.0)
        panel.set_xlim(comparison.time[0], comparison.time[-1])
        panel.grid(axis="x")
        _write(panel, 0.99, "right", texts[column])
        if row == 0:
            panel.set_title(style.COMPONENT_NAMES[component])
        if row == 0 and column == 2:
            figure.legend(*panel.get_legend_handles_labels(), loc="outside upper right", ncols=2)
        panel.tick_params(labelbottom=last, labelleft=column == 0)
        if last:
            panel.set_xlabel("Time (s)")
        if column == 0:
            panel.set_ylabel(f"{name}\n({unit})")
        panels.append(panel)
    return panels


def _write(panel: Axes, x: float, side: str, text: str) -> None:
    """Write a text at the top of a panel, at x from 0 to 1."""
    panel.text(
        x, 0.95, text, transform=panel.transAxes, ha=side, va="top", size=8, color=style.MUTED,
        path_effects=style.halo(2.0),
    )  # fmt: skip


def _draw_maps(figure: Figure, grid: GridSpecBase, comparison: RunMisfits, index: int, component: int) -> None:
    """Draw TFEM and TFPM of one component, in percent, each with its own color scale."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    traces = comparison.data_a[index], comparison.data_b[index]
    time = comparison.time
    frequency, *maps = wavelet_misfit_maps(*traces, float(time[1] - time[0]), comparison.band)
    shown = style.spread(len(time), MAX_COLUMNS)
    maps = [values[component][:, shown] for values in maps]
    whole = comparison.envelope_misfit[index, component], comparison.phase_misfit[index, component]
    place = f"{comparison.names[index]} {style.COMPONENT_NAMES['ENZ'[component]].lower()}"
    for number, (name, values) in enumerate(zip(("Envelope", "Phase"), maps, strict=True)):
        panel = figure.add_subplot(grid[0, number])
        most, limit = (max(100 * value, SMALLEST_PERCENT) for value in style.color_limit(values))
        picture = panel.pcolormesh(
            time[shown], frequency, 100 * values, cmap=style.colormap("misfit", style.WAVE_COLORS), vmin=-limit,
            vmax=limit, shading="nearest", rasterized=True,
        )  # fmt: skip
        figure.colorbar(picture, ax=panel, label="%", pad=0.01, extend="both" if most > limit else "neither")
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.set_ylim(frequency[0], frequency[-1])
        panel.set_xlim(time[0], time[-1])
        panel.set_title(f"{name} misfit, {place}: {whole[number]:.2%}")
        panel.set_xlabel("Time (s)")
        if number == 0:
            panel.set_ylabel("Frequency (Hz)")


def _draw_misfits(
    panel: Axes, markers: Iterable[tuple[np.ndarray, str, str, str]], names: Sequence[str], many: str,
    margin: float = 0.7,
) -> None:  # fmt: skip
    """Draw relative misfits as (values, marker, color, label) over the receivers.

    many : label of the axis if the receivers are too many for their names. margin : beside the first and the last one.
    """
    places = np.arange(len(names))
    for values, marker, color, label in markers:
        panel.plot(places, 100 * values, marker, color=color, markersize=4.5, label=label, linestyle="none")
    panel.set_ylabel("Relative L2 misfit (%)")
    panel.set_ylim(bottom=0)
    panel.set_xlim(-margin, len(names) - 1 + margin)
    panel.grid(axis="y")
    if len(names) <= MAX_NAMES:
        panel.set_xticks(places, names, rotation=45, ha="right", size=7)
    else:
        panel.set_xlabel(many)


def _short(label: str) -> str:
    """Return the end of a long path."""
    return label if len(label) <= 36 else "..." + label[-33:]


def data_figure(comparison: DataMisfits, path: str | Path) -> Path:
    """Draw `comparison` to `path` and return the path.

    Top: the components of up to ten stations, from the largest to the smallest misfit, the run above the data; time
    shifts are not applied. Bottom: misfits of all stations before and after the time shift.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    order = np.argsort([station.relative_l2 for station in comparison.stations])[::-1]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_STATIONS, len(order))).astype(int))]
    low, high = comparison.band
    band = f"below {high:g} Hz" if low is None else f"{low:g} to {high:g} Hz"
    heading = f"Ground {comparison.quantity}, {band}: run and data at {len(comparison.stations)} stations"
    with style.styled():
        figure = style.new_figure(11.0, 2.6 + 1.1 * len(shown), layout="constrained")
        blocks = figure.add_gridspec(2, 1, height_ratios=[1.1 * len(shown), 1.6])
        grid = blocks[0].subgridspec(len(shown), 3)
        for row, index in enumerate(shown):
            station, pair = comparison.stations[index], (comparison.data_observed[index], comparison.data_run[index])
            texts = [
                f"{station.component_l2[name]:.0%}" if name in station.components else "no data"
                for name in comparison.components
            ]
            first, *_ = _draw_pair(
                figure, grid, row, comparison, pair, ("data", "run"), station.name, comparison.components, texts
            )
            _write(first, 0.01, "left", f"shift {station.time_shift:+z.3g} s: {station.shifted_l2:.0%}")
        stations = [comparison.stations[index] for index in order]
        panel = figure.add_subplot(blocks[1])
        markers = [
            (np.array([one.relative_l2 for one in stations]), "o", style.INK, "before the time shift"),
            (np.array([one.shifted_l2 for one in stations]), "^", style.P_COLOR, "after the time shift"),
        ]
        many = "Stations, from the largest misfit to the smallest"
        _draw_misfits(panel, markers, [one.name for one in stations], many)
        panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
        figure.suptitle(style.marked(heading, comparison.shortfall), x=0.01, ha="left", size=12, weight="bold")
        return style.save(figure, path)


COLORS = (style.INK, style.S_COLOR, style.P_COLOR)
WIDTHS = (2.2, 1.3, 0.9)


def agreement_figure(
    time: np.ndarray,
    traces: Mapping[str, np.ndarray],
    units: str,
    title: str,
    misfits: Mapping[str, np.ndarray],
    names: Sequence[str],
    tolerance: float,
    path: str | Path,
) -> Path:
    """Draw the waveforms of up to three runs at one receiver and the misfits of all receivers; return the path.

    Parameters
    ----------
    time : (n_samples,), s.
    traces : (3, n_samples), E, N, Z, of each run by label; the reference first.
    units : of the traces.
    title : of the figure.
    misfits : (n_receivers,) relative L2 misfits of each run relative to the reference, by label.
    names : of the receivers.
    tolerance : drawn as a line.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    colors = dict(zip(traces, COLORS, strict=False))
    with style.styled():
        figure = style.new_figure(11.0, 5.6, layout="constrained")
        rows = figure.add_gridspec(2, 3, height_ratios=(1.25, 1.0))
        _draw_traces(figure, rows, time, traces, units, colors)
        panel = figure.add_subplot(rows[1, :])
        markers = ((values, "o", colors[label], label) for label, values in misfits.items())
        _draw_misfits(panel, markers, names, "Receivers", margin=0.6)
        panel.axhline(100 * tolerance, color=style.MUTED, linewidth=0.9, linestyle="--")
        place = len(names) - 0.6, 100 * tolerance
        panel.text(*place, "tolerance", ha="right", va="bottom", size=8, color=style.MUTED)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        return style.save(figure, path)


def _draw_traces(
    figure: Figure, rows: GridSpecBase, time: np.ndarray, traces: Mapping[str, np.ndarray], units: str,
    colors: Mapping[str, str],
) -> None:  # fmt: skip
    peak = max(float(np.abs(values).max(initial=0.0)) for values in traces.values())
    factor, unit = style.readable_unit(peak, units)
    limit = 1.1 * peak * factor or 1.0
    for column, name in enumerate("ENZ"):
        panel = figure.add_subplot(rows[0, column])
        for (label, values), width in zip(traces.items(), WIDTHS, strict=False):
            panel.plot(time, values[column] * factor, color=colors[label], linewidth=width, label=label)
        panel.set_xlim(time[0], time[-1])
        panel.set_ylim(-limit, limit)
        panel.set_title(style.COMPONENT_NAMES[name])
        panel.set_xlabel("Time (s)")
        panel.grid(axis="x")
        panel.tick_params(labelleft=column == 0)
        if column == 0:
            panel.set_ylabel(unit)
        if column == 2:
            figure.legend(*panel.get_legend_handles_labels(), loc="outside upper right", ncols=len(traces))
