r"""Constitutive laws of the finite differences on the CPU: the only code that computes stresses from strain rates.

.. math:: \sigma \mathrel{+}= \Delta t\, C : \dot\varepsilon

=============  =======================================================================================================
isotropic      lambda and 1/mu at nodes; shear stresses use the harmonic mean of mu at the four nodes around them.
transverse     Vertical symmetry axis: c11, c13, c33 and 1/c66 at nodes, with c12 = c11 - 2 c66, and 1/c44 half a cell
               above them; shear stresses use harmonic means of the nearest values.
orthorhombic   Symmetry axes along x, y and z: c11, c22, c33, c12, c13 and c23 at nodes, and 1/c44, 1/c55 and 1/c66
               where syz, sxz and sxy are.
=============  =======================================================================================================

Strain rates are multiplied by the grid spacing h, and `ratio` is dt / h. `law` is the tuple of the arrays that
`fields.LAWS` lists; its length selects the law when a kernel is compiled. The functions are linear in the strain rate:
interior points, absorbing layers, closures and the free surface call them with the strain rate or with a change of it.
Their CUDA versions are in `law.cuh`.
"""

from __future__ import annotations

from collections.abc import Callable

from lithowave.backends.loops import U, chosen_row, exact_row, multiply_add
from lithowave.solvers.finite_difference.fields import LAWS

X, Y, Z = (U(0), U(0), U(1)), (U(0), U(1), U(0)), (U(1), U(0), U(0))  # unit steps (k, j, i) along the axes


def of_law(isotropic: Callable, transverse: Callable, orthorhombic: Callable) -> Callable:
    """Return the function for kernels that is compiled from one of three, for the number of arrays in `law`."""
    bodies = {"isotropic": isotropic, "transverse": transverse, "orthorhombic": orthorhombic}
    return chosen_row("law", {len(LAWS[name].arguments): body for name, body in bodies.items()})


@exact_row
def density_pair(density, k, j, i, axis):
    """Return twice the density half a cell beyond (k, j, i)."""
    return density[k, j, i] + density[k + axis[0], j + axis[1], i + axis[2]]


@exact_row
def square(f, k, j, i, a, b):
    """Return the sum of a field over the four nodes around (k, j, i) + (a + b) / 2."""
    near = f[k, j, i] + f[k + a[0], j + a[1], i + a[2]]
    k, j, i = k + b[0], j + b[1], i + b[2]
    return near + (f[k, j, i] + f[k + a[0], j + a[1], i + a[2]])


@exact_row
def add_velocity(v, density, k, j, i, axis, ratio, force):
    """Add dt / rho times a force per volume, times h, to the velocity along an axis."""
    v[k, j, i] = multiply_add((ratio + ratio) / density_pair(density, k, j, i, axis), force, v[k, j, i])


def _isotropic_normal(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
    lam, compliance = law
    pressure = ratio * lam[k, j, i] * (exx + eyy + ezz)
    twice_mu = (ratio + ratio) / compliance[k, j, i]
    sxx[k, j, i] += multiply_add(twice_mu, exx, pressure)
    syy[k, j, i] += multiply_add(twice_mu, eyy, pressure)
    szz[k, j, i] += multiply_add(twice_mu, ezz, pressure)


def _transverse_normal(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
    c11, c13, c33, _, compliance_xy = law
    twice_c66 = (ratio + ratio) / compliance_xy[k, j, i]
    flat = exx + eyy
    pressure = multiply_add(ratio * c11[k, j, i] - twice_c66, flat, ratio * c13[k, j, i] * ezz)
    sxx[k, j, i] += multiply_add(twice_c66, exx, pressure)
    syy[k, j, i] += multiply_add(twice_c66, eyy, pressure)
    szz[k, j, i] += ratio * multiply_add(c13[k, j, i], flat, c33[k, j, i] * ezz)


def _orthorhombic_normal(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
    c11, c22, c33, c12, c13, c23, _, _, _ = law
    c12, c13, c23 = c12[k, j, i], c13[k, j, i], c23[k, j, i]
    sxx[k, j, i] += ratio * multiply_add(c11[k, j, i], exx, multiply_add(c12, eyy, c13 * ezz))
    syy[k, j, i] += ratio * multiply_add(c22[k, j, i], eyy, multiply_add(c12, exx, c23 * ezz))
    szz[k, j, i] += ratio * multiply_add(c33[k, j, i], ezz, multiply_add(c13, exx, c23 * eyy))


# Add the stresses of normal strain rates at node (k, j, i).
add_normal_stress = of_law(_isotropic_normal, _transverse_normal, _orthorhombic_normal)


def _isotropic_compliance(law, k, j, i, a, b):
    _, compliance = law
    return square(compliance, k, j, i, a, b)


def _transverse_compliance(law, k, j, i, a, b):
    _, _, _, compliance, compliance_xy = law
    if a[0] + b[0] == U(0):
        return square(compliance_xy, k, j, i, a, b)
    pair = compliance[k, j, i] + compliance[k, j + a[1] + b[1], i + a[2] + b[2]]
    return pair + pair


def _orthorhombic_compliance(law, k, j, i, a, b):
    _, _, _, _, _, _, compliance_yz, compliance_xz, compliance_xy = law
    if a[0] + b[0] == U(0):
        one = compliance_xy[k, j, i]
    elif a[1] + b[1] == U(0):
        one = compliance_xz[k, j, i]
    else:
        one = compliance_yz[k, j, i]
    pair = one + one
    return pair + pair


# Return four times the reciprocal of the shear modulus at (k, j, i) + (a + b) / 2, for the stress between axes a and b.
compliance_between = of_law(_isotropic_compliance, _transverse_compliance, _orthorhombic_compliance)


@exact_row
def add_shear_stress(s, law, k, j, i, a, b, ratio, rate):
    """Add the stress of twice a shear strain rate, between axes a and b."""
    twice = ratio + ratio
    s[k, j, i] = multiply_add((twice + twice) / compliance_between(law, k, j, i, a, b), rate, s[k, j, i])


@exact_row
def add_uniaxial_stress(sxx, syy, szz, law, k, j, i, axis, ratio, rate):
    """Add the stresses of a strain rate along one axis."""
    zero = sxx.dtype.type(0)
    exx, eyy, ezz = rate if axis[2] else zero, rate if axis[1] else zero, rate if axis[0] else zero
    add_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)


def _isotropic_release(szz, law, k, j, i, ratio):
    lam, compliance = law
    return -szz[k, j, i] / (ratio * (lam[k, j, i] + lam.dtype.type(2) / compliance[k, j, i]))


def _transverse_release(szz, law, k, j, i, ratio):
    _, _, c33, _, _ = law
    return -szz[k, j, i] / (ratio * c33[k, j, i])


def _orthorhombic_release(szz, law, k, j, i, ratio):
    _, _, c33, _, _, _, _, _, _ = law
    return -szz[k, j, i] / (ratio * c33[k, j, i])


# Return the vertical strain rate that makes szz zero.
releasing_rate = of_law(_isotropic_release, _transverse_release, _orthorhombic_release)
