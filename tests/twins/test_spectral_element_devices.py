"""Whole runs of spectral elements on a CUDA device against those on the CPU; emulated where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cuda_runs import ALL, CHINO_HILLS, device, distances, small  # noqa: F401 - device is a fixture

import lithowave as lw
from cuda_devices import emulate
from lithowave.run import restart_run, run_simulation
from slow_variants import slow_except
from small_run import assert_same_results, result_of, stop_at
from verification_tools import relative_l2

# At a source the forces of a lasting displacement balance the source's own to rounding; what is left changes from step
# to step, and radiates as (sigma / dt)^2 times the precision.
LIMITS = {"single": 3e-4, "double": 1e-11}
ACCELERATION = 10  # times the limit: it is the difference of two velocities, and so of their rounding
METHOD = {"solver.method": "spectral_element", "solver.spacing": 300, "duration": 0.6}
TILTED = {"epsilon": 0.1, "delta": 0.05, "gamma": 0.08, "axis": [1, 0, 1]}
CASES: dict[str, dict[str, Any]] = {
    "everything": ALL | {"output.strain": True},
    "rigid sides, degree 3": {"boundaries": {"sides": "rigid", "bottom": "rigid"}, "solver.degree": 3},
    "absorbing layer": {"boundaries": {"absorption": "layer", "layer": {"elements": 1}}},
    "two kinds of elements": {"material": {"layers": [
        {"top": 0, "vp": 3000, "vs": 1500, "rho": 2200},
        {"top": -300, "vp": 5000, "vs": 2900, "rho": 2600, "anisotropy": TILTED},
    ]}},
    "attenuation": {"solver.degree": 3, "boundaries": {"absorption": "layer", "layer": {"elements": 1}}, "material": {
        "homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600, "qp": 60, "qs": 30},
    }, "output.snapshots": [{"interval": 0.1, "plane": {"z": 0}}, {"interval": 0.2, "volume": True, "stride": 2}]},
}  # fmt: skip


@pytest.mark.parametrize("precision", slow_except(["single"], ["single", "double"]))
@pytest.mark.parametrize("case", slow_except(["rigid sides, degree 3"], CASES))
def test_a_run_agrees_with_that_on_the_cpu(tmp_path: Path, device: str, case: str, precision: str) -> None:  # noqa: F811
    simulation = small(tmp_path, METHOD | CASES[case] | {"compute.precision": precision})
    for name in ("cuda", "cpu"):
        run_simulation(simulation, tmp_path / name, backend=name)
    found = distances(tmp_path / "cuda", tmp_path / "cpu")
    if simulation.output.quantity == "acceleration":
        found["data"] /= ACCELERATION
    assert len(found) >= 8 and max(found.values()) <= LIMITS[precision], found


@pytest.mark.slow
def test_deterministic_runs_and_restarts_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str  # noqa: F811
) -> None:
    simulation = small(tmp_path, METHOD | ALL | {"compute.backend": "cuda", "compute.deterministic": True})
    run_simulation(simulation, tmp_path / "whole")
    if device == "emulated":
        emulate(monkeypatch, graphs=True, seed=7)
    run_simulation(simulation, tmp_path / "again")
    assert_same_results(tmp_path / "again", tmp_path / "whole")
    stop_at(monkeypatch, 1, 50)
    result = result_of(run_simulation, simulation, tmp_path / "run")
    while not result.complete:
        result = result_of(restart_run, tmp_path / "run")
    assert_same_results(tmp_path / "run", tmp_path / "whole")


@pytest.mark.gpu
@pytest.mark.slow
def test_chino_hills_on_a_device_is_chino_hills_on_the_cpu(tmp_path: Path) -> None:
    data = []
    for backend in ("cuda", "cpu"):
        overrides = {"solver.method": "spectral_element", "output.formats": []}
        result = run_simulation(lw.Simulation.from_file(CHINO_HILLS, overrides), tmp_path / backend, backend=backend)
        data.append(result.seismograms.data)
    assert np.isfinite(data[0]).all()
    assert relative_l2(*data) <= 1e-4
