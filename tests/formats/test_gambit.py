"""Meshes in GAMBIT's neutral format: what is read, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from lithowave import InputError
from lithowave.mesh import TETRAHEDRON_FACES, read_tetrahedral_mesh

# Vertices of each face as the format counts them, from 1.
SIDES = {1: {2, 1, 3}, 2: {1, 2, 4}, 3: {2, 3, 4}, 4: {3, 1, 4}}


def bricks(count: int = 2) -> tuple[np.ndarray, list[list[int]]]:
    """A row along x of unit cubes of six tetrahedra: points, and their numbers from 1."""
    points = [(x, y, z) for x in range(count + 1) for y in (0, 1) for z in (0, 1)]
    elements = []
    for cube in range(count):
        for axes in itertools.permutations(range(3)):
            path = [np.array([cube, 0, 0])]
            for axis in axes:
                path.append(path[-1] + np.eye(3, dtype=int)[axis])
            even = axes in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
            path = path if even else [path[0], path[2], path[1], path[3]]
            elements.append([points.index(tuple(one.tolist())) + 1 for one in path])
    return np.array(points, float), elements


def exterior(points: np.ndarray, elements: list[list[int]]) -> list[tuple[int, int, bool]]:
    """Element from 1, face from 1, and whether it lies at z = 1, of the faces in the planes of the box."""
    found = []
    for (number, row), (face, side) in itertools.product(enumerate(elements, 1), SIDES.items()):
        corners = points[[row[corner - 1] - 1 for corner in side]]
        planes = (corners == corners[0]).all(axis=0) & ((corners[0] == points.min(0)) | (corners[0] == points.max(0)))
        if planes.any():
            found.append((number, face, bool(planes[2] and corners[0, 2] == 1)))
    return found


def section(title: str, rows: list[str]) -> str:
    return "\n".join([title + " 2.4.6", *rows, "ENDOFSECTION", ""])


def neu(
    points: np.ndarray,
    elements: list[list[int]],
    groups: list[tuple[str, list[int]]],
    sets: list[tuple[str, list[tuple[int, int]]]],
    shift: int = 0,
) -> str:
    """Text of a file; numbers of the elements are shifted."""
    counts = (len(points), len(elements), len(groups), len(sets), 3, 3)
    header = ["** GAMBIT NEUTRAL FILE", "box", "PROGRAM:  Gambit     VERSION:  2.4.6", " 21 Nov 2026    22:43:43"]
    header += ["     NUMNP     NELEM     NGRPS    NBSETS     NDFCD     NDFVL", "".join(f"{n:10d}" for n in counts)]
    parts = [section("        CONTROL INFO", header)]
    rows = ["{:10d}{:20.11e}{:20.11e}{:20.11e}".format(n, *point) for n, point in enumerate(points.tolist(), 1)]
    parts.append(section("   NODAL COORDINATES", rows))
    rows = [f"{n + shift:8d}  6  4 " + "".join(f"{v:8d}" for v in row) for n, row in enumerate(elements, 1)]
    parts.append(section("      ELEMENTS/CELLS", rows))
    for number, (name, members) in enumerate(groups, 1):
        head = f"GROUP:{number:11d} ELEMENTS:{len(members):11d} MATERIAL:{2:11d} NFLAGS:{1:11d}"
        lists = [members[first : first + 10] for first in range(0, len(members), 10)]
        rows = [head, name.rjust(32), "       0", *("".join(f"{n + shift:8d}" for n in some) for some in lists)]
        parts.append(section("       ELEMENT GROUP", rows))
    for name, faces in sets:
        head = f"{name:>32}{1:8d}{len(faces):8d}{0:8d}{6:8d}"
        parts.append(section(" BOUNDARY CONDITIONS", [head, *(f"{n + shift:10d}{6:5d}{side:5d}" for n, side in faces)]))
    return "".join(parts)


def sample(top: str = "101", rest: str = "105", shift: int = 0) -> str:
    points, elements = bricks()
    faces = exterior(points, elements)
    groups = [("upper crust", [7, 8, 9, 10, 11, 12]), ("basin", [2, 1, 3, 4, 5, 6])]
    sets = [(top, [(n, side) for n, side, up in faces if up]), (rest, [(n, side) for n, side, up in faces if not up])]
    return neu(points, elements, groups, sets, shift)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def refusal(path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read_tetrahedral_mesh(written(path, text))
    assert caught.value.file == path and caught.value.where == "mesh"
    return str(caught.value)


@pytest.mark.parametrize("shift", [0, 70])
def test_groups_and_boundaries(shift: int, tmp_path: Path) -> None:
    mesh = read_tetrahedral_mesh(written(tmp_path / "box.neu", sample(shift=shift)))
    points, elements = bricks()
    np.testing.assert_array_equal(mesh.element_vertices(), points[np.sort(elements, axis=1) - 1])
    np.testing.assert_array_equal(mesh.ids, np.arange(1, 13) + shift)
    assert mesh.groups == ("upper crust", "basin")
    np.testing.assert_array_equal(mesh.materials, mesh.element_vertices()[:, :, 0].mean(axis=1) < 1)
    assert {name: len(faces) for name, faces in mesh.boundaries.items()} == {"free": 4, "absorbing": 16}
    element, face = mesh.boundaries["free"].T
    assert (mesh.vertices[mesh.elements[element[:, None], TETRAHEDRON_FACES[face]], 2] == 1).all()
    np.testing.assert_allclose(mesh.volumes(), 1 / 6)


def test_other_writers(tmp_path: Path) -> None:
    """Nodes counted otherwise, Fortran's exponents, DOS line ends, blank lines, titles of two words."""
    text = sample("free surface 101").replace("e+00", "D+00").replace("ENDOFSECTION\n", "ENDOFSECTION\n\n")
    mesh = read_tetrahedral_mesh(written(tmp_path / "box.neu", text.replace("\n", "\r\n")))
    assert mesh.element_count == 12 and len(mesh.boundaries["free"]) == 4
    points, elements = bricks()
    lines = neu(points, elements, [], []).split("\n")
    lines[9:21] = lines[9:21][::-1]
    mesh = read_tetrahedral_mesh(written(tmp_path / "box.neu", "\n".join(lines)))
    np.testing.assert_allclose(mesh.volumes(), 1 / 6)
    expected = points[np.array(elements) - 1]
    np.testing.assert_array_equal(np.sort(mesh.element_vertices(), axis=1), np.sort(expected, axis=1))


def test_a_line_or_a_number_too_few_too_many_or_wrong(tmp_path: Path) -> None:
    lines = sample().split("\n")
    names = [n for n, line in enumerate(lines) if n < 5 or line.endswith(("2.4.6", "crust", "basin", " 6"))]
    for number, line in enumerate(lines):
        words = line.split()
        if not words or number in names:
            continue
        for wrong in ([], [line] * 2, [" ".join(words[:-1])], [" ".join([*words[:-1], "1x"])]):
            text = refusal(tmp_path / "box.neu", "\n".join([*lines[:number], *wrong, *lines[number + 1 :]]))
            assert "cannot be read" in text, (number, wrong, text)
            if wrong and wrong[0].endswith("1x") and words[0].isdigit():
                assert f"line {number + 1}: '1x' is not a" in text


def test_boundaries_that_have_no_meaning_here(tmp_path: Path) -> None:
    path = tmp_path / "box.neu"
    assert "the boundary condition 'sea102' is a free surface with gravity" in refusal(path, sample(rest="sea102"))
    assert "the boundary condition '106' is a periodic boundary" in refusal(path, sample(rest="106"))
    text = refusal(path, sample(top="tops"))
    assert "'tops' has a name that is not known" in text and "Did you mean 'top'?" in text
    nodes = sample().replace(f"{'101':>32}{1:8d}", f"{'101':>32}{0:8d}")
    assert "the boundary condition '101' is of nodes (type 0)" in refusal(path, nodes)


def changed(old: str, new: str) -> str:
    text = sample(shift=70)
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("      71  6  4        1 ", "      71  6  4       99 ", "71 has a node that the file does not contain"),
        ("      71  6  4        1 ", "      71  6  4      1.5 ", "line 24: '1.5' is not an integer"),
        ("      71  6  4 ", "      72  6  4 ", "element 72 appears twice"),
        ("      71  6  4 ", "      71  9  4 ", "an element is of type 9 with 4 nodes"),
        ("      72      71", "      72      99", "the group 2 has the element 99, which the file does not contain"),
        ("      72      71", "      72      77", "element 77 is in two groups"),
        ("      72      71", "      72      72", "appears twice in the group 2"),
        ("NFLAGS:          1\n                           basin", "1\nbasin", "line 44: expected 'GROUP: .. ELEM"),
        ("        12         2         2 ", "        12         1         2 ", "1 sections ELEMENT GROUP, but there"),
        ("         2         2         3", "         2         2         2", "its nodes have 2 coordinates, not 3"),
        ("         1   0.00000000000e+00", "         2   0.00000000000e+00", "node 2 appears twice"),
        ("         1   0.00000000000e+00", "         1   nan              ", "1 vertex has a position that is"),
        ("** GAMBIT NEUTRAL FILE", "** NEUTRAL FILE", "is not that of a GAMBIT neutral file"),
    ],
)
def test_what_stands_wrong_in_a_file_is_told(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path / "box.neu", changed(old, new))


def test_groups_and_boundaries_must_have_all(tmp_path: Path) -> None:
    points, elements = bricks()
    faces = [(n, side) for n, side, _ in exterior(points, elements)]
    path = tmp_path / "box.neu"
    text = refusal(path, neu(points, elements, [("rock", [1, 2, 3, 4, 6])], [], 70))
    assert "7 of 12 tetrahedra are in no group, the first is element 75" in text
    text = refusal(path, neu(points, elements, [], [("101", faces[:-1])], 70))
    assert "of 20 exterior faces 1 is in no surface group" in text and f"that of element {70 + faces[-1][0]} " in text
    text = refusal(path, neu(points, elements, [], [("101", faces), ("105", faces[3:4])]))
    assert "1 face is in the surface groups 'free' and 'absorbing'" in text
    inner = next((n, s) for n, s in itertools.product(range(1, 13), SIDES) if (n, s) not in faces)
    text = refusal(path, neu(points, elements, [], [("101", [*faces, inner])]))
    assert "of the surface group 'free' 1 face is inside the mesh" in text
    for row, message in (((1, 5), "face 5 of element 1 of type 6"), ((99, 1), "has the element 99, which the file")):
        assert message in refusal(path, neu(points, elements, [], [("101", [*faces, row])]))
    kind = neu(points, elements, [], [("101", faces)]).replace("         1    6    ", "         1    4    ", 1)
    assert "of element 1 of type 4, but tetrahedra (type 6)" in refusal(path, kind)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("13  4  8 1 2 3 4 5 6 7 8", "it has 1 hexahedron in addition to 12 tetrahedra; the first is element 13"),
        ("13  3  3 1 2 3", "1 triangular cell in addition to 12"),
        ("13  6 10 1 2 3 4 5 6 7\n 8 9 10", "1 tetrahedron of 10 nodes in addition to 12"),
    ],
)
def test_other_cells(row: str, message: str, tmp_path: Path) -> None:
    text = neu(*bricks(), [], []).replace("        12        12 ", "        12        13 ")
    head, tail = text.rsplit("ENDOFSECTION", 1)
    found = refusal(tmp_path / "box.neu", f"{head}{row}\nENDOFSECTION{tail}")
    assert message in found and "must be a tetrahedron of 4 nodes" in found
