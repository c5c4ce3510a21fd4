"""Checks of the positions and weights by which a solver represents sources and receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.description.receiver import Receiver
from lithowave.description.sources import PointSource
from lithowave.errors import SelfCheckError
from lithowave.parallel.ranks import Ranks

TOLERANCE = 1e-6  # of the weights, relative to the largest component of a force or moment tensor
MOMENT, FORCE = slice(0, 6), slice(6, 9)


@dataclass
class Placement:
    """Sources and receivers of a solver on one rank.

    receivers : (receivers,) fraction of each receiver that this rank has. totals : (sources, 9) moment tensor (xx, yy,
    zz, xy, xz, yz), N m, and force, N, that the weights of this rank represent. acts : (sources,) True if a weight acts
    on a value that is free to change. fluid : (sources,) True if only the isotropic part of a moment tensor acts.
    inexact : (sources,) True if the weights may not sum to the force, since a velocity vanishes nearby.
    """

    receivers: np.ndarray
    totals: np.ndarray
    acts: np.ndarray
    fluid: np.ndarray
    inexact: np.ndarray

    @classmethod
    def empty(cls, receiver_count: int, source_count: int) -> Placement:
        """Return the placement of a rank without sources and receivers."""
        flags = (np.zeros(source_count, bool) for _ in range(3))
        return cls(np.zeros(receiver_count), np.zeros((source_count, 9)), *flags)

    def summed(self, ranks: Ranks) -> Placement:
        """Return the sum over all ranks (collective call)."""
        numbers = (ranks.total(array) for array in (self.receivers, self.totals))
        return Placement(*numbers, *(ranks.total(one.astype(int)) > 0 for one in (self.acts, self.fluid, self.inexact)))


def check_placement(placement: Placement, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> None:
    """Compare the placement on all ranks with the simulation file.

    Raises
    ------
    SelfCheckError : a receiver is on no rank or on several ranks, or the weights of a source do not represent its force
    or moment tensor.
    """
    if len(placement.receivers) != len(receivers) or len(placement.totals) != len(sources):
        raise SelfCheckError(
            f"the solver has {len(placement.totals)} sources and {len(placement.receivers)} receivers, the simulation "
            f"file {len(sources)} and {len(receivers)}."
        )
    wrong = np.flatnonzero(~(np.abs(placement.receivers - 1.0) <= TOLERANCE))
    if wrong.size:
        name, share = receivers[wrong[0]].name, placement.receivers[wrong[0]]
        raise SelfCheckError(
            f"{wrong.size} of {len(receivers)} receivers are not read exactly once; the ranks have {share:.6g} of the "
            f"first one, {name}."
        )
    expected = expected_totals(sources)
    found = placement.totals.copy()
    for totals in (found, expected):
        totals[placement.fluid, MOMENT] = totals[placement.fluid, 0:3].mean(axis=1, keepdims=True)
    error = np.abs(found - expected).max(axis=1, initial=0.0)
    size = np.abs(expected_totals(sources)).max(axis=1, initial=0.0)
    wrong = np.flatnonzero(~(error <= TOLERANCE * size) & ~placement.inexact)
    if wrong.size:
        raise SelfCheckError(_source_text(wrong, sources, placement.totals, expected))


def expected_totals(sources: Sequence[PointSource]) -> np.ndarray:
    """Return the moment tensors and forces of the simulation file, (sources, 9)."""
    found = np.zeros((len(sources), 9))
    for row, source in zip(found, sources, strict=True):
        row[MOMENT if source.force is None else FORCE] = source.moment if source.force is None else source.force
    return found


def _source_text(wrong: np.ndarray, sources: Sequence[PointSource], found: np.ndarray, expected: np.ndarray) -> str:
    first = int(wrong[0])
    source = sources[first]
    part, what = (MOMENT, "moment tensor") if source.force is None else (FORCE, "force")
    shown = ["[" + ", ".join(f"{value:.6g}" for value in row[first, part]) + "]" for row in (found, expected)]
    return (
        f"the weights of {wrong.size} of {len(sources)} sources do not represent them; the first one, "
        f"{source.name or source.where}, has the {what} {shown[0]} instead of {shown[1]}."
    )
