"""Elements between the sides of a domain and its absorbing layers, where sources are near them.

The near field of a source varies over its distance, and the elements of a layer, where coordinates are stretched or
waves are damped, do not represent it: the waves of a source on a side differ by a factor of up to 3, although the layer
absorbs incident waves. Layers beside such sources therefore begin some elements farther outwards. These elements have
the material of the nearest point of the domain, like the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.domain import FACES

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.solvers.elements.imported_layer import Ends

SLACK = 0.1  # of the required distance, in sizes of the elements, for which no further element is added


def margin_elements(simulation: Simulation, ends: Ends, sizes: Mapping[str, float], reach: float) -> dict[str, int]:
    """Return the number of additional elements beyond each face that has a layer.

    ends : of the domain along x, y, z, m. sizes : of the elements at faces with a layer, m. reach : required distance
    of sources from the layer, in sizes of the elements.
    """
    sources = simulation.acquisition.source_positions
    counts = dict.fromkeys(sizes, 0)
    low, high = np.transpose(ends[:2])
    inside = ((sources[:, :2] >= low) & (sources[:, :2] <= high)).all(axis=1)  # those outside are refused later
    sources = sources[inside]
    for face, size in sizes.items() if len(sources) else ():
        axis, end = divmod(FACES.index(face), 2)
        nearest = float(np.abs(sources[:, axis] - ends[axis][end]).min())
        counts[face] = max(0, int(np.ceil(reach - SLACK - nearest / size)))
    return counts


def layer_begin(ends: Ends, sizes: Mapping[str, float], margins: Mapping[str, int]) -> Ends:
    """Return the ends along x, y, z, m, inside of the layer: those of the domain with its margins, elements
    of these sizes, m, beyond faces."""
    beyond = {face: sizes[face] * count for face, count in margins.items()}
    return tuple(
        (low - beyond.get(f"{axis}_min", 0.0), high + beyond.get(f"{axis}_max", 0.0))
        for axis, (low, high) in zip("xyz", ends, strict=True)
    )


def after_margin(margin: int, size: float, steps: np.ndarray) -> np.ndarray:
    """Return the distances, m, at which the elements of a margin, then those of a layer at `steps`, m, end."""
    return np.concatenate([size * np.arange(1, margin + 1), margin * size + steps])
