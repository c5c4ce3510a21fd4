"""Sources and receivers are resolved once for each simulation, and anew for each changed one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lithowave as lw
from lithowave.run import receiver_line

STATIONS = "A XX 100 -200 0 30\nB XX 300 50 0 0\n"


@pytest.fixture
def simulation(tmp_path: Path) -> lw.Simulation:
    (tmp_path / "STATIONS").write_text(STATIONS, encoding="utf-8")
    return lw.Simulation(
        domain={"x": [-600, 600], "y": [-600, 600], "z": [-800, 0]},
        material={"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
        sources=[
            {"position": [30, -20, -410], "force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 0.06}}},
            {"position": [0, 10, -300], "moment_tensor": {"xx": 1e15}, "time_function": {"gaussian": {"sigma": 0.06}}},
        ],
        receivers=[
            {"file": str(tmp_path / "STATIONS")},
            {"line": {"prefix": "L", "start": [-500, 0, 0], "end": [500, 0, 0], "count": 3}},
        ],
        duration=0.8,
        solver={"spacing": 100, "order": 4},
        output={"sampling_interval": 0.02},
    )


def test_copies_have_their_own(simulation: lw.Simulation) -> None:
    assert simulation.material_extremes["vp_max"] == 5000.0
    material = lw.Material(homogeneous={"vp": 4e3, "vs": 2e3, "rho": 2500})
    changes = {"receivers": simulation.receivers[:1], "material": material}
    copied = simulation.model_copy(update=changes)
    assert len(copied.acquisition.receivers) == 2 and copied.material_extremes["vp_max"] == 4000.0
    assert simulation.model_copy().acquisition.receivers == simulation.acquisition.receivers
    assert len(pickle.loads(pickle.dumps(simulation)).acquisition.receivers) == 5


def test_the_line_of_check_states_number_names_and_depths(simulation: lw.Simulation) -> None:
    def line(*receivers: dict) -> str:
        return receiver_line(simulation.with_overrides({"receivers": list(receivers)}))

    well = {"network": "XX", "line": {"prefix": "W", "start": [500, 500, 0], "end": [500, 500, -400], "count": 5}}
    assert line(well) == "5 (XX.W1 to XX.W5), depths 0 to 400 m"
    assert line({"name": "A", "position": [500, 500]}) == "1 (XX.A), depth 0 m"
    assert line() == "none: the run records no seismograms"
