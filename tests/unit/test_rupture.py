"""Kinematic ruptures: slip rate, random slip, rupture front, moment, positions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from lithowave import InputError
from lithowave.description import Domain, DoubleCouple
from lithowave.faults import planar_rupture, random_slip, regularized_yoffe, von_karman_spectrum

FAULT = {
    "strike": 30.0, "dip": 60.0, "rake": 100.0, "length": 20e3, "width": 12e3, "top_depth": 1e3, "mw": 6.3,
    "subfaults": (20, 12), "vs": 3300.0, "density": 2700.0, "position": (1e3, -2e3),
}  # fmt: skip

VARIATION = 0.4
"""Of the random slip. Larger variations require more realizations."""


def convolved(time, length, tau):
    """The integral of Yoffe's function times the triangle, with u = T sin^2(a), which removes the singularity."""

    def integrand(angle):
        lag = time - length * math.sin(angle) ** 2
        return 4.0 / math.pi * math.cos(angle) ** 2 * max(1.0 - abs(lag - tau) / tau, 0.0) / tau

    corners = [math.asin(math.sqrt(u / length)) for u in (time, time - tau, time - 2 * tau) if 0.0 < u < length]
    return quad(integrand, 0.0, 0.5 * math.pi, points=corners or None, epsabs=1e-13, limit=200)[0]


@pytest.mark.parametrize("rise_time, tau", [(2.0, 0.2), (1.0, 0.4), (3.0, 0.02)])
def test_yoffe_is_the_convolution(rise_time, tau):
    length = rise_time - 2.0 * tau
    times = np.linspace(0.0, rise_time, 61)[1:-1]
    rates = regularized_yoffe(times, rise_time, tau)
    np.testing.assert_allclose(rates, [convolved(time, length, tau) for time in times], atol=2e-11)


def test_area_support_and_peak_of_yoffe():
    time = np.linspace(-0.5, 3.0, 350_001)
    rates = regularized_yoffe(time, 2.0, 0.1)
    assert np.trapezoid(rates, time) == pytest.approx(1.0, abs=1e-8)
    assert not rates[(time <= 0.0) | (time >= 2.0)].any() and (rates[(time > 1e-3) & (time < 1.99)] > 0.0).all()
    # For tau much shorter than T, Y(t) is proportional to t^(-1/2), and t^(1/2) = 2 (t - tau)^(1/2) at the peak.
    times = np.linspace(0.0, 0.05, 50_001)
    peak = times[np.argmax(regularized_yoffe(times, 10.0, 0.01))]
    assert peak == pytest.approx(0.04 / 3.0, rel=2e-4)
    mean = np.trapezoid(time * rates, time)  # of Yoffe's function T/4, of the triangle tau
    assert mean == pytest.approx(1.8 / 4.0 + 0.1, abs=1e-8)


@pytest.fixture(scope="module")
def realizations():
    """Slip without taper, (realization, strike, dip), 200 m apart; correlation lengths 2.4 km and 1.6 km."""
    generator, lengths = np.random.default_rng(7), (2400.0, 1600.0)
    return np.array([random_slip((192, 128), (200.0, 200.0), lengths, 0.75, VARIATION, generator) for _ in range(100)])


def test_slip_is_positive_with_unit_mean(realizations):
    assert (realizations > 0.0).all()
    assert realizations.mean() == pytest.approx(1.0, abs=0.01)
    assert realizations.std() == pytest.approx(VARIATION, abs=0.01)


def test_spectrum_of_slip_is_that_of_von_karman(realizations):
    """Mean periodogram of windowed realizations against the power spectral density, at 1.2 to 20 corner wavenumbers."""
    count = realizations.shape[1:]
    window = np.hanning(count[0])[:, np.newaxis] * np.hanning(count[1])
    periodogram = (np.abs(np.fft.fft2((realizations - 1.0) * window)) ** 2).mean(axis=0) * 200.0**2 / (window**2).sum()
    wavenumbers = [2.0 * math.pi * np.fft.fftfreq(n, 200.0) for n in count]
    grid = (wavenumbers[0][:, np.newaxis], wavenumbers[1])
    expected = VARIATION**2 * von_karman_spectrum(grid, (2400.0, 1600.0), 0.75)
    # The window averages the spectrum over neighboring wavenumbers.
    response = np.abs(np.fft.fft2(window)) ** 2
    expected = np.fft.ifft2(np.fft.fft2(expected) * np.fft.fft2(response / response.sum())).real
    corner = np.hypot(2400.0 * grid[0], 1600.0 * grid[1])
    ratios = []
    for low, high in ((1.2, 1.7), (1.7, 2.5), (2.5, 4.0), (4.0, 7.0), (7.0, 12.0), (12.0, 20.0)):
        ring = (corner >= low) & (corner < high)
        ratios.append(periodogram[ring].sum() / expected[ring].sum())
    np.testing.assert_allclose(ratios, 1.0, atol=0.06)


@pytest.mark.parametrize("shear", [{"density": 2700.0}, {"density": None, "shear_modulus": 3e10}])
def test_moment_is_exact(shear):
    fault = planar_rupture(**(FAULT | shear))
    moment = 10.0 ** (1.5 * 6.3 + 9.1)
    assert fault.total_moment() == pytest.approx(moment, rel=1e-12)
    assert fault.magnitude() == pytest.approx(6.3, abs=1e-12)
    np.testing.assert_allclose(fault.released_slip, fault.slip, rtol=1e-13)
    sources = fault.moment_rate_sources()
    # One mechanism: the sum of the tensors is that of a double couple.
    couple = DoubleCouple(strike=30, dip=60, rake=100, mw=6.3).components
    np.testing.assert_allclose(sources.moment.sum(axis=0), couple, atol=1e-12 * moment)
    samples = zip(np.split(sources.rates, sources.offsets[1:-1]), sources.interval, strict=True)
    areas = [np.trapezoid(rates, dx=interval) for rates, interval in samples]
    released = np.array(areas) @ sources.moment
    np.testing.assert_allclose(released, couple, atol=2e-5 * moment)


def test_slip_tapers_to_the_edges_and_depends_on_the_seed():
    first, second, other = (planar_rupture(**FAULT, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.rates, second.rates)
    assert np.abs(first.slip - other.slip).max() > 0.1 * first.slip.max()
    slip = np.array([planar_rupture(**FAULT, seed=seed).slip[:, 0].reshape(12, 20) for seed in range(40)]).mean(axis=0)
    assert max(slip[0].max(), slip[-1].max(), slip[:, 0].max(), slip[:, -1].max()) < 0.45 * slip[4:8, 6:14].mean()
    uniform = planar_rupture(**FAULT, taper=0.0, variation=1e-6)
    np.testing.assert_allclose(uniform.slip[:, 0], uniform.slip[0, 0], rtol=1e-4)


def test_positions_of_subfaults():
    fault = planar_rupture(**FAULT)
    # Subfaults are 1 km long and wide; the first row is 0.5 km down dip from the top edge.
    strike, dip = math.radians(30.0), math.radians(60.0)
    np.testing.assert_allclose(fault.depth.reshape(12, 20)[:, 0], 1e3 + (np.arange(12) + 0.5) * 1e3 * math.sin(dip))
    step = fault.horizontal[1] - fault.horizontal[0]
    np.testing.assert_allclose(step, [1e3 * math.sin(strike), 1e3 * math.cos(strike)], atol=1e-9)
    across = fault.horizontal[20] - fault.horizontal[0]  # to the right of the strike
    np.testing.assert_allclose(across, [500.0 * math.cos(strike), -500.0 * math.sin(strike)], atol=1e-9)
    top = fault.horizontal[:20].mean(axis=0) - 0.5 * across
    np.testing.assert_allclose(top, [1e3, -2e3], atol=1e-9)
    assert fault.area.sum() == pytest.approx(240e6)
    moved = planar_rupture(**FAULT, reference="hypocenter", hypocenter=(3500.0, 6500.0))
    np.testing.assert_allclose(moved.horizontal[moved.hypocenter], [1e3, -2e3], atol=1e-9)
    assert moved.start[moved.hypocenter] == 0.0 and moved.hypocenter == 6 * 20 + 13


def test_geographic_positions_agree_with_the_projection_of_the_domain():
    geographic = {"position": None, "longitude": -117.7, "latitude": 33.9}
    fault = planar_rupture(**(FAULT | geographic))
    local = planar_rupture(**(FAULT | {"position": (0.0, 0.0)}))
    domain = Domain(x=[-5e4, 5e4], y=[-5e4, 5e4], z=[-3e4, 0], crs={"longitude": -117.7, "latitude": 33.9})
    x, y = domain.to_local(*fault.horizontal.T)
    np.testing.assert_allclose(np.stack([x, y], axis=-1), local.horizontal, atol=0.05)
    plane = fault.planes[0]
    assert (plane.longitude, plane.latitude, plane.count_strike, plane.top_depth) == (-117.7, 33.9, 20, 1e3)


def test_the_rupture_front_and_rise_times():
    fault = planar_rupture(**FAULT, hypocenter=(-4500.0, 8500.0), rupture_velocity=0.75)
    along, down = np.meshgrid((np.arange(20) - 9.5) * 1e3, (np.arange(12) + 0.5) * 1e3)
    distance = np.hypot(along + 4500.0, down - 8500.0)
    np.testing.assert_allclose(fault.start, distance.ravel() / (0.75 * 3300.0), atol=1e-12)
    moment = 10.0 ** (1.5 * 6.3 + 9.1)
    average = 1.45e-9 * (1e7 * moment) ** (1.0 / 3.0)
    assert fault.interval[0] == pytest.approx(average / 50.0)
    durations = np.diff(fault.offsets[::3]) - 1.0
    expected = 50.0 * np.sqrt(fault.slip[:, 0]) / np.sqrt(fault.slip[:, 0]).mean()
    np.testing.assert_allclose(durations, np.maximum(np.ceil(expected), 10.0), atol=1e-9)
    assert fault.duration == pytest.approx((fault.start + fault.interval * durations).max())


def test_front_in_a_velocity_that_changes_with_depth():
    """The slowness is linear down dip, so its average on a straight line is that of its ends."""
    slowness = np.broadcast_to(np.linspace(1 / 2000.0, 1 / 4000.0, 12), (20, 12))
    fault = planar_rupture(**(FAULT | {"vs": 1.0 / slowness, "density": 2600.0}), hypocenter=(500.0, 6500.0))
    time = fault.start.reshape(12, 20)
    rows = np.abs(np.arange(12) - 6) * 1e3
    mean = 0.5 * (slowness[0] + slowness[0, 6])
    np.testing.assert_allclose(time[:, 10], rows * mean / 0.8, atol=1e-9)
    assert fault.total_moment() == pytest.approx(10.0 ** (1.5 * 6.3 + 9.1), rel=1e-12)


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"dip": 95.0}, "dip: 95; must be 0 or more and at most 90"),
        ({"length": 0.0}, "length: 0; must be greater than 0 and finite"),
        ({"subfaults": (0, 3)}, r"subfaults: \(0, 3\); expected two integers"),
        ({"vs": [1.0, 2.0]}, r"vs: an array of shape \(2,\); expected a number or an array of shape \(20, 12\)"),
        ({"vs": -1.0}, "vs: has values that are not positive"),
        ({"shear_modulus": 3e10}, "density and shear_modulus are both given; give one"),
        ({"density": None}, "has neither density nor shear_modulus"),
        ({"longitude": 3.0}, "has no position or two"),
        ({"reference": "center"}, "reference: 'center'; expected top_center or hypocenter"),
        ({"hypocenter": (11e3, 1e3)}, "hypocenter along strike, divided by length: 0.55"),
        ({"taper": 0.6}, "taper: 0.6; must be 0 or more and at most 0.5"),
        ({"correlation_length": (1e3, 0.0)}, "correlation_length: 0"),
    ],
)  # fmt: skip
def test_invalid_arguments(changes, pattern):
    with pytest.raises(InputError, match=pattern):
        planar_rupture(**(FAULT | changes))
