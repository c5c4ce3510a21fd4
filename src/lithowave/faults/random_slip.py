"""Random slip with a von Karman autocorrelation (Mai & Beroza 2002)."""

from __future__ import annotations

import math

import numpy as np


def von_karman_spectrum(
    wavenumbers: tuple[np.ndarray, np.ndarray], correlation: tuple[float, float], hurst: float
) -> np.ndarray:
    """Return the power spectral density P = 4π H a_s a_d / (1 + κ²)^(H + 1) of a field of unit variance, m2.

    κ² = (a_s k_s)² + (a_d k_d)², with the correlation lengths a in m, and wavenumbers k in rad/m that broadcast. The
    integral of P/(2π)² over all wavenumbers is one.
    """
    squares = sum((length * k) ** 2 for length, k in zip(correlation, wavenumbers, strict=True))
    return 4.0 * math.pi * hurst * correlation[0] * correlation[1] / (1.0 + squares) ** (hurst + 1.0)


def random_slip(
    shape: tuple[int, int],
    spacing: tuple[float, float],
    correlation: tuple[float, float],
    hurst: float,
    variation: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return positive random slip of unit mean on a grid, shape (n_strike, n_dip).

    The field has a log-normal distribution, thus it is positive. Its logarithm has the covariance
    ln(1 + variation² ρ), so that the slip has the covariance variation² ρ with the von Karman correlation ρ. The field
    is a section of a periodic one that is longer by eight correlation lengths, so that its edges are independent.

    Parameters
    ----------
    shape, spacing : number of points, and distance between them in m, along strike and down dip.
    correlation : correlation lengths, m.
    hurst : Hurst exponent H, between 0 and 1.
    variation : standard deviation divided by the mean.
    generator : source of random numbers.
    """
    periods = [
        _even(count + math.ceil(8.0 * length / step))
        for count, step, length in zip(shape, spacing, correlation, strict=True)
    ]
    k_strike, k_dip = (2.0 * math.pi * np.fft.fftfreq(n, d) for n, d in zip(periods, spacing, strict=True))
    power = von_karman_spectrum((k_strike[:, np.newaxis], k_dip), correlation, hurst)
    covariance = np.fft.ifft2(power).real
    covariance = np.log1p(variation**2 * covariance / covariance[0, 0])
    # The transform of a covariance is not negative; rounding and the finite period leave small negative values.
    amplitude = np.sqrt(np.maximum(np.fft.fft2(covariance).real, 0.0))
    noise = np.fft.fft2(generator.standard_normal(periods))
    logarithm = np.fft.ifft2(amplitude * noise).real[: shape[0], : shape[1]]
    return np.exp(logarithm - 0.5 * covariance[0, 0])


def edge_taper(count: int, part: float) -> np.ndarray:
    """Return factors (count,) that rise from 0 at both edges to 1 within a ``part`` of the length, as half a cosine.

    The factors are those at the centers of the intervals, and thus positive.
    """
    center = (np.arange(count) + 0.5) / count
    distance = np.minimum(center, 1.0 - center)
    return 0.5 - 0.5 * np.cos(math.pi * np.minimum(distance / part, 1.0)) if part > 0.0 else np.ones(count)


def _even(count: int) -> int:
    return count + count % 2
