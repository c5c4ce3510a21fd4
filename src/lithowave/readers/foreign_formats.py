"""Formats of files, identified by their content, and HDF5 files of other programs.

**Seismograms.** ObsPy tries all its formats if the format is not stated, among them one that executes code from the
file (pickle), and formats whose files name other files. lithowave therefore identifies the format and accepts only
those listed here.

**HDF5** files of other programs must not refer to other files: external links, external storage and virtual datasets
would read any file of this machine, or wait for a pipe.

Of formats that lithowave does not read, `foreign_text` states what a file is, and how to convert it.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.errors import InputError
from lithowave.readers.budget import ExpandedSize

if TYPE_CHECKING:
    import h5py
    import numpy as np
    from h5py import h5o

HEAD_BYTES = 3600
"""Number of bytes from the start of a file that `waveform_format` requires."""

NAMES = "MiniSEED, SAC, SEG-Y, SEG-2, GSE, K-NET, SLIST, TSPAIR"

_SEED_RECORD = re.compile(rb"[\d \0]{6}[DRQMVAST ][ \0]?")
_STARTS = {b"WID2": "GSE2", b"WID1": "GSE1", b"XW01": "GSE1", b"Origin Time": "KNET"}
_STARTS |= {b"\x55\x3a": "SEG2", b"\x3a\x55": "SEG2"}
_SAC_VERSIONS = (6, 7)
_SAC_HEADER, _SEGY_HEADERS = 632, 3600
_SEGY_SAMPLES = (1, 2, 3, 4, 5, 8)


def waveform_format(head: bytes) -> str | None:
    """Return ObsPy's name of the format of a file that begins with these bytes; None if it is not one of `NAMES`."""
    for start, name in _STARTS.items():
        if head.startswith(start):
            return name
    if head.startswith(b"TIMESERIES"):
        line = head.partition(b"\n")[0]
        return next((name for name in ("SLIST", "TSPAIR") if name.encode() in line), None)
    if _SEED_RECORD.match(head) and head[:6].strip(b" \0").isdigit():
        return "MSEED"
    if len(head) >= _SAC_HEADER and _is_sac(head):
        return "SAC"
    if len(head) >= _SEGY_HEADERS and _is_segy(head):
        return "SEGY"
    return None


def _is_sac(head: bytes) -> bool:
    """True for a binary SAC header of either byte order: its version, and flags that are -12345, 0 or 1."""
    for order in "<>":
        version, flags = struct.unpack_from(f"{order}i", head, 304)[0], struct.unpack_from(f"{order}4i", head, 420)
        if version in _SAC_VERSIONS and all(flag in (-12345, 0, 1) for flag in flags):
            return True
    return False


def _is_segy(head: bytes) -> bool:
    """True for a binary SEG-Y header of either byte order with a known sample format and positive numbers of samples
    and microseconds between them."""
    for order in "<>":
        interval, _, count, _, kind = struct.unpack_from(f"{order}5H", head, 3216)
        if kind in _SEGY_SAMPLES and interval > 0 and count > 0:
            return True
    return False


_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\1"
_SEARCHED = 64 << 20
"""Bytes from the start of a file in which heaps are examined."""
_MOST_TEXTS = 1_000_000


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a file.

    Raises
    ------
    ValueError : the file refers to other files. OSError : it cannot be read.
    """
    require_heaps(path)
    with open_shared(path) as file:
        try:
            refuse_references(file)
        except (KeyError, RuntimeError, TypeError) as error:  # what h5py raises for damaged files
            raise ValueError(f"it is damaged: {error}") from None
        yield file


def open_shared(path: Path) -> h5py.File:
    """Open a file for reading without a lock, also while the same process has it open in another mode.

    HDF5 then refuses to open it by name; a Python file has no name for HDF5. OSError : the file cannot be read.
    """
    import h5py

    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if path.is_file():
            with suppress(Exception):
                return _open_stream(path)
        raise error from None


def _open_stream(path: Path) -> h5py.File:
    """Open a file for reading through a Python file."""
    import h5py

    class StreamedFile(h5py.File):
        def close(self) -> None:
            super().close()
            stream.close()

    stream = open(path, "rb")
    try:
        return StreamedFile(stream, "r")
    except BaseException:
        stream.close()
        raise


def is_hdf5(path: Path) -> bool:
    """True if a file has the signature of HDF5 at its start, or after a user block of 512, 1024, ... bytes."""
    with path.open("rb") as file:
        end, place = file.seek(0, SEEK_END), 0
        while place < end:
            file.seek(place)
            if file.read(len(_SIGNATURE)) == _SIGNATURE:
                return True
            place = max(512, 2 * place)
    return False


def require_heaps(path: Path) -> None:
    """Raise ValueError for a damaged heap of texts, in which the HDF5 library would search without end.

    A heap begins with GCOL, its version and its size, followed by objects: number (0: free space), three other entries
    and size, which is 0 only for objects in use. Heaps are near the start of a file.
    """
    with path.open("rb") as file:
        data = file.read(_SEARCHED)
    start, count = data.find(_HEAP), 0
    while start >= 0:
        position, end = start + 16, start + min(int.from_bytes(data[start + 8 : start + 16], "little"), len(data))
        while position + 16 <= min(end, len(data)):
            number = int.from_bytes(data[position : position + 2], "little")
            size = int.from_bytes(data[position + 8 : position + 16], "little")
            count += 1
            if (number == 0 and size == 0) or count > _MOST_TEXTS:
                raise ValueError("it is damaged: a heap has free space without a size, or too many texts")
            position += size if number == 0 else 16 + size + -size % 8
        start = data.find(_HEAP, start + 4)


def refuse_references(file: h5py.File) -> None:
    """Raise ValueError if a link or a dataset of an open file refers to another file; no link is followed.

    Attributes that declare more bytes than the file are refused, too.
    """
    from h5py import h5d, h5l, h5o

    _require_attributes(file.id, file)
    links: list[tuple[bytes, int]] = []
    file.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
    for name, kind in links:
        refused = kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT)
        if kind == h5l.TYPE_HARD:
            item = h5o.open(file.id, name)
            _require_attributes(item, file)
            if isinstance(item, h5d.DatasetID):
                properties = item.get_create_plist()
                refused = bool(properties.get_external_count()) or properties.get_layout() == h5d.VIRTUAL
        if refused:
            text = name.decode("utf-8", "replace")
            raise ValueError(f"{text} is in another file; expected a file that contains all of its data")


def _require_attributes(item: h5o.ObjectID, file: h5py.File) -> None:
    """Raise ValueError if an attribute of an object is larger than its file, which contains it without compression."""
    from h5py import h5a

    for index in range(h5a.get_num_attrs(item)):
        size = h5a.open(item, index=index).get_storage_size()
        if size > file.id.get_filesize():
            raise ValueError(f"an attribute declares {size} bytes, more than the file contains")


def read_dataset(dataset: h5py.Dataset, size: ExpandedSize) -> np.ndarray:
    """Return all values of a dataset.

    Raises
    ------
    ValueError : the dataset, or one of its chunks, is larger than the budget of its file.
    """
    count = max(dataset.size or 0, math.prod(dataset.chunks or (0,)))
    size.add(count * dataset.dtype.itemsize)
    return dataset[()]


_GDAL = "convert it with GDAL: gdal_translate -of netCDF {name} {stem}.nc"
_MESHIO = "convert it with meshio: meshio convert {name} {stem}.vtu"
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"II*\0", "a TIFF image", _GDAL), (b"MM\0*", "a TIFF image", _GDAL),
    (b"DSAA", "a grid of Surfer", _GDAL), (b"DSBB", "a grid of Surfer", _GDAL), (b"DSRB", "a grid of Surfer", _GDAL),
    (b"# vtk DataFile", "a legacy VTK file", "for a mesh: meshio convert {name} {stem}.vtu; for a model: write its "
     "arrays with numpy.savez or xarray"),
    (b"MATLAB 5.0", "a MATLAB file", "read it with scipy.io.loadmat('{name}'), and write its arrays with "
     "numpy.savez('{stem}.npz', ...)"),
    (b"\x0e\x03\x13\x01", "an HDF4 file", "convert it with h4toh5, or with GDAL"),
    (b"CDF\x05", "a classic NetCDF file with 64-bit data (CDF-5)", "convert it: nccopy -k nc4 {name} {stem}_nc4.nc"),
    (b"GRIB", "a GRIB file", "convert it with CDO: cdo -f nc copy {name} {stem}.nc"),
    (b"\x1f\x8b", "compressed by gzip", "unpack it: gunzip {name}"),
    (b"BZh", "compressed by bzip2", "unpack it: bunzip2 {name}"),
    (b"\xfd7zXZ", "compressed by xz", "unpack it: unxz {name}"),
    (b"7z\xbc\xaf", "a 7-Zip archive", "unpack it"),
    (b"GOCAD", "a GOCAD object", "export the model as text with the columns x y z vp vs rho, or the surface as a grid"),
    (b"solid ", "an STL surface", "mesh the volume, for example with Gmsh, and save it as .msh"),
    (b"%PDF", "a PDF document", ""),
)  # fmt: skip
_SUFFIXES = {
    ".hgt": ("an SRTM tile", _GDAL), ".asc": ("a text grid of Esri", _GDAL), ".tif": ("a TIFF image", _GDAL),
    ".stl": ("an STL surface", "mesh the volume, for example with Gmsh, and save it as .msh"),
    ".inp": ("a mesh of Abaqus", _MESHIO), ".cgns": ("a CGNS mesh", _MESHIO), ".med": ("a MED mesh of Salome", _MESHIO),
    ".bdf": ("a mesh of Nastran", _MESHIO), ".nas": ("a mesh of Nastran", _MESHIO), ".xdmf": ("an XDMF mesh", _MESHIO),
    ".vtk": ("a legacy VTK file", _MESHIO), ".unv": ("an I-deas mesh", _MESHIO), ".mesh": ("a mesh of Medit", _MESHIO),
    ".su2": ("a mesh of SU2", _MESHIO), ".cub": ("a file of Cubit", "in Cubit: export mesh '{stem}.exo'"),
    ".cas": ("a mesh of Fluent", _MESHIO),
    ".pvtu": ("a parallel VTU file", "in ParaView save the data as one .vtu file"),
    ".geo": ("a geometry of Gmsh", "mesh it: gmsh -3 {name} -o {stem}.msh"),
    ".step": ("a CAD geometry", "mesh it, for example: gmsh -3 {name} -o {stem}.msh"),
    ".stp": ("a CAD geometry", "mesh it, for example: gmsh -3 {name} -o {stem}.msh"),
    ".kml": ("a KML file", "write its places to a CSV file: station,longitude,latitude"),
    ".shp": ("a shape file", "write its places to a CSV file: station,longitude,latitude"),
    ".ndk": ("a catalog of the Global CMT project (ndk)", "obspy.read_events('{name}').write('{stem}.xml', 'QUAKEML')"),
    ".fsp": ("a finite source of SRCMOD", "convert it to the Standard Rupture Format (.srf)"),
    ".segy": ("a SEG-Y file", "as sections of a model: material: {{section: {{vp: ..., vs: ..., rho: ...}}}}"),
    ".sgy": ("a SEG-Y file", "as sections of a model: material: {{section: {{vp: ..., vs: ..., rho: ...}}}}"),
    ".nrf": ("a NetCDF rupture of SeisSol", "use the .srf file of which rconv made it"),
}  # fmt: skip
_HDF5 = b"\x89HDF\r\n\x1a\n"
_PUML = (
    "a mesh of SeisSol (PUML)",
    "give the .msh or .neu file from which PUMGen has made it, or convert the tetrahedra and their groups: "
    "f = h5py.File('{name}'); meshio.write('{stem}.vtu', meshio.Mesh(f['geometry'][:], [('tetra', f['connect'][:])], "
    "cell_data={{'material': [f['group'][:]]}})); the planes of the bounding box then define the boundaries",
)
_NDK = re.compile(rb"\S+\s+\d{4}/\d\d/\d\d\s+\d\d:\d\d:")
_ESRI = re.compile(rb"ncols\s+\d+\s+nrows\s+\d+", re.IGNORECASE)


def foreign_format(path: Path, by_name: bool = True) -> tuple[str, str] | None:
    """Return what a file is and how to convert it, as clauses; None for formats that are not known.

    The first bytes decide, then, if ``by_name``, the end of the name.
    """
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        head = b""
    found = next(((what, how) for mark, what, how in _SIGNATURES if head.startswith(mark)), None)
    if found is None and _NDK.match(head):
        found = _SUFFIXES[".ndk"]
    if found is None and _ESRI.match(head.lstrip()):
        found = _SUFFIXES[".asc"]
    if found is None and b"FINITE-SOURCE RUPTURE MODEL" in head.upper():
        found = _SUFFIXES[".fsp"]
    if found is None and head.startswith(_HDF5) and _is_puml(path):
        found = _PUML
    if found is None and by_name:
        found = _SUFFIXES.get(path.suffix.lower())
    if found is None:
        return None
    what, how = found
    return what, how.format(name=path.name, stem=path.stem)


def _is_puml(path: Path) -> bool:
    """True if an HDF5 file has the datasets of a mesh of SeisSol."""
    try:
        with open_hdf5(path) as file:
            return {"connect", "geometry", "boundary", "group"} <= set(file)
    except (OSError, ValueError, RuntimeError):
        return False


def foreign_text(path: Path) -> tuple[str, str]:
    """Return the text ``: it is a TIFF image`` and the remedy; two empty texts for formats that are not known."""
    found = foreign_format(path)
    return ("", "") if found is None else (f": it is {found[0]}", found[1])


@contextmanager
def naming_foreign(path: Path, what: str) -> Iterator[None]:
    """Replace the error of a reader of text by one that states what the file is, if its first bytes show it."""
    try:
        yield
    except InputError as error:
        found = foreign_format(path, by_name=False)
        if found is None:
            raise
        raise InputError(what, f"the file is {found[0]}", error.allowed, found[1], file=path) from None
