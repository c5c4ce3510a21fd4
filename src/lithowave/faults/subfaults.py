"""Finite faults: subfaults with position, orientation, area and sampled slip rates, as arrays.

Samples of all subfaults are consecutive segments of one flat array. The point sources of a fault are moment tensors
with sampled moment rates. A slip rate consistent with dynamic rupture is the regularized Yoffe function of Tinti et al.
(2005). The Yoffe function Y(t) = 2/(π T) sqrt((T - t)/t) for 0 < t < T is singular at t = 0. Its convolution with a
triangle of unit area on (0, 2 τ) is smooth. Since the second derivative of the triangle is (δ(t) - 2 δ(t - τ) + δ(t -
2τ))/τ²,

    s(t) = (D(t) - 2 D(t - τ) + D(t - 2τ)) / τ²,

where D is the second integral of Y: with sin²φ = t/T, C(t) = (2/π)(φ + sin φ cos φ) is its first integral, and
D(t) = (T/8π)(4φ - 8φ cos 2φ + 4 sin 2φ - sin 4φ) = ∫ C dt for t < T, and t - T/4 for later times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from lithowave.errors import InputError
from lithowave.physics import dipole_pair, moment_magnitude, plane_normal, scalar_moment, slip_direction

Modulus = np.ndarray | float
"""Modulus of all subfaults, shape (n,), or one number, Pa."""

COMPONENTS = ("u1", "u2", "u3")
"""Slip along the rake, along rake + 90 degrees, and along the normal (opening)."""

SLIP_TOLERANCE = 0.02
"""Largest accepted difference between the stated slip and the integral of the slip rate, relative to that integral."""

_NEGLIGIBLE = 1e-3
"""Part of the largest slip of a fault below which the digits of a file may not resolve the slip of a subfault."""


@dataclass(frozen=True)
class FaultPlane:
    """A planar segment of a fault, as a file describes it; the subfaults alone determine the source.

    Attributes
    ----------
    longitude, latitude : of the center of the top edge, degrees.
    count_strike, count_dip : number of subfaults along strike and down dip.
    length, width : m.
    strike, dip : degrees.
    top_depth : depth of the top edge, m.
    hypocenter_strike : position of the hypocenter along strike from the center of the top edge, m.
    hypocenter_dip : position of the hypocenter down dip from the top edge, m.
    """

    longitude: float
    latitude: float
    count_strike: int
    count_dip: int
    length: float
    width: float
    strike: float
    dip: float
    top_depth: float
    hypocenter_strike: float
    hypocenter_dip: float


class SubfaultError(InputError):
    """A value of a subfault is invalid; ``field`` and ``index`` locate it."""

    def __init__(self, field: str, index: int, got: str, allowed: str = "", hint: str = "") -> None:
        self.field, self.index = field, index
        super().__init__(f"{field}[{index}]", got, allowed, hint)


class _Limits(NamedTuple):
    low: float
    high: float
    unit: str
    open_low: bool = False
    may_be_unknown: bool = False

    def __str__(self) -> str:
        if self.high == math.inf and self.low == -math.inf:
            return "must be a finite number"
        low = f"greater than {self.low:g} {self.unit}" if self.open_low else f"at least {self.low:g} {self.unit}"
        return f"must be {low}" + ("" if self.high == math.inf else f" and at most {self.high:g} {self.unit}")


_LIMITS = {
    "depth": _Limits(0.0, math.inf, "m"),
    "strike": _Limits(-360.0, 360.0, "degrees"),
    "dip": _Limits(0.0, 90.0, "degrees"),
    "rake": _Limits(-360.0, 360.0, "degrees"),
    "area": _Limits(0.0, math.inf, "m2", open_low=True),
    "start": _Limits(-math.inf, math.inf, "s"),
    "interval": _Limits(0.0, math.inf, "s", open_low=True),
    "vs": _Limits(0.0, 10e3, "m/s", open_low=True, may_be_unknown=True),
    "density": _Limits(500.0, 15e3, "kg/m3", may_be_unknown=True),
}


@dataclass(frozen=True, eq=False)
class FiniteFault:
    """Subfaults of a fault with their slip-rate functions, in arrays of n subfaults.

    The orientation follows Aki & Richards (2002): the fault dips to the right of the strike direction, and the rake
    is the slip direction of the hanging wall, positive upwards. Each subfault has three slip components: u1 along the
    rake, u2 along rake + 90 degrees, and u3 along the normal (opening).

    The slip rate of component c of subfault i has the samples ``rates[offsets[3 i + c]:offsets[3 i + c + 1]]`` at the
    times ``start[i] + k interval[i]``; it is linear between samples and zero outside of them. These samples determine
    the moment; ``slip`` may differ from their integral by at most 2%.

    Attributes
    ----------
    geographic : True if ``horizontal`` is longitude and latitude in degrees, False if it is x and y in m.
    horizontal : (n, 2) horizontal position of the center of each subfault.
    depth : (n,) depth of the center below the surface, m, positive downwards.
    strike, dip, rake : (n,) degrees.
    area : (n,) m2.
    start : (n,) time at which the slip begins, s.
    interval : (n,) time between samples, s.
    vs, density : (n,) S-wave velocity in m/s and density in kg/m3; NaN where they are unknown.
    slip : (n, 3) total slip of each component, m.
    rates : (total,) samples of the slip rate, m/s, single or double precision.
    offsets : (3 n + 1,) offsets in ``rates``.
    planes : planar segments, as far as a file describes them.

    Raises
    ------
    InputError
        for arrays of wrong shapes, and values out of range.
    """

    geographic: bool
    horizontal: np.ndarray
    depth: np.ndarray
    strike: np.ndarray
    dip: np.ndarray
    rake: np.ndarray
    area: np.ndarray
    start: np.ndarray
    interval: np.ndarray
    vs: np.ndarray
    density: np.ndarray
    slip: np.ndarray
    rates: np.ndarray
    offsets: np.ndarray
    planes: tuple[FaultPlane, ...] = ()

    def __post_init__(self) -> None:
        self._check_shapes()
        for field, limits in _LIMITS.items():
            _check_range(field, getattr(self, field), limits)
        names = (("longitude", 360.0), ("latitude", 90.0)) if self.geographic else (("x", math.inf), ("y", math.inf))
        for (name, limit), values in zip(names, self.horizontal.T, strict=True):
            _check_range(name, values, _Limits(-limit, limit, "degrees"))
        for name, values in zip(("slip1", "slip2", "slip3"), self.slip.T, strict=True):
            _check_range(name, values, _Limits(-math.inf, math.inf, "m"))
        if not np.isfinite(self.rates).all():
            sample = int(np.flatnonzero(~np.isfinite(self.rates))[0])
            subfault, component = divmod(int(np.searchsorted(self.offsets, sample, side="right")) - 1, 3)
            got = f"{self.rates[sample]} in the slip rate of {COMPONENTS[component]} is not a finite number"
            raise SubfaultError("rates", subfault, got)
        self._check_slip()

    def _check_shapes(self) -> None:
        n = self.depth.size
        expected = {name: (n,) for name in _LIMITS} | {"horizontal": (n, 2), "slip": (n, 3), "offsets": (3 * n + 1,)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                got = f"an array of shape {getattr(self, name).shape}"
                raise InputError(f"FiniteFault.{name}", got, f"expected {shape} for {n} subfaults")
        if n == 0:
            raise InputError("FiniteFault", "the fault has no subfaults", "expected at least one")
        if self.offsets[0] != 0 or self.offsets[-1] != self.rates.size or (np.diff(self.offsets) < 0).any():
            got = f"the offsets do not partition the {self.rates.size} samples"
            raise InputError("FiniteFault.offsets", got, "expected ascending offsets from 0 to the number of samples")

    def _check_slip(self) -> None:
        mismatch = slip_mismatch(self.slip, self.rates, self.offsets, self.interval)
        if mismatch.any():
            index, component = (int(value) for value in np.argwhere(mismatch)[0])
            released = self.released_slip[index, component]
            raise SubfaultError(
                f"slip{component + 1}",
                index,
                f"{self.slip[index, component]:.6g} m, but the samples of its slip rate release {released:.6g} m",
                f"both must agree within {100 * SLIP_TOLERANCE:g}%",
            )

    @property
    def count(self) -> int:
        """The number n of subfaults."""
        return self.depth.size

    @cached_property
    def released_slip(self) -> np.ndarray:
        """(n, 3) integral of the slip rate of each component by the trapezoidal rule, m."""
        return trapezoids(self.rates, self.offsets, np.repeat(self.interval, 3)).reshape(-1, 3)

    @property
    def shear_modulus(self) -> np.ndarray:
        """(n,) density vs^2, Pa; NaN where one of them is unknown."""
        return self.density * self.vs**2

    @cached_property
    def hypocenter(self) -> int:
        """Index of the subfault that slips first; of the first one if several start together."""
        slipping = segment_sums(self.rates != 0, self.offsets).reshape(-1, 3).any(axis=1)
        return int(np.argmin(np.where(slipping, self.start, np.inf))) if slipping.any() else 0

    @cached_property
    def time_span(self) -> tuple[float, float]:
        """Time of the first start of slip, and time at which the last slip rate has become zero, s."""
        moving = np.flatnonzero(self.rates)
        segment = np.searchsorted(self.offsets, moving, side="right") - 1
        if moving.size == 0:
            return float(self.start.min()), float(self.start.min())
        # Linear interpolation reaches zero one sample after the last nonzero one.
        last = np.minimum(moving + 1, self.offsets[segment + 1] - 1) - self.offsets[segment]
        end = self.start[segment // 3] + last * self.interval[segment // 3]
        return float(self.start[np.unique(segment // 3)].min()), float(end.max())

    @property
    def duration(self) -> float:
        """Time from the first start of slip to the end of the last slip, s."""
        first, last = self.time_span
        return last - first

    def total_moment(self, shear_modulus: Modulus | None = None, bulk: Modulus | None = None) -> float:
        """Return the sum of the scalar moments of all subfaults, N m.

        Parameters and errors are those of `moment_rate_sources`.
        """
        chosen, moment = self._moments(shear_modulus, bulk)
        return total_scalar_moment(np.flatnonzero(chosen) // 3, moment)

    def magnitude(self, shear_modulus: Modulus | None = None, bulk: Modulus | None = None) -> float:
        """Return Mw = 2/3 (log10 M0 - 9.1) of `total_moment`."""
        return moment_magnitude(self.total_moment(shear_modulus, bulk))

    def moment_rate_sources(self, shear_modulus: Modulus | None = None, bulk: Modulus | None = None) -> SampledSources:
        """Return the subfaults as point sources with sampled moment rates.

        With the shear modulus μ, Lamé's first parameter λ = K - 2 μ / 3, the area A, the slip s of a component, its
        direction d and the normal n of the fault, the moment tensor is M = μ A s (d nᵀ + n dᵀ) for u1 and u2, and
        M = A s (λ I + 2 μ n nᵀ) for u3 (Aki & Richards 2002, section 3.2). Components without slip are omitted.

        Parameters
        ----------
        shear_modulus : μ at the subfaults, Pa, shape (n,) or a number; default: `shear_modulus`, density vs^2.
        bulk : bulk modulus K, Pa, shape (n,) or a number; required if the fault opens (u3).

        Raises
        ------
        InputError
            if the shear modulus is unknown or not positive, if the fault opens and ``bulk`` is missing, or if the
            slip rate of a component integrates to zero, so that it has no moment.
        """
        chosen, moment = self._moments(shear_modulus, bulk)
        rates, offsets = selected_segments(self.rates, self.offsets, chosen)
        rates /= np.repeat(self.released_slip.ravel()[chosen], np.diff(offsets))
        subfault = np.flatnonzero(chosen) // 3
        return SampledSources(subfault, moment, self.start[subfault], self.interval[subfault], offsets, rates)

    def _moments(self, shear_modulus: Modulus | None, bulk: Modulus | None) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask (3 n,) of the components with slip, and their moment tensors (m, 6), N m."""
        chosen = segment_sums(self.rates != 0, self.offsets) > 0
        slip = self.released_slip.ravel()
        if (empty := chosen & (slip == 0.0)).any():
            index, axis = divmod(int(np.flatnonzero(empty)[0]), 3)
            got = f"the samples of the slip rate of {COMPONENTS[axis]} have the integral 0"
            raise SubfaultError("rates", index, got, "the final slip must differ from 0", "choose another rake")
        shear = self._modulus("shear_modulus", self.shear_modulus if shear_modulus is None else shear_modulus)
        subfault, component = np.divmod(np.flatnonzero(chosen), 3)
        strike, dip = self.strike[subfault], self.dip[subfault]
        normal = plane_normal(strike, dip)
        direction = slip_direction(strike, dip, self.rake[subfault] + 90.0 * (component == 1))
        tensor = shear[subfault, np.newaxis] * dipole_pair(direction, normal)
        if (opening := component == 2).any():
            if bulk is None:
                raise InputError(
                    "FiniteFault",
                    f"{int(opening.sum())} subfaults open along the normal (u3), which requires the bulk modulus",
                    "expected bulk, in Pa",
                    "give the bulk modulus at the subfaults, rho (vp^2 - 4 vs^2 / 3)",
                )
            mu = shear[subfault[opening], np.newaxis]
            first = self._modulus("bulk", bulk)[subfault[opening], np.newaxis] - 2.0 / 3.0 * mu
            along = dipole_pair(normal[opening], normal[opening])  # 2 n nᵀ
            tensor[opening] = first * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]) + mu * along
        return chosen, tensor * (self.area[subfault] * slip[chosen])[:, np.newaxis]

    def _modulus(self, name: str, values: Modulus) -> np.ndarray:
        modulus = np.broadcast_to(np.asarray(values, dtype=float), (self.count,))
        if not (invalid := ~(modulus > 0.0) | ~np.isfinite(modulus)).any():
            return modulus
        index = int(np.flatnonzero(invalid)[0])
        raise SubfaultError(
            name,
            index,
            f"{modulus[index]:g} Pa at {int(invalid.sum())} of {self.count} subfaults, first at number {index}",
            "must be a positive, finite number",
            f"give {name} from the material model at the subfaults" if np.isnan(modulus[index]) else "",
        )

    def scaled(self, factor: float) -> Self:
        """Return the fault with all slip multiplied by a factor, for example to obtain a given moment."""
        return replace(self, slip=self.slip * factor, rates=self.rates * self.rates.dtype.type(factor))


def slip_mismatch(slip: np.ndarray, rates: np.ndarray, offsets: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return True (n, 3) for components whose stated slip and integral of the slip rate differ by more than 2%.

    The difference is relative to the integral of the absolute slip rate, or to a thousandth of the largest slip, which
    is larger for subfaults whose slip has few digits in a file.
    """
    intervals = np.repeat(interval, 3)
    size = trapezoids(np.abs(rates), offsets, intervals).reshape(-1, 3)
    released = trapezoids(rates, offsets, intervals).reshape(-1, 3)
    reference = np.maximum(size, _NEGLIGIBLE * max(np.abs(slip).max(), size.max()))
    return np.abs(slip - released) > SLIP_TOLERANCE * reference


def _check_range(field: str, values: np.ndarray, limits: _Limits) -> None:
    above = values > limits.low if limits.open_low else values >= limits.low
    valid = above & (values <= limits.high) & np.isfinite(values)
    if limits.may_be_unknown:
        valid |= np.isnan(values)
    if not valid.all():
        index = int(np.flatnonzero(~valid)[0])
        raise SubfaultError(field, index, f"{values[index]:.12g} {limits.unit}", str(limits))


def segment_sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of each segment ``values[offsets[i]:offsets[i + 1]]`` in double precision; 0 if it is empty.

    Parameters
    ----------
    values : shape (total,).
    offsets : shape (n + 1,), ascending from 0 to ``total``.
    """
    sums = np.zeros(offsets.size - 1)
    filled = offsets[1:] > offsets[:-1]
    if filled.any():
        # The end of a segment with samples is the start of the next one with samples.
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], dtype=np.float64)
    return sums


def trapezoids(values: np.ndarray, offsets: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Return the integral of each segment by the trapezoidal rule, shape (n,), for sampling ``intervals`` (n,)."""
    ends = np.zeros(offsets.size - 1)
    filled = offsets[1:] > offsets[:-1]
    ends[filled] = values[offsets[:-1][filled]].astype(np.float64) + values[offsets[1:][filled] - 1]
    return intervals * (segment_sums(values, offsets) - 0.5 * ends)


def selected_segments(values: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy of the segments for which ``chosen`` (n,) is True, and their offsets."""
    counts = np.diff(offsets)
    kept = np.concatenate([[0], np.cumsum(counts[chosen])])
    if chosen.all():
        return values.copy(), kept
    return values[np.repeat(chosen, counts)], kept


def regularized_yoffe(time: np.ndarray, rise_time: np.ndarray | float, smoothing: np.ndarray | float) -> np.ndarray:
    """Return the slip rate of unit slip, 1/s, at times in s after the onset; zero outside of 0 < t < rise_time.

    Parameters
    ----------
    time : s; ``rise_time`` and ``smoothing`` are numbers or arrays that broadcast with it.
    rise_time : the duration T + 2 τ of the function, s.
    smoothing : the half duration τ of the triangle, s, less than half the rise time. The maximum of the slip rate is
        close to 4 τ / 3, its limit for τ much shorter than the rise time.
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
