r"""One row of points of each finite-difference update, for the CPU: the readable specification.

Fields are arrays ``f[k, j, i]`` (z, y, x; x contiguous) with a halo of M = order / 2 cells of zeros on every side.
Staggering: normal stresses, lambda, density and 1/mu at nodes (i, j, k); vx half a cell towards +x, vy towards +y, vz
towards +z; sxy half a cell towards +x and +y, and so on.

Four things make Numba vectorize these loops: every index and offset is unsigned (no wraparound test), errors follow
NumPy (no test for division by zero), one loop updates one field (few possible aliases), and rows are inlined. The
coefficients come as a tuple, so each order is compiled by itself with its stencil unrolled. An *axis* is the unit
step (k, j, i) along it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

U = np.uint64
ONE, THREE = U(1), U(3)
X, Y, Z = (U(0), U(0), U(1)), (U(0), U(1), U(0)), (U(1), U(0), U(0))
# Everything but the assumption that infinities and NaN never occur: the watch must be able to see them.
FAST = {"contract", "reassoc", "nsz", "arcp"}
row = njit(fastmath=FAST, error_model="numpy", forceinline=True)


@row
def forward(f, k, j, i, axis, c):
    """h df/dn half a cell beyond (k, j, i): sum over m of c_m (f[n + 1 + m] - f[n - m])."""
    difference = f.dtype.type(0)
    for m in range(U(len(c))):
        o = m + ONE
        ahead = f[k + o * axis[0], j + o * axis[1], i + o * axis[2]]
        difference += c[m] * (ahead - f[k - m * axis[0], j - m * axis[1], i - m * axis[2]])
    return difference


@row
def backward(f, k, j, i, axis, c):
    """h df/dn at (k, j, i) of a field that lies half a cell beyond: sum over m of c_m (f[n + m] - f[n - 1 - m])."""
    difference = f.dtype.type(0)
    for m in range(U(len(c))):
        o = m + ONE
        ahead = f[k + m * axis[0], j + m * axis[1], i + m * axis[2]]
        difference += c[m] * (ahead - f[k - o * axis[0], j - o * axis[1], i - o * axis[2]])
    return difference


@row
def density_pair(density, k, j, i, axis):
    """Twice the density half a cell beyond (k, j, i)."""
    return density[k, j, i] + density[k + axis[0], j + axis[1], i + axis[2]]


@row
def compliance_square(compliance, k, j, i, a, b):
    """Four times the mean of 1/mu between the four nodes around (k, j, i) + (a + b) / 2."""
    near = compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]]
    k, j, i = k + b[0], j + b[1], i + b[2]
    return near + (compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]])


@row
def velocity_x_row(k, j, begin, end, vx, sxx, sxy, sxz, density, ratio, cx, cy, cz):
    for i in range(begin, end):
        force = forward(sxx, k, j, i, X, cx) + backward(sxy, k, j, i, Y, cy) + backward(sxz, k, j, i, Z, cz)
        vx[k, j, i] += (ratio + ratio) / density_pair(density, k, j, i, X) * force


@row
def velocity_y_row(k, j, begin, end, vy, sxy, syy, syz, density, ratio, cx, cy, cz):
    for i in range(begin, end):
        force = backward(sxy, k, j, i, X, cx) + forward(syy, k, j, i, Y, cy) + backward(syz, k, j, i, Z, cz)
        vy[k, j, i] += (ratio + ratio) / density_pair(density, k, j, i, Y) * force


@row
def velocity_z_row(k, j, begin, end, vz, sxz, syz, szz, density, ratio, cx, cy, cz):
    for i in range(begin, end):
        force = backward(sxz, k, j, i, X, cx) + backward(syz, k, j, i, Y, cy) + forward(szz, k, j, i, Z, cz)
        vz[k, j, i] += (ratio + ratio) / density_pair(density, k, j, i, Z) * force


@row
def normal_stress_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, lam, compliance, ratio, cx, cy, cz):
    for i in range(begin, end):
        exx = backward(vx, k, j, i, X, cx)
        eyy = backward(vy, k, j, i, Y, cy)
        ezz = backward(vz, k, j, i, Z, cz)
        pressure = ratio * lam[k, j, i] * (exx + eyy + ezz)
        twice_mu = (ratio + ratio) / compliance[k, j, i]
        sxx[k, j, i] += pressure + twice_mu * exx
        syy[k, j, i] += pressure + twice_mu * eyy
        szz[k, j, i] += pressure + twice_mu * ezz


@row
def shear_stress_row(k, j, begin, end, a, b, va, vb, sab, compliance, ratio, ca, cb):
    four = ratio + ratio + ratio + ratio
    for i in range(begin, end):
        shear = forward(va, k, j, i, b, cb) + forward(vb, k, j, i, a, ca)
        sab[k, j, i] += four / compliance_square(compliance, k, j, i, a, b) * shear

# The absorbing layers (C-PML; Komatitsch & Martin 2007, eqs. 15-27; unsplit, recursive convolution). A derivative d
# along n becomes d / kappa + psi with psi <- b psi + a d; the plain update has added d, so r d + psi is missing, where
# r = 1 / kappa - 1. `profile` holds b, a, r; `memory[m]` holds psi.


@row
def absorb_normal_velocity_row(
    k, j, begin, count, n, vn, snn, density, memory, m, p, q, profile, depth, ratio, c
):
    for s in range(count):
        i = begin + s
        change = forward(snn, k, j, i, n, c)
        psi = profile[0, depth, s] * memory[m, p, q, s] + profile[1, depth, s] * change
        memory[m, p, q, s] = psi
        vn[k, j, i] += (ratio + ratio) / density_pair(density, k, j, i, n) * (profile[2, depth, s] * change + psi)


@row
def absorb_tangential_velocity_row(
    k, j, begin, count, n, t, vt, snt, density, memory, m, p, q, profile, depth, ratio, c
):
    for s in range(count):
        i = begin + s
        change = backward(snt, k, j, i, n, c)
        psi = profile[0, depth, s] * memory[m, p, q, s] + profile[1, depth, s] * change
        memory[m, p, q, s] = psi
        vt[k, j, i] += (ratio + ratio) / density_pair(density, k, j, i, t) * (profile[2, depth, s] * change + psi)


@row
def absorb_normal_stress_row(
    k, j, begin, count, n, vn, snn, stt, suu, lam, compliance, memory, m, p, q, profile, depth, ratio, c
):
    for s in range(count):
        i = begin + s
        change = backward(vn, k, j, i, n, c)
        psi = profile[0, depth, s] * memory[m, p, q, s] + profile[1, depth, s] * change
        memory[m, p, q, s] = psi
        added = ratio * (profile[2, depth, s] * change + psi)
        pressure = lam[k, j, i] * added
        stt[k, j, i] += pressure
        suu[k, j, i] += pressure
        snn[k, j, i] += pressure + (added + added) / compliance[k, j, i]


@row
def absorb_shear_stress_row(
    k, j, begin, count, n, t, vt, snt, compliance, memory, m, p, q, profile, depth, ratio, c
):
    four = ratio + ratio + ratio + ratio
    for s in range(count):
        i = begin + s
        change = forward(vt, k, j, i, n, c)
        psi = profile[0, depth, s] * memory[m, p, q, s] + profile[1, depth, s] * change
        memory[m, p, q, s] = psi
        snt[k, j, i] += four / compliance_square(compliance, k, j, i, n, t) * (profile[2, depth, s] * change + psi)
