"""Estimates of the memory of a run that are known before its mesh is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MemoryEstimate:
    """Lower bounds of the memory of all ranks together.

    plan_bytes : of the plan, in main memory. array_bytes : of the arrays of the solver. hint : what a user can change
    to need less, the beginning of a sentence.
    """

    plan_bytes: int
    array_bytes: int
    hint: str


def file_elements(path: str | Path, element_bytes: int) -> int:
    """Return the number of elements that a mesh file holds at least. element_bytes : in the file, at most.

    A file that cannot be read holds none; the reader reports the error.
    """
    try:
        return Path(path).stat().st_size // element_bytes
    except OSError:
        return 0
