"""Positions of the fields of a grid in main memory."""

from __future__ import annotations

import numpy as np

from lithowave.backends import PAGE, CpuBackend

LINE = 64  # bytes of a cache line


def test_fields_begin_at_different_sets_of_lines() -> None:
    """Fields are contiguous zeros; the first level of the cache holds a line of each of them in sets of its own."""
    backend, shape = CpuBackend("single", 1), (70, 71, 72)
    fields = [backend.field(shape, 2) for _ in range(12)]
    codes = backend.field(shape, 2, np.uint16)
    for field in (*fields, codes):
        assert field.shape == shape and field.flags.c_contiguous and not field.any()
        field[...] = 1  # the entire array belongs to it
    positions = [field.ctypes.data % PAGE for field in fields]
    assert all(position % LINE == 0 for position in positions)
    assert len(set(positions)) == len(fields)
    assert codes.dtype == np.uint16 and codes.ctypes.data % LINE == 0
