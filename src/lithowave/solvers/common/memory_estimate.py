"""Estimates of the memory of a run before its mesh is generated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MemoryEstimate:
    """Lower bounds of the memory of all ranks together.

    plan_bytes : bytes of the plan, in main memory. array_bytes : bytes of the arrays of the solver. hint :
    `memory_hint` of the plan.
    """

    plan_bytes: int
    array_bytes: int
    hint: str


def file_elements(path: str | Path, element_bytes: int) -> int:
    """Return a lower bound of the elements in a mesh file. element_bytes : maximum bytes per element in the file.

    The bound is zero for a file that cannot be read; the reader reports the error.
    """
    try:
        return Path(path).stat().st_size // element_bytes
    except OSError:
        return 0
