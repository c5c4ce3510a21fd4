"""What a description says for spectral elements, and what finite differences refuse of it."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from gmsh_files import write_gmsh
from lithowave.description import RECOMMENDED_POINTS_BY_DEGREE, SMALLEST_POINTS_BY_DEGREE
from lithowave.mesh import layered_box

ROCK = {"vp": 5000, "vs": 3000, "rho": 2600}
X = Y = np.linspace(-1200.0, 1200.0, 25)
CMT = """PDE 2008 7 29 18 42 15.71 33.9530 -117.7610 14.7 5.4 5.4 TEST
event name: test
time shift: 0.0
half duration: 0.5
latitude: 33.95
longitude: -117.76
depth: 0.5
Mrr: 1e22
Mtt: 0
Mpp: 0
Mrt: 0
Mrp: 0
Mtp: 0
"""


def height(x, y):
    return 300.0 + 0.1 * x - 0.2 * y


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "ground.npz", x=X, y=Y, elevation=height(X, Y[:, None]), axes=["y", "x"])
    mesh = layered_box((-1000, 1000), (-1000, 1000), [400.0, -300.0, -1000.0], [(700, 700)] * 2)
    write_gmsh(tmp_path / "salt.msh", mesh, ["rock", "salt"], {})
    return tmp_path


def content(**changes):
    data = {
        "domain": {"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1000, 0]},
        "material": {"homogeneous": ROCK},
        "sources": [
            {
                "position": [0, 0, -500],
                "force": [0, 0, 1e9],
                "time_function": {"gaussian": {"sigma": 0.2, "delay": 1.2}},
            }
        ],
        "receivers": [{"name": "A", "position": [0, 0, 0]}],
        "duration": 2.0,
        "solver": {"method": "spectral_element", "max_frequency": 3.0},
    }
    return {**data, **changes}


def spectral(**changes):
    return lw.Simulation(**content(**changes))


def hilly(folder, **changes):
    """With the topography of the folder."""
    ground = {**content()["domain"], **changes.pop("domain", {}), "topography": folder / "ground.npz"}
    return spectral(domain=ground, **changes)


def refused(make, *words):
    with pytest.raises(lw.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


# --- solver


def test_the_degree_is_a_default_that_is_not_set():
    simulation = spectral()
    solver = simulation.solver
    assert (solver.degree, solver.points_per_wavelength, solver.order) == (4, 7.0, 4)
    assert solver.model_fields_set == {"method", "max_frequency"}
    assert (solver.recommended_points, solver.smallest_points, solver.order_text) == (7.0, 4.0, "degree 4")
    assert simulation.warnings() == []
    other = simulation.with_overrides({"solver.degree": 8}).solver
    assert (other.points_per_wavelength, other.smallest_points) == (5.0, 3.5)
    assert set(RECOMMENDED_POINTS_BY_DEGREE) == set(SMALLEST_POINTS_BY_DEGREE) == set(range(2, 9))


def test_the_size_of_elements_is_checked():
    solver = {"method": "spectral_element", "max_frequency": 3.0, "spacing": 800.0}
    [told] = spectral(solver=solver).warnings()
    assert "5 points per wavelength; 7 are usual at degree 4" in told
    refused(
        lambda: spectral(solver={**solver, "spacing": 1100.0}),
        "solver.spacing: 1100 m gives 3.64 points",
        "degree 4 needs at least 4, that is spacing: 1000",
        "571.4 is usual",
        "a higher degree",
    )


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ({"max_frequency": 3, "order": 4}, ["solver.order: the key 'order' does not apply to spectral_element",
                                            "refine_sources, memory_variables, time_dispersion_correction, mesh"]),
        ({"max_frequency": 3, "passes": "two"}, ["'passes' does not apply to spectral_element"]),
        ({"max_frequency": 3, "degree": 1}, ["solver.degree: 1 is out of range", "at least 2 and at most 8"]),
        ({"max_frequency": 3, "degree": 9}, ["solver.degree: 9 is out of range"]),
        ({"max_frequency": 3, "points_per_wavelength": 3}, ["3 points per wavelength are too few", "degree 4"]),
        ({}, ["nothing says how fine"]),
        ({"mesh": "salt.msh", "spacing": 10}, ["solver.spacing: mesh and spacing are both given"]),
        ({"mesh": "salt.msh", "points_per_wavelength": 9}, ["mesh and points_per_wavelength"]),
        ({"mesh": "salz.msh"}, ["solver.mesh: the file 'salz.msh' does not exist", "did you mean 'salt.msh'?"]),
    ],
)  # fmt: skip
def test_refused_solvers(folder, monkeypatch, solver, words):
    monkeypatch.chdir(folder)
    refused(lambda: spectral(solver={"method": "spectral_element", **solver}), *words)


def test_a_mesh_has_its_own_sizes_ends_and_groups(folder):
    solver = {"method": "spectral_element", "mesh": folder / "salt.msh", "degree": 5}
    groups = {"rock": ROCK, "salt": {"vp": 4500, "vs": 2600, "rho": 2150}}
    simulation = spectral(
        solver=solver,
        material={"groups": groups},
        domain={**content()["domain"], "z": [-1000, 400]},
        receivers=[{"name": "A", "position": [0, 0, 350]}],
    )
    assert (simulation.solver.spacing, simulation.solver.points_per_wavelength) == (None, None)
    assert simulation.resolved_frequency is None and simulation.shortest_wavelength is None
    assert simulation.material_extremes["vs_min"] == 2600.0
    assert folder / "salt.msh" in simulation.input_files()
    assert lw.Simulation.from_text(simulation.to_yaml()) == simulation
    assert list(lw.Simulation.from_text(simulation.to_yaml()).material.groups) == ["rock", "salt"]
    refused(lambda: spectral(material={"groups": groups}), "material.groups: groups are those of a mesh", "mesh: ...")
    refused(lambda: hilly(folder, solver=solver), "domain.topography: solver.mesh and a topography are both given")


# --- what is written


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"solver": {"method": "spectral_element", "spacing": 500, "degree": 6}},
        {"boundaries": {"absorption": "layer", "layer": {"elements": 5}}, "compute": {"deterministic": True}},
        {"output": {"strain": True}},
        {"material": {"homogeneous": {**ROCK, "anisotropy": {"epsilon": 0.1, "axis": [1, 0, 1]}}}},
        {"material": {"layers": [{"top": 0, "rho": 2600, "stiffness": [
            6e10, 2e10, 2e10, 0, 0, 0, 6e10, 2e10, 0, 0, 0, 6e10, 0, 0, 0, 2e10, 0, 0, 2e10, 0, 2e10]}]}},
        {"receivers": [{"line": {"prefix": "L", "start": [0, 0], "end": [9, 0], "count": 3}}]},
    ],
)  # fmt: skip
def test_resolved_yaml_reads_back_as_an_equal_simulation(changes):
    simulation = spectral(**changes)
    text = simulation.to_yaml()
    again = lw.Simulation.from_text(text)
    assert again == simulation and again.to_yaml() == text and again.warnings() == simulation.warnings()
    assert "degree: " in text and "order: " not in text and "passes: " not in text


# --- boundaries and limits of methods


@pytest.mark.parametrize(
    ("method", "boundaries", "words"),
    [
        ("spectral_element", {"layer": {"cells": 12}}, ["boundaries.layer.cells: without effect"]),
        ("spectral_element", {"absorption": "stacey", "layer": {"elements": 5}}, ["elements", "absorption: layer"]),
        ("spectral_element", {"absorption": "stacey", "layer": {"kappa": 2}}, ["layer.kappa"]),
        ("spectral_element", {"layer": {"elements": 5, "kappa": 2, "reflection": 1e-3, "frequency": 2}}, []),
        ("finite_difference", {"layer": {"elements": 5}}, ["layer.elements: without effect with finite_difference"]),
        ("finite_difference", {"layer": {"cells": 12, "kappa": 2}}, []),
    ],
)
def test_keys_without_effect_are_told(method, boundaries, words):
    warnings = spectral(boundaries=boundaries, solver={"method": method, "max_frequency": 3.0}).warnings()
    assert len(warnings) == (1 if words else 0)
    assert all(word in warnings[0] for word in words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"boundaries": {"absorption": "stacey"}}, ["boundaries.absorption: stacey is not available", "auto, layer"]),
        ({"output": {"strain": True}},
         ["output.strain: finite_difference does not record", "method: spectral_element can"]),
        ({"material": {"homogeneous": {**ROCK, "anisotropy": {"gamma": 0.1, "axis": [0, 1, 1]}}}},
         ["material.homogeneous.anisotropy: finite_difference requires symmetry axes along x, y and z",
          "method: spectral_element or discontinuous_galerkin can"]),
        ({"material": {"layers": [
            {"top": 0, **ROCK}, {"top": -9, **ROCK, "anisotropy": {"delta": 0.1, "axis": [1, 0, 1]}}]}},
         ["material.layers[1].anisotropy: "]),
        ({"material": {"groups": {"rock": ROCK}}}, ["material.groups: ", "spectral_element"]),
    ],
)  # fmt: skip
def test_what_finite_differences_refuse(changes, words):
    refused(lambda: spectral(**changes, solver={"max_frequency": 3.0}), *words)


def test_what_spectral_elements_refuse(folder):
    refused(lambda: hilly(folder, solver={"max_frequency": 3.0}), "domain.topography: finite_difference", "flat")
    refused(lambda: hilly(folder, boundaries={"top": "rigid"}), "domain.topography: ", "rigid", "top: free")
    refused(lambda: spectral(compute={"moduli": "compact"}), "compute.moduli: compact", "finite_difference")
    water = {"layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, {"top": -100, **ROCK}]}
    assert spectral(material=water).material_extremes["vs_min"] == 0.0
    water["layers"][0]["qp"] = 500
    words = ("material.layers[0].qp: spectral_element does not attenuate", "method: discontinuous_galerkin can")
    refused(lambda: spectral(material=water), *words)
    assert spectral(boundaries={"bottom": "free", "sides": "free"}).boundaries.face("x_min") == "free"


# --- places


def test_receivers_stand_on_the_surface(folder):
    receivers = [
        {"name": "A", "position": [100, 200]},
        {"name": "B", "position": [100, 200, 100]},
        {"line": {"prefix": "L", "start": [0, 0], "end": [900, -900], "count": 4}},
        {"plane": {"prefix": "P", "start": [0, 0], "end": [300, 600], "counts": [2, 3]}},
    ]
    places = np.array([receiver.position for receiver in hilly(folder, receivers=receivers).receiver_list()])
    expected = height(places[:, 0], places[:, 1])
    expected[1] = 100.0
    np.testing.assert_allclose(places[:, 2], expected, rtol=1e-12)
    assert places[5, :2].tolist() == [900.0, -900.0] and places[-1, :2].tolist() == [300.0, 600.0]
    flat = spectral(receivers=receivers[:1] + receivers[2:]).receiver_list()
    assert {receiver.position[2] for receiver in flat} == {0.0}
    assert lw.Simulation(**content(receivers=receivers[2:], solver={"max_frequency": 3.0})).warnings() == []


def test_depth_counts_from_the_surface(folder):
    crs = {"crs": {"longitude": -117.76, "latitude": 33.95}}
    (folder / "STATIONS").write_text("S1 XX 33.95 -117.76 310 25\nS2 XX 33.951 -117.761 300 0.5\n")
    (folder / "CMTSOLUTION").write_text(CMT)
    place = {"longitude": -117.76, "latitude": 33.95}
    mechanism = {key: value for key, value in content()["sources"][0].items() if key != "position"}
    simulation = hilly(
        folder,
        domain=crs,
        sources=[{"file": folder / "CMTSOLUTION", "delay": 1}, {**place, "depth": 100, **mechanism}],
        receivers=[{"file": folder / "STATIONS"}, {"name": "A", **place}, {"name": "B", **place, "depth": 7}],
    )
    assert [source.position[2] for source in simulation.point_sources()] == pytest.approx([-200.0, 200.0])
    first, second, *others = simulation.receiver_list()
    assert [first.position[2], *(other.position[2] for other in others)] == pytest.approx([275.0, 300.0, 293.0])
    x, y, z = second.position
    assert z == pytest.approx(height(x, y) - 0.5)
    assert not any("elevation" in text for text in simulation.warnings())


def test_elevations_far_from_the_surface_are_told(folder):
    stations = folder / "STATIONS"
    stations.write_text("S1 XX 0.0 500.0 340.0 0.0\nS2 XX 0.0 100.0 400.0 0.0\n")
    receivers = [{"file": stations, "coordinates": "cartesian"}]
    [told] = hilly(folder, receivers=receivers).warnings()
    assert "receivers[0].file: the elevation of 1 of 2 stations" in told
    assert "XX.S2: 400 m, the surface is at 310 m" in told
    more = folder / "MORE"
    more.write_text("S3 XX 0.0 100.0 500.0 0.0\n")
    [both] = hilly(folder, receivers=[*receivers, {"file": more, "coordinates": "cartesian"}]).warnings()
    assert both.startswith("receivers: the elevation of 2 of 3 stations") and "XX.S3: 500 m" in both
    [flat] = spectral(receivers=receivers).warnings()
    assert "2 stations have an elevation" in flat and "the surface is flat" in flat


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"receivers": [{"name": "A", "position": [100, 200, 271]}]},
         ["receivers[0].position: XX.A: z = 271 m is above the ground", "z = 270 m at x = 100 m, y = 200 m"]),
        ({"receivers": [{"name": "A", "position": [0, 0, -1001]}]}, ["z from -1000 to the surface, 300 m"]),
        ({"receivers": [{"name": "A", "position": [1001, 0]}]}, ["x = 1001 m is outside the domain"]),
        ({"sources": [{**content()["sources"][0], "position": [0, 900, 150]}]},
         ["sources[0].position: z = 150 m is above the ground", "z = 120 m"]),
        ({"output": {"snapshots": {"interval": 1, "plane": {"z": 601}}}}, ["z = 601 m is outside the domain"]),
    ],
)  # fmt: skip
def test_places_above_the_topography_are_refused(folder, changes, words):
    refused(lambda: hilly(folder, **changes), *words)


def test_places_above_zero_may_be_in_the_ground(folder):
    source = {**content()["sources"][0], "position": [0, 0, 250]}
    simulation = hilly(folder, sources=[source], output={"snapshots": {"interval": 1, "plane": {"z": 250}}})
    assert simulation.warnings() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"receivers": [{"name": "A", "position": [1]}]}, ["has 1 item", "[x, y, z], or [x, y] for a point"]),
        ({"receivers": [{"name": "A", "position": [0, 0]}], "boundaries": {"top": "absorbing"}},
         ["receivers[0].position: two numbers are a point on the free surface", "absorbing"]),
        ({"receivers": [{"line": {"prefix": "L", "start": [0, 0], "end": [1, 1, 0], "count": 2}}]},
         ["receivers[0].line.end: start has 2 numbers and end 3"]),
        ({"receivers": [{"plane": {"prefix": "L", "start": [0, 0], "end": [0, 1], "counts": [2, 2]}}]},
         ["agree in x and z"]),
        ({"sources": [{**content()["sources"][0], "position": [0, 0]}]}, ["sources[0].position: ", "3 numbers"]),
    ],
)  # fmt: skip
def test_places_with_too_few_numbers(changes, words):
    refused(lambda: spectral(**changes), *words)


def test_material_above_zero_counts(folder):
    layers = [{"top": 700, "vp": 3000, "vs": 1700, "rho": 2300}, {"top": 100, **ROCK}]
    assert hilly(folder, material={"layers": layers}).material_extremes["vs_min"] == 1700.0
    assert spectral(material={"layers": layers}).material_extremes["vs_min"] == 3000.0
