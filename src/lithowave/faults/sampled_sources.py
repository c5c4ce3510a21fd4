"""Moment tensors with sampled moment rates: the point sources of a finite fault as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lithowave.physics.moments import scalar_moment


@dataclass(frozen=True, eq=False)
class SampledSources:
    """Point sources with sampled moment rates, stored in arrays without an object per source.

    The moment rate of source i is ``moment[i] * r(t)``. The function r (unit 1/s) has the samples
    ``rates[offsets[i]:offsets[i + 1]]`` at the times ``start[i] + k interval[i]``; it is linear between samples, zero
    before the first and after the last one, and its integral, the trapezoidal sum, is one.

    Attributes
    ----------
    subfault : (m,) index of the subfault of each source; in ascending order. A subfault has one source per slip
        component with samples.
    moment : (m, 6) xx, yy, zz, xy, xz, yz in N m; x East, y North, z Up.
    start : (m,) time of the first sample, s.
    interval : (m,) time between samples, s.
    offsets : (m + 1,) offsets in ``rates``.
    rates : (total,) samples, 1/s, single or double precision.
    """

    subfault: np.ndarray
    moment: np.ndarray
    start: np.ndarray
    interval: np.ndarray
    offsets: np.ndarray
    rates: np.ndarray

    @property
    def count(self) -> int:
        """The number m of sources."""
        return self.subfault.size

    @property
    def end(self) -> np.ndarray:
        """(m,) time of the last sample, s."""
        return self.start + self.interval * (np.diff(self.offsets) - 1)

    @property
    def total_moment(self) -> float:
        """Sum of the scalar moments of all subfaults, N m; see `total_scalar_moment`."""
        return total_scalar_moment(self.subfault, self.moment)


def total_scalar_moment(subfault: np.ndarray, moment: np.ndarray) -> float:
    """Return the sum of the scalar moments of subfaults, where the tensors (m, 6) of the same subfault are added."""
    if subfault.size == 0:
        return 0.0
    first = np.flatnonzero(np.diff(subfault, prepend=subfault[0] - 1))
    return math.fsum(scalar_moment(np.add.reduceat(moment, first, axis=0)))
