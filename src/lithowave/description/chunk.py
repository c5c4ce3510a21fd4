"""A piece of the globe: a chunk of the cubed sphere instead of a box."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Latitude, Longitude, NumberList, PositiveLength, Quantity, with_unit
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
        return ChunkMap(*self.center, self.azimuth)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper end of each axis of the local coordinates, m."""
        x, y = (0.5 * RADIUS * math.radians(width) for width in self.width)
        return {"x": (-x, x), "y": (-y, y), "z": (-self.depth, 0.0)}

    def text(self) -> str:
        """Return center, widths, depth and azimuth for messages and reports."""
        first, second = self.width
        turned = f", azimuth {self.azimuth:z.6g}°" if self.azimuth else ""
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
