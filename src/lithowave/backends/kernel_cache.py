"""Numba's cache of compiled kernels on disk, safe for processes that compile at the same time.

Numba numbers the files of a function's variants (other types, other constants of a closure) and stores an index of
them. Two processes that compile different variants at once can choose the same number, and the index then maps one
variant to the code of the other: a kernel of another order or precision would run without an error. Here the content
of a file determines its name, and there is no index.

Numba reads a compiled kernel again until the file that defines it changes, even if a function that the kernel calls has
changed in another file. Here the name of a file depends on the code and the constants of all functions that the kernel
reaches. Numba's own key contains the bytes of pickled closures, which differ between a process in which Python compiles
a module and one that loads its compiled form: kernels would be compiled twice.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.np import linalg

from lithowave.backends.machine_code import generated_once

try:
    import fcntl
except ImportError:  # Windows: processes may compile the same kernel at the same time
    fcntl = None  # type: ignore[assignment]

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

    def save(self, key: Any, data: Any) -> None:
        """Write a variant."""
        name = self._name(key)
        self._save_data(name, data)
        release_claim(self._cache_path, name)

    def load(self, key: Any) -> Any:
        """Read a variant; return None if it does not exist, and this process is to compile it."""
        name = self._name(key)
        found = self._read(name)
        if found is None and claim(self._cache_path, name, PATIENCE if self.waits else 0.0):
            found = self._read(name)  # another process has compiled it in the meantime
        return found

    def is_stored(self, key: Any) -> bool:
        """True if a variant exists."""
        return os.path.exists(self._data_path(self._name(key)))

    def _read(self, name: str) -> Any:
        try:
            return self._load_data(name)
        except OSError:
            return None

    def _name(self, key: Any) -> str:
        if self.function is not None:
            signature, target, _ = key  # the third part depends on whether Python has compiled or loaded the module
            key = signature, target, code_digest(self.function)
        whole = repr((self._version, self._source_stamp, key))
        return self._data_name_pattern.format(number=int(hashlib.sha256(whole.encode()).hexdigest()[:24], 16))


def is_stored(kernel: Any, arguments: tuple) -> bool:
    """True if a kernel for arguments of these types of Numba is in the cache."""
    target = kernel.targetctx
    target.refresh()
    return bool(kernel._cache._cache_file.is_stored(kernel._cache._index_key(arguments, target.codegen())))


def code_digest(function: Dispatcher | Callable) -> str:
    """Return a hash of a function's code, its options, its constants, and the functions and constants it refers to.

    Functions of NumPy and Numba count by their names. The hash is the same in every process.
    """
    digest = hashlib.sha256()
    for piece in _pieces(function, set()):
        digest.update(piece.encode() + b"\0")
    return digest.hexdigest()


def _pieces(value: Any, visited: set[int]) -> Iterator[str]:
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
        generated_once(dispatcher, stored=bool(options.get("cache")))
        return dispatcher

    return decorate


class FirstCompilation(event.Listener):
    """Calls a function when a kernel that is stored on disk must be compiled, once."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self.announce, self.announced = announce, False

    def on_start(self, event: Any) -> None:
        """Call the function at the first compilation of a kernel that is not in the cache."""
        if not self.announced and not isinstance(event.data["dispatcher"]._cache, NullCache):
            self.announced = True
            self.announce()

    def on_end(self, event: Any) -> None:
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
