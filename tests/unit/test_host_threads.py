"""Functions over parts of arrays in several threads."""

from __future__ import annotations

import subprocess
import sys
import threading

import numba
import pytest
import threadpoolctl

from lithowave.backends import cpu, over_parts
from lithowave.backends.loops import parts_in_order


@pytest.mark.parametrize("threads", [1, 3])
def test_every_part_is_computed_once_and_in_order(threads: int) -> None:
    assert over_parts(lambda part: (part.start, part.stop), 10, 4, threads) == [(0, 4), (4, 8), (8, 10)]
    assert over_parts(lambda part: part, 0, 4, threads) == []


def test_parts_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=30)
    assert over_parts(lambda part: meeting.wait() >= 0, 3, 1, 3) == [True] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_of_the_first_part_is_raised(threads: int) -> None:
    def fail(part: slice) -> None:
        raise ValueError(f"part {part.start}")

    with pytest.raises(ValueError, match="part 0"):
        over_parts(fail, 5, 1, threads)


def test_products_of_matrices_take_one_thread_in_parts_that_run_at_the_same_time() -> None:
    """Also in the rest of two calls that overlap; afterwards, the number of threads is the one before."""

    def threads(_part: slice | None = None) -> set[int]:
        found = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
        return {library["num_threads"] for library in found}

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("the BLAS library of NumPy has one thread")
        first, second = (parts_in_order(threads, 8, 1, 2) for _ in range(2))
        assert next(first) == next(second) == {1}
        assert list(first) == [{1}] * 7 and threads() == {1}
        assert list(second) == [{1}] * 7 and threads() == {2}
        assert over_parts(threads, 2, 1, 1) == [{2}] * 2  # one after the other


@pytest.mark.parametrize(("requested", "processes", "expected"), [(None, 1, 3), (None, 2, 1), (None, 4, 1), (2, 1, 2)])
def test_threads_share_the_usable_cores(
    monkeypatch: pytest.MonkeyPatch, requested: int | None, processes: int, expected: int
) -> None:
    """By default one on each core; conftest.py states one core, as the tests use all."""
    monkeypatch.setattr(cpu, "usable_cores", lambda: 3)
    try:
        assert cpu.set_threads(requested, processes) == numba.get_num_threads() == expected
    finally:
        cpu.set_threads(1)


def test_a_forked_process_has_its_own_threads() -> None:
    lines = (
        "import os", "from lithowave.backends.loops import over_parts",
        "square = lambda part: part.start**2", "assert over_parts(square, 3, 1, 2) == [0, 1, 4]", "child = os.fork()",
        "if child == 0: os._exit(over_parts(square, 3, 1, 2) != [0, 1, 4])",
        "assert os.waitpid(child, 0)[1] == 0",
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)
