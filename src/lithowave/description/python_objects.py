"""Hints for Python objects and text given as an entry that requires a list or a group of keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

LISTS = ("sources", "receivers")
_TEXT_KEYS = {
    "sources": "file", "receivers": "file", "material": "file", "solver": "method", "compute": "backend",
    "output": "directory",
}  # fmt: skip
"""For each entry the key that was most likely meant when the entry itself is text."""

_STATION = (
    '{"network": network.code, "name": station.code, "longitude": station.longitude, "latitude": station.latitude}'
)
_OBJECTS: dict[tuple[str | int, str], str] = {
    ("receivers", "Station"): f"give receivers=[{_STATION}] with the code of the network",
    ("material", "ndarray"): (
        'give arrays by name with their axes, material={"x": x, "y": y, "z": z, "vp": vp, "vs": vs, "rho": rho, '
        '"axes": ["x", "y", "z"]}, or an xarray Dataset'
    ),
    ("material", "function"): 'give material={"function": f} with a function f(x, y, z) that returns vp, vs and rho',
}


def is_obspy_object(value: Any) -> bool:
    """True if a value is an object of ObsPy, whose events are mappings, and whose catalogs are iterable."""
    return type(value).__module__.partition(".")[0] == "obspy"


def replacement(path: tuple[str | int, ...], value: Any) -> str:
    """Return a replacement for a value of the wrong type as a hint; empty if none is known.

    Parameters
    ----------
    path : keys and indices that lead to the value.
    """
    if not path or not all(isinstance(step, int) for step in path[1:]):
        return ""
    entry, in_list = path[0], len(path) == 1 and path[0] in LISTS
    if (entry, type(value).__name__) in _OBJECTS:
        return _OBJECTS[entry, type(value).__name__]
    if isinstance(value, (str, Path)) and entry in _TEXT_KEYS:
        group = f"{{{_TEXT_KEYS[entry]}: {value}}}"
        return f"did you mean {f'[{group}]' if in_list else group}?"
    return "put the group of keys into a list: [{...}]" if in_list and isinstance(value, Mapping) else ""
