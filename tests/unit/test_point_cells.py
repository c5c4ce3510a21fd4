"""Points in boxes, found by the cells of a grid: against every point compared with every box."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.solvers.elements import PointCells

SETS = {
    "box": [1.0, 1.0, 1.0], "thin box": [1.0, 1.0, 1e-9], "plane": [1.0, 0.5, 0.0], "line": [0.0, 1.0, 0.0],
    "one place": [0.0, 0.0, 0.0],
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_points_in_boxes(name: str) -> None:
    random = np.random.default_rng(0)
    points = 5.0 + random.random((400, 3)) ** 3 * SETS[name]  # most of them near one corner
    middle, size = 5.0 + 1.4 * random.random((100, 3)) - 0.2, 0.3 * random.random((100, 3))
    middle[:50] = points[:50]
    low, high = middle - size, middle + size
    low[0] = high[0] = points[0]  # a box without extent
    expected = np.argwhere(((points >= low[:, None]) & (points <= high[:, None])).all(axis=2))
    box, point = PointCells.of(points).inside(low, high)
    order = np.lexsort((point, box))
    np.testing.assert_array_equal(np.column_stack([box, point])[order], expected)
    assert len(expected) >= 50
