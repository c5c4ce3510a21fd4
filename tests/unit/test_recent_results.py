"""Stored results of functions of positions."""

from __future__ import annotations

import copy

from lithowave.media import RecentResults


def test_the_oldest_results_are_removed() -> None:
    made: list[int] = []
    results = RecentResults[int](10, lambda value: value)

    def get(value: int) -> int:
        return results.get(value, lambda: made.append(value) or value)

    assert [get(value) for value in (3, 4, 3, 2)] == [3, 4, 3, 2] and made == [3, 4, 2]
    get(5)  # 4 is the oldest, since 3 was used after it
    assert [get(value) for value in (3, 2, 5)] == [3, 2, 5] and made == [3, 4, 2, 5]
    assert get(4) == 4 and made[-1] == 4
    assert get(11) == 11 and copy.deepcopy(results).get(11, lambda: -1) == -1  # too large to be stored
