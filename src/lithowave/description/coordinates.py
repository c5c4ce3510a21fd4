"""Coordinates of points: local, geographic, or in any reference system that PROJ knows, and their horizontal axes.

A point of the description has local coordinates, or longitude, latitude and depth. Files of other programs have columns
or keys such as ``x``, ``y`` or ``latorUTM`` with either. Where a file states no unit, the values and the origin of the
domain decide between degrees and meters; the key ``coordinates`` of the entry replaces this decision.

The way in which a position is given also decides about the horizontal axes of mechanisms and components. At a position
on the Earth (longitude and latitude, or a reference system such as EPSG:32611) they are true East and North, at a
position in local coordinates, m, they are x and y. Sources act along the axes of the grid, so mechanisms at places on
the Earth are turned by the meridian convergence there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator

from lithowave.description.domain import Domain
from lithowave.description.text import refusal, shown
from lithowave.globe_coordinates import angular_distance

if TYPE_CHECKING:
    from pyproj import CRS


Point = tuple[float, float, float]


def check_point_keys(
    position: object, longitude: object, latitude: object, depth: object, *, depth_needed: bool
) -> None:
    """Refuse a point that has neither or both kinds of coordinates, or half of one kind."""
    geographic = {"longitude": longitude, "latitude": latitude}
    if depth_needed:
        geographic["depth"] = depth
    given = [key for key, value in geographic.items() if value is not None]
    missing = [key for key, value in geographic.items() if value is None]
    if position is not None:
        extra = [*given, *([] if depth is None or "depth" in given else ["depth"])]
        if extra:
            raise refusal(f"position and {' and '.join(extra)} are both given", "give one of them", at=(extra[0],))
    elif missing:
        expected = ", ".join(geographic)
        got = f"{' and '.join(missing)} missing" if given else "has no position"
        raise refusal(got, f"give position: [x, y, z], or {expected}")


def refuse_two_kinds(kinds: list[str], point_keys: list[str], single: str) -> None:
    """Refuse an entry with keys of several kinds: lines, planes and files, and a single place, whose name is given."""
    if len(kinds) > 1 or (kinds and point_keys):
        first, second, *_ = kinds + point_keys
        raise refusal(f"{first} and {second} are both given", f"an entry is a {single}, a line, a plane or a file")


def local_point(
    domain: Domain, position: tuple[float, ...] | None, longitude: float, latitude: float, depth: float
) -> Point:
    """Return (x, y, z) in m of a point that :func:`check_point_keys` has accepted.

    A position [x, y] is the point of the surface there. Depth counts from :func:`depth_origin`.
    """
    if position is not None:
        x, y = position[:2]
        z = position[2] if len(position) == 3 else float(domain.surface_at(x, y))
        return (x, y, z)
    x, y = domain.to_local(longitude, latitude)
    return (float(x), float(y), depth_origin(domain, float(x), float(y)) - depth)


def depth_origin(domain: Domain, x: float, y: float) -> float:
    """Return z in m of zero depth: the topography or the surface of an imported mesh at (x, y), else z = 0."""
    return 0.0 if domain.surface is None else float(domain.surface_at(x, y))


Coordinates = Literal["geographic", "cartesian"]

NEAR = 10.0
"""Distance (degrees) from the origin of the domain within which numbers are probably longitudes and latitudes."""


def can_be_degrees(longitude: ArrayLike, latitude: ArrayLike) -> bool:
    """True if all values are within the ranges of longitudes and latitudes, and not all of them are 0."""
    first, second = np.asarray(longitude, dtype=float), np.asarray(latitude, dtype=float)
    within = (np.abs(first) <= 360.0).all() and (np.abs(second) <= 90.0).all()
    return bool(within and (first.any() or second.any()))


def require_origin(domain: Domain, what: str, at: Iterable[str], hint: str = "") -> None:
    """Refuse what needs an origin, a clause with its verb, in a domain without one."""
    if not domain.is_geographic:
        got = f"{what} the origin domain.crs, which is not given"
        raise refusal(got, "expected in domain: crs: {longitude: ..., latitude: ...}", hint, at=at)


def are_degrees(
    domain: Domain,
    first: ArrayLike,
    second: ArrayLike,
    stated: Coordinates | None = None,
    *,
    names: str = "x and y",
    at: Iterable[str] = ("file",),
) -> bool:
    """True if positions (n,) are longitudes (first) and latitudes (second), False if they are x and y.

    They are x and y without an origin of the domain, with values that cannot be degrees, and if they are far from the
    domain as degrees. They are degrees if at least half of them are in the domain as degrees.

    Parameters
    ----------
    stated : the key ``coordinates``, which decides alone.
    names : what the file calls the two values, for messages.

    Raises
    ------
    PydanticCustomError
        (a ``ValueError``) near the domain as degrees, but outside, so that neither is certain; degrees are stated, but
        impossible, or the domain has no origin.
    """
    x, y = np.atleast_1d(first).astype(float), np.atleast_1d(second).astype(float)
    possible = can_be_degrees(x, y)
    if stated == "geographic":
        require_origin(domain, "coordinates: geographic needs", at)
        if not possible and (x.any() or y.any()):
            index = int(np.argmax((np.abs(x) > 360.0) | (np.abs(y) > 90.0)))
            got = f"{names} are ({x[index]:.10g}, {y[index]:.10g}), which are no longitude and latitude"
            raise refusal(got, "expected degrees", "for meters set coordinates: cartesian", at=at)
        return True
    if stated == "cartesian" or not domain.is_geographic or not possible:
        return False
    longitude, latitude = (float(value) for value in domain.to_geographic(*domain.center[:2]))
    if not (np.asarray(angular_distance(x, y, (longitude, latitude))) <= NEAR).all():
        return False
    inside = domain.contains_places(x, y)
    if 2 * np.count_nonzero(inside) >= inside.size:
        return True
    index = int(np.argmin(inside))
    raise refusal(
        f"the file does not state whether {names}, ({x[index]:.10g}, {y[index]:.10g}), are degrees or meters: as "
        "longitude and latitude they are near the domain, but outside",
        "allowed: coordinates: geographic or cartesian",
        "set coordinates beside file",
        at=at,
    )


def _known(value: object) -> object:
    text = f"EPSG:{value}" if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise refusal(f"{shown(value)} is not a coordinate reference system", "expected text such as EPSG:32611")
    system = reference_system(text)
    if not (system.is_geographic or system.is_projected):
        got = f"{text} ({system.name}) is neither geographic nor projected"
        raise refusal(got, "expected a system such as EPSG:32611")
    return text


ReferenceSystemName = Annotated[str, BeforeValidator(_known)]
"""The name of a geographic or projected reference system."""


@lru_cache(maxsize=8)
def reference_system(name: str) -> CRS:
    """Return the reference system of a name; refuse an unknown one."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return CRS.from_user_input(name)
    except CRSError:
        raise refusal(f"{shown(name)} is not a known reference system", "expected a code such as EPSG:32611") from None


def to_local(
    domain: Domain, name: str, first: np.ndarray, second: np.ndarray, geographic: bool, native: bool,
    anywhere: bool = False,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return x and y, m, of points in a reference system.

    Parameters
    ----------
    first, second : longitude and latitude in degrees if `geographic`, else easting and northing, in the unit of the
        system if `native`, else in m.
    anywhere : True: values that are not finite for points that cannot be projected, which are otherwise refused.
    """
    from pyproj import Transformer

    require_origin(domain, f"positions in {name} need", ("crs",))
    system = reference_system(name)
    if system.is_geographic != geographic:
        kinds = ("longitudes and latitudes", "x and y") if geographic else ("x and y", "longitudes and latitudes")
        got = f"the file has {kinds[0]}, but {name} ({system.name}) has {kinds[1]}"
        raise refusal(got, at=("crs",))
    if not geographic and not native:
        first, second = (values / system.axis_info[0].unit_conversion_factor for values in (first, second))
    target = "EPSG:4326" if domain.crs is None else domain.crs.projection
    x, y = Transformer.from_crs(system, target, always_xy=True).transform(first, second)
    if domain.crs is None:
        x, y = domain.to_local_grid(x, y)
    if not anywhere and not (np.isfinite(x).all() and np.isfinite(y).all()):
        index = int(np.argmin(np.isfinite(x) & np.isfinite(y)))
        got = f"position {index + 1}, ({first[index]:.12g}, {second[index]:.12g}), cannot be projected from {name}"
        raise refusal(got, at=("file",))
    return x, y


class Placed(Protocol):
    """A point with a position (x, y, z), m."""

    @property
    def position(self) -> tuple[float, float, float]: ...


def convergences(domain: Domain, points: Sequence[Placed]) -> np.ndarray:
    """Return the convergence (n,) at points, degrees; 0 where the projection does not reach."""
    x, y, _ = np.array([point.position for point in points], float).reshape(-1, 3).T
    angles = domain.convergence_at(x, y)
    return np.where(np.isfinite(angles), angles, 0.0)
