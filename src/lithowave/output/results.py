"""Results as tables for pandas and as xarray Datasets, and maps of peak ground motion.

Datasets have the units and the coordinate system as attributes. The maps at the free surface are in one file per run.

Layout of ``peak_motion.h5``::

    /                       attributes (see attributes.py)
    /x (nx,), /y (ny,)      m
    /pgv/<measure>          (ny, nx) m/s
    /pgd/<measure>          (ny, nx) m

Each measure is a maximum over time: ``horizontal`` of sqrt(E^2 + N^2), ``vertical`` of abs(Z), ``total`` of
sqrt(E^2 + N^2 + Z^2). The horizontal measure does not depend on the orientation of the instrument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import OutputError, require_package
from lithowave.output import files
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    completed,
    geographic_origin,
    read_attributes,
    to_geographic,
    write_attributes,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

    from lithowave.json_types import Entries, ReadEntries
    from lithowave.output.geometry import SeismogramArrays


def data_frame(rows: Sequence[ReadEntries], index: str, units: Mapping[str, str]) -> DataFrame:
    """Return rows as a pandas DataFrame.

    Parameters
    ----------
    index : the key of the index.
    units : of the columns; stored in ``attrs["units"]``.

    Raises
    ------
    MissingPackageError : pandas is not installed.
    """
    require_package("pandas", "A DataFrame", "data")
    from pandas import DataFrame

    frame = DataFrame([dict(row) for row in rows]).set_index(index)
    frame.attrs["units"] = {name: unit for name, unit in units.items() if name in frame.columns}
    return frame


KEPT = (
    "software", "software_version", "title", "axes", "component_axes", "crs", "crs_longitude", "crs_latitude",
    "time_origin", "origin_delay", "origin_time", "start_time", "complete",
)  # fmt: skip
"""Attributes of a file that a Dataset keeps."""


def seismogram_dataset(seismograms: SeismogramArrays) -> Dataset:
    """See `Seismograms.to_xarray`."""
    require_package("xarray", "A Dataset", "data")
    from xarray import Dataset

    directions = ("receiver", "component", "time")
    variables: Entries = {seismograms.quantity: (directions, seismograms.data, {"units": seismograms.units})}
    for name in ("stress", "strain"):
        values = getattr(seismograms, name)
        if values is not None:
            variables[name] = (("receiver", "tensor_component", "time"), values, {"units": UNITS[name]})
    if seismograms.pressure is not None:
        variables["pressure"] = (("receiver", "time"), seismograms.pressure, {"units": UNITS["pressure"]})
    coordinates: Entries = {
        "receiver": seismograms.names,
        "component": COMPONENTS.split(","),
        "time": ("time", seismograms.time, {"units": "s"}),
    }
    if {"stress", "strain"} & variables.keys():
        coordinates["tensor_component"] = TENSOR_COMPONENTS.split(",")
    for axis, values in zip("xyz", seismograms.positions.T, strict=True):
        coordinates[axis] = ("receiver", values, {"units": "m"})
    if seismograms.geographic_origin is not None:
        x, y = seismograms.positions.T[:2]
        places = to_geographic(x, y, seismograms.geographic_origin)
        for name, values, unit in zip(("longitude", "latitude"), places, ("east", "north"), strict=True):
            coordinates[name] = ("receiver", np.atleast_1d(values), {"units": f"degrees_{unit}"})
        coordinates["north_azimuth"] = ("receiver", seismograms.north_azimuth, {"units": "degrees"})
    attributes = kept({**seismograms.attributes, "complete": int(seismograms.complete)})
    if seismograms.shortfall:
        attributes["shortfall"] = seismograms.shortfall
    return Dataset(variables, coordinates, attributes)


def kept(attributes: ReadEntries) -> Entries:
    """Return the attributes that describe coordinates and times, which netCDF files can store."""
    return {name: attributes[name] for name in KEPT if name in attributes}


def seismogram_rows(seismograms: SeismogramArrays) -> list[Entries]:
    """Return one dictionary per receiver: codes, position, and peak values with the time of the largest."""
    data = np.asarray(seismograms.data, dtype=float)
    horizontal, total = np.hypot(data[:, 0], data[:, 1]), np.sqrt((data**2).sum(axis=1))
    rows = []
    for index, name in enumerate(seismograms.names):
        row: Entries = {
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


FILE_NAME = "peak_motion.h5"
MEASURES = {
    "horizontal": "largest sqrt(E^2 + N^2) over time",
    "vertical": "largest abs(Z) over time",
    "total": "largest sqrt(E^2 + N^2 + Z^2) over time",
}
QUANTITIES = {"pgv": "velocity", "pgd": "displacement"}


@dataclass(frozen=True)
class PeakMotion:
    """Peak ground velocity `pgv` (m/s) and displacement `pgd` (m): arrays (ny, nx) by measure, on `y`, `x` (m)."""

    x: np.ndarray
    y: np.ndarray
    pgv: dict[str, np.ndarray]
    pgd: dict[str, np.ndarray]
    geographic_origin: tuple[float, ...] | None = None
    attributes: Entries = field(default_factory=dict)

    def __repr__(self) -> str:
        largest = max((float(values.max()) for values in self.pgv.values() if values.size), default=0.0)
        return (
            f"<PeakMotion on {len(self.x)} x {len(self.y)} points, x from {self.x[0]:g} to {self.x[-1]:g} m, y from "
            f"{self.y[0]:g} to {self.y[-1]:g} m: {', '.join(self.pgv)}; largest velocity {largest:.4g} m/s>"
        )

    def to_xarray(self) -> Dataset:
        """Return an xarray Dataset with dimensions y and x: ``pgv_horizontal`` (m/s), ``pgd_horizontal`` (m), ...

        Raises
        ------
        MissingPackageError : xarray is not installed.
        """
        return peak_motion_dataset(self)


def write_peak_motion(
    path: str | Path,
    x: np.ndarray,
    y: np.ndarray,
    pgv: Mapping[str, np.ndarray] | np.ndarray,
    pgd: Mapping[str, np.ndarray] | np.ndarray,
    attributes: ReadEntries | None = None,
) -> None:
    """Write the maps; an existing file is replaced only after the new file is complete.

    Parameters
    ----------
    x, y : (nx,) and (ny,) coordinates of the surface points, m.
    pgv, pgd : arrays (ny, nx) by measure, or an array (3, ny, nx) in the order of MEASURES; m/s and m.
    attributes : see `attributes.standard_attributes`; default values replace missing ones.

    Raises
    ------
    ValueError : a measure is unknown, or an array has a wrong shape.
    OutputError : the file cannot be written.
    """
    maps = {"pgv": _by_measure(pgv), "pgd": _by_measure(pgd)}
    with files.replacing(Path(path)) as file:
        write_attributes(file, completed(attributes))
        for name, values in (("x", x), ("y", y)):
            file.create_dataset(name, data=np.asarray(values, dtype=float)).attrs["units"] = "m"
        for quantity, measures in maps.items():
            group = file.create_group(quantity)
            for measure, values in measures.items():
                if values.shape != (len(y), len(x)):
                    raise ValueError(f"{quantity} {measure} has shape {values.shape}, not {(len(y), len(x))}")
                dataset = group.create_dataset(measure, data=values)
                dataset.attrs["units"] = UNITS[QUANTITIES[quantity]]
                dataset.attrs["measure"] = MEASURES[measure]
                dataset.attrs["axes"] = "y, x"


def _by_measure(maps: Mapping[str, np.ndarray] | np.ndarray) -> dict[str, np.ndarray]:
    if not isinstance(maps, Mapping):
        if len(maps) != len(MEASURES):
            raise ValueError(f"expected {len(MEASURES)} maps ({', '.join(MEASURES)}), got {len(maps)}")
        maps = dict(zip(MEASURES, maps, strict=True))
    if unknown := maps.keys() - MEASURES.keys():
        raise ValueError(f"unknown measure {', '.join(sorted(unknown))}; allowed: {', '.join(MEASURES)}")
    return {measure: np.asarray(values) for measure, values in maps.items()}


def load_peak_motion(path: str | Path) -> PeakMotion:
    """Read the peak ground motion of a run.

    Parameters
    ----------
    path : the run folder, or its ``peak_motion.h5``.

    Returns
    -------
    PeakMotion : peak ground velocity (m/s) and displacement (m) on the surface.

    Raises
    ------
    OutputError : the file does not exist, is damaged, or is not a file of lithowave.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    with files.open_file(path) as file:
        try:
            attributes = read_attributes(file)
            return PeakMotion(
                x=file["x"][:], y=file["y"][:], pgv={measure: values[:] for measure, values in file["pgv"].items()},
                pgd={measure: values[:] for measure, values in file["pgd"].items()},
                geographic_origin=geographic_origin(attributes), attributes=attributes,
            )  # fmt: skip
        except (KeyError, OSError) as error:
            raise OutputError(f"{path}: is damaged or not a file of peak motion: {error}") from error


def peak_motion_dataset(peaks: PeakMotion) -> Dataset:
    """See `PeakMotion.to_xarray`."""
    require_package("xarray", "A Dataset", "data")
    from xarray import Dataset

    variables = {
        f"{name}_{measure}": (("y", "x"), values, {"units": UNITS[quantity], "long_name": f"{measure} {name}"})
        for name, quantity, maps in (("pgv", "velocity", peaks.pgv), ("pgd", "displacement", peaks.pgd))
        for measure, values in maps.items()
    }
    coordinates: Entries = {"x": ("x", peaks.x, {"units": "m"}), "y": ("y", peaks.y, {"units": "m"})}
    if peaks.geographic_origin is not None:
        x, y = np.meshgrid(peaks.x, peaks.y)
        places = to_geographic(x, y, peaks.geographic_origin)
        for name, values, unit in zip(("longitude", "latitude"), places, ("east", "north"), strict=True):
            coordinates[name] = (("y", "x"), values, {"units": f"degrees_{unit}"})
    return Dataset(variables, coordinates, kept(peaks.attributes))
