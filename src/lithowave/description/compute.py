"""The device and the parallel execution of a simulation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from lithowave.description.base import DescriptionModel
from lithowave.description.refusals import refusal
from lithowave.description.units import Count, PositiveDuration


class Compute(DescriptionModel):
    """Device, precision, threads and parallel execution."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="cpu, cuda, or auto: a CUDA device if one is usable, else the CPU."
    )
    precision: Literal["single", "double"] = Field(
        default="single", description="Floating-point precision of the wavefield and of the seismograms."
    )
    moduli: Literal["full", "compact"] = Field(
        default="full",
        description="compact: store the material in 16 bits per value on a GPU, and use the same rounded values on a "
        "CPU (finite_difference only).",
    )
    deterministic: StrictBool = Field(
        default=False,
        description="true: bitwise identical results in every run; slower on a GPU with spectral_element. The other "
        "methods always give bitwise identical results.",
    )
    threads: Count | None = Field(
        default=None,
        description="Threads per rank of the CPU backend, and of the preparation of a run on any device; null: all "
        "cores, shared equally by the ranks of a machine.",
    )
    parts: tuple[Count, Count, Count] | None = Field(
        default=None,
        description="Numbers of subdomains along x, y, z (finite_difference only); null: automatic.",
    )
    transport: Literal["auto", "peer", "nccl", "host"] = Field(
        default="auto",
        description="Communication between CUDA devices. peer: copy engines of the devices (one machine); nccl: NCCL; "
        "host: page-locked main memory and MPI; auto: the first of these that all ranks can use.",
    )
    overlap: StrictBool = Field(
        default=True, description="false: do not overlap communication and computation; for measurements."
    )
    patience: PositiveDuration = Field(
        default=600.0, description="Time without a completed step, s, after which the other ranks end the run."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.moduli == "compact" and self.precision == "double":
            raise refusal("compact moduli are for single precision", "use precision: single", at=("moduli",))
        return self
