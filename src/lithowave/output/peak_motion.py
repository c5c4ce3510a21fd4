"""Maps of peak ground motion at the free surface, one HDF5 file for a run.

Layout of ``peak_motion.h5``::

    /                       attributes (see attributes.py)
    /x (nx,), /y (ny,)      m
    /pgv/<measure>          (ny, nx) m/s
    /pgd/<measure>          (ny, nx) m

Measures, each the largest value over time of: ``horizontal`` sqrt(E^2 + N^2), ``vertical`` abs(Z), ``total``
sqrt(E^2 + N^2 + Z^2). The horizontal one is that of the vector, which no rotation of the instrument changes.
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
    write_attributes,
)

FILE_NAME = "peak_motion.h5"
MEASURES = {
    "horizontal": "largest sqrt(E^2 + N^2) over time",
    "vertical": "largest abs(Z) over time",
    "total": "largest sqrt(E^2 + N^2 + Z^2) over time",
}
QUANTITIES = {"pgv": "velocity", "pgd": "displacement"}


@dataclass(frozen=True)
class PeakMotion:
    """Peak ground velocity (m/s) and displacement (m): each measure an array (ny, nx) over `y`, `x` (m)."""

    x: np.ndarray
    y: np.ndarray
    pgv: dict[str, np.ndarray]
    pgd: dict[str, np.ndarray]
    geographic_origin: tuple[float, float] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


def write_peak_motion(
    path: str | Path,
    x: np.ndarray,
    y: np.ndarray,
    pgv: Mapping[str, np.ndarray] | np.ndarray,
    pgd: Mapping[str, np.ndarray] | np.ndarray,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write the maps; an earlier file is replaced only once the new one is complete.

    Parameters
    ----------
    x, y : (nx,) and (ny,) coordinates of the surface points, m.
    pgv, pgd : from measure to (ny, nx), or an array (3, ny, nx) in the order of MEASURES; m/s and m.
    attributes : see `attributes.standard_attributes`; missing ones are filled in.

    Raises
    ------
    ValueError : for an unknown measure or another shape.
    OutputError : when the file cannot be written.
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
        raise ValueError(f"unknown measure {', '.join(sorted(unknown))}; known: {', '.join(MEASURES)}")
    return {measure: np.asarray(values) for measure, values in maps.items()}


def load_peak_motion(path: str | Path) -> PeakMotion:
    """Read the maps of a run folder, or of its ``peak_motion.h5``.

    Raises
    ------
    OutputError : when there is no such file, or it is damaged or not lithowave's.
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
