"""Seismograms of several runs at common times."""

from __future__ import annotations

import numpy as np

from lithowave.output.seismograms import Seismograms
from lithowave.verification.misfits import low_pass

STENCIL = 12
TAPER_PERIODS = 2.0
"""Length of the taper of low-passed traces of runs of different duration, in periods of the corner frequency."""

LONGEST_TAPER = 0.25  # of the common time


def common_time(*runs: Seismograms) -> np.ndarray:
    """Return the sample times (s) of the coarsest run that all runs cover."""
    if not all(len(run.time) for run in runs):
        return np.zeros(0)
    coarsest = max(runs, key=lambda run: run.sampling_interval)
    end = min(run.time[-1] for run in runs)
    return coarsest.time[coarsest.time <= end + 1e-6 * coarsest.sampling_interval]


def resample(run: Seismograms, rows: list[int], time: np.ndarray, max_frequency: float | None = None) -> np.ndarray:
    """Return the samples (len(rows), 3, len(time)) of the receivers `rows` at `time`, which the run covers.

    max_frequency : corner frequency of a low-pass, Hz, of the samples up to the end of `time`; None: no low-pass.
    """
    data = np.asarray(run.data[rows], dtype=float)
    if max_frequency is not None:
        last = int(np.ceil(time[-1] / run.sampling_interval - 1e-6))
        data = low_pass(data[..., : last + 1], run.sampling_interval, max_frequency)
    samples = time / run.sampling_interval
    nearest = np.rint(samples).astype(int)
    if np.allclose(samples, nearest, rtol=0.0, atol=1e-6):
        return data[..., nearest]
    return interpolate(data, samples)


def end_taper(time: np.ndarray, corner: float | None) -> tuple[np.ndarray, float]:
    """Return the weights (n_samples,) of a taper at the end of low-passed traces, and its length (s).

    Half a period of a cosine, from 1 to 0, over `TAPER_PERIODS` periods of the corner frequency (Hz), at most
    `LONGEST_TAPER` of the time; 1 throughout without a low-pass (None).
    """
    if corner is None:
        return np.ones(len(time)), 0.0
    length = min(TAPER_PERIODS / corner, LONGEST_TAPER * float(time[-1] - time[0]))
    return 0.5 + 0.5 * np.cos(np.pi * np.clip(1.0 - (time[-1] - time) / length, 0.0, 1.0)), length


def interpolate(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the values (..., m) at fractional sample indices `places` (m,), from 0 to n - 1, of samples (..., n).

    The values are those of the polynomial through the STENCIL nearest samples (all samples of a shorter record), in
    Lagrange form. With 12 samples, the error of a sine is 3e-3 of its amplitude at 4 samples per period, 2e-6 at 8.
    """
    count = data.shape[-1]
    width = min(STENCIL, count)
    start = np.clip(np.floor(places).astype(int) - (width // 2 - 1), 0, count - width)
    position = places - start
    values = np.zeros((*data.shape[:-1], len(places)))
    for node in range(width):
        weight = np.ones(len(places))
        for other in range(width):
            if other != node:
                weight *= (position - other) / (node - other)
        values += weight * data[..., start + node]
    return values
