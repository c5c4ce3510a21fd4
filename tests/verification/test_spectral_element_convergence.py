"""Plane P and S waves through straight, deformed and curved elements: order in the element size, decay with degree."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import pytest

from exact_solutions.plane_waves import pressure_wave, shear_wave
from slow_variants import slow_except
from spectral_element_boxes import (
    MAPS,
    RHO,
    VP,
    VS,
    box_mesh,
    drive,
    harmonic,
    leapfrog_frequency,
    make_solver,
    one_material,
    point_positions,
    relative_error,
    side_points,
    start_from,
)
from verification_tools import draw, record

SIZE = 1000.0
DIRECTION = (0.6, -0.37, 0.71)
WAVES = {
    "P": pressure_wave(DIRECTION, VP, VS, RHO, np.cos),
    "S": shear_wave(DIRECTION, (0.37, 0.6, 0.0), VP, VS, RHO, np.cos),
}
COUNTS = {2: (4, 6, 8), 3: (3, 4, 6), 4: (2, 3, 4), 5: (3, 4, 5)}  # elements along an edge


@lru_cache
def wave_error(kind: str, shape: str, degree: int, count: int) -> float:
    """Error of displacement in L2 half a period after the start, with a wavelength of 0.8 of the cube."""
    wave = WAVES[kind]
    mesh = box_mesh((count,) * 3, SIZE, shape)
    solver = make_solver(mesh, degree, one_material(mesh.element_count))
    plan = solver.plan
    length = 0.8 * SIZE
    exact = 2 * np.pi * wave.speed / length
    frequency = leapfrog_frequency(exact, plan.schedule.time_step)
    field = harmonic(wave.direction, wave.polarization, length)
    positions = point_positions(plan)
    steps = int(np.ceil(np.pi / frequency / plan.schedule.time_step))
    time = drive(solver, lambda t: field(positions, frequency * t), steps, side_points(plan))
    return relative_error(plan, solver.displacement[:-1, :3], lambda x: field(x, frequency * time))


def observed_order(counts: tuple[int, ...], errors: list[float]) -> float:
    """Slope of the error over the element size on logarithmic axes."""
    return float(np.polyfit(-np.log(counts), np.log(errors), 1)[0])


@pytest.mark.parametrize(("degree", "shape"), slow_except([(4, "triquadratic")], itertools.product(COUNTS, MAPS)))
def test_order_in_the_element_size(degree: int, shape: str) -> None:
    for kind in WAVES:
        errors = [wave_error(kind, shape, degree, count) for count in COUNTS[degree]]
        order = observed_order(COUNTS[degree], errors)
        name = f"element_order_degree_{degree}_{shape}_{kind}"
        record(name, order=order, below=max(0.0, degree + 1 - order), relative_l2=errors)
        assert order >= degree + 0.7, (kind, errors)


@pytest.mark.slow
def test_decay_with_the_degree() -> None:
    """In deformed elements of half the cube each degree divides the error by three and more, from 2 to 8."""
    degrees = list(range(2, 9))
    errors = {kind: [wave_error(kind, "trilinear", degree, 2) for degree in degrees] for kind in WAVES}
    ratios = {kind: np.array(found[:-1]) / found[1:] for kind, found in errors.items()}
    least = min(float(found.min()) for found in ratios.values())
    last = max(found[-1] for found in errors.values())
    record("decay_with_the_degree", degrees=degrees, relative_l2=errors, least_ratio=least, at_degree_8=last)

    def plot(figure: object) -> None:
        left, right = figure.subplots(1, 2)
        for degree, counts in COUNTS.items():
            found = [wave_error("S", "triquadratic", degree, count) for count in counts]
            line = left.loglog(SIZE / np.array(counts), found, "o-", label=f"degree {degree}")[0]
            ideal = found[-1] * (counts[-1] / np.array(counts)) ** (degree + 1)
            left.loglog(SIZE / np.array(counts), ideal, "--", color=line.get_color(), linewidth=0.8)
        left.set_xlabel("element size (m)")
        left.set_ylabel("relative L2 error")
        left.set_title("S waves, curved elements; dashed: degree + 1")
        left.legend()
        for kind, found in errors.items():
            right.semilogy(degrees, found, "o-", label=f"{kind} waves")
        right.set_xlabel("degree")
        right.set_title("deformed elements of half the cube")
        right.legend()

    draw("element_convergence", plot)
    assert least >= 3.0
    assert last < 1e-6


@pytest.mark.slow
def test_standing_wave_between_free_faces() -> None:
    """A mode of a free cube: u = (cos kx sin ky, -sin kx cos ky, 0) at the angular frequency sqrt(2) k vs.

    It has no tractions on any of the six faces (Lame 1852).
    """
    wavenumber = 2 * np.pi / SIZE

    def mode(positions: np.ndarray) -> np.ndarray:
        x, y = wavenumber * positions[..., 0], wavenumber * positions[..., 1]
        return np.stack([np.cos(x) * np.sin(y), -np.sin(x) * np.cos(y), np.zeros_like(x)], axis=-1)

    errors, counts = [], (3, 4, 6)
    for count in counts:
        mesh = box_mesh((count,) * 3, SIZE, "trilinear")
        solver = make_solver(mesh, 4, one_material(mesh.element_count))
        plan = solver.plan
        step = plan.schedule.time_step
        frequency = leapfrog_frequency(np.sqrt(2) * wavenumber * VS, step)
        start = mode(point_positions(plan))
        start_from(solver, start * np.cos(0.5 * frequency * step), start * np.cos(0.5 * frequency * step))
        steps = int(np.ceil(2.2 * np.pi / frequency / step))
        for number in range(steps):
            solver.advance(number)
        end = np.cos(frequency * (steps - 0.5) * step)
        errors.append(relative_error(plan, solver.displacement[:-1, :3], lambda x, end=end: mode(x) * end))
    order = observed_order(counts, errors)
    record("element_free_mode", order=order, relative_l2=errors)
    assert order >= 4.7
    assert errors[-1] < 1e-3
