"""Repetitions of a small run with spectral elements and a sea, whose results must be bitwise identical.

    python benchmarks/repeat_bits.py                     # 200 runs, in turn of all kinds below
    python benchmarks/repeat_bits.py --runs 40 --kinds fresh-2,load-2 --json bits.json --reference first.json

The box has water above a solid with a sloping sea floor, a source and a receiver in either, perfectly matched layers at
the sides, and records pressure, stress, snapshots and peak motion. The kinds of runs:

``same-N``   in one process with N threads, which computes all its runs one after another;
``fresh-N``  each in a new process with N threads, and kernels from the cache on disk;
``empty-N``  each in a new process with an empty cache, so that its kernels are compiled and not loaded (a minute);
``load-N``   as ``fresh-N``, while another process occupies the processor and memory is filled with NaN before each run.

All bytes of all results are compared with the first run, or with a run of an earlier call (--reference), also between
different numbers of threads. The kinds ``empty-N`` compute one run in fifty, since each compiles for a minute. Exit
status 1 if any byte differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

KINDS = ("same-1", "same-2", "fresh-1", "fresh-2", "load-2", "empty-1", "empty-2")
COMPILING = 50  # one in this number of runs compiles its kernels, if other kinds are computed as well

DESCRIPTION = {
    "domain": {"x": [-200, 200], "y": [-200, 200], "z": [-400, 0]},
    "material": {
        "layers": [
            {"top": 0, "vp": 1500, "vs": 0, "rho": 1000},
            {"top": "floor.npz", "vp": 3000, "vs": 1700, "rho": 2300},
        ],
    },
    "sources": [
        {"position": [20, -10, -60], "moment_tensor": {"xx": 1e12, "yy": 1e12, "zz": 1e12},
         "time_function": {"gaussian": {"sigma": 0.08, "delay": 0.35}}},
        {"position": [-60, 30, -310], "double_couple": {"strike": 30, "dip": 60, "rake": 40, "m0": 1e12},
         "time_function": {"gaussian": {"sigma": 0.08, "delay": 0.35}}},
    ],
    "receivers": [
        {"name": "W", "position": [100, 50, -30]}, {"name": "R", "position": [-90, 40, -280]},
        {"network": "XX", "line": {"prefix": "L", "start": [-180, 0, -100], "end": [180, 0, -100], "count": 7}},
    ],
    "duration": 0.6,
    "solver": {"method": "spectral_element", "max_frequency": 4.0},
    "output": {
        "sampling_interval": 0.02, "pressure": True, "stress": True, "peak_motion": True,
        "snapshots": [{"interval": 0.1, "plane": {"y": 0}, "fields": ["velocity", "pressure"]}],
    },
}  # fmt: skip


def digests(folder: Path, threads: int) -> dict[str, str]:
    """Compute one run, and return a hash of each data set of its results."""
    import h5py
    import numpy as np

    import lithowave as lw

    axis = np.linspace(-400.0, 400.0, 9)
    elevation = -200.0 + 0.1 * axis + 0.05 * axis[:, None]
    np.savez(folder / "floor.npz", x=axis, y=axis, elevation=elevation, axes=["y", "x"])
    material = {**DESCRIPTION["material"]}
    material["layers"] = [material["layers"][0], {**material["layers"][1], "top": str(folder / "floor.npz")}]
    run = folder / "run"
    simulation = lw.Simulation(**{**DESCRIPTION, "material": material})
    simulation.run(output=str(run), overwrite=True, backend="cpu", threads=threads)
    found: dict[str, str] = {}
    for path in sorted(run.rglob("*.h5")):
        with h5py.File(path) as file:

            def add(name: str, item: object, path: Path = path) -> None:
                if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
                    found[f"{path.relative_to(run)}:{name}"] = hashlib.sha256(item[...].tobytes()).hexdigest()

            file.visititems(add)
    return found


def occupy() -> None:
    """Keep one core and the memory busy."""
    import numpy as np

    while True:
        np.sort(np.random.default_rng(0).random(2_000_000))


def compute(kind: str, count: int) -> None:
    """Compute runs in this process, and print the hashes of each as a line of JSON."""
    import numpy as np

    threads = int(kind.rpartition("-")[2])
    warnings.simplefilter("ignore")  # the mesh is coarse, to be fast
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            if kind.startswith("load"):  # freed memory is used again by the run, with what it contains
                filled = [np.full(1 << size, np.nan) for size in range(6, 24)]
                del filled
            print(json.dumps(digests(Path(folder), threads)), flush=True)


def processes(kind: str, count: int) -> Iterator[dict[str, str]]:
    """Yield the hashes of runs of a kind, each computed in a separate process."""
    for _ in range(count):
        cache = tempfile.mkdtemp() if kind.startswith("empty") else None
        environment = {**os.environ, **({} if cache is None else {"NUMBA_CACHE_DIR": cache})}
        other = multiprocessing.get_context("spawn").Process(target=occupy, daemon=True)
        if kind.startswith("load"):
            other.start()
        command = [sys.executable, __file__, "--compute", kind, "--runs", "1"]
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True)
        finally:
            if kind.startswith("load"):
                other.terminate()
                other.join()
            if cache is not None:
                shutil.rmtree(cache)
        yield json.loads(done.stdout.splitlines()[-1])


def one_process(kind: str, count: int) -> Iterator[dict[str, str]]:
    """Yield the hashes of runs of a kind, all computed in one process."""
    command = [sys.executable, __file__, "--compute", kind, "--runs", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
    if process.returncode:
        raise SystemExit(f"{kind}: the process ended with exit status {process.returncode}")


def shares(runs: int, kinds: list[str]) -> dict[str, int]:
    """Return the number of runs of each kind."""
    compiling = [kind for kind in kinds if kind.startswith("empty")]
    others = [kind for kind in kinds if kind not in compiling]
    few = min(len(compiling) * max(1, runs // COMPILING // max(1, len(compiling))), runs) if others else runs
    counts = {}
    for group, total in ((others, runs - few if compiling else runs), (compiling, few)):
        for index, kind in enumerate(group):
            counts[kind] = total // len(group) + (index < total % len(group))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="number of runs of all kinds (default: 200)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of runs, separated by commas (default: all)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--reference", type=Path, help="compare with this file of hashes; it is written if missing")
    parser.add_argument("--compute", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compute:
        compute(arguments.compute, arguments.runs)
        return
    reference: Path | None = arguments.reference
    stored = reference is not None and reference.exists()
    first: dict[str, str] = json.loads(reference.read_text(encoding="utf-8")) if stored else {}
    rows, different = [], Counter[str]()
    for kind, count in shares(arguments.runs, arguments.kinds.split(",")).items():
        begin, equal, done = time.perf_counter(), 0, 0
        for found in (one_process if kind.startswith("same") else processes)(kind, count):
            first = first or found
            wrong = sorted(name for name in first.keys() | found.keys() if first.get(name) != found.get(name))
            different.update(wrong)
            equal, done = equal + (not wrong), done + 1
        rows.append({"kind": kind, "runs": done, "equal": equal, "seconds": time.perf_counter() - begin})
        print(f"{kind:8}  {equal:4} of {done:4} equal   {rows[-1]['seconds']:8.1f} s", flush=True)
    total, equal = (sum(row[key] for row in rows) for key in ("runs", "equal"))
    print(f"{'all':8}  {equal:4} of {total:4} equal; {len(first)} data sets per run")
    for name, count in different.most_common():
        print(f"  {name} differs in {count} runs")
    if reference is not None and not stored:
        reference.write_text(json.dumps(first, indent=2) + "\n", encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    sys.exit(equal < total)


if __name__ == "__main__":
    main()
