"""Meshes of tetrahedra from Gmsh and VTU files: what is read, and what is refused with the element and the place."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import gmsh_sections
from lithowave import InputError, LithowaveWarning
from lithowave.mesh import (
    TETRAHEDRON_FACES,
    TetrahedralMesh,
    check_holes,
    check_tetrahedra,
    exterior_triangles,
    make_mesh,
    read_tetrahedral_mesh,
)

meshio = pytest.importorskip("meshio")


@dataclass(frozen=True)
class Box:
    """Unit cubes, each of six tetrahedra, all right-handed."""

    points: np.ndarray
    tetrahedra: np.ndarray

    @property
    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """The faces in the planes of the bounding box, and whether each is at the top."""
        faces = self.tetrahedra[:, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]].reshape(-1, 3)
        corners = self.points[faces]
        low, high = (corners == self.points.min(axis=0)).all(1), (corners == self.points.max(axis=0)).all(1)
        there = low.any(axis=1) | high.any(axis=1)
        return faces[there], high[there, 2]

    def mesh(self) -> TetrahedralMesh:
        return make_mesh(self.points, self.tetrahedra)


def box(shape: tuple[int, int, int] = (2, 2, 2), size: float = 1.0, low: tuple = (0.0, 0.0, 0.0)) -> Box:
    points, tetrahedra = [], []
    for cube in np.ndindex(*shape):
        for axes in itertools.permutations(range(3)):
            path = np.cumsum([np.zeros(3), *np.eye(3)[list(axes)]], axis=0) + cube
            path = path if np.linalg.det(path[1:] - path[0]) > 0 else path[[0, 2, 1, 3]]
            tetrahedra.append(np.arange(4) + len(points))
            points.extend(path.tolist())
    return merged(Box(np.array(points) * size + low, np.array(tetrahedra)))


def together(*boxes: Box) -> Box:
    starts = np.cumsum([0, *(len(one.points) for one in boxes)])
    tetrahedra = [one.tetrahedra + start for one, start in zip(boxes, starts, strict=False)]
    return Box(np.concatenate([one.points for one in boxes]), np.concatenate(tetrahedra))


def merged(*boxes: Box) -> Box:
    whole = together(*boxes)
    points, places = np.unique(whole.points.round(9), axis=0, return_inverse=True)
    return Box(points, places.reshape(-1)[whole.tetrahedra])


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_tetrahedral_mesh(path)
    assert caught.value.file == path and caught.value.where == "mesh"
    return str(caught.value)


def mesh_refusal(found: Box, ids: bool = True) -> str:
    """The error of a mesh whose elements have numbers from 101 in the file."""
    numbers = 101 + np.arange(len(found.tetrahedra)) if ids else None
    rows = np.sort(found.tetrahedra, axis=1)
    mesh = TetrahedralMesh(found.points, rows, np.zeros(len(rows), np.int64), {}, numbers)
    with pytest.raises(InputError) as caught:
        check_tetrahedra(mesh, "rock.msh", found.tetrahedra)
    assert caught.value.where == "rock.msh"
    return str(caught.value)


# Gmsh files, written here

NAMES = [(3, 4, "rock"), (3, 7, "soft soil"), (2, 1, "top"), (2, 2, "sides")]
FORMATS = ["2.2", "4.1", "2.2 binary", "4.1 binary"]


def gmsh_file(
    path: Path,
    found: Box,
    form: str = "2.2",
    tags: np.ndarray | int = 0,
    faces: tuple[np.ndarray, np.ndarray] | None = None,
    names: list | None = None,
    more: list[tuple[int, list[int]]] | None = None,
) -> Path:
    """Nodes count 3, 6, 9 ...; elements from 11, first the faces with their tags, then `more` (type, nodes)."""
    triangles, face_tags = faces or (np.zeros((0, 3), int), np.zeros(0, int))
    cells = [(2, tag, row) for tag, row in zip(face_tags.tolist(), triangles.tolist(), strict=True)]
    cells += [(kind, 0, row) for kind, row in more or []]
    all_tags = np.broadcast_to(tags, len(found.tetrahedra)).tolist()
    cells += [(4, tag, row) for tag, row in zip(all_tags, found.tetrahedra.tolist(), strict=True)]
    return gmsh_sections.gmsh_file(path, found.points, cells, form, names)


def named_file(path: Path, form: str = "2.2") -> Path:
    found = box((2, 1, 2))
    triangles, is_top = found.triangles
    tags = np.where(found.points[found.tetrahedra, 2].mean(axis=1) < 1, 4, 7)
    return gmsh_file(path, found, form, tags, (triangles, np.where(is_top, 1, 2)), NAMES)


@pytest.mark.parametrize("form", FORMATS)
def test_groups_surfaces_and_numbers_of_gmsh(form: str, tmp_path: Path) -> None:
    mesh = read_tetrahedral_mesh(named_file(tmp_path / "box.msh", form))
    written = box((2, 1, 2))
    assert mesh.groups == ("rock", "soft soil") and mesh.element_count == 24
    np.testing.assert_array_equal(mesh.element_vertices(), written.points[np.sort(written.tetrahedra, axis=1)])
    np.testing.assert_array_equal(mesh.materials, mesh.element_vertices()[:, :, 2].mean(axis=1) > 1)
    np.testing.assert_array_equal(mesh.ids, np.arange(11 + 32, 11 + 32 + 24))
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == {"top": 4, "sides": 28}
    element, face = mesh.boundaries["top"].T
    assert (mesh.vertices[mesh.elements[element[:, None], TETRAHEDRON_FACES[face]], 2] == 2).all()
    np.testing.assert_allclose(mesh.volumes(), 1 / 6)


@pytest.mark.parametrize("form", FORMATS)
def test_without_surfaces_the_planes_of_the_box_name_them(form: str, tmp_path: Path) -> None:
    found = box((3, 2, 1))
    found.points[:, 2] *= 1 + 0.1 * np.sin(found.points[:, 0])  # a hilly top
    mesh = read_tetrahedral_mesh(gmsh_file(tmp_path / "box.msh", found, form))
    sizes = {"x_min": 4, "x_max": 4, "y_min": 6, "y_max": 6, "z_min": 12, "z_max": 12}
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == sizes
    assert mesh.groups == () and not mesh.materials.any()


@pytest.mark.parametrize("form", [("2.2", False), ("2.2", True), ("4.1", False), ("4.1", True)])
def test_gmsh_files_of_meshio(form: tuple[str, bool], tmp_path: Path) -> None:
    found = box((2, 1, 1))
    file = meshio.Mesh(found.points, [("tetra", found.tetrahedra)])
    meshio.gmsh.write(tmp_path / "box.msh", file, *form)
    mesh = read_tetrahedral_mesh(tmp_path / "box.msh")
    np.testing.assert_array_equal(mesh.element_vertices(), found.points[np.sort(found.tetrahedra, axis=1)])
    assert mesh.ids.tolist() == list(range(1, 13))


def test_what_gmsh_writes_beside_is_no_matter(tmp_path: Path) -> None:
    """Comments, nodes of a curve, points and lines, a node that no element has, DOS line ends."""
    found = box((1, 1, 1))
    spare = Box(np.append(found.points, [[9.0, 9, 9]], axis=0), found.tetrahedra)
    path = gmsh_file(tmp_path / "box.msh", spare, more=[(15, [3]), (1, [0, 1]), (1, [1, 2])])
    text = "$Comments\nnothing\n$EndComments\n" + path.read_text() + "$NodeData\nwhatever\n$EndNodeData\n"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    mesh = read_tetrahedral_mesh(path)
    np.testing.assert_array_equal(mesh.vertices, found.points)
    assert mesh.ids[0] == 14


# VTU


def test_vtu_refusals(tmp_path: Path) -> None:
    found, path = box((1, 1, 1)), tmp_path / "a.vtu"
    cells = [("tetra", found.tetrahedra), ("pyramid", found.tetrahedra[:2, [0, 1, 2, 3, 0]])]
    meshio.Mesh(found.points, cells).write(path)
    assert "it has 2 pyramids in addition to 6 tetrahedra; the first is element 6" in refusal(path)
    meshio.Mesh(found.points, cells[:1], cell_data={"material": [np.arange(6) + 0.5]}).write(path)
    assert "material must have one integer per cell" in refusal(path)
    meshio.Mesh(found.points, [("tetra", found.tetrahedra + 3)]).write(path)
    assert "element 0 has a node that the file does not contain" in refusal(path)
    data = path.read_bytes()
    for part in (0.0, 0.3, 0.6, 0.9):
        path.write_bytes(data[: int(part * len(data))])
        assert "cannot be read" in refusal(path)


# Damaged files


def lines_of(path: Path, name: str) -> range:
    """The lines, from 0, between $Name and $EndName."""
    lines = path.read_text().split("\n")
    return range(lines.index(f"${name}") + 1, lines.index(f"$End{name}"))


@pytest.mark.parametrize("form", ["2.2", "4.1"])
@pytest.mark.parametrize("section", ["PhysicalNames", "Entities", "Nodes", "Elements"])
def test_a_line_or_a_number_too_few_too_many_or_wrong(section: str, form: str, tmp_path: Path) -> None:
    if (section, form) == ("Entities", "2.2"):
        return
    path = named_file(tmp_path / "box.msh", form)
    lines = path.read_text().split("\n")
    for number in lines_of(path, section):
        if not lines[number]:
            continue
        words = lines[number].split()
        for wrong in ([], [lines[number]] * 2, [" ".join(words[:-1])], [" ".join([*words[:-1], "1x"])]):
            path.write_text("\n".join([*lines[:number], *wrong, *lines[number + 1 :]]))
            text = refusal(path)
            assert "cannot be read" in text or "group" in text or "node" in text, (wrong, text)
            if wrong and wrong[0].endswith("1x") and section != "PhysicalNames":
                assert f"line {number + 1}: '1x' is not a" in text or f"line {number + 1}: expected the count" in text


@pytest.mark.parametrize(
    ("form", "old", "new", "message"),
    [
        ("2.2", "\n43 4 2 4 5 3 ", "\n43 4 2 4 5 900 ", "element 43 has a node that the file does not contain"),
        ("2.2", "\n43 4 2 4 5 3 ", "\n43 4 2 4 5 3.5 ", "'3.5' is not an integer"),
        ("2.2", "\n43 4 2 4 5 ", "\n43 77 2 4 5 ", "elements of Gmsh's type 77 are not known"),
        ("2.2", "\n43 4 2 4 5 ", "\n43 4 2 0 5 ", "1 of 24 tetrahedra are in no group, the first is element 43"),
        ("2.2", "\n6 ", "\n3 ", "node 3 appears twice"),
        ("2.2", "\n3 0.0 ", "\n3 nan ", "1 vertex has a position that is not a finite number; the first belongs to e"),
        ("2.2", "$Nodes", "$Points", "section $Points does not end with $EndPoints"),
        ("2.2", '"top"', '"tops"', "'tops' has a name that is not known"),
        ("4.1", "$Nodes\n2 18 3 54\n", "$Nodes\n2 19 3 54\n", "should hold 19 nodes, but its blocks hold 18"),
        ("4.1", "$Nodes\n2 18 3 54\n", "$Nodes\n1 18 3 54\n", "its blocks hold 5, and more follows"),
        ("4.1", "\n3\n6\n9\n", "\n3\n6\n3\n", "node 3 appears twice"),
        ("4.1", "\n43 3 ", "\n43 4 ", "element 43 has a node that the file does not contain"),
        ("4.1", "$Entities\n0 0 2 2\n", "$Entities\n0 0 2 1\n", "section $Entities contains more entities than it"),
        ("4.1", "\n3 54 4 6\n", "\n3 53 4 6\n", "of the entity 53 of dimension 3, which is not there"),
        ("4.1", "\n54" + 6 * " 0.0" + " 1 4 ", "\n54" + 6 * " 0.0" + " 2 4 7 ",
         "a volume is in the physical groups 'rock' and 'soft soil'"),
    ],
)  # fmt: skip
def test_what_stands_wrong_in_a_file_is_told(form: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    path = named_file(tmp_path / "box.msh", form)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert message in refusal(path)


def test_parametric_nodes_and_reversed_groups(tmp_path: Path) -> None:
    """Gmsh may write nodes with their coordinates on a curve or surface, and groups of a reversed surface below 0."""
    path = named_file(tmp_path / "box.msh", "4.1")
    expected = read_tetrahedral_mesh(path)
    lines = path.read_text().replace(" 1 2 2 8 -9\n", " 1 -2 2 8 -9\n").split("\n")
    first = lines.index("3 54 0 5")
    lines[first] = "2 54 1 5"
    lines[first + 6 : first + 11] = [line + " 0.25 0.75" for line in lines[first + 6 : first + 11]]
    assert " 1 -2 2 8 -9\n" in "\n".join(lines)
    path.write_text("\n".join(lines))
    mesh = read_tetrahedral_mesh(path)
    np.testing.assert_array_equal(mesh.vertices, expected.vertices)
    assert {name: some.tolist() for name, some in mesh.boundaries.items()} == {
        name: some.tolist() for name, some in expected.boundaries.items()
    }


def test_no_tetrahedra(tmp_path: Path) -> None:
    found = box((1, 1, 1))
    empty = replace(found, tetrahedra=found.tetrahedra[:0])
    assert "no tetrahedra, only no cells" in refusal(gmsh_file(tmp_path / "a.msh", empty))
    faces = (found.triangles[0], np.ones(12, int))
    assert "no tetrahedra, only 12 triangles" in refusal(gmsh_file(tmp_path / "a.msh", empty, faces=faces))
    assert "no cell is in the volume groups 'rock'" in refusal(gmsh_file(tmp_path / "a.msh", found, names=NAMES[:1]))
    assert "extension .stl is not known" in refusal(tmp_path / "a.stl")
    assert "cannot be read: No such file" in refusal(tmp_path / "b.msh")


# Surfaces


# Meshes that cannot carry waves


def bumped(seed: int) -> Box:
    found = box((4, 4, 4))
    return replace(found, points=found.points + np.random.default_rng(seed).uniform(-0.12, 0.12, found.points.shape))


def ring() -> Box:
    parts = [box((1, 1, 1), low=(x, y, 0)) for x in range(3) for y in range(3) if (x, y) != (1, 1)]
    return merged(*parts)


GOOD = {
    "one cube": box((1, 1, 1)),
    "one element": Box(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.array([[2, 0, 1, 3]])),
    "bumped": bumped(1),
    "ring": ring(),
    "L": merged(box((3, 1, 1)), box((1, 1, 2), low=(0, 0, 1))),
    "thin": replace(bumped(2), points=bumped(2).points * [1, 1, 1e-4]),
    "thinner": replace(bumped(2), points=bumped(2).points * [1e-6, 1, 1]),
    "needles": replace(bumped(3), points=bumped(3).points * [1e-4, 1e-4, 1]),
    "far away": replace(bumped(4), points=bumped(4).points * 10 + [4e5, 5e6, -1e4]),
    "coarse at one end": replace(bumped(5), points=np.exp(2 * bumped(5).points)),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_meshes_pass(name: str) -> None:
    mesh = GOOD[name].mesh()
    surface = check_tetrahedra(mesh, "mesh", GOOD[name].tetrahedra)
    check_holes(mesh, surface, "mesh")
    np.testing.assert_array_equal(surface.faces, exterior_triangles(mesh.neighbors))


def test_inverted_elements_are_those_of_the_minority() -> None:
    found = box()
    found.tetrahedra[[7, 20]] = found.tetrahedra[[7, 20]][:, [0, 1, 3, 2]]
    text = mesh_refusal(found)
    x, y, z = found.points[found.tetrahedra[7]].mean(axis=0)
    assert "2 elements are inverted: of 48" in text
    assert f"the first is element 108 (center at x = {x:g} m, y = {y:g} m, z = {z:g} m)" in text
    check_tetrahedra(found.mesh())  # of no file: any order will do


def test_a_vertex_moved_through_an_element() -> None:
    found = box()
    centre = int(np.flatnonzero((found.points == 1).all(axis=1))[0])
    found.points[centre] = [2.3, 1.1, 1.2]
    text = mesh_refusal(found)
    element = int(re.search(r"one side: element (\d+) .* is folded over element \d+ at the face", text)[1]) - 101
    corners = found.points[found.tetrahedra[element]]
    assert np.linalg.det(corners[1:] - corners[0]) < 0


@pytest.mark.parametrize("shift", [0.0, 4.5e6, 4.5e8])
def test_flat_elements(shift: float) -> None:
    base = np.array([[0.1, 0.2, 0.3], [10.3, 0.1, 0.7], [0.4, 10.1, 0.9]])
    inside = base.T @ [0.2, 0.3, 0.5]
    good = np.array([5.0, 5.0, 9.0])
    points = np.array([*base, inside, good]) + shift
    elements = np.array([[0, 1, 2, 4], [0, 2, 1, 3]])
    text = mesh_refusal(Box(points, elements))
    assert "1 element has no volume; the flattest is element 102 (center" in text
    points[3] += np.array([0, 0, -1e-5])  # thin, but by far more than rounding
    check_tetrahedra(Box(points, elements).mesh())


def cracked() -> Box:
    """Two halves whose common face has one vertex twice."""
    found = box()
    corner = int(np.flatnonzero((found.points == [1, 1, 0]).all(axis=1))[0])
    found = replace(found, points=np.append(found.points, found.points[[corner]], axis=0))
    upper = found.points[found.tetrahedra, 0].mean(axis=1) > 1
    rows = found.tetrahedra[upper]
    found.tetrahedra[upper] = np.where(rows == corner, len(found.points) - 1, rows)
    return found


def crossed() -> Box:
    """Two cubes that share four vertices, but the square between them is cut along different diagonals."""
    other = box((1, 1, 1))
    return merged(other, replace(other, points=other.points * [-1, 1, -1] + [1, 0, 2]))


def hanging(parts: int) -> Box:
    return merged(box((1, 1, 1)), box((parts, parts, 1), 1 / parts, (0, 0, 1)))


ONE = box((1, 1, 1))
FAN = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1], [0.3, 0.3, 1.0]])
REFUSED = {
    "an element twice": (Box(ONE.points, ONE.tetrahedra[[*range(6), 2]]), "belong to more than two elements", "103, "),
    "every element twice": (Box(ONE.points, ONE.tetrahedra[[0, 0]]), "no exterior faces"),
    "a face of three elements": (
        Box(FAN, np.array([[0, 1, 2, 3], [0, 2, 1, 4], [0, 1, 2, 5]])), "to elements 101, 102, 103",
        "1 face belongs to more than two elements; the first, around x = 0.333333 m",
    ),
    "a vertex twice": (Box(ONE.points, ONE.tetrahedra[:, [0, 1, 2, 2]]), "element 101"),
    "not merged": (together(box((2, 2, 1)), box((2, 2, 1), low=(0, 0, 1))), "9 vertices coincide", "z = 1 m"),
    "nearly merged": (together(box((2, 2, 1)), box((2, 2, 1), low=(0, 0, 1 + 3e-7))), "9 vertices coincide"),
    "a crack": (cracked(), "1 vertex coincides", "x = 1 m, y = 1 m, z = 0 m"),
    "crossed diagonals": (crossed(), "2 components that share no face"),
    "apart": (merged(box((2, 1, 1)), box((1, 1, 1), low=(5, 0, 0))), "2 components", "among them element 113"),
    "one edge": (merged(box((2, 1, 1)), box((1, 1, 1), low=(2, 1, 0))), "2 components", "x from 2 to 3 m"),
    "one corner": (merged(box((2, 1, 1)), box((1, 1, 1), low=(2, 1, 1))), "2 components", "x from 2 to 3 m"),
    "two hanging": (hanging(2), "there are hanging nodes: a vertex at", "z = 1 m is on"),
    "three hanging": (hanging(3), "there are hanging nodes: a vertex at", "face of element 10"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_meshes_that_cannot_carry_waves(name: str) -> None:
    mesh, *words = REFUSED[name]
    text = mesh_refusal(mesh)
    assert all(word in text for word in words), text


def test_a_hole_is_refused_unless_its_faces_have_a_name(tmp_path: Path) -> None:
    found = merged(*(box((1, 1, 1), low=p) for p in np.ndindex(3, 3, 3) if p != (1, 1, 1)))
    text = refusal(gmsh_file(tmp_path / "box.msh", found))
    assert "1 hole; the smallest has 12 faces" in text and "x from 1 to 2 m, y from 1 to 2 m, z from 1 to 2 m" in text
    mesh = found.mesh()
    exterior = exterior_triangles(mesh.neighbors)
    faces = mesh.elements[exterior[:, :1], TETRAHEDRON_FACES[exterior[:, 1]]]
    cavity = (np.abs(mesh.vertices[faces] - 1.5) < 1).all(axis=(1, 2))
    surfaces = (faces, np.where(cavity, 1, 2))
    mesh = read_tetrahedral_mesh(gmsh_file(tmp_path / "box.msh", found, "2.2", 4, surfaces, NAMES))
    assert {name: len(some) for name, some in mesh.boundaries.items()} == {"top": 12, "sides": 108}


def test_no_elements_and_a_material_without_name() -> None:
    nothing = TetrahedralMesh(np.zeros((0, 3)), np.zeros((0, 4), np.int64), np.zeros(0, np.int64))
    with pytest.raises(InputError, match="there are no elements"):
        check_tetrahedra(nothing)
    with pytest.raises(InputError, match="material 2 of element 5"):
        check_tetrahedra(replace(box().mesh(), materials=np.where(np.arange(48) == 5, 2, 0), groups=("a", "b")))


# Exodus, faults inside


def test_a_fault_inside_is_ignored(tmp_path: Path) -> None:
    """Triangles of a plane inside, as meshes of dynamic rupture have, beside the boundaries or without them."""
    found = box((2, 1, 2))
    faces = np.unique(np.sort(found.tetrahedra[:, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]].reshape(-1, 3)), axis=0)
    fault = faces[(found.points[faces, 0] == 1.0).all(axis=1)]
    triangles, is_top = found.triangles
    tags = np.r_[np.where(is_top, 1, 2), np.full(len(fault), 3)]
    every = np.concatenate([triangles, fault])
    path = gmsh_file(tmp_path / "a.msh", found, "2.2", 4, (every, tags), [*NAMES, (2, 3, "fault_103")])
    with pytest.warns(LithowaveWarning, match="'fault_103' is inside the mesh, between elements .4 faces., and"):
        mesh = read_tetrahedral_mesh(path)
    assert sorted(mesh.boundaries) == ["sides", "top"]
    alone = gmsh_file(tmp_path / "b.msh", found, "2.2", 4, (fault, np.full(len(fault), 103)), NAMES[:1])
    with pytest.warns(LithowaveWarning, match="'103' is inside the mesh"):
        mesh = read_tetrahedral_mesh(alone)
    assert sorted(mesh.boundaries) == ["x_max", "x_min", "y_max", "y_min", "z_max", "z_min"]


def test_exodus_by_meshio(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    found = box((2, 1, 1))
    meshio.exodus.write(tmp_path / "box.e", meshio.Mesh(found.points, [("tetra", found.tetrahedra)]))
    mesh = read_tetrahedral_mesh(tmp_path / "box.e")
    np.testing.assert_array_equal(mesh.element_vertices(), found.points[np.sort(found.tetrahedra, axis=1)])
    assert mesh.ids.tolist() == list(range(1, 13))
