"""Point sources of finite faults in local coordinates, and the slip rates of their subfaults.

The slip rates are time functions that share flat arrays of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lithowave.description.domain import Domain
from lithowave.description.material import Material
from lithowave.description.text import refusal
from lithowave.faults import FiniteFault, SampledSources


@dataclass(frozen=True, eq=False)
class SlipRates:
    """Moment-rate shapes of n point sources, linear between samples, and zero before the first and after the last one.

    Parameters
    ----------
    start : (n,) time of the first sample, s.
    interval : (n,) time between samples, s.
    offsets : (n + 1,) index of the first sample of each function in `rates`, and the end.
    rates : samples of all functions, 1/s; the trapezoidal integral of each function is one.
    """

    start: np.ndarray
    interval: np.ndarray
    offsets: np.ndarray
    rates: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of samples of each function (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def end(self) -> np.ndarray:
        """Time of the last sample of each function (n,), s."""
        return self.start + self.interval * (self.counts - 1)

    @cached_property
    def released(self) -> np.ndarray:
        """Integral of its function up to each sample."""
        owner = np.repeat(np.arange(len(self.start)), self.counts)
        parts = np.zeros(len(self.rates))
        parts[1:] = 0.5 * (self.rates[1:] + self.rates[:-1]) * self.interval[owner[1:]]
        parts[self.offsets[:-1]] = 0.0
        total = np.cumsum(parts)
        return total - total[self.offsets[:-1]][owner]

    @cached_property
    def peaks(self) -> np.ndarray:
        """Largest magnitude of the samples of each function (n,), 1/s."""
        return np.maximum.reduceat(np.abs(self.rates), self.offsets[:-1])

    def total(self, weights: np.ndarray) -> SubfaultFunction:
        """Return the weighted sum of all functions, with unit integral, sampled at the shortest interval."""
        step, begin = float(self.interval.min()), float(self.start.min())
        times = begin + step * np.arange(int(np.ceil((self.end.max() - begin) / step)) + 1)
        sum_of = np.zeros(len(times))
        for number, weight in enumerate(weights):
            first = int((self.start[number] - begin) / step)
            last = min(int((self.end[number] - begin) / step) + 2, len(times))
            sum_of[first:last] += weight * SubfaultFunction(self, number).rate(times[first:last])
        area = step * (sum_of.sum() - 0.5 * (sum_of[0] + sum_of[-1]))
        table = SlipRates(np.array([begin]), np.array([step]), np.array([0, len(times)]), sum_of / area)
        return SubfaultFunction(table, 0)


@dataclass(frozen=True, eq=False)
class SubfaultFunction:
    """Moment-rate shape of one point source of a finite fault; see `SlipRates`.

    table : functions of the fault. number : index of this one.
    """

    table: SlipRates
    number: int

    kind = "slip rate"
    final = 1.0

    def rate(self, time: np.ndarray) -> np.ndarray:
        """Return the shape, 1/s, at times in s."""
        table, n = self.table, self.number
        samples = slice(table.offsets[n], table.offsets[n + 1])
        times = table.start[n] + table.interval[n] * np.arange(table.counts[n])
        return np.interp(time, times, table.rates[samples], left=0.0, right=0.0)

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        """Return the shape with a peak of one."""
        return self.rate(time) / self.table.peaks[self.number]

    def released(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of the shape up to times in s."""
        table, n = self.table, self.number
        place = np.clip((np.asarray(time, float) - table.start[n]) / table.interval[n], 0.0, table.counts[n] - 1.0)
        low = np.minimum(place.astype(np.int64), table.counts[n] - 2)
        part, at = place - low, table.offsets[n] + low
        left, right = table.rates[at], table.rates[at + 1]
        return table.released[at] + table.interval[n] * part * (left + 0.5 * part * (right - left))

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        """Return the times, s, of the first and the last sample."""
        return float(self.table.start[self.number]), float(self.table.end[self.number])

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        """Return the frequency, Hz, from which on the spectrum is below a fraction of its maximum.

        The spectrum of a function that is linear between samples is that of the samples times sinc^2.
        """
        table, n = self.table, self.number
        samples = table.rates[table.offsets[n] : table.offsets[n + 1]]
        once = np.abs(np.fft.fft(samples, 4 * len(samples)))  # periodic in frequency
        cycles = np.arange(16 * len(samples)) / (4.0 * len(samples))  # per sample
        spectrum = np.tile(once, 4) * np.sinc(cycles) ** 2
        last = np.flatnonzero(spectrum >= fraction * spectrum.max())[-1]
        return float(cycles[min(last + 1, len(cycles) - 1)] / table.interval[n])

    def onset_amplitude(self) -> float:
        """Return the part of the peak that the shape reaches before time 0."""
        if self.table.start[self.number] >= 0.0:
            return 0.0
        samples = self.table.rates[self.table.offsets[self.number] : self.table.offsets[self.number + 1]]
        before = self.table.start[self.number] + self.table.interval[self.number] * np.arange(len(samples)) < 0.0
        return float(np.abs(samples[before]).max() / self.table.peaks[self.number])


def fault_sources(
    fault: FiniteFault, domain: Domain, material: Material, delay: float, at_sea_level: bool = False
) -> tuple[np.ndarray, SampledSources, SlipRates]:
    """Return positions (m, 3), m, moment tensors and time functions of the m point sources of a fault.

    Parameters
    ----------
    fault : subfaults; depths are below the surface of the domain, or if ``at_sea_level`` below z = 0.
    material : its shear modulus applies to subfaults whose file states none, and its bulk modulus to opening ones.
    delay : s, added to the times of the file.
    """
    x, y = domain.to_local(*fault.horizontal.T) if fault.geographic else fault.horizontal.T
    top = np.zeros(fault.count)
    if domain.surface is not None and not at_sea_level:
        top = domain.surface_at(x, y, [f"subfault {number}" for number in range(1, fault.count + 1)])
    positions = np.column_stack([x, y, top - fault.depth])
    shear, bulk = fault.shear_modulus, None
    unknown = np.isnan(shear)
    if unknown.any() or fault.slip[:, 2].any():
        if material.groups is not None:
            raise refusal(
                "the file does not state VS and DEN of all subfaults, and only the mesh has the material",
                "use an SRF file of version 2.0 with VS and DEN",
                at=("file",),
            )
        vp, vs, rho = material.sample(*positions.T)
        if np.any(unknown & (vs == 0.0)):
            number = int(np.flatnonzero(unknown & (vs == 0.0))[0])
            place = ", ".join(f"{value:.6g}" for value in positions[number])
            raise refusal(f"subfault {number + 1} is in a fluid, at ({place}) m", at=("file",))
        shear = np.where(unknown, rho * vs**2, shear)
        bulk = rho * (vp**2 - 4.0 / 3.0 * vs**2)
    sampled = fault.moment_rate_sources(shear, bulk)
    # Sources that act at the same time are neighbors in the list, so that a step can skip the others.
    order = np.argsort(sampled.start, kind="stable")
    counts = np.diff(sampled.offsets)[order]
    index = np.repeat(sampled.offsets[order], counts) + _within(counts)
    table = SlipRates(
        sampled.start[order] + delay, sampled.interval[order], np.append(0, np.cumsum(counts)),
        np.asarray(sampled.rates, dtype=np.float64)[index],
    )  # fmt: skip
    ordered = SampledSources(
        sampled.subfault[order], sampled.moment[order], table.start, table.interval, table.offsets, table.rates
    )
    return positions[ordered.subfault], ordered, table


def _within(counts: np.ndarray) -> np.ndarray:
    """Return 0 .. count - 1 for each count, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
