"""Small files that would require much memory or time are refused before, within 2 s and 500 MB."""

from __future__ import annotations

import base64
import io
import lzma
import os
import resource
import signal
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

import lithowave as lw
from input_readers import ENTRIES
from lithowave import LithowaveError
from lithowave.readers import budget, read_model
from small_run import SMALL
from small_survey import survey_text

SECONDS, MEGABYTES = 2.0, 500.0


MOST_MEMORY = 6 << 30  # of a call that fails the test, so that the machine survives it
PATIENCE = 20.0


def refusal_cost(call: Callable[[], Any]) -> tuple[str, float, float]:
    """The error of lithowave that a call raises (else what it does), its processor time, s, and its memory, MB."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        _call(call, send)
    os.close(send)
    with os.fdopen(receive, "r") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    return _parts(content)


def _parts(content: str) -> tuple[str, float, float]:
    if not content:
        return "killed, or out of patience", PATIENCE, 0.0
    numbers, _, text = content.partition("\n")
    seconds, size = map(float, numbers.split())
    return text, seconds, size


def _call(call: Callable[[], Any], send: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    before, begin = _peak(), time.process_time()
    try:
        call()
        text = "not refused"
    except LithowaveError as error:
        text = str(error)
    except BaseException as error:
        text = f"traceback: {type(error).__name__}: {error}"
    seconds = time.process_time() - begin
    os.write(send, f"{seconds} {_peak() - before}\n{text[:2000]}".encode())
    os._exit(0)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def assert_refused(call, *words: str) -> None:
    text, seconds, size = refusal_cost(call)
    assert not text.startswith(("not refused", "traceback", "killed")), text
    assert seconds < SECONDS and size < MEGABYTES, (text, seconds, size)
    for word in words:
        assert word in text, text


def laughs(levels: int) -> str:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1)]
    return "\n".join(["a0: &a0 [x]", *rows]) + "\n"


def merges(levels: int) -> str:
    rows = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], b{n}: 1}}" for n in range(1, levels)]
    return "\n".join(["a0: &a0 {x: 1, y: 2}", *rows])


def receivers(entry: str) -> str:
    return SMALL.replace("receivers:\n", f"receivers:\n  - {{network: XX, {entry}}}\n")


COUNTED = ("receivers[0]", f"allowed: {budget.RECEIVERS}")
PLANE = "plane: {prefix: P, start: [-500, -500, 0], end: [500, 500, 0], counts: [3000, 3000]}"
SHOT_LINE = "start: [-200, 0, -300], end: [200, 0, -300]"
SHOT_PLANE = "{plane: {start: [-200, -9, -300], end: [200, 9, -300], counts: [3000, 3000]}}"
TEXTS = {
    **{f"{n} levels of aliases": (laughs(n), "aliases repeat") for n in (6, 7, 40)},
    "merged groups": (merges(40), "aliases repeat"),
    **{f"{n} lists": (f"title: {'[' * n}{']' * n}", "nested") for n in (3000, 100_000)},
    **{f"{n} groups": (f"title: {'{a: ' * n}1{'}' * n}", "nested") for n in (3000, 100_000)},
    **{f"{n} entries": ("- " * n + "1", "nested") for n in (3000, 100_000)},
    "a plane of receivers": (receivers(PLANE), "9000000 receivers", *COUNTED),
    "a line of receivers": (
        receivers("line: {prefix: P, start: [-500, 0, 0], end: [500, 0, 0], count: 1000000000000}"),
        "1000000000000 receivers", *COUNTED,
    ),
    "a line of receivers at the surface": (
        receivers("line: {prefix: P, start: [-500, 0], end: [500, 0], count: 1000000000000}"), "receivers", *COUNTED,
    ),
    "a line of shots": (survey_text(f"{{line: {{{SHOT_LINE}, count: 1000000000000}}}}"), "count: makes 1e+12 shots"),
    "small steps of shots": (survey_text(f"{{line: {{{SHOT_LINE}, step: 1e-300}}}}"), "line.step: makes"),
    "a plane of shots": (survey_text(SHOT_PLANE), "plane.counts: makes 9e+06"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_small_descriptions_of_much(name):
    text, *words = TEXTS[name]
    assert_refused(lambda: lw.Simulation.from_text(text), *words)


def test_aliases_in_an_option():
    from lithowave.description import parse_overrides

    nested = "[&a [1], &b [*a, *a]]"
    assert parse_overrides([f"title={nested}"])
    deep = "[&a0 [x]" + "".join(f", &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)) + "]"
    assert_refused(lambda: parse_overrides([f"title={deep}"]), "--set title", "aliases repeat")


def test_a_few_aliases_are_accepted():
    text = SMALL.replace("position: [30, -20, -410]", "position: &p [30, -20, -410]").replace(
        "receivers:\n", "receivers:\n  - {name: A, position: *p}\n"
    )
    assert lw.Simulation.from_text(text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"solver.spacing": 1e-6}, "domain.x: the extent has 1.2e+09 grid points"),
        ({"solver.spacing": 1e-320}, "domain.x: the extent has inf grid points"),
        ({"boundaries.layer.cells": 10**8}, "domain.x"),
        ({"domain.x": [-1e9, 1e9]}, "domain.x: the extent has 2e+07 grid points"),
        ({"solver": {"method": "spectral_element", "max_frequency": 1e9}}, "mesh: layer 1: has"),
        ({"solver": {"method": "discontinuous_galerkin", "max_frequency": 1e9}}, "mesh: layer 1: has"),
    ],
)
def test_grids_and_meshes(changes, words):
    """Counts beyond any computer; smaller ones are compared with its memory."""
    simulation = lw.Simulation.from_text(SMALL).with_overrides(changes)
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(lw.InputError) as found:
        simulation.check()
    seconds, size = time.process_time() - begin, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert words in str(found.value) and seconds < SECONDS and size < MEGABYTES, (seconds, size)


def grid(count: int, zeros) -> dict[str, np.ndarray]:
    axes = {name: np.arange(float(count)) for name in "xyz"}
    return {name: zeros((count,) * 3) for name in ("vp", "vs", "rho")} | axes


def npz_bomb(path, size: int) -> None:
    """Arrays of zeros, written without making them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (size >> 23, 1024, 1024)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("vp.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for _ in range(size >> 23):
                file.write(bytes(1 << 23))


def test_npz(tmp_path):
    path = tmp_path / "model.npz"
    npz_bomb(path, 512 << 20)
    assert path.stat().st_size < 2 << 20
    for entry in ("model", "surface", "perturbation"):
        assert_refused(lambda entry=entry: ENTRIES[entry].read(path), "Write the file without compression")
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vp.npy", buffer.getvalue() + bytes(80))
    assert_refused(lambda: read_model(path), "vp.npy declares")


def test_hdf5(tmp_path):
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        for name in ("vp", "vs", "rho"):
            file.create_dataset(name, (998, 999, 1000), "f8", chunks=(100, 100, 100), fillvalue=3.0)
        for name, count in zip("xyz", (998, 999, 1000), strict=True):
            file[name] = np.arange(float(count))
    for entry in ("model", "surface", "perturbation"):
        assert_refused(lambda entry=entry: ENTRIES[entry].read(path))
    assert_refused(lambda: read_model(path), "without compression")
    with h5py.File(path, "w") as file:  # one chunk of 4 GB for an array of 8 numbers
        for name in ("vp", "vs", "rho"):
            file.create_dataset(name, (2, 3, 4), "f8", maxshape=(None,) * 3, chunks=(800, 800, 800), fillvalue=3.0)
        for name, count in zip("xyz", (2, 3, 4), strict=True):
            file[name] = np.arange(float(count))
    assert_refused(lambda: read_model(path), "without compression")


def test_a_compressed_model_is_accepted(tmp_path):
    """Homogeneous models are compressed by a factor of 1000."""
    arrays = {name: 3e3 * array if array.ndim > 1 else array for name, array in grid(100, np.ones).items()}
    np.savez_compressed(tmp_path / "model.npz", **arrays, axes=["x", "y", "z"])
    (model,) = read_model(tmp_path / "model.npz")
    assert model.vp.shape == (100, 100, 100)


def test_srf_in_hdf5(tmp_path):
    path = tmp_path / "fault.h5"
    points = [("LONGITUDE", "f8"), ("LATITUDE", "f8")] + [
        (name, "f8") for name in ("DEP", "STK", "DIP", "AREA", "TINIT", "DT", "VS", "DEN", "RAKE")
    ]
    points += [(name, "i8" if name.startswith("NT") else "f8") for n in (1, 2, 3) for name in (f"SLIP{n}", f"NT{n}")]
    with h5py.File(path, "w") as file:
        file.attrs["VERSION"] = 2.0
        table = np.zeros(1, points)
        table["NT1"] = 1 << 30
        file["POINTS"] = table
        file.create_dataset("SR1", (1 << 30,), "f4", chunks=(1 << 20,), fillvalue=1.0)
    assert path.stat().st_size < 20_000
    assert_refused(lambda: ENTRIES["fault"].read(path), "without compression")


VTU = """<?xml version="1.0"?>
<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian" header_type="UInt32"
 compressor="{name}"><UnstructuredGrid><Piece NumberOfPoints="{n}" NumberOfCells="1"><Points>
<DataArray type="Float64" Name="Points" NumberOfComponents="3" format="{format}"{offset}>{points}</DataArray></Points>
<Cells><DataArray type="Int64" Name="connectivity" format="ascii">0 1 2 3</DataArray>
<DataArray type="Int64" Name="offsets" format="ascii">4</DataArray>
<DataArray type="Int64" Name="types" format="ascii">10</DataArray></Cells></Piece></UnstructuredGrid>{end}</VTKFile>
"""


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("compression", ["zlib", "lzma"])
def test_vtu(tmp_path, compression, appended):
    pytest.importorskip("meshio")
    size = 320 << 20
    pack = zlib.compressobj(1) if compression == "zlib" else lzma.LZMACompressor(preset=0)
    block = b"".join(pack.compress(bytes(1 << 20)) for _ in range(size >> 20)) + pack.flush()
    header = np.array([1, 1 << 20, 0, len(block)], np.uint32).tobytes()
    text = (base64.b64encode(header) + base64.b64encode(block)).decode()
    name = {"zlib": "vtkZLibDataCompressor", "lzma": "vtkLZMADataCompressor"}[compression]
    values = {"n": size // 24, "name": name, "format": "binary", "offset": "", "points": text, "end": ""}
    if appended:
        values |= {"format": "appended", "offset": ' offset="0"', "points": ""}
        values["end"] = f'<AppendedData encoding="base64">_{text}</AppendedData>'
    path = tmp_path / "mesh.vtu"
    path.write_text(VTU.format(**values))
    for entry in ("tetrahedra", "hexahedra"):
        assert_refused(lambda entry=entry: ENTRIES[entry].read(path), "without compression")


def test_entities_in_vtu(tmp_path):
    pytest.importorskip("meshio")
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    path = tmp_path / "mesh.vtu"
    path.write_text(f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "x">{entities}]>' + VTU[22:])
    assert_refused(lambda: ENTRIES["tetrahedra"].read(path), "DOCTYPE")


LONG = 40 << 20


@pytest.mark.parametrize(
    ("entry", "name", "begin", "part"),
    [
        ("model", "model.txt", "# x y z vp vs rho\n", "1 "), ("model", "model.txt", "", "x y z vp vs rho "),
        ("model", "model.txt", "# x y z vp vs rho\n", "1"), ("stations", "STATIONS", "", "A "),
        ("station table", "stations.csv", "name,x,y\n", "a,"), ("shots", "shots.csv", "", "a,"),
        ("samples", "stf.txt", "", "1 "), ("samples", "stf.txt", "", "1"), ("fault", "fault.srf", "2.0\n", "1 "),
        ("fault", "fault.srf", "", "2"), ("events", "CMTSOLUTION", "PDE ", "1 "),
        ("radial model", "model.nd", "", "1 "), ("radial model", "model.nd", "", "1"),
        ("radial model", "model.bm", "", "A "),
    ],
)  # fmt: skip
def test_a_line_without_end(tmp_path, entry, name, begin, part):
    path = tmp_path / name
    path.write_text(begin + part * (LONG // len(part)) + "\n")
    assert_refused(lambda: ENTRIES[entry].read(path))


@pytest.mark.parametrize("name", ["stations.xml", "event.xml"])
@pytest.mark.parametrize("kind", ["text", "attribute", "name"])
def test_an_element_without_end(tmp_path, name, kind):
    long = "x" * (60 << 20)
    body = {"text": f"<a>{long}</a>", "attribute": f'<a b="{long}"/>', "name": f"<{long}/>"}[kind]
    (tmp_path / name).write_text(f'<?xml version="1.0"?><FDSNStationXML>{body}</FDSNStationXML>')
    entry = "stationxml" if name == "stations.xml" else "events"
    assert_refused(lambda: ENTRIES[entry].read(tmp_path / name))


@pytest.mark.parametrize("kind", ["link to a pipe", "link in a group", "external storage", "virtual", "soft link"])
@pytest.mark.parametrize(
    ("entry", "name"),
    [("model", "m.h5"), ("surface", "m.nc"), ("fault", "m.h5"), ("observed", "m.h5"), ("seismograms", "seismograms.h5"),
     ("hexahedra", "m.exo"), ("perturbation", "m.nc"), ("checkpoint", "run/checkpoint/checkpoint.h5")],
)  # fmt: skip
def test_hdf5_that_refers_to_other_files(tmp_path, kind, entry, name):
    path, pipe, secret = tmp_path / name, tmp_path / "pipe", tmp_path / "secret"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    secret.write_bytes(np.full(64, 3e3).tobytes())
    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = "ASDF"
        if kind == "link to a pipe":
            file["vp"] = h5py.ExternalLink(str(pipe), "/vp")
        elif kind == "link in a group":
            file["Waveforms/vp"] = h5py.ExternalLink(str(pipe), "/vp")
        elif kind == "external storage":
            file.create_dataset("vp", (4, 4, 4), "f8", external=[(str(secret), 0, 512)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((4, 4, 4), "f8")
            layout[...] = h5py.VirtualSource(str(pipe), "vp", (4, 4, 4))
            file.create_virtual_dataset("vp", layout)
        else:
            file["other"] = h5py.ExternalLink(str(pipe), "/")
            file["vp"] = h5py.SoftLink("/other/vp")
    assert_refused(lambda: ENTRIES[entry].read(path), "" if entry == "checkpoint" else "is in another file")


def test_pipes_and_devices_are_not_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        text = SMALL.replace("receivers:\n", f"receivers:\n  - {{file: {path}}}\n")
        assert_refused(lambda text=text: lw.Simulation.from_text(text), "does not exist")
    assert_refused(lambda: lw.Simulation.from_file("/dev/zero"))
