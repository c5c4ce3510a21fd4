"""How far the methods are from each other and from their own refinement: the Chino Hills example, below 0.5 Hz.

    python benchmarks/compare_methods.py [--backend cuda] [--points 5 7 10] [--wide] [--json FILE]
                                         [--file examples/chino_hills/attenuation.yaml]

Runs the example by finite differences and by spectral elements at several resolutions (points in a wavelength of
0.8 Hz), with --wide also by spectral elements in a far larger box, whose sides are not felt, and prints the relative L2
of each run (row) against each other one (column), over all stations and components after a low-pass of 0.5 Hz. On a
GPU that takes some two minutes, on two cores hours: leave the finer ones out there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.compare.misfits import low_pass
from lithowave.output.run_folder import package_versions, source_commit

EXAMPLE = Path(__file__).parents[1] / "examples" / "chino_hills" / "chino_hills.yaml"
METHODS = ("finite_difference", "spectral_element")
WIDE = {"domain.x": ["-140 km", "140 km"], "domain.y": ["-108 km", "108 km"], "domain.z": ["-100 km", 0]}
NOTHING_ELSE = {"output.formats": [], "output.snapshots": [], "output.peak_motion": False}
CORNER = 0.5  # Hz


def records(file: Path, backend: str, folder: Path, **changes: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Low-passed velocities (receivers, 3, samples) of a run, and its report."""
    overrides = NOTHING_ELSE | {"compute.backend": backend} | changes
    result = lw.Simulation.from_file(file, overrides).run(output=folder)
    found = result.seismograms
    return low_pass(found.data.astype(float), found.time[1] - found.time[0], CORNER), result.report


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--file", type=Path, default=EXAMPLE, help="[the example]")
    parser.add_argument("--points", type=float, nargs="+", default=[5, 7, 10])
    parser.add_argument("--methods", nargs="+", default=METHODS, help="[%(default)s]")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    runs = {f"{method} {points:g}": {"solver.method": method, "solver.points_per_wavelength": points}
            for method in chosen.methods for points in chosen.points}  # fmt: skip
    if chosen.wide:
        runs["spectral_element 7 wide"] = {
            "solver.method": "spectral_element", "solver.points_per_wavelength": 7, **WIDE
        }  # fmt: skip
    data, report = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, changes in runs.items():
            data[name], report = records(chosen.file, chosen.backend, Path(folder) / name.replace(" ", "_"), **changes)
            print(f"{name}: {report['loop_s']:.1f} s in the time loop", flush=True)
    misfits = {a: {b: float(np.linalg.norm(data[a] - data[b]) / np.linalg.norm(data[b])) for b in data} for a in data}
    for name, row in misfits.items():
        print(f"{name:>24} " + " ".join(f"{100 * value:6.2f}%" for value in row.values()))
    if chosen.json:
        record = {
            "benchmark": "compare_methods", "misfits": misfits, "backend": report["backend"],
            "device": report["device"], "versions": package_versions(), "commit": source_commit(),
            "date": report["started"],
        }  # fmt: skip
        chosen.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
