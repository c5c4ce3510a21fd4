"""HDF5 material files (sfile) of SW4: curvilinear grids between surfaces, in a rotated map projection.

The file has the attributes ``Origin longitude, latitude, azimuth`` (degrees), ``ngrids`` and ``Attenuation``. The group
``Material_model`` has a group ``grid_i`` for each block from the top down, with the attribute ``Horizontal grid size``
(m) and the arrays ``Rho``, ``Cp``, ``Cs`` and with attenuation ``Qp``, ``Qs`` (SI; first axis along the azimuth, second
axis 90 degrees clockwise from it, third axis downwards). ``Z_interfaces/z_values_i`` and ``z_values_(i+1)`` are the
upper and lower surface of block i in m, positive downwards; its points are evenly spaced between them. The file does
not state the projection; it is the transverse Mercator projection around the origin on WGS84.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import DAMAGE, ArrayEntry, ArrayFile
from lithowave.readers.gridded_model import GriddedModel, require_shear_quality
from lithowave.readers.model_frames import Frame, transverse_mercator

_ORIGIN = "Origin longitude, latitude, azimuth"
_NAMES = {"vp": "Cp", "vs": "Cs", "rho": "Rho"}
_QUALITY = {"qp": "Qp", "qs": "Qs"}
_GRID_SIZE = "Horizontal grid size"


def is_sfile(entries: ArrayFile) -> bool:
    """True if the arrays and attributes of a file are those of an sfile."""
    return _ORIGIN in entries.attributes


def read_sfile(entries: ArrayFile, path: Path) -> tuple[GriddedModel, ...]:
    """Return the blocks of a file from the top down, on axes with the origin and azimuth of the file.

    Raises
    ------
    InputError : with the file and the variable: missing or damaged variables, inconsistent sizes, crossing surfaces.
    """
    origin = np.atleast_1d(np.asarray(entries.attributes[_ORIGIN]))
    if origin.shape != (3,) or origin.dtype.kind != "f" or not np.isfinite(origin).all() or abs(origin[1]) > 90.0:
        raise InputError(_ORIGIN, f"is {entries.attributes[_ORIGIN]!r}", "expected three numbers in degrees", file=path)
    longitude, latitude, azimuth = (float(each) for each in origin)
    frame = Frame("projected", transverse_mercator(longitude, latitude), (longitude, latitude), azimuth)
    count = _whole_number(entries, "ngrids", path)
    attenuation = _whole_number(entries, "Attenuation", path)
    if not 1 <= count <= 1000:
        raise InputError("ngrids", f"is {count}", "expected 1 or more", file=path)
    used: list[str] = []
    models = [_block(entries, number, bool(attenuation), frame, path, used) for number in range(count)]
    first = models[0]
    ends = [first.x[-1], first.y[-1]]
    for number, model in enumerate(models):
        if not np.allclose([model.x[-1], model.y[-1]], ends, rtol=1e-6):
            got = f"extends over {model.x[-1]:g} x {model.y[-1]:g} m, block 0 over {ends[0]:g} x {ends[1]:g} m"
            raise InputError(f"Material_model/grid_{number}", got, "all blocks must have one extent", file=path)
    unused = tuple(name for name in entries if name not in used)
    return (first.with_values(first.properties, unused=unused), *models[1:])


def _whole_number(entries: ArrayFile, name: str, path: Path) -> int:
    value = entries.attributes.get(name)
    try:
        return int(np.asarray(value).reshape(-1)[0])
    except (TypeError, ValueError, IndexError):
        raise InputError(name, f"the attribute is {value!r}", "expected a whole number", file=path) from None


def _block(
    entries: ArrayFile, number: int, attenuation: bool, frame: Frame, path: Path, used: list[str]
) -> GriddedModel:
    group = f"Material_model/grid_{number}"
    wanted = _NAMES | (_QUALITY if attenuation else {})
    arrays = {name: _array(entries, f"{group}/{stored}", 3, path, used) for name, stored in wanted.items()}
    shape = arrays["vp"].shape
    for name, values in arrays.items():
        if values.shape != shape:
            got = f"has the shape {values.shape}, Cp has {shape}"
            raise InputError(f"{group}/{wanted[name]}", got, "all must be equal", file=path)
    if min(shape) < 2:
        raise InputError(
            f"{group}/Cp", f"has the shape {shape}", "expected two points or more along each axis", file=path
        )
    size = entries.groups.get(group, {}).get(_GRID_SIZE)
    spacing = (
        float(np.asarray(size).reshape(-1)[0]) if size is not None and np.asarray(size).dtype.kind in "fiu" else np.nan
    )
    if not 0.0 < spacing < 1e7:
        raise InputError(f"{group}: {_GRID_SIZE}", f"the attribute is {size}", "expected a length in m", file=path)
    x, y = (spacing * np.arange(points) for points in shape[:2])
    surfaces = [_surface(entries, f"Z_interfaces/z_values_{number + end}", shape[:2], path, used) for end in (0, 1)]
    top, bottom = (0.0 - each for each in surfaces)
    if (bottom > top).any():
        i, j = np.argwhere(bottom > top)[0]
        got = f"is above z_values_{number} at point ({i}, {j})"
        raise InputError(f"Z_interfaces/z_values_{number + 1}", got, "surfaces are listed from the top down", file=path)
    values = {name: each[:, :, ::-1] for name, each in arrays.items()}
    quality = {name: values[name] for name in _QUALITY if attenuation}
    require_shear_quality(quality, values["vs"], path)
    return GriddedModel(
        path, x, y, np.linspace(0.0, 1.0, shape[2]), values["vp"], values["vs"], values["rho"], quality=quality,
        units={"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}, frame=frame, top=top, bottom=bottom,
    )  # fmt: skip


def _array(entries: ArrayFile, name: str, dimensions: int, path: Path, used: list[str]) -> np.ndarray:
    entry: ArrayEntry | None = entries.get(name)
    if entry is None:
        raise InputError(name, "the array is missing", f"it has: {', '.join(entries) or 'nothing'}", file=path)
    if len(entry.shape) != dimensions:
        raise InputError(name, f"has the shape {entry.shape}", f"expected {dimensions} dimensions", file=path)
    try:
        values = entry.values()
    except DAMAGE as error:
        raise InputError(name, f"cannot be read: {error}", hint="check that the file is complete", file=path) from None
    used.append(name)
    return values


def _surface(entries: ArrayFile, name: str, shape: Any, path: Path, used: list[str]) -> np.ndarray:
    """Return a surface on the points of a block, interpolated linearly if it has others over the same extent."""
    values = _array(entries, name, 2, path, used).astype(float)
    if not np.isfinite(values).all() or min(values.shape) < 2:
        raise InputError(name, "has points without a value or fewer than two along an axis", file=path)
    if values.shape == tuple(shape):
        return values
    for axis in (0, 1):
        places = np.linspace(0.0, values.shape[axis] - 1.0, shape[axis])
        below = np.minimum(places.astype(int), values.shape[axis] - 2)
        weight = (places - below).reshape([-1 if other == axis else 1 for other in (0, 1)])
        values = values.take(below, axis) * (1.0 - weight) + values.take(below + 1, axis) * weight
    return values
