"""Updates of the whole grid on the CPU: rows of `rows.py` in tiles that stay in the cache, tiles over the threads.

The absorbing layers along x are done here, row by row: they are a few columns of every row, which are in the cache just
then. Those along y and z, and the closures of the faces, are kernels of their own (`boundary_kernels.py`).
"""

from __future__ import annotations

from numba import njit, prange

from lithowave.solvers.finite_difference.rows import (
    FAST,
    ONE,
    THREE,
    U,
    X,
    Y,
    Z,
    absorb_normal_stress_row,
    absorb_normal_velocity_row,
    absorb_shear_stress_row,
    absorb_tangential_velocity_row,
    normal_stress_row,
    row,
    shear_stress_row,
    velocity_x_row,
    velocity_y_row,
    velocity_z_row,
)

parallel = njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)


@row
def tile_bounds(task, tile, tiles, slabs, halo, rows, planes):
    """Bounds (planes, rows) of a task: planes cut into `slabs`, rows into tiles that stay in the cache."""
    slab = task // tiles
    first_row = halo + (task - slab * tiles) * tile
    first_plane, last_plane = slab * planes // slabs, (slab + 1) * planes // slabs
    last_row = min(first_row + tile, halo + rows)
    return U(halo + first_plane), U(halo + last_plane), U(first_row), U(last_row)


@parallel
def update_velocity(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz, tile, slabs,
    layers, half, node, start,
):  # fmt: skip
    r"""v += dt / rho div sigma at every point; ratio = dt / h.

    The half nodes beyond the last node of each direction are outside and stay zero. layers (3 per side, planes, rows,
    width): memory of the absorbing layers along x for vx, vy, vz; half, node (3, sides, width): their profiles; start:
    their first columns; tile: rows of a tile; slabs: parts in z.
    """
    halo = len(cx)
    planes, rows, columns = vx.shape[0] - 2 * halo, vx.shape[1] - 2 * halo, vx.shape[2] - 2 * halo
    tiles = (rows + tile - 1) // tile
    begin, end = U(halo), U(halo + columns)
    edge, sides, width = U(halo), U(start.size), U(layers.shape[3])
    last_k, last_j = U(halo + planes - 1), U(halo + rows - 1)
    for task in prange(tiles * slabs):
        k0, k1, j0, j1 = tile_bounds(task, tile, tiles, slabs, halo, rows, planes)
        for k in range(k0, k1):
            for j in range(j0, j1):
                velocity_x_row(k, j, begin, end - ONE, vx, sxx, sxy, sxz, density, ratio, cx, cy, cz)
                if j < last_j:
                    velocity_y_row(k, j, begin, end, vy, sxy, syy, syz, density, ratio, cx, cy, cz)
                if k < last_k:
                    velocity_z_row(k, j, begin, end, vz, sxz, syz, szz, density, ratio, cx, cy, cz)
                p, q = k - edge, j - edge
                for side in range(sides):
                    m, i = side * THREE, start[side]
                    absorb_normal_velocity_row(
                        k, j, i, width, X, vx, sxx, density, layers, m, p, q, half, side, ratio, cx
                    )
                    absorb_tangential_velocity_row(
                        k, j, i, width, X, Y, vy, sxy, density, layers, m + ONE, p, q, node, side, ratio, cx
                    )
                    absorb_tangential_velocity_row(
                        k, j, i, width, X, Z, vz, sxz, density, layers, m + ONE + ONE, p, q, node, side, ratio, cx
                    )


@parallel
def update_stress(
    vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, lam, compliance, ratio, cx, cy, cz, tile, slabs,
    layers, half, node, start,
):  # fmt: skip
    r"""sigma += dt (lambda tr(eps) I + 2 mu eps) with eps the strain rate; ratio = dt / h.

    mu of the shear stresses is the harmonic mean of four nodes. The other arguments are those of `update_velocity`.
    """
    halo = len(cx)
    planes, rows, columns = vx.shape[0] - 2 * halo, vx.shape[1] - 2 * halo, vx.shape[2] - 2 * halo
    tiles = (rows + tile - 1) // tile
    begin, end = U(halo), U(halo + columns)
    edge, sides, width = U(halo), U(start.size), U(layers.shape[3])
    last_k, last_j = U(halo + planes - 1), U(halo + rows - 1)
    for task in prange(tiles * slabs):
        k0, k1, j0, j1 = tile_bounds(task, tile, tiles, slabs, halo, rows, planes)
        for k in range(k0, k1):
            for j in range(j0, j1):
                normal_stress_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, lam, compliance, ratio, cx, cy, cz)
                if j < last_j:
                    shear_stress_row(k, j, begin, end - ONE, X, Y, vx, vy, sxy, compliance, ratio, cx, cy)
                if k < last_k:
                    shear_stress_row(k, j, begin, end - ONE, X, Z, vx, vz, sxz, compliance, ratio, cx, cz)
                    if j < last_j:
                        shear_stress_row(k, j, begin, end, Y, Z, vy, vz, syz, compliance, ratio, cy, cz)
                p, q = k - edge, j - edge
                for side in range(sides):
                    m, i = side * THREE, start[side]
                    absorb_normal_stress_row(
                        k, j, i, width, X, vx, sxx, syy, szz, lam, compliance, layers, m, p, q, node, side, ratio, cx
                    )
                    absorb_shear_stress_row(
                        k, j, i, width, X, Y, vy, sxy, compliance, layers, m + ONE, p, q, half, side, ratio, cx
                    )
                    absorb_shear_stress_row(
                        k, j, i, width, X, Z, vz, sxz, compliance, layers, m + ONE + ONE, p, q, half, side, ratio, cx
                    )


@parallel
def free_surface(plane, sxx, syy, szz, lam, compliance):
    r"""Make szz zero on a plane of nodes by the vertical strain rate that does so.

    Whatever d(vz)/dz the update used there, szz = s calls for its change by -s / (lambda + 2 mu), which changes sxx and
    syy by -s lambda / (lambda + 2 mu).
    """
    rows, columns = szz.shape[1], szz.shape[2]
    k = U(plane)
    for row_number in prange(rows):
        j = U(row_number)
        for i in range(U(columns)):
            stiffness = lam[k, j, i] * compliance[k, j, i]
            change = szz[k, j, i] * (stiffness / (stiffness + lam.dtype.type(2)))
            sxx[k, j, i] -= change
            syy[k, j, i] -= change
            szz[k, j, i] = lam.dtype.type(0)
