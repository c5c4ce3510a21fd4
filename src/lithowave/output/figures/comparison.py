"""Comparison of two runs: traces with the largest, the median and the smallest misfit, and all misfits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lithowave.output.figures import style
from lithowave.verification.misfits import wavelet_misfit_maps

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
    def rows(self) -> list[dict[str, Any]]: ...
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


def _draw_receiver(figure: Any, grid: Any, row: int, comparison: ComparedRuns, index: int, last: bool) -> None:
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


def _draw_maps(figure: Any, grid: Any, comparison: ComparedRuns, index: int, component: int) -> None:
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


def _draw_misfits(panel: Any, comparison: ComparedRuns, order: np.ndarray) -> None:
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
