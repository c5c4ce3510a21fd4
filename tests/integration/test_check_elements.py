"""Report of `check` on elements: mesh, clusters, resolution, quality, memory; refusals; and measured parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from element_kinds import kind_materials, quiet_solver
from lithowave.backends import make_backend
from lithowave.mesh import curved, layered_box, tetrahedral_box, write_gmsh
from lithowave.solvers import Schedule, load_method
from lithowave.solvers.discontinuous_galerkin import KINDS as KINDS_OF_FACES
from lithowave.solvers.spectral_element import (
    ElementKind,
    MeshedModel,
    SpectralElementSolver,
    fill_with_noise,
    first_of_each_kind,
    make_plan,
)
from reference_backend import CPU
from small_run import lithowave, report_of, settings
from tetrahedra_plans import make_solver, noise

SE, DG = "spectral_element", "discontinuous_galerkin"
COMMON = """\
domain: {x: [-600, 600], y: [-600, 600], z: [-800, 0]}
sources:
  - position: [30, -20, -410]
    force: [0, 0, 1.0e10]
    time_function: {gaussian: {sigma: 0.15, delay: 0.8}}
receivers:
  - {network: XX, name: R1, position: [100, 100, 0]}
duration: 0.2
compute: {backend: cpu, threads: 1}
output: {directory: out, sampling_interval: 0.02, checkpoint: null}
"""
SMALL = {
    SE: COMMON + """\
material:
  layers:
    - {top: 0, vp: 3000, vs: 1600, rho: 2300}
    - {top: -400, vp: 5000, vs: 2900, rho: 2600}
boundaries: {absorption: stacey}
solver: {method: spectral_element, max_frequency: 4, degree: 4}
""",
    DG: COMMON.replace("position: [100, 100, 0]", "position: [100, 100, -10]").replace(
        "-410]\n    force: [0, 0, 1.0e10]", "-110]\n    moment_tensor: {xx: 1.0e13, yy: 1.0e13, zz: 1.0e13}"
    ) + """\
material:
  layers:
    - {top: 0, vp: 1500, vs: 0, rho: 1000}
    - {top: -400, vp: 5000, vs: 2900, rho: 2600}
solver: {method: discontinuous_galerkin, max_frequency: 2.7, order: 2, points_per_wavelength: 10}
""",
}
MESHED = COMMON.replace("x: [-600, 600]", "x: [-700, 700]") + """\
material:
  groups:
    soil: {vp: 3000, vs: 1600, rho: 2300}
    rock: {vp: 5000, vs: 2900, rho: 2600}
solver: {method: discontinuous_galerkin, mesh: box.msh, max_frequency: 3, order: 3}
"""
PLANS = {
    # Below an interface, in the elements above a layer and in the layer; other sides would require many more kernels.
    SE: {"damped faces": {}, "layer": {"boundaries.absorption": "layer"}, "attenuation": {
        "boundaries": {"sides": "rigid", "absorption": "layer"}, "material.layers": [
            {"top": 0, "vp": 3000, "vs": 1600, "rho": 2300},
            {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600, "qp": 60, "qs": 30},
        ],
    }, "anisotropy": {"material.layers": [
        {"top": 0, "vp": 3000, "vs": 1600, "rho": 2300, "anisotropy": {"epsilon": 0.1, "gamma": 0.1}},
        {"top": lambda x, y: -400 + 20 * np.sin(x / 200), "vp": 5000, "vs": 2900, "rho": 2600},
    ]}},
    DG: {absorption: {"solver.local_time_steps": False, "boundaries.absorption": absorption, "material.layers": [
        {"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
        {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600, "qp": 60, "qs": 30},
    ]} for absorption in ("stacey", "layer")},
}  # fmt: skip


def write(folder: Path, text: str) -> Path:
    (folder / "small.yaml").write_text(text, encoding="utf-8")
    return folder / "small.yaml"


@pytest.fixture
def meshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description whose mesh of two groups does not reach to the eastern and western ends of the domain."""
    monkeypatch.chdir(tmp_path)
    box = tetrahedral_box((-600, 600), (-600, 600), (-800, 0), 200.0, interfaces=(-400.0,))
    write_gmsh(tmp_path / "box.msh", replace(box, groups=("soil", "rock")))
    return write(tmp_path, MESHED)


# --- the report


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        (SE, "boundaries.absorption=stacey", [
            "spectral element, degree 4", "108 elements (affine isotropic)", "GLL points", "edges of 200 to 400 m",
            "all elements are boxes", "z_max free; absorbing by the Stacey condition",
            "7.25 at vs = 2900 m/s in element", "of the limit, set by vp = ", "; a sample every 0.02 s",
        ]),
        (SE, "boundaries.absorption=layer", [
            "absorbing by perfectly matched layers", "additional elements", "108 elements", "memory variables",
            "edges of 200 to 400 m", "all elements are boxes",
        ]),
        (DG, "solver.order=2", [
            "discontinuous Galerkin, order 2: 4 functions per element", "tetrahedra (", " fluid, ",
            " in the absorbing layer)", "z_max free; absorbing layers", "at vs = 2900 m/s in element",
            "of the limit, set by vp = ", "this run would work here",
        ]),
        (DG, "solver.local_time_steps=true", ["shortest time step", "updates reduced by a factor of"]),
    ],
)  # fmt: skip
def test_check_tells_the_mesh_and_what_limits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, change: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = lithowave("check", write(tmp_path, SMALL[method]), "--no-measure", *settings(change))
    assert [word for word in words if word not in text] == [] and "points/s" not in text
    assert "elements/s" not in text


@pytest.mark.parametrize("method", [SE, DG])
def test_the_report_has_numbers_and_the_run_is_that_which_was_told(tmp_path: Path, method: str) -> None:
    file = write(tmp_path, SMALL[method])
    report = json.loads(lithowave("check", file, "--json"))
    plan = report["plan"]
    assert report["unit"] == "elements" and report["rate_elements_per_s"] > 0 and report["loop_s"] > 0
    assert report["memory_bytes"] > plan["memory_bytes"] > 4 * plan["degrees_of_freedom"]
    if method == SE:
        assert plan["element_count"] == sum(plan["element_kinds"].values()) == 108
        assert plan["degrees_of_freedom"] == 3 * plan["gll_points"]
        assert plan["element_size_m"] == pytest.approx([200, 400]) and plan["mesh_quality"]["skewness"] < 1e-6
    text = lithowave("run", file, "--output", tmp_path / "out")
    assert f"{plan['element_count']:,} elements, " in text and "million elements/s" in text and "points/s" not in text
    made = report_of(tmp_path / "out")
    assert made["unit"] == "elements" and made["rate_elements_per_s"] > 0
    names = ("steps", "element_count", *(["clusters"] if method == DG else []))
    assert [made["plan"][name] for name in names] == [plan[name] for name in names]
    assert f"{plan['element_count']} elements" in (tmp_path / "out" / "log.txt").read_text()


def test_the_report_states_the_clusters(tmp_path: Path) -> None:
    file = write(tmp_path, SMALL[DG])
    plan = json.loads(
        lithowave("check", file, "--json", "--no-measure", *settings("solver.local_time_steps=true"))
    )["plan"]
    assert plan["method"] == DG and plan["order"] == 2 and plan["basis_functions"] == 4
    assert plan["degrees_of_freedom"] == 36 * plan["element_count"] and plan["anisotropic_elements"] == 0
    assert 0 < plan["fluid_elements"] < plan["element_count"]
    # The twelve of a cube are alike; those beside interfaces and faces are not larger; around the source they are cut.
    assert plan["element_size_m"][0] < plan["element_size_m"][1]
    assert plan["mesh_quality"]["radius_ratio"] > 0.03 and plan["mesh_quality"]["worst_element"]["element"] >= 0
    assert sum(cluster["elements"] for cluster in plan["clusters"]) == plan["element_count"]
    assert plan["local_time_steps"] and plan["local_time_step_gain"] > 1
    first, *others = (cluster["time_step_s"] for cluster in plan["clusters"])
    assert first == plan["time_step_s"] == pytest.approx(0.98 * plan["time_step_limit_s"])
    assert others[-1] == pytest.approx(plan["largest_time_step_s"])
    assert others == pytest.approx([first * 2**n for n in range(1, len(others) + 1)])
    assert 0 <= plan["steps"] - 0.2 / plan["largest_time_step_s"] < 6  # four steps after the last sample


def test_the_worst_element_is_named(tmp_path: Path) -> None:
    hill = tmp_path / "hill.npz"
    x = np.linspace(-700, 700, 15)
    heights = 100 * np.exp(-((x / 200) ** 2))[:, None] * np.ones(15)
    np.savez(hill, x=x, y=x, elevation=heights, axes=["y", "x"])
    text = SMALL[SE].replace("z: [-800, 0]}", f"z: [-800, 0], topography: {hill}}}")
    lines = dict(load_method(SE).plan(lw.Simulation.from_text(text, tmp_path), CPU).lines())
    assert "worst in element" in lines["mesh quality"] and "triquadratic" in lines["mesh"]


@pytest.mark.parametrize(("position", "warned"), [("195, 6, 0", True), ("100, 45, 0", False)])
def test_receivers_beside_a_vertex_of_an_imported_mesh_are_told(meshed: Path, position: str, warned: bool) -> None:
    """The cubes of the box have vertices at multiples of 200 m."""
    meshed.write_text(MESHED.replace("position: [100, 100, 0]", f"position: [{position}]"))
    assert ("next to a vertex of the mesh" in lithowave("check", meshed, "--no-measure")) == warned


# --- what is refused


@pytest.mark.parametrize(
    ("command", "old", "new", "words"),
    [
        ("check", "mesh: box.msh", "mesh: bux.msh", ("small.yaml:15: solver.mesh", "does not exist", "'box.msh'")),
        ("check", "    rock: {vp: 5000, vs: 2900, rho: 2600}\n", "",
         ("small.yaml:12: material.groups", "no material for the group 'rock'", "groups of the mesh: soil, rock")),
        ("run", "position: [100, 100, 0]", "position: [650, 0, -10]",
         ("small.yaml:7: receivers", "XX.R1: x = 650 m is outside the mesh (x from -600 to 600 m)")),
        ("run", "position: [30, -20, -410]", "position: [-650, 0, -10]",
         ("small.yaml:3: sources", "x = -650 m is outside the mesh (x from -600 to 600 m)")),
        ("check", "order: 3", "order: 3, time_step: 0.05",
         ("small.yaml:15: solver.time_step", "0.05 s is above the stability limit", "omit time_step")),
        ("check", "max_frequency: 3", "max_frequency: 8",
         ("solver.max_frequency", "8 Hz has 3 points per shortest wavelength in", "order 3 needs at least 7")),
    ],
)  # fmt: skip
def test_bad_input_is_told_with_its_line(
    meshed: Path, command: str, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in MESHED
    meshed.write_text(MESHED.replace(old, new), encoding="utf-8")
    text = lithowave(command, meshed, *(["--no-measure"] if command == "check" else []), status=2)
    assert [word for word in words if word not in text] == [], text


def test_the_same_without_a_fault_runs(meshed: Path) -> None:
    lithowave("run", meshed, *settings("solver.order=2", "solver.max_frequency=1.5"))  # compiled by other tests
    assert np.abs(lw.load_seismograms(meshed.parent / "out").data).max() > 0
    faces = report_of(meshed.parent / "out")["plan"]["faces"]  # of 14 x 14 x 8 cells with the layer, two triangles each
    assert faces == {"free": 2 * 14 * 14, "absorbing": 2 * 14 * (14 + 4 * 8)}


# --- meshes of 27 nodes


def test_boxes_of_27_nodes_are_boxes() -> None:
    """Elements without curvature are worked on as parallelepipeds, however many nodes they have."""
    backend, kind = make_backend("cpu", "double", 1), ElementKind("cuboid", False, False)
    momenta = []
    for bend in (False, True):
        mesh = layered_box((0, 300), (0, 300), [0, -300], [(100, 100)]).local()
        mesh = curved(mesh, lambda x, y, z: (0, 0, 0)) if bend else mesh
        faces = {"absorbing": np.zeros((0, 2), int), "rigid": np.zeros((0, 2), int), "free": mesh.boundaries["z_max"]}
        materials = kind_materials(mesh.element_count, 4, kind, "double")
        model = MeshedModel(mesh, materials, faces, None, 100.0)
        made = make_plan(model, 4, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), "double")
        solver = quiet_solver(made, backend)
        assert made.kinds[0] == [kind]
        fill_with_noise(solver)
        solver.advance(0)
        momenta.append(solver.momentum[:-1, :3].copy())
    assert np.allclose(momenta[0], momenta[1], rtol=1e-12, atol=1e-12 * np.abs(momenta[0]).max())


# --- measurements


def state_after(made: Any, simulation: lw.Simulation, steps: int = 5) -> dict[str, np.ndarray]:
    """The state of the solver of a plan, some steps after noise."""
    if simulation.solver.method == SE:
        solver = SpectralElementSolver(made, simulation, make_backend("cpu", "single", 1))
        fill_with_noise(solver)
    else:
        solver = make_solver(made)
        solver.set_coefficients(noise(made))
    for step in range(steps):
        solver.advance(step)
    return {name: section.values for name, section in solver.state().items()}


@pytest.mark.parametrize(("method", "change"), [(method, change) for method in PLANS for change in PLANS[method]])
def test_the_part_of_all_elements_steps_as_the_plan(method: str, change: str) -> None:
    changes: dict[str, Any] = {**PLANS[method][change], "sources": [], "receivers": []}
    simulation = lw.Simulation.from_text(SMALL[method]).with_overrides(changes)
    whole = load_method(method).plan(simulation, CPU)
    elements = np.arange(whole.element_count)
    part = whole.part(elements, ("absorbing",)) if method == SE else whole.part(elements)
    expected, state = (state_after(made, simulation) for made in (whole, part))
    for name, values in expected.items():
        np.testing.assert_array_equal(state[name], values)


@pytest.mark.parametrize("change", PLANS[SE])
def test_measured_elements_are_of_the_kinds_of_the_run(change: str) -> None:
    """Some elements of each kind, with the coefficients of the run, in its proportion, stable with its time step."""
    simulation = lw.Simulation.from_text(SMALL[SE]).with_overrides(PLANS[SE][change])
    whole = load_method(SE).plan(simulation, CPU)
    some = first_of_each_kind(whole, np.arange(whole.element_count), whole.element_count // 3)
    small = whole.part(some)
    kinds, place = whole.kinds
    assert small.kinds[0] == kinds and (np.diff(some) > 0).all()
    members, few = np.bincount(place), np.bincount(small.kinds[1])
    assert (few == np.maximum(1, np.round(members / members.sum() * (whole.element_count // 3)))).all()
    np.testing.assert_array_equal(small.materials.density(), whole.materials.density()[some])
    for kind in range(len(kinds)):
        own = np.flatnonzero(small.kinds[1] == kind)
        few, all_of_them = small.materials.moduli(own), whole.materials.moduli(some[own])
        np.testing.assert_array_equal(*(moduli[rows] for moduli, rows in (few, all_of_them)))
    solver = quiet_solver(small, make_backend("cpu", "single", 1))
    fill_with_noise(solver)
    solver.advance(0)
    first = solver.largest_velocity()
    for step in range(300):
        solver.advance(step)
    assert solver.largest_velocity() < 10 * first


def test_a_part_of_a_plan_ends_at_absorbing_faces() -> None:
    whole = load_method(DG).plan(lw.Simulation.from_text(SMALL[DG]), CPU)
    elements = np.flatnonzero(whole.clustering.cluster == 0)
    small, free = whole.part(elements), KINDS_OF_FACES["free"]
    across, expected = small.face_neighbors, whole.face_neighbors[elements]
    np.testing.assert_array_equal(across[expected < 0], expected[expected < 0])
    inside = across >= 0
    np.testing.assert_array_equal(elements[across[inside]], expected[inside])
    assert (across[~inside & (expected >= 0)] == KINDS_OF_FACES["absorbing"]).all() and (across == free).any()
    assert small.schedule.time_step == whole.clustering.shortest and small.unit_count == len(elements)
    np.testing.assert_array_equal(small.mesh.element_vertices(), whole.mesh.element_vertices(elements))
