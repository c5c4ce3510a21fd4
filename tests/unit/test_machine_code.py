"""Machine code of a kernel is generated once, and that of functions that it calls only if Python calls them."""

from __future__ import annotations

import gc

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import TypingError

from lithowave.backends import INNER_LIBRARIES, REPLACED, kernel_cache


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


@pytest.mark.parametrize("options", [{}, {"forceinline": True}, {"cache": True}])
def test_functions_of_kernels_have_machine_code_only_for_python(generated, options, tmp_path, monkeypatch) -> None:
    """Two functions with the same types are not mixed up. Those that are stored on disk have machine code."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    rows = [kernel_cache.njit(**options)(function) for function in (lambda x, y: x - y, lambda x, y: y * x)]
    first, second = rows

    def combined(x, y):
        return first(x, y) + 10 * second(x, y)

    assert kernel_cache.njit()(combined)(5.0, 3.0) == 152.0
    assert len(generated) == (3 if "cache" in options else 1)
    assert [row(5.0, 3.0) for row in rows for _ in range(2)] == [2.0, 2.0, 15.0, 15.0]
    assert len(generated) == 3
    assert first(5, 3) == 2 and len(generated) == 4, "other types, called from Python only"


def test_a_failed_compilation_leaves_numba_unchanged() -> None:
    before = [getattr(owner, name) for owner, name in REPLACED]
    for _ in range(2):
        with pytest.raises(TypingError):
            kernel_cache.njit(parallel=True)(sums)("text", "text")
    assert [getattr(owner, name) for owner, name in REPLACED] == before and gc.isenabled()
