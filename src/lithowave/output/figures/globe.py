"""Pages for figures of a chunk of the globe: a map of the surface, and vertical sections with their true curvature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lithowave.output.attributes import chunk_map
from lithowave.output.figures import style
from lithowave.output.seismograms import Seismograms
from lithowave.sphere import RADIUS, ChunkMap, axes_at, directions, geographic_latitude

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

    def draw_axes(self, panel: Any, frame: tuple[float, ...]) -> None:
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
        self, panel: Any, frame: tuple[float, ...], longitude: np.ndarray, latitude: np.ndarray
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

    @staticmethod
    def _polar(angle: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.stack([(RADIUS + z) * np.sin(angle), (RADIUS + z) * np.cos(angle) - RADIUS], axis=-1)

    def local(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return x, y and z, m, of points of the page, m."""
        positions = a[..., None] * self.tangent + (b + RADIUS)[..., None] * self.up
        return self.chunk.from_cartesian(positions)

    def draw_axes(self, panel: Any, ends: tuple[float, ...]) -> None:
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


def page_coordinates(page: MapPage | None, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of a map, km: x and y in a box, arrays (n_y, n_x) on a page."""
    if page is None:
        return x / 1e3, y / 1e3
    across, up = np.meshgrid(x, y)
    a, b = np.moveaxis(page.project(np.stack([across, up, np.zeros_like(across)], axis=-1)) / 1e3, -1, 0)
    return a, b


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
