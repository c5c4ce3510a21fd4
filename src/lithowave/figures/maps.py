"""Maps of stations and sources, on the peak ground motion if it was recorded.

It contains pages for figures of a chunk of the globe: a map of the surface, and vertical sections with their true
curvature; coastlines (Natural Earth, scale 1:110 million, which is in the public domain); and the material model as a
background of figures: values at the surface, and interfaces in vertical planes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import LithowaveError, OutputError
from lithowave.figures import style
from lithowave.figures.style import FILE_NAME, domain_of, draw_beachball, read_description
from lithowave.globe_coordinates import RADIUS, ChunkMap, axes_at, directions, geographic_latitude
from lithowave.output.attributes import SourceTable, chunk_map, to_geographic
from lithowave.output.results import FILE_NAME as PEAK_FILE_NAME
from lithowave.output.results import PeakMotion, load_peak_motion
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.projection import projection_text

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

    from lithowave.description.simulation import Simulation


STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)  # degrees between lines of a graticule
DEPTH_STEPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)  # km
MOST_LINES, PIXELS = 6, 500
LINE = {"color": style.MUTED, "linewidth": 0.5, "alpha": 0.6, "zorder": 3}


class MapPage:
    """Azimuthal equidistant projection about the center of a chunk: distances from the center are true, North is up.

    With c the angle between a point and the center and t its direction from there, the page coordinates (East, North)
    are R c t, m (Snyder 1987, U.S. Geological Survey Professional Paper 1395, section 25).
    """

    def __init__(self, chunk: ChunkMap) -> None:
        self.chunk = replace(chunk, ellipticity=None)  # pages are those of a sphere
        self.frame = ChunkMap(chunk.longitude, chunk.latitude).frame

    def place(self, up: np.ndarray) -> np.ndarray:
        """Return page coordinates (..., 2), m, of unit vectors (..., 3) from the center of the Earth."""
        east, north, along = np.moveaxis(up @ self.frame.T, -1, 0)
        across = np.hypot(east, north)
        angle = np.arctan2(across, along)
        ratio = np.where(across > 0.0, angle / np.where(across > 0.0, across, 1.0), 1.0)
        return RADIUS * ratio[..., None] * np.stack([east, north], axis=-1)

    def project(self, positions: np.ndarray) -> np.ndarray:
        """Return page coordinates (..., 2), m, of local coordinates (..., 3), m."""
        return self.place(self.chunk.directions(positions[..., 0], positions[..., 1]))

    def grid(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return page coordinates (n_y, n_x), m, of points of the surface at x and y, m."""
        return _project_grid(self, *np.meshgrid(x, y), 0.0)

    def _directions(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        angle = np.hypot(a, b) / RADIUS
        sine = np.sinc(angle / np.pi) / RADIUS
        return np.stack(np.broadcast_arrays(sine * a, sine * b, np.cos(angle)), axis=-1) @ self.frame

    def local(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return x, y and z, m, of points of the page, m, at the surface."""
        return self.chunk.from_cartesian(RADIUS * self._directions(a, b))

    def geographic(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return longitudes and geographic latitudes, degrees, of points of the page, m."""
        x, y, z = np.moveaxis(self._directions(a, b), -1, 0)
        return np.degrees(np.arctan2(y, x)), geographic_latitude(np.degrees(np.arctan2(z, np.hypot(x, y))))

    def north(self, positions: np.ndarray) -> np.ndarray:
        """Return the angle, radians clockwise from the upper side of the page, of North at local positions (n, 3)."""
        up = self.chunk.directions(positions[:, 0], positions[:, 1])
        north = axes_at(up, np.arctan2(up[:, 1], up[:, 0]))[:, 1]
        step = 1e-5
        change = self.place(np.cos(step) * up + np.sin(step) * north) - self.place(up)
        return np.arctan2(change[:, 0], change[:, 1])

    def draw_axes(self, panel: Axes, frame: tuple[float, ...]) -> None:
        """Draw meridians and parallels in a frame (left, right, bottom, top; km), with labels at its edges."""
        a, b = np.meshgrid(1e3 * np.linspace(*frame[:2], 61), 1e3 * np.linspace(*frame[2:], 61))
        latitudes = self.geographic(a, b)[1]
        step = _step(float(np.ptp(latitudes)), STEPS)
        widen = 1.0 / max(np.cos(np.radians(self.chunk.latitude)), 0.05)
        meridians = np.arange(-180.0, 180.0, _step(float(np.ptp(latitudes)) * widen, STEPS))
        parallels = step * np.arange(np.ceil(latitudes.min() / step), np.floor(latitudes.max() / step) + 1)
        along = np.linspace(max(latitudes.min() - step, -90.0), min(latitudes.max() + step, 90.0), 361)
        ticks = [(one, *self._draw_line(panel, frame, np.full(361, one), along)) for one in meridians]
        panel.set_xticks(*_labels([(one, place) for one, place, _ in ticks if place is not None], "EW"))
        around = np.linspace(-180.0, 180.0, 1441)
        ticks = [(one, *self._draw_line(panel, frame, around, np.full(1441, one))) for one in parallels]
        panel.set_yticks(*_labels([(one, place) for one, _, place in ticks if place is not None], "NS"))
        if not any(place is not None for _, _, place in ticks):  # around a pole, circles do not reach the edge
            for one in parallels:
                circle = self.place(directions(self.chunk.longitude, one)) / 1e3
                panel.text(*circle, _degrees(one, "NS"), size=7, color=style.MUTED, path_effects=style.halo(), zorder=4)
        panel.spines[["top", "right"]].set_visible(True)
        panel.set_xlim(*frame[:2])
        panel.set_ylim(*frame[2:])

    def _draw_line(
        self, panel: Axes, frame: tuple[float, ...], longitude: np.ndarray, latitude: np.ndarray
    ) -> tuple[float | None, float | None]:
        """Draw a line of the graticule; return where it crosses the lower and the left edge of the frame, km."""
        up = directions(longitude, latitude)
        page = np.where((up @ self.frame[2])[:, None] > 0.0, self.place(up) / 1e3, np.nan)
        a, b = page.T
        if not ((a >= frame[0]) & (a <= frame[1]) & (b >= frame[2]) & (b <= frame[3])).any():
            return None, None
        panel.plot(*page.T, gid="graticule", **LINE)
        return _crossing(b, a, frame[2], frame[:2]), _crossing(a, b, frame[0], frame[2:])

    @property
    def description(self) -> str:
        """The projection in words."""
        return "azimuthal equidistant projection, North up at the center"


class SectionPage:
    """Vertical plane x = constant or y = constant of a chunk, through the center of the Earth, with true curvature.

    Page coordinates, m, are along the tangent of the surface in the middle of the section, and above the surface there.
    """

    def __init__(self, chunk: ChunkMap, plane: str, level: float) -> None:
        chunk = replace(chunk, ellipticity=None)

        def at(along: float) -> np.ndarray:
            return chunk.directions(*((level, along) if plane == "x" else (along, level)))

        self.chunk, self.plane, self.level = chunk, plane, level
        self.up, other = at(0.0), at(0.5 * RADIUS)
        tangent = other - (other @ self.up) * self.up
        self.tangent = tangent / np.linalg.norm(tangent)

    def project(self, positions: np.ndarray) -> np.ndarray:
        """Return page coordinates (..., 2), m, of local coordinates (..., 3), m; their depth is kept."""
        up = self.chunk.directions(positions[..., 0], positions[..., 1])
        return self._polar(np.arctan2(up @ self.tangent, up @ self.up), positions[..., 2])

    def grid(self, along: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return page coordinates (n_z, n_along), m, of points of the section."""
        across, up = np.meshgrid(along, z)
        return _project_grid(self, *((self.level, across) if self.plane == "x" else (across, self.level)), up)

    @staticmethod
    def _polar(angle: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.stack([(RADIUS + z) * np.sin(angle), (RADIUS + z) * np.cos(angle) - RADIUS], axis=-1)

    def local(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return x, y and z, m, of points of the page, m."""
        positions = a[..., None] * self.tangent + (b + RADIUS)[..., None] * self.up
        return self.chunk.from_cartesian(positions)

    def draw_axes(self, panel: Axes, ends: tuple[float, ...]) -> None:
        """Draw arcs of equal depth and radial lines. ends : angles, radians, and z, m, of the section."""
        first, last, bottom, top = ends
        depth = _step((top - bottom) / 1e3, DEPTH_STEPS)
        step = _step(float(np.degrees(last - first)), STEPS)
        arc = np.linspace(first, last, 181)
        text = {"textcoords": "offset points", "size": 7.5, "color": style.MUTED, "zorder": 4}
        for z in -depth * np.arange(np.ceil(-top / 1e3 / depth), np.floor(-bottom / 1e3 / depth) + 1):
            page = self._polar(arc, np.full(181, 1e3 * z)) / 1e3
            panel.plot(*page.T, gid="graticule", **LINE)
            panel.annotate(f"{0.0 - z:g} km", page[0], (-4, 0), ha="right", va="center", **text)
        for angle in step * np.arange(np.ceil(np.degrees(first) / step), np.floor(np.degrees(last) / step) + 1):
            page = self._polar(np.full(2, np.radians(angle)), np.array([bottom, top])) / 1e3
            panel.plot(*page.T, gid="graticule", **LINE)
            panel.annotate(f"{0.0 + angle:g}°", page[1], (0, 3), ha="center", **text)
        for edge in (self._polar(arc, np.full(181, z)) / 1e3 for z in (bottom, top)):
            panel.plot(*edge.T, color=style.INK, linewidth=0.9, zorder=3)
        for angle in (first, last):
            edge = self._polar(np.full(2, angle), np.array([bottom, top])) / 1e3
            panel.plot(*edge.T, color=style.INK, linewidth=0.9, zorder=3)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[:].set_visible(False)
        edge = self._polar(np.array([first, last, 0.0, first]), np.array([top, top, top, bottom])) / 1e3
        margin = 0.06 * np.ptp(edge[:2, 0])
        panel.set_xlim(edge[:2, 0].min() - 1.5 * margin, edge[:2, 0].max() + 0.5 * margin)
        panel.set_ylim(self._polar(arc, np.full(181, bottom))[:, 1].min() / 1e3, edge[:, 1].max() + margin)
        panel.set_xlabel(self.description(first, last), size=7.5, color=style.MUTED)

    def description(self, first: float, last: float) -> str:
        """Return the ends of a section in words; angles in radians."""
        places = [np.cos(angle) * self.up + np.sin(angle) * self.tangent for angle in (first, last)]
        texts = []
        for x, y, z in places:
            longitude, latitude = np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))
            values = round(float(longitude), 1), round(float(geographic_latitude(latitude)), 1)
            texts.append(f"{_degrees(values[0], 'EW')}, {_degrees(values[1], 'NS')}")
        return f"great circle from {texts[0]} to {texts[1]}"

    def local_axes(self, along: np.ndarray, z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the points along x, y and z, m, of a section from those along its line and z."""
        fixed = np.full(2, self.level)
        return {"x": fixed, "y": along, "z": z} if self.plane == "x" else {"x": along, "y": fixed, "z": z}

    def ends(self, axes: Mapping[str, np.ndarray]) -> tuple[float, ...]:
        """Return the angles, radians, and z, m, at the ends of a section with the points of two local `axes`."""
        along = np.array([[axes[name][index] for name in "xy"] for index in (0, -1)])
        up = self.chunk.directions(*along.T)
        return *np.arctan2(up @ self.tangent, up @ self.up), axes["z"][0], axes["z"][-1]


def _project_grid(
    page: MapPage | SectionPage, x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.moveaxis(page.project(np.stack(np.broadcast_arrays(x, y, z), axis=-1)), -1, 0)
    return a, b


class Raster:
    """Image of values on two axes of local coordinates, interpolated at the pixels of a page.

    axes : points along x, y and z, m; one of them has a single value, repeated to the length of another one if needed.
    across, up : names of the axes of the columns and rows of the values.
    """

    def __init__(self, page: MapPage | SectionPage, axes: Mapping[str, np.ndarray], across: str, up: str) -> None:
        grid = dict(zip((across, up), np.meshgrid(axes[across], axes[up]), strict=True))
        corners = page.project(np.stack([grid.get(name, np.full_like(grid[up], axes[name][-1])) for name in "xyz"], -1))
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        self.extent = tuple(float(value) / 1e3 for value in (low[0], high[0], low[1], high[1]))
        size = (high - low) / (high - low).max()
        columns, rows = (max(2, int(PIXELS * part)) for part in size)
        a, b = (low[k] + (high[k] - low[k]) * (np.arange(n) + 0.5) / n for k, n in enumerate((columns, rows)))
        found = dict(zip("xyz", page.local(*np.meshgrid(a, b)), strict=True))
        self._places = [_fractional(found[name], axes[name]) for name in (up, across)]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the values (rows, columns) of the page from values (up, across); NaN outside."""
        (row, upper), (column, right) = self._places
        total = (1.0 - upper) * ((1.0 - right) * values[row, column] + right * values[row, column + 1])
        return total + upper * ((1.0 - right) * values[row + 1, column] + right * values[row + 1, column + 1])


def _fractional(values: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the point of an axis below each value, and the fraction of the step; NaN outside."""
    place = (values - axis[0]) / (axis[1] - axis[0])
    inside = (place >= -1e-6) & (place <= len(axis) - 1 + 1e-6)
    index = np.clip(np.where(inside, place, 0.0).astype(int), 0, len(axis) - 2)
    return index, np.where(inside, place - index, np.nan)


def map_page(origin: tuple[float, ...] | None) -> MapPage | None:
    """Return the page for maps of a file with this `geographic_origin`; None in a box."""
    chunk = chunk_map(origin)
    return None if chunk is None else MapPage(chunk)


def page_coordinates(page: MapPage | SectionPage | None, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of a map or section, km: both axes in a box, arrays (n_y, n_x) on a page."""
    a, b = (x, y) if page is None else page.grid(x, y)
    return a / 1e3, b / 1e3


def on_page(page: MapPage | None, seismograms: Seismograms) -> Seismograms:
    """Return seismograms with positions, mechanisms and forces along the axes of a page, or without one x and y."""
    sources = seismograms.sources
    if page is None:
        placed = sources.along_grid()
        return seismograms if placed is sources else replace(seismograms, sources=placed)
    turned = sources.turned(-np.degrees(page.north(sources.positions)), sources.geographic) if len(sources) else sources
    moved = np.column_stack([page.project(sources.positions), sources.positions[:, 2]])
    receivers = np.column_stack([page.project(seismograms.positions), seismograms.positions[:, 2]])
    return replace(seismograms, positions=receivers, sources=replace(turned, positions=moved), geographic_origin=None)


def _step(span: float, steps: tuple[float, ...]) -> float:
    """Return the smallest step with at most MOST_LINES lines in a span."""
    return next((step for step in steps if span / step <= MOST_LINES), steps[-1])


def _crossing(values: np.ndarray, others: np.ndarray, level: float, ends: tuple[float, ...]) -> float | None:
    """Return the other coordinate at the first point between `ends` where values cross a level; None without one."""
    below = values < level
    for index in np.flatnonzero((below[1:] != below[:-1]) & np.isfinite(values[1:] + values[:-1])):
        share = (level - values[index]) / (values[index + 1] - values[index])
        place = float(others[index] + share * (others[index + 1] - others[index]))
        if ends[0] <= place <= ends[1]:
            return place
    return None


def _degrees(value: float, letters: str) -> str:
    return f"{abs(value):g}°" + ("" if value in (0.0, -180.0) else letters[int(value < 0.0)])


def _labels(ticks: list[tuple[float, float]], letters: str) -> tuple[list[float], list[str]]:
    return [place for _, place in ticks], [_degrees(value, letters) for value, _ in ticks]


FILE = "coastlines.json"
SMALLEST_MAP = 800.0
"""Width of a map, km, from which on coastlines are drawn: they deviate by up to some 30 km from the true ones."""

FARTHEST = 90.0  # degrees from the center of a map
COASTLINE = {"color": style.INK, "linewidth": 0.7, "alpha": 0.8, "zorder": 2}


@cache
def coastlines() -> tuple[np.ndarray, np.ndarray]:
    """Return longitudes and latitudes, degrees, of all lines, with NaN between two lines."""
    content = json.loads(files("lithowave.figures").joinpath(FILE).read_text(encoding="utf-8"))
    gap = np.full((1, 2), np.nan)
    points = [part for line in content["lines"] for part in (0.01 * np.array(line, float).reshape(-1, 2), gap)]
    longitude, latitude = np.concatenate(points).T
    return longitude, latitude


def draw_coastlines(
    panel: Axes, origin: tuple[float, ...] | None, page: MapPage | None, frame: tuple[float, float, float, float]
) -> None:
    """Draw the coastlines within a frame (left, right, bottom, top; km) if the map is large enough.

    origin : geographic origin of local coordinates; None: nothing is drawn. page : of a chunk of the globe.
    """
    if origin is None or min(frame[1] - frame[0], frame[3] - frame[2]) < SMALLEST_MAP:
        return
    longitude, latitude = coastlines()
    up = directions(longitude, latitude)
    if page is not None:
        x, y = page.place(up).T
    else:
        from pyproj import Transformer

        to_local = Transformer.from_crs("EPSG:4326", projection_text(*origin[:2]), always_xy=True)
        x, y = to_local.transform(longitude, latitude)
    reached = up @ directions(*origin[:2]) > np.cos(np.radians(FARTHEST))  # False for the gaps
    x, y = (np.where(reached, values, np.nan) / 1e3 for values in (x, y))
    margin = 0.5 * max(frame[1] - frame[0], frame[3] - frame[2])  # lines cross the edge of the frame
    near = (x > frame[0] - margin) & (x < frame[1] + margin) & (y > frame[2] - margin) & (y < frame[3] + margin)
    if near.any():
        panel.plot(np.where(near, x, np.nan), np.where(near, y, np.nan), gid="coastlines", **COASTLINE)
        panel.set_xlim(*frame[:2])
        panel.set_ylim(*frame[2:])


POINTS = 241
MAX_MATERIALS, CONTOURS = 12, 6


@dataclass(frozen=True)
class GroundMap:
    """Values (n_y, n_x) on x and y (m) at the surface, and their label. All may be equal."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    label: str


def read_simulation(run_folder: Path) -> Simulation | None:
    """Return the simulation of a run; None if its file cannot be read, for example because a model file is missing."""
    from lithowave.description.simulation import Simulation

    try:
        return Simulation.from_file(run_folder / FILE_NAME)
    except LithowaveError:
        return None


def ground_map(simulation: Simulation | None, bounds: tuple[float, float, float, float]) -> GroundMap | None:
    """Return the topography or, with a flat surface, vs at the surface (vp in fluids); None if there is no model.

    bounds : x low, x high, y low, y high, m.
    """
    if simulation is None:
        return None
    x, y = np.linspace(*bounds[:2], POINTS), np.linspace(*bounds[2:], POINTS)
    height = simulation.domain.surface_height(x[None, :], y[:, None])
    if simulation.domain.surface is not None:
        return GroundMap(x, y, height, "Elevation of the surface (m)")
    try:
        vp, vs, _ = simulation.material.sample(x[None, :], y[:, None], height)
    except LithowaveError:
        return None
    name = "vp" if not vs.any() else "vs"
    return GroundMap(x, y, vs if vs.any() else vp, f"{name} at the surface (m/s)")


def draw_interfaces(
    panel: Axes,
    simulation: Simulation | None,
    plane: str,
    position: float,
    bounds: tuple[float, float, float, float],
    page: SectionPage | None = None,
) -> list[Artist]:
    """Draw the interfaces of the material in a vertical plane, or contours of a smooth model; return the artists.

    Parameters
    ----------
    plane : ``x`` or ``y``, the axis normal to the plane. position : coordinate of the plane, m.
    bounds : low and high coordinate along the horizontal axis, then z, km. page : of a section of a chunk.
    """
    if simulation is None or plane not in ("x", "y"):
        return []
    along, z = (1000.0 * np.linspace(*ends, POINTS) for ends in (bounds[:2], bounds[2:]))
    here = np.full(POINTS, position)
    x, y = (here, along) if plane == "x" else (along, here)
    try:
        vp, vs, _ = simulation.material.sample(x[None, :], y[None, :], z[:, None])
    except LithowaveError:
        return []
    speed = vp + vs
    across, up = np.meshgrid(along, z) if page is None else page.grid(along, z)
    levels = interface_levels(speed)
    drawn: list[Artist] = []
    if len(levels):
        contours = panel.contour(
            across / 1000, up / 1000, speed, levels=levels, colors=style.INK, linewidths=0.8, alpha=0.7
        )
        contours.set_gid("interfaces")
        drawn.append(contours)
    if page is not None:
        return drawn
    surface = simulation.domain.surface_height(x, y)
    if np.ptp(surface) > 0:
        drawn += panel.plot(along / 1000, surface / 1000, color=style.INK, linewidth=1.2)
    return drawn


def interface_levels(values: np.ndarray) -> np.ndarray:
    """Return contour levels: between the values of a model of few materials, else evenly spaced ones."""
    distinct = np.unique(np.round(values, 3))
    if len(distinct) <= MAX_MATERIALS:
        return 0.5 * (distinct[1:] + distinct[:-1])
    return np.linspace(distinct[0], distinct[-1], CONTOURS + 2)[1:-1]


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
    peak : ``pgv`` or ``pgd``; `measure` : horizontal, vertical or total (see `PeakMotion`).
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


def map_panel(frame: tuple[float, float, float, float], width: float) -> tuple[Figure, Axes]:
    """Return a figure of a width in inches and its panel for a map of a frame (left, right, bottom, top), km."""
    across, up = frame[1] - frame[0], frame[3] - frame[2]
    tall = float(np.clip((width - 2.0) * up / across, 0.43 * width, 1.03 * width))
    figure = style.new_figure(width, tall + 1.2, layout="constrained")
    panel = figure.subplots()
    panel.set_aspect("equal")
    panel.set_xlim(frame[0], frame[1])
    panel.set_ylim(frame[2], frame[3])
    return figure, panel


def finish_map(panel: Axes, seismograms: Seismograms, frame: tuple[float, float, float, float]) -> None:
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


def page_frame(page: MapPage | None, bounds: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) in km of a map of an area given by x and y in km."""
    if page is None:
        return bounds
    a, b = page_coordinates(page, *(1e3 * np.linspace(*ends, 91) for ends in (bounds[:2], bounds[2:])))
    margin = 0.02 * max(np.ptp(a), np.ptp(b))
    ends = a.min() - margin, a.max() + margin, b.min() - margin, b.max() + margin
    return tuple(float(end) for end in ends)


def _draw_peak(figure: Figure, panel: Axes, motion: PeakMotion, peak: str, measure: str) -> bool:
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
        np.maximum(values * factor, top / 10**DECADES), norm=norm, cmap=style.colormap("peak", style.PEAK_COLORS),
        shading="gouraud", rasterized=True, zorder=0,
    )  # fmt: skip
    beyond = f"; largest {style.number(largest * factor)}" if largest > limit else ""
    label = f"{PEAK_LABELS[peak]}, {measure} ({unit}{beyond})"
    bar = style.color_bar(figure, image, panel, label, style.extension(largest, limit))
    ticks = [step * 10.0**power for power in range(-4, 6) for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if norm.vmin <= tick <= norm.vmax]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.minorticks_off()
    return True


def _draw_ground(figure: Figure, panel: Axes, ground: GroundMap, page: MapPage | None) -> None:
    """Draw values at the surface with a color scale; equal values are stated in words."""
    if np.ptp(ground.values) <= 1e-6 * np.abs(ground.values).max():
        name, _, unit = ground.label.partition(" (")
        panel.set_facecolor(style.FAINT)
        text = f"{name}: {ground.values.flat[0]:.4g} {unit.rstrip(')')}"
        panel.set_title(text, size=8.5, weight="normal", color=style.MUTED)
        return
    image = panel.pcolormesh(
        *page_coordinates(page, ground.x, ground.y), ground.values, cmap=GROUND_COLORS, shading="gouraud",
        rasterized=True, zorder=0,
    )  # fmt: skip
    style.color_bar(figure, image, panel, ground.label)


def draw_stations(panel: Axes, seismograms: Seismograms, labels: bool = True) -> None:
    """Draw triangles at the receivers (km), with names if there is enough space."""
    places = seismograms.positions[:, :2] / 1000
    size = float(np.clip(900.0 / max(len(places), 1), 6.0, 52.0))
    panel.scatter(*places.T, marker="^", s=size, facecolor=style.PAPER, edgecolor=style.INK, linewidth=1.0, zorder=10)
    if labels and 0 < len(places) <= MOST_LABELS:
        _label(panel, places, seismograms.stations)


def _label(panel: Axes, places: np.ndarray, names: list[str]) -> None:
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
                    name, place, xytext=shift, textcoords="offset points", ha=horizontal, va=vertical, size=7.5,
                    path_effects=style.halo(), zorder=11,
                )  # fmt: skip
                taken.append(box)
                break


def _inside(box: tuple[float, ...], frame: tuple[float, ...]) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlap(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def draw_sources(panel: Axes, sources: SourceTable, radius: float, stations: np.ndarray) -> None:
    """Draw the summed mechanism next to the centroid, dots if it has many sources, arrows for forces (km).

    stations : (n, 3) positions, m, which the mechanism should not cover.
    """
    if not len(sources):
        return
    x, y = sources.centroid[:2] / 1000
    if len(sources) > 1:
        panel.scatter(
            *(sources.positions[:, :2].T / 1000), s=7, color=style.PAPER, edgecolor=style.INK, linewidth=0.4, zorder=6
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
            "", (x + direction[0], y + direction[1]), (x, y), zorder=8,
            arrowprops={"arrowstyle": "-|>", "color": style.S_COLOR, "linewidth": 1.8},
        )  # fmt: skip
    panel.scatter(x, y, marker="*", s=190, color=style.S_COLOR, edgecolor=style.PAPER, linewidth=0.9, zorder=9)


def beachball_position(
    panel: Axes, place: tuple[float, float], radius: float, stations: np.ndarray
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


def _finish_axes(panel: Axes, origin: tuple[float, float] | None, frame: tuple[float, float, float, float]) -> None:
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


def _locator() -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])


def _line(value: npt.ArrayLike, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return y at `value` along the (nearly straight) line through x and y, extrapolated beyond its ends."""
    slope, offset = np.polyfit(x, y, 1)
    return np.asarray(value) * slope + offset
