"""Shared by all tests: no display, and GPU tests that never pass without a GPU."""

from __future__ import annotations

import functools
import os

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")


@functools.cache
def missing_gpu() -> str:
    """Why no CUDA device can be used here; empty where one can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is not there ({error})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own error classes need a working driver to be told apart
        return f"no CUDA device ({error})"
    return "" if count > 0 else "no CUDA device"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    reason = missing_gpu()
    if not reason:
        return
    if os.environ.get("LITHOWAVE_REQUIRE_GPU") == "1":
        pytest.fail(f"LITHOWAVE_REQUIRE_GPU=1, but {reason}", pytrace=False)
    pytest.skip(reason)
