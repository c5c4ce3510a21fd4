"""Times of the phases of a run before its first step, for one case in all methods.

The case is that of the README in a box of 36 x 36 x 12 km. Each variant runs twice in this process: the first run reads
or compiles kernels, the second one shows what every later run in a notebook or in a survey takes.

    python benchmarks/preparation_phases.py [--width 36] [--depth 12] [--profile] [VARIANT ...]

It prints one line per run and writes preparation.json, with --profile also the functions of each second run, and with
--kernels the kernels that each first run compiled, in the order of their compile times.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import io
import json
import os
import pstats
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import event

from lithowave import Simulation
from lithowave.backends import nvrtc

METHODS = {"fd": "finite_difference", "se": "spectral_element", "dg": "discontinuous_galerkin"}
VARIANTS = ["fd", "se", "dg", "fd-q", "se-q", "dg-q", "fd-outputs"]
CASE = """
schema_version: 1
domain: {{x: [-{half} km, {half} km], y: [-{half} km, {half} km], z: [-{depth} km, 0]}}
material:
  layers:
    - {{top: 0, vp: 3200, vs: 1600, rho: 2300{quality}}}
    - {{top: -1 km, vp: 5 km/s, vs: 2.8 km/s, rho: 2.6 g/cm^3{quality}}}
sources:
  - position: [0, 0, -2 km]
    double_couple: {{strike: 30, dip: 60, rake: 90, mw: 4.0}}
    time_function: {{gaussian: {{sigma: 0.15, delay: 0.9}}}}
receivers:
{receivers}
duration: {duration}
solver: {{max_frequency: 2.6, method: {method}}}
output:
  directory: {directory}
{outputs}
"""
OUTPUTS = "  snapshots: {interval: 0.1, plane: {z: 0}}\n  peak_motion: true"


def description(variant: str, width: float, depth: float, directory: Path) -> str:
    """Return the simulation file of a variant."""
    method, _, extra = variant.partition("-")
    many = extra == "outputs"
    places = [(width * 2.5 * (number - 150), 1500) for number in range(300)] if many else [(1000, 1500)]
    receivers = "\n".join(
        f"  - {{network: XX, name: S{number:03d}, position: [{x}, {y}, 0]}}" for number, (x, y) in enumerate(places)
    )
    return CASE.format(
        half=width / 2, depth=depth, quality=", qp: 100, qs: 50" if extra == "q" else "", receivers=receivers,
        duration=6 if many else 0.2, method=METHODS[method], directory=directory, outputs=OUTPUTS if many else "",
    )  # fmt: skip


class CompileTimes(event.Listener):
    """Compile times of Numba kernels and CUDA sources, s, by name; a kernel that others call counts as part of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begins: list[float] = []

    def on_start(self, event: Any) -> None:
        """Begin a kernel."""
        self._begins.append(time.perf_counter())

    def on_end(self, event: Any) -> None:
        """End a kernel."""
        elapsed = time.perf_counter() - self._begins.pop()
        if not self._begins:
            function = event.data["dispatcher"].py_func
            self.add(f"{function.__module__.removeprefix('lithowave.')}.{function.__name__}", elapsed)

    def add(self, name: str, elapsed: float) -> None:
        """Add the time of one compilation."""
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed

    @contextmanager
    def measured(self) -> Iterator[None]:
        """In this context, measure compilations of this thread."""
        compiler = nvrtc._compile

        @functools.wraps(compiler)
        def timed(path: Path, *rest: Any) -> bytes:
            begin = time.perf_counter()
            try:
                return compiler(path, *rest)
            finally:
                self.add(f"{path.parent.name}/{path.name}", time.perf_counter() - begin)

        nvrtc._compile = timed
        try:
            with event.install_listener("numba:compile", self):
                yield
        finally:
            nvrtc._compile = compiler

    def text(self) -> str:
        """Return a line per kernel."""
        ordered = sorted(self.seconds.items(), key=lambda one: -one[1])
        return "\n".join(
            f"{seconds:8.2f} s {name}" for name, seconds in [("total", sum(self.seconds.values())), *ordered]
        )


def measured(path: Path, backend: str, profile: cProfile.Profile | None) -> dict:
    """Return the wall times of the phases of a run, s, and of the entire call."""
    begin = time.perf_counter()
    simulation = Simulation.from_file(path, {"compute.backend": backend})
    if profile is not None:
        profile.enable()
    result = simulation.run(overwrite=True)
    if profile is not None:
        profile.disable()
    phases = {one["name"]: one["wall_s"] for one in result.report["phases"]}
    return {"whole": time.perf_counter() - begin, "loop": result.report["loop_s"], "phases": phases}


def main() -> None:
    """Measure the variants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variants", nargs="*", default=VARIANTS)
    parser.add_argument("--width", type=float, default=36.0, help="of the box, km")
    parser.add_argument("--depth", type=float, default=12.0, help="of the box, km")
    parser.add_argument("--profile", action="store_true", help="print the functions of each second run")
    parser.add_argument("--kernels", action="store_true", help="print the kernels that each first run compiled")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for variant in options.variants:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "case.yaml"
            text = description(variant, options.width, options.depth, Path(directory) / "out")
            path.write_text(text, encoding="utf-8")
            for number in ("first", "second")[: options.runs]:
                profile = cProfile.Profile() if options.profile and number == "second" else None
                compiled = CompileTimes()
                with compiled.measured():
                    found = results[f"{variant} {number}"] = measured(path, options.backend, profile)
                longest = sorted(found["phases"].items(), key=lambda one: -one[1])
                times = ", ".join(f"{name} {seconds:.2f}" for name, seconds in longest if seconds > 0.02)
                print(f"{variant} {number}: {found['whole']:.2f} s, loop {found['loop']:.2f} s: {times}", flush=True)
                if options.kernels and compiled.seconds:
                    print(compiled.text(), flush=True)
                if profile is not None:
                    stream = io.StringIO()
                    pstats.Stats(profile, stream=stream).sort_stats("cumtime").print_stats(70)
                    print(stream.getvalue(), flush=True)
    Path(os.environ.get("OUT", "."), "preparation.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
