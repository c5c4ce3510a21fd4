"""Receivers on and beside interfaces: stresses of one side, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from benchmark_scripts import load_benchmark
from fake_ranks import on_ranks
from lithowave.backends import make_backend
from lithowave.solvers import load_method
from lithowave.solvers.finite_difference import STRESSES, interface_warnings

BENCHMARK = load_benchmark("interface_receivers")
CPU = make_backend("cpu", "double", 1)
SOFT, ROCK = {"vp": 2500, "vs": 1300, "rho": 2100}, {"vp": 4000, "vs": 2300, "rho": 2500}
PLACES = [-350.0, -450.0, -490.0, -500.0, -510.0, -540.0, -600.0]


def simulation_of(
    method: str, top: float | Callable[..., Any], depths: list[float] = PLACES, source: float = -200.0, **output: Any
) -> lw.Simulation:
    """A soft layer over rock, whose boundary is `top`; receivers at some depths."""
    return lw.Simulation(
        domain={"x": [-600, 600], "y": [-600, 600], "z": [-1000, 0]},
        boundaries={"absorption": "stacey"} if method != "finite_difference" else {},
        material={"layers": [{"top": 0, **SOFT}, {"top": top, **ROCK}]},
        sources=[{
            "position": [0, 0, source], "moment_tensor": {"zz": 1e15, "xz": 1e15},
            "time_function": {"gaussian": {"sigma": 0.24, "delay": 1.44}},
        }],
        receivers=[{"name": f"R{n}", "position": [31.0, 17.0, z]} for n, z in enumerate(depths)],
        duration=1.0, solver={"method": method, "max_frequency": 1.3, "spacing": None}
        if method != "finite_difference" else {"method": method, "spacing": 58.0, "max_frequency": 2.6},
        output=output or {"stress": True, "pressure": True},
    )  # fmt: skip


def slope(degrees: float) -> Callable[..., Any]:
    """The surface of a dipping interface."""
    return lambda x, y: -500.0 - np.tan(np.radians(degrees)) * x + 0.0 * y


def lame(z: float) -> tuple[float, float]:
    """Return lambda and mu of the medium, Pa; on the interface those below."""
    layer = SOFT if z > -500.0 else ROCK
    mu = layer["rho"] * layer["vs"] ** 2
    return layer["rho"] * layer["vp"] ** 2 - 2.0 * mu, mu


def test_constant_strains_along_the_interface_and_tractions_give_the_stress_of_the_side() -> None:
    """The stresses of the grid are those of its own moduli; the receivers must have those of their medium."""
    simulation = simulation_of("finite_difference", -500.0)
    plan = load_method("finite_difference").plan(simulation, CPU)
    solver = load_method("finite_difference").Solver(plan, simulation, CPU)
    east, north, shear, up, up_east, up_north = 1.3, -0.7, 0.4, 2e10, 1.5e10, -0.8e10
    arrays = {name: CPU.download(array) for name, array in solver.material.arrays.items()}
    c11, c13, c33, c66 = arrays["c11"], arrays["c13"], arrays["c33"], 1.0 / arrays["compliance_xy"]
    vertical = (up - c13 * (east + north)) / c33
    grid = {
        "sxx": c11 * east + (c11 - 2 * c66) * north + c13 * vertical,
        "syy": (c11 - 2 * c66) * east + c11 * north + c13 * vertical,
        "szz": np.full(c11.shape, up), "sxy": 2 * c66 * shear,
        "sxz": np.full(c11.shape, up_east), "syz": np.full(c11.shape, up_north),
    }  # fmt: skip
    for name in STRESSES:
        CPU.assign(solver.fields_by_name[name], grid[name])
    solver.start_records(1, True)
    solver.record(0)
    found = solver.records(1).wait()["stress"][0]
    for values, z in zip(found, PLACES, strict=True):
        lam, mu = lame(z)
        strain = (up - lam * (east + north)) / (lam + 2 * mu)
        trace = lam * (east + north + strain)
        expected = [trace + 2 * mu * east, trace + 2 * mu * north, up, 2 * mu * shear, up_east, up_north]
        np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_stresses_far_from_interfaces_are_read_as_in_one_medium() -> None:
    """Also if no receiver of this rank is beside an interface."""
    simulation = simulation_of("finite_difference", -500.0, [-100.0, -900.0])
    plan = load_method("finite_difference").plan(simulation, CPU)
    solver = load_method("finite_difference").Solver(plan, simulation, CPU)
    for field, value in zip(STRESSES, np.arange(1.0, 7.0), strict=True):
        CPU.assign(solver.fields_by_name[field], np.full(solver.fields_by_name[field].shape, value))
    solver.start_records(1, True)
    solver.record(0)
    found = solver.records(1).wait()["stress"][0]
    np.testing.assert_allclose(found, np.tile(np.arange(1.0, 7.0), (2, 1)), rtol=1e-5)


@pytest.mark.slow
def test_stresses_beside_an_interface() -> None:
    """Against spectral elements with faces on the interface; a mean of both sides is 25% to 140% off within a cell."""
    cells = ["-1", "-0.5", "-0.25", "+0.25", "+0.5", "+1"]
    reference = {**BENCHMARK.REFERENCE, "points_per_wavelength": 8}
    expected = BENCHMARK.records(BENCHMARK.experiment(cells, **reference), cells)
    found = BENCHMARK.errors(BENCHMARK.records(BENCHMARK.experiment(cells, spacing=62.5), cells), expected)
    assert (found["stress"] < [0.012, 0.028, 0.038, 0.02, 0.018, 0.017]).all()
    assert (found["pressure"] < 0.06).all()
    assert (found["velocity"] < 0.03).all()


@pytest.mark.parametrize("method", ["spectral_element", "discontinuous_galerkin"])
def test_elements_below_an_interface_have_a_receiver_on_it(method: str) -> None:
    """On one rank and on three, if stress is recorded; only then."""
    simulation = simulation_of(method, -500.0, [-500.0])
    if simulation.solver.spacing is None:  # enough columns for three ranks
        simulation = simulation.with_overrides({"solver.max_frequency": 3.0 * simulation.solver.max_frequency})
    else:
        simulation = simulation.with_overrides({"solver.spacing": simulation.solver.spacing / 3.0})

    def located(ranks: Any = None) -> tuple[np.ndarray, np.ndarray]:
        plan = load_method(method).plan(simulation, CPU, *([ranks] if ranks else []))
        receivers = simulation.acquisition.receivers
        found = plan.locate(np.array([receivers[0].position]), plan.tolerance, owners=receivers)
        heights = [plan.element_center(element)[2] + 500.0 for element in found.locations.element]
        return np.array(heights), found.sharing

    heights, sharing = located()
    assert len(heights) and (heights < 0).all() and (sharing == len(heights)).all()
    parts = on_ranks(3, located)
    assert sum(len(part[0]) for part in parts) == len(heights)
    assert (np.concatenate([part[0] for part in parts]) < 0).all()


def test_records_of_spectral_elements_on_an_interface_are_those_just_below(tmp_path: Path) -> None:
    simulation = simulation_of("spectral_element", -500.0, [-500.0, -500.05, -499.95])
    stress = np.moveaxis(simulation.run(output=tmp_path).seismograms.stress, 1, 0)
    xx, scale = stress[0], np.abs(stress).max()
    assert np.abs(xx[0] - xx[1]).max() < 1e-3 * scale < 0.1 * np.abs(xx[0] - xx[2]).max()


def test_the_side_of_receivers_is_told() -> None:
    """If values that differ on both sides are recorded."""
    def notes(**output: Any) -> list[str]:
        found = simulation_of("finite_difference", -500.0, **output).warnings()
        return [text for text in found if "on an interface between layers" in text]

    (note,) = notes(stress=True)
    assert note.startswith("receivers: 1 of 7 on an interface between layers (first: XX.R3)")
    assert "stress are those of the layer below" in note
    assert not notes(quantity="velocity")


def told(simulation: lw.Simulation) -> list[str]:
    return interface_warnings(simulation, load_method("finite_difference").plan(simulation, CPU).grid)


@pytest.mark.parametrize(("top", "z", "texts"), [
    (-500.0, -495.0, [
        "receivers: XX.R0: it is 5 m (0.086 grid spacings) from an interface at z = -500 m", "its stress or pressure",
    ]),
    (-500.0, -400.0, []),
    (slope(30.0), -545.0, ["with a dip of 30 degrees"]),
    (slope(30.0), -700.0, []),
])  # fmt: skip
def test_grids_warn_about_receivers_beside_interfaces(top: Any, z: float, texts: list[str]) -> None:
    found = told(simulation_of("finite_difference", top, [z]))
    assert len(found) == bool(texts)
    assert all(text in found[0] for text in texts)
    assert told(simulation_of("finite_difference", top, [z], quantity="velocity")) == []


def test_grids_warn_about_sources_beside_dipping_and_vertical_interfaces() -> None:
    """More than beside a horizontal one; also if none is above or below the source."""
    texts = [told(simulation_of("finite_difference", top, [-100.0], -530.0))[0] for top in (-500.0, slope(30.0))]
    flat, dipping = (float(text.partition("error of its seismograms ")[2].partition("%")[0]) for text in texts)
    assert dipping > 3 * flat > 0

    def cliff(x: Any, y: Any) -> Any:
        return np.where(np.asarray(x) > 40.0, -900.0, -100.0) + 0.0 * y

    (text,) = told(simulation_of("finite_difference", cliff, [-50.0], -500.0, quantity="velocity"))
    assert "from an interface with a dip of 90 degrees" in text


@pytest.mark.parametrize(("plane", "field", "count"), [
    ({"z": -480.0}, "pressure", 1), ({"z": -300.0}, "pressure", 0),
    ({"x": 0.0}, "stress", 1), ({"x": 0.0}, "velocity", 0),
])  # fmt: skip
def test_grids_warn_about_snapshots_of_stress(plane: dict[str, float], field: str, count: int) -> None:
    found = told(simulation_of(
        "finite_difference", -500.0, [-100.0], snapshots=[{"interval": 0.5, "plane": plane, "fields": [field]}]
    ))  # fmt: skip
    assert len(found) == count
    assert all(text.startswith("output.snapshots[0]: within one grid spacing") for text in found)
