"""Argument lists of the kernels, shared by their CPU and CUDA versions.

displacement : (points + 1, 4): u, m, and dt^2 over the mass of the point, s^2/kg; 0 there keeps a point at rest.
momentum : (points + 1, 4): p, such that dt^2 / mass * p is the change of u in a step; the fourth entry is the factor
from the rate of u to a velocity, 1 in a solid. The last point of both belongs to no element and serves the padding of
blocks. points : indices of points (see `element_layout.py`). shared : index of the first point that belongs to only one
element, whose kernel also updates its displacement; the points before it belong to several. moved : for each color, and
after the last, the number of points whose displacements are up to date before its launch; the launch moves those from
there to the next number, which its elements do not have.

A fluid has the potential phi, Pa s, instead of u in the first component of its own points, and zeros in the others. Its
mass has 1 / kappa instead of rho, its rate is -P, the factor of velocities 1 / (rho c), and `moduli` 1 / rho. solid,
fluid : points of the pairs on interfaces (see `coupling`).

In an absorbing layer with n active axes, memory (12 n + 3 per point of each element) holds the variables of the
filters: for each axis, those of three derivatives along it, and of the stresses in the columns of the two other axes;
then, for each axis, those of the force, and of its friction. In a fluid they are 4 n + 1, of one derivative and two
velocities. filters (3 n + 3 per point) : b, a, c of each axis, b < 0 where the layer begins, and those of the friction.
Aligned elements (see `layer_codes`) have the variables of the derivatives, of the forces and of the friction, 6 n + 3,
in a fluid 2 n + 1, and filters have the values of `Stretching.lines` for each active direction. A damped layer has
those of nine derivatives and of the force, 12, and three coefficients. first_axis : axis that becomes the first of the
rotated coordinates of moduli, geometry, memory and filters; of aligned elements, which are not rotated, the local
direction that becomes the first. stretched : (points, 3), p after the filters less p. coupled : (pairs, 4), the part of
p by the coupling.

In elements with attenuation by n mechanisms, relaxing (2 n per carrying point of `relaxation.py`) holds the moduli
Y kappa - 2/3 Y mu and Y mu of each mechanism, relaxation (6 n) their memory variables xx, yy, zz, yz, xz, xy, times the
quadrature weight, and recursion (n, 3) b, a, c.
"""

from __future__ import annotations

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "update_displacement": ("displacement", "momentum", "count"),
    "add_forces": (
        "displacement", "momentum", "points", "moduli", "geometry", "memory", "filters", "relaxing", "relaxation",
        "recursion", "first_axis", "first_block", "shared", "moved", "order", "begin",
    ),
    "damp": ("momentum", "history", "point", "matrix"),
    "uncouple": ("momentum", "coupled", "solid", "fluid"),
    "couple": ("momentum", "history", "coupled", "solid", "fluid", "matrix"),
    "unstretch": ("momentum", "stretched", "memory", "point", "filters"),
    "save_momenta": ("momentum", "point", "kept"),
    "pack": ("momentum", "point", "outgoing"),
    "unpack": ("momentum", "kept", "point", "begin", "entry", "incoming"),
    "inject": ("momentum", "target", "begin", "weight", "owner", "amplitude", "row"),
    "count_step": ("row",),
    "sample": ("displacement", "momentum", "points", "base", "strides", "values", "slopes", "rate", "out", "slot"),
    "keep_rates": ("momentum", "points", "base", "strides", "earlier"),
    "sample_fluid": (
        "displacement", "momentum", "points", "base", "strides", "values", "slopes", "mobility", "place", "element",
        "earlier", "rate", "out", "slot",
    ),
    "rotate_velocity": ("out", "slot", "axes"),
    "surface_peaks": ("velocity", "time_step", "displacement", "peak_velocity", "peak_displacement"),
    "largest_velocity": ("displacement", "momentum", "out"),
}  # fmt: skip
