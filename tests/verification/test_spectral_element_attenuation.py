"""Spectral elements with attenuation: sources in a full space, plane waves, energy, and what memory variables store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from attenuating_space import FREQUENCY, PULSE, RHO, VP, VS, full_space, full_space_error
from bloch_waves import BlochWaves
from element_kinds import quiet_solver
from gmsh_files import write_gmsh
from lithowave.backends import make_backend
from lithowave.description import RECOMMENDED_POINTS_BY_DEGREE
from lithowave.errors import InputError
from lithowave.mesh import layered_box
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.spectral_element import (
    Losses,
    SpectralElementSolver,
    carrier_indices,
    choose_sets,
    derivative_matrix,
    distinct_moduli,
    fill_with_noise,
    gll_weights,
    recursion,
)
from lithowave.solvers.spectral_element import plan as make_plan
from slow_variants import slow_except
from spectral_element_boxes import ROCK, make_solver, one_material, point_positions
from verification_tools import relative_l2, velocities


def set_moduli(plan: Any, elements: np.ndarray, number: int) -> np.ndarray:
    """Y_j kappa - 2/3 Y_j mu and Y_j mu of the points of a set, (elements, points, 2 n), Pa."""
    moduli, place = distinct_moduli(plan.mesh, plan.materials, plan.degree, elements, number, float)
    return moduli[place]


def space(qp: float, qs: float, half_length: float, **solver: Any) -> lw.Simulation:
    return full_space(qp, qs, half_length, "single", method="spectral_element", **solver)


QUALITIES = [(80, 40, 0.0069), (40, 20, 0.0132), (20, 10, 0.0025)]


@pytest.mark.slow
@pytest.mark.parametrize(("qp", "qs", "limit"), QUALITIES)
def test_a_moment_tensor_in_a_full_space(qp: float, qs: float, limit: float) -> None:
    """Degree 4 with 7 points per wavelength; with Qs = 10, all points carry memory variables."""
    error = full_space_error(qp, qs, 6.0, method="spectral_element", points_per_wavelength=7)
    assert error < limit


# --- plane waves

# Q, the number of the set of points with memory variables, and the largest errors of attenuation and phase velocity.
PLANE = ((200, 1, 0.0045, 0.0002), (50, 1, 0.004, 0.0003), (20, 1, 0.009, 0.0011), (8, 2, 0.0011, 0.0002))


def column(
    count: int, size: float, quality: float, degree: int, stiffness: np.ndarray = ROCK, **more: Any
) -> SpectralElementSolver:
    """A column of cubes along x with Qkappa = Qmu, free at all sides."""
    mesh = layered_box((0, size * count), (0, size), [0.0, -size], [(size, size)]).local()
    inverse = np.full((2, 1), 1 / quality)
    body = fit_body(QualityLaw(), (FREQUENCY / 100, FREQUENCY), 3, (1 / quality, 1 / quality))
    materials = replace(one_material(mesh.element_count, stiffness), losses=Losses(body, inverse))
    return make_solver(mesh, degree, materials, **more)


def sent_along(solver: SpectralElementSolver, axis: int, duration: float, places: list[float]) -> np.ndarray:
    """Drive the end x = 0 of a column by a pulse along an axis; the times and displacements at places on x."""
    plan = solver.plan
    position, step = point_positions(plan), plan.schedule.time_step
    driven = np.flatnonzero(position[:, 0] < 1e-6)
    receivers = [int(np.abs(position[:, 0] - place).argmin()) for place in places]
    sigma = 0.22 / FREQUENCY
    rows = []
    for time in step * (np.arange(int(duration / step)) + 0.5):
        solver.update_displacement()
        pulse = (time - 8 * sigma) / sigma
        solver.displacement[driven, :3] = 0
        solver.displacement[driven, axis] = -pulse * np.exp(-0.5 * pulse**2)
        solver.add_forces()
        solver.momentum[:, [other for other in range(3) if other != axis]] = 0
        solver.momentum[driven] = 0
        rows.append([time, *solver.displacement[receivers, axis]])
    return np.array(rows).T


def wave_errors(wave: str, quality: float, safety: float = 0.3) -> tuple[float, float, int]:
    """Largest relative errors of the attenuation and of the phase velocity, and the set of points.

    7 points per wavelength of S waves at the highest of the frequencies.
    """
    axis, speed = (0, VP) if wave == "P" else (1, VS)
    size = 4 / 7 * VS / FREQUENCY
    solver = column(60, size, quality, 4, safety=safety)
    found = sent_along(solver, axis, 98 * size / speed, [4 * size, 20 * size])
    frequency = FREQUENCY * np.linspace(0.4, 1.0, 7)
    first, last = (np.exp(-2j * np.pi * np.outer(frequency, found[0])) @ found[1:].T).T
    ratios = solver.plan.materials.losses.body.modulus_ratio(2 * np.pi * frequency, 1 / quality)
    number = 2 * np.pi * frequency / (speed * np.sqrt(ratios))
    error = np.log(last / first) + 1j * number * 16 * size
    turns = (error.imag + np.pi) % (2 * np.pi) - np.pi
    attenuation, phase = error.real / (number.imag * 16 * size), turns / (number.real * 16 * size)
    return float(np.abs(attenuation).max()), float(np.abs(phase).max()), int(solver.plan.relaxation_sets[0])


@pytest.mark.parametrize(
    ("wave", "quality", "points", "largest", "largest_phase"),
    slow_except([("S", *PLANE[1])], [(wave, *case) for wave in "PS" for case in PLANE]),
)
def test_plane_waves_decay_and_travel_as_the_modulus_states(
    wave: str, quality: float, points: int, largest: float, largest_phase: float
) -> None:
    attenuation, phase, used = wave_errors(wave, quality)
    assert used == points and attenuation < largest and phase < largest_phase


def test_steps_in_time_are_of_second_order() -> None:
    """Differences between runs with time steps in the ratio 4 : 2 : 1."""
    size, found = 800.0, []
    for safety in (0.8, 0.4, 0.2):
        solver = column(8, size, 15, 4, safety=safety)
        rows = sent_along(solver, 1, 2.2, [3 * size])
        found.append(np.interp(np.linspace(0.9, 2.0, 40), rows[0], rows[1]))
    orders = np.log2(np.abs(found[0] - found[1]).max() / np.abs(found[1] - found[2]).max())
    assert 1.8 < orders < 2.2


DIRECTIONS = np.array(
    [(1, 0, 0), (1, 1, 0), (1, 1, 1), (2, 1, 0), (2, 1, 1), (2, 2, 1), (3, 1, 0), (3, 2, 1), (4, 3, 2)]
)
# Largest errors of attenuation by degree, with Q = 40 and Q = 20.
BLOCH = {2: (0.002, 0.004), 3: (0.025, 0.032), 4: (0.008, 0.0135), 5: (0.014, 0.02), 6: (0.011, 0.014)}


def bloch_errors(degree: int, quality: float, vp: float = VP) -> np.ndarray:
    """Errors of attenuation and phase velocity, relative to an elastic mesh, of plane waves in all directions, (2, n).

    The recommended number of points per wavelength of S waves, and waves twice as long.
    """
    size = degree / RECOMMENDED_POINTS_BY_DEGREE[degree] * VS / FREQUENCY
    solver = column(1, size, quality, degree, isotropic_stiffness(*lame_moduli(vp, VS, RHO)))
    body = solver.plan.materials.losses.body
    mu, kappa = RHO * VS**2, RHO * (vp**2 - 4 / 3 * VS**2)
    unit = RHO * size**2
    waves, points = BlochWaves(degree), carrier_indices(degree, 1)
    moduli = set_moduli(solver.plan, np.arange(1), 1).reshape(len(points), -1, 2)
    errors = []
    for frequency in (FREQUENCY, 0.5 * FREQUENCY):
        omega = 2 * np.pi * frequency
        relaxing = np.einsum("pjm,j->mp", moduli, body.rates / (body.rates + 1j * omega))
        own = np.full((2, len(waves.weights)), [[kappa], [mu]], complex)
        own[0, points] -= relaxing[0] + 2 / 3 * relaxing[1]
        own[1, points] -= relaxing[1]
        lossy, elastic = waves.stiffness(*own / unit), waves.stiffness(kappa / unit, mu / unit)
        ratio = body.modulus_ratio(omega, 1 / quality)
        for wave, speed in (("P", vp), ("S", VS)):
            for direction in DIRECTIONS:
                k = omega * size / speed * direction / np.linalg.norm(direction)
                exact = omega * np.sqrt(ratio)
                found = np.sort_complex(waves.frequencies(lossy, k, wave, exact))
                plain = np.sort_complex(waves.frequencies(elastic, k, wave, omega)).real / omega
                attenuation = found.imag / found.real / (exact.imag / exact.real) - 1
                errors += zip(attenuation, found.real / exact.real - plain, strict=True)
    return np.array(errors).T


@pytest.mark.parametrize(
    ("degree", "quality"), slow_except([(4, 40)], [(degree, quality) for degree in BLOCH for quality in (40, 20)])
)
def test_plane_waves_in_all_directions(degree: int, quality: float) -> None:
    attenuation, phase = np.abs(bloch_errors(degree, quality)).max(axis=1)
    assert attenuation < BLOCH[degree][quality < 30] and phase < 0.0012


@pytest.mark.parametrize(("ratio", "limit"), slow_except([(3.0, 0.02)], [(1.4, 0.016), (2.0, 0.012), (3.0, 0.02)]))
def test_plane_waves_in_soft_and_stiff_media(ratio: float, limit: float) -> None:
    """Qkappa = Qmu = 20 with other ratios of vp to vs."""
    assert np.abs(bloch_errors(4, 20, ratio * VS)[0]).max() < limit


# --- layers


@pytest.mark.slow
@pytest.mark.parametrize(("quality", "limit"), [(None, 0.0045), (40, 0.0055), (20, 0.009)])
def test_layers_reflect_about_as_little_as_in_an_elastic_medium(quality: float | None, limit: float) -> None:
    """Seismograms in a box with layers against those in a box that is four elements larger at each side."""
    size, motions = 990.0, []
    material = {"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}}
    if quality is not None:
        material["homogeneous"] |= {"qp": 1.8 * quality, "qs": quality}
    for elements in (2, 6):
        changes = {
            "domain": {axis: [-elements * size, elements * size] for axis in "xyz"}, "duration": 6.0,
            "boundaries.absorption": "layer", "material": material,
        }  # fmt: skip
        motions.append(velocities(space(80, 40, 2 * size, spacing=size).with_overrides(changes))[1])
    assert relative_l2(*motions) < limit


# --- energy


def strains(solver: SpectralElementSolver, size: float) -> np.ndarray:
    """Strain (elements, points, 6) in cubes."""
    u = solver.displacement[solver.plan.numbers][..., :3]
    matrix = 2 / size * derivative_matrix(solver.plan.degree)
    slopes = [np.einsum(f"{way},{where}->ekjic", matrix, u) for way, where in
              (("il", "ekjlc"), ("jl", "eklic"), ("kl", "eljic"))]  # fmt: skip
    g = np.stack(slopes, axis=-1)
    pairs = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
    return np.stack([(g[..., a, b] + g[..., b, a]) / 2 for a, b in pairs], axis=-1).reshape(len(u), -1, 6)


def isotropic(lam: Any, mu: Any, strain: np.ndarray) -> np.ndarray:
    return 2 * mu * strain + lam * strain[..., :3].sum(-1, keepdims=True) * (np.arange(6) < 3)


def product(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b * np.array([1, 1, 1, 2, 2, 2])).sum())


@pytest.mark.parametrize("quality", [200.0, 3.0])
def test_the_discrete_energy_decreases_by_the_work_of_the_dashpots(quality: float) -> None:
    """The sum of the kinetic energy and those of the relaxed moduli and of the springs: see `relaxation`."""
    size, count = 400.0, 2
    solver = column(count, size, quality, 4, safety=0.98)
    plan, number = solver.plan, int(solver.plan.relaxation_sets[0])
    points, body = carrier_indices(4, number), plan.materials.losses.body
    jacobian = size**3 / 8
    weight = np.einsum("k,j,i->kji", *3 * [gll_weights(4)]).ravel() * jacobian
    moduli = set_moduli(plan, np.arange(count), number)
    lam, mu = (moduli.reshape(count, len(points), 3, 2)[..., None, n] for n in range(2))
    step, (_, decay, _) = plan.schedule.time_step, recursion(body, plan.schedule.time_step).T
    mean = ((1 - decay) / (body.rates * step))[:, None]
    start = np.random.default_rng(4).standard_normal((plan.total_points + 1, 3))
    solver.momentum[:, :3] = start / np.maximum(solver.displacement[:, 3:], 1e-30) * 1e-3
    solver.momentum[-1] = 0

    def energy(factor: np.ndarray, stress: np.ndarray) -> np.ndarray:
        """Return the product of stresses and strains of the springs of each mechanism."""
        bulk = stress[..., :3].mean(-1, keepdims=True) * (np.arange(6) < 3)
        strain = bulk / (3 * lam + 2 * mu) + (stress - bulk) / (2 * mu)
        return np.einsum("epnc,epnc,c->n", factor * stress, strain, [1, 1, 1, 2, 2, 2])

    energies, losses, last = [], [], np.zeros(0)
    for _ in range(400):
        before = solver.momentum[:-1, :3].copy()
        memory = solver.tables.freeze_relaxation(number)().reshape(count, len(points), 3, 6).copy()
        solver.advance(0)
        kinetic = 0.5 * (before * solver.momentum[:-1, :3] * solver.displacement[:-1, 3:]).sum()
        strain = strains(solver, size)
        own = isotropic(lam, mu, strain[:, points, None])
        stress = isotropic(ROCK[0, 1], ROCK[5, 5], strain) * weight[:, None]
        relaxed = product(stress, strain) - product(own.sum(2) * weight[points, None], strain[:, points])
        spring = mean * own - memory / weight[points, None, None] * jacobian  # s = F - R, which is g F - m
        factor = weight[points, None, None] / (4 * mean)
        energies.append(kinetic + 0.5 * relaxed + (1 + decay) @ energy(factor, spring))
        if last.size:
            losses.append((1 - decay) @ energy(factor, last + spring))
        last = spring
    assert min(losses) > 0 and energies[-1] < (0.95 if quality > 100 else 0.1) * energies[0]
    np.testing.assert_allclose(np.diff(energies), -np.array(losses), rtol=0, atol=1e-14 * energies[0])


@pytest.mark.slow
@pytest.mark.parametrize(("degree", "quality", "steps"), [(2, 20, 1500), (4, 20, 5000), (4, 10, 20_000)])
def test_strong_attenuation_and_a_layer_are_stable(degree: int, quality: float, steps: int) -> None:
    """Noise in a box with layers at all sides; with Q = 10, all points carry memory variables."""
    described = space(1.8 * quality, quality, 1200.0, spacing=800.0, degree=degree, max_frequency=1.0)
    simulation = described.with_overrides({"boundaries.absorption": "layer"})
    plan = make_plan(simulation, make_backend("cpu", "single", 2))
    solver = quiet_solver(plan, make_backend("cpu", "single", 2))
    fill_with_noise(solver)
    solver.advance(0)
    first = solver.largest_velocity()
    for step in range(steps):
        solver.advance(step)
    assert solver.largest_velocity() < 1.2e-3 * first


def test_strong_anisotropy_needs_more_points_or_is_refused() -> None:
    """The relaxed stiffness must be positive also for the weakest strain."""
    mesh = layered_box((0, 100), (0, 100), [0.0, -100.0], [(100, 100)]).local()
    stiffness = ROCK.copy()
    stiffness[3, 3] /= 20
    chosen = []
    for quality in (2000.0, 100.0, 3.0):
        body = fit_body(QualityLaw(), (0.02, 2.0), 3, (1 / quality, 1 / quality))
        losses = Losses(body, np.full((2, 1), 1 / quality))
        materials = replace(one_material(1, stiffness, anisotropic=True), losses=losses)
        if quality < 10:
            with pytest.raises(InputError, match="anisotropy"):
                choose_sets(mesh, materials, 4)
        else:
            chosen.append(int(choose_sets(mesh, materials, 4)[0]))
    assert chosen == [1, 2]


# --- descriptions


def test_materials_of_all_forms_have_the_same_moduli(tmp_path: Path) -> None:
    """One medium with Q as homogeneous, as a group of an imported mesh, and as a gridded model."""
    medium = {"vp": VP, "vs": VS, "rho": RHO, "qp": 100.0, "qs": 50.0}
    mesh = layered_box((-600, 600), (-600, 600), [0.0, -1200.0], [(600, 600)])
    sides = {"free": ["z_max"], "absorbing": ["x_min", "x_max", "y_min", "y_max", "z_min"]}
    path = write_gmsh(tmp_path / "box.msh", mesh, ["rock"], sides)
    axes = {"x": np.linspace(-700, 700, 2), "y": np.linspace(-700, 700, 3), "z": np.linspace(-1300, 0, 4)}
    arrays = {name: np.full((2, 3, 4), value) for name, value in medium.items()}
    np.savez(tmp_path / "model.npz", **axes, **arrays)
    materials = {
        "homogeneous": {"homogeneous": medium}, "groups": {"groups": {"rock": medium}},
        "gridded": {"file": str(tmp_path / "model.npz")},
    }  # fmt: skip
    moduli, stiffness = [], []
    for name, material in materials.items():
        solver = {"method": "spectral_element", "max_frequency": 2.0, "degree": 4}
        solver |= {"mesh": str(path)} if name == "groups" else {"spacing": 600.0}
        simulation = lw.Simulation(
            domain={"x": [-600, 600], "y": [-600, 600], "z": [-1200, 0]}, material=material, duration=0.1,
            boundaries={"absorption": "stacey"}, solver=solver, compute={"precision": "double"},
            sources=[{"position": [0, 0, -500], "force": [0, 0, 1e9], "time_function": PULSE}],
            receivers=[{"name": "A", "position": [0, 0, 0]}],
        )  # fmt: skip
        plan = make_plan(simulation, make_backend("cpu", "double", 1))
        assert set(plan.relaxation_sets) == {2} and plan.mechanisms == 3  # all are around the source
        assert "at all 125 points of 8 elements" in str(plan.lines())
        elements = np.arange(8)
        order = np.lexsort(plan.mesh.vertices[plan.mesh.elements].mean(axis=1).T.round(3))
        moduli.append(set_moduli(plan, elements[order], 1))
        stiffness.append([np.mean(one) for one in plan.materials.isotropic_moduli(elements)])
    for other, own in zip(moduli[1:], stiffness[1:], strict=True):
        np.testing.assert_allclose(other, moduli[0], rtol=1e-6)
        np.testing.assert_allclose(own, stiffness[0], rtol=1e-9)


@pytest.mark.parametrize("change", [{"output.stress": True}, {"output.pressure": True}])
def test_stress_is_refused(change: dict[str, Any]) -> None:
    simulation = space(100, 50, 1000.0).with_overrides(change)
    with pytest.raises(InputError, match="not available in media with attenuation"):
        make_plan(simulation, make_backend("cpu", "single", 1))
