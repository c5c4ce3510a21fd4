"""The predicted size of all files of a run, against the files that runs write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from lithowave.run import check_simulation
from small_run import SMALL

NO_EXTRAS = {"output.snapshots": [], "output.checkpoint": None, "output.peak_motion": False}
LINE = [{"line": {"prefix": "L", "start": [-500, 0, 0], "end": [500, 0, 0], "count": 101}}]
VOLUME = [{"interval": 0.1, "volume": True, "fields": ["velocity"]}]
PLANE = [{"interval": 0.02, "plane": {"x": 0}, "fields": ["velocity"]}]
ELEMENTS = {"solver": {"spacing": 300.0}, "boundaries.layer": {"elements": 1}, "output.snapshots": PLANE + VOLUME}
CASES: dict[str, dict[str, Any]] = {
    "snapshots and a checkpoint": {},
    "a checkpoint interval beyond the end": {"output.checkpoint.interval": 5},
    "waveform formats": NO_EXTRAS | {"output.formats": ["miniseed", "sac"]},
    "archives": NO_EXTRAS | {"output.formats": ["asdf", "segy"]},
    "many receivers": NO_EXTRAS | {"receivers": LINE, "output.sampling_interval": 0.005, "output.stress": True},
    "a volume": NO_EXTRAS | {"output.snapshots": VOLUME},
    "a vertical plane": NO_EXTRAS | {"output.snapshots": PLANE, "output.peak_motion": True},
}


def check(changes: dict[str, Any], folder: Path) -> None:
    simulation = lw.Simulation.from_text(SMALL).with_overrides({**changes, "output.directory": str(folder)})
    predicted = check_simulation(simulation, measure=False).output_bytes
    simulation.run()
    real = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert 1 / 1.3 < predicted / real < 1.3, (predicted, real)


@pytest.mark.parametrize("name", CASES)
def test_the_predicted_size_is_that_of_the_files(tmp_path: Path, name: str) -> None:
    for package in {"waveform formats": ["obspy"], "archives": ["segyio"]}.get(name, []):
        pytest.importorskip(package)
    check(CASES[name], tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spectral_element", "discontinuous_galerkin"])
@pytest.mark.parametrize("interval", [0.3, 5])
def test_the_predicted_size_is_that_of_the_files_of_elements(tmp_path: Path, method: str, interval: float) -> None:
    solver = {"solver": {"method": method, **ELEMENTS["solver"]}}
    check(ELEMENTS | solver | {"output.checkpoint.interval": interval}, tmp_path / "out")
