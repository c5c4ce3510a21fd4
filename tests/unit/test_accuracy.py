"""Levels of accuracy: points per wavelength, conflicts with other keys, estimated errors."""

from __future__ import annotations

from typing import Any

import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.description import LEVELS, METHODS, POINTS
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


def test_overrides_of_the_resolution_replace_those_of_the_file() -> None:
    draft, spaced = simulation(accuracy="draft"), simulation(spacing=70.0)
    assert draft.with_overrides({"solver.points_per_wavelength": 7}).solver.points_per_wavelength == 7.0
    assert draft.with_overrides({"solver.spacing": 50.0}).solver.accuracy is None
    fine = spaced.with_overrides({"solver.accuracy": "fine"}).solver
    assert (fine.spacing, fine.points_per_wavelength) == (None, 16.0)
    assert spaced.with_overrides({"solver.accuracy": None}).solver.spacing == 70.0
    with pytest.raises(InputError, match="are both given"):
        draft.with_overrides({"solver.points_per_wavelength": 7, "solver.accuracy": "fine"})


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
