"""Kinematic ruptures on a plane: random slip, a rupture front, rise times and slip rates.

The slip is a random field with a von Karman autocorrelation (Mai & Beroza 2002), tapered to the edges and scaled to the
moment. The rupture front propagates from the hypocenter at a fraction of the local S-wave velocity. Rise times are
proportional to the square root of the slip (Graves & Pitarka 2010), and the slip rate is the regularized Yoffe function
(Tinti et al. 2005).

Random slip with a von Karman autocorrelation (Mai & Beroza 2002).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lithowave.errors import InputError
from lithowave.faults.subfaults import FaultPlane, FiniteFault, regularized_yoffe, trapezoids
from lithowave.physics import moment_of_magnitude

_SAMPLES_PER_RISE_TIME = 50
"""Samples of the average slip-rate function, by default."""
_FEWEST_SAMPLES = 10
"""Samples of the shortest slip-rate function: shorter rise times are extended."""
_ALSO_ZERO = -1e-12
"""Lower limit of values that may be zero up to round-off."""
_ROUNDED = 1.0 + 1e-12
"""Upper limit of values that may be one up to round-off."""
_RAY_POINTS = 64
"""Points at which the slowness is evaluated between the hypocenter and a subfault."""


@dataclass(frozen=True)
class _Plane:
    """Plane with a grid of subfaults; distances along strike count from the center, down dip from the top."""

    strike: float
    dip: float
    length: float
    width: float
    top_depth: float
    shape: tuple[int, int]

    @property
    def spacing(self) -> tuple[float, float]:
        return self.length / self.shape[0], self.width / self.shape[1]

    @property
    def area(self) -> float:
        """Of a subfault, m2."""
        return self.spacing[0] * self.spacing[1]

    def centers(self) -> tuple[np.ndarray, np.ndarray]:
        """(n_strike, 1) and (n_dip,) positions of the centers, m."""
        along = (np.arange(self.shape[0]) + 0.5) * self.spacing[0] - 0.5 * self.length
        return along[:, np.newaxis], (np.arange(self.shape[1]) + 0.5) * self.spacing[1]

    def offsets(self, along: ArrayLike, down: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances East and North from the center of the top edge, m."""
        strike = math.radians(self.strike)
        across = np.asarray(down) * math.cos(math.radians(self.dip))
        east = np.asarray(along) * math.sin(strike) + across * math.cos(strike)
        return east, np.asarray(along) * math.cos(strike) - across * math.sin(strike)


def planar_rupture(
    *, strike: float, dip: float, rake: float, length: float, width: float, top_depth: float, mw: float,
    subfaults: tuple[int, int], vs: ArrayLike, density: ArrayLike | None = None,
    shear_modulus: ArrayLike | None = None, position: tuple[float, float] | None = None,
    longitude: float | None = None, latitude: float | None = None, reference: str = "top_center",
    hypocenter: tuple[float, float] | None = None, rupture_velocity: float = 0.8,
    correlation_length: tuple[float, float] | None = None, hurst: float = 0.75, variation: float = 0.85,
    taper: float = 0.2, rise_time: float | None = None, smoothing: float = 0.1, interval: float | None = None,
    seed: int = 0,
) -> FiniteFault:  # fmt: skip
    """Return a kinematic rupture on a planar fault.

    Parameters
    ----------
    strike, dip, rake : degrees, after Aki & Richards.
    length, width : of the fault along strike and down dip, m.
    top_depth : depth of the upper edge, m.
    mw : moment magnitude; the moment is 10^(1.5 mw + 9.1) N m.
    subfaults : number of subfaults along strike and down dip. Subfaults are ordered along strike, then down dip.
    vs : S-wave velocity at the subfaults, m/s: a number, or an array of the shape (n_strike, n_dip).
    density : density at the subfaults in kg/m3, as ``vs``; or
    shear_modulus : Pa, as ``vs``, instead of the density.
    position : (x, y) of the reference point in m, for a fault in local coordinates; or
    longitude, latitude : of the reference point, degrees.
    reference : ``"top_center"``, the center of the upper edge, or ``"hypocenter"``.
    hypocenter : position along strike from the center and down dip from the upper edge, m; default: (0, 0.6 width).
    rupture_velocity : fraction of vs. The front arrives at the time that it takes along the straight line from the
        hypocenter, with vs interpolated between the centers of the subfaults.
    correlation_length : along strike and down dip, m; default: 10^(mw/2 - 2.5) km and 10^(mw/3 - 1.5) km (Mai &
        Beroza 2002).
    hurst : Hurst exponent of the von Karman autocorrelation.
    variation : standard deviation of the slip divided by its mean, before the taper.
    taper : parts of length and width at each edge within which the slip decreases to zero.
    rise_time : average duration of slip, s; default: 1.45e-9 (M0 / dyn cm)^(1/3) s (Graves & Pitarka 2010).
    smoothing : half duration of the triangle of the regularized Yoffe function, as a part of the rise time.
    interval : time between samples of the slip rate, s; default: rise_time / 50. Rise times shorter than 10 intervals
        are extended to 10 intervals.
    seed : of the random numbers; the same seed gives the same rupture.

    Raises
    ------
    InputError
        for values out of range, and contradictory positions.
    """
    plane = _checked_plane(strike, dip, length, width, top_depth, subfaults)
    speed, mass, shear = _elastic_parameters(vs, density, shear_modulus, plane.shape)
    _require_parameters(mw, rupture_velocity, hurst, variation, taper, smoothing)
    moment = moment_of_magnitude(mw)
    lengths = correlation_length or (1e3 * 10.0 ** (mw / 2.0 - 2.5), 1e3 * 10.0 ** (mw / 3.0 - 1.5))
    slip = _tapered_slip(plane, lengths, hurst, variation, taper, seed)
    slip *= moment / (plane.area * math.fsum((shear * slip).ravel()))
    durations, step = _rise_times(slip, moment, rise_time, interval)
    start = _checked_hypocenter(hypocenter or (0.0, 0.6 * width), plane)
    positions = _positions(plane, start, position, longitude, latitude, reference)
    rates, offsets = _slip_rates(_ordered(plane, slip), _ordered(plane, durations), smoothing, step)
    fields = {
        "rake": rake, "start": _front_times(plane, start, rupture_velocity * speed), "interval": step, "vs": speed,
        "density": mass,
    }  # fmt: skip
    return _fault_of(plane, start, positions, slip, rates, offsets, fields)


def _require_parameters(
    mw: float, rupture_velocity: float, hurst: float, variation: float, taper: float, smoothing: float
) -> None:
    _require("mw", mw, -10.0, 11.0)
    _require("rupture_velocity", rupture_velocity, 0.0, 2.0)
    _require("hurst", hurst, 0.0, 1.0)
    _require("variation", variation, 0.0, 10.0)
    _require("taper", taper, _ALSO_ZERO, 0.5)
    _require("smoothing", smoothing, 0.0, 0.49)


def _tapered_slip(
    plane: _Plane, lengths: tuple[float, float], hurst: float, variation: float, taper: float, seed: int
) -> np.ndarray:
    """Return random slip (n_strike, n_dip), not scaled. lengths : of correlation, along strike and down dip, m."""
    for value in lengths:
        _require("correlation_length", value, 0.0, math.inf)
    slip = random_slip(plane.shape, plane.spacing, lengths, hurst, variation, np.random.default_rng(seed))
    return slip * (edge_taper(plane.shape[0], taper)[:, np.newaxis] * edge_taper(plane.shape[1], taper))


def _rise_times(
    slip: np.ndarray, moment: float, rise_time: float | None, interval: float | None
) -> tuple[np.ndarray, float]:
    """Return the rise times of the subfaults and the time between samples, s. rise_time : average, s."""
    average = 1.45e-9 * (1e7 * moment) ** (1.0 / 3.0) if rise_time is None else rise_time
    _require("rise_time", average, 0.0, math.inf)
    step = average / _SAMPLES_PER_RISE_TIME if interval is None else interval
    _require("interval", step, 0.0, math.inf)
    return np.maximum(average * np.sqrt(slip) / np.sqrt(slip).mean(), _FEWEST_SAMPLES * step), step


def _checked_hypocenter(start: tuple[float, float], plane: _Plane) -> tuple[float, float]:
    along, down = start[0] / plane.length, start[1] / plane.width
    _require("hypocenter along strike, divided by length", along, -0.5 * _ROUNDED, 0.5 * _ROUNDED)
    _require("hypocenter down dip, divided by width", down, _ALSO_ZERO, _ROUNDED)
    return start


def _fault_of(
    plane: _Plane, start: tuple[float, float],
    positions: tuple[bool, tuple[np.ndarray, np.ndarray], tuple[float, float]],
    slip: np.ndarray, rates: np.ndarray, offsets: np.ndarray, fields: dict[str, ArrayLike],
) -> FiniteFault:  # fmt: skip
    """Return the fault. start : hypocenter. positions : from `_positions`. fields : other fields of `FiniteFault`,
    (n_strike, n_dip) or one number each."""
    geographic, horizontal, corner = positions
    depth = plane.top_depth + plane.centers()[1] * math.sin(math.radians(plane.dip))
    fields = {"depth": depth, "strike": plane.strike, "dip": plane.dip, "area": plane.area, **fields}
    header = FaultPlane(
        *corner, *plane.shape, plane.length, plane.width, plane.strike, plane.dip, plane.top_depth, *start
    )
    return FiniteFault(
        geographic=geographic,
        horizontal=np.stack([_ordered(plane, values) for values in horizontal], axis=-1),
        slip=np.stack([_ordered(plane, values) for values in (slip, 0.0, 0.0)], axis=-1),
        rates=rates, offsets=offsets, planes=(header,) if geographic else (),
        **{name: _ordered(plane, values) for name, values in fields.items()},
    )  # fmt: skip


def _ordered(plane: _Plane, values: ArrayLike) -> np.ndarray:
    """Return values (n_strike, n_dip), or a number, at all subfaults: along strike first, then down dip."""
    return np.broadcast_to(np.asarray(values, dtype=float), plane.shape).T.ravel()


def _elastic_parameters(
    vs: ArrayLike, density: ArrayLike | None, shear_modulus: ArrayLike | None, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return S-wave velocity, density and shear modulus at the subfaults."""
    if (density is None) == (shear_modulus is None):
        got = "has neither density nor shear_modulus" if density is None else "density and shear_modulus are both given"
        raise InputError("planar_rupture", got, "give one of them")
    speed = _at_subfaults("vs", vs, shape)
    if density is None:
        shear = _at_subfaults("shear_modulus", shear_modulus, shape)
        return speed, shear / speed**2, shear
    mass = _at_subfaults("density", density, shape)
    return speed, mass, mass * speed**2


def _checked_plane(
    strike: float, dip: float, length: float, width: float, top_depth: float, subfaults: tuple[int, int]
) -> _Plane:
    _require("strike", strike, -360.0, 360.0)
    _require("dip", dip, _ALSO_ZERO, 90.0)
    _require("length", length, 0.0, math.inf)
    _require("width", width, 0.0, math.inf)
    _require("top_depth", top_depth, _ALSO_ZERO, math.inf)
    if len(subfaults) != 2 or any(int(count) != count or count < 1 for count in subfaults):
        raise InputError("subfaults", f"{subfaults!r}", "expected two integers of at least 1: along strike, down dip")
    return _Plane(strike, dip, length, width, top_depth, (int(subfaults[0]), int(subfaults[1])))


def _require(name: str, value: float, low: float, high: float) -> None:
    if low < value <= high and math.isfinite(value):
        return
    lower = "0 or more" if low == _ALSO_ZERO else f"greater than {low:.6g}"
    upper = f"at most {high:.6g}" if math.isfinite(high) else "finite"
    raise InputError(name, f"{value:.12g}", f"must be {lower} and {upper}")


def _at_subfaults(name: str, values: ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    try:
        array = np.broadcast_to(np.asarray(values, dtype=float), shape)
    except (ValueError, TypeError):
        got = f"an array of shape {np.shape(values)}"
        raise InputError(name, got, f"expected a number or an array of shape {shape}") from None
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise InputError(name, "has values that are not positive", "must be positive, finite numbers")
    return array


def _front_times(plane: _Plane, hypocenter: tuple[float, float], velocity: np.ndarray) -> np.ndarray:
    """Return the arrival times of the rupture front (n_strike, n_dip), s: distance times the average slowness."""
    along, down = plane.centers()
    along, down = np.broadcast_arrays(along, down)
    distance = np.hypot(along - hypocenter[0], down - hypocenter[1])
    slowness = 1.0 / velocity
    if np.ptp(slowness) == 0.0:
        return distance * slowness
    average = np.zeros(plane.shape)
    for part in (np.arange(_RAY_POINTS) + 0.5) / _RAY_POINTS:
        point = (hypocenter[0] + part * (along - hypocenter[0]), hypocenter[1] + part * (down - hypocenter[1]))
        average += _interpolated(plane, slowness, *point) / _RAY_POINTS
    return distance * average


def _interpolated(plane: _Plane, values: np.ndarray, along: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Return values of the centers at other points of the plane, bilinear, constant beyond the outer centers."""
    result = np.zeros(along.shape)
    corners = []
    origins = (-0.5 * plane.length, 0.0)
    for point, origin, step, count in zip((along, down), origins, plane.spacing, plane.shape, strict=True):
        index = np.clip((point - origin) / step - 0.5, 0.0, count - 1.0)
        low = np.minimum(index.astype(int), max(count - 2, 0))
        corners.append(((low, 1.0 - (index - low)), (np.minimum(low + 1, count - 1), index - low)))
    for i, weight_i in corners[0]:
        for j, weight_j in corners[1]:
            result += weight_i * weight_j * values[i, j]
    return result


def _positions(
    plane: _Plane,
    hypocenter: tuple[float, float],
    position: tuple[float, float] | None,
    longitude: float | None,
    latitude: float | None,
    reference: str,
) -> tuple[bool, tuple[np.ndarray, np.ndarray], tuple[float, float]]:
    """Return whether the fault is geographic, the positions of the centers, and that of the center of the top edge."""
    if reference not in ("top_center", "hypocenter"):
        raise InputError("reference", f"{reference!r}", "expected top_center or hypocenter")
    if (longitude is None) != (latitude is None) or (longitude is None) == (position is None):
        raise InputError("planar_rupture", "has no position or two", "give position, or longitude and latitude")
    east, north = plane.offsets(*plane.centers())
    if reference == "hypocenter":
        shift = plane.offsets(*hypocenter)
        east, north = east - shift[0], north - shift[1]
    else:
        shift = (np.zeros(()), np.zeros(()))
    if position is not None:
        x, y = position
        return False, (x + east, y + north), (float(x - shift[0]), float(y - shift[1]))
    points = _geodesic(longitude, latitude, east, north)
    corner = _geodesic(longitude, latitude, -shift[0], -shift[1])
    return True, points, (float(corner[0]), float(corner[1]))


def _geodesic(longitude: float, latitude: float, east: np.ndarray, north: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return longitudes and latitudes at distances from a point along geodesics (WGS84)."""
    from pyproj import Geod

    azimuth, distance = np.degrees(np.arctan2(east, north)), np.hypot(east, north)
    start = (np.full(distance.shape, float(value)) for value in (longitude, latitude))
    first, second, _ = Geod(ellps="WGS84").fwd(*start, azimuth, distance)
    return np.asarray(first), np.asarray(second)


def _slip_rates(
    slip: np.ndarray, durations: np.ndarray, smoothing: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples, m/s, whose trapezoidal sum is the slip, and their offsets for three components."""
    counts = np.ceil(durations / step * (1.0 - 1e-12)).astype(np.int64) + 1
    bounds = np.concatenate([[0], np.cumsum(counts)])
    time = step * (np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts))
    rise = np.repeat(durations, counts)
    rates = regularized_yoffe(time, rise, smoothing * rise)
    rates *= np.repeat(slip / trapezoids(rates, bounds, np.full(slip.size, step)), counts)
    return rates, np.concatenate([[0], np.repeat(bounds[1:], 3)])


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
