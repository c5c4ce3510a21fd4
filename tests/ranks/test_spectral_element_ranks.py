"""Spectral elements on several ranks against one: parts of the mesh, shared points, plans, steps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from fake_ranks import on_ranks as on_threads
from gmsh_files import write_gmsh
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.mesh import (
    bisect_grid,
    layered_box,
    number_faces,
    number_points,
    partition_graph,
    plan_box,
    shared_points,
)
from lithowave.mesh.partition import face_neighbors
from lithowave.parallel import Halo
from lithowave.solvers.spectral_element import SpectralElementSolver, elements, gll_positions, partition_report
from lithowave.solvers.spectral_element import plan as make_plan
from rank_models import ELEMENTS, LOSSY, ROCK, SOFT
from reference_backend import CPU
from slow_variants import slow_except
from turns import Turns


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 20 * np.sin(x / 300) * np.cos(y / 200)


def doubled_box() -> Any:
    return plan_box((0, 3200), (0, 2300), [hill, -300, -800.0, -1800.0], [(100, 100), (210, 200), (420, 400)])


# --- parts of meshes


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 8])
def test_parts_of_a_box_are_the_box(parts: int) -> None:
    """Vertices, elements, materials and sides of the parts, by their numbers in the whole, are those of the whole."""
    box = doubled_box()
    whole, seen = box.build(), np.zeros(0, np.int64)
    sides = {name: [np.zeros((0, 2), np.int64)] for name in whole.boundaries}
    for window in bisect_grid(np.ones(box.units), parts):
        part = box.build(window)
        assert (np.diff(part.vertex_ids) > 0).all()
        np.testing.assert_array_equal(part.vertices, whole.vertices[part.vertex_ids])
        np.testing.assert_array_equal(part.vertex_ids[part.elements], whole.elements[part.element_ids])
        np.testing.assert_array_equal(part.materials, whole.materials[part.element_ids])
        seen = np.concatenate([seen, part.element_ids])
        for name, faces in part.boundaries.items():
            sides[name].append(np.column_stack([part.element_ids[faces[:, 0]], faces[:, 1]]))
    np.testing.assert_array_equal(np.sort(seen), np.arange(whole.element_count))
    for name, faces in sides.items():
        found, expected = (np.unique(some, axis=0) for some in (np.concatenate(faces), whole.boundaries[name]))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(3, 3), (9, 9), (10, 7), (7, 1), (40, 31)])
@pytest.mark.parametrize("parts", [2, 3, 5, 7, 8])
def test_rectangles_cover_the_columns_once_and_evenly(shape: tuple[int, int], parts: int) -> None:
    if shape == (7, 1) and parts == 8:
        with pytest.raises(InputError, match="7 columns"):
            bisect_grid(np.ones(shape), parts)
        return
    count = np.zeros(shape, int)
    windows = bisect_grid(np.ones(shape), parts)
    for window in windows:
        count[window.first_x : window.end_x, window.first_y : window.end_y] += 1
    assert (count == 1).all() and len(windows) == parts
    mean = count.size / parts
    assert max(np.prod(window.shape) for window in windows) <= np.ceil(mean) + np.sqrt(mean)


@pytest.mark.parametrize("how", ["columns", "graph"])
@pytest.mark.parametrize(("parts", "degree"), [(2, 4), (3, 2), (4, 3), (7, 4)])
def test_shared_points_are_the_same_on_both_sides(parts: int, degree: int, how: str) -> None:
    """Their positions agree pair by pair; points and elements around points add up to those of the whole mesh."""
    box = doubled_box()
    whole = box.build()
    if how == "graph":
        pytest.importorskip("pymetis")
        of_part = partition_graph(face_neighbors(number_faces(whole.elements)[0]), np.ones(whole.element_count), parts)
        assert np.ptp(np.bincount(of_part)) <= 0.05 * whole.element_count / parts
    windows = bisect_grid(np.ones(box.units), parts)
    numbers, count = number_points(whole.elements, degree)
    around = np.bincount(numbers.ravel(), minlength=count)

    def work(ranks: Any) -> int:
        chosen = None if how == "columns" else np.flatnonzero(of_part == ranks.rank)
        mesh = (box.build(windows[ranks.rank]) if chosen is None else whole.part(chosen)).local()
        own, own_count = number_points(mesh.elements, degree)
        border = shared_points(mesh, own, ranks)
        positions = np.empty((own_count, 3))
        positions[own] = gll_positions(mesh.element_nodes(), degree)
        for rank, theirs in border.received(positions, ranks).items():
            np.testing.assert_allclose(positions[border.with_rank[rank]], theirs, atol=1e-9)
        elements = np.bincount(own.ravel(), minlength=own_count).astype(float)
        border.combine(elements, ranks)
        np.testing.assert_array_equal(elements[own], around[numbers[mesh.element_ids]])
        return own_count - len(border.owned_by_lower_ranks)

    assert sum(on_threads(parts, work)) == count


# --- plans


def simulation(**changes: Any) -> lw.Simulation:
    content = {**ELEMENTS, **changes}
    return lw.Simulation(**content)


@pytest.mark.parametrize("parts", [2, 4])
def test_plans_of_parts_tell_of_the_whole(parts: int) -> None:
    described = simulation(boundaries={"absorption": "layer", "layer": {"elements": 2}})
    whole = make_plan(described, CPU)
    plans = on_threads(parts, lambda ranks: make_plan(described, CPU, ranks))
    summaries = [plan.summary() for plan in plans]
    assert all(one == summaries[0] for one in summaries)
    assert all(plan.lines() == plans[0].lines() and plan.unit_total == whole.unit_total for plan in plans)
    expected = whole.summary()
    for name in ("element_count", "element_kinds", "gll_points", "time_step_s", "time_step_limit_s", "faces", "steps"):
        assert summaries[0][name] == expected[name], name
    assert summaries[0]["time_step_limited_by"]["place"] == expected["time_step_limited_by"]["place"]
    mass = np.zeros(whole.total_points)
    keys = whole.point_keys()
    order = np.argsort(keys)
    for plan in plans:
        own = np.setdiff1d(np.arange(plan.total_points), plan.border.owned_by_lower_ranks)
        place = order[np.searchsorted(keys[order], plan.point_keys()[own])]
        np.testing.assert_array_equal(keys[place], plan.point_keys()[own])
        assert not mass[place].any()
        mass[place] = plan.element_statistics.mass[own]
    np.testing.assert_allclose(mass, whole.element_statistics.mass, rtol=1e-12)


@pytest.mark.parametrize("read", [False, True])
def test_the_report_is_what_the_ranks_have(tmp_path: Path, read: bool) -> None:
    described = read_layers(tmp_path) if read else simulation()
    shares = partition_report(described, make_plan(described, CPU), 3, "cpu")
    plans = on_threads(3, lambda ranks: make_plan(described, CPU, ranks))
    for share, plan in zip(shares, plans, strict=True):
        sent = 3 * sum(len(points) for points in plan.border.with_rank.values())
        assert (share.units, share.neighbors, share.sent_values) == (
            plan.element_count, len(plan.border.with_rank), sent,
        )  # fmt: skip
        assert share.work >= share.units


# --- steps without MPI, on both devices


LAYER = {"boundaries": {"absorption": "layer", "layer": {"elements": 1}}}


@pytest.mark.parametrize(
    ("device", "deterministic", "more"),
    slow_except(
        [("emulated", True, LAYER)],
        [(device, deterministic, more) for device in ("cpu", "emulated") for deterministic in (False, True)
         for more in (LAYER, LOSSY)],
    ),
)  # fmt: skip
def test_steps_of_parts_are_steps_of_the_whole(
    device: str, deterministic: bool, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some steps all points have the motion that they have in one part, and shared points the same bits."""
    monkeypatch.setattr(elements, "LEAST_BLOCKS", 1)  # one part is divided into launches, three parts are not
    described = simulation(
        solver={**ELEMENTS["solver"], "max_frequency": 2.5},
        compute={"backend": "cpu", "precision": "double", "deterministic": deterministic},
        sources=[{"position": [0, 0, -310], "force": [1e9, 2e9, 0], "time_function": {"gaussian": {"sigma": 0.02}}}],
    ).with_overrides({key.replace("__", "."): value for key, value in more.items()})  # fmt: skip
    lock = threading.Lock()

    def backend() -> Any:
        if device == "cpu":
            return make_backend("cpu", "double", 1)
        from cuda_emulation import emulated_cuda

        return emulated_cuda("double")

    def work(ranks: Any) -> tuple[np.ndarray, np.ndarray]:
        plan, own = make_plan(described, CPU, ranks), backend()
        halo = Turns(ranks, own, lock) if ranks.size > 1 else Halo(ranks, own)
        solver = SpectralElementSolver(plan, described, own, halo)
        for step in range(6):
            with lock:
                solver.advance(step)
        arrays = (own.download(array)[:-1, :3] for array in (solver.displacement, solver.momentum))
        motion = np.concatenate(list(arrays), axis=1)
        for rank, theirs in plan.border.received(motion, ranks).items():
            np.testing.assert_array_equal(motion[plan.border.with_rank[rank]], theirs)
        return plan.point_keys(), motion

    [(keys, expected)] = on_threads(1, work)
    order = np.argsort(keys)
    scale = np.abs(expected).reshape(-1, 2, 3).max(axis=(0, 2)).repeat(3)
    assert (scale > 0).all()
    for own_keys, motion in on_threads(3, work):
        place = order[np.searchsorted(keys[order], own_keys)]
        assert (np.abs(motion - expected[place]) / scale).max() < 1e-12


# --- whole runs


def layers_file(folder: Path) -> Path:
    mesh = layered_box((-1200, 1200), (-1200, 1200), [0.0, -300.0, -1600.0], [(300, 300), (300, 300)])
    surfaces = {"free": ["z_max"], "absorbing": ["x_min", "x_max", "y_min", "y_max"], "bottom": ["z_min"]}
    return write_gmsh(folder / "layers.msh", mesh, ["soft", "rock"], surfaces)


def read_layers(folder: Path) -> lw.Simulation:
    pytest.importorskip("pymetis")
    solver = {"method": "spectral_element", "mesh": layers_file(folder), "degree": 3}
    return simulation(solver=solver, material={"groups": {"soft": SOFT, "rock": ROCK}})
