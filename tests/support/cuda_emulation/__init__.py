"""CUDA on the CPU: the package's real kernels, compiled by the host's compiler and run thread by thread.

A test says ``backend = emulated_cuda("single")`` and uses it as it would use a `CudaBackend`. What a device would
punish by chance only (a missing barrier, a write beyond an array, a copy that nobody waited for, threads that wait for
ever) stops a launch here with an `EmulationError` or shows as NaN.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from .arrays import DeviceArray, EmulationError
from .backend import EmulatedCudaBackend
from .compiler import missing_compiler

__all__ = ["DeviceArray", "EmulatedCudaBackend", "EmulationError", "emulated_cuda"]


def emulated_cuda(precision: str = "single", **options: Any) -> EmulatedCudaBackend:
    """A new emulated device; see `EmulatedCudaBackend` for the options.

    Without a host compiler the test is skipped, or failed where ``LITHOWAVE_REQUIRE_EMULATION=1``.
    """
    reason = missing_compiler()
    if reason and os.environ.get("LITHOWAVE_REQUIRE_EMULATION") == "1":
        pytest.fail(f"LITHOWAVE_REQUIRE_EMULATION=1, but {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)
    return EmulatedCudaBackend(precision, **options)
