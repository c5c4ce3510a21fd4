"""Finite differences on several ranks against one: blocks of a grid, messages, whole runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lithowave.backends import make_backend
from lithowave.description import Simulation
from lithowave.mesh import BlockPartition, Grid, best_blocks, cut_grid, layer_line
from lithowave.solvers.finite_difference import plan
from mpi_runs import largest_difference, on_ranks, write_description
from slow_variants import slow_except

# The cut of two and of four ranks goes through the first source and receiver A; B stands near a corner.
BASIN: dict[str, Any] = {
    "domain": {"x": [0, 2400], "y": [0, 1800], "z": [-1500, 0]},
    "boundaries": {"layer": {"cells": 8}},
    "material": {
        "layers": [
            {"top": 0, "vp": 2500, "vs": 1400, "rho": 2200},
            {"top": -450, "vp": 4000, "vs": 2300, "rho": 2500},
        ]
    },
    "sources": [
        {"position": [1210, 910, -620], "moment_tensor": {"xy": 1e15, "zz": 2e14},
         "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.3}}},
        {"position": [700, 930, -60], "force": [1e10, 0, 2e10],
         "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.3}}},
    ],
    "receivers": [
        {"name": "A", "position": [1200, 900, 0]},
        {"name": "B", "position": [1185, 622, 0]},
        {"name": "C", "position": [2300, 1790, -700]},
    ],
    "duration": 0.9,
    "solver": {"method": "finite_difference", "order": 4, "spacing": 60},
    "compute": {"backend": "cpu"},
    "output": {
        "snapshots": [
            {"interval": 0.3, "plane": {"z": 0}}, {"interval": 0.4, "plane": {"y": 913.0}, "fields": ["stress"]}
        ],
        "peak_motion": True, "stress": True, "quantity": "displacement",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The run on one rank."""
    folder = tmp_path_factory.mktemp("one")
    on_ranks(1, "run", str(write_description(folder / "basin.yaml", BASIN)), "--output", str(folder / "run"))
    return folder / "run"


def run(folder: Path, size: int, device: str = "plain", threads: int = 1, **changes: Any) -> Path:
    description = write_description(folder / f"ranks_{size}.yaml", BASIN, compute__threads=threads, **changes)
    output = ["--output", str(folder / f"run_{size}")]
    on_ranks(size, "run", str(description), *output, device=device, threads=threads)
    return folder / f"run_{size}"


@pytest.mark.mpi
@pytest.mark.parametrize(("size", "threads"), slow_except([(3, 2)], [(1, 4), (2, 3), (3, 2), (7, 1)]))
def test_results_do_not_depend_on_the_ranks(tmp_path, reference, size, threads) -> None:
    """Every point is computed from the same numbers in the same order: the same bits."""
    folder = run(tmp_path, size, threads=threads)
    assert json.loads((folder / "run.json").read_text())["threads"] == threads
    assert largest_difference(folder, reference) == 0.0


@pytest.mark.mpi
def test_parts_in_depth(tmp_path, reference) -> None:
    assert largest_difference(run(tmp_path, 4, compute__parts=[1, 2, 2]), reference) == 0.0


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 8])
def test_other_orders_in_double_precision(tmp_path, order) -> None:
    changes = {"solver__order": order, "compute__precision": "double", "duration": 0.3}
    one, four = run(tmp_path, 1, **changes), run(tmp_path, 4, **changes)
    assert largest_difference(four, one) <= 1e-12


@pytest.mark.slow
@pytest.mark.mpi
def test_rigid_sides(tmp_path) -> None:
    sides = {"boundaries__sides": "rigid", "duration": 0.3}
    one, four = run(tmp_path, 1, **sides), run(tmp_path, 4, **sides)
    assert largest_difference(four, one) == 0.0


@pytest.mark.mpi
@pytest.mark.parametrize("size", slow_except([3], [2, 3, 5]))
def test_soft_ground_does_not_depend_on_the_ranks(tmp_path, size) -> None:
    """Velocities in the layers are smoothed across the sides between ranks."""
    soft, rock = BASIN["material"]["layers"]
    ground = {"layers": [soft | {"vs": 600}, rock]}
    one = run(tmp_path, 1, material=ground)
    assert largest_difference(run(tmp_path, size, material=ground), one) == 0.0


@pytest.mark.mpi
@pytest.mark.parametrize("passes", slow_except(["two"], ["two", "one"]))
def test_emulated_devices(tmp_path, passes) -> None:
    """The kernels of a CUDA device with messages through main memory, with one and with two passes over the grid."""
    changes = {
        "duration": 0.12, "solver__spacing": 100, "boundaries__layer": {"cells": 3},
        "domain": {"x": [0, 10_000 if passes == "one" else 4000], "y": [0, 3400], "z": [-1800, 0]},
        "sources": [BASIN["sources"][0] | {"position": [2010, 1710, -500]}],
    }  # fmt: skip
    one = run(tmp_path, 1, **changes)
    changes |= {"solver__passes": passes, "compute__backend": "auto"}
    two = run(tmp_path, 2, device="emulated", **changes)
    assert largest_difference(two, one) <= 1e-5


@pytest.mark.mpi
@pytest.mark.parametrize("mode", slow_except(["coarse"], ["coarse", "full"]))
def test_attenuation_does_not_depend_on_the_ranks(tmp_path, mode) -> None:
    """Mechanisms follow the global grid, and memory variables in ghost layers those of their owners: the same bits."""
    layers = [layer | {"qp": 60, "qs": 30} for layer in BASIN["material"]["layers"]]
    changes = {
        "material": {"layers": layers, "attenuation": {"band": [0.05, 5.0]}}, "solver__memory_variables": mode,
        "duration": 0.3, "compute__parts": None,
    }  # fmt: skip
    one, three = run(tmp_path, 1, **changes), run(tmp_path, 3, **(changes | {"compute__parts": [3, 1, 1]}))
    assert largest_difference(three, one) == 0.0


@pytest.mark.gpu
@pytest.mark.mpi
@pytest.mark.parametrize("transport", ["peer", "nccl", "host"])
def test_two_devices(tmp_path, transport) -> None:
    """The same bits on one CUDA device and on two, whichever way the messages go."""
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two CUDA devices")
    one = run(tmp_path, 1, compute__backend="cuda")
    two = run(tmp_path, 2, compute__backend="cuda", compute__transport=transport)
    assert json.loads((two / "run.json").read_text())["transport"] == transport
    assert largest_difference(two, one) == 0.0


@pytest.mark.mpi
@pytest.mark.parametrize(("before", "after"), slow_except([(3, 1)], [(4, 3), (1, 2), (3, 1)]))
def test_a_restart_on_another_number_of_ranks(tmp_path, reference, before, after) -> None:
    """A run that dies after a checkpoint goes on with other parts, to the same bits."""
    checkpoint = {"output__checkpoint": {"interval": 0.35}}
    description = write_description(tmp_path / "basin.yaml", BASIN, **checkpoint)
    folder = tmp_path / "run"
    on_ranks(before, "run", str(description), "--output", str(folder), device="dies at 0.6", status=9)
    on_ranks(after, "restart", str(folder))
    assert largest_difference(folder, reference) == 0.0


def grid(shape: tuple[int, int, int] = (60, 50, 40), cells: int = 10) -> Grid:
    pair = (cells, cells)
    return Grid(10.0, shape, (0.0, 0.0, 0.0), (pair, pair, (cells, 0)))


@pytest.mark.parametrize("size", [2, 3, 4, 6, 7, 8])
def test_blocks_cover_the_grid_and_share_the_work(size) -> None:
    blocks = best_blocks(grid((120, 100, 80)), size, 1.6, 8, (4.0, 3.0, 3.0))
    seen = np.zeros(blocks.grid.shape, int)
    for rank in range(size):
        seen[tuple(slice(*pair) for pair in blocks.own(rank))] += 1
    assert (seen == 1).all()
    work = blocks.work(1.6)
    assert work.max() <= 1.08 * work.mean()


def test_the_work_of_blocks_counts_layers() -> None:
    whole = grid()
    blocks = cut_grid(whole, (2, 2, 1), 0.7, 8)
    lines = [layer_line(whole, axis) for axis in range(3)]
    work = 1.0 + 0.7 * (lines[0][:, None, None] + lines[1][:, None] + lines[2])
    for rank, found in enumerate(blocks.work(0.7)):
        assert found == pytest.approx(work[tuple(slice(*pair) for pair in blocks.own(rank))].sum())


def test_layers_that_cost_more_make_outer_blocks_smaller() -> None:
    blocks = cut_grid(grid((120, 40, 40)), (3, 1, 1), 2.0, 8)
    widths = np.diff(blocks.cuts[0])
    assert widths[1] > widths[0] + 3 and widths[1] > widths[2] + 3
    assert cut_grid(grid(), (8, 1, 1), 1.0, 8) is None


def test_neighbors_are_all_around() -> None:
    blocks = BlockPartition(grid(), ((0, 20, 40, 60), (0, 25, 50), (0, 20, 40)))
    for rank in range(blocks.size):
        near = dict(blocks.neighbors(rank))
        for other, step in itertools.product(range(blocks.size), itertools.product((-1, 0, 1), repeat=3)):
            beside = np.subtract(blocks.place(other), blocks.place(rank)).tolist() == list(step)
            assert (near.get(other) == step) == (beside and any(step)) or not beside


def test_a_rank_of_eight_needs_an_eighth_of_the_memory() -> None:
    """Of arrays; and what a plan holds beside them is nothing."""
    changes = {"domain": {"x": [0, 18_000], "y": [0, 18_000], "z": [-12_000, 0]}}
    simulation = Simulation.model_validate(BASIN | changes)
    backend = make_backend("cpu", "single", 1)
    alone = plan(simulation, backend).memory_bytes(backend)
    for rank in range(8):
        ranks = SimpleNamespace(rank=rank, size=8)
        own = plan(simulation, backend, ranks)
        assert own.memory_bytes(backend) <= 1.3 / 8 * alone and own.plan_bytes() == 0
