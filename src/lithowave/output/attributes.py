"""Attributes of all written files: axes, coordinate system, time origin, software, units.

One vocabulary for all HDF5 and VTKHDF files:

``software``, ``software_version``   what wrote the file
``title``                            title of the simulation
``axes``                             ``x East, y North, z Up`` and the place of the free surface
``components``                       ``E,N,Z``: the order along every axis of length 3
``component_axes``                   text: what E and N are; in a projection, grid axes or true East and North
``tensor_components``                ``xx,yy,zz,xy,xz,yz``: the order along every axis of length 6
``crs``                              PROJ text of the local coordinates, or that they are plain meters
``crs_longitude``, ``crs_latitude``  degrees (WGS 84) of x = y = 0; only with a geographic origin
``chunk_azimuth``                    degrees; only in a chunk of the globe (see `lithowave.sphere`)
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

from collections.abc import Mapping
from typing import Any

import numpy as np

from lithowave.earth.ellipticity import earth_ellipticity
from lithowave.projection import convergence_at, projection_text, transformer
from lithowave.sphere import ChunkMap
from lithowave.utc import shifted_time
from lithowave.version import __version__

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
) -> dict[str, Any]:
    """Return the attributes common to all files of a run.

    Parameters
    ----------
    title : title of the simulation.
    geographic_origin : (longitude, latitude) in degrees of x = y = 0; of a chunk also its azimuth and, if it has
        ellipticity, 1; or None.
    origin_time : ISO 8601 UTC origin time of the event, or None if it has no date.
    origin_delay : the origin time on the time axis, s.
    """
    attributes: dict[str, Any] = {
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


def attributes_of(simulation: Any) -> dict[str, Any]:
    """Return the standard attributes of the files of a `Simulation`."""
    place, times = simulation.domain.geographic_origin, (simulation.origin_time, simulation.origin_delay)
    return standard_attributes(simulation.title or "", place, *times)


def receiver_axes(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of seismograms about the axes of components, which differ by receiver in a projection."""
    projected = attributes.get("component_axes") == PROJECTED_COMPONENTS
    return {"component_axes": RECEIVER_COMPONENTS} if projected else {}


def completed(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return `attributes` with default values for missing standard attributes, and without entries that are None."""
    given = {name: value for name, value in (attributes or {}).items() if value is not None}
    origin = None
    if "crs_longitude" in given and "crs_latitude" in given:
        origin = geographic_origin(given)
    times = given.get("origin_time"), given.get("origin_delay", 0.0)
    standard = standard_attributes(given.get("title", ""), origin, *times)
    return {**standard, **given}


def write_attributes(target: Any, attributes: Mapping[str, Any]) -> None:
    """Store `attributes` on an HDF5 object: numbers and text as scalars, sequences as arrays."""
    for name, value in attributes.items():
        if value is not None:
            target.attrs[name] = value


def read_attributes(source: Any) -> dict[str, Any]:
    """Return the attributes of an HDF5 object as plain Python values and arrays."""
    values = {}
    for name, value in source.attrs.items():
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif getattr(value, "ndim", None) == 0:
            value = value.item()
        values[name] = value
    return values


def geographic_origin(attributes: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return (longitude, latitude) of x = y = 0 from the attributes of a file, and of a chunk its azimuth; or None."""
    if "crs_longitude" not in attributes or "crs_latitude" not in attributes:
        return None
    keys = ("crs_longitude", "crs_latitude", "chunk_azimuth", "chunk_ellipticity")
    return tuple(float(attributes[key]) for key in keys if key in attributes)


def chunk_map(origin: tuple[float, ...] | None) -> ChunkMap | None:
    """Return the map of a chunk of the globe from its `geographic_origin`; None for a box."""
    if origin is None or len(origin) < 3:
        return None
    return ChunkMap(*origin[:3], earth_ellipticity() if len(origin) > 3 else None)


def to_geographic(x: Any, y: Any, origin: tuple[float, ...]) -> tuple[Any, Any]:
    """Return longitude and latitude (degrees, WGS 84) of local x, y (m); `origin` is that of `geographic_origin`."""
    chunk = chunk_map(origin)
    if chunk is not None:
        return chunk.to_geographic(x, y)
    return transformer(projection_text(*origin)).transform(x, y, direction="INVERSE")


def is_projected(origin: tuple[float, ...] | None) -> bool:
    """True if local coordinates are those of a map projection, not of a chunk and not plain ones."""
    return origin is not None and len(origin) == 2


def convergence(x: Any, y: Any, origin: tuple[float, ...] | None) -> np.ndarray:
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
