"""Compare the speed of two versions of lithowave on one machine, in one run.

    python benchmarks/compare_versions.py ../old/src src --json versions.json
    python benchmarks/compare_versions.py ../old/src src --cases cpu
    python benchmarks/compare_versions.py ../old/src src --cases cpu --run first.yaml --set duration=1 --rounds 5

The measurements of `lithowave bench` run alternately with each version, in separate processes, `--rounds` times. The
best rate of each version is reported with their ratio, and the median and the range of the ratios of single rounds: on
a machine whose speed changes within minutes, the best rates may be of different states. With `--run`, entire commands
`lithowave run` are measured instead: the least time of the process, and of the run outside its time loop.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]
CASES = {
    "cuda": {
        "FD one pass": "--method finite_difference --size 512 --case interior --passes one",
        "FD two passes": "--method finite_difference --size 512 --case interior --passes two",
        "FD full": "--method finite_difference --size 512 --case full",
        "SE": "--method spectral_element --case deformed,affine",
        "SE degrees": "--method spectral_element --case deformed,trilinear --degree 2,3,5,6,7,8",
        "DG": "--method discontinuous_galerkin --case global --order 4,5,6,7",
        "DG local": "--method discontinuous_galerkin --case local --order 5,6",
        "DG laws": "--method discontinuous_galerkin --case anisotropic,attenuating --order 5",
        "DG double": "--method discontinuous_galerkin --case global --order 4,5 --precision double",
    },
    "cpu": {
        "FD": "--method finite_difference --case interior,full",
        "FD attenuating": "--method finite_difference --case interior,full --law transverse --attenuation coarse",
        "SE": "--method spectral_element --case deformed,affine",
        "DG": "--method discontinuous_galerkin --case global --order 4,5,6",
    },
}


def measure(source: Path, options: str, backend: str) -> list[Record]:
    """Return the records of one call of `lithowave bench`; none if it fails, which is printed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        path = os.pathsep.join(filter(None, [str(source.resolve()), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "lithowave", "bench", "--backend", backend, "--json", str(file)]
        done = subprocess.run(
            [*command, *options.split()], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
            encoding="utf-8", check=False,
        )  # fmt: skip
        if done.returncode or not file.exists():
            print(f"{source}: lithowave bench {options} failed:\n{done.stderr[-2000:]}", flush=True)
            return []
        return json.loads(file.read_text(encoding="utf-8"))


def run_times(source: Path, file: Path, changes: list[str], backend: str) -> dict[str, float]:
    """Return the time, s, of one command `lithowave run`, of the run in it, and of this outside the time loop."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, [str(source.resolve()), os.environ.get("PYTHONPATH")]))
        replaced = [word for change in changes for word in ("--set", change)]
        words = [file, *replaced, "--set", f"compute.backend={backend}", "--output", Path(folder) / "run"]
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "lithowave", "run", *map(str, words)], env=os.environ | {"PYTHONPATH": path},
            capture_output=True, check=True,
        )  # fmt: skip
        whole_s = time.perf_counter() - begin
        report = json.loads((Path(folder) / "run" / "run.json").read_text(encoding="utf-8"))
    return {"command_s": whole_s, "run_s": report["wall_s"], "outside_loop_s": report["wall_s"] - report["loop_s"]}


def compare_runs(arguments: argparse.Namespace) -> list[Record]:
    """Return the least times of each version, and print them with their ratios."""
    best: dict[str, dict[str, float]] = {"old": {}, "new": {}}
    for _ in range(arguments.rounds):
        for version, least in best.items():
            times = run_times(getattr(arguments, version), arguments.run, arguments.set, arguments.cases)
            least |= {name: min(seconds, least.get(name, seconds)) for name, seconds in times.items()}
    for name, old in best["old"].items():
        print(f"{name}: {old:.4g} -> {best['new'][name]:.4g} s, {best['new'][name] / old:.4f}", flush=True)
    return [{"run": str(arguments.run), "changes": arguments.set, "version": name} | best[name] for name in best]


def name_of(record: Record) -> str:
    """Return what a record measured, as text; versions may differ in the number of passes that they choose."""
    keys = ("method", "case", "law", "attenuation", "size", "order", "degree", "precision")
    return " ".join(str(record[key]) for key in keys if record.get(key) is not None)


def compare_rates(arguments: argparse.Namespace, options: str) -> list[Record]:
    """Return the best records of each version for these options of `lithowave bench`, and print them with the ratios of
    the best rates and of the rates of each round."""
    best: dict[tuple[str, str], Record] = {}
    ratios: dict[str, list[float]] = {}
    for turn in range(arguments.rounds):
        rates: dict[tuple[str, str], float] = {}
        for version in ("old", "new") if turn % 2 == 0 else ("new", "old"):
            for record in measure(getattr(arguments, version), options, arguments.cases):
                key = (name_of(record), version)
                rates[key] = record["rate"]
                if key not in best or record["rate"] > best[key]["rate"]:
                    best[key] = record | {"version": version}
        for case in {case for case, _ in rates if (case, "old") in rates and (case, "new") in rates}:
            ratios.setdefault(case, []).append(rates[case, "new"] / rates[case, "old"])
    for case in dict.fromkeys(case for case, _ in best):
        old, new = (best.get((case, version), {}).get("rate", float("nan")) for version in ("old", "new"))
        own = ratios.get(case, [float("nan")])
        rounds = f"rounds {statistics.median(own):.4f} ({min(own):.4f} to {max(own):.4f})"
        print(f"{case}: {old / 1e6:.6g} -> {new / 1e6:.6g} M/s, {new / old:.4f}; {rounds}", flush=True)
    return list(best.values())


def main(words: list[str] | None = None) -> list[Record]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="directory `src` of the version to compare with")
    parser.add_argument("new", type=Path, help="directory `src` of the other version")
    parser.add_argument("--cases", choices=sorted(CASES), default="cuda", help="device and measurements")
    parser.add_argument("--only", default="", help="names of measurements, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each version [2]")
    parser.add_argument("--run", type=Path, help="simulation file: measure entire runs of it instead")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replaced entry of the file")
    parser.add_argument("--json", type=Path, help="write all records to this file")
    arguments = parser.parse_args(words)
    records: list[Record] = [] if arguments.run is None else compare_runs(arguments)
    listed = [name for name in arguments.only.split(",") if name] or list(CASES[arguments.cases])
    if unknown := [name for name in listed if name not in CASES[arguments.cases]]:
        parser.error(f"--only: {', '.join(unknown)}: not among {', '.join(CASES[arguments.cases])}")
    for name in [] if arguments.run else listed:
        records.extend(compare_rates(arguments, CASES[arguments.cases][name]))
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    if arguments.run and arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return records


if __name__ == "__main__":
    main()
