"""What `check` tells of discontinuous Galerkin: mesh, clusters, resolution, memory; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.mesh import tetrahedral_box, write_gmsh
from lithowave.solvers import load_method
from lithowave.solvers.discontinuous_galerkin import KINDS as KINDS_OF_FACES
from reference_backend import CPU
from small_run import lithowave, report_of, settings
from tetrahedra_plans import make_solver, noise

SMALL = """\
title: small
domain: {x: [-600, 600], y: [-600, 600], z: [-800, 0]}
material:
  layers:
    - {top: 0, vp: 1500, vs: 0, rho: 1000}
    - {top: -400, vp: 5000, vs: 2900, rho: 2600}
sources:
  - position: [30, -20, -110]
    moment_tensor: {xx: 1.0e13, yy: 1.0e13, zz: 1.0e13}
    time_function: {gaussian: {sigma: 0.15, delay: 0.8}}
receivers:
  - {network: XX, line: {prefix: L, start: [-500, 0, -10], end: [500, 0, -10], count: 3}}
duration: 0.2
solver: {method: discontinuous_galerkin, max_frequency: 2.7, order: 2, points_per_wavelength: 10}
compute: {backend: cpu, threads: 1}
output: {directory: out, sampling_interval: 0.02, checkpoint: null}
"""
MESHED = """\
title: from a file
domain: {x: [-700, 700], y: [-600, 600], z: [-800, 0]}
material:
  groups:
    soil: {vp: 3000, vs: 1600, rho: 2300}
    rock: {vp: 5000, vs: 2900, rho: 2600}
sources:
  - position: [30, -20, -410]
    force: [0, 0, 1.0e10]
    time_function: {gaussian: {sigma: 0.15, delay: 0.6}}
receivers:
  - {network: XX, name: R1, position: [100, 100, 0]}
duration: 0.1
solver: {method: discontinuous_galerkin, mesh: box.msh, max_frequency: 3, order: 3}
compute: {backend: cpu, threads: 1}
output: {directory: out, sampling_interval: 0.02, checkpoint: null}
"""


def write(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def meshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description whose mesh of two groups does not reach to the eastern and western ends of the domain."""
    monkeypatch.chdir(tmp_path)
    box = tetrahedral_box((-600, 600), (-600, 600), (-800, 0), 200.0, interfaces=(-400.0,))
    write_gmsh(tmp_path / "box.msh", replace(box, groups=("soil", "rock")))
    return write(tmp_path, MESHED)


# --- what is told


@pytest.mark.parametrize(("place", "told"), [("195, 6, 0", True), ("100, 45, 0", False)])
def test_receivers_beside_a_vertex_of_an_imported_mesh_are_told(meshed: Path, place: str, told: bool) -> None:
    """The cubes of the box have vertices at multiples of 200 m."""
    meshed.write_text(meshed.read_text().replace("position: [100, 100, 0]", f"position: [{place}]"))
    text = lithowave("check", meshed, "--no-measure")
    assert ("next to a vertex of the mesh" in text) == told


def test_check_tells_the_mesh_and_its_time_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    text = lithowave("check", file, "--no-measure")
    for words in (
        "discontinuous Galerkin, order 2: 4 functions per element",
        "tetrahedra (",
        " fluid, ",
        " in the absorbing layer)",
        "z_max free; absorbing layers",
        "at vs = 2900 m/s in element",
        "of the limit, set by vp = ",
        "this run would work here",
    ):
        assert words in text, words
    assert "elements/s" not in text
    local = lithowave("check", file, "--no-measure", *settings("solver.local_time_steps=true"))
    assert "shortest time step" in local and "updates reduced by a factor of" in local


def test_the_report_has_numbers(tmp_path: Path) -> None:
    changes = settings("solver.local_time_steps=true")
    report = json.loads(lithowave("check", write(tmp_path), "--json", *changes))
    plan = report["plan"]
    assert plan["method"] == "discontinuous_galerkin" and plan["order"] == 2 and plan["basis_functions"] == 4
    assert plan["degrees_of_freedom"] == 36 * plan["element_count"] and plan["anisotropic_elements"] == 0
    assert 0 < plan["fluid_elements"] < plan["element_count"]
    # The twelve of a cube are alike; those beside interfaces and faces are not larger; around the source they are cut.
    assert plan["element_size_m"][0] < plan["element_size_m"][1]
    assert plan["mesh_quality"]["radius_ratio"] > 0.03 and plan["mesh_quality"]["worst_element"]["element"] >= 0
    assert sum(one["elements"] for one in plan["clusters"]) == plan["element_count"]
    assert plan["local_time_steps"] and plan["local_time_step_gain"] > 1
    first, *others = (one["time_step_s"] for one in plan["clusters"])
    assert first == plan["time_step_s"] == pytest.approx(0.98 * plan["time_step_limit_s"])
    assert others[-1] == pytest.approx(plan["largest_time_step_s"])
    assert others == pytest.approx([first * 2**n for n in range(1, len(others) + 1)])
    assert 0 <= plan["steps"] - 0.2 / plan["largest_time_step_s"] < 6  # four steps after the last sample
    assert report["unit"] == "elements" and report["rate_elements_per_s"] > 0 and report["loop_s"] > 0
    assert report["memory_bytes"] > plan["memory_bytes"] > 4 * plan["degrees_of_freedom"]


def test_a_run_is_that_which_was_told(tmp_path: Path) -> None:
    file = write(tmp_path)
    plan = json.loads(lithowave("check", file, "--json", "--no-measure"))["plan"]
    text = lithowave("run", file, "--output", tmp_path / "out")
    assert "million elements/s" in text and "points/s" not in text
    report = report_of(tmp_path / "out")
    assert report["unit"] == "elements" and report["rate_elements_per_s"] > 0
    assert {name: report["plan"][name] for name in ("steps", "element_count", "clusters")} == {
        name: plan[name] for name in ("steps", "element_count", "clusters")
    }


# --- what is refused


@pytest.mark.parametrize(
    ("command", "changes", "words"),
    [
        ("check", {"mesh: box.msh": "mesh: bux.msh"}, ("small.yaml:14: solver.mesh", "does not exist", "'box.msh'")),
        (
            "check", {"    rock: {vp: 5000, vs: 2900, rho: 2600}\n": ""},
            ("small.yaml:4: material.groups", "no material for the group 'rock'", "groups of the mesh: soil, rock"),
        ),
        (
            "run", {"position: [100, 100, 0]": "position: [650, 0, -10]"},
            ("small.yaml:12: receivers", "XX.R1: x = 650 m is outside the mesh (x from -600 to 600 m)"),
        ),
        (
            "run", {"position: [30, -20, -410]": "position: [-650, 0, -10]"},
            ("small.yaml:8: sources", "x = -650 m is outside the mesh (x from -600 to 600 m)"),
        ),
        (
            "check", {"order: 3}": "order: 3, time_step: 0.05}"},
            ("small.yaml:14: solver.time_step", "0.05 s is above the stability limit", "omit time_step"),
        ),
        (
            "check", {"max_frequency: 3": "max_frequency: 8"},
            ("solver.max_frequency", "8 Hz has 3 points per shortest wavelength in", "order 3 needs at least 7"),
        ),
        ("check", {"order: 3": "order: 8"}, ("solver.order", "8 is not an order", "choose 2 to 7")),
        ("check", {"order: 3": "degree: 3"}, ("solver.degree", "does not apply to discontinuous_galerkin")),
    ],
    ids=str,
)  # fmt: skip
def test_bad_input_is_told_with_its_line(
    meshed: Path, command: str, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    text = MESHED
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    meshed.write_text(text, encoding="utf-8")
    told = lithowave(command, meshed, *(["--no-measure"] if command == "check" else []), status=2)
    for part in words:
        assert part in told, told


def test_the_same_without_a_fault_runs(meshed: Path) -> None:
    lithowave("run", meshed, *settings("solver.order=2", "solver.max_frequency=1.5"))  # compiled by other tests
    assert np.abs(lw.load_seismograms(meshed.parent / "out").data).max() > 0
    faces = report_of(meshed.parent / "out")["plan"]["faces"]  # of 14 x 14 x 8 cells with the layer, two triangles each
    assert faces == {"free": 2 * 14 * 14, "absorbing": 2 * 14 * (14 + 4 * 8)}


# --- measurements


@pytest.mark.parametrize("absorption", ["stacey", "layer"])
def test_the_part_of_all_elements_steps_as_the_plan(absorption: str) -> None:
    changes = {
        "sources": [], "receivers": [], "solver.local_time_steps": False, "boundaries.absorption": absorption,
        "material.layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
                            {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600, "qp": 60, "qs": 30}],
    }  # fmt: skip
    simulation, states = lw.Simulation.from_text(SMALL).with_overrides(changes), []
    whole = load_method("discontinuous_galerkin").plan(simulation, CPU)
    for made in (whole, whole.part(np.arange(whole.element_count))):
        solver = make_solver(made)
        solver.set_coefficients(noise(whole))
        for step in range(5):
            solver.advance(step)
        states.append({name: piece.values for name, piece in solver.state().items()})
    for name, values in states[0].items():
        np.testing.assert_array_equal(values, states[1][name])


def test_a_part_of_a_plan_ends_at_absorbing_faces() -> None:
    whole = load_method("discontinuous_galerkin").plan(lw.Simulation.from_text(SMALL), CPU)
    elements = np.flatnonzero(whole.clustering.cluster == 0)
    small, free = whole.part(elements), KINDS_OF_FACES["free"]
    across, expected = small.face_neighbors, whole.face_neighbors[elements]
    np.testing.assert_array_equal(across[expected < 0], expected[expected < 0])
    inside = across >= 0
    np.testing.assert_array_equal(elements[across[inside]], expected[inside])
    assert (across[~inside & (expected >= 0)] == KINDS_OF_FACES["absorbing"]).all() and (across == free).any()
    assert small.schedule.time_step == whole.clustering.shortest and small.unit_count == len(elements)
    np.testing.assert_array_equal(small.mesh.element_vertices(), whole.mesh.element_vertices(elements))
