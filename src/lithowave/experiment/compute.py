"""On what the simulation is computed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from .base import DescriptionModel, refusal
from .units import Count


class Compute(DescriptionModel):
    """Device, precision and threads."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto takes the best device that is there; cpu; cuda."
    )
    precision: Literal["single", "double"] = Field(
        default="single", description="Floating-point precision of the wavefield and of the seismograms."
    )
    moduli: Literal["full", "compact"] = Field(
        default="full",
        description="compact: 16 bits for a number of the material on a GPU, the same rounded numbers on a CPU "
        "(finite_difference only).",
    )
    deterministic: StrictBool = Field(
        default=False,
        description="true: bitwise the same result in every run; slower on a GPU with spectral_element. "
        "finite_difference always gives it.",
    )
    threads: Count | None = Field(default=None, description="Threads of the CPU backend; null: all cores.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.moduli == "compact" and self.precision == "double":
            raise refusal("compact moduli are for single precision", "use precision: single", at=("moduli",))
        return self
