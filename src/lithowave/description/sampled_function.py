"""A time function given by samples, in a file or in Python."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lithowave.description.base import InputFile, reading
from lithowave.description.refusals import refusal
from lithowave.description.shape import TimeFunctionShape
from lithowave.description.spline import NaturalSpline
from lithowave.description.units import Duration, Number, PositiveDuration
from lithowave.readers.samples import read_samples

_AREA_LIMIT = 1e-3
"""Least |area| relative to the area of |f| that can be scaled to one; less is cancellation or rounding."""

_SPECTRUM_COUNT = 1 << 20
"""Most points at which unevenly spaced samples are interpolated for their spectrum."""


def _as_list(value: Any) -> Any:
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

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    @cached_property
    def _spline(self) -> NaturalSpline:
        """The spline in times that count from ``delay``."""
        values, times = np.asarray(self.values if self.values is not None else 0.0, dtype=float), None
        if self.file is not None:
            table = reading(read_samples, self.file)
            values, times = table.values, table.times
        if times is None:
            if self.interval is None:
                raise refusal(
                    "is missing", "a single column of samples needs the time between them", at=("interval",)
                )
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
