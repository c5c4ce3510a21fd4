"""Damaged files of all formats, of a fixed seed: readers return a result or raise an error of lithowave, soon.

Each format is tried in a process of its own, since libraries of binary formats may end it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from input_readers import ENTRIES
from lithowave import LithowaveError
from lithowave.errors import Interruption
from small_run import SMALL, signal_after, spawn, write_small

COUNT, FEW = 100, 5
PATIENCE = 10  # s for one file
DATA = Path(__file__).parents[1] / "data"
EVIL = ["-1", "0", "9" * 5000, "1e999", "nan", "-0.0", "1" * 19, "1e-300", "x", "", "2147483648", "1e300", "[", "\0"]
WORDS = [0, 1, -1, 2**31 - 1, -(2**31), 2**20, 7]


def mutations(content: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Damaged contents: changed bits, bytes, numbers and words, missing, repeated and exchanged parts."""
    random = np.random.default_rng(seed)
    numbers = [match.span() for match in re.finditer(rb"\d[\d.]*(?:[eE][-+]?\d+)?", content)]
    is_text = b"\0" not in content
    for _ in range(count):
        data = bytearray(content)
        for _ in range(int(random.integers(1, 4))):
            kind = int(random.integers(0, 8 if is_text and numbers else 7))
            first, second = sorted(random.integers(0, len(data) + 1, 2).tolist())
            if not data:
                break
            place = int(random.integers(0, len(data)))
            if kind == 0:
                data[place] ^= 1 << int(random.integers(0, 8))
            elif kind == 1:
                data[place] = int(random.integers(0, 256))
            elif kind == 2:
                del data[first:]
            elif kind == 3:
                del data[first : min(second, first + 200)]
            elif kind == 4:
                data[first:first] = data[first : min(second, first + 200)]
            elif kind == 5:
                data[first : min(second, first + 64)] = bytes(min(second, first + 64) - first)
            elif kind == 6:
                word = int(random.choice(WORDS)).to_bytes(4, str(random.choice(["little", "big"])), signed=True)
                data[place : place + 4] = word
            else:
                begin, end = numbers[int(random.integers(0, len(numbers)))]
                data[begin:end] = str(random.choice(EVIL)).encode()
        yield bytes(data)


def attempt(read: Callable[[Path], Any], path: Path, number: object, note: Callable[[str], None]) -> None:
    """Read a file, and note an exception that is not one of lithowave; too long a time ends this process."""
    note(f"{number}: begun")
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        read(path)
    except (LithowaveError, Interruption):
        pass
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{number}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})"
        note(text.replace("\n", " ")[:1000])
    signal.setitimer(signal.ITIMER_REAL, 0)


def noted(lines: list[str]) -> list[str]:
    """The problems among the lines of `attempt`, which end with `end` unless the process was killed."""
    found = [line for line in lines if not line.endswith(": begun") and line != "end"]
    return found if lines[-1:] == ["end"] else [*found, f"{lines[-1:]}, then killed or out of patience"]


def problems(folder: Path, name: str, contents: Iterator[bytes], read: Callable[[Path], Any]) -> list[str]:
    """The exceptions that are not those of lithowave, or files that take too long, by number of the file."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries of C print errors
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            path.write_bytes(content)
            attempt(read, path, number, lambda line: os.write(send, line.encode("utf-8", "replace") + b"\n") and None)
        os.write(send, b"end\n")
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    return noted(lines)


# Sound files of each format


def _obspy(kind: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import obspy

        head = {"network": "XX", "station": "A", "channel": "HHZ", "delta": 0.01}
        stream = obspy.Stream([obspy.Trace(np.sin(np.arange(300.0)).astype(np.float32), head)])
        stream.write(str(path), format=kind, **({"data_encoding": 5} if kind == "SEGY" else {}))

    return write


def _module(module: str, function: str, *arguments: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        if module == "test_segy_geometry":
            pytest.importorskip("segyio")
        if module in ("model_files", "test_gmt_grids", "test_perturbation_models"):
            pytest.importorskip("netCDF4")
        getattr(__import__(module), function)(path, *arguments)

    return write


def _text(module: str, name: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(getattr(__import__(module), name))


def _copy(name: str) -> Callable[[Path], None]:
    return lambda path: shutil.copy(DATA / name, path) and None


def _srf(path: Path) -> None:
    from test_srf import made_subfaults, srf_text, write_hdf5

    if path.suffix == ".h5":
        write_hdf5(path, made_subfaults())
    else:
        path.write_text(srf_text(made_subfaults(), "2.0"))


def _arrays(path: Path) -> None:
    grid = {name: np.arange(float(count)) for name, count in zip("xyz", (4, 5, 6), strict=True)}
    np.savez_compressed(path, **grid, **{name: np.full((4, 5, 6), 3e3) for name in ("vp", "vs", "rho")})


def _surface(path: Path) -> None:
    np.savez(path, x=np.arange(4.0), y=np.arange(5.0), elevation=np.zeros((5, 4)))


def _quakeml(path: Path) -> None:
    from test_quakeml import EVENT, quakeml

    path.write_text(quakeml(EVENT))


def _neu(path: Path) -> None:
    from test_gambit import sample

    path.write_text(sample())


def _vtu(path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, -1], [1, 1, -1.0]])
    cells = [("tetra", np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))]
    meshio.Mesh(points, cells, cell_data={"material": [np.array([1, 2])]}).write(path)


def _exodus(path: Path) -> None:
    from test_mesh_reading import cubes, exodus, merged

    exodus(path, merged(cubes((2, 2, 1))))


def _asdf(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = np.bytes_("ASDF")
        data = file.create_dataset("Waveforms/XX.A/XX.A..HHZ__1__2__t", data=np.arange(100.0))
        data.attrs["sampling_rate"], data.attrs["starttime"] = 100.0, 10**18


DESCRIPTION = SMALL + "\n"
SEEDS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "description": ("description", "simulation.yaml", lambda path: path.write_text(DESCRIPTION)),
    "CMTSOLUTION": ("events", "CMTSOLUTION", _copy("chino_hills_2008/CMTSOLUTION")),
    "QuakeML": ("events", "event.xml", _quakeml),
    "SRF": ("fault", "fault.srf", _srf), "SRF in HDF5": ("fault", "fault.h5", _srf),
    "samples": ("samples", "stf.txt", lambda path: path.write_text("0 0.0\n0.1 1.5e-3\n0.2 0.7\n0.3 0\n")),
    "NetCDF-4": ("model", "model.nc", _module("model_files", "write_emc")),
    "NetCDF": ("model", "model.nc", _module("model_files", "write_emc", "NETCDF3_CLASSIC")),
    "npz": ("model", "model.npz", _arrays), "text model": ("model", "m.txt", _module("test_text_models", "write")),
    "rfile": ("model", "model.rfile", _module("test_sw4_models", "rfile")),
    "sfile": ("model", "model.h5", _module("test_sw4_models", "sfile")),
    "perturbation": ("perturbation", "model.nc", _module("test_perturbation_models", "write")),
    "nd": ("radial model", "a.nd", _text("test_radial_models", "ND")),
    "tvel": ("radial model", "a.tvel", _text("test_radial_models", "TVEL")),
    "bm": ("radial model", "a.bm", _text("test_radial_models", "BM")),
    "deck": ("radial model", "a.txt", _text("test_radial_models", "DECK")),
    "table": ("radial model", "a.csv", _text("test_radial_models", "TABLE")),
    "surface": ("surface", "a.npz", _surface), "GMT": ("surface", "a.nc", _module("test_gmt_grids", "write")),
    "GMT 3": ("surface", "a.nc", _module("test_gmt_grids", "write_old")),
    "section": ("section", "a.segy", _obspy("SEGY")),
    "geometry": ("geometry", "a.segy", _module("test_segy_geometry", "write")),
    "shots in SEG-Y": ("shots", "a.segy", _module("test_segy_geometry", "write")),
    "shots": ("shots", "shots.csv", lambda path: path.write_text("name,x,y,z\nA,1,2,-3\nB,4,5,-6\n")),
    "STATIONS": ("stations", "STATIONS", _copy("chino_hills_2008/STATIONS")),
    "station table": ("station table", "a.csv", lambda path: path.write_text("station,x,y\nA,1,2\nB,3.5,4e1\n")),
    "StationXML": ("stationxml", "a.xml", _text("test_stationxml", "GOOD")),
    "Gmsh 2": ("hexahedra", "a.msh", _copy("hexahedra/hex8_msh2.msh")),
    "Gmsh 4": ("hexahedra", "a.msh", _copy("hexahedra/hex8_msh4.msh")),
    "Gmsh, binary": ("hexahedra", "a.msh", _copy("hexahedra/hex27_msh4_binary.msh")),
    "Gmsh of hexahedra as tetrahedra": ("tetrahedra", "a.msh", _copy("hexahedra/hex8_msh2.msh")),
    "GAMBIT": ("tetrahedra", "a.neu", _neu), "VTU": ("tetrahedra", "a.vtu", _vtu),
    "VTU of tetrahedra as hexahedra": ("hexahedra", "a.vtu", _vtu), "Exodus": ("hexahedra", "a.exo", _exodus),
    "MiniSEED": ("observed", "a.mseed", _obspy("MSEED")), "SAC": ("observed", "a.sac", _obspy("SAC")),
    "observed SEG-Y": ("observed", "a.segy", _obspy("SEGY")), "ASDF": ("observed", "a.h5", _asdf),
    "GSE": ("observed", "a.gse", _obspy("SLIST")),
}  # fmt: skip
LINES = {
    "description", "samples", "text model", "nd", "tvel", "bm", "deck", "table", "shots", "STATIONS", "station table",
    "geometry", "GSE",
}  # fmt: skip
"""Formats of which some parts are files, too: of whole lines or traces."""
COUNTS = [pytest.param(FEW, id="few"), pytest.param(COUNT, id="many", marks=pytest.mark.slow)]


def sound_file(folder: Path, kind: str) -> Path:
    """Write the sound file of a kind."""
    entry, name, write = SEEDS[kind]
    path = folder / "sound" / name
    path.parent.mkdir()
    if entry in ("observed", "section"):
        pytest.importorskip("obspy")
    write(path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", SEEDS)
def test_damaged_input(tmp_path, kind, count):
    sound, read = sound_file(tmp_path, kind), ENTRIES[SEEDS[kind][0]].read
    damaged = mutations(sound.read_bytes(), sum(map(ord, kind)), count)
    assert problems(tmp_path / "damaged", sound.name, damaged, read) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SEEDS)
def test_cut_input(tmp_path, kind):
    """A file that ends too early is refused by its name; of tables of lines, some parts are files, too."""
    sound, read = sound_file(tmp_path, kind), ENTRIES[SEEDS[kind][0]].read
    whole = sound.read_bytes().rstrip(b"\0" if kind == "MiniSEED" else None)
    accepted = 0
    for length in {*range(0, len(whole), max(1, len(whole) // 60)), len(whole) // 2, len(whole) - 1}:
        sound.write_bytes(whole[:length])
        try:
            read(sound)
            accepted += 1
        except LithowaveError as error:
            assert sound.name in str(error), (length, str(error))
    assert accepted == 0 or kind in LINES, accepted


RUN_FILES = [
    "run.json", "simulation.yaml", "seismograms.h5", "snapshots/volume.vtkhdf", "snapshots/plane_z_0.vtkhdf", "log.txt",
    "checkpoint/checkpoint.h5", "checkpoint/step_000000071/rank_0000.h5", "checkpoint/previous.h5", "progress.json",
]  # fmt: skip


def damage_runs(sound: Path, folder: Path, count: int) -> None:
    """Restart a run of which one file is damaged, and read its state and results; print the lines of `attempt`.

    In a process of its own, since threads of Numba do not survive a fork.
    """
    from lithowave.output import load_peak_motion, load_snapshots, open_checkpoint
    from lithowave.run import restart_run
    from lithowave.shots import state_of

    calls = (
        lambda path: state_of(folder).text(), lambda path: lw.load_seismograms(folder),
        lambda path: load_peak_motion(folder), lambda path: load_snapshots(path).close(),
        lambda path: open_checkpoint(folder, "x"), lambda path: restart_run(folder),
    )  # fmt: skip
    warnings.simplefilter("ignore")
    shutil.copytree(sound, folder)
    assert restart_run(folder).complete
    for name in RUN_FILES:
        source = sound / name
        content = source.read_bytes() if source.exists() else b'{"step": 3, "steps": 5}'
        for number, damaged in enumerate(mutations(content, sum(map(ord, name)), count)):
            shutil.rmtree(folder)
            shutil.copytree(sound, folder)
            (folder / name).write_bytes(damaged)
            for index, call in enumerate(calls):
                attempt(call, folder / name, f"{name} {number} {index}", lambda line: print(line, flush=True))
    print("end")


@pytest.mark.parametrize("count", [pytest.param(2, id="few"), pytest.param(30, id="many", marks=pytest.mark.slow)])
def test_damaged_run_folders(tmp_path, count):
    sound = tmp_path / "sound"
    process = spawn("run", write_small(tmp_path), "--output", sound, before=signal_after(71, signal.SIGTERM))
    assert process.returncode == 128 + signal.SIGTERM, process.errors
    arguments = [sys.executable, __file__, str(sound), str(tmp_path / "run"), str(count)]
    paths = os.pathsep.join([str(Path(lw.__file__).parents[1]), str(Path(spawn.__code__.co_filename).parent)])
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=900, env=os.environ | {"PYTHONPATH": paths}
    )
    assert noted(done.stdout.splitlines()) == [], done.stderr[-3000:]


if __name__ == "__main__":
    damage_runs(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
