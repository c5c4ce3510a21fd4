"""Compare the results of two versions of lithowave on the examples, in short forms that take minutes.

    python benchmarks/compare_results.py ../old/src src --json results.json

Each version runs each case in a separate process, on the CPU with one thread. For each case the script prints the
number of arrays in all HDF5 files, how many of them are bitwise identical, and the largest difference relative to the
largest value of an array.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
CHINO_HILLS = {
    "duration": 36.0, "sources.0.time_function": {"gaussian": {"sigma": 1.56, "delay": 0.0}}, "sources.0.delay": 6.0,
    "solver.max_frequency": 0.25, "output.sampling_interval": 0.5,
}  # fmt: skip
MOUNTAIN = {
    "duration": 3.0, "solver.max_frequency": 1.0, "sources.0.time_function": {"gaussian": {"sigma": 0.4}},
    "output.sampling_interval": 0.1,
}  # fmt: skip
SHOT = {"survey": None, "duration": 0.3, "solver.max_frequency": 15, "output.formats": []}
ELEMENTS = {"solver.method": "spectral_element"}
TETRAHEDRA = {"solver.method": "discontinuous_galerkin"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Chino Hills, FD": ("chino_hills/chino_hills.yaml", CHINO_HILLS),
    "Chino Hills, SE": ("chino_hills/chino_hills.yaml", {**CHINO_HILLS, **ELEMENTS, "duration": 12.0}),
    "mountain, SE": ("topography/mountain.yaml", MOUNTAIN),
    "mountain, DG": ("topography/mountain.yaml", {
        **MOUNTAIN, **TETRAHEDRA, "boundaries.absorption": "auto", "solver.order": 3, "duration": 1.5,
    }),
    "refraction, FD": ("survey/refraction.yaml", SHOT),
    "refraction, SE": ("survey/refraction.yaml", {**SHOT, **ELEMENTS}),
    "refraction, DG": ("survey/refraction.yaml", {**SHOT, **TETRAHEDRA, "solver.order": 4, "duration": 0.1}),
}
RUN = """
import json, sys, lithowave
file, changes, folder = sys.argv[1:]
lithowave.Simulation.from_file(file, json.loads(changes)).run(output=folder, backend="cpu", threads=1)
"""


def run(source: Path, file: str, changes: dict[str, Any], folder: Path) -> dict[str, np.ndarray]:
    """Run a case with one version and return all arrays of its files by name."""
    path = os.pathsep.join(filter(None, [str(source.resolve()), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(EXAMPLES / file), json.dumps(changes), str(folder)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=True)
    arrays: dict[str, np.ndarray] = {}

    def read(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            arrays[name] = item[()]

    for hdf5 in sorted([*folder.rglob("*.h5"), *folder.rglob("*.vtkhdf")]):
        with h5py.File(hdf5) as opened:
            opened.visititems(lambda name, item, file=hdf5.name: read(f"{file}/{name}", item))
    return arrays


def compare(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the number of arrays, of identical ones, and the largest relative difference."""
    if old.keys() != new.keys():
        raise SystemExit(f"different arrays: {sorted(old.keys() ^ new.keys())}")
    identical, largest = 0, 0.0
    for name, values in old.items():
        if np.array_equal(values, new[name], equal_nan=True):
            identical += 1
        else:
            size = np.nanmax(np.abs(values)) or 1.0
            largest = max(largest, float(np.nanmax(np.abs(values - new[name])) / size))
    return {"arrays": len(old), "identical": identical, "largest_difference": largest}


def main(words: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="directory `src` of the version to compare with")
    parser.add_argument("new", type=Path, help="directory `src` of the other version")
    parser.add_argument("--only", default="", help="names of cases, separated by semicolons (default: all)")
    parser.add_argument("--json", type=Path, help="write the comparison to this file")
    arguments = parser.parse_args(words)
    results = {}
    for name in [name for name in arguments.only.split(";") if name] or list(CASES):
        file, changes = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            versions = [run(getattr(arguments, one), file, changes, Path(folder) / one) for one in ("old", "new")]
        results[name] = compare(*versions)
        print(f"{name}: {results[name]}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
