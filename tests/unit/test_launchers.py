"""The output of a rank that aborts reaches its launcher."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from lithowave.parallel import wait_for_reader


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")
    yield reading, stream
    stream.close()
    os.close(reading)


def seconds_of(stream, **options) -> float:
    start = time.monotonic()
    wait_for_reader((stream,), **options)
    return time.monotonic() - start


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not report the content of a pipe")
def test_unread_text_is_waited_for(pipe) -> None:
    reading, stream = pipe
    texts: list[bytes] = []
    reader = threading.Timer(0.3, lambda: texts.append(os.read(reading, 100)))
    stream.write("why the rank aborts")
    reader.start()
    assert 0.2 < seconds_of(stream)
    reader.join()
    assert texts == [b"why the rank aborts"]


def test_without_a_reader_the_wait_ends(pipe) -> None:
    pipe[1].write("nobody reads this")
    assert 0.2 <= seconds_of(pipe[1], patience=0.2) < 2.0


def test_no_wait_for_files_and_closed_streams(tmp_path) -> None:
    with (tmp_path / "output.txt").open("w") as stream:
        stream.write("text")
        assert seconds_of(stream) < 0.1
        assert (tmp_path / "output.txt").read_text() == "text"
    assert seconds_of(stream) < 0.1
