"""The absorbing layer of tetrahedra: its mesh, its rates, and where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.discontinuous_galerkin import AbsorbingLayer, LayerRates, plan
from reference_backend import CPU

SOFT, ROCK = {"vp": 3200, "vs": 1600, "rho": 2300}, {"vp": 5000, "vs": 2800, "rho": 2600}


def described(**changes: Any) -> lw.Simulation:
    return lw.Simulation(
        **{
            "domain": {"x": [-3000, 3000], "y": [-2000, 2000], "z": [-3000, 0]},
            "material": {"layers": [{"top": 0, **SOFT}, {"top": -1000, **ROCK}]},
            "sources": [], "receivers": [], "duration": 1.0,
            "solver": {"method": "discontinuous_galerkin", "max_frequency": 1.3},
            **changes,
        }
    )  # fmt: skip


def test_rates_are_constant_in_the_layer_of_a_face() -> None:
    layer = AbsorbingLayer(((0, 1), (0, 1), (-1, 0)), {"x_max": 2.0, "y_min": 1.0}, True, 4.0, 1e-4, 0.0)
    positions = np.array([[0.5, 0.5, -0.5], [1.1, 0.5, -3.0], [2.9, 0.5, 2.0], [2.0, -0.5, 0.0]])
    np.testing.assert_array_equal(layer.zones(positions), [0, 1, 1, 3])

    class Mesh:
        element_count = len(positions)

        @staticmethod
        def element_vertices(part: slice) -> np.ndarray:
            return np.repeat(positions[part, None], 4, axis=1)

    rates = layer.rates(Mesh())  # type: ignore[arg-type]
    strongest = 0.5 * np.log(1e4) * 4.0
    np.testing.assert_allclose(rates.stretching[:, 0], [0, strongest / 2, strongest / 2, strongest / 2])
    np.testing.assert_allclose(rates.stretching[:, 1:], [[0, 0], [0, 0], [0, 0], [strongest, 0]])
    np.testing.assert_allclose(rates.decay, [0, strongest * 5 / 6, strongest * 5 / 6, strongest * 4 / 3])
    gains, rest = rates.numbers(np.arange(4), np.full(4, 1e-3))
    np.testing.assert_array_equal([*gains[0], *rest[0]], [0, 0, 0, 1, 1])
    np.testing.assert_allclose(gains[1, 0] * rest[1, 0], 0.6 * (1 - rest[1, 0]))
    assert not LayerRates.none(3).inside.any()


@pytest.mark.parametrize("faces", [{"x_min": "free"}, {"sides": "rigid"}, {"top": "absorbing"}])
def test_only_absorbing_faces_have_layers(faces: dict[str, str]) -> None:
    simulation = described(boundaries=faces)
    found = plan(simulation, CPU)
    low, high = found.mesh.vertices.min(axis=0), found.mesh.vertices.max(axis=0)
    for axis, ends in enumerate(simulation.domain.bounds.values()):
        for side, end, reached in zip(("min", "max"), ends, (low[axis], high[axis]), strict=True):
            absorbing = simulation.boundaries.face(f"{'xyz'[axis]}_{side}") == "absorbing"
            assert (abs(reached - end) > 100) == absorbing


def test_layers_are_damped_if_waves_travel_backwards() -> None:
    usual = {**ROCK, "anisotropy": {"epsilon": 0.1, "delta": 0.05, "gamma": 0.1}}
    tilted = {**ROCK, "anisotropy": {"epsilon": 0.4, "delta": -0.25, "gamma": 0.2, "axis": [0, 1, 1]}}
    found = []
    for rock in (usual, tilted):
        simulation = described(material={"layers": [{"top": 0, **SOFT}, {"top": -1000, **rock}]})
        made = plan(simulation, CPU)
        found.append((made.layer, [text for text in made.warnings(simulation) if "damped" in text]))
    (matched, none), (damped, [text]) = found
    assert matched.stretching.any() and not matched.damping.any() and not none
    assert not damped.stretching.any() and (damped.damping > 0).sum() == damped.inside.sum() > 0
    assert text.startswith("material.layers.1: some waves would grow in perfectly matched layers along ")
    assert "enlarge the domain, or use solver.method: spectral_element" in text
