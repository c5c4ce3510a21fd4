"""Map of stations and sources, on the peak ground motion if it was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.attributes import to_geographic
from lithowave.output.figures import style
from lithowave.output.figures.beachball import draw_beachball
from lithowave.output.figures.coastlines import draw_coastlines
from lithowave.output.figures.description import domain_of, read_description
from lithowave.output.figures.globe import MapPage, map_page, on_page, page_coordinates
from lithowave.output.figures.ground import GroundMap, ground_map, read_simulation
from lithowave.output.peak_motion import FILE_NAME as PEAK_FILE_NAME
from lithowave.output.peak_motion import PeakMotion, load_peak_motion
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.source_table import SourceTable

MOST_LABELS = 60
PEAK_LABELS = {"pgv": "Peak ground velocity", "pgd": "Peak ground displacement"}
PEAK_UNITS = {"pgv": "m/s", "pgd": "m"}
DECADES = 2.0
WIDTH = 9.2
GROUND_COLORS = "cividis"  # the same to all kinds of color vision


def station_map(
    run_folder: str | Path,
    path: str | Path,
    *,
    peak: str = "pgv",
    measure: str = "horizontal",
    width: float = WIDTH,
) -> Path:
    """Draw stations and sources with their mechanism on a map of the peak motion of a run; return `path`.

    Without peak motion, the map shows the topography or, with a flat surface, vs at the surface. The map of a chunk of
    the globe is an azimuthal equidistant projection about its center.

    Parameters
    ----------
    peak : ``pgv`` or ``pgd``; `measure` : horizontal, vertical or total (see `peak_motion`).
    width : of the figure, inches.

    Raises
    ------
    OutputError : the run has neither receivers nor sources, or the file cannot be written.
    """
    run_folder = Path(run_folder)
    seismograms = load_seismograms(run_folder)
    if not len(seismograms) and not len(seismograms.sources):
        raise OutputError(f"{path}: nothing to draw: neither receivers nor sources.")
    motion = load_peak_motion(run_folder) if (run_folder / PEAK_FILE_NAME).is_file() else None
    bounds = map_frame(seismograms, motion, domain_of(read_description(run_folder)))
    page = map_page(seismograms.geographic_origin)
    frame = page_frame(page, bounds)
    with style.styled():
        figure, panel = map_panel(frame, width)
        if motion is not None and _draw_peak(figure, panel, motion, peak, measure):
            ground = None
        else:
            ground = ground_map(read_simulation(run_folder), tuple(1000.0 * bound for bound in bounds))
        if ground is not None:
            _draw_ground(figure, panel, ground, page)
        finish_map(panel, seismograms, frame)
        title = style.marked(_title(seismograms), seismograms.shortfall)
        figure.suptitle(title, x=0.02, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def map_panel(frame: tuple[float, float, float, float], width: float) -> tuple[Any, Any]:
    """Return a figure of a width in inches and its panel for a map of a frame (left, right, bottom, top), km."""
    across, up = frame[1] - frame[0], frame[3] - frame[2]
    tall = float(np.clip((width - 2.0) * up / across, 0.43 * width, 1.03 * width))
    figure = style.new_figure(width, tall + 1.2, layout="constrained")
    panel = figure.subplots()
    panel.set_aspect("equal")
    panel.set_xlim(frame[0], frame[1])
    panel.set_ylim(frame[2], frame[3])
    return figure, panel


def finish_map(panel: Any, seismograms: Seismograms, frame: tuple[float, float, float, float]) -> None:
    """Draw sources, stations and axes on a map."""
    page = map_page(seismograms.geographic_origin)
    placed = on_page(page, seismograms)
    draw_coastlines(panel, seismograms.geographic_origin, page, frame)
    draw_sources(panel, placed.sources, 0.045 * min(frame[1] - frame[0], frame[3] - frame[2]), placed.positions)
    draw_stations(panel, placed)
    if page is None:
        _finish_axes(panel, seismograms.geographic_origin, frame)
    else:
        page.draw_axes(panel, frame)
        panel.set_xlabel(page.description, size=7.5, color=style.MUTED)


def _title(seismograms: Seismograms) -> str:
    magnitude = seismograms.sources.moment_magnitude
    parts = [seismograms.title or "Stations and sources"]
    if magnitude is not None:
        parts.append(f"Mw {magnitude:.1f}")
    if seismograms.sources.centroid is not None:
        parts.append(_depth_text(seismograms.sources.centroid[2]))
    return ", ".join(parts)


def _depth_text(z: float) -> str:
    """Format the depth below z = 0, or the elevation above it, in m if below 1 km."""
    size = f"{abs(z) / 1000:.1f} km" if abs(z) >= 1000 else f"{round(abs(float(z)), 1):g} m"
    return f"{'elevation' if z > 0 else 'depth'} {size}"


def map_frame(
    seismograms: Seismograms, motion: PeakMotion | None, domain: tuple[float, float, float, float] | None
) -> tuple[float, float, float, float]:
    """Return (x low, x high, y low, y high) in km: of the peak motion map, else of the domain, else of the symbols."""
    if motion is not None and motion.x.size > 1 and motion.y.size > 1:
        domain = motion.x[0], motion.x[-1], motion.y[0], motion.y[-1]
    if domain is not None:
        return tuple(float(bound) / 1000 for bound in domain)
    places = np.concatenate([seismograms.positions, seismograms.sources.positions])[:, :2] / 1000
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.12 * max(float((high - low).max()), 1.0)
    return low[0] - margin, high[0] + margin, low[1] - margin, high[1] + margin


def page_frame(
    page: MapPage | None, bounds: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) in km of a map of an area given by x and y in km."""
    if page is None:
        return bounds
    a, b = page_coordinates(page, *(1e3 * np.linspace(*ends, 91) for ends in (bounds[:2], bounds[2:])))
    margin = 0.02 * max(np.ptp(a), np.ptp(b))
    ends = a.min() - margin, a.max() + margin, b.min() - margin, b.max() + margin
    return tuple(float(end) for end in ends)  # type: ignore[return-value]


def _draw_peak(figure: Any, panel: Any, motion: PeakMotion, peak: str, measure: str) -> bool:
    """Draw the peak motion; False if there was none."""
    from matplotlib.colors import LogNorm

    values = getattr(motion, peak)[measure]
    largest, limit = style.color_limit(values)
    if not largest > 0:
        return False
    factor, unit = style.readable_unit(limit, PEAK_UNITS[peak])
    top = limit * factor
    norm = LogNorm(top / 10**DECADES, top, clip=True)
    image = panel.pcolormesh(
        *page_coordinates(map_page(motion.geographic_origin), motion.x, motion.y),
        np.maximum(values * factor, top / 10**DECADES),
        norm=norm,
        cmap=style.colormap("peak", style.PEAK_COLORS),
        shading="gouraud",
        rasterized=True,
        zorder=0,
    )
    bar = figure.colorbar(image, ax=panel, shrink=0.62, aspect=28, pad=0.02, extend=style.extension(largest, limit))
    beyond = f"; largest {style.number(largest * factor)}" if largest > limit else ""
    bar.set_label(f"{PEAK_LABELS[peak]}, {measure} ({unit}{beyond})")
    bar.outline.set_visible(False)
    ticks = [step * 10.0**power for power in range(-4, 6) for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if norm.vmin <= tick <= norm.vmax]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.minorticks_off()
    return True


def _draw_ground(figure: Any, panel: Any, ground: GroundMap, page: MapPage | None) -> None:
    """Draw values at the surface with a color scale; equal values are stated in words."""
    if np.ptp(ground.values) <= 1e-6 * np.abs(ground.values).max():
        name, _, unit = ground.label.partition(" (")
        panel.set_facecolor(style.FAINT)
        text = f"{name}: {ground.values.flat[0]:.4g} {unit.rstrip(')')}"
        panel.set_title(text, size=8.5, weight="normal", color=style.MUTED)
        return
    image = panel.pcolormesh(
        *page_coordinates(page, ground.x, ground.y),
        ground.values,
        cmap=GROUND_COLORS,
        shading="gouraud",
        rasterized=True,
        zorder=0,
    )
    bar = figure.colorbar(image, ax=panel, shrink=0.62, aspect=28, pad=0.02)
    bar.set_label(ground.label)
    bar.outline.set_visible(False)


def draw_stations(panel: Any, seismograms: Seismograms, labels: bool = True) -> None:
    """Draw triangles at the receivers (km), with names if there is enough space."""
    places = seismograms.positions[:, :2] / 1000
    size = float(np.clip(900.0 / max(len(places), 1), 6.0, 52.0))
    panel.scatter(
        *places.T, marker="^", s=size, facecolor=style.PAPER, edgecolor=style.INK, linewidth=1.0, zorder=10
    )
    if labels and 0 < len(places) <= MOST_LABELS:
        _label(panel, places, seismograms.stations)


def _label(panel: Any, places: np.ndarray, names: list[str]) -> None:
    """Write each name next to its station if it covers neither a station nor another name."""
    panel.figure.draw_without_rendering()
    scale = panel.figure.dpi / 72.0
    points = panel.transData.transform(places) / scale
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    frame = panel.get_window_extent()
    inside = (frame.x0 / scale, frame.y0 / scale, frame.x1 / scale, frame.y1 / scale)
    for (x, y), place, name in zip(points, places, names, strict=True):
        width, height = 5.2 * len(name), 8.0
        for shift, horizontal, vertical in (
            ((7, 0), "left", "center"),
            ((-7, 0), "right", "center"),
            ((0, 7), "center", "bottom"),
            ((0, -7), "center", "top"),
            ((5, 5), "left", "bottom"),
            ((5, -5), "left", "top"),
            ((-5, 5), "right", "bottom"),
            ((-5, -5), "right", "top"),
        ):
            left = x + shift[0] - {"left": 0.0, "center": 0.5, "right": 1.0}[horizontal] * width
            low = y + shift[1] - {"bottom": 0.0, "center": 0.5, "top": 1.0}[vertical] * height
            box = (left, low, left + width, low + height)
            if _inside(box, inside) and not any(_overlap(box, other) for other in taken):
                panel.annotate(
                    name,
                    place,
                    xytext=shift,
                    textcoords="offset points",
                    ha=horizontal,
                    va=vertical,
                    size=7.5,
                    path_effects=style.halo(),
                    zorder=11,
                )
                taken.append(box)
                break


def _inside(box: tuple[float, ...], frame: tuple[float, ...]) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlap(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def draw_sources(panel: Any, sources: SourceTable, radius: float, stations: np.ndarray) -> None:
    """Draw the summed mechanism next to the centroid, dots if it has many sources, arrows for forces (km).

    stations : (n, 3) positions, m, which the mechanism should not cover.
    """
    if not len(sources):
        return
    x, y = sources.centroid[:2] / 1000
    if len(sources) > 1:
        panel.scatter(
            *(sources.positions[:, :2].T / 1000),
            s=7,
            color=style.PAPER,
            edgecolor=style.INK,
            linewidth=0.4,
            zorder=6,
        )
    if sources.moments.any():
        center = beachball_position(panel, (x, y), radius, stations[:, :2] / 1000)
        panel.plot(*zip((x, y), center, strict=True), color=style.INK, linewidth=1.0, zorder=7)
        if len(sources) == 1:
            panel.scatter(x, y, marker="*", s=90, color=style.S_COLOR, edgecolor=style.PAPER, linewidth=0.7, zorder=9)
        draw_beachball(panel, center, radius, sources.moment)
        return
    force = sources.forces.sum(axis=0)
    horizontal = np.hypot(*force[:2])
    if horizontal > 0.1 * np.linalg.norm(force):
        direction = 2.5 * radius * force[:2] / horizontal
        panel.annotate(
            "",
            (x + direction[0], y + direction[1]),
            (x, y),
            zorder=8,
            arrowprops={"arrowstyle": "-|>", "color": style.S_COLOR, "linewidth": 1.8},
        )
    panel.scatter(
        x, y, marker="*", s=190, color=style.S_COLOR, edgecolor=style.PAPER, linewidth=0.9, zorder=9
    )


def beachball_position(
    panel: Any, place: tuple[float, float], radius: float, stations: np.ndarray
) -> tuple[float, float]:
    """Return a center next to a place, so that the mechanism does not cover it: within the frame, and with the fewest
    stations (n, 2) below it."""
    angles = np.radians([45.0, 135.0, 225.0, 315.0, 0.0, 90.0, 180.0, 270.0])
    centers = np.asarray(place) + 2.5 * radius * np.stack([np.sin(angles), np.cos(angles)], axis=1)
    low, high = np.transpose([panel.get_xlim(), panel.get_ylim()])
    outside = ((centers - radius < low) | (centers + radius > high)).any(axis=1)
    covered = (np.linalg.norm(stations[None] - centers[:, None], axis=2) < 1.2 * radius).sum(axis=1)
    best = int(np.lexsort((covered, outside))[0])
    return float(centers[best, 0]), float(centers[best, 1])


def _finish_axes(
    panel: Any, origin: tuple[float, float] | None, frame: tuple[float, float, float, float]
) -> None:
    panel.set_xlabel("x, East (km)")
    panel.set_ylabel("y, North (km)")
    panel.spines[["top", "right"]].set_visible(True)
    if origin is None:
        return
    # Meridians of the local projection are nearly straight over a model: its center lines represent all of them.
    x, y = np.linspace(frame[0], frame[1], 50), np.linspace(frame[2], frame[3], 50)
    longitude = to_geographic(1000 * x, np.full_like(x, 500 * (frame[2] + frame[3])), origin)[0]
    latitude = to_geographic(np.full_like(y, 500 * (frame[0] + frame[1])), 1000 * y, origin)[1]
    top = panel.secondary_xaxis(
        "top", functions=(lambda value: _line(value, x, longitude), lambda value: _line(value, longitude, x))
    )
    right = panel.secondary_yaxis(
        "right", functions=(lambda value: _line(value, y, latitude), lambda value: _line(value, latitude, y))
    )
    top.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}°{'E' if value >= 0 else 'W'}")
    right.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}°{'N' if value >= 0 else 'S'}")
    top.xaxis.set_major_locator(_locator())
    right.yaxis.set_major_locator(_locator())


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])


def _line(value: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """Return y at `value` along the (nearly straight) line through x and y, extrapolated beyond its ends."""
    slope, offset = np.polyfit(x, y, 1)
    return np.asarray(value) * slope + offset
