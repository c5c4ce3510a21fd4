"""Positions of files that state no unit: decided to be degrees or meters by their values and the origin of the domain.

Files of other programs have columns or keys such as ``x``, ``y`` or ``latorUTM`` with either. All readers of such files
use the rules of this module; the key ``coordinates`` of the entry replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lithowave.description.domain import Domain
from lithowave.description.refusals import refusal
from lithowave.sphere import angular_distance

Coordinates = Literal["geographic", "cartesian"]

NEAR = 10.0
"""Distance (degrees) from the origin of the domain within which numbers are probably longitudes and latitudes."""


def can_be_degrees(longitude: ArrayLike, latitude: ArrayLike) -> bool:
    """True if all values are within the ranges of longitudes and latitudes, and not all of them are 0."""
    first, second = np.asarray(longitude, dtype=float), np.asarray(latitude, dtype=float)
    within = (np.abs(first) <= 360.0).all() and (np.abs(second) <= 90.0).all()
    return bool(within and (first.any() or second.any()))


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
        if not domain.is_geographic:
            raise refusal(
                "coordinates: geographic needs the origin domain.crs, which is not given",
                "expected in domain: crs: {longitude: ..., latitude: ...}",
                at=at,
            )
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
