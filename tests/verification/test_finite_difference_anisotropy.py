"""Plane waves of the finite differences in anisotropic media against Christoffel's equation."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.christoffel import AnisotropicWave, christoffel_waves
from lithowave.media import thomsen_stiffness
from lithowave.physics import VOIGT_PAIRS
from lithowave.solvers.finite_difference import FIELDS, STAGGER
from lithowave.solvers.finite_difference.law import VELOCITIES
from slow_variants import slow_except
from verification_tools import make, record

RHO, SPACING, NODES, POINTS = 2500.0, 100.0, 48, 10
HALF_SPAN = 8  # nodes on either side of the middle where waves are measured


def orthorhombic_stiffness() -> np.ndarray:
    """Orthorhombic rock after Schoenberg & Helbig (1997), Geophysics 62(6), 1954-1974, in Pa."""
    matrix = np.diag([9.0, 9.84, 5.9375, 2.0, 1.6, 2.182])
    matrix[0, 1] = matrix[1, 0] = 3.6
    matrix[0, 2] = matrix[2, 0] = 2.25
    matrix[1, 2] = matrix[2, 1] = 2.4
    return RHO * 1e6 * matrix


MEDIA = {
    "vertical axis": ("transverse", thomsen_stiffness(4000.0, 2200.0, RHO, epsilon=0.22, delta=0.08, gamma=0.15)),
    "horizontal axis": (
        "orthorhombic", thomsen_stiffness(4000.0, 2200.0, RHO, epsilon=0.22, delta=0.08, gamma=0.15, axis=(1, 0, 0))
    ),
    "orthorhombic": ("orthorhombic", orthorhombic_stiffness()),
}  # fmt: skip
DIRECTIONS = {"vertical": (0.0, 0.0, 1.0), "oblique": (0.6, -0.37, 0.71), "flat": (-0.5, 0.8, 0.2)}


def wave_field(wave: AnisotropicWave, stiffness: np.ndarray, name: str, points: tuple, time: float) -> np.ndarray:
    """Velocity or stress of v = d cos(k (n x - c t)) with `POINTS` grid points per wavelength."""
    number = 2 * np.pi / (POINTS * SPACING)
    phase = number * (sum(n * x for n, x in zip(wave.direction, points, strict=True)) - wave.speed * time)
    if name in VELOCITIES:
        return wave.polarization["xyz".index(name[1])] * np.cos(phase)
    # Strain of u with du/dt = v: -(n d + d n) / (2 c) cos(phase).
    n, d = wave.direction, wave.polarization
    strain = np.array([n[a] * d[b] + n[b] * d[a] if a != b else n[a] * d[a] for a, b in VOIGT_PAIRS])
    row = VOIGT_PAIRS.index(tuple(sorted("xyz".index(axis) for axis in name[1:])))
    return -(stiffness @ strain)[row] / wave.speed * np.cos(phase)


def phase_error(medium: str, direction: str, kind: int) -> float:
    """Relative error of the phase speed of a wave that crosses the middle of a cube."""
    law, stiffness = MEDIA[medium]
    extent = [0.0, (NODES - 1) * SPACING]
    simulation = lw.Simulation(
        domain={"x": extent, "y": extent, "z": [-extent[1], 0.0]},
        boundaries={"top": "absorbing", "layer": {"cells": 1}},
        material={"homogeneous": {"stiffness": stiffness[np.triu_indices(6)].tolist(), "rho": RHO}},
        sources=[],
        receivers=[],
        duration=10.0,
        solver={"spacing": SPACING, "order": 4, "safety": 0.5},
        compute={"precision": "double", "backend": "cpu"},
    )
    plan, solver = make(simulation)
    assert plan.law == law
    wave = christoffel_waves(stiffness, RHO, DIRECTIONS[direction])[kind]
    step, grid = plan.schedule.time_step, solver.grid

    def points(name: str) -> tuple[np.ndarray, ...]:
        axes = [grid.coordinates(axis, plan.halo) + 0.5 * SPACING * STAGGER[name][axis] for axis in range(3)]
        return axes[0], axes[1][:, None], axes[2][:, None, None]

    for name in FIELDS:
        time = 0.0 if name in VELOCITIES else -0.5 * step
        solver.fields_by_name[name][...] = wave_field(wave, stiffness, name, points(name), time)
    fastest = plan.extremes.fastest
    steps = int(0.22 * NODES * SPACING / fastest / step)
    for number in range(steps):
        solver.advance(number)
    middle = slice(len(grid.nodes(0)) // 2 - HALF_SPAN, len(grid.nodes(0)) // 2 + HALF_SPAN)
    component = int(np.abs(wave.polarization).argmax())
    name = VELOCITIES[component]
    found = solver.fields_by_name[name][middle, middle, middle].ravel()
    time = steps * step
    basis = np.stack([
        wave_field(wave, stiffness, name, points(name), moment)[middle, middle, middle].ravel()
        for moment in (time, time - POINTS * SPACING / wave.speed / 4)
    ], axis=1)  # fmt: skip
    cosine, sine = np.linalg.lstsq(basis, found, rcond=None)[0]
    return float(np.arctan2(sine, cosine) / (2 * np.pi * wave.speed * time / (POINTS * SPACING)))


@pytest.mark.parametrize(
    ("medium", "direction"),
    slow_except(
        [("vertical axis", "oblique"), ("orthorhombic", "flat")],
        [(medium, direction) for medium in MEDIA for direction in DIRECTIONS],
    ),
)
def test_phase_speeds(medium: str, direction: str) -> None:
    """At 10 points per wavelength of each wave, order 4."""
    errors = [abs(phase_error(medium, direction, kind)) for kind in range(3)]
    record(f"finite_difference_anisotropy_{medium}_{direction}", phase_speed_errors=errors, limit=1e-3)
    assert max(errors) <= 1e-3
