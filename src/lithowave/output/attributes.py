"""Attributes of all written files: axes, coordinate system, time origin, software, units; and the point sources of a
run, as stored in its seismogram file for figures and waveform headers (`SourceTable`).

One vocabulary for all HDF5 and VTKHDF files:

``software``, ``software_version``   what wrote the file
``title``                            title of the simulation
``axes``                             ``x East, y North, z Up`` and the place of the free surface
``components``                       ``E,N,Z``: the order along every axis of length 3
``component_axes``                   text: what E and N are; in a projection, grid axes or true East and North
``tensor_components``                ``xx,yy,zz,xy,xz,yz``: the order along every axis of length 6
``crs``                              PROJ text of the local coordinates, or that they are plain meters
``crs_longitude``, ``crs_latitude``  degrees (WGS 84) of x = y = 0; only with a geographic origin
``chunk_azimuth``                    degrees; only in a chunk of the globe (see `lithowave.globe_coordinates`)
``chunk_ellipticity``                1; only in a chunk whose surfaces of equal depth are ellipsoids
``time_origin``                      text: what t = 0 is
``origin_delay``                     s: the origin time of the event on the time axis of the file
``complete``                         of seismograms: 1 if the run is complete; 0 if it is running, was stopped or failed
``time_dispersion_corrected_to``     of seismograms, Hz: frequency up to which the error of the time steps is removed;
                                     not present if it is not removed
``origin_time``, ``start_time``      UTC (ISO 8601) of the origin time and of t = 0; only if the event has a date

Files without ``origin_delay`` come from versions of lithowave in which ``origin_time`` was the UTC time of t = 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.earth.reference_models import earth_ellipticity
from lithowave.globe_coordinates import ChunkMap
from lithowave.labels import shifted_time
from lithowave.physics import moment_magnitude, scalar_moment
from lithowave.projection import convergence_at, projection_text, transformer, turned
from lithowave.version import __version__

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from lithowave.description.simulation import Simulation
    from lithowave.description.sources import PointSource
    from lithowave.json_types import Entries, ReadEntries

COMPONENTS = "E,N,Z"
TENSOR_COMPONENTS = "xx,yy,zz,xy,xz,yz"
AXES = "x East, y North, z Up (right-handed); free surface at z = 0"
CHUNK_COORDINATES = (
    "angles of an equiangular cubed sphere times 6371000 m around crs_longitude, crs_latitude, with y at "
    "chunk_azimuth; z is the radius minus 6371000 m; components are East, North and Up at each place"
)
GRID_COMPONENTS = "along x, y, z"
PROJECTED_COMPONENTS = f"{GRID_COMPONENTS} of the grid of crs; y is the meridian convergence clockwise from true North"
RECEIVER_COMPONENTS = (
    "along true East and North at receivers with receivers/geographic 1, else along x, y of the grid of crs; y is "
    "receivers/convergence degrees clockwise from true North"
)
CHUNK_COMPONENTS = "along true East, North and Up at each place"
PLAIN_COORDINATES = "local Cartesian, metres, without a geographic origin"
MISSING_DATES = ("", None)

UNITS = {
    "displacement": "m",
    "velocity": "m/s",
    "acceleration": "m/s^2",
    "stress": "Pa",
    "pressure": "Pa",
    "strain": "1",
    "divergence": "1/s",
    "curl": "1/s",
}


def standard_attributes(
    title: str = "",
    geographic_origin: tuple[float, ...] | None = None,
    origin_time: str | None = None,
    origin_delay: float = 0.0,
) -> Entries:
    """Return the attributes common to all files of a run.

    Parameters
    ----------
    title : title of the simulation.
    geographic_origin : (longitude, latitude) in degrees of x = y = 0; of a chunk also its azimuth and, if it has
        ellipticity, 1; or None.
    origin_time : ISO 8601 UTC origin time of the event, or None if it has no date.
    origin_delay : the origin time on the time axis, s.
    """
    attributes: Entries = {
        "software": "lithowave",
        "software_version": __version__,
        "title": title or "",
        "axes": AXES,
        "components": COMPONENTS,
        "component_axes": GRID_COMPONENTS,
        "tensor_components": TENSOR_COMPONENTS,
        "crs": PLAIN_COORDINATES,
        "origin_delay": float(origin_delay),
        "time_origin": _time_origin(None if origin_time in MISSING_DATES else str(origin_time), origin_delay),
    }
    if geographic_origin is not None:
        longitude, latitude, *chunk = (float(value) for value in geographic_origin)
        attributes["crs"] = CHUNK_COORDINATES if chunk else projection_text(longitude, latitude)
        attributes["component_axes"] = CHUNK_COMPONENTS if chunk else PROJECTED_COMPONENTS
        attributes["crs_longitude"], attributes["crs_latitude"] = longitude, latitude
        attributes |= dict(zip(("chunk_azimuth", "chunk_ellipticity"), chunk, strict=False))
    if origin_time not in MISSING_DATES:
        attributes["origin_time"] = str(origin_time)
        attributes["start_time"] = shifted_time(str(origin_time), -origin_delay)
    return attributes


def _time_origin(origin_time: str | None, delay: float) -> str:
    """Return the meaning of t = 0 as text."""
    relation = f"{delay:.12g} s before the origin time" if delay else "the origin time"
    if origin_time is None:
        return f"t = 0 s is {relation}; its date is not known"
    return f"t = 0 s is {shifted_time(origin_time, -delay).rstrip('Z')} UTC, {relation}"


def attributes_of(simulation: Simulation) -> Entries:
    """Return the standard attributes of the files of a `Simulation`."""
    place, times = simulation.domain.geographic_origin, (simulation.origin_time, simulation.origin_delay)
    return standard_attributes(simulation.title or "", place, *times)


def receiver_axes(attributes: ReadEntries) -> dict[str, str]:
    """Return the attributes of seismograms about the axes of components, which differ by receiver in a projection."""
    projected = attributes.get("component_axes") == PROJECTED_COMPONENTS
    return {"component_axes": RECEIVER_COMPONENTS} if projected else {}


def completed(attributes: ReadEntries | None) -> Entries:
    """Return `attributes` with default values for missing standard attributes, and without entries that are None."""
    given = {name: value for name, value in (attributes or {}).items() if value is not None}
    origin = None
    if "crs_longitude" in given and "crs_latitude" in given:
        origin = geographic_origin(given)
    times = given.get("origin_time"), given.get("origin_delay", 0.0)
    standard = standard_attributes(given.get("title", ""), origin, *times)
    return {**standard, **given}


def write_attributes(target: h5py.Group | h5py.Dataset, attributes: ReadEntries) -> None:
    """Store `attributes` on an HDF5 object: numbers and text as scalars, sequences as arrays."""
    for name, value in attributes.items():
        if value is not None:
            target.attrs[name] = value


def read_attributes(source: h5py.Group | h5py.Dataset) -> Entries:
    """Return the attributes of an HDF5 object as plain Python values and arrays."""
    values = {}
    for name, value in source.attrs.items():
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif getattr(value, "ndim", None) == 0:
            value = value.item()
        values[name] = value
    return values


def geographic_origin(attributes: ReadEntries) -> tuple[float, ...] | None:
    """Return (longitude, latitude) of x = y = 0 from the attributes of a file, and of a chunk its azimuth; or None."""
    if "crs_longitude" not in attributes or "crs_latitude" not in attributes:
        return None
    keys = ("crs_longitude", "crs_latitude", "chunk_azimuth", "chunk_ellipticity")
    return tuple(float(attributes[key]) for key in keys if key in attributes)


def chunk_map(origin: tuple[float, ...] | None) -> ChunkMap | None:
    """Return the map of a chunk of the globe from its `geographic_origin`; None for a box."""
    if origin is None or len(origin) < 3:
        return None
    longitude, latitude, azimuth = origin[:3]
    return ChunkMap(longitude, latitude, azimuth, earth_ellipticity() if len(origin) > 3 else None)


def to_geographic(x: npt.ArrayLike, y: npt.ArrayLike, origin: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return longitude and latitude (degrees, WGS 84) of local x, y (m); `origin` is that of `geographic_origin`."""
    chunk = chunk_map(origin)
    if chunk is not None:
        return chunk.to_geographic(x, y)
    return transformer(projection_text(*origin)).transform(x, y, direction="INVERSE")


def is_projected(origin: tuple[float, ...] | None) -> bool:
    """True if local coordinates are those of a map projection, not of a chunk and not plain ones."""
    return origin is not None and len(origin) == 2


def convergence(x: npt.ArrayLike, y: npt.ArrayLike, origin: tuple[float, ...] | None) -> np.ndarray:
    """Return the azimuth of the axis y at local x, y (m), degrees clockwise from true North.

    Zero in a chunk, of which components are along true East and North, and without an `origin`.
    """
    if origin is None or not is_projected(origin):
        return np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)))
    return convergence_at(projection_text(*origin), x, y)


def sea_floor_attributes(names: list[str]) -> dict[str, str]:
    """Return the attributes of seismograms about receivers with these names between a fluid and a solid."""
    sides = "motion, strain and stress on the side of the solid; pressure on the side of the fluid"
    return {"sea_floor_receivers": ", ".join(names), "sea_floor_sides": sides} if names else {}


@dataclass(frozen=True)
class SourceTable:
    """Positions and strengths of n point sources.

    names : n texts.
    positions : (n, 3), m.
    moments : (n, 6), N m, order xx, yy, zz, xy, xz, yz; zeros for a force.
    forces : (n, 3), N, order x, y, z; zeros for a moment tensor.
    onsets : (n,) s, times at which the sources begin to act.
    geographic : (n,) True if moments and forces are along true East and North, False along x and y; default: True.
    convergence : (n,) azimuth of y at the sources, degrees clockwise from true North; default: 0.
    """

    names: list[str]
    positions: np.ndarray
    moments: np.ndarray
    forces: np.ndarray
    onsets: np.ndarray
    geographic: np.ndarray = field(default_factory=lambda: np.ones(0, bool))
    convergence: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name, value in (("geographic", True), ("convergence", 0.0)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.names), value))

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def from_points(cls, points: Iterable[PointSource]) -> SourceTable:
        """Make a table from objects with `name`, `position`, and `moment` (6) or `force` (3); the other one is None.

        They are along x, y, z; those with `geographic` are turned to true East and North by their `convergence`.
        """
        points = list(points)

        def rows(field: str, width: int) -> np.ndarray:
            values = [getattr(point, field, None) for point in points]
            filled = [np.zeros(width) if value is None else value for value in values]
            return np.array(filled, dtype=float).reshape(len(points), width)

        names = [str(getattr(point, "name", "") or "") for point in points]
        functions = [getattr(point, "time_function", None) for point in points]
        onsets = [0.0 if function is None else max(0.0, float(function.support()[0])) for function in functions]
        geographic = np.array([getattr(point, "geographic", True) for point in points], bool)
        angles = np.array([getattr(point, "convergence", 0.0) for point in points], float)
        strengths = rows("moment", 6), rows("force", 3)
        on_grid = cls(names, rows("position", 3), *strengths, np.array(onsets), convergence=angles)
        return on_grid.turned(np.where(geographic, -angles, 0.0), geographic)

    def turned(self, angles: np.ndarray, geographic: np.ndarray) -> SourceTable:
        """Return sources turned counterclockwise about the vertical axis by angles (n,), degrees, to other axes."""
        moments, forces = turned(self.moments, angles), turned(self.forces, angles)
        return replace(self, moments=moments, forces=forces, geographic=geographic)

    def along_grid(self) -> SourceTable:
        """Return the sources with moments and forces along the axes x and y of the grid."""
        angles = np.where(self.geographic, self.convergence, 0.0)
        return self.turned(angles, np.zeros(len(self), bool)) if angles.any() else self

    def along_true_north(self) -> SourceTable:
        """Return the sources with moments and forces along true East and North; unchanged without a projection."""
        return self.turned(np.where(self.geographic, 0.0, -self.convergence), np.ones(len(self), bool))

    @property
    def onset(self) -> float:
        """Time at which the first source begins to act, s; 0 without sources."""
        return float(self.onsets.min()) if len(self) else 0.0

    @property
    def scalar_moments(self) -> np.ndarray:
        """(n,) M0, N m."""
        return scalar_moment(self.moments)

    @property
    def moment(self) -> np.ndarray:
        """(6,) sum of all moment tensors, N m."""
        return self.moments.sum(axis=0)

    @property
    def moment_magnitude(self) -> float | None:
        """Moment magnitude Mw of the sum; None without moment."""
        scalar = float(scalar_moment(self.moment))
        return moment_magnitude(scalar) if scalar > 0 else None

    @property
    def centroid(self) -> np.ndarray | None:
        """(3,) mean position weighted by strength (moments if there are any, else forces), m."""
        if not len(self):
            return None
        strengths = self.scalar_moments
        if not strengths.any():
            strengths = np.linalg.norm(self.forces, axis=1)
        if not strengths.any():
            strengths = np.ones(len(self))
        return strengths @ self.positions / strengths.sum()
