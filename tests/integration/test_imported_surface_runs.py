"""The same slope as an imported mesh and as a topography: seismograms and peak motion; what check says of meshes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmsh_files
import lithowave as lw
from lithowave import InputError
from lithowave.mesh import MeshFaces, layered_box, split_hexahedra, write_gmsh
from lithowave.output import load_peak_motion
from lithowave.run import check_simulation, run_simulation

METHODS = {"spectral_element": {"degree": 4}, "discontinuous_galerkin": {"order": 3}}
LARGEST = {"spectral_element": 0.008, "discontinuous_galerkin": 0.03}  # difference of the seismograms over the peak
X, Y, Z = (-900, 900), (-900, 900), (-1800, 0)
SOURCE: dict[str, Any] = {
    "moment_tensor": {"xx": 1e15, "yy": 1e15, "zz": 1e15}, "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.6}},
}  # fmt: skip


def slope(x: Any, y: Any) -> Any:
    """Return the elevation of a slope, which all elements follow exactly."""
    return 300.0 + 0.1 * x + 0.06 * y


def simulation(folder: Path, method: str, imported: bool, **changes: Any) -> lw.Simulation:
    solver: dict[str, Any] = {"method": method, **METHODS[method]}
    domain: dict[str, Any] = {"x": X, "y": Y, "z": Z}
    if imported:
        mesh = layered_box(X, Y, [slope, -1800.0], [(450, 500)])
        path = folder / "slope.msh"
        if method == "spectral_element":
            solver["mesh"] = gmsh_files.write_gmsh(path, mesh, ["rock"], {})
        else:
            solver["mesh"] = write_gmsh(path, split_hexahedra(mesh))
    else:
        x = np.linspace(*X, 61)
        np.savez(folder / "slope.npz", x=x, y=x, elevation=slope(x, x[:, None]), axes=["y", "x"])
        domain["topography"], solver["spacing"] = folder / "slope.npz", 450
    given = {
        "title": "slope", "domain": domain, "material": {"homogeneous": {"vp": 3200, "vs": 1600, "rho": 2300}},
        "sources": [{"longitude": 0, "latitude": 0, "depth": 900, **SOURCE}],
        "receivers": [{"name": "A", "position": [0, 0]}, {"name": "B", "position": [450, 300]}],
        "duration": 1.1, "solver": solver, "boundaries": {"absorption": "stacey"},
        "output": {"sampling_interval": 0.05, "peak_motion": True},
    }  # fmt: skip
    given["domain"]["crs"] = {"longitude": 0, "latitude": 0}
    return lw.Simulation(**{**given, **changes})


@pytest.mark.parametrize("method", METHODS)
def test_the_slope_of_a_mesh_is_that_of_the_topography(tmp_path: Path, method: str) -> None:
    """Measured: 0.005 (hexahedra) and 0.02 (tetrahedra) of the peak; 0.43 and 0.45 if depths count from z = 0."""
    found, peaks = [], []
    for imported in (True, False):
        made = simulation(tmp_path, method, imported)
        result = run_simulation(made, tmp_path / f"run_{imported}", backend="cpu")
        found.append(result.seismograms.data)
        peaks.append(load_peak_motion(result.directory))
        assert made.point_sources()[0].position[2] == pytest.approx(-600.0, abs=1e-9)
    assert np.abs(found[0] - found[1]).max() < LARGEST[method] * np.abs(found[1]).max()
    maps = [next(iter(peak.pgv.values())) for peak in peaks]
    assert all((one > 0).all() for one in maps)  # also at the ends of the mesh
    assert maps[0].max() == pytest.approx(maps[1].max(), rel=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_check_says_what_a_run_says(tmp_path: Path, method: str) -> None:
    """A hole in the mesh has no elements; the ends and the surface of the mesh do not show it."""
    mesh = layered_box(X, Y, [-100.0, -1900.0], [(300, 300)])
    centers = mesh.vertices[mesh.elements].mean(axis=1)
    shaft = mesh.part(np.flatnonzero((np.abs(centers[:, :2]).max(axis=1) > 160) | (centers[:, 2] > -600)))
    path = tmp_path / "low.msh"
    if method == "spectral_element":
        gmsh_files.write_gmsh(path, shaft, ["rock"], {})
    else:
        outer = MeshFaces.of(shaft.elements).exterior
        write_gmsh(path, split_hexahedra(replace(shaft, boundaries={"free": outer})))
    solver = {"method": method, **METHODS[method], "mesh": path}
    for key, entry in (("receivers", {"name": "A"}), ("sources", SOURCE)):
        places = {"sources": [{**SOURCE, "position": [500, 500, -900]}], key: [{**entry, "position": [10, 20, -1200]}]}
        made = simulation(tmp_path, method, True, solver=solver, **places)
        texts = []
        for call in (partial(check_simulation, made, measure=False), partial(made.run, output=tmp_path / key)):
            with pytest.raises(InputError, match="is in no element of the mesh") as caught:
                call()
            texts.append(str(caught.value))
        assert texts[0] == texts[1] and texts[0].startswith(key)
