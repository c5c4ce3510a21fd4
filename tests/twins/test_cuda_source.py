"""Signatures of CUDA kernels, the arguments bound to them, and their compilation, for which no device is needed."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from lithowave.backends import Parameter, bind, kernel_signatures
from lithowave.backends import cuda_source as nvrtc
from lithowave.errors import KernelBuildError, ResourceError
from lithowave.solvers import METHODS

SOLVERS = Path(nvrtc.__file__).parents[1] / "solvers"
CAPABILITIES = ((8, 0), (9, 0), (10, 0))
SINGLE = np.dtype(np.float32)

TEXT = """
// extern "C" __global__ void old(int a)
/* extern "C" __global__ void older(int a) */
__device__ void helper(int a);
extern "C" __global__ __launch_bounds__((THREADS), 2) __cluster_dims__(2, 1, 1) void update(
    real* __restrict__ vx, const real *vy,   // along y
    const unsigned long long int * const starts, const __grid_constant__ Layers layers,
    unsigned int count, Box<3, 2> box)
{ helper(1); }
extern "C" __global__ void empty() {}
extern "C" __global__ void nothing(void) {}
"""


def test_signatures_are_read() -> None:
    assert kernel_signatures(TEXT) == {
        "update": [
            ("real*", "vx"),
            ("real*", "vy"),
            ("unsigned long long*", "starts"),
            ("Layers", "layers"),
            ("unsigned", "count"),
            ("Box<3, 2>", "box"),
        ],
        "empty": [],
        "nothing": [],
    }


def test_arguments_are_bound_by_name() -> None:
    parameters = [
        Parameter(*pair)
        for pair in (("int", "n"), ("real*", "v"), ("real", "dt"), ("Tile*", "tiles"), ("Box", "box"), ("Box", "raw"))
    ]
    arguments = {
        "v": np.zeros((3, 4), np.float32)[:, ::2], "dt": 0.1, "n": np.int64(7), "more": None,
        "tiles": np.zeros(8, np.int32), "box": np.arange(12, dtype=np.uint8)[::2], "raw": b"1234",
    }  # fmt: skip
    n, v, dt, tiles, box, raw = bind("update", parameters, arguments, SINGLE)
    assert v is arguments["v"] and tiles is arguments["tiles"]
    assert (n.dtype, n) == (np.int32, 7) and (dt.dtype, dt) == (SINGLE, np.float32(0.1))
    assert box.tobytes() == bytes(range(0, 12, 2)) and raw.tobytes() == b"1234"
    record = np.array((1, 2.0), np.dtype([("first", "i4"), ("second", "f8")], align=True))
    for value in (record, record[()]):
        (bound,) = bind("update", [Parameter("Pair", "pair")], {"pair": value}, SINGLE)
        assert bound.dtype == np.uint8 and bound.tobytes() == record.tobytes()


@pytest.mark.parametrize(
    ("ctype", "value", "words"),
    [
        ("real*", np.zeros(3), "an array of float32, not of float64"),
        ("long long*", np.zeros(3, np.int32), "an array of int64, not of int32"),
        ("unsigned short*", np.zeros(3, np.int16), "an array of uint16, not of int16"),
        ("real*", [1.0], "an array of float32, not list"),
        ("real*", None, "not NoneType"),
        ("real*", np.float32(1), "not float32"),
        ("Tile*", b"", "an array, not bytes"),
        ("int", 2**31, "cannot hold 2147483648"),
        ("int", np.int64(2**31), "cannot hold 2147483648"),
        ("unsigned", -1, "cannot hold -1"),
        ("int", 1.5, "cannot hold 1.5"),
        ("int", float("nan"), "NaN"),
        ("real", "1", "a number, not str"),
        ("real", np.zeros(1, np.float32), "a number, not ndarray"),
        ("Layers", np.zeros(3, np.int32), "an array of uint8"),
        ("CUtensorMap", np.zeros(64, np.uint8), "128 bytes, not 64"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(ctype: str, value: object, words: str) -> None:
    with pytest.raises(TypeError, match="kernel update: argument it: ") as caught:
        bind("update", [Parameter(ctype, "it")], {"it": value}, SINGLE)
    assert words in str(caught.value)


# --- compilation


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and how often something was compiled: ``cache.compiled``."""
    pytest.importorskip("cupy")
    monkeypatch.setenv("LITHOWAVE_CACHE_DIR", str(tmp_path / "cache"))
    compiled = []
    compile_now = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda path, *rest: compiled.append(path) or compile_now(path, *rest))
    return compiled


@pytest.fixture
def source(tmp_path):
    """A source with a header of its own."""
    (tmp_path / "amount.cuh").write_text("#define AMOUNT 1\n")
    path = tmp_path / "small.cu"
    path.write_text('#include "amount.cuh"\nextern "C" __global__ void f(REAL* a) { *a = AMOUNT + MORE; }\n')
    return path


def test_what_was_compiled_is_kept(cache, source) -> None:
    first = nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0))
    assert first.startswith(nvrtc.MAGIC) and len(cache) == 1
    assert nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0)) == first and len(cache) == 1
    for number, change in enumerate(((2, "single", (9, 0)), (1, "double", (9, 0)), (1, "single", (8, 0))), 2):
        more, precision, capability = change
        assert nvrtc.compile_source(source, {"MORE": more}, precision, capability) != first
        assert len(cache) == number
    source.with_name("amount.cuh").write_text("#define AMOUNT 2\n")
    assert nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0)) != first and len(cache) == 5


def test_a_source_is_compiled_once_when_it_was_begun_ahead(cache, source) -> None:
    for _ in range(2):
        nvrtc.compile_ahead(source, {"MORE": 1}, "single", (9, 0))
    code = nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0))
    nvrtc.compile_ahead(source, {"MORE": 1}, "single", (9, 0))
    assert nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0)) == code and len(cache) == 1


def test_another_process_compiles_while_the_compiler_of_this_one_is_busy(cache, source) -> None:
    with nvrtc._compiler():
        elsewhere = nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0))
    assert elsewhere.startswith(nvrtc.MAGIC) and not cache
    (kept,) = nvrtc.cache_folder().iterdir()
    kept.unlink()
    assert nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0)) == elsewhere and len(cache) == 1


def test_a_source_that_another_process_cannot_compile_is_compiled_here(cache, source, monkeypatch) -> None:
    source.write_text('extern "C" __global__ void f(REAL* a) { *a = unknown; }\n')
    compiler, elsewhere = nvrtc._compiler(), nvrtc._compile_elsewhere
    compiler.acquire()
    monkeypatch.setattr(nvrtc, "_compile_elsewhere", lambda *given: (elsewhere(*given), compiler.release())[0])
    with pytest.raises(KernelBuildError, match="small.cu does not compile"):
        nvrtc.compile_source(source, {}, "single", (9, 0))
    assert compiler.acquire(blocking=False)
    compiler.release()


def test_an_error_of_a_compilation_ahead_is_raised_when_the_code_is_required(cache, source) -> None:
    source.write_text('extern "C" __global__ void f(REAL* a) { *a = unknown; }\n')
    nvrtc.compile_ahead(source, {}, "single", (9, 0))
    with pytest.raises(KernelBuildError, match="small.cu does not compile"):
        nvrtc.compile_source(source, {}, "single", (9, 0))


def test_a_damaged_cache_is_mended(cache, source) -> None:
    code = nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0))
    (kept,) = nvrtc.cache_folder().iterdir()
    kept.write_bytes(b"")
    assert nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0)) == code and len(cache) == 2
    assert kept.read_bytes() == code


def test_a_cache_that_cannot_be_written_is_no_error(cache, source, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LITHOWAVE_CACHE_DIR", str(tmp_path / "file"))
    for count in (1, 2):
        nvrtc.compile_source(source, {"MORE": 1}, "single", (9, 0))
        assert len(cache) == count


def test_the_compilers_log_is_told(cache, source) -> None:
    source.write_text('extern "C" __global__ void f(REAL* a) { *a = unknown; }\n')
    with pytest.raises(KernelBuildError) as caught:
        nvrtc.compile_source(source, {"ORDER": 4}, "single", (9, 0))
    for words in ("small.cu does not compile", '"unknown" is undefined', "-DORDER=4", "-DREAL=float", "-arch=sm_90"):
        assert words in str(caught.value)


def test_a_device_that_is_too_old_is_told() -> None:
    pytest.importorskip("cupy")
    assert nvrtc.architecture((9, 0)) == "sm_90" and nvrtc.architecture((8, 6)) == "sm_86"
    with pytest.raises(ResourceError, match="this device has 3.5"):
        nvrtc.architecture((3, 5))


MANY = "elements.cu"  # a quarter of its variants will do for all but one kind of device
LONG = "element.cu"  # takes the longer the higher its order: those are compiled where there is a device


def is_compiled_here(number: int, file: str, defines: dict, capability: tuple[int, int]) -> bool:
    """Whether a variant is compiled on a machine without a device."""
    if file == LONG:
        plain = not defines["ANISOTROPIC"] and not defines["MIXED"]
        if capability != (9, 0) or defines["REAL"] == "double":
            return plain and defines["ORDER"] == 3
        return defines["ORDER"] <= (5 if plain else 3)
    return file != MANY or capability == (9, 0) or number % 4 == 0


def variants() -> list:
    """Every (package, file, definitions, capability) that a solver may launch."""
    found = [("lithowave.backends", "probe.cu", {"REAL": "float"}, (0, 0))]
    for method, package in METHODS.items():
        known = [(package, *variant) for variant in importlib.import_module(f"{package}.launches").variants()]
        assert {file for _, file, _, _ in known} == {path.name for path in (SOLVERS / method).glob("*.cu")}
        found += known
    chosen = [
        (package, file, defines, capability)
        for number, (package, file, defines, least) in enumerate(found)
        for capability in CAPABILITIES
        if capability >= least and is_compiled_here(number, file, defines, capability)
    ]
    of_file: dict[tuple[str, str], list[int]] = {}
    for number, (package, file, _, _) in enumerate(chosen):
        of_file.setdefault((package, file), []).append(number)
    usual = {numbers[len(numbers) // 2] for numbers in of_file.values()}  # one variant of every file
    return [
        pytest.param(
            package, file, defines, capability, id="-".join(map(str, (file, *defines.values(), *capability))),
            marks=() if number in usual else pytest.mark.slow,
        )
        for number, (package, file, defines, capability) in enumerate(chosen)
    ]  # fmt: skip


def generated_headers(package: str, defines: dict) -> dict[str, str]:
    """Headers that a package makes for its sources."""
    if not package.startswith("lithowave.solvers."):
        return {}
    return getattr(importlib.import_module(f"{package}.launches"), "generated_headers", lambda _: {})(defines)


@pytest.mark.parametrize(("package", "file", "defines", "capability"), variants())
def test_every_source_compiles(package: str, file: str, defines: dict, capability: tuple[int, int]) -> None:
    pytest.importorskip("cupy")
    path = nvrtc.source_path(package, file)
    precision = "single" if defines["REAL"] == "float" else "double"
    code = nvrtc.compile_source(path, defines, precision, capability, generated_headers(package, defines))
    for name in kernel_signatures(path.read_text(encoding="utf-8")):
        assert name.encode() in code
