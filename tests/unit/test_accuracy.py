"""Levels of accuracy: points per wavelength, conflicts with other keys, estimated errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from lithowave.agreement import finer_changes, wider_changes
from lithowave.description import LEVELS, MEASURED, METHODS, POINTS, estimated_error
from lithowave.errors import InputError
from lithowave.run import check_simulation

BOX = {"x": [0, 4000], "y": [0, 4000], "z": [-3000, 0]}


def simulation(**solver: Any) -> lw.Simulation:
    return lw.Simulation(
        domain=BOX,
        material={"homogeneous": {"vp": 3200, "vs": 1600, "rho": 2300}},
        sources=[{"position": [2000, 2000, -1500], "moment_tensor": {"xy": 1e15},
                  "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}}}],
        receivers=[{"name": "A", "position": [1000, 1000, 0]}],
        duration=3.0,
        solver={"max_frequency": 2.0, **solver},
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_levels_choose_points(method: str) -> None:
    order = METHODS[method].default
    found = {level: simulation(method=method, accuracy=level).solver.points_per_wavelength for level in LEVELS}
    assert tuple(found.values()) == POINTS[method][order]
    assert found["draft"] < found["standard"] < found["fine"]
    assert found["standard"] == simulation(method=method).solver.points_per_wavelength, "the default"


@pytest.mark.parametrize("keys", [{"spacing": 100.0}, {"points_per_wavelength": 9}])
def test_levels_and_other_keys_of_the_resolution_are_refused(keys: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"solver.accuracy: accuracy \(fine\) and .* are both given; .*16 points"):
        simulation(accuracy="fine", **keys)


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="solver.accuracy: fine was not measured for degree 7; allowed for degree 4"):
        simulation(method="spectral_element", degree=7, accuracy="fine")
    assert simulation(method="spectral_element", degree=7, accuracy="standard").solver.points_per_wavelength == 5.0


def test_the_resolved_file_can_be_read(tmp_path: Path) -> None:
    made = simulation(accuracy="draft")
    file = tmp_path / "resolved.yaml"
    file.write_text(made.to_yaml())
    assert "accuracy: draft" in file.read_text() and "points_per_wavelength: 5.4" in file.read_text()
    again = lw.Simulation.from_file(file)
    assert again == made
    other = made.with_overrides({"solver.accuracy": "fine"})
    assert other.solver.points_per_wavelength == 16.0
    elements = made.with_overrides({"solver.method": "spectral_element"})
    assert elements.solver.points_per_wavelength == POINTS["spectral_element"][4][0]


def test_overrides_of_the_resolution_replace_those_of_the_file() -> None:
    draft, spaced = simulation(accuracy="draft"), simulation(spacing=70.0)
    assert draft.with_overrides({"solver.points_per_wavelength": 7}).solver.points_per_wavelength == 7.0
    assert draft.with_overrides({"solver.spacing": 50.0}).solver.accuracy is None
    fine = spaced.with_overrides({"solver.accuracy": "fine"}).solver
    assert (fine.spacing, fine.points_per_wavelength) == (None, 16.0)
    assert spaced.with_overrides({"solver.accuracy": None}).solver.spacing == 70.0
    with pytest.raises(InputError, match="are both given"):
        draft.with_overrides({"solver.points_per_wavelength": 7, "solver.accuracy": "fine"})


def test_finer_runs_of_an_agreement_have_more_points() -> None:
    made = simulation(accuracy="draft")
    finer = made.with_overrides(finer_changes(made, 1.5))
    assert finer.solver.points_per_wavelength == pytest.approx(1.5 * 5.4) and finer.solver.accuracy is None
    wider = made.with_overrides(wider_changes(made, 2.0))
    assert wider.solver.spacing == pytest.approx(800 / 5.4, rel=0.1) and wider.solver.accuracy is None


def test_errors_are_interpolated_between_measurements() -> None:
    table = MEASURED["finite_difference"][4]
    for points, error in table:
        assert estimated_error("finite_difference", 4, points) == pytest.approx(error)
    (low, first), (high, second) = table[2:4]
    assert estimated_error("finite_difference", 4, (low * high) ** 0.5) == pytest.approx((first * second) ** 0.5)
    assert estimated_error("finite_difference", 4, 40.0) is None
    assert estimated_error("finite_difference", 2, 20.0) is None, "not measured"
    for orders in MEASURED.values():
        for rows in orders.values():
            assert list(rows) == sorted(rows) and all(a[1] > b[1] for a, b in zip(rows, rows[1:], strict=False))


def test_warnings_state_the_error() -> None:
    coarse = [text for text in simulation(order=8, points_per_wavelength=5).warnings() if "usual" in text]
    assert coarse == [
        "solver: 5 points per wavelength; 9 are usual at order 8, and the error of seismograms is about 3%."
    ]
    missed = [text for text in simulation(accuracy="fine").warnings() if "solver.accuracy" in text]
    assert len(missed) == 1 and "reach about 0.2%" in missed[0] and "spectral_element" in missed[0]
    for made in (simulation(accuracy="draft"), simulation(accuracy="fine", method="spectral_element")):
        assert not [text for text in made.warnings() if "solver" in text]


def test_check_states_error_and_time_of_the_levels() -> None:
    report = check_simulation(simulation(points_per_wavelength=6), measure=False)
    [line] = [text for name, text in report.lines() if name == "accuracy"]
    assert line.startswith("this run (6 points): error about 1%; draft (5.4 points): error about 2%; standard (8 ")
    assert [level.name for level in report.accuracy] == ["this run", *LEVELS]
    report = check_simulation(simulation())
    times = [level.loop_s for level in report.accuracy]
    assert [level.name for level in report.accuracy] == list(LEVELS)
    assert times[2] / times[1] == pytest.approx(2.0**4) and times[1] == pytest.approx(report.loop_s, rel=0.1)
    assert report.as_dict()["accuracy"][1]["points"] == 8.0
