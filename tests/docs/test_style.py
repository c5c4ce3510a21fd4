"""Static checks: ruff on all sources, mypy on the packages that pyproject.toml lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_module(name: str, *arguments: str) -> None:
    """Run a module of Python on the repository; fail with its output if its exit status is not 0."""
    pytest.importorskip(name)
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    run_module("ruff", "check", "src", "tests", "docs", "benchmarks", "scripts")


def test_mypy_finds_nothing() -> None:
    run_module("mypy")
