"""Results as xarray Datasets, with units and the coordinate system as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.output.attributes import COMPONENTS, TENSOR_COMPONENTS, UNITS, to_geographic
from lithowave.output.tables import require
from lithowave.output.vtkhdf import FIELD_COMPONENTS

if TYPE_CHECKING:
    from lithowave.output.peak_motion import PeakMotion
    from lithowave.output.seismograms import Seismograms
    from lithowave.output.snapshots import Snapshots

KEPT = (
    "software", "software_version", "title", "axes", "component_axes", "crs", "crs_longitude", "crs_latitude",
    "time_origin", "origin_delay", "origin_time", "start_time", "complete",
)  # fmt: skip
"""Attributes of a file that a Dataset keeps."""


def seismogram_dataset(seismograms: Seismograms) -> Any:
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


def peak_motion_dataset(peaks: PeakMotion) -> Any:
    """See `PeakMotion.to_xarray`."""
    require("xarray", "A Dataset")
    from xarray import Dataset

    variables = {
        f"{name}_{measure}": (("y", "x"), values, {"units": UNITS[quantity], "long_name": f"{measure} {name}"})
        for name, quantity, maps in (("pgv", "velocity", peaks.pgv), ("pgd", "displacement", peaks.pgd))
        for measure, values in maps.items()
    }
    coordinates: dict[str, Any] = {"x": ("x", peaks.x, {"units": "m"}), "y": ("y", peaks.y, {"units": "m"})}
    if peaks.geographic_origin is not None:
        places = to_geographic(*np.meshgrid(peaks.x, peaks.y), peaks.geographic_origin)
        for name, values, unit in zip(("longitude", "latitude"), places, ("east", "north"), strict=True):
            coordinates[name] = (("y", "x"), values, {"units": f"degrees_{unit}"})
    return Dataset(variables, coordinates, kept(peaks.attributes))


def snapshot_dataset(snapshots: Snapshots, steps: Sequence[int] | slice | None, fields: Sequence[str]) -> Any:
    """See `Snapshots.to_xarray`."""
    require("xarray", "A Dataset")
    from xarray import Dataset

    numbers = np.arange(len(snapshots))[slice(None) if steps is None else steps]
    coordinates: dict[str, Any] = {"time": ("time", np.asarray(snapshots.times)[numbers], {"units": "s"})}
    for axis in "zyx":
        coordinates[axis] = (axis, snapshots.axis(axis), {"units": "m"})
    variables = {}
    for name in fields:
        values = np.stack([snapshots.read(int(step), name) for step in numbers]) if len(numbers) else np.zeros(
            (0, *snapshots.shape, *([FIELD_COMPONENTS[name]] if FIELD_COMPONENTS[name] > 1 else []))
        )  # fmt: skip
        axes = ("time", "z", "y", "x")
        if FIELD_COMPONENTS[name] > 1:
            label = "component" if FIELD_COMPONENTS[name] == 3 else "tensor_component"
            coordinates[label] = (COMPONENTS if label == "component" else TENSOR_COMPONENTS).split(",")
            axes = (*axes, label)
        variables[name] = (axes, values, {"units": UNITS[name]})
    return Dataset(variables, coordinates, kept(snapshots.attributes))


def kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that describe coordinates and times, which netCDF files can store."""
    return {name: attributes[name] for name in KEPT if name in attributes}


def seismogram_rows(seismograms: Seismograms) -> list[dict[str, Any]]:
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
