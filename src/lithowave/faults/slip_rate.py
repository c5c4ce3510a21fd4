"""The regularized Yoffe function of Tinti et al. (2005), a slip rate consistent with dynamic rupture.

The Yoffe function Y(t) = 2/(π T) sqrt((T - t)/t) for 0 < t < T is singular at t = 0. Its convolution with a triangle of
unit area on (0, 2 τ) is smooth. Since the second derivative of the triangle is (δ(t) - 2 δ(t - τ) + δ(t - 2τ))/τ²,

    s(t) = (D(t) - 2 D(t - τ) + D(t - 2τ)) / τ²,

where D is the second integral of Y: with sin²φ = t/T, C(t) = (2/π)(φ + sin φ cos φ) is its first integral, and
D(t) = (T/8π)(4φ - 8φ cos 2φ + 4 sin 2φ - sin 4φ) = ∫ C dt for t < T, and t - T/4 for later times.
"""

from __future__ import annotations

import math

import numpy as np


def regularized_yoffe(time: np.ndarray, rise_time: np.ndarray | float, smoothing: np.ndarray | float) -> np.ndarray:
    """Return the slip rate of unit slip, 1/s, at times in s after the onset; zero outside of 0 < t < rise_time.

    Parameters
    ----------
    time : s; ``rise_time`` and ``smoothing`` are numbers or arrays that broadcast with it.
    rise_time : the duration T + 2 τ of the function, s.
    smoothing : the half duration τ of the triangle, s, less than half the rise time. The slip rate has its maximum at
        about 1.27 τ if τ is much shorter than the rise time.
    """
    time, tau = np.asarray(time, dtype=float), np.asarray(smoothing, dtype=float)
    length = np.asarray(rise_time, dtype=float) - 2.0 * tau
    terms = (_second_integral(time - shift * tau, length) for shift in (0, 1, 2))
    first, middle, last = terms
    inside = (time > 0.0) & (time < length + 2.0 * tau)
    return np.where(inside, np.maximum(first - 2.0 * middle + last, 0.0) / tau**2, 0.0)


def _second_integral(time: np.ndarray, length: np.ndarray) -> np.ndarray:
    """D(t) for the length T."""
    part = np.clip(time / length, 0.0, 1.0)
    phi = np.arcsin(np.sqrt(part))
    rising = 4.0 * phi - 8.0 * phi * np.cos(2.0 * phi) + 4.0 * np.sin(2.0 * phi) - np.sin(4.0 * phi)
    return length * rising / (8.0 * math.pi) + np.maximum(time - length, 0.0)
