"""Sealed files: their checksum, which threads compute in parts."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from lithowave.errors import OutputError
from lithowave.output import files

PART = 1000


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 4 * PART, 12_345])
def test_the_checksum_of_parts_is_that_of_the_whole(tmp_path: Path, monkeypatch, size: int) -> None:
    monkeypatch.setattr(files, "_PART", PART)
    content = np.random.default_rng(size).bytes(size)
    path = tmp_path / "file"
    path.write_bytes(content)
    files.seal(path)
    sealed = path.read_bytes()
    assert sealed[:size] == content
    assert sealed[-4:] == zlib.crc32(content).to_bytes(4, "little")
    files.require_sealed(path)


@pytest.mark.parametrize("where", [0, PART, 2 * PART + 1, 3 * PART - 1])
def test_a_changed_byte_in_any_part_is_found(tmp_path: Path, monkeypatch, where: int) -> None:
    monkeypatch.setattr(files, "_PART", PART)
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * PART))
    files.seal(path)
    with path.open("r+b") as file:
        file.seek(where)
        file.write(b"\1")
    with pytest.raises(OutputError, match="does not agree with its checksum"):
        files.require_sealed(path)
