"""Sources and receivers are resolved once for each simulation, and anew for each changed one."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.description import Acquisition

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


def test_positions_and_names(simulation: lw.Simulation) -> None:
    acquisition = simulation.acquisition
    np.testing.assert_array_equal(acquisition.source_positions, [[30, -20, -410], [0, 10, -300]])
    lines = [[-500, 0, 0], [0, 0, 0], [500, 0, 0]]
    np.testing.assert_array_equal(acquisition.receiver_positions, [[-200, 100, -30], [50, 300, 0], *lines])
    assert acquisition.receiver_names == ("XX.A", "XX.B", "XX.L1", "XX.L2", "XX.L3")
    assert [len(group) for group in acquisition.receiver_groups] == [2, 3] and not acquisition.errors
    assert simulation.point_sources() == list(acquisition.sources)
    assert simulation.receiver_list() == list(acquisition.receivers)
    empty = Acquisition((), ())
    assert empty.source_positions.shape == empty.receiver_positions.shape == (0, 3)


def test_copies_have_their_own(simulation: lw.Simulation) -> None:
    assert simulation.material_extremes["vp_max"] == 5000.0
    material = lw.Material(homogeneous={"vp": 4e3, "vs": 2e3, "rho": 2500})
    changes = {"receivers": simulation.receivers[:1], "material": material}
    copied = simulation.model_copy(update=changes)
    assert len(copied.acquisition.receivers) == 2 and copied.material_extremes["vp_max"] == 4000.0
    assert simulation.model_copy().acquisition.receivers == simulation.acquisition.receivers
    assert len(pickle.loads(pickle.dumps(simulation)).acquisition.receivers) == 5


def test_all_entries_that_cannot_be_resolved_are_listed(simulation: lw.Simulation, tmp_path: Path) -> None:
    (tmp_path / "STATIONS").write_text("A XX 100\n", encoding="utf-8")
    receivers = [{"file": str(tmp_path / "STATIONS")}, {"name": "P", "longitude": 1.0, "latitude": 2.0}]
    with pytest.raises(lw.InputError) as caught:
        simulation.with_overrides({"receivers": receivers})
    text = str(caught.value)
    assert "receivers[0].file" in text and "receivers[1]" in text
