"""Figures of the Chino Hills example for the documentation: ``python docs/draw_example.py RUN_FOLDER``, or
``python docs/draw_example.py RUN_FOLDER RUN_WITH_ATTENUATION`` for the effect of attenuation.

They are drawn from a finished run, and written with few colours so that they stay small.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lithowave import load_seismograms, plot_run
from lithowave.figures import style
from lithowave.figures.maps import draw_stations
from lithowave.figures.movie import snapshot_files
from lithowave.output.snapshots import load_snapshots

FOLDER = Path(__file__).resolve().parent / "figures"
SECONDS = (8.0, 11.2, 14.4, 19.2)
LIMIT, LIFT = 3.0, 0.6  # mm/s at full colour, and the power that lifts weak motion
WIDTH, COLORS = 1200, 256
BAND = (0.05, 0.7)  # Hz, of the spectra


def draw_wavefield(run: Path, path: Path) -> None:
    """Vertical velocity of the surface at four times."""
    from matplotlib.colors import FuncNorm

    seismograms = load_seismograms(run)
    lift = (lambda v: np.sign(v) * np.abs(v) ** LIFT, lambda v: np.sign(v) * np.abs(v) ** (1 / LIFT))
    norm = FuncNorm(lift, -LIMIT, LIMIT, clip=True)
    with load_snapshots(snapshot_files(run)[0]) as reader, style.styled():
        figure = style.new_figure(9.0, 5.5, layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for panel, wanted in zip(panels.flat, SECONDS, strict=True):
            step = int(np.abs(reader.times - wanted).argmin())
            image = _panel(panel, reader, step, norm)
            draw_stations(panel, seismograms, labels=False)
            panel.scatter(0, 0, marker="*", s=120, color=style.PAPER, edgecolor=style.INK, zorder=11)
            panel.set_title(f"{reader.times[step]:.1f} s")
        for panel in panels[-1]:
            panel.set_xlabel("x, East (km)")
        for panel in panels[:, 0]:
            panel.set_ylabel("y, North (km)")
        bar = figure.colorbar(image, ax=panels, shrink=0.6, aspect=30, pad=0.015, extend="both")
        bar.set_ticks([-3, -1, 0, 1, 3])
        bar.outline.set_visible(False)
        bar.set_label("vertical velocity (mm/s)")
        style.save(figure, path)


def _panel(panel: Any, reader: Any, step: int, norm: Any) -> Any:
    x, y = reader.axis("x") / 1000, reader.axis("y") / 1000
    values = 1000 * np.take(reader.read(step, "velocity"), -1, axis=0)[..., 2]
    panel.spines[["top", "right"]].set_visible(True)
    return panel.imshow(
        values,
        origin="lower",
        extent=(x[0], x[-1], y[0], y[-1]),
        norm=norm,
        cmap=style.colormap("wave", style.WAVE_COLORS),
        interpolation="bilinear",
        aspect="equal",
    )


def draw_attenuation(elastic: Path, attenuating: Path, path: Path) -> None:
    """Transverse velocity of three stations with and without attenuation, and the ratio of their amplitude spectra."""
    runs = [load_seismograms(run) for run in (elastic, attenuating)]
    time, distance = runs[0].time, np.linalg.norm(runs[0].positions[:, :2], axis=1)
    order = np.argsort(distance)
    chosen = order[[0, len(order) // 2, -1]]
    with style.styled():
        figure = style.new_figure(9.0, 5.0, layout="constrained")
        panels = figure.subplots(len(chosen), 2, width_ratios=(2, 1), sharex="col")
        for row, station in zip(panels, chosen, strict=True):
            east, north = runs[0].positions[station, :2] / distance[station]
            both = [1000.0 * (north * run.data[station, 0] - east * run.data[station, 1]) for run in runs]
            for data, color, label in zip(both, (style.MUTED, style.S_COLOR), ("elastic", "attenuating"), strict=True):
                row[0].plot(time, data, color=color, linewidth=1.0, label=label)
            row[0].set_title(f"{runs[0].names[station]}, {distance[station] / 1000:.0f} km", loc="left")
            frequency = np.fft.rfftfreq(time.size, time[1] - time[0])
            spectra = [np.abs(np.fft.rfft(data)) for data in both]
            band = (frequency >= BAND[0]) & (frequency <= BAND[1])
            row[1].plot(frequency[band], spectra[1][band] / spectra[0][band], color=style.S_COLOR)
            row[1].axhline(1.0, color=style.FAINT, zorder=0)
            row[1].set_ylim(0.5, 1.1)
        panels[0, 0].legend(loc="upper right", frameon=False)
        panels[0, 1].set_title("ratio of amplitude spectra", loc="left")
        panels[1, 0].set_ylabel("transverse velocity (mm/s)")
        panels[-1, 0].set_xlabel("time (s)")
        panels[-1, 1].set_xlabel("frequency (Hz)")
        style.save(figure, path)


def shrink(source: Path, path: Path) -> None:
    """A picture with fewer points and colours."""
    from PIL import Image

    with Image.open(source) as picture:
        picture = picture.convert("RGB")
        height = round(picture.height * WIDTH / picture.width)
        picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
        palette = picture.quantize(COLORS)
        picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def main(run: Path) -> None:
    """Draw all three."""
    FOLDER.mkdir(exist_ok=True)
    drawn = {figure.name: figure for figure in plot_run(run)}
    for name in ("map", "record_section"):
        shrink(drawn[f"{name}.png"], FOLDER / f"chino_hills_{name}.png")
    draw_wavefield(run, FOLDER / "chino_hills_wavefield.png")
    shrink(FOLDER / "chino_hills_wavefield.png", FOLDER / "chino_hills_wavefield.png")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        target = FOLDER / "chino_hills_attenuation.png"
        draw_attenuation(Path(sys.argv[1]), Path(sys.argv[2]), target)
        shrink(target, target)
    else:
        main(Path(sys.argv[1]))
