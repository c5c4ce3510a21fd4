"""Radial models of the Earth as media, with three-dimensional perturbations.

The radius of a point is the radius of the Earth plus its z. In a box, x and y are horizontal and the surface is flat.
In a domain on the sphere, x and y are the coordinates along the surface z = 0, and z is the height above it, so that
the same function of z applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo, WithJsonSchema, model_validator

from lithowave.description.base import DescriptionModel, InputFile, carried, existing_file, reading
from lithowave.description.text import nearest, refusal, shown
from lithowave.description.units import Number, PositiveFrequency, PositiveLength
from lithowave.earth.radial_model import (
    COLUMNS,
    RADIUS,
    EarthProperties,
    Love,
    RadialModel,
    phase_speed_range,
    transverse_moduli,
)
from lithowave.earth.reference_models import NAMES, reference_model
from lithowave.errors import InputError
from lithowave.media.gridded import trilinear_cells, trilinear_values
from lithowave.media.medium import (
    MODULI,
    DomainExtent,
    InverseQuality,
    Sample,
    StackedLayers,
    quality_problem,
    value_problem,
)
from lithowave.readers.geographic_model import PerturbationModel, read_perturbation_model
from lithowave.readers.radial_models import read_radial_model

if TYPE_CHECKING:
    from lithowave.description.domain import Domain


_ROUNDING = 1e-9  # degrees
_COMPARED = (17, 17, 33)  # positions along x, y and z at which a file is compared with a domain


class Perturbation(DescriptionModel):
    """A three-dimensional model in a file, relative to the radial model or absolute.

    Where it has no value, the radial model applies.
    """

    file: InputFile = Field(
        description="NetCDF, HDF5 or .npz on longitude, latitude and depth: dvp, dvs, drho (units % or 1), or vp, vs, "
        "rho."
    )
    vp_from_vs: Number | None = Field(
        default=None, description="Perturbation of vp over that of vs (d ln vp / d ln vs). Default: vp is unchanged."
    )
    rho_from_vs: Number | None = Field(
        default=None, description="Perturbation of rho over that of vs (d ln rho / d ln vs). Default: rho is unchanged."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.model  # read now, so that errors of the file are reported with its key
        for key, factor in self.factors.items():
            name = key.partition("_")[0]
            if name in self.model.names:
                got = f"{factor:g} is given, and {self.file} has {name}"
                raise refusal(got, "expected a file without it", "remove this key", at=(key,))
            if "vs" not in self.model.names:
                raise refusal(f"{factor:g} is given, and {self.file} has no vs", "expected a file with vs", at=(key,))
        return self

    @property
    def factors(self) -> dict[str, float]:
        """The scaling factors that are given, by key."""
        keys = {key: getattr(self, key) for key in ("vp_from_vs", "rho_from_vs")}
        return {key: factor for key, factor in keys.items() if factor is not None}

    @cached_property
    def model(self) -> PerturbationModel:
        """The values of the file."""
        return reading(read_perturbation_model, self.file)


@dataclass(frozen=True, eq=False)
class PlacedPerturbation:
    """A perturbation in a domain.

    to_geographic : function of x and y, m, that returns longitude and latitude, degrees.
    """

    source: Perturbation
    to_geographic: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, source: Perturbation, domain: Domain, index: int) -> PlacedPerturbation:
        """Return the perturbation in a domain.

        Raises
        ------
        InputError : the domain has no geographic coordinates, or the file has no values in it.
        """
        where = f"material.earth.perturbations[{index}]"
        try:
            domain.to_geographic(*domain.center[:2])
        except ValueError:
            raise InputError(
                where, f"{source.file} has longitudes and latitudes, and the domain has none",
                "expected a domain with geographic coordinates", "give domain.crs: {longitude: ..., latitude: ...}",
            ) from None
        found = cls(source, domain.to_geographic)
        if found.coverage(domain) == 0.0 and not found.has_points_in(domain):
            raise InputError(
                f"{where}.file", f"{source.file} has no values in the domain: {source.model.extent_text()}",
                "expected a grid that overlaps the domain", "check the signs of longitudes, latitudes and depths",
            )  # fmt: skip
        return found

    def coverage(self, domain: Domain) -> float:
        """Return the fraction of positions in a domain at which the file has a value of all of its properties."""
        x, y, z = (np.linspace(*ends, n) for ends, n in zip(domain.bounds.values(), _COMPARED, strict=True))
        cells, inside = self._cells(x[:, None, None], y[:, None], z)
        properties = {**self.source.model.relative, **self.source.model.absolute}
        known = [np.isfinite(trilinear_values([values], cells)[0]) for values in properties.values()]
        return float(np.mean(np.logical_and.reduce([inside, *known])))

    def has_points_in(self, domain: Domain) -> bool:
        """True if a point of the grid is in a domain: a small grid may be between the positions of `coverage`."""
        grid = self.source.model
        x, y = domain.to_local_grid(*map(np.ravel, np.meshgrid(grid.longitude, grid.latitude)))
        (west, east), (south, north), (low, high) = domain.bounds.values()
        across = (x >= west) & (x <= east) & (y >= south) & (y <= north)  # False for NaN, beyond the horizon of a chunk
        return bool(across.any() and ((grid.z >= low) & (grid.z <= high)).any())

    def applied(self, here: EarthProperties, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> EarthProperties:
        """Return the properties at points in m with the perturbation; quality factors do not change."""
        changes = self.changes(here, x, y, z)
        vp, vs, rho = (1.0 + changes.get(name, 0.0) for name in ("vp", "vs", "rho"))
        return replace(
            here, vpv=here.vpv * vp, vph=here.vph * vp, vsv=here.vsv * vs, vsh=here.vsh * vs, rho=here.rho * rho
        )

    def changes(self, here: EarthProperties, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the relative perturbation of vp, vs and rho at points; 0 where the file has no value."""
        grid, found = self.source.model, {}
        cells, inside = self._cells(x, y, z)
        for name, values in grid.relative.items():
            found[name] = trilinear_values([values], cells)[0]
        for name, values in grid.absolute.items():
            reference = getattr(here, name)
            solid = reference > 0.0
            absolute = trilinear_values([values], cells)[0]
            found[name] = np.where(solid, absolute / np.where(solid, reference, 1.0) - 1.0, 0.0)
        found = {name: np.where(inside & np.isfinite(values), values, 0.0) for name, values in found.items()}
        for key, factor in self.source.factors.items():
            found[key.partition("_")[0]] = factor * found["vs"]
        return found

    def _cells(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Return the cells of the grid around points, and True for the points inside the grid.

        Points above z = 0, in a topography, have the values at z = 0, unless the grid has higher ones.
        """
        grid = self.source.model
        z = np.minimum(z, max(0.0, float(grid.z[-1])))
        x, y = (np.array(each, ndmin=1) for each in np.broadcast_arrays(x, y))
        longitude, latitude = (np.asarray(each) for each in self.to_geographic(x, y))
        first = grid.longitude[0] - _ROUNDING
        longitude = first + (longitude - first) % 360.0
        points = list(zip((longitude, latitude, z), (grid.longitude, grid.latitude, grid.z), strict=True))
        inside = np.asarray(True)
        for values, axis in points:
            margin = _ROUNDING * max(1.0, float(np.abs(axis).max()))
            inside = inside & (values >= axis[0] - margin) & (values <= axis[-1] + margin)
        return [trilinear_cells(values, axis) for values, axis in points], inside


EXAMINED = 17
"""Positions along x and y at which perturbations are examined."""


LEVEL = 1e-6
"""Difference of z, m, in levels of elements by round-off, up to which they have the same properties."""


@dataclass(frozen=True, eq=False)
class EarthMedium(StackedLayers):
    """A radial model, with or without three-dimensional perturbations.

    Attributes
    ----------
    model : properties as functions of the radius.
    sources : perturbations on longitude, latitude and depth, in the order in which they are applied.
    perturbations : the same, placed in a domain; a medium with sources has no values before `placed`.
    """

    model: RadialModel
    sources: tuple[Perturbation, ...] = ()
    perturbations: tuple[PlacedPerturbation, ...] = ()

    def placed(self, domain: Domain) -> EarthMedium:
        """Return the medium with its perturbations placed in a domain.

        Raises
        ------
        InputError : the domain has no geographic coordinates.
        """
        found = tuple(PlacedPerturbation.of(one, domain, index) for index, one in enumerate(self.sources))
        return replace(self, perturbations=found)

    @property
    def count(self) -> int:
        return len(self.model.layers)

    @cached_property
    def tops(self) -> np.ndarray:
        """z of the top of each layer, m, descending."""
        return np.array([one.top for one in self.model.layers]) - RADIUS

    @property
    def anisotropic_layers(self) -> np.ndarray:
        """True for each layer (layers,) whose speeds depend on the direction."""
        return np.array([one.is_anisotropic for one in self.model.layers])

    def boundaries(self, x: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray | float]:
        yield from (np.inf, *self.tops[1:].tolist(), -np.inf)

    def layer_of(self, z: np.ndarray, *within: np.ndarray) -> np.ndarray:
        """Return the index of the layer at each z, m."""
        return self.model.layer_index(RADIUS + z, within)

    @property
    def concurrent(self) -> bool:
        return not self.sources

    @property
    def level(self) -> bool:
        return not self.sources

    def properties(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> EarthProperties:
        """Return the properties at points in m, of their broadcast shape.

        Raises
        ------
        InputError : the model has perturbations, and is not placed in a domain.
        """
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        columns = self._at_distinct(lambda here: [getattr(here, name) for name in COLUMNS], z, *within)
        here = EarthProperties(*(np.broadcast_to(column, shape) for column in columns))
        if len(self.perturbations) < len(self.sources):
            raise InputError(
                "material.earth.perturbations", "have no positions in the box without a domain",
                "expected the material of a simulation, whose domain has geographic coordinates",
            )  # fmt: skip
        for one in self.perturbations:
            here = one.applied(here, x, y, z)
        return here

    def _at_distinct(
        self, evaluate: Callable[[EarthProperties], Sequence[np.ndarray]], z: np.ndarray, *within: np.ndarray
    ) -> np.ndarray:
        """Return values (columns, ...) at points, computed once for each z that occurs: elements have few.

        If z is the same along the last two of four axes, the result is a view with one value there.

        evaluate : function of the properties at the distinct z. within : see `StackedLayers`.
        """
        shape = np.broadcast_shapes(z.shape, *(one.shape for one in within))
        if z.ndim == 4 and z.size and np.ptp(z, axis=(2, 3)).max() <= LEVEL:
            z = z[..., :1, :1]
        z = np.broadcast_to(z, np.broadcast_shapes(z.shape, *(one.shape for one in within)))
        codes = [np.broadcast_to(within[0] * self.count + within[1], z.shape)] if within else []
        groups = [(None, z.reshape(-1))]
        if within:
            flat, place = z.reshape(-1), codes[0].reshape(-1)
            groups = [(one, flat[place == one]) for one in np.unique(within[0] * self.count + within[1])]
        found = np.empty((0, 0))
        for code, own in groups:
            distinct, index = np.unique(own, return_inverse=True)
            ends: tuple[int, ...] = () if code is None else divmod(int(code), self.count)
            radius = RADIUS + distinct
            here = self.model.properties(radius, self.model.layer_index(radius, [np.asarray(end) for end in ends]))
            values = np.stack(evaluate(here))
            if not found.size:
                found = np.empty((len(values), z.size))
            found[:, slice(None) if code is None else place == code] = values[:, index]
        found = found.reshape(-1, *z.shape)
        return found if z.shape == shape else np.broadcast_to(found, (len(found), *shape))

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        return self.sample_all(x, y, z, *within)[0]

    def sample_all(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[Sample, InverseQuality]:
        here = self.properties(x, y, z, *within)
        sample = tuple(np.array(values) for values in (here.vp, here.vs, here.rho))
        return sample, (np.array(here.inverse_qkappa), np.array(here.inverse_qmu))  # type: ignore[return-value]

    def sample_changed(
        self, change: Callable[[np.ndarray, np.ndarray, np.ndarray, InverseQuality], Sample],
        x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray,
    ) -> Sample:  # fmt: skip
        if self.sources:
            return super().sample_changed(change, x, y, z, *within)

        def changed(here: EarthProperties) -> Sample:
            return change(here.vp, here.vs, here.rho, (here.inverse_qkappa, here.inverse_qmu))

        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        return tuple(np.broadcast_to(one, shape) for one in self._at_distinct(changed, z, *within))  # type: ignore[return-value]

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Love, np.ndarray]:
        """Return the moduli A, C, L, N and F, Pa, of a radial symmetry axis, and rho at points."""
        return self.love_changed(lambda here: here.love, x, y, z, *within)

    def love_changed(
        self, change: Callable[[EarthProperties], Love], x: np.ndarray, y: np.ndarray, z: np.ndarray,
        *within: np.ndarray,
    ) -> tuple[Love, np.ndarray]:  # fmt: skip
        """Return moduli A, C, L, N and F, Pa, that are a function of the properties, and rho at points."""
        if self.sources:
            here = self.properties(x, y, z, *within)
            return change(here), np.array(here.rho)
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        found = self._at_distinct(lambda here: [*change(here), here.rho], z, *within)
        a, c, l, n, f, rho = (np.broadcast_to(one, shape) for one in found)  # noqa: E741
        return (a, c, l, n, f), rho

    def strongest_anisotropy(self, box: DomainExtent) -> tuple[np.ndarray, float]:
        """Return the 21 moduli, Pa, with a vertical axis, and rho of the medium that is most anisotropic in a box."""
        here, _ = self._examined(box)
        solid = here.vsv > 0.0
        ratios = np.stack([here.vph / here.vpv, here.vsh / np.where(solid, here.vsv, 1.0), here.eta])
        index = int(np.abs(np.log(np.where(solid, ratios, 1.0))).sum(axis=0).argmax())
        a, c, l, n, f = (modulus[index] for modulus in here.love)  # noqa: E741
        return transverse_moduli((a, c, l, n, f), np.array([0.0, 0.0, 1.0])), float(here.rho[index])

    def attenuates(self, box: DomainExtent) -> bool:
        return self.model.attenuates

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> InverseQuality:
        return self.sample_all(x, y, z, *within)[1]

    def validate_domain(self, box: DomainExtent) -> None:
        self.model.require_depth(-box.z[0])
        if len(self.perturbations) < len(self.sources):
            self.placed(box)  # type: ignore[arg-type]  # raises the error for which it is not placed
        here, place = self._examined(box)
        problem = value_problem(here.vp, here.vs, here.rho, lambda index: place(index[0]))
        if problem is None:
            qkappa, qmu = here.qkappa, here.qmu
            problem = quality_problem(MODULI, qkappa, qmu, here.vp, here.vs, lambda index: place(index[0]))
        if problem:
            raise InputError("material.earth", *problem)

    def slowest_between(self, box: DomainExtent) -> Callable[[float, float], float]:
        """Return the function of two z, m, that returns the speed of the slowest wave between them, m/s.

        In a fluid it is that of P waves. Perturbations, at the examined positions in the box, change it by the smallest
        ratio of the perturbed to the radial speed.
        """

        def radial(low: float, high: float) -> float:
            return self.model.speed_range(RADIUS + low, RADIUS + high)[0]

        if not self.sources:
            return radial
        x, y, z, layer = self._positions(box)
        here, plain = self.properties(x, y, z, layer, layer), self.model.properties(RADIUS + z, layer)
        fluid = plain.vs == 0.0
        ratio = np.where(fluid, here.vp / plain.vp, here.vs / np.where(fluid, 1.0, plain.vs)).min(axis=(0, 1))

        def perturbed(low: float, high: float) -> float:
            inside = (z >= low) & (z <= high)
            inside[np.abs(z - 0.5 * (low + high)).argmin()] = True
            return radial(low, high) * float(ratio[inside].min())

        return perturbed

    def _positions(self, box: DomainExtent) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return x (nx, 1, 1), y (ny, 1) and z (nz,), m, that are examined in a box, and the layer at each z."""
        low, high = RADIUS + max(box.z[0], -RADIUS), RADIUS + box.z[1]
        found = [(index, one) for index, one in enumerate(self.model.layers) if one.bottom < high and one.top > low]
        present = found or [(self.count - 1, self.model.layers[-1])]
        radii = [one.probes(low, high) for _, one in present]
        z = np.concatenate(radii) - RADIUS
        layer = np.concatenate([np.full(r.size, index) for (index, _), r in zip(present, radii, strict=True)])
        columns = EXAMINED if self.perturbations else 1
        x, y = (np.linspace(*ends, columns) for ends in (box.x, box.y))
        return x[:, None, None], y[:, None], z, layer

    def _examined(self, box: DomainExtent) -> tuple[EarthProperties, Callable[[int], str]]:
        """Return the properties at radii of all layers in a box, and a text for the location of each value."""
        x, y, z, layer = self._positions(box)
        here = self.properties(x, y, z, layer, layer)
        shape = (x.size, y.size, z.size)

        def place(index: int) -> str:
            i, j, k = np.unravel_index(index, shape)
            text = f"depth {-z[k] / 1e3:.6g} km"
            return f"x = {x[i, 0, 0]:zg} m, y = {y[j, 0]:zg} m, {text}" if self.perturbations else text

        return EarthProperties(**{key: np.ravel(one) for key, one in vars(here).items() if key[0] != "_"}), place

    def lines(self, box: DomainExtent) -> list[tuple[str, str]]:
        """Return (name, text) of the lines that `check` prints: depths and values of each layer in a domain."""
        rows, ends = [], [*self.tops.tolist(), self.model.bottom - RADIUS]
        for index, layer in enumerate(self.model.layers):
            high, low = min(ends[index], box.z[1]), max(ends[index + 1], box.z[0])
            if high <= low:
                continue
            radii = layer.probes(RADIUS + low, RADIUS + high)
            here = self.model.properties(radii, index)
            texts = [
                f"{name} {values.min():.5g}" + (f" to {values.max():.5g}" if np.ptp(values) else "") + f" {unit}"
                for name, values, unit in zip(
                    ("vp", "vs", "rho"), (here.vp, here.vs, here.rho), ("m/s", "m/s", "kg/m^3"), strict=True
                )
            ]
            kind = " (transversely isotropic)" if layer.is_anisotropic else ""
            kind += ", without perturbations" if self.sources else ""
            rows.append((f"depth {-high / 1e3:z.6g} to {-low / 1e3:z.6g} km", ", ".join(texts) + kind))
        return rows

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        here, place = self._examined(box)
        if not here.anisotropic.any():
            return (here.vp, here.vs, here.rho), place
        slowest, fastest = phase_speed_range(here.love, here.rho)
        return (fastest, np.where(here.vs > 0.0, slowest, 0.0), here.rho), place

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        here, _ = self._examined(box)
        return here.inverse_qkappa, here.inverse_qmu

    def at_frequency(self, frequency: float) -> EarthMedium:
        """Return the medium with the phase velocities at a frequency, Hz."""
        return replace(self, model=self.model.at_frequency(frequency))


def _model(value: object, info: ValidationInfo) -> str | Path:
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
    def _short_form(cls, value: object) -> object:
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
