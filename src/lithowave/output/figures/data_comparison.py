"""Observed seismograms and those of a run: traces of up to ten stations, and the misfits of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lithowave.output.figures import style

MOST_STATIONS = 10
MOST_NAMES = 40
COMPONENT_NAMES = {"E": "East", "N": "North", "Z": "Vertical", "R": "Radial", "T": "Transverse"}


class ComparedData(Protocol):
    """What figures read of `output.data_comparison.DataComparison`, which draws itself by them."""

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
    def stations(self) -> list[Any]: ...
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
        _draw_misfits(figure.add_subplot(blocks[1]), comparison, order)
        figure.suptitle(title(comparison), x=0.01, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def title(comparison: ComparedData) -> str:
    """Return the quantity, the filter and the number of stations, and whether the run is incomplete."""
    low, high = comparison.band
    band = f"below {high:g} Hz" if low is None else f"{low:g} to {high:g} Hz"
    text = f"Ground {comparison.quantity}, {band}: run and data at {len(comparison.stations)} stations"
    return style.marked(text, comparison.shortfall)


def _draw_station(figure: Any, grid: Any, row: int, comparison: ComparedData, index: int, last: bool) -> None:
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


def _draw_misfits(panel: Any, comparison: ComparedData, order: np.ndarray) -> None:
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
