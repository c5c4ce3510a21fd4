"""On what the simulation is computed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from .base import DescriptionModel, refusal
from .units import Count

AVAILABLE_BACKENDS = ("cpu",)


class Compute(DescriptionModel):
    """Device, precision and threads."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto takes the best device that is there; cpu; cuda."
    )
    precision: Literal["single", "double"] = Field(
        default="single", description="Floating-point precision of the wavefield and of the seismograms."
    )
    threads: Count | None = Field(default=None, description="Threads of the CPU backend; null: all cores.")

    @field_validator("backend", mode="after")
    @classmethod
    def _available(cls, value: str) -> str:
        if value not in ("auto", *AVAILABLE_BACKENDS):
            raise refusal(
                f"the backend {value!r} is not available in this version",
                f"available: auto, {', '.join(AVAILABLE_BACKENDS)}",
            )
        return value
