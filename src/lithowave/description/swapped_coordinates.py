"""Warnings about receivers whose longitude and latitude may be exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.chunk import place_text
from lithowave.description.domain import SWAP_QUESTION
from lithowave.sphere import directions

if TYPE_CHECKING:
    from lithowave.description.entries import Description

FAR = 20.0
"""Distance (degrees) of a point from all others above which its coordinates may be exchanged."""

NEARER = 1.0 / 3.0
"""Ratio of the distances with and without exchanged coordinates up to which there is a warning."""

MOST_POINTS = 3000  # with which each receiver is compared


def distant_places(simulation: Description) -> Iterator[str]:
    """Yield a warning if receivers are far from all other points, but close to them with exchanged coordinates.

    In a chunk of the globe both places may be inside. If most receivers are so relative to the sources, they are
    compared with the sources only.
    """
    domain, receivers = simulation.domain, simulation.acquisition.receivers
    if domain.chunk is None or not receivers:
        return
    longitude, latitude = domain.to_geographic(*simulation.acquisition.receiver_positions[:, :2].T)
    swapped = np.flatnonzero(domain.contains_places(latitude, longitude))
    if not swapped.size:
        return
    here = directions(longitude, latitude)
    there = directions(latitude[swapped], longitude[swapped])
    sources = np.zeros((0, 3))
    if len(simulation.acquisition.source_positions):
        sources = directions(*domain.to_geographic(*simulation.acquisition.source_positions[:, :2].T))
    others = np.unique(np.linspace(0, len(here) - 1, MOST_POINTS).astype(int))
    points = np.concatenate([here[others], sources])
    same = np.concatenate([others, np.full(len(sources), -1)])
    from_others = _exchanged(here[swapped], there, points, swapped[:, None] == same)
    from_sources = _exchanged(here[swapped], there, sources, np.zeros((len(swapped), len(sources)), bool))
    suspects = from_sources if 2 * from_sources.sum() >= len(here) else from_others
    if suspects.any():
        first = int(swapped[np.argmax(suspects)])
        yield _warning([receivers[index].name for index in swapped[suspects]], longitude[first], latitude[first])


def _exchanged(here: np.ndarray, there: np.ndarray, points: np.ndarray, itself: np.ndarray) -> np.ndarray:
    """Return a mask (n,) of places that are far from all points, and much closer to one of them if exchanged.

    here, there : (n, 3) unit vectors of the places and of the exchanged ones. points : (m, 3). itself : (n, m) True for
    the place itself, with which it is not compared.
    """
    if not len(points):
        return np.zeros(len(here), bool)
    cosines = [np.where(itself, -2.0, place @ points.T).max(axis=1) for place in (here, there)]
    distances, exchanged = (np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) for cosine in cosines)
    alone = itself.all(axis=1)
    return ~alone & (distances > FAR) & (exchanged < NEARER * distances)


def _warning(names: Sequence[str], longitude: float, latitude: float) -> str:
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return (
        f"receivers: {len(names)} are more than {FAR:g}° from the others or from the sources, and close to them with "
        f"longitude and latitude exchanged: {listed} (the first at {place_text(longitude, latitude)}); {SWAP_QUESTION}"
    )
