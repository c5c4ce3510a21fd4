"""Upright elements and cuboids have kernels of their own, with the results of the general map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from element_kinds import kind_plan, quiet_solver
from lithowave.backends import make_backend
from lithowave.solvers.spectral_element import (
    AFFINE,
    CUBOID,
    GENERAL,
    UPRIGHT,
    ElementKind,
    SpectralElementPlan,
    element_shapes,
    fill_with_noise,
    map_coefficients,
)

GENERAL_SHAPES = {"upright": GENERAL, "cuboid": AFFINE}
KINDS = [
    ElementKind(shape, anisotropic, True, fluid=fluid)
    for shape in GENERAL_SHAPES for anisotropic, fluid in ((False, False), (True, False), (False, True))
]  # fmt: skip
KINDS += [ElementKind(shape, False, False, mechanisms=3, carriers=1) for shape in GENERAL_SHAPES]
CORNERS = np.array([[x, y, z] for z in (0, 1) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))], float)
TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def motion(plan: SpectralElementPlan) -> np.ndarray:
    """u and p of all points after some steps from noise."""
    solver = quiet_solver(plan, make_backend("cpu", "double", 2))
    fill_with_noise(solver)
    for step in range(3):
        solver.advance(step)
    return solver.state()["motion"].values


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_special_shapes_have_the_motion_of_the_general_map(kind: ElementKind) -> None:
    plan = kind_plan((3, 4, 3), 4, "double", kind)
    assert plan.kinds[0] == [kind]
    shapes = np.full_like(plan.element_statistics.shape, GENERAL_SHAPES[kind.map])
    general = replace(plan, element_statistics=replace(plan.element_statistics, shape=shapes))
    assert general.kinds[0] == [replace(kind, map=kind.general_map)]
    found, expected = motion(plan), motion(general)
    for columns in (slice(0, 3), slice(3, 6)):
        scale = np.abs(expected[:, columns]).max()
        assert np.abs(found[:, columns] - expected[:, columns]).max() < 2e-14 * scale


def test_the_shape_is_that_of_the_corners() -> None:
    box = CORNERS * [200.0, 100.0, 50.0]
    sheared, lifted, tapered = (box.copy() for _ in range(3))
    sheared[:, 0] += 0.1 * box[:, 2]
    lifted[6, 2] += 5.0
    tapered[4:, :2] *= 0.9
    nodes = np.stack([box, box @ TURN.T, sheared, lifted, lifted @ TURN.T, tapered]) + [4e5, 5e6, -1e4]
    expected = [CUBOID, AFFINE, AFFINE, UPRIGHT, GENERAL, GENERAL]
    assert element_shapes(map_coefficients(nodes)).tolist() == expected
