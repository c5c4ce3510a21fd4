"""The emulation of CUDA itself: what its threads do together, and that it finds what a device would leave to luck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_emulation import DeviceArray, EmulatedCudaBackend, EmulationError, emulated_cuda

HEAD = '#include "hopper.cuh"\ntypedef REAL real;\n'
SEEDS = (0, 1, 2, 3)


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Any]:
    """A function that compiles a source for a backend."""

    def made(backend: EmulatedCudaBackend, text: str, **defines: Any) -> Any:
        (tmp_path / "kernel.cu").write_text(HEAD + text, encoding="utf-8")
        return backend.program(tmp_path, "kernel.cu", defines)

    return made


# ------------------------------------------------------------------------------------------------ threads together

REVERSE = """
extern "C" __global__ void reverse(const real* a, real* out, int rounds)
{
    real* tile = dynamic_shared<real>();
    const int t = threadIdx.x, n = blockDim.x;
    real value = a[blockIdx.x * n + t];
    for (int r = 0; r < rounds; r++) {
        tile[t] = value;
        __syncthreads();
        value = tile[n - 1 - t];
        BARRIER
    }
    out[blockIdx.x * n + t] = value;
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_barrier_shows(build: Any, seed: int) -> None:
    backend = emulated_cuda("double", seed=seed)
    program = build(backend, REVERSE.replace("BARRIER", ""))
    given = np.random.default_rng(1).random(100)
    out = backend.zeros(100)
    program.launch("reverse", (1,), (100,), {"a": backend.upload(given), "out": out, "rounds": 5}, 800)
    assert not np.array_equal(backend.download(out), given[::-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_wait_for_each_other(build: Any, seed: int) -> None:
    source = """
    extern "C" __global__ void relay(int* counter, int* out, int rounds)
    {
        for (int r = 1; r <= rounds; r++) {
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                atomicAdd(counter, 1);
                while (*reinterpret_cast<volatile int*>(counter) < r * static_cast<int>(gridDim.x)) __nanosleep(20);
            }
            __syncthreads();
        }
        out[blockIdx.x * blockDim.x + threadIdx.x] = *counter;
    }
    """
    backend = emulated_cuda(seed=seed, multiprocessors=3)
    program = build(backend, source)
    named = {"counter": backend.zeros(1, np.int32), "out": backend.zeros((3, 40), np.int32), "rounds": 4}
    program.launch("relay", (3,), (40,), named)
    assert np.all(backend.download(named["out"]) == 12)
    backend.multiprocessors = 2
    backend.assign(named["counter"], 0)
    with pytest.raises(EmulationError, match=r"deadlock: block \d, thread 0 waits for a change(.|\n)*2 blocks"):
        program.launch("relay", (3,), (40,), named)


# ---------------------------------------------------------------------------------------- barriers and tensor copies

RING = """
struct Maps { TensorMap field; };
extern "C" __global__ void __launch_bounds__(BOX_X * BOX_Y + 32) ring(
    const __grid_constant__ Maps maps, real* out, int x, int y, int planes)
{
    constexpr int BYTES = BOX_X * BOX_Y * sizeof(real), SLOT = (BYTES + 127) / 128 * 128;
    unsigned char* shared = dynamic_shared<unsigned char>();
    Barrier* full = reinterpret_cast<Barrier*>(shared + SLOTS * SLOT);
    Barrier* empty = full + SLOTS;
    const int t = threadIdx.x, consumers = BOX_X * BOX_Y;
    if (t == 0) {
        for (int s = 0; s < SLOTS; s++) full[s].create(1), empty[s].create(consumers);
        PUBLISH;
    }
    __syncthreads();
    if (t >= consumers) {
        if (t > consumers) return;
        for (int k = 0; k < planes; k++) {
            const int s = k % SLOTS;
            REUSE;
            full[s].expect(EXPECTED);
            copy_box(shared + s * SLOT + SHIFT, maps.field, x, y, k - 1, full[s]);
        }
        return;
    }
    for (int k = 0; k < planes; k++) {
        const int s = k % SLOTS;
        WAIT;
        out[k * consumers + t] = reinterpret_cast<const real*>(shared + s * SLOT)[t];
        LEAVE;
    }
}
"""
RIGHT = {
    "PUBLISH": "publish_barriers()", "REUSE": "empty[s].wait((k / SLOTS & 1) ^ 1)", "EXPECTED": "BYTES", "SHIFT": "0",
    "WAIT": "full[s].wait(k / SLOTS & 1)", "LEAVE": "empty[s].arrive()", "SLOTS": 3, "BOX_X": 8, "BOX_Y": 6,
}  # fmt: skip
PLANES, ROWS, COLUMNS, HALO = 9, 7, 13, 4


def run_ring(build: Any, backend: EmulatedCudaBackend, x: int, y: int, **wrong: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel brought from boxes at (x, y) of the planes -1 .. PLANES, and what it should have."""
    field = backend.field((PLANES, ROWS, COLUMNS), HALO)
    host = np.random.default_rng(2).random(field.shape).astype(backend.dtype)
    backend.assign(field, host)
    program = build(backend, RING, **(RIGHT | wrong))
    out = backend.zeros((PLANES + 2, 6, 8))
    named = {
        "maps": backend.tensor_map(field, 0, (8, 6)), "out": out, "x": x, "y": y, "planes": PLANES + 2,
    }  # fmt: skip
    slot = -(-8 * 6 * backend.dtype.itemsize // 128) * 128
    program.launch("ring", (1,), (80,), named, 3 * slot + 48)
    surrounded = np.pad(host, ((1, 1), (8, 8), (16, 16)))
    return backend.download(out), surrounded[:, 8 + y : 14 + y, 16 + x : 24 + x]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("x, y", [(4, 1), (0, 0), (-4, -2), (12, 3), (-16, 0), (8, -8)])
def test_ring_of_tensor_copies(build: Any, precision: str, x: int, y: int, seed: int) -> None:
    backend = emulated_cuda(precision, seed=seed)
    found, expected = run_ring(build, backend, x, y)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"PUBLISH": "(void)0"}, "no publish_barriers"),
        ({"EXPECTED": "BYTES + 16"}, r"deadlock: block 0, thread \d+ waits for phase 0 of.*192 bytes copied"),
        ({"EXPECTED": "BYTES - 16"}, "can never complete|deadlock"),
        ({"EXPECTED": "0"}, "without this copy|can never complete|begins|under way|deadlock"),
        ({"SHIFT": "64"}, "not aligned to 128"),
        ({"SHIFT": "1024"}, "leaves the"),
        ({"SHIFT": "SLOTS * SLOT - s * SLOT - 128"}, "holds a barrier|leaves the"),
        ({"LEAVE": "(void)0"}, "deadlock: block 0, thread 48 waits for phase 0 of the barrier"),
        ({"LEAVE": "empty[s].arrive(), empty[s].arrive()"}, "ran .* ahead|deadlock|arrivals|under way|ends while"),
        ({"WAIT": "dynamic_shared<Barrier>()->wait(0)"}, "this is no barrier"),
    ],
)
def test_mistakes_with_barriers_are_told(build: Any, wrong: dict[str, str], text: str, seed: int) -> None:
    backend = emulated_cuda("single", seed=seed)
    with pytest.raises(EmulationError, match=text):
        run_ring(build, backend, 0, 0, **wrong)


@pytest.mark.parametrize("wrong", [{"WAIT": "(void)0"}, {"REUSE": "(void)0"}])
def test_reading_and_writing_too_early(build: Any, wrong: dict[str, str]) -> None:
    backend = emulated_cuda("single")
    try:
        found, expected = run_ring(build, backend, 0, 0, **wrong)
    except EmulationError as error:
        assert any(text in str(error) for text in ("under way", "ahead", "arrivals"))
    else:
        assert not np.array_equal(found, expected)


# ------------------------------------------------------------------------------------------------------- mistakes


def launch(build: Any, body: str, block: int = 64, shared: int = 0, **options: Any) -> DeviceArray:
    """Run the body of a kernel that has one array of 64 numbers."""
    backend = emulated_cuda(**options)
    program = build(backend, f'extern "C" __global__ void f(real* a) {{ const int t = threadIdx.x; {body} }}')
    array = backend.zeros(64)
    program.launch("f", (1,), (block,), {"a": array}, shared)
    return array


@pytest.mark.parametrize(
    "body, text",
    [
        ("if (t < 32) __syncthreads(); else\n __syncthreads();", "meets others of its block"),
        ("if (t % 2) __syncwarp(); else\n __shfl_sync(~0u, t, 0);", "meets other lanes"),
        ("if (t % 32) __syncwarp(2u);", "not in its own mask"),
        ("if (t == 0) __nanosleep(1); if (t != 5) __syncthreads(); else while (1) __nanosleep(1);",
         r"thread 0 waits for __syncthreads \(63 of 64 threads are there\)(.|\n)*thread 5 waits for a change"),
        ("if (t != 3) __syncwarp(); else __syncthreads();", "deadlock: block 0, thread 0 waits for __syncwarp"),
        ("a[t + 1] = 1;", "kernel f: wrote 0 bytes beyond an array of 64 float32"),
        ("a[t - 2] = 1;", "kernel f: wrote 8 bytes before"),
        ("dynamic_shared<real>()[t + 1] = 1;", "beyond the 256 bytes of dynamic shared memory"),
        ("dynamic_shared<real>()[t - 1] = 1;", "4 bytes before the dynamic shared memory"),
        ("a[t] = dynamic_shared<real>()[t + 256];", "access to memory that is not there"),
        ("*reinterpret_cast<volatile int*>(static_cast<long long>(t)) = 1;", "thread 0: access to memory"),
        ("volatile int zero = 0; a[t] = t / zero;", "division by zero"),
        ("if (t == 9) while (1) *static_cast<volatile real*>(a) = 1;", "thread 9: more than 0.2 s"),
    ],
)  # fmt: skip
def test_mistakes_are_told(build: Any, body: str, text: str) -> None:
    with pytest.raises(EmulationError, match=text):
        launch(build, body, shared=256, seconds=0.2)
    assert launch(build, "a[t] = 1;").sum() == 64, "it goes on after a mistake"


def test_shared_memory_begins_as_nan(build: Any) -> None:
    assert np.isnan(launch(build, "a[t] = dynamic_shared<real>()[t];", shared=256)).all()
    assert np.isnan(launch(build, "a[t] = a[t + 64];")).all()


# --------------------------------------------------------------------------------------------------------- arrays


def test_padding_of_fields(build: Any) -> None:
    backend = emulated_cuda()
    field = backend.field((3, 4, 40), 4)
    assert field.strides == (4 * 64 * 4, 64 * 4, 4) and (field.data.ptr + 16) % 128 == 0
    assert (backend.field((3, 4, 40), 4, shift=8).data.ptr + 16) % 128 == 32
    program = build(backend, 'extern "C" __global__ void f(real* a, int n) { a[n] += 1; }')
    program.launch("f", (1,), (1,), {"a": field, "n": 64 * 4 + 39})
    assert backend.download(field)[1, 0, 39] == 1
    for place in (-1, 40, 63, 12 * 64):
        with pytest.raises(EmulationError, match="into the padding of a field of 3 x 4 x 40 float32"):
            program.launch("f", (1,), (1,), {"a": field, "n": place})
    with pytest.raises(EmulationError, match="beyond an array"):
        program.launch("f", (1,), (1,), {"a": field, "n": 12 * 64 + 68})
    backend.padding_stays_zero = False
    program.launch("f", (1,), (1,), {"a": field, "n": 40})


def test_device_and_host_do_not_mix() -> None:
    backend = emulated_cuda("double")
    array, host = backend.upload(np.arange(6.0).reshape(2, 3)), np.ones((2, 3))
    with pytest.raises(TypeError, match="main memory"):
        array + host
    with pytest.raises(TypeError, match="use assign"):
        array[...] = host
    with pytest.raises(TypeError, match="no array on the device"):
        backend.download(host)
    pending = backend.fetch(array)
    backend.assign(array[1], host[1])
    array[0] = 5.0
    assert pending.wait().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert backend.download(array).tolist() == [[5, 5, 5], [1, 1, 1]]
    assert type(backend.download(array)) is np.ndarray
