"""Agreement of the three methods at their defaults: the first example of the README, also against a larger box.

    python benchmarks/default_agreement.py [--backend cuda] [--medium NAME] [--methods-only] [--json FILE]

Computes the example of README.md (6 x 6 x 3 km, two layers, 2.6 Hz) by each method with its default resolution and
absorbing boundaries, at the receiver of the README and at eight more, the outermost 500 m from the sides. The reference
is computed by finite differences of order 8 with 14 points per wavelength in a box five times as large. The relative L2
differences of the velocities are printed over all receivers, and of the worst one. A run of discontinuous Galerkin with
1.5 times its points per wavelength, and one in a box with sides that are 1 km farther away, separate the errors of its
resolution from those of its absorbing layers. --medium vti or hti: both layers are anisotropic, with a vertical or a
horizontal symmetry axis. --medium attenuating: both layers have Qp = 80 and Qs = 40. --medium half_space: an
attenuating half-space instead of the layers. --methods-only: without the reference and the runs that separate the errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.description.solver import RECOMMENDED_POINTS_BY_ORDER
from lithowave.output.run_folder import package_versions, source_commit

METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
RECEIVERS = [[1000, 1500, 0], *([x, y, 0] for x in (-2500, 0, 2500) for y in (-2500, 300, 2500) if (x, y) != (0, 300))]
WIDE = {"domain.x": [-15e3, 15e3], "domain.y": [-15e3, 15e3], "domain.z": [-15e3, 0]}
LARGER = {"domain.x": [-4000, 4000], "domain.y": [-4000, 4000], "domain.z": [-4000, 0]}
DG = "discontinuous_galerkin"
THOMSEN = {"epsilon": 0.15, "delta": 0.08, "gamma": 0.1}
AXES = {"vti": [0, 0, 1], "hti": [1, 0, 0]}
FINE = {"solver.method": "finite_difference", "solver.order": 8, "solver.points_per_wavelength": 14}
QUALITY = {"qp": 80.0, "qs": 40.0}
HALF_SPACE = {"material": {"homogeneous": {"vp": 4000.0, "vs": 2300.0, "rho": 2500.0} | QUALITY}}
NOTHING_ELSE = {"output.snapshots": [], "output.peak_motion": False, "output.sampling_interval": 0.01}


def example() -> str:
    """Return the first simulation file of the README."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n# first.yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def velocities(backend: str, folder: Path, **changes: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return velocities (receivers, 3, samples) of a run, and its report."""
    receivers = [{"network": "XX", "name": f"R{n}", "position": place} for n, place in enumerate(RECEIVERS)]
    overrides = NOTHING_ELSE | {"compute.backend": backend, "receivers": receivers} | changes
    result = lw.Simulation.from_text(example()).with_overrides(overrides).run(output=folder)
    return result.seismograms.data.astype(float), result.report


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return the relative L2 difference over all receivers, and that of the worst receiver."""
    each = np.linalg.norm(a - b, axis=(1, 2)) / np.linalg.norm(b, axis=(1, 2))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b)), float(each.max())


def medium(name: str) -> dict[str, Any]:
    """Return the overrides of a medium."""
    if name in AXES:
        anisotropy = THOMSEN | {"axis": AXES[name]}
        return {f"material.layers.{number}.anisotropy": anisotropy for number in range(2)}
    if name == "attenuating":
        return {f"material.layers.{number}.{key}": value for number in range(2) for key, value in QUALITY.items()}
    return HALF_SPACE if name == "half_space" else {}


def explaining_runs() -> dict[str, dict[str, Any]]:
    """Return the overrides of the reference and of the runs that separate the errors of a method."""
    usual = RECOMMENDED_POINTS_BY_ORDER[5]
    runs = {"large box": FINE | WIDE}
    for method in METHODS[1:]:
        runs[f"{method}, stacey"] = {"solver.method": method, "boundaries.absorption": "stacey"}
    runs[f"{DG}, finer"] = {"solver.method": DG, "solver.points_per_wavelength": 1.5 * usual}
    runs[f"{DG}, larger box"] = {"solver.method": DG} | LARGER
    return runs


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--medium", choices=("isotropic", *AXES, "attenuating", "half_space"), default="isotropic")
    parser.add_argument("--methods-only", action="store_true")
    chosen = parser.parse_args()
    runs = {method: {"solver.method": method} for method in METHODS}
    if not chosen.methods_only:
        runs |= explaining_runs()
    for changes in runs.values():
        changes |= medium(chosen.medium)
    data, reports = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, changes in runs.items():
            data[name], reports[name] = velocities(chosen.backend, Path(folder) / re.sub(r"\W+", "_", name), **changes)
            print(f"{name}: {reports[name]['loop_s']:.2f} s in the time loop", flush=True)
    records, case = [], f"README, {chosen.medium}"
    for a, b in itertools.combinations(runs, 2):
        if b == "large box" or b in METHODS:
            whole, worst = difference(data[a], data[b])
            records.append({"case": case, "first": a, "second": b, "difference": whole, "worst": worst})
            print(f"{a} and {b}: {whole:.2%}, worst receiver {worst:.2%}", flush=True)
    for name in list(runs)[4:]:
        whole, worst = difference(data[name], data["large box"])
        records.append({"case": case, "first": name, "second": "large box", "difference": whole, "worst": worst})
        print(f"{name} and large box: {whole:.2%}, worst receiver {worst:.2%}", flush=True)
    if chosen.json:
        common = {"device": reports[METHODS[0]]["device"], "versions": package_versions(), "commit": source_commit()}
        loops = {name: report["loop_s"] for name, report in reports.items()}
        content = {"records": records, "loop_s": loops, **common}
        chosen.json.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
