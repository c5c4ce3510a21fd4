"""The salt example: its ground, its mesh, and a small piece of it whose first waves are known exactly."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.mesh import face_vertices, write_gmsh
from water_waves import assert_first_waves

FOLDER = Path(__file__).parents[2] / "examples" / "salt"
FILE = FOLDER / "salt.yaml"
SIGMA = 0.12  # s
SMALL = {
    "domain.x": [-720, 720],
    "domain.y": [-720, 720],
    "sources.0.position": [35, 20, -160],
    "sources.0.time_function": {"gaussian": {"sigma": SIGMA}},
    "receivers": [  # none in the element of the source
        {"line": {"prefix": "W", "start": [-325, 45, -90], "end": [-205, 45, -90], "count": 3}},
        {"line": {"prefix": "E", "start": [275, 45, -90], "end": [395, 45, -90], "count": 3}},
    ],
    "duration": 1.0,
    "solver.order": 4,
    "solver.max_frequency": None,
    "output.formats": [],
    "output.snapshots": [],
}


@pytest.fixture
def scripts(monkeypatch):
    """The modules of the example."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("geometry", "make_mesh"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = importlib.import_module("geometry"), importlib.import_module("make_mesh")
    yield made
    for name in ("geometry", "make_mesh"):
        sys.modules.pop(name, None)


def volumes_of_formulas(geometry) -> np.ndarray:
    """Volume (6,), m3, of each material by a regular grid of points."""
    steps = (90, 90, 140)
    ends = (geometry.X, geometry.Y, (geometry.BOTTOM, 0.0))
    axes = [low + (high - low) * (np.arange(n) + 0.5) / n for (low, high), n in zip(ends, steps, strict=True)]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    layer = sum((z < geometry.interface(number, x, y)).astype(int) for number in range(1, len(geometry.LAYERS)))
    material = np.where(geometry.salt(x, y, z) < 0, len(geometry.LAYERS), layer)
    whole = np.prod([high - low for low, high in ends])
    return np.bincount(material.ravel(), minlength=6) * whole / material.size


def test_the_mesh_has_the_shape_of_the_formulas(scripts):
    geometry, make_mesh = scripts
    mesh = make_mesh.sized(60_000)
    assert mesh.element_count == pytest.approx(60_000, rel=0.06)
    assert mesh.groups == ("water", "zone_1", "zone_2", "zone_3", "zone_4", "salt")
    volumes = np.bincount(mesh.materials, mesh.volumes())
    expected = volumes_of_formulas(geometry)
    assert volumes[:-1] == pytest.approx(expected[:-1], rel=0.01)
    assert volumes[-1] == pytest.approx(expected[-1], rel=0.04)
    neighbors = mesh.neighbors
    on_floor = (mesh.materials == 0)[:, None] & (neighbors >= 0) & (mesh.materials[neighbors // 4] == 1)
    x, y, z = mesh.vertices[face_vertices(mesh, np.argwhere(on_floor))].reshape(-1, 3).T
    assert len(z) > 1000 and z == pytest.approx(geometry.interface(1, x, y), abs=1e-6)
    assert mesh.insphere_radii().min() > 0.02 * np.cbrt(mesh.volumes().mean())
    size = np.cbrt(12 * 13_500 * 13_500 * 4200 / 60_000)
    told = re.search(r"8 points in the shortest wavelength at ([\d.]+) Hz", make_mesh.summary(mesh))
    assert float(told[1]) == pytest.approx(5 * 1500 / (8 * size), rel=0.1)


def test_the_example_is_accepted_without_a_warning(scripts, tmp_path):
    _, make_mesh = scripts
    path = write_gmsh(tmp_path / "salt.msh", make_mesh.salt_mesh(900.0))
    simulation = lw.Simulation.from_file(FILE, {"solver.mesh": str(path)})
    assert simulation.warnings() == []
    places = np.array([receiver.position for receiver in simulation.receiver_list()])
    assert places.shape == (192, 3) and np.diff(places[:, 0]) == pytest.approx(50.0) and (places[:, 2] == -5).all()
    assert sum(places[:, 0]) == pytest.approx(0.0, abs=1e-6)
    assert simulation.shortest_wavelength == pytest.approx(1500 / 3.1)


@pytest.mark.slow
def test_the_first_waves_of_a_piece(scripts, monkeypatch, tmp_path):
    geometry, make_mesh = scripts
    for name in ("X", "Y"):
        monkeypatch.setattr(geometry, name, (-720.0, 720.0))
    path = write_gmsh(tmp_path / "salt.msh", make_mesh.salt_mesh(240.0))
    simulation = lw.Simulation.from_file(FILE, {**SMALL, "solver.mesh": str(path)})
    result = simulation.run(output=tmp_path / "run")
    computed, time = np.asarray(result.seismograms.data), np.asarray(result.seismograms.time)
    floor = geometry.interface(1, *np.meshgrid(np.linspace(-400, 400, 17), np.linspace(-400, 400, 17))).max()
    source, places = simulation.point_sources()[0], result.seismograms.positions
    assert_first_waves(computed, time, source, places, 1020.0, floor, SIGMA)
