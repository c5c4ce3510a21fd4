"""The material of the model: layers, sections from SEG-Y files, gridded models, and the keys of attenuation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, core_schema

from lithowave.description.base import DescriptionModel, InputFile, existing_file, keys_as_text, reading
from lithowave.description.text import refusal, shown
from lithowave.description.units import (
    Band,
    DensityGradient,
    InverseLength,
    Length,
    NumberList,
    PositiveFrequency,
    PositiveLength,
    SpeedGradient,
    WholeNumber,
    parse_quantity,
    quantity,
    with_unit,
)
from lithowave.media.bounded_layers import PROPERTIES, BoundedLayers, FunctionTop
from lithowave.media.earth import Earth, EarthMedium
from lithowave.media.elasticity import ElasticProperties, aligned_moduli
from lithowave.media.gridded import DepthOrigin, GriddedMedium, ModelOnEarth, PlacedMedium
from lithowave.media.medium import DomainExtent, FunctionMedium, GroupedMedium, LayeredMedium, Medium, Sample
from lithowave.readers.gridded_model import GEOGRAPHIC, GriddedModel
from lithowave.readers.model_files import LABEL, ArrayModel, Models, is_array_mapping, is_dataset, read_model
from lithowave.readers.segy import SegySection, read_segy_section
from lithowave.readers.surfaces import GeographicSurface, Surface, read_surface
from lithowave.readers.text import DENSITY, SPEED, Exponents, si_factor
from lithowave.rheology import CORNER_FREQUENCY, MOST_MECHANISMS, SMALLEST_BAND, QualityLaw

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from lithowave.description.domain import Domain
    from lithowave.json_types import ReadEntries


DEFAULT_BAND = 100.0
"""Ratio of the ends of the band where it is not given."""

class Attenuation(DescriptionModel):
    """Attenuation of media with quality factors qp and qs: how Q is approximated, and where velocities apply.

    Q is qp and qs below ``corner_frequency`` and grows with frequency above it, as (f / corner_frequency)^exponent.
    ``mechanisms`` relaxation mechanisms approximate it within ``band``; ``lithowave check`` prints the largest
    deviation. Outside the band, attenuation decreases. Velocities of waves depend on frequency in media with
    attenuation; vp and vs are the phase velocities at ``reference_frequency``. If it is outside the band, those in the
    band follow the law of Q, as c ~ f^(arctan(1/Q) / pi) where Q is constant.
    """

    reference_frequency: PositiveFrequency | None = Field(
        default=None,
        description="Frequency at which vp and vs are the phase velocities, Hz; null: the geometric mean of the ends "
        "of the band.",
    )
    band: Band | None = Field(
        default=None,
        description="Lowest and highest frequency [low, high] of the approximation of Q, Hz; null: "
        "[max_frequency / 100, max_frequency].",
    )
    mechanisms: Annotated[int, WholeNumber(ge=1, le=MOST_MECHANISMS)] = Field(
        default=3,
        description="Number of relaxation mechanisms, 1 to 8. In a band of two decades, Q deviates by about 16%, 3%, "
        "0.6% and 0.1% with 2, 3, 4 and 5.",
    )
    exponent: quantity("number", ge=0, lt=1) = Field(  # type: ignore[valid-type]
        default=0.0, description="Exponent of the increase of Q above corner_frequency; 0: constant Q."
    )
    corner_frequency: PositiveFrequency = Field(
        default=CORNER_FREQUENCY, description="Frequency above which Q increases, Hz, if the exponent is above 0."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.band is None:
            return self
        low, high = self.band
        if not high >= SMALLEST_BAND * low:
            raise refusal(
                f"[{low:.12g}, {high:.12g}] Hz is not a band",
                f"the second frequency must be at least {SMALLEST_BAND:g} times the first one",
                at=("band",),
            )
        return self

    @property
    def law(self) -> QualityLaw:
        """Q as a function of frequency."""
        return QualityLaw(self.exponent, self.corner_frequency)

    def resolved_band(self, max_frequency: float | None) -> tuple[float, float] | None:
        """Return the band, Hz; None if it is not given, and the maximum frequency is unknown."""
        if self.band is not None:
            return self.band
        return None if max_frequency is None else (max_frequency / DEFAULT_BAND, max_frequency)

    def resolved_reference(self, band: tuple[float, float]) -> float:
        """Return the reference frequency for a band, Hz."""
        return math.sqrt(band[0] * band[1]) if self.reference_frequency is None else self.reference_frequency


_FILES = ("vp", "vs", "rho")


def _unit(exponents: Exponents, examples: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, str) or si_factor(value, exponents) is None:
            raise refusal(f"{shown(value)} is not a unit that fits", f"expected {examples}")
        return value

    return BeforeValidator(check)


class Section(DescriptionModel):
    """A depth section: SEG-Y files with one trace per position along x or y, and samples from the top down.

    Values are interpolated linearly between samples, and are constant beyond the ends of the section and in the
    direction across it. All three files must have the same traces. Reading them requires the package segyio.
    """

    vp: InputFile = Field(description="SEG-Y file with the P-wave velocity.")
    vs: InputFile = Field(description="SEG-Y file with the S-wave velocity; 0 in a fluid.")
    rho: InputFile = Field(description="SEG-Y file with the density.")
    speed_unit: Annotated[str, _unit(SPEED, "a speed such as m/s or km/s")] = Field(
        default="m/s", description="Unit of vp and vs in the files: m/s, km/s ..."
    )
    density_unit: Annotated[str, _unit(DENSITY, "a density such as kg/m^3 or g/cm^3")] = Field(
        default="kg/m^3", description="Unit of rho in the file: kg/m^3, g/cm^3 ..."
    )
    along: Literal["x", "y"] = Field(default="x", description="The axis along which the traces are located.")
    spacing: Annotated[tuple[PositiveLength, PositiveLength], NumberList(("trace", "sample"))] | None = Field(
        default=None,
        description="Distances [between traces, between samples], m; null: from the headers, that is, from the CDP "
        "coordinates and a thousandth of the sample interval.",
    )
    origin: Annotated[tuple[Length, Length], NumberList(("first trace", "z"))] | None = Field(
        default=None,
        description="Position of the first sample of the first trace: [x or y, z], m; null: the CDP coordinate of the "
        "first trace (0 if spacing is given) and z = 0.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.model  # read now, so that errors of a file are reported with their key
        return self

    @cached_property
    def model(self) -> GriddedModel:
        """The section as a gridded model in SI, with one point on the axis across it."""
        sections = {name: reading(read_segy_section, getattr(self, name), (name,)) for name in _FILES}
        first = sections["vp"]
        along, z = self._line(first), self._depths(first)
        axes = {"x": np.zeros(1), "y": np.zeros(1), self.along: along}
        upwards = slice(None, None, -1)
        falling = along[0] > along[-1]
        order = (upwards if falling else slice(None), upwards)
        across = 1 if self.along == "x" else 0
        arrays = {name: np.expand_dims(self._values(name, sections)[order], across) for name in _FILES}
        axes[self.along] = along[order[0]]
        return GriddedModel(first.path, axes["x"], axes["y"], z[upwards], **arrays)

    def _line(self, section: SegySection) -> np.ndarray:
        """Return the coordinates of the traces, m, in the order of the file."""
        count = len(section.values)
        if count < 2:
            raise refusal(f"{section.path} has {count} trace", "a section has two or more", at=("vp",))
        start = None if self.origin is None else self.origin[0]
        if self.spacing is not None:
            return (start or 0.0) + self.spacing[0] * np.arange(count)
        places = section.cdp_x if self.along == "x" else section.cdp_y
        steps = np.diff(places)
        if not ((steps > 0.0).all() or (steps < 0.0).all()):
            name = f"CDP {self.along.upper()}"
            what = f"{places[0]:.12g} m in all headers" if not steps.any() else "not rising or falling all the way"
            raise refusal(
                f"{section.path} has no line of coordinates: {name} is {what}",
                f"traces follow each other along {self.along}", "give spacing: [trace, sample] and origin", at=("vp",),
            )  # fmt: skip
        return places if start is None else places - places[0] + start

    def _depths(self, section: SegySection) -> np.ndarray:
        """Return z of the samples, m, descending."""
        count = section.values.shape[1]
        if count < 2:
            raise refusal(f"{section.path} has {count} sample a trace", "a section has two or more", at=("vp",))
        step = section.sample_interval / 1000.0 if self.spacing is None else self.spacing[1]
        if not step > 0.0:
            raise refusal(
                f"{section.path} has the sample interval {section.sample_interval}",
                "a section in depth has thousandths of a meter there", "give spacing: [trace, sample]", at=("vp",),
            )  # fmt: skip
        return (0.0 if self.origin is None else self.origin[1]) - step * np.arange(count)

    def _values(self, name: str, sections: dict[str, SegySection]) -> np.ndarray:
        """Return the values of a file in SI, (n_traces, n_samples)."""
        section, first = sections[name], sections["vp"]
        if section.values.shape != first.values.shape:
            sizes = ["{} traces of {} samples".format(*each.values.shape) for each in (section, first)]
            raise refusal(
                f"{section.path} has {sizes[0]}", f"all files need those of {first.path.name}, {sizes[1]}", at=(name,)
            )
        key, exponents = ("density_unit", DENSITY) if name == "rho" else ("speed_unit", SPEED)
        unit = getattr(self, key)
        factor = si_factor(unit, exponents)
        assert factor is not None
        return section.values if factor == 1.0 else section.values * np.float32(factor)

    def input_files(self) -> list[Path]:
        """Return the three files."""
        return [getattr(self, name) for name in _FILES]


_NUMERIC = re.compile(r"\s*[-+]?(\d|\.\d)")


class _LayerTop:
    """Annotation of a boundary: a z, m, the name of a file with a surface, or a function z(x, y)."""

    @staticmethod
    def parse(value: object, info: ValidationInfo) -> float | Path | Callable[..., Any]:
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

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
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


_KINDS = ("layers", "homogeneous", "earth", "file", "section", "groups", "function", "dataset")

_IN_PYTHON = ("function", "dataset")
"""Forms that a simulation file cannot express."""


def _array_model(value: object) -> object:
    """Return the model in a Dataset or a dictionary of arrays."""
    if value is None or isinstance(value, ArrayModel):
        return value
    if not is_dataset(value) and not is_array_mapping(value):
        raise refusal(
            f"{shown(value)} is not a gridded model",
            "expected an xarray Dataset or a dictionary of arrays, with vp, vs and rho on the axes x, y and z or "
            "depth, or longitude, latitude and depth",
        )
    return reading(lambda _: ArrayModel(value), LABEL, ())


def _needs_place(top: object) -> TypeGuard[Surface]:
    """True for a surface that is, or may be, on longitude and latitude."""
    return isinstance(top, GeographicSurface) or (isinstance(top, Surface) and top.unstated and top.can_be_geographic)


class Material(DescriptionModel):
    """The material in exactly one form: layers, homogeneous, earth, gridded model, section, groups, or function.

    vs = 0 denotes a fluid, which spectral_element and discontinuous_galerkin support. Densities outside 300 to 25,000
    kg/m^3 and wave speeds outside 30 to 30,000 m/s usually result from a missing unit; lithowave rejects them unless
    ``allow_implausible`` is true.

    ``function`` (Python only) is f(x, y, z) -> (vp, vs, rho), or (vp, vs, rho, qp, qs) with attenuation: it takes three
    arrays of the same shape in m, and returns arrays of this shape (or numbers) in m/s, m/s and kg/m^3. lithowave may
    evaluate it at points up to a few grid cells outside the domain.

    Media with quality factors attenuate waves. Media without them are elastic, and may be combined with others.
    """

    layers: list[Layer] | None = Field(
        default=None,
        description="Layers, from the top down, flat or bounded by surfaces; the first one must reach the top of the "
        "domain.",
    )
    homogeneous: ElasticProperties | None = Field(default=None, description="One homogeneous medium.")
    earth: Earth | None = Field(
        default=None,
        description="Radial model of the Earth: prem, ak135, iasp91 or a file of layers, or a group of keys.",
    )
    file: InputFile | None = Field(
        default=None,
        description="Gridded model (NetCDF, HDF5, .npz, SW4 rfile and sfile, text): vp, vs, rho on axes x, y, z (or "
        "depth), or longitude, latitude, depth (with domain.crs); with attenuation also "
        "qp and qs, or qkappa and qmu (infinite at elastic points). An .npz or plain "
        "HDF5 file in which two axes have the same number of points must name their order in an entry axes: "
        "[x, y, z].",
    )
    depth_origin: DepthOrigin = Field(
        default="sea_level",
        description="With file: z of the model is measured from z = 0 (sea_level), or from the surface of the domain "
        "above each point (surface).",
    )
    extrapolate: StrictBool = Field(
        default=False,
        description="With file: true accepts a domain that the model does not cover; the values beyond its edges are "
        "those of the nearest edge.",
    )
    section: Section | None = Field(
        default=None, description="Two-dimensional model from SEG-Y files, constant across the section."
    )
    groups: Annotated[dict[str, ElasticProperties], BeforeValidator(keys_as_text)] | None = Field(
        default=None,
        description="With solver.mesh: the name and the properties of each group of elements of the mesh.",
    )
    allow_implausible: StrictBool = Field(
        default=False,
        description="true: accept densities and wave speeds outside the plausible range, for example of a scaled "
        "model.",
    )
    attenuation: Attenuation | None = Field(
        default=None, description="How quality factors are approximated; null: the defaults, if there are any."
    )
    function: SkipJsonSchema[Callable[..., Any] | None] = Field(
        default=None, description="Python only: f(x, y, z) -> (vp, vs, rho) or (vp, vs, rho, qp, qs)."
    )

    dataset: SkipJsonSchema[Annotated[Any, BeforeValidator(_array_model)]] = Field(
        default=None,
        description="Python only: a gridded model as an xarray Dataset or a dictionary of arrays; a run stores it in "
        "its folder.",
    )

    _medium: Medium | None = PrivateAttr(default=None)
    _known_extremes: tuple[DomainExtent, dict[str, tuple[float, str]]] | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _arrays_as_dataset(cls, value: object) -> object:
        """Accept a Dataset or a dictionary of arrays as the material itself, and as ``file``."""
        if is_dataset(value) or is_array_mapping(value):
            return {"dataset": value}
        if isinstance(value, Mapping) and (is_dataset(value.get("file")) or is_array_mapping(value.get("file"))):
            return {"dataset" if key == "file" else key: entry for key, entry in value.items()}
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self._given(*_KINDS)
        if len(given) != 1:
            got = (
                f"the material has several forms: {', '.join(given)}"
                if given
                else "no material is given"
            )
            raise refusal(
                got,
                "give exactly one of layers, homogeneous, earth, file, section and groups (in Python also function, "
                "dataset)",
            )
        for name, default in (("depth_origin", "sea_level"), ("extrapolate", False)):
            if getattr(self, name) != default and self.file is None and self.dataset is None:
                raise refusal("applies to gridded models only", "expected the key file", at=(name,))
        if self.groups is not None and not self.groups:
            raise refusal("the list of groups is empty", "at least one is required", at=("groups",))
        if self.layers is not None:
            self._check_layers(self.layers)
        _ = self.medium  # a file is read now, so that its errors are reported with their key
        return self

    @staticmethod
    def _check_layers(layers: list[Layer]) -> None:
        if not layers:
            raise refusal("the list of layers is empty", "at least one is required", at=("layers",))
        for index, (upper, lower) in enumerate(zip(layers, layers[1:], strict=False)):
            if not (isinstance(lower.top, float) and isinstance(upper.top, float)):
                continue  # surfaces may cross
            if lower.top >= upper.top:
                raise refusal(
                    f"{with_unit(lower.top, 'length')} is not below the top of the layer before, "
                    f"{with_unit(upper.top, 'length')}",
                    "layers are listed from the top down",
                    f"depth is negative z; did you mean {-lower.top:.12g}?" if lower.top > 0.0 else "",
                    at=("layers", index + 1, "top"),
                )

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = {key: value for key, value in handler(self).items() if value is not None and value is not False}
        if given.get("depth_origin") == "sea_level":
            del given["depth_origin"]
        return given

    @property
    def kind(self) -> str:
        """``layers``, ``homogeneous``, ``earth``, ``file``, ``section``, ``groups``, ``function`` or ``dataset``."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @property
    def medium(self) -> Medium:
        """The material as a function of position."""
        if self._medium is None:
            self._medium = self._make_medium()
        return self._medium

    def with_medium(self, medium: Medium) -> Self:
        """Return the material with another function of position, such as one that is placed in a domain."""
        other = self.model_copy(update={})
        other._medium = medium
        return other

    def model_copy(self, *, update: ReadEntries | None = None, deep: bool = False) -> Self:
        """Return a copy, which makes its medium and extremes again."""
        copied = super().model_copy(update=update, deep=deep)
        copied._medium, copied._known_extremes = None, None
        return copied

    def _make_medium(self) -> Medium:
        if self.function is not None:
            return FunctionMedium(self.function)
        if self.earth is not None:
            return self.earth.medium
        if self.file is not None:
            return reading(lambda path: self._gridded_medium(read_model(path)), self.file)
        if self.dataset is not None:
            return reading(lambda _: self._gridded_medium(self.dataset.models), LABEL, ("dataset",))
        if self.section is not None:
            return reading(lambda _: GriddedMedium(self.section.model, "section"), self.section.vp, ("section",))
        parts = list(self.properties.values())
        slowest = tuple(0.0 if part.is_fluid else part.speed_range[0] for part in parts)
        fastest = tuple(part.speed_range[1] for part in parts)
        vp, vs, rho = (tuple(getattr(part, name) for part in parts) for name in ("vp", "vs", "rho"))
        losses = tuple(part.inverse_quality for part in parts) if any(part.has_attenuation for part in parts) else None
        if self.groups is not None:
            return GroupedMedium(tuple(self.groups), slowest, fastest, rho, losses)
        if self.bounded:
            return self._bounded_layers()
        tops = tuple(part.top if isinstance(part, Layer) else np.inf for part in parts)
        stiffness = None
        if any(part.is_anisotropic for part in parts):
            stiffness = tuple(aligned_moduli(part.stiffness_matrix()) for part in parts)
        return LayeredMedium(tops, vp, vs, rho, slowest, fastest, stiffness, losses)

    def _gridded_medium(self, models: Models) -> Medium:
        """Return the medium of a gridded model: complete, or to be placed in a domain by `lithowave.Simulation`."""
        complete = len(models) == 1 and models[0].frame.kind == "local" and models[0].top is None
        if complete and self.depth_origin == "sea_level" and not self.extrapolate:
            return GriddedMedium(models[0], self.kind)
        return ModelOnEarth(models, self.depth_origin, self.extrapolate, self.kind)

    def in_domain(self, domain: Domain) -> Self:
        """Return the material with its gridded model placed in a domain; the same material for others.

        Raises
        ------
        InputError : the domain has no geographic origin, or the model does not cover it or lacks values in it.
        """
        medium = self.medium
        if self.earth is not None and self.earth.perturbations:
            return self.with_medium(self.earth.medium.placed(domain))
        if isinstance(medium, BoundedLayers) and any(_needs_place(top) for top in medium.tops):
            return self.with_medium(self._layers_placed(domain))
        if isinstance(medium, PlacedMedium) and medium.footprint.domain != domain:  # of another simulation
            return self.model_copy().in_domain(domain)
        if isinstance(medium, (GriddedMedium, ModelOnEarth)) and self.kind != "section":
            medium = self._with_degrees(medium, domain)
        if not isinstance(medium, ModelOnEarth):
            return self
        return self.with_medium(medium.placed(domain))

    def _with_degrees(self, medium: GriddedMedium | ModelOnEarth, domain: Domain) -> GriddedMedium | ModelOnEarth:
        """Return a model without a unit of x and y on longitude and latitude, if it covers the domain only so."""
        models = medium.models if isinstance(medium, ModelOnEarth) else (medium.model,)
        first = models[0]
        if not (first.unstated and first.frame.kind == "local" and domain.is_geographic):
            return medium
        surface = Surface(first.path, first.x, first.y, np.zeros((0, 0)), unstated=True)
        if not surface.is_in_degrees(domain.x, domain.y, domain.to_geographic):
            return medium
        note = "the axes x and y have no unit; they cover the domain as longitude and latitude, and were taken as these"
        models = tuple(replace(model, frame=GEOGRAPHIC, notes=(*model.notes, note)) for model in models)
        return ModelOnEarth(models, self.depth_origin, self.extrapolate, self.kind)

    def _layers_placed(self, domain: Domain) -> BoundedLayers:
        """Return the layers with surfaces on longitude and latitude placed in a domain."""
        found = self._bounded_layers()
        tops = list(found.tops)
        for index, top in enumerate(tops):
            if _needs_place(top):
                key = ("material", "layers", index, "top")
                if isinstance(top, GeographicSurface) and not domain.is_geographic:
                    got = f"{top.path} has longitudes and latitudes, which require the origin domain.crs"
                    raise refusal(got, "expected in domain: crs: {longitude: ..., latitude: ...}", at=key)

                def place(_: Path, top: Surface = top) -> Surface:
                    return domain.placed_surface(top)

                tops[index] = reading(place, top.path, key)
        return replace(found, tops=tuple(tops))

    @property
    def bounded(self) -> bool:
        """True for layers of which some are bounded by surfaces, or have gradients."""
        return any(not isinstance(layer.top, float) or layer.varies for layer in self.layers or ())

    @property
    def python_key(self) -> str:
        """The key of a Python function or of arrays in the material, which a simulation file cannot express; empty if
        there are none."""
        if self.kind in _IN_PYTHON:
            return f"material.{self.kind}"
        tops = (index for index, layer in enumerate(self.layers or ()) if callable(layer.top))
        return next((f"material.layers[{index}].top" for index in tops), "")

    def _bounded_layers(self) -> BoundedLayers:
        layers = self.layers or []
        tops = []
        for index, layer in enumerate(layers):
            if isinstance(layer.top, Path):
                tops.append(reading(read_surface, layer.top, ("layers", index, "top")))
            else:
                tops.append(FunctionTop(layer.top, index) if callable(layer.top) else layer.top)
        gradients = [layer.gradient or Gradient() for layer in layers]
        return BoundedLayers(
            tuple(tops), np.array([[getattr(layer, name) for name in PROPERTIES] for layer in layers], float),
            np.array([[getattr(one, name) for name in PROPERTIES] for one in gradients]),
            np.array([one.level for one in gradients], float), np.array([layer.inverse_quality for layer in layers]),
            np.array([(0.0 if one.is_fluid else one.speed_range[0], one.speed_range[1]) for one in layers]),
            np.array([layer.is_anisotropic for layer in layers]),
        )  # fmt: skip

    @property
    def properties(self) -> dict[tuple[str | int, ...], ElasticProperties]:
        """The properties of layers, groups or the one medium, by the keys that lead to them; else none."""
        if self.homogeneous is not None:
            return {("homogeneous",): self.homogeneous}
        if self.groups is not None:
            return {("groups", name): part for name, part in self.groups.items()}
        return {("layers", index): layer for index, layer in enumerate(self.layers or ())}

    def at_frequency(self, frequency: float) -> Self:
        """Return the material with the phase velocities at a frequency, Hz.

        Those of a radial model of the Earth with a known reference frequency are converted with its quality factors;
        of other materials, vp and vs apply at ``attenuation.reference_frequency`` as they are.
        """
        medium = self.medium
        if not isinstance(medium, EarthMedium) or medium.model.reference_frequency is None:
            return self
        return self.with_medium(medium.at_frequency(frequency))

    def sample(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Sample:
        """Return (vp, vs, rho) in m/s, m/s and kg/m^3 at points in m: float64, of the broadcast shape of x, y and z.

        Layers: the value at a layer's top is that of the layer below it; above the first top it is that at this
        top. Gridded models: trilinear, and constant beyond their edges. vs is 0 in a fluid. Of an anisotropic
        medium vp and vs are what :class:`ElasticProperties` has under these names.

        Raises
        ------
        InputError
            when a function fails or gives values that cannot be, and for groups, whose places the mesh knows.
        """
        return _arrays(self.medium.sample(*_points(x, y, z)))

    def moduli(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        spacing: float | None = None,
        z_ceiling: float | None = None,
        z_floor: float | None = None,
    ) -> Sample:
        """Return (kappa, mu, rho): bulk and shear modulus in Pa, density in kg/m^3; of the broadcast shape.

        Without ``spacing`` these are the values at the points. With it they are averages over the cube of
        that side around each point: the arithmetic mean of rho, the harmonic means of kappa and mu (Moczo et
        al. 2002, BSSA 92(8), 3042-3066), so that waves meet a boundary between grid points where
        it is. The part of a cube above ``z_ceiling`` (the free surface) or below ``z_floor`` is left out;
        around points beyond them it is the cube around the nearest point within. Exact for flat layers; for
        layers with surfaces or gradients exact along z, in 2 x 2 columns; by 2 x 2 x 2 Gauss points for gridded
        models and functions, which takes them as smooth within a cube. A cube with any fluid in it has mu = 0.
        """
        points = _points(x, y, z)
        if spacing is None:
            return _arrays(self.medium.moduli(*points))
        limits = (-np.inf if z_floor is None else float(z_floor), np.inf if z_ceiling is None else float(z_ceiling))
        return _arrays(self.medium.average_moduli(*points, float(spacing), limits))

    def extremes(self, domain: DomainExtent) -> dict[str, float]:
        """Return the minimum and maximum values within the domain, SI.

        Keys ``vp_min``, ``vp_max``, ``vs_min``, ``vs_max``, ``rho_min``, ``rho_max``, and ``slowest``, the slowest
        wave: vs, or vp in a fluid, for which ``vs_min`` is 0. Of an anisotropic medium vp and vs are the fastest and
        the slowest phase speed. Layers are cut to the domain, surfaces at sampled columns; all groups count; of a
        gridded model the points in and next to the domain count; a function is tried on a regular grid of points, so
        that its extremes may be missed.
        """
        return {name: value for name, (value, _) in self._extremes(domain).items()}

    def extreme_places(self, domain: DomainExtent) -> dict[str, str]:
        """Return the first location of each of :meth:`extremes` as text: ``layers[1], z = -16000 to -5500 m``."""
        return {name: place for name, (_, place) in self._extremes(domain).items()}

    def _extremes(self, domain: DomainExtent) -> dict[str, tuple[float, str]]:
        if self._known_extremes is None or self._known_extremes[0] != domain:
            self._known_extremes = domain, self._find_extremes(domain)
        return self._known_extremes[1]

    def _find_extremes(self, domain: DomainExtent) -> dict[str, tuple[float, str]]:
        (vp, vs, rho), place = self.medium.values_in(domain)
        arrays = {"vp_min": vp, "vp_max": vp, "vs_min": vs, "vs_max": vs, "rho_min": rho, "rho_max": rho}
        arrays["slowest"] = np.where(vs > 0.0, vs, vp)
        indices = {
            name: int(np.argmax(values) if name.endswith("max") else np.argmin(values))
            for name, values in arrays.items()
        }
        return {name: (float(arrays[name][index]), place(index)) for name, index in indices.items()}

    def validate_domain(self, domain: DomainExtent) -> None:
        """Check that the material covers the domain.

        Raises
        ------
        InputError
            whose ``where`` begins with ``material``: the first layer ends below the domain's top, a gridded
            model does not reach across the domain, or a function fails at one of the trial points.
        """
        self.medium.validate_domain(domain)

    def input_files(self) -> list[Path]:
        """Return the files that the material refers to."""
        if self.section is not None:
            return self.section.input_files()
        if self.earth is not None:
            return self.earth.input_files()
        tops = [layer.top for layer in self.layers or () if isinstance(layer.top, Path)]
        return tops if self.file is None else [self.file]


def _arrays(values: Sample) -> Sample:
    """Return the values as arrays also for a single point, instead of NumPy scalars."""
    return tuple(np.asarray(value) for value in values)  # type: ignore[return-value]


def _points(*coordinates: ArrayLike) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(values, dtype=float) for values in coordinates)
