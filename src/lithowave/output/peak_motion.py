"""Maps of peak ground motion at the free surface, in one HDF5 file per run.

Layout of ``peak_motion.h5``::

    /                       attributes (see attributes.py)
    /x (nx,), /y (ny,)      m
    /pgv/<measure>          (ny, nx) m/s
    /pgd/<measure>          (ny, nx) m

Each measure is a maximum over time: ``horizontal`` of sqrt(E^2 + N^2), ``vertical`` of abs(Z), ``total`` of
sqrt(E^2 + N^2 + Z^2). The horizontal measure does not depend on the orientation of the instrument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output import hdf5
from lithowave.output.attributes import (
    UNITS,
    completed,
    geographic_origin,
    read_attributes,
    to_geographic,
    write_attributes,
)
from lithowave.output.datasets import kept
from lithowave.output.tables import require

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
    attributes: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        largest = max((float(values.max()) for values in self.pgv.values() if values.size), default=0.0)
        return (
            f"<PeakMotion on {len(self.x)} x {len(self.y)} points, x from {self.x[0]:g} to {self.x[-1]:g} m, y from "
            f"{self.y[0]:g} to {self.y[-1]:g} m: {', '.join(self.pgv)}; largest velocity {largest:.4g} m/s>"
        )

    def to_xarray(self) -> Any:
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
    attributes: Mapping[str, Any] | None = None,
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
    with hdf5.replacing(Path(path)) as file:
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
    with hdf5.open_file(path) as file:
        try:
            attributes = read_attributes(file)
            return PeakMotion(
                x=file["x"][:],
                y=file["y"][:],
                pgv={measure: values[:] for measure, values in file["pgv"].items()},
                pgd={measure: values[:] for measure, values in file["pgd"].items()},
                geographic_origin=geographic_origin(attributes),
                attributes=attributes,
            )
        except (KeyError, OSError) as error:
            raise OutputError(f"{path}: is damaged or not a file of peak motion: {error}") from error


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
