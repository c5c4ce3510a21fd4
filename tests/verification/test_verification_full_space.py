"""Moment tensors and forces in a full space against the closed form, by all methods; order of convergence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from jittered_boxes import jittered
from lithowave.backends import make_backend
from lithowave.solvers.discontinuous_galerkin import (
    Clustering,
    DiscontinuousGalerkinSolver,
    make_clusters,
    make_model,
    make_plan,
)
from slow_variants import slow_except
from verification_tools import (
    ABSORBING_TOP,
    draw,
    record,
    relative_l2,
    sampled_velocities,
    traces_against,
    velocities,
)

VP, VS, RHO = 6000.0, 3464.0, 2700.0
ROCK = {"vp": VP, "vs": VS, "rho": RHO}
FREQUENCY = 2.0
WAVELENGTH = VS / FREQUENCY
# The spectrum of the moment rate falls to 5% of its peak at FREQUENCY.
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}
NAMES = ("xx", "yy", "zz", "xy", "xz", "yz")
JITTER = 0.15  # of the shortest edge of a vertex


@dataclass(frozen=True)
class Case:
    """A cube of a number of cells along an edge, around the origin; five receivers at distances from the sources, m.

    record : name of its figures in the docs.
    points : in the shortest wavelength.
    """

    record: str
    solver: dict[str, Any]
    cells: int
    spacing: float
    points: float
    distances: tuple[float, float]
    duration: float
    limit: float
    figure: str = ""


GRID = WAVELENGTH / 10
GRIDS = {
    "cells": 44, "spacing": GRID, "points": 10.0, "distances": (0.4 * 22 * GRID, 0.9 * 22 * GRID),
    "duration": 12 * SIGMA + 1.2 * 22 * GRID / VS,
}  # fmt: skip
SE, DG = {"method": "spectral_element", "degree": 4}, {"method": "discontinuous_galerkin", "order": 5}
ELEMENTS, TETRAHEDRA = {"spacing": 4 * WAVELENGTH / 7, "points": 7.0}, {"spacing": 5 * WAVELENGTH / 6, "points": 6.0}
CASES = {
    "grid, order 4": Case("full_space_order_4", {"order": 4}, limit=0.0008, figure="full_space", **GRIDS),
    "grid, order 8": Case("full_space_order_8", {"order": 8}, limit=0.0002, **GRIDS),
    "hexahedra, degree 4": Case(
        "full_space_degree_4", SE, 22, **ELEMENTS, distances=(2500, 5000), duration=3.6, limit=0.0024,
        figure="full_space_degree_4",
    ),
    "tetrahedra of order 5": Case(
        "full_space_order_5", DG, 16, **TETRAHEDRA, distances=(2900, 5000), duration=3.6, limit=0.0022,
        figure="full_space_tetrahedra",
    ),
    "tetrahedra of order 5, nearby": Case(
        "full_space_tetrahedra_nearby", DG, 7, **TETRAHEDRA, distances=(1700, 2600), duration=2.2, limit=0.001
    ),
}  # fmt: skip
USUAL = [("grid, order 4", 1), ("hexahedra, degree 4", 1), ("tetrahedra of order 5, nearby", 1)]
RUNS = [
    *((name, seed) for name in ("grid, order 4", "grid, order 8") for seed in (1, 2)),
    *((name, seed) for name in ("hexahedra, degree 4", "tetrahedra of order 5") for seed in (1, 2, 3)), USUAL[2],
]  # fmt: skip


def experiment(case: Case, sources: list, receivers: np.ndarray, **changes: Any) -> lw.Simulation:
    half = case.cells * case.spacing / 2
    absorption = {} if "method" not in case.solver else {"absorption": "stacey"}
    return lw.Simulation(
        domain={axis: [-half, half] for axis in "xyz"}, boundaries=ABSORBING_TOP | absorption,
        material={"homogeneous": ROCK}, sources=sources,
        receivers=[{"name": f"R{n}", "position": list(p)} for n, p in enumerate(receivers)],
        duration=changes.pop("duration", case.duration),
        solver={"spacing": case.spacing, "max_frequency": FREQUENCY, **case.solver},
        output={"sampling_interval": 0.02},
    ).with_overrides(changes)  # fmt: skip


def exact(simulation: lw.Simulation, time: np.ndarray) -> np.ndarray:
    """Velocity (receivers, 3, n) of all sources."""
    total = np.zeros((len(simulation.receiver_list()), 3, time.size))
    for number, receiver in enumerate(simulation.receiver_list()):
        for source in simulation.point_sources():
            if source.moment is not None:
                function, strength, curve = full_space_moment, source.moment, source.time_function.rate
            else:
                function, strength, curve = full_space_force, source.force, source.time_function.amplitude
            total[number] += function(
                receiver.position, source.position, strength, curve, time, VP, VS, RHO, "velocity"
            )
    return total


def clean_error(simulation: lw.Simulation, seed: int | None = None) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Error before anything comes back from sides that reflect; times, computed and exact traces, zero from then on.

    seed : moves the vertices of tetrahedra.
    """
    time, computed = velocities(simulation) if seed is None else jittered_velocities(simulation, seed)
    truth = exact(simulation, time)
    half = simulation.domain.x[1]
    for number, receiver in enumerate(simulation.receiver_list()):
        way = 2 * half - np.abs(receiver.position).max() - np.abs(simulation.point_sources()[0].position).max()
        late = time > way / VP + 2 * SIGMA  # the pulse begins 4 sigma before its middle
        if simulation.boundaries.absorption == "stacey":
            computed[number, :, late] = truth[number, :, late] = 0
    return relative_l2(computed, truth), time, computed, truth


def jittered_velocities(simulation: lw.Simulation, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As the method plans it, but with vertices moved at random."""
    model = make_model(simulation)

    def clusters(limits: np.ndarray, neighbors: np.ndarray) -> Clustering:
        interval = simulation.output.sampling_interval
        return make_clusters(limits, neighbors, simulation.duration, 0.9, None, interval, None, FREQUENCY)

    plan = make_plan(
        replace(model, mesh=jittered(model.mesh, JITTER, seed)), 5, clusters, "single",
        max_frequency=FREQUENCY, domain=simulation.domain,
    )  # fmt: skip
    backend = make_backend(simulation.compute.backend, "single", None)
    return sampled_velocities(plan, DiscontinuousGalerkinSolver(plan, simulation, backend))


def random_sources(generator: np.random.Generator, place: np.ndarray) -> list:
    """A full moment tensor and a force at a place, of like strength far away."""
    moment, force = generator.standard_normal(6) * 1e15, generator.standard_normal(3) * 1e15 / (VS * SIGMA)
    tensor = dict(zip(NAMES, moment.tolist(), strict=True))
    return [
        {"position": list(place), "moment_tensor": tensor, "time_function": PULSE},
        {"position": list(place), "force": force.tolist(), "time_function": PULSE},
    ]


def directions(generator: np.random.Generator) -> np.ndarray:
    values = generator.standard_normal((5, 3))
    return values / np.linalg.norm(values, axis=1)[:, None]


def random_case(case: Case, seed: int) -> tuple[list, np.ndarray]:
    """Sources in a cell about the origin, and five receivers around them."""
    generator = np.random.default_rng(seed)
    place = generator.uniform(-0.5, 0.5, 3) * case.spacing
    sources = random_sources(generator, place)
    return sources, place + directions(generator) * generator.uniform(*case.distances, (5, 1))


@pytest.mark.parametrize(
    ("name", "seed", "device"),
    [
        *slow_except([(*one, "cpu") for one in USUAL], [(*one, "cpu") for one in RUNS]),
        *(pytest.param("tetrahedra of order 5", seed, "cuda", marks=pytest.mark.gpu) for seed in (1, 2, 3)),
    ],
)
def test_random_sources_against_the_closed_form(name: str, seed: int, device: str) -> None:
    """The default time step; tetrahedra are unstructured."""
    case = CASES[name]
    simulation = experiment(case, *random_case(case, seed), **{"compute.backend": device})
    error, time, computed, truth = clean_error(simulation, seed if name.startswith("tetrahedra") else None)
    record(f"{case.record}_seed_{seed}", relative_l2=error, limit=case.limit, points_per_wavelength=case.points)
    if case.figure and seed == 1:
        draw(case.figure, lambda figure: traces_against(figure, time, computed, truth, f"full space, {name}"))
    assert error <= case.limit


def test_order_of_convergence() -> None:
    """Order 4 in space, the time step refined with the square of the grid step."""
    errors, steps = [], np.array([1 / 5, 1 / 7, 1 / 10]) * WAVELENGTH
    half = 2.2 * WAVELENGTH
    coarse = replace(CASES["grid, order 4"], spacing=0.2 * WAVELENGTH, distances=(0.4 * half, 0.9 * half))
    sources, receivers = random_case(coarse, 4)
    largest = 0.45 * steps[0] / VP
    for spacing in steps:
        wanted = largest * (spacing / steps[0]) ** 2
        case = replace(coarse, spacing=float(spacing), cells=2 * half / spacing, duration=12 * SIGMA + 1.2 * half / VS)
        time_step = {"solver.time_step": float(0.02 / np.ceil(0.02 / wanted))}
        errors.append(clean_error(experiment(case, sources, receivers, **time_step))[0])
    observed = np.log(errors[0] / errors[-1]) / np.log(steps[0] / steps[-1])
    record("convergence_order_4", spacing_m=steps.tolist(), relative_l2=errors, observed_order=float(observed))

    def plot(figure: Any) -> None:
        axis = figure.subplots()
        axis.loglog(steps, errors, "o-", label="computed")
        axis.loglog(steps, errors[0] * (steps / steps[0]) ** 4, "k--", linewidth=0.8, label="fourth order")
        axis.set_xlabel("grid step (m)")
        axis.set_ylabel("relative L2 error")
        axis.legend()

    draw("convergence", plot)
    assert observed >= 3.7


@pytest.mark.slow
def test_source_moved_across_a_cell() -> None:
    """Ten steps across one cell, in a direction that is no axis: the misfit changes little, and smoothly."""
    case = replace(CASES["grid, order 4"], cells=26, duration=12 * SIGMA + 1.2 * 13 * GRID / VS)
    receivers = np.array([[9.3, 4.1, -2.7], [-3.2, 8.8, 5.5], [1.4, -6.6, -9.2]]) * GRID
    tensor = {"xx": 1e15, "yy": -0.4e15, "zz": 0.3e15, "xy": 0.7e15, "xz": -0.5e15, "yz": 0.2e15}
    errors = []
    for shift in np.linspace(0, 1, 11):
        place = [shift * GRID, 0.7 * shift * GRID, 0.4 * shift * GRID]
        source = {"position": place, "moment_tensor": tensor, "time_function": PULSE}
        errors.append(clean_error(experiment(case, [source], receivers))[0])
    change = max(errors) - min(errors)
    record("source_across_a_cell", relative_l2=errors, change=change)
    assert change <= 0.00004
    assert np.abs(np.diff(errors)).max() <= 0.00002


PLACES = {"middle": (0.5, 0.5, 0.5), "face": (0.0, 0.62, 0.35), "edge": (0.0, 0.41, 1.0), "vertex": (0.0, 0.0, 0.0)}


@pytest.mark.slow
def test_sources_on_shared_vertices_edges_and_faces() -> None:
    """Three elements away the error of a moment tensor is nearly what it is for one in the middle of an element.

    Closer it is larger: the shape functions that a source on a vertex acts through reach twice as far.
    """
    case = replace(CASES["hexahedra, degree 4"], cells=18, duration=3.0)
    errors, distances = {}, np.linspace(3, 5, 5)[:, None] * case.spacing
    for name, part in PLACES.items():
        generator = np.random.default_rng(6)
        place = np.array(part) * case.spacing
        [source, _] = random_sources(generator, place)
        errors[name] = clean_error(experiment(case, [source], place + distances * directions(generator)))[0]
    change = max(abs(error - errors["middle"]) for error in errors.values())
    record("source_across_an_element", relative_l2=errors, change=change)
    assert max(errors.values()) <= 0.0036
    assert change <= 0.0018


def strain_of_displacement(position: np.ndarray, source: object, time: np.ndarray) -> np.ndarray:
    """Strain (6, n) of the closed form, by central differences of fourth order over some metres."""
    near, gradient = 8.0, np.empty((3, 3, time.size))
    common = (source.position, source.moment, source.time_function.rate, time, VP, VS, RHO, "displacement")
    for axis in range(3):
        step = near * np.eye(3)[axis]
        one, two = (
            full_space_moment(position + n * step, *common) - full_space_moment(position - n * step, *common)
            for n in (1, 2)
        )
        gradient[:, axis] = (8 * one - two) / (12 * near)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.array([0.5 * (gradient[a, b] + gradient[b, a]) for a, b in pairs])


@pytest.mark.slow
def test_strain_and_stress_against_the_closed_form(tmp_path: Path) -> None:
    """Strain and stress in the files of a run, at the times of the samples."""
    case, generator = replace(CASES["hexahedra, degree 4"], cells=18), np.random.default_rng(7)
    size = case.spacing
    place = np.array([0.3, -0.2, 0.4]) * size
    receivers = place + 0.7 * (directions(generator) * generator.uniform(*case.distances, (5, 1)))[:3]
    receivers[0] = np.round(receivers[0] / size) * size  # a place that eight elements share
    changes = {"output.strain": True, "output.stress": True}
    simulation = experiment(case, random_sources(generator, place)[:1], receivers, duration=2.8, **changes)
    found = simulation.run(output=tmp_path / "run").seismograms
    [source] = simulation.point_sources()
    errors = []
    mu = RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    for number, position in enumerate(receivers):
        # The wave has not come back from the sides before the end.
        truth = strain_of_displacement(position, source, found.time)
        clean = found.time < (2 * 9 * size - np.abs(position).max() - np.abs(place).max()) / VP + 2 * SIGMA
        strain, stress = np.asarray(found.strain[number]), np.asarray(found.stress[number])
        errors.append(relative_l2(strain[:, clean], truth[:, clean]))
        volume = np.array([1, 1, 1, 0, 0, 0])[:, None] * strain[:3].sum(axis=0)
        np.testing.assert_allclose(stress, lam * volume + 2 * mu * strain, rtol=0, atol=1e-5 * np.abs(stress).max())
    record("element_strain", relative_l2=max(errors), each=errors)
    assert max(errors) <= 0.009
