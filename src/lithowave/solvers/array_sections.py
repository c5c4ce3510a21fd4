"""Which part of an array of the whole run a rank has: what checkpoints are written of and read back to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """The part array[first : first + shape] of an array of the run, along its first axes.

    first, shape, whole : as many numbers; whole : shape of the array of the run along these axes. Further axes are
    everywhere the same. Boxes of different ranks do not overlap when they are written; they may when they are read.
    """

    first: tuple[int, ...]
    shape: tuple[int, ...]
    whole: tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of an array of the run, known by numbers that do not depend on how it is cut into parts.

    keys : (n,) int64, different from each other, in any order. When they are written each key of the run is on one
    rank.
    """

    keys: np.ndarray


Place = Box | Rows


@dataclass(frozen=True)
class Piece:
    """Values and where they belong; for `Rows` values[n] is that of keys[n]."""

    place: Place
    values: np.ndarray
