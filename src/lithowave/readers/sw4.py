"""Material files of SW4: rfile and sfile.

**Raster files** (rfile) have blocks of regular grids with different spacing, in a rotated map projection. The file
begins with int32 magic = 1 (which states the byte order), int32 bytes per value (4 or 8), int32 attenuation (0 or 1),
float64 azimuth of the first axis, longitude and latitude of the origin (degrees), int32 length of the PROJ text, the
text, and int32 number of blocks. Each block has a header of float64 horizontal spacing, vertical spacing and top (m,
positive downwards), and int32 numbers of components and of points along the three axes. The values follow, with the
component as the fastest index, then the third, second and first axis. The first block has one component, the elevation
of the topography in m; the others have rho, vp, vs and with attenuation qp, qs, in SI.

Values above the topography are not those of rock; they are replaced by the first values below it in the same column.
Points below it with negative values have no value.

**HDF5 files** (sfile) have curvilinear grids between surfaces, in a rotated map projection. The file has the attributes
``Origin longitude, latitude, azimuth`` (degrees), ``ngrids`` and ``Attenuation``. The group ``Material_model`` has a
group ``grid_i`` for each block from the top down, with the attribute ``Horizontal grid size`` (m) and the arrays
``Rho``, ``Cp``, ``Cs`` and with attenuation ``Qp``, ``Qs`` (SI; first axis along the azimuth, second axis 90 degrees
clockwise from it, third axis downwards). ``Z_interfaces/z_values_i`` and ``z_values_(i+1)`` are the upper and lower
surface of block i in m, positive downwards; its points are evenly spaced between them. The file does not state the
projection; it is the transverse Mercator projection around the origin on WGS84.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import DAMAGE, ArrayEntry, ArrayFile, nearest_complete
from lithowave.readers.gridded_model import (
    Frame,
    GriddedModel,
    projection_problem,
    require_shear_quality,
    transverse_mercator,
)

_MAGIC = 1
_MOST_BLOCKS = 1000
_LONGEST_TEXT = 10_000
_MATERIAL = {3: ("rho", "vp", "vs"), 5: ("rho", "vp", "vs", "qp", "qs")}


@dataclass(frozen=True)
class _Block:
    """Header of a block: spacings and top in m, numbers of components and points, and position of its values."""

    horizontal: float
    vertical: float
    top: float
    components: int
    shape: tuple[int, int, int]
    offset: int = 0

    @property
    def count(self) -> int:
        return self.components * math.prod(self.shape)


def is_rfile(head: bytes) -> bool:
    """True if the first 12 bytes of a file are those of an rfile of any byte order."""
    return len(head) >= 12 and any(
        struct.unpack(order + "ii", head[:8]) in ((_MAGIC, 4), (_MAGIC, 8)) for order in "<>"
    )


def read_rfile(path: Path) -> tuple[GriddedModel, ...]:
    """Return the material blocks of a file from the top down, on axes with the origin and azimuth of the file.

    Raises
    ------
    InputError : with the file and the byte or block: a damaged or truncated file, or values that cannot be.
    """
    data = np.memmap(path, dtype=np.uint8, mode="r")
    order = "<" if data[:4].tobytes() == struct.pack("<i", _MAGIC) else ">"
    header = _Header(data, order)
    _, precision, attenuation = header.take("iii", "the first numbers")
    azimuth, longitude, latitude = header.take("ddd", "the origin")
    if attenuation not in (0, 1):
        raise _refused("byte 8", f"attenuation is {attenuation}", "expected 0 or 1")
    if not (abs(azimuth) <= 360.0 and abs(longitude) <= 360.0 and abs(latitude) <= 90.0):
        got = f"azimuth, longitude and latitude are {azimuth:g}, {longitude:g} and {latitude:g}"
        raise _refused("byte 12", got, "expected degrees")
    (length,) = header.take("i", "the length of the projection")
    if not 0 <= length <= _LONGEST_TEXT:
        raise _refused("byte 36", f"the length of the projection is {length}", f"expected 0 to {_LONGEST_TEXT}")
    text = header.text(length)
    (count,) = header.take("i", "the number of blocks")
    if not 2 <= count <= _MOST_BLOCKS:
        allowed = "expected 2 or more: the topography and the material"
        raise _refused(f"byte {header.position - 4}", f"the number of blocks is {count}", allowed)
    blocks = [_rfile_block(header, number) for number in range(count)]
    placed = _located(blocks, header.position, precision, data.size)
    topography, *material = placed
    if topography.components != 1 or topography.shape[2] != 1:
        raise _refused("block 1", f"has {topography.components} components", "expected the topography, with one")
    frame = _frame(text, (longitude, latitude), azimuth)
    elevation = _values(data, topography, order, precision)[:, :, 0, 0]
    axes = tuple(topography.horizontal * np.arange(size) for size in topography.shape[:2])
    return tuple(
        _model(block, number, _values(data, block, order, precision), attenuation, frame, (axes, elevation), path)
        for number, block in enumerate(material, start=2)
    )


class _Header:
    """A position in the header, which advances as its parts are read."""

    def __init__(self, data: np.ndarray, order: str) -> None:
        self.data, self.order, self.position = data, order, 0

    def take(self, code: str, what: str) -> tuple[Any, ...]:
        size = struct.calcsize(self.order + code)
        if self.position + size > self.data.size:
            raise _refused(f"byte {self.position}", f"the file ends before {what}", "")
        piece = self.data[self.position : self.position + size].tobytes()
        self.position += size
        return struct.unpack(self.order + code, piece)

    def text(self, length: int) -> str:
        (raw,) = self.take(f"{length}s", "the end of the projection")
        return raw.decode("ascii", "replace").strip("\0 \n")


def _refused(where: str, got: str, allowed: str) -> InputError:
    return InputError(where, got, allowed, "check that the file is a complete rfile of SW4")


def _rfile_block(header: _Header, number: int) -> _Block:
    start = header.position
    horizontal, vertical, top = header.take("ddd", f"the header of block {number + 1}")
    components, *shape = header.take("iiii", f"the header of block {number + 1}")
    spacings = [horizontal] if number == 0 else [horizontal, vertical]
    if not all(0.0 < spacing < 1e7 for spacing in spacings) or (number and not abs(top) < 1e7):
        got = f"spacings and top of block {number + 1} are {horizontal:g}, {vertical:g} and {top:g} m"
        raise _refused(f"byte {start}", got, "expected positive spacings")
    if not 1 <= components <= 5 or min(shape) < 1 or min(shape[:2]) < 2:
        got = f"block {number + 1} has {components} components and {shape[0]} x {shape[1]} x {shape[2]} points"
        raise _refused(f"byte {start + 24}", got, "expected two or more points along horizontal axes")
    return _Block(horizontal, vertical, top, components, (shape[0], shape[1], shape[2]))


def _located(blocks: list[_Block], offset: int, precision: int, size: int) -> list[_Block]:
    """Return the blocks with the positions of their values, after comparing their number with the file's length."""
    needed = offset + precision * sum(block.count for block in blocks)
    if needed != size:
        got = f"the header describes {needed} bytes, but the file has {size}"
        raise _refused("file", got, "")
    placed = []
    for block in blocks:
        placed.append(replace(block, offset=offset))
        offset += precision * block.count
    return placed


def _values(data: np.ndarray, block: _Block, order: str, precision: int) -> np.ndarray:
    """Return the values of a block, (n1, n2, n3, components)."""
    raw = data[block.offset : block.offset + precision * block.count]
    values = np.frombuffer(raw.tobytes(), dtype=f"{order}f{precision}").reshape(*block.shape, block.components)
    return values.astype(f"f{precision}")


def _frame(text: str, origin: tuple[float, float], azimuth: float) -> Frame:
    projection = text or transverse_mercator(*origin)
    if problem := projection_problem(projection, origin):
        raise InputError("projection", f"{projection!r} cannot be used: {problem}", "expected a PROJ text")
    return Frame("projected", projection, origin, azimuth)


def _model(
    block: _Block, number: int, values: np.ndarray, attenuation: int, frame: Frame,
    topography: tuple[tuple[np.ndarray, ...], np.ndarray], path: Path,
) -> GriddedModel:  # fmt: skip
    names = _MATERIAL.get(block.components)
    if names is None or (attenuation and len(names) == 3):
        allowed = "expected rho, vp, vs, and with attenuation qp, qs"
        raise _refused(f"block {number}", f"has {block.components} components", allowed)
    x, y = (block.horizontal * np.arange(count) for count in block.shape[:2])
    depth = block.top + block.vertical * np.arange(block.shape[2])
    arrays = {name: values[:, :, ::-1, index] for index, name in enumerate(names)}
    notes: tuple[str, ...] = ()
    if names[-1] == "qs" and not attenuation:
        notes = ("its header states no attenuation, so that its quality factors are not used",)
    height = -depth[::-1] - _elevation(topography, x, y)[:, :, None]
    without = (arrays["vp"] < 0.0) | (arrays["rho"] < 0.0)
    air = (height > 1e-3) | (without & (height > -block.vertical))
    arrays = {name: np.where(without & ~air, np.nan, each) for name, each in arrays.items()}
    if air.any() and not air.all():
        source = nearest_complete(air)
        arrays = {name: each[source] for name, each in arrays.items()}
    quality = {name: arrays[name] for name in ("qp", "qs") if attenuation}
    return GriddedModel(
        path, x, y, -depth[::-1] + 0.0, arrays["vp"], arrays["vs"], arrays["rho"], quality=quality,
        units={"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}, frame=frame, notes=notes,
    )  # fmt: skip


def _elevation(topography: tuple[tuple[np.ndarray, ...], np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the elevation at the points of another grid, m, by linear interpolation."""
    (first, second), elevation = topography
    rows = np.array([np.interp(x, first, elevation[:, j]) for j in range(second.size)])
    return np.array([np.interp(y, second, rows[:, i]) for i in range(x.size)])


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
        raise InputError(_ORIGIN, f"is {entries.attributes[_ORIGIN]!r}", "expected three numbers in degrees")
    longitude, latitude, azimuth = (float(each) for each in origin)
    frame = Frame("projected", transverse_mercator(longitude, latitude), (longitude, latitude), azimuth)
    count = _whole_number(entries, "ngrids")
    attenuation = _whole_number(entries, "Attenuation")
    if not 1 <= count <= 1000:
        raise InputError("ngrids", f"is {count}", "expected 1 or more")
    used: list[str] = []
    models = [_sfile_block(entries, number, bool(attenuation), frame, path, used) for number in range(count)]
    first = models[0]
    ends = [first.x[-1], first.y[-1]]
    for number, model in enumerate(models):
        if not np.allclose([model.x[-1], model.y[-1]], ends, rtol=1e-6):
            got = f"extends over {model.x[-1]:g} x {model.y[-1]:g} m, block 0 over {ends[0]:g} x {ends[1]:g} m"
            raise InputError(f"Material_model/grid_{number}", got, "all blocks must have one extent")
    unused = tuple(name for name in entries if name not in used)
    return (first.with_values(first.properties, unused=unused), *models[1:])


def _whole_number(entries: ArrayFile, name: str) -> int:
    value = entries.attributes.get(name)
    try:
        return int(np.asarray(value).reshape(-1)[0])
    except (TypeError, ValueError, IndexError):
        raise InputError(name, f"the attribute is {value!r}", "expected a whole number") from None


def _sfile_block(
    entries: ArrayFile, number: int, attenuation: bool, frame: Frame, path: Path, used: list[str]
) -> GriddedModel:
    group = f"Material_model/grid_{number}"
    wanted = _NAMES | (_QUALITY if attenuation else {})
    arrays = {name: _array(entries, f"{group}/{stored}", 3, used) for name, stored in wanted.items()}
    shape = arrays["vp"].shape
    for name, values in arrays.items():
        if values.shape != shape:
            got = f"has the shape {values.shape}, Cp has {shape}"
            raise InputError(f"{group}/{wanted[name]}", got, "all must be equal")
    if min(shape) < 2:
        raise InputError(f"{group}/Cp", f"has the shape {shape}", "expected two points or more along each axis")
    size = entries.groups.get(group, {}).get(_GRID_SIZE)
    spacing = (
        float(np.asarray(size).reshape(-1)[0]) if size is not None and np.asarray(size).dtype.kind in "fiu" else np.nan
    )
    if not 0.0 < spacing < 1e7:
        raise InputError(f"{group}: {_GRID_SIZE}", f"the attribute is {size}", "expected a length in m")
    x, y = (spacing * np.arange(points) for points in shape[:2])
    surfaces = [_surface(entries, f"Z_interfaces/z_values_{number + end}", shape[:2], used) for end in (0, 1)]
    top, bottom = (0.0 - each for each in surfaces)
    if (bottom > top).any():
        i, j = np.argwhere(bottom > top)[0]
        got = f"is above z_values_{number} at point ({i}, {j})"
        raise InputError(f"Z_interfaces/z_values_{number + 1}", got, "surfaces are listed from the top down")
    rising = {name: each[:, :, ::-1] for name, each in arrays.items()}
    quality = {name: rising[name] for name in _QUALITY if attenuation}
    require_shear_quality(quality, rising["vs"])
    return GriddedModel(
        path, x, y, np.linspace(0.0, 1.0, shape[2]), rising["vp"], rising["vs"], rising["rho"], quality=quality,
        units={"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}, frame=frame, top=top, bottom=bottom,
    )  # fmt: skip


def _array(entries: ArrayFile, name: str, dimensions: int, used: list[str]) -> np.ndarray:
    entry: ArrayEntry | None = entries.get(name)
    if entry is None:
        raise InputError(name, "the array is missing", f"it has: {', '.join(entries) or 'nothing'}")
    if len(entry.shape) != dimensions:
        raise InputError(name, f"has the shape {entry.shape}", f"expected {dimensions} dimensions")
    try:
        values = entry.values()
    except DAMAGE as error:
        raise InputError(name, f"cannot be read: {error}", hint="check that the file is complete") from None
    used.append(name)
    return values


def _surface(entries: ArrayFile, name: str, shape: tuple[int, ...], used: list[str]) -> np.ndarray:
    """Return a surface on the points of a block, interpolated linearly if it has others over the same extent."""
    values = _array(entries, name, 2, used).astype(float)
    if not np.isfinite(values).all() or min(values.shape) < 2:
        raise InputError(name, "has points without a value or fewer than two along an axis")
    if values.shape == tuple(shape):
        return values
    for axis in (0, 1):
        places = np.linspace(0.0, values.shape[axis] - 1.0, shape[axis])
        below = np.minimum(places.astype(int), values.shape[axis] - 2)
        weight = (places - below).reshape([-1 if other == axis else 1 for other in (0, 1)])
        values = values.take(below, axis) * (1.0 - weight) + values.take(below + 1, axis) * weight
    return values
