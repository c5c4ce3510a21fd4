"""Kernels that other processes compile: the list of kernels, and claims of compilations."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lithowave.backends import BusyError, Selection, claim, kernel_cache, release_claim
from lithowave.backends import kernel_cache as compile_processes
from lithowave.solvers import METHODS

HOLDER = """
import sys, time
from lithowave.backends.kernel_cache import claim, release_claim
claim(sys.argv[1], "kernel", 0.0)
print("claimed", flush=True)
sys.stdin.readline()
if sys.argv[2] == "release":
    release_claim(sys.argv[1], "kernel")
    time.sleep(60)
"""

KERNEL = """
import sys
from numba import float64
from lithowave.backends.kernel_cache import BusyError, VariantFiles, njit

@njit(cache=True)
def kernel(value):
    return value + 1.0

if sys.argv[1] == "first":
    assert kernel._cache.load_overload((float64,), kernel.targetctx) is None  # and thus claimed
    print("claimed", flush=True)
    sys.stdin.readline()
VariantFiles.waits = sys.argv[1] != "refuses"
try:
    assert kernel(1.0) == 2.0
    print(sum(kernel.stats.cache_misses.values()), flush=True)
except BusyError:
    print("busy", flush=True)
"""


@pytest.mark.parametrize("method", METHODS)
def test_listed_kernels_exist_and_are_cached(method: str) -> None:
    entries = Selection(method, "single", (4, 5), False).listed()
    assert len(entries) >= 5
    for *place, texts in entries:
        kernel, arguments = compile_processes.loaded(*place, texts)
        assert [repr(argument) for argument in arguments] == texts
        assert len(arguments) == len(kernel.py_func.__code__.co_varnames[: kernel.py_func.__code__.co_argcount])
        kernel_cache.is_stored(kernel, arguments)  # raises an error if it is not cached


@pytest.mark.parametrize("ending", ["release", "exit"])
def test_a_claim_ends_with_its_release_or_process(tmp_path: Path, ending: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), ending]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdin is not None and other.stdout is not None
            assert other.stdout.readline() == "claimed\n"
            with pytest.raises(BusyError):
                claim(str(tmp_path), "kernel", 0.0)
            assert claim(str(tmp_path), "another", 0.0) is False  # the claim is of one kernel
            begin = time.monotonic()
            assert claim(str(tmp_path), "kernel", 0.2) is True
            assert time.monotonic() - begin >= 0.2
            other.stdin.write("\n")
            other.stdin.flush()
            begin = time.monotonic()
            claim(str(tmp_path), "kernel", 30.0)  # the other may have released it already
            assert time.monotonic() - begin < 25.0
        finally:
            other.kill()
    release_claim(str(tmp_path), "kernel")


def test_a_kernel_is_compiled_by_one_process_at_a_time(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(KERNEL, encoding="utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def begin(role: str) -> subprocess.Popen:
        command = [sys.executable, str(script), role]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    with begin("first") as first:
        assert first.stdout is not None and first.stdout.readline() == "claimed\n"
        with begin("refuses") as refuses, begin("waits") as waits:
            assert refuses.communicate()[0] == "busy\n"
            assert first.communicate("\n")[0] == "1\n"  # compiled here
            assert waits.communicate()[0] == "0\n"  # and read there


FIRST_CLAIMED = """
import sys
from lithowave.backends.kernel_cache import Selection, is_stored, loaded

first, second = (loaded(*entry) for entry in Selection("finite_difference", "double", (4,), False).listed())
kernel, arguments = first
assert kernel._cache.load_overload(arguments, kernel.targetctx) is None  # and thus claimed
print("claimed", flush=True)
sys.stdin.readline()
print(is_stored(*first), is_stored(*second), flush=True)
"""


def test_a_process_that_compiles_ahead_does_not_wait_for_another_one(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_CLAIMED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout is not None and other.stdout.readline() == "claimed\n"
        ahead = compile_processes.command(Selection("finite_difference", "double", (4,), False))
        subprocess.run(ahead, env=environment, check=True, timeout=100)  # s; less than it would wait
        assert other.communicate("\n")[0] == "False True\n"
