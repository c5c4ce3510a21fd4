"""Slots for shots that run at the same time: the device, or the number of threads, of each."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from importlib.util import find_spec

from lithowave.backends import cpu
from lithowave.backends.cuda_driver import driver_library
from lithowave.description.simulation import Simulation


@dataclass(frozen=True)
class ShotSlot:
    """Resources of one shot. environment : of its process. threads : None leaves the number to the description."""

    environment: dict[str, str] = field(default_factory=dict)
    threads: int | None = None


def shot_slots(simulation: Simulation) -> list[ShotSlot]:
    """Return a slot for each shot that runs at the same time.

    By default there is one slot per CUDA device that the run may use, or one slot with all cores; ``survey.at_once``
    sets another number, and the slots then share devices or cores evenly.
    """
    assert simulation.survey is not None
    devices = [] if simulation.compute.backend == "cpu" else visible_devices()
    count = simulation.survey.at_once or max(1, len(devices))
    if devices:
        return [ShotSlot({"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}) for number in range(count)]
    threads = simulation.compute.threads or (max(1, cpu.usable_cores() // count) if count > 1 else None)
    return [ShotSlot({}, threads) for _ in range(count)]


def visible_devices() -> list[str]:
    """Return the CUDA devices that this process may use, as in CUDA_VISIBLE_DEVICES; empty without CuPy.

    The number of devices is read from the driver, which allocates no device memory.
    """
    library = driver_library() if find_spec("cupy") is not None else None
    if library is None:
        return []
    count = ctypes.c_int()
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(count.value)] if listed is None else listed.split(",")
    return [name.strip() for name in names[: count.value]]
