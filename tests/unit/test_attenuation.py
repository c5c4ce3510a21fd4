"""Descriptions with attenuation: quality factors, what is refused, warnings, the unrelaxed material, and reports."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import loh3
from box_runs import BOX, GAUSSIAN, boxed
from lithowave import InputError
from lithowave.description import Material
from lithowave.media import make_anelasticity
from lithowave.physics import voigt_average
from lithowave.run import check_simulation

DOMAIN = SimpleNamespace(x=(-2000.0, 2000.0), y=(-1000.0, 1000.0), z=(-5000.0, 0.0))
SOLID = {"vp": 4000, "vs": 2000, "rho": 2600, "qp": 120, "qs": 50}
ELASTIC = {"vp": 6000, "vs": 3464, "rho": 2700}
WATER = {"vp": 1500, "vs": 0, "rho": 1000, "qp": 300}
VTI = {**SOLID, "anisotropy": {"epsilon": 0.1, "delta": 0.05, "gamma": 0.08}}


def described(material, frequency=2.0, **changes):
    source = {"position": [0, 0, -500], "moment_tensor": {"xy": 1e15}, "time_function": GAUSSIAN}
    parts = {"domain": BOX | {"z": [-3000, 0]}, "sources": [source], "solver": {"max_frequency": frequency}}
    return boxed(material=material, duration=9.0, **parts | changes)


# --- what is refused


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"qs": None}, "qs", "is missing, while qp is given"),
        ({"qp": None}, "qp", "is missing, while qs is given"),
        ({"qs": 0}, "qs", "must be at least 1"),
        ({"qp": -20}, "qp", "must be at least 1"),
        ({"qs": "50 m"}, "qs", "plain number"),
        ({"vs": 0}, "qs", "vs = 0 denotes a fluid"),
        ({"qp": 153}, "qp", "with this qs, qp must be at most 150, which is"),
        ({"qp": 1.0, "qs": 900.0}, "qp", "the quality factor of the bulk modulus is 0.66"),
    ],
)
def test_impossible_quality_factors_are_refused(change, where, words):
    given = {key: value for key, value in {**SOLID, **change}.items() if value is not None}
    with pytest.raises(InputError, match=words) as caught:
        Material(homogeneous=given)
    assert caught.value.where.endswith(f"homogeneous.{where}")


def test_rounded_quality_factors_have_no_bulk_attenuation():
    for qp in (150.0, 150.3, 151.4):
        part = Material(homogeneous={**SOLID, "qp": qp}).homogeneous
        assert part.inverse_quality == (pytest.approx(0.0, abs=1e-17), 1 / 50)
    assert Material(layers=loh3.LAYERS).layers[1].inverse_quality == (pytest.approx(0.0, abs=3e-6), 1 / 69.3)


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"band": [2, 1]}, "band", "must be at least 1.5 times the first"),
        ({"band": [1]}, "band", "expected 2 numbers"),
        ({"mechanisms": 9}, "mechanisms", "8"),
        ({"exponent": 1}, "exponent", "less than 1"),
        ({"corner_frequency": 0}, "corner_frequency", "greater than 0"),
        ({"quality": 0}, "quality", "quality"),
    ],
)
def test_impossible_keys_are_refused(change, where, words):
    with pytest.raises(InputError, match=words) as caught:
        Material(homogeneous=SOLID, attenuation=change)
    assert f"attenuation.{where}" in caught.value.where or where in str(caught.value)


def test_a_reference_frequency_far_from_the_band_is_refused():
    for frequency, fits in ((1.9e-4, False), (2.1e-4, True), (190.0, True), (210.0, False)):
        material = {"homogeneous": SOLID, "attenuation": {"reference_frequency": frequency}}
        if fits:
            assert described(material).anelasticity.reference_frequency == frequency
        else:
            with pytest.raises(InputError, match="far outside the band, 0.02 to 2 Hz") as caught:
                described(material)
            assert caught.value.where == "material.attenuation.reference_frequency"


def test_a_function_must_return_three_or_five_values():
    with pytest.raises(InputError, match="it returned 4 values"):
        described({"function": lambda x, y, z: (4000.0, 2000.0, 2600.0, 120.0)})
    with pytest.raises(InputError, match="3 values for some points and 5 for others"):
        described({"function": lambda x, y, z: (4000.0, 2000.0, 2600.0, 120.0, 50.0)[: 3 if x.size > 1 else 5]})
    with pytest.raises(InputError, match="qs = -?0 at"):
        described({"function": lambda x, y, z: (4000.0, 2000.0, 2600.0, 120.0, 0.0)})


# --- defaults and warnings


def test_defaults_follow_from_the_maximum_frequency():
    found = described({"homogeneous": SOLID}).anelasticity
    assert found.body.band == (0.02, 2.0) and found.reference_frequency == pytest.approx(0.2)
    assert found.body.mechanisms == 3 and found.body.law.exponent == 0.0
    keys = {"band": [0.1, 3], "mechanisms": 2, "exponent": 0.5, "corner_frequency": 0.7}
    found = described({"homogeneous": SOLID, "attenuation": keys}).anelasticity
    assert found.body.band == (0.1, 3.0) and found.reference_frequency == pytest.approx(np.sqrt(0.3))
    assert found.body.mechanisms == 2 and found.body.law.corner_frequency == 0.7
    # From a spacing: the frequency that it resolves with 8 points per wavelength.
    found = described({"homogeneous": SOLID}, solver={"spacing": 100}).anelasticity
    assert found.body.band[1] == pytest.approx(2.5)


def test_an_elastic_material_has_no_attenuation():
    for material in ({"homogeneous": ELASTIC}, {"function": lambda x, y, z: (4000.0, 2000.0, 2600.0)}):
        simulation = described(material)
        assert simulation.anelasticity is None and simulation.warnings() == []
    infinite = described({"function": lambda x, y, z: (4000.0, 2000.0, 2600.0, np.inf, np.inf)})
    assert infinite.anelasticity is None


@pytest.mark.parametrize(
    ("part", "keys", "words"),
    [
        (SOLID, {}, None),
        (ELASTIC, {"mechanisms": 4}, "material.attenuation: without effect"),
        (SOLID, {"corner_frequency": 2.0}, "corner_frequency: without effect with exponent 0"),
        (SOLID, {"corner_frequency": 2.0, "exponent": 0.2}, None),
        ({**SOLID, "qp": 8, "qs": 4}, {}, "smallest quality factor of a bulk or shear modulus is 4;"),
        (SOLID, {"mechanisms": 2}, "with 2 mechanisms, Q deviates by up to 16% from"),
        (SOLID, {"band": [0.02, 0.7]}, "of the velocity radiated by sources[0] (relative L2 norm) is outside the band"),
        (SOLID, {"band": [0.9, 2.0]}, "is outside the band, 0.9 to 2 Hz"),
        (SOLID, {"band": [0.1, 1.7]}, None),
    ],
)
def test_warnings(part, keys, words):
    found = described({"homogeneous": part, "attenuation": keys}).warnings()
    assert (found == []) if words is None else len(found) == 1 and words in found[0], found


# --- values at points, and the unrelaxed material


def phase_velocities(anelasticity, kappa, mu, rho, losses):
    omega = 2.0 * np.pi * anelasticity.reference_frequency
    bulk, shear = (anelasticity.body.modulus_ratio(omega, loss) for loss in losses)
    p_modulus = kappa * bulk + 4.0 / 3.0 * mu * shear
    with np.errstate(divide="ignore", invalid="ignore"):  # no S waves in a fluid
        return 1.0 / np.sqrt(rho / p_modulus).real, 1.0 / np.sqrt(rho / (mu * shear)).real


def gridded(tmp_path, qp, qs):
    ones = np.ones((3, 2, 4))
    axes = {"x": np.array([-2e3, 0, 2e3]), "y": np.array([-1e3, 1e3]), "z": np.linspace(-5e3, 0, 4)}
    vs = 1500.0 - 0.3 * axes["z"] * ones
    np.savez(tmp_path / "model.npz", **axes, vp=1.9 * vs, vs=vs, rho=2300.0 * ones, qp=qp * ones, qs=qs * ones)
    return {"file": tmp_path / "model.npz"}


def smooth(x, y, z):
    vs = np.where(z > -1000.0, 0.0, 1500.0 - 0.3 * z)
    quality = np.where(z > -4000.0, 80.0, np.inf), np.where(z > -4000.0, 30.0 - 0.01 * z, np.inf)
    return 2000.0 + 2.0 * vs, vs, 2400.0, *quality


@pytest.mark.parametrize("kind", ["layers", "homogeneous", "file", "function"])
def test_phase_velocities_at_the_reference_frequency_are_vp_and_vs(tmp_path, kind):
    forms = {
        "layers": {"layers": [{"top": 0, **WATER}, {"top": -100, **SOLID}, {"top": -3000, **ELASTIC}]},
        "homogeneous": {"homogeneous": SOLID},
        "file": gridded(tmp_path, 60.0, np.linspace(25.0, 35.0, 4)),
        "function": {"function": smooth},
    }
    material = Material(**forms[kind], attenuation={"reference_frequency": 1.3, "mechanisms": 4})
    found = make_anelasticity(material, DOMAIN, 5.0)
    z = np.array([-3.0, -99.0, -500.0, -1700.0, -2999.0, -3001.0, -4500.0])
    kappa, mu, rho = found.material.moduli(100.0, -50.0, z)
    losses = found.inverse_quality(100.0, -50.0, z)
    vp, vs, _ = material.sample(100.0, -50.0, z)
    p_speed, s_speed = phase_velocities(found, kappa, mu, rho, losses)
    solid = vs > 0.0
    np.testing.assert_allclose(p_speed, vp, rtol=1e-13)
    np.testing.assert_allclose(s_speed[solid], vs[solid], rtol=1e-13)
    faster_p, faster_s, same_rho = found.material.sample(100.0, -50.0, z)
    np.testing.assert_allclose(same_rho * faster_s**2, mu, rtol=1e-13)
    np.testing.assert_allclose(same_rho * faster_p**2, kappa + 4 / 3 * mu, rtol=1e-13)
    lossy = losses[1] > 0.0
    assert lossy.any() and (faster_p[lossy] > vp[lossy]).all() and (faster_s[lossy] > vs[lossy]).all()
    # Its extremes, from which the limit of the time step follows, are those of the unrelaxed medium.
    extremes, elastic = found.material.extremes(DOMAIN), material.extremes(DOMAIN)
    assert extremes["vp_max"] >= faster_p.max() * (1.0 - 1e-12) and extremes["vs_max"] >= elastic["vs_max"]
    assert found.material.attenuation is None and make_anelasticity(found.material, DOMAIN, 5.0) is None
    weights = found.weights(100.0, -50.0, z)
    assert weights[0].shape == weights[1].shape == (4, z.size)
    np.testing.assert_array_equal(weights[1], found.body.weights(losses[1]))


def test_quality_factors_of_layers():
    material = Material(layers=[{"top": 0, **WATER}, {"top": -100, **SOLID}, {"top": -3000, **ELASTIC}])
    found = make_anelasticity(material, DOMAIN, 2.0)
    bulk, shear = found.inverse_quality(*np.meshgrid(0.0, [0.0, 1.0], [-50.0, -100.0, -100.1, -3000.0]))
    assert bulk.shape == shear.shape == (2, 1, 4)
    solid = (1 / 120 - 1 / 150) / (1 - 1 / 3)
    np.testing.assert_allclose(bulk[0, 0], [1 / 300, solid, solid, 0.0], rtol=1e-12)
    np.testing.assert_allclose(shear[1, 0], [0.0, 0.02, 0.02, 0.0], rtol=1e-12)
    assert found.inverse_qualities == (pytest.approx(solid), 0.02)
    # Layers outside the domain do not count for the fit.
    shallow = SimpleNamespace(x=DOMAIN.x, y=DOMAIN.y, z=(-50.0, 0.0))
    assert make_anelasticity(material, shallow, 2.0).inverse_qualities == (1 / 300, 1 / 300)


def test_anisotropic_media_attenuate_isotropically():
    material = Material(layers=[{"top": 0, **VTI}, {"top": -1000, **ELASTIC}], attenuation={"reference_frequency": 1.0})
    found = make_anelasticity(material, DOMAIN, 2.0)
    part, fast = material.layers[0], found.material.layers[0]
    kappa, mu = voigt_average(part.stiffness_matrix())
    unrelaxed_kappa, unrelaxed_mu = voigt_average(fast.stiffness_matrix())
    vp, vs = phase_velocities(found, unrelaxed_kappa, unrelaxed_mu, part.rho, part.inverse_quality)
    assert part.rho * vs**2 == pytest.approx(mu, rel=1e-12)
    assert part.rho * vp**2 == pytest.approx(kappa + 4 / 3 * mu, rel=1e-12)
    change = fast.stiffness_matrix() - part.stiffness_matrix()
    added = np.zeros((6, 6))
    added[:3, :3] = unrelaxed_kappa - kappa - 2 / 3 * (unrelaxed_mu - mu)
    added += (unrelaxed_mu - mu) * np.diag([2.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(change, added, atol=1e-12 * kappa)
    assert fast.top == 0.0 and found.material.layers[1] == material.layers[1]
    assert found.material.medium.stiffness is not None


# --- files and reports


def test_check_reports_attenuation():
    simulation = described({"homogeneous": SOLID}, solver={"spacing": 250, "memory_variables": "full"})
    report = check_simulation(simulation, measure=False)
    assert set(simulation.anelasticity.lines()) <= set(report.lines())
    assert report.as_dict()["plan"]["attenuation"]["mechanisms"] == 3
    elastic = described({"homogeneous": ELASTIC}, solver={"spacing": 250})
    elastic = check_simulation(elastic, measure=False)
    assert "attenuation" not in elastic.plan and "attenuation" not in dict(elastic.lines())
