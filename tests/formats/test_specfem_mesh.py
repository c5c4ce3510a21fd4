"""External meshes of SPECFEM3D."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from hexahedra_boxes import cubes, merged
from lithowave import InputError, LithowaveWarning
from lithowave.mesh import FACES, Exterior, HexahedralMesh, check_mesh, read_hexahedral_mesh

SURFACES = {
    "absorbing_surface_file_xmin": "x_min", "absorbing_surface_file_xmax": "x_max",
    "absorbing_surface_file_ymin": "y_min", "absorbing_surface_file_ymax": "y_max",
    "absorbing_surface_file_bottom": "z_min",
    "free_or_absorbing_surface_file_zmax": "z_max",
}  # fmt: skip


def box_boundaries(mesh: HexahedralMesh) -> dict[str, np.ndarray]:
    """Exterior faces by the plane that contains them."""
    outer = check_mesh(mesh).faces
    corners = np.take_along_axis(mesh.elements[outer[:, 0]], FACES[outer[:, 1]], axis=1)
    found = Exterior(mesh.vertices[corners], np.zeros((len(outer), 3))).by_plane
    return {name: outer[some] for name, some in found.items()}


def write(folder: Path, omit: str = "") -> Path:
    """A folder with 3 x 2 x 2 cubes; nodes count 5, 7, 9 ..., elements from 11, materials are 1 and -1."""
    folder.mkdir(exist_ok=True)
    mesh = merged(cubes((3, 2, 2)))
    boundaries = box_boundaries(mesh)

    def save(name: str, rows: np.ndarray, counted: bool = True) -> None:
        if name != omit:
            text = "".join(" ".join(f"{value:.10g}" for value in row) + "\n" for row in rows)
            (folder / name).write_text(f"{len(rows)}\n{text}" if counted else text)

    ids = 11 + np.arange(len(mesh.elements))
    node = 5 + 2 * np.arange(len(mesh.vertices))
    save("nodes_coords_file", np.c_[node, mesh.vertices])
    save("mesh_file", np.c_[ids, node[mesh.elements]])
    low = mesh.vertices[mesh.elements].mean(axis=1)[:, 2] < mesh.vertices[:, 2].mean()
    save("materials_file", np.c_[ids, np.where(low, -1, 1)][::-1], counted=False)
    for name, boundary in SURFACES.items():
        element, face = boundaries[boundary].T
        corners = np.take_along_axis(mesh.elements[element], FACES[face], axis=1)
        save(name, np.c_[ids[element], node[corners[:, [0, 1, 3, 2]]]])
    return folder / "mesh_file"


def test_the_folder_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "MESH")
    mesh, expected = read_hexahedral_mesh(path), merged(cubes((3, 2, 2)))
    np.testing.assert_array_equal(mesh.element_nodes(), expected.element_nodes())
    assert mesh.ids.tolist() == list(range(11, 23)) and mesh.groups == ("-1", "1")
    heights = mesh.vertices[mesh.elements].mean(axis=1)[:, 2]
    np.testing.assert_array_equal(mesh.materials, (heights > heights.mean()).astype(int))
    for name, faces in box_boundaries(expected).items():
        assert sorted(map(tuple, mesh.boundaries[name].tolist())) == sorted(map(tuple, faces.tolist()))
    write(tmp_path / "MESH").with_name("absorbing_cpml_file").write_text("1\n11 1\n")
    with pytest.warns(LithowaveWarning, match="elements of absorbing_cpml_file are ordinary elements"):
        read_hexahedral_mesh(path)


@pytest.mark.parametrize("name", ["MESH", "MESH/mesh_file"])
@pytest.mark.parametrize("group", [True, False])
def test_a_simulation_names_the_folder_or_the_file(tmp_path: Path, name: str, group: bool, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "MESH")
    medium = {"vp": 3000, "vs": 1700, "rho": 2300}
    simulation = lw.Simulation(
        domain={"x": [0, 3], "y": [0, 2], "z": [0, 2]}, material={"groups": {1: medium, -1: medium}}, duration=1,
        sources=[{"position": [1, 1, 1], "force": [0, 0, 1], "time_function": {"gaussian": {"sigma": 1}}}],
        solver={"method": "spectral_element", "mesh": {"file": name} if group else name},
    )  # fmt: skip
    assert simulation.solver.mesh.file == path
    assert len(simulation.input_files()) == 9 and set(simulation.input_files()) == set(path.parent.iterdir())
    with pytest.raises(InputError, match="MESHES' does not exist"):
        simulation.with_overrides({"solver.mesh": "MESHES"})


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("mesh_file", "12\n", "13\n", "mesh_file should have 13 rows of 9 numbers"),
        ("mesh_file", "12\n", "many\n", "mesh_file does not begin with the number of its rows"),
        ("nodes_coords_file", "5 0 0 0", "5 0 0", "nodes_coords_file should have 36 rows of 4 numbers"),
        ("nodes_coords_file", "5 0 0 0", "4 0 0 0", "has a node that the file does not contain"),
        ("materials_file", "22 1\n", "", "materials_file does not list each of the 12 elements once"),
        ("materials_file", "22 1\n", "22 x\n", "line 1: 'x' is not a number"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, old: str, new: str, words: str) -> None:
    path = write(tmp_path / "MESH")
    text = path.with_name(file).read_text()
    assert old in text
    path.with_name(file).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read_hexahedral_mesh(path)
    assert words in str(refused.value), str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nodes_coords_file cannot be read: No such file"):
        read_hexahedral_mesh(write(tmp_path / "MESH", omit="nodes_coords_file"))
