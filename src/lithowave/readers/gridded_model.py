"""Gridded material models, from arrays and from text: vp, vs, rho and quality factors on rectilinear axes.

Horizontal coordinates are local ones, longitude and latitude, or those of a rotated map projection.

**Arrays** are in NetCDF, HDF5 or NumPy files. The file contains the variables ``vp``, ``vs`` and ``rho``, for
attenuation also ``qp`` and ``qs`` or ``qkappa`` and ``qmu`` (in a model of fluids only, the first of each pair), and
their axes ``x``, ``y`` and ``z`` (or ``depth``), each axis with coordinates of the same name. The dimensions of a
variable may be in any order if the file names them: NetCDF does, ``.npz`` and plain HDF5 files do with an entry
``axes``, for example ``["x", "y", "z"]``. Without names the order must follow from the shape, so the axes must have
different numbers of points. The default units are SI; ``units`` attributes override them. ``depth`` and an axis with
``positive: down`` become z = -depth. Axes may descend. A depth that appears twice in succession is a discontinuity,
with the values above and below it.

**Text** has one point per line, on a regular lattice in any order, with named columns. The names of the columns are in
the first line, with or without ``#``, or in the last comment before the first point, as in ``# lon lat depth vp vs
rho``. A unit may follow a name in parentheses or brackets: ``depth(km) vp[m/s]``. Columns are separated by spaces,
tabulators, commas or semicolons. Text after ``#``, ``%`` or ``!`` is a comment. The ``tomography_model.xyz`` of
SPECFEM3D is recognized by its header of four lines of numbers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import DAMAGE, ArrayEntry, ArrayFile, dimension_names, unused_names
from lithowave.readers.text import DENSITY, LENGTH, SPEED, Exponents, parse_number, read_lines, si_factor

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyproj import Transformer


@dataclass(frozen=True)
class Frame:
    """The coordinates of the first two axes of a model; the third axis is z, m, positive upwards.

    Attributes
    ----------
    kind : ``local``: x East and y North of the domain, m. ``geographic``: longitude and latitude, degrees (WGS84).
        ``projected``: distances in m from `origin` on the map of `projection`, the first axis in the direction
        `azimuth`, the second one 90 degrees clockwise from it.
    projection : PROJ text. origin : longitude and latitude, degrees. azimuth : degrees clockwise from North.
    """

    kind: Literal["local", "geographic", "projected"] = "local"
    projection: str = ""
    origin: tuple[float, float] = (0.0, 0.0)
    azimuth: float = 0.0

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of the three axes."""
        return ("longitude", "latitude", "z") if self.kind == "geographic" else ("x", "y", "z")

    @property
    def units(self) -> tuple[str, str, str]:
        """Units of the three axes."""
        return ("degrees", "degrees", "m") if self.kind == "geographic" else ("m", "m", "m")

    def from_geographic(self, longitude: npt.ArrayLike, latitude: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of points given by longitude and latitude, degrees."""
        if self.kind == "geographic":
            return np.asarray(longitude), np.asarray(latitude)
        east, north = _transformer(self.projection).transform(longitude, latitude)
        east_0, north_0 = _transformer(self.projection).transform(*self.origin)
        sine, cosine = _direction(self.azimuth)
        east, north = np.asarray(east) - east_0, np.asarray(north) - north_0
        return sine * east + cosine * north, cosine * east - sine * north

    def to_geographic(self, first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return longitude and latitude, degrees, of points given by the coordinates of this frame."""
        if self.kind == "geographic":
            return np.asarray(first), np.asarray(second)
        east_0, north_0 = _transformer(self.projection).transform(*self.origin)
        sine, cosine = _direction(self.azimuth)
        east, north = sine * first + cosine * second + east_0, cosine * first - sine * second + north_0
        longitude, latitude = _transformer(self.projection).transform(east, north, direction="INVERSE")
        return np.asarray(longitude), np.asarray(latitude)


LOCAL = Frame()
GEOGRAPHIC = Frame("geographic")


def transverse_mercator(longitude: float, latitude: float) -> str:
    """Return the PROJ text of the transverse Mercator projection around a point (degrees), in m on WGS84."""
    return f"+proj=tmerc +lat_0={latitude!r} +lon_0={longitude!r} +k=1 +ellps=WGS84 +units=m +no_defs"


def projection_problem(projection: str, origin: tuple[float, float]) -> str:
    """Return why a PROJ text cannot be used around a point (longitude, latitude in degrees); empty if it can."""
    from pyproj.exceptions import ProjError

    try:
        place = _transformer(projection).transform(*origin)
    except ProjError as error:
        return str(error)
    return "" if np.isfinite(place).all() else "the origin cannot be projected"


def _direction(azimuth: float) -> tuple[float, float]:
    return float(np.sin(np.radians(azimuth))), float(np.cos(np.radians(azimuth)))


@functools.lru_cache(maxsize=8)
def _transformer(projection: str) -> Transformer:
    from pyproj import CRS, Transformer

    target = CRS.from_user_input(projection)
    return Transformer.from_crs("EPSG:4326", target, always_xy=True)


_PROPERTIES: Mapping[str, Exponents] = {"vp": SPEED, "vs": SPEED, "rho": DENSITY}
_EXAMPLES: Mapping[Exponents, str] = {
    LENGTH: "a length such as m or km",
    SPEED: "a speed such as m/s or km/s",
    DENSITY: "a density such as kg/m^3 or g/cm^3",
}
_QUALITY = (("qp", "qs"), ("qkappa", "qmu"))
_PLAIN_UNITS = {"", "1", "-", "none", "dimensionless", "unitless"}
_GEOGRAPHIC = {"lon", "longitude", "lat", "latitude"}


@dataclass(frozen=True, eq=False)
class GriddedModel:
    """vp, vs (m/s) and rho (kg/m^3) of shape (nx, ny, nz) on ascending axes x, y, z (m), the coordinates of `frame`.

    The model is constant along an axis of one point; axes in files have two points or more.

    Attributes
    ----------
    frame : the coordinates of the first two axes, which need not be those of the domain.
    top, bottom : z (m) of the ends of the model, (nx, ny); the axis z then runs from 0 at the bottom to 1 at the top.
        None: the axis z is in m.
    notes : remarks of the reader for the user, one sentence each.
    quality : (nx, ny, nz) quality factors by name, ``qp`` and ``qs`` or ``qkappa`` and ``qmu``; empty without them.
    units : unit of each variable as the file states it; variables without one are missing.
    unused : names of the other variables of the file.
    unstated : True if the file states no unit of x and y, which may then be degrees.
    """

    path: Path
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    vp: np.ndarray
    vs: np.ndarray
    rho: np.ndarray
    quality: Mapping[str, np.ndarray] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    frame: Frame = LOCAL
    top: np.ndarray | None = None
    bottom: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    unstated: bool = False

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """Axes by name."""
        return {"x": self.x, "y": self.y, "z": self.z}

    @property
    def properties(self) -> dict[str, np.ndarray]:
        """All arrays of values by name."""
        return {"vp": self.vp, "vs": self.vs, "rho": self.rho, **self.quality}

    def with_values(self, values: Mapping[str, np.ndarray], **changes: object) -> GriddedModel:
        """Return the model with other arrays of values, by the names of `properties`, and other entries."""
        quality = {name: values[name] for name in self.quality}
        return replace(self, vp=values["vp"], vs=values["vs"], rho=values["rho"], quality=quality, **changes)

    def place(self, index: Sequence[int]) -> str:
        """Return the position of a point of the grid as text."""
        values = [float(axis[i]) for axis, i in zip(self.axes.values(), index, strict=True)]
        if self.top is not None and self.bottom is not None:
            low, high = (float(surface[index[0], index[1]]) for surface in (self.bottom, self.top))
            values[2] = low + values[2] * (high - low)
        digits = {"m": 12, "degrees": 8}
        named = zip(self.frame.names, values, self.frame.units, strict=True)
        return ", ".join(f"{name} = {value:z.{digits[unit]}g} {unit}" for name, value, unit in named)


def local_model(entries: Mapping[str, ArrayEntry], path: Path) -> GriddedModel:
    """Return the model on the axes x, y and z or depth in the arrays of a file.

    Raises
    ------
    InputError
        with the file and the variable: missing variables or axes, unknown units, geographic axes, inconsistent shapes,
        axes that are not monotonic, points without a value, a damaged file.
    """
    by_name = {name.lower(): entry for name, entry in entries.items()}
    _refuse_geographic(by_name)
    missing = [name for name in _PROPERTIES if name not in by_name]
    if missing:
        there = f"it has: {', '.join(entries) or 'nothing'}"
        raise InputError(missing[0], "the variable is missing", f"expected vp, vs and rho; {there}")
    for name in _PROPERTIES:
        _require_dimensions(by_name[name], name)
    vertical = _vertical_axis(by_name)
    axes = {name: _read_axis(by_name, name) for name in ("x", "y", vertical)}
    arrays = {name: read_property(by_name[name], name, axes) for name in _PROPERTIES}
    quality = {name: read_property(by_name[name], name, axes) for name in quality_names(by_name)}
    require_shear_quality(quality, arrays["vs"])
    units = {name: text for name in _PROPERTIES if (text := stated_units(by_name[name]))}
    unused = unused_names(entries, [by_name[name] for name in (*axes, *_PROPERTIES, *quality)])
    unstated = not any(stated_units(by_name[name]) for name in ("x", "y"))
    return replace(_ascending(path, axes, arrays, quality), units=units, unused=unused, unstated=unstated)


def quality_names(entries: Mapping[str, ArrayEntry]) -> tuple[str, ...]:
    """Return the names of the quality factors in a file, of waves or of moduli."""
    given = [tuple(name for name in pair if name in entries) for pair in _QUALITY]
    if all(given):
        got = f"the file has {', '.join((*given[0], *given[1]))}"
        raise InputError(given[1][0], got, "give either qp and qs, or qkappa and qmu")
    names = given[0] or given[1]
    for name in names:
        if (units := stated_units(entries[name])).lower() not in _PLAIN_UNITS:
            raise InputError(name, f"has the units {units!r}", "a quality factor has no unit")
    for bulk, shear in _QUALITY:
        if names == (shear,):
            raise InputError(bulk, f"the variable is missing, while {shear} is given", "give both or none")
    return names


def require_shear_quality(quality: Mapping[str, np.ndarray], vs: np.ndarray) -> None:
    for bulk, shear in _QUALITY:
        if bulk in quality and shear not in quality and (vs > 0.0).any():
            allowed = "solids have both; fluids (vs = 0) have the first one only"
            raise InputError(shear, f"the variable is missing, while {bulk} is given", allowed)


def _refuse_geographic(entries: Mapping[str, ArrayEntry]) -> None:
    used = {name.lower() for prop in _PROPERTIES if prop in entries for name in entries[prop].dimensions or ()}
    degrees = {name for name in ("x", "y") if name in entries and "degree" in stated_units(entries[name]).lower()}
    named = _GEOGRAPHIC & (used or set(entries))
    for name in sorted(named | degrees):
        raise InputError(
            name, "the model is on longitudes and latitudes", "axes must be x (East) and y (North) in meters",
            "resample it on the local coordinates of the domain (domain.to_geographic converts them)",
        )  # fmt: skip


def _require_dimensions(entry: ArrayEntry, name: str) -> None:
    """Raise an error for a variable without x or y, such as that of a two-dimensional model."""
    expected = "expected the dimensions x, y and one of z and depth"
    if not entry.dimensions:
        if len(entry.shape) != 3:
            raise InputError(name, f"has the shape {entry.shape}, not three dimensions", expected)
        return
    dimensions = [axis.lower() for axis in entry.dimensions]
    missing = [axis for axis in ("x", "y") if axis not in dimensions]
    if missing:
        got = f"has the dimensions {', '.join(dimensions)}, without {' and '.join(missing)}"
        hint = f"repeat the values at two coordinates {missing[0]} that enclose the domain" if len(missing) == 1 else ""
        raise InputError(name, got, expected, hint)


def _vertical_axis(entries: Mapping[str, ArrayEntry]) -> str:
    dimensions = entries["vp"].dimensions
    names = [name.lower() for name in dimensions] if dimensions else list(entries)
    found = [name for name in ("z", "depth") if name in names]
    if len(found) != 1:
        got = "has both z and depth" if found else "has no vertical axis"
        raise InputError("vp", got, f"expected the axes x, y and one of z and depth; it has {', '.join(names)}")
    return found[0]


def stated_units(entry: ArrayEntry) -> str:
    return str(entry.attributes.get("units", "")).strip()


def unit_factor(entry: ArrayEntry, name: str, exponents: Exponents) -> float:
    text = stated_units(entry)
    factor = si_factor(text, exponents) if text else 1.0
    if factor is None:
        hint = "domain.to_geographic converts degrees" if "degree" in text.lower() else ""
        raise InputError(name, f"has the units {text!r}", f"expected {_EXAMPLES[exponents]}", hint)
    return factor


def stored_values(entry: ArrayEntry, name: str) -> np.ndarray:
    try:
        return entry.values()
    except DAMAGE as error:
        raise InputError(name, f"cannot be read: {error}", hint="check that the file is complete") from None


def stored_axis(entries: Mapping[str, ArrayEntry], name: str) -> np.ndarray:
    """Return the coordinates of an axis as stored, two finite ones or more."""
    if name not in entries:
        raise InputError(name, "the axis has no coordinates", f"expected a variable {name}({name})")
    entry = entries[name]
    if len(entry.shape) != 1 or entry.shape[0] < 2:
        raise InputError(name, f"has the shape {entry.shape}", "expected one axis of two points or more")
    values = stored_values(entry, name).astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(name, "has a coordinate without a value", "all must be finite")
    return values


def _read_axis(entries: Mapping[str, ArrayEntry], name: str) -> np.ndarray:
    """Return coordinates in meters in the order of the file; of a vertical axis, positive upwards."""
    values = stored_axis(entries, name) * unit_factor(entries[name], name, LENGTH)
    require_monotonic(values, name, name in ("z", "depth"), " m")
    return 0.0 - values if name in ("z", "depth") and _points_down(entries[name], name, values) else values


def require_monotonic(values: np.ndarray, name: str, repeated: bool = False, unit: str = "") -> None:
    """InputError: the coordinates of an axis are not monotonic; see `first_not_monotonic`."""
    if (at := first_not_monotonic(values, repeated)) is not None:
        raise InputError(name, f"the coordinates are not monotonic: {values[at]:z.12g}{unit} at index {at}")


def first_not_monotonic(values: np.ndarray, repeated: bool) -> int | None:
    """Return the index of the first coordinate that does not continue the direction of an axis; None if all do.

    repeated : a coordinate may appear twice in succession, at the two sides of a discontinuity.
    """
    steps = np.diff(values) * np.sign(values[-1] - values[0])
    wrong = steps <= 0.0
    if repeated and steps.any():
        twice = steps == 0.0
        wrong = (steps < 0.0) | (twice & np.append(False, twice[:-1]))
    return int(np.flatnonzero(wrong)[0]) + 1 if wrong.any() else None


def blocks_of(model: GriddedModel) -> tuple[GriddedModel, ...]:
    """Return a model in blocks from the top down, which are separated where z appears twice."""
    ends = [0, *(np.flatnonzero(np.diff(model.z) == 0.0) + 1).tolist(), model.z.size]
    if len(ends) == 2:
        return (model,)
    levels = [slice(*pair) for pair in zip(ends, ends[1:], strict=False) if pair[1] - pair[0] > 1]
    return tuple(
        model.with_values({name: values[:, :, part] for name, values in model.properties.items()}, z=model.z[part])
        for part in reversed(levels)
    )


def _points_down(entry: ArrayEntry, name: str, values: np.ndarray) -> bool:
    positive = str(entry.attributes.get("positive", "")).strip().lower()
    if positive not in ("", "up", "down"):
        raise InputError(name, f"has the attribute positive = {positive!r}", "expected up or down")
    if name == "depth" and not positive and (values < 0).any():
        raise InputError(
            name,
            f"has the negative depth {values.min():.12g} m, and does not state the positive direction",
            "expected the attribute positive = down (or up, for heights)",
        )
    return positive == "down" or (name == "depth" and not positive)


def read_property(entry: ArrayEntry, name: str, axes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values in SI with axes in the order of ``axes``."""
    dimensions = dimension_names(entry, name, {axis: values.size for axis, values in axes.items()})
    values = stored_values(entry, name)
    factor = unit_factor(entry, name, _PROPERTIES[name]) if name in _PROPERTIES else 1.0
    if factor != 1.0:
        values *= values.dtype.type(factor)
    return values.transpose([dimensions.index(axis) for axis in axes])


def _ascending(
    path: Path, axes: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray], quality: Mapping[str, np.ndarray]
) -> GriddedModel:
    flips = tuple(slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in axes.values())
    x, y, z = (axis[flip] for axis, flip in zip(axes.values(), flips, strict=True))
    factors = {name: values[flips] for name, values in quality.items()}
    model = GriddedModel(path, x, y, z, **{name: values[flips] for name, values in arrays.items()}, quality=factors)
    for name in arrays:
        lacking = np.isnan(getattr(model, name))
        if lacking.any():
            place = model.place(np.unravel_index(int(lacking.argmax()), lacking.shape))
            count = f"{int(lacking.sum())} of {lacking.size} points"
            raise InputError(name, f"has no value at {place} ({count})", "every point needs one")
    return model


_KNOWN = {
    "longitude": "longitude", "lon": "longitude", "latitude": "latitude", "lat": "latitude", "x": "x", "y": "y",
    "z": "z", "depth": "depth", "dep": "depth", "elevation": "elevation",
    "vp": "vp", "vs": "vs", "rho": "rho", "density": "rho",
    "qp": "qp", "qs": "qs", "qmu": "qmu", "qkappa": "qkappa",
}  # fmt: skip
_HORIZONTAL = (("longitude", "latitude"), ("x", "y"))
_VERTICAL = ("depth", "z", "elevation")
_LARGEST = 500_000_000
"""Bytes of text above which a model should be in a binary format."""


def read_text_model(path: Path) -> ArrayFile:
    """Return the axes and arrays of a text file, as those of a binary file.

    Raises
    ------
    InputError
        with the file and the line: columns without names, a line with another number of columns, a point that is there
        twice, or points that are missing in the lattice.
    """
    if path.stat().st_size > _LARGEST:
        raise InputError("file", f"has {path.stat().st_size} bytes", "expected a NetCDF or HDF5 file")
    lines = read_lines(path, "file")
    names, units, start = _tomography_columns(lines) or _columns(lines)
    table = _table(lines, start, names)
    horizontal = next((pair for pair in _HORIZONTAL if all(name in names for name in pair)), None)
    vertical = [name for name in _VERTICAL if name in names]
    if horizontal is None or len(vertical) != 1:
        allowed = "expected longitude and latitude or x and y, and one of depth, z and elevation"
        raise InputError("columns", f"the columns are {', '.join(names)}", allowed, line=start)
    axes = (*horizontal, vertical[0])
    entries: dict[str, ArrayEntry] = {}
    order, shape = _lattice(table, names, axes, entries)
    for name in names:
        if name not in axes:
            values = table[order, names.index(name)].reshape(shape)
            entries[name] = _entry(values, axes)
    for name, unit in units.items():
        entries[name] = ArrayEntry(entries[name].shape, entries[name].dimensions, entries[name].load, {"units": unit})
    return ArrayFile(entries)


def _entry(values: np.ndarray, dimensions: tuple[str, ...]) -> ArrayEntry:
    return ArrayEntry(values.shape, dimensions, lambda: values)


def _columns(lines: list[str]) -> tuple[list[str], Mapping[str, str], int]:
    """Return the names of the columns, their units, and the number of the line with the names."""
    found: tuple[list[str], dict[str, str], int] | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        words = _words(text.lstrip("#%!").strip())
        known = [_KNOWN.get(re.sub(r"[\[(].*", "", word).lower(), "") for word in words]
        if sum(1 for name in known if name) >= 4:
            plain = [name or re.sub(r"[\[(].*", "", word).lower() for name, word in zip(known, words, strict=True)]
            units = {name: _unit(word) for name, word in zip(plain, words, strict=True) if _unit(word)}
            found = plain, units, number
        elif text[0] not in "#%!":
            break
    if found is None:
        raise InputError(
            "columns", "the columns have no names", "expected a first line such as `# lon lat depth vp vs rho`",
            "the order of columns differs between programs, so it cannot be assumed", line=1,
        )  # fmt: skip
    names = found[0]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError("columns", f"the column {twice[0]} is there twice", "", line=found[2])
    return found


def _tomography_columns(lines: list[str]) -> tuple[list[str], Mapping[str, str], int] | None:
    """Return names, units and the last line of the header of a SPECFEM tomography file; None for other files.

    The header has four lines: the ends of the axes (6 numbers), the spacings (3), the numbers of points (3) and the
    ranges of vp, vs and rho (6). Points follow, with x, y, z in m, vp, vs in m/s, rho in kg/m^3, and perhaps Qp and Qs.
    """
    header: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        text = re.split("[#%!]", line, maxsplit=1)[0].split()
        if text:
            header.append((number, text))
        if len(header) == 5:
            break
    counts = [len(words) for _, words in header]
    if counts[:4] != [6, 3, 3, 6] or not all(parse_number(word) is not None for _, words in header for word in words):
        return None
    if counts[4:] not in ([6], [8]):
        got = "the points after the header of a SPECFEM tomography file have another number of columns"
        allowed = "expected x y z vp vs rho, or x y z vp vs rho qp qs"
        raise InputError("columns", got, allowed, line=header[-1][0])
    names = ["x", "y", "z", "vp", "vs", "rho", "qp", "qs"][: counts[4]]
    return names, {}, header[3][0]


def _words(text: str) -> list[str]:
    """Return the words of a line; a unit in parentheses belongs to the word before."""
    joined = re.sub(r"\s+(?=[\[(])", "", text)
    return [word for word in re.split(r"[\s,;]+(?![^(\[]*[)\]])", joined) if word]


def _unit(word: str) -> str:
    match = re.search(r"[\[(](.*)[)\]]", word)
    return match.group(1).strip() if match else ""


def _table(lines: list[str], start: int, names: list[str]) -> np.ndarray:
    """Return the numbers, (n_points, n_columns)."""
    rows = []
    for number, line in enumerate(lines[start:], start=start + 1):
        text = re.split("[#%!]", line, maxsplit=1)[0].strip()
        if not text:
            continue
        words = [word for word in re.split(r"[\s,;]+", text) if word]
        if len(words) != len(names):
            allowed = f"expected {len(names)}: {', '.join(names)}"
            raise InputError("columns", f"has {len(words)} columns", allowed, line=number)
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise InputError("columns", f"{text[:60]!r} contains text", "expected numbers", line=number) from None
    if len(rows) < 8:
        raise InputError("points", f"the file has {len(rows)} points", "expected 8 or more")
    return np.array(rows)


def _lattice(
    table: np.ndarray, names: list[str], axes: tuple[str, ...], entries: dict[str, ArrayEntry]
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Add the axes to the entries; return the rows in the order of the lattice, and its shape."""
    indices, coordinates = [], []
    for name in axes:
        column = table[:, names.index(name)]
        if not np.isfinite(column).all():
            raise InputError(name, "has a coordinate without a value", "all must be finite")
        values, index = np.unique(column, return_inverse=True)
        if values.size < 2:
            raise InputError(name, f"is {values[0]:g} at all points", "expected two values or more")
        indices.append(index)
        coordinates.append(values)
        entries[name] = _entry(values, (name,))
    shape = tuple(values.size for values in coordinates)
    size = int(np.prod([float(count) for count in shape]))
    if size > 100 * len(table):
        got = f"its {len(table)} points have {' x '.join(map(str, shape))} different coordinates"
        raise InputError("points", got, "expected a complete lattice")
    place = np.ravel_multi_index(tuple(indices), shape)
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=size)
    for wrong, what in ((counts > 1, "is there twice"), (counts == 0, "is missing")):
        if wrong.any():
            at = np.unravel_index(int(wrong.argmax()), shape)
            point = ", ".join(
                f"{name} = {values[i]:.10g}" for name, values, i in zip(axes, coordinates, at, strict=True)
            )
            size_text = " x ".join(map(str, shape))
            got = f"the point {point} {what} ({int(wrong.sum())} such points; the lattice has {size_text})"
            raise InputError("points", got, "expected each point of a lattice once")
    return order, shape
