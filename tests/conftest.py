"""Shared by all tests: no display, and GPU tests that never pass without a GPU."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# A run may request up to four threads, also where there are fewer cores.
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(4, os.cpu_count() or 1)))
# Several processes share the cores: threads that have nothing to do must not wait for the next kernel on a core, and
# small products of matrices take longer in several threads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests start hundreds of processes; each would compile all modules again if the bytecode were not stored.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`, which `./test` passes on."""
    parser.addoption("--all", action="store_true", help="run the slow tests too")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled CUDA emulations in pytest's cache, which all processes of the tests share."""
    if config.pluginmanager.has_plugin("cacheprovider"):
        os.environ.setdefault("LITHOWAVE_EMULATION_CACHE", str(config.cache.mkdir("emulation")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no worker is left with one of them at the end.

    Tests of the documentation come last, again the longest first: their processes then find the kernels compiled. The
    static checks require none.
    """
    first, last = ("test_processors.py", "test_style.py"), ("test_pages_in_order.py", "test_notebooks.py")

    def place(item: pytest.Item) -> int:
        name = item.path.name
        return 0 if name in first else 1 if item.path.parent.name != "docs" else 2 if name in last else 3

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Exclude imported modules and collected tests from garbage collections, and make these rarer.

    With the defaults of Python, tests of figures spend a fifth of their time in collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Let runs in this process use one thread unless they request more.

    Each core has a process of the tests. With a thread on each core, threads of different processes wait for each other
    at every kernel, and a run of a small model takes several times the processor time.
    """
    from lithowave.backends import cpu

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "usable_cores", lambda: 1)
        cpu.set_threads()
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip slow tests unless all were requested, and tests of a GPU where there is none."""
    if item.get_closest_marker("gpu") is not None:
        reason = missing_gpu()
        if reason and os.environ.get("LITHOWAVE_REQUIRE_GPU") == "1":
            pytest.fail(f"LITHOWAVE_REQUIRE_GPU=1, but {reason}", pytrace=False)
        if reason:
            pytest.skip(reason)
    elif item.get_closest_marker("slow") is not None and not runs_all(item.config):
        pytest.skip("slow; to run it: ./test --all, or ./test --all FILE::NAME")


def runs_all(config: pytest.Config) -> bool:
    """True if slow tests run: with `--all`, and where the tests write the figures of the documentation."""
    return config.getoption("--all") or os.environ.get("LITHOWAVE_WRITE_FIGURES") == "1"
