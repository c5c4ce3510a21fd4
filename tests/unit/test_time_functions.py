"""Time functions of sources: areas, spectra, delays, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lithowave import InputError
from lithowave.description import NaturalSpline, TimeFunction

SAMPLES = {"values": [0.0, 0.3, 1.0, 1.4, 0.8, 0.2, 0.0], "interval": 0.15, "delay": 0.2}
MOMENT_RATES = [
    {"gaussian": {"sigma": 0.06, "delay": 0.9}},
    {"brune": {"corner_frequency": 1.3, "delay": 0.25}},
    {"brune": {"rise_time": 0.1}},
    {"triangle": {"half_duration": 0.4, "delay": 0.7}},
    {"boxcar": {"duration": 0.5, "delay": 0.2}},
    {"smoothed_step": {"rise_time": 0.6, "delay": 0.3}},
    {"error_function": {"sigma": 0.07, "delay": 0.6}},
    {"samples": SAMPLES},
]
MOMENTS = [
    {"gaussian": {"sigma": 0.06, "delay": 0.9, "quantity": "moment"}},
    {"ricker": {"frequency": 2.0, "delay": 0.8, "quantity": "moment"}},
]
ALL = [*MOMENT_RATES, {"ricker": {"frequency": 2.0, "delay": 0.8}}, *MOMENTS]


def name_of(description):
    return next(iter(description))


def end_of(function):
    """A time after which nothing is left, to 1e-9."""
    return max(function.support(1e-10)[1], 1.0)


def made(description):
    return TimeFunction(**description)


@pytest.mark.parametrize("description", MOMENT_RATES, ids=name_of)
def test_rate_has_unit_area_and_released_is_its_integral(description):
    function = made(description)
    edges = np.linspace(-0.5, end_of(function), 40_001)
    middle, step = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    cumulative = step * np.cumsum(function.rate(middle))
    assert cumulative[-1] == pytest.approx(1.0, abs=2e-4 if name_of(description) == "boxcar" else 1e-7)
    tolerance = 2e-4 if name_of(description) == "boxcar" else 1e-7
    np.testing.assert_allclose(function.released(edges[1:]), cumulative, atol=tolerance)
    assert function.released(-0.5) == pytest.approx(0.0, abs=1e-12)
    assert function.released(1e3) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("description", MOMENTS, ids=name_of)
def test_a_moment_has_the_shape_of_the_amplitude(description):
    """Its rate is the derivative, whose area is zero."""
    function = made(description)
    time = np.linspace(-0.5, 3.0, 70_001)
    np.testing.assert_array_equal(function.released(time), function.amplitude(time))
    slope = np.gradient(function.amplitude(time), time)
    np.testing.assert_allclose(function.rate(time), slope, atol=1e-5 * np.abs(slope).max())
    assert function.final == 0.0 and function.is_moment and function.moment_refusal() is None
    assert function.model_dump()[function.kind]["quantity"] == "moment"
    plain = TimeFunction(gaussian={"sigma": 1})
    assert plain.final == 1.0 and not plain.is_moment and "quantity" not in plain.model_dump()["gaussian"]


def test_an_error_function_is_the_moment_of_a_gaussian_rate():
    time = np.linspace(-1.0, 3.0, 401)
    step, rate = (made({name: {"sigma": 0.2, "delay": 0.9}}) for name in ("error_function", "gaussian"))
    np.testing.assert_allclose(step.rate(time), rate.rate(time))
    np.testing.assert_allclose(step.amplitude(time), rate.released(time))
    assert step.onset_amplitude() == pytest.approx(float(rate.released(0.0)))


@pytest.mark.parametrize("description", ALL, ids=name_of)
def test_amplitude_has_a_peak_of_one_and_keeps_the_shape_of_time(description):
    function = made(description)
    time = np.linspace(-0.5, end_of(function), 100_001)
    amplitude = function.amplitude(time)
    assert amplitude.dtype == np.float64
    expected = 1.4 if function.kind == "samples" else 1.0
    assert amplitude.max() == pytest.approx(expected, rel=0.01 if function.kind == "samples" else 1e-7)
    grid = time[:6].reshape(2, 3)
    assert function.amplitude(grid).shape == (2, 3)
    assert np.shape(function.amplitude(0.3)) == ()


@pytest.mark.parametrize(
    ("description", "area"),
    [
        ({"gaussian": {"sigma": 0.3}}, 0.3 * math.sqrt(2.0 * math.pi)),
        ({"brune": {"rise_time": 0.3}}, 0.3 * math.e),
        ({"triangle": {"half_duration": 0.3}}, 0.3),
        ({"boxcar": {"duration": 0.3}}, 0.3),
        ({"ricker": {"frequency": 2.0}}, 0.0),
    ],
    ids=lambda value: name_of(value) if isinstance(value, dict) else "",
)
def test_the_documented_area_of_a_force(description, area):
    """Its peak is 1, so that the area is not: both are stated in the description of each shape."""
    function = TimeFunction(**description)
    assert float(function.impulse(np.array([50.0]))[0]) == pytest.approx(area, abs=1e-12)
    text = " ".join(type(function.shape).__doc__.split())
    assert "Force: amplitude = " in text and ("Moment tensor: rate = " in text or function.moment_refusal())


def amplitude_spectrum(function, frequency):
    """|Fourier integral| by the trapezoidal rule; of the rate where there is one."""
    start, end = function.support(1e-9)
    time = np.linspace(start - 1e-9, end + 1e-9, 4_001)
    values = function.amplitude(time) if function.moment_refusal() else function.rate(time)
    waves = np.exp(-2j * np.pi * np.outer(np.atleast_1d(frequency), time))
    return np.abs(waves @ values) * (time[1] - time[0])


@pytest.mark.parametrize("fraction", [0.05, 0.3])
@pytest.mark.parametrize("description", ALL, ids=name_of)
def test_spectrum_reaches_the_fraction_at_maximum_frequency_and_stays_below(description, fraction):
    function = made(description)
    frequency = function.maximum_frequency(fraction)
    largest = amplitude_spectrum(function, np.linspace(0.0, frequency, 201)).max()
    resolution = 0.12 if function.kind == "samples" else 2e-3
    at = amplitude_spectrum(function, frequency * np.array([1.0 - resolution, 1.0]))
    assert at[0] >= fraction * largest * (1.0 - 1e-3)
    beyond = amplitude_spectrum(function, frequency * np.linspace(1.0 + resolution, 4.0, 100))
    nyquist_half = frequency * np.linspace(1.0 + resolution, 4.0, 100) < 0.5 / 0.15
    checked = beyond[nyquist_half] if function.kind == "samples" else beyond
    assert np.all(checked <= fraction * largest * (1.0 + 1e-3))


def test_maximum_frequency_in_closed_form():
    assert made({"gaussian": {"sigma": 0.06}}).maximum_frequency(math.exp(-0.5)) == pytest.approx(
        1.0 / (2.0 * math.pi * 0.06)
    )
    assert made({"brune": {"corner_frequency": 2.0}}).maximum_frequency(0.5) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        made({"gaussian": {"sigma": 0.06}}).maximum_frequency(1.0)


@pytest.mark.parametrize(
    "description, delay",
    [
        ({"gaussian": {"sigma": 0.06}}, 0.36), ({"ricker": {"frequency": 2.0}}, 0.6),
        ({"triangle": {"half_duration": 0.4}}, 0.4), ({"boxcar": {"duration": 0.4}}, 0.0),
        ({"brune": {"rise_time": 0.1}}, 0.0), ({"smoothed_step": {"rise_time": 0.1}}, 0.0),
    ],
)  # fmt: skip
def test_default_delay_is_written_out_and_cuts_nothing(description, delay):
    function = made(description)
    assert function.model_dump()[function.kind]["delay"] == pytest.approx(delay)
    assert function.onset_amplitude() < 1e-4
    assert TimeFunction(**function.model_dump()) == function


@pytest.mark.parametrize("description", ALL, ids=name_of)
def test_delay_moves_the_function_and_its_support(description):
    function = made(description)
    kind = function.kind
    later = made({kind: {**description[kind], "delay": function.shape.delay + 1.0}})
    time = np.linspace(0.0, 1.5, 31) + 1e-4
    np.testing.assert_allclose(later.amplitude(time + 1.0), function.amplitude(time), atol=1e-12)
    np.testing.assert_allclose(later.support(), np.add(function.support(), 1.0))
    assert later.duration() == pytest.approx(function.duration())


@pytest.mark.parametrize("description", ALL, ids=name_of)
def test_outside_its_support_a_function_is_small(description):
    function = made(description)
    start, end = function.support(1e-3)
    values = function.amplitude if function.moment_refusal() else function.rate
    peak = np.abs(values(np.linspace(start, end, 20_001))).max()
    outside = np.concatenate([np.linspace(start - 3.0, start - 1e-9, 999), np.linspace(end + 1e-9, end + 3.0, 999)])
    assert np.abs(values(outside)).max() <= 1.001e-3 * peak


def test_onset_amplitude_is_what_is_cut_off_before_time_zero():
    assert made({"gaussian": {"sigma": 0.1, "delay": 0.1}}).onset_amplitude() == pytest.approx(math.exp(-0.5))
    assert made({"gaussian": {"sigma": 0.1, "delay": -1.0}}).onset_amplitude() == pytest.approx(1.0)
    assert made({"triangle": {"half_duration": 1.0, "delay": 0.75}}).onset_amplitude() == pytest.approx(0.25)
    assert made({"boxcar": {"duration": 1.0}}).onset_amplitude() == 0.0
    assert made({"boxcar": {"duration": 1.0, "delay": -0.1}}).onset_amplitude() == 1.0
    # At a zero crossing of the wavelet the value at time 0 is nothing, but the side lobe before it is lost.
    crossing = 1.0 / (math.sqrt(2.0) * math.pi * 2.0)
    ricker = made({"ricker": {"frequency": 2.0, "delay": crossing}})
    assert abs(ricker.amplitude(0.0)) < 1e-12
    assert ricker.onset_amplitude() == pytest.approx(2.0 * math.exp(-1.5), rel=1e-3)


def test_ricker_is_refused_as_moment_rate_and_the_gaussian_named_instead_fits():
    ricker = made({"ricker": {"frequency": 2.0, "delay": 0.8}})
    reason = ricker.moment_refusal()
    assert "zero area" in reason and "sigma: 0.1125" in reason and "quantity: moment" in reason
    with pytest.raises(InputError, match="zero area"):
        ricker.rate(np.zeros(3))
    with pytest.raises(InputError, match="zero area"):
        ricker.released(np.zeros(3))
    # The second derivative of the rate, which is the far-field acceleration.
    gaussian = made({"gaussian": {"sigma": 1.0 / (math.sqrt(2.0) * math.pi * 2.0), "delay": 0.8}})
    time, step = np.linspace(0, 1.6, 161), 1e-3
    second = gaussian.rate(time + step) - 2 * gaussian.rate(time) + gaussian.rate(time - step)
    np.testing.assert_allclose(-second / -second.min(), ricker.amplitude(time), atol=1e-4)


@pytest.mark.parametrize(
    "description, pattern",
    [
        ({}, "no shape"),
        ({"gaussian": {"sigma": 1}, "ricker": {"frequency": 1}}, "several shapes"),
        ({"gausian": {"sigma": 1}}, "'gaussian'"),
        ({"gaussian": {"sigma": 0}}, "gaussian.sigma"),
        ({"gaussian": {}}, "gaussian.sigma: is missing"),
        ({"gaussian": {"sigma": "3 km"}}, "is a length"),
        ({"gaussian": {"sigma": float("nan")}}, "finite"),
        ({"gaussian": {"sigma": True}}, "not a number"),
        ({"ricker": {"frequency": -1}}, "ricker.frequency"),
        ({"brune": {}}, "one of corner_frequency and rise_time"),
        ({"brune": {"rise_time": 1, "corner_frequency": 1}}, "has both"),
        ({"samples": {"values": [0, 1, 0]}}, "samples.interval: is missing"),
        ({"samples": {"values": [1.0], "interval": 1}}, "at least 2"),
        ({"samples": {"values": [0.0, 0.0], "interval": 1}}, "all samples are zero"),
        ({"samples": {"interval": 1}}, "has no samples"),
        ({"samples": {"file": "not_there.txt", "interval": 1}}, "does not exist"),
    ],
)
def test_refused(description, pattern):
    with pytest.raises(InputError, match=pattern):
        TimeFunction(**description)


def test_samples_from_files_of_one_and_two_columns(tmp_path):
    time = np.arange(0.0, 2.0, 0.02)
    values = 3.0 * np.exp(-0.5 * ((time - 0.8) / 0.12) ** 2)
    np.savetxt(tmp_path / "one.txt", values, header="slip rate")
    np.savetxt(tmp_path / "two.txt", np.column_stack([time, values]), delimiter=",")
    one = made({"samples": {"file": str(tmp_path / "one.txt"), "interval": 0.02}})
    two = made({"samples": {"file": str(tmp_path / "two.txt"), "delay": 0.0}})
    exact = made({"gaussian": {"sigma": 0.12, "delay": 0.8}})
    between = np.linspace(0.1, 1.7, 501)
    for function in (one, two):
        np.testing.assert_allclose(function.rate(between), exact.rate(between), atol=1e-4 * exact.rate(0.8))
        np.testing.assert_allclose(function.amplitude(between), 3.0 * exact.amplitude(between), atol=3e-4)
        assert function.maximum_frequency() == pytest.approx(exact.maximum_frequency(), rel=0.05)
        assert function.onset_amplitude() < 1e-3
    assert one.input_files() == [tmp_path / "one.txt"]
    assert two.amplitude(-0.1) == 0.0 and two.amplitude(2.5) == 0.0


def test_samples_whose_area_cannot_be_one():
    time = np.arange(0.0, 1.6, 0.01)
    ricker = made({"ricker": {"frequency": 2.0, "delay": 0.8}}).amplitude(time)
    sampled = made({"samples": {"values": ricker, "interval": 0.01}})
    assert "release no moment" in sampled.moment_refusal()
    with pytest.raises(InputError, match="release no moment"):
        sampled.rate(time)
    assert sampled.amplitude(0.8) == pytest.approx(1.0)
    negative = made({"samples": {"values": [0.0, -1.0, 0.0], "interval": 0.1}})
    assert "negative area" in negative.moment_refusal()


def test_columns_and_interval_must_fit(tmp_path):
    (tmp_path / "two.txt").write_text("0 0\n1 1\n2 0\n")
    (tmp_path / "one.txt").write_text("0\n1\n0\n")
    with pytest.raises(InputError, match="column of times"):
        made({"samples": {"file": str(tmp_path / "two.txt"), "interval": 1}})
    with pytest.raises(InputError, match="samples.interval: is missing"):
        made({"samples": {"file": str(tmp_path / "one.txt")}})


def test_spline_of_samples():
    """Through the samples, without curvature at its ends, with an exact integral; zero outside; a line through two."""
    generator = np.random.default_rng(3)
    for count in (2, 3, 4, 30):
        times = np.cumsum(generator.uniform(0.1, 1.0, count))
        values = generator.normal(size=count)
        spline = NaturalSpline(times, values)
        np.testing.assert_allclose(spline(times), values, atol=1e-12)
        for end, step in ((times[0], 1e-3), (times[-1], -1e-3)):
            second = spline(end) - 2.0 * spline(end + step) + spline(end + 2.0 * step)
            third = second - (spline(end + step) - 2.0 * spline(end + 2.0 * step) + spline(end + 3.0 * step))
            assert abs(second + third) < 1e-12  # linear in the interval, so this is the curvature at the end
        nodes, weights = np.polynomial.legendre.leggauss(2)  # exact for cubics
        steps = np.diff(times)
        inside = times[:-1, None] + 0.5 * steps[:, None] * (1.0 + nodes)
        integrals = np.concatenate([[0.0], np.cumsum(0.5 * steps * (spline(inside) @ weights))])
        np.testing.assert_allclose(spline.integral(times), integrals, atol=1e-12)
        assert spline.area == pytest.approx(integrals[-1])
        assert spline(times[0] - 0.1) == 0.0 and spline.integral(times[-1] + 9.0) == pytest.approx(spline.area)
        if count == 2:
            assert spline(times.mean()) == pytest.approx(values.mean())
