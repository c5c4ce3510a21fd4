"""Argument lists of the kernels, shared by their CPU and CUDA versions.

A kernel of `kernels.py`, `boundary_kernels.py` or `point_kernels.py` has parameters with these names; its CUDA version
is called with the same list, which `launches.py` forwards by name. `law` is the tuple of the arrays
`fields.LawFields.arguments`, `fields` the tuple of the arrays `fields.FIELDS`.
"""

from __future__ import annotations

from lithowave.solvers.finite_difference.fields import FIELDS, VELOCITIES

LAYERS = tuple(f"{axis}_{part}" for axis in "xyz" for part in ("memory", "half", "node", "start"))
FACE = ("node_change", "half_change", "node_reach", "half_reach", "first", "half", "shape", "inward", "n", "t", "u")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "update_velocity": (*FIELDS, "density", "ratio", "cx", "cy", "cz", "threads", "boxes", *LAYERS),
    "update_stress": (*FIELDS, "law", "ratio", "cx", "cy", "cz", "threads", "boxes", *LAYERS),
    "close_velocity": ("vn", "vt", "vu", "snn", "snt", "snu", "density", *FACE, "ratio"),
    "close_stress": ("vn", "vt", "vu", "sxx", "syy", "szz", "snt", "snu", "law", *FACE, "ratio"),
    "free_surface": ("plane", "sxx", "syy", "szz", "law", "ratio"),
    "zero_on_face": ("vt", "vu", "first", "shape"),
    "layer_differences": (
        "field", "halo", "wx", "wy", "wz", "most", "box", "limits", "differences", "place",
    ),
    "add_layer_differences": ("field", "halo", "box", "differences", "place"),
    "pack": ("fields", "table", "buffer"),
    "unpack": ("fields", "table", "buffer"),
    "inject": ("fields", "number", "target", "begin", "weight", "owner", "amplitude", "row"),
    "inject_moments": (
        "fields", "brick", "begin", "source", "first", "weight", "moment", "amplitude", "window", "row",
    ),
    "count_step": ("row",),
    "sample": ("fields", "number", "index", "weight", "begin", "out", "slot"),
    "interpolate": (
        "field", "z_below", "z_weight", "y_below", "y_weight", "x_below", "x_weight", "out", "component",
    ),
    "surface_peaks": (
        *VELOCITIES, "plane", "halo", "slope", "far", "gain", "stencil", "time_step", "displacement",
        "peak_velocity", "peak_displacement",
    ),
    "largest_magnitude": (*VELOCITIES, "out"),
}  # fmt: skip
