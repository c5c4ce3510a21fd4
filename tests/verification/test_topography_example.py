"""A coarse form of the topography example: both methods agree on flat ground, and a mountain changes what they see.

Half the frequency of the example, so that the three runs take seconds.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from verification_tools import relative_l2, velocities

FOLDER = Path(__file__).parents[2] / "examples" / "topography"
FILE = FOLDER / "mountain.yaml"
SHORT = {
    "duration": 5.0,
    "solver.max_frequency": 1.25,
    "sources.0.time_function": {"gaussian": {"sigma": 0.32}},
    "output.sampling_interval": 0.1,
    "output.snapshots": {"interval": 0.5, "plane": {"y": 0}},
}
FLAT = {**SHORT, "domain.topography": None}
GRID = {**FLAT, "solver.method": "finite_difference"}
LIMIT = 0.015  # relative L2 of all stations together; with the Stacey condition instead of layers it is 0.14
EAST, NORTH, UP = range(3)


@pytest.fixture(scope="module")
def flat() -> np.ndarray:
    return velocities(lw.Simulation.from_file(FILE, FLAT))[1]


def test_the_example_is_accepted_without_a_warning() -> None:
    simulation = lw.Simulation.from_file(FILE)
    assert simulation.warnings() == []
    peak = max(receiver.position[2] for receiver in simulation.receiver_list())
    assert 1000.0 < peak == pytest.approx(float(simulation.domain.surface_height(0.0, 0.0)))
    for changes in (FLAT, GRID):
        assert {receiver.position[2] for receiver in lw.Simulation.from_file(FILE, changes).receiver_list()} == {0.0}


def test_the_heights_are_those_of_the_script() -> None:
    spec = importlib.util.spec_from_file_location("make_topography", FOLDER / "make_topography.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    stored = np.load(FOLDER / "mountain.npz")
    heights = script.elevation(*np.meshgrid(stored["x"], stored["y"]))
    assert stored["elevation"] == pytest.approx(heights, abs=0.051)


@pytest.mark.slow
def test_both_methods_on_flat_ground(flat: np.ndarray) -> None:
    grid = velocities(lw.Simulation.from_file(FILE, GRID))[1]
    assert relative_l2(flat, grid) <= LIMIT
    # An explosion in a medium of one kind sends no transverse motion along the line.
    assert np.abs(flat[:, NORTH]).max() < 1e-3 * np.abs(flat).max()


@pytest.mark.slow
def test_the_mountain(flat: np.ndarray, tmp_path: Path) -> None:
    result = lw.Simulation.from_file(FILE, SHORT).run(output=tmp_path / "mountain")
    mountain = np.asarray(result.seismograms.data)
    assert mountain.shape == flat.shape and np.isfinite(mountain).all()
    assert relative_l2(mountain, flat) > 0.3
    assert np.abs(mountain[:, NORTH]).max() > 0.02 * np.abs(mountain).max()
    # The peak hears the explosion later than the flat ground: it is further away.
    middle = len(mountain) // 2
    first = [int(np.argmax(np.abs(one[middle, UP]))) for one in (mountain, flat)]
    assert first[0] > first[1]
    peaks = lw.load_peak_motion(tmp_path / "mountain")
    # Elements of one kilometre cut the crest: a few points of the map lie above them.
    assert all(np.isfinite(values).mean() > 0.99 and np.nanmax(values) > 0.0 for values in peaks.pgv.values())
    [snapshots] = (tmp_path / "mountain" / "snapshots").iterdir()
    assert snapshots.stat().st_size > 0
