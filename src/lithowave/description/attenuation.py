"""The keys of attenuation: frequency band, reference frequency, mechanisms, and frequency dependence of Q."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Band, PositiveFrequency, WholeNumber, quantity
from lithowave.rheology.body import MOST_MECHANISMS, SMALLEST_BAND
from lithowave.rheology.quality import CORNER_FREQUENCY, QualityLaw

DEFAULT_BAND = 100.0
"""Ratio of the ends of the band where it is not given."""

class Attenuation(DescriptionModel):
    """Attenuation of media with quality factors qp and qs: how Q is approximated, and where velocities apply.

    Q is qp and qs below ``corner_frequency`` and grows with frequency above it, as (f / corner_frequency)^exponent.
    ``mechanisms`` relaxation mechanisms approximate it within ``band``; ``lithowave check`` prints the largest
    deviation. Outside the band, attenuation decreases. Velocities of waves depend on frequency in media with
    attenuation; vp and vs are the phase velocities at ``reference_frequency``. If it is outside the band, those in the
    band follow the law of Q, as c ~ f^(arctan(1/Q) / pi) where Q is constant.
    """

    reference_frequency: PositiveFrequency | None = Field(
        default=None,
        description="Frequency at which vp and vs are the phase velocities, Hz; null: the geometric mean of the ends "
        "of the band.",
    )
    band: Band | None = Field(
        default=None,
        description="Lowest and highest frequency [low, high] of the approximation of Q, Hz; null: "
        "[max_frequency / 100, max_frequency].",
    )
    mechanisms: Annotated[int, WholeNumber(ge=1, le=MOST_MECHANISMS)] = Field(
        default=3,
        description="Number of relaxation mechanisms, 1 to 8. In a band of two decades, Q deviates by about 16%, 3%, "
        "0.6% and 0.1% with 2, 3, 4 and 5.",
    )
    exponent: quantity("number", ge=0, lt=1) = Field(  # type: ignore[valid-type]
        default=0.0, description="Exponent of the increase of Q above corner_frequency; 0: constant Q."
    )
    corner_frequency: PositiveFrequency = Field(
        default=CORNER_FREQUENCY, description="Frequency above which Q increases, Hz, if the exponent is above 0."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.band is None:
            return self
        low, high = self.band
        if not high >= SMALLEST_BAND * low:
            raise refusal(
                f"[{low:.12g}, {high:.12g}] Hz is not a band",
                f"the second frequency must be at least {SMALLEST_BAND:g} times the first one",
                at=("band",),
            )
        return self

    @property
    def law(self) -> QualityLaw:
        """Q as a function of frequency."""
        return QualityLaw(self.exponent, self.corner_frequency)

    def resolved_band(self, max_frequency: float | None) -> tuple[float, float] | None:
        """Return the band, Hz; None if it is not given, and the maximum frequency is unknown."""
        if self.band is not None:
            return self.band
        return None if max_frequency is None else (max_frequency / DEFAULT_BAND, max_frequency)

    def resolved_reference(self, band: tuple[float, float]) -> float:
        """Return the reference frequency for a band, Hz."""
        return math.sqrt(band[0] * band[1]) if self.reference_frequency is None else self.reference_frequency
