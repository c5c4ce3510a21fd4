"""Finite faults as sources of all methods: sums over subfaults, moments, times, and the order of subfaults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.description import SlipRates, SubfaultFunction
from lithowave.faults import FiniteFault, planar_rupture, selected_segments
from lithowave.readers import write_srf
from lithowave.run import check_simulation
from lithowave.solvers.common import source_values
from slow_variants import slow_except
from verification_tools import velocities

SPACING = {"finite_difference": 150.0, "spectral_element": 600.0, "discontinuous_galerkin": 750.0}
# Else each simulation has a mesh of its own.
MESH = dict.fromkeys(("spectral_element", "discontinuous_galerkin"), {"refine_sources": False})
LAYERS = [{"top": 0, "vp": 4000, "vs": 2300, "rho": 2500}, {"top": -900, "vp": 5000, "vs": 2900, "rho": 2700}]


def rupture(subfaults: tuple[int, int], **changes: Any) -> FiniteFault:
    """A small rupture below the origin, which crosses the interface of `LAYERS`."""
    parameters = {
        "longitude": 8.0, "latitude": 47.0, "strike": 30.0, "dip": 60.0, "rake": 70.0, "length": 900.0,
        "width": 700.0, "top_depth": 550.0, "mw": 4.2, "vs": 2500.0, "density": 2600.0, "rise_time": 0.4,
        "smoothing": 0.3, "interval": 0.02, "seed": 2,
    }  # fmt: skip
    return planar_rupture(subfaults=subfaults, **(parameters | changes))


def chosen(fault: FiniteFault, some: np.ndarray) -> FiniteFault:
    """Some subfaults of a fault."""
    mask = np.zeros(3 * fault.count, bool)
    mask[(3 * np.asarray(some)[:, None] + np.arange(3)).ravel()] = True
    rates, offsets = selected_segments(fault.rates, fault.offsets, mask)
    names = ("horizontal", "depth", "strike", "dip", "rake", "area", "start", "interval", "vs", "density", "slip")
    parts = {name: getattr(fault, name)[some] for name in names}
    return replace(fault, **parts, rates=rates, offsets=offsets, planes=())


def simulation(path: Path, fault: FiniteFault, method: str = "finite_difference", **parts: Any) -> lw.Simulation:
    write_srf(fault, path)
    given = {
        "domain": {"x": [-1500, 1500], "y": [-1500, 1500], "z": [-2250, 0], "crs": {"longitude": 8, "latitude": 47}},
        "boundaries": {"layer": {"cells": 6}},
        "material": {"layers": LAYERS},
        "sources": [{"file": path}],
        "receivers": [{"name": "A", "position": [900, 700, 0]}, {"name": "B", "position": [-800, 300, -300]}],
        "duration": 0.9,
        "solver": {"method": method, "spacing": SPACING[method], "max_frequency": 1.5} | MESH.get(method, {}),
        "compute": {"precision": "double", "threads": 1},
        "output": {"sampling_interval": 0.03},
    }
    return lw.Simulation(**(given | parts))


# Receivers below the surface are read from fewer points near a subfault, so that those of single subfaults differ.
AT_SURFACE = [{"name": "A", "position": [900, 700, 0]}, {"name": "B", "position": [-800, 300, 0]}]


def motion(described: lw.Simulation) -> np.ndarray:
    """Velocities of all receivers, without a run folder."""
    return velocities(described)[1]


@pytest.mark.parametrize(
    ("method", "subfaults"),
    slow_except(
        [("finite_difference", (3, 2))],
        [("finite_difference", (3, 2)), ("spectral_element", (2, 1)), ("discontinuous_galerkin", (2, 1))],
    ),
)
def test_a_fault_is_the_sum_of_its_subfaults(tmp_path: Path, method: str, subfaults: tuple[int, int]) -> None:
    fault = rupture(subfaults)
    together = motion(simulation(tmp_path / "all.srf", fault, method, receivers=AT_SURFACE))
    alone = [
        motion(simulation(tmp_path / f"{n}.srf", chosen(fault, np.array([n])), method, receivers=AT_SURFACE))
        for n in range(fault.count)
    ]
    assert np.abs(together).max() > 0.0
    assert np.abs(together - sum(alone)).max() <= 1e-12 * np.abs(together).max()


def test_the_moment_is_that_of_the_file_or_of_the_material(tmp_path: Path) -> None:
    """Version 2.0 states VS and DEN of the subfaults, version 1.0 does not."""
    fault = rupture((4, 3))
    stated = simulation(tmp_path / "two.srf", fault)
    write_srf(fault, tmp_path / "one.srf", "1.0")
    taken = stated.model_copy(update={"sources": [lw.Source(file=tmp_path / "one.srf")]})
    moments = [np.array([source.moment for source in one.point_sources()]) for one in (stated, taken)]
    assert [source.name for source in stated.point_sources()] == [source.name for source in taken.point_sources()]
    order = [int(source.name.split()[1]) - 1 for source in stated.point_sources()]
    of_layer = np.where(fault.depth < 900.0, 2500.0 * 2300.0**2, 2700.0 * 2900.0**2)[order]
    assert moments[1] == pytest.approx(moments[0] * (of_layer / (2600.0 * 2500.0**2))[:, None], rel=1e-7)
    total = sum(np.linalg.norm(moment[[0, 1, 2, 3, 4, 5, 3, 4, 5]]) / np.sqrt(2) for moment in moments[0])
    assert total == pytest.approx(10 ** (1.5 * 4.2 + 9.1), rel=1e-7)


def test_check_states_moment_depths_times_and_spectrum(tmp_path: Path) -> None:
    fault = rupture((5, 4))
    described = simulation(tmp_path / "a.srf", fault, sources=[{"file": tmp_path / "a.srf", "delay": 0.25}])
    report = check_simulation(described, measure=False)
    found = report.plan["sources"]
    assert found["count"] == 20 and found["moment_magnitude"] == pytest.approx(4.2, abs=1e-6)
    assert found["begin_s"] == pytest.approx(fault.start.min() + 0.25)
    assert found["depth_m"] == pytest.approx([fault.depth.min(), fault.depth.max()])
    [line] = [text for name, text in report.lines() if name == "sources"]
    assert line.startswith("20 point sources, moment 2.512e+15 N m (Mw 4.20), depths ")
    assert line.endswith(" Hz (1.5 Hz are resolved)")


def test_one_warning_for_the_sum_of_the_moment_rates(tmp_path: Path) -> None:
    described = simulation(tmp_path / "a.srf", rupture((6, 5), rise_time=0.1, interval=0.01))
    [text] = [text for text in described.warnings() if "time_function" in text]
    assert text.startswith("sources[0].time_function: its spectrum falls to 5% only at ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": {"x": [-1500, 1500], "y": [-1500, 1500], "z": [-2250, 0]}}, "origin domain.crs"),
        ({"domain": {"x": [-300, 300], "y": [-1500, 1500], "z": [-2250, 0], "crs": {"longitude": 8, "latitude": 47}}},
         "outside the domain"),
    ],
)  # fmt: skip
def test_a_fault_that_cannot_be_placed_is_refused(tmp_path: Path, changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulation(tmp_path / "a.srf", rupture((3, 2)), **changes)


def test_a_time_function_beside_a_fault_is_refused(tmp_path: Path) -> None:
    source = {"file": tmp_path / "a.srf", "time_function": {"gaussian": {"sigma": 0.1}}}
    with pytest.raises(InputError, match="the slip rate of each subfault"):
        simulation(tmp_path / "a.srf", rupture((3, 2)), sources=[source])


# --- time functions


def sources_of(table: SlipRates) -> list[Any]:
    class One:
        def __init__(self, number: int) -> None:
            self.time_function, self.force = SubfaultFunction(table, number), None

    return [One(number) for number in range(len(table.start))]


def table_of(generator: np.random.Generator, count: int) -> SlipRates:
    """Random functions with 2 to 9 samples each, and unit integrals."""
    counts = generator.integers(2, 10, count)
    rates, interval = generator.uniform(0.1, 1.0, counts.sum()), generator.uniform(0.01, 0.2, count)
    offsets = np.append(0, np.cumsum(counts))
    for n in range(count):
        part = slice(offsets[n], offsets[n + 1])
        rates[part] /= np.trapezoid(rates[part], dx=interval[n])
    return SlipRates(generator.uniform(0.0, 1.0, count), interval, offsets, rates)


@pytest.mark.parametrize("moment", ["rate", "released"])
def test_the_compiled_values_are_those_of_each_function(moment: str) -> None:
    table = table_of(np.random.default_rng(1), 7)
    times = np.linspace(-0.1, 3.0, 400)
    found = source_values(sources_of(table), times, moment)
    for number, column in enumerate(found.T):
        expected = getattr(SubfaultFunction(table, number), moment)(times)
        assert column == pytest.approx(expected, abs=1e-12)
    if moment == "released":
        assert found[0] == pytest.approx(0.0) and found[-1] == pytest.approx(1.0)
        slopes = np.diff(found, axis=0) / np.diff(times)[:, None]
        assert np.trapezoid(slopes, times[:-1], axis=0) == pytest.approx(1.0, abs=0.02)


def test_the_sum_of_all_functions_has_their_spectrum() -> None:
    table = table_of(np.random.default_rng(3), 5)
    weights = np.array([1.0, 2.0, 0.5, 3.0, 1.0])
    total = table.total(weights)
    times = total.table.start[0] + total.table.interval[0] * np.arange(total.table.counts[0])
    rates = source_values(sources_of(table), times, "rate") @ weights
    assert total.rate(times) == pytest.approx(rates / np.trapezoid(rates, times), rel=1e-9)


def test_the_highest_frequency_of_a_triangle() -> None:
    """Its spectrum is sinc^2(f h), which decreases to 5% at f h = 0.7379 for the last time."""
    half = 0.3
    table = SlipRates(np.array([0.2]), np.array([half / 8]), np.array([0, 17]), (1 - abs(np.arange(17) / 8 - 1)) / half)
    expected = max(f for f in np.arange(0.0, 5.0, 1e-3) if np.sinc(f * half) ** 2 > 0.05)
    assert SubfaultFunction(table, 0).maximum_frequency() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("method", slow_except(["finite_difference"], SPACING))
def test_subfaults_that_do_not_act_are_skipped(tmp_path: Path, method: str) -> None:
    """Those that begin after the end of the run change nothing."""
    fault = rupture((4, 3))
    late = replace(fault, start=np.where(np.arange(12) % 3 == 1, fault.start + 50.0, fault.start))
    kept = np.flatnonzero(late.start < 50.0)
    first = motion(simulation(tmp_path / "late.srf", late, method))
    second = motion(simulation(tmp_path / "kept.srf", chosen(late, kept), method))
    assert np.abs(first - second).max() <= 1e-12 * np.abs(second).max()
