"""Times the two-layer model of Michea & Komatitsch (2010), `cpml_paper_model.yaml`, through the command line.

    python benchmarks/cpml_paper_model.py --json paper.json

Their GPU of 2009 took 770 s. The first of the runs compiles what is not yet on disk; the fastest counts. Exit status 1
where the whole command takes longer than `--at-most` seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lithowave.output.run_folder import read_report

MODEL = Path(__file__).with_suffix(".yaml")
PAPER_SECONDS = 770.0

Record = dict[str, Any]


def run_command(backend: str, folder: Path, changes: list[str]) -> Record:
    """Seconds of the whole command, of the run in it (arrays, loop, outputs), and of its time loop."""
    command = [sys.executable, "-m", "lithowave", "run", str(MODEL), "--backend", backend, "--output", str(folder)]
    for change in changes:
        command += ["--set", change]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return complete(read_report(folder), seconds)


def complete(report: Record, seconds: float) -> Record:
    """The record of a run from its run.json and the time of the whole command."""
    made = report["plan"]
    return {
        "method": "finite_difference",
        "case": "cpml_paper_model",
        "size": made["grid_points"],
        "order": made["order"],
        "precision": report["precision"],
        "backend": report["backend"],
        "device": report["device"],
        "devices": 1,
        "rate": report["rate_points_per_s"],
        "unit": "points/s",
        "steps": made["steps"],
        "command_s": seconds,
        "run_s": report["wall_s"],
        "setup_s": report["setup_s"],
        "loop_s": report["loop_s"],
        "versions": report["packages"] | report.get("cuda", {}),
        "commit": report["commit"],
        "date": report["started"],
    }


def line(record: Record) -> str:
    """A run in short."""
    return (
        f"whole command {record['command_s']:.2f} s, without start-up {record['run_s']:.2f} s (arrays "
        f"{record['setup_s']:.2f} s, time loop {record['loop_s']:.2f} s), {record['rate'] / 1e9:.2f} Gpoint/s"
    )


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the fastest counts (3)")
    parser.add_argument("--at-most", type=float, default=3.0, help="seconds for the whole command (3)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in lithowave run")
    parser.add_argument("--json", type=Path, help="write all records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, arguments.runs + 1):
            records.append(run_command(arguments.backend, Path(folder) / str(number), arguments.set))
            print(f"run {number}: {line(records[-1])}", flush=True)
    best = min(records, key=lambda record: record["command_s"])
    print(f"best on {best['device']}: {line(best)}")
    print(f"{PAPER_SECONDS / best['command_s']:.0f} times as fast as the {PAPER_SECONDS:g} s of the paper")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0 if best["command_s"] <= arguments.at_most else 1


if __name__ == "__main__":
    sys.exit(main())
