"""Compare the speed of two versions of lithowave on one machine, in one run.

    python benchmarks/compare_versions.py ../old/src src --json versions.json
    python benchmarks/compare_versions.py ../old/src src --cases cpu

The measurements of `lithowave bench` run alternately with each version, in separate processes, `--rounds` times. The
best rate of each version is reported, with their ratio.
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


def name_of(record: Record) -> str:
    """Return what a record measured, as text; versions may differ in the number of passes that they choose."""
    keys = ("method", "case", "size", "order", "degree", "precision")
    return " ".join(str(record[key]) for key in keys if record.get(key) is not None)


def main(words: list[str] | None = None) -> list[Record]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="directory `src` of the version to compare with")
    parser.add_argument("new", type=Path, help="directory `src` of the other version")
    parser.add_argument("--cases", choices=sorted(CASES), default="cuda", help="device and measurements")
    parser.add_argument("--only", default="", help="names of measurements, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each version [2]")
    parser.add_argument("--json", type=Path, help="write all records to this file")
    arguments = parser.parse_args(words)
    records: list[Record] = []
    chosen = [name for name in arguments.only.split(",") if name] or list(CASES[arguments.cases])
    for name in chosen:
        options, best = CASES[arguments.cases][name], {}
        for _ in range(arguments.rounds):
            for version in ("old", "new"):
                for record in measure(getattr(arguments, version), options, arguments.cases):
                    key = (name_of(record), version)
                    if key not in best or record["rate"] > best[key]["rate"]:
                        best[key] = record | {"version": version}
        records.extend(best.values())
        for case in dict.fromkeys(case for case, _ in best):
            old, new = (best.get((case, version), {}).get("rate", float("nan")) for version in ("old", "new"))
            print(f"{case}: {old / 1e6:.6g} -> {new / 1e6:.6g} M/s, {new / old:.4f}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return records


if __name__ == "__main__":
    main()
