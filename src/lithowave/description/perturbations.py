"""Three-dimensional perturbations of a radial model of the Earth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.gridded_medium import trilinear_cells, trilinear_values
from lithowave.description.refusals import refusal
from lithowave.description.units import Number
from lithowave.earth.radial_model import EarthProperties
from lithowave.errors import InputError
from lithowave.readers.perturbation_model import PerturbationModel, read_perturbation_model

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
    to_geographic: Callable[[Any, Any], tuple[Any, Any]]

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
                where,
                f"{source.file} has longitudes and latitudes, and the domain has none",
                "expected a domain with geographic coordinates",
                "give domain.crs: {longitude: ..., latitude: ...}",
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

    def _cells(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[list[Any], np.ndarray]:
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
