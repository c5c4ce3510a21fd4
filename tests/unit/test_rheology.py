"""Relaxation bodies: accuracy of the fit, positive weights, interpolation in 1/Q, unrelaxed moduli."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.rheology import LARGEST_INVERSE_QUALITY, QualityLaw, fit_body, unrelaxed_moduli

CONSTANT = QualityLaw()
BAND = (0.05, 5.0)
ONE_Q = 1.0 / 50.0


def body_of(mechanisms, low_q=20.0, high_q=1000.0, law=CONSTANT, band=BAND):
    return fit_body(law, band, mechanisms, (1.0 / high_q, 1.0 / low_q))


# Percent, for Q from 20 to 1000 with common rates, just above the measured values.
DEVIATIONS = [(1, 132.0), (2, 17.0), (3, 3.18), (4, 0.64), (5, 0.145), (6, 0.038), (7, 0.018), (8, 0.012)]


@pytest.mark.parametrize(("mechanisms", "percent"), DEVIATIONS)
def test_q_is_fitted_over_the_whole_band(mechanisms, percent):
    body = body_of(mechanisms)
    found = 100.0 * body.deviation(1.0 / np.array([20.0, 25, 30, 50, 100, 300, 1000]))
    assert 0.85 * percent < found.max() < percent
    assert body.rates.size == mechanisms and (np.diff(body.rates) > 0.0).all()


@pytest.mark.parametrize("mechanisms", range(1, 9))
@pytest.mark.parametrize(
    ("law", "band"),
    [(CONSTANT, BAND), (QualityLaw(0.6, 1.0), (1e-3, 1e3)), (QualityLaw(0.9, 0.01), (1.0, 1.5))],
    ids=["constant", "wide", "narrow"],
)
def test_weights_are_those_of_a_stable_body(mechanisms, law, band):
    body = body_of(mechanisms, 5.0, 1000.0, law, band)
    inverse = np.concatenate([np.linspace(0.0, LARGEST_INVERSE_QUALITY, 500), body.nodes])
    weights = body.weights(inverse)
    assert weights.shape == (mechanisms, inverse.size)
    assert (weights >= 0.0).all() and (weights.sum(axis=0) < 1.0).all()
    assert (weights[:, 0] == 0.0).all()
    assert body.rates[0] > 2.0 * np.pi * band[0] / 10.1 and body.rates[-1] < 2.0 * np.pi * band[1] * 10.1


# Percent, 3 and 5 mechanisms; the corner of the law limits the fit to about 3.5%.
@pytest.mark.parametrize(
    ("law", "percent"), [(QualityLaw(0.3, 1.0), (3.9, 1.6)), (QualityLaw(0.6, 1.0), (4.7, 4.0))], ids=str
)
def test_q_that_grows_with_frequency(law, percent):
    for mechanisms, limit in zip((3, 5), percent, strict=True):
        body = body_of(mechanisms, law=law)
        assert 0.9 * limit < 100.0 * body.deviation(1.0 / np.array([20.0, 100, 1000])).max() < limit
        # In the middle of the octave above the corner, Q is that of the law.
        assert body.quality(4.0, ONE_Q) == pytest.approx(50.0 * 4.0**law.exponent, rel=0.01 * limit)
        assert body.quality(0.1, ONE_Q) == pytest.approx(50.0, rel=0.01 * limit)


def test_the_modulus_is_the_sum_over_the_mechanisms():
    body, omega = body_of(4), np.array([0.3, 2.0, 40.0])
    inverse = np.array([[0.0], [1 / 300], [1 / 7]])
    weights = body.weights(inverse)
    direct = 1.0 - sum(y * w / (w + 1j * omega) for y, w in zip(weights, body.rates, strict=True))
    assert np.allclose(body.modulus_ratio(omega, inverse), direct, rtol=1e-14)
    for column, one in enumerate(omega):  # a single frequency is computed differently
        assert np.allclose(body.modulus_ratio(one, inverse)[:, 0], direct[:, column], rtol=1e-14)
    assert np.allclose(body.modulus_ratio(1e9, inverse), 1.0, atol=1e-7)


def test_dispersion_is_that_of_constant_q():
    """c ~ f^g with g = arctan(1/Q) / pi (Kjartansson 1979); at the ends of the band also Q outside it has an effect."""
    body = body_of(5)
    for quality in (20.0, 100.0):
        exponent = np.arctan(1.0 / quality) / np.pi
        exact = (BAND[1] / BAND[0]) ** exponent - 1.0
        assert body.dispersion(1.0 / quality) == pytest.approx(exact, rel=0.035)
        middle = [1.0 / (body.modulus_ratio(2.0 * np.pi * f, 1.0 / quality) ** -0.5).real for f in (0.25, 1.0)]
        assert middle[1] / middle[0] - 1.0 == pytest.approx(4.0**exponent - 1.0, rel=5e-3)


def test_unrelaxed_moduli_give_the_phase_velocities_at_the_reference_frequency():
    body, rng = body_of(3), np.random.default_rng(4)
    vs = rng.uniform(300.0, 3500.0, 2000)
    vp, rho = vs * rng.uniform(1.17, 5.0, 2000), rng.uniform(1500.0, 3300.0, 2000)
    vs[:20] = 0.0
    bulk, shear = rng.uniform(0.0, 0.5, (2, 2000))
    bulk[10:40], shear[:40] = 0.0, 0.0
    for frequency in (0.01, 0.5, 30.0):
        kappa, mu = unrelaxed_moduli(vp, vs, rho, (bulk, shear), body, frequency)
        complex_mu = mu * body.law_ratio(frequency, shear)
        complex_p = kappa * body.law_ratio(frequency, bulk) + 4.0 / 3.0 * complex_mu
        assert np.allclose(1.0 / np.sqrt(rho / complex_p).real, vp, rtol=2e-14)
        assert np.allclose(1.0 / np.sqrt(rho[20:] / complex_mu[20:]).real, vs[20:], rtol=2e-14)
        assert (kappa > 0.0).all() and (mu[:20] == 0.0).all()
        elastic = slice(10, 40)
        assert np.array_equal(mu[elastic], (rho * vs**2)[elastic])
        assert np.array_equal(kappa[elastic], (rho * vp**2 - 4.0 / 3.0 * (rho * vs**2))[elastic])


def test_unrelaxed_moduli_of_many_media_take_few_iterations(monkeypatch):
    """Five iterations give the bits of fifty: no medium of many keeps the others waiting."""
    random, count = np.random.default_rng(1), 20_000
    body = fit_body(QualityLaw(), (1.0, 100.0), 3, (1 / 200, 1 / 50))
    vp = random.uniform(1500.0, 6000.0, count)
    vs = vp * np.append(random.uniform(0.0, 0.86, count - 1), np.sqrt(0.75))
    rho, inverse = random.uniform(1500.0, 3000.0, count), random.uniform(1 / 200, 1 / 50, count)
    found = []
    for iterations in (5, 50):
        monkeypatch.setattr("lithowave.rheology._ITERATIONS", iterations)
        found.append(unrelaxed_moduli(vp, vs, rho, (0.7 * inverse, inverse), body, 10.0))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanisms": 0}, "must be 1 to 8"),
        ({"mechanisms": 9}, "must be 1 to 8"),
        ({"band": (1.0, 1.2)}, "ratio of at least 1.5"),
        ({"band": (0.0, 1.2)}, "must be above 0"),
        ({"low_q": 0.5}, "at most 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        body_of(**{"mechanisms": 3, **change})


def test_values_outside_the_table_are_refused():
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="1/Q"):
            body_of(3).weights([0.1, bad])
    with pytest.raises(ValueError, match="exponent"):
        QualityLaw(1.0)
    with pytest.raises(ValueError, match="corner"):
        QualityLaw(0.5, 0.0)
