"""Outlines of large mesh files in the folder for temporary files, which all ranks and later commands share.

Without it, every rank would read the entire file to place its sources and receivers.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.mesh.free_surface import FreeSurface, MeshOutline
from lithowave.version import __version__


def stored_outline(key: Any, path: Path, read: Callable[[], MeshOutline]) -> MeshOutline:
    """Return the outline of a mesh that another process has stored, or else the one read now, which is stored.

    While a process reads a mesh, others with the same key wait for it.

    Parameters
    ----------
    key : its text identifies the file, its content and how it is read. path : the mesh file.
    """
    name = hashlib.sha256(repr((__version__, key)).encode()).hexdigest()[:32]
    try:
        folder = _own_folder()
    except (OSError, AttributeError):  # no such folder, or a system without user IDs
        return read()
    with _locked(folder / f"{name}.lock"):
        found = _load(folder / f"{name}.npz", path)
        if found is None:
            found = read()
            _store(folder / f"{name}.npz", found)
    return found


def _own_folder() -> Path:
    """Return the folder, which no other user can write. OSError: another user owns it."""
    folder = Path(tempfile.gettempdir()) / f"lithowave-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to another user")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with the process, if the file system has locks."""
    try:
        import fcntl

        with path.open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except ImportError:
        yield


def _load(path: Path, mesh: Path) -> MeshOutline | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            ends = tuple((float(low), float(high)) for low, high in file["ends"])
            surface = None
            if "nodes" in file:
                surface = FreeSurface(mesh, file["nodes"], file["rim"], bool(file["is_top"]))
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return MeshOutline(ends, surface)  # type: ignore[arg-type]


def _store(path: Path, outline: MeshOutline) -> None:
    """Write a file that is complete whenever it exists; a full disk is not an error."""
    arrays: dict[str, Any] = {"ends": np.array(outline.ends)}
    if (surface := outline.surface) is not None:
        arrays |= {"nodes": surface.nodes, "rim": surface.rim, "is_top": np.array(surface.is_top)}
    partial = path.with_suffix(f".{os.getpid()}.npz")
    try:
        np.savez(partial, **arrays)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
