"""The CUDA context begins before a run is validated only if the run cannot be meant for the CPU."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from lithowave.cli import early
from lithowave.process import no_collection


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    threads: list[threading.Thread] = []

    def begin() -> threading.Thread:
        threads.append(threading.Thread())
        return threads[-1]

    monkeypatch.setattr(early, "begin_context", begin)
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
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert not early.begin_device(file, [])
    assert not begun


def test_collections_resume_after_an_error() -> None:
    with pytest.raises(ValueError), no_collection():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
