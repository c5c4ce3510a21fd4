"""Waveforms of several methods at one receiver, and the misfits of all receivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.output.figures import style

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
        _draw_misfits(figure.add_subplot(rows[1, :]), misfits, names, tolerance, colors)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        return style.save(figure, path)


def _draw_traces(
    figure: Any, rows: Any, time: np.ndarray, traces: Mapping[str, np.ndarray], units: str, colors: Mapping[str, str]
) -> None:
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


def _draw_misfits(
    panel: Any, misfits: Mapping[str, np.ndarray], names: Sequence[str], tolerance: float, colors: Mapping[str, str]
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
