"""Compilation of kernels by Numba, and their cache on disk.

It contains files of the cache that are safe for processes that compile at the same time (`VariantFiles`), compilation
without most of the machine code that is never executed (`generated_once`), and processes that compile kernels while the
first run on a machine prepares its mesh (`start`).

**Files.** Numba numbers the files of a function's variants (other types, other constants of a closure) and stores an
index of them. Two processes that compile different variants at once can choose the same number, and the index then maps
one variant to the code of the other: a kernel of another order or precision would run without an error. Here the
content of a file determines its name, and there is no index.

Numba reads a compiled kernel again until the file that defines it changes, even if a function that the kernel calls has
changed in another file. Here the name of a file depends on the code and the constants of all functions that the kernel
reaches. Numba's own key contains the bytes of pickled closures, which differ between a process in which Python compiles
a module and one that loads its compiled form: kernels would be compiled twice.

**Machine code.** Numba compiles a kernel with a parallel loop as four libraries, each of which contains the preceding
one: the body of the loop, two functions that call it, and the kernel. It optimizes each of them and generates its
machine code, but only that of the last library is stored and executed. For kernels with many arrays this is most of the
compile time, since LLVM's optimization of addresses (loop strength reduction) takes seconds for each loop. Without that
optimization kernels of finite differences are slower by a factor of 1.7, so it must not be disabled. Here only the last
library is optimized: the others change neither the results nor the speed of kernels, but a fifth of the compile time.

The machine code of the functions that a kernel calls is never executed either, but it must be generated: LLVM then
rewrites the addresses in their loops, and the kernel contains these loops. Otherwise, loops with many arrays are not
vectorized, since LLVM would compare too many addresses before each of them: the stresses of finite differences took 2.0
times as long, 2.4 times with attenuation. The garbage collector, which the many objects of the compiler would start
again and again, waits until the kernel is compiled.

**Processes.** Numba compiles in one thread of a process. The processes compile the kernels listed in
``signatures.json``, those that take longest first, unless another process has begun to do so (see `claim`), and store
them in the cache. A run thus compiles only kernels that it needs before one of these processes begins with them.
`benchmarks/record_signatures.py` writes the list: kernels with the types of their arguments, as in a default run of
each method with snapshots and peak maps. Kernels that are missing in it are compiled by the run.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.np import linalg

from lithowave.process import no_collection

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.codegen import CodeLibrary
    from numba.core.compiler import CompileResult
    from numba.core.event import Event

try:
    import fcntl
except ImportError:  # Windows: processes may compile the same kernel at the same time
    fcntl = None

VariantKey = tuple[object, object, object]
"""Types of the arguments, processor, hashes of bytecode and constants."""


class ListedKernel(TypedDict):
    """An entry of ``signatures.json``; see `Selection.listed`."""

    module: str
    name: str
    made_for: list | None
    types: list[str]


CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
FOREIGN = ("numba", "numpy", "llvmlite")


PATIENCE = 120.0  # s; the longest compilations take half a minute on a busy machine
POLL = 0.02  # s


class BusyError(Exception):
    """Another process compiles this variant."""


def claim(folder: str, name: str, patience: float) -> bool:
    """Claim the compilation of a variant until `release_claim` or the end of this process; wait for another process
    that has claimed it. Return True if there was one; after `patience` seconds, both compile.

    Claims are locks of one byte of a file, which end with their process.

    Raises
    ------
    BusyError : patience is 0, and another process has claimed it.
    """
    file, waited = _claims(folder), False
    if file is None:
        return False
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _position(name))
            return waited
        except (BlockingIOError, PermissionError):
            if not patience:
                raise BusyError(name) from None
            if time.monotonic() > end:
                return waited
            waited = True
            time.sleep(POLL)
        except OSError:  # the file system has no locks
            return waited


def release_claim(folder: str, name: str) -> None:
    """Permit other processes to read a variant that they wait for."""
    file = _claims(folder)
    if file is not None:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, _position(name))


@cache
def _claims(folder: str) -> int | None:
    """Return the file of the claims in a directory; it remains open, since all locks of a process end when it closes
    the file. None if it cannot be opened."""
    if fcntl is None:
        return None
    try:
        os.makedirs(folder, exist_ok=True)
        return os.open(os.path.join(folder, "claims.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _position(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:14], 16)


class VariantFiles(IndexDataCacheFile):
    """Files of the variants of a function. key : types, processor, hashes of bytecode and constants of a variant."""

    function: Dispatcher | None = None  # the kernel, whose code and options are part of the names
    waits = True  # for other processes that compile a variant; otherwise, `BusyError` is raised

    def save(self, key: VariantKey, data: object) -> None:
        """Write a variant."""
        name = self._name(key)
        self._save_data(name, data)
        release_claim(self._cache_path, name)

    def load(self, key: VariantKey) -> object:
        """Read a variant; return None if it does not exist, and this process is to compile it."""
        name = self._name(key)
        found = self._read(name)
        if found is None and claim(self._cache_path, name, PATIENCE if self.waits else 0.0):
            found = self._read(name)  # another process has compiled it in the meantime
        return found

    def is_stored(self, key: VariantKey) -> bool:
        """True if a variant exists."""
        return os.path.exists(self._data_path(self._name(key)))

    def _read(self, name: str) -> object:
        try:
            return self._load_data(name)
        except OSError:
            return None

    def _name(self, key: VariantKey) -> str:
        if self.function is not None:
            signature, target, _ = key  # the third part depends on whether Python has compiled or loaded the module
            key = signature, target, code_digest(self.function)
        whole = repr((self._version, self._source_stamp, key))
        return self._data_name_pattern.format(number=int(hashlib.sha256(whole.encode()).hexdigest()[:24], 16))


def is_stored(kernel: Dispatcher, arguments: tuple) -> bool:
    """True if a kernel for arguments of these types of Numba is in the cache."""
    target = kernel.targetctx
    target.refresh()
    return bool(kernel._cache._cache_file.is_stored(kernel._cache._index_key(arguments, target.codegen())))


COMPILATION = b"2"  # another value if kernels are compiled in another way: stored ones are then compiled again


def code_digest(function: Dispatcher | Callable) -> str:
    """Return a hash of a function's code, its options, its constants, and the functions and constants it refers to.

    Functions of NumPy and Numba count by their names. The hash is the same in every process.
    """
    digest = hashlib.sha256(COMPILATION)
    for piece in _pieces(function, set()):
        digest.update(piece.encode() + b"\0")
    return digest.hexdigest()


def _pieces(value: object, visited: set[int]) -> Iterator[str]:
    """Yield texts that describe a value, and the code that it refers to, without addresses and random identities."""
    if isinstance(value, CONSTANTS):
        yield repr(value)
        return
    if isinstance(value, (Dispatcher, FunctionType, type)):  # the only objects that may refer to themselves
        if id(value) in visited:
            return
        visited.add(id(value))
    yield type(value).__qualname__
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _pieces(item, visited)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _pieces(item, visited)
    elif isinstance(value, (set, frozenset)):
        yield str(sorted(map(repr, value)))
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, Dispatcher):
        yield from _pieces(value.targetoptions, visited)
        yield from _pieces(value.py_func, visited)
    elif isinstance(value, CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames}"
        for item in value.co_consts:
            yield from _pieces(item, visited)
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}"
        if value.__module__.partition(".")[0] not in FOREIGN:
            yield from _pieces_of_function(value, visited)
    elif isinstance(value, type) and value.__module__.partition(".")[0] not in FOREIGN:
        yield value.__qualname__
        for name, item in vars(value).items():
            yield name
            yield from _pieces(item, visited)
    elif hasattr(value, "_defn"):  # an intrinsic function of Numba
        yield from _pieces(value._defn, visited)
    elif isinstance(value, (type, ModuleType, BuiltinFunctionType, np.ufunc)):
        yield f"{getattr(value, '__module__', '')}.{value.__name__}"
    else:
        yield dumps(value).hex()


def _pieces_of_function(function: FunctionType, visited: set[int]) -> Iterator[str]:
    yield from _pieces(function.__code__, visited)
    yield from _pieces(function.__defaults__, visited)
    for cell in function.__closure__ or ():
        yield from _pieces(cell.cell_contents, visited)
    for name in _names(function.__code__):
        yield from _pieces(function.__globals__.get(name), visited)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function's code and in the functions inside it."""
    yield from code.co_names
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _names(item)


def njit(**options: Any) -> Callable[[Callable], Any]:
    """Return the decorator of `numba.njit`, with `VariantFiles` if the function is cached."""
    compiled = numba.njit(**options)

    def decorate(function: Callable) -> Any:
        dispatcher = compiled(function)
        if options.get("cache"):
            dispatcher._cache._cache_file.__class__ = VariantFiles
            dispatcher._cache._cache_file.function = dispatcher
        generated_once(dispatcher)
        return dispatcher

    return decorate


class FirstCompilation(event.Listener):
    """Calls a function when a kernel that is stored on disk must be compiled, once."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self.announce, self.announced = announce, False

    def on_start(self, event: Event) -> None:
        """Call the function at the first compilation of a kernel that is not in the cache."""
        if not self.announced and not isinstance(event.data["dispatcher"]._cache, NullCache):
            self.announced = True
            self.announce()

    def on_end(self, event: Event) -> None:
        """Do nothing."""


@contextmanager
def announced_compilation(announce: Callable[[], None]) -> Iterator[None]:
    """In this context, call a function before the first kernel that is compiled and not read from the cache."""
    with event.install_listener("numba:compile", FirstCompilation(announce)):
        yield


def import_without_blas() -> None:
    """Import the module of Numba that imports SciPy's linear algebra only to see whether it exists, without it.

    This takes 0.1 to 0.4 s. Kernels that need linear algebra, for example of users, import it when they are compiled.
    """
    found, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = found


import_without_blas()


# Parts of the names of the first three libraries.
INNER_LIBRARIES = ("__numba_parfor_gufunc", "_GufuncWrapper", "parallelgufuncwrapper")
REPLACED = (
    (JITCodeLibrary, "_optimize_final_module"), (JITCodeLibrary, "_finalize_final_module"),
    (CPUContext, "get_executable"),
)  # fmt: skip


def generated_once(dispatcher: Dispatcher) -> None:
    """Generate machine code of a kernel only for the library that contains all others.

    The functions replaced here do not belong to the public interface of Numba. If a version lacks one of them, or if
    its libraries have other names, nothing changes except the compile time.
    """
    compiler = getattr(dispatcher, "_compiler", None)
    compile_core = getattr(compiler, "_compile_core", None)
    if compile_core is None or not all(hasattr(owner, name) for owner, name in REPLACED):
        return

    def compile_once(arguments: Sequence[types.Type], return_type: types.Type | None) -> CompileResult:
        with _inner_libraries_without_machine_code(), no_collection():
            return compile_core(arguments, return_type)

    compiler._compile_core = compile_once


@contextmanager
def _inner_libraries_without_machine_code() -> Iterator[None]:
    """In this context, which Numba's lock of the compiler protects, inner libraries are linked, but neither optimized
    separately nor passed to the execution engine. The contexts of functions that call each other are nested."""
    before = {(owner, name): getattr(owner, name) for owner, name in REPLACED}
    optimize, finalize, executable = before.values()

    def optimize_outer(library: CodeLibrary) -> None:
        if not _is_inner(library):
            optimize(library)

    def finalize_outer(library: CodeLibrary) -> None:
        if _is_inner(library):
            library._finalized = True
        else:
            finalize(library)

    def executable_of_outer(context: BaseContext, library: CodeLibrary, *description: object) -> object:
        return None if _is_inner(library) else executable(context, library, *description)

    for (owner, name), replacement in zip(
        REPLACED, (optimize_outer, finalize_outer, executable_of_outer), strict=True
    ):  # fmt: skip
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)


def _is_inner(library: CodeLibrary) -> bool:
    return any(name in library.name for name in INNER_LIBRARIES)


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

    def includes(self, entry: ListedKernel) -> bool:
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
    for _ in range(count):
        with suppress(OSError):  # the run compiles its kernels
            nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            process = subprocess.Popen(command(selection), **nowhere)
            started.append(process)
            stop_at_exit(process)


def command(selection: Selection) -> list[str]:
    """Return the command of a process that compiles the kernels of a selection.

    It imports this module by name. As ``__main__`` it would be a second copy of the module, whose `VariantFiles` are
    not those of the kernels: all processes would then wait for the first kernel.
    """
    program = f"import sys; from {__name__} import main; main(sys.argv[1])"
    return [sys.executable, "-P", "-c", program, json.dumps(asdict(selection))]


def stop_at_exit(process: subprocess.Popen) -> None:
    """End a process with this one: what it has not begun is not required."""

    def stop() -> None:
        process.terminate()
        process.wait()

    atexit.register(stop)


def loaded(module: str, name: str, made_for: list | None, texts: list[str]) -> tuple[Dispatcher, tuple]:
    """Return a kernel and the types of its arguments; see `Selection.listed`."""
    found = getattr(import_module(module), name)
    kernel = found if made_for is None else kernel_of(found(*made_for))
    return kernel, tuple(type_of(text) for text in texts)


def kernel_of(function: Dispatcher | Callable) -> Dispatcher:
    """Return a kernel that is stored in the cache: the function, or the one that it calls."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    dispatchers = [one for one in (function, *cells) if isinstance(one, Dispatcher)]
    return next(one for one in dispatchers if not isinstance(one._cache, NullCache))


def type_of(text: str) -> types.Type:
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
