"""Absorbing layers around imported meshes: the sides at which they begin, and the medium in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.extrusion import PlaneSides, plane_sides

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

Ends = tuple[tuple[float, float], ...]
INWARDS = 1e-6  # of the extent of a mesh: how far inside its ends the medium of a layer is sampled
AWAY = "with its absorbing sides far from sources and receivers"


def layer_sides(simulation: Simulation, mesh: Any) -> tuple[PlaneSides | None, str]:
    """Return the sides of an imported mesh outside which a layer is added, or None.

    The text states why the default adds no layer although faces absorb; empty otherwise.

    InputError: `boundaries.absorption` is layer, and an absorbing side is not plane.
    """
    boundaries = simulation.boundaries
    if simulation.absorption != "layer":
        return None, ""
    absorbing = {name: boundaries.kind_of(name) == "absorbing" for name in mesh.boundaries}
    try:
        sides = plane_sides(mesh, absorbing)
    except InputError as error:
        if boundaries.absorption == "layer":
            hint = f"{error.hint}, or set boundaries.absorption to stacey {AWAY}"
            raise InputError(error.where, error.got, error.allowed, hint) from None
        remedy = error.hint[0].upper() + error.hint[1:]
        return None, (
            f"boundaries.absorption: auto is stacey here, which reflects part of the waves: {error.got}; "
            f"{error.allowed}. {remedy}; or set stacey by name {AWAY}."
        )  # fmt: skip
    return (sides if sides.used else None), ""


@dataclass(frozen=True)
class NearestMedium:
    """Medium whose values outside a domain are those at the nearest point of the domain; ends of the domain, m."""

    medium: Any
    x: tuple[float, float]
    y: tuple[float, float]
    z: tuple[float, float]

    @classmethod
    def of(cls, simulation: Simulation) -> NearestMedium:
        """Return the medium of a simulation."""
        ground = simulation.domain.ground
        return cls(simulation.material.medium, ground.x, ground.y, ground.z)

    @classmethod
    def inside(cls, simulation: Simulation, ends: Ends) -> NearestMedium:
        """Return the medium of a simulation in an imported mesh with these ends, m, and its layer.

        At the ends it is sampled slightly inside: a model may change abruptly there.
        """
        margins = [INWARDS * (high - low) for low, high in ends]
        inner = [(low + margin, high - margin) for (low, high), margin in zip(ends, margins, strict=True)]
        return cls(simulation.material.medium, *inner)

    @property
    def concurrent(self) -> bool:
        """See `Medium.concurrent`."""
        return self.medium.concurrent

    def sample(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vp, vs and rho at points. within : see `BoundedLayers.layer_of`."""
        return self.medium.sample(*self._inside(x, y, z), *within)

    def inverse_quality(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return 1/Qkappa and 1/Qmu at points. within : as in `sample`."""
        return self.medium.inverse_quality(*self._inside(x, y, z), *within)

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the moduli of transverse isotropy and rho at points; see `EarthMedium.love`."""
        return self.medium.love(*self._inside(x, y, z), *within)

    def _inside(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.clip(x, *self.x), np.clip(y, *self.y), np.clip(z, *self.z)
