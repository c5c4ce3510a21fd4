"""Radial models of the Earth as the material."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo, WithJsonSchema, model_validator

from lithowave.description.base import DescriptionModel, carried, existing_file
from lithowave.description.earth_medium import EarthMedium
from lithowave.description.perturbations import Perturbation
from lithowave.description.refusals import nearest, refusal, shown
from lithowave.description.units import PositiveFrequency, PositiveLength
from lithowave.earth.radial_model import RadialModel
from lithowave.earth.reference_models import NAMES, reference_model
from lithowave.errors import InputError
from lithowave.readers.radial_models import read_radial_model


def _model(value: Any, info: ValidationInfo) -> str | Path:
    """Return the name of a reference model, or the path of an existing file."""
    if isinstance(value, str) and value.lower() in NAMES:
        return value.lower()
    try:
        return existing_file(value, info)
    except ValueError:
        allowed = f"expected {', '.join(NAMES)}, or the name of a file of layers"
        hint = nearest(value, NAMES) if isinstance(value, str) else ""
        raise refusal(f"{shown(value)} is neither a reference model nor an existing file", allowed, hint) from None


ModelName = Annotated[
    str | Path,
    BeforeValidator(_model),
    WithJsonSchema({"anyOf": [{"enum": list(NAMES)}, {"type": "string", "format": "path"}]}),
]


class Earth(DescriptionModel):
    """A radial model of the Earth: a name or a file, or a group of keys.

    ``earth: prem`` is a short form of ``earth: {model: prem}``. The radius of a point is 6371 km plus its z, so that in
    a box the layers are flat.
    """

    model: ModelName = Field(
        description="prem, ak135 or iasp91, or a file of layers (TauP .nd and .tvel, AxiSEM .bm, tables with headers)."
    )
    ocean: StrictBool = Field(
        default=False,
        description="true: keep fluid layers at the surface; false: the first solid layer extends up to the surface.",
    )
    anisotropy: StrictBool = Field(
        default=False,
        description="true: transverse isotropy with a radial axis, in prem at depths of 24.4 to 220 km "
        "(spectral_element); false: the equivalent isotropic model.",
    )
    attenuation: StrictBool = Field(
        default=True, description="false: ignore the quality factors of the model, if it has any."
    )
    frequency: PositiveFrequency | None = Field(
        default=None,
        description="With attenuation: false: frequency, Hz, whose phase velocities are used; null: the reference "
        "frequency of the model, 1 Hz for prem.",
    )
    perturbations: list[Perturbation] = Field(
        default=[], description="Three-dimensional models in files, relative to the radial model or absolute."
    )
    minimum_thickness: PositiveLength | None = Field(
        default=None,
        description="Thickness, m, below which a layer is removed; the layer below it extends up to its top. Default: "
        "all layers are kept.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, (str, Path)) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.frequency is not None and self.attenuation:
            raise refusal(
                f"{self.frequency:g} Hz is given, and the model has attenuation", "applies with attenuation: false",
                "with attenuation, velocities are those at material.attenuation.reference_frequency",
                at=("frequency",),
            )  # fmt: skip
        try:
            _ = self.radial_model
        except InputError as error:
            if error.file is not None:
                raise carried(error, ("model",)) from None
            raise refusal(error.got, error.allowed, error.hint, at=error.where.split(".")[2:]) from None
        return self

    def input_files(self) -> list[Path]:
        """Return the files that the model refers to."""
        own = [self.model] if isinstance(self.model, Path) else []
        return own + [one.file for one in self.perturbations]

    @cached_property
    def radial_model(self) -> RadialModel:
        """The model with these options.

        Raises
        ------
        InputError : the model has no ocean, no anisotropy, or no known reference frequency, or no layer remains.
        """
        if isinstance(self.model, Path):
            found = read_radial_model(self.model)
        else:
            found = reference_model(self.model, ocean=True, transverse=self.anisotropy)
        if not self.ocean:
            found = found.without_ocean()
        elif not found.layers[0].is_fluid:
            raise InputError(
                "material.earth.ocean", f"true is given, and {found.name} has no ocean", "",
                "expected false, or a model with a fluid layer at the surface such as prem",
            )  # fmt: skip
        if not self.anisotropy:
            found = found.isotropic()
        elif not any(one.is_anisotropic for one in found.layers):
            raise InputError(
                "material.earth.anisotropy", f"true is given, and {found.name} is isotropic", "",
                "expected false, or a model with anisotropy such as prem",
            )  # fmt: skip
        if self.minimum_thickness is not None:
            found = found.without_layers_thinner_than(self.minimum_thickness)
        if self.attenuation:
            return found
        quality = found.at_frequency(self.frequency) if self.frequency is not None else found
        return quality.elastic()

    @cached_property
    def medium(self) -> EarthMedium:
        """The medium of the model."""
        return EarthMedium(self.radial_model, tuple(self.perturbations))
