r"""The coordinates of a piece of the globe: a chunk of the cubed sphere.

A box of local coordinates (x, y, z), m, is mapped to Cartesian coordinates with their origin at the center of the
Earth. With the radius R of the surface, angles xi = x / R and eta = y / R, and r = R + z, a point is

.. math:: r\, \frac{\tan\xi\, e_1 + \tan\eta\, e_2 + e_3}{\sqrt{1 + \tan^2\xi + \tan^2\eta}},

where e_3 points to the center of the chunk, and e_2 to its side of largest y, at an azimuth from north (equiangular
gnomonic projection: Ronchi et al. 1996, J. Comput. Phys. 124, 93-114). Lines x = constant and y = constant are great
circles; along the middle lines, x and y are lengths on the surface.

Latitudes of the simulation file are geographic (WGS84); the sphere has geocentric latitudes,
tan(geocentric) = (1 - f)^2 tan(geographic). With ellipticity epsilon(r), the radius at a geocentric latitude phi is
r (1 - 2/3 epsilon(r) P_2(sin phi)), and Up is normal to the ellipsoid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

RADIUS = 6_371_000.0  # m, of the Earth
FLATTENING = 1.0 / 298.257223563  # of WGS84
ITERATIONS = 6  # for the radius of a point; each one reduces the error by more than a factor 100


def geocentric_latitude(latitude: ArrayLike) -> np.ndarray:
    """Return the geocentric latitude of geographic latitudes, both in degrees."""
    radians = np.radians(latitude)
    # With the sine and cosine, the poles need no special treatment.
    return np.degrees(np.arctan2((1.0 - FLATTENING) ** 2 * np.sin(radians), np.cos(radians)))


def geographic_latitude(latitude: ArrayLike) -> np.ndarray:
    """Return the geographic latitude of geocentric latitudes, both in degrees."""
    radians = np.radians(latitude)
    return np.degrees(np.arctan2(np.sin(radians), (1.0 - FLATTENING) ** 2 * np.cos(radians)))


def directions(longitude: ArrayLike, latitude: ArrayLike) -> np.ndarray:
    """Return unit vectors (..., 3) from the center of the Earth to longitudes and geographic latitudes, degrees."""
    lam, phi = np.radians(longitude), np.radians(geocentric_latitude(latitude))
    return np.stack(np.broadcast_arrays(np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)), axis=-1)


def angular_distance(longitude: ArrayLike, latitude: ArrayLike, origin: tuple[float, float]) -> np.ndarray:
    """Return the angle, degrees, between places and an origin (longitude, geographic latitude) at the center of the
    Earth."""
    here, there = directions(longitude, latitude), directions(*origin)
    return np.degrees(np.arctan2(np.linalg.norm(np.cross(here, there), axis=-1), here @ there))


def azimuths(longitude: ArrayLike, latitude: ArrayLike, origin: tuple[float, float]) -> np.ndarray:
    """Return the azimuth, degrees clockwise from north, 0 to 360, of great circles from an origin to places.

    Places and the origin are (longitude, geographic latitude), degrees. The azimuth at a pole is that of its longitude.
    """
    here = directions(longitude, latitude)
    east, north, _ = axes_at(directions(*origin), np.radians(origin[0]))
    return np.degrees(np.arctan2(here @ east, here @ north)) % 360.0


def propagation_azimuths(longitude: ArrayLike, latitude: ArrayLike, origin: tuple[float, float]) -> np.ndarray:
    """Return the azimuth, degrees, 0 to 360, in which great circles from an origin pass through places.

    It is the back azimuth plus 180 degrees: the radial direction of seismograms.
    """
    here = directions(longitude, latitude)
    axes = axes_at(here, np.radians(longitude))
    east, north = (-(axes[..., row, :] @ directions(*origin)) for row in range(2))
    return np.degrees(np.arctan2(east, north)) % 360.0


def axes_at(up: np.ndarray, longitude: ArrayLike) -> np.ndarray:
    """Return East, North and Up as rows (..., 3, 3) at unit vectors `up` (..., 3). longitude : radians."""
    longitude = np.broadcast_to(longitude, up.shape[:-1])
    east = np.stack([-np.sin(longitude), np.cos(longitude), np.zeros_like(longitude)], axis=-1)
    return np.stack([east, np.cross(up, east), up], axis=-2)


@dataclass(frozen=True)
class ChunkMap:
    """Map of the local coordinates of a chunk, m, to Cartesian coordinates of the Earth, m, and back.

    longitude, latitude : geographic coordinates of the center, degrees. azimuth : direction of the local axis y there,
    degrees clockwise from north. ellipticity : radii, m, ascending, and the ellipticity there; None for a sphere.
    """

    longitude: float
    latitude: float
    azimuth: float = 0.0
    ellipticity: tuple[np.ndarray, np.ndarray] | None = field(default=None, compare=False)

    @cached_property
    def frame(self) -> np.ndarray:
        """The unit vectors e_1, e_2 and e_3 as rows, (3, 3)."""
        east, north, up = axes_at(directions(self.longitude, self.latitude), np.radians(self.longitude))
        sine, cosine = np.sin(np.radians(self.azimuth)), np.cos(np.radians(self.azimuth))
        return np.array([cosine * east - sine * north, sine * east + cosine * north, up])

    def directions(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return unit vectors (..., 3) from the center of the Earth to points."""
        a, b = np.broadcast_arrays(np.tan(np.asarray(x) / RADIUS), np.tan(np.asarray(y) / RADIUS))
        length = np.sqrt(1.0 + a * a + b * b)
        return np.stack([a / length, b / length, 1.0 / length], axis=-1) @ self.frame

    def to_cartesian(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> np.ndarray:
        """Return Cartesian positions (..., 3), m, of points."""
        up, radius = self.directions(x, y), RADIUS + np.asarray(z)
        if self.ellipticity is not None:
            radius = radius * self._flattening(radius, up[..., 2])
        return radius[..., None] * up

    def _flattening(self, radius: np.ndarray, sine: np.ndarray) -> np.ndarray:
        """Return the factor of radii at the sine of the geocentric latitude."""
        assert self.ellipticity is not None
        radii, values = self.ellipticity
        return 1.0 - np.interp(radius, radii, values) * (sine * sine - 1.0 / 3.0)

    def from_cartesian(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return x, y, z, m, of Cartesian positions (..., 3), m; NaN for x and y beyond the horizon of the center."""
        first, second, third = np.moveaxis(np.asarray(positions) @ self.frame.T, -1, 0)
        radius = np.sqrt(first * first + second * second + third * third)
        if self.ellipticity is not None:
            flat, sine = radius, np.asarray(positions)[..., 2] / radius
            for _ in range(ITERATIONS):
                radius = flat / self._flattening(radius, sine)
        x, y = (np.where(third > 0.0, RADIUS * np.arctan2(side, third), np.nan) for side in (first, second))
        return x, y, radius - RADIUS

    def to_geographic(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return longitude and geographic latitude, degrees, of points."""
        east, north, up = np.moveaxis(self.directions(x, y), -1, 0)
        latitude = np.degrees(np.arctan2(up, np.hypot(east, north)))
        return np.degrees(np.arctan2(north, east)), geographic_latitude(latitude)

    def to_local(self, longitude: ArrayLike, latitude: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y, m, of longitudes and geographic latitudes, degrees; NaN beyond the horizon of the center."""
        x, y, _ = self.from_cartesian(directions(longitude, latitude))
        return x, y

    def at_pole(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """True for points within a centimeter of a pole, where East and North are not defined."""
        up = self.directions(x, y)
        return RADIUS * np.hypot(up[..., 0], up[..., 1]) < 0.01

    def axes(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return the Cartesian components of East, North and Up at points as rows, (..., 3, 3)."""
        up = self.directions(x, y)
        longitude = np.arctan2(up[..., 1], up[..., 0])
        if self.ellipticity is not None:
            latitude = np.radians(geographic_latitude(np.degrees(np.arcsin(up[..., 2]))))
            level = np.cos(latitude)
            up = np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=-1)
        return axes_at(up, longitude)
