"""Files of users are data: no reader executes code from them, expands wildcards in their names or unpacks archives."""

from __future__ import annotations

import ast
import io
import pickle
import pkgutil
import zipfile
from functools import cache
from importlib import import_module
from inspect import getmembers, isfunction, signature
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
import lithowave.readers
from input_readers import ENTRIES, files
from lithowave.output import read_observed
from lithowave.readers import waveform_format

SOURCE = Path(lw.__file__).parent
INNER = {"read_text_model", "read_rfile", "read_hdf5_tables", "read_bytes", "read_lines", "read_table"}
INNER |= {"read_gmsh", "read_gambit", "read_mesh_file", "read_xml", "read_cmtsolutions"}
INNER |= {"read_quakeml", "read_forcesolutions", "read_exodus", "read_specfem_mesh"}


HEADER = {"network": "XX", "station": "A", "channel": "HHZ", "delta": 0.01}


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def hostile(path: Path, mark: Path, kind: str) -> None:
    """Write a pickle, or a file with a pickle inside."""
    if kind == "stream":
        pytest.importorskip("obspy")
        import obspy

        stream = obspy.Stream([obspy.Trace(np.zeros(3))])
        stream[0].stats.mark = Touch(mark)
        path.write_bytes(pickle.dumps(stream))
    elif kind.startswith("protocol"):
        path.write_bytes(pickle.dumps(Touch(mark), protocol=int(kind[-1])))
    else:
        array = np.array([Touch(mark)], dtype=object)
        if kind == "npz":
            with path.open("wb") as file:
                np.savez(file, vp=array, vs=array, rho=array, x=array, y=array, z=array, axes=array)
        elif kind == "npy":
            with path.open("wb") as file:
                np.save(file, array)


KINDS = ("protocol0", "protocol2", "protocol4", "stream", "npz", "npy")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("entry", "name"), [*files()])
def test_a_pickle_is_refused_and_not_executed(tmp_path, entry, name, kind):
    path, mark = tmp_path / "folder" / name, tmp_path / "executed"
    path.parent.mkdir(parents=True)
    hostile(path, mark, kind)
    with pytest.raises(lw.LithowaveError):
        ENTRIES[entry].read(path)
    assert not mark.exists()


def test_the_pickles_of_this_test_execute_code(tmp_path):
    for kind in KINDS:
        path, mark = tmp_path / kind, tmp_path / f"{kind}.executed"
        hostile(path, mark, kind)
        if kind.startswith("np"):
            loaded = np.load(path, allow_pickle=True)
            if kind == "npz":
                loaded["vp"]
        else:
            pickle.loads(path.read_bytes())
        assert mark.exists(), kind


def test_all_readers_are_in_the_table():
    """A new reader needs an entry in `input_readers.ENTRIES`, unless another reader calls it."""
    found = set()
    for module in pkgutil.iter_modules(lithowave.readers.__path__, "lithowave.readers."):
        for name, function in getmembers(import_module(module.name), isfunction):
            arguments = [*signature(function).parameters]
            if name.startswith("read_") and function.__module__ == module.name and arguments[:1] == ["path"]:
                found.add(name)
    listed = {getattr(entry.read, "__name__", "") for entry in ENTRIES.values()}
    assert found - listed - INNER == set()


@cache
def all_calls() -> list[tuple[str, str, ast.Call]]:
    """File, function and node of all calls in the package."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                found.append((path.relative_to(SOURCE).as_posix(), ast.unparse(node.func), node))
    return found


def calls(name: str) -> list[tuple[str, str, dict[str | None, str]]]:
    """File, function and keywords of all calls of a function or a method with this name in the package."""
    return [
        (file, function, {word.arg: ast.unparse(word.value) for word in node.keywords})
        for file, function, node in all_calls() if function.rpartition(".")[2] == name
    ]  # fmt: skip


def test_libraries_do_not_guess_formats():
    """np.load refuses pickles, ObsPy gets the format, meshio and xarray are not asked to find it, YAML is safe."""
    for file, function, words in calls("load"):
        if function == "np.load":
            assert words.get("allow_pickle") == "False", file
        if function == "yaml.load":
            assert words.get("Loader") in ("_Loader", "safe_loader"), file
        assert not function.startswith("pickle"), file
    for file, function, words in calls("read"):
        assert not function.startswith("meshio.") or function == "meshio.vtu.read", file
        if function == "obspy.read" or (function == "read" and "import read\n" in (SOURCE / file).read_text("utf-8")):
            assert "format" in words, file
    for name in ("open_dataset", "open_mfdataset", "read_events", "read_inventory", "Unpickler", "read_pickle"):
        assert [file for file, function, _ in calls(name) if "." in function] == [], name


def archive(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.mseed", data)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore:CREATING TRACE HEADER")
def test_observed_files_are_read_by_their_content(tmp_path):
    """Names with wildcards and with the extension of an archive are names; archives are refused."""
    obspy = pytest.importorskip("obspy")
    stream = obspy.Stream([obspy.Trace(np.arange(100.0), HEADER)])
    for kind in ("MSEED", "SAC", "SLIST", "TSPAIR", "GSE2", "SEGY"):
        options = {"data_encoding": 5} if kind == "SEGY" else {}
        for name in ("data[1].x", "data*.gz"):
            path, one = tmp_path / name, stream.copy()
            one[0].data = one[0].data.astype({"GSE2": np.int32, "SEGY": np.float32}.get(kind, float))
            one.write(str(tmp_path / "written"), format=kind, **options)
            (tmp_path / "written").replace(path)
            with path.open("rb") as file:
                assert waveform_format(file.read(3600)) == kind
            (trace,), _ = read_observed(path)
            assert trace.data.tolist() == list(range(100)), kind
    stream.write(str(tmp_path / "plain"), format="MSEED")
    (tmp_path / "data.zip").write_bytes(archive((tmp_path / "plain").read_bytes()))
    with pytest.raises(lw.InputError, match=r"data\.zip: is damaged, or not a file of seismograms: its format is unk"):
        read_observed(tmp_path / "data.zip")
