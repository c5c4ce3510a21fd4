r"""The local map projection of a box, and the direction of its axes relative to true North.

The meridian convergence gamma at a place is the azimuth of the axis y (grid North) there, clockwise from true North.
Components (E, N) along true East and North and components (x, y) along the axes of the grid are related by

.. math:: x = E \cos\gamma - N \sin\gamma, \quad y = E \sin\gamma + N \cos\gamma,

a counterclockwise turn by gamma. On a sphere, gamma of the transverse Mercator projection at a longitude lambda from
that of the origin is arctan(tan lambda sin phi) at the latitude phi: 1 degree at 150 km East of the origin at 37 North.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from pyproj import Proj, Transformer


def projection_text(longitude: float, latitude: float) -> str:
    """Return the PROJ text of the local transverse Mercator with scale 1 at (`longitude`, `latitude`), WGS 84."""
    return (
        f"+proj=tmerc +lat_0={latitude!r} +lon_0={longitude!r} +k=1 +x_0=0 +y_0=0 "
        "+datum=WGS84 +units=m +no_defs"
    )  # fmt: skip


@lru_cache(maxsize=8)
def transformer(projection: str) -> Transformer:
    """Return the transformation of longitude and latitude, degrees, to x and y of a projection, m."""
    from pyproj import Transformer

    return Transformer.from_crs("EPSG:4326", projection, always_xy=True)


@lru_cache(maxsize=8)
def _projection(text: str) -> Proj:
    from pyproj import Proj

    return Proj(text)


def convergence(projection: str, longitude: ArrayLike, latitude: ArrayLike) -> np.ndarray:
    """Return the meridian convergence of a projection at places (degrees), degrees; see the module.

    projection : PROJ text. The result has the shape of the places, and is not finite where the projection does not
    reach.
    """
    places = np.broadcast_arrays(np.asarray(longitude, dtype=float), np.asarray(latitude, dtype=float))
    if not places[0].size:
        return np.zeros(places[0].shape)
    factors = _projection(projection).get_factors(*(np.atleast_1d(values).ravel() for values in places))
    return np.asarray(factors.meridian_convergence).reshape(places[0].shape) + 0.0  # no -0.0


def convergence_at(projection: str, x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Return the meridian convergence, degrees, at x and y, m, as `convergence` does."""
    places = transformer(projection).transform(np.asarray(x), np.asarray(y), direction="INVERSE")
    return convergence(projection, *places)


def turned(values: np.ndarray, angles: ArrayLike) -> np.ndarray:
    """Return vectors or symmetric tensors turned counterclockwise about the vertical axis.

    Turned by the convergence, components along true East and North become components along the axes of the grid.

    Parameters
    ----------
    values : (n, 3, ...) vectors, or (n, 6, ...) tensors in the order xx, yy, zz, xy, xz, yz.
    angles : (n,) degrees.
    """
    radians = np.radians(np.asarray(angles, dtype=float)).reshape(-1, *[1] * (values.ndim - 2))
    if not radians.any():
        return values
    c, s = np.cos(radians), np.sin(radians)
    if values.shape[1] == 3:
        x, y, z = np.moveaxis(values, 1, 0)
        return np.stack([c * x - s * y, s * x + c * y, z], axis=1).astype(values.dtype, copy=False)
    xx, yy, zz, xy, xz, yz = np.moveaxis(values, 1, 0)
    both = 2.0 * c * s * xy
    parts = [
        c * c * xx - both + s * s * yy, s * s * xx + both + c * c * yy, zz,
        c * s * (xx - yy) + (c * c - s * s) * xy, c * xz - s * yz, s * xz + c * yz,
    ]  # fmt: skip
    return np.stack(parts, axis=1).astype(values.dtype, copy=False)
