"""Local time steps: the clusters are allowed and pay, and give what one time step for all gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lithowave import InputError
from lithowave.mesh import TetrahedralMesh, layered_box, split_hexahedra
from lithowave.solvers import make_schedule
from lithowave.solvers.discontinuous_galerkin import (
    DiscontinuousGalerkinPlan,
    ElementMaterials,
    limit_cluster_jumps,
    make_clusters,
    raw_clusters,
)
from tetrahedra_plans import (
    ORDER,
    box,
    element_neighbors,
    experiment,
    make_solver,
    momentum,
    random_clusters,
    rocks,
    small_plan,
    source,
)

SAFETY = 0.9
VP, VS, RHO = 3.0, 1.5, 2.0


def chain(count: int) -> np.ndarray:
    """Neighbours of elements in a row."""
    found = np.full((count, 4), -1)
    found[1:, 0], found[:-1, 2] = np.arange(count - 1), np.arange(1, count)
    return found


def check(limits: np.ndarray, neighbors: np.ndarray, duration: float, time_step: Any, interval: Any, local: Any) -> Any:
    """Clusters of these limits; everything that holds for all of them."""
    made = make_clusters(limits, neighbors, duration, SAFETY, time_step, interval, local, None)
    alone = make_schedule(limits.min(), duration, SAFETY, time_step, interval)
    there = neighbors >= 0
    assert np.abs(made.cluster[neighbors] - made.cluster[:, None])[there].max() <= 1
    assert made.cluster.min() == 0 and made.cluster.max() == made.count - 1
    assert made.schedule.time_step == pytest.approx(made.shortest * made.ticks, rel=1e-12)
    most = limits if time_step is not None else SAFETY * limits
    time_steps = made.shortest * 2.0**made.cluster
    assert (time_steps <= most * (1 + 1e-9)).all()
    updates = 1.0 / time_steps
    assert made.gain == pytest.approx(len(limits) / alone.time_step / updates.sum(), rel=1e-9)
    assert made.updates == pytest.approx((updates * made.schedule.time_step).sum(), rel=1e-9)
    assert sum(made.sizes) == len(limits)
    if interval is not None:
        assert made.schedule.sampling_interval == pytest.approx(interval, rel=1e-9)
    if time_step is not None:
        assert made.shortest == pytest.approx(time_step, rel=1e-9)
    assert made.schedule.steps * made.schedule.time_step <= duration + 2 * made.schedule.sampling_interval
    return made


@pytest.mark.parametrize("local", [None, True, False])
@pytest.mark.parametrize("interval", [None, 0.5])
@pytest.mark.parametrize("given", [False, True])
def test_clusters_keep_to_all_limits(given: bool, interval: float | None, local: bool | None) -> None:
    random = np.random.default_rng(0)
    counts = set()
    for spread in np.linspace(0.0, 2.5, 40):
        limits = 0.02 * np.exp(spread * random.normal(size=60))
        time_step = None
        if given:
            most = 0.8 * limits.min()
            time_step = most if interval is None else interval / np.ceil(interval / most / 8) / 8
        made = check(limits, chain(60), 3.0, time_step, interval, local)
        counts.add(made.count)
        if local is False:
            assert made.count == 1 and made.gain == 1
        if local is None:
            assert made.count == 1 or made.gain >= 1.2
    assert counts == {1} if local is False else max(counts) > 3


# ---------------------------------------------------------------------------------- local steps against one step


def graded() -> TetrahedralMesh:
    """Cubes of 1 m below some that are a quarter as high, in which waves are twice as fast."""
    return split_hexahedra(layered_box((0, 3), (0, 3), [0, -0.5, -3], [(1, 0.25), (1, 1)])).local()


def graded_plan(cluster: Any, kinds: tuple[str, ...] = ("absorbing",), step: float = 0.9) -> DiscontinuousGalerkinPlan:
    mesh = graded()
    faster = np.where(mesh.element_vertices()[..., 2].mean(axis=1) > -0.5, 2.0, 1.0)
    materials = ElementMaterials.isotropic(VP * faster, VS * faster, RHO * np.ones_like(faster))
    return small_plan(mesh, materials, ORDER, kinds=kinds, cluster=cluster, step=step)


def local_clusters(plan: DiscontinuousGalerkinPlan) -> np.ndarray:
    return limit_cluster_jumps(raw_clusters(plan.limits, plan.limits.min(), 4), element_neighbors(plan.mesh))


def element_of(plan: DiscontinuousGalerkinPlan, relation: int) -> int:
    """An element near the middle, of a neighbour in a larger (1) or smaller (-1) cluster, or of none such (0)."""
    own, across = plan.clustering.cluster, element_neighbors(plan.mesh)
    step = np.where(across >= 0, own[across] - own[:, None], 0)
    fits = (step == relation).any(axis=1) if relation else (step == 0).all(axis=1)
    middles = plan.mesh.element_vertices().mean(axis=1)
    distance = np.linalg.norm(middles - [1.5, 1.5, -0.5], axis=1)
    return int(np.argmin(np.where(fits, distance, np.inf)))


@pytest.mark.parametrize("relation", [0, 1, -1])
def test_a_force_gives_its_momentum_and_a_moment_none(relation: int) -> None:
    """To rounding with local time steps: what neighbours get of a source in one step is never lost or doubled."""
    plan = graded_plan(local_clusters(graded_plan(None)), kinds=("free",))
    place = np.array([0.4, 0.3, 0.2, 0.1]) @ plan.mesh.element_vertices(np.array([element_of(plan, relation)]))[0]
    force = np.array([1.0, -0.5, 0.7])
    sigma = 8 * plan.clustering.shortest
    given = force * sigma * np.sqrt(2 * np.pi)
    for what, expected in (({"force": force}, given), ({"moment": (1, 2, -3, 4, 5, 6)}, 0)):
        solver = make_solver(plan, simulation=experiment([source(place, sigma, **what)]))
        for step in range(int(12 * sigma / plan.schedule.time_step) + 1):
            solver.advance(step)
        values = solver.host_coefficients()
        assert np.abs(values[:, 6:]).max() > 0.01
        np.testing.assert_allclose(momentum(plan, values), expected, atol=1e-8 * sigma)


def test_sources_on_a_face_of_two_clusters_and_in_a_fluid() -> None:
    """A place that elements share is a source in all of them, in equal parts; a fluid takes the isotropic part."""
    mesh = box((2, 2, 2), jitter=0.0)
    cluster = random_clusters(mesh)
    plan = small_plan(mesh, rocks(mesh.element_count, fluids=0.0), ORDER, cluster=cluster)
    force = np.array([1.0, -0.5, 0.7])
    sigma = 8 * plan.clustering.shortest
    place = [1.0, 1.0, -1.0]
    solver = make_solver(plan, simulation=experiment([source(place, sigma, force=force)]))
    sharing = (mesh.element_vertices() == place).all(axis=2).any(axis=1)
    assert len(solver.sources) == len(np.unique(cluster[sharing])) > 1
    for step in range(int(12 * sigma / plan.schedule.time_step) + 1):
        solver.advance(step)
    given = force * sigma * np.sqrt(2 * np.pi)
    np.testing.assert_allclose(momentum(plan, solver.host_coefficients()), given, atol=1e-8 * sigma)

    fluid = small_plan(mesh, rocks(mesh.element_count, fluids=1.0), ORDER, cluster=cluster)
    found = []
    for moment in ((3, 1, 2, 4, -5, 6), (2, 2, 2, 0, 0, 0), (1, -1, 0, 4, 0, 0)):
        solver = make_solver(fluid, simulation=experiment([source([0.4, 0.3, -0.6], sigma, moment=moment)]))
        for step in range(30):
            solver.advance(step)
        found.append(solver.host_coefficients())
    np.testing.assert_allclose(found[0], found[1], atol=1e-12 * np.abs(found[1]).max())
    assert np.abs(found[1]).max() > 0 and (found[2] == 0).all()


def test_time_steps_that_are_given_must_be_allowed() -> None:
    with pytest.raises(InputError, match="stability limit"):
        make_clusters(np.array([0.1, 0.4]), chain(2), 3.0, SAFETY, 0.11, None, True, None)
