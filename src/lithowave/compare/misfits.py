"""Misfits of two sets of traces: relative L2 misfit, time shift, and envelope and phase misfits.

In all functions the last axis is time and `reference` is the set with which the traces are compared. Envelope and phase
misfits follow Kristekova, Kristek and Moczo (2009), Time-frequency misfit and goodness-of-fit criteria for
quantitative comparison of time signals, Geophys. J. Int. 178, 813-825, normalized globally.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from lithowave.errors import require_package

WAVELET_FREQUENCIES = 50
WAVELET_WIDTH = 6.0
PERIODS_IN_RECORD = 3.0
FILTER_ORDER = 4
FILTER_PERIODS = 6.0
WEAK = 0.01
"""Amplitude of a receiver relative to the largest one, below which its relative misfit says little."""


@overload
def relative_l2(traces: np.ndarray, reference: np.ndarray) -> float: ...
@overload
def relative_l2(traces: np.ndarray, reference: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray: ...
def relative_l2(
    traces: np.ndarray, reference: np.ndarray, axis: int | tuple[int, ...] | None = None
) -> float | np.ndarray:
    """Return sqrt(sum (u - r)^2) / sqrt(sum r^2), dimensionless.

    Parameters
    ----------
    traces, reference : arrays of one shape, any unit (the same).
    axis : axes to sum over; None sums over all and returns a float.

    Returns 0 if both are zero throughout, infinity if only the reference is.
    """
    traces, reference = np.asarray(traces, dtype=float), np.asarray(reference, dtype=float)
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    difference = np.sqrt(np.sum((traces - reference) ** 2, axis=axis))
    norm = np.sqrt(np.sum(reference**2, axis=axis))
    with np.errstate(divide="ignore", invalid="ignore"):
        misfit = np.where(difference == 0.0, 0.0, difference / norm)
    return float(misfit) if misfit.ndim == 0 else misfit


def weak_receivers(reference: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return the amplitudes (n,) of weak receivers relative to the largest one; NaN for all others.

    A receiver is weak if both its amplitude (L2 norm) and its amplitude times distance are less than `WEAK` times the
    largest. Near a node of the radiation pattern, two computations may differ by little compared with the motion at
    other receivers, but by much relative to the motion at this receiver.

    Parameters
    ----------
    reference : (n, n_components, n_samples). distances : (n,) of the receivers from the source, m.
    """
    amplitudes = np.sqrt(np.sum(np.asarray(reference, dtype=float) ** 2, axis=(1, 2)))
    relative = np.zeros(len(amplitudes))
    for values in (amplitudes, amplitudes * distances):
        relative = np.maximum(relative, values / values.max() if values.any() else 1.0)
    return np.where(relative < WEAK, relative, np.nan)


def correlation(traces: np.ndarray, reference: np.ndarray) -> float:
    """Return sum u r / sqrt(sum u^2 sum r^2) over all samples, from -1 to 1; 0 if either is zero throughout."""
    norm = float(np.linalg.norm(traces) * np.linalg.norm(reference))
    return float(np.sum(traces * reference)) / norm if norm else 0.0


def time_shift(
    traces: np.ndarray, reference: np.ndarray, sampling_interval: float, limit: float | None = None
) -> float:
    """Return the delay (s) of `traces` relative to `reference` at their largest cross-correlation; positive if late.

    C(tau) = sum_components integral u(t + tau) r(t) dt, whose largest sample is refined by the parabola through it
    and its two neighbors. Leading axes are components that share one delay. The result is 0 if either is zero
    throughout.

    Parameters
    ----------
    traces, reference : (n_samples,) or (n_components, n_samples), at one sampling interval (s).
    limit : largest absolute delay, s; None: the entire trace.
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
    most = count - 1 if limit is None else min(count - 1, int(limit / sampling_interval * (1.0 + 1e-9)))
    first = count - 1 - most
    peak = first + int(np.argmax(correlation[first : count + most]))
    offset = 0.0
    if 0 < peak < len(correlation) - 1:
        left, middle, right = correlation[peak - 1 : peak + 2]
        curvature = left - 2.0 * middle + right
        offset = 0.5 * (left - right) / curvature if curvature < 0 else 0.0
        offset = min(max(offset, -0.5), 0.5)
    return (peak - (count - 1) + offset) * sampling_interval


def low_pass(traces: np.ndarray, sampling_interval: float, corner: float) -> np.ndarray:
    """Return `traces` without frequencies above `corner`, with zero phase.

    The gain is that of a Butterworth filter of order 4 applied forward and backward, half at the corner::

        G(f) = 1 / (1 + (f / corner)^8)

    Beyond their ends traces are mirrored, u(T + t) = u(T - t), for six periods of the corner (or the entire trace), so
    that neither end affects the other and a permanent displacement is preserved.

    Parameters
    ----------
    traces : (..., n_samples), any unit.
    sampling_interval : s.
    corner : Hz, above 0.

    Raises
    ------
    ValueError : the corner is not above 0.
    """
    return band_pass(traces, sampling_interval, None, corner)


def band_pass(
    traces: np.ndarray, sampling_interval: float, low: float | None, high: float, finer: int = 1
) -> np.ndarray:
    """Return `traces` without frequencies below `low` and above `high`, with zero phase, as `low_pass`.

    The gain is half at each corner::

        G(f) = 1 / (1 + (f / high)^8) / (1 + (low / f)^8)

    Parameters
    ----------
    traces : (..., n_samples), any unit.
    sampling_interval : s.
    low, high : corners, Hz; `low` None: no high-pass.
    finer : the result has this number of samples per sample of the traces, by interpolation in the spectrum:
        (..., (n_samples - 1) finer + 1).

    Raises
    ------
    ValueError : a corner is not above 0.
    """
    if not high > 0.0 or not (low is None or low > 0.0):
        raise ValueError(f"the corner frequencies are {low} and {high}; they must be above 0")
    traces = np.asarray(traces, dtype=float)
    count = traces.shape[-1]
    margin = min(count - 1, int(np.ceil(FILTER_PERIODS / ((low or high) * sampling_interval))))
    before, after = traces[..., 1 : margin + 1][..., ::-1], traces[..., -2::-1][..., :margin]
    longer = np.concatenate([before, traces, after], axis=-1)
    length = longer.shape[-1]
    frequency = np.fft.rfftfreq(length, sampling_interval)
    gain = 1.0 / (1.0 + (frequency / high) ** (2 * FILTER_ORDER))
    if low is not None:
        ratio = (frequency / low) ** (2 * FILTER_ORDER)
        gain *= ratio / (1.0 + ratio)
    spectrum = np.fft.rfft(longer) * gain
    filtered = np.fft.irfft(spectrum, length) if finer == 1 else finer * np.fft.irfft(spectrum, length * finer)
    return filtered[..., margin * finer : (margin + count - 1) * finer + 1]


def differentiate(traces: np.ndarray, sampling_interval: float, order: int) -> np.ndarray:
    """Return the derivative with respect to time of an order, or for a negative order the integral from the start.

    Spectral, of traces mirrored at both ends, which are at rest at their first sample::

        U(f) (2 pi i f)^order

    Parameters
    ----------
    traces : (..., n_samples). sampling_interval : s.
    """
    result = np.asarray(traces, dtype=float)
    count = result.shape[-1]
    for _ in range(abs(order)):
        longer = np.concatenate([result[..., :0:-1], result, result[..., -2::-1]], axis=-1)
        length = longer.shape[-1]
        omega = 2.0 * np.pi * np.fft.rfftfreq(length, sampling_interval)
        spectrum = np.fft.rfft(longer)
        if order > 0:
            result = np.fft.irfft(1j * omega * spectrum, length)[..., count - 1 : 2 * count - 1]
            continue
        mean = spectrum[..., :1].real / length
        spectrum[..., 0] = 0.0
        spectrum[..., 1:] /= 1j * omega[1:]
        integral = np.fft.irfft(spectrum, length)[..., count - 1 : 2 * count - 1]
        integral += mean * sampling_interval * np.arange(count)
        result = integral - integral[..., :1]
    return result


def frequency_band(
    reference: np.ndarray, sampling_interval: float, fraction: float = 0.05, max_frequency: float | None = None
) -> tuple[float, float]:
    """Return the (lowest, highest) frequency, Hz, of the band in which traces can be compared.

    These are the frequencies at which the amplitude spectrum, the root mean square over all leading axes, reaches
    `fraction` of its maximum. The lowest has at least three periods in the trace (below, a wavelet transform depends
    on the ends of the trace more than on the signal), the highest is at most 0.8 of the Nyquist frequency. The band
    spans at least an octave; in very short traces, this takes precedence over the three periods.

    Parameters
    ----------
    max_frequency : Hz, up to which the traces are expected to be accurate; replaces the highest frequency of the
        spectrum.

    Raises
    ------
    ValueError : the reference is zero throughout or too short (fewer than 16 samples).
    """
    reference = np.asarray(reference, dtype=float)
    count = reference.shape[-1]
    if count < 16 or not reference.any():
        raise ValueError("the reference is too short or zero throughout")
    spectrum = np.abs(np.fft.rfft(reference)).reshape(-1, count // 2 + 1)
    amplitude = np.sqrt(np.mean(spectrum**2, axis=0))
    frequency = np.fft.rfftfreq(count, sampling_interval)
    strong = frequency[amplitude >= fraction * amplitude.max()]
    wanted = max(strong[-1], 4.0 * frequency[1]) if max_frequency is None else max_frequency
    highest = min(wanted, 0.8 * frequency[-1])
    lowest = min(max(strong[0], PERIODS_IN_RECORD * frequency[1]), 0.5 * highest)
    return float(lowest), float(highest)


def wavelet_misfits(
    traces: np.ndarray,
    reference: np.ndarray,
    sampling_interval: float,
    band: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the envelope misfit EM and phase misfit PM of each component (Kristekova et al. 2009, tables 1 and 2).

    They equal `em` and `pm` of ObsPy's `tf_misfit` (norm="global", st2_isref=True), at half the cost, and also if a
    component of the reference is zero. With W the continuous wavelet transform (Morlet, omega_0 = 6; ObsPy's
    `tf_misfit.cwt`) and N the largest sum_tf |W_r|^2 of all components::

        EM^2 = sum_tf (|W_u| - |W_r|)^2 / N
        PM^2 = sum_tf (|W_r| arg(W_u / W_r) / pi)^2 / N

    Parameters
    ----------
    traces, reference : (n_components, n_samples) or (n_samples,), at one sampling interval (s).
    band : frequencies (Hz) between which the transform is computed; default: `frequency_band`.

    Returns (EM, PM), each (n_components,), dimensionless; PM is 1 for a phase of 180 degrees throughout.

    Raises
    ------
    MissingPackageError : ObsPy is not installed.
    ValueError : the shapes differ, or the reference is zero throughout.
    """
    require_package("obspy", "An envelope or phase misfit", "formats")
    traces, reference = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (traces, reference))
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    band = band or frequency_band(reference, sampling_interval)
    envelope, phase, norms = np.zeros((3, len(reference)))
    for index, (trace, expected) in enumerate(zip(traces, reference, strict=True)):
        transform, wanted = (_transform(values, sampling_interval, band) for values in (trace, expected))
        weight = np.abs(wanted)
        envelope[index] = np.sum((np.abs(transform) - weight) ** 2)
        # The angle of W_u conj(W_r) is that of W_u / W_r, and remains defined if W_r vanishes.
        phase[index] = np.sum((weight * np.angle(transform * np.conj(wanted)) / np.pi) ** 2)
        norms[index] = np.sum(weight**2)
    return np.sqrt(envelope / norms.max()), np.sqrt(phase / norms.max())


def wavelet_misfit_maps(
    traces: np.ndarray,
    reference: np.ndarray,
    sampling_interval: float,
    band: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the time-frequency misfits TFEM (envelope) and TFPM (phase) of each component (Kristekova et al. 2009).

    They equal `tfem` and `tfpm` of ObsPy's `tf_misfit` (norm="global", st2_isref=True), also if a component of the
    reference is zero. The maximum is over all components::

        TFEM(t, f) = (|W_u| - |W_r|) / max |W_r|
        TFPM(t, f) = |W_r| / max |W_r| * arg(W_u / W_r) / pi

    Parameters
    ----------
    traces, reference : (n_components, n_samples) or (n_samples,), at one sampling interval (s).
    band : frequencies (Hz) between which the transform is computed; default: `frequency_band`.

    Returns (frequency, TFEM, TFPM): (n_frequencies,) Hz, logarithmically spaced, and two of (n_components,
    n_frequencies, n_samples), dimensionless. TFEM is positive where the trace is stronger, TFPM where its phase
    leads.

    Raises
    ------
    MissingPackageError : ObsPy is not installed.
    ValueError : the shapes differ, or the reference is zero throughout.
    """
    require_package("obspy", "An envelope or phase misfit", "formats")
    traces, reference = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (traces, reference))
    if traces.shape != reference.shape:
        raise ValueError(f"the shapes {traces.shape} and {reference.shape} differ")
    if not reference.any():
        raise ValueError("the reference is zero throughout")
    band = band or frequency_band(reference, sampling_interval)
    transform, wanted = (
        np.stack([_transform(trace, sampling_interval, band) for trace in values]) for values in (traces, reference)
    )
    weight = np.abs(wanted)
    largest = weight.max()
    turn = np.angle(transform * np.conj(wanted)) / np.pi
    return np.geomspace(*band, WAVELET_FREQUENCIES), (np.abs(transform) - weight) / largest, weight * turn / largest


def _transform(trace: np.ndarray, sampling_interval: float, band: tuple[float, float]) -> np.ndarray:
    from obspy.signal.tf_misfit import cwt

    if not trace.any():
        return np.zeros((WAVELET_FREQUENCIES, len(trace)), dtype=complex)
    return cwt(trace, sampling_interval, WAVELET_WIDTH, *band, nf=WAVELET_FREQUENCIES)
