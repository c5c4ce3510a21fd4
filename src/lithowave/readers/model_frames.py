"""Horizontal coordinates of gridded models: local, longitude and latitude, or a rotated map projection."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from pyproj import Transformer


@dataclass(frozen=True)
class Frame:
    """The coordinates of the first two axes of a model; the third axis is z, m, positive upwards.

    Attributes
    ----------
    kind : ``local``: x East and y North of the domain, m. ``geographic``: longitude and latitude, degrees (WGS84).
        ``projected``: distances in m from `origin` on the map of `projection`, the first axis in the direction
        `azimuth`, the second one 90 degrees clockwise from it.
    projection : PROJ text. origin : longitude and latitude, degrees. azimuth : degrees clockwise from North.
    """

    kind: Literal["local", "geographic", "projected"] = "local"
    projection: str = ""
    origin: tuple[float, float] = (0.0, 0.0)
    azimuth: float = 0.0

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of the three axes."""
        return ("longitude", "latitude", "z") if self.kind == "geographic" else ("x", "y", "z")

    @property
    def units(self) -> tuple[str, str, str]:
        """Units of the three axes."""
        return ("degrees", "degrees", "m") if self.kind == "geographic" else ("m", "m", "m")

    def from_geographic(self, longitude: Any, latitude: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of points given by longitude and latitude, degrees."""
        if self.kind == "geographic":
            return np.asarray(longitude), np.asarray(latitude)
        east, north = _transformer(self.projection).transform(longitude, latitude)
        east_0, north_0 = _transformer(self.projection).transform(*self.origin)
        sine, cosine = _direction(self.azimuth)
        east, north = np.asarray(east) - east_0, np.asarray(north) - north_0
        return sine * east + cosine * north, cosine * east - sine * north

    def to_geographic(self, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return longitude and latitude, degrees, of points given by the coordinates of this frame."""
        if self.kind == "geographic":
            return np.asarray(first), np.asarray(second)
        east_0, north_0 = _transformer(self.projection).transform(*self.origin)
        sine, cosine = _direction(self.azimuth)
        east, north = sine * first + cosine * second + east_0, cosine * first - sine * second + north_0
        longitude, latitude = _transformer(self.projection).transform(east, north, direction="INVERSE")
        return np.asarray(longitude), np.asarray(latitude)


LOCAL = Frame()
GEOGRAPHIC = Frame("geographic")


def transverse_mercator(longitude: float, latitude: float) -> str:
    """Return the PROJ text of the transverse Mercator projection around a point (degrees), in m on WGS84."""
    return f"+proj=tmerc +lat_0={latitude!r} +lon_0={longitude!r} +k=1 +ellps=WGS84 +units=m +no_defs"


def projection_problem(projection: str, origin: tuple[float, float]) -> str:
    """Return why a PROJ text cannot be used around a point (longitude, latitude in degrees); empty if it can."""
    from pyproj.exceptions import ProjError

    try:
        place = _transformer(projection).transform(*origin)
    except ProjError as error:
        return str(error)
    return "" if np.isfinite(place).all() else "the origin cannot be projected"


def _direction(azimuth: float) -> tuple[float, float]:
    return float(np.sin(np.radians(azimuth))), float(np.cos(np.radians(azimuth)))


@functools.lru_cache(maxsize=8)
def _transformer(projection: str) -> Transformer:
    from pyproj import CRS, Transformer

    target = CRS.from_user_input(projection)
    return Transformer.from_crs("EPSG:4326", target, always_xy=True)
