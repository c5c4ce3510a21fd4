"""Absorbing layers around meshes that are read: seismograms, what `check` states, and meshes that allow no layer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from gmsh_files import write_gmsh as write_hexahedra
from lithowave import InputError
from lithowave.mesh import HexahedralMesh, layered_box, split_hexahedra, write_gmsh
from lithowave.run import check_simulation
from lithowave.solvers import load_method
from lithowave.solvers.spectral_element import built_box, built_mesh
from reference_backend import CPU
from verification_tools import relative_l2, velocities

SE, DG = "spectral_element", "discontinuous_galerkin"
SOFT, ROCK = {"vp": 2400, "vs": 1200, "rho": 2000}, {"vp": 5000, "vs": 2900, "rho": 2600}
GROUPS = {"groups": {"soft": SOFT, "rock": ROCK}}
LAYERS = {"layers": [{"top": 0, **SOFT}, {"top": -400, **ROCK}]}
SURFACES = {"free": ["z_max"], "absorbing": ["x_min", "x_max", "y_min", "y_max"], "bottom": ["z_min"]}
FREQUENCY = 2.0
SINGLE = {"backend": "cpu", "precision": "single", "threads": 1}


def content(method: str = SE, **changes: Any) -> dict[str, Any]:
    return {
        "domain": {"x": [-600, 600], "y": [-600, 600], "z": [-800, 0]},
        "material": GROUPS,
        "sources": [
            {
                "position": [30, -20, -410],
                "moment_tensor": {"xx": 1e13, "yy": -5e12, "zz": 5e12, "xz": 8e12},
                "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.6}},
            }
        ],
        # Near a side, near a corner, on the surface.
        "receivers": [
            {"name": f"R{n}", "position": position}
            for n, position in enumerate([[550, 100, -120], [560, 550, -700], [-330, 250, 0]])
        ],
        "duration": 1.2,
        "solver": {"method": method, "max_frequency": FREQUENCY},
        "compute": {"backend": "cpu", "precision": "double", "threads": 1},
        "output": {"sampling_interval": 0.02},
        **changes,
    }  # fmt: skip


def built(**changes: Any) -> lw.Simulation:
    """The same ground with a generated mesh."""
    solver = {"method": SE, "max_frequency": FREQUENCY, "spacing": 400, "refine_sources": False}
    return lw.Simulation(**content(**{"solver": solver, "material": LAYERS, **changes}))


def box() -> HexahedralMesh:
    return layered_box((-600, 600), (-600, 600), [0.0, -400.0, -800.0], [(400, 400), (400, 400)])


def imported(
    folder: Path, mesh: Any = None, method: str = SE, surfaces: Any = SURFACES, **changes: Any
) -> lw.Simulation:
    """The simulation with a mesh that is written to a file and read."""
    mesh, path = box() if mesh is None else mesh, folder / "mesh.msh"
    if method == SE:
        write_hexahedra(path, mesh, ["soft", "rock"], surfaces)
    else:
        write_gmsh(path, replace(mesh, groups=("soft", "rock")))
    solver = {"method": method, "mesh": path, "max_frequency": FREQUENCY} | changes.pop("solver", {})
    return lw.Simulation(**content(method, solver=solver, **changes))


def plan_of(simulation: lw.Simulation) -> Any:
    return load_method(simulation.solver.method).plan(simulation, CPU)


@pytest.mark.slow
def test_a_hill_continues_as_in_the_generated_mesh(tmp_path: Path) -> None:
    """Elements of 27 nodes; the hill reaches the western side."""
    x = np.linspace(-600, 600, 25)  # beyond these ends the surface is constant also in the generated mesh
    height = 60 * np.exp(-((x + 500) ** 2 + (x[:, None] - 100) ** 2) / 450.0**2)
    np.savez(tmp_path / "hill.npz", x=x, y=x, elevation=height, axes=["y", "x"])
    domain = {**content()["domain"], "topography": str(tmp_path / "hill.npz")}
    receivers = [{"name": "A", "position": [-550, 100, -50]}, {"name": "B", "position": [-550, -560, -300]}]
    generated = built(domain=domain, receivers=receivers)
    bare = generated.with_overrides({"boundaries.absorption": "stacey"})
    mesh = built_mesh(bare, built_box(bare))
    found = imported(tmp_path, mesh, receivers=receivers)
    assert found.solver.mesh is not None and plan_of(found).mesh.nodes.shape[1] == 27
    assert relative_l2(velocities(found)[1], velocities(generated)[1]) < 1e-9


ONE_SIDE = {"sides": "free", "x_max": "absorbing", "bottom": "rigid"}
EACH = {name: [name] for name in ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")}


def test_only_some_sides_absorb(tmp_path: Path) -> None:
    found = imported(tmp_path, surfaces=EACH, boundaries=ONE_SIDE)
    assert relative_l2(velocities(found)[1], velocities(built(boundaries=ONE_SIDE))[1]) < 1e-9


@pytest.mark.slow
def test_tetrahedra_as_in_the_generated_mesh(tmp_path: Path) -> None:
    """The same elements in the mesh, prisms instead of cubes in the layer. Measured: 0.66%, and 52% with bare faces."""
    solver = {"method": DG, "refine_sources": False, "max_frequency": FREQUENCY, "spacing": 400}
    mesh = split_hexahedra(box())
    found = imported(tmp_path, mesh, DG, compute=SINGLE)
    expected = velocities(built(solver=solver, compute=SINGLE))[1]
    assert relative_l2(velocities(found)[1], expected) < 0.008
    stacey = found.with_overrides({"boundaries.absorption": "stacey"})
    assert relative_l2(velocities(stacey)[1], expected) > 0.4
    made = plan_of(found)
    assert made.element_count - made.added_elements().sum() == mesh.element_count
    assert made.points_per_wavelength() == pytest.approx(plan_of(stacey).points_per_wavelength())


def function_of_place(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """Known in the mesh only: elsewhere a run would fail."""
    inside = (np.abs(x) <= 600) & (np.abs(y) <= 600) & (z >= -800) & (z <= 0)
    vs = np.where(inside, 1500.0 + 0.5 * x, np.nan)
    return 1.8 * vs, vs, 2000.0 + 0.0 * vs


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("method", [SE, DG])
def test_the_medium_is_constant_outwards(tmp_path: Path, method: str, read: bool) -> None:
    """Outside a mesh that is read, and outside a box, it is that at the sides."""
    if read:
        tetrahedra = split_hexahedra(layered_box((-600, 600), (-600, 600), [0, -800.0], [(400, 400)]))
        described = imported(
            tmp_path, box() if method == SE else tetrahedra, method, material={"function": function_of_place}
        )
    else:
        solver = {"method": method, "max_frequency": FREQUENCY}
        described = built(solver=solver, material={"function": function_of_place})
    found = plan_of(described)
    elements = np.arange(found.element_count)
    slowest = found.slowest(elements) if method == SE else found.materials.slowest_speed
    outside = found.mesh.vertices[found.mesh.elements][:, :, 0].min(axis=1) >= 600
    assert outside.any() and slowest[outside].min() > 1650 and slowest.max() < 1801 and slowest.min() > 1199


@pytest.mark.parametrize("method", [SE, DG])
def test_check_states_the_layer(tmp_path: Path, method: str) -> None:
    mesh = box() if method == SE else split_hexahedra(box())
    checked = check_simulation(imported(tmp_path, mesh, method, duration=0.1), measure=False)
    text = str(checked)
    assert ("178 additional elements" if method == SE else "in the absorbing layer") in text
    assert not [one for one in checked.warnings if "absorption" in one]


@pytest.mark.parametrize("method", [SE, DG])
@pytest.mark.parametrize("place", [[700, 0, -100], [0, 0, -900]])
def test_places_in_the_layer_are_in_no_element(tmp_path: Path, method: str, place: list[float]) -> None:
    """The domain of the file is larger than the mesh; snapshots have no ground there."""
    mesh = box() if method == SE else split_hexahedra(box())
    domain = {"x": [-1000, 1000], "y": [-600, 600], "z": [-1200, 0]}
    found = imported(tmp_path, mesh, method, domain=domain)
    plan = plan_of(found)
    positions = np.array([place, [0, 0, -100.0], [600, 0, -100]])
    located = plan.locate(positions, plan.tolerance).locations
    assert set(located.point.tolist()) == {1, 2}
    for key in ("receivers", "sources"):
        entry = {**content(method)[key][0], "position": place}
        with pytest.raises(InputError, match=rf"{key}.*is outside the mesh"):
            velocities(imported(tmp_path, mesh, method, domain=domain, **{key: [entry]}))


def tilted(mesh: Any) -> Any:
    """The eastern side leans outwards with depth."""
    shift = np.zeros_like(mesh.vertices)
    shift[:, 0] = np.where(mesh.vertices[:, 0] > 0, -0.1 * mesh.vertices[:, 2] * mesh.vertices[:, 0] / 600, 0)
    return replace(mesh, vertices=mesh.vertices + shift)


@pytest.mark.parametrize("method", [SE, DG])
def test_a_side_that_is_not_plane_is_named(tmp_path: Path, method: str) -> None:
    """By default it absorbs by the condition at the face, with a warning; a layer is refused."""
    mesh = tilted(box() if method == SE else split_hexahedra(box()))
    found = imported(tmp_path, mesh, method)
    surface = "absorbing" if method == SE else "x_max"
    plan = plan_of(found)
    first, *_ = (one for one in plan.warnings(found) if "absorption" in one)
    assert first.startswith("boundaries.absorption: auto is stacey here") and f"in the surface '{surface}'" in first
    assert "in no plane of its bounding box" in first and "Make each absorbing side of the mesh one plane" in first
    count = plan.mesh_statistics.layer_elements if method == SE else plan.mesh_statistics.layer
    assert count == 0 and plan.element_count == mesh.element_count
    with pytest.raises(InputError, match=r"boundaries.absorption.*in no plane.*set boundaries.absorption to stacey"):
        plan_of(found.with_overrides({"boundaries.absorption": "layer"}))
    stacey = found.with_overrides({"boundaries.absorption": "stacey"})
    assert not any("auto" in one for one in plan_of(stacey).warnings(stacey))


def test_without_a_frequency_that_of_the_sources_counts(tmp_path: Path) -> None:
    found = imported(tmp_path, solver={"max_frequency": None})
    highest = found.sources[0].time_function.maximum_frequency()
    assert plan_of(found).layer.frequency == pytest.approx(0.5 * highest)
