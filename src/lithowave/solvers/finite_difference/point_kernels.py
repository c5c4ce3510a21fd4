"""Kernels of sources, receivers, surface peaks and the instability check: few points, any field.

`fields` is the tuple of flattened velocities and stresses. The contribution of a point is a list of (index, weight);
all points of a kind share one list, with the index of the point that owns each entry.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import FAST, U, exact_parallel, exact_row, parallel
from lithowave.solvers.common.point_kernels import count_step

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

    Velocities are read as in `surface_reading`. slope (2, rows, columns), far (rows, columns) : 3/8 r along x and y,
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
