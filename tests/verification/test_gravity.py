"""Gravity in chunks of the globe: the discrete operator, its limits, and its effect on a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from element_kinds import quiet_solver
from lithowave.backends import make_backend
from lithowave.earth import EARTH_CONSTANT, GRAVITATIONAL_CONSTANT, RADIUS, RadialGravity, reference_model
from lithowave.errors import InputError
from lithowave.solvers.spectral_element import SpectralElementSolver, face_points, gll_positions
from lithowave.solvers.spectral_element.plan import plan

RHO = 3300.0


def entries(model: str, **more: Any) -> dict[str, Any]:
    return {
        "domain": {"chunk": {"center": [20, 35], "width": [24, 20], "depth": "1300 km"}},
        "boundaries": {"sides": "free", "bottom": "free"}, "material": {"earth": {"model": model}},
        "physics": {"gravity": True}, "sources": [], "duration": 10.0,
        "solver": {"method": "spectral_element", "max_frequency": 0.005, "points_per_wavelength": 4, "time_step": 0.05},
        "compute": {"backend": "cpu", "precision": "double"}, "output": {"sampling_interval": 1.0}, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def uniform(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of the Earth with one medium."""
    path = tmp_path_factory.mktemp("uniform") / "uniform.tvel"
    path.write_text("uniform\nuniform\n0 8.0 4.5 3.3\n6371 8.0 4.5 3.3\n")
    return str(path)


def operators(model: str, degree: int = 4) -> tuple[SpectralElementSolver, Any]:
    """Return a solver with gravity, and the function of a displacement that returns the force of gravity alone."""
    backend, solvers = make_backend("cpu", "double", 2), []
    for gravity in (True, False):
        more = entries(model, physics={"gravity": gravity})
        more["solver"] = {**more["solver"], "degree": degree}
        solvers.append(quiet_solver(plan(lw.Simulation(**more), backend), backend))

    def force(u: np.ndarray) -> np.ndarray:
        found = []
        for solver in solvers:
            solver.displacement[:-1, :3], solver.displacement[:, 3], solver.momentum[:, :3] = u, 0.0, 0.0
            solver.add_forces()
            found.append(np.array(solver.momentum[:-1, :3]))
        return found[0] - found[1]

    return solvers[0], force


def positions_inside(solver: SpectralElementSolver) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the points, m, and True for those inside the chunk."""
    made = solver.plan
    positions, inside = np.zeros((made.total_points, 3)), np.ones(made.total_points, bool)
    positions[made.numbers] = gll_positions(made.mesh.element_nodes(np.arange(made.element_count)), made.degree)
    for faces in made.faces.values():
        inside[face_points(made.numbers, faces)] = False
    return positions, inside


def test_the_acceleration_of_a_uniform_sphere_and_of_prem() -> None:
    radius = np.linspace(3.5e6, RADIUS, 50)
    found = RadialGravity.of(reference_model("prem"))
    assert found(np.array([RADIUS, 3480e3])) == pytest.approx([9.8202, 10.68], rel=2e-3)  # Dziewonski & Anderson 1981
    layer = reference_model("prem").layers[-1]
    model = type(reference_model("prem"))("one", (type(layer)(RADIUS, 0.0, lambda r: np.full((8, *r.shape), RHO)),))
    shell = 4.0 / 3.0 * np.pi * GRAVITATIONAL_CONSTANT * RHO * (RADIUS**3 - radius**3)
    np.testing.assert_allclose(RadialGravity.of(model)(radius), (EARTH_CONSTANT - shell) / radius**2, rtol=1e-5)


@pytest.mark.parametrize("model", ["uniform", pytest.param("prem", marks=pytest.mark.slow)])
def test_the_operator_is_symmetric(model: str, uniform: str) -> None:
    """Also where the density jumps: the discrete energy is conserved."""
    solver, force = operators(uniform if model == "uniform" else model)
    a, b = np.random.default_rng(1).standard_normal((2, solver.plan.total_points, 3))
    forward, backward = (b * force(a)).sum(), (a * force(b)).sum()
    assert forward == pytest.approx(backward, rel=1e-9)  # of differences of forces that are 1e4 times larger
    assert np.linalg.norm(force(a)) > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("degree, limit", [(4, 1.5e-3), (6, 2.5e-5)])
def test_the_force_of_a_displacement_converges_to_the_differential_equation(
    degree: int, limit: float, uniform: str
) -> None:
    """f = rho (grad(s . g) - g div s) of a plane wave in a uniform density, inside the chunk."""
    solver, force = operators(uniform, degree)
    x, inside = positions_inside(solver)
    number, amplitude = np.array([1.1e-6, 0.7e-6, -0.9e-6]), np.array([1.0, -0.5, 0.3])
    phase, radius = x @ number, np.linalg.norm(x, axis=1)[:, None]
    s, up, g = np.sin(phase)[:, None] * amplitude, x / radius, solver.plan.gravity(radius)
    slope = 4.0 * np.pi * GRAVITATIONAL_CONSTANT * RHO - 2.0 * g / radius
    along = (s * up).sum(axis=1)[:, None]
    gradient = -np.cos(phase)[:, None] * number * g * (up @ amplitude)[:, None]
    gradient += -g / radius * (s - along * up) - slope * along * up
    expected = gradient + g * up * (np.cos(phase) * (amplitude @ number))[:, None]
    found = force(s) / solver.plan.element_statistics.mass[:, None]
    assert np.abs(found - expected)[inside].max() < limit * np.abs(expected).max()


def test_a_rotation_of_the_earth_has_no_force(uniform: str) -> None:
    solver, force = operators(uniform)
    x, inside = positions_inside(solver)
    turned = np.cross([0.3, -1.0, 0.6], x) / RADIUS
    found = force(turned) / solver.plan.element_statistics.mass[:, None]
    assert np.abs(found[inside]).max() < 1e-5 * 9.8 / RADIUS * np.abs(turned).max()


@pytest.mark.slow
def test_gravity_changes_a_run_by_the_order_of_g_over_c_omega(tmp_path: Path) -> None:
    """By 2.6% at periods of 80 to 150 s."""
    found = []
    for gravity in (True, False):
        more = entries("prem", physics={"gravity": gravity}, duration=260.0, sources=[{
            "position": [0, 0, -400e3], "moment_tensor": {"xz": 1e20, "zz": 5e19},
            "time_function": {"gaussian": {"sigma": 20, "delay": 80}},
        }], receivers=[{"name": "A", "position": [4e5, 1e5, 0]}])  # fmt: skip
        more["boundaries"], more["material"] = {"bottom": "free"}, {"earth": {"model": "prem", "attenuation": False}}
        more["solver"] = {"method": "spectral_element", "max_frequency": 0.012, "points_per_wavelength": 5}
        more["output"] = {"formats": [], "sampling_interval": 2.0, "checkpoint": None}
        result = lw.Simulation(**more).run(output=tmp_path / str(gravity))
        assert ("gravity" in result.report["plan"]) == gravity and result.report["exit_state"] == "finished"
        found.append(result.seismograms.data[0])
    change = np.linalg.norm(found[0] - found[1]) / np.linalg.norm(found[1])
    assert 0.02 < change < 0.03


@pytest.mark.parametrize("changes, text", [
    ({"domain": {"x": [0, 1e6], "y": [0, 1e6], "z": [-3e5, 0]}}, "physics.gravity: true requires a chunk of a radial"),
    ({"material": {"homogeneous": {"vp": 8000, "vs": 4500, "rho": 3300}}}, "physics.gravity: true requires a chunk"),
    ({"material": {"earth": {"model": "prem", "ocean": True, "attenuation": False}}}, "fluid at depths of 0 to 3 km"),
    ({"domain": {"chunk": {"center": [0, 0], "width": [9, 9], "depth": 3e6}}}, "fluid at depths of 2891 to 5149.5 km"),
    ({"domain": {"chunk": {"center": [0, 0], "width": [9, 9], "depth": 4e5, "ellipticity": True}}}, "are ellipsoids"),
    ({"physics": {"gravitation": True}}, "physics.gravitation: unknown key 'gravitation'.*gravity"),
])  # fmt: skip
def test_where_gravity_is_not_available_it_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        lw.Simulation(**entries("prem", **changes))
