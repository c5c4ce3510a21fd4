"""Results as xarray Datasets, with units and the coordinate system as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.output.attributes import COMPONENTS, TENSOR_COMPONENTS, UNITS, to_geographic
from lithowave.output.tables import require

if TYPE_CHECKING:
    from lithowave.output.seismogram_arrays import SeismogramArrays

KEPT = (
    "software", "software_version", "title", "axes", "component_axes", "crs", "crs_longitude", "crs_latitude",
    "time_origin", "origin_delay", "origin_time", "start_time", "complete",
)  # fmt: skip
"""Attributes of a file that a Dataset keeps."""


def seismogram_dataset(seismograms: SeismogramArrays) -> Any:
    """See `Seismograms.to_xarray`."""
    require("xarray", "A Dataset")
    from xarray import Dataset

    directions = ("receiver", "component", "time")
    variables = {seismograms.quantity: (directions, seismograms.data, {"units": seismograms.units})}
    for name in ("stress", "strain"):
        values = getattr(seismograms, name)
        if values is not None:
            variables[name] = (("receiver", "tensor_component", "time"), values, {"units": UNITS[name]})
    if seismograms.pressure is not None:
        variables["pressure"] = (("receiver", "time"), seismograms.pressure, {"units": UNITS["pressure"]})
    coordinates: dict[str, Any] = {
        "receiver": seismograms.names,
        "component": COMPONENTS.split(","),
        "time": ("time", seismograms.time, {"units": "s"}),
    }
    if {"stress", "strain"} & variables.keys():
        coordinates["tensor_component"] = TENSOR_COMPONENTS.split(",")
    for axis, values in zip("xyz", seismograms.positions.T, strict=True):
        coordinates[axis] = ("receiver", values, {"units": "m"})
    if seismograms.geographic_origin is not None:
        places = to_geographic(*seismograms.positions.T[:2], seismograms.geographic_origin)
        for name, values, unit in zip(("longitude", "latitude"), places, ("east", "north"), strict=True):
            coordinates[name] = ("receiver", np.atleast_1d(values), {"units": f"degrees_{unit}"})
        coordinates["north_azimuth"] = ("receiver", seismograms.north_azimuth, {"units": "degrees"})
    attributes = kept({**seismograms.attributes, "complete": int(seismograms.complete)})
    if seismograms.shortfall:
        attributes["shortfall"] = seismograms.shortfall
    return Dataset(variables, coordinates, attributes)


def kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that describe coordinates and times, which netCDF files can store."""
    return {name: attributes[name] for name in KEPT if name in attributes}


def seismogram_rows(seismograms: SeismogramArrays) -> list[dict[str, Any]]:
    """Return one dictionary per receiver: codes, position, and peak values with the time of the largest."""
    data = np.asarray(seismograms.data, dtype=float)
    horizontal, total = np.hypot(data[:, 0], data[:, 1]), np.sqrt((data**2).sum(axis=1))
    rows = []
    for index, name in enumerate(seismograms.names):
        row: dict[str, Any] = {
            "name": name, "network": seismograms.networks[index], "station": seismograms.stations[index],
            "location": seismograms.locations[index],
        }  # fmt: skip
        row |= dict(zip("xyz", map(float, seismograms.positions[index]), strict=True))
        if seismograms.geographic_origin is not None:
            place = to_geographic(row["x"], row["y"], seismograms.geographic_origin)
            row |= dict(zip(("longitude", "latitude"), map(float, place), strict=True))
        if data.shape[-1]:
            row["peak_horizontal"] = float(horizontal[index].max())
            row["peak_vertical"] = float(np.abs(data[index, 2]).max())
            row["peak_total"] = float(total[index].max())
            row["peak_time"] = float(seismograms.time[int(total[index].argmax())])
        rows.append(row)
    return rows
