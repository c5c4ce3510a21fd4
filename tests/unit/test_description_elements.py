"""What a description says for spectral elements and discontinuous Galerkin, and what each method refuses of it."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from box_runs import BOX, FORCE, GAUSSIAN, ROCK, boxed, refused
from gmsh_files import write_gmsh
from lithowave.media import ElasticProperties
from lithowave.mesh import layered_box, split_hexahedra
from lithowave.mesh import write_gmsh as write_tetrahedra

FD, SE, DG = "finite_difference", "spectral_element", "discontinuous_galerkin"
WATER = {"vp": 1500, "vs": 0, "rho": 1000}
SEA = {"layers": [{"top": 0, **WATER}, {"top": -200, **ROCK}]}
SHEAR = {"position": [0, 0, -100], "moment_tensor": {"xy": 1e15}, "time_function": GAUSSIAN}
CMT = """PDE 2008 7 29 18 42 15.71 33.9530 -117.7610 14.7 5.4 5.4 TEST
event name: test\ntime shift: 0.0\nhalf duration: 0.5\nlatitude: 33.95\nlongitude: -117.76\ndepth: 0.5
Mrr: 1e22\nMtt: 0\nMpp: 0\nMrt: 0\nMrp: 0\nMtp: 0
"""


def height(x, y):
    return 300.0 + 0.1 * x - 0.2 * y


@pytest.fixture
def folder(tmp_path):
    x = np.linspace(-1200.0, 1200.0, 25)
    np.savez(tmp_path / "ground.npz", x=x, y=x, elevation=height(x, x[:, None]), axes=["y", "x"])
    mesh = layered_box((-1000, 1000), (-1000, 1000), [400.0, -300.0, -1000.0], [(700, 700)] * 2)
    write_gmsh(tmp_path / "salt.msh", mesh, ["rock", "salt"], {})
    write_tetrahedra(tmp_path / "tetrahedra.msh", split_hexahedra(mesh))
    return tmp_path


def hilly(folder, method=SE, **changes):
    """With the topography of the folder."""
    ground = BOX | changes.pop("domain", {}) | {"topography": folder / "ground.npz"}
    return boxed(method, domain=ground, **changes)


# --- solver


@pytest.mark.parametrize(
    ("method", "key", "value", "other", "points", "smallest"),
    [(SE, "degree", 4, 8, 5.0, 3.5), (DG, "order", 5, 3, 14.0, 7.0), (FD, "order", 4, 6, 9.0, 4.0)],
)
def test_the_order_is_a_default_that_is_not_set(method, key, value, other, points, smallest):
    simulation = boxed(method)
    solver = simulation.solver
    assert (getattr(solver, key), solver.order_text) == (value, f"{key} {value}") and simulation.warnings() == []
    assert solver.points_per_wavelength == solver.recommended_points == (8.0 if method == FD else 7.0)
    assert solver.model_fields_set == {"method", "max_frequency"}
    assert solver.smallest_points == (5.0 if method == FD else 4.0)
    changed = simulation.with_overrides({f"solver.{key}": other}).solver
    assert (changed.points_per_wavelength, changed.smallest_points) == (points, smallest)
    spaced = boxed(method, solver={"method": method, "spacing": 100.0, key: other})
    each = 1 if method == FD else other
    assert spaced.solver.resolution_points(300.0) == 3.0 * each
    assert spaced.resolved_frequency == pytest.approx(3000.0 * each / (points * 100.0))


@pytest.mark.parametrize(
    ("method", "coarse", "stated", "words"),
    [
        (SE, 1100.0, "5 points per wavelength; 7 are usual at degree 4",
         ["1100 m gives 3.64 points", "degree 4 needs at least 4, that is spacing: 1000", "571.4 is usual",
          "a higher degree"]),
        (DG, 1300.0, "6.25 points per wavelength; 7 are usual at order 5",
         ["solver.spacing: 1300 m gives 3.85 points in the shortest wavelength, 1000 m (3000 m/s at 3 Hz)",
          "order 5 needs at least 4, that is spacing: 1250", "714.3 is usual", "a higher order"]),
    ],
)  # fmt: skip
def test_the_size_of_elements_is_checked(method, coarse, stated, words):
    solver = {"method": method, "max_frequency": 3.0, "spacing": 800.0}
    [text] = boxed(solver=solver).warnings()
    assert stated in text
    refused(lambda: boxed(solver=solver | {"spacing": coarse}), *words)


@pytest.mark.parametrize(
    ("method", "solver", "words"),
    [
        (DG, {"degree": 4}, ["solver.degree: the key 'degree' does not apply to discontinuous",
                             "order, local_time_steps, refine_sources, mesh, spacing"]),
        (DG, {"passes": "one"}, ["'passes' does not apply to discontinuous"]),
        (DG, {"order": 3, "points_per_wavelength": 6}, ["6 points per wavelength are too few",
                                                        "order 3 needs at least 7; 14 are"]),
        (DG, {"local_time_steps": 1}, ["solver.local_time_steps"]),
        (FD, {"local_time_steps": True}, ["'local_time_steps' does not apply to finite_difference",
                                          "memory_variables, time_dispersion_correction, spacing"]),
        (SE, {"order": 4}, ["solver.order: the key 'order' does not apply to spectral_element",
                            "refine_sources, memory_variables, time_dispersion_correction, mesh"]),
        (SE, {"passes": "two"}, ["'passes' does not apply to spectral_element"]),
        (SE, {"degree": 1}, ["solver.degree: 1 is out of range", "at least 2 and at most 8"]),
        (SE, {"points_per_wavelength": 3}, ["3 points per wavelength are too few", "degree 4"]),
        (SE, {"mesh": "salt.msh", "spacing": 10}, ["solver.spacing: mesh and spacing are both given"]),
        (SE, {"mesh": "salt.msh", "points_per_wavelength": 9}, ["mesh and points_per_wavelength"]),
        (SE, {"mesh": "salz.msh"}, ["solver.mesh: the file 'salz.msh' does not exist", "did you mean 'salt.msh'?"]),
    ],
)  # fmt: skip
def test_refused_solvers(folder, monkeypatch, method, solver, words):
    monkeypatch.chdir(folder)
    refused(lambda: boxed(solver={"method": method, "max_frequency": 3, **solver}), *words)


def test_another_method_drops_the_parameters_of_this_one():
    first = boxed(solver={"method": DG, "max_frequency": 3.0, "order": 7, "local_time_steps": True})
    grid = first.with_overrides({"solver.method": FD}).solver
    assert (grid.order, grid.local_time_steps, grid.points_per_wavelength) == (4, None, 8.0)
    assert first.with_overrides({"solver.method": SE}).solver.degree == 4
    given = boxed(solver={"max_frequency": 3.0, "order": 8, "passes": "two"})
    for changes, order in (
        ({"solver.method": DG}, 5), ({"solver.method": DG, "solver.order": 6}, 6),
        ({"solver": {"method": DG, "max_frequency": 2.0, "order": 6}}, 6),
    ):  # fmt: skip
        assert given.with_overrides(changes).solver.order == order


@pytest.mark.parametrize(("method", "file"), [(SE, "salt.msh"), (DG, "tetrahedra.msh")])
def test_a_mesh_has_its_own_sizes_ends_and_groups(folder, method, file):
    solver = {"method": method, "mesh": folder / file}
    groups = {"rock": ROCK, "salt": {"vp": 4500, "vs": 2600, "rho": 2150}}
    domain, receivers = BOX | {"z": [-1000, 400]}, [{"name": "A", "position": [0, 0, 350]}]
    simulation = boxed(solver=solver, material={"groups": groups}, domain=domain, receivers=receivers)
    assert (simulation.solver.spacing, simulation.solver.points_per_wavelength) == (None, None)
    assert simulation.resolved_frequency is None and simulation.shortest_wavelength is None
    assert simulation.material_extremes["vs_min"] == 2600.0 and folder / file in simulation.input_files()
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again == simulation and list(again.material.groups) == ["rock", "salt"]
    words = ("material.groups: groups are those of a mesh", "method: spectral_element or discontinuous_galerkin, mesh:")
    refused(lambda: boxed(method, material={"groups": groups}), *words)
    refused(lambda: hilly(folder, solver=solver), "domain.topography: solver.mesh and a topography are both given")


# --- boundaries and limits of methods


@pytest.mark.parametrize(
    ("method", "boundaries", "words"),
    [
        (SE, {"layer": {"cells": 12}}, ["boundaries.layer.cells: without effect"]),
        (SE, {"absorption": "stacey", "layer": {"elements": 5}}, ["elements", "absorption: layer"]),
        (SE, {"absorption": "stacey", "layer": {"kappa": 2}}, ["layer.kappa"]),
        (SE, {"layer": {"elements": 5, "kappa": 2, "reflection": 1e-3, "frequency": 2}}, []),
        (FD, {"layer": {"elements": 5}}, ["layer.elements: without effect with finite_difference"]),
        (FD, {"layer": {"cells": 12, "kappa": 2}}, []),
        (DG, {"layer": {"elements": 5, "kappa": 2}}, ["layer.kappa: without effect with discontinuous_galerkin."]),
        (DG, {"absorption": "stacey", "layer": {"elements": 5}}, ["without effect with discontinuous_galerkin; it co"]),
    ],
)
def test_keys_without_effect_are_told(method, boundaries, words):
    warnings = boxed(method, boundaries=boundaries).warnings()
    assert len(warnings) == (1 if words else 0)
    assert all(word in warnings[0] for word in words)


TILTED = {**ROCK, "anisotropy": {"gamma": 0.1, "axis": [0, 1, 1]}}


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        (FD, {"boundaries": {"absorption": "stacey"}}, ["absorption: stacey is not available", "auto, layer"]),
        (FD, {"output": {"strain": True}}, ["finite_difference does not record", "method: spectral_element can"]),
        (FD, {"material": {"homogeneous": TILTED}},
         ["material.homogeneous.anisotropy: finite_difference requires symmetry axes along x, y and z",
          "method: spectral_element or discontinuous_galerkin can"]),
        (FD, {"material": {"layers": [{"top": 0, **ROCK}, {"top": -9, **TILTED}]}}, ["material.layers[1].anisotropy"]),
        (FD, {"material": {"groups": {"rock": ROCK}}}, ["material.groups: ", "spectral_element"]),
        (SE, {"compute": {"moduli": "compact"}}, ["compute.moduli: compact", "finite_difference"]),
        (SE, {"material": {"layers": [{"top": 0, **WATER, "qp": 500}, {"top": -100, **ROCK}]}},
         ["material.layers[0].qp: spectral_element does not attenuate", "method: discontinuous_galerkin can"]),
        (DG, {"output": {"strain": True}},
         ["output.strain: discontinuous_galerkin does not record strain", "method: spectral_element can"]),
        (DG, {"compute": {"moduli": "compact"}}, ["compute.moduli: compact moduli are for finite_difference only"]),
        (DG, {"material": {"homogeneous": {**WATER, "anisotropy": {"epsilon": 0.1}}}}, ["not positive definite"]),
    ],
)  # fmt: skip
def test_what_methods_refuse(method, changes, words):
    refused(lambda: boxed(method, **changes), *words)


def test_a_topography_must_suit_the_method_and_its_boundary(folder):
    refused(lambda: hilly(folder, FD), "domain.topography: finite_difference", "flat")
    refused(lambda: hilly(folder, boundaries={"top": "rigid"}), "domain.topography: ", "rigid", "top: free")
    assert hilly(folder, DG).domain.ground.z == (-1000.0, 600.0)


# --- fluids


def test_the_slowest_wave_of_a_fluid_is_p():
    water = ElasticProperties(**WATER)
    assert water.is_fluid and water.speed_range == (1500.0, 1500.0)
    assert ElasticProperties(**ROCK).speed_range == (3000.0, 5000.0) and not ElasticProperties(**ROCK).is_fluid
    mud = {"layers": [*SEA["layers"][:1], {"top": -100, "vp": 1600, "vs": 300, "rho": 1500}]}
    deep = {"layers": [{"top": 0, **ROCK}, {"top": -1500, **WATER}]}  # below the domain
    for material, wavelength in ((SEA, 500.0), (mud, 100.0), (deep, 1000.0)):
        assert boxed(DG, material=material).shortest_wavelength == wavelength
    spaced = boxed(material=SEA, solver={"method": DG, "spacing": 100.0})
    assert spaced.resolved_frequency == pytest.approx(1500.0 * 5 / (7 * 100.0))
    coarse = {"method": DG, "spacing": 650.0, "max_frequency": 3.0}
    words = "gives 3.85 points in the shortest wavelength, 500 m (1500 m/s at 3 Hz)"
    refused(lambda: boxed(material=SEA, solver=coarse), words)


def test_gridded_models_and_functions_may_hold_fluids(tmp_path):
    axes = {"x": [-1000.0, 1000.0], "y": [-1000.0, 1000.0], "z": [-1000.0, -500.0, 0.0]}
    ones = np.ones((2, 2, 3))
    values = {"vp": ones * [5000, 1500, 1500], "vs": ones * [3000, 0, 0], "rho": ones * [2600, 1000, 1000]}
    np.savez(tmp_path / "sea.npz", **axes, **values, axes=["x", "y", "z"])

    def function(x, y, z):
        sea = z > -500.0
        return np.where(sea, 1500.0, 5000.0), np.where(sea, 0.0, 3000.0), np.where(sea, 1000.0, 2600.0)

    for material in ({"file": tmp_path / "sea.npz"}, {"function": function}):
        words = ("material: a fluid (vs = 0) stands in the domain", "finite_difference needs vs > 0",
                 "method: spectral_element or discontinuous_galerkin can")  # fmt: skip
        refused(lambda material=material: boxed(FD, material=material), *words)
        for method in (SE, DG):
            assert boxed(method, material=material).shortest_wavelength == 500.0


@pytest.mark.parametrize(
    ("change", "stated"),
    [
        ({}, True), ({"moment_tensor": {"xx": 1e15}}, True),
        ({"moment_tensor": {"xx": 1e15, "yy": 1e15, "zz": 1e15}}, False), ({"position": [0, 0, -300]}, False),
        ({"moment_tensor": None, "force": [0, 0, 1e9]}, False),
        ({"moment_tensor": None, "double_couple": {"strike": 0, "dip": 90, "rake": 0, "m0": 1e15}}, True),
    ],
)  # fmt: skip
def test_shear_in_a_fluid_is_told(change, stated):
    source = {key: value for key, value in {**SHEAR, **change}.items() if value is not None}
    expected = ["sources[0]: it is in a fluid, where only the isotropic part of a moment tensor makes waves."]
    assert boxed(DG, material=SEA, sources=[source]).warnings() == (expected if stated else [])
    [text] = boxed(DG, material=SEA, sources=[{**SHEAR, "position": [0, 0, -300]}, *[SHEAR] * 50]).warnings()
    assert text.startswith("sources: 50 of 51 point sources (first: sources[1]) are in a fluid")


# --- places


def test_depth_counts_from_the_surface(folder):
    crs = {"crs": {"longitude": -117.76, "latitude": 33.95}}
    (folder / "STATIONS").write_text("S1 XX 33.95 -117.76 310 25\nS2 XX 33.951 -117.761 300 0.5\n")
    (folder / "CMTSOLUTION").write_text(CMT)
    place = {"longitude": -117.76, "latitude": 33.95}
    mechanism = {key: value for key, value in FORCE.items() if key != "position"}
    simulation = hilly(
        folder, domain=crs,
        sources=[{"file": folder / "CMTSOLUTION", "delay": 1}, {**place, "depth": 100, **mechanism}],
        receivers=[{"file": folder / "STATIONS"}, {"name": "A", **place}, {"name": "B", **place, "depth": 7}],
    )  # fmt: skip
    assert [source.position[2] for source in simulation.point_sources()] == pytest.approx([-200.0, 200.0])
    first, second, *others = simulation.receiver_list()
    assert [first.position[2], *(other.position[2] for other in others)] == pytest.approx([275.0, 300.0, 293.0])
    x, y, z = second.position
    assert z == pytest.approx(height(x, y) - 0.5)
    assert not any("elevation" in text for text in simulation.warnings())


def test_elevations_far_from_the_surface_are_told(folder):
    first, more = "S1 XX 0.0 500.0 340.0 0.0\nS2 XX 0.0 100.0 400.0 0.0\n", "S3 XX 0.0 100.0 500.0 0.0\n"
    files = {"STATIONS": first, "MORE": more}
    for name, text in files.items():
        (folder / name).write_text(text)
    receivers = [{"file": folder / name, "coordinates": "cartesian"} for name in files]
    [stated] = hilly(folder, receivers=receivers[:1]).warnings()
    assert "receivers[0].file: the elevation of 1 of 2 stations" in stated
    assert "XX.S2: 400 m, the surface is at 310 m" in stated
    [both] = hilly(folder, receivers=receivers).warnings()
    assert both.startswith("receivers: the elevation of 2 of 3 stations") and "XX.S3: 500 m" in both
    [flat] = boxed(SE, receivers=receivers[:1]).warnings()
    assert "2 stations have an elevation" in flat and "the surface is flat" in flat


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"receivers": [{"name": "A", "position": [100, 200, 271]}]},
         ["receivers[0].position: XX.A: z = 271 m is above the ground", "z = 270 m at x = 100 m, y = 200 m"]),
        ({"receivers": [{"name": "A", "position": [0, 0, -1001]}]}, ["z from -1000 to the surface, 300 m"]),
        ({"receivers": [{"name": "A", "position": [1001, 0]}]}, ["x = 1001 m is outside the domain"]),
        ({"sources": [{**FORCE, "position": [0, 900, 150]}]},
         ["sources[0].position: z = 150 m is above the ground", "z = 120 m"]),
        ({"output": {"snapshots": {"interval": 1, "plane": {"z": 601}}}}, ["z = 601 m is outside the domain"]),
        ({"receivers": [{"name": "A", "position": [1]}]}, ["has 1 item", "[x, y, z], or [x, y] for a point"]),
        ({"receivers": [{"line": {"prefix": "L", "start": [0, 0], "end": [1, 1, 0], "count": 2}}]},
         ["receivers[0].line.end: start has 2 numbers and end 3"]),
        ({"receivers": [{"plane": {"prefix": "L", "start": [0, 0], "end": [0, 1], "counts": [2, 2]}}]},
         ["agree in x and z"]),
        ({"sources": [{**FORCE, "position": [0, 0]}]}, ["sources[0].position: ", "3 numbers"]),
    ],
)  # fmt: skip
def test_places_that_are_refused(folder, changes, words):
    refused(lambda: hilly(folder, **changes), *words)


def test_places_and_materials_above_zero(folder):
    source, plane = {**FORCE, "position": [0, 0, 250]}, {"interval": 1, "plane": {"z": 250}}
    assert hilly(folder, sources=[source], output={"snapshots": plane}).warnings() == []
    layers = [{"top": 700, "vp": 3000, "vs": 1700, "rho": 2300}, {"top": 100, **ROCK}]
    assert hilly(folder, material={"layers": layers}).material_extremes["vs_min"] == 1700.0
    assert boxed(SE, material={"layers": layers}).material_extremes["vs_min"] == 3000.0
    words = ("receivers[0].position: two numbers are a point on the free surface", "absorbing")
    receivers = [{"name": "A", "position": [0, 0]}]
    refused(lambda: boxed(SE, receivers=receivers, boundaries={"top": "absorbing"}), *words)
