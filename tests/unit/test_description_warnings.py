"""Warnings about unused variables of files, the map projection and time functions that the grid cannot carry."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from box_runs import GAUSSIAN, boxed

MOMENT = {"moment_tensor": {"xx": 1e15, "yy": 1e15, "zz": 1e15}}
FORCE = {"force": [0, 0, 1e10]}


def described(time_function=GAUSSIAN, mechanism=MOMENT, frequency=2.0, **changes):
    source = {"position": [0, 0, -500], **mechanism, "time_function": time_function}
    return boxed(**{"sources": [source], "duration": 9.0, "solver": {"max_frequency": frequency}, **changes})


# --- files


def gridded(path, **more):
    ones = np.ones((2, 3, 4))
    axes = {name: np.linspace(-1000, 0 if name == "z" else 1000, n) for name, n in (("x", 2), ("y", 3), ("z", 4))}
    np.savez(path, **axes, vp=5000 * ones, vs=2900 * ones, rho=2600 * ones, **more)
    return {"file": path}


def test_variables_of_a_model_that_are_not_used_are_reported(tmp_path):
    assert described(material=gridded(tmp_path / "plain.npz")).warnings() == []
    ones = np.ones((2, 3, 4))
    [text] = described(material=gridded(tmp_path / "more.npz", q_p=200 * ones, Q=100 * ones, crust=ones)).warnings()
    assert f"material.file: {tmp_path / 'more.npz'} has variables that are not used: q_p, Q, crust" in text
    assert "Quality factors must be named qp and qs, or qkappa and qmu: q_p, Q have no effect." in text
    [text] = described(material=gridded(tmp_path / "crust.npz", crust=ones)).warnings()
    assert "not used: crust" in text and "Quality" not in text


def test_variables_of_a_topography_that_are_not_used_are_reported(tmp_path):
    axes = {"x": np.linspace(-1000, 1000, 5), "y": np.linspace(-1000, 1000, 6)}
    np.savez(tmp_path / "ground.npz", **axes, elevation=np.zeros((6, 5)), slope=np.zeros((6, 5)))
    domain = {"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1000, 0], "topography": tmp_path / "ground.npz"}
    [text] = described(domain=domain, solver={"max_frequency": 2.0, "method": "spectral_element"}).warnings()
    assert "domain.topography: " in text and "not used: slope; lithowave reads elevation" in text


# --- the projection


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ((-300, 300), (-300, 300), None),
        ((-450, 450), (-100, 100), ["domain.crs: the box reaches 450 km", "up to 0.25%", "17 km of depth"]),
        ((0, 600), (0, 100), ["reaches 600 km", "up to 0.44%", "x = y = 0 into the middle"]),
        ((-100, 100), (-500, 500), ["reaches 500 km", "up to 0.012%", "20 km of depth"]),
    ],
)
def test_a_box_too_large_for_its_projection_is_reported(x, y, words):
    box = {"x": [1e3 * v for v in x], "y": [1e3 * v for v in y], "z": [-40e3, 0]}
    changes = {"frequency": 0.01, "time_function": {"gaussian": {"sigma": 40.0}}, "duration": 400.0}
    source = {"position": [5e4, 5e4, -1e4], **MOMENT, "time_function": changes["time_function"]}
    receivers = [{"name": "A", "position": [0, 0, 0]}]
    placed = {**box, "crs": {"longitude": 15.0, "latitude": 45.0}}
    assert described(**changes, domain=box, sources=[source], receivers=receivers).warnings() == []
    found = described(**changes, domain=placed, sources=[source], receivers=receivers).warnings()
    assert (found == []) if words is None else len(found) == 1 and all(word in found[0] for word in words), found


def test_the_scale_is_that_of_the_projection():
    """The number in the warning against the scale factor of PROJ."""
    pyproj = pytest.importorskip("pyproj")
    domain = lw.Domain(x=[-450e3, 450e3], y=[-1e3, 1e3], z=[-40e3, 0], crs={"longitude": 15.0, "latitude": 45.0})
    scale = pyproj.Proj(domain.crs.projection).get_factors(*domain.to_geographic(450e3, 0.0)).meridional_scale
    assert 100 * (scale - 1) == pytest.approx(0.25, abs=0.005)


# --- time functions


@pytest.mark.parametrize(
    ("function", "mechanism", "words"),
    [
        (GAUSSIAN, MOMENT, []), ({"smoothed_step": {"rise_time": 1.0}}, MOMENT, []),
        ({"smoothed_step": {"rise_time": 1.0}}, FORCE, []), ({"ricker": {"frequency": 0.8}}, FORCE, []),
        ({"triangle": {"half_duration": 2.0}}, MOMENT, []),
        ({"samples": {"values": [0, 0.1, 0.5, 1, 0.5, 0.1, 0], "interval": 0.5}}, MOMENT, []),
        ({"boxcar": {"duration": 4, "delay": 1}}, MOMENT, ["boxcar jumps by 100% of its peak at t = 1 s", "the 2 Hz"]),
        ({"samples": {"values": [0.2, 1, 0.5, 0], "interval": 1}}, MOMENT, ["samples jumps by 20% of its peak"]),
        ({"samples": {"values": [0, 1, 0.5, 0.3], "interval": 1}}, MOMENT, ["samples jumps by 30% of its peak"]),
        ({"gaussian": {"sigma": 0.2, "delay": 0.8}}, MOMENT,
         ["cut off at time 0", "0.034% of its peak", "Use a longer delay"]),
        ({"gaussian": {"sigma": 0.2, "delay": 0.4}}, MOMENT,
         ["cut off at time 0", "14% of its peak", "above the 2 Hz that"]),
        ({"brune": {"corner_frequency": 0.4}}, MOMENT, ["brune has corners", "50% of the radiated velocity", "2 Hz"]),
        ({"triangle": {"half_duration": 0.8}}, MOMENT, ["triangle has corners", "Low-pass the seismograms at 2 Hz"]),
        ({"brune": {"corner_frequency": 2}}, MOMENT, ["falls to 5% only at 8.72 Hz"]),
    ],
)  # fmt: skip
def test_what_the_grid_cannot_carry_is_reported_once(function, mechanism, words):
    warnings = described(function, mechanism).warnings()
    assert len(warnings) == bool(words)
    for text in warnings:
        assert text.startswith("sources[0].time_function: ") and all(word in text for word in words), text


def test_the_unresolved_velocity_of_brune_is_that_of_its_spectrum():
    """Energy of f / (1 + f^2), f in corner frequencies: (arctan f - f / (1 + f^2)) / 2 below f, pi / 4 in total."""
    from lithowave.checks import unresolved_velocity

    for ratio in (2.0, 5.0, 20.0):
        [source] = described({"brune": {"corner_frequency": 0.1}}, frequency=3.0).point_sources()
        above = 1.0 - (np.arctan(ratio) - ratio / (1 + ratio**2)) / (np.pi / 2)
        assert unresolved_velocity(source, 0.1 * ratio) == pytest.approx(np.sqrt(above), rel=0.03)


@pytest.mark.parametrize(
    ("band", "rel"), [((0.01, 2.0), 0.05), ((0.3, 2.0), 0.01), ((1.0, 2.0), 0.01), ((0.2, 0.5), 0.02)]
)
def test_the_velocity_outside_a_band_is_that_of_the_spectrum_of_a_gaussian(band, rel):
    """Energy density of the velocity: f^2 exp(-4 pi^2 sigma^2 f^2); the first band begins below 1 / duration."""
    from lithowave.checks import velocity_outside

    [source] = described({"gaussian": {"sigma": 0.25, "delay": 2.0}}, frequency=3.0).point_sources()
    frequency = np.linspace(0.0, 8.0, 80001)
    energy = frequency**2 * np.exp(-4.0 * (np.pi * 0.25 * frequency) ** 2)
    outside = (frequency < band[0]) | (frequency > band[1])
    expected = np.sqrt(energy[outside].sum() / energy.sum())
    assert velocity_outside(source, band, None) == pytest.approx(expected, rel=rel)


FLOOR, INTERFACE = "between a fluid and a solid (first: XX.A)", "on an interface between layers (first: XX.A)"


@pytest.mark.parametrize(
    ("method", "z", "words", "count"),
    [
        ("spectral_element", -200.0, FLOOR, 1), ("discontinuous_galerkin", -200.0, FLOOR, 1),
        ("spectral_element", -201.0, FLOOR, 0), ("spectral_element", -199.0, FLOOR, 0),
        ("spectral_element", -500.0, FLOOR, 0), ("spectral_element", 0.0, FLOOR, 0),
        ("spectral_element", -200.0, INTERFACE, 0), ("spectral_element", -500.0, INTERFACE, 1),
    ],
)  # fmt: skip
def test_receivers_on_interfaces_are_reported(method: str, z: float, words: str, count: int) -> None:
    water, rock = {"vp": 1500, "vs": 0, "rho": 1000}, {"vp": 3000, "vs": 1700, "rho": 2300}
    layers = [{"top": 0, **water}, {"top": -200, **rock}, {"top": -500, **rock, "rho": 2400}]
    receivers = [{"name": "A", "position": [0, 0, z]}]
    simulation = boxed(
        method, sources=[], material={"layers": layers}, receivers=receivers, output={"pressure": words == INTERFACE}
    )
    assert len([text for text in simulation.warnings() if words in text]) == count


# --- the end of the simulation


@pytest.mark.parametrize(
    ("mechanism", "duration", "words"),
    [
        (MOMENT, 1.9, None),
        (MOMENT, 1.6, "until t = 1.943 s, and the simulation ends at t = 1.6 s: 2.3% of its moment is missing"),
        (MOMENT, 1.2, "50% of its moment is missing. Use a longer duration or a shorter delay."),
        (FORCE, 1.6, None),  # the peak is at 1.2 s
        (FORCE, 0.8, "86% of the peak of the force is missing"),
    ],
)
def test_a_simulation_that_ends_before_the_moment_is_released_is_reported(mechanism, duration, words):
    found = described(mechanism=mechanism, duration=duration).warnings()
    assert [text for text in found if "is missing" in text] == found
    assert not found if words is None else words in found[0] and found[0].startswith("sources[0].time_function: ")


def test_sources_that_last_longer_than_the_simulation_are_counted():
    entry = {"position": [0, 0, -500], **MOMENT, "time_function": GAUSSIAN}
    late = {"gaussian": {"sigma": 0.2, "delay": 1.5}}
    [text] = described(sources=[entry, {**entry, "time_function": late}], duration=1.5).warnings()
    assert "2 of 2 time functions last longer than the simulation" in text and "up to 50% of their moment" in text


# --- quality factors


def test_less_p_than_s_quality_is_reported(tmp_path):
    rock = {"vp": 5000, "vs": 2900, "rho": 2600, "qp": 100.0, "qs": 100.0}
    assert described(material={"homogeneous": rock}).warnings() == []
    [text] = described(material={"layers": [{"top": 0, **rock}, {"top": -400, **rock, "qp": 50}]}).warnings()
    assert text.startswith("material.layers.1.qp: 50 is less than qs = 100") and "bulk modulus is 35.5" in text
    assert "Check whether qp and qs are exchanged" in text
    ones = np.ones((2, 3, 4))
    half = np.where(np.arange(4) < 2, 60.0, 200.0) * ones
    [text] = described(material=gridded(tmp_path / "q.npz", qp=half, qs=100 * ones)).warnings()
    assert text.startswith("material.file: qp is less than qs at 50% of the points")


# --- longitude and latitude exchanged


PLATE = {"chunk": {"center": [-20.0, 10.0], "width": [80, 80], "depth": 300e3}}
ISLANDS = {"A": (-21.0, 1.0), "B": (-24.0, 3.0), "C": (-18.0, 2.0), "D": (-20.0, 6.0)}


def ocean(places, **changes):
    """A chunk below an ocean, which contains the places also with exchanged coordinates."""
    entries = {
        "domain": PLATE,
        "material": {"homogeneous": {"vp": 8000, "vs": 4500, "rho": 3300}},
        "sources": [
            {"longitude": -25.0, "latitude": 0.0, "depth": 60e3, **MOMENT, "time_function": {"gaussian": {"sigma": 20}}}
        ],
        "receivers": [{"name": name, "longitude": a, "latitude": b} for name, (a, b) in places.items()],
        "duration": 300.0,
        "solver": {"method": "spectral_element", "max_frequency": 0.02},
    }
    return [text for text in described(**{**entries, **changes}).warnings() if "longitude and latitude" in text]


def test_a_station_with_exchanged_coordinates_is_found():
    assert ocean(ISLANDS) == []
    [text] = ocean(ISLANDS | {"C": ISLANDS["C"][::-1]})
    assert text.startswith("receivers: 1 are more than 20°") and "XX.C (the first at longitude 2, latitude -18)" in text
    assert text.endswith("did you swap longitude and latitude?")
    [text] = ocean({name: place[::-1] for name, place in ISLANDS.items()})
    assert text.startswith("receivers: 4 are more than 20°")
    assert ocean({"A": (2.0, -18.0)}, sources=[]) == []  # nothing to compare with


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"longitude": 34.0, "latitude": -117.7}, "latitude: -117.7 deg is out of range; must be at least -90 deg"),
        ({"longitude": 12.5, "latitude": 42.4}, None),
        ({"longitude": 42.4, "latitude": 12.5}, ""),
    ],
)
def test_exchanged_coordinates_are_suggested_where_a_point_is_refused(tmp_path, entry, words):
    crs = {"x": [-50e3, 50e3], "y": [-50e3, 50e3], "z": [-20e3, 0], "crs": {"longitude": 12.5, "latitude": 42.5}}
    point = {"name": "A", **entry}
    (tmp_path / "STATIONS").write_text(f"A XX {entry['latitude']} {entry['longitude']} 0.0 0.0\n")
    source = {**entry, "depth": 5e3, **MOMENT, "time_function": GAUSSIAN}
    shot = {"survey": {"shots": [{**entry, "depth": 3e3}]}}
    cases = [{"receivers": [point]}, {"receivers": [{"file": tmp_path / "STATIONS"}]}, {"sources": [source]}, shot]
    for changes in cases:
        if words is None:
            described(domain=crs, frequency=0.1, **changes)
            continue
        with pytest.raises(lw.InputError) as caught:
            described(domain=crs, frequency=0.1, **changes)
        assert "did you swap longitude and latitude?" in str(caught.value) or "is not a latitude" in str(caught.value)
        assert words in str(caught.value) or "file" in str(changes)
