"""Two runs held against each other: traces where they differ most, typically and least, and all misfits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.output.figures import style

if TYPE_CHECKING:
    from lithowave.output.compare import Comparison

MOST_NAMES = 40


def comparison_figure(comparison: Comparison, path: str | Path) -> Path:
    """Draw `comparison` into `path`; returns it.

    Above, E, N, Z of the receivers with the largest, the median and the smallest misfit, the reference below
    the other run; under it the relative L2 misfit of every receiver.

    Raises
    ------
    OutputError : when the file cannot be written.
    """
    order = np.argsort(comparison.relative_l2)
    shown = order[np.unique([0, len(order) // 2, len(order) - 1])[::-1]]
    with style.styled():
        figure = style.new_figure(11.0, 2.9 + 1.35 * len(shown), layout="constrained")
        grid = figure.add_gridspec(len(shown) + 1, 3, height_ratios=[1.0] * len(shown) + [1.35])
        for row, index in enumerate(shown):
            _draw_receiver(figure, grid, row, comparison, int(index), last=row == len(shown) - 1)
        _draw_misfits(figure.add_subplot(grid[len(shown), :]), comparison, order[::-1])
        figure.suptitle(
            f"Ground {comparison.quantity}: relative L2 misfit {comparison.overall_l2:.2%} over "
            f"{len(comparison.names)} receivers",
            x=0.01,
            ha="left",
            size=12,
            weight="bold",
        )
        return style.save(figure, path)


def _draw_receiver(figure: Any, grid: Any, row: int, comparison: Comparison, index: int, last: bool) -> None:
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


def _draw_misfits(panel: Any, comparison: Comparison, order: np.ndarray) -> None:
    places = np.arange(len(order))
    for values, color, marker, label in (
        (comparison.relative_l2, style.INK, "o", "relative L2"),
        (_largest(comparison.envelope_misfit), style.P_COLOR, "^", "envelope"),
        (_largest(comparison.phase_misfit), style.S_COLOR, "s", "phase"),
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
    panel.legend(loc="upper right", ncols=3)
    panel.grid(axis="y")
    if len(order) <= MOST_NAMES:
        panel.set_xticks(
            places, [comparison.names[index] for index in order], rotation=45, ha="right", size=7
        )
    else:
        panel.set_xlabel("Receivers, from the largest misfit to the smallest")


def _largest(misfit: np.ndarray | None) -> np.ndarray | None:
    """Largest over the components; NaN where none was computed."""
    return (
        None
        if misfit is None
        else np.where(np.isnan(misfit[:, 0]), np.nan, np.nan_to_num(misfit).max(axis=1))
    )


def _short(label: str) -> str:
    """The end of a long path."""
    return label if len(label) <= 36 else "..." + label[-33:]
