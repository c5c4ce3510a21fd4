"""Machine code of a parallel kernel is generated once, and that of other functions as before."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.errors import TypingError

from lithowave.backends import kernel_cache
from lithowave.backends.machine_code import INNER_LIBRARIES


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


def test_a_failed_compilation_leaves_numba_unchanged() -> None:
    before = JITCodeLibrary._finalize_final_module, CPUContext.get_executable
    with pytest.raises(TypingError):
        kernel_cache.njit(parallel=True)(sums)("text", "text")
    assert (JITCodeLibrary._finalize_final_module, CPUContext.get_executable) == before
