"""Gridded models from text: one point per line, on a regular lattice in any order, with named columns.

The names of the columns are in the first line, with or without ``#``, or in the last comment before the first point, as
in ``# lon lat depth vp vs rho``. A unit may follow a name in parentheses or brackets: ``depth(km) vp[m/s]``.
Columns are separated by spaces, tabulators, commas or semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import ArrayEntry, ArrayFile
from lithowave.readers.text import require_lines

_KNOWN = {
    "longitude": "longitude", "lon": "longitude", "latitude": "latitude", "lat": "latitude", "x": "x", "y": "y",
    "z": "z", "depth": "depth", "dep": "depth", "elevation": "elevation",
    "vp": "vp", "vs": "vs", "rho": "rho", "density": "rho",
    "qp": "qp", "qs": "qs", "qmu": "qmu", "qkappa": "qkappa",
}  # fmt: skip
_HORIZONTAL = (("longitude", "latitude"), ("x", "y"))
_VERTICAL = ("depth", "z", "elevation")
_LARGEST = 500_000_000
"""Bytes of text above which a model should be in a binary format."""


def is_text(head: bytes) -> bool:
    """True if the first bytes of a file are printable ASCII text."""
    return bool(head) and all(byte in b"\t\n\r\f" or 32 <= byte < 127 for byte in head)


def read_text_model(path: Path) -> ArrayFile:
    """Return the axes and arrays of a text file, as those of a binary file.

    Raises
    ------
    InputError
        with the file and the line: columns without names, a line with another number of columns, a point that is there
        twice, or points that are missing in the lattice.
    """
    if path.stat().st_size > _LARGEST:
        raise InputError("file", f"has {path.stat().st_size} bytes", "expected a NetCDF or HDF5 file", file=path)
    data = path.read_bytes()
    require_lines(data, "file", path)
    lines = data.decode("utf-8", "replace").splitlines()
    names, units, start = _columns(lines, path)
    table = _table(lines, start, names, path)
    horizontal = next((pair for pair in _HORIZONTAL if all(name in names for name in pair)), None)
    vertical = [name for name in _VERTICAL if name in names]
    if horizontal is None or len(vertical) != 1:
        allowed = "expected longitude and latitude or x and y, and one of depth, z and elevation"
        raise InputError("columns", f"the columns are {', '.join(names)}", allowed, file=path, line=start)
    axes = (*horizontal, vertical[0])
    entries: dict[str, ArrayEntry] = {}
    order, shape = _lattice(table, names, axes, entries, path)
    for name in names:
        if name not in axes:
            values = table[order, names.index(name)].reshape(shape)
            entries[name] = _entry(values, axes)
    for name, unit in units.items():
        entries[name] = ArrayEntry(entries[name].shape, entries[name].dimensions, entries[name].load, {"units": unit})
    return ArrayFile(entries)


def _entry(values: np.ndarray, dimensions: tuple[str, ...]) -> ArrayEntry:
    return ArrayEntry(values.shape, dimensions, lambda: values)


def _columns(lines: list[str], path: Path) -> tuple[list[str], Mapping[str, str], int]:
    """Return the names of the columns, their units, and the number of the line with the names."""
    found: tuple[list[str], dict[str, str], int] | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        words = _words(text.lstrip("#%!").strip())
        known = [_KNOWN.get(re.sub(r"[\[(].*", "", word).lower(), "") for word in words]
        if sum(1 for name in known if name) >= 4:
            plain = [name or re.sub(r"[\[(].*", "", word).lower() for name, word in zip(known, words, strict=True)]
            units = {name: _unit(word) for name, word in zip(plain, words, strict=True) if _unit(word)}
            found = plain, units, number
        elif text[0] not in "#%!":
            break
    if found is None:
        raise InputError(
            "columns", "the columns have no names", "expected a first line such as `# lon lat depth vp vs rho`",
            "the order of columns differs between programs, so it cannot be assumed", file=path, line=1,
        )  # fmt: skip
    names = found[0]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError("columns", f"the column {twice[0]} is there twice", "", file=path, line=found[2])
    return found


def _words(text: str) -> list[str]:
    """Return the words of a line; a unit in parentheses belongs to the word before."""
    joined = re.sub(r"\s+(?=[\[(])", "", text)
    return [word for word in re.split(r"[\s,;]+(?![^(\[]*[)\]])", joined) if word]


def _unit(word: str) -> str:
    match = re.search(r"[\[(](.*)[)\]]", word)
    return match.group(1).strip() if match else ""


def _table(lines: list[str], start: int, names: list[str], path: Path) -> np.ndarray:
    """Return the numbers, (n_points, n_columns)."""
    rows = []
    for number, line in enumerate(lines[start:], start=start + 1):
        text = line.strip()
        if not text or text[0] in "#%!":
            continue
        words = [word for word in re.split(r"[\s,;]+", text) if word]
        if len(words) != len(names):
            allowed = f"expected {len(names)}: {', '.join(names)}"
            raise InputError("columns", f"has {len(words)} columns", allowed, file=path, line=number)
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise InputError(
                "columns", f"{text[:60]!r} contains text", "expected numbers", file=path, line=number
            ) from None
    if len(rows) < 8:
        raise InputError("points", f"the file has {len(rows)} points", "expected 8 or more", file=path)
    return np.array(rows)


def _lattice(
    table: np.ndarray, names: list[str], axes: tuple[str, ...], entries: dict[str, ArrayEntry], path: Path
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Add the axes to the entries; return the rows in the order of the lattice, and its shape."""
    indices, coordinates = [], []
    for name in axes:
        column = table[:, names.index(name)]
        if not np.isfinite(column).all():
            raise InputError(name, "has a coordinate without a value", "all must be finite", file=path)
        values, index = np.unique(column, return_inverse=True)
        if values.size < 2:
            raise InputError(name, f"is {values[0]:g} at all points", "expected two values or more", file=path)
        indices.append(index)
        coordinates.append(values)
        entries[name] = _entry(values, (name,))
    shape = tuple(values.size for values in coordinates)
    size = int(np.prod([float(count) for count in shape]))
    if size > 100 * len(table):
        got = f"its {len(table)} points have {' x '.join(map(str, shape))} different coordinates"
        raise InputError("points", got, "expected a complete lattice", file=path)
    place = np.ravel_multi_index(tuple(indices), shape)
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=size)
    for wrong, what in ((counts > 1, "is there twice"), (counts == 0, "is missing")):
        if wrong.any():
            at = np.unravel_index(int(wrong.argmax()), shape)
            point = ", ".join(
                f"{name} = {values[i]:.10g}" for name, values, i in zip(axes, coordinates, at, strict=True)
            )
            size_text = " x ".join(map(str, shape))
            got = f"the point {point} {what} ({int(wrong.sum())} such points; the lattice has {size_text})"
            raise InputError("points", got, "expected each point of a lattice once", file=path)
    return order, shape
