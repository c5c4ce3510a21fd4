"""The argument lists of the kernels, one for the twins of both devices.

A kernel of `kernels.py`, `boundary_kernels.py` or `point_kernels.py` has these parameters by these names; its twin on a
CUDA device is called with the same list, and `launches.py` hands it on by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

VELOCITIES = ("vx", "vy", "vz")
STRESSES = ("sxx", "syy", "szz", "sxy", "sxz", "syz")
FIELDS = VELOCITIES + STRESSES
LAYERS = tuple(f"{axis}_{part}" for axis in "xyz" for part in ("memory", "half", "node", "start"))
FACE = ("node_change", "half_change", "node_reach", "half_reach", "first", "half", "shape", "inward", "n", "t", "u")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "update_velocity": (*FIELDS, "density", "ratio", "cx", "cy", "cz", "threads", "boxes", *LAYERS),
    "update_stress": (*FIELDS, "lam", "compliance", "ratio", "cx", "cy", "cz", "threads", "boxes", *LAYERS),
    "close_velocity": ("vn", "vt", "vu", "snn", "snt", "snu", "density", *FACE, "ratio"),
    "close_stress": ("vn", "vt", "vu", "snn", "stt", "suu", "snt", "snu", "lam", "compliance", *FACE, "ratio"),
    "free_surface": ("plane", "sxx", "syy", "szz", "lam", "compliance"),
    "hold": ("vt", "vu", "first", "shape"),
    "pack": (*FIELDS, "table", "buffer"),
    "unpack": (*FIELDS, "table", "buffer"),
    "inject": (*FIELDS, "number", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "sample": (*FIELDS, "number", "index", "weight", "begin", "out", "slot"),
    "interpolate": (
        "field", "z_below", "z_weight", "y_below", "y_weight", "x_below", "x_weight", "out", "component",
    ),
    "surface_peaks": (
        *VELOCITIES, "plane", "halo", "slope", "far", "gain", "stencil", "time_step", "displacement",
        "peak_velocity", "peak_displacement",
    ),
    "largest_magnitude": (*VELOCITIES, "out"),
}  # fmt: skip


def named_arguments(kernel: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a call by name.

    Raises
    ------
    TypeError : when their number is not that of the kernel's list.
    """
    names = ARGUMENTS[kernel]
    if len(arguments) != len(names):
        raise TypeError(f"{kernel} takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return dict(zip(names, arguments, strict=True))
