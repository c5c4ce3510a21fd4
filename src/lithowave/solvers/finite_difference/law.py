r"""Constitutive law of the finite differences on the CPU: the only code that computes stresses from strain rates.

Isotropic elasticity,

.. math:: \sigma \mathrel{+}= \Delta t\,[\lambda\,\mathrm{tr}(\dot\varepsilon)\,I + 2\mu\,\dot\varepsilon],

with lambda and 1/mu at nodes; the shear stresses use the harmonic mean of mu at the four nodes around them. Strain
rates are multiplied by the grid spacing h, and `ratio` is dt / h. `law` is the tuple of the arrays `fields.LAW`. The
functions are linear in the strain rate: interior points, absorbing layers, closures and the free surface call them with
the strain rate or with a change of it. Their CUDA versions are in `law.cuh`.
"""

from __future__ import annotations

from lithowave.backends.loops import U, exact_row, multiply_add

X, Y, Z = (U(0), U(0), U(1)), (U(0), U(1), U(0)), (U(1), U(0), U(0))  # unit steps (k, j, i) along the axes


@exact_row
def density_pair(density, k, j, i, axis):
    """Return twice the density half a cell beyond (k, j, i)."""
    return density[k, j, i] + density[k + axis[0], j + axis[1], i + axis[2]]


@exact_row
def compliance_square(compliance, k, j, i, a, b):
    """Return four times the mean of 1/mu at the four nodes around (k, j, i) + (a + b) / 2."""
    near = compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]]
    k, j, i = k + b[0], j + b[1], i + b[2]
    return near + (compliance[k, j, i] + compliance[k + a[0], j + a[1], i + a[2]])


@exact_row
def add_velocity(v, density, k, j, i, axis, ratio, force):
    """Add dt / rho times a force per volume, times h, to the velocity along an axis."""
    v[k, j, i] = multiply_add((ratio + ratio) / density_pair(density, k, j, i, axis), force, v[k, j, i])


@exact_row
def add_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
    """Add the stresses of normal strain rates at node (k, j, i)."""
    lam, compliance = law
    pressure = ratio * lam[k, j, i] * (exx + eyy + ezz)
    twice_mu = (ratio + ratio) / compliance[k, j, i]
    sxx[k, j, i] += multiply_add(twice_mu, exx, pressure)
    syy[k, j, i] += multiply_add(twice_mu, eyy, pressure)
    szz[k, j, i] += multiply_add(twice_mu, ezz, pressure)


@exact_row
def add_shear_stress(s, law, k, j, i, a, b, ratio, rate):
    """Add the stress of twice a shear strain rate, between axes a and b."""
    _, compliance = law
    twice = ratio + ratio
    s[k, j, i] = multiply_add((twice + twice) / compliance_square(compliance, k, j, i, a, b), rate, s[k, j, i])


@exact_row
def add_uniaxial_stress(sxx, syy, szz, law, k, j, i, axis, ratio, rate):
    """Add the stresses of a strain rate along one axis."""
    zero = sxx.dtype.type(0)
    exx, eyy, ezz = rate if axis[2] else zero, rate if axis[1] else zero, rate if axis[0] else zero
    add_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)


@exact_row
def releasing_rate(szz, law, k, j, i, ratio):
    """Return the vertical strain rate that makes szz zero."""
    lam, compliance = law
    return -szz[k, j, i] / (ratio * (lam[k, j, i] + lam.dtype.type(2) / compliance[k, j, i]))
