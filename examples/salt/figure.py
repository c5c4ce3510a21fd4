"""Draw the shot gather of a run above the model: ``python examples/salt/figure.py [RUN FOLDER]``.

The default folder is out/salt; the script writes salt.png to it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import geometry
import numpy as np

import lithowave as lw
from lithowave.figures import style

GAIN = 1.5  # samples are multiplied by time**GAIN to compensate geometrical spreading
CLIP = 99.0  # percentage of the samples within the color scale,
NEAR = 700.0  # m; samples closer to the source than this are not counted
COLORS = {
    "water": "#d7e9f7", "zone_1": "#f4ead5", "zone_2": "#e9d8b4",
    "zone_3": "#d9c295", "zone_4": "#c4a877", "salt": "#d98a8f",
}  # fmt: skip


def draw(run: lw.Seismograms, path: Path) -> None:
    """Draw the vertical velocity versus position and time, and the section of the model below the cable."""
    x, time = run.positions[:, 0] / 1000, run.time
    gather = np.asarray(run.data)[:, 2] * time**GAIN
    scale = np.percentile(np.abs(gather[np.abs(run.positions[:, 0]) > NEAR]), CLIP)
    with style.styled():
        figure = style.new_figure(7.5, 8.5, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
        extent = (x[0], x[-1], time[-1], time[0])
        above.imshow(gather.T, aspect="auto", cmap="gray_r", vmin=-scale, vmax=scale, extent=extent)
        above.set(ylabel="time (s)", title=f"vertical velocity times t^{GAIN}")
        line = np.linspace(*geometry.X, 541)
        depths = [geometry.interface(number, line, 0 * line) / 1000 for number in range(len(geometry.LEVELS))]
        for name, top, bottom in zip(geometry.LAYERS, depths[:-1], depths[1:], strict=True):
            below.fill_between(line / 1000, bottom, top, color=COLORS[name], linewidth=0)
        grid_x, grid_z = np.meshgrid(line, np.linspace(geometry.BOTTOM, 0, 301))
        inside = geometry.salt(grid_x, 0 * grid_x, grid_z)
        below.contourf(grid_x / 1000, grid_z / 1000, inside, [-np.inf, 0], colors=[COLORS["salt"]])
        below.plot(x[::8], run.positions[::8, 2] / 1000, "v", color=style.MUTED, markersize=3)
        below.plot(0, -0.01, "*", color=style.S_COLOR, markersize=11)
        below.set(xlabel="x, East (km)", ylabel="z (km)", xlim=(geometry.X[0] / 1000, geometry.X[1] / 1000))
        style.save(figure, path)


def main(folder: Path) -> None:
    """Draw the figure of a run."""
    path = folder / "salt.png"
    draw(lw.load_seismograms(folder), path)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/salt"))
