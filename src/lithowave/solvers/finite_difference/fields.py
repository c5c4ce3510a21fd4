"""Table of all arrays of the staggered grid.

Kernel arguments, allocation, memory estimates, checkpoints and benchmarks follow from this table. The law (`law.py` and
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


# Outside the grid density and 1/mu are immense, so that the velocities and stresses at half nodes there remain zero
# (1e-16 of the others). They are finite because a compiler may compute reciprocals by Newton's iteration, which yields
# NaN for infinity.
TABLE = (
    Field("vx", "velocity", (1, 0, 0)),
    Field("vy", "velocity", (0, 1, 0)),
    Field("vz", "velocity", (0, 0, 1)),
    Field("sxx", "stress"),
    Field("syy", "stress"),
    Field("szz", "stress"),
    Field("sxy", "stress", (1, 1, 0)),
    Field("sxz", "stress", (1, 0, 1)),
    Field("syz", "stress", (0, 1, 1)),
    Field("density", "density", outside=1e20, neighbors=True, report="density_kg_m3"),
    Field("lam", "modulus", report="lambda_pa"),
    Field("compliance", "modulus", outside=1e10, scale="logarithmic", neighbors=True, report="mu_relative"),
)


def names(*roles: Role) -> tuple[str, ...]:
    """Return the names of the arrays with these roles, in the order of the table."""
    return tuple(field.name for field in TABLE if field.role in roles)


VELOCITIES = names("velocity")
STRESSES = names("stress")
FIELDS = VELOCITIES + STRESSES
MEMORY = names("memory")
MODULI = names("modulus")
LAW = MODULI + MEMORY  # arrays of the constitutive law
MATERIAL = tuple(field for field in TABLE if field.role in ("density", "modulus"))
STATE_COUNT = len(FIELDS) + len(MEMORY)  # arrays that change in each step
STAGGER = {field.name: field.stagger for field in TABLE}


def step_words() -> int:
    """Return the values per grid point that one step in two passes over memory must read and write.

    The velocity update reads and writes velocities and reads stresses and density; the stress update reads and writes
    stresses and memory variables and reads velocities and moduli.
    """
    velocities, stresses = len(VELOCITIES), len(STRESSES)
    return (2 * velocities + stresses + 1) + (2 * (stresses + len(MEMORY)) + velocities + len(MODULI))
