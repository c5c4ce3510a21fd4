"""CPU updates of the whole grid: rows of `rows.py` in tiles that stay in the cache, tiles distributed to the threads.

The absorbing layers are updated here, row by row, while the row is in the cache. They *add* their change to the
interior update, so that the rows of the interior do not depend on them, and corners, where layers meet, need no
separate code.
"""

from __future__ import annotations

from numba import prange

from lithowave.backends.loops import U, exact_parallel, exact_row
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.solvers.finite_difference.law import X, Y, Z, add_uniaxial_stress, releasing_rate
from lithowave.solvers.finite_difference.rows import (
    ONE,
    THREE,
    ZERO,
    absorb_stress_row,
    absorb_velocity_row,
    stress_row,
    velocity_row,
)

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
    velocity_row(
        k, j, begin + first, begin + last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz
    )
    width, y_depths, z_depths = U(x_memory.shape[3]), layer_depths(y_half, y_start), layer_depths(z_half, z_start)
    for side in range(U(x_start.size)):
        s0, s1 = columns_of_layer(x_start[side], width, first, last)
        absorb_velocity_row(
            k, j, begin + x_start[side], s0, s1, X, Y, Z, vx, vy, vz, sxx, sxy, sxz, density,
            x_memory, side * THREE, p, q, x_half, x_node, side, ONE, ratio, cx,
        )  # fmt: skip
    for side in range(U(y_start.size)):
        depth = q - y_start[side]  # wraps around to a huge number before the layer
        if depth < y_depths:
            depth += side * y_depths
            absorb_velocity_row(
                k, j, begin, first, last, Y, X, Z, vy, vx, vz, syy, sxy, syz, density,
                y_memory, U(0), p, depth, y_half, y_node, depth, ZERO, ratio, cy,
            )  # fmt: skip
    for side in range(U(z_start.size)):
        depth = p - z_start[side]
        if depth < z_depths:
            depth += side * z_depths
            absorb_velocity_row(
                k, j, begin, first, last, Z, X, Y, vz, vx, vy, szz, sxz, syz, density,
                z_memory, U(0), depth, q, z_half, z_node, depth, ZERO, ratio, cz,
            )  # fmt: skip


@exact_row
def layered_stress_row(
    p, q, first, last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    """Update the stresses of row q of plane p between two columns, with the layers that contain it."""
    begin = U(len(cx))
    k, j = p + begin, q + begin
    stress_row(k, j, begin + first, begin + last, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio, cx, cy, cz)
    width, y_depths, z_depths = U(x_memory.shape[3]), layer_depths(y_half, y_start), layer_depths(z_half, z_start)
    for side in range(U(x_start.size)):
        s0, s1 = columns_of_layer(x_start[side], width, first, last)
        absorb_stress_row(
            k, j, begin + x_start[side], s0, s1, X, Y, Z, vx, vy, vz, sxx, syy, szz, sxy, sxz, law,
            x_memory, side * THREE, p, q, x_half, x_node, side, ONE, ratio, cx,
        )  # fmt: skip
    for side in range(U(y_start.size)):
        depth = q - y_start[side]
        if depth < y_depths:
            depth += side * y_depths
            absorb_stress_row(
                k, j, begin, first, last, Y, X, Z, vy, vx, vz, sxx, syy, szz, sxy, syz, law,
                y_memory, U(0), p, depth, y_half, y_node, depth, ZERO, ratio, cy,
            )  # fmt: skip
    for side in range(U(z_start.size)):
        depth = p - z_start[side]
        if depth < z_depths:
            depth += side * z_depths
            absorb_stress_row(
                k, j, begin, first, last, Z, X, Y, vz, vx, vy, sxx, syy, szz, sxz, syz, law,
                z_memory, U(0), depth, q, z_half, z_node, depth, ZERO, ratio, cz,
            )  # fmt: skip


@exact_parallel
def update_velocity(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz, threads, boxes,
    x_memory, x_half, x_node, x_start, y_memory, y_half, y_node, y_start, z_memory, z_half, z_node, z_start,
):  # fmt: skip
    r"""Add dt / rho div sigma to v at every point of some boxes; ratio = dt / h.

    boxes (n, 6) : first and end of the points along x, y, z; they do not overlap. Arguments of the absorbing layers
    along each axis: memory, profiles at half nodes and nodes, and first nodes, as described in `cpml.AxisLayers`.
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
