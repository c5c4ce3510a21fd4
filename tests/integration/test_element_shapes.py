"""Upright elements and cuboids have kernels of their own, with the results of the general map."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from element_kinds import kind_materials, kind_plan, quiet_solver
from gmsh_files import write_gmsh
from lithowave.backends import make_backend
from lithowave.mesh import NODE_STEPS, curved, layered_box, read_hexahedral_mesh
from lithowave.solvers import Schedule
from lithowave.solvers.spectral_element import (
    AFFINE,
    CUBOID,
    GENERAL,
    UPRIGHT,
    ElementKind,
    MeshedModel,
    SpectralElementPlan,
    element_shapes,
    fill_with_noise,
    make_plan,
    map_coefficients,
)
from slow_variants import slow_except

GENERAL_KINDS = {"upright": (GENERAL, "triquadratic"), "cuboid": (AFFINE, "affine")}
KINDS = [
    ElementKind(shape, anisotropic, True, fluid=fluid)
    for shape in GENERAL_KINDS for anisotropic, fluid in ((False, False), (True, False), (False, True))
]  # fmt: skip
KINDS += [ElementKind(shape, False, False, mechanisms=3, carriers=1) for shape in GENERAL_KINDS]
CORNERS = np.array([[x, y, z] for z in (0, 1) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))], float)
TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def motion(plan: SpectralElementPlan) -> np.ndarray:
    """u and p of all points after some steps from noise."""
    solver = quiet_solver(plan, make_backend("cpu", "double", 2))
    fill_with_noise(solver)
    for step in range(3):
        solver.advance(step)
    return solver.state()["motion"].values


def with_shapes(plan: SpectralElementPlan, shape: int) -> SpectralElementPlan:
    """The plan with this shape of all elements."""
    shapes = np.full_like(plan.element_statistics.shape, shape)
    return replace(plan, element_statistics=replace(plan.element_statistics, shape=shapes))


def compare(plan: SpectralElementPlan, general: SpectralElementPlan) -> None:
    found, expected = motion(plan), motion(general)
    for columns in (slice(0, 3), slice(3, 6)):
        scale = np.abs(expected[:, columns]).max()
        assert np.abs(found[:, columns] - expected[:, columns]).max() < 2e-14 * scale


@pytest.mark.parametrize("kind", slow_except((KINDS[0], KINDS[-1]), KINDS), ids=str)
def test_special_shapes_have_the_motion_of_the_general_map(kind: ElementKind) -> None:
    shape, name = GENERAL_KINDS[kind.map]
    plan = kind_plan((3, 4, 3), 4, "double", kind)
    general = with_shapes(plan, shape)
    assert plan.kinds[0] == [kind] and general.kinds[0] == [replace(kind, map=name)]
    compare(plan, general)


@pytest.mark.slow
def test_upright_elements_of_eight_nodes_have_the_motion_of_the_trilinear_map() -> None:
    kind = ElementKind("upright", False, True)
    mesh = layered_box((0, 300), (0, 400), [0, -300], [(100, 100)]).local()
    x, y, z = mesh.vertices.T
    mesh = replace(mesh, vertices=np.stack([x, y, z + 10 * np.sin(x / 90 + y / 70 + z / 80)], axis=1))
    none = np.zeros((0, 2), np.int64)
    faces = {"absorbing": none, "rigid": none, "free": mesh.boundaries["z_max"]}
    model = MeshedModel(mesh, kind_materials(mesh.element_count, 4, kind, "double"), faces, None, 100.0)
    plan = make_plan(model, 4, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), "double")
    general = with_shapes(plan, GENERAL)
    assert plan.kinds[0] == [kind] and general.kinds[0] == [replace(kind, map="trilinear")]
    compare(plan, general)


@pytest.mark.parametrize("bent", [False, True])
def test_elements_of_a_file_are_rotated_to_the_axes(bent: bool, tmp_path: Path) -> None:
    """Every order of the nodes that a program may write leads to the same mesh, of cuboids or upright elements."""
    mesh = layered_box((0, 300), (0, 400), [0, -300], [(100, 100)]).local()
    mesh = curved(mesh, lambda x, y, z: (0 * x, 0 * x, 8 * np.sin((x + y) / 70))) if bent else mesh
    steps = NODE_STEPS[: mesh.node_indices.shape[1]] - 1
    turns = [np.diag(signs)[list(axes)] for axes in permutations(range(3)) for signs in product((1, -1), repeat=3)]
    orders = [
        [steps.tolist().index(place) for place in (steps @ turn).tolist()] for turn in turns if np.linalg.det(turn) > 0
    ]  # fmt: skip
    chosen = np.random.default_rng(1).integers(24, size=mesh.element_count)
    nodes = np.take_along_axis(mesh.node_indices, np.array(orders)[chosen], axis=1)
    assert len(orders) == 24 and len(np.unique(chosen)) > 12
    shuffled = replace(mesh, elements=nodes[:, :8], nodes=nodes if bent else None, boundaries={})
    found = read_hexahedral_mesh(write_gmsh(tmp_path / "box.msh", shuffled, ["rock"], {}))
    np.testing.assert_array_equal(found.node_indices, mesh.node_indices)
    assert (element_shapes(map_coefficients(found.element_nodes())) == (UPRIGHT if bent else CUBOID)).all()


def test_the_shape_is_that_of_the_corners() -> None:
    box = CORNERS * [200.0, 100.0, 50.0]
    sheared, lifted, tapered = (box.copy() for _ in range(3))
    sheared[:, 0] += 0.1 * box[:, 2]
    lifted[6, 2] += 5.0
    tapered[4:, :2] *= 0.9
    nodes = np.stack([box, box @ TURN.T, sheared, lifted, lifted @ TURN.T, tapered]) + [4e5, 5e6, -1e4]
    expected = [CUBOID, AFFINE, AFFINE, UPRIGHT, GENERAL, GENERAL]
    assert element_shapes(map_coefficients(nodes)).tolist() == expected
