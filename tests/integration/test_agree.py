"""`lithowave agree`: runs, verdicts, files, exit status, and what a second call uses again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lithowave as lw
from small_run import lithowave, report_of, settings, stop_at, write_small

METHODS = ("--methods", "finite_difference,spectral_element", "--no-measure")
STACEY = ("solver.method=spectral_element", "boundaries.absorption=stacey", "boundaries.layer.cells=10")


def small_file(folder: Path) -> Path:
    """A description of runs of a second."""
    return write_small(folder, ("{spacing: 100, order: 4}", "{max_frequency: 3}"))


def agree(file: Path, target: Path, *more: object, status: int = 1) -> str:
    """What the command prints; the methods differ by the reflections of spectral elements."""
    return lithowave("agree", file, *METHODS, *settings(*STACEY), "--output", target, *more, status=status)


@pytest.fixture(scope="module")
def differing(tmp_path_factory):
    """The folder of an agreement of two methods that differ by the reflections of one, and what the command printed."""
    folder = tmp_path_factory.mktemp("agree")
    file, target = small_file(folder), folder / "both"
    text = agree(file, target, "--json", folder / "copy.json")
    return file, target, text


def test_the_boundary_of_one_method_is_named(differing) -> None:
    _, target, text = differing
    assert "The methods do not agree within 5%" in text
    assert "The absorbing boundary of spectral element (degree 4) (stacey) causes an error" in text
    assert "Set boundaries.absorption: layer" in text and "next:    lithowave compare" in text
    result = json.loads((target / "agree.json").read_text(encoding="utf-8"))
    assert not result["agreed"] and result == json.loads((target.parent / "copy.json").read_text(encoding="utf-8"))
    [pair] = result["pairs"]
    shares = {(cause["method"], cause["kind"]): cause["share"] for cause in pair["causes"]}
    assert shares["spectral_element", "wider"] > 0.6
    assert result["findings"][0]["cause"] == "boundary" and result["findings"][0]["method"] == "spectral_element"
    assert len(result["runs"]) == 6 and all((Path(run["directory"]) / "run.json").is_file() for run in result["runs"])
    assert (target / "agree.png").stat().st_size > 20_000
    assert any("boundaries.absorption: auto with finite_difference" in note for note in result["notes"])


def test_finished_runs_are_used_again(differing) -> None:
    file, target, _ = differing
    before = {path: path.stat().st_mtime_ns for path in target.glob("*/seismograms.h5")}
    text = agree(file, target)
    assert text.count("finished earlier, used again") == 6 and "step " not in text
    assert before == {path: path.stat().st_mtime_ns for path in target.glob("*/seismograms.h5")} and len(before) == 6


def test_runs_of_another_description_are_not_replaced(differing) -> None:
    file, target, _ = differing
    text = agree(file, target, "--set", "duration=0.7", status=2)
    assert "contains another run (with another description)" in text and "--overwrite" in text
    report = report_of(target / "spectral_element")
    (target / "spectral_element" / "run.json").write_text(json.dumps(report | {"commit": "other"}), encoding="utf-8")
    assert "by another version of lithowave" in agree(file, target, status=2)
    (target / "spectral_element" / "run.json").write_text(json.dumps(report), encoding="utf-8")


def test_a_dry_run_computes_nothing(differing, tmp_path) -> None:
    file, target, _ = differing
    text = agree(file, tmp_path / "new", "--dry-run", status=0)
    assert "only if methods differ" in text and "spectral element (degree 4), wider" in text
    assert not (tmp_path / "new").exists()
    text = agree(file, target, "--dry-run", "--json", tmp_path / "plan.json", status=0)
    assert text.count(" finished") == 6 and "time  0 s" in text
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert {entry["state"] for entry in plan} == {"finished"} and all(entry["steps"] > 0 for entry in plan)


def test_a_method_that_fails_in_its_plan_is_excluded(tmp_path) -> None:
    file, options = small_file(tmp_path), ("--dry-run", "--no-measure", "--output", tmp_path / "all")
    free = ("--set", "solver.method=spectral_element", "--set", "boundaries.bottom=free")
    text = lithowave("agree", file, *options, *free)
    assert "finite_difference: boundaries.bottom: free is not available" in text and "2 methods" in text
    assert "discontinuous galerkin (order 5), wider" in text
    text = lithowave("agree", file, *options, *free, "--methods", "finite_difference,spectral_element", status=2)
    assert "boundaries.bottom: free is not available on this face with finite_difference" in text


def test_wrong_options_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = small_file(tmp_path)
    text = lithowave("agree", file, "--methods", "finite_diff,spectral_element", status=2)
    assert "did you mean 'finite_difference'" in text
    assert "--tolerance: 'low' is not a number" in lithowave("agree", file, "--tolerance", "low", status=2)
    text = lithowave("agree", file, "--solver", "spectral_element.orders=4", status=2)
    assert "unknown key 'orders'" in text and not list(tmp_path.glob("out*"))


@pytest.mark.slow
def test_methods_with_absorbing_layers_agree(tmp_path) -> None:
    """At the coarse resolution of this run, within 10%."""
    file = small_file(tmp_path)
    layers = settings("boundaries.absorption=layer", "boundaries.layer.elements=3")
    text = lithowave("agree", file, *METHODS, *layers, "--tolerance", "10%", "--output", tmp_path / "both")
    assert "The methods agree within 10% at every receiver" in text
    assert "Absorbing faces further out change finite difference (order 4)" in text
    runs = {path.parent.name for path in (tmp_path / "both").glob("*/run.json")}
    assert runs == {"finite_difference", "finite_difference_finer", "finite_difference_wider", "spectral_element"}


def test_the_function_of_python(differing) -> None:
    file, target, _ = differing
    simulation = lw.Simulation.from_file(
        file, {"solver.method": "spectral_element", "boundaries.absorption": "stacey", "boundaries.layer.cells": 10}
    )
    shown = []
    result = lw.agree(simulation, ["finite_difference", "spectral_element"], output=target, show=shown.append)
    assert not shown and not result.agreed  # all runs are finished
    assert result.worst[0] in str(result).replace(" ", "_") and result.findings[0].cause == "boundary"
    assert result.figure(target.parent / "worst.pdf").is_file()
    with pytest.raises(lw.InputError, match="--tolerance: 2 is out of range"):
        lw.agree(simulation, tolerance=2.0)


def test_a_stopped_agreement_resumes(tmp_path, monkeypatch) -> None:
    file, target = small_file(tmp_path), tmp_path / "both"
    with monkeypatch.context() as patch:
        stop_at(patch, 30)
        text = agree(file, target, status=143)
    assert "stopped by SIGTERM" in text and "resumes the agreement" in text
    state = report_of(target / "finite_difference")
    assert state["exit_state"] == "stopped" and not (target / "agree.json").exists()
    agree(file, target, "--tolerance", "90%", status=0)
    [part] = report_of(target / "finite_difference")["restarts"]
    assert part["step"] >= 30 and (target / "agree.json").is_file()


def test_prepared_runs_can_be_computed_separately(tmp_path) -> None:
    file, target = small_file(tmp_path), tmp_path / "both"
    text = agree(file, target, "--prepare", status=0)
    files = sorted(target.glob("*.yaml"))
    assert len(files) == 6 and all(f"lithowave run {path}" in text for path in files)
    for name in ("finite_difference", "spectral_element"):
        lithowave("run", target / f"{name}.yaml")
    text = agree(file, target, "--tolerance", "90%", status=0)
    assert text.count("finished earlier, used again") == 2
