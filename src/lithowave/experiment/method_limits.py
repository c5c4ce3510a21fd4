"""What a numerical method cannot do of what a description may ask for, and keys that it does not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .base import Problem

if TYPE_CHECKING:
    from .simulation import Simulation

_OTHER = "method: spectral_element can"
_LAYER_KEYS_OF_FINITE_DIFFERENCE = ("cells", "reflection", "kappa", "frequency")


def find_limits(simulation: Simulation) -> Iterator[Problem]:
    """Everything in the description that the method cannot do."""
    if simulation.solver.method == "finite_difference":
        yield from _finite_difference(simulation)
    else:
        yield from _spectral_element(simulation)
    if simulation.material.groups is not None and simulation.solver.mesh is None:
        yield Problem(
            ("material", "groups"),
            "groups are those of a mesh, and there is none",
            "give solver: {method: spectral_element, mesh: ...}",
            "without a mesh use layers, homogeneous or file",
        )
    if simulation.domain.topography is not None and simulation.solver.mesh is not None:
        yield Problem(
            ("domain", "topography"),
            "solver.mesh and a topography are both given",
            "the mesh has its own surface",
        )


def _finite_difference(simulation: Simulation) -> Iterator[Problem]:
    if simulation.domain.topography is not None:
        yield Problem(
            ("domain", "topography"),
            "finite_difference has a flat surface only",
            "the free surface is z = 0",
            f"{_OTHER}: it follows the ground",
        )
    if simulation.boundaries.absorption == "stacey":
        yield Problem(
            ("boundaries", "absorption"),
            "stacey is not available with finite_difference",
            "allowed here: auto, layer",
        )
    for path, properties in simulation.material.properties.items():
        if properties.is_anisotropic:
            key = "anisotropy" if properties.stiffness is None else "stiffness"
            yield Problem(
                ("material", *path, key), "finite_difference is for isotropic media only", "give vp and vs", _OTHER
            )
    if simulation.output.strain:
        yield Problem(
            ("output", "strain"), "finite_difference does not record strain", "allowed here: false", _OTHER
        )


def _spectral_element(simulation: Simulation) -> Iterator[Problem]:
    if simulation.compute.moduli == "compact":
        yield Problem(
            ("compute", "moduli"), "compact moduli are for finite_difference only", "allowed here: full"
        )


def find_unused_keys(simulation: Simulation) -> Iterator[str]:
    """A sentence for each key of the absorbing layers that has been changed and does nothing with this method."""
    layer, method = simulation.boundaries.layer, simulation.solver.method
    if method == "finite_difference":
        unused = ("elements",)
    elif simulation.boundaries.resolved_absorption(method) == "layer":
        unused = _LAYER_KEYS_OF_FINITE_DIFFERENCE
    else:
        unused = tuple(type(layer).model_fields)
    changed = [key for key in unused if getattr(layer, key) != type(layer).model_fields[key].default]
    if not changed:
        return
    hint = "; it counts with absorption: layer" if "elements" in changed and method != "finite_difference" else ""
    keys = ", ".join(f"boundaries.layer.{key}" for key in changed)
    yield f"{keys}: without effect with {method}{hint}."
