"""The argument lists of the kernels, one for the twins of both devices.

displacement : (points + 1, 4): u, m, and dt^2 over the mass of the point, s^2/kg; 0 there holds a point at rest.
momentum : (points + 1, 4): p, so that dt^2 / mass * p is what u gains in a step; the fourth number is of no account.
The last point of both belongs to no element: unused places of blocks lead to it. points : numbers of points (see
`element_layout.py`). shared : the first points belong to several elements, those from here on to one alone, which moves
them itself.
"""

from __future__ import annotations

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "update_displacement": ("displacement", "momentum", "count"),
    "add_forces": (
        "displacement", "momentum", "points", "moduli", "geometry", "first_block", "shared", "order", "begin",
    ),
    "damp": ("momentum", "history", "point", "matrix"),
    "save_momenta": ("momentum", "point", "kept"),
    "pack": ("momentum", "point", "outgoing"),
    "unpack": ("momentum", "kept", "point", "begin", "entry", "incoming"),
    "inject": ("momentum", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "sample": ("displacement", "momentum", "points", "base", "strides", "values", "slopes", "rate", "out", "slot"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("displacement", "momentum", "out"),
}  # fmt: skip
