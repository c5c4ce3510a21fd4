"""Tests of ranks, restarts, CUDA twins and stored references with the CPU kernels compiled for other processors.

The width of vectors and the fusing of operations depend on the processor, so two loops that compute the same bits on
one processor may differ on another. Numba compiles for the processor that NUMBA_CPU_NAME names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

TESTS = Path(__file__).parents[1]
AVX512 = ("avx512bw", "avx512cd", "avx512dq", "avx512vl")
PROCESSORS = {  # and the instruction sets without which their code cannot be executed
    "generic": (),
    "x86-64-v2": ("sse4.2",),
    "x86-64-v3": ("avx2", "bmi2", "fma"),
    "skylake-avx512": AVX512,
    "icelake-server": (*AVX512, "avx512vbmi2", "gfni", "vaes"),
    "znver4": (*AVX512, "avx512bf16", "avx512vbmi2", "gfni", "vaes"),
}
SELECTION = (
    "ranks/test_runs_on_ranks.py", "ranks/test_spectral_element_ranks.py",
    "ranks/test_discontinuous_galerkin_ranks.py",
    "integration/test_resumed_runs.py", "integration/test_same_process.py",
    "twins/test_cuda_twins.py", "twins/test_spectral_element_twins.py", "twins/test_discontinuous_galerkin_twins.py",
    "verification/test_chino_hills.py", "verification/test_verification_loh1.py",
)  # fmt: skip
SHORT_SELECTION = (
    "ranks/test_runs_on_ranks.py::test_several_ranks_give_the_results_of_one[grid, threads]",
    "integration/test_resumed_runs.py::test_a_run_that_is_stopped_gives_the_same_bits[grid, displacement]",
    "integration/test_same_process.py::test_the_number_of_threads[finite_difference]",
)


def missing_features(processor: str) -> list[str]:
    """Instruction sets of the processor that this machine does not have."""
    features = get_host_cpu_features()
    return [name for name in PROCESSORS[processor] if not features.get(name)]


def run_tests(processor: str, selection: Sequence[str], folder: Path) -> None:
    """Run tests in a new process whose kernels are compiled for the processor; they use 1 to 4 threads."""
    # Instructions that are not in PROCESSORS and that this machine lacks are not needed for speed: they are left out.
    lacking = [f"-{name}" for name, available in get_host_cpu_features().items() if not available]
    environment = os.environ | {
        "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ",".join(lacking), "NUMBA_NUM_THREADS": "4",
        "NUMBA_CACHE_DIR": str(folder / "kernels"),
    }  # fmt: skip
    options = ["-q", "--all", "-p", "no:cacheprovider", f"--basetemp={folder / 'results'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(TESTS / name) for name in selection)],
        env=environment, cwd=TESTS.parent, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.slow
def test_ranks_and_restarts_on_a_generic_processor(tmp_path: Path) -> None:
    """The smallest instruction set of x86-64: vectors of 16 bytes, no fused operations."""
    run_tests("generic", SHORT_SELECTION, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor(tmp_path: Path, processor: str) -> None:
    missing = missing_features(processor)
    if missing:
        pytest.skip(f"this machine cannot execute code for {processor}: no {', '.join(missing)}")
    run_tests(processor, SELECTION, tmp_path)
