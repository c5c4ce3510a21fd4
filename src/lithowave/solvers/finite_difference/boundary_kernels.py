"""CPU kernels for the closures of free and rigid faces, and for the smoothing in absorbing layers.

They *add* to the interior update next to a face with normal n, so that edges and corners, where faces meet, need no
separate code. With t and u the other two axes, n carries the derivatives of vn, vt, vu and of snn, snt, snu.
"""

from __future__ import annotations

from numba import prange

from lithowave.backends.loops import U, exact_parallel, exact_row, multiply_add
from lithowave.backends.rounding import flush_denormals, restore_rounding
from lithowave.solvers.finite_difference.law import add_shear_stress, add_uniaxial_stress, add_velocity


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
