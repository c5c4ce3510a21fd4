"""Tetrahedral meshes in GAMBIT's neutral format (.neu). Lengths are in meters.

Groups of elements have the names of their materials. Boundary conditions have names such as ``top`` or ``free``, or
names that end in the three digits of SeisSol: 101 is a free surface, 105 is absorbing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.cell_tables import (
    CellBlock,
    CellFile,
    Places,
    place_finder,
    refuse_odd_rows,
    row_runs,
    text_numbers,
    whole_numbers,
)
from lithowave.readers.text import UTF8_MARK

# Vertices of faces 1 to 4 of a tetrahedron.
GAMBIT_FACES = np.array([[1, 0, 2], [0, 1, 3], [1, 2, 3], [2, 0, 3]])

_TITLES = ("CONTROL INFO", "NODAL COORDINATES", "ELEMENTS/CELLS", "ELEMENT GROUP", "BOUNDARY CONDITIONS")
_TETRAHEDRON = 6
# Names by number of nodes: those of VTK, or text for cells that a tetrahedral mesh must not contain.
_KINDS = {1: "edge", 2: "quad", 3: "triangular cell", 4: "hexahedron", 5: "wedge", 6: "tetra", 7: "pyramid"}
_CORNERS = {1: 2, 2: 4, 3: 3, 4: 8, 5: 6, 6: 4, 7: 5}

_CODES = {"101": "free", "105": "absorbing"}
_REFUSED_CODES = {
    "102": "a free surface with gravity",
    "104": "a Dirichlet condition",
    "106": "a periodic boundary",
    "107": "an analytical solution",
}
_WHAT = "mesh"


@dataclass(frozen=True)
class GambitSection:
    """A section: its title without the version, its lines from the second on, and their first line number."""

    title: str
    body: bytes
    line: int


def read_gambit(path: Path) -> CellFile:
    """Return the contents of a .neu file; the faces with boundary conditions are triangles.

    ValueError: the file is damaged. InputError: an unknown boundary condition.
    """
    sections = list(gambit_sections(path.read_bytes().removeprefix(UTF8_MARK)))
    control = _only(sections, "CONTROL INFO")
    node_count, element_count, group_count, set_count, dimensions = _counts(control)
    if dimensions != 3:
        raise ValueError(f"its nodes have {dimensions} coordinates, not 3")
    numbers, positions = _nodes(_only(sections, "NODAL COORDINATES"), node_count)
    node_places = place_finder(numbers, "node")
    blocks = list(_elements(_only(sections, "ELEMENTS/CELLS"), element_count, node_places))
    if any(block.kind != "tetra" for block in blocks):
        return positions, blocks, {}, {}  # the caller rejects them
    ids = np.concatenate([np.zeros(0, np.int64), *(block.ids for block in blocks)])
    element_places = place_finder(ids, "element")
    nodes = np.concatenate([np.zeros((0, 4), np.int64), *(block.nodes for block in blocks)])
    tags = np.zeros(len(ids), np.int64)
    groups = [section for section in sections if section.title == "ELEMENT GROUP"]
    sets = [section for section in sections if section.title == "BOUNDARY CONDITIONS"]
    for found, count, word in ((groups, group_count, "ELEMENT GROUP"), (sets, set_count, "BOUNDARY CONDITIONS")):
        if len(found) != count:
            raise ValueError(f"there should be {count} sections {word}, but there are {len(found)}")
    volume_names = {tag: _group(section, tag, element_places, tags) for tag, section in enumerate(groups, 1)}
    surface_names, triangles = {}, []
    for tag, section in enumerate(sets, 1):
        surface_names[tag], elements, faces = _boundary(section, element_places)
        corners = nodes[elements[:, None], GAMBIT_FACES[faces]]
        triangles.append(CellBlock("triangle", ids[elements], corners, np.full(len(elements), tag)))
    return positions, [CellBlock("tetra", ids, nodes, tags), *triangles], volume_names, surface_names


def gambit_sections(data: bytes) -> Iterator[GambitSection]:
    """Yield the sections of a file. ValueError: the last one does not end, or a title is unknown."""
    place, line = 0, 1
    while data[place:].strip():
        end = data.find(b"ENDOFSECTION", place)
        text = data[place : end if end >= 0 else None]
        blank = len(text) - len(text.lstrip())
        line += text.count(b"\n", 0, blank)
        head, _, body = text[blank:].partition(b"\n")
        title = re.sub(r"\s+[\d.]+$", "", head.decode("latin-1").strip())
        if title not in _TITLES:
            raise ValueError(f"line {line}: '{title[:40]}' is not a known section: {', '.join(_TITLES)}")
        if end < 0:
            raise ValueError(f"the section {title} that begins in line {line} does not end with ENDOFSECTION")
        yield GambitSection(title, body, line + 1)
        line += 1 + body.count(b"\n")
        place = end + len(b"ENDOFSECTION")


def _only(sections: Sequence[GambitSection], title: str) -> GambitSection:
    found = [section for section in sections if section.title == title]
    if len(found) != 1:
        raise ValueError(f"there should be one section {title}, but there are {len(found)}")
    return found[0]


def _counts(section: GambitSection) -> list[int]:
    """Return the numbers of nodes, elements, groups, boundary conditions and coordinates."""
    names, _, numbers = section.body.partition(b"NUMNP")[2].partition(b"\n")
    known = [b"NELEM", b"NGRPS", b"NBSETS", b"NDFCD", b"NDFVL"]
    if b"GAMBIT NEUTRAL FILE" not in section.body or names.split() != known:
        raise ValueError("the section CONTROL INFO is not that of a GAMBIT neutral file")
    found = text_numbers(numbers, int, section.line + section.body.count(b"\n") - numbers.count(b"\n")).tolist()
    if len(found) != 6 or min(found) < 0:
        raise ValueError("in the section CONTROL INFO six counts should follow NUMNP ...")
    return found[:5]


def _nodes(section: GambitSection, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the IDs (n,) and positions (n, 3) of the nodes."""
    values = text_numbers(section.body, float, section.line)
    if len(values) != 4 * count:
        _refuse_odd_lines(section, 4)
        raise ValueError(f"of {count} nodes (NUMNP) there should be {4 * count} numbers, but there are {len(values)}")
    numbers = whole_numbers(values[::4])
    return numbers, np.ascontiguousarray(values.reshape(-1, 4)[:, 1:])


def _refuse_odd_lines(section: GambitSection, count: int) -> None:
    """ValueError: a line does not have this number of words."""
    for line, row in enumerate(section.body.split(b"\n"), section.line):
        words = len(row.split())
        if words not in (0, count):
            raise ValueError(f"line {line}: {words} numbers, expected {count}")


def _width(kind: int, count: int) -> int:
    if kind not in _KINDS or not _CORNERS[kind] <= count <= 27:
        raise ValueError(f"an element is of type {kind} with {count} nodes, which is not known")
    return 3 + count


def _elements(section: GambitSection, count: int, node_places: Places) -> Iterator[CellBlock]:
    """Yield the cells from their IDs, types, node counts and nodes."""
    values = text_numbers(section.body, int, section.line)
    there = 0
    try:
        for rows in row_runs(values, _width):
            kind, nodes = rows[0, 1:3].tolist()
            name = _KINDS[kind] if nodes == _CORNERS[kind] else f"{_KINDS[kind]}{nodes}"
            there += len(rows)
            yield CellBlock(name, rows[:, 0], node_places(rows[:, 3:]), np.zeros(len(rows), np.int64))
    except ValueError:
        refuse_odd_rows(section.body, _width, section.line)
        raise
    if there != count:
        raise ValueError(f"there should be {count} elements (NELEM), but there are {there}")


def _group(section: GambitSection, tag: int, element_places: Places, tags: np.ndarray) -> str:
    """Return the name of a group, and set the tag of its elements."""
    head, _, rest = section.body.partition(b"\n")
    name, _, rest = rest.partition(b"\n")
    pattern = rb"\s*GROUP:\s*(\d+)\s+ELEMENTS:\s*(\d+)\s+MATERIAL:\s*\S+\s+NFLAGS:\s*(\d+)\s*"
    match = re.fullmatch(pattern, head)
    if match is None:
        raise ValueError(f"line {section.line}: expected 'GROUP: .. ELEMENTS: .. MATERIAL: .. NFLAGS: ..'")
    number, count, flags = (int(part) for part in match.groups())
    values = text_numbers(rest, int, section.line + 2)
    if len(values) != flags + count:
        got = f"the group {number} should have {flags} flags and {count} elements"
        raise ValueError(f"{got}, but there are {len(values)} numbers")
    members = _elements_of(values[flags:], element_places, f"the group {number}")
    if tags[members].any():
        raise ValueError(f"element {values[flags:][np.argmax(tags[members] != 0)]} is in two groups")
    tags[members] = tag
    if len(np.unique(members)) != len(members):
        raise ValueError(f"an element appears twice in the group {number}")
    return name.decode("utf-8", "replace").strip() or str(number)


def _elements_of(numbers: np.ndarray, element_places: Places, what: str) -> np.ndarray:
    """Return the indices of elements from their IDs. ValueError: there is no such element."""
    found = element_places(numbers)
    if (found < 0).any():
        raise ValueError(f"{what} has the element {numbers[np.argmax(found < 0)]}, which the file does not contain")
    return found


def _boundary(section: GambitSection, element_places: Places) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the name of a boundary, and its elements and their faces, from 0."""
    head, _, rest = section.body.partition(b"\n")
    title, kind, count, value_count = _boundary_head(head, section.line)
    name = _boundary_name(title)
    if kind != 1:
        raise ValueError(f"the boundary condition '{title}' is of nodes (type {kind}), and not of faces (type 1)")
    values = text_numbers(rest, float if value_count else int, section.line + 1)
    width = 3 + value_count
    if len(values) != count * width:
        _refuse_odd_lines(GambitSection(section.title, rest, section.line + 1), width)
        got = f"the boundary condition '{title}' should have {count} faces"
        raise ValueError(f"{got}, of {width} numbers each, but there are {len(values)} numbers")
    entries = values.reshape(-1, width)[:, :3].astype(np.int64)
    elements = _elements_of(entries[:, 0], element_places, f"the boundary condition '{title}'")
    bad = (entries[:, 1] != _TETRAHEDRON) | (entries[:, 2] < 1) | (entries[:, 2] > 4)
    if bad.any():
        element, of, face = entries[np.argmax(bad)].tolist()
        got = f"the boundary condition '{title}' has face {face} of element {element} of type {of}"
        raise ValueError(f"{got}, but tetrahedra (type 6) have faces 1 to 4")
    return name, elements, entries[:, 2] - 1


def _boundary_head(head: bytes, line: int) -> tuple[str, int, int, int]:
    """Return title, type, count of entries and of values; the title is one word, or has 32 columns."""
    text = head.decode("latin-1").rstrip()
    for title, rest in (text.strip().partition(" ")[::2], (text[:32], text[32:])):
        words = rest.split()
        if title.strip() and len(words) >= 3 and all(word.isdigit() for word in words):
            return title.strip(), *(int(word) for word in words[:3])
    raise ValueError(f"line {line}: expected name, type, count of entries and of values of a boundary")


def _boundary_name(title: str) -> str:
    """Return the name of a boundary condition's surface. InputError: the boundary condition is unknown."""
    code = title[-3:]
    if code in _REFUSED_CODES:
        got = f"the boundary condition '{title}' is {_REFUSED_CODES[code]}"
        raise InputError(_WHAT, got, "allowed: names that end in 101 (free surface) or 105 (absorbing)")
    return _CODES.get(code, title)
