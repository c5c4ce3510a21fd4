"""Seismograms of SPECFEM as text: files ``NET.STA.CHA.semd`` with the time after the origin time, s, and the value."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from lithowave.errors import InputError

_NAME = re.compile(r"([^.]+)\.([^.]+)\.([A-Z0-9]+)\.sem([dva]?)(\.ascii)?", re.IGNORECASE)
_QUANTITIES = {"d": "displacement", "": "displacement", "v": "velocity", "a": "acceleration"}
_COMPONENTS = {"X": "E", "Y": "N"}
"""Components in the axes of a Cartesian mesh, x East and y North."""

_UNEVEN = 0.1
"""Largest distance of a time from even sampling, as a fraction of the interval: times are written with few digits."""


def specfem_name(path: Path) -> tuple[str, str, str, str] | None:
    """Return network, station, channel and quantity from the name of a file of SPECFEM; None for other names."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    network, station, channel = match[1], match[2], match[3].upper()
    channel = channel[:-1] + _COMPONENTS.get(channel[-1], channel[-1])
    return network, station, channel, _QUANTITIES[match[4].lower()]


def read_specfem_samples(path: Path) -> tuple[float, float, np.ndarray]:
    """Return the time of the first sample after the origin time, s, the sampling interval, s, and the samples.

    InputError : the file does not have two columns of numbers, or its times are not evenly spaced.
    """
    expected = "expected two columns: time in s, and value"
    try:
        table = np.loadtxt(path, dtype=float, ndmin=2, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise InputError(str(path), f"cannot be read as seismogram of SPECFEM: {error}", expected) from None
    if table.shape[1:] != (2,) or len(table) < 2 or not np.isfinite(table[:, 0]).all():
        raise InputError(str(path), f"has {table.shape[0]} rows of {table.shape[1]} numbers", expected)
    time = table[:, 0]
    interval = float(time[-1] - time[0]) / (len(time) - 1)
    if not interval > 0.0 or np.abs(time - time[0] - interval * np.arange(len(time))).max() > _UNEVEN * interval:
        raise InputError(str(path), "the times are not evenly spaced", "expected a constant sampling interval")
    return float(time[0]), interval, table[:, 1]
