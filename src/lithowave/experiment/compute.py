"""On what the simulation is computed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import DescriptionModel
from .units import Count


class Compute(DescriptionModel):
    """Device, precision and threads."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto takes the best device that is there; cpu; cuda."
    )
    precision: Literal["single", "double"] = Field(
        default="single", description="Floating-point precision of the wavefield and of the seismograms."
    )
    threads: Count | None = Field(default=None, description="Threads of the CPU backend; null: all cores.")
