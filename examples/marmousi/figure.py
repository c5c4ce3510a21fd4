"""Draw the shot gather of a run above the section: ``python examples/marmousi/figure.py [RUN FOLDER]``.

The default folder is out/marmousi; the script writes marmousi.png to it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import lithowave as lw
from lithowave.figures import style

GAIN = 1.5  # samples are multiplied by time**GAIN to compensate geometrical spreading
CLIP = 99.0  # percentage of the samples within the color scale,
NEAR = 700.0  # m; samples closer to the source than this are not counted


def draw(simulation: lw.Simulation, run: lw.Seismograms, path: Path) -> None:
    """Draw the vertical velocity versus position and time, and the P-wave velocity of the section."""
    x, time = run.positions[:, 0] / 1000, run.time
    gather = np.asarray(run.data)[:, 2] * time**GAIN
    source = simulation.point_sources()[0].position
    scale = np.percentile(np.abs(gather[np.abs(run.positions[:, 0] - source[0]) > NEAR]), CLIP)
    domain = simulation.domain
    place, z = np.linspace(*domain.x, 851), np.linspace(*domain.z, 351)
    vp = simulation.material.sample(place, np.zeros(1), z[:, None])[0]
    with style.styled():
        figure = style.new_figure(9.0, 8.0, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
        extent = (x[0], x[-1], time[-1], time[0])
        above.imshow(gather.T, aspect="auto", cmap="gray_r", vmin=-scale, vmax=scale, extent=extent)
        above.set(ylabel="time (s)", title=f"vertical velocity times t^{GAIN}")
        colors = below.pcolormesh(place / 1000, z / 1000, vp / 1000, cmap="cividis", rasterized=True)
        figure.colorbar(colors, ax=below, label="vp (km/s)")
        below.plot(source[0] / 1000, source[2] / 1000, "*", color=style.S_COLOR, markersize=11, clip_on=False)
        below.set(xlabel="x (km)", ylabel="z (km)", xlim=np.array(domain.x) / 1000)
        style.save(figure, path)


def main(folder: Path) -> None:
    """Draw the figure of a run."""
    path = folder / "marmousi.png"
    draw(lw.Simulation.from_file(folder / "simulation.yaml"), lw.load_seismograms(folder), path)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/marmousi"))
