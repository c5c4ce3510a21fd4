"""Fluids and solids on several ranks against one, where cuts run along interfaces, across them and anywhere."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from element_kinds import quiet_solver
from fake_ranks import on_ranks as on_threads
from fluid_boxes import MUD, SIZE, WATER, fluid_points, media_of, two_layers
from lithowave.backends import make_backend
from lithowave.description import FACES
from lithowave.mesh import HexahedralMesh
from lithowave.parallel import Halo
from lithowave.solvers import Schedule
from lithowave.solvers.spectral_element import (
    AbsorbingLayer,
    MeshedModel,
    SpectralElementPlan,
    SpectralElementSolver,
    gll_positions,
    make_plan,
)
from slow_variants import slow_except
from turns import Turns

DEGREE, STEPS = 3, 8


def sea_with_rocks() -> HexahedralMesh:
    """A sea over mud in a cube, and blocks of the other medium in both, some of which touch at an edge or a corner."""
    mesh = two_layers(4, "trilinear")
    random = np.random.default_rng(3)
    return replace(mesh, materials=np.where(random.random(mesh.element_count) < 0.15, 1, 0) ^ mesh.materials)


def partition(mesh: HexahedralMesh, how: str, parts: int) -> np.ndarray:
    """The part of each element."""
    if how == "media":
        return mesh.materials % parts
    if how == "columns":
        return (mesh.vertices[mesh.elements, 0].mean(axis=1) * parts / SIZE).astype(np.int64)
    return np.random.default_rng(7).integers(0, parts, mesh.element_count)


def planned(mesh: HexahedralMesh, ranks: Any, layer: bool) -> SpectralElementPlan:
    none = np.zeros((0, 2), np.int64)
    sides = [faces for name, faces in mesh.boundaries.items() if name not in ("z_max", "y_min")]
    faces = {"free": mesh.boundaries.get("z_max", none), "rigid": mesh.boundaries.get("y_min", none)}
    faces["absorbing"] = np.concatenate([none, *sides])
    thickness = dict.fromkeys(FACES, 0.0) | {"x_max": 0.4 * SIZE, "y_max": 0.4 * SIZE}
    ends = ((0.0, 0.6 * SIZE), (0.0, 0.6 * SIZE), (-SIZE, 0.0))
    own = AbsorbingLayer(ends, thickness, 2, frequency=1.0) if layer else None
    model = MeshedModel(mesh, media_of(mesh.materials, (WATER, MUD)), faces, own, None)
    return make_plan(model, DEGREE, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), "double", ranks=ranks)


def begin(solver: SpectralElementSolver) -> None:
    """Velocities and pressures that depend on the keys of the points."""
    plan, keys = solver.plan, solver.plan.point_keys()
    rates = np.sin(1.7 * keys[:, None] + [0.3, 0.9, 2.2])
    rates[fluid_everywhere(plan)] *= [WATER.rho * WATER.vp, 0.0, 0.0]
    mass = plan.element_statistics.mass[:, None]
    solver.momentum[:-1, :3] = plan.moves[:, None] * mass * rates / plan.schedule.time_step


def fluid_everywhere(plan: SpectralElementPlan) -> np.ndarray:
    """True for each point in a fluid, also for those without an element on this rank."""
    found = fluid_points(plan).astype(float)
    plan.border.combine(found, plan.ranks, np.maximum)
    return found > 0


@pytest.mark.parametrize(
    ("how", "parts", "layer"),
    slow_except(
        [("media", 2, False)],
        [(how, parts, layer) for how, parts in (("media", 2), ("columns", 4), ("anywhere", 3))
         for layer in (False, True)],
    ),
)  # fmt: skip
def test_steps_of_parts_are_steps_of_the_whole(how: str, parts: int, layer: bool) -> None:
    """All points have the motion that they have in one part; shared points, and both of a pair, the same bits."""
    whole, lock = two_layers(4, "trilinear") if layer else sea_with_rocks(), threading.Lock()
    of_part = partition(whole, how, parts)

    def work(ranks: Any) -> tuple[np.ndarray, ...]:
        mesh = whole if ranks.size == 1 else whole.part(np.flatnonzero(of_part == ranks.rank)).local()
        plan, own = planned(mesh, ranks, layer), make_backend("cpu", "double", 1)
        positions = np.zeros((plan.total_points, 3))
        positions[plan.numbers] = gll_positions(plan.mesh.element_nodes(), DEGREE)
        plan.border.combine(positions, ranks, np.minimum)  # coordinates x and y are positive, z negative
        solver = quiet_solver(plan, own, Turns(ranks, own, lock) if ranks.size > 1 else Halo(ranks, own))
        begin(solver)
        for step in range(STEPS):
            with lock:
                solver.advance(step)
        motion = np.concatenate([solver.displacement[:-1, :3], solver.momentum[:-1, :3]], axis=1)
        for rank, theirs in plan.border.received(motion, ranks).items():
            np.testing.assert_array_equal(motion[plan.border.with_rank[rank]], theirs)
        keys, pairs = plan.point_keys(), plan.interface
        assert (keys >= 0).all() and (keys < whole.element_count * (DEGREE + 1) ** 3).all()
        table = np.stack([keys[pairs.solid], keys[pairs.fluid]], axis=1)
        return keys, motion, fluid_everywhere(plan), table, pairs.area, len(plan.border.owned_by_lower_ranks)

    [(keys, expected, fluid, table, area, _)] = on_threads(1, work)
    order = np.argsort(keys)
    scale = np.ones_like(expected)
    for medium in (fluid, ~fluid):
        scale[medium] = np.abs(expected[medium]).reshape(-1, 2, 3).max(axis=(0, 2)).repeat(3)
    assert (scale > 0).all()
    results = on_threads(parts, work)
    of_pair = {tuple(pair): vector for pair, vector in zip(table.tolist(), area, strict=True)}
    for own_keys, motion, wet, pairs, vectors, _ in results:
        place = order[np.searchsorted(keys[order], own_keys)]
        np.testing.assert_array_equal(keys[place], own_keys)
        np.testing.assert_array_equal(fluid[place], wet)
        assert (np.abs(motion - expected[place]) / scale[place]).max() < 1e-11
        for pair, vector in zip(pairs.tolist(), vectors, strict=True):
            np.testing.assert_allclose(vector, of_pair[tuple(pair)], atol=1e-9 * SIZE**2)
    assert sum(len(own) - lower for own, *_, lower in results) == len(keys)


@pytest.mark.parametrize(("how", "parts"), [("media", 2), ("anywhere", 3)])
def test_velocities_in_water_next_to_solids_of_other_ranks(how: str, parts: int) -> None:
    """Elements have up to six faces with known normal velocities, whose solids may be on another rank."""
    whole, lock = sea_with_rocks(), threading.Lock()
    of_part = partition(whole, how, parts)
    positions = np.random.default_rng(5).uniform([20, 20, -980], [980, 980, -20], (60, 3))

    def work(ranks: Any) -> tuple[np.ndarray, np.ndarray, int]:
        mesh = whole if ranks.size == 1 else whole.part(np.flatnonzero(of_part == ranks.rank)).local()
        plan, own = planned(mesh, ranks, False), make_backend("cpu", "double", 1)
        solver = quiet_solver(plan, own, Turns(ranks, own, lock) if ranks.size > 1 else Halo(ranks, own))
        begin(solver)
        solver.receivers = solver.make_samples(solver, plan.locate(positions, plan.inside_tolerance))
        solver.start_records(1, stress=False)
        for step in range(STEPS):
            with lock:
                solver.advance(step)
        solver.record(0)
        corrected = (solver.receivers.columns - solver.receivers.count) // 2
        return solver.receivers.point, solver.records(1).wait()["velocity"][0], corrected

    [(every, expected, corrected)] = on_threads(1, work)
    assert corrected > 30
    results = on_threads(parts, work)
    assert sum(count for *_, count in results) == corrected
    for point, velocity, _ in results:
        place = np.searchsorted(every, point)
        np.testing.assert_allclose(velocity, expected[place], rtol=0, atol=1e-10 * np.abs(expected).max())
