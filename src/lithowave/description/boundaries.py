"""Boundary conditions of the six faces of the box, and absorbing layers."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from lithowave.description.base import DescriptionModel
from lithowave.description.domain import FACES
from lithowave.description.units import Count, PositiveFrequency, quantity

Face = Literal["free", "absorbing", "rigid"]
CONDITIONS: tuple[Face, ...] = get_args(Face)
Absorption = Literal["auto", "layer", "stacey"]


class AbsorbingLayer(DescriptionModel):
    """Parameters of the absorbing layers, which are added outside the box or the imported mesh.

    The medium in a layer is that at the nearest point of the domain: if velocities increase below the domain, waves
    that would turn there are missing, and ``lithowave check`` warns if they would arrive within the duration.

    Finite differences use convolutional perfectly matched layers, with damping profile, kappa and alpha after
    Komatitsch & Martin (2007), Geophysics 72(5), SM155-SM167. Spectral elements use perfectly matched layers of
    ``elements`` elements, which become wider outwards, unsplit, with a damping that increases towards the outer side.
    In soft ground, where vp of the fastest rock is at least 3.8 times the slowest velocity of a wave (5 times if vs
    hardly varies), guided waves would grow in these layers: alpha is then constant and larger, 2 pi f with finite
    differences (with ``reflection`` 1e-6 by default) and pi f with spectral elements, which absorbs waves much longer
    than those of the highest frequency less well. Where vs varies by a factor of more than 3, the velocities in layers
    of finite differences also have a viscosity, which damps short waves. Discontinuous Galerkin uses perfectly matched
    layers of ``elements`` cells, each 2.3 times as wide as the one before, with ``reflection`` and ``frequency``.
    Layers of the element methods are damped instead of perfectly matched, thicker, and use ``elements`` only, where vs
    varies by a factor of 2.9 or more (spectral elements: in models without fluids), and with discontinuous Galerkin in
    models with anisotropic media in which waves would grow.
    """

    cells: Count = Field(default=10, description="Thickness of each layer in grid cells (finite_difference).")
    elements: Count | None = Field(
        default=None,
        description="Thickness of each layer in elements (spectral_element; null: 2, or 9 of a damped layer), or in "
        "cells of tetrahedra (discontinuous_galerkin; null: 3, or 5 of a damped layer, and one more in the same "
        "thickness around an imported mesh).",
    )
    reflection: quantity("number", gt=0, lt=1) | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Theoretical reflection coefficient at normal incidence, which determines the damping; null: 1e-4, "
        "with discontinuous_galerkin 1e-5, with finite_difference in soft ground 1e-6.",
    )
    kappa: quantity("number", ge=1) = Field(  # type: ignore[valid-type]
        default=1.0,
        description="Maximum coordinate stretching; values above 1 improve the absorption of grazing waves.",
    )
    frequency: PositiveFrequency | None = Field(
        default=None,
        description="Frequency f of the shift alpha = pi f (spectral_element: from degree 4 on decreasing outwards "
        "from 0.375 pi f to 0.075 pi f), Hz; null: half of solver.max_frequency, or, in an imported mesh "
        "without it, half of the highest frequency of the "
        "sources.",
    )

    def reflection_with(self, method: str) -> float:
        """Return the theoretical reflection coefficient at normal incidence with a method.

        The coarse cells of discontinuous Galerkin need more damping: its shift increases with the damping.
        """
        return self.reflection or (1e-5 if method == "discontinuous_galerkin" else 1e-4)


class Boundaries(DescriptionModel):
    """The boundary condition of each face. Keys of one face (``x_min``) override ``top``, ``bottom`` and ``sides``."""

    top: Face = Field(default="free", description="The face z_max: free (no traction), absorbing or rigid.")
    bottom: Face = Field(default="absorbing", description="The face z_min.")
    sides: Face = Field(default="absorbing", description="The four faces x_min, x_max, y_min, y_max.")
    x_min: Face | None = Field(default=None, description="The west face; null: same as sides.")
    x_max: Face | None = Field(default=None, description="The east face; null: same as sides.")
    y_min: Face | None = Field(default=None, description="The south face; null: same as sides.")
    y_max: Face | None = Field(default=None, description="The north face; null: same as sides.")
    z_min: Face | None = Field(default=None, description="The lower face; null: same as bottom.")
    z_max: Face | None = Field(default=None, description="The upper face; null: same as top.")
    absorption: Absorption = Field(
        default="auto",
        description="Type of absorbing boundaries. layer: perfectly matched layers around the box or the imported "
        "mesh, whose absorbing sides must be planes x, y or z = constant; stacey: a condition at the face "
        "(spectral_element, and the flux of discontinuous_galerkin), which reflects part of the waves; lithowave check "
        "estimates the error; auto: layer, or stacey with a warning if the sides of an imported mesh are not such "
        "planes.",
    )
    layer: AbsorbingLayer = Field(default_factory=AbsorbingLayer, description="Parameters of the absorbing layers.")

    def face(self, name: str) -> Face:
        """Return the condition of a face: ``x_min``, ``x_max``, ``y_min``, ``y_max``, ``z_min`` or ``z_max``."""
        if name not in FACES:
            raise KeyError(f"{name!r} is not a face; faces: {', '.join(FACES)}")
        general = {"z_min": self.bottom, "z_max": self.top}.get(name, self.sides)
        return getattr(self, name) or general

    def kind_of(self, name: str) -> Face:
        """Return the condition of a boundary of a mesh: the name of a face, top, bottom, sides, or a condition."""
        if name in CONDITIONS:
            return name
        return self.sides if name == "sides" else self.face({"top": "z_max", "bottom": "z_min"}.get(name, name))

    @property
    def faces(self) -> dict[str, Face]:
        """Boundary conditions of all six faces by name."""
        return {name: self.face(name) for name in FACES}

    def resolved_absorption(self) -> Literal["layer", "stacey"]:
        """Return the requested type of absorbing boundaries."""
        return "layer" if self.absorption == "auto" else self.absorption
