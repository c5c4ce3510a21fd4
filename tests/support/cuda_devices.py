"""Devices for tests of CUDA kernels: the emulation always, a real device where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuda_emulation import emulated_cuda
from lithowave.backends import make_backend

# The real device first: it is what the tests are about where there is one.
DEVICES = [pytest.param("device", marks=pytest.mark.gpu), "emulated"]


def make_device(kind: str, precision: str, **options: Any) -> Any:
    """A CUDA backend; options are those of the emulation."""
    if kind == "emulated":
        return emulated_cuda(precision, **options)
    return make_backend("cuda", precision)


def closeness(value: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference over the largest value."""
    largest = np.abs(expected).max(initial=0.0)
    return float(np.abs(value.astype(float) - expected).max(initial=0.0) / (largest or 1.0))


def rounding(precision: str) -> float:
    """What two orders of the same sums may differ by, relative to the largest value."""
    return 3e-6 if precision == "single" else 1e-14


def emulate(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None] = lambda backend: None, *,
    make: Callable[..., Any] = emulated_cuda, modules: tuple[str, ...] = ("run.launch", "run.check"), **options: Any,
) -> None:  # fmt: skip
    """From now on `compute.backend: cuda` is the emulation in these modules; `change` is done to each new one."""

    def made(name: str, precision: str, threads: int | None = None, *_ranks: Any) -> Any:
        if name != "cuda":
            return make_backend(name, precision, threads)
        backend = make(precision, **options)
        change(backend)
        return backend

    for module in modules:
        monkeypatch.setattr(f"lithowave.{module}.make_backend", made)
