"""Map of the displacement at the end of a run: the static offset, once all waves have passed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.errors import InputError, OutputError
from lithowave.output.figures import style
from lithowave.output.figures.description import domain_of, read_description
from lithowave.output.figures.globe import map_page, on_page
from lithowave.output.figures.movie import nice_limit
from lithowave.output.figures.station_map import WIDTH, finish_map, map_frame, map_panel, page_frame
from lithowave.output.seismograms import Seismograms, load_seismograms

ARROW = 0.12  # length of the longest arrow relative to the width of the map


def static_map(run_folder: str | Path, path: str | Path, *, width: float = WIDTH) -> Path:
    """Draw the last displacement of the receivers on a map: horizontal as arrows, vertical as colors; return `path`.

    Parameters
    ----------
    width : of the figure, inches.

    Raises
    ------
    InputError : the seismograms are not displacements.
    OutputError : there are no receivers or samples, or the file cannot be written.
    """
    run_folder = Path(run_folder)
    seismograms = load_seismograms(run_folder)
    if seismograms.quantity != "displacement":
        raise InputError(
            "output.quantity", f"the seismograms are of {seismograms.quantity}", "expected displacement",
            "run again with output.quantity: displacement",
        )  # fmt: skip
    if not len(seismograms) or not len(seismograms.time):
        raise OutputError(f"{path}: nothing to draw: no receivers or no samples.")
    page = map_page(seismograms.geographic_origin)
    seismograms = seismograms if page is not None else seismograms.along_grid()
    frame = page_frame(page, map_frame(seismograms, None, domain_of(read_description(run_folder))))
    with style.styled():
        figure, panel = map_panel(frame, width)
        finish_map(panel, seismograms, frame)
        east, north, up = last_displacement(seismograms).T
        turn = np.zeros(len(east)) if page is None else page.north(seismograms.positions)
        across, along = east * np.cos(turn) + north * np.sin(turn), north * np.cos(turn) - east * np.sin(turn)
        x, y = on_page(page, seismograms).positions[:, :2].T / 1e3
        factor, unit = style.readable_unit(float(np.abs([east, north, up]).max()), "m")
        longest = nice_limit(float(np.hypot(east, north).max()) * factor or 1.0)
        arrows = panel.quiver(
            x, y, across * factor, along * factor, angles="xy", scale_units="xy", color=style.S_COLOR, width=0.004,
            scale=longest / (ARROW * (frame[1] - frame[0])), zorder=14, gid="static",
        )  # fmt: skip
        panel.quiverkey(arrows, 0.88, 1.03, longest, f"{longest:g} {unit}", labelpos="E")
        limit = nice_limit(float(np.abs(up).max()) * factor or 1.0)
        points = panel.scatter(
            x, y, c=up * factor, s=70, cmap=style.colormap("wave", style.WAVE_COLORS), vmin=-limit, vmax=limit,
            edgecolor=style.INK, linewidth=0.8, zorder=13,
        )  # fmt: skip
        bar = figure.colorbar(points, ax=panel, shrink=0.62, aspect=28, pad=0.02)
        bar.set_label(f"Vertical displacement ({unit})")
        bar.outline.set_visible(False)
        title = f"{seismograms.title}: " if seismograms.title else ""
        title = style.marked(f"{title}displacement at t = {seismograms.time[-1]:g} s", seismograms.shortfall)
        figure.suptitle(title, x=0.02, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def last_displacement(seismograms: Seismograms) -> np.ndarray:
    """Return East, North and Up of the last sample of each receiver, (n_receivers, 3), m."""
    return np.asarray(seismograms.data[:, :, -1], dtype=float)
