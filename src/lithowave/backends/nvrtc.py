"""CUDA sources compiled at run time by NVRTC, which requires no device, and cached on disk."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from lithowave.backends.cpu import usable_cores
from lithowave.errors import KernelBuildError, MissingPackageError, ResourceError

INCLUDE = Path(__file__).parent / "include"
MAGIC = b"\x7fELF"  # first bytes of every cubin

Defines = Mapping[str, str | int]


def source_path(package: str, file: str) -> Path:
    """Return the path of a source of a package."""
    return Path(find_spec(package).submodule_search_locations[0]) / file


def compile_source(
    path: Path,
    defines: Defines,
    precision: str,
    capability: tuple[int, int],
    generated: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return the machine code (cubin) of a CUDA source, from the cache if available.

    Parameters
    ----------
    path : the source; headers (``*.cuh``) may be in any of `header_folders`. defines : preprocessor definitions by
    name, in addition to ``REAL``. precision : ``single`` or ``double``. capability : of the device, e.g. (9, 0).
    generated : text of generated headers by name.

    Raises
    ------
    KernelBuildError : with the compiler's log. MissingPackageError : NVRTC is not installed. ResourceError : this
    NVRTC does not support the device.
    """
    source = _Source.of(path, defines, precision, capability, generated)
    return source.stored() or source.begin().result()


def compile_ahead(
    path: Path,
    defines: Defines,
    precision: str,
    capability: tuple[int, int],
    generated: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Begin to compile a source in a thread, unless it is in the cache. `compile_source` waits for this thread, and
    reports its error."""
    source = _Source.of(path, defines, precision, capability, generated)
    if not source.kept.exists():
        source.begin()


@dataclass(frozen=True)
class _Source:
    """A source with all that its machine code depends on. kept : file of the machine code in the cache."""

    path: Path
    text: str
    headers: Mapping[str, str]
    defines: Defines
    options: Sequence[str]
    kept: Path

    @classmethod
    def of(
        cls, path: Path, defines: Defines, precision: str, capability: tuple[int, int], generated: Mapping[str, str]
    ) -> _Source:
        """Return the source for the arguments of `compile_source`."""
        defines = {"REAL": "float" if precision == "single" else "double", **defines}
        options = compiler_options(precision, architecture(capability))
        text, headers = path.read_text(encoding="utf-8"), read_headers(*header_folders(path)) | dict(generated)
        identity = json.dumps([text, headers, sorted(defines.items()), options, nvrtc_version()])
        kept = cache_folder() / f"{path.stem}-{hashlib.sha256(identity.encode()).hexdigest()}.cubin"
        return cls(path, text, headers, defines, options, kept)

    def stored(self) -> bytes | None:
        """Return the machine code from the cache, if available."""
        with suppress(OSError):
            code = self.kept.read_bytes()
            if code.startswith(MAGIC):
                return code
        return None

    def begin(self) -> Future[bytes]:
        """Return the machine code that a thread compiles: one for all requests until it is complete."""
        with _lock():
            future = _compiling.get(self.kept)
            if future is None:
                future = _compiling[self.kept] = _threads().submit(self._compile_and_store)
        return future

    def _compile_and_store(self) -> bytes:
        try:
            code = _compile(self.path, self.text, self.headers, self.defines, self.options)
            with suppress(OSError):  # if the cache is not writable, only time is lost
                _write_whole(self.kept, code)
            return code
        finally:
            with _lock():
                _compiling.pop(self.kept, None)


_compiling: dict[Path, Future[bytes]] = {}


@cache
def _lock() -> threading.Lock:
    """Return the lock of `_compiling`."""
    return threading.Lock()


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads that compile: NVRTC works outside the interpreter lock."""
    return ThreadPoolExecutor(usable_cores(), "lithowave compiler")


for forget in (_compiling.clear, _lock.cache_clear, _threads.cache_clear):
    os.register_at_fork(after_in_child=forget)  # the child has none of the threads


def compiler_options(precision: str, architecture: str) -> list[str]:
    """Return the options of NVRTC other than definitions."""
    fast = ["--ftz=true", "--prec-div=false"] if precision == "single" else []
    return ["--std=c++17", "-default-device", f"-arch={architecture}", *fast]


def architecture(capability: tuple[int, int]) -> str:
    """Return the real architecture, such as ``sm_90``, whose machine code runs on this compute capability.

    Raises
    ------
    ResourceError : this NVRTC supports none.
    """
    own = 10 * capability[0] + capability[1]
    known = nvrtc().getSupportedArchs()
    fitting = [number for number in known if number // 10 == capability[0] and number <= own]
    if not fitting:
        version = ".".join(map(str, nvrtc_version()))
        raise ResourceError(
            f"CUDA {version} compiles for compute capabilities from {min(known) / 10} to {max(known) / 10}; this "
            f"device has {own / 10}. Install lithowave with the extra for another CUDA version (cuda12, cuda13), or "
            "set compute.backend: cpu."
        )
    return f"sm_{max(fitting)}"


def header_folders(path: Path) -> tuple[Path, Path, Path]:
    """Return the directories of a source's headers: its own, those shared by solvers, and those of the backends."""
    return path.parent, path.parent.parent / "common", INCLUDE


def read_headers(*folders: Path) -> dict[str, str]:
    """Return the text of every header by name; the first directory has precedence."""
    paths = [path for folder in reversed(folders) for path in sorted(folder.glob("*.cuh"))]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def cache_folder() -> Path:
    """Return the directory of compiled kernels, in that of `cache_root`."""
    return cache_root() / "kernels"


def cache_root() -> Path:
    """Return the directory of data that can be computed again: ``$LITHOWAVE_CACHE_DIR`` or in the user's cache."""
    own = os.environ.get("LITHOWAVE_CACHE_DIR")
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(own) if own else Path(user) / "lithowave"


def nvrtc():
    """Return CuPy's bindings of NVRTC.

    Raises
    ------
    MissingPackageError : CuPy or the library NVRTC is missing.
    """
    try:
        import cupy
    except ImportError as error:
        raise MissingPackageError("cupy", "compiling CUDA kernels", "cuda13") from error
    bindings = cupy.cuda.nvrtc
    try:
        bindings.getVersion()
    except Exception as error:  # CuPy's library search raises various types
        extra = "cuda12" if cupy.cuda.runtime.runtimeGetVersion() < 13000 else "cuda13"
        raise MissingPackageError("nvidia-cuda-nvrtc", "compiling CUDA kernels", extra) from error
    return bindings


def nvrtc_version() -> tuple[int, int]:
    """Return the version of the compiler, e.g. (13, 0)."""
    return tuple(nvrtc().getVersion())


def _compile(
    path: Path, text: str, headers: Mapping[str, str], defines: Defines, options: Sequence[str]
) -> bytes:
    compiler = nvrtc()
    bodies, names = ([part.encode() for part in parts] for parts in (headers.values(), headers))
    program = compiler.createProgram(text, str(path), bodies, names)
    definitions = [f"-D{name}={value}" for name, value in defines.items()]
    try:
        compiler.compileProgram(program, (*options, *definitions))
        return compiler.getCUBIN(program)
    except compiler.NVRTCError as error:
        log = compiler.getProgramLog(program).strip()
        raise KernelBuildError(
            f"{path} does not compile ({error}).\n"
            f"definitions: {' '.join(definitions)}\noptions: {' '.join(options)}\n{log}"
        ) from error
    finally:
        compiler.destroyProgram(program)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file such that other processes see either no file or the complete one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
