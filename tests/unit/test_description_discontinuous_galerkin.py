"""What a description says for discontinuous Galerkin: its keys, resolution, fluids, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from lithowave.media import ElasticProperties
from lithowave.mesh import tetrahedral_box, write_gmsh

ROCK = {"vp": 5000, "vs": 3000, "rho": 2600}
WATER = {"vp": 1500, "vs": 0, "rho": 1000}
SEA = {"layers": [{"top": 0, **WATER}, {"top": -200, **ROCK}]}
STIFFNESS = [6e10, 2e10, 2e10, 0, 0, 0, 6e10, 2e10, 0, 0, 0, 6e10, 0, 0, 0, 2e10, 0, 0, 2e10, 0, 2e10]
GAUSSIAN = {"gaussian": {"sigma": 0.2, "delay": 1.2}}
SHEAR = {"position": [0, 0, -100], "moment_tensor": {"xy": 1e15}, "time_function": GAUSSIAN}


@pytest.fixture
def folder(tmp_path):
    x = np.linspace(-1200.0, 1200.0, 25)
    np.savez(tmp_path / "ground.npz", x=x, y=x, elevation=np.full((25, 25), 100.0), axes=["y", "x"])
    write_gmsh(tmp_path / "salt.msh", tetrahedral_box((-1000, 1000), (-1000, 1000), (-1000, 400), 700.0))
    return tmp_path


def content(**changes):
    data = {
        "domain": {"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1000, 0]},
        "material": {"homogeneous": ROCK},
        "sources": [{"position": [0, 0, -500], "force": [0, 0, 1e9], "time_function": GAUSSIAN}],
        "receivers": [{"name": "A", "position": [0, 0, 0]}],
        "duration": 2.0,
        "solver": {"method": "discontinuous_galerkin", "max_frequency": 3.0},
    }
    return {**data, **changes}


def galerkin(solver=None, **changes):
    given = {"method": "discontinuous_galerkin", **({"max_frequency": 3.0} if solver is None else solver)}
    return lw.Simulation(**content(solver=given, **changes))


def refused(make, *words):
    with pytest.raises(lw.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


# --- solver


def test_the_order_is_a_default_that_is_not_set():
    simulation = galerkin()
    solver = simulation.solver
    assert (solver.order, solver.points_per_wavelength, solver.local_time_steps) == (5, 7.0, None)
    assert solver.model_fields_set == {"method", "max_frequency"}
    assert (solver.order_text, solver.steps_per_spacing, solver.smallest_points) == ("order 5", 5, 4.0)
    assert simulation.warnings() == []
    assert lw.Solver(max_frequency=1).order == 4
    changed = simulation.with_overrides({"solver.order": 3})
    assert (changed.solver.order, changed.solver.points_per_wavelength) == (3, 14.0)


def test_the_size_of_elements_is_checked():
    solver = {"max_frequency": 3.0, "spacing": 800.0}
    [told] = galerkin(solver=solver).warnings()
    assert "6.25 points per wavelength; 7 are usual at order 5" in told
    refused(
        lambda: galerkin(solver={**solver, "spacing": 1300.0}),
        "solver.spacing: 1300 m gives 3.85 points in the shortest wavelength, 1000 m (3000 m/s at 3 Hz)",
        "order 5 needs at least 4, that is spacing: 1250",
        "714.3 is usual",
        "a higher order",
    )


@pytest.mark.parametrize(
    ("method", "solver", "words"),
    [
        ("discontinuous_galerkin", {"degree": 4}, ["solver.degree: the key 'degree' does not apply to discontinuous",
                                                   "order, local_time_steps, refine_sources, mesh, spacing"]),
        ("discontinuous_galerkin", {"passes": "one"}, ["'passes' does not apply to discontinuous"]),
        ("discontinuous_galerkin", {"order": 1}, ["solver.order: 1 is not an order of disc", "choose 2 to 7"]),
        ("discontinuous_galerkin", {"order": 8}, ["solver.order: 8 is not an order of disc", "choose 2 to 7"]),
        ("discontinuous_galerkin", {"order": 3, "points_per_wavelength": 6}, ["6 points per wavelength are too few",
                                                                              "order 3 needs at least 7; 14 are"]),
        ("discontinuous_galerkin", {"local_time_steps": 1}, ["solver.local_time_steps"]),
        ("finite_difference", {"order": 3}, ["solver.order: 3 is not an order of finite_difference", "2, 4, 6 or 8"]),
        ("finite_difference", {"local_time_steps": True}, ["'local_time_steps' does not apply to finite_difference",
                                                           "memory_variables, time_dispersion_correction, spacing"]),
        ("spectral_element", {"local_time_steps": False}, ["'local_time_steps' does not apply to spectral_element"]),
        ("finite_difference", {"mesh": "none.msh"}, ["solver.mesh: the key 'mesh' does not apply to finite"]),
    ],
)  # fmt: skip
def test_refused_solvers(method, solver, words):
    given = {"method": method, "max_frequency": 3, **solver}
    refused(lambda: lw.Simulation(**content(solver=given)), *words)


def test_another_method_drops_the_parameters_of_this_one():
    first = galerkin(solver={"max_frequency": 3.0, "order": 7, "local_time_steps": True})
    grid = first.with_overrides({"solver.method": "finite_difference"}).solver
    assert (grid.order, grid.local_time_steps, grid.points_per_wavelength) == (4, None, 8.0)
    elements = first.with_overrides({"solver.method": "spectral_element"}).solver
    assert elements.degree == 4
    given = lw.Simulation(**content(solver={"max_frequency": 3.0, "order": 8, "passes": "two"}))
    assert given.with_overrides({"solver.method": "discontinuous_galerkin"}).solver.order == 5
    changes = {"solver.method": "discontinuous_galerkin", "solver.order": 6}
    assert given.with_overrides(changes).solver.order == 6
    changes = {"solver": {"method": "discontinuous_galerkin", "max_frequency": 2.0, "order": 6}}
    assert given.with_overrides(changes).solver.order == 6


def test_a_mesh_with_groups(folder):
    groups = {"sea": WATER, "rock": ROCK, "shale": {**ROCK, "anisotropy": {"epsilon": 0.2}}}
    simulation = galerkin(
        solver={"mesh": folder / "salt.msh", "order": 4},
        material={"groups": groups},
        domain={**content()["domain"], "z": [-1000, 400]},
        receivers=[{"name": "A", "position": [0, 0, 350]}],
        sources=[SHEAR],
    )
    assert (simulation.solver.spacing, simulation.shortest_wavelength) == (None, None)
    assert simulation.material_extremes["slowest"] == 1500.0 and simulation.material_extremes["vs_min"] == 0.0
    assert simulation.warnings() == []
    assert lw.Simulation.from_text(simulation.to_yaml()) == simulation
    refused(lambda: galerkin(material={"groups": groups}), "material.groups: groups are those of a mesh",
            "method: spectral_element or discontinuous_galerkin, mesh: ...")  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"solver": {"spacing": 500, "order": 6, "local_time_steps": False}},
        {"material": SEA},
        {"boundaries": {"absorption": "stacey", "x_min": "free", "z_min": "rigid"}},
        {"material": {"homogeneous": {"rho": 2600, "stiffness": STIFFNESS}}},
        {"output": {"stress": True, "pressure": True, "formats": ["segy"], "sampling_interval": 0.01}},
    ],
)
def test_resolved_yaml_reads_back_as_an_equal_simulation(changes):
    simulation = galerkin(**changes)
    text = simulation.to_yaml()
    again = lw.Simulation.from_text(text)
    assert again == simulation and again.to_yaml() == text and again.warnings() == simulation.warnings()
    assert "order: " in text and "local_time_steps: " in text
    assert all(f"{key}: " not in text for key in ("degree", "passes", "coefficients"))


# --- limits of the method


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": {"strain": True}},
         ["output.strain: discontinuous_galerkin does not record strain", "method: spectral_element can"]),
        ({"compute": {"moduli": "compact"}}, ["compute.moduli: compact moduli are for finite_difference only"]),
        ({"material": {"homogeneous": {"vp": 3000, "vs": 2600, "rho": 2600}}}, ["must be greater than 4/3 vs^2"]),
        ({"material": {"homogeneous": {**WATER, "anisotropy": {"epsilon": 0.1}}}}, ["not positive definite"]),
    ],
)  # fmt: skip
def test_what_is_refused(changes, words):
    refused(lambda: galerkin(**changes), *words)


def test_what_is_taken(folder):
    ground = {**content()["domain"], "topography": folder / "ground.npz"}
    assert galerkin(domain=ground).domain.ground.z == (-1000.0, 100.0)
    for change in ({"anisotropy": {"gamma": 0.1}}, {"vp": None, "vs": None, "stiffness": STIFFNESS}):
        assert galerkin(material={"homogeneous": {**ROCK, **change}}).material.homogeneous.is_anisotropic
    assert galerkin(boundaries={"absorption": "stacey"}).boundaries.absorption == "stacey"
    for name in ("x_min", "x_max", "y_min", "y_max", "z_min"):
        for kind in ("free", "absorbing", "rigid"):
            assert galerkin(boundaries={name: kind}).boundaries.face(name) == kind


def test_keys_of_layers_are_told_to_be_without_effect():
    [told] = galerkin(boundaries={"layer": {"elements": 5, "kappa": 2}}).warnings()
    assert told == "boundaries.layer.kappa: without effect with discontinuous_galerkin."
    [told] = galerkin(boundaries={"absorption": "stacey", "layer": {"elements": 5}}).warnings()
    assert told.startswith("boundaries.layer.elements: without effect with discontinuous_galerkin; it counts with")


# --- fluids


def test_the_slowest_wave_of_a_fluid_is_p():
    water = ElasticProperties(**WATER)
    assert water.is_fluid and water.speed_range == (1500.0, 1500.0)
    assert ElasticProperties(**ROCK).speed_range == (3000.0, 5000.0) and not ElasticProperties(**ROCK).is_fluid
    sea = galerkin(material=SEA)
    assert sea.shortest_wavelength == 500.0 and sea.material_extremes["vs_min"] == 0.0
    mud = {"layers": [*SEA["layers"][:1], {"top": -100, "vp": 1600, "vs": 300, "rho": 1500}]}
    assert galerkin(material=mud).shortest_wavelength == 100.0
    spaced = galerkin(material=SEA, solver={"spacing": 100.0})
    assert spaced.resolved_frequency == pytest.approx(1500.0 * 5 / (7 * 100.0))
    refused(
        lambda: galerkin(material=SEA, solver={"spacing": 650.0, "max_frequency": 3.0}),
        "gives 3.85 points in the shortest wavelength, 500 m (1500 m/s at 3 Hz)",
    )
    [told] = galerkin(material={"homogeneous": WATER}, solver={"spacing": 400.0, "max_frequency": 3.0}).warnings()
    assert "6.25 points per wavelength; 7 are usual" in told


def test_gridded_models_and_functions_may_hold_fluids(tmp_path):
    axes = {"x": [-1000.0, 1000.0], "y": [-1000.0, 1000.0], "z": [-1000.0, -500.0, 0.0]}
    ones = np.ones((2, 2, 3))
    values = {"vp": ones * [5000, 1500, 1500], "vs": ones * [3000, 0, 0], "rho": ones * [2600, 1000, 1000]}
    np.savez(tmp_path / "sea.npz", **axes, **values, axes=["x", "y", "z"])

    def function(x, y, z):
        sea = z > -500.0
        return np.where(sea, 1500.0, 5000.0), np.where(sea, 0.0, 3000.0), np.where(sea, 1000.0, 2600.0)

    for material in ({"file": tmp_path / "sea.npz"}, {"function": function}):
        simulation = galerkin(material=material)
        assert simulation.shortest_wavelength == 500.0
        solver = {"method": "finite_difference", "max_frequency": 3.0}
        refused(
            lambda material=material, solver=solver: lw.Simulation(**content(material=material, solver=solver)),
            "material: a fluid (vs = 0) stands in the domain",
            "finite_difference needs vs > 0",
            "method: spectral_element or discontinuous_galerkin can",
        )
        solver = {"method": "spectral_element", "max_frequency": 3.0}
        assert lw.Simulation(**content(material=material, solver=solver)).shortest_wavelength == 500.0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, True),
        ({"moment_tensor": {"xx": 1e15}}, True),
        ({"moment_tensor": {"xx": 1e15, "yy": 1e15, "zz": 1e15}}, False),
        ({"position": [0, 0, -300]}, False),
        ({"moment_tensor": None, "force": [0, 0, 1e9]}, False),
        ({"moment_tensor": None, "double_couple": {"strike": 0, "dip": 90, "rake": 0, "m0": 1e15}}, True),
    ],
)
def test_shear_in_a_fluid_is_told(change, told):
    source = {key: value for key, value in {**SHEAR, **change}.items() if value is not None}
    expected = ["sources[0]: it is in a fluid, where only the isotropic part of a moment tensor makes waves."]
    assert galerkin(material=SEA, sources=[source]).warnings() == (expected if told else [])
