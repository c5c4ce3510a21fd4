"""Writing of gridded models as HDF5 files with named axes, which NetCDF-4 libraries read as well."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.output.hdf5 import writing
from lithowave.readers.gridded_model import GriddedModel
from lithowave.version import __version__

_UNITS = {"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}
_AXES = {
    "x": {"units": "m", "long_name": "East"},
    "y": {"units": "m", "long_name": "North"},
    "longitude": {"units": "degrees_east", "standard_name": "longitude"},
    "latitude": {"units": "degrees_north", "standard_name": "latitude"},
    "z": {"units": "m", "positive": "up", "long_name": "height above z = 0"},
}


def write_gridded_model(path: str | Path, model: GriddedModel, attributes: Mapping[str, Any] | None = None) -> Path:
    """Write a model of one block in local coordinates, or on longitude and latitude, and return the file.

    The values are stored in SI and in their own precision, so that reading the file gives the same values.

    Raises
    ------
    InputError : the format cannot express the model. OutputError : the file cannot be written.
    """
    import h5py

    path = Path(path)
    if model.frame.kind == "projected" or model.top is not None:
        what = "rotated axes on a map" if model.top is None else "surfaces as the ends of its blocks"
        raise InputError(
            str(model.path),
            f"the model has {what}",
            "expected a model on one grid of x, y, z or longitude, latitude, z",
        )
    names = model.frame.names
    with writing(path), h5py.File(path, "w") as file:
        file.attrs.update({"Conventions": "CF-1.8", "software": f"lithowave {__version__}", **(attributes or {})})
        for name, axis in zip(names, model.axes.values(), strict=True):
            data = file.create_dataset(name, data=axis)
            data.attrs.update(_AXES[name])
            data.make_scale(name)
        for name, values in model.properties.items():
            data = file.create_dataset(name, data=np.ascontiguousarray(values))
            data.attrs["units"] = _UNITS.get(name, "1")
            for number, axis_name in enumerate(names):
                data.dims[number].attach_scale(file[axis_name])
    return path
