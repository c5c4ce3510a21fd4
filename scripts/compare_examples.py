"""Compare the results of two versions of lithowave: the plan and the seismograms of every example, bit for bit.

    git worktree add ../before main~20
    python scripts/compare_examples.py ../before/src src
    python scripts/compare_examples.py ../before/src src --only first --precision double --tolerance 1e-12

The runs are the smaller forms of the examples (`tests/verification/test_example_numbers.py`) and the first description
of the README by each method, elastic and with attenuation. Each runs with both versions, in processes of their own. The
table states the largest difference of the seismograms over their largest value, 0 if all bits are equal, and the
entries of the plan that differ. The exit status is 1 if a difference exceeds the tolerance (default: 0) or a run fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
VARIANTS = ("elastic", "attenuating")
SMALLER = {"duration": 0.6, "solver.max_frequency": 1.5}
QUALITY = {"qp": 100.0, "qs": 50.0}


def run_one(name: str, precision: str, folder: Path) -> None:
    """Run one case with the version on the path of this process."""
    settings = {"output": folder / "run", "backend": "cpu", "precision": precision}
    if not name.startswith("first "):
        from test_example_numbers import small_form

        small_form(name, folder).run(**settings)
        return
    import lithowave as lw

    _, method, variant = name.split()
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("```yaml\n# first.yaml", 1)[1].split("```")[0]
    (folder / "first.yaml").write_text(text, encoding="utf-8")
    changes: dict[str, Any] = SMALLER | {"solver.method": method}
    if variant == "attenuating":
        changes |= {f"material.layers.{n}.{key}": value for n in (0, 1) for key, value in QUALITY.items()}
    lw.Simulation.from_file(folder / "first.yaml", changes).run(**settings)


def started(source: Path, name: str, precision: str, folder: Path) -> str:
    """Run one case with a version in a process of its own; return its error, empty if there is none."""
    paths = [source.resolve(), ROOT / "tests" / "support", ROOT / "tests" / "verification"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--run", name, precision, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    return done.stderr[-800:] if done.returncode else ""


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """Return the recorded arrays of a run."""
    import h5py

    with h5py.File(folder / "run" / "seismograms.h5") as file:
        return {key: file[key][...] for key in ("motion", "pressure", "stress", "strain") if key in file}


def difference(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> float:
    """Return the largest difference over the largest value; infinite if shapes or arrays differ."""
    if before.keys() != after.keys() or any(before[key].shape != after[key].shape for key in before):
        return np.inf
    if all(before[key].tobytes() == after[key].tobytes() for key in before):
        return 0.0
    return max(float(np.abs(after[key] - before[key]).max() / np.abs(before[key]).max()) for key in before)


def changed_entries(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the entries of two plans that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [text for key in keys for text in changed_entries(before.get(key), after.get(key), f"{path}.{key}")]
    return [] if before == after else [path.lstrip(".")]


def compared(name: str, precision: str, sources: tuple[Path, Path]) -> tuple[float, str]:
    """Return the difference of a case between two versions, and a remark."""
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        folders = Path(one), Path(other)
        for source, folder in zip(sources, folders, strict=True):
            if error := started(source, name, precision, folder):
                return np.inf, f"{source}: {error}"
        plans = [json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))["plan"] for folder in folders]
        changed = changed_entries(*plans)
        return difference(*map(arrays, folders)), f"plan: {', '.join(changed[:6])}" if changed else ""


def main() -> None:
    """Print the table, or run one case."""
    if sys.argv[1:2] == ["--run"]:
        run_one(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder src of a version")
    parser.add_argument("after", type=Path, help="folder src of another version")
    parser.add_argument("--only", default="", help="cases whose names contain this text")
    parser.add_argument("--precision", choices=["single", "double"], default="single")
    parser.add_argument("--tolerance", type=float, default=0.0)
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "verification")]
    from test_example_numbers import SMALL

    names = [f"first {method} {variant}" for method in METHODS for variant in VARIANTS] + list(SMALL)
    worst = 0.0
    for name in names:
        if options.only in name:
            found, remark = compared(name, options.precision, (options.before, options.after))
            worst = max(worst, found)
            print(f"{name:45}{found:>10.2g}  {remark}", flush=True)
    sys.exit(worst > options.tolerance)


if __name__ == "__main__":
    main()
