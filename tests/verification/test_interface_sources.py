"""Sources on and beside interfaces: seismograms against wavenumber integration, and the side on which they act."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from benchmark_scripts import load_benchmark
from fake_ranks import on_ranks
from lithowave.backends import make_backend
from lithowave.media import FunctionMedium
from lithowave.solvers import load_method
from lithowave.solvers.elements import SpreadSources, locate_sources
from lithowave.solvers.elements.locations import _rejected
from lithowave.solvers.finite_difference import find_interfaces, parts_of_moments, windowed_sinc
from lithowave.solvers.finite_difference import interface_warnings as warnings_of

CPU = make_backend("cpu", "double", 1)
BENCHMARK = load_benchmark("interface_sources")


@pytest.mark.parametrize(
    ("method", "cells", "mechanism", "limit"),
    [
        ("finite_difference:4", "-0.25", "explosion", 0.045),
        pytest.param("finite_difference:4", "-0", "dip_slip", 0.035, marks=pytest.mark.slow),
        pytest.param("finite_difference:4", "+0", "oblique", 0.035, marks=pytest.mark.slow),
        pytest.param("finite_difference:4", "-1", "oblique", 0.02, marks=pytest.mark.slow),
        pytest.param("finite_difference:4", "+1", "explosion", 0.02, marks=pytest.mark.slow),
        pytest.param("spectral_element:4", "-0", "explosion", 0.02, marks=pytest.mark.slow),
        pytest.param("spectral_element:4", "+0", "dip_slip", 0.02, marks=pytest.mark.slow),
        pytest.param("discontinuous_galerkin:5", "-0", "explosion", 0.0205, marks=pytest.mark.slow),
    ],
)
def test_errors_at_the_surface(method: str, cells: str, mechanism: str, limit: float) -> None:
    """Records above a source beside an interface with a ratio of shear moduli of 3.7."""
    keys = {"points_per_wavelength": 5.0} if method == "discontinuous_galerkin:5" else {}
    assert BENCHMARK.error(method, cells, mechanism, small=True, **keys) < limit


def test_parts_read_the_strain_at_the_source() -> None:
    """In a field of constant traction and constant strain along the interface, all nodes read M : strain there."""
    rng = np.random.default_rng(4)
    here, there, moments = rng.uniform(1, 4, (5, 3)), rng.uniform(1, 4, (5, 3, 8)), rng.normal(size=(3, 6))
    weight = rng.uniform(0, 1, 8)
    weight /= weight.sum()
    east, north, shear, up, up_east, up_north = rng.normal(size=6)
    parts = parts_of_moments(moments, here, there)
    for source, (c13, c23, c33, c55, c44) in enumerate(here.T):
        vertical = (up - c13 * east - c23 * north) / c33
        expected = moments[source] @ [east, north, vertical, 2 * shear, up_east / c55, up_north / c44]
        found = 0.0
        for row in np.flatnonzero(parts.source == source):
            node, half = weight * parts.gain[row]
            big_13, big_23, big_33, big_55, big_44 = there[:, source]
            strains = [
                np.full(8, east), np.full(8, north), (up - big_13 * east - big_23 * north) / big_33,
                np.full(8, 2 * shear), up_east / big_55, up_north / big_44,
            ]  # fmt: skip
            for component, strain in enumerate(strains):
                found += parts.moment[row, component] * (half if component > 3 else node) @ strain
        assert found == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(parts.share[parts.source == source].sum(axis=0), moments[source], atol=1e-14)


def test_weights_are_exact_for_a_jump_of_the_slope() -> None:
    index, position, kink = np.arange(8)[None], np.array([3.3]), np.array([[4.7]])
    plain, bent = (windowed_sinc(index, position, 3, False, kinks)[0] for kinks in (None, kink))
    for weights, error in ((plain, 1e-3), (bent, 0.0)):
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert weights @ index[0] ** 3 == pytest.approx(3.3**3, abs=1e-9)
        assert (abs(weights @ np.abs(index[0] - 4.7) - 1.4) > error) == (error > 0) or error == 0.0
    assert bent @ np.abs(index[0] - 4.7) == pytest.approx(1.4, abs=1e-9)


def simulation_of(method: str, z: float, side: str = "below", **more: Any) -> lw.Simulation:
    return lw.Simulation(
        domain={"x": [-600, 600], "y": [-600, 600], "z": [-1000, 0]},
        boundaries={"absorption": "stacey"} if method != "finite_difference" else {},
        material={"layers": [
            {"top": 0, "vp": 2500, "vs": 1300, "rho": 2100}, {"top": -500, "vp": 4000, "vs": 2300, "rho": 2500}
        ]},
        sources=[{
            "position": [0, 0, z], "moment_tensor": {"zz": 1e15, "xz": 1e15}, "side": side,
            "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
        }],
        receivers=[{"name": "A", "position": [300, 100, 0]}], duration=1.0,
        solver={"method": method, "max_frequency": 2.6}, **more,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["spectral_element", "discontinuous_galerkin"])
@pytest.mark.parametrize(("side", "sign"), [("below", -1.0), ("above", 1.0)])
def test_elements_on_one_side_have_a_source_on_an_interface(method: str, side: str, sign: float) -> None:
    """All of them, on one rank and on three, and all elements around a force."""
    simulation = simulation_of(method, -500.0, side)
    sources = simulation.acquisition.sources
    forces = [SimpleNamespace(side=side, force=(0, 0, 1.0), position=sources[0].position, name="")]
    point = SpreadSources(np.array([sources[0].position]), np.zeros(1, np.int64), np.ones(1))

    def located(ranks: Any, chosen: Any) -> tuple[np.ndarray, np.ndarray]:
        plan = load_method(method).plan(simulation, CPU, *([ranks] if ranks else []))
        found = locate_sources(plan, chosen, point)
        centers = [plan.element_center(element)[2] for element in found.locations.element]
        return np.array(centers) + 500.0, found.sharing

    heights, sharing = located(None, sources)
    assert len(heights) and (sign * heights > 0).all() and (sharing == len(heights)).all()
    parts = on_ranks(3, lambda ranks: located(ranks, sources))
    assert (sign * np.concatenate([part[0] for part in parts]) > 0).all()
    assert (np.concatenate([part[1] for part in parts]) == sum(len(part[0]) for part in parts)).all()
    around, _ = located(None, forces)
    assert (around > 0).any() and (around < 0).any()


def test_sides_at_vertical_interfaces_and_at_the_sea_floor() -> None:
    """The stiffer medium; forces act on one side only between a fluid and a solid."""
    soft, stiff, water = [4.0, 4, 4, 1, 1, 1], [9.0, 9, 9, 3, 3, 3], [2.0, 2, 2, 0, 0, 0]

    def kept(*rows: tuple[int, int, list[float]]) -> list[int]:
        table = np.array([[0, key, inside, force, *moduli] for key, (inside, force, moduli) in enumerate(rows)], float)
        dropped = [int(key) for _, key in _rejected(table)]
        return [key for key in range(len(rows)) if key not in dropped]

    assert kept((1, 0, soft), (1, 0, stiff), (1, 0, stiff)) == [1, 2]
    assert kept((1, 0, soft), (0, 0, stiff)) == [0]
    assert kept((0, 0, soft), (0, 0, stiff)) == [1]
    assert kept((1, 1, soft), (0, 1, stiff)) == [0, 1]
    assert kept((0, 1, water), (1, 1, stiff)) == [1]
    assert kept((1, 0, soft), (0, 0, [1.03 * value for value in soft])) == [0, 1]


def test_interfaces_are_found() -> None:
    """Those of layers exactly, those of functions too; a smooth change is none."""

    def steps(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        vp = np.where(z > -130.0 + 0.1 * x, 2000.0, 4000.0) - z
        return vp, vp / 2, 2000.0 + 0.0 * vp

    positions = np.array([[0.0, 0, -120], [100, 0, -300], [200, 0, -115], [0, 0, -1000]])
    for medium, expected in (
        (FunctionMedium(steps), [-130.0, -120.0, -110.0, np.nan]),
        (simulation_of("finite_difference", -100.0).material.medium, [np.nan, -500.0, np.nan, np.nan]),
    ):
        found = find_interfaces(medium, positions, 40.0, (-2000.0, 0.0))
        np.testing.assert_allclose(found.z[:, 0], expected, atol=1e-4)
        assert np.isnan(found.z[:, 1]).all()


@pytest.mark.parametrize(("z", "texts"), [
    (-500.0, ["sources[0]: it is on an interface at z = -500 m, where", "Move it by"]),
    (-510.0, ["sources[0]: it is 10 m (0.16 grid spacings) from an interface at z = -500 m", "solver.spacing: "]),
    (-700.0, []),
])  # fmt: skip
def test_grids_warn_about_sources_beside_interfaces(z: float, texts: list[str]) -> None:
    simulation = simulation_of("finite_difference", z)
    found = warnings_of(simulation, load_method("finite_difference").plan(simulation, CPU).grid)
    assert len(found) == bool(texts)
    assert all(text in found[0] for text in [*texts, "estimated error of its seismograms"] if texts)


@pytest.mark.parametrize("method", ["finite_difference", "spectral_element", "discontinuous_galerkin"])
def test_the_side_is_told(method: str) -> None:
    """In the resolved file, and as a note for a source on an interface only."""
    simulation = simulation_of(method, -500.0)
    assert "side: below" in simulation.to_yaml()
    (note,) = [text for text in simulation.warnings() if "is on an interface" in text]
    assert note.startswith("sources[0]: it is on an interface at z = -500 m, and acts below it")
    assert not [text for text in simulation_of(method, -501.0).warnings() if "is on an interface" in text]
