"""A point of the description: local coordinates, or longitude, latitude and depth."""

from __future__ import annotations

from typing import Any

from lithowave.description.domain import Domain
from lithowave.description.refusals import refusal

Point = tuple[float, float, float]


def check_point_keys(position: Any, longitude: Any, latitude: Any, depth: Any, *, depth_needed: bool) -> None:
    """Refuse a point that has neither or both kinds of coordinates, or half of one kind."""
    geographic = {"longitude": longitude, "latitude": latitude}
    if depth_needed:
        geographic["depth"] = depth
    given = [key for key, value in geographic.items() if value is not None]
    missing = [key for key, value in geographic.items() if value is None]
    if position is not None:
        extra = [*given, *([] if depth is None or "depth" in given else ["depth"])]
        if extra:
            raise refusal(
                f"position and {' and '.join(extra)} are both given", "give one of them", at=(extra[0],)
            )
    elif missing:
        expected = ", ".join(geographic)
        got = f"{' and '.join(missing)} missing" if given else "has no position"
        raise refusal(got, f"give position: [x, y, z], or {expected}")


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
