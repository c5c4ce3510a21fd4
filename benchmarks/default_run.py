"""What a user waits for: the README's case in a box of 36 x 36 x 12 km for 6 s, at its defaults, in all methods.

Each variant runs twice in this process; the second run counts. The ideal loop updates the elements or points of the
domain, without absorbing layers, at the stable time step, at the rate of `lithowave bench` measured in this process.

    python benchmarks/default_run.py [--width 36] [--depth 12] [--backend cuda] [--json FILE] [VARIANT ...]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from lithowave import Simulation
from lithowave.bench import run_benchmarks
from lithowave.output.run_folder import package_versions, source_commit
from preparation_phases import METHODS, VARIANTS, description

CASES = {"fd": ("interior", 4), "se": ("affine", 4), "dg": ("global", 5)}  # of the bench, and order or degree


def ideal_rate(method: str, backend: str) -> float:
    """Return the rate of the interior kernels, points or elements/s."""
    case, order = CASES[method]
    key = "degrees" if method == "se" else "orders"
    [record] = run_benchmarks([case], None, [order] if key == "orders" else None, backend=backend,
                              methods=[METHODS[method]], **({key: [order]} if key == "degrees" else {}))  # fmt: skip
    return float(record["rate"])


def inside(plan: dict[str, Any], width: float, depth: float) -> float:
    """Return the part of the points or elements of a run that lies in the domain."""
    if "spacing_m" in plan:
        points = (1e3 * width / plan["spacing_m"] + 1) ** 2 * (1e3 * depth / plan["spacing_m"] + 1)
        return float(min(points / plan["point_count"], 1.0))
    return 1.0 - plan.get("layer_element_count", plan.get("layer_elements", 0)) / plan["element_count"]


def measured(variant: str, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """Return the figures of the second run of a variant."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "case.yaml"
        text = description(variant, options.width, options.depth, Path(directory) / "out")
        path.write_text(text.replace("duration: 0.2", f"duration: {options.duration}"), encoding="utf-8")
        changes = {"compute.backend": options.backend}
        for _ in range(2):
            begin = time.perf_counter()
            report = Simulation.from_file(path, changes).run(overwrite=True).report
            whole = time.perf_counter() - begin
    plan, loop = report["plan"], report["loop_s"]
    fraction = plan["time_step_s"] / plan["time_step_limit_s"]
    updates = loop * next(value for key, value in report.items() if key.startswith("rate_"))
    ideal = updates * inside(plan, options.width, options.depth) * fraction / rate
    phases = {one["name"]: one["wall_s"] for one in report["phases"]}
    return {
        "variant": variant, "device": report["device"], "time_step_s": plan["time_step_s"],
        "time_step_fraction": fraction, "loop_s": loop, "ideal_loop_s": ideal, "efficiency": ideal / loop,
        "whole_s": whole, "bench_rate": rate,
        "longest_phases": dict(sorted(phases.items(), key=lambda one: -one[1])[:8]),
    }  # fmt: skip


def main() -> None:
    """Measure the variants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variants", nargs="*", default=VARIANTS)
    parser.add_argument("--width", type=float, default=36.0, help="of the box, km")
    parser.add_argument("--depth", type=float, default=12.0, help="of the box, km")
    parser.add_argument("--duration", type=float, default=6.0, help="s")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rates: dict[str, float] = {}
    records = []
    for variant in options.variants:
        method = variant.partition("-")[0]
        rates.setdefault(method, ideal_rate(method, options.backend))
        one = measured(variant, options, rates[method])
        records.append(one | {"versions": package_versions(), "commit": source_commit()})
        longest = ", ".join(f"{name} {seconds:.2f}" for name, seconds in one["longest_phases"].items())
        print(
            f"{variant}: time step {one['time_step_s'] * 1e3:.3g} ms, {one['time_step_fraction']:.0%} of the limit; "
            f"loop {one['loop_s']:.2f} s, ideal {one['ideal_loop_s']:.2f} s, {one['efficiency']:.0%}; whole command "
            f"{one['whole_s']:.2f} s: {longest}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
