"""Receivers as files describe them, before they are placed in the domain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lithowave.errors import InputError

MOST_PROBLEMS = 20
"""Number of problems of one file that are listed."""


@dataclass(frozen=True)
class ReceiverRecord:
    """A receiver in a file.

    Attributes
    ----------
    network : code; empty if the file has none.
    location : location code, which distinguishes sensors of one station at different positions; else empty.
    horizontal : (longitude, latitude) in degrees, or (x, y).
    burial : depth below the surface, m.
    z : height relative to the reference level, m, instead of a burial; None: the burial counts.
    elevation : height of the surface above sea level according to the file, m.
    place : location in the file: ``line 12``, ``trace 3``.
    """

    network: str
    station: str
    location: str
    horizontal: tuple[float, float]
    place: str
    burial: float = 0.0
    z: float | None = None
    elevation: float = 0.0


@dataclass(frozen=True)
class ReceiverTable:
    """The receivers of a file.

    Attributes
    ----------
    geographic : True for longitudes and latitudes, False for x and y.
    native : True if x and y are in the unit of their coordinate reference system, False if they are in m.
    unstated : True if the file states no unit of x and y, which may then be longitudes and latitudes.
    notes : clauses on content of the file that is not used, or was interpreted.
    """

    records: tuple[ReceiverRecord, ...]
    geographic: bool
    native: bool = False
    notes: tuple[str, ...] = ()
    unstated: bool = False


def raise_together(problems: list[InputError], path: Path) -> None:
    """Raise the problems of a file as one error; do nothing without any."""
    if problems:
        first, *others = problems[:MOST_PROBLEMS]
        raise InputError(first.where, first.got, first.allowed, first.hint, file=path, line=first.line, others=others)


def place_of(path: Path, line: int) -> str:
    """Return a line of a file as text: ``stations.csv:12``."""
    return f"{path.name}:{line}"
