r"""One row of points of each finite-difference update, for the CPU: the readable specification.

Fields are arrays ``f[k, j, i]`` (z, y, x; x contiguous) with a halo of M = order / 2 cells of zeros on every side.
Staggering: normal stresses, lambda, density and 1/mu at nodes (i, j, k); vx half a cell towards +x, vy towards +y, vz
towards +z; sxy half a cell towards +x and +y, and so on.

`lithowave.backends.loops` tells what makes Numba vectorize these loops. The coefficients come as a tuple, so each order
is compiled by itself with its stencil unrolled. An *axis* is the unit step (k, j, i) along it.

Half nodes beyond the last node of a direction are outside: density and 1/mu are immense there, so that the fields at
them stay zero without a test.
"""

from __future__ import annotations

from lithowave.backends.loops import U, exact_row, multiply_add

ZERO, ONE, TWO, THREE = U(0), U(1), U(2), U(3)
X, Y, Z = (U(0), U(0), U(1)), (U(0), U(1), U(0)), (U(1), U(0), U(0))


@exact_row
def add_backward(total, f, k, j, i, axis, c):
    """total + h df/dn at (k, j, i) of a field half a cell beyond: sum over m of c_m (f[n + m] - f[n - 1 - m])."""
    for m in range(U(len(c))):
        o = m + ONE
        ahead = f[k + m * axis[0], j + m * axis[1], i + m * axis[2]]
        total = multiply_add(c[m], ahead - f[k - o * axis[0], j - o * axis[1], i - o * axis[2]], total)
    return total


@exact_row
def add_forward(total, f, k, j, i, axis, c):
    """total + h df/dn half a cell beyond (k, j, i): sum over m of c_m (f[n + 1 + m] - f[n - m])."""
    return add_backward(total, f, k + axis[0], j + axis[1], i + axis[2], axis, c)


@exact_row
def backward(f, k, j, i, axis, c):
    """h df/dn as in `add_backward`, alone."""
    return add_backward(f.dtype.type(0), f, k, j, i, axis, c)


@exact_row
def forward(f, k, j, i, axis, c):
    """h df/dn as in `add_forward`, alone."""
    return add_forward(f.dtype.type(0), f, k, j, i, axis, c)


@exact_row
def density_pair(density, k, j, i, axis):
    """Twice the density half a cell beyond (k, j, i)."""
    return density[k, j, i] + density[k + axis[0], j + axis[1], i + axis[2]]


@exact_row
def compliance_square(compliance, k, j, i, a, b):
    """Four times the mean of 1/mu between the four nodes around (k, j, i) + (a + b) / 2."""
    near = compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]]
    k, j, i = k + b[0], j + b[1], i + b[2]
    return near + (compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]])


@exact_row
def velocity_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, ratio, cx, cy, cz):
    """v += dt / rho div sigma."""
    twice = ratio + ratio
    for i in range(begin, end):
        force = add_backward(forward(sxx, k, j, i, X, cx), sxy, k, j, i, Y, cy)
        force = add_backward(force, sxz, k, j, i, Z, cz)
        vx[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, X), force, vx[k, j, i])
        force = add_forward(backward(sxy, k, j, i, X, cx), syy, k, j, i, Y, cy)
        force = add_backward(force, syz, k, j, i, Z, cz)
        vy[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, Y), force, vy[k, j, i])
        force = add_backward(backward(sxz, k, j, i, X, cx), syz, k, j, i, Y, cy)
        force = add_forward(force, szz, k, j, i, Z, cz)
        vz[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, Z), force, vz[k, j, i])


@exact_row
def stress_row(k, j, begin, end, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, lam, compliance, ratio, cx, cy, cz):
    """sigma += dt (lambda tr(e) I + 2 mu e), e the strain rate; mu of the shear stresses is a harmonic mean."""
    twice = ratio + ratio
    four = twice + twice
    for i in range(begin, end):
        exx = backward(vx, k, j, i, X, cx)
        eyy = backward(vy, k, j, i, Y, cy)
        ezz = backward(vz, k, j, i, Z, cz)
        pressure = ratio * lam[k, j, i] * (exx + eyy + ezz)
        twice_mu = twice / compliance[k, j, i]
        sxx[k, j, i] += multiply_add(twice_mu, exx, pressure)
        syy[k, j, i] += multiply_add(twice_mu, eyy, pressure)
        szz[k, j, i] += multiply_add(twice_mu, ezz, pressure)
        shear = add_forward(forward(vx, k, j, i, Y, cy), vy, k, j, i, X, cx)
        sxy[k, j, i] = multiply_add(four / compliance_square(compliance, k, j, i, X, Y), shear, sxy[k, j, i])
        shear = add_forward(forward(vx, k, j, i, Z, cz), vz, k, j, i, X, cx)
        sxz[k, j, i] = multiply_add(four / compliance_square(compliance, k, j, i, X, Z), shear, sxz[k, j, i])
        shear = add_forward(forward(vy, k, j, i, Z, cz), vz, k, j, i, Y, cy)
        syz[k, j, i] = multiply_add(four / compliance_square(compliance, k, j, i, Y, Z), shear, syz[k, j, i])



# The absorbing layers (C-PML; Komatitsch & Martin 2007, eqs. 15-27; unsplit, recursive convolution). A derivative d
# along n becomes d / kappa + psi with psi <- b psi + a d; the plain update has added d, so r d + psi is missing, where
# r = 1 / kappa - 1. With t and u the other two axes, n carries the derivatives of vn, vt, vu and of snn, snt, snu.
# half and node hold b, a, r; along y and z they are the same for a whole row: step 0. memory[p, q, m] holds psi of row
# (p, q) of the layer for derivative m; columns first .. end of the layer, whose first one stands at begin.


@exact_row
def absorb_velocity_row(
    k, j, begin, first, end, n, t, u, vn, vt, vu, snn, snt, snu, density, memory, m, p, q, half, node, depth, step,
    ratio, c,
):  # fmt: skip
    """Add what the layer changes in vn, vt and vu: the derivatives of snn (half nodes), snt and snu (nodes)."""
    twice = ratio + ratio
    for s in range(first, end):
        i = begin + s
        change = forward(snn, k, j, i, n, c)
        psi = multiply_add(half[1, depth, s * step], change, half[0, depth, s * step] * memory[p, q, m, s])
        memory[p, q, m, s] = psi
        added = multiply_add(half[2, depth, s * step], change, psi)
        vn[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, n), added, vn[k, j, i])
        b, a, r = node[0, depth, s * step], node[1, depth, s * step], node[2, depth, s * step]
        change = backward(snt, k, j, i, n, c)
        psi = multiply_add(a, change, b * memory[p, q, m + ONE, s])
        memory[p, q, m + ONE, s] = psi
        added = multiply_add(r, change, psi)
        vt[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, t), added, vt[k, j, i])
        change = backward(snu, k, j, i, n, c)
        psi = multiply_add(a, change, b * memory[p, q, m + TWO, s])
        memory[p, q, m + TWO, s] = psi
        added = multiply_add(r, change, psi)
        vu[k, j, i] = multiply_add(twice / density_pair(density, k, j, i, u), added, vu[k, j, i])


@exact_row
def absorb_stress_row(
    k, j, begin, first, end, n, t, u, vn, vt, vu, snn, stt, suu, snt, snu, lam, compliance, memory, m, p, q,
    half, node, depth, step, ratio, c,
):  # fmt: skip
    """Add what the layer changes in the stresses: the derivatives of vn (nodes), vt and vu (half nodes)."""
    four = ratio + ratio + ratio + ratio
    for s in range(first, end):
        i = begin + s
        change = backward(vn, k, j, i, n, c)
        psi = multiply_add(node[1, depth, s * step], change, node[0, depth, s * step] * memory[p, q, m, s])
        memory[p, q, m, s] = psi
        added = ratio * multiply_add(node[2, depth, s * step], change, psi)
        pressure = lam[k, j, i] * added
        stt[k, j, i] += pressure
        suu[k, j, i] += pressure
        snn[k, j, i] += pressure + (added + added) / compliance[k, j, i]
        b, a, r = half[0, depth, s * step], half[1, depth, s * step], half[2, depth, s * step]
        change = forward(vt, k, j, i, n, c)
        psi = multiply_add(a, change, b * memory[p, q, m + ONE, s])
        memory[p, q, m + ONE, s] = psi
        added = multiply_add(r, change, psi)
        snt[k, j, i] = multiply_add(four / compliance_square(compliance, k, j, i, n, t), added, snt[k, j, i])
        change = forward(vu, k, j, i, n, c)
        psi = multiply_add(a, change, b * memory[p, q, m + TWO, s])
        memory[p, q, m + TWO, s] = psi
        added = multiply_add(r, change, psi)
        snu[k, j, i] = multiply_add(four / compliance_square(compliance, k, j, i, n, u), added, snu[k, j, i])
