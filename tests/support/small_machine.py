"""A machine with little memory or disk space, or without a package, as this process sees it."""

from __future__ import annotations

import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest


def limit_memory(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    """From now on the machine has this many bytes of free memory."""
    monkeypatch.setattr("lithowave.backends.cpu.free_memory", lambda: free)


def limit_disk(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    """From now on the disk has this many free bytes."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))


@contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Within this context, bytes beyond this size of a file cannot be written, as on a full disk."""
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


class Finder:
    """A finder of modules that does not find some packages."""

    def __init__(self, finder: Any, hidden: tuple[str, ...]) -> None:
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name: str, *arguments: Any) -> Any:
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def hide_packages(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """From now on these packages are not installed."""
    for name in [module for module in sys.modules if module.partition(".")[0] in names]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder(finder, names) for finder in sys.meta_path])
