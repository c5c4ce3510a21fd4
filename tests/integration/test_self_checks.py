"""Faults that would leave wrong results behind end a run with an error that names them; each is planted here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from cuda_devices import emulate
from lithowave import LithowaveWarning
from lithowave.errors import SelfCheckError
from lithowave.run import run_simulation
from lithowave.solvers import load_method
from small_run import SMALL, log_of, report_of

METHODS: dict[str, dict[str, Any]] = {
    "finite_difference": {},
    "spectral_element": {"solver": {"method": "spectral_element", "spacing": 200, "degree": 2}},
    "discontinuous_galerkin": {"solver": {"method": "discontinuous_galerkin", "spacing": 300, "order": 2}},
}
FORCE = [{"position": [10, 20, -300], "force": [1e12, -2e12, 3e12], "time_function": {"ricker": {"frequency": 3.0}}}]
SURFACE_FORCE = [FORCE[0] | {"position": [10, 20, 0]}]
LATE = {"duration": 0.1, "sources.0.time_function": {"gaussian": {"sigma": 0.06, "delay": 3.0}}}
every_method = pytest.mark.parametrize("method", METHODS)


def small(folder: Path, method: str, **changes: Any) -> lw.Simulation:
    plain = {"output.snapshots": [], "output.peak_motion": False, "output.checkpoint": None}
    return lw.Simulation.from_text(SMALL, folder).with_overrides(METHODS[method] | plain | changes)


def failure(simulation: lw.Simulation, folder: Path) -> str:
    """The error with which a run must end."""
    with pytest.raises(SelfCheckError) as caught:
        run_simulation(simulation, folder)
    report, text = report_of(folder), str(caught.value)
    assert report["exit_state"] == "failed" and report["error"] == text and "self-check failed" in log_of(folder)
    return text


def nothing(*_: Any) -> list:
    """In place of a method that is to fail."""
    return []


INJECTIONS = {"finite_difference": "step.Step.inject"}
ELEMENT_SOLVERS = {
    "spectral_element": "solver.SpectralElementSolver",
    "discontinuous_galerkin": "solver.DiscontinuousGalerkinSolver",
}


@every_method
def test_sources_that_move_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    target = INJECTIONS.get(method) or f"{ELEMENT_SOLVERS[method]}._injection_launches"
    monkeypatch.setattr(f"lithowave.solvers.{method}.{target}", nothing)
    text = failure(small(tmp_path, method), tmp_path / "run")
    assert "all velocities are zero, although the source sources[0] has acted since t = 0" in text


@every_method
def test_sources_that_begin_later_may_move_nothing(tmp_path: Path, method: str) -> None:
    with pytest.warns(LithowaveWarning, match="all seismograms are zero; no source acts in this run"):
        run_simulation(small(tmp_path, method, **LATE), tmp_path / "run")
    report = report_of(tmp_path / "run")
    assert report["exit_state"] == "finished" and "all seismograms are zero" in report["warnings"][-1]


@pytest.mark.parametrize("method", ["finite_difference", "spectral_element"])
def test_forces_on_a_rigid_face_may_move_nothing(tmp_path: Path, method: str) -> None:
    simulation = small(tmp_path, method, sources=[FORCE[0] | {"position": [0, 0, 0]}], boundaries={"top": "rigid"})
    with pytest.warns(LithowaveWarning, match="all seismograms are zero"):
        run_simulation(simulation, tmp_path / "run")


def test_a_shear_source_in_a_fluid_may_move_nothing(tmp_path: Path) -> None:
    water = {"homogeneous": {"vp": 1500, "vs": 0, "rho": 1000}}
    function = {"gaussian": {"sigma": 0.06}}
    source = {"position": [30, -20, -410], "moment_tensor": {"xy": 1e15}, "time_function": function}
    simulation = small(tmp_path, "discontinuous_galerkin", material=water, sources=[source])
    with pytest.warns(LithowaveWarning, match="no source acts in this run"):
        run_simulation(simulation, tmp_path / "run")


@every_method
def test_seismograms_that_stay_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(load_method(method).Solver, "record", nothing)
    text = failure(small(tmp_path, method), tmp_path / "run")
    assert "all seismograms are zero, although a P wave has reached a receiver by t = " in text


@every_method
def test_waves_that_have_not_arrived_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(load_method(method).Solver, "record", nothing)
    text = r"first P wave arrives after 0\.08232 s and the run ends at 0\.0[5-8]\d* s"
    with pytest.warns(LithowaveWarning, match=text):
        run_simulation(small(tmp_path, method, duration=0.08), tmp_path / "run")
    assert report_of(tmp_path / "run")["exit_state"] == "finished"


@every_method
def test_a_receiver_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    place = load_method(method).Solver.placement

    def losing(solver: Any, *lists: Any) -> Any:
        found = place(solver, *lists)
        found.receivers[1] = 0.0
        return found

    monkeypatch.setattr(load_method(method).Solver, "placement", losing)
    assert "1 of 4 receivers are not read exactly once; the ranks have 0 of the first one, XX.L1" in failure(
        small(tmp_path, method), tmp_path / "run"
    )


def change_finite_difference(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    from lithowave.solvers.finite_difference import sources as moments
    from lithowave.solvers.finite_difference import sources as point_lists

    entries, lines = point_lists._entries, moments.lines_of

    def changed(*arguments: Any) -> Any:
        number, target, weight, owner = entries(*arguments)
        return number, target, factor * weight, owner

    def changed_lines(*arguments: Any) -> Any:
        first, weight = lines(*arguments)
        return first, weight * np.array([factor, 1.0, 1.0])[:, None, None]

    monkeypatch.setattr(point_lists, "_entries", changed)
    monkeypatch.setattr(moments, "lines_of", changed_lines)


def change_spectral_element(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    from lithowave.solvers.spectral_element import solver

    entries = solver.source_entries

    def changed(*arguments: Any) -> Any:
        found = entries(*arguments)
        return replace(found, weight=factor * found.weight)

    monkeypatch.setattr(solver, "source_entries", changed)


def change_discontinuous_galerkin(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    from lithowave.solvers.discontinuous_galerkin import Responses

    shapes = Responses.source_shapes
    monkeypatch.setattr(Responses, "source_shapes", lambda *arguments: factor * shapes(*arguments))


CHANGES: dict[str, Callable[[pytest.MonkeyPatch, float], None]] = {
    "finite_difference": change_finite_difference,
    "spectral_element": change_spectral_element,
    "discontinuous_galerkin": change_discontinuous_galerkin,
}


@every_method
@pytest.mark.parametrize("kind", ["moment tensor", "force", "force at the surface"])
@pytest.mark.parametrize("factor", [0.0, 1.0001])
def test_source_weights_with_another_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, kind: str, factor: float
) -> None:
    sources = {"moment tensor": {}, "force": {"sources": FORCE}, "force at the surface": {"sources": SURFACE_FORCE}}
    CHANGES[method](monkeypatch, factor)
    text = failure(small(tmp_path, method, **sources[kind]), tmp_path / "run")
    assert f"the weights of 1 of 1 sources do not represent them; the first one, sources[0], has the {kind[:5]}" in text


PLACES = [[13, -27, -333], [100, 100, -200], [-555, 123, -10], [0, 0, 0], [310, 333, -0.5], [-600, 20, -40]]


@every_method
@pytest.mark.parametrize("top", ["free", "absorbing", "rigid"])
def test_sums_of_sources_anywhere(tmp_path: Path, method: str, top: str) -> None:
    function = {"gaussian": {"sigma": 0.06, "delay": 0.3}}
    moment = {"xx": 1e15, "yy": -3e15, "zz": 2e15, "xy": 5e14, "xz": -2e15, "yz": 7e14}
    kinds = ({"force": [1e12, -2e12, 3e12]}, {"moment_tensor": moment})
    sources = [{"position": place, "time_function": function} | kind for place in PLACES for kind in kinds]
    simulation = small(tmp_path, method, sources=sources, boundaries={"top": top}, duration=0.02)
    run_simulation(simulation, tmp_path / "run")
    assert report_of(tmp_path / "run")["exit_state"] == "finished"


# --- on a device


def drop_a_launch(backend: Any) -> None:
    """From now on a captured graph lacks its first kernel."""
    capture = backend.capture
    backend.capture = lambda function: capture(function)[1:]


def lose_copies(backend: Any) -> None:
    """From now on what is fetched does not arrive."""
    backend.copy_to_host = nothing


@every_method
@pytest.mark.parametrize(
    ("change", "text"),
    [(drop_a_launch, "a captured CUDA graph has"), (lose_copies, "bytes from the device did not arrive")],
    ids=["graph", "copy"],
)
def test_faults_of_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, change: Callable[[Any], None], text: str
) -> None:
    emulate(monkeypatch, change, graphs=True)
    assert text in failure(small(tmp_path, method, **{"compute.backend": "cuda"}, duration=0.1), tmp_path / "run")
