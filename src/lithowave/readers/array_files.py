"""Named arrays from NetCDF (classic and NetCDF-4), HDF5 and NumPy ``.npz`` files, identified by their first bytes.

Grid points without a value get one where it does not matter.

NetCDF names the dimensions of each variable. In ``.npz`` and plain HDF5 files the entry `AXES` may name the dimensions
of all arrays with more than one dimension.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.budget import ExpandedSize
from lithowave.readers.foreign_formats import foreign_text, open_hdf5, read_dataset
from lithowave.readers.text import with_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import h5py
    from scipy.io import netcdf_file
    from scipy.io._netcdf import netcdf_variable

    from lithowave.json_types import Entries, ReadEntries


def nearest_complete(lacking: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return for each grid point the index of a complete point near it.

    This is the point itself if it is complete; otherwise the nearest complete point along the last axis, or if there is
    none, that of the nearest point along the axis before, and so on.

    Parameters
    ----------
    lacking : True at points without a value; there must be others.
    """
    index = [np.array(each) for each in np.indices(lacking.shape)]
    missing, far = lacking.copy(), np.iinfo(int).max // 2
    for axis in reversed(range(lacking.ndim)):
        count = lacking.shape[axis]
        positions = np.arange(count).reshape([-1 if other == axis else 1 for other in range(lacking.ndim)])
        before = np.maximum.accumulate(np.where(missing, -1, positions), axis=axis)
        reverse = np.flip(np.where(missing, count, positions), axis)
        after = np.flip(np.minimum.accumulate(reverse, axis=axis), axis)
        to_before = np.where(before < 0, far, positions - before)
        to_after = np.where(after >= count, far, after - positions)
        source = np.clip(np.where(to_before <= to_after, before, after), 0, count - 1)
        found = missing & ((before >= 0) | (after < count))
        index = [np.where(found, np.take_along_axis(each, source, axis), each) for each in index]
        missing &= ~found
    return tuple(index)


DAMAGE = (
    OSError, RuntimeError, ValueError, KeyError, EOFError, OverflowError, struct.error, zipfile.BadZipFile, zlib.error,
    MemoryError,
)  # fmt: skip
"""Exceptions that the readers of these formats raise for damaged files."""

_MAPPED = 1 << 26
"""Size of classic NetCDF files, bytes, beyond which they are mapped into memory and not read as a whole."""

_DEFAULT_FILL = 9.9692e36
"""Slightly less than the value that NetCDF stores for missing floating-point values."""


AXES = "axes"
"""Entry of ``.npz`` and HDF5 files with the names of the dimensions, for example ``["x", "y", "z"]``."""


@dataclass(frozen=True)
class ArrayEntry:
    """One array of a file: read when ``values()`` is called.

    Attributes
    ----------
    shape : its shape.
    dimensions : name of each axis, or None when the file does not say.
    attributes : its attributes (``units``, ``positive``, ``_FillValue`` ...).
    load : reads the values as stored.
    """

    shape: tuple[int, ...]
    dimensions: tuple[str, ...] | None
    load: Callable[[], np.ndarray]
    attributes: ReadEntries = field(default_factory=dict)

    def values(self) -> np.ndarray:
        """Return the values, unpacked by ``scale_factor`` and ``add_offset``; NaN for missing values."""
        stored = np.asarray(self.load())
        if stored.dtype.kind not in "fiu":
            raise ValueError(f"it contains {stored.dtype}, not numbers")
        values = stored.astype(np.float32 if stored.dtype == np.float32 else np.float64)
        scale, offset = self.attributes.get("scale_factor"), self.attributes.get("add_offset")
        if scale is not None or offset is not None:
            values = values * float(1.0 if scale is None else scale) + float(0.0 if offset is None else offset)
        for name in ("_FillValue", "missing_value"):
            for mark in np.atleast_1d(self.attributes.get(name, [])):
                values[stored == mark] = np.nan
        if stored.dtype.kind == "f":
            values[np.isfinite(stored) & (np.abs(stored) > _DEFAULT_FILL)] = np.nan
        return values


class ArrayFile(dict[str, ArrayEntry]):
    """The arrays of a file by name, and the attributes of the file itself and of its groups."""

    def __init__(
        self,
        entries: Mapping[str, ArrayEntry],
        attributes: ReadEntries | None = None,
        groups: Mapping[str, ReadEntries] | None = None,
    ) -> None:
        super().__init__(entries)
        self.attributes: ReadEntries = attributes or {}
        self.groups: Mapping[str, ReadEntries] = groups or {}


@contextmanager
def open_arrays(path: Path, what: str = "gridded model") -> Iterator[ArrayFile]:
    """Open the arrays of a file by name; in HDF5 and NetCDF-4, arrays in groups have names such as ``group/vp``.

    Parameters
    ----------
    what : purpose of the file, for messages.

    Raises
    ------
    InputError
        The format is unknown, or the file is damaged or truncated.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
        with _opener(head, path, what)(path) as entries:
            yield ArrayFile(name_dimensions(entries), entries.attributes, entries.groups)
    except InputError as error:
        raise with_file(error, path) from None
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(what, f"cannot be read: {reason}", hint="check that the file is complete", file=path) from None


def name_dimensions(entries: Mapping[str, ArrayEntry]) -> Mapping[str, ArrayEntry]:
    """Return the entries with the dimensions that the entry `AXES` names, if the file has such an entry."""
    named = entries.get(AXES)
    if named is None or named.dimensions:
        return entries
    texts = [_plain(text) for text in np.atleast_1d(named.load())]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(AXES, "does not hold text", 'expected names such as ["x", "y", "z"]')
    dimensions = tuple(str(text) for text in texts)
    return {
        name: replace(entry, dimensions=dimensions) if len(entry.shape) > 1 and not entry.dimensions else entry
        for name, entry in entries.items()
        if name != AXES
    }


def dimension_names(entry: ArrayEntry, name: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the dimensions of an array, in their order in the file.

    The file states them, or they follow from the shape if exactly one order of the axes has this shape.

    Parameters
    ----------
    sizes : number of coordinates of each axis, by name.

    Raises
    ------
    InputError
        The dimensions are not the axes, the shape is not that of the axes, or several orders of the axes have it.
    """
    axes = ", ".join(sizes)
    if entry.dimensions:
        names = tuple(axis.lower() for axis in entry.dimensions)
        if sorted(names) != sorted(sizes):
            raise InputError(name, f"has the axes {', '.join(names)}", f"expected {axes}")
        if entry.shape != (expected := tuple(sizes[axis] for axis in names)):
            allowed = f"expected {expected} for the axes {', '.join(names)}"
            raise InputError(name, f"has the shape {entry.shape}", allowed)
        return names
    orders = [order for order in permutations(sizes) if tuple(sizes[axis] for axis in order) == entry.shape]
    if not orders:
        allowed = f"expected {tuple(sizes.values())} for the axes {axes}, or these in another order"
        raise InputError(name, f"has the shape {entry.shape}", allowed)
    if len(orders) > 1:
        raise _ambiguous_order(entry, name, sizes)
    return orders[0]


def named_by_coordinates(entries: ArrayFile) -> ArrayFile:
    """Return the entries with dimensions that have the names of their coordinates.

    The coordinates of a dimension without a variable of its name are the only one-dimensional variable on it, such as
    ``depth(dimdep)``; other dimensions keep their names.
    """
    known = {name.lower() for name in entries}
    coordinates: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if entry.dimensions is not None and len(entry.dimensions) == 1 and entry.dimensions[0].lower() not in known:
            coordinates.setdefault(entry.dimensions[0], []).append(name)
    names = {dimension: found[0] for dimension, found in coordinates.items() if len(found) == 1}
    if not names:
        return entries
    renamed = {
        name: replace(entry, dimensions=tuple(names.get(dimension, dimension) for dimension in entry.dimensions))
        if entry.dimensions
        else entry
        for name, entry in entries.items()
    }
    return ArrayFile(renamed, entries.attributes, entries.groups)


def unused_names(entries: Mapping[str, ArrayEntry], used: Iterable[ArrayEntry]) -> tuple[str, ...]:
    """Return the names of the entries that a reader has not used."""
    identities = {id(entry) for entry in used}
    return tuple(name for name, entry in entries.items() if id(entry) not in identities)


def _ambiguous_order(entry: ArrayEntry, name: str, sizes: Mapping[str, int]) -> InputError:
    """Return the error for an array whose dimensions have no names and do not follow from its shape."""
    *others, last = [axis for axis in sizes if list(sizes.values()).count(sizes[axis]) > 1]
    example = str(list(sizes)).replace("'", '"')
    return InputError(
        name,
        f"has the shape {entry.shape} and no names of its dimensions; {', '.join(others)} and {last} have the same "
        "number of points, so the order of the axes is unknown",
        "name the dimensions, or use different numbers of points",
        f"Add the entry {AXES} to the file, for example {AXES}={example} in numpy.savez for the order "
        f"[{', '.join(sizes)}]",
    )


def _opener(head: bytes, path: Path, what: str) -> Callable[[Path], AbstractContextManager[ArrayFile]]:
    if head == b"\x89HDF\r\n\x1a\n":
        return _open_hdf5
    if head[:4] in (b"CDF\x01", b"CDF\x02"):
        return _open_classic_netcdf
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _open_npz
    kinds = "expected NetCDF, HDF5 or NumPy's .npz"
    kind, remedy = foreign_text(path) if head else ("", "")
    raise InputError(
        what, "the file is empty" if not head else f"the file format is unknown{kind}", kinds, remedy, file=path
    )


@contextmanager
def _open_hdf5(path: Path) -> Iterator[ArrayFile]:
    import h5py

    with open_hdf5(path) as file:
        datasets = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        datasets |= {item.name.strip("/"): item for item in _nested_datasets(file) if item not in datasets.values()}
        size = ExpandedSize(path)
        entries = {
            name: ArrayEntry(
                item.shape, _hdf5_dimensions(item), lambda item=item: read_dataset(item, size), _hdf5_attributes(item)
            )
            for name, item in datasets.items()
            if not _is_bare_dimension(item)
        }
        groups: dict[str, ReadEntries] = {}
        file.visititems(
            lambda name, item: groups.update({name: _hdf5_attributes(item)}) if isinstance(item, h5py.Group) else None
        )
        yield ArrayFile(entries, _hdf5_attributes(file), groups)


def _nested_datasets(file: h5py.File) -> list[h5py.Dataset]:
    """Return the datasets in groups of a file."""
    import h5py

    found: list[h5py.Dataset] = []
    file.visititems(lambda name, item: found.append(item) if "/" in name and isinstance(item, h5py.Dataset) else None)
    return found


def _hdf5_attributes(dataset: h5py.Dataset) -> Entries:
    """Return the attributes of a dataset or a file."""
    skipped = {"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates"}
    return {name: _plain(dataset.attrs[name]) for name in dataset.attrs if name not in skipped}


def _is_bare_dimension(dataset: h5py.Dataset) -> bool:
    """True if NetCDF-4 uses this dataset only to store the length of an axis without coordinates."""
    return str(_plain(dataset.attrs.get("NAME", ""))).startswith("This is a netCDF dimension but not")


def _hdf5_dimensions(dataset: h5py.Dataset) -> tuple[str, ...] | None:
    if dataset.ndim == 1 and dataset.is_scale:
        return (dataset.name.rsplit("/", 1)[-1],)
    names = [dimension[0].name.rsplit("/", 1)[-1] if len(dimension) else dimension.label for dimension in dataset.dims]
    return tuple(names) if all(names) else None


@contextmanager
def _open_classic_netcdf(path: Path) -> Iterator[ArrayFile]:
    from scipy.io import netcdf_file

    try:
        file = netcdf_file(str(path), mmap=path.stat().st_size > _MAPPED)
        if file._recs < 0 or any("data" in item._attributes for item in file.variables.values()):
            raise ValueError("no number of records, or an attribute with the name data")
        # Values are copied, since SciPy closes a mapped file only if nothing refers to it.
        entries = {
            _utf8(name): ArrayEntry(
                item.data.shape,
                tuple(map(_utf8, item.dimensions)),
                lambda name=name: (data := file.variables[name].data).astype(data.dtype.newbyteorder("=")),
                _netcdf_attributes(item),
            )
            for name, item in file.variables.items()
        }
        attributes = _netcdf_attributes(file)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"the header is damaged, or the file ends too early ({error})") from None
    with file:
        yield ArrayFile(entries, attributes)


def _netcdf_attributes(item: netcdf_variable | netcdf_file) -> Entries:
    """Return the attributes of a variable or of the file."""
    return {_utf8(name): _plain(value) for name, value in item._attributes.items()}


def _utf8(name: str) -> str:
    """Return a name of classic NetCDF, which is UTF-8; SciPy decodes names as Latin-1."""
    return name.encode("latin-1").decode("utf-8")


@contextmanager
def _open_npz(path: Path) -> Iterator[ArrayFile]:
    # The file is opened here because NumPy does not close a damaged file.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        size = ExpandedSize(path)
        for item in file.zip.infolist():
            size.add(_array_bytes(file.zip, item))
        arrays = {name: file[name] for name in file.files}
    yield ArrayFile({name: ArrayEntry(array.shape, None, lambda array=array: array) for name, array in arrays.items()})


def _array_bytes(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> int:
    """Return the size of an array in an archive; ValueError if it differs from the size in the archive."""
    with archive.open(item) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    size = math.prod(shape) * dtype.itemsize
    if size > item.file_size:
        raise ValueError(f"{item.filename} declares {size} bytes, but has {item.file_size}")
    return item.file_size


def _plain(value: object) -> Any:
    """Return an attribute value as text or numbers, independent of its storage in the file."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def cover_problem(
    path: Path, extents: Iterable[tuple[str, Sequence[float] | np.ndarray]], domain: Mapping[str, tuple[float, float]]
) -> tuple[str, str, str] | None:
    """Return the first axis (from its name and its points or ends, m) that does not cover a domain, None if all do.

    Returns (name of the axis, what it covers, what it must cover).
    """
    for name, points in extents:
        (first, last), (low, high) = (points[0], points[-1]), domain[name]
        tolerance = 1e-6 * (last - first)
        if first > low + tolerance or last < high - tolerance:
            got = f"{path} covers {name} = {first:z.12g} to {last:z.12g} m"
            return name, got, f"it must cover the domain, {low:z.12g} to {high:z.12g} m"
    return None
