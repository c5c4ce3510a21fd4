"""Tables of all arrays of the staggered grid: those of the state, and those of each constitutive law.

Kernel arguments, allocation, memory estimates, checkpoints and benchmarks follow from these tables. A law (`law.py` and
`law.cuh`) computes the stresses from the arrays whose role is ``modulus`` or ``memory``; see "Adding a constitutive
law" in CONTRIBUTING.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["velocity", "stress", "memory", "modulus", "density"]
Scale = Literal["linear", "logarithmic"]


@dataclass(frozen=True)
class Field:
    """Array of the grid.

    Parameters
    ----------
    name : name of the array in kernels, checkpoints and messages.
    role : ``velocity``, ``stress``: state of the scheme; ``memory``: further state, which only the law reads and
        changes; ``modulus``: material of the law; ``density``: material of the momentum equation.
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

    number : LAW in CUDA sources. material : density and moduli. memory : further state of the law.
    """

    name: str
    number: int
    material: tuple[Field, ...]
    memory: tuple[Field, ...] = ()

    @property
    def moduli(self) -> tuple[str, ...]:
        """Names of the moduli, in the order of the table."""
        return tuple(field.name for field in self.material if field.role == "modulus")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arrays that the functions of the law receive: moduli, then memory."""
        return self.moduli + tuple(field.name for field in self.memory)

    def step_words(self) -> int:
        """Return the values per grid point that one step in two passes over memory must read and write.

        The velocity update reads and writes velocities and reads stresses and density; the stress update reads and
        writes stresses and memory variables and reads velocities and moduli.
        """
        velocities, stresses = len(VELOCITIES), len(STRESSES)
        reads = velocities + len(self.moduli)
        return (2 * velocities + stresses + 1) + (2 * (stresses + len(self.memory)) + reads)


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
