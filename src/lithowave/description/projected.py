"""Coordinates in any reference system that PROJ knows, such as ``EPSG:32611``, and their local coordinates."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from lithowave.description.domain import Domain
from lithowave.description.refusals import refusal, shown

if TYPE_CHECKING:
    from pyproj import CRS


def _known(value: Any) -> Any:
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

    if not domain.is_geographic:
        raise refusal(
            f"positions in {name} need the origin of local coordinates, domain.crs, which is not given",
            "expected in domain: crs: {longitude: ..., latitude: ...}", at=("crs",),
        )  # fmt: skip
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
