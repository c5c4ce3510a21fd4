"""The free surface of an imported mesh: elevations, and positions relative to it in all files that state them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_quakeml import EVENT, quakeml
from test_stationxml import channel, document, station

import gmsh_files
import lithowave as lw
from lithowave import InputError, ResourceError
from lithowave.mesh import FreeSurface, HexahedralMesh, MeshOutline, curved, layered_box, split_hexahedra, write_gmsh
from lithowave.mesh import imported as imported_meshes

ROCK = {"vp": 3200, "vs": 1600, "rho": 2300}
BOTTOM = -3000.0
KINDS = {  # coefficients of x^2 and xy: elements of each kind follow the surface exactly, and so does the topography
    "hexahedra": (0.0, 2e-5), "curved": (-3e-5, 2e-5), "tetrahedra": (0.0, 0.0),
}  # fmt: skip
METHODS = {"hexahedra": "spectral_element", "curved": "spectral_element", "tetrahedra": "discontinuous_galerkin"}


def elevation(kind: str, x: Any, y: Any) -> Any:
    square, mixed = KINDS[kind]
    return 120.0 + 0.05 * x - 0.03 * y + square * x * x + mixed * x * y


def mesh_of(kind: str) -> Any:
    box = layered_box((-1500, 1500), (-1500, 1500), [0.0, BOTTOM], [(500, 1000)])

    def raised(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[Any, ...]:
        return 0.0, 0.0, elevation(kind, x, y) * (z - BOTTOM) / -BOTTOM

    if kind == "curved":
        return curved(box, raised)
    box = replace(box, vertices=box.vertices + np.stack(np.broadcast_arrays(*raised(*box.vertices.T)), axis=-1))
    return split_hexahedra(box) if kind == "tetrahedra" else box


def written(folder: Path, kind: str, mesh: Any = None) -> Path:
    mesh = mesh_of(kind) if mesh is None else mesh
    if isinstance(mesh, HexahedralMesh):
        return gmsh_files.write_gmsh(folder / f"{kind}.msh", mesh, ["rock"], {})
    return write_gmsh(folder / f"{kind}.msh", mesh)


def parts(folder: Path, kind: str, imported: bool) -> dict[str, Any]:
    """The domain and the solver of the same surface, as an imported mesh or as a topography."""
    domain: dict[str, Any] = {"x": [-1500, 1500], "y": [-1500, 1500], "z": [BOTTOM, 0]}
    domain["crs"] = {"longitude": 0.0, "latitude": 0.0}
    solver: dict[str, Any] = {"method": METHODS[kind], "max_frequency": 1.0}
    if imported:
        solver["mesh"] = written(folder, kind)
    else:
        x = np.linspace(-1500, 1500, 13)
        np.savez(folder / "t.npz", x=x, y=x, elevation=elevation(kind, x, x[:, None]), axes=["y", "x"])
        domain["topography"] = folder / "t.npz"
    return {"domain": domain, "solver": solver}


SOURCE = {"force": [0, 0, 1], "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.5}}}
RECEIVERS = {
    "point": {"name": "A", "position": [310, -170]},
    "line": {"line": {"prefix": "L", "start": [-700, -1500], "end": [1500, 400], "count": 12}},
    "plane": {"plane": {"prefix": "P", "start": [-1500, -1500], "end": [1500, 1500], "counts": [4, 5]}},
    "geographic": {"name": "A", "longitude": 0.004, "latitude": -0.003, "depth": 40},
    "STATIONS": {"file": "STATIONS"},
    "cartesian STATIONS": {"file": "LOCAL", "coordinates": "cartesian"},
    "StationXML": {"file": "stations.xml"},
    "FDSN text": {"file": "stations.txt"},
    "CSV": {"file": "stations.csv"},
    "SEG-Y": {"file": "line.segy", "at_surface": True},
}
SOURCES = {
    "geographic": {"longitude": 0.004, "latitude": -0.003, "depth": 700, **SOURCE},
    "sea level": {"longitude": 0.004, "latitude": -0.003, "depth": 700, "depth_origin": "sea_level", **SOURCE},
    "CMTSOLUTION": {"file": "CMTSOLUTION"},
    "FORCESOLUTION": {"file": "FORCESOLUTION", "time_function": SOURCE["time_function"]},
    "QuakeML": {"file": "event.xml"},
    "SRF": {"file": "fault.srf"},
}
SHOTS = {
    "point": {"position": [310, -170], "depth": 25},
    "line": {"line": {"start": [-700, -1400], "end": [1300, 400], "count": 3}, "depth": 5},
    "CSV": {"file": "shots.csv"},
    "SEG-Y": {"file": "line.segy", "at_surface": True},
}

FILES = {
    "STATIONS": "A XX -0.003 0.004 0.0 15.0\nB XX 0.007 -0.002 0.0 0.0\n",
    "LOCAL": "A XX -700 310 0.0 15.0\nB XX 1500 -1500 0.0 0.0\n",
    "stations.xml": document(station("A", channel(latitude=-0.003, longitude=0.004, depth=20.0), -0.003, 0.004)),
    "stations.txt": "#Network|Station|Latitude|Longitude|Elevation|SiteName|StartTime|EndTime\n"
    "XX|A|-0.003|0.004|0|x|2000-01-01T00:00:00|\n",
    "stations.csv": "station,x,y,depth\nA,310,-170,12\nB,-900,400,0\n",
    "shots.csv": "name,x,y,depth\nS1,310,-170,12\nS2,-900,400,3\n",
    "CMTSOLUTION": "PDE 2001 01 01 00 00 00.00 0 0 2 1 1 test\nevent name: test\ntime shift: 0.0\nhalf duration: 0.5\n"
    "latorUTM: -0.003\nlongorUTM: 0.004\ndepth: 0.7\nMrr: 1e22\nMtt: 1e22\nMpp: 1e22\nMrt: 0\nMrp: 0\nMtp: 0\n",
    "FORCESOLUTION": "FORCE  001\ntime shift: 0.0\nf0: 1.0\nlatorUTM: -0.003\nlongorUTM: 0.004\ndepth: 0.7\n"
    "factor force source: 1.d10\ncomponent dir vect source E: 0.d0\ncomponent dir vect source N: 0.d0\n"
    "component dir vect source Z_UP: 1.d0\n",
    "event.xml": quakeml(
        EVENT.replace("33.949", "-0.003").replace("-117.766", "0.004").replace("15.5e3", "700")
    ),
    "fault.srf": "2.0\nPOINTS 1\n0.004 -0.003 0.7 0 90 4.0e8 0.0 0.1 3.5e5 2.7\n0 10 3 0 0 0 0\n0 90 10\n",
}  # fmt: skip


def folder_with(folder: Path, *names: Any) -> Path:
    for name in names:
        if name in FILES:
            (folder / name).write_text(FILES[name], encoding="utf-8")
    if "line.segy" in names:
        pytest.importorskip("segyio")
        from test_segy_geometry import write

        write(folder / "line.segy", groups=[(100 * k, 250) for k in range(-5, 6)])
    return folder


def both(folder: Path, kind: str, **changes: Any) -> list[lw.Simulation]:
    """The simulations with the mesh and with the topography."""
    made = []
    for imported in (True, False):
        given = {
            "title": "x", "material": {"homogeneous": ROCK}, "duration": 4.0,
            "sources": [{"position": [0, 0, -900], **SOURCE}], **parts(folder, kind, imported), **changes,
        }  # fmt: skip
        made.append(lw.Simulation(**given))
    return made


def absolute(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, **({"file": folder / entry["file"]} if "file" in entry else {})}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RECEIVERS)
def test_receivers_are_those_of_the_topography(tmp_path: Path, kind: str, name: str) -> None:
    entry = absolute(folder_with(tmp_path, RECEIVERS[name].get("file")), RECEIVERS[name])
    found = [[one.position for one in each.receiver_list()] for each in both(tmp_path, kind, receivers=[entry])]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)
    x, y, z = np.array(found[0]).T
    assert (np.abs(z) > 1.0).any() and ((z <= elevation(kind, x, y) + 1e-8) & (z > elevation(kind, x, y) - 50)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_those_of_the_topography(tmp_path: Path, kind: str, name: str) -> None:
    entry = absolute(folder_with(tmp_path, SOURCES[name].get("file")), SOURCES[name])
    found = [each.point_sources()[0].position for each in both(tmp_path, kind, sources=[entry])]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)
    x, y, z = found[0]
    assert z == pytest.approx(-700 + (name != "sea level") * elevation(kind, x, y), abs=1e-8)


@pytest.mark.parametrize("name", SHOTS)
def test_shots_are_those_of_the_topography(tmp_path: Path, name: str) -> None:
    entry = absolute(folder_with(tmp_path, SHOTS[name].get("file")), SHOTS[name])
    made = both(tmp_path, "hexahedra", sources=[{"position": [0, 0, -9], **SOURCE}], survey={"shots": [entry]})
    found = [[shot.position for shot in each.survey.shot_list(each.domain)] for each in made]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)
    assert made[0].shot(1).point_sources()[0].position == found[0][0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_surface_is_that_of_the_elements(kind: str) -> None:
    """Also on edges and at corners of the faces, and beside them as at the nearest point of the rim."""
    mesh = mesh_of(kind)
    surface = MeshOutline.of(mesh, ["z_max"], Path("a.msh")).surface
    assert surface is not None and surface.is_top
    random = np.random.default_rng(4).uniform(-1500, 1500, (2, 3000))
    grid = np.stack(np.meshgrid(*[np.linspace(-1500, 1500, 13)] * 2)).reshape(2, -1)
    x, y = np.concatenate([random, grid], axis=1)
    assert surface.covers(x, y).all()
    np.testing.assert_allclose(surface(x, y), elevation(kind, x, y), rtol=0, atol=1e-9)
    assert surface(x[:6].reshape(2, 3), y[:3]).shape == (2, 3)
    outside = np.array([[-1600.0, 40.0], [1700.0, 1800.0], [20.0, -9000.0]])
    assert not surface.covers(*outside.T).any()
    nearest = np.clip(outside, -1500, 1500).T
    np.testing.assert_allclose(surface(*outside.T), elevation(kind, *nearest), atol=1.0 if kind == "curved" else 1e-9)


def test_the_highest_of_several_faces_counts() -> None:
    """A hole under the surface has a floor that points upwards as well; a vertical face does not."""
    box = layered_box((0, 300), (0, 300), [0.0, -300.0], [(100, 100)])
    centers = box.vertices[box.elements].mean(axis=1)
    kept = np.abs(centers - [150, 150, -150]).max(axis=1) > 10
    holed = box.part(np.flatnonzero(kept))
    first = MeshOutline.of(replace(holed, boundaries={"free": box_exterior(holed)}), ["free"], Path("a.msh"))
    assert first.surface is not None and len(first.surface.nodes) == 10 and len(first.surface.rim) == 16
    np.testing.assert_array_equal(first.surface([150.0, 20.0], [150.0, 20.0]), 0.0)
    step = box.part(np.flatnonzero((centers[:, 0] < 100) | (centers[:, 2] < -100)))
    found = MeshOutline.of(replace(step, boundaries={"free": box_exterior(step)}), ["free"], Path("a.msh")).surface
    assert found is not None
    np.testing.assert_array_equal(found([50.0, 100.0, 100.0 + 1e-3, 250.0], 40.0), [0.0, 0.0, -100.0, -100.0])


def box_exterior(mesh: HexahedralMesh) -> np.ndarray:
    from lithowave.mesh import MeshFaces

    return MeshFaces.of(mesh.elements).exterior


def test_many_points_and_uneven_faces() -> None:
    """A face as large as all others together does not slow down the search."""
    x = np.concatenate([np.linspace(0, 1, 101), [10000.0]])
    faces = [(x[i], x[i + 1], x[j], x[j + 1]) for i in range(101) for j in range(101)]
    low, high = np.array([(a, c) for a, _, c, _ in faces]), np.array([(b, d) for _, b, _, d in faces])
    pairs = ((low, low), (high, low), (high, high), (low, high))
    corners = [np.stack([one[:, 0], two[:, 1]], -1) for one, two in pairs]
    nodes = np.stack([np.column_stack([one, one @ [0.1, 0.2]]) for one in corners], axis=1)
    surface = FreeSurface(Path("a.msh"), nodes, np.zeros((0, 2, 3)), True)
    places = np.random.default_rng(1).uniform(0, 2, (4_000, 2))
    np.testing.assert_allclose(surface(*places.T), places @ [0.1, 0.2], atol=1e-9)


# --- what is refused


@pytest.mark.parametrize("kind", KINDS)
def test_positions_beside_the_surface_are_refused(tmp_path: Path, kind: str) -> None:
    given = {"title": "x", "material": {"homogeneous": ROCK}, "duration": 4.0, **parts(tmp_path, kind, True)}
    inside = {"position": [0, 0, -900], **SOURCE}

    def refused(**changes: Any) -> str:
        with pytest.raises(InputError) as caught:
            lw.Simulation(**{**given, "sources": [inside], **changes})
        return str(caught.value)

    text = refused(receivers=[{"name": "A", "position": [1700, 0]}])
    assert "receivers[0]: x = 1700 m, y = 0 m is beside the free surface of the mesh; the mesh has x from -1500" in text
    text = refused(receivers=[{"line": {"prefix": "L", "start": [0, 0], "end": [3000, 0], "count": 4}}])
    assert "x = 2000 m, y = 0 m is beside the free surface of the mesh (and 1 more)" in text
    (tmp_path / "S").write_text("A XX 0 0 0 0\nB XX 0 0.1 0 0\n")
    text = refused(receivers=[{"file": tmp_path / "S"}])
    assert "B at x = 11131" in text
    (only,) = lw.Simulation(
        **given, sources=[inside], receivers=[{"file": tmp_path / "S", "outside": "omit"}]
    ).receiver_list()
    assert only.name == "XX.A"
    text = refused(receivers=[{"name": "A", "position": [0, 0, 130]}])
    assert "XX.A: z = 130 m is above the ground. The surface is at z = 120 m at x = 0 m, y = 0 m" in text
    text = refused(sources=[{**inside, "position": [0, 0, -3100]}])
    assert "z = -3100 m is outside the mesh (z from -3000 to" in text
    text = refused(sources=[{"longitude": 0.0, "latitude": 0.0, "depth": -10, **SOURCE}])
    assert "depth = -10 m is above the ground" in text
    text = refused(output={"snapshots": [{"interval": 1, "plane": {"x": 1501}}]})
    assert "x = 1501 m is outside the domain" in text
    above = {"snapshots": [{"interval": 1, "plane": {"z": 100}}]}
    assert lw.Simulation(**{**given, "sources": [inside], "output": above})


def test_a_mesh_without_a_free_face_keeps_the_level_of_the_domain(tmp_path: Path) -> None:
    given = parts(tmp_path, "hexahedra", True)
    made = lw.Simulation(
        title="x", material={"homogeneous": ROCK}, duration=4.0, **given, boundaries={"top": "absorbing"},
        sources=[{"longitude": 0.004, "latitude": -0.003, "depth": 700, **SOURCE}],
    )  # fmt: skip
    assert made.domain.surface is None and made.point_sources()[0].position[2] == -700.0
    assert made.domain.ground.z[0] == BOTTOM and made.domain.ground.z[1] == 195.0


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first, _ = both(tmp_path, "hexahedra")
    higher = mesh_of("hexahedra")
    higher = replace(higher, vertices=higher.vertices + [0.0, 0.0, 7.25])
    written(tmp_path, "hexahedra", higher)
    again = lw.Simulation.from_text(first.to_yaml())
    assert float(again.domain.surface_height(0, 0)) == pytest.approx(127.25) and again != first


@pytest.mark.parametrize("top", ["free", "absorbing"])
def test_other_processes_share_the_outline_of_a_large_file(tmp_path: Path, monkeypatch, top: str) -> None:
    monkeypatch.setattr(imported_meshes, "STORED_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = lw.Simulation(
        title="x", material={"homogeneous": ROCK}, duration=4.0, sources=[], boundaries={"top": top},
        **parts(tmp_path, "hexahedra", True),
    )  # fmt: skip
    expected = first.domain.surface_height([10.0, 99.0], 5.0), first.domain.ground
    imported_meshes._outline.cache_clear()
    monkeypatch.setattr(imported_meshes, "_read", None)  # another process does not read the mesh
    again = lw.Simulation.from_text(first.to_yaml())
    np.testing.assert_array_equal(again.domain.surface_height([10.0, 99.0], 5.0), expected[0])
    assert again.domain.ground == expected[1] and (again.domain.surface is None) == (top == "absorbing")


def test_a_file_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 8)
    given = parts(tmp_path, "hexahedra", True)
    with pytest.raises(ResourceError, match=r"hexahedra.msh has .* GB, this machine has 6.4e-08 GB of memory"):
        lw.Simulation(title="x", material={"homogeneous": ROCK}, duration=4.0, sources=[], **given)
