"""Material in 16 bits: its error is as stated, and CPU and GPU compute with the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from cuda_devices import DEVICES, closeness, make_device
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.run import run_simulation
from lithowave.solvers.finite_difference import LAWS, FiniteDifferenceSolver, OnePassScheme, plan, quantize

MATERIAL = LAWS["isotropic"].material


def experiment(moduli: str, passes: str = "two", top: str = "free", cells: int = 4) -> lw.Simulation:
    return lw.Simulation(
        domain={"x": [0, 7000], "y": [0, 3900], "z": [-3300, 0]},
        boundaries={"top": top, "layer": {"cells": cells}},
        material={
            "layers": [
                {"top": 0, "vp": 1800, "vs": 700, "rho": 1900},
                {"top": -700, "vp": 3000, "vs": 1500, "rho": 2300},
                {"top": -1600, "vp": 6500, "vs": 3800, "rho": 2900},
            ]
        },
        sources=[
            {
                "position": [3030, 2040, -1710],
                "moment_tensor": {"xx": 1e15, "xz": 2e15},
                "time_function": {"gaussian": {"sigma": 0.02, "delay": 0.05}},
            }
        ],
        duration=1.0,
        solver={"spacing": 100, "order": 4, "passes": passes},
        compute={"moduli": moduli},
    )


def fields_after(simulation: lw.Simulation, backend: object, steps: int) -> tuple[dict, FiniteDifferenceSolver]:
    solver = FiniteDifferenceSolver(plan(simulation, backend), simulation, backend)
    for step in range(steps):
        solver.advance(step)
    return {name: piece.values.copy() for name, piece in solver.state().items()}, solver


def test_codes_are_as_near_as_stated() -> None:
    generator = np.random.default_rng(1)
    lam = generator.uniform(-1e9, 9e10, (50, 60))
    compliance = 1.0 / np.exp(generator.uniform(np.log(2e7), np.log(6e10), (50, 60)))
    density = generator.uniform(1200, 3300, (50, 60))
    codes = quantize([{"lam": lam, "compliance": compliance, "density": density}], MATERIAL)
    bounds = {
        "lam": 0.5 * (lam.max() - lam.min()) / 65534 / np.abs(lam),
        "density": 0.5 * (density.max() - density.min()) / 65534 / density,
        "compliance": 0.5 * np.log(compliance.max() / compliance.min()) / 65534,
    }
    for name, values in (("lam", lam), ("compliance", compliance), ("density", density)):
        error = np.abs(codes[name].decode(codes[name].encode(values)) / values - 1)
        assert np.all(error <= 1.05 * bounds[name] + 1e-6), name
    assert codes["density"].error() < 2e-5 * density.min() and codes["compliance"].error() < 7e-5
    assert codes["lam"].error() < 1e-5 * lam.max()


def test_a_run_states_the_error(tmp_path: Path) -> None:
    simulation = experiment("compact").with_overrides({"duration": 0.05})
    report = run_simulation(simulation, tmp_path / "run", backend="cpu", threads=1).report
    stated = report["moduli_error"]
    assert stated["density_kg_m3"] == pytest.approx(0.5 * 1000 / 65534, rel=0.03)  # the means exceed the layers
    assert 0 < stated["c44_relative"] < 7e-5 and 0 < stated["c66_relative"] < 7e-5 and 0 < stated["c13_pa"] < 1e6
    plain = run_simulation(simulation, tmp_path / "full", backend="cpu", threads=1, moduli="full").report
    assert "moduli_error" not in plain


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("engine", ["ring", "direct", "one pass"])
def test_both_devices_compute_with_the_same_numbers(kind: str, engine: str) -> None:
    device = make_device(kind, "single")
    device.copy_engine = engine != "direct"
    passes = "one" if engine == "one pass" else "two"
    cuda, solver = fields_after(experiment("compact", passes), device, 12)
    assert isinstance(solver.scheme, OnePassScheme) == (engine == "one pass")
    assert solver.material.arrays["density"].dtype == np.uint16
    cpu, _ = fields_after(experiment("compact"), make_backend("cpu", "single", 1), 12)
    for name, expected in cpu.items():
        # Where the wave has only begun to arrive (1e-12 of its size and less) terms that cancel leave little.
        arrived = np.abs(expected).max() > 1e-12
        assert closeness(cuda[name], expected) < (4e-6 if arrived else 3e-5), name
    assert "vs = " in solver.diagnose()


@pytest.mark.parametrize("kind", DEVICES)
def test_codes_of_equal_columns(kind: str) -> None:
    """Random fields everywhere, so that the last columns and rows of the codes act, too."""
    simulation = experiment("compact", "one").with_overrides({"sources": []})
    device, host = make_device(kind, "single"), make_backend("cpu", "single", 1)
    device_plan = plan(simulation, device)
    assert device_plan.equal_columns
    cuda = FiniteDifferenceSolver(device_plan, simulation, device)
    cpu = FiniteDifferenceSolver(plan(simulation.with_overrides({"solver.passes": "two"}), host), simulation, host)
    random, inside = np.random.default_rng(1), (slice(cpu.plan.halo, -cpu.plan.halo),) * 3
    for name, field in cpu.fields_by_name.items():
        values = np.zeros(field.shape)
        values[inside] = random.standard_normal(values[inside].shape) * (1.0 if name.startswith("v") else 1e7)
        for solver in (cuda, cpu):
            solver.backend.assign(solver.fields_by_name[name], values)
    for step in range(3):
        cuda.advance(step)
        cpu.advance(step)
    assert cuda.kernels.one_pass.shape.equal and cuda.material.scales
    assert any(how.equal for how, _ in cuda.kernels.update_stress._kept.values())
    expected = cpu.state()
    for name, piece in cuda.state().items():
        assert closeness(piece.values, expected[name].values) < 3e-6, name


def test_compact_moduli_are_for_single_precision() -> None:
    with pytest.raises(InputError, match=r"compute.moduli: compact moduli are for single precision"):
        experiment("compact").with_overrides({"compute.precision": "double"})
