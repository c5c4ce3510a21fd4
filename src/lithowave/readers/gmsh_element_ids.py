"""IDs of hexahedra in a Gmsh file: Gmsh shows and selects elements by ID, but meshio does not read the IDs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

_NODES = {1: 2, 3: 4, 5: 8, 8: 3, 10: 9, 12: 27, 15: 1, 16: 8}  # nodes per element type
_HEXAHEDRA = (5, 12)


def hexahedron_numbers(path: Path) -> np.ndarray | None:
    """Return the ID (m,) of each hexahedron, in the order of the file; None for unsupported versions or elements.

    Supported versions are 2 and 4.1 of the format, text and binary.
    """
    data = path.read_bytes()
    try:
        version, binary, size = data[data.index(b"$MeshFormat") :].split(maxsplit=4)[1:4]
        start = data.index(b"\n", data.index(b"\n$Elements") + 1) + 1
        section = memoryview(data)[start : data.rindex(b"\n$EndElements")]
        major, is_binary = float(version), int(binary) == 1
        if 2 <= major < 3:
            found = _old_binary(section) if is_binary else _old_text(section)
        elif major == 4.1:
            found = _new_binary(section, int(size)) if is_binary else _new_text(section)
        else:
            return None
        return np.concatenate([np.zeros(0, np.int64), *found])
    except (ValueError, IndexError, KeyError):
        return None


def _old_text(section: memoryview) -> Iterator[np.ndarray]:
    rows = (line.split(None, 2)[:2] for line in bytes(section).split(b"\n")[1:] if line.strip())
    numbers = [int(number) for number, kind in rows if int(kind) in _HEXAHEDRA]
    yield np.array(numbers, np.int64)


def _old_binary(section: memoryview) -> Iterator[np.ndarray]:
    """Yield IDs from blocks of three int32 (type, count, count of tags), followed by rows of ID, tags and nodes."""
    count = bytes(section[:40]).split(b"\n", 1)[0]
    left, place = int(count), len(count) + 1
    while left > 0:
        kind, rows, tags = np.frombuffer(section, np.int32, 3, place).tolist()
        width = 1 + tags + _NODES[kind]
        if kind in _HEXAHEDRA:
            yield np.frombuffer(section, np.int32, rows * width, place + 12).reshape(rows, width)[:, 0]
        place += 12 + 4 * rows * width
        left -= rows


def _new_text(section: memoryview) -> Iterator[np.ndarray]:
    """Yield IDs from four numbers, the first the count of blocks; per block dimension, entity, type, count, rows."""
    values = np.fromstring(bytes(section).decode("ascii"), np.int64, sep=" ")
    place = 4
    for _ in range(int(values[0])):
        kind, rows = values[place + 2 : place + 4].tolist()
        width = 1 + _NODES[kind]
        if kind in _HEXAHEDRA:
            yield values[place + 4 : place + 4 + rows * width].reshape(rows, width)[:, 0]
        place += 4 + rows * width


def _new_binary(section: memoryview, size: int) -> Iterator[np.ndarray]:
    """Yield IDs as `_new_text`; dimension, entity and type are int32, all others unsigned of `size` bytes."""
    whole = np.dtype(f"u{size}")
    blocks, place = int(np.frombuffer(section, whole, 1)[0]), 4 * size
    for _ in range(blocks):
        kind = int(np.frombuffer(section, np.int32, 3, place)[2])
        rows = int(np.frombuffer(section, whole, 1, place + 12)[0])
        width = 1 + _NODES[kind]
        if kind in _HEXAHEDRA:
            found = np.frombuffer(section, whole, rows * width, place + 12 + size).reshape(rows, width)[:, 0]
            yield found.astype(np.int64)
        place += 12 + size + size * rows * width
