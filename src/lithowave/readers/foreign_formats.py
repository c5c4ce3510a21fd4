"""Formats that lithowave does not read: what a file is, and how to convert it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.hdf5_files import open_hdf5

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
