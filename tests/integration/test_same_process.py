"""Several runs in one process: again, in a thread, and after a run that failed or was interrupted.

The results are bitwise identical to those of the first run, and nothing of a run is left in the process.
"""

from __future__ import annotations

import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import lithowave as lw
from cuda_devices import emulate
from lithowave import InputError, InstabilityError
from lithowave.output import LOG
from lithowave.run import is_locked, restart_run, run_simulation
from small_run import assert_same_results, log_of, report_of, write_small

METHODS: dict[str, dict[str, Any]] = {
    "finite_difference": {"order": 4, "spacing": 100},
    "spectral_element": {"degree": 2, "spacing": 400},
    "discontinuous_galerkin": {"order": 2, "spacing": 600},
}
CASES = [  # those of elements on an emulated device are slow
    pytest.param(
        (method, backend), id=f"{method}-{backend}",
        marks=pytest.mark.slow if backend == "cuda" and method != "finite_difference" else (),
    )
    for method in METHODS for backend in ("cpu", "cuda")
]  # fmt: skip
PULSE = {"gaussian": {"sigma": 0.06, "delay": 0.1}}
TOO_STRONG = {"sources.0": {"position": [30, -20, -410], "moment_tensor": {"xx": 1e60}, "time_function": PULSE}}


@pytest.fixture(scope="module", params=CASES)
def first(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[lw.Simulation, Path]:
    """A simulation on the CPU or on an emulated CUDA device, and the run folder of its first run."""
    folder = tmp_path_factory.mktemp("first")
    simulation = described(folder, *request.param)
    with pytest.MonkeyPatch.context() as monkeypatch:
        emulate(monkeypatch)
        run_simulation(simulation, folder / "run")
        yield simulation, folder / "run"


def described(folder: Path, method: str, backend: str) -> lw.Simulation:
    """The small simulation with this method."""
    changes = {"solver": {"method": method, **METHODS[method]}, "compute.backend": backend, "duration": 0.16}
    if method != "finite_difference":  # with layers at all sides, hexahedra would require many kernels
        changes["boundaries"] = {"sides": "rigid"} if method == "spectral_element" else {}
    return lw.Simulation.from_file(write_small(folder, ("interval: 0.3", "interval: 0.08")), changes)


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    """Every test leaves the state of the process as it was."""
    before = process_state()
    yield
    assert process_state() == before


def process_state() -> dict[str, Any]:
    """The settings of the process that a run could change."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    return {
        "handlers": [signal.getsignal(number) for number in numbers],
        "filters": list(warnings.filters),
        "floating-point errors": np.geterr(),
        # The pool of the process starts its threads when none is idle, at any time.
        "threads": [one.name for one in threading.enumerate() if not one.name.startswith("lithowave part")],
        "Numba threads": numba.get_num_threads(),
    }


def assert_finished(folder: Path, reference: Path) -> None:
    """The results are those of the reference, and so are the reports, except for times."""
    assert_same_results(folder, reference)
    report, expected = report_of(folder), report_of(reference)
    assert report.keys() == expected.keys() and report["exit_state"] == "finished"
    for name in ("plan", "backend", "device", "warnings", "restartable"):
        assert report[name] == expected[name], name
    assert lines_of(folder) == lines_of(reference)
    assert_released(folder)


def assert_released(folder: Path) -> None:
    assert not is_locked(folder / LOG) and not (folder / "progress.json").exists()


def lines_of(folder: Path) -> list[str]:
    """The log without times."""
    return [line.split(" ", 2)[2].split(", ")[0] for line in log_of(folder).splitlines()]


class Interrupted(lw.Callback):
    """Raises KeyboardInterrupt after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, solver: Any, clock: Any) -> None:
        if clock.step == self.step:
            raise KeyboardInterrupt


def test_a_second_run(first: tuple[lw.Simulation, Path], tmp_path: Path) -> None:
    simulation, reference = first
    run_simulation(simulation, tmp_path / "run")
    assert_finished(tmp_path / "run", reference)


def test_a_run_in_a_thread(first: tuple[lw.Simulation, Path], tmp_path: Path) -> None:
    """Only the main thread can install signal handlers."""
    simulation, reference = first
    thread = threading.Thread(target=run_simulation, args=(simulation, tmp_path / "run"))
    thread.start()
    thread.join()
    assert_finished(tmp_path / "run", reference)


def test_a_run_after_one_that_was_unstable(first: tuple[lw.Simulation, Path], tmp_path: Path) -> None:
    simulation, reference = first
    with pytest.raises(InstabilityError, match="unstable at"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_simulation(simulation.with_overrides(TOO_STRONG), tmp_path / "unstable")
    report = report_of(tmp_path / "unstable")
    assert report["exit_state"] == "failed" and report["error"].startswith("unstable at step")
    assert f"step {report['failed_at_step']}: failed: unstable" in log_of(tmp_path / "unstable")
    assert_released(tmp_path / "unstable")
    run_simulation(simulation, tmp_path / "unstable", overwrite=True)
    assert_finished(tmp_path / "unstable", reference)


def test_a_run_after_one_that_was_refused(first: tuple[lw.Simulation, Path], tmp_path: Path) -> None:
    simulation, reference = first
    report, log = report_of(reference), log_of(reference)
    with pytest.raises(InputError, match="contains another run.*overwrite=True"):
        run_simulation(simulation, reference)
    assert (report_of(reference), log_of(reference)) == (report, log)
    run_simulation(simulation, tmp_path / "run")
    assert_finished(tmp_path / "run", reference)


def test_a_run_after_an_interrupted_one(first: tuple[lw.Simulation, Path], tmp_path: Path) -> None:
    """After Ctrl-C in a notebook, a second run is like the first one, and the interrupted run can be restarted."""
    simulation, reference = first
    steps = report_of(reference)["plan"]["steps"]
    with pytest.raises(KeyboardInterrupt):
        run_simulation(simulation, tmp_path / "interrupted", callbacks=[Interrupted(steps - 2)])
    report = report_of(tmp_path / "interrupted")
    assert (report["exit_state"], report["error"]) == ("failed", "KeyboardInterrupt")
    assert report["failed_at_step"] == steps - 2
    assert f"step {steps - 2}: failed: KeyboardInterrupt" in log_of(tmp_path / "interrupted")
    assert_released(tmp_path / "interrupted")
    run_simulation(simulation, tmp_path / "run")
    assert_finished(tmp_path / "run", reference)
    restart_run(tmp_path / "interrupted", callbacks=[Interrupted(0)])
    report = report_of(tmp_path / "interrupted")
    assert report["exit_state"] == "finished" and 0 < report["restarts"][0]["step"] <= steps - 2
    assert report["restarts"][0]["before"]["error"] == "KeyboardInterrupt" and "error" not in report
    assert_same_results(tmp_path / "interrupted", reference)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads(tmp_path: Path, method: str) -> None:
    """Results are bitwise identical with 1 to 4 threads, as far as NUMBA_NUM_THREADS permits them."""
    simulation = described(tmp_path, method, "cpu")
    for threads in range(1, 5):
        report = run_simulation(simulation, tmp_path / f"{threads}", threads=threads).report
        assert report["threads"] == min(threads, numba.config.NUMBA_NUM_THREADS)
        assert_same_results(tmp_path / f"{threads}", tmp_path / "1")
    numba.set_num_threads(1)
