"""Meshes of hexahedra from files: of Gmsh itself, and of meshio for what must be refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import hexahedra_geometry
import lithowave as lw
from hexahedra_boxes import bend, cubes, merged
from lithowave import InputError, MissingPackageError
from lithowave.mesh import FACES, HexahedralMesh, curved, jacobians, lattice_slopes, read_hexahedral_mesh
from lithowave.readers import EXODUS_SIDES, FROM_EXODUS, usual_name
from lithowave.solvers.spectral_element import gll as geometry
from small_machine import hide_packages

meshio = pytest.importorskip("meshio")
DATA = Path(__file__).parents[1] / "data" / "hexahedra"
GMSH_FILES = ["hex8_msh2.msh", "hex8_msh4.msh", "hex27_msh2.msh", "hex27_msh4.msh", "hex27_msh4_binary.msh"]

MEDIUM = {"vp": 3000, "vs": 1700, "rho": 2300}


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_hexahedral_mesh(path)
    assert caught.value.file == path and caught.value.where == "mesh"
    return str(caught.value)


def written(
    path: Path,
    mesh: HexahedralMesh,
    more: dict[str, np.ndarray] | None = None,
    names: dict[str, list[int]] | None = None,
    tags: list | None = None,
) -> Path:
    """A file of the elements of a mesh, and of further cells by their kind."""
    kind = "hexahedron" if mesh.nodes is None else "hexahedron27"
    nodes = mesh.elements if mesh.nodes is None else mesh.nodes[:, hexahedra_geometry.GMSH_TO_VTK]
    cells = [(kind, nodes), *(more or {}).items()]
    data = {}
    if tags is not None:
        numbers = [np.broadcast_to(tag, len(part)) for tag, (_, part) in zip(tags, cells, strict=True)]
        data = {"gmsh:physical": numbers, "gmsh:geometrical": numbers}
    fields = {name: np.array(numbers) for name, numbers in (names or {}).items()}
    file = meshio.Mesh(mesh.vertices, cells, cell_data=data, field_data=fields)
    if path.suffix == ".msh":
        meshio.gmsh.write(path, file, fmt_version="2.2", binary=False)
    else:
        file.write(path)
    return path


# What Gmsh wrote


@pytest.mark.parametrize("name", GMSH_FILES)
def test_groups_and_surfaces_of_gmsh(name: str) -> None:
    mesh = read_hexahedral_mesh(DATA / name)
    assert mesh.groups == ("rock", "soft soil")
    np.testing.assert_array_equal(mesh.ids, np.arange(33, 45))
    centres = unmoved(mesh).mean(axis=1)
    np.testing.assert_array_equal(mesh.materials, (centres[:, 2] > -1).astype(int))
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == {"free": 4, "bottom": 4, "sides": 24}
    for surface, height in (("free", 0.0), ("bottom", -3.0)):
        element, face = mesh.boundaries[surface].T
        np.testing.assert_allclose(unmoved(mesh)[element[:, None], FACES[face], 2], height, atol=1e-12)


def displacement(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """How the nodes were moved (tests/data/hexahedra/README.md)."""
    dx, dy = 0.12 * np.sin(1.1 * x + 0.7 * y + 0.3), 0.1 * np.cos(0.9 * z + 0.4 * x)
    return np.stack([dx, dy, 0.08 * np.sin(1.3 * y - 0.6 * x)], axis=-1)


def unmoved(mesh: HexahedralMesh) -> np.ndarray:
    """Positions (m, 8 or 27, 3) that the nodes had before, on a lattice of steps of 0.5, 0.75 and 0.5 m."""
    moved, steps = mesh.element_nodes(), np.array([0.5, 0.75, 0.5])
    before = moved
    for _ in range(60):
        before = moved - displacement(*np.moveaxis(before, -1, 0))
    lattice = np.rint(before / steps) * steps
    np.testing.assert_allclose(before, lattice, atol=1e-12)
    return lattice


@pytest.mark.parametrize("name", [name for name in GMSH_FILES if "hex27" in name])
def test_the_27_nodes_of_gmsh_come_in_their_order(name: str) -> None:
    """Each lay in the middle between the right corners, and all Jacobians are what Gmsh itself computes."""
    mesh = read_hexahedral_mesh(DATA / name)
    before = unmoved(mesh)
    straight = geometry.shape_functions(hexahedra_geometry.reference_nodes(27), 8) @ before[:, :8]
    np.testing.assert_allclose(before, straight, atol=1e-12)
    with np.load(DATA / "hex27_jacobians.npz") as gmsh:
        np.testing.assert_array_equal(mesh.ids, gmsh["element"])
        points = np.array([-1.0, 0.0, 1.0])
        np.testing.assert_allclose(mesh.positions(points).reshape(-1, 27, 3), gmsh["position"], atol=1e-12)
        found = jacobians(mesh.vertices.T, mesh.nodes, lattice_slopes(3, 27)).T
        np.testing.assert_allclose(found, gmsh["jacobian"], rtol=1e-12)
        table = geometry.determinant(geometry.jacobian_matrix(mesh.element_nodes(), 2))
        np.testing.assert_allclose(table.reshape(-1, 27), gmsh["jacobian"], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("hex8_msh2_save_all", "", "", "no cell is in the volume groups 'rock', 'soft soil'. In Gmsh save with"),
        ("hex8_msh4_two_groups", "", "", "a volume is in the physical groups 'rock' and 'everything'"),
        ("hex8_msh4", " 1 4 6 ", " 0 6 ", "of 12 hexahedra are in no group"),
        ("hex8_msh4", "4.1 0 8", "4 0 8", "of version 4 of Gmsh's format; allowed: 2.2 and 4.1"),
        ("hex8_msh2", "\n33 5 2 4 1 ", "\n33 5 2 4 1 9", "element 33 has a node that the file does not contain"),
    ],
)
def test_files_of_gmsh_that_are_refused(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (DATA / f"{name}.msh").read_text()
    assert text.count(old) == 1 or not old
    (tmp_path / "box.msh").write_text(text.replace(old, new) if old else text)
    assert message in refusal(tmp_path / "box.msh")


# Round trips


def exodus(path: Path, mesh: HexahedralMesh, names: tuple[str, str] = ("top", "sides")) -> Path:
    """An Exodus file of two blocks, the first without name; z faces in one side set, all others in the second."""
    order = np.arange(8) if mesh.nodes is None else np.argsort(FROM_EXODUS)
    nodes = mesh.node_indices[:, order] + 1
    sides = {tuple(sorted(side)): n for n, side in enumerate(EXODUS_SIDES.tolist(), start=1)}
    exterior = [
        (element, sides[tuple(sorted(FACES[face].tolist()))], face > 3)
        for element in range(mesh.element_count)
        for face in range(6)
        if (mesh.elements == mesh.elements[element, FACES[face]][:, None, None]).any(2).all(0).sum() == 1
    ]
    with h5py.File(path, "w") as file:
        for axis, values in zip("xyz", mesh.vertices.T, strict=True):
            file[f"coord{axis}"] = values
        for number, part in ((1, slice(0, 2)), (2, slice(2, None))):
            file[f"connect{number}"] = nodes[part].astype(np.int32)
            file[f"connect{number}"].attrs["elem_type"] = "HEX8" if mesh.nodes is None else "HEX27"
        file["eb_prop1"] = np.array([10, 20], np.int32)
        file["eb_names"] = np.array([list(name.ljust(9, "\0")) for name in ("", "granite")], "S1")
        file["ss_names"] = np.array([list(name.ljust(9, "\0")) for name in names], "S1")
        file["elem_num_map"] = np.arange(101, 101 + mesh.element_count, dtype=np.int32)
        for number, upright in ((1, True), (2, False)):
            chosen = np.array([(e + 1, side) for e, side, is_z in exterior if is_z == upright], np.int32)
            file[f"elem_ss{number}"], file[f"side_ss{number}"] = chosen.T
    return path


@pytest.mark.parametrize("nodes", [8, 27])
def test_exodus(nodes: int, tmp_path: Path) -> None:
    mesh = merged(cubes((2, 2, 1)))
    mesh = curved(mesh, bend) if nodes == 27 else mesh
    found = read_hexahedral_mesh(exodus(tmp_path / "box.exo", mesh))
    np.testing.assert_array_equal(found.element_nodes(), mesh.element_nodes())
    assert found.groups == ("10", "granite") and found.materials.tolist() == [0, 0, 1, 1]
    assert found.ids.tolist() == [101, 102, 103, 104]
    assert {name: len(faces) for name, faces in found.boundaries.items()} == {"top": 8, "sides": 8}
    assert set(found.boundaries["top"][:, 1]) == {4, 5}


def test_exodus_by_meshio(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    mesh = merged(cubes((2, 2, 1)))
    meshio.exodus.write(tmp_path / "box.e", meshio.Mesh(mesh.vertices, [("hexahedron", mesh.elements)]))
    found = read_hexahedral_mesh(tmp_path / "box.e")
    np.testing.assert_array_equal(found.element_nodes(), mesh.element_nodes())
    assert len(found.boundaries) == 6


def test_exodus_refusals(tmp_path: Path) -> None:
    mesh = merged(cubes((2, 2, 1)))
    assert "'tops' has a name that is not known" in refusal(exodus(tmp_path / "a.exo", mesh, ("tops", "sides")))
    path = exodus(tmp_path / "b.exo", mesh)
    with h5py.File(path, "a") as file:
        file["connect2"].attrs["elem_type"] = "TETRA"
        del file["connect2"]
        file["connect2"] = np.ones((3, 4), np.int32)
        file["connect2"].attrs["elem_type"] = "TETRA"
    text = refusal(path)
    assert "it has 3 tetrahedra, 8 triangles in addition to 2 hexahedra" in text
    with h5py.File(path, "a") as file:
        del file["coordz"]
    assert "coordz" in refusal(path)
    path.write_bytes(exodus(tmp_path / "c.exo", mesh).read_bytes()[:3000])
    assert "cannot be read" in refusal(path)


# What must be refused

TWO = merged(cubes((2, 1, 1)))


def test_hexahedra_of_twenty_nodes(tmp_path: Path) -> None:
    mesh = curved(TWO, bend)
    file = meshio.Mesh(mesh.vertices, [("hexahedron20", mesh.nodes[:, hexahedra_geometry.GMSH_TO_VTK][:, :20])])
    meshio.gmsh.write(tmp_path / "box.msh", file, fmt_version="2.2", binary=False)
    text = refusal(tmp_path / "box.msh")
    assert "2 hexahedra of 20 nodes" in text and "SecondOrderIncomplete" in text


def test_hexahedra_of_8_and_of_27_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "box.msh", curved(TWO, bend), {"hexahedron": TWO.elements[:1]})
    assert "of the hexahedra 1 have 8 nodes and 2 have 27" in refusal(path)


SIDES = np.array([face for e in TWO.elements for face in e[FACES]])
NAMES = {"rock": [1, 3], "top": [2, 2], "sides": [3, 2]}
OUTER = np.array([0, 2, 3, 4, 5, 7, 8, 9, 10, 11])  # of SIDES, those not between the two elements
SURFACES = np.where(OUTER % 6 == 5, 2, 3)


def with_surfaces(path: Path, faces: np.ndarray, tags: np.ndarray, names: dict = NAMES) -> Path:
    return written(path, TWO, {"quad": faces}, names, [1, tags])


def test_a_surface_without_name_is_that_of_its_plane(tmp_path: Path) -> None:
    with pytest.warns(lw.LithowaveWarning, match="name of the surface group '2' states no boundary; .* it is z_max"):
        mesh = read_hexahedral_mesh(with_surfaces(tmp_path / "box.msh", SIDES[OUTER], SURFACES, {"sides": [3, 2]}))
    assert mesh.boundaries["z_max"].tolist() == [[0, 5], [1, 5]] and len(mesh.boundaries["sides"]) == 8
    given = {"2": "free", "sides": "absorbing"}
    mesh = read_hexahedral_mesh(tmp_path / "box.msh", given=given)
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == {"free": 2, "absorbing": 8}


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("xmin", "x_min"), ("X-min", "x_min"), ("boundary_xneg", "x_min"), ("abs_ymax", "y_max"), ("x+", "x_max"),
        ("Zmax", "z_max"), ("face_bottom", "bottom"), ("Top", "top"), ("free surface", "free"),
        ("Free_Surface", "free"), ("inlet", None), ("left", None), ("103", None), ("boundary", None),
        ("lateral", "sides"), ("West", "x_min"), ("bc_yplus", "y_max"), ("z0", None), ("max_x", "x_max"),
        ("absorbing_boundary", "absorbing"), ("surface", None), ("fault", None), ("7", None), ("rock", None),
        ("x", None), ("abs_bottom", "bottom"), ("face_topo", "top"),
    ],
)  # fmt: skip
def test_usual_names_of_surfaces(name: str, meaning: str | None) -> None:
    assert usual_name(name) == meaning


def test_a_group_on_no_plane_needs_its_boundary(tmp_path: Path) -> None:
    """An oblique side that does not point upwards could be anything."""
    mesh = replace(TWO, vertices=TWO.vertices + 0.3 * TWO.vertices[:, 2:] * [1, 0, 0])
    tags = np.where(OUTER % 6 == 5, 2, 3)
    path = written(tmp_path / "box.msh", mesh, {"quad": SIDES[OUTER]}, {"rock": [1, 3], "top": [2, 2]}, [1, tags])
    text = refusal(path)
    assert "'3' has a name that is not known, and faces on no plane of the bounding box" in text
    assert "solver.mesh: {file: ..., surfaces: {'3': absorbing}}" in text
    found = read_hexahedral_mesh(path, given={"3": "absorbing"})
    assert len(found.boundaries["absorbing"]) == 8


def test_sides_without_a_group_are_planes_of_the_box(tmp_path: Path) -> None:
    with pytest.warns(lw.LithowaveWarning, match="9 exterior faces are in no surface group, and are those of x_max, y"):
        mesh = read_hexahedral_mesh(with_surfaces(tmp_path / "a.msh", SIDES[[0]], np.array([3]), {"sides": [3, 2]}))
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == {
        "sides": 1, "x_max": 1, "y_min": 2, "y_max": 2, "z_min": 2, "z_max": 2,
    }  # fmt: skip


def test_the_key_of_the_mesh_in_a_simulation(tmp_path: Path) -> None:
    names = {"rock": [1, 3], "cover": [2, 2], "rest": [3, 2]}
    path = with_surfaces(tmp_path / "box.msh", SIDES[OUTER], SURFACES, names)
    parts = {
        "domain": {"x": [0, 2], "y": [0, 1], "z": [0, 1]}, "material": {"groups": {"rock": MEDIUM}}, "duration": 1,
        "sources": [{"position": [1, 0.5, 0.5], "force": [0, 0, 1], "time_function": {"gaussian": {"sigma": 1}}}],
    }  # fmt: skip
    solver = {"method": "spectral_element", "mesh": {"file": str(path), "surfaces": {"cover": "free", "rest": "sides"}}}
    simulation = lw.Simulation(**parts, solver=solver)
    assert simulation.input_files() == [path]
    (tmp_path / "again.yaml").write_text(simulation.to_yaml())
    again = lw.Simulation.from_file(tmp_path / "again.yaml")
    assert again.solver.mesh == simulation.solver.mesh
    plain = lw.Simulation(**parts, solver={"method": "spectral_element", "mesh": str(path)})
    assert plain.solver.model_dump()["mesh"] == path and plain.solver.mesh.surfaces == {}
    with pytest.raises(lw.InputError, match=r"solver.mesh.surfaces.cover: 'open' is not .* free, .* ignored"):
        lw.Simulation(**parts, solver={**solver, "mesh": {"file": str(path), "surfaces": {"cover": "open"}}})
    numbered = {**parts, "material": {"groups": {7: MEDIUM}}}
    assert list(lw.Simulation(**numbered, solver=solver).material.groups) == ["7"]


def test_meshio_is_missed_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = written(tmp_path / "box.vtu", TWO)
    hide_packages(monkeypatch, "meshio")
    with pytest.raises(MissingPackageError, match=r"lithowave\[meshes\]"):
        read_hexahedral_mesh(path)
    read_hexahedral_mesh(DATA / "hex8_msh2.msh")
    read_hexahedral_mesh(exodus(tmp_path / "box.exo", merged(cubes((2, 2, 1)))))


def test_groups_of_a_vtu_file_go_by_their_numbers(tmp_path: Path) -> None:
    mesh = merged(cubes((3, 1, 1)))
    cells = [("hexahedron", mesh.elements)]
    meshio.Mesh(mesh.vertices, cells, cell_data={"material": [np.array([5, 2, 5])]}).write(tmp_path / "box.vtu")
    found = read_hexahedral_mesh(tmp_path / "box.vtu")
    assert found.groups == ("2", "5") and found.materials.tolist() == [1, 0, 1]


def test_surfaces_inside(tmp_path: Path) -> None:
    """Of a boundary they are refused, and otherwise left out, like those of a fault."""
    path, inside = tmp_path / "box.msh", SIDES[[*OUTER, 1]]
    text = refusal(with_surfaces(path, inside, np.append(SURFACES, 2)))
    assert "of the surface group 'top' 1 face is inside the mesh" in text and "x = 1 m, y = 0.5 m" in text
    faces = np.array([TWO.elements[0, [0, 1, 6, 7]], *SIDES[OUTER[1:]]])
    assert "of the surface group 'sides' 1 face is not on a face" in refusal(with_surfaces(path, faces, SURFACES))
    with_surfaces(path, inside, np.append(SURFACES, 4), NAMES | {"fold": [4, 2]})
    with pytest.warns(lw.LithowaveWarning, match="'fold' is inside the mesh, between elements .1 faces., and is"):
        assert sorted(read_hexahedral_mesh(path).boundaries) == ["sides", "top"]
    assert sorted(read_hexahedral_mesh(path, given={"fold": "ignored"}).boundaries) == ["sides", "top"]


def test_surfaces_and_cells_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "box.msh"
    text = refusal(with_surfaces(path, SIDES[[*OUTER, 0]], np.append(SURFACES, 2)))
    assert "1 face is in the surface groups 'top' and 'sides'" in text
    with_surfaces(path, SIDES[OUTER], SURFACES)
    with pytest.raises(InputError, match=r"mesh.surfaces.fold: the mesh has no such surface group; .*: top, sides"):
        read_hexahedral_mesh(path, given={"fold": "free"})
    meshio.gmsh.write(path, meshio.Mesh(TWO.vertices, [("quad", SIDES)]), fmt_version="2.2", binary=False)
    assert "it has no hexahedra, only 12 quads" in refusal(path)


GROUPS = """
domain: {x: [-500, 500], y: [-500, 500], z: [-1000, 0]}
material: {groups: {rock: {vp: 3000, vs: 1700, rho: 2300}}}
sources: [{position: [0, 0, -600], force: [0, 0, 1.0e9], time_function: {gaussian: {sigma: 0.6}}}]
duration: 2
"""


@pytest.mark.parametrize("kind", ["msh", "vtu", "exo", "tetrahedra"])
def test_a_mesh_without_groups_together_with_groups(tmp_path, kind):
    x = np.array([[-500, -500], [500, -500], [500, 500], [-500, 500]], float)
    points = np.vstack([np.column_stack([x, np.full(4, z)]) for z in (-1000.0, 0.0)])
    method, name = "spectral_element", f"mesh.{kind}"
    if kind == "msh":
        nodes = "\n".join(f"{n} {a} {b} {c}" for n, (a, b, c) in enumerate(points, 1))
        cell = "1 5 0 " + " ".join(map(str, range(1, 9)))
        (tmp_path / name).write_text(
            f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n8\n{nodes}\n$EndNodes\n$Elements\n1\n{cell}\n$EndElements\n"
        )
    elif kind == "exo":
        with h5py.File(tmp_path / name, "w") as file:
            for axis, values in zip("xyz", points.T, strict=True):
                file[f"coord{axis}"] = values
            file["connect1"] = np.arange(1, 9, dtype=np.int32)[None]
            file["connect1"].attrs["elem_type"] = "HEX8"
    else:
        cells = [("hexahedron", np.arange(8)[None])]
        if kind == "tetrahedra":
            method, name = "discontinuous_galerkin", "mesh.vtu"
            corners = [[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]]
            cells = [("tetra", np.array(corners))]
        meshio.Mesh(points, cells).write(tmp_path / name)
    (tmp_path / "case.yaml").write_text(f"{GROUPS}solver: {{method: {method}, mesh: {name}, max_frequency: 0.5}}\n")
    with pytest.raises(InputError, match="material.groups.*" + "has no groups of elements" * (kind != "exo")):
        lw.Simulation.from_file(tmp_path / "case.yaml").check()
