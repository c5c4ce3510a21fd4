"""On what the simulation is computed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Count, PositiveDuration


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
    threads: Count | None = Field(
        default=None, description="Threads of the CPU backend, in each process; null: all cores, shared evenly."
    )
    parts: tuple[Count, Count, Count] | None = Field(
        default=None,
        description="Parts along x, y, z for the ranks of mpiexec (finite_difference only); null: the best found.",
    )
    transport: Literal["auto", "peer", "nccl", "host"] = Field(
        default="auto",
        description="Between CUDA devices: peer copies by the devices' copy engines (one machine), NCCL, or host: "
        "page-locked main memory and MPI; auto: the first of these that all ranks can use.",
    )
    overlap: StrictBool = Field(
        default=True, description="false: messages are not hidden behind work; to measure what that is worth."
    )
    patience: PositiveDuration = Field(
        default=600.0, description="Time without a step after which ranks take another one for hung and end the run."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.moduli == "compact" and self.precision == "double":
            raise refusal("compact moduli are for single precision", "use precision: single", at=("moduli",))
        return self
