"""Plane waves in anisotropic elements against Christoffel's equation: speeds, polarizations, errors."""

from __future__ import annotations

import numpy as np
import pytest

from exact_solutions.christoffel import AnisotropicWave, christoffel_waves
from lithowave.media import thomsen_stiffness
from slow_variants import slow_except
from spectral_element_boxes import (
    RHO,
    box_mesh,
    drive,
    harmonic,
    leapfrog_frequency,
    make_solver,
    one_material,
    point_positions,
    side_points,
)
from verification_tools import general_stiffness, record, relative_l2

SIZE, DEGREE = 1000.0, 6
TILTED = thomsen_stiffness(4000.0, 2200.0, 2500.0, epsilon=0.22, delta=0.08, gamma=0.15, axis=(0.4, -0.5, 0.75))


MEDIA = {"tilted axis": TILTED, "21 moduli": general_stiffness()}
DIRECTIONS = ((0.0, 0.0, 1.0), (0.6, -0.37, 0.71), (-0.5, -0.8, 0.2))


def middle_of_wave(stiffness: np.ndarray, wave: AnisotropicWave) -> tuple[np.ndarray, np.ndarray, float]:
    """Displacements and positions in the middle of a cube, not yet reached by its sides, and the time times 2 pi f.

    The cube has three wavelengths; the fastest wave takes the time of 0.37 cubes.
    """
    mesh = box_mesh((6, 6, 6), SIZE, "trilinear")
    solver = make_solver(mesh, DEGREE, one_material(mesh.element_count, stiffness, RHO, anisotropic=True))
    plan = solver.plan
    step, length = plan.schedule.time_step, SIZE / 3
    frequency = leapfrog_frequency(2 * np.pi * wave.speed / length, step)
    field, positions = harmonic(wave.direction, wave.polarization, length), point_positions(plan)
    steps = int(0.37 * SIZE / plan.materials.fastest.max() / step)
    time = drive(solver, lambda t: field(positions, frequency * t), steps, side_points(plan))
    inner = (np.abs(positions - [SIZE / 2, SIZE / 2, -SIZE / 2]) < 0.125 * SIZE).all(axis=1)
    return solver.displacement[:-1, :3][inner], positions[inner], frequency * time


def fitted_amplitude(values: np.ndarray, positions: np.ndarray, wave: AnisotropicWave, angle: float) -> np.ndarray:
    """Complex amplitudes a (3,) of the wave a exp(i (k x - angle + phase)) that is nearest to the values."""
    one = np.array([1.0, 0.0, 0.0])
    cosine = harmonic(wave.direction, one, SIZE / 3)(positions, angle)[:, 0]
    sine = harmonic(wave.direction, one, SIZE / 3)(positions, angle + np.pi / 2)[:, 0]
    parts = np.linalg.lstsq(np.stack([cosine, -sine], axis=1), values, rcond=None)[0]
    return parts[0] + 1j * parts[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEDIA)
def test_speeds_and_polarizations(name: str) -> None:
    speed_errors, angles, errors = [], [], []
    for direction in DIRECTIONS:
        for wave in christoffel_waves(MEDIA[name], RHO, direction):
            values, positions, angle = middle_of_wave(MEDIA[name], wave)
            errors.append(relative_l2(values, harmonic(wave.direction, wave.polarization, SIZE / 3)(positions, angle)))
            amplitude = fitted_amplitude(values, positions, wave, angle)
            along = amplitude @ wave.polarization
            # The wave lags by -arg(along) after a path of `angle`.
            speed_errors.append(abs(np.angle(along)) / angle)
            angles.append(float(np.linalg.norm(amplitude - along * wave.polarization) / abs(along)))
    record(
        f"christoffel_{name.replace(' ', '_')}", speed=max(speed_errors), polarization=max(angles),
        relative_l2=max(errors), limit=1e-4,
    )  # fmt: skip
    assert len(errors) == 9
    assert max(speed_errors) <= 1e-4
    assert max(angles) <= 1e-4
    assert max(errors) <= 1e-3


@pytest.mark.parametrize("shape", slow_except(["triquadratic"], ["affine", "triquadratic"]))
def test_isotropic_moduli_as_anisotropic_ones(shape: str) -> None:
    """21 moduli of an isotropic rock give what lambda and mu give, to rounding."""
    mesh = box_mesh((2, 2, 2), SIZE, shape)
    start = np.random.default_rng(5).standard_normal((5**3, 3))
    found = []
    for anisotropic in (False, True):
        materials = one_material(mesh.element_count, anisotropic=anisotropic)
        solver = make_solver(mesh, 2, materials)
        solver.displacement[:-1, :3] = start
        solver.add_forces()
        found.append(solver.momentum[:-1, :3].copy())
    assert relative_l2(found[1], found[0]) < 1e-13
