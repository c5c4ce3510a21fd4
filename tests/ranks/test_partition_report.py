"""`lithowave check --ranks N`: how ranks would share a run, and how well that would go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from fake_ranks import on_ranks
from lithowave import InputError
from lithowave.run import (
    TRANSPORTS,
    ScalingEstimate,
    check_simulation,
)
from lithowave.solvers import METHODS, load_method
from lithowave.solvers.common import RankWorkload
from reference_backend import CPU
from small_machine import limit_memory
from small_run import lithowave, settings, write_small
from small_survey import write_survey

SOLVERS = {
    "finite_difference": {"spacing": 100.0, "order": 4},
    "spectral_element": {"spacing": 500.0, "degree": 3},
    "discontinuous_galerkin": {"spacing": 500.0, "order": 3},
}


def simulation(method: str = "finite_difference", **changes: Any) -> lw.Simulation:
    """A half-space of 4 x 4 x 4 km."""
    content = {
        "domain": {"x": [0, 4000], "y": [0, 4000], "z": [-4000, 0]},
        "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2500}},
        "sources": [
            {
                "position": [1900, 2000, -2000], "moment_tensor": {"xy": 1e15},
                "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.0}},
            }
        ],
        "receivers": [{"network": "XX", "name": "A", "position": [100, 100, 0]}],
        "duration": 0.5,
        "solver": {"method": method, **SOLVERS[method]},
        "compute": {"backend": "cpu"},
    }  # fmt: skip
    return lw.Simulation(**(content | changes))


def partition(shares: list[RankWorkload], alone: float, transport: str, **changes: Any) -> ScalingEstimate:
    """Of given shares, each on a device of its own."""
    sent = 4 * max(share.sent_values for share in shares)
    entries = {
        "ranks": len(shares), "parts": None, "unit": "points", "least_units": 1, "most_units": 1, "balance": 1.0,
        "repeated_work": 0.0, "neighbors": 1, "sent_bytes": sent, "memory_bytes": 1, "device_memory_bytes": 1,
        "own_device": True, "speed": 1.0, "transport": TRANSPORTS[transport], "shares": shares, "alone_work": alone,
        "value_bytes": 4,
    }  # fmt: skip
    return ScalingEstimate(**(entries | changes))


# --- the model


def test_time_and_efficiency_by_hand() -> None:
    """Two ranks of 600 and 450 units, 1000 on one, which takes 1 s a step: rank 0 works 0.6 s."""
    link = TRANSPORTS["nccl"]
    values = round(0.3 * link.bandwidth / 4)  # 0.3 s under way, of which 0.4 x 0.6 s and 0.4 x 0.45 s are hidden
    shares = [RankWorkload(1, 600.0, 0, values), RankWorkload(1, 450.0, 0, values)]
    found = partition(shares, 1000.0, "nccl").timed(loop_s=10.0, steps=10)
    assert found.alone_s == 1.0 and found.exchange_s == pytest.approx(0.3)
    assert found.exposed_s == pytest.approx(0.3 - 0.18) and found.step_s == pytest.approx(0.6 + 0.06)
    assert found.efficiency == pytest.approx(1.0 / (2 * 0.66)) and found.loop_s == pytest.approx(6.6)
    hidden = partition([RankWorkload(1, 500.0, 1, 1000)] * 2, 1000.0, "nccl").timed(10.0, 10)
    assert hidden.efficiency == pytest.approx(1.0) and hidden.exposed_s == 0.0
    assert dict(hidden.lines())["exchange"].endswith(", overlapped") and "100.0%" in dict(hidden.lines())["efficiency"]


def test_too_small_meshes_for_several_devices_are_warned_about() -> None:
    """53,000 tetrahedra in four clusters, with 200,000 updates per step: 150 and 41.6 million elements/s on one and two
    H100 were measured."""
    shares = [RankWorkload(26_500, 1e5, 1, 100_000, exchanges=8)] * 2
    small = partition(shares, 2e5, "peer", unit="elements").timed(2e5 / 150e6, 1)
    assert small.step_s / small.alone_s == pytest.approx(150 / 41.6, rel=0.05)
    [text] = small.warnings()
    assert "2 ranks are predicted to take 3.5 times as long as one rank" in text and "53,000 elements" in text
    enough = small.exposed_s / (0.5 * small.alone_s)  # times as many elements: the exchanges cost what the half gains
    assert f"from about {53_000 * enough:,.0f} elements" in text
    larger = [RankWorkload(round(26_500 * 1.01 * enough), 1e5 * 1.01 * enough, 1, 100_000, exchanges=8)] * 2
    assert partition(larger, 2.02e5 * enough, "peer").timed(2.02e5 * enough / 150e6, 1).warnings() == []
    one_exchange = [RankWorkload(26_500, 1e5, 1, 100_000)] * 2
    assert partition(one_exchange, 2e5, "peer").timed(2e5 / 150e6, 1).warnings() == []


def test_exchanges_of_local_time_steps_are_those_of_the_smallest_elements() -> None:
    case = simulation("discontinuous_galerkin", material={"layers": [
        {"top": 0, "vp": 2000, "vs": 1100, "rho": 2000}, {"top": -1000, "vp": 6000, "vs": 3400, "rho": 2700},
    ]}, solver={
        "method": "discontinuous_galerkin", "order": 3, "spacing": 500.0, "local_time_steps": True,
    })  # fmt: skip
    package = load_method("discontinuous_galerkin")
    plan = package.plan(case, CPU)
    assert plan.clustering.ticks > 1
    assert {share.exchanges for share in package.partition_report(case, plan, 2, "cpu")} == {plan.clustering.ticks}


def test_ranks_that_share_a_processor_are_slower_by_their_number() -> None:
    shares = [RankWorkload(1, 500.0, 1, 0)] * 2
    found = partition(shares, 1000.0, "mpi", own_device=False, speed=0.5).timed(10.0, 10)
    assert found.step_s == pytest.approx(1.0 + TRANSPORTS["mpi"].latency_s), "on a CPU nothing is hidden"
    assert found.efficiency == pytest.approx(1.0, rel=1e-4)


# --- the shares of the methods


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_shares_make_up_the_whole(method: str, ranks: int) -> None:
    case, package = simulation(method), load_method(method)
    plan = package.plan(case, CPU)
    shares = package.partition_report(case, plan, ranks, "cpu")
    (alone,) = package.partition_report(case, plan, 1, "cpu")
    assert len(shares) == ranks and sum(share.units for share in shares) == plan.unit_total == alone.units
    assert alone.neighbors == alone.sent_values == 0
    assert sum(share.work for share in shares) >= alone.work * (1 - 1e-9)
    assert all(1 <= share.neighbors < ranks and share.sent_values > 0 for share in shares)


def test_the_parts_of_finite_differences_are_those_of_the_run() -> None:
    case = simulation(compute={"backend": "cpu", "parts": [1, 2, 1]})
    report = check_simulation(case, measure=False, ranks=2).partition
    assert report is not None and report.parts == [1, 2, 1] and report.repeated_work > 0
    nx, ny, nz = check_simulation(case, measure=False).plan["grid_points"]
    assert report.least_units + report.most_units == nx * ny * nz
    rows = (4 + 4) * nx * nz  # of both sides: the ghosts of velocities, four layers of three numbers each
    assert sum(share.sent_values for share in report.shares) == 3 * rows
    assert report.sent_bytes == 4 * 3 * rows / 2


# --- the report


def test_check_tells_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_small(tmp_path)
    text = lithowave("check", file, "--ranks", "2", "--no-measure", *settings("compute.parts=[1,2,1]"))
    for words in (
        "2 in 1 x 2 x 1 subdomains, 3,542 to 3,864 points per rank",
        "mean / maximum work",
        "15.5 kB per step, to at most 1 other rank",
        "memory of a rank  about 2",
    ):
        assert words in text, words
    assert "efficiency" not in text
    report = json.loads(lithowave("check", file, "--ranks", "2", "--json", *settings("duration=0.1")))
    found = report["partition"]
    assert 0 < found["efficiency"] <= 1.0 and found["step_s"] >= found["exposed_s"] > 0
    assert found["loop_s"] == pytest.approx(found["step_s"] * report["plan"]["steps"])
    assert [share["neighbors"] for share in found["shares"]] == [1, 1]
    assert sum(share["units"] for share in found["shares"]) == report["plan"]["point_count"]
    assert json.loads(lithowave("check", file, "--no-measure", "--json"))["partition"] is None


def test_numbers_that_are_no_partition_are_refused(tmp_path: Path) -> None:
    file = write_small(tmp_path)
    for number in ("1", "0", "-3"):
        assert f"--ranks: {number} is out of range" in lithowave("check", file, f"--ranks={number}", status=2)
    text = lithowave("check", file, "--ranks", "100", status=2)
    assert "23 x 23 x 14 points cannot be partitioned among 100 ranks" in text and "Traceback" not in text
    text = lithowave("check", file, "--ranks", "3", *settings("compute.parts=[2,2,1]"), status=2)
    assert "compute.parts: 2 x 2 x 1 parts for 3 ranks" in text


def test_a_survey_has_no_ranks(tmp_path: Path) -> None:
    text = lithowave("check", write_survey(tmp_path), "--ranks", "2", status=2)
    assert "--ranks: the file has a survey" in text and "files without a survey" in text


@pytest.mark.parametrize("method", METHODS)
def test_more_ranks_than_can_have_something_are_refused(method: str) -> None:
    with pytest.raises(InputError, match=r"5000"):
        check_simulation(simulation(method), measure=False, ranks=5000)


FINER = {"finite_difference": 40.0, "spectral_element": 180.0, "discontinuous_galerkin": 200.0}  # spacing, m


@pytest.mark.parametrize("method", METHODS)
def test_a_rank_of_eight_takes_an_eighth_of_the_memory(method: str) -> None:
    """That of the arrays, and that of the plan itself."""
    case = simulation(method, solver={"method": method, **SOLVERS[method], "spacing": FINER[method]})
    package = load_method(method)
    whole = package.plan(case, CPU)
    for part in on_ranks(8, lambda ranks: package.plan(case, CPU, ranks)):
        assert part.memory_bytes(CPU) <= 1.4 / 8 * whole.memory_bytes(CPU)
        assert part.plan_bytes() <= 1.4 / 8 * whole.plan_bytes()


def test_memory_is_that_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    case = simulation()
    whole = check_simulation(case, measure=False)
    arrays = whole.memory_bytes - 200_000_000
    monkeypatch.setattr("lithowave.run.check.PROCESS_BYTES", 0)
    limit_memory(monkeypatch, 0.8 * arrays)
    assert not check_simulation(case, measure=False).runnable
    shared = check_simulation(case, measure=False, ranks=2)
    [problem] = shared.problems
    assert "not enough memory for all ranks on this machine" in problem and "which is enough for 1" in problem
    assert not shared.runnable and shared.ranks_per_machine == shared.as_dict()["ranks_per_machine"] == 1
    assert shared.verdict == (
        "this run would fail with all 2 ranks on this machine; it needs at least 2 machines like this one, with at "
        "most 1 rank on each"
    )
    assert check_simulation(case, ranks=2).partition.efficiency is not None  # a cluster can still be planned
    limit_memory(monkeypatch, 3.0 * arrays)
    shared = check_simulation(case, measure=False, ranks=2)
    assert shared.runnable and shared.verdict == "this run would work here, with all 2 ranks on this machine"
    limit_memory(monkeypatch, 0.4 * arrays)
    shared = check_simulation(case, measure=False, ranks=2)
    assert "for a rank" in shared.problems[0] and len(shared.problems) == 1
    assert shared.verdict == "this run would fail here"
