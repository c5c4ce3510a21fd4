"""Meshes in Gmsh's format (.msh), versions 2 and 4.1, text and binary. Lengths are in meters.

Groups of volumes and surfaces are the physical groups. All element IDs are stored, all counts are compared with the
contents, and a million elements in text take seconds.

`CellBlock` and `CellFile` are the cells of any mesh file.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.text import UTF8_MARK

# Names and node counts of Gmsh's element types, with the VTK names of meshio.
# fmt: off
GMSH_KINDS = {
    1: ("line", 2), 2: ("triangle", 3), 3: ("quad", 4), 4: ("tetra", 4), 5: ("hexahedron", 8),
    6: ("wedge", 6), 7: ("pyramid", 5), 8: ("line3", 3), 9: ("triangle6", 6), 10: ("quad9", 9),
    11: ("tetra10", 10), 12: ("hexahedron27", 27), 13: ("wedge18", 18), 14: ("pyramid14", 14),
    15: ("vertex", 1), 16: ("quad8", 8), 17: ("hexahedron20", 20), 18: ("wedge15", 15), 19: ("pyramid13", 13),
    21: ("triangle10", 10), 26: ("line4", 4), 29: ("tetra20", 20),
}
# fmt: on
_WHAT = "mesh"


class BinaryNumbers:
    """Numbers of a binary section: integers of 4, sizes of `size` and reals of 8 bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.place, self.whole = data, 0, np.dtype(f"u{size}")

    def take(self, count: int, kind: np.dtype) -> np.ndarray:
        """Return the next numbers. ValueError: there are fewer."""
        if not 0 <= count * kind.itemsize <= len(self.data) - self.place:
            left = len(self.data) - self.place
            raise ValueError(f"there are {left} bytes where {count} numbers of {kind.itemsize} bytes should follow")
        self.place += count * kind.itemsize
        return np.frombuffer(self.data, kind, count, self.place - count * kind.itemsize)

    def ints(self, count: int) -> np.ndarray:
        """Return the next integers."""
        return self.take(count, np.dtype(np.int32)).astype(np.int64)

    def sizes(self, count: int) -> np.ndarray:
        """Return the next counts or IDs of nodes or elements."""
        found = self.take(count, self.whole)
        if count and found.max() > 2**62:
            raise ValueError("there is a number out of range")
        return found.astype(np.int64)

    def reals(self, count: int) -> np.ndarray:
        """Return the next reals."""
        return self.take(count, np.dtype(float))

    @property
    def done(self) -> bool:
        """True if only white space is left."""
        return not self.data[self.place :].strip()


@dataclass(frozen=True)
class Section:
    """Text between $Name and $EndName, and the line number of its first line."""

    name: str
    body: bytes
    line: int


def read_gmsh(path: Path) -> CellFile:
    """Return the contents of a .msh file; the nodes of each cell are in Gmsh's order.

    ValueError: the file is damaged. InputError: another version of the format, a partitioned mesh, a volume or surface
    in several physical groups.
    """
    sections = gmsh_sections(path.read_bytes().removeprefix(UTF8_MARK))
    for name in ("MeshFormat", "Nodes", "Elements"):
        if name not in sections:
            raise ValueError(f"there is no section ${name}")
    version, binary, size = gmsh_header(sections["MeshFormat"])
    if version != "4.1" and version.split(".")[0] != "2":
        got = f"it is of version {version} of Gmsh's format"
        raise InputError(_WHAT, got, "allowed: 2.2 and 4.1", "In Gmsh set Mesh.MshFileVersion = 4.1", file=path)
    if "PartitionedEntities" in sections:
        hint = "In Gmsh save without partitions"
        raise InputError(_WHAT, "the mesh is partitioned", "it must not be", hint, file=path)
    names = physical_names(sections.get("PhysicalNames"))
    if version == "4.1":
        positions, blocks = gmsh_4(sections, size if binary else 0, names)
    else:
        positions, blocks = gmsh_2(sections, binary)
    return positions, blocks, names[3], names[2]


def gmsh_sections(data: bytes) -> dict[str, Section]:
    """Return the sections of a file by name. ValueError: a section does not end, or is repeated."""
    found: dict[str, Section] = {}
    place, line = 0, 1
    while match := re.compile(rb"\s*\$(\w+)[ \t\r]*\n").match(data, place):
        name = match[1].decode("latin-1")
        end = data.find(b"$End" + match[1], match.end())
        if end < 0:
            raise ValueError(f"the section ${name} does not end with $End{name}")
        if name in found and name in ("MeshFormat", "PhysicalNames", "Entities", "Nodes", "Elements"):
            raise ValueError(f"there are two sections ${name}")
        line += data.count(b"\n", place, match.end())
        found[name] = Section(name, data[match.end() : end], line)
        line += data.count(b"\n", match.end(), end)
        place = end + len(name) + 4
    if data[place:].strip():
        line += data.count(b"\n", place, len(data) - len(data[place:].lstrip()))
        raise ValueError(f"line {line}: expected a section ($...)")
    return found


def gmsh_header(section: Section) -> tuple[str, bool, int]:
    """Return the version of the format, whether it is binary, and the bytes of a size."""
    words = section.body.split(maxsplit=3)
    if len(words) < 3 or words[1] not in (b"0", b"1") or words[2] not in (b"4", b"8"):
        raise ValueError(f"line {section.line}: expected version, kind of file (0 or 1) and size of data")
    binary = words[1] == b"1"
    if binary and np.frombuffer(section.body.split(b"\n", 1)[1][:4], np.int32).tolist() != [1]:
        raise ValueError("it is a binary file with the other byte order")
    return words[0].decode("latin-1"), binary, int(words[2])


def physical_names(section: Section | None) -> dict[int, dict[int, str]]:
    """Return the names of the physical groups by dimension and number."""
    names: dict[int, dict[int, str]] = {dimension: {} for dimension in range(4)}
    if section is None:
        return names
    rows = section.body.decode("utf-8", "replace").strip().splitlines()
    if not rows or not rows[0].strip().isdigit() or int(rows[0]) != len(rows) - 1:
        raise ValueError("the section $PhysicalNames does not contain the number of names in its first line")
    for number, row in enumerate(rows[1:], 1):
        match = re.fullmatch(r'\s*([0-3])\s+(\d+)\s+"(.*)"\s*', row)
        if match is None:
            raise ValueError(f"line {section.line + number}: expected dimension, number and \"name\"")
        names[int(match[1])][int(match[2])] = match[3]
    return names


def _count_line(section: Section) -> tuple[int, bytes]:
    """Return the count in the first line of a section, and the rest."""
    first, _, rest = section.body.partition(b"\n")
    if not first.strip().isdigit():
        raise ValueError(f"line {section.line}: expected the count of the section ${section.name}")
    return int(first), rest


def _node_count(kind: int) -> int:
    if kind not in GMSH_KINDS:
        raise ValueError(f"elements of Gmsh's type {kind} are not known")
    return GMSH_KINDS[kind][1]


# Version 2


def gmsh_2(sections: Mapping[str, Section], binary: bool) -> tuple[np.ndarray, list[CellBlock]]:
    """Return the node positions, and the cells from rows of ID, type, count of tags, tags and nodes."""
    count, body = _count_line(sections["Nodes"])
    if binary:
        found = BinaryNumbers(body, 8)
        rows = found.take(count, np.dtype([("number", np.int32), ("position", float, 3)]))
        numbers, positions, done = rows["number"].astype(np.int64), rows["position"], found.done
    else:
        values = text_numbers(body, float, sections["Nodes"].line + 1)
        if len(values) != 4 * count:
            raise ValueError(f"of {count} nodes there should be {4 * count} numbers, but there are {len(values)}")
        numbers, positions, done = whole_numbers(values[::4]), values.reshape(-1, 4)[:, 1:], True
    if not done:
        raise ValueError(f"the section $Nodes holds more than {count} nodes")
    count, body = _count_line(sections["Elements"])
    node_places = place_finder(numbers, "node")
    blocks = []
    parts = _binary_rows(count, body) if binary else _text_rows(body, sections["Elements"].line + 1)
    for kind, tag_count, rows in parts:
        tags = np.abs(rows[:, 1]) if tag_count else np.zeros(len(rows), np.int64)
        blocks.append(CellBlock(GMSH_KINDS[kind][0], rows[:, 0], node_places(rows[:, 1 + tag_count :]), tags))
    there = sum(len(block.ids) for block in blocks)
    if there != count:
        raise ValueError(f"the section $Elements should hold {count} elements, but there are {there}")
    return np.ascontiguousarray(positions), blocks


def _width_2(kind: int, tag_count: int) -> int:
    if not 0 <= tag_count < 10**6:
        raise ValueError(f"an element has {tag_count} tags")
    return 3 + tag_count + _node_count(kind)


def _text_rows(body: bytes, line: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield type, count of tags, and rows of ID, tags and nodes."""
    values = text_numbers(body, int, line)
    try:
        for rows in row_runs(values, _width_2):
            kind, tag_count = rows[0, 1:3].tolist()
            yield kind, tag_count, np.delete(rows, [1, 2], axis=1)
    except ValueError:
        refuse_odd_rows(body, _width_2, line)
        raise


def _binary_rows(count: int, body: bytes) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the same as `_text_rows`, from blocks that begin with type, count and count of tags."""
    values, place = np.frombuffer(body, np.int32, len(body) // 4).astype(np.int64), 0
    while count > 0:
        kind, row_count, tag_count = values[place : place + 3].tolist() if len(values) >= place + 3 else (0, 0, 0)
        width = _width_2(kind, tag_count) - 2 if row_count > 0 else 0
        if row_count == 1:  # Gmsh's blocks have one element each: equal ones are combined
            row_count = min(count, alike_rows(values[place:], 3 + width, slice(0, 3)))
            rows = values[place : place + row_count * (3 + width)].reshape(-1, 3 + width)[:, 3:]
            place += row_count * (3 + width)
        else:
            rows = values[place + 3 : place + 3 + row_count * width].reshape(-1, max(1, width))
            place += 3 + row_count * width
        if row_count < 1 or len(rows) != row_count:
            raise ValueError(f"the section $Elements ends {count} elements too early")
        yield kind, tag_count, rows
        count -= row_count
    if body[4 * place :].strip():
        raise ValueError("the section $Elements contains more elements than its first line states")


# Version 4.1


def gmsh_4(
    sections: Mapping[str, Section], size: int, names: Mapping[int, Mapping[int, str]]
) -> tuple[np.ndarray, list[CellBlock]]:
    """Return the node positions, and the cells, in blocks of one entity (a volume, a surface ...) each.

    size : bytes of a size in a binary file, 0 for text.
    """

    def numbers_of(name: str, kind: type) -> TextNumbers | BinaryNumbers:
        section = sections[name]
        return BinaryNumbers(section.body, size) if size else TextNumbers(section.body, kind, section.line)

    groups = entity_groups(numbers_of("Entities", float)) if "Entities" in sections else None
    numbers, positions = _nodes_4(numbers_of("Nodes", float))
    node_places = place_finder(numbers, "node")
    stream = numbers_of("Elements", int)
    block_count, count = stream.sizes(4)[:2].tolist()
    blocks = []
    for _ in range(block_count):
        dimension, entity, kind = stream.ints(3).tolist()
        row_count = int(stream.sizes(1)[0])
        width = 1 + _node_count(kind)
        rows = stream.sizes(row_count * width).reshape(-1, width)
        tag = 0 if groups is None else _one_group(groups, dimension, entity, names)
        blocks.append(CellBlock(GMSH_KINDS[kind][0], rows[:, 0], node_places(rows[:, 1:]), np.full(len(rows), tag)))
    there = sum(len(block.ids) for block in blocks)
    if there != count or not stream.done:
        got = f"the section $Elements should hold {count} elements, but its blocks hold {there}"
        raise ValueError(got + ("" if stream.done else ", and more follows"))
    return positions, blocks


def _nodes_4(stream: TextNumbers | BinaryNumbers) -> tuple[np.ndarray, np.ndarray]:
    """Return the IDs (n,) and positions (n, 3) of the nodes."""
    block_count, count = stream.sizes(4)[:2].tolist()
    numbers, positions = [np.zeros(0, np.int64)], [np.zeros((0, 3))]
    for _ in range(block_count):
        dimension, _, parametric = stream.ints(3).tolist()
        row_count = int(stream.sizes(1)[0])
        numbers.append(stream.sizes(row_count))
        width = 3 + (dimension if parametric else 0)
        positions.append(stream.reals(row_count * width).reshape(-1, width)[:, :3])
    together = np.concatenate(numbers)
    if len(together) != count or not stream.done:
        got = f"the section $Nodes should hold {count} nodes, but its blocks hold {len(together)}"
        raise ValueError(got + ("" if stream.done else ", and more follows"))
    return together, np.concatenate(positions)


def entity_groups(stream: TextNumbers | BinaryNumbers) -> dict[tuple[int, int], list[int]]:
    """Return the numbers of the physical groups of each entity, by dimension and number."""
    found: dict[tuple[int, int], list[int]] = {}
    for dimension, count in enumerate(stream.sizes(4).tolist()):
        for _ in range(count):
            entity = int(stream.ints(1)[0])
            stream.reals(6 if dimension else 3)  # its bounding box
            groups = stream.ints(int(stream.sizes(1)[0]))
            found[dimension, entity] = np.unique(np.abs(groups)).tolist()
            if dimension:
                stream.ints(int(stream.sizes(1)[0]))  # its bounding entities
    if not stream.done:
        raise ValueError("the section $Entities contains more entities than it states")
    return found


def _one_group(
    groups: Mapping[tuple[int, int], list[int]], dimension: int, entity: int, names: Mapping[int, Mapping[int, str]]
) -> int:
    """Return the physical group of an entity, 0 for none. InputError: it is in several."""
    if (dimension, entity) not in groups:
        raise ValueError(f"there are elements of the entity {entity} of dimension {dimension}, which is not there")
    found = groups[dimension, entity]
    if len(found) > 1 and dimension >= 2:
        got = f"a {'volume' if dimension == 3 else 'surface'} is in the physical groups "
        got += " and ".join(f"'{names[dimension].get(group, str(group))}'" for group in found)
        raise InputError(_WHAT, got, "it must be in one group only")
    return found[0] if found else 0


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Cells of one kind: VTK name, IDs in the file (k,), nodes (k, n), and index (k,) of the group.

    Nodes are numbered from 0; -1 is a node that the file does not contain. Group 0 means no group.
    """

    kind: str
    ids: np.ndarray
    nodes: np.ndarray
    tags: np.ndarray


CellFile = tuple[np.ndarray, Sequence[CellBlock], Mapping[int, str], Mapping[int, str]]
"""Positions (n, 3) of the nodes, m; the cells; names of the groups of volumes and of those of surfaces."""


# Numbers in text


def text_numbers(text: bytes, kind: type, line: int) -> np.ndarray:
    """Return all numbers, int or float, of a text; Fortran's exponent letter D is allowed.

    line : line number of the text's first line in the file. ValueError: a word is not such a number, with its line.
    """
    if not text.strip():
        return np.zeros(0, kind)
    attempts = [text]
    if kind is float and re.search(rb"\d[dD]", text):
        attempts = [text.translate(bytes.maketrans(b"dD", b"ee"))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy up to 2.2 only warns of other words
            return np.fromstring(attempts[0], kind, sep=" ")
    except (ValueError, DeprecationWarning):
        pass
    for number, row in enumerate(attempts[0].split(b"\n"), line):
        for word in row.split():
            try:
                kind(word)
            except ValueError:
                shown = word[:30].decode("latin-1")
                what = "an integer" if kind is int else "a number"
                raise ValueError(f"line {number}: '{shown}' is not {what}") from None
    raise ValueError(f"there is a word that is not a number after line {line}")


def whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return the values as integers. ValueError: one is not an integer."""
    if not ((values == np.rint(values)) & (np.abs(values) < 2.0**53)).all():
        raise ValueError("there is a value that is not an integer")
    return values.astype(np.int64)


class TextNumbers:
    """Numbers of a text, read sequentially."""

    def __init__(self, text: bytes, kind: type, line: int) -> None:
        self.values, self.place = text_numbers(text, kind, line), 0

    def reals(self, count: int) -> np.ndarray:
        """Return the next numbers. ValueError: there are fewer."""
        if not 0 <= count <= len(self.values) - self.place:
            raise ValueError(f"there are {len(self.values) - self.place} numbers where {count} should follow")
        self.place += count
        return self.values[self.place - count : self.place]

    def ints(self, count: int) -> np.ndarray:
        """Return the next numbers, which must be integers."""
        return whole_numbers(self.reals(count))

    sizes = ints

    @property
    def done(self) -> bool:
        """True if all numbers have been read."""
        return self.place == len(self.values)


def alike_rows(values: np.ndarray, length: int, columns: slice) -> int:
    """Return the number of leading rows of `values` that equal the first one in some columns."""
    count, step, room = 0, 64, len(values) // length
    while count < room:
        some = values[count * length : min(room, count + step) * length].reshape(-1, length)
        alike = (some[:, columns] == values[columns]).all(axis=1)
        if not alike.all():
            return count + int(np.argmin(alike))
        count, step = count + len(some), 4 * step
    return count


def row_runs(values: np.ndarray, width: Callable[[int, int], int]) -> Iterator[np.ndarray]:
    """Yield batches of consecutive rows (k, width) of `values` with equal second and third numbers.

    width : length of a row as a function of these two numbers. ValueError: the last row is not complete.
    """
    place = 0
    while place < len(values):
        if place + 3 > len(values):
            raise ValueError(f"the row of element {values[place]} ends too early")
        first, second = values[place + 1 : place + 3].tolist()
        length = width(first, second)
        if length > len(values) - place:
            raise ValueError(f"the row of element {values[place]} ends too early")
        count = alike_rows(values[place:], length, slice(1, 3))
        yield values[place : place + count * length].reshape(count, length)
        place += count * length


def refuse_odd_rows(text: bytes, width: Callable[[int, int], int], line: int) -> None:
    """ValueError: a line has more or fewer numbers than its second and third numbers require."""
    for number, row in enumerate(text.split(b"\n"), line):
        words = [int(word) for word in row.split()]
        if words and (len(words) < 3 or len(words) != width(*words[1:3])):
            got = f"line {number}: the row of element {words[0]} has {len(words)} numbers"
            raise ValueError(f"{got}, which does not match its type")


Places = Callable[[np.ndarray], np.ndarray]
"""Function from IDs in the file to indices, -1 for unknown IDs."""


def place_finder(numbers: np.ndarray, what: str) -> Places:
    """Return a function from requested IDs to their indices in `numbers` (n,).

    ValueError: an ID is repeated; `what` names the kind of item.
    """
    count = len(numbers)
    if (numbers == np.arange(1, count + 1)).all():
        return lambda wanted: np.where((wanted >= 1) & (wanted <= count), wanted - 1, -1)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    double = ordered[1:] == ordered[:-1]
    if double.any():
        raise ValueError(f"{what} {ordered[np.argmax(double)]} appears twice")

    def places(wanted: np.ndarray) -> np.ndarray:
        spots = np.minimum(np.searchsorted(ordered, wanted), count - 1)
        return np.where(ordered[spots] == wanted, order[spots], -1)

    return places
