"""Boxes of tetrahedra whose columns merge at interfaces: they fit together, and are as wide as the layers permit."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave import InputError
from lithowave.mesh import face_vertices, graded_box, split_hexahedra
from tetrahedra_plans import check_conforming


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -3 + 0.3 * np.sin(0.7 * x + y)


PLANS = {
    "one": lambda: graded_box((0, 8), (0, 12), [0, -2, -8], [1, 2]),
    "two at once": lambda: graded_box((0, 8), (0, 8), [0, -2, -14], [1, 4]),
    "two": lambda: graded_box((0, 8), (0, 8), [0, -2, -4, -12], [1, 2, 4]),
    "uneven": lambda: graded_box((0, 8), (0, 6), [0, hill, -8], [1, 2]),
}


@pytest.mark.parametrize("name", PLANS)
def test_elements_fit_together_and_fill_the_layers(name: str) -> None:
    plan = PLANS[name]()
    mesh = split_hexahedra(plan.build())
    check_conforming(mesh)
    x, y = np.ptp(plan.x), np.ptp(plan.y)
    assert mesh.volumes().sum() == pytest.approx(-x * y * plan.interfaces[-1])
    for layer, (top, bottom) in enumerate(zip(plan.interfaces[:-1], plan.interfaces[1:], strict=True)):
        if not callable(top) and not callable(bottom):
            assert mesh.volumes()[mesh.materials == layer].sum() == pytest.approx(x * y * (top - bottom))
    for end, area in (("z_min", x * y), ("z_max", x * y), ("x_min", -y * plan.interfaces[-1])):
        a, b, c = np.moveaxis(mesh.vertices[face_vertices(mesh, mesh.boundaries[end])], 1, 0)
        assert np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2 == pytest.approx(area)
    assert plan.element_count == plan.build().element_count


def test_other_cuts_and_impossible_boxes_are_refused() -> None:
    with pytest.raises(ValueError, match="graded box 'twelve'"):
        split_hexahedra(PLANS["one"]().build(), "five")
    with pytest.raises(InputError, match="layer 0: at x = .* its top is at z = 0"):
        graded_box((0, 8), (0, 8), [0, 1, -2], [1, 1])
    with pytest.raises(InputError, match=r"layer 2: has 2e\+07 elements"):
        graded_box((0, 8), (0, 8), [0, -1, -2e7], [1, 1])
