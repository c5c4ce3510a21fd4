"""A run of a second or less, the command line inside and outside this process, results compared by bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lithowave as lw
from lithowave.cli import app
from lithowave.output import load_snapshots
from lithowave.solvers.finite_difference import FiniteDifferenceSolver

# One thread: on a machine with other work two would wait for each other at every kernel of so small a grid.
SMALL = """\
title: small
domain: {x: [-600, 600], y: [-600, 600], z: [-800, 0]}
boundaries: {layer: {cells: 5}}
material: {homogeneous: {vp: 5000, vs: 2900, rho: 2600}}
sources:
  - position: [30, -20, -410]
    double_couple: {strike: 30, dip: 60, rake: 90, mw: 4}
    time_function: {gaussian: {sigma: 0.06, delay: 0.3}}
receivers:
  - {network: XX, name: S01, position: [330, 250, 0]}
  - {network: XX, line: {prefix: L, start: [-500, 0, 0], end: [500, 0, 0], count: 3}}
duration: 0.8
solver: {spacing: 100, order: 4}
compute: {backend: cpu, precision: single, threads: 1}
output:
  directory: out
  sampling_interval: 0.02
  quantity: velocity
  formats: []
  snapshots:
    - {interval: 0.08, plane: {z: 0}, fields: [velocity]}
    - {interval: 0.2, volume: true, stride: 2, fields: [stress, pressure]}
  peak_motion: true
  checkpoint: {interval: 0.3}
"""
EVERYTHING = ("output.stress=true", "output.pressure=true", "output.quantity=acceleration")


def write_small(folder: Path, *changes: tuple[str, str], name: str = "small.yaml") -> Path:
    """The description as a file, with texts exchanged."""
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def settings(*entries: str) -> list[str]:
    """Arguments ``--set`` for several entries."""
    return [part for entry in entries for part in ("--set", entry)]


def lithowave(*arguments: object, status: int | None = 0) -> str:
    """Output of the command line, called in this process: both streams, or with ``--json`` the standard output: notes
    about the compilation are on the other one. The exit status is as told (None: any)."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="lithowave")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    try:
        both = result.stdout + result.stderr
    except ValueError:  # the older of the two libraries below has them together
        both = result.stdout
    assert status is None or result.exit_code == status, both
    return result.stdout if "--json" in arguments and result.exit_code == 0 else both


def spawn(*arguments: object, before: str = "", wait: bool = True, **options: object) -> subprocess.Popen:
    """The command line in a process of its own; `before` is Python that runs first."""
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
{textwrap.dedent(before)}
sys.argv = ["lithowave", *{[str(argument) for argument in arguments]!r}]
from lithowave.cli import main
main()
"""
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )
    if wait:
        process.output, process.errors = process.communicate(timeout=120)
    return process


def signal_after(step: int, number: int, pause: float = 0.0) -> str:
    """For `spawn`: the process sends itself a signal when it has computed step number `step`.

    pause : s, after every step, in which checkpoints are written.
    """
    return f"""
        import os, time
        from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver as Solver
        advance = Solver.advance
        def advance_and_signal(self, step):
            advance(self, step)
            time.sleep({pause})
            if step + 1 == {step}:
                os.kill(os.getpid(), {int(number)})
        Solver.advance = advance_and_signal
    """


def stop_at(monkeypatch: pytest.MonkeyPatch, *steps: int, number: int = signal.SIGTERM) -> None:
    """From now on runs in this process get a signal after these steps."""

    def send(step: int) -> None:
        if step in steps:
            os.kill(os.getpid(), number)

    after_steps(monkeypatch, send)


class StopAt(lw.Callback):
    """The process gets SIGTERM once after each of these steps."""

    def __init__(self, steps: set[int]) -> None:
        self.steps = steps

    def __call__(self, solver: Any, clock: Any) -> None:
        if clock.step in self.steps:
            self.steps.remove(clock.step)
            os.kill(os.getpid(), signal.SIGTERM)


def after_steps(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """From now on runs in this process call `act` after every step, with the number of steps done."""
    advance = FiniteDifferenceSolver.advance

    def advance_and_act(solver: FiniteDifferenceSolver, step: int) -> None:
        advance(solver, step)
        act(step + 1)

    monkeypatch.setattr(FiniteDifferenceSolver, "advance", advance_and_act)


def result_of(run: Callable[..., lw.Result], *arguments: Any, **keywords: Any) -> lw.Result:
    """The result of a run, also if a signal has ended it."""
    try:
        return run(*arguments, **keywords)
    except (lw.RunInterrupted, lw.RunKeyboardInterrupt) as stop:
        assert stop.checkpoint is None or stop.checkpoint.is_file()
        return stop.result


def report_of(folder: Path) -> dict:
    """run.json."""
    return json.loads((folder / "run.json").read_text())


def log_of(folder: Path) -> str:
    """log.txt."""
    return (folder / "log.txt").read_text()


def assert_same_results(first: Path, second: Path) -> None:
    """Seismograms, snapshots and peak motion of two runs are the same, bit for bit."""
    a, b = lw.load_seismograms(first), lw.load_seismograms(second)
    assert a.complete and b.complete and np.abs(a.data).max() > 0
    for name in ("time", "data", "stress", "pressure"):
        assert_same_bits(getattr(a, name), getattr(b, name), f"seismograms: {name}")
    names = sorted(path.name for path in (first / "snapshots").iterdir())
    assert names == sorted(path.name for path in (second / "snapshots").iterdir())
    for name in names:
        with (
            load_snapshots(first / "snapshots" / name) as s,
            load_snapshots(second / "snapshots" / name) as t,
        ):
            assert np.array_equal(s.times, t.times), name
            for field in s.fields:
                for step in range(len(s)):
                    assert_same_bits(s.read(step, field), t.read(step, field), f"{name}: {field} {step}")
    p, q = lw.load_peak_motion(first / "peak_motion.h5"), lw.load_peak_motion(second / "peak_motion.h5")
    for maps, others in ((p.pgv, q.pgv), (p.pgd, q.pgd)):
        assert max(values.max() for values in maps.values()) > 0
        for measure, values in maps.items():
            assert_same_bits(values, others[measure], f"peak motion: {measure}")


def assert_same_bits(a: np.ndarray | None, b: np.ndarray | None, what: str) -> None:
    """Same shape, type and bytes."""
    if a is None or b is None:
        assert a is b, what
    else:
        assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes(), what
