"""Coastlines on maps: Natural Earth, scale 1:110 million, which is in the public domain."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from lithowave.output.attributes import projection_text
from lithowave.output.figures import style
from lithowave.output.figures.globe import MapPage
from lithowave.sphere import directions

FILE = "coastlines.json"
SMALLEST_MAP = 800.0
"""Width of a map, km, from which on coastlines are drawn: they deviate by up to some 30 km from the true ones."""

FARTHEST = 90.0  # degrees from the center of a map
LINE = {"color": style.INK, "linewidth": 0.7, "alpha": 0.8, "zorder": 2}


@cache
def coastlines() -> tuple[np.ndarray, np.ndarray]:
    """Return longitudes and latitudes, degrees, of all lines, with NaN between two lines."""
    content = json.loads(files("lithowave.output.figures").joinpath(FILE).read_text(encoding="utf-8"))
    gap = np.full((1, 2), np.nan)
    points = [part for line in content["lines"] for part in (0.01 * np.array(line, float).reshape(-1, 2), gap)]
    longitude, latitude = np.concatenate(points).T
    return longitude, latitude


def draw_coastlines(
    panel: Any, origin: tuple[float, ...] | None, page: MapPage | None, frame: tuple[float, float, float, float]
) -> None:
    """Draw the coastlines within a frame (left, right, bottom, top; km) if the map is large enough.

    origin : geographic origin of local coordinates; None: nothing is drawn. page : of a chunk of the globe.
    """
    if origin is None or min(frame[1] - frame[0], frame[3] - frame[2]) < SMALLEST_MAP:
        return
    longitude, latitude = coastlines()
    up = directions(longitude, latitude)
    if page is not None:
        x, y = page.place(up).T
    else:
        from pyproj import Transformer

        to_local = Transformer.from_crs("EPSG:4326", projection_text(*origin[:2]), always_xy=True)
        x, y = to_local.transform(longitude, latitude)
    reached = up @ directions(*origin[:2]) > np.cos(np.radians(FARTHEST))  # False for the gaps
    x, y = (np.where(reached, values, np.nan) / 1e3 for values in (x, y))
    margin = 0.5 * max(frame[1] - frame[0], frame[3] - frame[2])  # lines cross the edge of the frame
    near = (x > frame[0] - margin) & (x < frame[1] + margin) & (y > frame[2] - margin) & (y < frame[3] + margin)
    if near.any():
        panel.plot(np.where(near, x, np.nan), np.where(near, y, np.nan), gid="coastlines", **LINE)
        panel.set_xlim(*frame[:2])
        panel.set_ylim(*frame[2:])
