"""Machine code of a kernel is generated once, and its loops are vectorized."""

from __future__ import annotations

import gc
import platform
import re

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import TypingError

from lithowave.backends import INNER_LIBRARIES, REPLACED, kernel_cache
from lithowave.backends.loops import U
from lithowave.solvers.finite_difference.kernels import stress_row, stress_row_in_y


@numba.njit
def squared(value):
    return value * value


def sums(values, totals):
    for row in numba.prange(values.shape[0]):
        for column in range(values.shape[1]):
            totals[row] += squared(values[row, column])


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the libraries for which machine code is generated."""
    names: list[str] = []
    generate = JITCodeLibrary._finalize_specific

    def noted(library) -> None:
        names.append(library.name)
        generate(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", noted)
    return names


@pytest.mark.parametrize(("njit", "copies"), [(kernel_cache.njit, 0), (numba.njit, len(INNER_LIBRARIES))])
def test_inner_libraries_have_no_machine_code(generated, njit, copies: int) -> None:
    kernel = njit(parallel=True)(sums)
    values, totals = np.arange(12.0).reshape(3, 4), np.zeros(3)
    kernel(values, totals)
    assert np.array_equal(totals, (values**2).sum(axis=1))
    assert sum(any(inner in name for inner in INNER_LIBRARIES) for name in generated) == copies
    assert generated.count("sums") == 1


def rows_inside(fields, law, out_of, memory, profile, ratio, c):
    for plane in numba.prange(out_of):
        for row in range(U(out_of)):
            stress_row(U(plane) + U(2), row + U(2), U(2), U(out_of), *fields, law, ratio, c, c, c)


def rows_in_a_layer(fields, law, out_of, memory, profile, ratio, c):
    for plane in numba.prange(out_of):
        for row in range(U(out_of)):
            stress_row_in_y(
                U(plane) + U(2), row + U(2), U(2), U(0), U(out_of), *fields, law, memory, U(plane), row, profile,
                profile, ratio, c, c, c,
            )  # fmt: skip


@pytest.mark.parametrize("rows", [rows_inside, rows_in_a_layer])
def test_rows_of_many_arrays_are_vectorized_in_kernels(rows) -> None:
    """The stresses of finite differences: 11 arrays, with four divisions a point, in the vector loop and its remainder.

    Without vectors there are only the four scalar ones. Each is also in other copies of the function.
    """
    kernel = kernel_cache.njit(error_model="numpy", parallel=True)(rows)
    field, c = np.zeros((8, 8, 64), np.float32), (np.float32(1.1), np.float32(-0.04))
    memory, profile = np.zeros((8, 8, 3, 64), np.float32), (np.float32(0.9), np.float32(-0.1), np.float32(1))
    kernel(tuple(field.copy() for _ in range(9)), (field + 1, field + 1), 4, memory, profile, np.float32(0.1), c)
    (compiled,) = kernel.overloads.values()
    names = re.findall(r"v?div[ps]s", compiled.library.get_asm_str())
    if platform.machine() in ("x86_64", "AMD64"):
        assert names.count("vdivps") + names.count("divps") >= 4, names


def test_a_failed_compilation_leaves_numba_unchanged() -> None:
    before = [getattr(owner, name) for owner, name in REPLACED]
    for _ in range(2):
        with pytest.raises(TypingError):
            kernel_cache.njit(parallel=True)(sums)("text", "text")
    assert [getattr(owner, name) for owner, name in REPLACED] == before and gc.isenabled()
