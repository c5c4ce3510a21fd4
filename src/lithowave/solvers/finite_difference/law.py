r"""Constitutive laws of the finite differences on the CPU, and the tables of their arrays.

**Tables of all arrays of the staggered grid: those of the state, and those of each constitutive law.** Kernel
arguments, allocation, memory estimates, checkpoints and benchmarks follow from these tables. A law (`law.py` and
`law.cuh`) computes the stresses from the arrays whose role is ``modulus`` and, with attenuation, from memory variables;
see "Adding a constitutive law" in CONTRIBUTING.md.

Constitutive laws of the finite differences on the CPU: the only code that computes stresses from strain rates.

.. math:: \sigma \mathrel{+}= \Delta t\, C : \dot\varepsilon

=============  =======================================================================================================
isotropic      lambda and 1/mu at nodes; shear stresses use the harmonic mean of mu at the four nodes around them.
transverse     Vertical symmetry axis: c11, c13, c33 and 1/c66 at nodes, with c12 = c11 - 2 c66, and 1/c44 half a cell
               above them; shear stresses use harmonic means of the nearest values.
orthorhombic   Symmetry axes along x, y and z: c11, c22, c33, c12, c13 and c23 at nodes, and 1/c44, 1/c55 and 1/c66
               where syz, sxz and sxy are.
=============  =======================================================================================================

Strain rates are multiplied by the grid spacing h, and `ratio` is dt / h. `law` is the tuple of the arrays that
`law.LAWS` lists; their number selects the law when a kernel is compiled. The functions are linear in the strain
rate: interior points, absorbing layers, closures and the free surface call them with the strain rate or with a change
of it. Their CUDA versions are in `law.cuh`.

With attenuation, `law` also contains what `attenuation` describes, and the moduli are the unrelaxed ones. With the
stress increment t = dt C : e, each mechanism has memory variables r, in units of stress:

.. math:: g = b\,[F(t) - r], \qquad \sigma \mathrel{+}= t - (r + g / 2), \qquad r \mathrel{+}= g,

where F(t) is f_kappa p + f_mu (t_ii - p), p = tr(t) / 3, for normal stresses and f_mu t for shear stresses. The update
of a step (`advance_*_stress`) does this once; every further change of the strain rate in the same step
(`add_*_stress`) adds g = b F(t), so that the sum is that of the total strain rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from lithowave.backends.loops import U, chosen_row, exact_row, multiply_add

if TYPE_CHECKING:
    from lithowave.backends.interface import Array

    Fields = dict[str, Array]

Role = Literal["velocity", "stress", "memory", "modulus", "density"]
Scale = Literal["linear", "logarithmic"]


@dataclass(frozen=True)
class Field:
    """Array of the grid.

    Parameters
    ----------
    name : name of the array in kernels, checkpoints and messages.
    role : ``velocity``, ``stress``: state of the scheme; ``memory``: memory variables of attenuation, which only the
        law reads and changes; ``modulus``: material of the law; ``density``: material of the momentum equation.
    stagger : half cells towards +x, +y, +z at which the values are located.
    outside : value of material beyond the last nodes of the grid; None for the value of the nearest node.
    scale : scale of the 16-bit integers in which ``compute.moduli: compact`` stores material.
    neighbors : whether the law reads the next nodes along x, y and z in addition to the node itself.
    report : name of the quantization error in run.json.
    """

    name: str
    role: Role
    stagger: tuple[int, int, int] = (0, 0, 0)
    outside: float | None = None
    scale: Scale = "linear"
    neighbors: bool = False
    report: str = ""


# Outside the grid density and the shear compliances are immense, so that the velocities and stresses at half nodes
# there remain zero (1e-16 of the others). They are finite because a compiler may compute reciprocals by Newton's
# iteration, which yields NaN for infinity.
STATE = (
    Field("vx", "velocity", (1, 0, 0)),
    Field("vy", "velocity", (0, 1, 0)),
    Field("vz", "velocity", (0, 0, 1)),
    Field("sxx", "stress"),
    Field("syy", "stress"),
    Field("szz", "stress"),
    Field("sxy", "stress", (1, 1, 0)),
    Field("sxz", "stress", (1, 0, 1)),
    Field("syz", "stress", (0, 1, 1)),
)
# Memory variables of a stress, where it is.
MEMORY = tuple(Field(f"r{one.name[1:]}", "memory", one.stagger) for one in STATE if one.role == "stress")
DENSITY = Field("density", "density", outside=1e20, neighbors=True, report="density_kg_m3")


def modulus(name: str) -> Field:
    """Return the field of an elastic modulus at the nodes."""
    return Field(name, "modulus", report=f"{name}_pa")


def compliance(name: str, report: str, stagger: tuple[int, int, int] = (0, 0, 0), neighbors: bool = True) -> Field:
    """Return the field of the reciprocal of a shear modulus."""
    return Field(name, "modulus", stagger, 1e10, "logarithmic", neighbors, report)


@dataclass(frozen=True)
class LawFields:
    """Arrays of a constitutive law.

    number : LAW in CUDA sources. material : density and moduli. mechanisms : relaxation mechanisms stored at a node; 0
    without attenuation. coarse : True if the mechanism of a node depends on its position (`attenuation`).
    """

    name: str
    number: int
    material: tuple[Field, ...]
    mechanisms: int = 0
    coarse: bool = False

    @property
    def moduli(self) -> tuple[str, ...]:
        """Names of the moduli, in the order of the table."""
        return tuple(field.name for field in self.material if field.role == "modulus")

    @property
    def memory(self) -> tuple[str, ...]:
        """Names of the arrays of memory variables; each contains ``mechanisms`` grids, one above the other."""
        return tuple(field.name for field in MEMORY) if self.mechanisms else ()

    @property
    def stresses(self) -> tuple[str, ...]:
        """Names of the arrays that the stress update changes."""
        return STRESSES + self.memory

    def attenuating(self, mechanisms: int, coarse: bool) -> LawFields:
        """Return the law with this number of mechanisms stored at a node."""
        return replace(self, mechanisms=mechanisms, coarse=coarse)

    def defines(self) -> dict[str, int]:
        """Return the definitions for compiling CUDA sources."""
        return {"LAW": self.number, "MEMORIES": self.mechanisms, "COARSE": int(self.coarse)}

    def stress_words(self) -> int:
        """Return the values per grid point that a stress update must read and write: stresses and memory variables
        twice, velocities, moduli and the fractions of the mechanisms once."""
        changed = len(STRESSES) + len(self.memory) * self.mechanisms
        return 2 * changed + len(VELOCITIES) + len(self.moduli) + self.mechanisms

    def step_words(self) -> int:
        """Return the values per grid point that one step in two passes over memory must read and write.

        The velocity update reads and writes velocities and reads stresses and density; the stress update reads and
        writes stresses and memory variables and reads velocities, moduli and fractions.
        """
        return 2 * len(VELOCITIES) + len(STRESSES) + 1 + self.stress_words()


# transverse: vertical symmetry axis; c12 = c11 - 2 c66, and 1/c44 is located half a cell above the node.
# orthorhombic: shear compliances at the locations of the stresses that they belong to.
LAWS = {
    law.name: law
    for law in (
        LawFields(
            "isotropic", 0,
            (DENSITY, Field("lam", "modulus", report="lambda_pa"), compliance("compliance", "mu_relative")),
        ),
        LawFields(
            "transverse", 1,
            (
                DENSITY, modulus("c11"), modulus("c13"), modulus("c33"),
                compliance("compliance", "c44_relative", (0, 0, 1)), compliance("compliance_xy", "c66_relative"),
            ),
        ),
        LawFields(
            "orthorhombic", 2,
            (
                DENSITY, *(modulus(name) for name in ("c11", "c22", "c33", "c12", "c13", "c23")),
                compliance("compliance_yz", "c44_relative", (0, 1, 1), False),
                compliance("compliance_xz", "c55_relative", (1, 0, 1), False),
                compliance("compliance_xy", "c66_relative", (1, 1, 0), False),
            ),
        ),
    )
}  # fmt: skip

VELOCITIES = tuple(field.name for field in STATE if field.role == "velocity")
STRESSES = tuple(field.name for field in STATE if field.role == "stress")
FIELDS = VELOCITIES + STRESSES
STAGGER = {field.name: field.stagger for field in STATE}


def state_arrays(fields: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the arrays of `FIELDS` in this order, without memory variables."""
    return tuple(fields[name] for name in FIELDS)


X, Y, Z = (U(0), U(0), U(1)), (U(0), U(1), U(0)), (U(1), U(0), U(0))  # unit steps (k, j, i) along the axes


MODULI = {name: len(law.moduli) for name, law in LAWS.items()}
ATTENUATING = 8  # arrays in addition to the moduli: memory variables, fractions and b
FRACTION_BITS, COMMON_RATE = np.uint32(0x7FFF), np.uint32(0x8000)


def of_law(
    isotropic: Callable, transverse: Callable, orthorhombic: Callable, attenuating: Callable | None = None
) -> Callable:
    """Return the function for kernels that is compiled from one of these, for the number of arrays in `law`."""
    bodies = {"isotropic": isotropic, "transverse": transverse, "orthorhombic": orthorhombic}
    found = {MODULI[name]: body for name, body in bodies.items()}
    return chosen_row("law", found | ({count + ATTENUATING: attenuating for count in found} if attenuating else {}))


def of_medium(elastic: Callable, attenuating: Callable) -> Callable:
    """Return the function for kernels that is compiled from one of these, for a medium without or with attenuation."""
    return of_law(elastic, elastic, elastic, attenuating)


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


# ------------------------------------------------------------------------------------------------- elastic media


def _isotropic_normal(law, k, j, i, ratio, exx, eyy, ezz):
    lam, compliance = law
    pressure = ratio * lam[k, j, i] * (exx + eyy + ezz)
    twice_mu = (ratio + ratio) / compliance[k, j, i]
    return (
        multiply_add(twice_mu, exx, pressure), multiply_add(twice_mu, eyy, pressure),
        multiply_add(twice_mu, ezz, pressure),
    )  # fmt: skip


def _transverse_normal(law, k, j, i, ratio, exx, eyy, ezz):
    c11, c13, c33, _, compliance_xy = law
    twice_c66 = (ratio + ratio) / compliance_xy[k, j, i]
    flat = exx + eyy
    pressure = multiply_add(ratio * c11[k, j, i] - twice_c66, flat, ratio * c13[k, j, i] * ezz)
    return (
        multiply_add(twice_c66, exx, pressure), multiply_add(twice_c66, eyy, pressure),
        ratio * multiply_add(c13[k, j, i], flat, c33[k, j, i] * ezz),
    )  # fmt: skip


def _orthorhombic_normal(law, k, j, i, ratio, exx, eyy, ezz):
    c11, c22, c33, c12, c13, c23, _, _, _ = law
    c12, c13, c23 = c12[k, j, i], c13[k, j, i], c23[k, j, i]
    return (
        ratio * multiply_add(c11[k, j, i], exx, multiply_add(c12, eyy, c13 * ezz)),
        ratio * multiply_add(c22[k, j, i], eyy, multiply_add(c12, exx, c23 * ezz)),
        ratio * multiply_add(c33[k, j, i], ezz, multiply_add(c13, exx, c23 * eyy)),
    )


# Return the increments of the normal stresses of normal strain rates at node (k, j, i).
normal_increments = of_law(_isotropic_normal, _transverse_normal, _orthorhombic_normal)


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


def _isotropic_release(szz, law, k, j, i, ratio):
    lam, compliance = law
    return -szz[k, j, i] / (ratio * (lam[k, j, i] + lam.dtype.type(2) / compliance[k, j, i]))


def _transverse_release(szz, law, k, j, i, ratio):
    _, _, c33, _, _ = law
    return -szz[k, j, i] / (ratio * c33[k, j, i])


def _orthorhombic_release(szz, law, k, j, i, ratio):
    _, _, c33, _, _, _, _, _, _ = law
    return -szz[k, j, i] / (ratio * c33[k, j, i])


def _add_elastic_normal(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
    txx, tyy, tzz = normal_increments(law, k, j, i, ratio, exx, eyy, ezz)
    sxx[k, j, i] += txx
    syy[k, j, i] += tyy
    szz[k, j, i] += tzz


def _add_elastic_shear(s, law, k, j, i, a, b, ratio, rate):
    twice = ratio + ratio
    s[k, j, i] = multiply_add((twice + twice) / compliance_between(law, k, j, i, a, b), rate, s[k, j, i])


# ------------------------------------------------------------------------------------------------------ attenuation


def _isotropic_parts(law):
    return law[9:11], law[11:]


def _transverse_parts(law):
    return law[9:14], law[14:]


def _orthorhombic_parts(law):
    return law[9:18], law[18:]


# Return the moduli, and the first plane of each mechanism.
moduli_and_grids = chosen_row(
    "law",
    {
        MODULI["isotropic"] + ATTENUATING: _isotropic_parts,
        MODULI["transverse"] + ATTENUATING: _transverse_parts,
        MODULI["orthorhombic"] + ATTENUATING: _orthorhombic_parts,
    },
)


@exact_row
def fractions_at(codes, unit, k, j, i):
    """Return f_kappa and f_mu of a mechanism from the lower and the upper half of its code."""
    code = codes[k, j, i]
    return unit * np.float32(np.int32(code & FRACTION_BITS)), unit * np.float32(np.int32(code >> np.uint32(16)))


@exact_row
def relaxing_part(codes, plane, table, number, k, j, i):
    """Return b of a mechanism at a node: the common one, or that for nodes with these even and odd indices."""
    first = U(4) * (k & U(1)) + U(2) * (j & U(1))
    even, odd, common = table[number, first], table[number, first + U(1)], table[number, U(8)]
    own = odd if i & U(1) else even
    return common if codes[plane, j, i] & COMMON_RATE else own


@exact_row
def add_loss(r, k, j, i, part, target):
    """Change a memory variable by g = b F(t), and return the loss of stress, g / 2."""
    gain = part * target
    r[k, j, i] += gain
    return r.dtype.type(0.5) * gain


@exact_row
def advance_loss(r, k, j, i, part, target):
    """Advance a memory variable by g = b [F(t) - r], and return the loss of stress, r + g / 2."""
    old = r[k, j, i]
    gain = part * (target - old)
    r[k, j, i] = old + gain
    return multiply_add(r.dtype.type(0.5), gain, old)


def attenuating(lose: Callable) -> tuple[Callable, Callable]:
    """Return the functions for normal and shear stresses whose memory variables change by `lose`."""

    def normal(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz):
        rxx, ryy, rzz, _, _, _, codes, table, unit = law[:9]
        moduli, grids = moduli_and_grids(law)
        txx, tyy, tzz = normal_increments(moduli, k, j, i, ratio, exx, eyy, ezz)
        mean = sxx.dtype.type(1.0 / 3.0) * (txx + tyy + tzz)
        xx, yy, zz = txx, tyy, tzz
        for number in range(U(len(grids))):
            plane = k + grids[number]
            f_kappa, f_mu = fractions_at(codes, unit, plane, j, i)
            part = relaxing_part(codes, plane, table, number, k, j, i)
            common = (f_kappa - f_mu) * mean
            xx -= lose(rxx, plane, j, i, part, multiply_add(f_mu, txx, common))
            yy -= lose(ryy, plane, j, i, part, multiply_add(f_mu, tyy, common))
            zz -= lose(rzz, plane, j, i, part, multiply_add(f_mu, tzz, common))
        sxx[k, j, i] += xx
        syy[k, j, i] += yy
        szz[k, j, i] += zz

    def shear(s, law, k, j, i, a, b, ratio, rate):
        _, _, _, rxy, rxz, ryz, codes, table, unit = law[:9]
        moduli, grids = moduli_and_grids(law)
        twice = ratio + ratio
        increment = (twice + twice) / compliance_between(moduli, k, j, i, a, b) * rate
        change = increment
        for number in range(U(len(grids))):
            plane = k + grids[number]
            _, f_mu = fractions_at(codes, unit, plane, j, i)
            part = relaxing_part(codes, plane, table, number, k, j, i)
            if a[0] + b[0] == U(0):
                change -= lose(rxy, plane, j, i, part, f_mu * increment)
            elif a[1] + b[1] == U(0):
                change -= lose(rxz, plane, j, i, part, f_mu * increment)
            else:
                change -= lose(ryz, plane, j, i, part, f_mu * increment)
        s[k, j, i] += change

    return normal, shear


def _attenuating_release(szz, law, k, j, i, ratio):
    codes, table, unit = law[6:9]
    moduli, grids = moduli_and_grids(law)
    zero = szz.dtype.type(0)
    txx, tyy, tzz = normal_increments(moduli, k, j, i, ratio, zero, zero, szz.dtype.type(1))
    mean = szz.dtype.type(1.0 / 3.0) * (txx + tyy + tzz)
    response = tzz
    for number in range(U(len(grids))):
        plane = k + grids[number]
        f_kappa, f_mu = fractions_at(codes, unit, plane, j, i)
        half = szz.dtype.type(0.5) * relaxing_part(codes, plane, table, number, k, j, i)
        response -= half * multiply_add(f_mu, tzz, (f_kappa - f_mu) * mean)
    return -szz[k, j, i] / response


# Add the stresses of normal strain rates at node (k, j, i), or of twice a shear strain rate, between axes a and b; as
# the update of a step, or as a change of its strain rates. Return the vertical strain rate that makes szz zero.
_added, _advanced = attenuating(add_loss), attenuating(advance_loss)
advance_normal_stress = of_medium(_add_elastic_normal, _advanced[0])
advance_shear_stress = of_medium(_add_elastic_shear, _advanced[1])
add_normal_stress = of_medium(_add_elastic_normal, _added[0])
add_shear_stress = of_medium(_add_elastic_shear, _added[1])
releasing_rate = of_law(_isotropic_release, _transverse_release, _orthorhombic_release, _attenuating_release)


@exact_row
def add_uniaxial_stress(sxx, syy, szz, law, k, j, i, axis, ratio, rate):
    """Add the stresses of a change of the strain rate along one axis."""
    zero = sxx.dtype.type(0)
    exx, eyy, ezz = rate if axis[2] else zero, rate if axis[1] else zero, rate if axis[0] else zero
    add_normal_stress(sxx, syy, szz, law, k, j, i, ratio, exx, eyy, ezz)
