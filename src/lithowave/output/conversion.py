"""Conversion of models and meshes of other programs to the formats that lithowave writes."""

from __future__ import annotations

from pathlib import Path

from lithowave.errors import OVERWRITE, InputError
from lithowave.mesh.gmsh_writing import write_gmsh
from lithowave.mesh.tetrahedral_reading import read_tetrahedral_mesh
from lithowave.output.model_writing import write_gridded_model
from lithowave.readers.model_files import read_model

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
