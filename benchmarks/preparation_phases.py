"""Times of the phases of a run before its first step, for one case in all methods.

The case is that of `lithowave bench --case default`. Each variant runs twice in this process: the first run reads or
compiles kernels, the second one shows what every later run in a notebook or in a survey takes.

    python benchmarks/preparation_phases.py [--width 36] [--depth 12] [--profile] [VARIANT ...]

It prints one line per run and writes preparation.json, and with --profile the functions of each second run.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import tempfile
import time
import warnings
from pathlib import Path

from lithowave.default_case import default_simulation

METHODS = {"fd": "finite_difference", "se": "spectral_element", "dg": "discontinuous_galerkin"}
VARIANTS = {"": "elastic", "q": "attenuating", "outputs": "outputs"}
CASES = ["fd", "se", "dg", "fd-q", "se-q", "dg-q", "fd-outputs"]


def measured(name: str, size: tuple[float, float, float], folder: Path, profile: cProfile.Profile | None) -> dict:
    """Return the wall times of the phases of a run, s, and of the entire call."""
    begin = time.perf_counter()
    method, _, variant = name.partition("-")
    duration = 6.0 if variant == "outputs" else 0.2
    simulation = default_simulation(METHODS[method], VARIANTS[variant], size, duration, {})
    if profile is not None:
        profile.enable()
    result = simulation.run(output=folder, overwrite=True)
    if profile is not None:
        profile.disable()
    phases = {one["name"]: one["wall_s"] for one in result.report["phases"]}
    return {"whole": time.perf_counter() - begin, "loop": result.report["loop_s"], "phases": phases}


def main() -> None:
    """Measure the variants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variants", nargs="*", default=CASES)
    parser.add_argument("--width", type=float, default=36.0, help="of the box, km")
    parser.add_argument("--depth", type=float, default=12.0, help="of the box, km")
    parser.add_argument("--profile", action="store_true", help="print the functions of each second run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for variant in options.variants:
        with tempfile.TemporaryDirectory() as directory:
            size = options.width, options.width, options.depth
            for number in ("first", "second"):
                profile = cProfile.Profile() if options.profile and number == "second" else None
                found = results[f"{variant} {number}"] = measured(variant, size, Path(directory) / "out", profile)
                longest = sorted(found["phases"].items(), key=lambda one: -one[1])
                times = ", ".join(f"{name} {seconds:.2f}" for name, seconds in longest if seconds > 0.02)
                print(f"{variant} {number}: {found['whole']:.2f} s, loop {found['loop']:.2f} s: {times}", flush=True)
                if profile is not None:
                    stream = io.StringIO()
                    pstats.Stats(profile, stream=stream).sort_stats("cumtime").print_stats(70)
                    print(stream.getvalue(), flush=True)
    Path(os.environ.get("OUT", "."), "preparation.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
