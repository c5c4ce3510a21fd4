"""Radial models of the Earth: published values, integrals that observations constrain, and operations on models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.earth import (
    NAMES,
    RADIUS,
    EarthProperties,
    RadialModel,
    phase_speed_range,
    reference_model,
    transverse_moduli,
    travel_times,
)
from lithowave.media import rotated_stiffness, rotation_to, speed_range
from lithowave.readers import read_radial_model
from lithowave.solvers.spectral_element import full_matrices

# Radius (km), rho, vpv, vsv, vph, vsh, eta, Qmu: of the lower side of a discontinuity. Table II of Dziewonski &
# Anderson (1981), which the mesher of AxiSEM writes to the same digits.
PREM_ROWS = [
    (6356.0, 2900.0, 6800.0, 3900.0, 6800.0, 3900.0, 1.0, 600.0),
    (6346.6, 3380.75, 8022.06, 4396.02, 8190.32, 4611.80, 0.90039, 600.0),
    (6291.0, 3374.71, 7959.06, 4408.83, 8150.02, 4561.90, 0.92201, 80.0),
    (6207.0, 3365.58, 7863.90, 4428.18, 8089.15, 4486.52, 0.95468, 80.0),
    (6151.0, 3435.77, 8558.95, 4643.90, 8558.95, 4643.90, 1.0, 143.0),
    (5971.0, 3723.75, 9133.92, 4932.49, 9133.92, 4932.49, 1.0, 143.0),
    (5771.0, 3975.82, 10157.76, 5516.02, 10157.76, 5516.02, 1.0, 143.0),
    (5701.0, 4380.74, 10751.32, 5945.13, 10751.32, 5945.13, 1.0, 312.0),
    (5600.0, 4443.20, 11065.59, 6240.39, 11065.59, 6240.39, 1.0, 312.0),
    (4500.0, 5054.72, 12665.51, 6872.83, 12665.51, 6872.83, 1.0, 312.0),
    (3630.0, 5491.48, 13680.44, 7265.97, 13680.44, 7265.97, 1.0, 312.0),
    (3480.0, 9903.44, 8064.79, 0.0, 8064.79, 0.0, 1.0, np.inf),
    (2030.0, 11630.17, 9811.11, 0.0, 9811.11, 0.0, 1.0, np.inf),
    (1221.5, 12763.61, 11028.26, 3504.31, 11028.26, 3504.31, 1.0, 84.6),
    (721.5, 12975.15, 11180.58, 3610.76, 11180.58, 3610.76, 1.0, 84.6),
]


def test_values_of_prem_are_the_published_ones() -> None:
    table = np.array(PREM_ROWS).T
    found = reference_model("prem", transverse=True).properties(1e3 * table[0])
    names = ("rho", "vpv", "vsv", "vph", "vsh")
    for name, expected in zip(names, table[1:6], strict=True):
        np.testing.assert_allclose(getattr(found, name), expected, atol=0.0051, err_msg=name)
    np.testing.assert_allclose(found.eta, table[6], atol=5.1e-6)
    np.testing.assert_allclose(found.qmu, table[7])
    np.testing.assert_allclose(found.qkappa, np.where(table[0] > 1221.5, 57823.0, 1327.7))


TAUP = importlib.util.find_spec("obspy")
TAUP_DATA = Path(TAUP.origin).parent / "taup" / "data" if TAUP and TAUP.origin else Path()


@pytest.mark.skipif(TAUP is None, reason="needs ObsPy")
@pytest.mark.parametrize(
    ("name", "file", "tolerance"),
    [("prem", "prem.nd", 1.4e-4), ("ak135", "ak135f_no_mud.nd", 4.1e-4), ("iasp91", "iasp91.tvel", 6e-5)],
)
def test_models_are_those_of_taup(name: str, file: str, tolerance: float) -> None:
    """At the nodes of TauP, which lists km/s with 4 or 5 digits; at discontinuities on both sides.

    The PREM of TauP has the isotropic average at depths of 24.4 to 220 km. In its ak135-f without mud, one row differs
    from the model with mud, which has the published values.
    """
    model, taup = reference_model(name, transverse=name == "prem"), read_radial_model(TAUP_DATA / file)
    for own in taup.layers:
        r = own.profile.nodes
        expected = own.profile(r)
        inside = np.clip(r, own.bottom + 1e-3, own.top - 1e-3)
        found = model.properties(inside)
        np.testing.assert_allclose(found.vp / 1e3, expected[0] / 1e3, atol=tolerance, rtol=2e-7)
        np.testing.assert_allclose(found.vs / 1e3, expected[2] / 1e3, atol=tolerance, rtol=2e-7)
        if name != "iasp91":
            np.testing.assert_allclose(found.rho, expected[5], atol=1e3 * tolerance)


def ray(model: RadialModel, speed: str, p: float) -> tuple[float, float]:
    """Distance (degrees) and time of a ray from the surface to the surface with the ray parameter p = r sin(i) / v."""
    distance = time = 0.0
    u = (np.arange(20_000) + 0.5) / 20_000
    for layer in model.layers:
        r = np.linspace(layer.top, layer.bottom, 20_001)
        below = np.flatnonzero(r / getattr(EarthProperties(*layer.profile(r)), speed) < p)
        low = r[below[0]] if below.size else layer.bottom
        height = layer.top - low
        r, dr = low + height * u**2, 2.0 * height * u / u.size  # dense where the ray turns
        eta = r / getattr(EarthProperties(*layer.profile(r)), speed)
        root = np.sqrt(np.maximum(eta**2 - p**2, 1e-30))
        inside = eta > p
        distance += 2.0 * (p / (r * root) * dr)[inside].sum()
        time += 2.0 * (eta**2 / (r * root) * dr)[inside].sum()
        if below.size:
            return np.degrees(distance), time
    raise AssertionError("the ray does not turn")


@pytest.mark.skipif(TAUP is None, reason="needs ObsPy")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("phase", ["P", "S"])
def test_rays_in_the_models_have_the_times_of_taup(name: str, phase: str) -> None:
    """Distance and time of the ray with the takeoff angle of TauP at 60 degrees, which turns in the lower mantle."""
    [arrival] = travel_times(name, 0.0, 60.0, [phase])
    assert arrival.phase == phase and arrival.incident_angle == pytest.approx(arrival.takeoff_angle, abs=1e-6)
    model, speed = reference_model(name, transverse=True).isotropic(), f"v{phase.lower()}"
    surface = getattr(model.properties(RADIUS), speed)
    p = float(RADIUS * np.sin(np.radians(arrival.takeoff_angle)) / surface)
    distance, time = ray(model, speed, p)
    # Fermat: dT = p d(distance), so that the time at 60 degrees follows from that of a close ray.
    assert distance == pytest.approx(60.0, abs=0.08)
    assert time + p * np.radians(60.0 - distance) == pytest.approx(arrival.time, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("jb", 0.0, 60.0), "model: is 'jb'"), (("prem", -1.0, 60.0), "source_depth"), (("prem", 0.0, 181.0), "distance")],
)
def test_travel_times_of_other_models_and_places_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        travel_times(*arguments)


def test_thin_layers_are_removed_and_models_truncated() -> None:
    model = reference_model("prem").without_layers_thinner_than(20e3)
    np.testing.assert_allclose((RADIUS - model.discontinuities[:3]) / 1e3, [80.0, 220.0, 400.0])
    np.testing.assert_allclose(model.properties(RADIUS).vs, 4491.0, atol=0.01)  # of the top of the mantle, at 24.4 km
    last = reference_model("prem").truncated(25e3).without_layers_thinner_than(5e3)
    assert len(last.layers) == 2 and last.bottom == RADIUS - 25e3
    cut = reference_model("ak135").truncated(500e3)
    assert cut.bottom == RADIUS - 500e3 and len(cut.layers) == 5
    assert cut.properties(RADIUS - 490e3).vp == reference_model("ak135").properties(RADIUS - 490e3).vp
    with pytest.raises(InputError, match="ak135 ends at the depth 500 km, and the domain at 600 km"):
        cut.truncated(600e3)
    with pytest.raises(InputError, match="all layers of prem are thinner"):
        reference_model("prem").without_layers_thinner_than(4e6)


def test_speed_ranges_of_parts() -> None:
    model = reference_model("prem", transverse=True)
    low, high = model.speed_range(6291e3, 6346.6e3)
    assert low == pytest.approx(4396.02, abs=0.01)  # SV at the top; SH is faster
    assert high == pytest.approx(8190.32, abs=0.01)
    assert model.speed_range(2e6, 3e6)[0] == pytest.approx(model.properties(3e6).vp)  # P waves in the fluid
    with pytest.raises(ValueError, match="no layer"):
        model.truncated(1e5).speed_range(1e6, 2e6)


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (0.6, 0.0, 0.8), (-0.36, 0.48, 0.8), (0.0, 1.0, 0.0)])
def test_rotated_moduli_are_those_of_the_rotated_matrix(axis: tuple[float, ...]) -> None:
    here = reference_model("prem", transverse=True).properties(np.array([6346.6e3, 6200e3]))
    found = full_matrices(np.moveaxis(transverse_moduli(here.love, np.array([axis, axis])), 0, -1))
    for a, c, l, n, f, own in zip(*here.love, found, strict=True):  # noqa: E741
        upright = np.diag([a, a, c, l, l, n])
        upright[0, 1] = upright[1, 0] = a - 2.0 * n
        upright[:2, 2] = upright[2, :2] = f
        np.testing.assert_allclose(own, rotated_stiffness(upright, rotation_to(axis)), atol=1e-11 * a)


def test_phase_speed_ranges_are_those_over_all_directions() -> None:
    here = reference_model("prem", transverse=True).properties(np.linspace(6152e3, 6346.6e3, 5))
    slowest, fastest = phase_speed_range(here.love, here.rho)
    moduli = np.moveaxis(transverse_moduli(here.love, np.broadcast_to([0.0, 0.0, 1.0], (5, 3))), 0, -1)
    for index, stiffness in enumerate(full_matrices(moduli)):
        low, high = speed_range(stiffness, here.rho[index])
        assert slowest[index] == pytest.approx(low, rel=1e-5)
        assert fastest[index] == pytest.approx(high, rel=1e-5)


@pytest.mark.parametrize("transverse", [False, True])
def test_speeds_at_other_frequencies_follow_the_law_of_constant_q(transverse: bool) -> None:
    """v(f) = v(1 Hz) (1 + ln(f / 1 Hz) / (pi Q)), to first order in 1/Q."""
    model, r = reference_model("prem", transverse=transverse), np.array([6200e3, 5800e3, 2000e3])
    low = model.at_frequency(0.02)
    before, after = model.properties(r), low.properties(r)
    assert low.reference_frequency == 0.02
    expected = np.log(0.02) / np.pi * np.array([1.0 / 80.0, 1.0 / 143.0, 0.0])
    solid = before.vs > 0.0
    np.testing.assert_allclose((after.vs / np.where(solid, before.vs, 1.0) - 1.0)[solid], expected[solid], rtol=0.01)
    ratio = 4.0 / 3.0 * (before.vs / before.vp) ** 2
    inverse_qp = ratio * before.inverse_qmu + (1.0 - ratio) * before.inverse_qkappa
    np.testing.assert_allclose(after.vp / before.vp - 1.0, np.log(0.02) / np.pi * inverse_qp, rtol=0.01)
    np.testing.assert_array_equal(low.at_frequency(1.0).properties(r).anisotropic, before.anisotropic)
    with pytest.raises(InputError, match="reference frequency of iasp is not known"):
        RadialModel("iasp", model.layers).at_frequency(0.1)


REFUSED = {
    "premm": ("premm", r"material: 'premm' is neither|did you mean 'prem'"),
    "number": (3, r"3 is not a group of keys"),
    "unknown key": ({"model": "prem", "oceans": True}, r"unknown key 'oceans'.*did you mean 'ocean'"),
    "no ocean": ({"model": "ak135", "ocean": True}, r"ocean: true is given, and ak135 has no ocean"),
    "isotropic": ({"model": "iasp91", "anisotropy": True}, r"anisotropy: true is given, and iasp91 is isotropic"),
    "frequency": ({"model": "prem", "frequency": 0.1}, r"frequency: 0.1 Hz is given, and the model has attenuation"),
    "thickness": ({"model": "prem", "minimum_thickness": 9e6}, r"minimum_thickness: all layers of prem are thinner"),
    "no name": ({"ocean": True}, r"model: is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_keys_are_refused_with_their_values(case: str) -> None:
    value, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        lw.Material(earth=value)


def test_keys_select_the_model() -> None:
    assert lw.Material(earth="PREM") == lw.Material(earth={"model": "prem"})
    depth = np.array([1e3, RADIUS - 6200e3])
    for earth, expected in (
        ({"model": "prem", "ocean": True, "attenuation": False}, reference_model("prem", ocean=True)),
        ({"model": "prem", "anisotropy": True}, reference_model("prem", transverse=True)),
        ({"model": "prem", "attenuation": False, "frequency": 0.02}, reference_model("prem").at_frequency(0.02)),
        ({"model": "ak135", "minimum_thickness": 30e3}, reference_model("ak135").without_layers_thinner_than(30e3)),
    ):  # fmt: skip
        made = lw.Material(earth=earth)
        here = expected.properties(RADIUS - depth)
        np.testing.assert_allclose(made.sample(0.0, 0.0, -depth), [here.vp, here.vs, here.rho], rtol=1e-14)
        attenuates = earth.get("attenuation", True)
        assert made.earth.radial_model.attenuates == attenuates
        assert lw.Material(**made.model_dump(mode="json", exclude_defaults=True)) == made
