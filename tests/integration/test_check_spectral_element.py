"""What `check` tells of spectral elements: mesh, resolution, quality, memory; and what runs tell as they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from element_kinds import kind_materials, quiet_solver
from lithowave.backends import make_backend
from lithowave.mesh import curved, layered_box
from lithowave.solvers import Schedule, load_method
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

SMALL = """\
title: small
domain: {x: [-600, 600], y: [-600, 600], z: [-800, 0]}
material:
  layers:
    - {top: 0, vp: 3000, vs: 1600, rho: 2300}
    - {top: -400, vp: 5000, vs: 2900, rho: 2600}
sources:
  - position: [30, -20, -410]
    double_couple: {strike: 30, dip: 60, rake: 90, mw: 4}
    time_function: {gaussian: {sigma: 0.06, delay: 0.4}}
receivers:
  - {network: XX, line: {prefix: L, start: [-500, 0, 0], end: [500, 0, 0], count: 3}}
duration: 0.4
boundaries: {absorption: stacey}
solver: {method: spectral_element, max_frequency: 4, degree: 4}
compute: {backend: cpu, threads: 1}
output: {directory: out, sampling_interval: 0.02, checkpoint: null}
"""


def write(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# --- what is told


def test_check_tells_the_mesh_and_what_limits_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    text = lithowave("check", file, "--no-measure")
    for words in (
        "spectral element, degree 4",
        "108 elements (affine isotropic)",
        "GLL points",
        "edges of 200 to 400 m",
        "all elements are boxes",
        "z_max free; absorbing by the Stacey condition",
        "7.25 at vs = 2900 m/s in element",
        "of the limit, set by vp = ",
        "; a sample every 0.02 s",
    ):
        assert words in text, words
    assert "points/s" not in text
    layer = lithowave("check", file, "--no-measure", *settings("boundaries.absorption=layer"))
    for words in ("absorbing by perfectly matched layers", "additional elements", "108 elements", "memory variables"):
        assert words in layer, words
    assert "edges of 200 to 400 m" in layer and "all elements are boxes" in layer


def test_the_report_has_numbers(tmp_path: Path) -> None:
    report = json.loads(lithowave("check", write(tmp_path), "--json"))
    plan = report["plan"]
    assert plan["element_count"] == sum(plan["element_kinds"].values()) == 108
    assert plan["degrees_of_freedom"] == 3 * plan["gll_points"]
    assert plan["element_size_m"] == pytest.approx([200, 400]) and plan["mesh_quality"]["skewness"] < 1e-6
    assert report["unit"] == "elements" and report["rate_elements_per_s"] > 0 and report["loop_s"] > 0
    assert report["memory_bytes"] > plan["memory_bytes"]


def test_the_worst_element_is_named(tmp_path: Path) -> None:
    hill = tmp_path / "hill.npz"
    x = np.linspace(-700, 700, 15)
    heights = 100 * np.exp(-((x / 200) ** 2))[:, None] * np.ones(15)
    np.savez(hill, x=x, y=x, elevation=heights, axes=["y", "x"])
    text = SMALL.replace("z: [-800, 0]}", f"z: [-800, 0], topography: {hill}}}")
    simulation = lw.Simulation.from_text(text, tmp_path)
    told = dict(load_method("spectral_element").plan(simulation, CPU).lines())
    assert "worst in element" in told["mesh quality"] and "triquadratic" in told["mesh"]


def test_a_run_counts_elements(tmp_path: Path) -> None:
    text = lithowave("run", write(tmp_path), "--output", tmp_path / "out")
    assert "108 elements, " in text and "million elements/s" in text and "points/s" not in text
    report = report_of(tmp_path / "out")
    assert report["unit"] == "elements" and report["rate_elements_per_s"] > 0
    assert "108 elements" in (tmp_path / "out" / "log.txt").read_text()


# --- meshes of 27 nodes


def test_boxes_of_27_nodes_are_boxes() -> None:
    """Elements without curvature are worked on as parallelepipeds, however many nodes they have."""
    backend, kind = make_backend("cpu", "double", 1), ElementKind("affine", False, False)
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


CHANGES: dict[str, dict[str, Any]] = {
    "damped faces": {},
    "layer": {"boundaries.absorption": "layer"},
    # Below an interface, in the elements above a layer and in the layer; other sides would require many more kernels.
    "attenuation": {"boundaries": {"sides": "rigid", "absorption": "layer"}, "material.layers": [
        {"top": 0, "vp": 3000, "vs": 1600, "rho": 2300},
        {"top": lambda x, y: -400 + 20 * np.sin(x / 200), "vp": 5000, "vs": 2900, "rho": 2600, "qp": 60, "qs": 30},
    ]},
    "anisotropy": {"material.layers": [
        {"top": 0, "vp": 3000, "vs": 1600, "rho": 2300, "anisotropy": {"epsilon": 0.1, "gamma": 0.1}},
        {"top": lambda x, y: -400 + 20 * np.sin(x / 200), "vp": 5000, "vs": 2900, "rho": 2600},
    ]},
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_part_of_all_elements_steps_as_the_plan(change: str) -> None:
    simulation = lw.Simulation.from_text(SMALL).with_overrides({**CHANGES[change], "sources": [], "receivers": []})
    backend, motions = make_backend("cpu", "single", 1), []
    whole = load_method("spectral_element").plan(simulation, backend)
    for made in (whole, whole.part(np.arange(whole.element_count), ("absorbing",))):
        solver = SpectralElementSolver(made, simulation, backend)
        fill_with_noise(solver)
        for step in range(5):
            solver.advance(step)
        motions.append(solver.momentum.copy())
    np.testing.assert_array_equal(*motions)


@pytest.mark.parametrize("change", CHANGES)
def test_measured_elements_are_of_the_kinds_of_the_run(change: str) -> None:
    """Some elements of each kind, with the coefficients of the run, in its proportion, stable with its time step."""
    simulation, backend = lw.Simulation.from_text(SMALL).with_overrides(CHANGES[change]), CPU
    whole = load_method("spectral_element").plan(simulation, backend)
    some = first_of_each_kind(whole, np.arange(whole.element_count), whole.element_count // 3)
    small = whole.part(some)
    kinds, place = whole.kinds
    assert small.kinds[0] == kinds and (np.diff(some) > 0).all()
    members, few = np.bincount(place), np.bincount(small.kinds[1])
    assert (few == np.maximum(1, np.round(members / members.sum() * (whole.element_count // 3)))).all()
    np.testing.assert_array_equal(small.materials.density(), whole.materials.density()[some])
    for kind in range(len(kinds)):
        own = np.flatnonzero(small.kinds[1] == kind)
        np.testing.assert_array_equal(small.materials.moduli(own), whole.materials.moduli(some[own]))
    solver = quiet_solver(small, make_backend("cpu", "single", 1))
    fill_with_noise(solver)
    solver.advance(0)
    first = solver.largest_velocity()
    for step in range(300):
        solver.advance(step)
    assert solver.largest_velocity() < 10 * first
