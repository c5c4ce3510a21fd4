r"""One row of points of each finite-difference update, for the CPU: the readable specification.

Fields are arrays ``f[k, j, i]`` (z, y, x; x contiguous) with a zero halo of M = order / 2 cells on every side.
Staggering: normal stresses, lambda, density and 1/mu at nodes (i, j, k); vx half a cell towards +x, vy towards +y, vz
towards +z; sxy half a cell towards +x and +y, and so on.

`lithowave.backends.loops` explains what makes Numba vectorize these loops. The coefficients are a tuple, so each order
is compiled separately with its stencil unrolled. An *axis* is the unit step (k, j, i) along it.

The constitutive relation is in `law.py`. Half nodes beyond the last node of a direction are outside: density and 1/mu
are immense there (`fields.py`), so that the fields at them remain zero without a test.
"""

from __future__ import annotations

from lithowave.backends.loops import U, exact_row, multiply_add
from lithowave.solvers.finite_difference.law import (
    X,
    Y,
    Z,
    add_shear_stress,
    add_uniaxial_stress,
    add_velocity,
    advance_normal_stress,
    advance_shear_stress,
)

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
# along n becomes d / kappa + psi with psi <- b psi + a d; the interior update has added d, so r d + psi is missing,
# where r = 1 / kappa - 1. With t and u the other two axes, n carries the derivatives of vn, vt, vu and of snn, snt,
# snu. half and node hold b, a, r; along y and z they are the same for an entire row: step 0. memory[p, q, m] holds psi
# of row (p, q) of the layer for derivative m; columns first .. end of the layer, whose first one is column `begin`.


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
