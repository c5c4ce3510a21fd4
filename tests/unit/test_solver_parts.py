"""Parts that all solvers share: kernel arguments, amplitudes in blocks, records, lists of launches, maxima."""

from __future__ import annotations

import numpy as np
import pytest

from fake_ranks import on_ranks
from lithowave import InputError
from lithowave.backends import CpuBackend
from lithowave.parallel import Ranks
from lithowave.solvers.common import BLOCK, AmplitudeRow, AmplitudeTable, count_step
from lithowave.solvers.elements import PointLocations, require_located, resolve_owners


@pytest.fixture
def backend() -> CpuBackend:
    return CpuBackend("double", 1)


class Steps:
    """Amplitudes that are the numbers of the steps."""

    def __init__(self) -> None:
        self.loaded: list[int] = []

    def block(self, step: int) -> np.ndarray:
        self.loaded.append(step)
        return (step - step % BLOCK + np.arange(BLOCK, dtype=float))[:, None]


@pytest.mark.parametrize("count", [1, 4])
def test_the_row_of_a_step_has_its_amplitudes(backend: CpuBackend, count: int) -> None:
    """Also after a jump in time, and if the kernels count `count` rows between two calls; a block is loaded once."""
    amplitudes = Steps()
    table = AmplitudeTable(backend, amplitudes, 1)
    row = AmplitudeRow(backend, [table])
    for first in (0, 3 * BLOCK // 2):
        for step in range(first, first + 2 * BLOCK, count):
            row.begin(step, count)
            for n in range(count):
                assert table.array[row.array[0], 0] == step + n
                count_step(row.array)
    assert amplitudes.loaded == [0, BLOCK, 3 * BLOCK // 2, 2 * BLOCK, 3 * BLOCK]


def test_points_count_in_elements_of_all_ranks_or_in_the_nearest_one() -> None:
    """Point 0: in elements of both ranks; 1: near both; 2: in one, near the other; 3: nowhere."""

    def located(point: list[int], excess: list[float], key: list[int]) -> PointLocations:
        rows = len(point)
        return PointLocations(np.array(point), np.arange(rows), np.zeros((rows, 3)), np.array(excess), np.array(key))

    found = [
        located([0, 0, 1, 2], [0, 0, 0.2, 0.1], [9, 4, 5, 6]), located([0, 1, 2], [0, 0.2 + 1e-12, 0], [3, 2, 8])
    ]  # fmt: skip

    def resolve(ranks: Ranks) -> tuple:
        shared = resolve_owners(found[ranks.rank], ranks, np.array([10, 20, 30]))
        with pytest.raises(InputError, match="point 0 at"):
            require_located(shared, ranks, [f"point {n}" for n in range(40)], np.zeros((40, 3)), "receivers")
        return shared.locations.point.tolist(), shared.sharing.tolist(), shared.first.tolist()

    first, second = on_ranks(2, resolve)
    assert first == ([10, 10], [3, 3], [False, False])
    assert second == ([10, 20, 30], [3, 1, 1], [True, True, True])
