"""Misfits of known differences: scaled, delayed, and absent signals."""

import numpy as np
import pytest

from lithowave.errors import MissingPackageError
from lithowave.verification.misfits import (
    envelope_misfit,
    frequency_band,
    phase_misfit,
    relative_l2,
    time_shift,
    wavelet_misfits,
)

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
    assert np.allclose(phase_misfit(-reference, reference, INTERVAL), [1.0, 0.5, 0.0], atol=1e-9)
    assert np.allclose(envelope_misfit(-reference, reference, INTERVAL), 0.0, atol=1e-9)


def test_they_agree_with_obspy_itself():
    tf_misfit = pytest.importorskip("obspy.signal.tf_misfit")
    reference, late = np.stack([ricker(6.0), ricker(4.0)]), np.stack([ricker(6.1), 0.9 * ricker(4.0)])
    band = (0.2, 4.0)
    keywords = {"dt": INTERVAL, "fmin": band[0], "fmax": band[1], "nf": 50, "st2_isref": True}
    envelope, phase = wavelet_misfits(late, reference, INTERVAL, band)
    assert np.allclose(envelope, tf_misfit.em(late, reference, **keywords))
    assert np.allclose(phase, tf_misfit.pm(late, reference, **keywords))


def test_obspy_missing_is_told(monkeypatch):
    monkeypatch.setattr("lithowave.verification.misfits.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="envelope or phase misfit needs the package obspy"):
        wavelet_misfits(ricker(6.0), ricker(6.0), INTERVAL)
