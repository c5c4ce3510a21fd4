"""Discontinuous Galerkin elements on several ranks against one: parts of meshes, exchanged traces, steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from cuda_emulation import EmulatedCudaBackend
from fake_ranks import on_ranks
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.mesh import balanced_parts, find_shared_faces, tetrahedral_box
from lithowave.parallel import SINGLE_RANK, Ranks
from lithowave.solvers.discontinuous_galerkin import (
    LAYER_WORK,
    TOLERANCE,
    DiscontinuousGalerkinPlan,
    Solver,
    built_box,
    element_work,
    graph_parts,
    layer_elements,
    limit_cluster_jumps,
    locate_points,
    make_model,
    model_clusters,
    partition_elements,
    partition_report,
    plan,
    split_box,
    step_cost,
)
from lithowave.solvers.elements import require_located, resolve_owners
from rank_models import ANISOTROPIC, ATTENUATING, LAYERED_ANISOTROPIC, WATER
from rank_threads import Exchange, ThreadHalo, run_on_ranks
from reference_backend import CPU
from slow_variants import slow_except


def simulation(**changes: Any) -> lw.Simulation:
    """WATER with changes of dotted keys, with __ for the dot."""
    made = lw.Simulation(**WATER)
    return made.with_overrides({key.replace("__", "."): value for key, value in changes.items()}) if changes else made


@lru_cache
def whole_plan() -> DiscontinuousGalerkinPlan:
    return plan(simulation(), CPU)


@lru_cache
def part_plans(size: int) -> list[DiscontinuousGalerkinPlan]:
    """The plans of all ranks."""
    return on_ranks(size, lambda ranks: plan(simulation(), CPU, ranks))


# ---------------------------------------------------------------------------------------------- parts of a mesh


@pytest.mark.parametrize("size", [2, 3, 5])
def test_parts_that_are_built_apart_make_the_whole_mesh(size: int) -> None:
    assert built_box(simulation()).plan.merged == 2  # columns merge at an interface
    whole, parts = whole_plan(), part_plans(size)
    order = np.argsort(whole.mesh.element_keys)
    keys = np.concatenate([part.mesh.element_keys for part in parts])
    np.testing.assert_array_equal(np.sort(keys), whole.mesh.element_keys[order])
    across = np.where(whole.mesh.neighbors >= 0, whole.mesh.element_keys[whole.mesh.neighbors // 4], -1)
    for part in parts:
        place = order[np.searchsorted(whole.mesh.element_keys, part.mesh.element_keys, sorter=order)]
        np.testing.assert_array_equal(whole.mesh.element_keys[place], part.mesh.element_keys)
        # Elements see their vertices in the same order, at the same places to the bit.
        np.testing.assert_array_equal(part.mesh.element_vertices(), whole.mesh.element_vertices(place))
        assert part.shared.count > 0
        own = np.concatenate([part.mesh.element_keys, np.full(part.shared.count, -2)])
        found = np.where(part.mesh.neighbors >= 0, own[part.mesh.neighbors // 4], -1)
        np.testing.assert_array_equal(found[found != -2], across[place][found != -2])
        assert (across[place][found == -2] >= 0).all()
        for name in ("lam", "mu", "rho", "number"):
            mine, theirs = getattr(part.materials, name), getattr(whole.materials, name)
            np.testing.assert_array_equal(mine[: len(place)], theirs[place])
            # Those across faces are what the whole mesh has there.
            rows, faces = part.shared.faces.T
            other = whole.mesh.neighbors[place[rows], faces] // 4
            np.testing.assert_array_equal(mine[len(place) :], theirs[other])
        cluster = part.clustering.cluster
        np.testing.assert_array_equal(cluster[: len(place)], whole.clustering.cluster[place])
        np.testing.assert_array_equal(cluster[len(place) :], whole.clustering.cluster[other])
        kinds = part.face_neighbors
        np.testing.assert_array_equal(np.where(kinds < 0, kinds, 0), np.minimum(whole.face_neighbors[place], 0))


def test_all_ranks_tell_the_same_of_the_whole() -> None:
    expected = whole_plan().summary()
    for part in part_plans(3):
        found = part.summary()
        memory = found.pop("memory_bytes")
        assert found == {name: value for name, value in expected.items() if name != "memory_bytes"}
        assert expected["memory_bytes"] < memory < 1.2 * expected["memory_bytes"]
        assert part.unit_total == expected["element_count"] and part.unit_count == whole_plan().unit_count
        assert part.bounds == whole_plan().bounds


@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_all_ranks_have_the_same_work(size: int) -> None:
    plans = part_plans(size)
    sizes = np.array([one.clustering.own_sizes(one.element_count) for one in plans])
    assert (sizes.sum(axis=0) == whole_plan().clustering.sizes).all()
    # In every cluster, as ranks meet whenever one begins a step; elements of the layer have more work.
    work = np.zeros(sizes.shape)
    for own, one in zip(work, plans, strict=True):
        count = one.element_count
        np.add.at(own, one.clustering.cluster[:count], np.where(layer_elements(one)[:count], LAYER_WORK, 1.0))
    assert (work.max(axis=0) < 1.05 * work.mean(axis=0) + 12).all()
    for one, share in zip(plans, partition_report(simulation(), plan(simulation(), CPU), size, "cpu"), strict=True):
        assert share.units == pytest.approx(one.element_count, abs=12)
        assert share.neighbors == len(one.shared.counts())


def test_parts_that_do_not_fit_are_told() -> None:
    """Of one rank an element is missing: at its faces, but for outer ones, the others find nobody."""
    box = built_box(simulation())
    lost = 1000

    def find(ranks: Ranks) -> None:
        mesh = split_box(simulation(), box).along_curve()
        own = np.arange(mesh.element_count) * ranks.size // mesh.element_count == ranks.rank
        own[lost] = False
        find_shared_faces(mesh.part(np.flatnonzero(own)), ranks)

    with pytest.raises(RuntimeError, match=r"internal error: \d faces between ranks .* face \d of element \d+ at \("):
        on_ranks(3, find)


@pytest.mark.parametrize("parts", [1, 2, 3, 6, 11])
def test_elements_of_any_work_are_divided_equally(parts: int) -> None:
    random = np.random.default_rng(parts)
    centres, work = random.uniform(size=(4000, 3)) * [3, 1, 2], 0.5 ** random.integers(0, 5, 4000)
    whole = balanced_parts(centres, work, parts)
    sums = np.bincount(whole, work, parts)
    assert sums.max() - sums.min() < 5

    def divide(ranks: Ranks) -> np.ndarray:
        return balanced_parts(centres[ranks.rank :: 3], work[ranks.rank :: 3], parts, ranks)

    for rank, found in enumerate(on_ranks(3, divide)):
        np.testing.assert_array_equal(found, whole[rank::3])
    kind = (centres[:, 0] > 2.0).astype(np.int64) + 2 * (centres[:, 1] < 0.1)
    found = balanced_parts(centres, work, parts, kind=kind)
    for number in range(4):
        sums = np.bincount(found[kind == number], work[kind == number], parts)
        assert sums.max() - sums.min() < 5


def test_a_point_counts_in_the_elements_of_all_ranks() -> None:
    mesh, size = whole_plan().mesh, 3
    near = mesh.vertices[np.abs(mesh.vertices[:, :2]).max(axis=1) < 250]  # where ranks meet
    points = np.concatenate([near, [[0, 0, 7.0], [50.0, 60.0, -330.0], [90000, 0, 0]]])
    every = locate_points(mesh, points)
    holders = np.bincount(every.point, minlength=len(points))
    for tolerance, missing in ((TOLERANCE, [len(points) - 3, len(points) - 1]), (1.0, [len(points) - 1])):
        def place(ranks: Ranks, everywhere: bool, tolerance: float = tolerance, first: int = missing[0]) -> Any:
            found = resolve_owners(locate_points(part_plans(size)[ranks.rank].mesh, points, tolerance), ranks)
            names = [f"point {index}" for index in range(len(points))]
            with pytest.raises(InputError, match=f"^receivers: point {first} at "):
                require_located(found, ranks, names, points, "receivers")
            return found if everywhere else found.first_only()

        found = on_ranks(size, lambda ranks: place(ranks, True))
        rows = np.concatenate([one.locations.point for one in found])
        moved = len(points) - 3 if tolerance == 1.0 else -1
        counts = holders + (np.arange(len(points)) == moved)
        np.testing.assert_array_equal(np.bincount(rows, minlength=len(points)), counts)
        for one in found:
            np.testing.assert_array_equal(one.sharing, counts[one.locations.point])
        # Each in one element: that of lowest key, whatever number of ranks there is.
        single = resolve_owners(locate_points(mesh, points, tolerance), SINGLE_RANK).first_only().locations
        chosen = on_ranks(size, lambda ranks: place(ranks, False))
        points_of = np.concatenate([one.locations.point for one in chosen])
        order = np.argsort(points_of)
        np.testing.assert_array_equal(points_of[order], single.point)
        meshes = [part.mesh for part in part_plans(size)]
        keys = [own.element_keys[one.locations.element] for own, one in zip(meshes, chosen, strict=True)]
        np.testing.assert_array_equal(np.concatenate(keys)[order], mesh.element_keys[single.element])
    assert sum(len(np.unique(one.locations.point)) for one in found) > len(points)


def test_clusters_are_smoothed_across_ranks() -> None:
    """From one element of cluster 0 to the far end of a mesh, through many ranks."""
    mesh = tetrahedral_box((0, 9), (0, 1), (-1, 0), 1.0).along_curve()
    raw = np.where(mesh.element_keys == mesh.element_keys.min(), 0, 8)
    neighbors = np.where(mesh.neighbors >= 0, mesh.neighbors // 4, -1)
    expected = limit_cluster_jumps(raw, neighbors)
    assert set(expected) == set(range(9))
    part = balanced_parts(mesh.element_vertices().mean(axis=1), np.ones(mesh.element_count), 5)

    def smooth(ranks: Ranks) -> np.ndarray:
        own = mesh.part(np.flatnonzero(part == ranks.rank))
        shared = find_shared_faces(own, ranks)
        across = shared.connected(own).neighbors
        neighbors = np.where(across >= 0, across // 4, -1)
        return limit_cluster_jumps(raw[part == ranks.rank], neighbors, shared)[: own.element_count]

    for rank, found in enumerate(on_ranks(5, smooth)):
        np.testing.assert_array_equal(found, expected[part == rank])


def test_the_division_that_costs_least_is_taken() -> None:
    """By planes of their own for each cluster; METIS knows of one weight alone, and ranks would wait for each other."""
    pytest.importorskip("pymetis")
    model = make_model(simulation())
    cluster = model_clusters(simulation(), model).cluster
    best = step_cost(model, cluster, partition_elements(model, cluster, 4, "cpu", graph=True), 4, "cpu")
    assert best < 0.92 * step_cost(model, cluster, graph_parts(model, cluster, 4), 4, "cpu")
    ideal = element_work(model, cluster).sum() * 2 ** cluster.max() / 4
    assert ideal < best < 1.2 * ideal
    # Where messages take as long as many updates, few elements of small time steps are not parted.
    parts = [partition_elements(model, cluster, 7, name) for name in ("cuda", "cpu")]
    costs = [step_cost(model, cluster, part, 7, "cuda") for part in parts]
    assert costs[0] <= costs[1]


# ------------------------------------------------------------------------------------------- solvers on threads


STEPS = 3


def make_solver(ranks: Ranks, exchange: Exchange, backend: Any, changes: Any) -> Solver:
    made = simulation(**changes)
    return Solver(plan(made, backend, ranks), made, backend, ThreadHalo(ranks, backend, exchange))


def advanced(solver: Solver, begin: int = 0, end: int = STEPS) -> Solver:
    for step in range(begin, end):
        solver.advance(step)
    return solver


def by_keys(states: list[dict[str, Any]], name: str = "coefficients") -> np.ndarray:
    """Values of all ranks, by their keys."""
    keys = np.concatenate([state[name].selection.keys for state in states])
    assert len(np.unique(keys)) == len(keys)
    return np.concatenate([state[name].values for state in states])[np.argsort(keys)]


def states_on(size: int, device: str, **changes: Any) -> np.ndarray:
    """Coefficients after some steps."""
    precision = changes.get("compute__precision", "double")

    def make(ranks: Ranks, exchange: Exchange) -> Solver:
        emulated = device == "emulated"
        backend = EmulatedCudaBackend(precision) if emulated else make_backend("cpu", precision, 1)
        return make_solver(ranks, exchange, backend, changes)

    return by_keys(run_on_ranks(size, make, lambda solver: advanced(solver).state()))


@pytest.mark.parametrize(
    "changes",
    [
        {}, pytest.param({"compute__precision": "single"}, marks=pytest.mark.slow),
        pytest.param({"solver__local_time_steps": False}, marks=pytest.mark.slow),
        pytest.param(
            {
                "material": ANISOTROPIC, "solver__order": 2, "solver__points_per_wavelength": 10,
                "boundaries__absorption": "stacey",
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(LAYERED_ANISOTROPIC, marks=pytest.mark.slow), pytest.param(ATTENUATING, marks=pytest.mark.slow),
    ],
    ids=["clusters", "single", "one step", "anisotropic", "anisotropic layers", "attenuation"],
)  # fmt: skip
def test_steps_on_several_ranks_are_the_same_to_the_bit(changes: dict[str, Any]) -> None:
    expected = states_on(1, "cpu", **changes)
    assert np.abs(expected).max() > 0
    for size in (2, 5):
        np.testing.assert_array_equal(states_on(size, "cpu", **changes), expected)


@pytest.mark.slow
def test_steps_on_emulated_devices() -> None:
    """With graphs between the messages."""
    changes = {
        "domain__z": [-700, 0], "solver__order": 2, "solver__points_per_wavelength": 10,
        "sources": WATER["sources"][::2], "receivers": WATER["receivers"][:3],
    }  # fmt: skip
    expected, found = states_on(1, "cpu", **changes), states_on(3, "emulated", **changes)
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()


def test_what_is_sent_is_what_the_report_tells() -> None:
    """Up to single elements, whose centers are on the plane between two parts except for round-off."""
    exchange, size = Exchange(), 3
    backend = make_backend("cpu", "double", 1)

    def make(ranks: Ranks, common: Exchange) -> Solver:
        return make_solver(ranks, common, backend, {})

    run_on_ranks(size, make, lambda solver: advanced(solver, 0, 1), exchange)
    report = partition_report(simulation(), plan(simulation(), CPU), size, "cpu")
    assert [exchange.sent[rank] for rank in range(size)] == pytest.approx([one.sent_values for one in report], rel=1e-3)


@pytest.mark.parametrize("changes", slow_except([ATTENUATING], [{}, LAYERED_ANISOTROPIC, ATTENUATING]))
def test_a_state_is_taken_up_by_another_number_of_ranks(changes: dict[str, Any]) -> None:
    """To the same bits, with the peaks at the surface."""
    backend = make_backend("cpu", "double", 1)

    def make(ranks: Ranks, exchange: Exchange) -> Solver:
        solver = make_solver(ranks, exchange, backend, changes)
        solver.start_peaks()
        return solver

    def run(solver: Solver, begin: int, end: int) -> dict[str, Any]:
        for step in range(begin, end):
            solver.advance(step)
            solver.update_peaks()
        return solver.state()

    expected = run_on_ranks(2, make, lambda solver: run(solver, 0, 9))
    early = run_on_ranks(3, make, lambda solver: run(solver, 0, 6))

    def go_on(solver: Solver) -> dict[str, Any]:
        taken = {}
        for name, place in solver.state_selections().items():
            keys = np.sort(np.concatenate([state[name].selection.keys for state in early]))
            rows = np.searchsorted(keys, place.keys)
            np.testing.assert_array_equal(keys[rows], place.keys)
            taken[name] = by_keys(early, name)[rows]
        solver.restore(taken)
        return run(solver, 6, 9)

    found = run_on_ranks(4, make, go_on)
    assert len(found[0]) == 5 + ("relaxation" in found[0])
    for name in found[0]:
        values = by_keys(expected, name)
        assert values.any() or name == "memory" and not values.size  # without layers
        np.testing.assert_array_equal(by_keys(found, name), values)


# ---------------------------------------------------------------------------------------------------- whole runs
