"""Figures of comparisons: of two runs, of a run with data, and of several methods.

Of two runs, the traces with the largest, the median and the smallest misfit are drawn; of a run and data, those of up
to ten stations; of several methods, those at one receiver; in addition the misfits of all receivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.compare.misfits import wavelet_misfit_maps
from lithowave.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpecBase

    from lithowave.json_types import Entries

MOST_NAMES = 40
MOST_COLUMNS = 1000
# Misfit maps of runs that agree up to round-off are blank.
LEAST_PERCENT = 1.0e-3


class ComparedRuns(Protocol):
    """What figures and reports read of `output.compare.Comparison`, which draws itself by them."""

    @property
    def names(self) -> list[str]: ...
    @property
    def time(self) -> np.ndarray: ...
    @property
    def data_a(self) -> np.ndarray: ...
    @property
    def data_b(self) -> np.ndarray: ...
    @property
    def label_a(self) -> str: ...
    @property
    def label_b(self) -> str: ...
    @property
    def methods(self) -> tuple[str, str]: ...
    @property
    def quantity(self) -> str: ...
    @property
    def units(self) -> str: ...
    @property
    def relative_l2(self) -> np.ndarray: ...
    @property
    def component_l2(self) -> np.ndarray: ...
    @property
    def overall_l2(self) -> float: ...
    @property
    def max_frequency(self) -> float | None: ...
    @property
    def band(self) -> tuple[float, float] | None: ...
    @property
    def envelope_misfit(self) -> np.ndarray | None: ...
    @property
    def phase_misfit(self) -> np.ndarray | None: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def shortfalls(self) -> list[str]: ...
    def largest(self, name: str) -> np.ndarray | None: ...
    def worst_component(self) -> tuple[int, int] | None: ...
    def rows(self) -> list[Entries]: ...
    def figure(self, path: str | Path) -> Path: ...


def comparison_figure(comparison: ComparedRuns, path: str | Path) -> Path:
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
    with style.styled():
        figure = style.new_figure(11.0, 1.55 + 1.35 * sum(heights), layout="constrained")
        blocks = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        grid = blocks[0].subgridspec(len(shown), 3)
        for row, index in enumerate(shown):
            _draw_receiver(figure, grid, row, comparison, int(index), last=row == len(shown) - 1)
        if worst is not None:
            _draw_maps(figure, blocks[1].subgridspec(1, 2), comparison, *worst)
        _draw_misfits(figure.add_subplot(blocks[len(heights) - 1]), comparison, order[::-1])
        figure.suptitle(title(comparison), x=0.01, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def title(comparison: ComparedRuns) -> str:
    """Return the quantity, the frequencies, the total misfit and, if known, the methods of a comparison, and which run
    is incomplete."""
    below = f" below {comparison.max_frequency:g} Hz" if comparison.max_frequency else ""
    misfit = f"relative L2 misfit {comparison.overall_l2:.2%} over {len(comparison.names)} receivers"
    text = f"Ground {comparison.quantity}{below}: {misfit}"
    if any(comparison.methods):
        text += "\n" + " against ".join(method or "unknown method" for method in comparison.methods)
    return "\n".join([text, *comparison.shortfalls])


def _draw_receiver(
    figure: Figure, grid: GridSpecBase, row: int, comparison: ComparedRuns, index: int, last: bool
) -> None:
    data_a, data_b = comparison.data_a[index], comparison.data_b[index]
    peak = max(float(np.abs(data_a).max()), float(np.abs(data_b).max()))
    factor, unit = style.readable_unit(peak, comparison.units)
    for column, name in enumerate("ENZ"):
        panel = figure.add_subplot(grid[row, column])
        panel.plot(
            comparison.time,
            data_b[column] * factor,
            color=style.RUN_COLORS[1],
            linewidth=1.5,
            label=f"{_short(comparison.label_b)} (reference)",
        )
        panel.plot(
            comparison.time,
            data_a[column] * factor,
            color=style.RUN_COLORS[0],
            linewidth=0.9,
            label=_short(comparison.label_a),
        )
        panel.set_ylim(-1.15 * peak * factor or -1.0, 1.15 * peak * factor or 1.0)
        panel.set_xlim(comparison.time[0], comparison.time[-1])
        panel.grid(axis="x")
        panel.text(
            0.99,
            0.95,
            f"{comparison.component_l2[index, column]:.2%}",
            transform=panel.transAxes,
            ha="right",
            va="top",
            size=8,
            color=style.MUTED,
            path_effects=style.halo(2.0),
        )
        if row == 0:
            panel.set_title(style.COMPONENT_NAMES[name])
        if row == 0 and column == 2:
            figure.legend(*panel.get_legend_handles_labels(), loc="outside upper right", ncols=2)
        panel.tick_params(labelbottom=last, labelleft=column == 0)
        if last:
            panel.set_xlabel("Time (s)")
        if column == 0:
            panel.set_ylabel(f"{comparison.names[index]}\n({unit})")


def _draw_maps(figure: Figure, grid: GridSpecBase, comparison: ComparedRuns, index: int, component: int) -> None:
    """Draw TFEM and TFPM of one component, in percent, each with its own color scale."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    traces = comparison.data_a[index], comparison.data_b[index]
    time = comparison.time
    frequency, *maps = wavelet_misfit_maps(*traces, float(time[1] - time[0]), comparison.band)
    shown = style.spread(len(time), MOST_COLUMNS)
    maps = [values[component][:, shown] for values in maps]
    whole = comparison.envelope_misfit[index, component], comparison.phase_misfit[index, component]
    place = f"{comparison.names[index]} {style.COMPONENT_NAMES['ENZ'[component]].lower()}"
    for number, (name, values) in enumerate(zip(("Envelope", "Phase"), maps, strict=True)):
        panel = figure.add_subplot(grid[0, number])
        most, limit = (max(100 * value, LEAST_PERCENT) for value in style.color_limit(values))
        picture = panel.pcolormesh(
            time[shown],
            frequency,
            100 * values,
            cmap=style.colormap("misfit", style.WAVE_COLORS),
            vmin=-limit,
            vmax=limit,
            shading="nearest",
            rasterized=True,
        )
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


def _draw_misfits(panel: Axes, comparison: ComparedRuns, order: np.ndarray) -> None:
    places = np.arange(len(order))
    for values, color, marker, label in (
        (comparison.relative_l2, style.INK, "o", "relative L2"),
        (comparison.largest("envelope_misfit"), style.P_COLOR, "^", "envelope"),
        (comparison.largest("phase_misfit"), style.S_COLOR, "s", "phase"),
    ):
        if values is not None:
            panel.plot(
                places,
                100 * values[order],
                marker,
                color=color,
                markersize=4.5,
                label=label,
                linestyle="none",
            )
    panel.set_ylabel("Misfit (%)")
    panel.set_ylim(bottom=0)
    panel.set_xlim(-0.7, len(order) - 0.3)
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    panel.grid(axis="y")
    if len(order) <= MOST_NAMES:
        panel.set_xticks(
            places, [comparison.names[index] for index in order], rotation=45, ha="right", size=7
        )
    else:
        panel.set_xlabel("Receivers, from the largest misfit to the smallest")


def _short(label: str) -> str:
    """Return the end of a long path."""
    return label if len(label) <= 36 else "..." + label[-33:]


MOST_STATIONS = 10
COMPONENT_NAMES = {"E": "East", "N": "North", "Z": "Vertical", "R": "Radial", "T": "Transverse"}


class ComparedStation(Protocol):
    """What figures read of the misfits at one station."""

    @property
    def name(self) -> str: ...
    @property
    def components(self) -> str: ...
    @property
    def window(self) -> tuple[float, float]: ...
    @property
    def relative_l2(self) -> float: ...
    @property
    def shifted_l2(self) -> float: ...
    @property
    def correlation(self) -> float: ...
    @property
    def time_shift(self) -> float: ...
    @property
    def amplitude_ratio(self) -> float: ...
    @property
    def component_l2(self) -> Mapping[str, float]: ...


class ComparedData(Protocol):
    """What figures read of `compare.data.DataComparison`, which draws itself by them."""

    @property
    def band(self) -> tuple[float | None, float]: ...
    @property
    def components(self) -> str: ...
    @property
    def time(self) -> np.ndarray: ...
    @property
    def data_run(self) -> np.ndarray: ...
    @property
    def data_observed(self) -> np.ndarray: ...
    @property
    def quantity(self) -> str: ...
    @property
    def units(self) -> str: ...
    @property
    def stations(self) -> Sequence[ComparedStation]: ...
    @property
    def shortfall(self) -> str: ...


def data_figure(comparison: ComparedData, path: str | Path) -> Path:
    """Draw `comparison` to `path` and return the path.

    Top: the components of up to ten stations, from the largest to the smallest misfit, the run above the data; time
    shifts are not applied. Bottom: misfits of all stations before and after the time shift.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    order = np.argsort([station.relative_l2 for station in comparison.stations])[::-1]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(MOST_STATIONS, len(order))).astype(int))]
    with style.styled():
        figure = style.new_figure(11.0, 2.6 + 1.1 * len(shown), layout="constrained")
        blocks = figure.add_gridspec(2, 1, height_ratios=[1.1 * len(shown), 1.6])
        grid = blocks[0].subgridspec(len(shown), 3)
        for row, index in enumerate(shown):
            _draw_station(figure, grid, row, comparison, int(index), last=row == len(shown) - 1)
        _draw_data_misfits(figure.add_subplot(blocks[1]), comparison, order)
        figure.suptitle(data_title(comparison), x=0.01, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def data_title(comparison: ComparedData) -> str:
    """Return the quantity, the filter and the number of stations, and whether the run is incomplete."""
    low, high = comparison.band
    band = f"below {high:g} Hz" if low is None else f"{low:g} to {high:g} Hz"
    text = f"Ground {comparison.quantity}, {band}: run and data at {len(comparison.stations)} stations"
    return style.marked(text, comparison.shortfall)


def _draw_station(
    figure: Figure, grid: GridSpecBase, row: int, comparison: ComparedData, index: int, last: bool
) -> None:
    station = comparison.stations[index]
    pair = comparison.data_observed[index], comparison.data_run[index]
    peak = float(np.nanmax(np.abs(np.stack(pair))))
    factor, unit = style.readable_unit(peak, comparison.units)
    for column, name in enumerate(comparison.components):
        panel = figure.add_subplot(grid[row, column])
        labels = ("data", "run")
        for values, color, width, label in zip(pair, style.RUN_COLORS[::-1], (1.5, 0.9), labels, strict=True):
            panel.plot(comparison.time, values[column] * factor, color=color, linewidth=width, label=label)
        panel.set_ylim(-1.15 * peak * factor or -1.0, 1.15 * peak * factor or 1.0)
        panel.set_xlim(comparison.time[0], comparison.time[-1])
        panel.grid(axis="x")
        text = "no data" if name not in station.components else f"{station.component_l2[name]:.0%}"
        panel.text(
            0.99, 0.95, text, transform=panel.transAxes, ha="right", va="top", size=8, color=style.MUTED,
            path_effects=style.halo(2.0),
        )  # fmt: skip
        if row == 0:
            panel.set_title(COMPONENT_NAMES[name])
        if row == 0 and column == 2:
            figure.legend(*panel.get_legend_handles_labels(), loc="outside upper right", ncols=2)
        panel.tick_params(labelbottom=last, labelleft=column == 0)
        if last:
            panel.set_xlabel("Time (s)")
        if column == 0:
            panel.set_ylabel(f"{station.name}\n({unit})")
            shift = f"shift {station.time_shift:+z.3g} s: {station.shifted_l2:.0%}"
            panel.text(
                0.01, 0.95, shift, transform=panel.transAxes, ha="left", va="top", size=8, color=style.MUTED,
                path_effects=style.halo(2.0),
            )  # fmt: skip


def _draw_data_misfits(panel: Axes, comparison: ComparedData, order: np.ndarray) -> None:
    stations = [comparison.stations[index] for index in order]
    places = np.arange(len(stations))
    for values, marker, color, label in (
        ([station.relative_l2 for station in stations], "o", style.INK, "before the time shift"),
        ([station.shifted_l2 for station in stations], "^", style.P_COLOR, "after the time shift"),
    ):
        percent = 100.0 * np.array(values)
        panel.plot(places, percent, marker, color=color, markersize=4.5, label=label, linestyle="none")
    panel.set_ylabel("Relative L2 misfit (%)")
    panel.set_ylim(bottom=0)
    panel.set_xlim(-0.7, len(stations) - 0.3)
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    panel.grid(axis="y")
    if len(stations) <= MOST_NAMES:
        panel.set_xticks(places, [station.name for station in stations], rotation=45, ha="right", size=7)
    else:
        panel.set_xlabel("Stations, from the largest misfit to the smallest")


COLORS = (style.INK, style.S_COLOR, style.P_COLOR)
WIDTHS = (2.2, 1.3, 0.9)
MAX_NAMES = 40


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
        _draw_agreement_misfits(figure.add_subplot(rows[1, :]), misfits, names, tolerance, colors)
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


def _draw_agreement_misfits(
    panel: Axes, misfits: Mapping[str, np.ndarray], names: Sequence[str], tolerance: float, colors: Mapping[str, str]
) -> None:
    places = np.arange(len(names))
    for label, values in misfits.items():
        panel.plot(places, 100 * values, "o", color=colors[label], markersize=4.5, label=label)
    panel.axhline(100 * tolerance, color=style.MUTED, linewidth=0.9, linestyle="--")
    panel.text(places[-1] + 0.4, 100 * tolerance, "tolerance", ha="right", va="bottom", size=8, color=style.MUTED)
    panel.set_ylabel("Relative L2 misfit (%)")
    panel.set_ylim(bottom=0)
    panel.set_xlim(-0.6, len(names) - 0.4)
    panel.grid(axis="y")
    if len(names) <= MAX_NAMES:
        panel.set_xticks(places, names, rotation=45, ha="right", size=7)
    else:
        panel.set_xlabel("Receivers")
