"""lithowave beside Devito in one run: the two in turn (A B A B ...), on the same grid and threads.

    python benchmarks/compare_devito.py --devito-python /path/to/devito/bin/python --threads 2

Machines drift, and neighbours come and go: only numbers taken in turn may be divided by one another. The
ratio reported is the median over the rounds of (lithowave / Devito), each round one start of either
program. Devito's block shapes are tuned in a first start that is not counted, then kept. Exit status 1
where the ratio to the form of Devito's own elastic examples (``buffered``: two time levels) stays under --at-least;
the ratio to its faster form (``in_place``, our memory layout written in Devito) is told as well.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DEVITO_SCRIPT = Path(__file__).with_name("devito_elastic.py")

Record = dict[str, Any]


def run_for_records(command: list[str], result: Path) -> list[Record]:
    """Run a benchmark that writes its records to a file, and read them; on failure show what it said."""
    result.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    if done.returncode != 0 or not result.is_file():
        raise SystemExit(
            f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return json.loads(result.read_text(encoding="utf-8"))


def own_records(arguments: argparse.Namespace, result: Path) -> list[Record]:
    command = [
        arguments.python,
        "-m",
        "lithowave",
        "bench",
        "--case",
        "interior",
        "--size",
        str(arguments.size),
    ]
    command += ["--order", str(arguments.order), "--precision", arguments.precision]
    command += ["--backend", "cpu", "--threads", str(arguments.threads), "--json", str(result)]
    return [record for record in run_for_records(command, result) if record["case"] == "interior"]


def devito_records(arguments: argparse.Namespace, result: Path, blocks: dict[str, Any]) -> list[Record]:
    command = [arguments.devito_python, str(DEVITO_SCRIPT), "--size", str(arguments.size)]
    command += ["--order", str(arguments.order), "--precision", arguments.precision]
    command += ["--threads", str(arguments.threads), "--json", str(result), "--blocks", json.dumps(blocks)]
    return run_for_records(command, result)


def compare(arguments: argparse.Namespace) -> tuple[list[Record], dict[str, float]]:
    """All records, and for each form of Devito's propagator the median ratio of lithowave's rate to it."""
    records: list[Record] = []
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "records.json"
        print("tuning Devito's block shapes (not counted)", flush=True)
        blocks = {record["form"]: record["blocks"] for record in devito_records(arguments, result, {})}
        for number in range(1, arguments.rounds + 1):
            own = own_records(arguments, result)
            peers = devito_records(arguments, result, blocks)
            rate = statistics.median(record["rate"] for record in own)
            text = f"round {number}: load {os.getloadavg()[0]:.1f}, lithowave {rate / 1e6:.1f} Mpoint/s"
            for peer in peers:
                ratios.setdefault(peer["form"], []).append(rate / peer["rate"])
                text += f", Devito {peer['form']} {peer['rate'] / 1e6:.1f} (ratio {rate / peer['rate']:.2f})"
            print(text, flush=True)
            records += [{**record, "round": number} for record in (*own, *peers)]
    return records, {form: statistics.median(values) for form, values in ratios.items()}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter with lithowave (this one)")
    parser.add_argument("--devito-python", required=True, help="interpreter with devito")
    parser.add_argument("--size", type=int, default=200, help="points along each side (200)")
    parser.add_argument("--order", type=int, choices=(2, 4, 8), default=4, help="order in space (4)")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of both (all cores)")
    parser.add_argument("--rounds", type=int, default=3, help="starts of either program (3)")
    parser.add_argument(
        "--at-least", type=float, default=1.3, help="ratio to Devito's buffered form to reach (1.3)"
    )
    parser.add_argument("--json", type=Path, help="write all records there")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    records, ratios = compare(arguments)
    for form, ratio in ratios.items():
        print(f"lithowave / Devito ({form}): {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0 if ratios["buffered"] >= arguments.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
