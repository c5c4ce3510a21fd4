"""Sections of the arrays of a run on each rank, which checkpoints write and read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Hyperslab:
    """Section array[first : first + shape] of an array of the run, along its first axes.

    first, shape, whole : of the same length; whole : shape of the array of the run along these axes. Further axes are
    identical on all ranks. Hyperslabs that different ranks write do not overlap; those that they read may.
    """

    first: tuple[int, ...]
    shape: tuple[int, ...]
    whole: tuple[int, ...]


@dataclass(frozen=True)
class RowSelection:
    """Rows of an array of the run, identified by keys that do not depend on its partition.

    keys : (n,) int64, all different, in any order. When rows are written, each key of the run is on one rank.
    """

    keys: np.ndarray


Selection = Hyperslab | RowSelection


@dataclass(frozen=True)
class ArraySection:
    """Values of the selected section of an array; for a `RowSelection` values[n] belongs to keys[n]."""

    selection: Selection
    values: np.ndarray
