"""Conversion of models and meshes of other programs to the formats that lithowave writes.

Gridded models become HDF5 files with named axes, which NetCDF-4 libraries read as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import OVERWRITE, InputError
from lithowave.mesh.gmsh_writing import write_gmsh
from lithowave.mesh.imported import read_tetrahedral_mesh
from lithowave.output.files import writing
from lithowave.readers.gridded_model import GriddedModel
from lithowave.readers.model_files import read_model
from lithowave.version import __version__

if TYPE_CHECKING:

    from lithowave.json_types import ReadEntries

MODELS, MESHES = (".h5", ".hdf5", ".nc"), (".msh",)
"""Extensions of the files that can be written."""


def convert_file(source: str | Path, target: str | Path, overwrite: bool = False) -> list[str]:
    """Convert a gridded model to HDF5 with named axes, or a mesh of tetrahedra to Gmsh, and return remarks.

    The extension of the target selects the conversion. Values of models are converted to SI and otherwise unchanged.

    Raises
    ------
    InputError
        the source cannot be read, the target exists or has an unknown extension, or it cannot express the source: SW4
        files have rotated axes and several blocks.
    OutputError : the target cannot be written.
    """
    source, target = Path(source), Path(target)
    suffix = target.suffix.lower()
    if suffix not in MODELS + MESHES:
        allowed = f"allowed: {', '.join(MODELS)} for models, {', '.join(MESHES)} for meshes of tetrahedra"
        raise InputError(str(target), f"the file extension {suffix or '(none)'} is not known", allowed)
    if not source.is_file():
        raise InputError(str(source), "the file does not exist", "expected a model or a mesh")
    if target.exists() and not overwrite:
        allowed = "files are not overwritten by default"
        hint = f"choose another file, or replace it ({OVERWRITE})"
        raise InputError(str(target), "the file exists already", allowed, hint)
    if target.exists() and target.samefile(source):
        raise InputError(str(target), "is the source itself", "expected another file")
    return _convert_mesh(source, target) if suffix in MESHES else _convert_model(source, target)


def _convert_model(source: Path, target: Path) -> list[str]:
    models = read_model(source)
    if len(models) > 1:
        raise InputError(
            str(source),
            f"the model has {len(models)} blocks of different grids",
            "one grid cannot contain them without interpolation",
            "use the file as material.file, which lithowave reads directly",
        )
    (model,) = models
    write_gridded_model(target, model, {"source": source.name})
    remarks = list(model.notes)
    if model.unused:
        remarks.append(f"not converted: {', '.join(model.unused)}")
    return remarks


def _convert_mesh(source: Path, target: Path) -> list[str]:
    mesh = read_tetrahedral_mesh(source, str(source))
    write_gmsh(target, mesh)
    numbered = mesh.ids is None or mesh.ids.tolist() == list(range(1, len(mesh.elements) + 1))
    return [] if numbered else ["the elements are numbered from 1 in the order of the source"]


_UNITS = {"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}
_AXES = {
    "x": {"units": "m", "long_name": "East"},
    "y": {"units": "m", "long_name": "North"},
    "longitude": {"units": "degrees_east", "standard_name": "longitude"},
    "latitude": {"units": "degrees_north", "standard_name": "latitude"},
    "z": {"units": "m", "positive": "up", "long_name": "height above z = 0"},
}


def write_gridded_model(path: str | Path, model: GriddedModel, attributes: ReadEntries | None = None) -> Path:
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
