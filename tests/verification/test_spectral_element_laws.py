"""Laws of spectral elements: energy over many steps, the limit of the time step, rigid and free faces."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from exact_solutions.plane_waves import PlaneWave, pressure_wave, shear_wave
from lithowave.media import thomsen_stiffness
from lithowave.mesh import HexahedralMesh, layered_box
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.solvers.spectral_element import ElementMaterials, SpectralElementSolver
from slow_variants import slow_except
from spectral_element_boxes import (
    MAPS,
    RHO,
    ROCK,
    VP,
    VS,
    box_mesh,
    drive,
    make_solver,
    one_material,
    point_positions,
    several_materials,
    side_points,
    start_from,
)
from verification_tools import draw, record, relative_l2

SIZE = 1000.0
SOFT = isotropic_stiffness(*lame_moduli(1500.0, 400.0, 1700.0))
TILTED = thomsen_stiffness(4000.0, 2200.0, 2500.0, epsilon=0.22, delta=0.08, gamma=0.15, axis=(0.4, -0.5, 0.75))


def contrast(mesh: HexahedralMesh) -> ElementMaterials:
    """Soft ground over rock: a contrast of nine in the speed of S waves."""
    height = mesh.element_nodes().mean(axis=1)[:, 2]
    upper = height > 0.5 * (height.min() + height.max())
    return several_materials(upper.astype(int), [ROCK, SOFT], [RHO, 1700.0], [False, False])


def step_energy(solver: SpectralElementSolver, step: int) -> float:
    r"""Energy, J, at the beginning of a step, which is then done.

    Leapfrog steps keep E = p M^-1 p / 2 + u_- K u_+ / 2 with u half a step before and after p: as
    p' = p - dt K u_+ and u_++ = u_+ + dt M^-1 p', E' - E = (p' + p) M^-1 (p' - p) / 2 + u_+ K (u_++ - u_-) / 2 = 0. The
    solver's momenta are p / dt, so that p M^-1 p is scale * momentum^2 and K u_+ what a step takes from them.
    """
    moved = solver.displacement[:-1, :3].astype(float)
    scale, before = solver.displacement[:-1, 3:].astype(float), solver.momentum[:-1, :3].astype(float)
    solver.advance(step)
    free = scale[:, 0] > 0
    taken = before - solver.momentum[:-1, :3]
    return 0.5 * float((scale * before**2)[free].sum() + (moved * taken)[free].sum())


@pytest.mark.slow
@pytest.mark.parametrize(("sides", "steps"), [("free", 10_000), ("free", 50_000), ("rigid", 50_000)])
def test_energy_over_many_steps(sides: str, steps: int) -> None:
    """Deformed elements, a strong contrast, single precision, 0.95 of the largest time step: no drift, no growth."""
    mesh = box_mesh((3, 3, 3), SIZE, "trilinear")
    kinds = {name: sides for name in mesh.boundaries if name != "z_max"}
    solver = make_solver(mesh, 4, contrast(mesh), kinds, safety=0.95, precision="single")
    centre = point_positions(solver.plan) / SIZE - [0.5, 0.5, -0.5]
    hill = np.exp(-30 * (centre**2).sum(axis=1))[:, None] * [1.0, -0.7, 0.4]
    start_from(solver, hill, hill)
    every = steps // 100
    energies = []
    for step in range(steps):
        if step % every:
            solver.advance(step)
        else:
            energies.append(step_energy(solver, step))
    change = np.array(energies) / energies[0] - 1
    drift, growth = float(np.abs(change).max()), float(change.max())
    if steps == 50_000:
        record(f"element_energy_{sides}", drift=drift, growth=growth, steps=steps, precision="single")

    def plot(figure: object) -> None:
        axis = figure.subplots()
        axis.plot(every * np.arange(len(change)), change)
        axis.set_xlabel("step")
        axis.set_ylabel("change of the energy")

    if sides == "rigid":
        draw("element_energy", plot)
    assert energies[0] > 0 and np.isfinite(change).all()
    assert drift <= 1e-3
    assert growth <= 2e-4


@pytest.mark.slow
def test_energy_is_constant_to_rounding() -> None:
    """All kinds of maps, rigid sides: double precision keeps twelve digits."""
    worst = 0.0
    for shape in MAPS:
        mesh = box_mesh((2, 2, 2), SIZE, shape)
        solver = make_solver(mesh, 4, contrast(mesh), {"z_min": "rigid", "x_max": "rigid"}, safety=0.9)
        start = np.random.default_rng(2).standard_normal((solver.plan.total_points, 3))
        start[solver.displacement[:-1, 3] == 0] = 0
        start_from(solver, start, start)
        energies = np.array([step_energy(solver, step) for step in range(400)])
        worst = max(worst, float(np.abs(energies / energies[0] - 1).max()))
    record("element_rounding_energy", drift=worst, steps=400)
    assert worst < 1e-12


def largest_frequency(solver: SpectralElementSolver) -> float:
    """Largest angular frequency, 1/s, of a mesh with free faces, by power iteration with the solver's own forces."""
    plan = solver.plan
    u = np.random.default_rng(0).standard_normal((plan.total_points, 3))
    for _ in range(250):
        solver.displacement[:-1, :3] = u
        solver.momentum[:] = 0
        solver.add_forces()
        after = -solver.momentum[:-1, :3] / plan.element_statistics.mass[:, None]
        square = np.linalg.norm(after) / np.linalg.norm(u)
        u = after / np.linalg.norm(after)
    return math.sqrt(square)


def flat_elements() -> HexahedralMesh:
    """Elements five times as wide as high, and sheared."""
    mesh = layered_box((0, SIZE), (0, SIZE), [0.0, -160.0], [(SIZE / 4, 40.0)]).local()
    x, y, z = mesh.vertices.T
    return replace(mesh, vertices=np.stack([x + 0.8 * z, y - 0.3 * x, z + 0.15 * y], axis=-1))


MESHES = {shape: lambda shape=shape: box_mesh((4, 4, 4), SIZE, shape) for shape in MAPS} | {"flat": flat_elements}


@pytest.mark.parametrize(
    ("name", "material"),
    slow_except([("flat", "contrast")], itertools.product(MESHES, ["one", "contrast", "anisotropic"])),
)
def test_limit_of_the_time_step(name: str, material: str) -> None:
    """The plan's limit is below the true one, and not far below."""
    mesh = MESHES[name]()
    if material == "anisotropic":
        materials, degree = one_material(mesh.element_count, TILTED, 2500.0, anisotropic=True), 2
    else:
        materials, degree = contrast(mesh) if material == "contrast" else one_material(mesh.element_count), 4
    solver = make_solver(mesh, degree, materials)
    ratio = solver.plan.schedule.limit * largest_frequency(solver) / 2
    record(f"element_time_step_{name}_{material}", ratio=ratio, below=1 - ratio)
    assert 0.95 <= ratio < 1.0


def pulse(time: np.ndarray) -> np.ndarray:
    """A displacement, m: a Gaussian around 0.09 s."""
    return np.exp(-0.5 * ((time - 0.09) / 0.02) ** 2)


UPWARD = {
    "P": pressure_wave((0, 0, 1), VP, VS, RHO, pulse),
    "S": shear_wave((0, 0, 1), (0.6, -0.8, 0), VP, VS, RHO, pulse),
}


def reflected(wave: PlaneWave, top: str, part: float) -> tuple[SpectralElementSolver, np.ndarray, float]:
    """A pulse in the middle of the cube goes up for a part of the time to the top: solver, points not held, error."""
    mesh = box_mesh((3, 3, 8), SIZE, "trilinear")
    solver = make_solver(mesh, 4, one_material(mesh.element_count), {"z_max": top}, safety=0.3)
    plan, sign = solver.plan, 1 if top == "free" else -1
    sides = side_points(plan, "x_min", "x_max", "y_min", "y_max", "z_min")
    held = np.setdiff1d(sides, side_points(plan, "z_max"))
    travel, way = point_positions(plan)[:, 2] / wave.speed, 0.5 * SIZE / wave.speed

    def field(time: float) -> np.ndarray:
        motion = pulse(time + 0.09 - way - travel) + sign * pulse(time + 0.09 - way + travel)
        return motion[:, None] * wave.polarization

    end = drive(solver, field, round(part * way / plan.schedule.time_step), held)
    inner = np.setdiff1d(np.arange(plan.total_points), held)
    return solver, inner, relative_l2(solver.displacement[inner, :3], field(end)[inner])


@pytest.mark.parametrize("kind", UPWARD)
def test_a_free_surface_doubles(kind: str) -> None:
    wave = UPWARD[kind]
    solver, _, error = reflected(wave, "free", 1.0)
    motion = solver.displacement[side_points(solver.plan, "z_max"), :3] @ wave.polarization
    doubled = float(np.abs(motion / 2 - 1).max())
    record(f"element_free_surface_{kind}", relative_l2=error, doubled=doubled)
    assert error <= 0.005
    assert doubled <= 0.005


@pytest.mark.parametrize("kind", UPWARD)
def test_a_rigid_face_stays_at_rest_and_turns_the_wave_over(kind: str) -> None:
    solver, _, error = reflected(UPWARD[kind], "rigid", 1.7)
    surface = side_points(solver.plan, "z_max")
    record(f"element_rigid_face_{kind}", relative_l2=error)
    assert not solver.displacement[surface, :3].any() and not solver.velocity()[surface].any()
    assert error <= 0.005
