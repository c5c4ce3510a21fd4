"""The table of time steps: nothing grows at its limits, on meshes of all shapes, and noise does well above them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuda_devices import make_device
from jittered_boxes import periodic_box
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_boxes import split_hexahedra, tetrahedral_box
from lithowave.solvers.discontinuous_galerkin.basis import ORDERS
from lithowave.solvers.discontinuous_galerkin.clusters import limit_cluster_jumps, raw_clusters
from lithowave.solvers.discontinuous_galerkin.materials import ElementMaterials
from lithowave.solvers.discontinuous_galerkin.stability import COURANT, stable_time_steps
from tetrahedra_plans import ORDER, element_neighbors, energy, make_solver, noise, small_plan

STEPS, BEYOND = 240, 1.75  # times the limit


def cut_sphere() -> TetrahedralMesh:
    """A box with a ball in it, whose surface cuts off thin elements."""
    cubes = tetrahedral_box((-2, 2), (-2, 2), (-2, 2), 1.0)
    return cut_along(cubes, lambda x, y, z: np.sqrt(x**2 + y**2 + z**2) - 1.3)[0].local()


SHAPES: dict[str, Callable[[], TetrahedralMesh]] = {
    "five": lambda: periodic_box((4, 4, 4), cut="five").local(),
    "six, jittered": lambda: periodic_box((3, 3, 3), jitter=0.2, cut="six").local(),
    "flat": lambda: periodic_box((3, 3, 3), lengths=(1, 1, 0.2), cut="six").local(),
    "twelve": lambda: tetrahedral_box((0, 3), (0, 3), (-3, 0), 1.0).local(),
    "cut sphere": cut_sphere,
}


def growth(
    mesh: TetrahedralMesh, order: int, ratio: float, step: float, backend: Any = None, cluster: Any = None
) -> float:
    """Factor of the energy in the second half of some steps, from noise. ratio : vp / vs. step : over the limit."""
    ones = np.ones(mesh.element_count)
    materials = ElementMaterials.isotropic(ones, ones / ratio, ones)
    precision = "double" if backend is None else backend.precision
    plan = small_plan(mesh, materials, order, precision, kinds=("free", "rigid"), step=step, cluster=cluster)
    solver = make_solver(plan, backend)
    solver.set_coefficients(noise(plan))
    energies = []
    for number in range(STEPS):
        solver.advance(number)
        if number in (STEPS // 2, STEPS - 1):
            with np.errstate(all="ignore"):
                energies.append(energy(plan, solver.host_coefficients().astype(float)))
    return energies[1] / energies[0] if np.isfinite(energies).all() else np.inf


def check(shape: str, order: int, backend: Any = None) -> None:
    mesh = SHAPES[shape]()
    for ratio in (1.45, 2.0, np.inf):  # a fluid too
        assert growth(mesh, order, ratio, 1.0, backend) < 1.0
    assert growth(mesh, order, 2.0, BEYOND, backend) > 10.0


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_grows_beyond_the_limits_alone(shape: str) -> None:
    check(shape, ORDER)


@pytest.mark.gpu
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_noise_grows_beyond_the_limits_of_all_orders_alone(shape: str, order: int) -> None:
    check(shape, order, make_device("device", "double"))


@pytest.mark.parametrize("step, stable", [(1.0, True), (BEYOND, False)])
def test_local_steps_are_as_stable_as_one_step(step: float, stable: bool) -> None:
    """Below cubes a quarter as high and half as high: every cluster has elements at the limit of its own step."""
    cubes = layered_box((0, 3), (0, 3), [0, -0.5, -1.5, -3.5], [(1, 0.25), (1, 0.5), (1, 1)])
    mesh = split_hexahedra(cubes, "six").local()
    limits = stable_time_steps(ORDER, mesh.insphere_radii(), np.ones(mesh.element_count))
    cluster = limit_cluster_jumps(raw_clusters(limits, limits.min(), 9), element_neighbors(mesh))
    assert set(cluster) == {0, 1}
    assert (growth(mesh, ORDER, 2.0, step, cluster=cluster) < 1.0) == stable


def test_limits_follow_size_speed_and_order() -> None:
    assert set(COURANT) == set(ORDERS)
    for order in ORDERS:
        found = stable_time_steps(order, np.array([1.0, 2.0]), np.array([5.0, 2.5]))
        np.testing.assert_allclose(found, COURANT[order] * np.array([0.4, 1.6]) / (2 * order - 1))
