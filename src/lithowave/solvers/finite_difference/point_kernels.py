"""Kernels of sources, receivers, surface peaks and the instability watch: few points, any field.

Fields come flattened; a point's contribution is a list of (index, weight), all points of a kind in one list with the
number of the point each entry belongs to.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from lithowave.solvers.finite_difference.kernels import parallel
from lithowave.solvers.finite_difference.rows import FAST, row


@njit(fastmath=FAST, error_model="numpy", cache=True)
def inject(field, index, weight, owner, amplitude):
    """field[index] += weight * amplitude[owner], in order: two points may share a grid point."""
    for entry in range(index.size):
        field[index[entry]] += weight[entry] * amplitude[owner[entry]]


@njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
def sample(field, index, weight, begin, out):
    """out[p] = sum of weight * field[index] over the entries begin[p] .. begin[p + 1] of point p."""
    for point in prange(out.size):
        total = 0.0
        for entry in range(begin[point], begin[point + 1]):
            total += weight[entry] * field[index[entry]]
        out[point] = total


@row
def raise_peaks(peaks, r, s, east, north, up):
    """Raise the horizontal, vertical and total peak at (r, s) to what this vector has."""
    horizontal = east * east + north * north
    peaks[0, r, s] = max(peaks[0, r, s], np.sqrt(horizontal))
    peaks[1, r, s] = max(peaks[1, r, s], abs(up))
    peaks[2, r, s] = max(peaks[2, r, s], np.sqrt(horizontal + up * up))


@parallel
def surface_peaks(vx, vy, vz, plane, halo, lift, time_step, displacement, peak_velocity, peak_displacement):
    r"""Peaks of |v| and |u| at the nodes of one plane: (3, rows, columns), horizontal, vertical, total.

    vx and vy are means of their two neighbours; vz is extrapolated to the plane by `lift`, weights from the plane
    downward. displacement (3, rows, columns) is the running trapezoidal integral, to which v dt is added.
    """
    rows, columns = displacement.shape[1], displacement.shape[2]
    half = vx.dtype.type(0.5)
    for r in prange(rows):
        j = r + halo
        for s in range(columns):
            i = s + halo
            east = half * (vx[plane, j, i] + vx[plane, j, i - 1])
            north = half * (vy[plane, j, i] + vy[plane, j - 1, i])
            up = vz.dtype.type(0)
            for e in range(lift.size):
                up += lift[e] * vz[plane - 1 - e, j, i]
            displacement[0, r, s] += time_step * east
            displacement[1, r, s] += time_step * north
            displacement[2, r, s] += time_step * up
            raise_peaks(peak_velocity, r, s, east, north, up)
            # The integral at the time of v is half a step of v short.
            u, v, w = displacement[0, r, s], displacement[1, r, s], displacement[2, r, s]
            u -= half * time_step * east
            v -= half * time_step * north
            w -= half * time_step * up
            raise_peaks(peak_displacement, r, s, u, v, w)


@njit(error_model="numpy", cache=True, parallel=True)
def largest_bits(bits, magnitude):
    """Largest value of bits & magnitude: for floating-point numbers seen as integers, that of |f| as an integer.

    The order of |f| is that of its bits, with infinity and NaN above all numbers.
    """
    planes = bits.shape[0]
    found = np.zeros(planes, bits.dtype)
    for k in prange(planes):
        most = bits.dtype.type(0)
        for j in range(bits.shape[1]):
            for i in range(bits.shape[2]):
                most = max(most, bits[k, j, i] & magnitude)
        found[k] = most
    return found.max()
