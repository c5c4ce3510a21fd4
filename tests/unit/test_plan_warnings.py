"""Warnings where a discretization is less accurate than its description: reflections, layers, topography."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lithowave as lw
from fake_ranks import on_ranks
from lithowave.solvers import load_method
from reference_backend import CPU

SE, DG, FD = "spectral_element", "discontinuous_galerkin", "finite_difference"
ROCK = {"vp": 5000.0, "vs": 2800.0, "rho": 2600.0}
SOFT = {"vp": 3200.0, "vs": 1600.0, "rho": 2300.0}
DOUBLE_COUPLE = {"strike": 30, "dip": 60, "rake": 90, "mw": 4.0}


def described(method=SE, *, solver=None, receivers=None, size=3000.0, duration=5.0, **changes):
    """The tutorial's example: a source 1 km above the bottom, receivers 0.5 to 3 km from the sides."""
    absorption = {} if method == FD else {"absorption": "stacey"}
    return lw.Simulation(
        **{
            "boundaries": absorption | changes.pop("boundaries", {}),
            "domain": {"x": [-size, size], "y": [-size, size], "z": [-size, 0]},
            "material": {"layers": [{"top": 0, **SOFT}, {"top": -1000, **ROCK}]},
            "sources": [
                {
                    "position": [0, 0, -2000], "double_couple": DOUBLE_COUPLE,
                    "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}},
                }
            ],
            "receivers": receivers or [
                {"name": "S01", "position": [1000, 1500, 0]},
                {"line": {"prefix": "L", "start": [0, 0, 0], "end": [2500, 0, 0], "count": 11}},
            ],
            "duration": duration,
            "solver": {"method": method, "max_frequency": 2.6, **(solver or {})},
            **changes,
        }
    )  # fmt: skip


def warnings_of(simulation):
    found = load_method(simulation.solver.method).plan(simulation, CPU).warnings(simulation)
    return [text for text in found if not text.startswith("sources[")]  # receivers near sources have their own tests


# --- absorbing faces


@pytest.mark.parametrize(("method", "remedy"), [(SE, "layer, or faces 4100 m"), (DG, "layer, or faces 41")])
def test_reflections_from_first_order_faces_are_estimated(method, remedy):
    """Measured with spectral elements: 16% over all traces, 13% to 27% at single receivers."""
    [text] = warnings_of(described(method, boundaries={"absorption": "stacey"}))
    assert text.startswith("boundaries.absorption: stacey ") and remedy in text
    assert "19% (median), 32% at XX.L11, 500 m from x_max (wavelength 1078 m)" in text and "below 5%" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"method": FD},
        {"boundaries": {"absorption": "layer"}},
        {"method": DG, "boundaries": {"absorption": "layer"}},
        {"boundaries": {"sides": "rigid", "bottom": "rigid"}},
        {"duration": 1.0},  # no reflection arrives before the end
        {"sources": []},
    ],
)
def test_what_does_not_reflect_has_no_warning(changes):
    assert warnings_of(described(**changes)) == []


# --- layers


def layered(*tops_and_rocks, **changes):
    layers = [{"top": top, **rock} for top, rock in tops_and_rocks]
    return described(material={"layers": layers}, boundaries={"absorption": "auto"}, **changes)


def about(texts, key):
    return [text for text in texts if text.startswith(key)]


def test_layers_thinner_than_the_grid_spacing_are_averaged():
    thin = layered((0, SOFT), (-1000, ROCK), (-1060, SOFT), (-1200, ROCK), method=FD, solver={"spacing": 75})
    [text] = warnings_of(thin)
    assert "material.layers[1]: 60 m thick, 80% of the grid spacing (75 m)" in text and "solver.spacing: 60 or" in text
    assert warnings_of(layered((0, SOFT), (-1000, ROCK), (-1075, SOFT), method=FD, solver={"spacing": 75})) == []
    # Layers that are not in the domain, or that continue below it, are not thin.
    assert warnings_of(layered((50, ROCK), (20, SOFT), (-2990, ROCK), (-4000, SOFT), method=FD)) == []


@pytest.mark.parametrize("method", [SE, DG])
def test_layers_thinner_than_the_elements_make_flat_elements(method):
    thin = layered((0, SOFT), (-1000, ROCK), (-1100, SOFT), (-1600, ROCK), method=method)
    [text] = about(warnings_of(thin), "material.layers")
    assert "material.layers[1]: 100 m thick, less than the elements there" in text and "time step is about 0.1" in text
    heights = load_method(method).plan(thin, CPU).summary()["element_size_m"]
    assert heights[0] <= 100.0 + 1e-6
    assert about(warnings_of(described(method)), "material.layers") == []


# --- interfaces inside elements


def step(x, y, z):
    """The layers of `described`, but the interface is between element faces."""
    upper = z > -870.0
    return tuple(np.where(upper, SOFT[name], ROCK[name]) for name in ("vp", "vs", "rho"))


def gradient(x, y, z):
    vs = 2800.0 + 0.1 * z
    return 1.8 * vs, vs, np.full_like(vs, 2500.0)


@pytest.mark.parametrize("method", [SE, DG])
def test_interfaces_that_the_elements_do_not_follow_are_reported(method):
    [text] = about(warnings_of(described(method, material=lw.Material(function=step))), "material")
    assert "vs changes by up to 43% inside an element" in text and "estimated error of the seismograms 9%" in text
    count, total = (int(n.replace(",", "")) for n in re.search(r"in ([\d,]+) of ([\d,]+) elements", text).groups())
    assert 0.02 < count / total < 0.4
    assert about(warnings_of(described(method, material=lw.Material(function=gradient))), "material") == []
    assert about(warnings_of(described(FD, material=lw.Material(function=step))), "material") == []


@pytest.mark.parametrize("method", [SE, DG])
def test_only_elements_of_the_domain_are_reported(method):
    """A step at a side is also inside the elements of the absorbing layer beyond it."""
    simulation = described(method, material=lw.Material(function=step), boundaries={"absorption": "layer"})
    plan = load_method(method).plan(simulation, CPU)
    centers = plan.mesh.vertices[plan.mesh.elements].mean(axis=1)
    (x, y, z), domain = centers.T, simulation.domain
    inside = (x > domain.x[0]) & (x < domain.x[1]) & (y > domain.y[0]) & (y < domain.y[1]) & (z > domain.z[0])
    [text] = about(warnings_of(simulation), "material")
    total = int(re.search(r"of ([\d,]+) elements", text).group(1).replace(",", ""))
    assert total == inside.sum() < plan.element_count
    place = [float(value) for value in re.search(r"at \((.*?)\) m", text).group(1).split(",")]
    assert all(low < value < high for value, (low, high) in zip(place, domain.bounds.values(), strict=True))


def test_elements_across_a_sea_floor_are_reported():
    def sea(x, y, z):
        water = z > -700.0
        return np.where(water, 1500.0, 3200.0), np.where(water, 0.0, 1600.0), np.where(water, 1000.0, 2300.0)

    [text] = about(warnings_of(described(DG, material=lw.Material(function=sea))), "material")
    assert "vs changes by up to 100% inside an element" in text
    # Two kinds of water: the speed of a fluid is vp.

    def waters(x, y, z):
        return np.where(z > -700.0, 1500.0, 2100.0), 0.0 * z, np.full_like(z, 1000.0)

    for method in (SE, DG):
        [text] = about(warnings_of(described(method, material=lw.Material(function=waters))), "material.function")
        assert "vp changes by up to 29% inside an element" in text
    water = {"homogeneous": {"vp": 1500.0, "vs": 0.0, "rho": 1000.0}}
    assert about(warnings_of(described(DG, material=water)), "material") == []


# --- topography


def hilly(folder, width, height=300.0, method=SE, **solver):
    axis = np.linspace(-3200, 3200, 129)
    heights = height * np.exp(-((axis - 150) ** 2 + (axis[:, None] + 70) ** 2) / width**2)
    np.savez(folder / "hill.npz", x=axis, y=axis, elevation=heights, axes=["y", "x"])
    domain = {"x": [-3000, 3000], "y": [-3000, 3000], "z": [-3000, 0], "topography": folder / "hill.npz"}
    receivers = [{"name": "A", "position": [0, 0]}]
    return described(method, domain=domain, receivers=receivers, material={"homogeneous": ROCK}, solver=solver)


@pytest.mark.parametrize(
    ("method", "wide", "narrow"), [(SE, 1500.0, 300.0), pytest.param(DG, 4000.0, 500.0, marks=pytest.mark.slow)]
)
def test_hills_that_elements_do_not_resolve_are_reported(tmp_path, method, wide, narrow):
    assert about(warnings_of(hilly(tmp_path, wide, method=method)), "domain") == []
    simulation = hilly(tmp_path, narrow, method=method)
    [text] = about(warnings_of(simulation), "domain.topography")
    pattern = r"by up to ([\d.]+) m \(at x = (\S+) m, y = (\S+) m\), ([\d.]+) of the shortest .* near it (\d+)%"
    largest, x, y, part, error = (float(found) for found in re.search(pattern, text).groups())
    assert 20 < largest < 300 and np.hypot(x - 150, y + 70) < 2.5 * narrow
    assert part == pytest.approx(largest / simulation.shortest_wavelength, rel=0.05)
    assert error == pytest.approx(200 * part, abs=1.0)
    finer = hilly(tmp_path, narrow, method=method, points_per_wavelength=30 if method == SE else 60)
    assert part > 0.02 and about(warnings_of(finer), "domain") == []


@pytest.mark.parametrize("method", [SE, DG])
def test_several_ranks_report_what_one_does(tmp_path, method):
    for simulation in (
        hilly(tmp_path, 400.0, method=method), described(method, material=lw.Material(function=step)),
    ):  # fmt: skip
        expected = warnings_of(simulation)
        plan = load_method(method).plan

        def warnings(ranks, simulation=simulation, plan=plan):
            return plan(simulation, CPU, ranks).warnings(simulation)

        for found in on_ranks(3, warnings):
            assert len(found) == len(expected) == 2
            assert found[:-1] == expected[:-1]
            assert re.sub(r"\(.*?\)", "", found[-1]) == re.sub(r"\(.*?\)", "", expected[-1])


# --- receivers at sources, and layers that are too thin for any grid


@pytest.mark.parametrize("method", [FD, SE, DG])
def test_a_receiver_at_a_source_has_a_remedy(method):
    """No spacing resolves a distance of zero."""
    simulation = described(method, receivers=[{"name": "A", "position": [0, 0, -2000]}])
    [text] = [one for one in load_method(method).plan(simulation, CPU).warnings(simulation) if "XX.A is at" in one]
    assert "the motion at a point source is infinite" in text and "0 or less" not in text
    assert re.search(r"Keep a distance of at least [1-9]\d+ m for an error below 2%\.$", text)
    near = described(method, receivers=[{"name": "A", "position": [0, 0, -1990]}])
    [text] = [one for one in load_method(method).plan(near, CPU).warnings(near) if "XX.A is at" in one]
    assert re.search(r"Use solver.spacing: \d\S* or less, or a distance of at least [1-9]\d+ m, for an error", text)


def test_no_spacing_is_suggested_for_a_layer_that_no_grid_resolves():
    layers = [{"top": 0, **SOFT}, {"top": -1000, **ROCK}, {"top": -1000.001, **SOFT}]
    [text] = warnings_of(described(FD, material={"layers": layers}))
    assert "material.layers[1]: 0.001 m thick" in text and text.endswith("or give it a minimum thickness.")
    assert "solver.spacing" not in text
