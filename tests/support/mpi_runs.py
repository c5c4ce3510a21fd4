"""Runs on several ranks, started as users start them, and what they leave beside each other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml

from small_run import lithowave

SUPPORT = Path(__file__).parent
PRINTS_ONLY = 400  # seconds: long enough for kernels to be compiled


def find_mpiexec() -> str | None:
    """The launcher of the environment that the tests run in, else that of the system."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def rank_command(
    size: int, arguments: Sequence[str], device: str = "plain", threads: int = 1
) -> tuple[list[str], dict[str, str]]:
    """Command and environment of `lithowave ARGUMENTS` on so many ranks; the test is skipped where MPI is missing."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    launcher = find_mpiexec()
    if launcher is None:
        pytest.skip("there is no mpiexec")
    environment = os.environ | {
        "NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT.parents[1] / "src"), os.environ.get("PYTHONPATH")])),
        "LITHOWAVE_SHARED_DEVICES": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }  # fmt: skip
    more = ["--oversubscribe"] if "open" in launcher_version(launcher) else []
    command = [launcher, *more, "-n", str(size), sys.executable, str(SUPPORT / "mpi_worker.py"), device, *arguments]
    return command, environment


def launcher_version(launcher: str) -> str:
    """What it says of itself, in lower case."""
    told = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return (told.stdout + told.stderr).lower()


def on_ranks(size: int, *arguments: str, device: str = "plain", status: int = 0, threads: int = 1) -> str:
    """Output of `lithowave ARGUMENTS` on so many ranks (1: in this process), which must end with this status.

    threads : the maximum for `compute.threads` of each rank.
    """
    if size == 1:
        assert device == "plain"
        return lithowave(*arguments, status=status)
    command, environment = rank_command(size, arguments, device, threads)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PRINTS_ONLY, check=False
    )
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout + done.stderr


def write_description(path: Path, description: Mapping[str, Any], **changes: Any) -> Path:
    """A simulation file; changes : of dotted keys, with __ for the dot."""
    content: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(description)))
    for key, value in changes.items():
        *parents, last = key.split("__")
        part = content
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = value
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def results(folder: Path) -> dict[str, np.ndarray]:
    """All arrays of numbers that a run left, by file and name."""
    found: dict[str, np.ndarray] = {}
    for path in sorted([*folder.glob("*.h5"), *folder.glob("snapshots/*.vtkhdf")]):
        with h5py.File(path) as file:

            def take(name: str, item: Any, file_name: str = path.name) -> None:
                if hasattr(item, "shape") and item.dtype.kind == "f":
                    found[f"{file_name}/{name}"] = item[()]

            file.visititems(take)
    return found


def largest_difference(folder: Path, reference: Path) -> float:
    """Of all samples of all results, relative to the largest value of their kind in the reference."""
    one, other = results(folder), results(reference)
    assert one.keys() == other.keys()
    worst = 0.0
    for name, values in other.items():
        own = one[name]
        assert own.shape == values.shape and np.array_equal(np.isnan(own), np.isnan(values)), name
        if values.size:
            scale = np.nanmax(np.abs(values)) or 1.0
            worst = max(worst, float(np.nanmax(np.abs(own.astype(float) - values)) / scale))
    return worst
