"""Reports and estimates that all methods share.

It contains the lines of `check` about a plan that are common to all methods, from the entries of its summary; estimates
of the memory of a run before its mesh is generated; the work of each rank of a run, for the dry run; and the arrays of
a device for the records of receivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.backends.interface import Array, Backend, PendingCopy
    from lithowave.json_types import Entries as Summary

Line = tuple[str, str]


def face_line(summary: Summary, more: str = "") -> Line:
    """Return the faces by name; more : type of absorption."""
    return "faces", ", ".join(f"{face} {kind}" for face, kind in summary["faces"].items()) + more


def resolution_line(summary: Summary) -> Line:
    """Return the minimum points per shortest wavelength, and where."""
    name = "points per wavelength"
    if summary["points_per_wavelength"] is None:
        return name, "unknown: solver.max_frequency is not set"
    slowest = summary["points_per_wavelength_at"]
    place = where_text(slowest["place"])
    wave = "vp" if slowest.get("fluid") else "vs"
    return name, f"{summary['points_per_wavelength']:.3g} at {wave} = {slowest['vs_m_s']:g} m/s {place}"


def time_lines(summary: Summary) -> list[Line]:
    """Return the time step, its limit, and the number of steps."""
    step, limited = summary["time_step_s"], summary["time_step_limited_by"]
    fraction = step / summary["time_step_limit_s"]
    place = where_text(limited["place"])
    return [
        ("time step", f"{step:.6g} s ({fraction:.1%} of the limit, set by vp = {limited['vp_m_s']:g} m/s {place})"),
        ("steps", f"{summary['steps']:,}; a sample every {summary['sampling_interval_s']:.6g} s"),
    ]


def where_text(place: str) -> str:
    """Return a location as part of a sentence."""
    return place if place == "everywhere" else f"in {place}"


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


@dataclass(frozen=True)
class RankWorkload:
    """Workload of one rank.

    units : points or elements. work : work of a step, in updates of an interior point or element. neighbors : ranks
    with which it exchanges messages. sent_values : values that it sends in a step. parts : numbers of subdomains of the
    global grid along x, y, z; None for a mesh. exchanges : halo exchanges in a step: with local time stepping one per
    step of the smallest elements.
    """

    units: int
    work: float
    neighbors: int
    sent_values: int
    parts: tuple[int, ...] | None = None
    exchanges: int = 1


class Records:
    """Two device arrays for records: one is filled while the other is copied to the host.

    Kernels write a record to `array[slot[0]]` and then increment `slot`, so that the launches of a record are the same
    each time.

    Attributes
    ----------
    array : (capacity, ...), the array that is being filled.
    filling : which of the two arrays that is, 0 or 1.
    slot : (1,) on the device, index of the next record.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def start(self, shape: tuple[int, ...], dtype: npt.DTypeLike | None = None) -> None:
        """Allocate the arrays. shape : (capacity, ...); dtype : None for the precision of the run."""
        self._arrays = [self._backend.zeros(shape, dtype) for _ in range(2)]
        self.filling = 0
        self.slot, self._next = self._backend.zeros((1,), np.int64), 0

    @property
    def array(self) -> Array:
        """Array that is being filled."""
        return self._arrays[self.filling]

    def seek(self, slot: int) -> None:
        """Prepare one record at index `slot`, after which the kernels have incremented the index."""
        if slot != self._next:
            self._backend.assign(self.slot, np.array([slot]))
        self._next = slot + 1

    def fetch(self, count: int) -> PendingCopy:
        """Start to copy the first `count` records to the host, and return the pending copy.

        Further records are written to the other array.
        """
        full, self.filling = self._arrays[self.filling], 1 - self.filling
        return self._backend.fetch(full[:count])
