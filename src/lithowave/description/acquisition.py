"""The acquisition: all point sources and receivers of a simulation in local coordinates, resolved once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np

from lithowave.description.domain import Domain
from lithowave.description.material import Material
from lithowave.description.receivers import Receiver, Receivers
from lithowave.description.sources import PointSource, Source
from lithowave.errors import InputError
from lithowave.readers.budget import RECEIVERS

Entry = TypeVar("Entry")
Point = TypeVar("Point")


@dataclass(frozen=True, eq=False)
class Acquisition:
    """Point sources and receivers in local coordinates, in the order of the description.

    Parameters
    ----------
    source_groups : the point sources of each entry of ``sources``: one, or the events of a file.
    receiver_groups : the receivers of each entry of ``receivers``.
    errors : errors by ("sources" or "receivers", index) of the entries that cannot be resolved, whose groups are empty;
        none in a validated simulation.
    """

    source_groups: tuple[tuple[PointSource, ...], ...]
    receiver_groups: tuple[tuple[Receiver, ...], ...]
    errors: Mapping[tuple[str, int], Exception] = field(default_factory=dict)

    @cached_property
    def sources(self) -> tuple[PointSource, ...]:
        """All point sources."""
        return tuple(source for group in self.source_groups for source in group)

    @cached_property
    def receivers(self) -> tuple[Receiver, ...]:
        """All receivers."""
        return tuple(receiver for group in self.receiver_groups for receiver in group)

    @cached_property
    def source_positions(self) -> np.ndarray:
        """Positions (n_sources, 3) of the point sources, m; read-only."""
        return _positions(self.sources)

    @cached_property
    def receiver_positions(self) -> np.ndarray:
        """Positions (n_receivers, 3) of the receivers, m; read-only."""
        return _positions(self.receivers)

    @cached_property
    def receiver_names(self) -> tuple[str, ...]:
        """``NETWORK.STATION`` of each receiver."""
        return tuple(receiver.name for receiver in self.receivers)


def resolve(
    domain: Domain, material: Material, sources: Sequence[Source], receivers: Sequence[Receivers]
) -> Acquisition:
    """Return the acquisition of the entries of a description; files are read, and geographic positions projected."""
    errors: dict[tuple[str, int], Exception] = {}
    totals = accumulate(entry.stated_count for entry in receivers)
    counts = {f"receivers[{index}]": total for index, total in enumerate(totals)}

    def placed(entry: Receivers, where: str) -> Sequence[Receiver]:
        if counts[where] > RECEIVERS:
            got = f"the entries up to this one have {counts[where]} receivers"
            raise InputError(where, got, f"allowed: {RECEIVERS} in total")
        return entry.receivers(domain, where)

    return Acquisition(
        tuple(_groups("sources", sources, lambda entry, where: entry.point_sources(domain, material, where), errors)),
        tuple(_groups("receivers", receivers, placed, errors)),
        errors,
    )


def _groups(
    key: str,
    entries: Sequence[Entry],
    resolved: Callable[[Entry, str], Sequence[Point]],
    errors: dict[tuple[str, int], Exception],
) -> Iterator[tuple[Point, ...]]:
    for index, entry in enumerate(entries):
        try:
            yield tuple(resolved(entry, f"{key}[{index}]"))
        except (ValueError, InputError) as error:
            errors[key, index] = error
            yield ()


def _positions(points: Sequence[PointSource] | Sequence[Receiver]) -> np.ndarray:
    positions = np.array([point.position for point in points], float).reshape(-1, 3)
    positions.flags.writeable = False
    return positions
