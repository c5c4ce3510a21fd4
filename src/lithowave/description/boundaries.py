"""What the six faces of the box do, and the layers that absorb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from lithowave.description.base import DescriptionModel
from lithowave.description.domain import FACES
from lithowave.description.units import Count, PositiveFrequency, quantity

Face = Literal["free", "absorbing", "rigid"]
Absorption = Literal["auto", "layer", "stacey"]

_ABSORPTION_BY_METHOD: Mapping[str, Literal["layer", "stacey"]] = {
    "finite_difference": "layer",
    "spectral_element": "stacey",
    "discontinuous_galerkin": "stacey",
}


class AbsorbingLayer(DescriptionModel):
    """Parameters of the absorbing layers, which are added outside the box.

    Finite differences have convolutional perfectly matched layers: damping profile, kappa and alpha after
    Komatitsch & Martin (2007), Geophysics 72(5), SM155-SM167. Spectral elements have layers of ``elements`` elements
    with a damping that rises smoothly, ended by the condition of Stacey; the other keys are not theirs. Discontinuous
    Galerkin has no layers.
    """

    cells: Count = Field(
        default=10, description="Thickness of each layer in grid cells (finite_difference)."
    )
    elements: Count | None = Field(
        default=None,
        description="Thickness of each layer in elements (spectral_element with absorption: layer); null: about 12 of "
        "the shortest wavelengths.",
    )
    reflection: quantity("number", gt=0, lt=1) = Field(  # type: ignore[valid-type]
        default=1.0e-4,
        description="Theoretical reflection coefficient at normal incidence; sets the damping.",
    )
    kappa: quantity("number", ge=1) = Field(  # type: ignore[valid-type]
        default=1.0, description="Largest coordinate stretching; above 1 it helps against grazing waves."
    )
    frequency: PositiveFrequency | None = Field(
        default=None,
        description="Frequency f of the shift alpha = pi f, Hz; null: half of solver.max_frequency.",
    )


class Boundaries(DescriptionModel):
    """The kind of each face. A key for one face (``x_min``) overrides ``top``, ``bottom`` and ``sides``."""

    top: Face = Field(default="free", description="The face z_max: free (no traction), absorbing or rigid.")
    bottom: Face = Field(default="absorbing", description="The face z_min.")
    sides: Face = Field(default="absorbing", description="The four faces x_min, x_max, y_min, y_max.")
    x_min: Face | None = Field(default=None, description="The west face; null: as sides.")
    x_max: Face | None = Field(default=None, description="The east face; null: as sides.")
    y_min: Face | None = Field(default=None, description="The south face; null: as sides.")
    y_max: Face | None = Field(default=None, description="The north face; null: as sides.")
    z_min: Face | None = Field(default=None, description="The lower face; null: as bottom.")
    z_max: Face | None = Field(default=None, description="The upper face; null: as top.")
    absorption: Absorption = Field(
        default="auto",
        description="How absorbing faces absorb. layer: by layers around the box, perfectly matched with "
        "finite_difference, damping with spectral_element; stacey: by a condition at the face (spectral_element, and "
        "discontinuous_galerkin by its flux), which reflects part of the waves: lithowave check estimates the error; "
        "auto: layer with finite_difference, else stacey.",
    )
    layer: AbsorbingLayer = Field(
        default_factory=AbsorbingLayer, description="The absorbing layers, where there are any."
    )

    def face(self, name: str) -> Face:
        """The kind of a face: ``x_min``, ``x_max``, ``y_min``, ``y_max``, ``z_min`` or ``z_max``."""
        if name not in FACES:
            raise KeyError(f"{name!r} is not a face; faces: {', '.join(FACES)}")
        general = {"z_min": self.bottom, "z_max": self.top}.get(name, self.sides)
        return getattr(self, name) or general

    @property
    def faces(self) -> dict[str, Face]:
        """The kind of all six faces by name."""
        return {name: self.face(name) for name in FACES}

    def resolved_absorption(self, method: str) -> Literal["layer", "stacey"]:
        """How absorbing faces absorb with a numerical method: ``layer`` or ``stacey``."""
        return _ABSORPTION_BY_METHOD[method] if self.absorption == "auto" else self.absorption
