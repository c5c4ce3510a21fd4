"""Runs with spectral elements from the description to the files: meshes read, topography, refusals, restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from gmsh_files import write_gmsh
from lithowave import InputError
from lithowave.mesh import HexahedralMesh, layered_box
from lithowave.output import load_snapshots
from lithowave.run import run_simulation
from verification_tools import make, relative_l2, velocities

SOFT, ROCK = {"vp": 2400, "vs": 1200, "rho": 2000}, {"vp": 5000, "vs": 2900, "rho": 2600}
SURFACES = {"free": ["z_max"], "absorbing": ["x_min", "x_max", "y_min", "y_max"], "bottom": ["z_min"]}


def content(**changes: object) -> dict:
    data = {
        "title": "small",
        "domain": {"x": [-600, 600], "y": [-600, 600], "z": [-800, 0]},
        "boundaries": {"absorption": "stacey"},
        "material": {"layers": [{"top": 0, **SOFT}, {"top": -400, **ROCK}]},
        "sources": [
            {
                "position": [30, -20, -410],
                "double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4},
                "time_function": {"gaussian": {"sigma": 0.06, "delay": 0.3}},
            }
        ],
        "receivers": [
            {"network": "XX", "name": "S01", "position": [330, 250, 0]},
            {"network": "XX", "line": {"prefix": "L", "start": [-500, 0, -100], "end": [500, 0, -100], "count": 3}},
        ],
        "duration": 0.8,
        "solver": {"method": "spectral_element", "spacing": 400, "degree": 4},
        "compute": {"backend": "cpu", "precision": "single", "threads": 1},
        "output": {"sampling_interval": 0.02},
    }
    return {**data, **changes}


def small(**changes: object) -> lw.Simulation:
    return lw.Simulation(**content(**changes))


def layers_mesh() -> HexahedralMesh:
    return layered_box((-600, 600), (-600, 600), [0.0, -400.0, -800.0], [(400, 400), (400, 400)])


def with_mesh(path: Path, **changes: object) -> lw.Simulation:
    groups = {"soft": SOFT, "rock": ROCK}
    solver = {"method": "spectral_element", "mesh": path, "degree": 4}
    return small(**{"solver": solver, "material": {"groups": groups}, **changes})


# --- meshes that are read


def test_a_mesh_from_a_file_is_as_good_as_a_built_one(tmp_path: Path) -> None:
    """The same layers, once built and once read with groups and named surfaces: the same seismograms."""
    path = write_gmsh(tmp_path / "layers.msh", layers_mesh(), ["soft", "rock"], SURFACES)
    built = velocities(small(boundaries={"absorption": "stacey"}))[1]
    read = velocities(with_mesh(path))[1]
    assert np.abs(built).max() > 0
    assert relative_l2(read, built) < 1e-4  # corrected up to the frequencies of the source or of the mesh
    swapped = with_mesh(path, material={"groups": {"soft": ROCK, "rock": SOFT}})
    assert relative_l2(velocities(swapped)[1], built) > 0.1


def refused(folder: Path, mesh: Path, *words: str, **changes: object) -> None:
    """The run stops with a message that names the mesh, and leaves no seismograms."""
    with pytest.raises(InputError) as caught:
        run_simulation(with_mesh(mesh, **changes), folder / "run")
    text = str(caught.value)
    assert all(word in text.lower() for word in words), text
    assert not (folder / "run" / "seismograms.h5").exists()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"soft": SOFT}, ["material.groups", "'rock'", "groups of the mesh: soft, rock"]),
        ({"soft": SOFT, "rock": ROCK, "salt": ROCK}, ["material.groups.salt", "no such group"]),
    ],
)
def test_groups_must_be_those_of_the_mesh(tmp_path: Path, groups: dict, words: list) -> None:
    path = write_gmsh(tmp_path / "layers.msh", layers_mesh(), ["soft", "rock"], SURFACES)
    refused(tmp_path, path, *words, material={"groups": groups})


# --- topography


def hill(folder: Path, extent: float = 700.0) -> Path:
    x = np.linspace(-extent, extent, 29)
    height = 60 * np.exp(-(x**2 + (x[:, None] - 100) ** 2) / 450.0**2)
    np.savez(folder / "hill.npz", x=x, y=x, elevation=height, axes=["y", "x"])
    return folder / "hill.npz"


@pytest.mark.parametrize(
    ("height", "tops", "materials"),
    [
        (150.0, [500, 200, -300], [1, 2]),  # the layer that ends at 200 m is all in the air
        (-50.0, [0, -20, -300], [1, 2]),
        (300.0, [500, -300], [0, 1]),
    ],
)
def test_layers_above_the_ground_have_no_elements(
    tmp_path: Path, height: float, tops: list[float], materials: list[int]
) -> None:
    x = np.linspace(-700, 700, 8)
    np.savez(tmp_path / "flat.npz", x=x, y=x, elevation=np.full((8, 8), height), axes=["y", "x"])
    layers = [{"top": top, **(SOFT if top > -300 else ROCK)} for top in tops]
    domain = {**content()["domain"], "topography": tmp_path / "flat.npz"}
    source = {**content()["sources"][0], "position": [30, -20, -410]}
    plan, _ = make(small(domain=domain, material={"layers": layers}, sources=[source], receivers=[]))
    assert np.unique(plan.materials.number).tolist() == materials
    assert plan.mesh.vertices[:, 2].max() == pytest.approx(height)
    depth = plan.mesh.vertices[plan.mesh.elements][:, :, 2].mean(axis=1)
    assert ((depth < -300) == (plan.materials.number == materials[1])).all()


def test_a_layer_that_comes_to_the_surface_is_refused(tmp_path: Path) -> None:
    layers = [{"top": 500, **SOFT}, {"top": 30, **SOFT}, {"top": -300, **ROCK}]
    domain = {**content()["domain"], "topography": hill(tmp_path)}
    with pytest.raises(InputError, match=r"material.layers\[1\].top: 30 m crosses the topography"):
        make(small(domain=domain, material={"layers": layers}))


def test_flat_topography_changes_nothing_and_a_hill_does(tmp_path: Path) -> None:
    domain, flat = content()["domain"], np.linspace(-700, 700, 5)
    np.savez(tmp_path / "flat.npz", x=flat, y=flat, elevation=np.zeros((5, 5)), axes=["y", "x"])
    stations = [{"name": "A", "position": [330, 250]}, {"name": "B", "position": [0, 80]}]
    found = {
        name: velocities(small(domain={**domain, **more}, receivers=stations))[1]
        for name, more in {
            "none": {}, "flat": {"topography": tmp_path / "flat.npz"}, "hill": {"topography": hill(tmp_path)},
        }.items()
    }  # fmt: skip
    assert relative_l2(found["flat"], found["none"]) < 1e-5
    assert 0.05 < relative_l2(found["hill"], found["none"]) < 2


# --- displacement, velocity and acceleration


def test_quantities_are_derivatives_of_each_other(tmp_path: Path) -> None:
    found = {}
    for quantity in ("displacement", "velocity", "acceleration"):
        output = {"sampling_interval": 0.002, "quantity": quantity}
        run_simulation(small(output=output), tmp_path / quantity)
        found[quantity] = lw.load_seismograms(tmp_path / quantity).data
    rate = 1 / 0.002
    slope = (found["displacement"][..., 2:] - found["displacement"][..., :-2]) * rate / 2
    assert relative_l2(slope, found["velocity"][..., 1:-1]) < 2e-3
    slope = (found["velocity"][..., 2:] - found["velocity"][..., :-2]) * rate / 2
    assert relative_l2(slope, found["acceleration"][..., 1:-1]) < 2e-3


# --- restart


def everything(folder: Path, **changes: object) -> lw.Simulation:
    """A hill, a layer around the box, snapshots of the volume and of the surface, peaks, checkpoints."""
    output = {
        "sampling_interval": 0.02, "quantity": "acceleration", "stress": True, "pressure": True,
        "snapshots": [
            {"interval": 0.08, "plane": {"z": -200}, "fields": ["velocity"]},
            {"interval": 0.2, "volume": True, "fields": ["stress", "pressure"]},
        ],
        "peak_motion": True, "checkpoint": {"interval": 0.3},
    }  # fmt: skip
    domain = {**content()["domain"], "topography": hill(folder)}
    return small(domain=domain, output=output, receivers=[{"name": "A", "position": [330, 250]}], **changes)


def test_snapshots_and_peaks_are_finite_where_there_is_ground(tmp_path: Path) -> None:
    run_simulation(everything(tmp_path), tmp_path / "run")
    peaks = lw.load_peak_motion(tmp_path / "run" / "peak_motion.h5")
    for maps in (peaks.pgv, peaks.pgd):
        assert all(np.isfinite(values).all() and values.max() > 0 for values in maps.values())
    [volume] = [path for path in (tmp_path / "run" / "snapshots").iterdir() if "volume" in path.name]
    with load_snapshots(volume) as snapshots:
        pressure = snapshots.read(len(snapshots) - 1, "pressure")
    # Planes from the bottom to the highest point of the hill: all ground below, little of it on top.
    finite = np.isfinite(pressure).mean(axis=(1, 2))
    assert finite[0] == 1 and finite[len(finite) // 2] == 1 and finite[-1] < 0.5
