"""Largest time steps: nothing grows at the limits, on meshes of all shapes, and noise does somewhat above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cuda_devices import make_device
from jittered_boxes import periodic_box
from lithowave.mesh import TetrahedralMesh, cut_along, layered_box, split_hexahedra, tetrahedral_box
from lithowave.solvers.discontinuous_galerkin import (
    ABSORBING,
    ORDERS,
    ElementMaterials,
    limit_cluster_jumps,
    raw_clusters,
    stable_time_steps,
)
from tetrahedra_plans import ORDER, element_neighbors, energy, make_solver, noise, small_plan

STEPS, BEYOND, BEYOND_ORDER_2 = 240, 1.35, 1.5  # times the limit


def cut_sphere() -> TetrahedralMesh:
    """A box with a ball in it, whose surface cuts off thin elements."""
    cubes = tetrahedral_box((-2, 2), (-2, 2), (-2, 2), 1.0)
    return cut_along(cubes, lambda x, y, z: np.sqrt(x**2 + y**2 + z**2) - 1.3)[0].local()


SHAPES: dict[str, Callable[[], TetrahedralMesh]] = {
    "five": lambda: periodic_box((4, 4, 4), cut="five").local(),
    "six, jittered": lambda: periodic_box((3, 3, 3), jitter=0.2, cut="six").local(),
    "flat": lambda: periodic_box((3, 3, 3), lengths=(1, 1, 0.2), cut="six").local(),
    "very flat": lambda: periodic_box((4, 4, 4), lengths=(1, 1, 0.05), cut="five").local(),
    "long": lambda: periodic_box((3, 3, 3), lengths=(1, 0.3, 0.3), cut="six").local(),
    "twelve": lambda: tetrahedral_box((0, 3), (0, 3), (-3, 0), 1.0).local(),
    "one cube": lambda: tetrahedral_box((0, 1), (0, 1), (-1, 0), 1.0).local(),
    "cut sphere": cut_sphere,
}


def medium(count: int, ratio: float, contrast: float = 1.0) -> ElementMaterials:
    """Elements of unit velocity vp. ratio : vp / vs. contrast : of the densities of random elements and the others."""
    ones = np.ones(count)
    rho = np.where(np.random.default_rng(1).random(count) < 0.5, 1.0, contrast)
    return ElementMaterials.isotropic(ones, ones / ratio, rho)


def growth(
    mesh: TetrahedralMesh, materials: ElementMaterials, order: int, step: float, backend: Any = None,
    kinds: Sequence[str] = ("free", "rigid"), cluster: Any = None,
) -> float:  # fmt: skip
    """Factor of the energy in the second half of some steps, from noise. step : over the limit."""
    precision = "double" if backend is None else backend.precision
    plan = small_plan(mesh, materials, order, precision, kinds=kinds, step=step, cluster=cluster)
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
    count = mesh.element_count
    for ratio in (1.2, 1.45, 2.0, 3.0, np.inf):  # a fluid too
        for kinds in (("free",), ("free", "rigid")) if (mesh.neighbors < 0).any() else [("free",)]:
            assert growth(mesh, medium(count, ratio), order, 1.0, backend, kinds) < 1.0
    assert growth(mesh, medium(count, 2.0, contrast=30.0), order, 1.0, backend) < 1.0
    beyond = BEYOND_ORDER_2 if order == 2 else BEYOND
    assert growth(mesh, medium(count, 2.0), order, beyond, backend) > 10.0


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
    materials, neighbors = medium(mesh.element_count, 2.0), element_neighbors(mesh)
    limits = stable_time_steps(ORDER, mesh, materials, np.where(neighbors < 0, ABSORBING, neighbors))
    cluster = limit_cluster_jumps(raw_clusters(limits, limits.min(), 9), neighbors)
    assert set(cluster) == {0, 1}
    assert (growth(mesh, materials, ORDER, step, kinds=("absorbing",), cluster=cluster) < 1.0) == stable
