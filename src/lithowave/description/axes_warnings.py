"""Reports and warnings about the horizontal axes of mechanisms and components; see `horizontal_axes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lithowave.description.entries import Description
from lithowave.description.receiver import Receiver
from lithowave.description.sources import PointSource

LARGEST_CONVERGENCE = 0.5
"""Convergence (degrees) at which true and grid axes are used together without a warning: an error of 0.9%."""


def axes_summary(simulation: Description) -> dict[str, Any]:
    """Return the axes of mechanisms and components in a projection, for run.json; empty without one.

    Entries: ``sources`` and ``receivers``, each ``true``, ``grid`` or ``mixed``; ``convergence_degrees``, the least and
    the largest azimuth of y at them.
    """
    angles = [one.convergence for one in _points(simulation)]
    if simulation.domain.crs is None or not angles:
        return {}
    names = {frozenset((True,)): "true", frozenset((False,)): "grid"}
    acquisition = simulation.acquisition
    kinds = {
        "sources": frozenset(source.geographic for source in acquisition.sources),
        "receivers": frozenset(receiver.geographic for receiver in acquisition.receivers),
    }
    found: dict[str, Any] = {key: names.get(kind, "mixed") for key, kind in kinds.items() if kind}
    return found | {"convergence_degrees": [min(angles), max(angles)]}


def axes_line(summary: dict[str, Any]) -> str:
    """Return the text of `axes_summary` that `check` prints."""
    texts = {"true": "true East and North", "grid": "x and y of the grid", "mixed": "true East and North or x and y"}
    parts = [f"{key} along {texts[summary[key]]}" for key in ("sources", "receivers") if key in summary]
    low, high = summary["convergence_degrees"]
    return f"{', '.join(parts)}; y is {low:z.3g} to {high:z.3g}° clockwise from true North there"


def mixed_axes(simulation: Description) -> Iterator[str]:
    """Yield a warning if mechanisms or components along true and along grid axes are used where they differ."""
    points = _points(simulation)
    on_earth, on_grid = ([one for one in points if one.geographic is kind] for kind in (True, False))
    worst = max(points, key=lambda one: abs(one.convergence), default=None)
    if not on_earth or not on_grid or worst is None or abs(worst.convergence) <= LARGEST_CONVERGENCE:
        return
    yield (
        f"domain.crs: mechanisms and components of {_entries(on_earth)}, whose positions are on the Earth, are along "
        f"true East and North, but those of {_entries(on_grid)}, whose positions are in m, along the axes x and y of "
        f"the grid; at {worst.where} y is {worst.convergence:.3g}° from true North. Give all positions by longitude "
        "and latitude, or all in m."
    )


def _points(simulation: Description) -> list[PointSource | Receiver]:
    return [*simulation.acquisition.sources, *simulation.acquisition.receivers]


def _entries(points: Sequence[PointSource | Receiver]) -> str:
    """Return the different entries of the description, without the line of a file."""
    names = list(dict.fromkeys(one.where.split(".")[0] for one in points))
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
