"""The CUDA context begins before a run is validated only if the run cannot be meant for the CPU."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from lithowave.backends import cuda_driver
from lithowave.cli import early
from lithowave.process import no_collection


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    threads: list[threading.Thread] = []

    def begin() -> threading.Thread:
        threads.append(threading.Thread())
        return threads[-1]

    monkeypatch.setattr(early, "begin_context", begin)
    monkeypatch.setattr(early, "launched", lambda: False)
    return threads


@pytest.mark.parametrize(
    ("text", "options", "begins"),
    [
        ("duration: 1", [], True),
        ("compute: {backend: cuda}", ["solver.order=8", ""], True),
        ("compute: {backend: cpu}", [], False),
        ('compute: {"backend": &device "CPU"}', [], False),
        ("duration: 1", ["compute.backend=cpu"], False),
        ("duration: 1", ["", "cpu"], False),
        ("survey: {shots: shots.csv}", [], False),
    ],
)
def test_the_words_that_begin_a_context(
    tmp_path: Path, begun: list[threading.Thread], text: str, options: list[str], begins: bool
) -> None:
    file = tmp_path / "simulation.yaml"
    file.write_text(text)
    assert early.begin_device(file, options) == bool(begun) == begins


def test_no_context_begins_for_unreadable_files_and_several_ranks(
    tmp_path: Path, begun: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "simulation.yaml"
    assert not early.begin_device(file, [])
    file.write_bytes(b"\xff\xfe")
    assert not early.begin_device(file, [])
    file.write_text("duration: 1")
    monkeypatch.setattr(early, "launched", lambda: True)
    assert not early.begin_device(file, [])
    assert not begun


class Driver:
    """A driver whose first call fails, or that records its calls."""

    def __init__(self, status: int) -> None:
        self.status, self.calls = status, []

    def __getattr__(self, name: str):
        return lambda *_: self.calls.append(name) or self.status


CALLS = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]


@pytest.mark.parametrize(("status", "calls"), [(0, CALLS), (100, CALLS[:1])])
def test_the_context_is_that_of_the_first_device(
    monkeypatch: pytest.MonkeyPatch, status: int, calls: list[str]
) -> None:
    driver = Driver(status)
    monkeypatch.setattr(cuda_driver, "driver_library", lambda: driver)
    monkeypatch.setattr(cuda_driver, "find_spec", lambda name: name)
    cuda_driver.begin_context().join()
    assert driver.calls == calls


@pytest.mark.parametrize("missing", ["driver_library", "find_spec"])
def test_no_context_without_a_driver_or_cupy(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(cuda_driver, "driver_library", lambda: Driver(0))
    monkeypatch.setattr(cuda_driver, "find_spec", lambda name: name)
    monkeypatch.setattr(cuda_driver, missing, lambda *_: None)
    assert cuda_driver.begin_context() is None


def test_collections_resume_after_an_error() -> None:
    with pytest.raises(ValueError), no_collection():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
