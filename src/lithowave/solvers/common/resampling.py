r"""Values at any time from values at time steps, without the error of the time steps.

A scheme whose time derivatives are all central differences over one step :math:`\Delta t` has the solution of the
differential equation in which :math:`\omega` is replaced by :math:`\omega'`,

.. math:: \omega' = \frac{2}{\Delta t} \sin \frac{\omega \Delta t}{2} ,

wherever medium and boundaries do not depend on the step: a wave of the frequency :math:`\omega` in the records is the
exact one of the frequency :math:`\omega'`, and arrives early by :math:`(\omega \Delta t)^2 / 24` of its travel time. So
the time functions :math:`s` of the sources are replaced before the run by those that have the spectrum
:math:`s(\omega')` at :math:`\omega`, and the records :math:`v` are replaced after it by

.. math:: u(t) = \frac{1}{2 \pi} \int v(\omega) \, e^{i \omega'(\omega) t} \, \frac{d\omega'}{d\omega} \, d\omega .

Both are sums over the steps with weights that depend on the time, here found by least squares: the sum of weights
:math:`w_n` has the response :math:`\sum_n w_n e^{i n \theta}` to a wave of the phase :math:`\theta = \omega \Delta t` a
step, and

.. math:: \int_0^{\theta_1} |R - T|^2 d\theta + \epsilon \int_{\theta_1}^{\pi} |R - T|^2 d\theta

is the smallest, with the wanted response :math:`T` above, continued beyond the band of the waves with the same delay
at all frequencies, and with less and less amplitude from one radian a step. Without the correction,
:math:`T = e^{i \theta t / \Delta t}`.

References
----------
Stork, C. (2013). Eliminating nearly all dispersion error from FD modeling and RTM with minimal cost increase. 75th EAGE
Conference, Tu 11 07.

Koene, E. F. M., Robertsson, J. O. A., Broggini, F., Andersson, F. (2018). Eliminating time dispersion from seismic wave
modeling. Geophysical Journal International 213, 169-180.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from lithowave.backends.kernel_cache import njit

if TYPE_CHECKING:
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.interface import Schedule

BAND = 1.5  # the response is exact up to this times the highest frequency of the waves
UNCORRECTED_BAND = 0.6  # radians a step, of an interpolation without correction
WIDEST_BAND = 1.0  # radians a step
FADING, FADED = 1.0, 2.9  # radians a step, between which the response falls to zero
OUTSIDE = 1e-10  # epsilon
HIGHER = 3.0  # frequencies of sources, at most, over the one that the mesh resolves
MANY = 100  # time functions, of which the spectra are not computed: then up to the frequency that the mesh resolves
LARGEST_ERROR_OF_CONSTANTS = 1e-2  # beyond it, there are too few values for an interpolation
LONGEST = 4096  # values in a sum: more would take gigabytes and minutes
SIDE = 8  # steps on both sides of the time
AIRY = 7.0  # times (t / 8 time steps)^(1/3), the width of the precursor of the lowest frequencies, on both sides more
ROWS = 256  # times whose weights are computed at once
BLOCK = 64  # unknowns of triangular systems that are solved at once

Mapping = Literal["records", "sources"]


class Resampling:
    """Weights of values at time steps, for values at any time.

    Parameters
    ----------
    time_step : s.
    end : time up to which values are required, s.
    frequency : highest frequency, Hz, at which the error of the time steps is removed; None: it is not.
    mapping : ``records``: from records of the scheme to the solution; ``sources``: from time functions to those of the
        scheme.
    averaged : True for records that are means of two half a step before and after, or differences over two steps,
        where the exact ones are of half a step or of one.
    """

    def __init__(
        self,
        time_step: float,
        end: float,
        frequency: float | None,
        mapping: Mapping = "records",
        averaged: bool = False,
    ) -> None:
        self.time_step, self.frequency, self.mapping, self.averaged = time_step, frequency, mapping, averaged
        self.band = UNCORRECTED_BAND
        spread = 0.0
        if frequency is not None:
            self.band = min(2.0 * math.pi * BAND * frequency * time_step, WIDEST_BAND)
            spread = AIRY * (end / time_step / 8.0) ** (1.0 / 3.0)
        self.side = SIDE + math.ceil(spread)
        self.length = 2 * self.side + 1 + math.ceil(abs(self._shift(end / time_step)))

    def _shift(self, steps: float) -> float:
        """Return the largest distance, steps, of the values that contribute at a time, from this time."""
        if self.frequency is None:
            return 0.0
        half = 0.5 * self.band
        return steps * ((math.cos(half) if self.mapping == "records" else 1.0 / math.sqrt(1.0 - half**2)) - 1.0)

    def ends(self, places: np.ndarray) -> np.ndarray:
        """Return the number after the last value (rows,) that contributes at places (rows,), in steps."""
        shift = self._shift(1.0) * places
        return np.floor(places + np.maximum(shift, 0.0)).astype(np.int64) + self.side + 1

    def weights(
        self, places: np.ndarray, offset: float = 0.0, last: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the first value (rows,) and the weights (rows, length) at places (rows,), times in steps.

        offset : time of value number 0, steps. last : number of the last value that there is; weights of later ones are
        zero, and the others make up for them.
        """
        ends = self.ends(places)
        weights = np.empty((len(places), self.length))
        for begin in range(0, len(places), ROWS):
            some = slice(begin, begin + ROWS)
            target = self._targets(places[some], ends[some] - self.length + offset)
            weights[some] = target @ self._solution
            missing = np.zeros(len(target), np.int64) if last is None else np.maximum(ends[some] - 1 - last, 0)
            for row in np.flatnonzero(missing):
                kept = max(self.length - int(missing[row]), 0)
                weights[begin + row, kept:] = 0.0
                if kept:
                    weights[begin + row, :kept] = self._solved(kept, (target[row] @ self._moments)[:kept])
        # A constant, such as the moment of a source after its end, is exact: errors that vary from step to step would
        # be a source of noise, which remains after the waves have left.
        total = weights.sum(axis=1, keepdims=True)
        weights /= np.where(np.abs(total - 1.0) < LARGEST_ERROR_OF_CONSTANTS, total, 1.0)
        return ends - self.length, weights

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return phases a step and quadrature weights, of the band and of what is outside."""
        parts = []
        for low, high, factor in ((0.0, self.band, 1.0), (self.band, math.pi, OUTSIDE)):
            x, w = np.polynomial.legendre.leggauss(24 + math.ceil(0.4 * self.length * (high - low)))
            parts.append((low + 0.5 * (high - low) * (x + 1.0), factor * 0.5 * (high - low) * w))
        (inner, weight), (outer, rest) = parts
        return np.append(inner, outer), np.append(weight, rest)

    def _targets(self, places: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return the wanted responses (rows, 2 nodes) relative to the first values: real parts, then imaginary ones."""
        theta, _ = self._nodes
        inside = np.minimum(theta, self.band)
        phase, amplitude, slope = theta, np.ones(len(theta)), 1.0
        if self.frequency is not None:
            half = 0.5 * inside
            if self.mapping == "records":
                phase, amplitude, slope = 2.0 * np.sin(half), np.cos(half), math.cos(0.5 * self.band)
            else:
                phase, amplitude, slope = 2.0 * np.arcsin(half), 1.0 / np.sqrt(1.0 - half**2), 1.0
                slope = 1.0 / math.sqrt(1.0 - 0.25 * self.band**2)
            phase = phase + slope * (theta - inside)
            if self.averaged:
                amplitude = amplitude / np.cos(half)
        fade = np.clip((theta - FADING) / (FADED - FADING), 0.0, 1.0)
        amplitude = amplitude * np.cos(0.5 * math.pi * fade) ** 2
        angle = np.multiply.outer(places, phase) - np.multiply.outer(first, theta)
        return np.concatenate([amplitude * np.cos(angle), amplitude * np.sin(angle)], axis=1)

    @cached_property
    def _moments(self) -> np.ndarray:
        """Return the right-hand sides (2 nodes, length) of the least squares, for targets of one."""
        theta, weight = self._nodes
        angle = np.multiply.outer(theta, np.arange(self.length, dtype=float))
        return np.concatenate([weight[:, None] * np.cos(angle), weight[:, None] * np.sin(angle)])

    @cached_property
    def _factor(self) -> np.ndarray:
        """Return the Cholesky factor of the normal matrix; its leading blocks are those of fewer values."""
        distance = np.subtract.outer(np.arange(self.length), np.arange(self.length)).astype(float)
        matrix = (1.0 - OUTSIDE) * self.band * np.sinc(distance * self.band / math.pi)
        matrix[np.diag_indices(self.length)] += OUTSIDE * math.pi
        return np.linalg.cholesky(matrix)

    def _solved(self, count: int, right: np.ndarray) -> np.ndarray:
        """Return the solution of the normal equations of the first `count` values, for right-hand sides (count, ...).
        """
        factor, solution = self._factor[:count, :count], np.array(right)
        blocks = [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]
        for own in blocks:
            known = slice(0, own.start)
            solution[own] = np.linalg.solve(factor[own, own], solution[own] - factor[own, known] @ solution[known])
        for own in reversed(blocks):
            known = slice(own.stop, count)
            solution[own] = np.linalg.solve(factor[own, own].T, solution[own] - factor[known, own].T @ solution[known])
        return solution

    @cached_property
    def _solution(self) -> np.ndarray:
        """Return the weights (2 nodes, length) for targets of one."""
        return self._solved(self.length, self._moments.T).T


def corrected_frequency(experiment: Experiment) -> float | None:
    """Return the frequency, Hz, up to which the error of the time steps is removed in a simulation; None: it is not."""
    if experiment.solver.time_dispersion_correction is False:
        return None
    functions = {id(source.time_function): source.time_function for source in experiment.acquisition.sources}
    resolved = experiment.resolved_frequency
    if resolved is not None and len(functions) > MANY:
        return resolved
    radiated = max((each.maximum_frequency() for each in functions.values()), default=0.0)
    return (radiated if resolved is None else max(resolved, min(radiated, HIGHER * resolved))) or None


def limited(schedule: Schedule) -> Schedule:
    """Return the schedule, without the correction if its sums would extend over more than LONGEST steps."""
    for mapping in ("records", "sources"):
        frequency = schedule.corrected_frequency
        if frequency and Resampling(schedule.time_step, schedule.end, frequency, mapping).length > LONGEST:
            schedule = replace(schedule, corrected_frequency=None)
    return schedule


def correction_warnings(experiment: Experiment, schedule: Schedule) -> list[str]:
    """Return a warning if the error of the time steps is not removed because the run is too long for this."""
    frequency = corrected_frequency(experiment)
    if frequency is None or schedule.corrected_frequency is not None:
        return []
    phase = 2.0 * math.pi * frequency * schedule.time_step
    early = 100.0 * phase**2 / 24.0
    return [
        f"duration: the error of the time steps is not removed from seismograms of {schedule.steps:,} steps; waves of "
        f"{frequency:.3g} Hz arrive early by {early:.2g}% of their travel time. Use solver.time_step: "
        f"{0.3 * schedule.time_step:.3g}, for a tenth of this error, a shorter duration, or accept it by "
        "solver.time_dispersion_correction: false."
    ]


@njit(error_model="numpy", cache=True, nogil=True)
def combine(first, weights, values, out):
    """Set out (rows, columns) to the sums of weights (rows, n) times values (times, columns) from the first ones.

    Rows and columns are independent of each other, and the order of a sum is fixed.
    """
    out[:] = 0.0
    for row in range(first.size):
        for place in range(weights.shape[1]):
            weight = weights[row, place]
            if weight != 0.0:
                line = values[first[row] + place]
                for column in range(out.shape[1]):
                    out[row, column] += weight * line[column]
