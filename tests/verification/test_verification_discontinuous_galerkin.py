"""Discontinuous Galerkin elements against closed forms in a full space, and against LOH.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_verification_spectral_element import (
    FREQUENCY,
    REFERENCE,
    ROCK,
    SIGMA,
    VP,
    VS,
    exact,
    random_sources,
)

import lithowave as lw
from jittered_boxes import jittered
from lithowave.backends import make_backend
from lithowave.solvers.discontinuous_galerkin import (
    Clustering,
    DiscontinuousGalerkinPlan,
    DiscontinuousGalerkinSolver,
    make_clusters,
    make_model,
    make_plan,
)
from verification_tools import ABSORBING_TOP, draw, record, relative_l2, sampled_velocities, traces_against, velocities

ORDER = 5
POINTS = 6.0  # in the shortest wavelength: ORDER to the edge of a cube of twelve elements
SPACING = ORDER * VS / FREQUENCY / POINTS
JITTER = 0.15  # of the shortest edge of a vertex

DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)]


def description(cells: int, sources: list, receivers: np.ndarray, duration: float) -> lw.Simulation:
    """A cube of so many cubes along an edge, around the origin."""
    half = cells * SPACING / 2
    return lw.Simulation(
        domain={axis: [-half, half] for axis in "xyz"},
        boundaries=ABSORBING_TOP | {"absorption": "stacey"},
        material={"homogeneous": ROCK},
        sources=sources,
        receivers=[{"name": f"R{n}", "position": list(p)} for n, p in enumerate(receivers)],
        duration=duration,
        solver={"method": "discontinuous_galerkin", "order": ORDER, "spacing": SPACING},
        output={"sampling_interval": 0.02},
    )


def make_jittered_plan(simulation: lw.Simulation, seed: int) -> DiscontinuousGalerkinPlan:
    """As the method plans it, but with vertices moved at random."""
    model = make_model(simulation)
    mesh = jittered(model.mesh, JITTER, seed)

    def clusters(limits: np.ndarray, neighbors: np.ndarray) -> Clustering:
        interval = simulation.output.sampling_interval
        return make_clusters(limits, neighbors, simulation.duration, 0.9, None, interval, None, FREQUENCY)

    return make_plan(
        replace(model, mesh=mesh), ORDER, clusters, "single", max_frequency=FREQUENCY, domain=simulation.domain
    )


def traces_of(plan: Any, simulation: lw.Simulation, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and velocities (n_receivers, 3, n)."""
    solver = DiscontinuousGalerkinSolver(plan, simulation, make_backend(device, "single", None))
    return sampled_velocities(plan, solver)


def full_space(
    seed: int, cells: int, nearest: float, farthest: float, duration: float, device: str
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Error before anything comes back from the sides; times, computed and exact traces, zero from then on.

    nearest, farthest : bounds of the distances of the receivers, m.
    """
    generator = np.random.default_rng(seed)
    place = generator.uniform(-0.5, 0.5, 3) * SPACING
    sources = random_sources(generator, place)
    directions = generator.standard_normal((5, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    receivers = place + directions * generator.uniform(nearest, farthest, (5, 1))
    simulation = description(cells, sources, receivers, duration)
    time, computed = traces_of(make_jittered_plan(simulation, seed), simulation, device)
    truth = np.array([exact(simulation, time, receiver) for receiver in receivers])
    for number, receiver in enumerate(receivers):
        way = cells * SPACING - np.abs(receiver).max() - np.abs(place).max()
        late = time > way / VP + 2 * SIGMA  # the pulse begins 4 sigma before its middle
        computed[number, :, late] = truth[number, :, late] = 0
    return relative_l2(computed, truth), time, computed, truth


def test_full_space_nearby() -> None:
    """One to two wavelengths from a source amid few unstructured elements."""
    error, *_ = full_space(1, 7, 1700.0, 2600.0, 2.2, "cpu")
    record("full_space_tetrahedra_nearby", relative_l2=error, limit=0.01, points_per_wavelength=POINTS)
    assert error <= 0.01


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_full_space(seed: int, device: str) -> None:
    """Unstructured elements, six points in the shortest wavelength, the default time step."""
    error, time, computed, truth = full_space(seed, 16, 2900.0, 5000.0, 3.6, device)
    record(f"full_space_order_5_seed_{seed}", relative_l2=error, limit=0.007, points_per_wavelength=POINTS)
    if seed == 1:
        label = "full space, tetrahedra of order 5"
        draw("full_space_tetrahedra", lambda figure: traces_against(figure, time, computed, truth, label))
    assert error <= 0.007


def loh1(receivers: np.ndarray, device: str) -> lw.Simulation:
    return lw.Simulation(
        title="LOH.1",
        domain={"x": [-6000, 9000], "y": [-6000, 10000], "z": [-8000, 0]},
        material={"layers": [{"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, **ROCK}]},
        sources=[
            {
                "position": [0, 0, -2000],
                "moment_tensor": {"xy": 1e18},
                "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
            }
        ],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": p.tolist()} for n, p in enumerate(receivers, 1)],
        duration=4.0,
        solver={"method": "discontinuous_galerkin", "order": 5, "max_frequency": 2.5, "points_per_wavelength": POINTS},
        compute={"backend": device},
        output={"sampling_interval": 0.01},
    )


@pytest.mark.parametrize("device", DEVICES)
def test_loh1(device: str) -> None:
    """Receivers 1 to 5, t < 4 s, six points per wavelength of 2.5 Hz, faces of elements on the interface."""
    reference = np.load(REFERENCE)
    simulation = loh1(reference["receivers"], device)
    time, computed = velocities(simulation)
    truth = np.array(
        [[np.interp(time, reference["t"], component) for component in receiver] for receiver in reference["v"]]
    )
    error = relative_l2(computed, truth)
    each = [relative_l2(computed[n], truth[n]) for n in range(5)]
    record("loh1_tetrahedra", relative_l2=error, each_receiver=each, limit=0.015, points_per_wavelength=POINTS)
    label = "LOH.1, tetrahedra of order 5"
    draw("loh1_tetrahedra", lambda figure: traces_against(figure, time, computed, truth, label))
    assert error <= 0.015
    assert max(each) <= 0.02
