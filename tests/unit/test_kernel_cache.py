"""The cache of compiled kernels on disk, with processes that compile at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from lithowave.backends.kernel_cache import njit

def make(order):
    @njit(cache=True)
    def scaled(value):
        return order * value
    return scaled

for order in (2, 4):
    kernel = make(order)
    assert kernel(3.0) == order * 3.0 and kernel(3) == order * 3
    print(order, sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
"""


ANNOUNCED = """
from lithowave.backends.kernel_cache import njit
from lithowave.cli.printing import announcing_compilation

helper = njit()(lambda value: value + 1)

@njit(cache=True)
def kernel(value):
    return helper(value)

with announcing_compilation():
    helper(2.0)  # is not stored, and compiled by every process
    assert kernel(3.0) == 4.0 and kernel(3) == 4
kernel(3j)
"""


def test_compilation_is_announced_once_and_only_if_the_cache_lacks_a_kernel(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ANNOUNCED, encoding="utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command, texts = [sys.executable, str(script)], []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
        assert done.stdout == ""
        texts.append(done.stderr)
    assert texts[0].count("compiling kernels for this processor, up to a minute") == 1 and texts[1] == ""


def test_a_second_process_finds_all_variants(tmp_path: Path) -> None:
    """Closures with other constants and other types: compiled in the first process, read in the second."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    results = [
        subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert results == ["2 0 2\n4 0 2\n", "2 2 0\n4 2 0\n"]
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 4 and not list((tmp_path / "cache").rglob("*.nbi"))


CALLER = """
import numpy as np
from called import make
from lithowave.backends.kernel_cache import njit

scaled = make()

@njit(cache=True)
def total(values):
    return scaled(values[0]) + values[1]

print(total(np.ones(2)), sum(total.stats.cache_hits.values()))
"""
CALLED = """
from lithowave.backends.loops import row

FACTOR = 2.0

def make():
    @row
    def scaled(value):
        return FACTOR * value
    return scaled
"""


def test_a_change_of_a_called_function_in_another_file_compiles_the_kernel_again(tmp_path: Path) -> None:
    """The code of the called function, or a constant there, has changed; a comment has no effect."""
    caller, called = tmp_path / "caller.py", tmp_path / "called.py"
    caller.write_text(CALLER)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def printed(source: str) -> str:
        called.write_text(source)
        run = subprocess.run([sys.executable, caller], env=environment, capture_output=True, text=True, check=True)
        return run.stdout

    assert [printed(CALLED), printed(CALLED + "# a comment")] == ["3.0 0\n", "3.0 1\n"]
    assert printed(CALLED.replace("2.0", "5.0")) == "6.0 0\n"
    assert printed(CALLED.replace("FACTOR * value", "FACTOR * value * value + 1.0")) == "4.0 0\n"


DIGESTS = """
from lithowave.backends.kernel_cache import code_digest
from lithowave.solvers.discontinuous_galerkin import kernels as tetrahedra
from lithowave.solvers.finite_difference.kernels import update_stress
from lithowave.solvers.spectral_element import element_kernels as hexahedra
from lithowave.solvers.spectral_element.fluid_kernels import make_add_fluid_forces

made = [
    tetrahedra.make_step(3, False, True, 0, "single"), tetrahedra.make_step(2, True, False, 3, "double"),
    tetrahedra.make_complete(3, False, False, "single"),
    hexahedra.make_add_forces(4, "triquadratic", False, True, 1, 0, 0, "single"),
    hexahedra.make_add_forces(2, "affine", True, False, 0, 3, 1, "double"),
    make_add_fluid_forces(4, "trilinear", False, 1, "single"), update_stress,
]
for function in made:
    kernels = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()] + [function]
    print(*(code_digest(kernel.py_func) for kernel in kernels if getattr(kernel, "stats", None) is not None))
"""


def test_the_digest_of_kernels_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Also if Python compiles the modules in the first process and loads their compiled form in the second; otherwise
    kernels would be compiled again. Different kernels have different digests."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    results = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS], env=environment | {"PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert results[0] == results[1]
    assert len(set(results[0])) == 7 and all(len(line) == 64 for line in results[0])
