"""The box that is simulated, and its place on the Earth."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from .base import DescriptionModel, refusal
from .units import Interval, Latitude, Longitude, with_unit

if TYPE_CHECKING:
    from pyproj import Transformer

AXES = ("x", "y", "z")
FACES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")


class GeographicOrigin(DescriptionModel):
    """The point of the Earth (WGS84) at which x = y = 0."""

    longitude: Longitude = Field(description="Longitude of x = 0, degrees East.")
    latitude: Latitude = Field(description="Latitude of y = 0, degrees North.")

    @property
    def projection(self) -> str:
        """PROJ text of the local transverse Mercator: scale 1 on the central meridian, metres, WGS84."""
        return (
            f"+proj=tmerc +lat_0={self.latitude!r} +lon_0={self.longitude!r} +k=1 +x_0=0 +y_0=0 "
            "+datum=WGS84 +units=m +no_defs"
        )


class Domain(DescriptionModel):
    """The box of the simulation: x East, y North, z Up, in metres; the flat free surface is z = 0.

    Absorbing layers are added around the box, so that all of the box is free for sources and receivers.
    """

    x: Interval = Field(description="West and east end of the box, m.")
    y: Interval = Field(description="South and north end of the box, m.")
    z: Interval = Field(
        description="Lower and upper end of the box, m; z is positive upwards, the surface is z = 0."
    )
    crs: GeographicOrigin | None = Field(
        default=None,
        description="Origin of the local transverse Mercator; needed for geographic sources and receivers.",
    )

    @field_validator("x", "y", "z", mode="after")
    @classmethod
    def _ends_in_order(cls, value: tuple[float, float], info: Any) -> tuple[float, float]:
        low, high = value
        if low < high:
            return value
        hint = f"did you mean [{high:.12g}, {low:.12g}]?" if low > high else ""
        if info.field_name == "z" and low == 0 < high:
            hint = f"depth is negative z; did you mean [{-high:.12g}, 0]?"
        raise refusal(
            f"the upper end {with_unit(high, 'length')} is not above the lower end "
            f"{with_unit(low, 'length')}",
            "expected [minimum, maximum]",
            hint,
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The two ends of each axis, m."""
        return {"x": self.x, "y": self.y, "z": self.z}

    @property
    def centre(self) -> tuple[float, float, float]:
        """The middle of the box, m."""
        return tuple(0.5 * (low + high) for low, high in self.bounds.values())  # type: ignore[return-value]

    @property
    def projection(self) -> str:
        """PROJ text of the coordinates; empty for a box without a place on the Earth."""
        return "" if self.crs is None else self.crs.projection

    def to_local(self, longitude: Any, latitude: Any) -> tuple[Any, Any]:
        """(x, y) in m of points given by longitude and latitude in degrees (floats or arrays).

        Raises
        ------
        PydanticCustomError
            (a ``ValueError``) without ``domain.crs``, and for points that the projection cannot reach.
        """
        x, y = self._transformer().transform(longitude, latitude)
        if not all(math.isfinite(value) for value in _flat(x) + _flat(y)):
            raise refusal("the point is too far from the origin domain.crs to be projected")
        return x, y

    def to_geographic(self, x: Any, y: Any) -> tuple[Any, Any]:
        """(longitude, latitude) in degrees of points given by x and y in m (floats or arrays)."""
        return self._transformer().transform(x, y, direction="INVERSE")

    def _transformer(self) -> Transformer:
        if self.crs is None:
            raise refusal(
                "longitude and latitude need the origin domain.crs, which is not given",
                "expected in domain: crs: {longitude: ..., latitude: ...}",
            )
        return _transformer(self.crs.projection)


@functools.lru_cache(maxsize=8)
def _transformer(projection: str) -> Transformer:
    from pyproj import Transformer

    return Transformer.from_crs("EPSG:4326", projection, always_xy=True)


def _flat(values: Any) -> list[float]:
    return list(values) if hasattr(values, "__len__") else [values]
