"""Files of formats that are not read: the error states what the file is and how to convert it."""

from __future__ import annotations

import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest

from lithowave import InputError
from lithowave.mesh import read_hexahedral_mesh, read_tetrahedral_mesh, right_handed, tetrahedral_box
from lithowave.readers import read_events, read_model, read_srf, read_stations, read_surface

NDK = b"MLI  1976/01/01 01:29:39.6 -28.61 -177.64  59.0 6.2 0.0 KERMADEC ISLANDS REGION\n"
ESRI = b"ncols 3\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2 3\n4 5 6\n"


@pytest.mark.parametrize(
    ("name", "content", "read", "words"),
    [
        ("dem.tif", b"II*\0" + bytes(99), read_surface, ("a TIFF image", "gdal_translate -of netCDF dem.tif dem.nc")),
        ("dem.asc", ESRI, read_surface, ("it is a text grid of Esri", "gdal_translate")),
        ("dem.asc", ESRI, read_model, ("the file is a text grid of Esri", "gdal_translate")),
        ("a.mat", b"MATLAB 5.0 MAT-file, \0\1IM", read_model, ("it is a MATLAB file", "scipy.io.loadmat('a.mat')")),
        ("m.nc", b"CDF\5" + bytes(99), read_model, ("with 64-bit data (CDF-5)", "nccopy -k nc4 m.nc m_nc4.nc")),
        ("m.nc.gz", gzip.compress(b"CDF", mtime=0), read_model, ("it is compressed by gzip", "gunzip m.nc.gz")),
        ("a.inp", b"*HEADING\n", read_tetrahedral_mesh, ("it is a mesh of Abaqus", "meshio convert a.inp a.vtu")),
        ("a.stl", b"solid a\n", read_hexahedral_mesh, ("it is an STL surface", "Gmsh")),
        ("catalog.ndk", NDK, read_events, ("a catalog of the Global CMT project (ndk)", "read_events")),
        ("catalog", NDK, read_events, ("the file is a catalog of the Global CMT project (ndk)", "QUAKEML")),
        ("s.fsp", b"% ---- FINITE-SOURCE RUPTURE MODEL\n", read_srf, ("is a finite source of SRCMOD", ".srf")),
        ("S", gzip.compress(b"A B 1 2 3 4", mtime=0), read_stations, ("is compressed by gzip", "gunzip S")),
    ],
)  # fmt: skip
def test_the_format_is_named(tmp_path: Path, name: str, content: bytes, read, words) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refused:
        read(tmp_path / name)
    assert all(word in str(refused.value) for word in words), str(refused.value)
    assert refused.value.file == tmp_path / name


def test_a_mesh_of_seissol_is_named_and_its_conversion_works(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    box, path = tetrahedral_box((0, 200), (0, 200), (-200, 0), 100.0), tmp_path / "a.puml.h5"
    with h5py.File(path, "w") as file:
        file["geometry"], file["connect"] = box.vertices, right_handed(box.vertices, box.elements)
        file["group"], file["boundary"] = np.ones(box.element_count, np.int32), np.zeros(box.element_count, np.int32)
    for read in (read_tetrahedral_mesh, read_hexahedral_mesh):
        with pytest.raises(InputError, match=r"it is a mesh of SeisSol \(PUML\)") as refused:
            read(path)
    code = refused.value.hint.partition("groups: ")[2].partition("; the planes")[0]
    exec(code.replace("'a.puml", f"'{tmp_path}/a.puml"), {"h5py": h5py, "meshio": meshio})
    assert read_tetrahedral_mesh(tmp_path / "a.puml.vtu").element_count == box.element_count
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["connect"] = [1]
    with pytest.raises(InputError, match=r"the file extension \.h5 is not known; allowed"):
        read_tetrahedral_mesh(tmp_path / "other.h5")
