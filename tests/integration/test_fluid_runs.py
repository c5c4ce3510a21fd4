"""Runs of spectral elements in seas and in water alone: restarts, output in both media, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.run import run_simulation

WATER, ROCK = {"vp": 1500, "vs": 0, "rho": 1000}, {"vp": 3000, "vs": 1700, "rho": 2300}
SEA: dict[str, Any] = {
    "domain": {"x": [-300, 300], "y": [-300, 300], "z": [-500, 0]},
    "material": {"layers": [{"top": 0, **WATER}, {"top": -200, **ROCK}]},
    "sources": [{"position": [20, -10, -60], "moment_tensor": {"xx": 1e12, "yy": 1e12, "zz": 1e12},
                 "time_function": {"gaussian": {"sigma": 0.05, "delay": 0.2}}}],
    "receivers": [{"name": "W", "position": [100, 50, -30]}, {"name": "FLOOR", "position": [0, 80, -200]},
                  {"name": "R", "position": [-90, 40, -300]}],
    "duration": 0.4,
    "solver": {"method": "spectral_element", "max_frequency": 5.0},
    "output": {
        "sampling_interval": 0.02, "pressure": True, "stress": True, "peak_motion": True,
        "snapshots": [{"interval": 0.1, "plane": {"y": 0}, "fields": ["velocity", "pressure"]}],
    },
}  # fmt: skip


def test_a_model_whose_floor_crosses_elements_is_refused(tmp_path: Path) -> None:
    def sea(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        fluid = z > -210.0
        return tuple(np.where(fluid, WATER[key], ROCK[key]) for key in ("vp", "vs", "rho"))

    simulation = lw.Simulation(**SEA | {"material": {"function": sea}})
    with pytest.raises(InputError, match=r"the element at \(.*\) m has fluid \(vs = 0\) and solid points"):
        run_simulation(simulation, tmp_path / "run")


def test_lossy_fluids_of_a_sampled_model_are_refused(tmp_path: Path) -> None:
    def water(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[Any, ...]:
        return 1500.0, 0.0, 1000.0, 200.0, np.inf

    simulation = lw.Simulation(**SEA | {"material": {"function": water}, "output": {}})
    with pytest.raises(InputError, match="has a finite quality factor"):
        run_simulation(simulation, tmp_path / "run")


@pytest.mark.parametrize(
    "method", ["spectral_element", pytest.param("discontinuous_galerkin", marks=pytest.mark.slow)]
)
def test_receivers_on_the_sea_floor_record_the_water_and_the_rock(tmp_path: Path, method: str) -> None:
    """The pressure on it is that just above, motion and stress are those just below; the file says so."""
    simulation = lw.Simulation(**{
        **SEA, "output": {"sampling_interval": 0.02, "pressure": True, "stress": True}, "duration": 0.4,
        "receivers": [{"name": f"R{n}", "position": [10, 80, z]} for n, z in enumerate((-199.9, -200, -200.1))],
        "solver": {**SEA["solver"], "method": method}, "boundaries": {"absorption": "stacey"},
    })  # fmt: skip
    found = run_simulation(simulation, tmp_path / "run").seismograms
    for values, near, far in ((found.pressure, 0, 2), (found.data, 2, 0), (found.stress, 2, 0)):
        scale = np.abs(values).max()
        assert np.abs(values[1] - values[near]).max() < 0.02 * scale
        assert np.abs(values[1] - values[far]).max() > 0.1 * scale
    water = found.stress[0]
    np.testing.assert_allclose(water[:3], -found.pressure[:1].repeat(3, axis=0), rtol=1e-6)
    assert (water[3:] == 0).all()
    with h5py.File(tmp_path / "run" / "seismograms.h5") as file:
        assert file.attrs["sea_floor_receivers"] == "XX.R1"
        assert file.attrs["sea_floor_sides"].startswith("motion, strain and stress on the side of the solid; pressure")
