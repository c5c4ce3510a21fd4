"""Times of whole commands `lithowave run`, with empty caches and again, and of their phases.

    python benchmarks/whole_commands.py --json whole_commands.json
    python benchmarks/whole_commands.py bolivia chunk

Each case runs in new processes: first with an empty cache of compiled kernels, then with that of the first run. `other`
is the time outside all phases: Python, the packages, the description, files of waveforms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lithowave.output.run_folder import package_versions, source_commit

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FULL = """
schema_version: 1
domain: {x: [0, 4790 m], y: [0, 4790 m], z: [-4950 m, 0]}
material: {homogeneous: {vp: 5000, vs: 2900, rho: 2600}}
sources:
  - position: [2395, 2395, -1000]
    double_couple: {strike: 30, dip: 60, rake: 90, mw: 4.0}
    time_function: {gaussian: {sigma: 0.02, delay: 0.1}}
receivers:
  - {name: S01, position: [1000, 1500, 0]}
duration: 1.6
solver: {method: finite_difference, spacing: 10, max_frequency: 36}
output: {directory: out/full, snapshots: {interval: 0.1, plane: {z: 0}}, peak_motion: true}
"""
PREM = "material={earth: prem}"
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "first": ("README.md", ()),
    "chino_hills fd": ("chino_hills/chino_hills.yaml", ()),
    "chino_hills se": ("chino_hills/chino_hills.yaml", ("solver.method=spectral_element",)),
    "chino_hills dg": ("chino_hills/chino_hills.yaml", ("solver.method=discontinuous_galerkin",)),
    "bolivia": ("bolivia/bolivia.yaml", ()),
    "chunk": ("bolivia/bolivia.yaml", (PREM,)),
    "marmousi": ("marmousi/marmousi.yaml", ()),
    "salt": ("salt/salt.yaml", ()),
    "full": ("", ()),
}
CACHES = ("LITHOWAVE_CACHE_DIR", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")
SCRIPTS = {"marmousi": "marmousi/make_section.py", "salt": "salt/make_mesh.py"}


def description(file: str, folder: Path) -> Path:
    """Return the file of a case: an example, the first one of the README, or `FULL`."""
    if file.endswith(".yaml"):
        return EXAMPLES / file
    text = FULL if not file else (ROOT / file).read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (folder / "case.yaml").write_text(text, encoding="utf-8")
    return folder / "case.yaml"


def measured(name: str, folder: Path, more: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a record of the first and of the second command of a case."""
    file, changes = CASES[name]
    if name in SCRIPTS:
        subprocess.run([sys.executable, EXAMPLES / SCRIPTS[name]], check=True, stdout=subprocess.DEVNULL)
    caches = {key: str(folder / key) for key in CACHES}
    run = folder / "run"
    command = [sys.executable, "-m", "lithowave", "run", description(file, folder), "--overwrite"]
    for change in (*changes, *more, f"output.directory={run}"):
        command += ["--set", change]
    found = []
    for caches_are in ("empty", "filled"):
        began = time.perf_counter()
        done = subprocess.run(command, env=os.environ | caches, capture_output=True, encoding="utf-8", check=False)
        wall = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{name}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        report = json.loads((run / "run.json").read_text(encoding="utf-8"))
        phases = {entry["name"]: round(entry["wall_s"], 3) for entry in report["phases"]}
        phases["other"] = round(wall - sum(phases.values()), 3)
        found.append({
            "case": name, "caches": caches_are, "wall_s": round(wall, 3), "loop_s": round(report["loop_s"], 3),
            "steps": report["plan"]["steps"], "device": report["device"], "phases": phases,
        })  # fmt: skip
    return found


def main() -> None:
    """Measure the cases, and print and write their records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    parser.add_argument(
        "--set", action="append", default=[], help="further changes of the descriptions, as of the command"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records = []
    for name in given.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            records += measured(name, Path(folder), tuple(given.set))
        for record in records[-2:]:
            longest = sorted(record["phases"].items(), key=lambda item: -item[1])[:7]
            times = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in longest)
            seconds = f"{record['wall_s']:6.2f} s, loop {record['loop_s']:6.2f}"
            print(f"{name:15} caches {record['caches']:6}: {seconds}; {times}", flush=True)
    if given.json:
        facts = {"versions": package_versions(), "commit": source_commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        given.json.write_text(json.dumps([record | facts for record in records], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
