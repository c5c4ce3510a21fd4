r"""CPU kernels of the finite differences: the readable specification of their CUDA versions.

**Argument lists of the kernels, shared by their CPU and CUDA versions.** A kernel has parameters with these names; its
CUDA version is called with the same list, which `launches.py` forwards by name. `law` is the tuple of the arrays
`law.LawFields.arguments`, `fields` the tuple of the arrays `law.FIELDS`.

**One row of points of each finite-difference update, for the CPU: the readable specification.** Fields are arrays
``f[k, j, i]`` (z, y, x; x contiguous) with a zero halo of M = order / 2 cells on every side. Staggering: normal
stresses, lambda, density and 1/mu at nodes (i, j, k); vx half a cell towards +x, vy towards +y, vz towards +z; sxy half
a cell towards +x and +y, and so on.

`lithowave.backends.loops` explains what makes Numba vectorize these loops. The coefficients are a tuple, so each order
is compiled separately with its stencil unrolled. An *axis* is the unit step (k, j, i) along it.

The constitutive relation is in `law.py`. Half nodes beyond the last node of a direction are outside: density and 1/mu
are immense there (`law.py`), so that the fields at them remain zero without a test.

**CPU updates of the whole grid: rows of `kernels.py` in tiles that stay in the cache, tiles distributed to the
threads.** The absorbing layers are updated here, row by row. Rows in a layer along y, or else along z, have an update
of their own, with the layer. Layers along x, and along z where both meet, *add* their change to the update of a row
while it is in the cache, so that corners need no separate code.

**CPU kernels for the closures of free and rigid faces, and for the smoothing in absorbing layers.** They *add* to the
interior update next to a face with normal n, so that edges and corners, where faces meet, need no separate code. With t
and u the other two axes, n carries the derivatives of vn, vt, vu and of snn, snt, snu.

**Kernels of sources, receivers, surface peaks and the instability check: few points, any field.** `fields` is the tuple
of flattened velocities and stresses. The contribution of a point is a list of (index, weight); all points of a kind
share one list, with the index of the point that owns each entry.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, U, exact_parallel, exact_row, multiply_add, parallel
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.solvers.common.kernels import count_step
from lithowave.solvers.finite_difference.law import (
    FIELDS,
    VELOCITIES,
    X,
    Y,
    Z,
    add_shear_stress,
    add_uniaxial_stress,
    add_velocity,
    advance_normal_stress,
    advance_shear_stress,
    releasing_rate,
)

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


ZERO, ONE, TWO, THREE = U(0), U(1), U(2), U(3)


@exact_row
def add_backward(total, f, k, j, i, axis, c):
    """Return total + h df/dn at (k, j, i), f half a cell beyond: sum over m of c_m (f[n + m] - f[n - 1 - m])."""
    for m in range(U(len(c))):
        o = m + ONE
        ahead = f[k + m * axis[0], j + m * axis[1], i + m * axis[2]]
        total = multiply_add(c[m], ahead - f[k - o * axis[0], j - o * axis[1], i - o * axis[2]], total)
    return total


@exact_row
def add_forward(total, f, k, j, i, axis, c):
    """Return total + h df/dn half a cell beyond (k, j, i): sum over m of c_m (f[n + 1 + m] - f[n - m])."""
    return add_backward(total, f, k + axis[0], j + axis[1], i + axis[2], axis, c)


@exact_row
def backward(f, k, j, i, axis, c):
    """Return h df/dn as in `add_backward`."""
    return add_backward(f.dtype.type(0), f, k, j, i, axis, c)


@exact_row
def forward(f, k, j, i, axis, c):
    """Return h df/dn as in `add_forward`."""
    return add_forward(f.dtype.type(0), f, k, j, i, axis, c)


@exact_row
def velocity_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz):
    """Add dt / rho div sigma to v."""
    for i in range(begin, end):
        force = add_backward(forward(sxx, k, j, i, X, cx), sxy, k, j, i, Y, cy)
        add_velocity(vx, density, k, j, i, X, ratio, add_backward(force, sxz, k, j, i, Z, cz))
        force = add_forward(backward(sxy, k, j, i, X, cx), syy, k, j, i, Y, cy)
        add_velocity(vy, density, k, j, i, Y, ratio, add_backward(force, syz, k, j, i, Z, cz))
        force = add_backward(backward(sxz, k, j, i, X, cx), syz, k, j, i, Y, cy)
        add_velocity(vz, density, k, j, i, Z, ratio, add_forward(force, szz, k, j, i, Z, cz))


@exact_row
def stress_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz):
    """Add dt C : e to sigma, with the strain rate e = (grad v + grad v^T) / 2 and the constitutive relation C."""
    for i in range(begin, end):
        exx, eyy, ezz = (
            backward(vx, k, j, i, X, cx), backward(vy, k, j, i, Y, cy), backward(vz, k, j, i, Z, cz)
        )  # fmt: skip
        advance_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)
        shear = add_forward(forward(vx, k, j, i, Y, cy), vy, k, j, i, X, cx)
        advance_shear_stress(sxy, law, k, j, i, X, Y, ratio, shear)
        shear = add_forward(forward(vx, k, j, i, Z, cz), vz, k, j, i, X, cx)
        advance_shear_stress(sxz, law, k, j, i, X, Z, ratio, shear)
        shear = add_forward(forward(vy, k, j, i, Z, cz), vz, k, j, i, Y, cy)
        advance_shear_stress(syz, law, k, j, i, Y, Z, ratio, shear)


# The absorbing layers (C-PML; Komatitsch & Martin 2007, eqs. 15-27; unsplit, recursive convolution). A derivative d
# along n becomes d / kappa + psi with psi <- b psi + a d, which is the change r d + psi, where r = 1 / kappa - 1. Rows
# with their layer add (1 + r) d + psi; the others add the change to an update that has added d. With t and u the other
# two axes, n carries the derivatives of vn, vt, vu and of snn, snt, snu. half and node hold b, a, r; along y and z they
# are the same for an entire row: step 0. memory[p, q, m] holds psi of row (p, q) of the layer for derivative m; columns
# first .. end of the layer, whose first one is column `begin`.


@exact_row
def absorbed(memory, p, q, m, s, profile, depth, at, change):
    """Return the change of derivative m by a layer, given the interior value `change`, and update psi."""
    psi = multiply_add(profile[1, depth, at], change, profile[0, depth, at] * memory[p, q, m, s])
    memory[p, q, m, s] = psi
    return multiply_add(profile[2, depth, at], change, psi)


@exact_row
def absorb_velocity_row(
    k, j, begin, first, end, n, t, u, vn, vt, vu, snn, snt, snu, density, memory, m, p, q, half, node, depth, step,
    ratio, c,
):  # fmt: skip
    """Add the changes by the layer in vn, vt and vu: the derivatives of snn (half nodes), snt and snu (nodes)."""
    for s in range(first, end):
        i, at = begin + s, s * step
        change = absorbed(memory, p, q, m, s, half, depth, at, forward(snn, k, j, i, n, c))
        add_velocity(vn, density, k, j, i, n, ratio, change)
        change = absorbed(memory, p, q, m + ONE, s, node, depth, at, backward(snt, k, j, i, n, c))
        add_velocity(vt, density, k, j, i, t, ratio, change)
        change = absorbed(memory, p, q, m + TWO, s, node, depth, at, backward(snu, k, j, i, n, c))
        add_velocity(vu, density, k, j, i, u, ratio, change)


@exact_row
def absorb_stress_row(
    k, j, begin, first, end, n, t, u, vn, vt, vu, sxx, syy, szz, snt, snu, law, memory, m, p, q, half, node, depth,
    step, ratio, c,
):  # fmt: skip
    """Add the changes by the layer in the stresses: the derivatives of vn (nodes), vt and vu (half nodes)."""
    for s in range(first, end):
        i, at = begin + s, s * step
        change = absorbed(memory, p, q, m, s, node, depth, at, backward(vn, k, j, i, n, c))
        add_uniaxial_stress(sxx, syy, szz, law, k, j, i, n, ratio, change)
        change = absorbed(memory, p, q, m + ONE, s, half, depth, at, forward(vt, k, j, i, n, c))
        add_shear_stress(snt, law, k, j, i, n, t, ratio, change)
        change = absorbed(memory, p, q, m + TWO, s, half, depth, at, forward(vu, k, j, i, n, c))
        add_shear_stress(snu, law, k, j, i, n, u, ratio, change)


@exact_row
def with_layer(memory, p, q, m, s, factors, change):
    """Return derivative m with the change by a layer, and update psi. factors : b, a and r + 1."""
    psi = multiply_add(factors[1], change, factors[0] * memory[p, q, m, s])
    memory[p, q, m, s] = psi
    return multiply_add(factors[2], change, psi)


@exact_row
def factors_of_row(profile, depth):
    """Return the factors of `with_layer` of a row in a layer along y or z."""
    one = profile.dtype.type(1)
    return profile[0, depth, 0], profile[1, depth, 0], profile[2, depth, 0] + one


# Rows in a layer along y and along z have functions of their own: a single one, with the axes as arguments, is 5%
# slower with attenuation.


@exact_row
def velocity_row_in_y(
    k, j, begin, first, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, memory, p, q, half, node, ratio, cx, cy,
    cz,
):  # fmt: skip
    """Add dt / rho div sigma to v, in a layer along y; half, node : see `factors_of_row`."""
    for s in range(first, end):
        i = begin + s
        force = add_backward(forward(sxx, k, j, i, X, cx), sxz, k, j, i, Z, cz)
        force += with_layer(memory, p, q, ONE, s, node, backward(sxy, k, j, i, Y, cy))
        add_velocity(vx, density, k, j, i, X, ratio, force)
        force = add_backward(backward(sxy, k, j, i, X, cx), syz, k, j, i, Z, cz)
        force += with_layer(memory, p, q, ZERO, s, half, forward(syy, k, j, i, Y, cy))
        add_velocity(vy, density, k, j, i, Y, ratio, force)
        force = add_forward(backward(sxz, k, j, i, X, cx), szz, k, j, i, Z, cz)
        force += with_layer(memory, p, q, TWO, s, node, backward(syz, k, j, i, Y, cy))
        add_velocity(vz, density, k, j, i, Z, ratio, force)


@exact_row
def velocity_row_in_z(
    k, j, begin, first, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, memory, p, q, half, node, ratio, cx, cy,
    cz,
):  # fmt: skip
    """Add dt / rho div sigma to v, in a layer along z; half, node : see `factors_of_row`."""
    for s in range(first, end):
        i = begin + s
        force = add_backward(forward(sxx, k, j, i, X, cx), sxy, k, j, i, Y, cy)
        force += with_layer(memory, p, q, ONE, s, node, backward(sxz, k, j, i, Z, cz))
        add_velocity(vx, density, k, j, i, X, ratio, force)
        force = add_forward(backward(sxy, k, j, i, X, cx), syy, k, j, i, Y, cy)
        force += with_layer(memory, p, q, TWO, s, node, backward(syz, k, j, i, Z, cz))
        add_velocity(vy, density, k, j, i, Y, ratio, force)
        force = add_backward(backward(sxz, k, j, i, X, cx), syz, k, j, i, Y, cy)
        force += with_layer(memory, p, q, ZERO, s, half, forward(szz, k, j, i, Z, cz))
        add_velocity(vz, density, k, j, i, Z, ratio, force)


@exact_row
def stress_row_in_y(
    k, j, begin, first, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, memory, p, q, half, node, ratio, cx, cy, cz
):
    """Add dt C : e to sigma, in a layer along y; half, node : see `factors_of_row`."""
    for s in range(first, end):
        i = begin + s
        exx, ezz = backward(vx, k, j, i, X, cx), backward(vz, k, j, i, Z, cz)
        eyy = with_layer(memory, p, q, ZERO, s, node, backward(vy, k, j, i, Y, cy))
        advance_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)
        shear = with_layer(memory, p, q, ONE, s, half, forward(vx, k, j, i, Y, cy))
        advance_shear_stress(sxy, law, k, j, i, X, Y, ratio, add_forward(shear, vy, k, j, i, X, cx))
        shear = add_forward(forward(vx, k, j, i, Z, cz), vz, k, j, i, X, cx)
        advance_shear_stress(sxz, law, k, j, i, X, Z, ratio, shear)
        shear = with_layer(memory, p, q, TWO, s, half, forward(vz, k, j, i, Y, cy))
        advance_shear_stress(syz, law, k, j, i, Y, Z, ratio, add_forward(shear, vy, k, j, i, Z, cz))


@exact_row
def stress_row_in_z(
    k, j, begin, first, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, memory, p, q, half, node, ratio, cx, cy, cz
):
    """Add dt C : e to sigma, in a layer along z; half, node : see `factors_of_row`."""
    for s in range(first, end):
        i = begin + s
        exx, eyy = backward(vx, k, j, i, X, cx), backward(vy, k, j, i, Y, cy)
        ezz = with_layer(memory, p, q, ZERO, s, node, backward(vz, k, j, i, Z, cz))
        advance_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)
        shear = add_forward(forward(vx, k, j, i, Y, cy), vy, k, j, i, X, cx)
        advance_shear_stress(sxy, law, k, j, i, X, Y, ratio, shear)
        shear = with_layer(memory, p, q, ONE, s, half, forward(vx, k, j, i, Z, cz))
        advance_shear_stress(sxz, law, k, j, i, X, Z, ratio, add_forward(shear, vz, k, j, i, X, cx))
        shear = with_layer(memory, p, q, TWO, s, half, forward(vy, k, j, i, Z, cz))
        advance_shear_stress(syz, law, k, j, i, Y, Z, ratio, add_forward(shear, vz, k, j, i, Y, cy))


@exact_row
def depth_in_layers(place, starts, depths):
    """Return the depth of a row or plane in the layers along an axis, among the depths of all layers, or their number
    if it is in none."""
    found = U(starts.size) * depths
    for side in range(U(starts.size)):
        depth = place - starts[side]  # wraps around to a huge number before the layer
        if depth < depths:
            found = depth + side * depths
    return found


TILE_ROWS, FEWEST_ROWS = 24, 8


@exact_row
def tiling(rows, planes, threads):
    """Return the number of tiles in y and z, in total a multiple of the threads: about TILE_ROWS rows per tile.

    The layers make the outer rows and planes more expensive; tiles that span z share those of the bottom equally.
    """
    slabs = 1
    while threads > slabs * max(1, rows // FEWEST_ROWS) and slabs < planes // FEWEST_ROWS:
        slabs *= 2
    across = -(-threads // slabs)
    tiles = across * max(1, round(rows / (TILE_ROWS * across)))
    return min(tiles, rows), slabs


@exact_row
def tile_bounds(task, tiles, slabs, z, z_end, y, y_end):
    """Return the bounds (planes, rows) of a task: rows are split into `tiles`, so that a tile's planes stay in the
    cache, planes into `slabs`."""
    rows, planes = y_end - y, z_end - z
    slab = task // tiles
    tile = task - slab * tiles
    first_plane, last_plane = slab * planes // slabs, (slab + 1) * planes // slabs
    first_row, last_row = tile * rows // tiles, (tile + 1) * rows // tiles
    return U(z + first_plane), U(z + last_plane), U(y + first_row), U(y + last_row)


@exact_row
def columns_of_layer(start, width, x, x_end):
    """Return the columns (first, end) of a layer along x between the columns x and x_end of the grid."""
    first, end = max(x, start), min(x_end, start + width)
    return first - start, max(first, end) - start


@exact_row
def layer_depths(profile, starts):
    """Return the number of depths of one layer: the profile contains all layers along the axis."""
    return U(profile.shape[1] // max(starts.size, 1))


@exact_row
def layered_velocity_row(
    p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    """Update the velocities of row q of plane p between two columns, with the layers that contain it."""
    begin = U(len(cx))
    k, j = p + begin, q + begin
    y_depth = depth_in_layers(q, y_start, layer_depths(y_half, y_start))
    z_depth = depth_in_layers(p, z_start, layer_depths(z_half, z_start))
    in_y, in_z = y_depth < y_half.shape[1], z_depth < z_half.shape[1]
    if in_y:
        velocity_row_in_y(
            k, j, begin, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, y_memory, p, y_depth,
            factors_of_row(y_half, y_depth), factors_of_row(y_node, y_depth), ratio, cx, cy, cz,
        )  # fmt: skip
        if in_z:
            absorb_velocity_row(
                k, j, begin, first, last, Z, X, Y, vz, vx, vy, szz, sxz, syz, density,
                z_memory, U(0), z_depth, q, z_half, z_node, z_depth, ZERO, ratio, cz,
            )  # fmt: skip
    elif in_z:
        velocity_row_in_z(
            k, j, begin, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, z_memory, z_depth, q,
            factors_of_row(z_half, z_depth), factors_of_row(z_node, z_depth), ratio, cx, cy, cz,
        )  # fmt: skip
    else:
        velocity_row(
            k, j, begin + first, begin + last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz
        )  # fmt: skip
    width = U(x_memory.shape[3])
    for side in range(U(x_start.size)):
        s0, s1 = columns_of_layer(x_start[side], width, first, last)
        absorb_velocity_row(
            k, j, begin + x_start[side], s0, s1, X, Y, Z, vx, vy, vz, sxx, sxy, sxz, density,
            x_memory, side * THREE, p, q, x_half, x_node, side, ONE, ratio, cx,
        )  # fmt: skip


@exact_row
def layered_stress_row(
    p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    """Update the stresses of row q of plane p between two columns, with the layers that contain it."""
    begin = U(len(cx))
    k, j = p + begin, q + begin
    y_depth = depth_in_layers(q, y_start, layer_depths(y_half, y_start))
    z_depth = depth_in_layers(p, z_start, layer_depths(z_half, z_start))
    in_y, in_z = y_depth < y_half.shape[1], z_depth < z_half.shape[1]
    if in_y:
        stress_row_in_y(
            k, j, begin, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, y_memory, p, y_depth,
            factors_of_row(y_half, y_depth), factors_of_row(y_node, y_depth), ratio, cx, cy, cz,
        )  # fmt: skip
        if in_z:
            absorb_stress_row(
                k, j, begin, first, last, Z, X, Y, vz, vx, vy, sxx, syy, szz, sxz, syz, law,
                z_memory, U(0), z_depth, q, z_half, z_node, z_depth, ZERO, ratio, cz,
            )  # fmt: skip
    elif in_z:
        stress_row_in_z(
            k, j, begin, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, z_memory, z_depth, q,
            factors_of_row(z_half, z_depth), factors_of_row(z_node, z_depth), ratio, cx, cy, cz,
        )  # fmt: skip
    else:
        stress_row(
            k, j, begin + first, begin + last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz
        )  # fmt: skip
    width = U(x_memory.shape[3])
    for side in range(U(x_start.size)):
        s0, s1 = columns_of_layer(x_start[side], width, first, last)
        absorb_stress_row(
            k, j, begin + x_start[side], s0, s1, X, Y, Z, vx, vy, vz, sxx, syy, szz, sxy, sxz, law,
            x_memory, side * THREE, p, q, x_half, x_node, side, ONE, ratio, cx,
        )  # fmt: skip


@exact_parallel
def update_velocity(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz, threads, boxes,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    r"""Add dt / rho div sigma to v at every point of some boxes; ratio = dt / h.

    boxes (n, 6) : first and end of the points along x, y, z; they do not overlap. Arguments of the absorbing layers
    along each axis: memory, profiles at half nodes and nodes, and first nodes, as described in `grid_plan.AxisLayers`.
    """
    for number in range(boxes.shape[0]):
        first, last = U(boxes[number, 0]), U(boxes[number, 1])
        y, y_end, z, z_end = boxes[number, 2], boxes[number, 3], boxes[number, 4], boxes[number, 5]
        tiles, slabs = tiling(y_end - y, z_end - z, threads)
        for task in prange(tiles * slabs):
            rounding = flush_denormals()
            p0, p1, q0, q1 = tile_bounds(task, tiles, slabs, z, z_end, y, y_end)
            for p in range(p0, p1):
                for q in range(q0, q1):
                    layered_velocity_row(
                        p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz,
                        x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node,
                        z_start,
                    )  # fmt: skip
            restore_rounding(rounding)


@exact_parallel
def update_stress(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz, threads, boxes,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    r"""Add dt C : e to sigma, with the strain rate e and the constitutive relation C of `law.py`; ratio = dt / h.

    law : arrays of the law. The other arguments are those of `update_velocity`.
    """
    for number in range(boxes.shape[0]):
        first, last = U(boxes[number, 0]), U(boxes[number, 1])
        y, y_end, z, z_end = boxes[number, 2], boxes[number, 3], boxes[number, 4], boxes[number, 5]
        tiles, slabs = tiling(y_end - y, z_end - z, threads)
        for task in prange(tiles * slabs):
            rounding = flush_denormals()
            p0, p1, q0, q1 = tile_bounds(task, tiles, slabs, z, z_end, y, y_end)
            for p in range(p0, p1):
                for q in range(q0, q1):
                    layered_stress_row(
                        p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz,
                        x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node,
                        z_start,
                    )  # fmt: skip
            restore_rounding(rounding)


@exact_parallel
def update_both(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, law, ratio, cx, cy, cz, blocks, late, velocity_memory,
    stress_memory, x_half, x_node, x_start, y_half, y_node, y_start, z_half, z_node, z_start,
):  # fmt: skip
    r"""Update the stresses everywhere and the velocities where `late` is zero, in one sweep over memory.

    Velocities follow the stresses by the reach of the stencil, in rows and in planes, while both are in the cache: all
    stresses within reach of them have been updated, and so have all stresses that need the previous velocities. This is
    impossible next to other blocks, which threads update at the same time: these rows must be late.

    blocks (n, 4) : first and end of the rows and of the planes of each block; together they cover the grid.
    late (planes, rows) : 1 for rows of velocities that are not updated. velocity_memory, stress_memory : memory of the
    absorbing layers along x, y, z. The other arguments are those of `update_velocity` and `update_stress`.
    """
    x_velocity, y_velocity, z_velocity = velocity_memory
    x_stress, y_stress, z_stress = stress_memory
    first, last, reach = U(0), U(vx.shape[2] - 2 * len(cx)), len(cx)
    for number in prange(blocks.shape[0]):
        rounding = flush_denormals()
        y, y_end, z, z_end = blocks[number, 0], blocks[number, 1], blocks[number, 2], blocks[number, 3]
        rows = y_end - y
        tiles = max(1, round(rows / TILE_ROWS))
        for tile in range(tiles):
            q0, q1 = y + tile * rows // tiles, y + (tile + 1) * rows // tiles
            r0, r1 = q0 - reach if tile > 0 else y, q1 - reach if tile + 1 < tiles else y_end
            for plane in range(z, z_end + reach):
                if plane < z_end:
                    p = U(plane)
                    for q in range(U(q0), U(q1)):
                        layered_stress_row(
                            p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz,
                            x_stress, x_half, x_node, x_start, y_stress, y_half, y_node, y_start, z_stress, z_half,
                            z_node, z_start,
                        )  # fmt: skip
                if plane >= z + reach:
                    p = U(plane - reach)
                    for q in range(U(r0), U(r1)):
                        if late[p, q] == 0:
                            layered_velocity_row(
                                p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy,
                                cz, x_velocity, x_half, x_node, x_start, y_velocity, y_half, y_node, y_start,
                                z_velocity, z_half, z_node, z_start,
                            )  # fmt: skip
        restore_rounding(rounding)


@exact_parallel
def free_surface(plane, sxx, syy, szz, law, ratio):
    r"""Set szz to zero on a plane of nodes by a change of the vertical strain rate.

    The update has used an estimate of d(vz)/dz; the change that makes szz zero also changes sxx and syy.
    """
    rows, columns = szz.shape[1], szz.shape[2]
    k = U(plane)
    for row_number in prange(rows):
        j = U(row_number)
        for i in range(U(columns)):
            add_uniaxial_stress(sxx, syy, szz, law, k, j, i, Z, ratio, releasing_rate(szz, law, k, j, i, ratio))
            szz[k, j, i] = ratio - ratio


@exact_row
def weighted_line(f, k, j, i, inward, weights, d, reach):
    """Return the sum over e of weights[d, e] f at e steps inward (unsigned steps, which wrap around).

    reach is a tuple of the length of the sum, so that the compiler knows the length and unrolls the loop.
    """
    total = f.dtype.type(0)
    for e in range(U(len(reach))):
        total = multiply_add(weights[d, e], f[k + e * inward[0], j + e * inward[1], i + e * inward[2]], total)
    return total


@exact_row
def close_velocity_row(k, j, i, count, d, source, weights, reach, inward, v, s, density, axis, ratio):
    """Correct v at d steps inward from row (k, j, i); s is read from the row `source`."""
    k, j, i = k + d * inward[0], j + d * inward[1], i + d * inward[2]
    for n in range(count):
        force = weighted_line(s, source[0], source[1], source[2] + n, inward, weights, d, reach)
        add_velocity(v, density, k, j, i + n, axis, ratio, force)


@exact_row
def close_normal_stress_row(k, j, i, count, d, source, weights, reach, inward, v, sxx, syy, szz, law, axis, ratio):
    k, j, i = k + d * inward[0], j + d * inward[1], i + d * inward[2]
    for n in range(count):
        rate = weighted_line(v, source[0], source[1], source[2] + n, inward, weights, d, reach)
        add_uniaxial_stress(sxx, syy, szz, law, k, j, i + n, axis, ratio, rate)


@exact_row
def close_shear_stress_row(k, j, i, count, d, source, weights, reach, inward, v, s, law, a, b, ratio):
    k, j, i = k + d * inward[0], j + d * inward[1], i + d * inward[2]
    for n in range(count):
        shear = weighted_line(v, source[0], source[1], source[2] + n, inward, weights, d, reach)
        add_shear_stress(s, law, k, j, i + n, a, b, ratio, shear)


@exact_parallel
def close_velocity(
    vn, vt, vu, snn, snt, snu, density, node_change, half_change, node_reach, half_reach, first, half, shape, inward,
    n, t, u, ratio,
):  # fmt: skip
    r"""Replace the interior stencil along n near a face by the closed one, for velocities.

    node_change, half_change (depths, reach) : with the sign of the direction; the tuples node_reach and half_reach have
    the length of their rows. first : (k, j, i) of a corner node of the face. half : the same for the half nodes next to
    the face. shape : (planes, rows, columns) of the face. inward : step into the grid.
    """
    planes, rows, count = shape[0], shape[1], U(shape[2])
    for task in prange(planes * rows):
        rounding = flush_denormals()
        p = U(task // rows)
        q = U(task) - p * U(rows)
        node_row = (first[0] + p, first[1] + q, first[2])
        half_row = (half[0] + p, half[1] + q, half[2])
        for d in range(U(node_change.shape[0])):
            k, j, i = half_row
            close_velocity_row(k, j, i, count, d, node_row, half_change, half_reach, inward, vn, snn, density, n, ratio)
            k, j, i = node_row
            close_velocity_row(k, j, i, count, d, half_row, node_change, node_reach, inward, vt, snt, density, t, ratio)
            close_velocity_row(k, j, i, count, d, half_row, node_change, node_reach, inward, vu, snu, density, u, ratio)
        restore_rounding(rounding)


@exact_parallel
def close_stress(
    vn, vt, vu, sxx, syy, szz, snt, snu, law, node_change, half_change, node_reach, half_reach, first, half, shape,
    inward, n, t, u, ratio,
):  # fmt: skip
    r"""Replace the interior stencil along n near a face by the closed one, for stresses."""
    planes, rows, count = shape[0], shape[1], U(shape[2])
    for task in prange(planes * rows):
        rounding = flush_denormals()
        p = U(task // rows)
        q = U(task) - p * U(rows)
        node_row = (first[0] + p, first[1] + q, first[2])
        half_row = (half[0] + p, half[1] + q, half[2])
        for d in range(U(node_change.shape[0])):
            k, j, i = node_row
            close_normal_stress_row(
                k, j, i, count, d, half_row, node_change, node_reach, inward, vn, sxx, syy, szz, law, n, ratio
            )
            k, j, i = half_row
            close_shear_stress_row(
                k, j, i, count, d, node_row, half_change, half_reach, inward, vt, snt, law, n, t, ratio
            )
            close_shear_stress_row(
                k, j, i, count, d, node_row, half_change, half_reach, inward, vu, snu, law, n, u, ratio
            )
        restore_rounding(rounding)


@exact_parallel
def zero_on_face(vt, vu, first, shape):
    """Zero two fields on the nodes of a face."""
    planes, rows = shape[0], shape[1]
    for task in prange(planes * rows):
        p = U(task // rows)
        q = U(task) - p * U(rows)
        k, j = first[0] + p, first[1] + q
        for n in range(U(shape[2])):
            vt[k, j, first[2] + n] = vt.dtype.type(0)
            vu[k, j, first[2] + n] = vu.dtype.type(0)


@exact_row
def difference(field, k, j, i, dk, dj, di, inside, value):
    """Return the value of a neighbor less that of a point; zero if the field has no such neighbor."""
    return field[k + dk, j + dj, i + di] - value if inside else value - value


@exact_parallel
def layer_differences(field, halo, wx, wy, wz, most, box, limits, differences, place):
    r"""Compute the sum of the differences to the six neighbors times min(wx + wy + wz, most), in a box.

    wx, wy, wz : weights along each axis of the grid. box : first and end of the nodes along x, y, z. limits : first and
    last neighbor along x, y, z. differences[place:] : the result, x fastest.
    """
    columns, rows = box[1] - box[0], box[3] - box[2]
    for task in prange((box[5] - box[4]) * rows):
        rounding = flush_denormals()
        z = box[4] + task // rows
        y = box[2] + task % rows
        k, j = z + halo, y + halo
        for column in range(columns):
            x = box[0] + column
            i = x + halo
            value = field[k, j, i]
            total = difference(field, k, j, i, 0, 0, -1, x > limits[0], value)
            total += difference(field, k, j, i, 0, 0, 1, x < limits[1], value)
            total += difference(field, k, j, i, 0, -1, 0, y > limits[2], value)
            total += difference(field, k, j, i, 0, 1, 0, y < limits[3], value)
            total += difference(field, k, j, i, -1, 0, 0, z > limits[4], value)
            total += difference(field, k, j, i, 1, 0, 0, z < limits[5], value)
            differences[place + task * columns + column] = min(wx[x] + wy[y] + wz[z], most) * total
        restore_rounding(rounding)


@exact_parallel
def add_layer_differences(field, halo, box, differences, place):
    """Add the result of `layer_differences` to the field."""
    columns, rows = box[1] - box[0], box[3] - box[2]
    for task in prange((box[5] - box[4]) * rows):
        rounding = flush_denormals()
        k, j = box[4] + task // rows + halo, box[2] + task % rows + halo
        for column in range(columns):
            field[k, j, box[0] + column + halo] += differences[place + task * columns + column]
        restore_rounding(rounding)


__all__ = [
    "count_step", "inject", "inject_moments", "interpolate", "largest_magnitude", "pack", "sample", "surface_peaks",
    "unpack",
]  # fmt: skip


@njit(fastmath=FAST, error_model="numpy", cache=True)
def inject(fields, number, target, begin, weight, owner, amplitude, row):
    """Add weight * amplitude[row[0], owner] of the entries begin[n] .. begin[n + 1] to field number[n] at target[n]."""
    for n in range(target.size):
        total = 0.0
        for entry in range(begin[n], begin[n + 1]):
            total += weight[entry] * amplitude[row[0], owner[entry]]
        field = fields[number[n]].reshape(-1)
        field[target[n]] += total


# 1 along the axes at whose half nodes the stresses xx, yy, zz, xy, xz, yz are.
HALVES = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]])


@njit(fastmath=FAST, error_model="numpy", cache=True)
def overlap(first, brick, axis):
    """Return the first and end indices of the weights along an axis that are in a brick."""
    begin = max(brick[axis] - first, 0)
    return begin, max(min(brick[axis + 3] - first, 8), begin)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def add_product(total, brick, first, weight, halves, value):
    """Add value * w_x w_y w_z to the sums (8, 8, 8) of a brick, with weights at half nodes of the axes in `halves`."""
    x, y, z = first[0, halves[0]], first[1, halves[1]], first[2, halves[2]]
    i0, i1 = overlap(x, brick, 0)
    j0, j1 = overlap(y, brick, 1)
    k0, k1 = overlap(z, brick, 2)
    for k in range(k0, k1):
        for j in range(j0, j1):
            factor = value * weight[2, halves[2], k] * weight[1, halves[1], j]
            for i in range(i0, i1):
                total[z + k - brick[2], y + j - brick[1], x + i - brick[0]] += factor * weight[0, halves[0], i]


@njit(fastmath=FAST, error_model="numpy", cache=True)
def inject_moments(fields, brick, begin, source, first, weight, moment, amplitude, window, row):
    """Add moment * amplitude * w_x w_y w_z of the sources s to the stresses, brick by brick.

    brick (n, 6) : first and end nodes along x, y, z. begin, source : sources of brick n, in ascending order, are
    source[begin[n]:begin[n + 1]]. first (sources, 3, 2), weight (sources, 3, 2, 8) : lines of weights along each axis,
    at nodes and half nodes. moment (sources, 6). window : first and end of the sources that act, which have amplitudes
    in row row[0] of `amplitude`.
    """
    present = row[0] * (window[1] - window[0]) - window[0]
    for n in range(brick.shape[0]):
        entry, end = begin[n], begin[n + 1]
        while entry < end and source[entry] < window[0]:
            entry += 1
        if entry < end and source[entry] < window[1]:
            total = np.zeros((6, 8, 8, 8))
            while entry < end and source[entry] < window[1]:
                s = source[entry]
                value = amplitude[present + s]
                if value != 0.0:
                    for c in range(6):
                        if moment[s, c] != 0.0:
                            add_product(total[c], brick[n], first[s], weight[s], HALVES[c], value * moment[s, c])
                entry += 1
            for c in range(6):
                field = fields[3 + c]
                for k in range(brick[n, 2], brick[n, 5]):
                    for j in range(brick[n, 1], brick[n, 4]):
                        for i in range(brick[n, 0], brick[n, 3]):
                            field[k, j, i] += total[c, k - brick[n, 2], j - brick[n, 1], i - brick[n, 0]]


@parallel
def pack(fields, table, buffer):
    """Copy boxes of fields into a contiguous buffer.

    table (n, 8) : index of the field, index of the box's first element in the flattened field, planes, rows and columns
    of the box, its offset in the buffer, and strides from plane to plane and from row to row in the field.
    """
    for n in prange(table.shape[0]):
        field = fields[table[n, 0]].reshape(-1)
        at = U(table[n, 5])
        columns = U(table[n, 4])
        for p in range(table[n, 2]):
            for q in range(table[n, 3]):
                first = U(table[n, 1] + p * table[n, 6] + q * table[n, 7])
                for s in range(columns):
                    buffer[at + s] = field[first + s]
                at += columns


@parallel
def unpack(fields, table, buffer):
    """Copy boxes from a buffer into fields; see `pack`."""
    for n in prange(table.shape[0]):
        field = fields[table[n, 0]].reshape(-1)
        at = U(table[n, 5])
        columns = U(table[n, 4])
        for p in range(table[n, 2]):
            for q in range(table[n, 3]):
                first = U(table[n, 1] + p * table[n, 6] + q * table[n, 7])
                for s in range(columns):
                    field[first + s] = buffer[at + s]
                at += columns


@njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
def sample(fields, number, index, weight, begin, out, slot):
    """Set out[slot[0], c, p] to the sum of weight * field number[entry] over the entries begin[n] .. begin[n + 1],
    where n = c * points + p.

    number, index : indices of the field, and of the point in the flattened field. out : (capacity, components, points).
    """
    points = out.shape[2]
    for n in prange(begin.size - 1):
        total = 0.0
        for entry in range(begin[n], begin[n + 1]):
            total += weight[entry] * fields[number[entry]].reshape(-1)[index[entry]]
        c = n // points
        out[slot[0], c, n - c * points] = total


@exact_parallel
def interpolate(field, z_below, z_weight, y_below, y_weight, x_below, x_weight, out, component):
    """Set out[q, r, s, component] to the field, linear between the nodes below and above along z, y and x."""
    one = field.dtype.type(1)
    for task in prange(z_below.size * y_below.size):
        q = task // y_below.size
        r = task - q * y_below.size
        k, j, z, y = z_below[q], y_below[r], z_weight[q], y_weight[r]
        for s in range(x_below.size):
            i, x = x_below[s], x_weight[s]
            total = field.dtype.type(0)
            for side in range(2):
                near = field[k, j, i + side] * (one - z) + field[k + 1, j, i + side] * z
                far = field[k, j + 1, i + side] * (one - z) + field[k + 1, j + 1, i + side] * z
                total += (near * (one - y) + far * y) * (x if side else one - x)
            out[q, r, s, component] = total


@exact_row
def raise_peaks(peaks, r, s, east, north, up):
    """Raise the horizontal, vertical and total peak at (r, s) to those of this vector."""
    horizontal = east * east + north * north
    peaks[0, r, s] = max(peaks[0, r, s], np.sqrt(horizontal))
    peaks[1, r, s] = max(peaks[1, r, s], abs(up))
    peaks[2, r, s] = max(peaks[2, r, s], np.sqrt(horizontal + up * up))


@exact_parallel
def surface_peaks(
    vx, vy, vz, plane, halo, slope, far, gain, stencil, time_step, displacement, peak_velocity, peak_displacement
):  # fmt: skip
    r"""Update the peaks of |v| and |u| at the nodes of one plane: (3, rows, columns), horizontal, vertical, total.

    Velocities are read as in `points`. slope (2, rows, columns), far (rows, columns) : 3/8 r along x and y,
    and 1; near a source 1/2 r and 0. gain (rows, columns) : correction of vertical velocities. stencil : two
    coefficients of the first derivative, two weights of the mean of half nodes (at distances 1/2 and 3/2), and the gain
    of horizontal velocities; values multiplied by zero may be in another row. displacement (3, rows, columns) is the
    running trapezoidal integral, to which v dt is added.
    """
    rows, columns = displacement.shape[1], displacement.shape[2]
    half, eighth = vx.dtype.type(0.5), vx.dtype.type(0.125)
    d0, d1, m0, m1, horizontal = stencil[0], stencil[1], stencil[2], stencil[3], stencil[4]
    for r in prange(rows):
        j = r + halo
        for s in range(columns):
            i = s + halo
            w, e, w2, e2 = vx[plane, j, i - 1], vx[plane, j, i], vx[plane, j, i - 2], vx[plane, j, i + 1]
            b, a, b2, a2 = vy[plane, j - 1, i], vy[plane, j, i], vy[plane, j - 2, i], vy[plane, j + 1, i]
            of_vy = vy[plane, j, i + 1] - vy[plane, j - 1, i + 1] - vy[plane, j, i - 1] + vy[plane, j - 1, i - 1]
            of_vx = vx[plane, j + 1, i] - vx[plane, j + 1, i - 1] - vx[plane, j - 1, i] + vx[plane, j - 1, i - 1]
            east = m0 * (e + w) + m1 * (e2 + w2) - horizontal * (half * (e2 - e - w + w2 + of_vy))
            north = m0 * (a + b) + m1 * (a2 + b2) - horizontal * (half * (a2 - a - b + b2 + of_vx))
            sloped = slope[0, r, s] * (d0 * (e - w) + d1 * (e2 - w2)) + slope[1, r, s] * (d0 * (a - b) + d1 * (a2 - b2))
            first, second, k = vz[plane - 1, j, i], vz[plane - 2, j, i], plane - 1
            around = vz[k, j, i - 1] + vz[k, j, i + 1] + vz[k, j - 1, i] + vz[k, j + 1, i]
            bend = around - first - first - first - first
            up = first - sloped + far[r, s] * (eighth * (first - second)) - gain[r, s] * bend
            displacement[0, r, s] += time_step * east
            displacement[1, r, s] += time_step * north
            displacement[2, r, s] += time_step * up
            raise_peaks(peak_velocity, r, s, east, north, up)
            # The integral at the time of v lacks half a step of v.
            u, v, w = displacement[0, r, s], displacement[1, r, s], displacement[2, r, s]
            u -= half * time_step * east
            v -= half * time_step * north
            w -= half * time_step * up
            raise_peaks(peak_displacement, r, s, u, v, w)


@parallel
def largest_magnitude(vx, vy, vz, out):
    """Compute the largest |f| of three fields in as many sections as `out` has; not finite if any value is not."""
    parts = out.size
    for number in prange(out.size):
        zero = out.dtype.type(0)
        most, poison = zero, zero
        for plane in range(number, vx.shape[0], parts):
            k = U(plane)
            for j in range(U(vx.shape[1])):
                for i in range(U(vx.shape[2])):
                    x, y, z = vx[k, j, i], vy[k, j, i], vz[k, j, i]
                    most = max(most, abs(x), abs(y), abs(z))
                    # Zero except for infinity and NaN, which a comparison may miss.
                    poison += zero * (x + y + z)
        out[number] = most + poison
