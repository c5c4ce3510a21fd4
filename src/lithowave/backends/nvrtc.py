"""CUDA sources compiled at run time by NVRTC, which requires no device, and cached on disk."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

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
    defines = {"REAL": "float" if precision == "single" else "double", **defines}
    options = compiler_options(precision, architecture(capability))
    text, headers = path.read_text(encoding="utf-8"), read_headers(*header_folders(path)) | dict(generated)
    identity = json.dumps([text, headers, sorted(defines.items()), options, nvrtc_version()])
    kept = cache_folder() / f"{path.stem}-{hashlib.sha256(identity.encode()).hexdigest()}.cubin"
    with suppress(OSError):
        code = kept.read_bytes()
        if code.startswith(MAGIC):
            return code
    code = _compile(path, text, headers, defines, options)
    with suppress(OSError):  # if the cache is not writable, only time is lost
        _write_whole(kept, code)
    return code


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
