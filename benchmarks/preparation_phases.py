"""Times of the phases of a run before its first step, for one case in all methods.

The case is that of `lithowave bench --case default`. Each variant runs twice in this process: the first run reads or
compiles kernels, the second one shows what every later run in a notebook or in a survey takes.

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

from lithowave.backends import cuda_source as nvrtc
from lithowave.bench import default_simulation
from lithowave.run.launch import run_simulation

METHODS = {"fd": "finite_difference", "se": "spectral_element", "dg": "discontinuous_galerkin"}
VARIANTS = {"": "elastic", "q": "attenuating", "outputs": "outputs"}
CASES = ["fd", "se", "dg", "fd-q", "se-q", "dg-q", "fd-outputs"]


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


def measured(
    name: str, size: tuple[float, float, float], backend: str, folder: Path, profile: cProfile.Profile | None
) -> dict:
    """Return the wall times of the phases of a run, s, and of the entire call."""
    begin = time.perf_counter()
    method, _, variant = name.partition("-")
    duration = 6.0 if variant == "outputs" else 0.2
    simulation = default_simulation(METHODS[method], VARIANTS[variant], size, duration, {"backend": backend})
    if profile is not None:
        profile.enable()
    report = run_simulation(simulation, folder, overwrite=True).report
    if profile is not None:
        profile.disable()
    phases = {one["name"]: one["wall_s"] for one in report["phases"]}
    return {"whole": time.perf_counter() - begin, "loop": report["loop_s"], "phases": phases}


def main() -> None:
    """Measure the variants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variants", nargs="*", default=CASES)
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
            size = options.width, options.width, options.depth
            for number in ("first", "second")[: options.runs]:
                profile = cProfile.Profile() if options.profile and number == "second" else None
                compiled = CompileTimes()
                with compiled.measured():
                    found = measured(variant, size, options.backend, Path(directory) / "out", profile)
                results[f"{variant} {number}"] = found
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
