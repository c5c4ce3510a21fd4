"""The cache of compiled kernels on disk, with processes that compile at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

from lithowave.backends.kernel_cache import VariantFiles

PROGRAM = """
from lithowave.backends.kernel_cache import njit

def make(order):
    @njit(cache=True)
    def scaled(value):
        return order * value
    return scaled

for order in (2, 4):
    kernel = make(order)
    assert kernel(3.0) == order * 3.0 and kernel(3) == order * 3
    print(order, sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
"""


@pytest.mark.parametrize(("kind", "wrong"), [(VariantFiles, False), (IndexDataCacheFile, True)])
def test_variants_saved_at_once_are_not_mixed_up(kind: type, wrong: bool, tmp_path: Path) -> None:
    """A second process has read the index before the first one wrote it, and writes its variant in between. Numba's own
    files then lead from one variant to the code of the other."""
    first, second, reader = (kind(str(tmp_path), "kernel", 1.0) for _ in range(3))
    written = first._save_data

    def interrupted(name: str, data: str) -> None:
        second.save("order 8", "code of order 8")
        written(name, data)

    second._load_index = dict
    first._save_data = interrupted
    first.save("order 4", "code of order 4")
    assert (reader.load("order 8") == "code of order 4") == wrong
    if not wrong:
        assert reader.load("order 4") == "code of order 4" and reader.load("order 8") == "code of order 8"


def test_another_version_of_the_source_is_another_file(tmp_path: Path) -> None:
    """A variant of an older source file is not read."""
    VariantFiles(str(tmp_path), "kernel", 1.0).save("order 4", "old")
    assert VariantFiles(str(tmp_path), "kernel", 2.0).load("order 4") is None


def test_a_second_process_finds_all_variants(tmp_path: Path) -> None:
    """Closures with other constants and other types: compiled in the first process, read in the second."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    results = [
        subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert results == ["2 0 2\n4 0 2\n", "2 2 0\n4 2 0\n"]
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 4 and not list((tmp_path / "cache").rglob("*.nbi"))
