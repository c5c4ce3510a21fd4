"""Wavefield movies of snapshot files: GIF by Pillow, MP4 if ffmpeg is available. The displacement
at the end of a run is drawn as a map: the static offset, once all waves have passed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError, OutputError
from lithowave.figures import style
from lithowave.figures.maps import (
    WIDTH,
    MapPage,
    Raster,
    SectionPage,
    draw_interfaces,
    draw_stations,
    finish_map,
    map_frame,
    map_page,
    map_panel,
    on_page,
    page_frame,
    read_simulation,
)
from lithowave.figures.style import domain_of, read_description
from lithowave.figures.traces import require_samples
from lithowave.output import files
from lithowave.output.attributes import chunk_map, geographic_origin
from lithowave.output.seismograms import FILE_NAME, Seismograms, load_seismograms
from lithowave.output.snapshots import FILE_SUFFIX, Snapshots, load_snapshots, require_joined, unjoined

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from lithowave.description.simulation import Simulation


MOST_FRAMES = 160
MOST_SOURCES = 200
MOST_POINTS = 500
FRAMES_PER_SECOND = 12
LAST_FRAME_SECONDS = 1.5
GIF_WAVE_COLORS, GIF_INK_COLORS, COLOR_SHIFT = 200, 40, 3
DOTS_PER_INCH = 100
# Percentage of the points outside the source region whose largest motion is below the limit of the color scale; radius
# of this region as a fraction of the shorter side of the plane; and the power that amplifies weak motion.
FULL_COLOR, SOURCE_REGION, LIFT = 90.0, 0.12, 0.6
AXIS_NAMES = {"x": "x, East (km)", "y": "y, North (km)", "z": "z, Up (km)"}
COMPONENT_INDEX = {"E": 0, "N": 1, "Z": 2}


def wavefield_movie(
    run_folder: str | Path,
    path: str | Path | None = None,
    *,
    snapshots: str | Path | None = None,
    field: str | None = None,
    component: str = "Z",
    most_frames: int = MOST_FRAMES,
) -> list[Path]:
    """Draw every snapshot of a plane (of a volume: its top) as one frame and return the files written.

    Parameters
    ----------
    path : ``name.gif`` or ``name.mp4``; without an extension a GIF, and also an MP4 if ffmpeg is available.
        Default: ``figures/wavefield`` in the run folder.
    snapshots : the snapshot file; default: the first in ``snapshots/``, z planes before others.
    field : default: the first in the file.
    component : E, N, Z, or ``norm`` for the length of the vector; unused for a scalar field.
    most_frames : of more snapshots, this number of evenly spaced ones is drawn.

    Raises
    ------
    InputError : unknown field or component.
    OutputError : there are no snapshots, a file cannot be written, or ffmpeg is missing for an MP4.
    """
    run_folder = Path(run_folder)
    path = run_folder / "figures" / "wavefield" if path is None else Path(path)
    source = Path(snapshots) if snapshots is not None else _first_snapshots(run_folder)
    targets = _targets(path)
    seismograms = load_seismograms(run_folder) if (run_folder / FILE_NAME).is_file() else None
    with load_snapshots(source) as reader, style.styled():
        if not len(reader):
            raise OutputError(f"{source}: holds no snapshots yet.")
        frames = _Frames(reader, field, component, seismograms, read_simulation(run_folder), most_frames)
        path.parent.mkdir(parents=True, exist_ok=True)
        for target in targets:
            with files.writing(target):
                (_write_gif if target.suffix == ".gif" else _write_mp4)(frames, target)
    return targets


def snapshot_files(run_folder: Path) -> list[Path]:
    """Return the snapshot files of a run, z planes first.

    Raises
    ------
    OutputError : some snapshots exist only as parts of several ranks.
    """
    require_joined(unjoined(run_folder))

    def rank(path: Path) -> tuple[int, str]:
        with load_snapshots(path) as reader:
            return "z none y x".split().index(reader.plane), path.name

    return sorted((run_folder / "snapshots").glob(f"*{FILE_SUFFIX}"), key=rank)


def _first_snapshots(run_folder: Path) -> Path:
    files = snapshot_files(run_folder)
    if not files:
        raise OutputError(f"{run_folder}: holds no snapshots/*{FILE_SUFFIX}; ask for them by output.snapshots.")
    return files[0]


def _targets(path: Path) -> list[Path]:
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise OutputError(f"{path}: an MP4 needs the program ffmpeg, which is not found; choose a name in .gif.")
    if path.suffix in (".gif", ".mp4"):
        return [path]
    endings = [".gif"] + ([".mp4"] if shutil.which("ffmpeg") else [])
    return [path.with_name(path.name + ending) for ending in endings]


def nice_limit(value: float) -> float:
    """Return the smallest of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ... that is not below `value`."""
    power = 10.0 ** np.floor(np.log10(value) + 1e-9)
    return float(power * next(step for step in (1.0, 2.0, 5.0, 10.0) if step >= value / power * (1.0 - 1e-9)))


def _signed_power(value: npt.ArrayLike, power: float) -> np.ndarray:
    return np.sign(value) * np.abs(value) ** power


class _Frames:
    """Frames of a movie, drawn sequentially on one static background."""

    def __init__(
        self,
        reader: Snapshots,
        field: str | None,
        component: str,
        seismograms: Seismograms | None,
        simulation: Simulation | None = None,
        most_frames: int = MOST_FRAMES,
    ) -> None:
        self.reader = reader
        self.field = field or reader.fields[0]
        if self.field not in reader.fields:
            raise InputError("field", repr(self.field), f"one of {', '.join(reader.fields)}")
        if component != "norm" and component not in COMPONENT_INDEX:
            raise InputError("component", repr(component), "one of E, N, Z, norm")
        # Stresses have no components E, N and Z: their norm is drawn.
        self.vector = reader.read(0, self.field).ndim == 4
        self.component = "norm" if self.vector and reader.read(0, self.field).shape[-1] != 3 else component
        self.horizontal, self.vertical = {"x": "yz", "y": "xz"}.get(reader.plane, "xy")
        self.steps = style.spread(len(reader), most_frames)
        interval = float(np.diff(reader.times).min()) if len(reader) > 1 else 1.0
        self.decimals = int(np.clip(np.ceil(-np.log10(max(interval, 1e-6)) - 1e-9), 1, 6))
        self.stride = 1 + max(reader.shape) // MOST_POINTS
        self.page = self._page()
        self.signed = self.component != "norm" or not self.vector
        self._build(seismograms, simulation)

    def _page(self) -> MapPage | SectionPage | None:
        """Return the page of a chunk of the globe; None in a box."""
        chunk = chunk_map(geographic_origin(self.reader.attributes))
        if chunk is None or self.reader.plane not in ("x", "y"):
            return None if chunk is None else MapPage(chunk)
        return SectionPage(chunk, self.reader.plane, float(self.reader.axis(self.reader.plane)[-1]))

    def image(self, step: int) -> np.ndarray:
        """Return the plane at `step`, (vertical, horizontal), in the file's unit."""
        values = self.reader.read(step, self.field)
        axis = {"x": 2, "y": 1}.get(self.reader.plane, 0)
        values = np.take(values, -1, axis=axis)[:: self.stride, :: self.stride]
        if values.ndim == 2:
            return values
        if self.component == "norm":
            return np.linalg.norm(values, axis=-1)
        return values[..., COMPONENT_INDEX[self.component]]

    def wave_amplitude(self, seismograms: Seismograms | None) -> float:
        """Return the amplitude in full color: a percentile of the largest motion of points away from the sources."""
        peak = np.zeros(self.image(self.steps[0]).shape)
        for step in self.steps:
            np.maximum(peak, np.abs(self.image(step)), out=peak)
        if not np.isfinite(peak).all():
            return 0.0
        moved = peak[~self._near_sources(seismograms)] if seismograms is not None else peak.ravel()
        moved = moved[moved > 1e-3 * moved.max(initial=0.0)]  # the waves may not have reached all points
        return float(np.percentile(moved, FULL_COLOR)) if moved.size else float(peak.max())

    def _near_sources(self, seismograms: Seismograms) -> np.ndarray:
        """True at the points of the plane next to a source."""
        across, up = (self.reader.axis(name)[:: self.stride] for name in (self.horizontal, self.vertical))
        radius = SOURCE_REGION * min(abs(np.ptp(across)), abs(np.ptp(up)))
        normal = "xyz".index({"x": "x", "y": "y"}.get(self.reader.plane, "z"))
        level = float(self.reader.axis("xyz"[normal])[-1])
        near = np.zeros((len(up), len(across)), dtype=bool)
        columns = ["xyz".index(name) for name in (self.horizontal, self.vertical)]
        for position in seismograms.sources.positions[style.spread(len(seismograms.sources), MOST_SOURCES)]:
            flat = (across[None, :] - position[columns[0]]) ** 2 + (up[:, None] - position[columns[1]]) ** 2
            near |= flat + (level - position[normal]) ** 2 < radius**2
        return near

    def _build(self, seismograms: Seismograms | None, simulation: Simulation | None) -> None:
        from matplotlib.colors import FuncNorm

        amplitude = self.wave_amplitude(seismograms)
        axes = {name: self.reader.axis(name)[:: self.stride] for name in "xyz"}
        raster = None if self.page is None else Raster(self.page, axes, self.horizontal, self.vertical)
        self.shown = raster if raster is not None else lambda values: values
        self.factor, unit = style.readable_unit(amplitude, self.reader.units[self.field])
        limit = nice_limit(amplitude * self.factor or 1.0)
        across, up = axes[self.horizontal] / 1000, axes[self.vertical] / 1000
        half = [0.5 * abs(axis[1] - axis[0]) if len(axis) > 1 else 0.5 for axis in (across, up)]
        extent = (across[0] - half[0], across[-1] + half[0], up[0] - half[1], up[-1] + half[1])
        bounds = extent
        if raster is not None:
            extent, bounds = raster.extent, (across[0], across[-1], up[0], up[-1])
        # The aspect ratio of the plane determines the page; both sides are even, as video encoders require.
        ratio = float(np.clip((extent[1] - extent[0]) / (extent[3] - extent[2]), 0.6, 3.0))
        width = 7.6
        height = 2 * round(50 * ((width - 1.9) / ratio + 1.1)) / 100
        self.figure = style.new_figure(width, height, layout="constrained")
        self.figure.set_dpi(DOTS_PER_INCH)
        panel = self.figure.subplots()
        lift = (lambda value: _signed_power(value, LIFT), lambda value: _signed_power(value, 1.0 / LIFT))
        norm = FuncNorm(lift, -limit if self.signed else 0.0, limit, clip=True)
        self.colors = style.colormap("wave", style.WAVE_COLORS if self.signed else style.PEAK_COLORS)
        self.picture = panel.imshow(
            self.shown(self.image(self.steps[0])) * self.factor, origin="lower", extent=extent, norm=norm,
            cmap=self.colors, interpolation="bilinear", aspect="equal", animated=True,
        )  # fmt: skip
        before = set(panel.get_children())
        if self.reader.plane in ("x", "y"):
            position = float(self.reader.axis(self.reader.plane)[-1])
            section = self.page if isinstance(self.page, SectionPage) else None
            draw_interfaces(panel, simulation, self.reader.plane, position, bounds, section)
        self.marks = [artist for artist in panel.get_children() if artist not in before]
        self.limit = limit
        self._finish(panel, seismograms, limit, unit)

    def _finish(self, panel: Axes, seismograms: Seismograms | None, limit: float, unit: str) -> None:
        self._draw_axes(panel)
        bar = self.figure.colorbar(
            self.picture, ax=panel, shrink=0.7, aspect=26, pad=0.02, extend="both" if self.signed else "max"
        )
        # Limits are 1, 2 or 5 times a power of ten, so these inner ticks are also round.
        inner = {"1": 0.2, "2": 0.25, "5": 0.2}[f"{limit:.0e}"[0]]
        ticks = limit * np.array([-1.0, -inner, 0.0, inner, 1.0] if self.signed else [0.0, inner, 1.0])
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.outline.set_visible(False)
        bar.set_label(f"{self._name()} ({unit})")
        title = (seismograms.title if seismograms else "") or "Wavefield"
        panel.set_title(style.marked(title, seismograms.shortfall if seismograms else ""), size=11)
        limits = panel.get_xlim(), panel.get_ylim()
        if seismograms is not None:
            before = set(panel.get_children())
            self._mark(panel, seismograms)
            self.marks += [artist for artist in panel.get_children() if artist not in before]
        panel.set_xlim(limits[0])
        panel.set_ylim(limits[1])
        self.clock = panel.text(
            0.985, 0.975, "", transform=panel.transAxes, ha="right", va="top", size=13, weight="bold",
            path_effects=style.halo(3.0), animated=True,
        )  # fmt: skip
        self.panel = panel
        for artist in self.marks:
            artist.set_animated(True)
        self.figure.canvas.draw()
        self.figure.set_layout_engine("none")
        self.figure.canvas.draw()
        self.background = self.figure.canvas.copy_from_bbox(self.figure.bbox)

    def _draw_axes(self, panel: Axes) -> None:
        """Draw axes with labels; on a page, its graticule, which is redrawn above the waves."""
        panel.spines[["top", "right"]].set_visible(True)
        before = set(panel.get_children())
        if isinstance(self.page, MapPage):
            self.page.draw_axes(panel, (*panel.get_xlim(), *panel.get_ylim()))
            panel.set_xlabel(self.page.description, size=7.5, color=style.MUTED)
        elif self.page is not None:
            axes = self.page.local_axes(self.reader.axis(self.horizontal), self.reader.axis("z"))
            self.page.draw_axes(panel, self.page.ends(axes))
        else:
            panel.set_xlabel(AXIS_NAMES[self.horizontal])
            panel.set_ylabel(AXIS_NAMES[self.vertical])
        children = panel.get_children()
        self.marks += [artist for artist in children if artist not in before and artist.get_visible()]

    def _name(self) -> str:
        if not self.vector:
            return self.field.capitalize()
        names = {"norm": "Size of", **style.COMPONENT_NAMES}
        return f"{names[self.component]} {self.field}"

    def _mark(self, panel: Axes, seismograms: Seismograms) -> None:
        """Draw the sources, and on a horizontal plane the stations."""
        columns = ["xyz".index(name) for name in (self.horizontal, self.vertical)]
        if self.reader.plane in ("z", "none") and len(seismograms):
            page = self.page if isinstance(self.page, MapPage) else None
            draw_stations(panel, on_page(page, seismograms), labels=False)
        if len(seismograms.sources):
            center = np.atleast_2d(seismograms.sources.centroid)
            places = (center[:, columns] if self.page is None else self.page.project(center)) / 1000
            panel.scatter(
                *places.T, marker="*", s=150, color=style.PAPER, edgecolor=style.INK, linewidth=1.1, zorder=12
            )

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield each frame, (height, width, 3) uint8."""
        canvas = self.figure.canvas
        for step in self.steps:
            canvas.restore_region(self.background)
            self.picture.set_data(self.shown(self.image(step)) * self.factor)
            self.clock.set_text(f"{self.reader.times[step]:.{self.decimals}f} s")
            for artist in (self.picture, *self.marks, *self.panel.spines.values(), self.clock):
                self.panel.draw_artist(artist)
            yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _write_gif(frames: _Frames, path: Path) -> None:
    from PIL import Image

    palette = _palette(frames.colors)
    nearest = _nearest_colors(palette)
    indexed = []
    for frame in frames:
        red, green, blue = np.moveaxis(frame >> COLOR_SHIFT, -1, 0)
        picture = Image.fromarray(nearest[red, green, blue])
        picture.putpalette(palette.tobytes())
        indexed.append(picture)
    durations = [1000 // FRAMES_PER_SECOND] * len(indexed)
    durations[-1] = int(1000 * LAST_FRAME_SECONDS)
    indexed[0].save(path, save_all=True, append_images=indexed[1:], duration=durations, loop=0, optimize=False)


def _palette(colors: Colormap) -> np.ndarray:
    """Return the palette (n, 3) uint8: the colors of the waves, and those between ink and paper for overlays."""
    from matplotlib.colors import to_rgb

    share = np.linspace(0.0, 1.0, GIF_INK_COLORS)[:, None]
    ink = (1.0 - share) * np.array(to_rgb(style.INK)) + share * np.array(to_rgb(style.PAPER))
    waves = colors(np.linspace(0.0, 1.0, GIF_WAVE_COLORS))[:, :3]
    return np.rint(255 * np.concatenate([waves, ink])).astype(np.uint8)


def _nearest_colors(palette: np.ndarray) -> np.ndarray:
    """Return (levels, levels, levels) uint8: the nearest color of `palette` for each color, quantized to `levels`.

    One palette for all frames avoids flicker of static areas; this table is finer than Pillow's own and preserves
    white paper.
    """
    from scipy.spatial import cKDTree

    steps = np.linspace(0.0, 255.0, 256 >> COLOR_SHIFT)
    colors = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1)
    return cKDTree(palette).query(colors)[1].astype(np.uint8)


def _write_mp4(frames: _Frames, path: Path) -> None:
    process = None
    for frame in frames:
        if process is None:
            process = _encoder(path, frame.shape[1], frame.shape[0])
        try:
            process.stdin.write(frame.tobytes())
        except BrokenPipeError:
            break
    _, errors = process.communicate()
    if process.returncode:
        path.unlink(missing_ok=True)
        raise OutputError(f"{path}: ffmpeg failed: {errors.decode('utf-8', 'replace').strip()}")


def _encoder(path: Path, width: int, height: int) -> subprocess.Popen:
    command = (
        f"ffmpeg -y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {FRAMES_PER_SECOND} "
        "-i - -an -c:v libx264 -pix_fmt yuv420p -crf 18 -movflags +faststart"
    )
    return subprocess.Popen([*command.split(), str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)


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
    require_samples(seismograms, path)
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
        style.color_bar(figure, points, panel, f"Vertical displacement ({unit})")
        title = style.heading(seismograms.title, f"displacement at t = {seismograms.time[-1]:g} s")
        title = style.marked(title, seismograms.shortfall)
        figure.suptitle(title, x=0.02, ha="left", size=12, weight="bold")
        return style.save(figure, path)


def last_displacement(seismograms: Seismograms) -> np.ndarray:
    """Return East, North and Up of the last sample of each receiver, (n_receivers, 3), m."""
    return np.asarray(seismograms.data[:, :, -1], dtype=float)
