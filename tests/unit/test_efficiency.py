"""The efficiency of a time loop and its largest loss, and the stored rates of the kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lithowave.run import BENCH, CHECK, LoopTimes, efficiency_line, load_rate, loop_efficiency, rates_file, store_rate
from reference_backend import CPU

SUMMARY = {"time_step_s": 0.008, "time_step_limit_s": 0.01}
METHOD = "spectral_element"


def plan(domain: int = 800, total: int = 1000) -> Any:
    return SimpleNamespace(
        domain_count=domain, unit_count=total, unit="elements", unit_kind="degree 4, affine isotropic",
        schedule=SimpleNamespace(time_step=0.008),
    )  # fmt: skip


def test_the_time_of_a_loop_is_the_ideal_loop_and_losses() -> None:
    # 1,000 steps of 10 ms, of which the domain takes 4 ms; a first step of 1.01 s; outputs of 2 s.
    times = LoopTimes(loop_s=13.0, first_step_s=1.01, outputs_s=2.0, steps=1000, simulated_s=8.0)
    found = loop_efficiency(plan(), SUMMARY, times, rate=200_000.0)
    assert found["ideal_updates"] == pytest.approx(800 * 800), "800 steps at the limit"
    assert found["ideal_loop_s"] == pytest.approx(3.2)
    assert found["loop_efficiency"] == pytest.approx(3.2 / 13.0)
    seconds = {one["name"]: one["seconds"] for one in found["loop_losses"]}
    assert seconds == pytest.approx({"layers": 6.0, "outputs": 2.0, "first step": 1.0, "time step": 0.8}, abs=2e-3)
    assert list(seconds) == ["layers", "outputs", "first step", "time step"], "the largest first"
    assert found["ideal_loop_s"] + sum(seconds.values()) == pytest.approx(13.0, rel=1e-3)
    line = efficiency_line({"loop_s": 13.0, **found}, METHOD)
    assert line == "25% (loop 13 s, ideal 3.2 s); largest loss: absorbing layers 60% of the step (20% of its updates)"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"first_step_s": 9.01}, "first step compiled or loaded kernels for 9 s"),
        ({"outputs_s": 9.0}, "outputs 69% of the loop"),
        ({"loop_s": 4.2}, "time step 80% of the limit"),
    ],
)
def test_the_largest_loss_is_named(changes: dict[str, float], expected: str) -> None:
    times = LoopTimes(**{"loop_s": 13.0, "first_step_s": 0.01, "outputs_s": 0.0, "steps": 1000, "simulated_s": 8.0}
                      | changes)  # fmt: skip
    assert loop_efficiency(plan(), SUMMARY, times, 200_000.0)["loop_losses"][0]["text"] == expected


def test_a_rate_below_that_of_the_run_is_not_used() -> None:
    """A check on a busy machine has stored it: the loop would be faster than the ideal one."""
    times = LoopTimes(loop_s=13.0, first_step_s=0.01, outputs_s=0.0, steps=1000, simulated_s=8.0)
    found = loop_efficiency(plan(), SUMMARY, times, rate=40_000.0)
    assert found["stored_rate_too_low"] and found["loop_efficiency"] is None and found["ideal_loop_s"] is None
    line = efficiency_line({"loop_s": 13.0, **found}, METHOD)
    assert line.startswith("unknown, as this run was faster than the stored rate of this device")
    assert not loop_efficiency(plan(), SUMMARY, times, rate=60_000.0)["stored_rate_too_low"]


def test_without_a_rate_the_line_states_how_to_measure_it() -> None:
    found = loop_efficiency(plan(), SUMMARY, LoopTimes(13.0, 9.01, 0.0, 1000, 8.0), None)
    assert found["loop_efficiency"] is None and found["ideal_loop_s"] is None
    line = efficiency_line({"loop_s": 13.0, **found}, METHOD)
    assert "largest known loss: first step compiled or loaded kernels for 9 s" in line
    assert line.endswith("or `lithowave bench --method spectral_element` measures it")


def test_rates_are_stored_by_device_method_and_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITHOWAVE_CACHE_DIR", str(tmp_path / "cache"))
    assert load_rate(METHOD, plan(), CPU) is None
    store_rate(METHOD, plan(), CPU, 1e5, CHECK)
    assert load_rate(METHOD, plan(), CPU) == (1e5, CHECK)
    store_rate(METHOD, plan(), CPU, 2e5, BENCH)
    store_rate(METHOD, plan(), CPU, 3e5, CHECK)
    assert load_rate(METHOD, plan(), CPU) == (2e5, BENCH), "that of the bench remains"
    assert load_rate("discontinuous_galerkin", plan(), CPU) is None
    other = plan()
    other.unit_kind = "degree 6, affine isotropic"
    assert load_rate(METHOD, other, CPU) is None
    rates_file().write_text("[")
    assert load_rate(METHOD, plan(), CPU) is None, "a damaged file"
    store_rate(METHOD, plan(), CPU, 1e5, CHECK)
    assert load_rate(METHOD, plan(), CPU) == (1e5, CHECK)
