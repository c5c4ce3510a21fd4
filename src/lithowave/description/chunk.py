"""A piece of the globe: a chunk of the cubed sphere instead of a box."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, StrictBool, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Count, Latitude, Longitude, NumberList, PositiveLength, Quantity, with_unit
from lithowave.earth.ellipticity import earth_ellipticity
from lithowave.sphere import RADIUS, ChunkMap

Angle = Annotated[float, Quantity("angle")]
Width = Annotated[float, Quantity("angle", gt=0, le=90)]
Center = Annotated[tuple[Longitude, Latitude], NumberList(("longitude", "latitude"))]
Widths = Annotated[tuple[Width, Width], NumberList(("east-west", "north-south"))]


class Chunk(DescriptionModel):
    """A piece of the globe below a quadrilateral of great circles on the surface, with spectral elements.

    Positions are given by longitude, latitude and depth, and components are East, North and Up at the place of a source
    or receiver. The Earth is a sphere with a radius of 6371 km; geographic latitudes are converted to geocentric ones.
    Local coordinates x and y, m, are the angles of the cubed sphere times this radius, and z is the radius minus 6371
    km, so that the chunk is a box in local coordinates.
    """

    center: Center = Field(description="[longitude, latitude] of the center, degrees.")
    width: Widths = Field(
        description="Angles between opposite sides along the great circles through the center, degrees: across and "
        "along the azimuth, at most 90."
    )
    depth: PositiveLength = Field(description="Depth of the bottom, m, less than the radius of the Earth.")
    azimuth: Angle = Field(
        default=0.0, description="Direction of the side of largest y, seen from the center, degrees from North to East."
    )
    ellipticity: StrictBool = Field(
        default=False,
        description="true: surfaces of equal depth are ellipsoids in hydrostatic equilibrium (1/300 at the surface), "
        "and Up is normal to the surface; false: they are spheres.",
    )
    elements: Annotated[tuple[Count, Count], NumberList(("x", "y"))] | None = Field(
        default=None,
        description="Numbers of elements along x and y at the surface, without those that solver.refine_sources adds. "
        "Default: from solver.max_frequency and solver.points_per_wavelength, like their heights.",
    )
    doublings: list[PositiveLength] | None = Field(
        default=None,
        description="With elements: depths, m, below which elements are twice as wide, in ascending order.",
    )

    @model_validator(mode="after")
    def _doublings_ascend(self) -> Self:
        depths = self.doublings or []
        if depths and self.elements is None:
            raise refusal("is given without elements", "the number at the surface is required", at=("doublings",))
        if depths != sorted(set(depths)) or any(depth >= self.depth for depth in depths):
            got = f"[{', '.join(with_unit(depth, 'length') for depth in depths)}]"
            raise refusal(got, "expected ascending depths above the bottom of the chunk", at=("doublings",))
        for axis, count in zip("xy", self.elements or (), strict=False):
            unit = 2 ** (len(depths) + 1) if depths else 1
            if count % unit:
                raise refusal(
                    f"{count} elements along {axis} cannot be halved {len(depths)} times",
                    f"expected a multiple of {unit}", at=("elements",),
                )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _ends_above_the_center(self) -> Self:
        if self.depth > 0.99 * RADIUS:
            raise refusal(
                f"{with_unit(self.depth, 'length')} is at or near the center of the Earth, where all columns meet",
                f"expected less than {0.99 * RADIUS / 1e3:g} km", "the outer core begins at a depth of 2891 km",
                at=("depth",),
            )  # fmt: skip
        return self

    @functools.cached_property
    def map(self) -> ChunkMap:
        """The map from local coordinates to those of the Earth."""
        return ChunkMap(*self.center, self.azimuth, earth_ellipticity() if self.ellipticity else None)

    @property
    def doubling_levels(self) -> list[float]:
        """z, m, below which elements are twice as wide; empty if they follow from the velocities."""
        return [-depth for depth in self.doublings or ()]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper end of each axis of the local coordinates, m."""
        x, y = (0.5 * RADIUS * math.radians(width) for width in self.width)
        return {"x": (-x, x), "y": (-y, y), "z": (-self.depth, 0.0)}

    def text(self) -> str:
        """Return center, widths, depth and azimuth for messages and reports."""
        first, second = self.width
        turned = f", azimuth {self.azimuth:z.6g}°" if self.azimuth else ""
        turned += ", with ellipticity" if self.ellipticity else ""
        return (
            f"chunk of the globe, center at {place_text(*self.center)}, width {first:g}° x {second:g}°, depth "
            f"{self.depth / 1e3:.6g} km{turned}"
        )

    def extent_text(self) -> str:
        """Return where the sides are, for messages."""
        first, second = (0.5 * width for width in self.width)
        return (
            f"its sides are {first:g}° and {second:g}° from the center, at {place_text(*self.center)}, across and "
            f"along the azimuth of {self.azimuth:z.6g}°"
        )

    def position_text(self, position: Sequence[float]) -> str:
        """Return a position in local coordinates, m, as longitude, latitude and depth."""
        longitude, latitude = self.map.to_geographic(position[0], position[1])
        return f"{place_text(float(longitude), float(latitude))}, depth {0.0 - position[2] / 1e3:z.6g} km"


def place_text(longitude: float, latitude: float) -> str:
    """Return ``longitude 20.5, latitude -35``, degrees."""
    return f"longitude {longitude:z.7g}, latitude {latitude:z.7g}"
