"""Runs in forked and new processes, in threads, on Dask, with joblib and in notebooks, and runs after each of them.

Each test is a script in its own process, as users write it. A run computes the same bits in all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from small_run import write_small

HEAD = """
import multiprocessing, sys, warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
import numpy as np
import lithowave as lw

warnings.simplefilter("ignore")
folder = Path(__file__).parent
fork, spawn = (multiprocessing.get_context(kind) for kind in ("fork", "spawn"))

def run(name):
    result = lw.Simulation.from_file(folder / "small.yaml").run(output=folder / name)
    assert result.complete and result.seismograms.complete
    return result.seismograms.data

def assert_equal(values):
    expected = run("expected") if not (folder / "expected").exists() else lw.load_seismograms(folder / "expected").data
    assert np.abs(expected).max() > 0
    for data in values:
        assert np.array_equal(data, expected)

def assert_refused(work):
    try:
        work()
    except lw.InputError as error:
        assert "forked from one that had used the threads of Numba (GNU OpenMP)" in str(error), error
        assert 'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))' in str(error), error
    else:
        raise AssertionError("not refused")

"""


def execute(folder: Path, script: str, **environment: str) -> None:
    """Execute a script in a new process."""
    folder.mkdir(exist_ok=True)
    write_small(folder)
    (folder / "script.py").write_text(HEAD + textwrap.dedent(script), encoding="utf-8")
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        [sys.executable, folder / "script.py"], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **variables, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def test_forked_processes_after_a_run_are_refused_and_new_processes_work(tmp_path):
    """GNU OpenMP cannot be used after a fork: each kernel would return at once, without a result."""
    execute(tmp_path, """
        if __name__ == "__main__":
            with ProcessPoolExecutor(1, mp_context=fork) as pool:  # forked before the first run: works
                data = list(pool.map(run, ["before"]))
            assert_equal(data)
            simulation = lw.Simulation.from_file(folder / "small.yaml")
            with ProcessPoolExecutor(1, mp_context=fork) as pool:
                assert_refused(lambda: list(pool.map(run, ["a", "b"])))
                assert_refused(pool.submit(simulation.check).result)
            with fork.Pool(1) as pool:
                assert_refused(lambda: pool.map(run, ["c"]))
            assert not any((folder / name).exists() for name in "abc")
            assert_equal([run("same process")])
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                assert_equal(pool.map(run, ["d", "e"]))
    """, NUMBA_THREADING_LAYER="omp")  # fmt: skip


def test_runs_in_threads_at_the_same_time(tmp_path):
    execute(tmp_path, """
        with ThreadPoolExecutor(3) as pool:
            assert_equal(pool.map(run, "abcdef"))
        assert_equal([run("same thread")])
    """, NUMBA_THREADING_LAYER="omp")  # fmt: skip


def test_threads_and_forks_without_openmp(tmp_path):
    """The threading layer workqueue permits forks; it ends a process in which two threads use it at the same time."""
    execute(tmp_path, """
        if __name__ == "__main__":
            with ThreadPoolExecutor(3) as pool:
                assert_equal(pool.map(run, "abc"))
                with ProcessPoolExecutor(2, mp_context=fork) as processes:
                    assert_equal([*pool.map(run, "de"), *processes.map(run, "fg")])
            import numba
            assert numba.threading_layer() == "workqueue"
    """, NUMBA_THREADING_LAYER="workqueue")  # fmt: skip


def test_a_process_that_is_forked_during_a_run_does_not_hold_its_folder(tmp_path):
    execute(tmp_path, """
        import os, signal
        children = []

        class Fork(lw.Callback):
            def due(self, clock):
                return clock.step == 3

            def __call__(self, solver, clock):
                if not (child := os.fork()):
                    signal.pause()
                children.append(child)

        simulation = lw.Simulation.from_file(folder / "small.yaml")
        simulation.run(output=folder / "run", callbacks=[Fork()])
        try:
            simulation.run(output=folder / "run", overwrite=True)
        finally:
            os.kill(children[0], signal.SIGKILL)
    """)  # fmt: skip


@pytest.mark.slow
def test_joblib(tmp_path):
    pytest.importorskip("joblib")
    execute(tmp_path, """
        if __name__ == "__main__":
            from joblib import Parallel, delayed

            run("here")
            for backend in ("loky", "threading"):
                assert_equal(Parallel(2, backend)(delayed(run)(f"{backend}_{name}") for name in "ab"))
            assert_refused(lambda: Parallel(2, "multiprocessing")(delayed(run)(name) for name in "cd"))
            assert_equal([run("again")])
    """, NUMBA_THREADING_LAYER="omp")  # fmt: skip


def test_the_interrupt_of_a_notebook(tmp_path):
    """It raises KeyboardInterrupt in the cell; the next cells resume the run, and run again."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("jupyter_client")
    execute(tmp_path, """
        if __name__ == "__main__":
            import time
            from jupyter_client.manager import start_new_kernel

            (folder / "cells.py").write_text(Path(__file__).read_text().partition("if __name__")[0])
            manager, client = start_new_kernel(cwd=str(folder))

            def cell(text):
                reply = client.execute_interactive(text, timeout=200, output_hook=len)["content"]
                return reply["status"], reply.get("ename"), reply.get("evalue")

            try:
                assert cell("from cells import *; import signal; handler = signal.getsignal(signal.SIGINT)")[0] == "ok"
                client.execute("simulation = lw.Simulation.from_file('small.yaml', {'duration': 60.0})\\n"
                               "long = simulation.run(output='long')", stop_on_error=False)
                while not (folder / "long" / "progress.json").exists():
                    time.sleep(0.05)
                manager.interrupt_kernel()
                assert client.get_shell_msg(timeout=60)["content"]["ename"] == "RunKeyboardInterrupt"
                assert cell("assert 'long' not in globals()")[0] == "ok"
                assert cell("assert signal.getsignal(signal.SIGINT) is handler")[0] == "ok"
                assert cell("assert not lw.load_seismograms('long').complete")[0] == "ok"
                assert cell("simulation.run(output='long')")[1] == "InputError"  # the folder is not overwritten
                assert cell("assert_equal([run('again')])") == ("ok", None, None)
            finally:
                client.stop_channels()
                manager.shutdown_kernel(now=True)
    """)  # fmt: skip


@pytest.mark.gpu
def test_a_device_in_forked_processes_and_in_threads(tmp_path):
    """A fork cannot use the device of its parent, and does not use the CPU instead. Threads can share a device."""
    execute(tmp_path, """
        def run_on_device(name):
            simulation = lw.Simulation.from_file(folder / "small.yaml")
            return simulation.run(output=folder / name, backend="cuda").seismograms.data

        def run_on_any(name):
            return lw.Simulation.from_file(folder / "small.yaml").run(output=folder / name, backend="auto").report

        if __name__ == "__main__":
            expected = run_on_device("expected")
            with ProcessPoolExecutor(1, mp_context=fork) as pool:
                for work in (run_on_device, run_on_any):
                    try:
                        pool.submit(work, "fork").result()
                    except lw.InputError as error:
                        assert "forked from one that had used the CUDA driver" in str(error), error
                    else:
                        raise AssertionError("not refused")
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                assert np.array_equal(pool.submit(run_on_device, "spawn").result(), expected)
            with ThreadPoolExecutor(3) as pool:
                assert all(np.array_equal(data, expected) for data in pool.map(run_on_device, "abcdef"))
    """, NUMBA_THREADING_LAYER="workqueue")  # fmt: skip
    execute(tmp_path / "openmp", """
        def run_on_device(name):
            simulation = lw.Simulation.from_file(folder / "small.yaml")
            return simulation.run(output=folder / name, backend="cuda").seismograms.data

        if __name__ == "__main__":
            with ThreadPoolExecutor(3) as pool:
                first, *others = pool.map(run_on_device, "abcdef")
            assert np.abs(first).max() > 0 and all(np.array_equal(data, first) for data in others)
    """, NUMBA_THREADING_LAYER="omp")  # fmt: skip
