"""All runs of this example, and one figure of them: ``python examples/topography/figure.py [FOLDER]``.

The folder is out/topography unless given. Runs that are there and complete are not made again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.figures import style

FILE = Path(__file__).with_name("mountain.yaml")
FLAT = {"domain.topography": None}
RUNS = {
    "mountain": {},
    "flat_spectral_element": FLAT,
    "flat_finite_difference": {**FLAT, "solver.method": "finite_difference"},
}
TITLES = ("Mountain\nspectral elements", "Flat\nspectral elements", "Flat\nfinite differences")
ROWS = {"vertical": (2, 1), "North": (1, 5)}  # component, and how many times larger it is drawn
TIMES_DIFFERENCE = 10


def run_all(folder: Path) -> dict[str, Any]:
    """Seismograms of all runs by name."""
    found = {}
    for name, changes in RUNS.items():
        simulation = lw.Simulation.from_file(FILE, changes)
        try:
            found[name] = lw.load_seismograms(folder / name)
        except lw.LithowaveError:
            found[name] = None
        if found[name] is None or not found[name].complete:
            print(f"{name} ...", flush=True)
            result = simulation.run(output=folder / name, overwrite=True)
            print(f"    {result.report['wall_s']:.0f} s")
            found[name] = result.seismograms
    return found


def misfit(one: np.ndarray, other: np.ndarray) -> float:
    """Relative L2 of all traces together."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def draw(runs: dict[str, Any], path: Path) -> None:
    """Profiles above record sections of the vertical and of the North component."""
    simulation = lw.Simulation.from_file(FILE)
    source = np.array(simulation.point_sources()[0].position)
    positions = np.array([receiver.position for receiver in simulation.receiver_list()])
    distance = np.linalg.norm(positions - source, axis=1)
    x = positions[:, 0] / 1000
    spreading = distance / distance.min()
    motion = {name: np.asarray(seismograms.data) * spreading[:, None, None] for name, seismograms in runs.items()}
    mountain, flat, grid = motion.values()
    scale = 3.0 * (x[1] - x[0]) / np.abs(flat).max()
    recorded = [np.asarray(seismograms.data) for seismograms in runs.values()]
    with style.styled():
        figure = style.new_figure(10.0, 9.5, layout="constrained")
        panels = figure.subplots(3, 3, sharex=True, sharey="row", height_ratios=(1, 2.0, 1.6))
        line = np.linspace(*(end / 1000 for end in simulation.domain.x), 400)
        heights = simulation.domain.surface_height(1000 * line, 0.0 * line) / 1000
        for panel, title, ground, top in zip(
            panels[0], TITLES, (heights, 0 * line, 0 * line), (positions[:, 2] / 1000, 0 * x, 0 * x), strict=True
        ):
            panel.fill_between(line, -3.6, ground, color=style.FAINT)
            panel.plot(line, ground, color=style.INK, linewidth=1.0)
            panel.plot(x, top, "v", color=style.MUTED, markersize=3)
            panel.plot(source[0] / 1000, source[2] / 1000, "*", color=style.S_COLOR, markersize=11)
            panel.set(title=title, ylim=(-3.6, 1.8))
        panels[0, 0].set_ylabel("z (km)")
        time = runs["mountain"].time
        for row, (component, (index, times)) in zip(panels[1:], ROWS.items(), strict=True):
            for panel, values in zip(row, (mountain, flat, grid), strict=True):
                for place, trace in zip(x, values[:, index], strict=True):
                    panel.plot(place + times * scale * trace, time, color=style.INK, linewidth=0.7)
            for place, trace in zip(x, (grid - flat)[:, index], strict=True):
                row[2].plot(place + TIMES_DIFFERENCE * scale * trace, time, color=style.S_COLOR, linewidth=0.6)
            row[0].set(ylabel=f"{component} velocity{f' x {times}' * (times > 1)}: time (s)", ylim=(time[-1], 0))
        panels[1, 2].set_title(
            f"methods differ by {100 * misfit(recorded[2], recorded[1]):.1f}%; red: {TIMES_DIFFERENCE} times that",
            fontsize=8, color=style.S_COLOR,
        )  # fmt: skip
        for panel in panels[-1]:
            panel.set_xlabel("x, East (km)")
        style.save(figure, path)


def main(folder: Path) -> None:
    """Make what is missing, then the figure."""
    runs = run_all(folder)
    path = folder / "topography.png"
    draw(runs, path)
    flat, grid = (np.asarray(runs[name].data) for name in ("flat_spectral_element", "flat_finite_difference"))
    print(f"finite differences against spectral elements, flat ground: {100 * misfit(grid, flat):.2f}% (L2)")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/topography"))
