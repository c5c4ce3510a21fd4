"""Errors of finite differences near a point source in a homogeneous medium, against the closed form and the warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_moment
from lithowave.run import check_simulation
from lithowave.solvers.common import COARSE_GRID, GRID, SMALL
from slow_variants import slow_except

SPACING, MEDIUM, SIGMA, DELAY = 400.0 / 3.0, (3000.0, 1700.0, 2300.0), 0.26, 1.3
CELLS = (2.25, 3.0, 3.75, 4.5, 5.25, 6.0)
DIRECTIONS = {"Z": (0.0, 0.0, 1.0), "X": (1.0, 0.0, 0.0), "O": (0.36, 0.48, 0.8), "D": (3**-0.5, 3**-0.5, 3**-0.5)}
TENSORS = {"xz": (0, 0, 0, 0, 1, 0), "explosion": (1, 1, 1, 0, 0, 0), "dipoles": (1, 0, -1, 0, 0, 0)}
PLACES = {"node": (0.0, 0.0, -1000.0), "between": (31.0, -47.0, -1022.0)}


def rate(time: np.ndarray) -> np.ndarray:
    """Moment rate of unit area."""
    return np.exp(-0.5 * ((time - DELAY) / SIGMA) ** 2) / (SIGMA * np.sqrt(2 * np.pi))


def slope(time: np.ndarray) -> np.ndarray:
    """Its derivative."""
    return -(time - DELAY) / SIGMA**2 * rate(time)


@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
@pytest.mark.parametrize("place", slow_except(["between"], PLACES))
@pytest.mark.parametrize("tensor", slow_except(["xz"], TENSORS))
@pytest.mark.parametrize("mechanisms", [None, "coarse"])
def test_the_warning_bounds_the_error(tensor: str, place: str, mechanisms: str | None, tmp_path: Path) -> None:
    """Along the axes through a shear couple, where the error is largest, the bound is within a factor of two."""
    medium, solver, known = dict(zip(("vp", "vs", "rho"), MEDIUM, strict=True)), {}, GRID
    material: dict[str, Any] = {"homogeneous": medium}
    if mechanisms:  # with hardly any attenuation
        material = {"homogeneous": medium | {"qp": 20_000, "qs": 20_000}, "attenuation": {"band": [0.1, 3.0]}}
        solver, known = {"memory_variables": mechanisms}, COARSE_GRID
    source, moment = np.array(PLACES[place]), np.array(TENSORS[tensor], float) * 1e13
    places = {
        f"{name}{number}": source + cells * SPACING * np.array(direction)
        for name, direction in DIRECTIONS.items() for number, cells in enumerate(CELLS)
    }  # fmt: skip
    simulation = lw.Simulation(
        domain={"x": [-2000, 2000], "y": [-2000, 2000], "z": [-3000, 1000]}, boundaries={"top": "absorbing"},
        material=material,
        sources=[{
            "position": source.tolist(),
            "moment_tensor": dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), moment.tolist(), strict=True)),
            "time_function": {"gaussian": {"sigma": SIGMA, "delay": DELAY}},
        }],
        receivers=[{"name": name, "position": one.tolist()} for name, one in places.items()],
        duration=2.8, solver={"max_frequency": 1.5, "spacing": SPACING} | solver, output={"sampling_interval": 0.01},
    )  # fmt: skip
    records = simulation.run(output=tmp_path / "run").seismograms
    time, largest = np.asarray(records.time), np.zeros(len(CELLS))
    for (name, one), motion in zip(places.items(), np.asarray(records.data), strict=True):
        exact = full_space_moment(one, source, moment, rate, time, *MEDIUM, "velocity", derivative=slope)
        error = np.linalg.norm(motion - exact) / np.linalg.norm(exact)
        cells = int(name[1])
        assert error < 1.05 * float(known.at(np.array(CELLS[cells]), np.array(name[0] in "XZ"))), (name, error)
        largest[cells] = max(largest[cells], error)
    stated = known.at(np.array(CELLS), np.full(len(CELLS), True))
    if (tensor, place, mechanisms) == ("xz", "between", None):
        assert (largest > stated / 2)[stated > SMALL].all(), (largest, stated)


@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
@pytest.mark.parametrize(("z", "stated"), [(-700.0, "4%"), (-1350.0, "90%")])
def test_beside_an_interface_the_larger_error_is_stated(z: float, stated: str) -> None:
    """Weights along z have eight points there."""
    rock = {"vp": 4200, "vs": 2400, "rho": 2500}
    simulation = lw.Simulation(
        domain={"x": [-2000, 2000], "y": [-2000, 2000], "z": [-3000, 1000]}, boundaries={"top": "absorbing"},
        material={"layers": [
            {"top": 1000, **dict(zip(("vp", "vs", "rho"), MEDIUM, strict=True))}, {"top": -1500, **rock},
        ]},
        sources=[{
            "position": [0, 0, z], "moment_tensor": {"xz": 1e13},
            "time_function": {"gaussian": {"sigma": SIGMA, "delay": DELAY}},
        }],
        receivers=[{"name": "R", "position": [0, 0, z + 3.75 * SPACING]}], duration=2.8,
        solver={"max_frequency": 1.5, "spacing": SPACING},
    )  # fmt: skip
    (text,) = [one for one in check_simulation(simulation, measure=False).warnings if "more where a double" in one]
    assert f"up to {stated}" in text
