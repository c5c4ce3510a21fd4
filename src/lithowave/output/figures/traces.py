"""Three-component traces by station, on one or more pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.figures import style
from lithowave.output.figures.record_section import recorded_quantity
from lithowave.output.figures.travel_times import receiver_arrivals
from lithowave.output.geometry import azimuth, component, distance_unit, epicentral_distance, offsets
from lithowave.output.seismograms import Seismograms

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
    if not len(seismograms) or not len(seismograms.time):
        raise OutputError(f"{path}: nothing to draw: no receivers or no samples.")
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
) -> Any:
    from matplotlib.ticker import MaxNLocator

    rows = len(page)
    figure = style.new_figure(11.0, 1.15 + 0.98 * rows)
    top, bottom = 1.0 - 0.62 / figure.get_figheight(), 0.48 / figure.get_figheight()
    panels = figure.subplots(
        rows,
        len(motions),
        sharex=True,
        sharey=False,
        squeeze=False,
        gridspec_kw={
            "left": 0.105,
            "right": 0.985,
            "top": top,
            "bottom": bottom,
            "hspace": 0.1,
            "wspace": 0.03,
        },
    )
    scale, length = distance_unit(seismograms)
    distance, direction = scale * offsets(seismograms)[0], azimuth(seismograms)
    for row, index in zip(panels, page, strict=True):
        scales = _scales({name: motion[index] for name, motion in motions.items()}, seismograms.units)
        for panel, (name, motion) in zip(row, motions.items(), strict=True):
            factor, unit, limit = scales[name]
            _draw_trace(
                panel, seismograms.time, motion[index] * factor, unit, f"{seismograms.names[index]}.{name}"
            )
            panel.set_ylim(-limit, limit)
            for phase, times, color in arrivals:
                _mark_arrival(panel, phase, times[index], color, first=panel is panels[0][0])
        where = f"{distance[index]:.1f}{' km' if length == 'km' else length}, {direction[index]:.0f}°"
        row[0].text(
            -0.03, 0.56, seismograms.names[index], transform=row[0].transAxes, ha="right", weight="bold"
        )
        row[0].text(
            -0.03, 0.44, where, transform=row[0].transAxes, ha="right", va="top", size=7, color=style.MUTED
        )
    for panel, name in zip(panels[0], motions, strict=True):
        panel.set_title(style.COMPONENT_NAMES[name])
    for panel in panels[-1]:
        panel.set_xlabel("Time (s)")
        # The last tick is omitted: its label would overlap the first one of the next panel.
        panel.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], prune="upper"))
        panel.set_xlim(seismograms.time[0], max(seismograms.time[-1], seismograms.sampling_interval))
    title = f"{seismograms.title}: " if seismograms.title else ""
    height = 1.0 - 0.12 / figure.get_figheight()
    quantity = recorded_quantity(seismograms, "".join(motions))
    figure.text(0.012, height, f"{title}{quantity}", size=12, weight="bold", va="top")
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


def _draw_trace(panel: Any, time: np.ndarray, motion: np.ndarray, unit: str, name: str) -> None:
    panel.axhline(0.0, color=style.FAINT, linewidth=0.8, zorder=0)
    panel.plot(time, motion, color=style.INK, linewidth=0.9, gid=name)
    panel.text(
        0.992,
        0.93,
        f"{style.number(float(np.abs(motion).max()))} {unit}",
        transform=panel.transAxes,
        ha="right",
        va="top",
        size=7.5,
        color=style.MUTED,
        path_effects=style.halo(2.0),
    )
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.tick_params(left=False, labelleft=False, bottom=False)
    panel.grid(axis="x")


def _mark_arrival(panel: Any, phase: str, time: float, color: str, first: bool) -> None:
    if not np.isfinite(time):
        return
    panel.plot([time, time], [0.12, 0.88], transform=panel.get_xaxis_transform(), color=color, linewidth=1.1)
    if first:
        panel.annotate(
            phase,
            (time, 0.9),
            xycoords=panel.get_xaxis_transform(),
            xytext=(-3, 0),
            textcoords="offset points",
            color=color,
            size=7.5,
            weight="bold",
            ha="right",
            va="top",
        )
