"""Diagnostics of this machine: processor, compiler, memory, devices, MPI and package versions.

A failed query is reported as missing, never as an error. Only what prevents runs on the CPU counts as a problem.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.errors import LithowaveError
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries

REQUIRED = (
    "numpy", "numba", "llvmlite", "scipy", "threadpoolctl", "h5py", "pydantic", "pyyaml", "typer", "rich", "pyproj",
    "matplotlib",
)  # fmt: skip
OPTIONAL = {
    "obspy": ("MiniSEED, SAC, observed data, Streams, beach balls, wavelet misfits", "formats"),
    "segyio": ("SEG-Y seismograms, sections and geometry", "formats"),
    "xarray": ("results as Datasets", "data"),
    "pandas": ("results as DataFrames", "data"),
    "meshio": ("meshes from VTU files", "meshes"),
    "distributed": ("surveys on clusters of Dask", "dask"),
    "bokeh": ("the dashboard of Dask", "dask"),
    "plotly": ("reports", "report"),
    "mpi4py": ("runs on several ranks", "mpi"),
    "mpich": ("an MPI library with mpiexec, if the machine has none", "mpi"),
    "pymetis": ("partitions of meshes from files", "mpi"),
    "cupy-cuda13x": ("NVIDIA GPUs, CUDA 13", "cuda13"),
    "nvidia-cuda-nvrtc": ("compiler of CUDA 13 kernels", "cuda13"),
    "cupy-cuda12x": ("NVIDIA GPUs, CUDA 12", "cuda12"),
    "nvidia-cuda-nvrtc-cu12": ("compiler of CUDA 12 kernels", "cuda12"),
}
"""For each package of the extras of pyproject.toml its purpose and the extra that installs it."""
VECTOR_UNITS = ("avx512f", "avx2", "fma", "avx", "sse4_2", "asimd", "sve")
SECONDS = 10.0


def run_diagnostics() -> Entries:
    """Collect the state of this machine.

    Returns
    -------
    Groups ``lithowave``, ``python``, ``packages``, ``optional``, ``cpu``, ``memory``, ``disk``, ``gpu``, ``mpi``,
    ``transport`` (between devices), ``programs``, and ``problems``: sentences on what prevents runs on the CPU.
    """
    packages = {name: installed(name) for name in REQUIRED}
    problems = [f"the package {name} is missing: pip install {name}" for name, found in packages.items() if not found]
    cpu = examine_processor()
    gpu = {"devices": driver_devices(), "cupy": cupy_state(), "kernels": kernel_state()}
    backends = ["cpu", "cuda"] if gpu["kernels"] and not gpu["kernels"]["error"] else ["cpu"]
    problems += [cpu["error"]] if cpu["error"] else []
    if cpu["cache_folder"] and not cpu["cache_writable"]:
        problems.append(
            f"compiled kernels cannot be stored in {cpu['cache_folder']}: set NUMBA_CACHE_DIR to a writable directory"
        )
    return {
        "lithowave": examine_lithowave() | {"backends": backends},
        "python": {"version": platform.python_version(), "executable": sys.executable, "system": platform.platform()},
        "packages": packages,
        "optional": {name: installed(name) for name in OPTIONAL},
        "cpu": cpu,
        "memory": examine_memory(),
        "disk": {"folder": os.getcwd(), "free_bytes": shutil.disk_usage(".").free},
        "gpu": gpu,
        "mpi": examine_mpi(),
        "transport": available_transports(gpu),
        "programs": {name: shutil.which(name) for name in ("ffmpeg", "git")},
        "problems": problems,
    }


def installed(package: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def examine_lithowave() -> Entries:
    """Return version, folder and commit of lithowave."""
    from lithowave.output.run_folder import source_commit

    folder = str(Path(__file__).resolve().parent)
    return {"version": __version__, "commit": source_commit(), "folder": folder}


def examine_processor() -> Entries:
    """Return processor, cores, vector units, and the result of compiling and caching a kernel with Numba."""
    from lithowave.backends.cpu import processor_name, usable_cores

    found: Entries = {
        "name": processor_name(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "vector_units": vector_units(),
        "threading_layer": None,
        "threads": None,
        "cache_folder": None,
        "cache_writable": None,
        "error": "",
    }
    try:
        found.update(examine_compiler())
    except Exception as error:  # any failure is a result to report
        found["error"] = f"Numba cannot compile kernels: {type(error).__name__}: {error}"
    return found


def examine_compiler() -> Entries:
    """Compile and run a small parallel kernel."""
    import numba

    @numba.njit(parallel=True)
    def count(number: int) -> int:
        total = 0
        for _ in numba.prange(number):
            total += 1
        return total

    if count(1000) != 1000:
        raise ArithmeticError("a parallel sum is wrong")
    folder = cache_folder()
    return {
        "threading_layer": numba.threading_layer(),
        "threads": numba.config.NUMBA_NUM_THREADS,
        "cache_folder": str(folder),
        "cache_writable": can_write(folder),
    }


def cache_folder() -> Path:
    """Return the folder in which Numba stores compiled kernels."""
    from lithowave.backends.measurements import update

    return Path(update.stats.cache_path)


def can_write(folder: Path) -> bool:
    """True if files can be created in a folder, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def vector_units() -> list[str]:
    """Return the names of the vector instructions that affect speed."""
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
    except (ImportError, RuntimeError):
        return []
    return [name for name in VECTOR_UNITS if features.get(name.replace("_", "."), features.get(name))]


def examine_memory() -> Entries:
    """Return the main memory, bytes."""
    from lithowave.backends.cpu import free_memory

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"total_bytes": total, "free_bytes": free_memory()}


def driver_devices() -> list[dict[str, str]]:
    """Return name, driver and memory of each device that nvidia-smi lists; empty if it is missing or fails."""
    keys = ("name", "driver_version", "memory.total", "memory.free")
    text = output_of("nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader")
    rows = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    return [dict(zip(keys, row, strict=True)) for row in rows if len(row) == len(keys)]


def cupy_state() -> Entries | None:
    """Return the versions and devices that CuPy reaches, or the reason for none; None without CuPy."""
    if find_spec("cupy") is None:
        return None
    try:
        import cupy

        runtime = cupy.cuda.runtime
        return {
            "version": cupy.__version__,
            "runtime": runtime.runtimeGetVersion(),
            "driver": runtime.driverGetVersion(),
            "device_count": runtime.getDeviceCount(),
        }
    except (
        Exception
    ) as error:  # CuPy defines error classes for each missing component
        return {"error": f"{type(error).__name__}: {error}"}


def kernel_state() -> Entries | None:
    """Return the first device and the error, if any, of a kernel on it; None without CuPy."""
    if find_spec("cupy") is None:
        return None
    found: Entries = {"name": None, "capability": None, "free_bytes": None, "error": ""}
    try:
        found.update(try_kernel())
    except Exception as error:  # any failure is a result to report
        found["error"] = str(error) if isinstance(error, LithowaveError) else f"{type(error).__name__}: {error}"
    return found


def try_kernel() -> Entries:
    """Compile and run a small kernel."""
    import numpy as np

    from lithowave.backends.cuda import CudaBackend

    backend = CudaBackend()
    values = backend.zeros(1000, np.int64)
    probe = backend.program("lithowave.backends", "probe.cu", {})
    probe.launch("count_up", (8,), (128,), {"values": values, "count": 1000})
    if not np.array_equal(backend.download(values), np.arange(1000)):
        raise ArithmeticError("a kernel computed wrong values")
    capability = ".".join(map(str, backend.capability))
    return {
        "name": backend.device, "capability": capability, "free_bytes": backend.free_memory(),
        "peer_copies": backend.can_export(),
    }  # fmt: skip


def examine_mpi() -> Entries:
    """Return the MPI library of mpi4py, the first launcher in PATH, and whether they belong together.

    ``library`` : name of the library, queried in a separate process, since a broken MPI may hang or abort. ``same_mpi``
    is None if one of the two is unknown. ``own_mpiexec`` : launcher in the folder of this Python.
    """
    library, error = mpi_library() if installed("mpi4py") else (None, "")
    launcher = shutil.which("mpiexec")
    text = output_of("mpiexec", "--version")
    kinds = mpi_kind(library or ""), mpi_kind(text)
    own = Path(sys.executable).parent / "mpiexec"
    return {
        "mpi4py": installed("mpi4py"),
        "library": library,
        "error": error,
        "mpiexec": launcher,
        "version": launcher_version(text),
        "same_mpi": kinds[0] == kinds[1] if all(kinds) else None,
        "own_mpiexec": str(own) if own.exists() else None,
    }


def mpi_library() -> tuple[str | None, str]:
    """Return the first line of the library version, without starting MPI, and the error if there is none."""
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    try:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{type(error).__name__}: {error}"
    lines = [line.strip("\0 ") for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines()]
    lines = [line for line in lines if line]
    if done.returncode or not lines:
        return None, lines[-1] if lines else "no error message"
    return " ".join(lines[0].split()), ""


def mpi_kind(text: str) -> str | None:
    """Return the MPI implementation of a library or launcher, from its version text."""
    marks = {
        "Open MPI": ("open mpi", "openrte", "open-mpi", "prrte"),
        "Intel MPI": ("intel(r) mpi",),
        "MPICH": ("mpich", "hydra", "mvapich"),
    }
    return next((kind for kind, words in marks.items() if any(word in text.lower() for word in words)), None)


def launcher_version(text: str) -> str | None:
    """Return the first line of ``mpiexec --version``; for Hydra, whose first line has no version, also the second."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("HYDRA"):
        return f"Hydra, {lines[1]}"
    return lines[0] if lines else None


def available_transports(gpu: Entries) -> Entries:
    """Return the transports between devices on this machine, in the order in which a run prefers them.

    ``nccl`` : version of the NCCL of CuPy, None without NCCL. ``ways`` : the usable ones of ``peer`` (within a
    machine), ``nccl`` and ``host``; empty without a device.
    """
    count = (gpu["cupy"] or {}).get("device_count", 0)
    from lithowave.parallel.halo import nccl_version

    found = nccl_version() if count else None
    usable = {"peer": (gpu["kernels"] or {}).get("peer_copies"), "nccl": found, "host": True}
    ways = [way for way, usable_here in usable.items() if usable_here] if count else []
    return {"device_count": count, "nccl": found, "ways": ways}


def output_of(program: str, *arguments: str) -> str:
    """Return the standard output of a program; empty if it is missing, fails or takes too long."""
    if shutil.which(program) is None:
        return ""
    try:
        command = [program, *arguments]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def diagnostics_lines(found: Entries) -> Iterator[tuple[str, str]]:
    """Yield the diagnostics as (name, text), formatted for printing."""
    from lithowave.output.files import readable_size

    own, python, cpu = found["lithowave"], found["python"], found["cpu"]
    commit = f", commit {own['commit'][:12]}" if own["commit"] else ""
    yield ("lithowave", f"{own['version']}{commit}, in {own['folder']}; computes on: {', '.join(own['backends'])}")
    yield "Python", f"{python['version']}, {python['executable']}"
    yield "system", python["system"]
    yield "packages", ", ".join(f"{name} {text}" for name, text in found["packages"].items() if text)
    for name, text in found["optional"].items():
        purpose, extra = OPTIONAL[name]
        yield name, text or f'not installed ({purpose}: pip install "lithowave[{extra}]")'
    yield "processor", cpu["name"]
    yield (
        "cores",
        f"{cpu['usable_cores']} usable of {cpu['cores']}; "
        f"{', '.join(cpu['vector_units']) or 'vector units unknown'}",
    )
    if cpu["threading_layer"]:
        yield "Numba", f"compiles; {cpu['threads']} threads by {cpu['threading_layer']}"
        yield ("kernel cache", f"{cpu['cache_folder']} ({'writable' if cpu['cache_writable'] else 'NOT writable'})")
    memory = found["memory"]
    yield "memory", f"{readable_size(memory['total_bytes'])}, {readable_size(memory['free_bytes'])} free"
    yield "disk", f"{readable_size(found['disk']['free_bytes'])} free in {found['disk']['folder']}"
    yield from _device_lines(found["gpu"])
    yield from _mpi_lines(found["mpi"])
    yield "several GPUs", _transport_text(found["transport"])
    for name, path in found["programs"].items():
        yield name, path or "not found" + (" (movies are GIF only)" if name == "ffmpeg" else "")
    for text in found["problems"]:
        yield "PROBLEM", text


def _mpi_lines(mpi: Entries) -> Iterator[tuple[str, str]]:
    if mpi["mpi4py"]:
        yield "MPI of mpi4py", mpi["library"] or f"cannot be used: {mpi['error']}"
    if not mpi["mpiexec"]:
        beside = f"; the environment of this Python has {mpi['own_mpiexec']}" if mpi["own_mpiexec"] else ""
        yield "mpiexec", f"none found in PATH{beside}"
        return
    text = f"{mpi['mpiexec']}: {mpi['version'] or 'version unknown'}"
    if mpi["same_mpi"] is False:
        text += "; NOT the MPI of mpi4py, so that ranks cannot communicate"
        if mpi["own_mpiexec"]:
            text += f"; use {mpi['own_mpiexec']}"
    elif mpi["same_mpi"]:
        text += "; same MPI as mpi4py"
    yield "mpiexec", text


def _transport_text(found: Entries) -> str:
    if not found["ways"]:
        return "no CUDA device: ranks communicate by MPI in main memory"
    count, ways = found["device_count"], found["ways"]
    texts = {"peer": "peer copies within a machine", "nccl": f"NCCL {found['nccl']}", "host": "main memory and MPI"}
    order = ", else ".join(texts[way] for way in ways)
    missing = "" if found["nccl"] else "; CuPy has no NCCL"
    return (
        f"{count} device{'s' * (count != 1)}, one per rank of a machine; communication by {order}{missing} "
        f"(compute.transport: {', '.join(ways)})"
    )


def _device_lines(gpu: Entries) -> Iterator[tuple[str, str]]:
    from lithowave.output.files import readable_size

    for device in gpu["devices"]:
        memory = f"{device['memory.total']}, {device['memory.free']} free"
        yield "GPU", f"{device['name']}, driver {device['driver_version']}, {memory}"
    if not gpu["devices"]:
        yield "GPU", "none found (nvidia-smi is missing or lists none)"
    if gpu["cupy"]:
        yield "CuPy", ", ".join(f"{name} {value}" for name, value in gpu["cupy"].items())
    kernels = gpu["kernels"]
    if kernels and kernels["error"]:
        yield "CUDA", kernels["error"]
    elif kernels:
        free = readable_size(kernels["free_bytes"])
        yield "CUDA", f"kernels compile and run; compute capability {kernels['capability']}, {free} free"
