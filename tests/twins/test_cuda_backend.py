"""The CUDA backend: arrays, launches and errors on a fake CuPy, and the same on a device where there is one."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from fake_cupy import PROPERTIES, fake_cupy
from lithowave import forks
from lithowave.backends import (
    STAGED_BYTES,
    CpuBackend,
    CudaBackend,
    cuda_driver,
    make_backend,
    map_geometry,
)
from lithowave.backends import cuda as cuda_program
from lithowave.errors import InputError, KernelBuildError, MissingPackageError, ResourceError, SelfCheckError

SUPPORT = Path(__file__).parents[1] / "support"
SHAPE, HALO = (5, 6, 37), 4


@pytest.fixture
def cupy(monkeypatch):
    """A fake CuPy in the place of the real one."""
    fake = fake_cupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(cuda_driver, "driver_library", lambda: "a driver")
    monkeypatch.setattr(cuda_program, "parameter_sizes", lambda function: None)
    monkeypatch.setattr(cuda_program, "compile_source", lambda *_: b"")
    return fake


def on_device(name: str, precision: str = "single"):
    return CpuBackend(precision) if name == "cpu" else CudaBackend(precision)


@pytest.fixture(params=["cpu", "fake", pytest.param("device", marks=pytest.mark.gpu)])
def any_backend(request):
    """A backend; what is said of one must hold for all."""
    if request.param == "fake":
        request.getfixturevalue("cupy")
    return on_device(request.param)


@pytest.fixture(params=["fake", pytest.param("device", marks=pytest.mark.gpu)])
def backend(request):
    """A CUDA backend."""
    if request.param == "fake":
        request.getfixturevalue("cupy")
    return on_device(request.param)


def random(shape=SHAPE, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 100, shape).astype(dtype)


def test_lists_side_by_side_keep_their_order_and_that_of_the_stream(any_backend) -> None:
    arrays = [any_backend.zeros(1000) for _ in range(3)]
    found: list[tuple[int, int, bool]] = []
    main = getattr(any_backend, "stream", None)

    def put(number: int, value: int) -> None:
        any_backend.assign(arrays[number], np.full(1000, value))
        found.append((number, value, getattr(any_backend, "stream", None) is main))

    def queue(number: int) -> list:
        return [lambda: put(number, 2), lambda: put(number, 3 + number)]

    for array in arrays:
        any_backend.assign(array, np.ones(1000))
    any_backend.side_by_side([queue(number) for number in range(3)])
    coming = [any_backend.fetch(array) for array in arrays]
    for number, one in enumerate(coming):
        assert set(one.wait()) == {3 + number}
        assert [value for own, value, _ in found if own == number] == [2, 3 + number]
    assert getattr(any_backend, "stream", None) is main
    assert all(on_main == (main is None or number == 0) for number, _, on_main in found)


# --- what is told


def test_facts_name_the_device_and_all_versions(backend):
    facts = backend.facts()
    assert (facts["backend"], facts["device"], facts["precision"]) == ("cuda", backend.device, "single")
    assert set(facts["cuda"]) == {"capability", "driver", "driver_cuda", "runtime", "cupy", "nvrtc"}
    assert all(value for name, value in facts["cuda"].items() if name != "driver")
    assert CpuBackend("double", 1).facts()["threads"] == 1


# --- arrays


def test_arrays_go_to_the_device_and_back(any_backend) -> None:
    host = random(dtype=float)
    array = any_backend.upload(host)
    assert array.dtype == any_backend.dtype == np.float32 and array.shape == SHAPE
    np.testing.assert_array_equal(any_backend.download(array), host)
    assert any_backend.upload([1, 2], np.int64).dtype == np.int64
    assert any_backend.download(any_backend.upload(np.zeros((0, 3)))).shape == (0, 3)


def test_new_arrays_are_zero(any_backend) -> None:
    for array, dtype in (
        (any_backend.zeros((3, 4)), np.float32),
        (any_backend.zeros(7, np.int64), np.int64),
        (any_backend.field(SHAPE, HALO), np.float32),
        (any_backend.field(SHAPE, HALO, np.uint16), np.uint16),
    ):
        host = any_backend.download(array)
        assert host.dtype == dtype and host.shape == array.shape and not host.any()


def test_assign_and_fetch_keep_the_order(any_backend) -> None:
    field, values = any_backend.field(SHAPE, HALO), random()
    pending = []
    for factor in range(3):
        staged = factor * values
        any_backend.assign(field, staged)
        staged[...] = -1  # the host may use its array again at once
        pending.append(any_backend.fetch(field))
    for factor, copy in enumerate(pending):
        np.testing.assert_array_equal(copy.wait(), factor * values)
        assert copy.wait() is copy.wait()
    any_backend.assign(field, 2.5)
    any_backend.assign(any_backend.zeros((0, 3)), np.zeros((0, 3)))
    assert (any_backend.download(field) == 2.5).all()
    with pytest.raises(ValueError, match="broadcast"):
        any_backend.assign(field, np.zeros(3))


@pytest.mark.parametrize(
    "part",
    [
        (slice(1, 4), slice(2, 5), slice(3, 20)),
        (slice(2, 3), slice(None), slice(None)),
        (slice(None), slice(3, 4), slice(None)),
        (slice(None), slice(None), slice(5, 6)),
        (slice(None, None, 2), slice(1, None, 3), slice(0, None, 4)),
        (slice(2, 3), slice(3, 4), slice(5, 6)),
        (slice(2, 2), slice(None), slice(None)),
    ],
)
def test_parts_of_a_field_are_copied(any_backend, part) -> None:
    field, values = any_backend.field(SHAPE, HALO), random()
    any_backend.assign(field, values)
    np.testing.assert_array_equal(any_backend.download(field[part]), values[part])
    any_backend.assign(field[part], 7)
    values[part] = 7
    np.testing.assert_array_equal(any_backend.fetch(field).wait(), values)


def test_planes_are_copied_on_the_device(any_backend) -> None:
    field, values, every = any_backend.field(SHAPE, HALO), random(), slice(None)
    any_backend.assign(field, values)
    for target, source in (((2, 3), every), ((1, 2), every)), (((3, 4), slice(4, 5)), ((1, 2), slice(4, 5))):
        places = [(slice(*planes), rows, every) for planes, rows in (target, source)]
        any_backend.assign(field[places[0]], field[places[1]])
        values[places[0]] = values[places[1]]
    np.testing.assert_array_equal(any_backend.download(field), values)
    with pytest.raises(ValueError, match=r"layout|broadcast"):
        any_backend.assign(field[2:3, :, :], field[1:2, 1:3, :])


def test_large_arrays_are_copied_without_a_buffer(backend, monkeypatch) -> None:
    monkeypatch.setattr("lithowave.backends.cuda.STAGED_BYTES", 100)
    field, values = backend.field(SHAPE, HALO), random(dtype=float)
    backend.assign(field, values)
    np.testing.assert_array_equal(backend.fetch(field).wait(), values)
    assert STAGED_BYTES > 2**20


@pytest.mark.parametrize("size", [1, 44, 45, 46, 300])
def test_temporary_arrays_are_copied_in_pieces(any_backend, monkeypatch, size) -> None:
    """Of 15 values each, whole rows, through at most three buffers."""
    monkeypatch.setattr("lithowave.backends.cuda.WHOLE_BYTES", 0)
    monkeypatch.setattr("lithowave.backends.cuda_copies.PIECE_BYTES", 71)
    values = random(dtype=float).ravel()[: 3 * size].reshape(1, size, 3).astype(np.float32)
    pending = any_backend.fetch(any_backend.upload(values), temporary=True)
    assert pending.shape == values.shape and pending.size == values.size
    np.testing.assert_array_equal(pending.wait(), values)
    assert pending.wait() is pending.wait()
    pending = any_backend.fetch(any_backend.upload(values), temporary=True)
    pieces = [piece.copy() for piece in pending.pieces()]
    np.testing.assert_array_equal(np.concatenate(pieces), values.ravel())
    assert not pending.in_pieces or [len(piece) for piece in pieces[:-1]] == [15] * (len(pieces) - 1)


@pytest.mark.parametrize("in_pieces", [True, False])
def test_temporary_arrays_are_copied_while_the_device_continues(any_backend, monkeypatch, in_pieces) -> None:
    """By another thread, in which later arrays, at other addresses, are of no influence."""
    if in_pieces:
        monkeypatch.setattr("lithowave.backends.cuda.WHOLE_BYTES", 0)
    arrays = [any_backend.upload(np.full((500, 3), number)) for number in range(4)]
    pending = [any_backend.fetch(array, temporary=True) for array in arrays]
    del arrays
    later = [any_backend.upload(np.full((500, 3), -1.0)) for _ in range(8)]
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.extend(one.wait() for one in pending))
    thread.start()
    thread.join()
    assert len(later) == 8 and [one.shape for one in found] == [(500, 3)] * 4
    for number, one in enumerate(found):
        assert (one == number).all()


@pytest.mark.parametrize("room", [True, False])
def test_arrays_of_a_checkpoint_are_as_they_were(backend, monkeypatch, room) -> None:
    """Also slices of padded fields, read in another thread after the arrays have changed; without room, at once."""
    monkeypatch.setattr("lithowave.backends.cuda.FROZEN_BYTES", 100)
    monkeypatch.setattr("lithowave.backends.cuda_copies.PIECE_BYTES", 700)
    if not room:
        monkeypatch.setattr(backend, "has_room", lambda size: False)
    field, rows = backend.field((9, 8, 7), 2), backend.upload(random(dtype=float)[0])
    values = np.arange(9 * 8 * 7, dtype=np.float32).reshape(9, 8, 7)
    backend.assign(field, values)
    parts = {"inside": field[2:-2, 2:-2, 2:-2], "whole": field, "rows": rows, "few": field[:1, :1, :3]}
    expected = {name: backend.download(part) for name, part in parts.items()}
    frozen = {name: backend.freeze(part) for name, part in parts.items()}
    for array in (field, rows):
        backend.assign(array, np.zeros(array.shape, array.dtype))
    found: dict[str, np.ndarray] = {}
    thread = threading.Thread(target=lambda: found.update({name: one.wait() for name, one in frozen.items()}))
    thread.start()
    thread.join()
    assert np.array_equal(expected["inside"], values[2:-2, 2:-2, 2:-2])
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_pieces_that_do_not_arrive_are_noticed(cupy, monkeypatch) -> None:
    monkeypatch.setattr("lithowave.backends.cuda.WHOLE_BYTES", 0)
    backend = CudaBackend()
    pending = backend.fetch(backend.upload(np.ones((50, 3))), temporary=True)
    cupy.cuda.runtime.memcpyAsync = lambda *_: None
    with pytest.raises(SelfCheckError, match="from the device did not arrive"):
        next(pending.pieces())


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("halo", [0, 1, 4, 8, 32])
@pytest.mark.parametrize("name", ["fake", pytest.param("device", marks=pytest.mark.gpu)])
def test_rows_of_fields_are_aligned(request, name, halo, precision) -> None:
    if name == "fake":
        request.getfixturevalue("cupy")
    field = on_device(name, precision).field(SHAPE, halo)
    first = field.data.ptr + halo * field.itemsize
    assert first % 128 == 0 and field.strides[0] % 128 == 0 and field.strides[1] % 128 == 0
    assert field.strides[2] == field.itemsize and field.strides[0] == SHAPE[1] * field.strides[1]
    assert field.data.ptr - field.data.mem.ptr >= field.itemsize * max(1, 128 // field.itemsize - halo)


# --- launches


def test_a_launch_hands_over_the_values(cupy) -> None:
    passed = []

    def launch(function: str, *rest: int) -> None:
        *shape, stream, parameters, extra = rest
        addresses = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))[:4]
        pair = ctypes.string_at(addresses[3], 16)
        whole = ctypes.c_int.from_address(addresses[2]).value
        number = ctypes.c_float.from_address(addresses[1]).value
        passed.append((function, shape, stream, extra, pair, whole, number))
        passed.append(ctypes.c_uint64.from_address(addresses[0]).value)

    cupy.cuda.driver.launchKernel = launch
    backend = CudaBackend()
    told = backend.zeros(5, np.float64)
    arguments = {"told": told, "number": 0.5, "whole": -7, "pair": np.arange(16, dtype=np.uint8), "more": 1}
    program = backend.program("sample_kernels", "add_one.cu", {"STEP": 1})
    assert program is backend.program("sample_kernels", "add_one.cu", {"STEP": 1})
    assert program is not backend.program("sample_kernels", "add_one.cu", {"STEP": 2})
    program.launch("tell", (3, 2), (32,), arguments, 100)
    assert passed == [("tell", [3, 2, 1, 32, 1, 1, 100], 77, 0, bytes(range(16)), -7, 0.5), told.data.ptr]
    program.launch("tell", (3, 0), (32,), arguments)
    assert len(passed) == 2
    program.launch("tell", (1,), (1,), arguments, 100_000)
    program.launch("tell", (1,), (1,), arguments, 90_000)
    assert cupy.state["launches"] == [("tell", 8, 100_000)]
    for _ in range(2):  # a preferred division is set once
        program.launch("tell", (1,), (1,), arguments, 90_000, 72)
    assert cupy.state["launches"][1:] == [("tell", 9, 72)]
    with pytest.raises(TypeError, match="kernel tell: argument told is in main memory"):
        program.launch("tell", (1,), (1,), arguments | {"told": np.zeros(5)})
    with pytest.raises(TypeError, match="kernel tell: no argument for int whole"):
        program.launch("tell", (1,), (1,), {"told": told, "number": 1})
    with pytest.raises(KernelBuildError, match=r"has no kernel say; it has: add_one, tell, fail"):
        program.launch("say", (1,), (1,), {})


def test_repeated_calls_run_capture_and_replay(cupy) -> None:
    backend, launches = CudaBackend(), cupy.state["launches"]
    step = backend.capture_graph(lambda: launches.append("kernel"))
    for _ in range(4):
        step()
    assert launches == ["kernel", "begin", "kernel", "end", "graph", "graph", "graph"]


def test_programs_are_begun_without_a_launch(cupy, monkeypatch) -> None:
    backend, begun = CudaBackend(), []
    monkeypatch.setattr(cuda_program, "compile_ahead", lambda path, defines, *_: begun.append((path.name, defines)))
    loaded, arguments = backend.program("sample_kernels", "add_one.cu", {}), {"number": 0.5}  # incomplete: not bound

    def step(number: int) -> None:
        loaded.launch("tell", (1,), (32,), arguments)
        backend.program("sample_kernels", "add_one.cu", {"STEP": number}).launch("tell", (1,), (32,), arguments)

    backend.begin_programs(lambda: [step(number) for number in (2, 3)])
    assert begun == [("add_one.cu", {"STEP": 2}), ("add_one.cu", {"STEP": 3})]
    assert backend.launch_count == 0
    with pytest.raises(ZeroDivisionError):
        backend.begin_programs(lambda: 1 // 0)
    with pytest.raises(TypeError, match="kernel tell: no argument for"):  # kernels are launched again
        step(2)


def test_a_failing_capture_is_ended(cupy) -> None:
    backend, launches = CudaBackend(), cupy.state["launches"]

    def fail_when_captured() -> None:
        launches.append("kernel")
        if launches.count("kernel") == 2:
            raise ZeroDivisionError

    step = backend.capture_graph(fail_when_captured)
    step()
    with pytest.raises(ZeroDivisionError):
        step()
    assert launches == ["kernel", "begin", "kernel", "end"]


def test_a_graph_without_all_kernels_is_refused(cupy, monkeypatch) -> None:
    backend = CudaBackend()
    program, array = backend.program("sample_kernels", "add_one.cu", {}), backend.zeros(5, np.float64)

    def launch(times: int) -> None:
        for _ in range(times):
            arguments = {"told": array, "number": 0.5, "whole": -7, "pair": np.zeros(16, np.uint8)}
            program.launch("tell", (1,), (32,), arguments)

    for nodes, counts, captured in ((1, (2, 2), 1), (None, (2, 1), 1), (2, (2, 2), None), (None, (2, 2), None)):
        monkeypatch.setattr(cuda_program, "kernel_nodes", lambda graph, nodes=nodes: nodes)
        remaining = iter(counts)
        step = backend.capture_graph(lambda remaining=remaining: launch(next(remaining)))
        step()
        if captured is None:
            step()
            continue
        with pytest.raises(SelfCheckError, match=f"CUDA graph has {captured} kernels; its function launched 2"):
            step()


def test_nothing_is_collected_in_a_capture(cupy) -> None:
    backend, found = CudaBackend(), []
    step = backend.capture_graph(lambda: found.append(gc.isenabled()))
    step(), step()
    assert found == [True, False] and gc.isenabled()


@pytest.mark.gpu
def test_the_driver_counts_the_kernels_of_a_graph() -> None:
    backend = CudaBackend()
    program, array = backend.program("sample_kernels", "add_one.cu", DEFINES), backend.zeros(5)
    arguments = {"values": array, "count": array.size}
    step = backend.capture_graph(lambda: [program.launch("add_one", (1,), (32,), arguments) for _ in range(3)])
    step(), step()
    assert cuda_driver.kernel_nodes(step._graph.graph) == 3


# --- copies that do not arrive


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_that_do_not_arrive_are_noticed(cupy, dtype) -> None:
    backend = CudaBackend()
    array = backend.upload(np.full(5000, np.nan), dtype)
    assert np.isnan(backend.fetch(array).wait()).all() and np.isnan(backend.download(array)).all()
    move = cupy.cuda.runtime.memcpyAsync
    for change in (lambda *_: None, lambda to, origin, size, *rest: move(to, origin, size - 8, *rest)):
        cupy.cuda.runtime.memcpyAsync = change
        with pytest.raises(SelfCheckError, match="from the device did not arrive"):
            backend.fetch(array).wait()
        with pytest.raises(SelfCheckError, match="from the device did not arrive"):
            backend.download(array)


def test_buffers_stay_until_their_copies_are_done(cupy) -> None:
    backend, done = CudaBackend(), []
    cupy.cuda.Event.done = property(lambda event: event in done)
    first = weakref.ref(backend.fetch(backend.zeros(10)).wait().base)
    events = backend._unfinished._copies
    backend.fetch(backend.zeros(10))
    assert first() is not None and len(events) == 2
    done.append(events[0][0])
    backend.fetch(backend.zeros(10))
    assert first() is None and len(events) == 2
    backend.synchronize()
    assert not events


# --- maps for the copy engine


def test_the_geometry_of_tensor_maps(cupy) -> None:
    field = CudaBackend().field(SHAPE, HALO)
    address, sizes, pitches = map_geometry(field, HALO, (32, 8))
    assert address % 128 == 0 and sizes == (33, 6, 5) and pitches == (256, 1536)
    assert map_geometry(field, HALO - 32, (36, 8))[1] == (65, 6, 5)
    for column, box, words in (
        (1, (32, 8), "not aligned to 16 bytes"),
        (HALO - 64, (32, 8), "outside the memory"),
        (40, (32, 8), "outside the memory"),
        (0, (33, 8), "whole 16 bytes"),
        (0, (32, 257), "1 to 256"),
        (0, (0, 8), "1 to 256"),
    ):
        with pytest.raises(ValueError, match=words):
            map_geometry(field, column, box)
    with pytest.raises(ValueError, match="contiguous rows"):
        map_geometry(CudaBackend().zeros((3, 4, 5), np.int64), 0, (32, 8))


# --- which backend, and what is missing


def test_the_fastest_backend_is_taken(cupy, monkeypatch) -> None:
    assert make_backend("auto", "double").name == "cuda" and make_backend("cpu", "single").name == "cpu"
    cupy.state["count_error"] = 100
    assert make_backend("auto", "single").name == "cpu"
    cupy.state["count_error"] = 0
    monkeypatch.setattr(cuda_driver, "driver_library", lambda: None)
    assert make_backend("auto", "single").name == "cpu"
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert make_backend("auto", "single").name == "cpu"
    with pytest.raises(InputError, match="compute.backend: gpu is not a backend. Allowed: auto, cpu, cuda"):
        make_backend("gpu", "single")


def test_cupy_is_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingPackageError, match=r'compute.backend: cuda needs .* cupy: pip .*"lithowave\[cuda13\]"'):
        make_backend("cuda", "single")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"count_error": 35, "driver": 0}, "no NVIDIA driver was found"),
        ({"count_error": 35, "driver": 12040}, "supports CUDA up to 12.4; this CuPy needs CUDA 13.2"),
        ({"count_error": 100}, "finds no CUDA device (CUDA_VISIBLE_DEVICES is '7')"),
        ({"devices": 0}, "finds no CUDA device (CUDA_VISIBLE_DEVICES is '7')"),
        ({"count_error": 803}, "CUDA cannot be used: status 803"),
    ],
)
def test_no_device_answers(cupy, monkeypatch, answers, words) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    cupy.state.update(answers)
    with pytest.raises(ResourceError) as caught:
        make_backend("cuda", "single")
    assert words in str(caught.value) and "set compute.backend: cpu" in str(caught.value)


@pytest.mark.parametrize("call", ["count_error", "set_error"])
@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_a_process_that_was_forked_from_one_with_a_device_is_refused(cupy, monkeypatch, name, call) -> None:
    """It is not replaced by the CPU: the error is not that of a machine without a device."""
    monkeypatch.setattr("lithowave.backends._device_is_likely", lambda: True)
    monkeypatch.setattr(forks, "unusable", set())
    cupy.state[call] = 3
    with pytest.raises(ResourceError, match="status 3"):
        make_backend("cuda", "single")
    monkeypatch.setattr(forks, "parents", [1])
    with pytest.raises(InputError, match="forked from one that had used the CUDA driver, .*get_context.*spawn"):
        make_backend(name, "single")


# --- failures in a run


def test_too_little_memory_is_told_with_figures(cupy) -> None:
    backend = CudaBackend()
    cupy.state["full"] = True
    with pytest.raises(ResourceError, match="4.00 GB were requested, 2.00 GB are free"):
        backend.zeros((1000, 1000, 1000))


@pytest.mark.parametrize(
    ("status", "words"),
    [(719, "Results on the device are invalid"), (214, "last checkpoint"), (1, "rejected"), (2, "GB are free")],
)
def test_a_failing_device_is_told(cupy, status, words) -> None:
    backend = CudaBackend()
    array = backend.zeros(3)
    pending = backend.fetch(array)
    program = backend.program("sample_kernels", "add_one.cu", {})
    cupy.state["error"] = status
    for call in (
        backend.synchronize,
        pending.wait,
        lambda: backend.download(array),
        lambda: program.launch("fail", (1,), (1,), {}),
    ):
        with pytest.raises(ResourceError, match=words):
            call()


# --- on a device only

DEFINES = {"STEP": 1, "SHARED": 10_000}


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["single", "double"])
def test_kernels_run_and_repeat(precision) -> None:
    backend = CudaBackend(precision)
    program, array = backend.program("sample_kernels", "add_one.cu", DEFINES), backend.zeros(1000)

    def step() -> None:
        for _ in range(3):
            program.launch("add_one", (8,), (128,), {"values": array, "count": array.size})

    repeated = backend.capture_graph(step)
    for _ in range(5):
        repeated()
    assert (backend.download(array) == 15).all()


@pytest.mark.gpu
def test_every_kind_of_argument_arrives() -> None:
    backend = CudaBackend()
    told = backend.zeros(5, np.float64)
    pair = np.array((3, 4.5), np.dtype([("first", "i4"), ("second", "f8")], align=True))
    program = backend.program("sample_kernels", "add_one.cu", DEFINES)
    arguments = {"told": told, "number": 0.5, "whole": -7, "pair": pair}
    program.launch("tell", (1,), (1,), arguments, 8 * DEFINES["SHARED"])
    assert backend.download(told).tolist() == [0.5, -7, 3, 4.5, 5]
    with pytest.raises(TypeError, match="Pair pair: 12"):
        program.launch("tell", (1,), (1,), arguments | {"pair": bytes(12)})


@pytest.mark.gpu
def test_tensor_maps_are_encoded() -> None:
    backend = CudaBackend()
    if backend.capability < (9, 0):
        pytest.skip("tensor maps came with compute capability 9.0")
    for field in (backend.field(SHAPE, HALO), backend.field(SHAPE, HALO, np.uint16)):
        found = backend.tensor_map(field, 0 if field.itemsize == 4 else HALO, (64, 8))
        assert found.dtype == np.uint8 and found.shape == (128,) and found.any()


@pytest.mark.gpu
def test_too_much_memory_is_refused_on_a_device() -> None:
    backend = CudaBackend()
    with pytest.raises(ResourceError, match="were requested"):
        backend.zeros(backend.free_memory() // 2)
    assert not backend.download(backend.zeros(10)).any()


@pytest.mark.gpu
def test_after_a_failed_kernel_python_goes_on() -> None:
    code = f"""
import sys
import threading
sys.path[:0] = [{str(SUPPORT)!r}, {str(SUPPORT.parents[1] / "src")!r}]
from lithowave.backends.cuda import CudaBackend
from lithowave.errors import ResourceError
backend = CudaBackend()
array = backend.zeros(1000)
pending = backend.fetch(array)
backend.program("sample_kernels", "add_one.cu", {DEFINES}).launch("fail", (1,), (1,), {{}})
for call in (backend.synchronize, lambda: backend.download(array), lambda: backend.zeros(10**8)):
    try:
        call()
    except ResourceError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("Results on the device are invalid") == 3, done.stdout + done.stderr


@pytest.mark.parametrize(("major", "shared", "expected"), [(9, 232448, True), (8, 166912, False), (12, 101376, False)])
def test_the_copy_engine_is_used_where_its_boxes_have_room(
    cupy: object, major: int, shared: int, expected: bool
) -> None:
    properties = PROPERTIES | {"major": major, "sharedMemPerBlockOptin": shared}
    cupy.cuda.runtime.getDeviceProperties = lambda _: properties
    assert CudaBackend().copy_engine is expected
