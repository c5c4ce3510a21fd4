"""The Bolivia example: its mesh, and the permanent displacement in the small form of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.spectral_element.meshing import built_box

FOLDER = Path(__file__).parents[2] / "examples" / "bolivia"
OFFSET = {"north": 7.3e-3, "up": -6.6e-3}  # m, 5 degrees south of the epicenter: observed, and by normal modes


def test_the_mesh_has_the_published_number_of_elements() -> None:
    simulation = lw.Simulation.from_file(FOLDER / "bolivia.yaml")
    assert built_box(simulation).plan.element_count == 655_360
    assert len(simulation.acquisition.receivers) == 41
    assert simulation.acquisition.sources[0].position == pytest.approx((0.0, 0.0, -647_100.0), abs=1.0)


@pytest.mark.slow
def test_the_permanent_displacement_is_the_published_one(tmp_path: Path) -> None:
    simulation = lw.Simulation.from_file(FOLDER / "small.yaml", {"output.formats": []})
    seismograms = simulation.run(output=tmp_path / "run").seismograms
    late = seismograms.time > 0.6 * simulation.duration
    east, north, up = seismograms.data[0][:, late].mean(axis=1)
    assert north == pytest.approx(OFFSET["north"], rel=0.05)
    assert up == pytest.approx(OFFSET["up"], rel=0.05)
    assert abs(east) < 0.02 * abs(up)
    # The pattern of the moment tensor: stations on both sides are moved away from each other.
    names = [name.split(".")[1] for name in seismograms.names]
    opposite = seismograms.data[names.index("N05")][:, late].mean(axis=1)
    assert np.sign(opposite[2]) == -np.sign(up)
