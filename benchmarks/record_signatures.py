"""Record the kernels that a run of each method compiles by default, with snapshots and peak maps, and their arguments.

    python benchmarks/record_signatures.py [fd] [se] [dg]

It runs each method in a process with an empty cache, and writes `src/lithowave/backends/signatures.json`, from which
`lithowave.backends.kernel_cache` compiles kernels ahead. Run it after a change of kernels or of their arguments; a
kernel that is missing in the list costs only time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import event

from lithowave.backends import kernel_cache as compile_processes
from lithowave.bench import default_simulation
from lithowave.run.launch import run_simulation
from lithowave.solvers.discontinuous_galerkin import kernels as galerkin_kernels
from lithowave.solvers.spectral_element import element_kernels as spectral_kernels
from preparation_phases import METHODS


class Compilations(event.Listener):
    """Entries of the list, for kernels that no other kernel calls."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.made: dict[int, tuple[str, list[Any]]] = {}
        self._begins: list[float] = []

    def on_start(self, event: Any) -> None:
        """Begin a kernel."""
        self._begins.append(time.process_time())

    def on_end(self, event: Any) -> None:
        """End a kernel."""
        elapsed = time.process_time() - self._begins.pop()
        kernel, arguments = event.data["dispatcher"], event.data["args"]
        module, name, texts = kernel.__module__, kernel.__name__, [repr(argument) for argument in arguments]
        name, made_for = self.made.get(id(kernel), (name, None))
        try:
            found, types = compile_processes.loaded(module, name, made_for, texts)
        except Exception:  # a type without an expression, or a function in another one
            return
        if not self._begins and found is kernel and types == tuple(arguments):
            entry = {"module": module, "name": name, "made_for": made_for, "types": texts}
            self.entries.append(entry | {"seconds": round(elapsed, 2)})

    def watch(self, module: Any) -> None:
        """Note the arguments of the functions of a module that return kernels."""
        for name, make in vars(module).copy().items():
            if name.startswith("make_") and hasattr(make, "cache_info"):
                setattr(module, name, self._noting(name, make))

    def _noting(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any) -> Any:
            kernel = make(*arguments)
            with suppress(StopIteration):  # a function without a kernel
                self.made[id(compile_processes.kernel_of(kernel))] = name, list(arguments)
            return kernel

        return noting


def record(variant: str, file: Path) -> None:
    """Write the entries of a variant, longest first."""
    warnings.simplefilter("ignore")
    compile_processes.start = lambda *_: None
    compilations = Compilations()
    for module in (spectral_kernels, galerkin_kernels):
        compilations.watch(module)
    with tempfile.TemporaryDirectory() as directory, event.install_listener("numba:compile", compilations):
        simulation = default_simulation(METHODS[variant], "outputs", (6, 6, 3), 0.2, {"backend": "cpu"})
        run_simulation(simulation, Path(directory) / "out")
    file.write_text(json.dumps(sorted(compilations.entries, key=lambda one: -one["seconds"])), encoding="utf-8")


def main() -> None:
    """Record the methods of the command line or all of them, each in a process of its own."""
    if len(sys.argv) == 3 and sys.argv[2].endswith(".json"):
        record(sys.argv[1], Path(sys.argv[2]))
        return
    path = compile_processes.SIGNATURES
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for variant in sys.argv[1:] or METHODS:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "entries.json"
            environment = os.environ | {"NUMBA_CACHE_DIR": directory}
            subprocess.run([sys.executable, __file__, variant, str(file)], check=True, env=environment)
            found[METHODS[variant]] = json.loads(file.read_text(encoding="utf-8"))
        print(f"{METHODS[variant]}: {len(found[METHODS[variant]])} kernels", flush=True)
        texts = [
            f" {json.dumps(method)}: [\n  " + ",\n  ".join(map(json.dumps, entries)) + "\n ]"
            for method, entries in found.items()
        ]
        path.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
