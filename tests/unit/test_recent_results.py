"""Stored results of functions of positions."""

from __future__ import annotations

import copy
import threading

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


def test_threads_get_the_results_of_their_keys() -> None:
    results, wrong = RecentResults[int](3, lambda _: 1), []

    def work() -> None:
        for number in range(2000):
            key = number % 7
            if results.get(key, lambda key=key: 10 * key) != 10 * key:
                wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
