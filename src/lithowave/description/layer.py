"""A layer of the material: its upper boundary, its properties there, and their increase with depth."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import CoreSchema, core_schema

from lithowave.description.base import DescriptionModel, existing_file
from lithowave.description.elastic_properties import ElasticProperties
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import DensityGradient, InverseLength, Length, SpeedGradient, parse_quantity

_NUMERIC = re.compile(r"\s*[-+]?(\d|\.\d)")


class _LayerTop:
    """Annotation of a boundary: a z, m, the name of a file with a surface, or a function z(x, y)."""

    @staticmethod
    def parse(value: Any, info: ValidationInfo) -> float | Path | Callable[..., Any]:
        """Return the z in m, the path of an existing file, or the function."""
        if callable(value):
            return value
        if not isinstance(value, (str, Path)):
            try:
                return parse_quantity(value, "length")
            except ValueError:
                allowed = "expected z in m, text with a unit, or the file of a surface (in Python also z(x, y))"
                raise refusal(f"{shown(value)} is not the top of a layer", allowed) from None
        try:
            return existing_file(value, info)
        except ValueError:
            if not _NUMERIC.match(str(value)):
                raise
        return parse_quantity(value, "length")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        level = {"anyOf": [{"type": "number"}, {"type": "string", "examples": ["-1 km"]}], "x-unit": "m"}
        return {"anyOf": [level, {"type": "string", "format": "path"}]}


class Gradient(DescriptionModel):
    """Linear increase of the properties of a layer with depth; negative values decrease them.

    At the depth d they are vp + d gradient.vp, vs + d gradient.vs, ... The depth is measured along z from the top of
    the layer, also where a layer above cuts off its upper part, or from a ``level``. Above the top, d = 0.
    """

    vp: SpeedGradient = Field(default=0.0, description="Increase of vp per meter of depth, 1/s.")
    vs: SpeedGradient = Field(default=0.0, description="Increase of vs per meter of depth, 1/s.")
    rho: DensityGradient = Field(default=0.0, description="Increase of rho per meter of depth, kg/m^4.")
    qp: InverseLength = Field(default=0.0, description="Increase of qp per meter of depth, 1/m.")
    qs: InverseLength = Field(default=0.0, description="Increase of qs per meter of depth, 1/m.")
    level: Length | None = Field(
        default=None,
        description="z at which the properties of the layer apply, m: depth is measured from this level. Default: the "
        "top of the layer, which may be a surface.",
    )


class _Top(DescriptionModel):
    """A separate base class, so that the top is the first key of a layer."""

    top: Annotated[float | Path | Callable[..., Any], _LayerTop()] = Field(
        description="Top of the layer; points on it belong to this layer. z in m, or the name of a file with a surface "
        "that covers the domain (variables as in domain.topography); in Python also a function z(x, y) of arrays in m."
    )


class Layer(ElasticProperties, _Top):
    """A layer, which extends from its top to the top of the next layer; the last layer has no bottom.

    The top may be a surface. Where surfaces cross, the layer that is listed first prevails: a layer begins at the
    lowest of its own top and the tops of the layers listed before it, except the first one, which has no upper end. A
    layer may therefore be absent in parts of the domain.
    """

    gradient: Gradient | None = Field(
        default=None, description="Increase of the properties with depth; vp, vs, rho, qp and qs apply at the top."
    )

    @model_validator(mode="after")
    def _gradient_fits(self) -> Self:
        given = self.gradient
        if given is None:
            return self
        if self.is_anisotropic:
            raise refusal("is given for an anisotropic layer", "gradients require isotropic layers", at=("gradient",))
        for key in ("qp", "qs"):
            if getattr(given, key) and getattr(self, key) is None:
                raise refusal(
                    f"is given, but the layer has no {key}", f"the gradient changes {key}", at=("gradient", key)
                )
        if given.vs and self.is_fluid:
            raise refusal("is given, but vs = 0 denotes a fluid", "a fluid has vs = 0", at=("gradient", "vs"))
        return self

    @property
    def varies(self) -> bool:
        """True if properties depend on the depth."""
        given = self.gradient
        return given is not None and any((given.vp, given.vs, given.rho, given.qp, given.qs))
