"""The notebooks of the examples: stored without outputs, and they run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import lithowave as lw

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 300
MODELS = ("bedrock", "basin, 850 m/s")


def read(path: Path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    return nbformat.read(path, as_version=4)


def texts(outputs: list) -> str:
    """What the cells of a notebook printed."""
    return "".join(output.get("text", "") for output in outputs)


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """Run a notebook in a new folder; return what it printed, and its number of figures."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("obspy", reason="ObsPy is not installed")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(lw.__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = read(FOLDER / f"{name}.ipynb")
    client = nbclient.NotebookClient(book, timeout=SECONDS, resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.get("name") == "stderr"], texts(outputs)
    return texts(outputs), sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None


def test_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, figures = run("first_run", tmp_path, monkeypatch)
    assert "did you mean -20?" in printed and figures == 2
    (misfit,) = re.findall(r"^all +([\d.]+)%$", printed, re.MULTILINE)
    assert 0 < float(misfit) < 0.45, "two resolutions agree"


@pytest.mark.slow
def test_the_basin_explains_the_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Misfits decrease from bedrock to the guessed basin and to the slower one, and the guessed one is early."""
    printed, figures = run("basin_and_data", tmp_path, monkeypatch)
    assert figures == 1
    bedrock, basin = (re.findall(rf"^(\w+) +{name} +([\d.]+) +(\S+)$", printed, re.MULTILINE) for name in MODELS)
    slower = re.findall(r"^(\w+) +misfit [\d.]+ -> ([\d.]+)$", printed, re.MULTILINE)
    assert [row[0] for row in basin] == [row[0] for row in slower] == ["ROCK", "EDGE", "MID", "EAST"]
    for first, second, third in zip(bedrock, basin, slower, strict=True):
        assert float(first[1]) > 1.4 * float(second[1]) > 2.5 * float(third[1])
    assert all(float(row[2]) < -0.03 for row in basin[2:])


@pytest.mark.slow
def test_the_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask Distributed is not installed")
    printed, figures = run("survey", tmp_path, monkeypatch)
    assert figures == 1 and printed.count("finished\n") == 6
    (difference,) = re.findall(r"^largest difference: (\S+) of", printed, re.MULTILINE)
    assert float(difference) < 1e-5
    assert "the last shot has the same seismograms: True" in printed
