"""Misfits of known differences: scaled, delayed, and absent signals."""

import numpy as np
import pytest

from lithowave.compare import frequency_band, low_pass, relative_l2, time_shift, wavelet_misfit_maps, wavelet_misfits

INTERVAL = 0.02
TIME = np.arange(600) * INTERVAL


def ricker(delay, frequency=1.0):
    phase = (np.pi * frequency * (TIME - delay)) ** 2
    return (1 - 2 * phase) * np.exp(-phase)


def test_relative_l2_of_a_scaled_trace_is_the_scale():
    reference = np.random.default_rng(0).normal(size=(4, 3, 50))
    assert relative_l2(1.03 * reference, reference) == pytest.approx(0.03)
    per_receiver = relative_l2(
        reference * np.array([1, 1.1, 1.2, 1.3])[:, None, None], reference, axis=(1, 2)
    )
    assert np.allclose(per_receiver, [0, 0.1, 0.2, 0.3])


def test_relative_l2_of_silence():
    silent, loud = np.zeros(5), np.ones(5)
    assert relative_l2(silent, silent) == 0.0
    assert relative_l2(loud, silent) == np.inf
    assert relative_l2(silent, loud) == 1.0
    with pytest.raises(ValueError, match="differ"):
        relative_l2(np.zeros(4), np.zeros(5))


@pytest.mark.parametrize("shift", [0.0, 0.1, -0.1, 0.013, -2.5])
def test_time_shift_finds_a_delay_below_the_sampling_interval(shift):
    traces = np.stack([ricker(6.0 + shift), 0.3 * ricker(5.0 + shift)])
    reference = np.stack([ricker(6.0), 0.3 * ricker(5.0)])
    assert time_shift(traces, reference, INTERVAL) == pytest.approx(shift, abs=0.01 * INTERVAL)


def test_time_shift_of_silence_is_none():
    assert time_shift(np.zeros(100), ricker(6.0)[:100], INTERVAL) == 0.0


def test_the_frequency_band_is_that_of_the_signal():
    lowest, highest = frequency_band(ricker(6.0, 2.0), INTERVAL)
    # the Ricker spectrum f^2 exp(-f^2 / f0^2) reaches 5% of its maximum at 0.14 f0 and 2.40 f0
    assert lowest == pytest.approx(0.28, abs=0.1)
    assert highest == pytest.approx(4.79, abs=0.1)
    with pytest.raises(ValueError, match="zero throughout"):
        frequency_band(np.zeros(100), INTERVAL)


def test_the_frequency_band_goes_to_the_frequency_that_is_given_and_to_three_periods_of_the_record():
    assert frequency_band(ricker(6.0, 2.0), INTERVAL, max_frequency=3.0)[1] == 3.0
    assert frequency_band(ricker(6.0, 2.0), INTERVAL, max_frequency=24.0)[1] == pytest.approx(20.0)
    step = np.where(TIME > 6.0, 1.0, 0.0)
    assert frequency_band(step, INTERVAL, max_frequency=5.0) == pytest.approx((3.0 / 12.0, 5.0))


def test_the_low_pass_has_its_gain_and_no_delay():
    for frequency, gain in ((0.5, 1 / (1 + 0.25**8)), (2.0, 0.5), (4.0, 1 / 257), (10.0, 0.0)):
        wave = np.sin(2 * np.pi * frequency * TIME)
        middle = slice(150, 450)
        assert np.allclose(low_pass(wave, INTERVAL, 2.0)[middle], gain * wave[middle], atol=1e-4)
    pulse = ricker(6.0, 3.0)
    assert np.allclose(low_pass(pulse, INTERVAL, 2.0)[301:600], low_pass(pulse, INTERVAL, 2.0)[299:0:-1], atol=1e-12)


def test_the_low_pass_keeps_what_is_slow_up_to_the_ends():
    offset = 3.0 + np.tanh(TIME - 6.0)
    assert np.allclose(low_pass(np.stack([offset, 0 * offset]), INTERVAL, 2.0), [offset, 0 * offset], atol=1e-3)
    ripple = np.cos(2 * np.pi * 12.5 * TIME + 1.0)  # its cut ends are not all above the corner
    assert np.abs(low_pass(ripple, INTERVAL, 2.0)).max() < 0.1
    assert low_pass(offset[:5], INTERVAL, 0.1).shape == (5,)
    assert low_pass(offset[-1:], INTERVAL, 1.0) == pytest.approx(offset[-1:])
    with pytest.raises(ValueError, match="must be above 0"):
        low_pass(offset, INTERVAL, 0.0)


def test_envelope_and_phase_tell_amplitude_from_delay():
    pytest.importorskip("obspy")
    reference = np.stack([ricker(6.0), 0.5 * ricker(6.0), np.zeros_like(TIME)])
    envelope, phase = wavelet_misfits(1.2 * reference, reference, INTERVAL)
    assert np.allclose(envelope, [0.2, 0.1, 0.0], atol=1e-6)
    assert np.allclose(phase, 0.0, atol=1e-12)
    late = np.stack([ricker(6.05), 0.5 * ricker(6.05), np.zeros_like(TIME)])
    envelope, phase = wavelet_misfits(late, reference, INTERVAL)
    # a delay of 0.05 s turns the phase by 2 pi f 0.05 s: about 0.1 pi at the strongest frequencies near 1 Hz
    assert phase[0] == pytest.approx(0.1, rel=0.2) and phase[1] == pytest.approx(phase[0] / 2, rel=1e-6)
    assert envelope[0] < 0.5 * phase[0]
    envelope, phase = wavelet_misfits(-reference, reference, INTERVAL)
    assert np.allclose(phase, [1.0, 0.5, 0.0], atol=1e-9) and np.allclose(envelope, 0.0, atol=1e-9)


@pytest.mark.parametrize("turn", [0.1, -0.3, 0.75])
def test_a_turn_of_all_phases_is_the_phase_misfit(turn):
    pytest.importorskip("obspy")
    reference = np.stack([ricker(6.0), ricker(5.0, 2.0)])
    turned = np.fft.irfft(np.fft.rfft(reference) * np.exp(1j * np.pi * turn), len(TIME))
    envelope, phase = wavelet_misfits(turned, reference, INTERVAL, (0.5, 5.0))
    assert phase[0] == pytest.approx(abs(turn), rel=1e-3)
    assert envelope.max() < 1e-3
    _, _, phase_map = wavelet_misfit_maps(turned[0], reference[0], INTERVAL, (0.5, 5.0))
    largest = np.abs(phase_map).max()
    assert largest == pytest.approx(abs(turn), rel=1e-3) and np.sign(phase_map.flat[np.abs(phase_map).argmax()]) == (
        np.sign(turn)
    )


def test_a_late_trace_has_its_phase_behind_and_a_strong_one_its_envelope_above():
    pytest.importorskip("obspy")
    frequency, envelope, phase = wavelet_misfit_maps(1.2 * ricker(6.05), ricker(6.0), INTERVAL, (0.3, 3.0))
    assert frequency[0] == pytest.approx(0.3) and frequency[-1] == pytest.approx(3.0)
    assert envelope.shape == phase.shape == (1, len(frequency), len(TIME))
    assert phase.sum() < 0 < envelope.sum()
    with pytest.raises(ValueError, match="zero throughout"):
        wavelet_misfit_maps(TIME, 0 * TIME, INTERVAL)
    with pytest.raises(ValueError, match="differ"):
        wavelet_misfit_maps(TIME, TIME[:-1], INTERVAL)


def test_they_agree_with_obspy_itself():
    tf_misfit = pytest.importorskip("obspy.signal.tf_misfit")
    reference, late = np.stack([ricker(6.0), ricker(4.0)]), np.stack([ricker(6.1), 0.9 * ricker(4.0)])
    band = (0.2, 4.0)
    keywords = {"dt": INTERVAL, "fmin": band[0], "fmax": band[1], "nf": 50, "st2_isref": True}
    envelope, phase = wavelet_misfits(late, reference, INTERVAL, band)
    assert np.allclose(envelope, tf_misfit.em(late, reference, **keywords))
    assert np.allclose(phase, tf_misfit.pm(late, reference, **keywords))
    _, envelope, phase = wavelet_misfit_maps(late, reference, INTERVAL, band)
    assert np.allclose(envelope, tf_misfit.tfem(late, reference, **keywords))
    assert np.allclose(phase, tf_misfit.tfpm(late, reference, **keywords))
