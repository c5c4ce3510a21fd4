"""The argument lists of the kernels, one for the twins of both devices.

displacement : (points + 1, 4): u, m, and dt^2 over the mass of the point, s^2/kg; 0 there holds a point at rest.
momentum : (points + 1, 4): p, so that dt^2 / mass * p is what u gains in a step; the fourth number is of no account.
The last point of both belongs to no element: unused places of blocks lead to it. points : numbers of points (see
`arrangement.py`). shared : the first points belong to several elements, those from here on to one alone, which moves
them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "move": ("displacement", "momentum", "count"),
    "add_forces": (
        "displacement", "momentum", "points", "moduli", "geometry", "first_block", "shared", "order", "begin",
    ),
    "damp": ("momentum", "history", "point", "matrix"),
    "hold": ("momentum", "point", "kept"),
    "pack": ("momentum", "point", "outgoing"),
    "unpack": ("momentum", "kept", "point", "begin", "entry", "incoming"),
    "inject": ("momentum", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "sample": ("displacement", "momentum", "points", "base", "strides", "values", "slopes", "rate", "out", "slot"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("displacement", "momentum", "out"),
}  # fmt: skip


def named_arguments(kernel: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a call by name; TypeError when their number is not that of the kernel's list."""
    names = ARGUMENTS[kernel]
    if len(arguments) != len(names):
        raise TypeError(f"{kernel} takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return dict(zip(names, arguments, strict=True))
