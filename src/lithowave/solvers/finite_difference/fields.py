"""Tables of all arrays of the staggered grid: those of the state, and those of each constitutive law.

Kernel arguments, allocation, memory estimates, checkpoints and benchmarks follow from these tables. A law (`law.py` and
`law.cuh`) computes the stresses from the arrays whose role is ``modulus`` and, with attenuation, from memory variables;
see "Adding a constitutive law" in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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


def state_arrays(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arrays of `FIELDS` in this order, without memory variables."""
    return tuple(fields[name] for name in FIELDS)
