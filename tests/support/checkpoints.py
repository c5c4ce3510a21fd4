"""Checkpoints that tests write without a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lithowave.output import CheckpointWriter, State
from lithowave.parallel import SINGLE_RANK, Ranks
from lithowave.solvers import ArraySection


def write_checkpoint(
    folder: Path, common: State, state: Mapping[str, ArraySection], fingerprint: str, ranks: Ranks = SINGLE_RANK
) -> None:
    """Write and complete a checkpoint; see `CheckpointWriter`."""
    size = sum(piece.values.nbytes for piece in state.values())
    writer = CheckpointWriter(folder, int(common["clock"]["step"]), state, size, fingerprint, ranks)
    writer.store()
    writer.sync()
    writer.complete(common)
