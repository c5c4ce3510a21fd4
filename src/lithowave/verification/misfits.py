"""How far two sets of traces are apart: one number, a time shift, and envelope and phase misfits.

In all functions the last axis is time and `reference` is what the traces are held against.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from lithowave.errors import MissingPackageError

WAVELET_FREQUENCIES = 50
WAVELET_WIDTH = 6.0


def relative_l2(traces: np.ndarray, reference: np.ndarray, axis: int | tuple[int, ...] | None = None) -> Any:
    """sqrt(sum (u - r)^2) / sqrt(sum r^2), without unit.

    Parameters
    ----------
    traces, reference : arrays of one shape, any unit (the same).
    axis : axes to sum over; None sums over all and returns a float.

    Returns 0 where both are zero throughout, infinity where only the reference is.
    """
    traces, reference = np.asarray(traces, dtype=float), np.asarray(reference, dtype=float)
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    difference = np.sqrt(np.sum((traces - reference) ** 2, axis=axis))
    norm = np.sqrt(np.sum(reference**2, axis=axis))
    with np.errstate(divide="ignore", invalid="ignore"):
        misfit = np.where(difference == 0.0, 0.0, difference / norm)
    return float(misfit) if misfit.ndim == 0 else misfit


def time_shift(traces: np.ndarray, reference: np.ndarray, sampling_interval: float) -> float:
    """Delay (s) of `traces` behind `reference` at their largest cross-correlation; positive when late.

    C(tau) = sum_components integral u(t + tau) r(t) dt, whose greatest sample is refined by the parabola
    through it and its two neighbours. Leading axes are components that share one delay. 0 where either is
    zero throughout.

    Parameters
    ----------
    traces, reference : (n_samples,) or (n_components, n_samples), at one sampling interval (s).
    """
    traces, reference = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (traces, reference))
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    if not traces.any() or not reference.any():
        return 0.0
    count = traces.shape[-1]
    length = 1 << (2 * count - 1).bit_length()
    spectra = np.fft.rfft(traces, length) * np.conj(np.fft.rfft(reference, length))
    circular = np.fft.irfft(spectra.sum(axis=0), length)
    correlation = np.concatenate([circular[length - count + 1 :], circular[:count]])
    peak = int(np.argmax(correlation))
    offset = 0.0
    if 0 < peak < len(correlation) - 1:
        left, middle, right = correlation[peak - 1 : peak + 2]
        curvature = left - 2.0 * middle + right
        offset = 0.5 * (left - right) / curvature if curvature < 0 else 0.0
    return (peak - (count - 1) + offset) * sampling_interval


def frequency_band(
    reference: np.ndarray, sampling_interval: float, fraction: float = 0.05
) -> tuple[float, float]:
    """(lowest, highest) frequency, Hz, at which the amplitude spectrum reaches `fraction` of its maximum.

    The spectrum is the root mean square over all leading axes. The lowest is at least two periods a record
    (below, a wavelet transform sees the ends of the record more than the signal), the highest at most 0.8 of
    the Nyquist.

    Raises
    ------
    ValueError : when the reference is zero throughout or too short (fewer than 16 samples).
    """
    reference = np.asarray(reference, dtype=float)
    count = reference.shape[-1]
    if count < 16 or not reference.any():
        raise ValueError("the reference is too short or zero throughout")
    spectrum = np.abs(np.fft.rfft(reference)).reshape(-1, count // 2 + 1)
    amplitude = np.sqrt(np.mean(spectrum**2, axis=0))
    frequency = np.fft.rfftfreq(count, sampling_interval)
    strong = frequency[amplitude >= fraction * amplitude.max()]
    highest = min(max(strong[-1], 4.0 * frequency[1]), 0.8 * frequency[-1])
    lowest = min(max(strong[0], 2.0 * frequency[1]), 0.5 * highest)
    return float(lowest), float(highest)


def wavelet_misfits(
    traces: np.ndarray,
    reference: np.ndarray,
    sampling_interval: float,
    band: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Envelope misfit EM and phase misfit PM of each component (Kristekova et al. 2009, tables 1 and 2).

    With W the continuous wavelet transform (Morlet, omega_0 = 6; ObsPy's `tf_misfit.cwt`) and N the greatest
    over the components of sum_tf |W_r|^2::

        EM^2 = sum_tf (|W_u| - |W_r|)^2 / N
        PM^2 = sum_tf (|W_r| arg(W_u / W_r) / pi)^2 / N

    Parameters
    ----------
    traces, reference : (n_components, n_samples) or (n_samples,), at one sampling interval (s).
    band : frequencies (Hz) between which the transform is taken; default that of `frequency_band`.

    Returns (EM, PM), each (n_components,), without unit; PM is 1 for a phase of 180 degrees throughout.

    Raises
    ------
    MissingPackageError : when ObsPy is not installed.
    ValueError : when the shapes differ, or the reference is zero throughout.
    """
    if find_spec("obspy") is None:
        raise MissingPackageError("obspy", "An envelope or phase misfit", "formats")
    traces, reference = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (traces, reference))
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    band = band or frequency_band(reference, sampling_interval)
    envelope, phase, norms = np.zeros((3, len(reference)))
    for index, (trace, expected) in enumerate(zip(traces, reference, strict=True)):
        transform, wanted = (_transform(values, sampling_interval, band) for values in (trace, expected))
        weight = np.abs(wanted)
        envelope[index] = np.sum((np.abs(transform) - weight) ** 2)
        # the angle of W_u conj(W_r) is that of W_u / W_r, and stays defined where W_r vanishes
        phase[index] = np.sum((weight * np.angle(transform * np.conj(wanted)) / np.pi) ** 2)
        norms[index] = np.sum(weight**2)
    return np.sqrt(envelope / norms.max()), np.sqrt(phase / norms.max())


def _transform(trace: np.ndarray, sampling_interval: float, band: tuple[float, float]) -> np.ndarray:
    from obspy.signal.tf_misfit import cwt

    if not trace.any():
        return np.zeros((WAVELET_FREQUENCIES, len(trace)), dtype=complex)
    return cwt(trace, sampling_interval, WAVELET_WIDTH, *band, nf=WAVELET_FREQUENCIES)


def envelope_misfit(
    traces: np.ndarray,
    reference: np.ndarray,
    sampling_interval: float,
    band: tuple[float, float] | None = None,
) -> np.ndarray:
    """(n_components,) EM alone; see `wavelet_misfits`."""
    return wavelet_misfits(traces, reference, sampling_interval, band)[0]


def phase_misfit(
    traces: np.ndarray,
    reference: np.ndarray,
    sampling_interval: float,
    band: tuple[float, float] | None = None,
) -> np.ndarray:
    """(n_components,) PM alone; see `wavelet_misfits`."""
    return wavelet_misfits(traces, reference, sampling_interval, band)[1]
