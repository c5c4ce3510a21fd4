"""Plane waves through unstructured tetrahedra: order of convergence in space and time, isotropic and anisotropic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from exact_solutions.christoffel import christoffel_waves
from exact_solutions.plane_waves import VOIGT_PAIRS, pressure_wave, shear_wave
from jittered_boxes import periodic_box
from lithowave.mesh import TetrahedralMesh
from lithowave.solvers.discontinuous_galerkin import ORDERS, ElementMaterials
from tetrahedral_waves import begin, make_solver, observed_order, relative_error, run
from verification_tools import draw, general_stiffness, record

SIZE = 1000.0
VP, VS, RHO = 6000.0, 3464.0, 2700.0
WAVENUMBERS = np.array([1.0, -1.0, 1.0])  # wavelengths in the cube along each axis
COUNTS = (3, 4, 5, 6)  # cubes of six tetrahedra along an edge
JITTER = 0.15  # of the shortest edge of a vertex

BACKENDS = [
    *(pytest.param(order, "cpu", marks=() if order == 3 else pytest.mark.slow) for order in ORDERS),
    *(pytest.param(order, "cuda", marks=pytest.mark.gpu) for order in ORDERS),
]


@dataclass(frozen=True)
class Harmonic:
    """v = d cos(w (t - n x / c)) and its stress; pattern : (9,) what multiplies the cosine."""

    direction: np.ndarray
    speed: float
    pattern: np.ndarray

    @property
    def length(self) -> float:
        """Wavelength, m."""
        return SIZE / float(np.linalg.norm(WAVENUMBERS))

    def at(self, time: float) -> Callable[[np.ndarray, Any], np.ndarray]:
        """The field at a time, s, of points (..., 3)."""

        def field(points: np.ndarray, _: Any) -> np.ndarray:
            path = points @ self.direction - self.speed * time
            return np.cos(2.0 * np.pi / self.length * path)[..., None] * self.pattern

        return field


def isotropic_wave(kind: str) -> Harmonic:
    """A P or an S wave."""
    if kind == "P":
        wave = pressure_wave(WAVENUMBERS, VP, VS, RHO, np.cos)
    else:
        wave = shear_wave(WAVENUMBERS, np.cross(WAVENUMBERS, [0.3, 0.5, 0.8]), VP, VS, RHO, np.cos)
    start = (0.0, 0.0, 0.0, 0.0)
    return Harmonic(wave.direction, wave.speed, np.concatenate([wave.stress(*start), wave.particle_velocity(*start)]))


@lru_cache
def cube(count: int) -> TetrahedralMesh:
    return periodic_box((count,) * 3, (SIZE,) * 3, JITTER, seed=count, cut="six").local()


def error_after(
    waves: Sequence[Harmonic], materials: Callable[[int], ElementMaterials], order: int, count: int, duration: float,
    precision: str, backend: str,
) -> float:  # fmt: skip
    """Error of the sum of some waves after a time, s."""
    mesh = cube(count)
    solver = make_solver(mesh, materials(mesh.element_count), order, duration, precision, backend=backend)
    scale = np.array([RHO * waves[-1].speed] * 6 + [1.0] * 3)
    begin(solver, lambda points, some: sum(wave.at(0.0)(points, some) for wave in waves))
    run(solver)
    return relative_error(solver, lambda points, some: sum(wave.at(duration)(points, some) for wave in waves), scale)


def rock(count: int) -> ElementMaterials:
    one = np.ones(count)
    return ElementMaterials.isotropic(VP * one, VS * one, RHO * one)


FOUND: dict[tuple[str, int], list[float]] = {}


@pytest.mark.parametrize(("order", "backend"), BACKENDS)
def test_order_of_convergence(order: int, backend: str) -> None:
    """P and S waves for a period, at four mesh widths, with the default time step."""
    for kind in "PS":
        wave = isotropic_wave(kind)
        errors = [
            error_after([wave], rock, order, count, wave.length / wave.speed, "double", backend) for count in COUNTS
        ]
        found = observed_order(COUNTS, errors)
        FOUND[kind, order] = errors
        record(f"tetrahedra_order_{order}_{kind}", order=found, below=max(0.0, order - found), relative_l2=errors)
        assert found >= order - 0.3, (kind, errors)
    if order == max(ORDERS):
        draw("tetrahedra_convergence", draw_convergence)


def draw_convergence(figure: Any) -> None:
    """Errors over mesh widths, of all orders that were measured."""
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), "PS", strict=True):
        for (wave, order), errors in sorted(FOUND.items()):
            if wave == kind:
                sizes = SIZE / np.array(COUNTS)
                [line] = axes.loglog(sizes, errors, "o-", label=f"order {order}")
                ideal = errors[-1] * (sizes / sizes[-1]) ** order
                axes.loglog(sizes, ideal, "--", color=line.get_color(), linewidth=0.8)
        axes.set_title(f"{kind} waves; dashed: slope of the order")
        axes.set_xlabel("edge of the cubes (m)")
    axes.legend()
    figure.axes[0].set_ylabel("relative L2 error")


# ---------------------------------------------------------------------------------------------------- anisotropy


def christoffel_patterns(stiffness: np.ndarray) -> list[Harmonic]:
    """The three waves along one direction."""
    found = []
    for wave in christoffel_waves(stiffness, RHO, WAVENUMBERS):
        strain = -0.5 * (np.outer(wave.direction, wave.polarization) + np.outer(wave.polarization, wave.direction))
        strain /= wave.speed
        x, y, z = strain
        voigt = stiffness @ [x[0], y[1], z[2], 2 * y[2], 2 * x[2], 2 * x[1]]
        stress = np.empty((3, 3))
        for value, pair in zip(voigt, ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)), strict=True):
            stress[pair] = stress[pair[::-1]] = value
        pattern = np.array([*(stress[pair] for pair in VOIGT_PAIRS), *wave.polarization])
        found.append(Harmonic(wave.direction, wave.speed, pattern))
    return found


def anisotropic_rock(stiffness: np.ndarray) -> Callable[[int], ElementMaterials]:
    speeds = [wave.speed for wave in christoffel_patterns(stiffness)]

    def materials(count: int) -> ElementMaterials:
        none = np.zeros(count)
        # Speeds along any other direction are within these bounds.
        bounds = np.sqrt(RHO) * np.array([[0.7 * speeds[0]], [1.3 * speeds[-1]]])
        number = np.zeros(count, np.int64)
        return ElementMaterials(none, none, none + RHO, number, stiffness[None], fastest=bounds[1], slowest=bounds[0])

    return materials


@pytest.mark.parametrize(
    ("order", "backend"),
    [
        pytest.param(3, "cpu", marks=pytest.mark.slow),
        pytest.param(5, "cpu", marks=pytest.mark.slow),
        pytest.param(5, "cuda", marks=pytest.mark.gpu),
    ],
)
def test_anisotropic_waves(order: int, backend: str) -> None:
    """All three waves along one direction through a rock of 21 moduli, at once."""
    stiffness = general_stiffness()
    waves = christoffel_patterns(stiffness)
    duration = waves[0].length / waves[1].speed
    errors = [
        error_after(waves, anisotropic_rock(stiffness), order, count, duration, "double", backend) for count in COUNTS
    ]
    found = observed_order(COUNTS, errors)
    record(f"tetrahedra_christoffel_{order}", order=found, below=max(0.0, order - found), relative_l2=errors)
    assert found >= order - 0.3
