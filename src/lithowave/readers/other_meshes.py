"""Meshes of GAMBIT, Exodus II and SPECFEM3D, and the size of VTU files.

**GAMBIT**: tetrahedral meshes in its neutral format (.neu). Lengths are in meters. Groups of elements have the names of
their materials. Boundary conditions have names such as ``top`` or ``free``, or names that end in the three digits of
SeisSol: 101 is a free surface, 105 is absorbing.

**Exodus II** files are read without meshio, which ignores the names of blocks, side sets and element IDs.

**SPECFEM3D**: a folder with text files of nodes, hexahedra, materials and surfaces. ``mesh_file`` has the number of
elements, then lines with ID and eight nodes; ``nodes_coords_file`` has the number of nodes, then ID, x, y and z in m;
``materials_file`` has ID and material of each element. Files of surfaces have a number of faces, then the ID of the
element and the four nodes of each. Groups are the numbers of the materials.

**VTU**: the compressed arrays, which meshio expands without a limit, must not be too large.
"""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.readers.array_files import ArrayEntry, open_arrays
from lithowave.readers.budget import ExpandedSize
from lithowave.readers.gmsh import (
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
            kind, entries, values = (int(word) for word in words[:3])
            return title.strip(), kind, entries, values
    raise ValueError(f"line {line}: expected name, type, count of entries and of values of a boundary")


def _boundary_name(title: str) -> str:
    """Return the name of a boundary condition's surface. InputError: the boundary condition is unknown."""
    code = title[-3:]
    if code in _REFUSED_CODES:
        got = f"the boundary condition '{title}' is {_REFUSED_CODES[code]}"
        raise InputError(_WHAT, got, "allowed: names that end in 101 (free surface) or 105 (absorbing)")
    return _CODES.get(code, title)


EXODUS = (".e", ".exo", ".ex2", ".exodus", ".g", ".gen")
"""Suffixes of the files."""

# nodes_gmsh = nodes[ORDER]
FROM_EXODUS = np.array(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 9, 13, 10, 14, 15, 16, 19, 17, 18, 21, 25, 23, 24, 26, 22, 20]
)
# Corners of an Exodus hexahedron's sides 1 to 6.
EXODUS_SIDES = np.array([[0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [0, 3, 7, 4], [0, 1, 2, 3], [4, 5, 6, 7]])
# Corners of a tetrahedron's sides 1 to 4.
EXODUS_TETRAHEDRON_SIDES = np.array([[0, 1, 3], [1, 2, 3], [0, 2, 3], [0, 1, 2]])

_SURFACES = {"quad", "quad8", "quad9", "triangle", "triangle6"}


def read_exodus(path: Path) -> CellFile:
    """Return the contents of a file; nodes of hexahedra are in Gmsh's order.

    InputError: the file is damaged or has entries of unexpected shapes. ValueError: its entries do not match.
    """
    try:
        with open_arrays(path) as entries:
            return _contents(entries)
    except InputError as error:
        if error.where == _WHAT:
            raise
        raise InputError(_WHAT, error.got, error.allowed, error.hint, file=path) from None
    except (IndexError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


def _contents(entries: Mapping[str, ArrayEntry]) -> CellFile:
    """Return the cells of the blocks, and as cells of their own the faces of the side sets."""
    if "coord" in entries:
        positions = entries["coord"].values().T
    else:
        positions = np.stack([entries[name].values() for name in ("coordx", "coordy", "coordz")], axis=-1)
    cells: list[CellBlock] = []
    volume_names: dict[int, str] = {}
    surface_names: dict[int, str] = {}
    blocks = [name for name in entries if name.startswith("connect") and name[7:].isdigit()]
    labels = _labels(entries, "eb", len(blocks))
    ids = entries["elem_num_map"].load().astype(np.int64) if "elem_num_map" in entries else None
    count = 0
    corners: list[np.ndarray] = []  # of all elements in the order of the file, to which side sets refer
    for name in sorted(blocks, key=lambda name: int(name[7:])):
        tag, nodes = int(name[7:]), entries[name].load().astype(np.int64) - 1
        kind = _exodus_kind(str(entries[name].attributes.get("elem_type", "")), nodes.shape[1])
        nodes = nodes[:, FROM_EXODUS] if kind == "hexahedron27" else nodes
        end = count + len(nodes)
        block_ids = np.arange(count, end) + 1 if ids is None or len(ids) < end else ids[count:end]
        cells.append(CellBlock(kind, block_ids, nodes, np.full(len(nodes), tag)))
        count = end
        (surface_names if kind in _SURFACES else volume_names)[tag] = labels[tag - 1]
        corners.append(_with_corners(kind, nodes))
    sets = [name for name in entries if name.startswith("elem_ss") and name[7:].isdigit()]
    set_labels = _labels(entries, "ss", len(sets))
    for name in sets:
        number = int(name[7:])
        element, side = (entries[f"{part}_ss{number}"].load().astype(np.int64) - 1 for part in ("elem", "side"))
        solids = np.concatenate(corners)[element]
        tetrahedra = (solids[:, 4:] == -1).all(axis=1) & (solids[:, 3] >= 0)
        for kind, some, sides in (
            ("quad", ~tetrahedra, EXODUS_SIDES), ("triangle", tetrahedra, EXODUS_TETRAHEDRON_SIDES),
        ):  # fmt: skip
            if some.any():
                known = (side[some] >= 0) & (side[some] < len(sides))  # a face without corners is refused later
                faces = np.take_along_axis(solids[some], sides[np.where(known, side[some], 0)], axis=1)
                faces = np.where(known[:, None], faces, -1)
                cells.append(CellBlock(kind, element[some] + 1, faces, np.full(len(faces), len(blocks) + number)))
        surface_names[len(blocks) + number] = set_labels[number - 1]
    return positions, cells, volume_names, surface_names


def _with_corners(kind: str, nodes: np.ndarray) -> np.ndarray:
    """Return the corners (k, 8) of hexahedra and tetrahedra; -1 for missing ones, and for other cells."""
    found = np.full((len(nodes), 8), -1)
    count = {"hexahedron": 8, "tetra": 4}.get(kind.rstrip("0123456789"), 0)
    found[:, :count] = nodes[:, :count]
    return found


def _exodus_kind(name: str, count: int) -> str:
    """Return meshio's name for a block of elements with this name and number of nodes."""
    stems = {"hex": "hexahedron", "she": "quad", "qua": "quad", "tet": "tetra", "wed": "wedge", "pyr": "pyramid"}
    stems |= {"tri": "triangle", "bar": "line", "bea": "line", "tru": "line", "edg": "line", "sph": "vertex"}
    stems |= {"cir": "vertex", "poi": "vertex", "nod": "vertex"}
    stem = stems.get(name.lower()[:3], name or "unknown")
    least = {"hexahedron": 8, "quad": 4, "line": 2, "vertex": 1, "tetra": 4, "wedge": 6, "pyramid": 5, "triangle": 3}
    return stem if count == least.get(stem, count) else f"{stem}{count}"


def _labels(entries: Mapping[str, ArrayEntry], prefix: str, count: int) -> list[str]:
    """Return the names of the blocks ("eb") or side sets ("ss"); default: their numbers."""
    properties = entries.get(f"{prefix}_prop1")
    numbers = np.arange(1, count + 1) if properties is None else properties.load().reshape(-1)
    labels = [str(number) for number in numbers.tolist()]
    if f"{prefix}_names" in entries:
        for place, row in enumerate(entries[f"{prefix}_names"].load()):
            text = b"".join(np.asarray(row, "S1").tolist()).split(b"\0")[0].decode("utf-8", "replace").strip()
            labels[place] = text or labels[place]
    return labels


MESH_FILE = "mesh_file"
_NODES, _MATERIALS, _LAYERS = "nodes_coords_file", "materials_file", "absorbing_cpml_file"
_SPECFEM_SURFACES = {
    "absorbing_surface_file_xmin": "x_min", "absorbing_surface_file_xmax": "x_max",
    "absorbing_surface_file_ymin": "y_min", "absorbing_surface_file_ymax": "y_max",
    "absorbing_surface_file_bottom": "z_min",
    "free_or_absorbing_surface_file_zmax": "z_max", "free_surface_file": "z_max",
}  # fmt: skip


def specfem_files(path: Path) -> list[Path]:
    """Return the existing files of the mesh whose ``mesh_file`` is given, this one first."""
    others = (path.with_name(name) for name in (_NODES, _MATERIALS, *_SPECFEM_SURFACES))
    return [path, *(other for other in others if other.is_file())]


def read_specfem_mesh(path: Path) -> CellFile:
    """Return the contents of the folder of a ``mesh_file``.

    ValueError: a file is damaged. InputError: a file is missing, or elements have other than eight nodes.
    """
    folder = path.parent
    rows = _table(path, None)
    if rows.shape[1] != 9:
        got = f"the elements of {MESH_FILE} have {rows.shape[1] - 1} nodes"
        raise InputError(_WHAT, got, "expected 8", "export the mesh with 8 nodes per element (HEX8)", file=path)
    nodes = _table(folder / _NODES, 4)
    node_places = place_finder(whole_numbers(nodes[:, 0]), "node")
    ids, corners = whole_numbers(rows[:, 0]), node_places(whole_numbers(rows[:, 1:]))
    materials = whole_numbers(_table(folder / _MATERIALS, 2, counted=False))
    places = place_finder(ids, "element")(materials[:, 0])
    if len(materials) != len(ids) or (places < 0).any() or len(np.unique(places)) != len(ids):
        raise ValueError(f"{_MATERIALS} does not list each of the {len(ids)} elements once")
    tags = np.empty(len(ids), np.int64)
    tags[places] = materials[:, 1]
    # Undefined materials of SPECFEM3D have negative numbers; groups are numbered from 1 here, in the order of these.
    numbers, index = np.unique(tags, return_inverse=True)
    cells = [CellBlock("hexahedron", ids, corners, index.reshape(-1) + 1)]
    names = {number: str(material) for number, material in enumerate(numbers.tolist(), 1)}
    surface_names: dict[int, str] = {}
    for name, boundary in _SPECFEM_SURFACES.items():
        if not (folder / name).is_file() or boundary in surface_names.values():
            continue
        faces = whole_numbers(_table(folder / name, 5))
        if len(faces):
            surface_names[len(surface_names) + 1] = boundary
            tag = np.full(len(faces), len(surface_names))
            cells.append(CellBlock("quad", faces[:, 0], node_places(faces[:, 1:]), tag))
    if (folder / _LAYERS).is_file():
        issue_warning(
            f"{path}: the elements of {_LAYERS} are ordinary elements here. lithowave adds absorbing layers outside "
            "the mesh; a mesh without these elements saves their time."
        )
    return np.ascontiguousarray(nodes[:, 1:]), cells, names, surface_names


def _table(path: Path, width: int | None, counted: bool = True) -> np.ndarray:
    """Return the numbers of a file, whose first line states the number of rows if ``counted``.

    width : numbers per row; None: that of the first row.
    """
    try:
        data = path.read_bytes().removeprefix(UTF8_MARK)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(_WHAT, f"{path.name} cannot be read: {reason}", "it belongs to the mesh", file=path) from None
    first, _, rest = data.partition(b"\n") if counted else (b"", b"", data)
    if counted and not first.strip().isdigit():
        raise ValueError(f"{path.name} does not begin with the number of its rows")
    values = text_numbers(rest, float, 1 + counted)
    count = int(first) if counted else len(values) // (width or 1)
    columns = width or (len(rest.lstrip().partition(b"\n")[0].split()) if count else 9)
    if len(values) != count * columns:
        raise ValueError(f"{path.name} should have {count} rows of {columns} numbers, but has {len(values)} numbers")
    return values.reshape(count, columns)


class Decompressor(Protocol):
    """What expands a compressed block."""

    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


_HEADERS = {b"UInt32": 4, b"UInt64": 8}
_EXPANDERS: dict[bytes, Callable[[], Decompressor]] = {
    b"vtkZLibDataCompressor": zlib.decompressobj, b"vtkLZMADataCompressor": lzma.LZMADecompressor
}  # fmt: skip
_ARRAY = re.compile(rb"<DataArray\b([^>]*)>([^<]*)")
_AT_ONCE = 1 << 20


def require_size(path: Path) -> None:
    """Expand the compressed arrays of a file without storing them.

    Raises
    ------
    ValueError : the arrays are larger than the budget of the file, or the file has a document type declaration.
    """
    data = path.read_bytes()
    appended = data.find(b"<AppendedData")
    text = data if appended < 0 else data[:appended]
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ValueError("it has a document type declaration (DOCTYPE), which is not accepted for security")
    compressor = re.search(rb"<VTKFile\b[^>]*\bcompressor\s*=\s*[\"']([^\"']*)", text)
    if compressor is None:
        return
    expander = _EXPANDERS.get(compressor[1])
    if expander is None:
        raise ValueError(f"its compression {compressor[1].decode('latin-1')} is not known")
    kind = re.search(rb"<VTKFile\b[^>]*\bheader_type\s*=\s*[\"']([^\"']*)", text)
    width = _HEADERS.get(kind[1] if kind else b"UInt32", 4)
    big = re.search(rb"<VTKFile\b[^>]*\bbyte_order\s*=\s*[\"']BigEndian", text)
    words = np.dtype(f"{'>' if big else '<'}u{width}")
    size = ExpandedSize(path)
    start = data.find(b"_", data.find(b">", appended)) + 1 if appended >= 0 else 0
    is_raw = b"raw" in data[appended : data.find(b">", appended)] if appended >= 0 else False
    for attributes, content in _ARRAY.findall(text):
        offset = re.search(rb"\boffset\s*=\s*[\"'](\d{1,18})", attributes)
        if offset is not None and appended >= 0:
            _expand(data, start + int(offset[1]), is_raw, words, expander, size)
        elif b"binary" in attributes:
            stripped = content.strip()
            _expand(stripped, 0, False, words, expander, size)


def _expand(
    data: bytes, start: int, is_raw: bool, words: np.dtype, expander: Callable[[], Decompressor], size: ExpandedSize
) -> None:
    """Add the size of the blocks of one array; nothing is added for an array that is damaged."""
    width = words.itemsize

    def decoded(first: int, count: int) -> bytes:
        return data[first : first + count] if is_raw else base64.b64decode(data[first : first + _characters(count)])

    count = np.frombuffer(decoded(start, width)[:width], words)
    if count.size == 0 or int(count[0]) > len(data):
        return
    header_bytes = width * (3 + int(count[0]))
    lengths = np.frombuffer(decoded(start, header_bytes)[:header_bytes], words)[3:].astype(int)
    if not (0 <= lengths.sum() <= len(data)):
        return
    body = decoded(start + (header_bytes if is_raw else _characters(header_bytes)), int(lengths.sum()))
    for first, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        block, one = body[first : first + length], expander()
        while not one.eof:
            piece = one.decompress(block, _AT_ONCE)
            size.add(len(piece))
            block = getattr(one, "unconsumed_tail", b"")  # LZMA stores the rest itself
            if not piece and not block:
                break


def _characters(count: int) -> int:
    """Return the number of characters of bytes in base64."""
    return -(-count // 3) * 4
