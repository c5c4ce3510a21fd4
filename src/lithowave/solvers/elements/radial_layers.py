"""Layers of elements in a radial model of the Earth: which discontinuities they follow, and their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.earth.radial_model import RADIUS, EarthProperties, RadialModel
from lithowave.solvers.elements.element_description import element_size

if TYPE_CHECKING:
    from lithowave.description.earth_medium import EarthMedium
    from lithowave.description.simulation import Simulation

THINNEST = 0.5  # thickness over the size of elements, below which a discontinuity is inside elements
WEAKEST = 0.005  # relative change of an impedance, below which a discontinuity is not followed
SLABS = 24  # of a layer, in each of which the slowest wave is determined
ALIKE = 1.15  # ratio of the speeds of slabs with equal elements


@dataclass(frozen=True)
class RadialLayer:
    """A layer of equal elements. top : z, m. slowest : m/s. first, last : layers of the model that it contains."""

    top: float
    slowest: float
    first: int
    last: int


def radial_layers(
    simulation: Simulation, medium: EarthMedium, cuts: Sequence[float] = ()
) -> tuple[list[RadialLayer], list[float]]:
    """Return the layers of elements from the top, and the discontinuities, z, m, that are inside elements.

    Discontinuities are followed in the order of their contrast, as long as the layers between them are not much thinner
    than an element; those between a fluid and a solid always.

    cuts : z, m, at which layers of elements end in any case.
    """
    (low, high), model, slowest = simulation.domain.z, medium.model, medium.slowest_between(simulation.domain)
    last = max(n for n, one in enumerate(model.layers) if one.top - RADIUS > low)
    kept, dropped = {high, low}, []
    boundaries = [
        (_contrast(model, n), z) for n, z in enumerate(medium.tops.tolist()) if n > 0 and low < z < high
    ]  # fmt: skip
    for contrast, z in sorted(boundaries, reverse=True):
        gap = min(abs(z - other) for other in kept)
        size = element_size(simulation, slowest(max(z - gap, low), z + gap))
        if np.isinf(contrast) or (contrast > WEAKEST and gap >= THINNEST * size):
            kept.add(z)
        elif contrast > WEAKEST:
            dropped.append(z)
    for z in cuts:
        if low < z < high:
            kept.add(min((other for other in kept if abs(other - z) < 1e-3), default=z))
    edges = sorted(kept, reverse=True)
    found = []
    for top, bottom in zip(edges, edges[1:], strict=False):
        members = [n for n in range(last + 1) if _overlap(model, n, bottom, top) > 1e-3]
        parts = _parts(simulation, slowest, top, bottom)
        found += [RadialLayer(edge, speed, members[0], members[-1]) for edge, speed in parts]
    return found, dropped


def _overlap(model: RadialModel, number: int, bottom: float, top: float) -> float:
    """Return the thickness, m, of a layer of the model between two z, m; the first one reaches up without end."""
    layer = model.layers[number]
    upper = np.inf if number == 0 else layer.top - RADIUS
    return min(upper, top) - max(layer.bottom - RADIUS, bottom)


def _contrast(model: RadialModel, number: int) -> float:
    """Return the largest relative change of an impedance at the top of a layer; infinite between fluid and solid."""
    radius = np.array([model.layers[number].top])
    above, below = (model.properties(radius, layer) for layer in (number - 1, number))
    if bool(above.vs[0] > 0.0) != bool(below.vs[0] > 0.0):
        return np.inf
    waves = [(_impedances(above), _impedances(below))]
    return max(abs(b - a) / max(a, b) for pair in waves for a, b in zip(*pair, strict=True) if max(a, b) > 0.0)


def _impedances(here: EarthProperties) -> tuple[float, float]:
    return float(here.rho[0] * here.vp[0]), float(here.rho[0] * here.vs[0])


def _parts(
    simulation: Simulation, slowest: Callable[[float, float], float], top: float, bottom: float
) -> list[tuple[float, float]]:
    """Return the upper ends, z, m, of the layers of elements between two z, and the slowest wave in each, m/s."""
    edges = np.linspace(top, bottom, SLABS + 1)
    speeds = [slowest(lower, upper) for upper, lower in zip(edges, edges[1:], strict=False)]
    found: list[list[float]] = []
    for edge, speed in zip(edges, speeds, strict=False):
        thick = bool(found) and found[-1][0] - edge >= element_size(simulation, found[-1][1])
        if not found or (thick and speed >= ALIKE * found[-1][1]):
            found.append([float(edge), speed])
        else:
            found[-1][1] = min(found[-1][1], speed)
    if len(found) > 1 and found[-1][0] - bottom < element_size(simulation, found[-1][1]):
        found.pop()
    return [(edge, speed) for edge, speed in found]
