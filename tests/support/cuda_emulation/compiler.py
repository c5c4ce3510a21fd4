"""CUDA sources compiled for the host, into libraries that are kept as long as the process, or in a folder that
``LITHOWAVE_EMULATION_CACHE`` names."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from lithowave import KernelBuildError
from lithowave.backends import COMMENTS, HEAD, header_folders, read_headers

FOLDER = Path(__file__).parent
OWN_INCLUDE = FOLDER / "include"
COMPILER = os.environ.get("LITHOWAVE_EMULATION_COMPILER", "g++")
OPTIONS = [
    "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-ffp-contract=off",
    "-fno-math-errno", "-w",
]  # fmt: skip
if platform.machine() in ("x86_64", "AMD64"):
    OPTIONS.append("-fcf-protection=none")
LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*\(([^,()]*(?:\([^()]*\)[^,()]*)*)")
BY_VALUE_MAP = re.compile(r"[(,]\s*((?:\w+\s+)*)(\w*Maps?)\s+\w+\s*[,)]")


@functools.cache
def missing_compiler() -> str:
    """Why nothing can be compiled here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "CUDA is emulated on Linux only"
    return "" if shutil.which(COMPILER) else f"there is no {COMPILER} to compile kernels for the host"


def compile_for_host(
    path: Path, defines: Mapping[str, str | int], capability: tuple[int, int], portable: bool = False,
    generated: Mapping[str, str] = MappingProxyType({}),
) -> ctypes.CDLL:  # fmt: skip
    """The library with the kernels of a source; see EMULATED_KERNEL in scheduler.h for what it exports.

    Parameters
    ----------
    path : the source. defines : all preprocessor definitions. capability : of the emulated device. portable : switch
    fibers by ucontext, on x86-64 too. generated : headers by name that are no files.

    Raises
    ------
    KernelBuildError : with the compiler's text, or where the device's compiler would make something else of the code.
    """
    text = path.read_text(encoding="utf-8")
    _check_maps(path, text)
    own = "".join(file.read_text(encoding="utf-8") for file in sorted((*OWN_INCLUDE.iterdir(), *FOLDER.glob("*.*h*"))))
    own += (FOLDER / "scheduler.cpp").read_text(encoding="utf-8")
    definitions = [f"-D{name}={value}" for name, value in defines.items()]
    definitions.append(f"-D__CUDA_ARCH__={100 * capability[0] + 10 * capability[1]}")
    switching = ["-DEMULATION_UCONTEXT"] if portable else []
    headers = (*read_headers(*header_folders(path)).values(), *generated.values())
    parts = [path.name, text, *headers, own, *definitions, *switching, COMPILER, *OPTIONS]
    return _library(path, text, "\0".join(parts), tuple(definitions), tuple(switching), tuple(generated.items()))


@functools.cache
def _library(
    path: Path, text: str, identity: str, definitions: tuple[str, ...], switching: tuple[str, ...],
    generated: tuple[tuple[str, str], ...],
) -> ctypes.CDLL:  # fmt: skip
    name = f"{path.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
    library = _cache() / f"{name}.so"
    with _alone(library):
        if library.exists():
            return ctypes.CDLL(str(library))
        source = _cache() / f"{name}.cpp"
        kernels = "".join(f"EMULATED_KERNEL({kernel}, {most})\n" for kernel, most in _launch_bounds(text).items())
        source.write_text(f'#include "{path.resolve()}"\n\n{kernels}', encoding="utf-8")
        own = source.with_suffix(".include")
        own.mkdir(exist_ok=True)
        for header, body in generated:
            (own / header).write_text(body, encoding="utf-8")
        folders = [f"-I{folder}" for folder in (OWN_INCLUDE, *header_folders(path.resolve()), own)]
        _compile(
            path, library, [
                "-O1", "-shared", "-include", str(OWN_INCLUDE / "cuda_on_host.h"), *folders, *definitions, str(source),
                str(_scheduler(switching)),
            ],
        )  # fmt: skip
    return ctypes.CDLL(str(library))


def _scheduler(switching: tuple[str, ...]) -> Path:
    """The compiled scheduler, a copy of which goes into every library."""
    texts = [file.read_text(encoding="utf-8") for file in (FOLDER / "scheduler.cpp", FOLDER / "fibers.h")]
    texts += [(OWN_INCLUDE / "scheduler.h").read_text(encoding="utf-8"), *switching]
    made = _cache() / f"scheduler-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:32]}.o"
    with _alone(made):
        if made.exists():
            return made
        source = FOLDER / "scheduler.cpp"
        _compile(source, made, ["-O2", "-c", f"-I{OWN_INCLUDE}", f"-I{FOLDER}", *switching, str(source)])
    return made


@contextmanager
def _alone(made: Path) -> Iterator[None]:
    """Let other processes wait until this one has compiled the file, so that each file is compiled once."""
    with open(made.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(path: Path, made: Path, arguments: list[str]) -> None:
    unfinished = made.with_suffix(f".{os.getpid()}{made.suffix}")
    command = [COMPILER, *OPTIONS, *arguments, "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KernelBuildError(f"{path} does not compile for the host.\n{' '.join(command)}\n{done.stderr}")
    os.replace(unfinished, made)


@functools.cache
def _cache() -> Path:
    kept = os.environ.get("LITHOWAVE_EMULATION_CACHE")
    if kept:
        folder = Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="lithowave-emulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _launch_bounds(text: str) -> dict[str, str]:
    """The most threads of a block for every kernel, as an expression of the source; 1024 where it says nothing."""
    found = {}
    for head in HEAD.finditer(COMMENTS.sub(" ", text)):
        bounds = LAUNCH_BOUNDS.search(head[0])
        found[head[1]] = bounds[1].strip() if bounds else "1024"
    return found


def _check_maps(path: Path, text: str) -> None:
    """Tensor maps must be grid constants: of any other parameter the device's compiler makes a copy in local memory."""
    code = COMMENTS.sub(" ", text)
    for head in HEAD.finditer(code):
        signature = "(" + code[head.end() : code.index("{", head.end())].replace(",", ",,")
        for found in BY_VALUE_MAP.finditer(signature):
            if "__grid_constant__" not in found[1]:
                raise KernelBuildError(f"{path}: kernel {head[1]}: {found[2]} is no __grid_constant__ parameter")
