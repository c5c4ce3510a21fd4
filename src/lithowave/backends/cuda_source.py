"""CUDA sources, compiled at run time by NVRTC and cached on disk, and the signatures of their kernels.

Signatures are read from the source, and arguments are bound to them by name. The emulation of CUDA in the tests uses
the same functions, so neither CuPy nor a device is needed here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lithowave.backends.cpu import usable_cores
from lithowave.errors import KernelBuildError, MissingPackageError, ResourceError

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.backends.interface import DeviceArray

    Bound = DeviceArray | np.ndarray | np.generic  # an argument of a kernel: an array, the bytes of a struct, a number

COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTES = r"(?:__\w+__\s*\((?:[^()]|\([^()]*\))*\)\s*)*"  # __launch_bounds__(...), __cluster_dims__(...)
HEAD = re.compile(rf'extern\s+"C"\s+__global__\s+{ATTRIBUTES}void\s+{ATTRIBUTES}(\w+)\s*\(')
PARAMETER = re.compile(r"(?P<ctype>.*?[\s*&])\s*(?P<name>[A-Za-z_]\w*)", re.DOTALL)
QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__|struct)\b|&")
SYNONYMS = {
    "unsigned int": "unsigned",
    "long long int": "long long",
    "unsigned long long int": "unsigned long long",
    "unsigned short int": "unsigned short",
}
DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}


class Parameter(NamedTuple):
    """A parameter of a kernel: type without qualifiers (``real*``, ``long long``, ``CUtensorMap``) and name."""

    ctype: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """True if an array is expected."""
        return self.ctype.endswith("*")


def kernel_signatures(text: str) -> dict[str, list[Parameter]]:
    """Return the parameters of every ``extern "C" __global__`` function in a source, by its name.

    Raises
    ------
    ValueError : a parameter cannot be read, or two kernels of one name have different parameters.
    """
    code, found = COMMENTS.sub(" ", text), {}
    for head in HEAD.finditer(code):
        name = head[1]
        parameters = [_parameter(part, name) for part in _split(code, head.end())]
        if found.setdefault(name, parameters) != parameters:
            raise ValueError(f"kernel {name} is defined twice, with different parameters")
    return found


def _split(code: str, begin: int) -> list[str]:
    """Return the text between an open parenthesis and its end, split at commas outside inner brackets."""
    depth, last, parts = 1, begin, []
    for place in range(begin, len(code)):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(code[place], 0)
        if depth == 0 or (depth == 1 and code[place] == ","):
            parts.append(code[last:place].strip())
            last = place + 1
        if depth == 0:
            break
    return [] if parts in ([""], ["void"]) else parts


def _parameter(text: str, kernel: str) -> Parameter:
    found = PARAMETER.fullmatch(text)
    if found is None:
        raise ValueError(f"kernel {kernel}: {text!r} is not a parameter that can be bound; write TYPE name")
    ctype = " ".join(QUALIFIERS.sub(" ", found["ctype"]).replace("*", " * ").split()).replace(" *", "*")
    base = ctype.rstrip("*")
    return Parameter(SYNONYMS.get(base, base) + ctype[len(base) :], found["name"])


def bind(name: str, parameters: Sequence[Parameter], arguments: Mapping[str, object], dtype: np.dtype) -> list[Bound]:
    """Return the values of a kernel's parameters, in order, converted to the types of the kernel.

    Parameters
    ----------
    name : of the kernel. arguments : values by parameter name; others are ignored. dtype : of ``real``.

    Returns
    -------
    An array for a pointer, a NumPy scalar for a number, a contiguous array of uint8 for a struct. Arrays of numbers
    must have the kernel's type; a pointer to structs accepts any array. A struct by value is given as its bytes: an
    array of uint8, bytes, or a NumPy record.

    Raises
    ------
    TypeError : an argument is missing or has the wrong type, with the names of kernel and parameter.
    """
    types = DTYPES | {"real": dtype}
    return [_value(name, parameter, arguments, types) for parameter in parameters]


def _value(
    kernel: str, parameter: Parameter, arguments: Mapping[str, object], types: Mapping[str, npt.DTypeLike]
) -> Bound:
    try:
        value = arguments[parameter.name]
    except KeyError:
        raise TypeError(f"kernel {kernel}: no argument for {parameter.ctype} {parameter.name}") from None
    convert = _array if parameter.is_pointer else _number if parameter.ctype in types else _struct
    try:
        return convert(value, parameter.ctype, types)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"kernel {kernel}: argument {parameter.name}: {error}") from None


def _array(value: object, ctype: str, types: Mapping[str, npt.DTypeLike]) -> Bound:
    wanted = np.dtype(types[ctype[:-1]]) if ctype[:-1] in types else None  # structs have a layout of their own
    if isinstance(value, np.generic) or not hasattr(value, "dtype"):
        raise TypeError(f"{ctype} needs an array{f' of {wanted}' if wanted else ''}, not {type(value).__name__}")
    if wanted is not None and value.dtype != wanted:
        raise TypeError(f"{ctype} needs an array of {wanted}, not of {value.dtype}")
    return value


def _number(value: object, ctype: str, types: Mapping[str, npt.DTypeLike]) -> np.generic:
    wanted = np.dtype(types[ctype])
    if np.ndim(value) != 0 or not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(f"{ctype} needs a number, not {type(value).__name__}")
    if wanted.kind in "iu":
        if int(value) != value or not np.iinfo(wanted).min <= int(value) <= np.iinfo(wanted).max:
            raise TypeError(f"{ctype} cannot hold {value}")
        return wanted.type(int(value))
    return wanted.type(value)


def _struct(value: object, ctype: str, _types: Mapping[str, npt.DTypeLike]) -> np.ndarray:
    if isinstance(value, np.void) or (isinstance(value, np.ndarray) and value.dtype.kind == "V"):
        value = value.tobytes()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        raise TypeError(f"{ctype} needs its bytes: an array of uint8, not {type(value).__name__}")
    if ctype == "CUtensorMap" and value.size != 128:
        raise TypeError(f"CUtensorMap has 128 bytes, not {value.size}")
    return np.ascontiguousarray(value)


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
            code = self._compile_here_or_elsewhere()
            with suppress(OSError):  # if the cache is not writable, only time is lost
                _write_whole(self.kept, code)
            return code
        finally:
            with _lock():
                _compiling.pop(self.kept, None)

    def _compile_here_or_elsewhere(self) -> bytes:
        """Return the machine code. NVRTC compiles one source at a time in a process; another process compiles a second
        one meanwhile, and if it cannot, this one compiles it afterwards and reports the error."""
        given = self.path, self.text, self.headers, self.defines, self.options
        if not _compiler().acquire(blocking=False):
            code = _compile_elsewhere(*given)
            if code is not None:
                return code
            _compiler().acquire()
        try:
            return _compile(*given)
        finally:
            _compiler().release()


_compiling: dict[Path, Future[bytes]] = {}


@cache
def _lock() -> threading.Lock:
    """Return the lock of `_compiling`."""
    return threading.Lock()


@cache
def _compiler() -> threading.Lock:
    """Return the lock of the compiler in this process."""
    return threading.Lock()


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads that compile, here and in other processes."""
    return ThreadPoolExecutor(usable_cores(), "lithowave compiler")


for forget in (_compiling.clear, _lock.cache_clear, _compiler.cache_clear, _threads.cache_clear):
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


def _compile(path: Path, text: str, headers: Mapping[str, str], defines: Defines, options: Sequence[str]) -> bytes:
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


def _compile_elsewhere(
    path: Path, text: str, headers: Mapping[str, str], defines: Defines, options: Sequence[str]
) -> bytes | None:
    """Return what `_compile` returns, from another process; None if it fails."""
    program = f"from {__name__} import compile_input; compile_input()"
    given = json.dumps([str(path), text, dict(headers), dict(defines), list(options)])
    with suppress(OSError):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program], input=given.encode(), capture_output=True, check=False
        )
        if done.returncode == 0 and done.stdout.startswith(MAGIC):
            return done.stdout
    return None


def compile_input() -> None:
    """Compile the source that the standard input describes, and write its machine code to the standard output."""
    path, *given = json.load(sys.stdin)
    sys.stdout.buffer.write(_compile(Path(path), *given))


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
