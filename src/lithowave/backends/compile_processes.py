"""Processes that compile CPU kernels while the first run on a machine prepares its mesh.

Numba compiles in one thread of a process. The processes compile the kernels listed in ``signatures.json``, those that
take longest first, unless another process has begun to do so (see `kernel_cache`), and store them in the cache. A run
thus compiles only kernels that it needs before one of these processes begins with them.
`benchmarks/record_signatures.py` writes the list: kernels with the types of their arguments, as in the default run of
each method. Kernels that are missing in it are compiled by the run.
"""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from lithowave.backends.kernel_cache import VariantFiles, is_stored

SIGNATURES = Path(__file__).parent / "signatures.json"
STEP_MODULES = re.compile(r"lithowave\.solvers\..*kernels")  # which `Backend.kernels` loads
SAMPLES = 4  # kernels that show whether a cache is complete
MOST = 8  # processes
FEWEST = 4  # kernels for each of them
started: list[subprocess.Popen] = []  # by this process
complete: set[Selection] = set()  # whose kernels this process has found in the cache


@dataclass(frozen=True)
class Selection:
    """Kernels of a run: those of the method, of this precision, and for one of these orders or degrees.

    on_device : True if a device with memory of its own executes the steps.
    """

    method: str
    precision: str
    orders: tuple[int, ...]
    on_device: bool

    def includes(self, entry: dict[str, Any]) -> bool:
        """True if the run may use a kernel of ``signatures.json``."""
        if self.on_device and STEP_MODULES.fullmatch(entry["module"]):
            return False
        if self.precision != "single" and any("float32" in text for text in entry["types"]):
            return False
        sizes = entry["made_for"]
        return sizes is None or sizes[0] in self.orders and self.precision in sizes

    def listed(self) -> list[tuple[str, str, list | None, list[str]]]:
        """Return the kernels, the longest compilation first.

        They are described by the module, the name, the arguments of the function of this name that returns the kernel,
        or None if it is the kernel, and the types of the kernel's arguments as text.
        """
        entries = filter(self.includes, json.loads(SIGNATURES.read_text(encoding="utf-8")).get(self.method, []))
        return [(entry["module"], entry["name"], entry["made_for"], entry["types"]) for entry in entries]


@global_compiler_lock  # other threads may compile, and may start runs
def start(selection: Selection, count: int) -> None:
    """Start up to this many processes once, if the cache lacks kernels of a run."""
    if started or selection in complete or numba.config.DISABLE_JIT:
        return
    entries = selection.listed()
    count = min(count, MOST, len(entries) // FEWEST)
    if count < 1:
        return
    if all(is_stored(*loaded(*entry)) for entry in entries[:: max(1, len(entries) // SAMPLES)]):
        complete.add(selection)
        return
    command = [sys.executable, "-P", "-m", __name__, json.dumps(asdict(selection))]
    for _ in range(count):
        with suppress(OSError):  # the run compiles its kernels
            nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            process = subprocess.Popen(command, **nowhere)
            started.append(process)
            stop_at_exit(process)


def stop_at_exit(process: subprocess.Popen) -> None:
    """End a process with this one: what it has not begun is not required."""

    def stop() -> None:
        process.terminate()
        process.wait()

    atexit.register(stop)


def loaded(module: str, name: str, made_for: list | None, texts: list[str]) -> tuple[Any, tuple]:
    """Return a kernel and the types of its arguments; see `Selection.listed`."""
    found = getattr(import_module(module), name)
    kernel = found if made_for is None else kernel_of(found(*made_for))
    return kernel, tuple(type_of(text) for text in texts)


def kernel_of(function: Any) -> Dispatcher:
    """Return a kernel that is stored in the cache: the function, or the one that it calls."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    dispatchers = [one for one in (function, *cells) if isinstance(one, Dispatcher)]
    return next(one for one in dispatchers if not isinstance(one._cache, NullCache))


def type_of(text: str) -> Any:
    """Return the type that a text of ``signatures.json`` describes, which is an expression of `numba.types`."""
    return eval(text, {"__builtins__": {}}, vars(types))


def main(text: str) -> None:
    """Compile the kernels of a selection, in JSON, that are not in the cache."""
    VariantFiles.waits = False
    for entry in Selection(**json.loads(text)).listed():
        with suppress(Exception):  # the run reports errors of kernels that it needs
            kernel, arguments = loaded(*entry)
            if not is_stored(kernel, arguments):
                kernel.compile(arguments)


if __name__ == "__main__":
    main(sys.argv[1])
