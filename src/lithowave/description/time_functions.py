"""Time functions of sources, each with two normalizations: shapes, and samples in a file or in Python.

``rate(t)`` is the moment-rate shape of a moment tensor: its integral over all times is one (unit 1/s).
``amplitude(t)`` is the dimensionless factor of a force: its peak is one (samples keep their own values). Time 0 is the
origin time; ``delay`` moves a function to later times, and each class says which point of it is there. Samples are
joined by natural cubic splines, whose integral is known exactly.

A function is given by exactly one key: ``{gaussian: {sigma: 0.06, delay: 0.36}}``; in Python
``TimeFunction(gaussian={"sigma": 0.06})`` and plain ``Gaussian(sigma=0.06)`` are equivalent.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.text import refusal, shown
from lithowave.description.units import Duration, Number, PositiveDuration, PositiveFrequency
from lithowave.errors import InputError
from lithowave.readers.text import read_samples


@dataclass(frozen=True, eq=False)
class NaturalSpline:
    """The cubic spline through samples whose second derivative is zero at both ends; zero outside them.

    Parameters
    ----------
    times : strictly increasing, shape (n,), n ≥ 2.
    values : shape (n,).
    """

    times: np.ndarray
    values: np.ndarray

    @cached_property
    def _curve(self) -> object:
        from scipy.interpolate import CubicSpline

        return CubicSpline(self.times, self.values, bc_type="natural")

    @cached_property
    def _antiderivative(self) -> object:
        return self._curve.antiderivative()

    @property
    def area(self) -> float:
        """Integral over all times."""
        return float(self._antiderivative(self.times[-1]))

    def __call__(self, time: np.ndarray) -> np.ndarray:
        """Return the spline at any times; zero before the first and after the last sample."""
        time = np.asarray(time, dtype=float)
        return np.where((time >= self.times[0]) & (time <= self.times[-1]), self._curve(time), 0.0)

    def integral(self, time: np.ndarray) -> np.ndarray:
        """Return the integral from the first sample to each time; zero before it, ``area`` after the last one."""
        return self._antiderivative(np.clip(time, self.times[0], self.times[-1]))


class TimeFunctionShape(DescriptionModel):
    """The shape of a time function; :class:`.time_functions.TimeFunction` says what each method does."""

    if TYPE_CHECKING:  # each shape declares its own, in its own words
        delay: float

    @model_validator(mode="after")
    def _settle_delay(self) -> Self:
        # Written into the instance, so that a description that is written out shows the delay that was taken.
        if self.delay is None:
            self._settle(delay=self._default_delay())
        return self

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    def _default_delay(self) -> float:
        """Return the default delay."""
        return 0.0

    @property
    def final(self) -> float:
        """The cumulative moment at the end."""
        return 1.0

    @abstractmethod
    def amplitude(self, time: np.ndarray) -> np.ndarray:
        """Return the factor of a force, peak one."""

    def rate(self, time: np.ndarray) -> np.ndarray:
        """Return the moment-rate shape, unit area, in 1/s."""
        raise self._no_moment()

    def released(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of the rate from the beginning to each time."""
        raise self._no_moment()

    @abstractmethod
    def impulse(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of the amplitude from the beginning to each time, s."""

    @abstractmethod
    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        """Return the first and last time between which the function may exceed ``fraction`` of its peak."""

    @abstractmethod
    def maximum_frequency(self, fraction: float = 0.05) -> float:
        """Return the frequency beyond which the amplitude spectrum stays below ``fraction`` of its maximum, in Hz."""

    def moment_refusal(self) -> str | None:
        """Return why this function cannot be a moment rate; None if it can."""
        return None

    def onset_amplitude(self) -> float:
        """Return the largest value before time 0 relative to the peak."""
        # Wider than any threshold a caller may have; a thousand times within it resolve every shape there is.
        start, end = self.support(1e-12)
        if start >= 0.0:
            return 0.0
        just_before = np.nextafter(0.0, -1.0)
        peak = np.abs(self.amplitude(np.linspace(start, end, 2001))).max()
        cut = np.abs(self.amplitude(np.linspace(start, min(end, just_before), 2001))).max()
        return float(min(cut / peak, 1.0))

    def input_files(self) -> list[Path]:
        """Return the files that the function refers to."""
        return []

    def _since(self, time: np.ndarray) -> np.ndarray:
        return np.asarray(time, dtype=float) - self.delay

    def _no_moment(self) -> InputError:
        return InputError("time_function", self.moment_refusal() or "has no moment rate")


def last_crossing(function: Callable[[np.ndarray], np.ndarray], bound: float, level: float) -> float:
    """Return the largest argument between 0 and ``bound`` at which a function reaches ``level``.

    The function oscillates no faster than once a unit, reaches the level somewhere, and is below it from
    ``bound`` on.
    """
    grid = np.linspace(0.0, bound, int(np.clip(64.0 * bound, 4096, 2_000_000)))
    above = np.flatnonzero(function(grid) >= level)
    low = grid[above[-1]]
    high = grid[min(above[-1] + 1, grid.size - 1)]
    for _ in range(60):
        middle = 0.5 * (low + high)
        if function(np.asarray(middle)) >= level:
            low = middle
        else:
            high = middle
    return float(low)


_AREA_LIMIT = 1e-3
"""Least |area| relative to the area of |f| that can be scaled to one; less is cancellation or rounding."""

_SPECTRUM_COUNT = 1 << 20
"""Most points at which unevenly spaced samples are interpolated for their spectrum."""


def _as_list(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


class SampledFunction(TimeFunctionShape):
    """Samples interpolated by a natural cubic spline; zero before the first and after the last sample.

    For a force, the values are the amplitude. For a moment tensor, they are divided by their area (the exact integral
    of the spline), which must be positive. ``file`` contains one value per line, with samples at ``interval``,
    starting at ``delay``; or, without ``interval``, a time in s (shifted by ``delay``) and a value per line. A spline
    overshoots at discontinuities; represent jumps and corners by several samples.
    """

    file: InputFile | None = Field(
        default=None, description="Text file with one column (value) or two columns (time in s, value)."
    )
    values: Annotated[list[Number] | None, BeforeValidator(_as_list)] = Field(
        default=None, description="The samples, instead of a file."
    )
    interval: PositiveDuration | None = Field(
        default=None, description="Time between samples, s; not allowed for a file with two columns."
    )
    delay: Duration = Field(
        default=0.0, description="Time of the first sample, s; added to the times of a file with two columns."
    )

    @model_validator(mode="after")
    def _readable(self) -> SampledFunction:
        if (self.file is None) == (self.values is None):
            got = "has both file and values" if self.file else "has no samples"
            raise refusal(got, "give one of file and values")
        if self.values is not None and len(self.values) < 2:
            raise refusal(f"has {len(self.values)} samples", "at least 2 are needed", at=("values",))
        if not np.any(self._spline.values):
            raise refusal("all samples are zero", at=("file",) if self.file else ("values",))
        return self

    @cached_property
    def _spline(self) -> NaturalSpline:
        """The spline in times that count from ``delay``."""
        values, times = np.asarray(self.values if self.values is not None else 0.0, dtype=float), None
        if self.file is not None:
            table = reading(read_samples, self.file)
            values, times = table.values, table.times
        if times is None:
            if self.interval is None:
                raise refusal("is missing", "a single column of samples needs the time between them", at=("interval",))
            times = self.interval * np.arange(values.size)
        elif self.interval is not None:
            raise refusal(
                "the file has a column of times as well",
                "give the interval only for a single column",
                at=("interval",),
            )
        return NaturalSpline(times, values)

    @cached_property
    def _peak(self) -> float:
        spline = self._spline
        return float(np.abs(spline.values).max())

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        return self._spline(self._since(time))

    def rate(self, time: np.ndarray) -> np.ndarray:
        if self.moment_refusal():
            raise self._no_moment()
        return self.amplitude(time) / self._spline.area

    def released(self, time: np.ndarray) -> np.ndarray:
        if self.moment_refusal():
            raise self._no_moment()
        return self._spline.integral(self._since(time)) / self._spline.area

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return self._spline.integral(self._since(time))

    def moment_refusal(self) -> str | None:
        spline = self._spline
        heights = np.abs(spline.values)
        size = float(np.sum(0.5 * (heights[1:] + heights[:-1]) * np.diff(spline.times)))
        if abs(spline.area) <= _AREA_LIMIT * size:
            return (
                f"the samples have an area of {spline.area:.3g} s, zero to rounding: they release no moment"
            )
        if spline.area < 0.0:
            return (
                f"the samples have a negative area ({spline.area:.3g} s), and a moment rate has unit area; "
                "reverse their sign, and that of the moment tensor if it is meant"
            )
        return None

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        spline = self._spline
        large = np.flatnonzero(np.abs(spline.values) > fraction * self._peak)
        # One interval more on each side: there the spline still leads to a value above the fraction.
        first, last = max(large[0] - 1, 0), min(large[-1] + 1, spline.values.size - 1)
        return self.delay + float(spline.times[first]), self.delay + float(spline.times[last])

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        spline = self._spline
        span = spline.times[-1] - spline.times[0]
        count = int(min(round(span / np.diff(spline.times).min()), _SPECTRUM_COUNT)) + 1
        even = spline(np.linspace(spline.times[0], spline.times[-1], count))
        # Four times as long as the samples, so that the spectrum is smooth between its points.
        spectrum = np.abs(np.fft.rfft(even, 4 * count))
        frequency = np.fft.rfftfreq(4 * count, span / (count - 1))
        last = np.flatnonzero(spectrum >= fraction * spectrum.max())[-1]
        return float(frequency[min(last + 1, frequency.size - 1)])

    def input_files(self) -> list[Path]:
        return [] if self.file is None else [self.file]


_erf = np.frompyfunc(math.erf, 1, 1)

_QUANTITY = (
    "moment: the moment itself, not its rate, has this shape, with a peak of 1, so that the moment tensor is the "
    "largest moment; null: the moment rate (moment tensors only)."
)


class _RateOrMoment(TimeFunctionShape):
    """A shape of the moment rate, or with ``quantity: moment`` of the moment."""

    if TYPE_CHECKING:  # declared by each shape, after its other keys
        quantity: Literal["moment"] | None

    @property
    def is_moment(self) -> bool:
        """True if the moment has this shape."""
        return self.quantity == "moment"

    @property
    def final(self) -> float:
        return 0.0 if self.is_moment else 1.0

    def released(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time) if self.is_moment else self._released(time)

    def rate(self, time: np.ndarray) -> np.ndarray:
        return self._slope(time) if self.is_moment else self._rate(time)

    def _released(self, time: np.ndarray) -> np.ndarray:
        """Return the integral of `_rate`."""
        raise self._no_moment()

    def _rate(self, time: np.ndarray) -> np.ndarray:
        """Return the shape with unit area, 1/s."""
        raise self._no_moment()

    @abstractmethod
    def _slope(self, time: np.ndarray) -> np.ndarray:
        """Return the time derivative of the amplitude, 1/s."""


class Gaussian(_RateOrMoment):
    """A Gaussian with the standard deviation σ; ``delay`` is the time of the peak (default: 6 σ).

    Moment tensor: rate = exp(−(t − delay)² / 2σ²) / (σ √(2π)), of unit area. Force: amplitude =
    exp(−(t − delay)² / 2σ²), whose peak is 1 and whose area is σ √(2π), so that ``force`` is the largest force. With
    ``quantity: moment``, this amplitude is the moment, which returns to zero. For a moment that remains and increases
    as the error function, the rate is a Gaussian.
    """

    sigma: PositiveDuration = Field(description="Standard deviation, s.")
    delay: Duration | None = Field(default=None, description="Time of the peak, s; null: 6 sigma.")
    quantity: Literal["moment"] | None = Field(default=None, description=_QUANTITY)

    def _default_delay(self) -> float:
        return 6.0 * self.sigma

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * (self._since(time) / self.sigma) ** 2)

    def _rate(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time) / (self.sigma * math.sqrt(2.0 * math.pi))

    def _released(self, time: np.ndarray) -> np.ndarray:
        return _error_step(self._since(time) / self.sigma)

    def _slope(self, time: np.ndarray) -> np.ndarray:
        return -self._since(time) / self.sigma**2 * self.amplitude(time)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return self.sigma * math.sqrt(2.0 * math.pi) * self._released(time)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        half = self.sigma * math.sqrt(-2.0 * math.log(fraction))
        if self.is_moment:  # of the rate, with x = |t − delay| / σ: x exp((1 − x²)/2)
            bound = 2.0 + math.sqrt(-4.0 * math.log(fraction))
            half = self.sigma * last_crossing(lambda x: x * np.exp(0.5 - 0.5 * x**2), bound, fraction)
        return self.delay - half, self.delay + half

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # Spectrum exp(−(2πfσ)²/2); of the rate of a moment, with x = 2πfσ: x exp((1 − x²)/2).
        if self.is_moment:
            bound = 2.0 + math.sqrt(-4.0 * math.log(fraction))
            angle = last_crossing(lambda x: x * np.exp(0.5 - 0.5 * x**2), bound, fraction)
            return angle / (2.0 * math.pi * self.sigma)
        return math.sqrt(-2.0 * math.log(fraction)) / (2.0 * math.pi * self.sigma)


class ErrorFunction(TimeFunctionShape):
    """A step that rises as the error function, with half its value at ``delay`` (default: 6 σ).

    Force: amplitude = (1 + erf((t − delay) / (σ √2))) / 2, which remains at 1. For a moment tensor this is the
    cumulative moment, so that the rate is the Gaussian of the standard deviation σ.
    """

    sigma: PositiveDuration = Field(description="Standard deviation of the Gaussian that is the derivative, s.")
    delay: Duration | None = Field(
        default=None, description="Time at which half the value is reached, s; null: 6 sigma."
    )

    def _default_delay(self) -> float:
        return 6.0 * self.sigma

    @property
    def _derivative(self) -> Gaussian:
        return Gaussian(sigma=self.sigma, delay=self.delay)

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        return _error_step(self._since(time) / self.sigma)

    def rate(self, time: np.ndarray) -> np.ndarray:
        return self._derivative.rate(time)

    def released(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return self._since(time) * self.amplitude(time) + self.sigma**2 * self.rate(time)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        return self._derivative.support(fraction)

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        return self._derivative.maximum_frequency(fraction)

    def onset_amplitude(self) -> float:
        return float(self.amplitude(np.array(0.0)))


def _error_step(argument: np.ndarray) -> np.ndarray:
    """Return (1 + erf(x / √2)) / 2, the integral of the Gaussian of unit standard deviation and area."""
    return 0.5 * (1.0 + np.asarray(_erf(argument / math.sqrt(2.0)), dtype=float))


class Ricker(_RateOrMoment):
    """Force: amplitude = (1 − 2a) exp(−a), a = (π f (t − delay))², with a peak of 1 at ``delay`` (default: 1.2/f).

    The spectrum has its maximum at the ``frequency`` f. The area is zero, so that it cannot be a moment rate: it would
    not release any moment. With ``quantity: moment``, the moment itself is this wavelet. The
    far-field acceleration of a Gaussian moment rate with σ = 1/(√2 π f) is a Ricker wavelet of frequency f.
    """

    frequency: PositiveFrequency = Field(description="Frequency of the maximum of the spectrum, Hz.")
    delay: Duration | None = Field(default=None, description="Time of the peak, s; null: 1.2 / frequency.")
    quantity: Literal["moment"] | None = Field(default=None, description=_QUANTITY)

    def _default_delay(self) -> float:
        return 1.2 / self.frequency

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        a = (math.pi * self.frequency * self._since(time)) ** 2
        return (1.0 - 2.0 * a) * np.exp(-a)

    def _slope(self, time: np.ndarray) -> np.ndarray:
        since, square = self._since(time), (math.pi * self.frequency) ** 2
        a = square * since**2
        return 2.0 * square * since * (2.0 * a - 3.0) * np.exp(-a)

    def moment_refusal(self) -> str | None:
        if self.is_moment:
            return None
        sigma = 1.0 / (math.sqrt(2.0) * math.pi * self.frequency)
        return (
            "a Ricker wavelet has zero area and releases no moment; use the Gaussian of the same band, "
            f"{{gaussian: {{sigma: {sigma:.4g}}}}}, whose far-field acceleration is this wavelet, or quantity: "
            "moment if the moment itself is the wavelet"
        )

    def impulse(self, time: np.ndarray) -> np.ndarray:
        since = self._since(time)
        return since * np.exp(-((math.pi * self.frequency * since) ** 2))

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        # |1 − 2a| exp(−a) falls steadily beyond its side lobe at a = 3/2.
        largest = 40.0 - 2.0 * math.log(fraction)
        a = last_crossing(lambda a: np.abs(1.0 - 2.0 * a) * np.exp(-a), largest, fraction)
        if self.is_moment:  # of the rate, √a |2a − 3| exp(−a), whose largest value is 0.9759 at a = 0.275
            a = last_crossing(lambda a: np.sqrt(a) * np.abs(2.0 * a - 3.0) * np.exp(-a) / 0.9759, largest, fraction)
        half = math.sqrt(a) / (math.pi * self.frequency)
        return self.delay - half, self.delay + half

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # With s = (f'/f)²: spectrum s exp(1 − s), at most one.
        largest = 10.0 - 3.0 * math.log(fraction)
        if self.is_moment:  # of the rate: (2s/3)^(3/2) exp(3/2 − s)
            power = 1.5
            spectrum = last_crossing(lambda s: (s / power) ** power * np.exp(power - s), largest, fraction)
            return self.frequency * math.sqrt(spectrum)
        return self.frequency * math.sqrt(last_crossing(lambda s: s * np.exp(1.0 - s), largest, fraction))


class Brune(TimeFunctionShape):
    """Brune's (1970) source, which begins at ``delay``; τ = t − delay > 0.

    Moment tensor: rate = ω² τ exp(−ω τ), of unit area. Force: amplitude = ω τ exp(1 − ω τ), whose peak is 1 and whose
    area is e / ω. ω = 2π ``corner_frequency`` = 1 / ``rise_time``; give one of the two. Both have their maximum one
    rise time after their beginning.
    """

    corner_frequency: PositiveFrequency | None = Field(
        default=None, description="Corner frequency, Hz; alternative to rise_time."
    )
    rise_time: PositiveDuration | None = Field(default=None, description="1 / (2 pi corner_frequency), s.")
    delay: Duration = Field(default=0.0, description="Time of the beginning, s.")

    @model_validator(mode="after")
    def _one_scale(self) -> Brune:
        if (self.corner_frequency is None) == (self.rise_time is None):
            got = "has both corner_frequency and rise_time" if self.rise_time else "has no time scale"
            raise refusal(got, "give one of corner_frequency and rise_time = 1 / (2π corner_frequency)")
        return self

    @property
    def angular_frequency(self) -> float:
        """ω in rad/s."""
        return 1.0 / self.rise_time if self.rise_time else 2.0 * math.pi * float(self.corner_frequency or 0.0)

    def _phase(self, time: np.ndarray) -> np.ndarray:
        """Return ω τ; zero before the beginning."""
        return self.angular_frequency * np.maximum(self._since(time), 0.0)

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        phase = self._phase(time)
        return phase * np.exp(1.0 - phase)

    def rate(self, time: np.ndarray) -> np.ndarray:
        phase = self._phase(time)
        return self.angular_frequency * phase * np.exp(-phase)

    def released(self, time: np.ndarray) -> np.ndarray:
        phase = self._phase(time)
        return 1.0 - (1.0 + phase) * np.exp(-phase)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return math.e / self.angular_frequency * self.released(time)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        largest = 10.0 - 3.0 * math.log(fraction)
        tail = last_crossing(lambda phase: phase * np.exp(1.0 - phase), largest, fraction)
        return self.delay, self.delay + tail / self.angular_frequency

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # Spectrum 1 / (1 + (f/f_c)²).
        return self.angular_frequency / (2.0 * math.pi) * math.sqrt(1.0 / fraction - 1.0)


class Triangle(TimeFunctionShape):
    """A symmetric triangle with the ``half_duration`` h; ``delay`` is the center (default: h).

    Moment tensor: rate = (1 − |t − delay| / h) / h, of unit area. Force: amplitude = 1 − |t − delay| / h, whose peak
    is 1 and whose area is h. Both are 0 outside.
    """

    half_duration: PositiveDuration = Field(description="Time from the beginning to the peak, s.")
    delay: Duration | None = Field(
        default=None, description="Time of the peak, s; null: half_duration, so that it begins at time 0."
    )

    def _default_delay(self) -> float:
        return self.half_duration

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - np.abs(self._since(time)) / self.half_duration, 0.0)

    def rate(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time) / self.half_duration

    def released(self, time: np.ndarray) -> np.ndarray:
        position = np.clip(self._since(time) / self.half_duration, -1.0, 1.0)
        return 0.5 + position - 0.5 * position * np.abs(position)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return self.half_duration * self.released(time)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        return self.delay - self.half_duration, self.delay + self.half_duration

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # Spectrum sinc²(f h) ≤ 1 / (π f h)².
        bound = 1.0 / (math.pi * math.sqrt(fraction))
        return last_crossing(lambda f: np.sinc(f) ** 2, bound, fraction) / self.half_duration


class Boxcar(TimeFunctionShape):
    """A constant for delay ≤ t < delay + duration: ``delay`` is the beginning.

    Moment tensor: rate = 1 / duration, of unit area. Force: amplitude = 1, of the area ``duration``.
    """

    duration: PositiveDuration = Field(description="Time from the beginning to the end, s.")
    delay: Duration = Field(default=0.0, description="Time of the beginning, s.")

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        since = self._since(time)
        return np.where((since >= 0.0) & (since < self.duration), 1.0, 0.0)

    def rate(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time) / self.duration

    def released(self, time: np.ndarray) -> np.ndarray:
        return np.clip(self._since(time) / self.duration, 0.0, 1.0)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        return self.duration * self.released(time)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        return self.delay, self.delay + self.duration

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # Spectrum |sinc(f T)| ≤ 1 / (π f T).
        bound = 1.0 / (math.pi * fraction)
        return last_crossing(lambda f: np.abs(np.sinc(f)), bound, fraction) / self.duration


class SmoothedStep(TimeFunctionShape):
    """A step that rises during ``rise_time`` T, starting at ``delay``, with p = (t − delay)/T between 0 and 1.

    For a force, amplitude = p − sin(2πp)/(2π), and one afterwards: the force remains. For a moment tensor this is
    the cumulative moment, so rate = (1 − cos(2πp))/T, a pulse of length T and unit area.
    """

    rise_time: PositiveDuration = Field(description="Time from zero to the full value, s.")
    delay: Duration = Field(default=0.0, description="Time of the beginning of the rise, s.")

    def _progress(self, time: np.ndarray) -> np.ndarray:
        return np.clip(self._since(time) / self.rise_time, 0.0, 1.0)

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        progress = self._progress(time)
        return progress - np.sin(2.0 * math.pi * progress) / (2.0 * math.pi)

    def rate(self, time: np.ndarray) -> np.ndarray:
        return (1.0 - np.cos(2.0 * math.pi * self._progress(time))) / self.rise_time

    def released(self, time: np.ndarray) -> np.ndarray:
        return self.amplitude(time)

    def impulse(self, time: np.ndarray) -> np.ndarray:
        progress = self._progress(time)
        rise = 0.5 * progress**2 + (np.cos(2.0 * math.pi * progress) - 1.0) / (2.0 * math.pi) ** 2
        return self.rise_time * rise + np.maximum(self._since(time) - self.rise_time, 0.0)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        return self.delay, self.delay + self.rise_time

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        # Spectrum of the rate |sinc(x) / (1 − x²)|, x = f T: 1/2 at x = 1, at most 4 / (3 π x³) for x ≥ 2.
        def spectrum(x: np.ndarray) -> np.ndarray:
            beyond = np.where(x == 1.0, 2.0, 1.0 - x**2)
            return np.where(x == 1.0, 0.5, np.abs(np.sinc(x) / beyond))

        bound = max(2.0, (4.0 / (3.0 * math.pi * fraction)) ** (1.0 / 3.0))
        return last_crossing(spectrum, bound, fraction) / self.rise_time


class TimeFunction(DescriptionModel):
    """The time function of a source: exactly one of the following shapes, which implements all methods."""

    gaussian: Gaussian | None = Field(default=None, description="A Gaussian.")
    ricker: Ricker | None = Field(
        default=None, description="A Ricker wavelet of a force, or with quantity: moment of the moment."
    )
    error_function: ErrorFunction | None = Field(
        default=None, description="A rise of a force, or of the cumulative moment, as the error function."
    )
    brune: Brune | None = Field(default=None, description="The omega-squared source model.")
    triangle: Triangle | None = Field(default=None, description="A symmetric triangle.")
    boxcar: Boxcar | None = Field(default=None, description="A constant rate for a given time.")
    smoothed_step: SmoothedStep | None = Field(
        default=None, description="A smooth rise of a force, or of the cumulative moment."
    )
    samples: SampledFunction | None = Field(default=None, description="Samples from a list or a file.")

    @model_validator(mode="before")
    @classmethod
    def _from_shape(cls, value: object) -> object:
        """Accept a bare shape, as Python code gives it."""
        for name, field in cls.model_fields.items():
            if isinstance(value, TimeFunctionShape) and type(value) in getattr(field.annotation, "__args__", ()):
                return {name: value}
        if not isinstance(value, (dict, TimeFunction)):
            keys = ", ".join(cls.model_fields)
            raise refusal(f"{shown(value)} is not a time function", f"expected one key with its values, of: {keys}")
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> TimeFunction:
        given = self._given(*type(self).model_fields)
        if len(given) != 1:
            got = f"has several shapes: {', '.join(given)}" if given else "has no shape"
            raise refusal(got, f"give exactly one of: {', '.join(type(self).model_fields)}")
        return self

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    @property
    def final(self) -> float:
        """The cumulative moment at the end: 1, or 0 if the moment itself returns to zero."""
        return self.shape.final

    @property
    def is_moment(self) -> bool:
        """True if the moment has this shape, not its rate."""
        return isinstance(self.shape, _RateOrMoment) and self.shape.is_moment

    @property
    def kind(self) -> str:
        """The key of the shape: ``"gaussian"`` ..."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def shape(self) -> TimeFunctionShape:
        """The shape itself."""
        return getattr(self, self.kind)

    def amplitude(self, time: np.ndarray) -> np.ndarray:
        """Return the factor of a force at times in s: dimensionless, of the shape of ``time``, with a peak of one.

        The area is not one: `impulse` returns it. Samples keep their own values, and a smoothed step stays at one.
        """
        return self.shape.amplitude(np.asarray(time, dtype=float))

    def rate(self, time: np.ndarray) -> np.ndarray:
        """Return the moment-rate shape at times in s: unit area, in 1/s, of the shape of ``time``.

        If the moment itself has the shape of the function (``quantity: moment``), this is its derivative.

        Raises
        ------
        InputError
            when the function has no area (:meth:`moment_refusal`).
        """
        return self.shape.rate(np.asarray(time, dtype=float))

    def released(self, time: np.ndarray) -> np.ndarray:
        """Return the cumulative moment at each time, from 0 to `final`: the exact integral of :meth:`rate`.

        ``(released(t + dt/2) - released(t - dt/2)) / dt`` is the mean rate over a time step; it keeps the
        whole moment of functions with corners or jumps, which single samples of the rate do not.
        """
        return self.shape.released(np.asarray(time, dtype=float))

    def impulse(self, time: np.ndarray) -> np.ndarray:
        """Return the exact integral of :meth:`amplitude` from the beginning to each time, s."""
        return self.shape.impulse(np.asarray(time, dtype=float))

    def moment_refusal(self) -> str | None:
        """Return why a moment tensor cannot have this time function; None if it can."""
        return self.shape.moment_refusal()

    def maximum_frequency(self, fraction: float = 0.05) -> float:
        """Return the frequency in Hz beyond which the amplitude spectrum stays below ``fraction`` of its maximum.

        Of a smoothed step it is that of the rate, also for a force: the waves that leave follow the rise,
        while the spectrum of a step has no maximum.

        Raises
        ------
        ValueError
            when the fraction does not lie between 0 and 1.
        """
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
        return self.shape.maximum_frequency(fraction)

    def support(self, fraction: float = 1e-3) -> tuple[float, float]:
        """Return the first and last time in s between which the function may exceed ``fraction`` of its peak.

        Of a smoothed step it is that of the rate.
        """
        return self.shape.support(fraction)

    def duration(self) -> float:
        """Return the length of :meth:`support` in s, during which the source acts."""
        start, end = self.support()
        return end - start

    def onset_amplitude(self) -> float:
        """Return the largest value before time 0, which a run truncates, relative to the peak.

        0 for a function that begins at time 0 or later; more than 1e-3 deserves a warning.
        """
        return self.shape.onset_amplitude()

    def input_files(self) -> list[Path]:
        """Return the files that the function refers to."""
        return self.shape.input_files()
