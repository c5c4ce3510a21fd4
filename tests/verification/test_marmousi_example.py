"""The Marmousi example: its section in SEG-Y files, and a small piece of it whose first waves are known exactly."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.mesh import layered_box
from lithowave.solvers.elements import cell_layers
from water_waves import assert_first_waves

pytest.importorskip("segyio")

FOLDER = Path(__file__).parents[2] / "examples" / "marmousi"
FILE = FOLDER / "marmousi.yaml"
FILES = ("vp", "vs", "rho")
SIGMA = 0.12  # s
NORTH = 1
SMALL = {
    "domain.x": [7800, 9600],
    "domain.y": [-675, 675],
    "domain.z": [-1350, 0],
    "sources.0.position": [8680, 15, -160],
    "sources.0.time_function": {"gaussian": {"sigma": SIGMA}},
    "receivers": [  # none in the element of the source
        {"line": {"prefix": "W", "start": [8320, 15, -90], "end": [8440, 15, -90], "count": 3}},
        {"line": {"prefix": "E", "start": [8920, 15, -90], "end": [9040, 15, -90], "count": 3}},
    ],
    "duration": 1.0,
    "solver.order": 4,
    "solver.max_frequency": None,
    "solver.points_per_wavelength": None,
    "solver.spacing": 225.0,  # half the depth of the water
    "output.snapshots": [],
}


@pytest.fixture(scope="module")
def script():
    """The script that makes the section."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("make_section")
    sys.path.remove(str(FOLDER))
    sys.modules.pop("make_section")


@pytest.fixture(scope="module")
def files(script, tmp_path_factory) -> dict[str, str]:
    """Changes of the description: the files of the section, written for the tests."""
    folder = tmp_path_factory.mktemp("section")
    x, depth, values = script.section()
    for name, one in zip(FILES, values, strict=True):
        script.write(folder / f"{name}.segy", x, depth, one / 1000)
    return {f"material.section.{name}": str(folder / f"{name}.segy") for name in FILES}


def test_the_description_reads_the_section(script, files):
    simulation = lw.Simulation.from_file(FILE, files)
    assert simulation.warnings() == []
    x, depth, values = script.section()
    some, deep = slice(0, None, 97), slice(0, None, 53)
    read = simulation.material.sample(x[some, None], np.zeros(1), -depth[None, deep])
    for one, wanted in zip(read, values, strict=True):
        assert one == pytest.approx(wanted[some, deep], rel=1e-6)
    places = np.array([receiver.position for receiver in simulation.receiver_list()])
    assert places.shape == (337, 3) and np.diff(places[:, 0]) == pytest.approx(50.0)
    assert simulation.shortest_wavelength == pytest.approx(800 / 4.45)


def test_the_built_mesh(files):
    """Planes of its vertices lie at the sea floor, and there are about 380,000 elements."""
    simulation = lw.Simulation.from_file(FILE, files)
    cells = cell_layers(simulation)
    sizes = [(size, size) for size in cells.sizes]
    mesh = layered_box(simulation.domain.x, simulation.domain.y, [*cells.tops, cells.bottom], sizes)
    assert np.abs(mesh.vertices[:, 2] + 450).min() < 2
    assert 12 * mesh.element_count == pytest.approx(380_000, rel=0.03)


@pytest.mark.slow
def test_the_first_waves_of_a_piece(files, tmp_path):
    simulation = lw.Simulation.from_file(FILE, {**files, **SMALL})
    result = simulation.run(output=tmp_path / "run")
    computed, time = np.asarray(result.seismograms.data), np.asarray(result.seismograms.time)
    source, places = simulation.point_sources()[0], result.seismograms.positions
    assert_first_waves(computed, time, source, places, 1010.0, -450.0, SIGMA)
    # The section is the same everywhere across: nothing moves the cable sideways.
    assert np.abs(computed[:, NORTH]).max() < 0.03 * np.abs(computed).max()
