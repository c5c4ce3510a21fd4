"""Layers of elements in a radial model of the Earth: which discontinuities they follow, and their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.earth.radial_model import RADIUS, EarthProperties, RadialModel
from lithowave.earth.transverse import phase_speed_range
from lithowave.mesh.hexahedral_box import layer_plans
from lithowave.solvers.elements.element_description import SAME_LEVEL, column_widths, element_size

if TYPE_CHECKING:
    from lithowave.description.earth_medium import EarthMedium
    from lithowave.description.simulation import Simulation

THINNEST = 0.5  # thickness over the size of elements, from which a discontinuity is followed in any case
SHORTER = 0.75  # estimated time step over that without a discontinuity, from which a thinner layer is followed
DOUBLING = 1.4  # largest eigenvalue of the skewed elements of a doubling over that of a box with half their height
WEAKEST = 0.005  # relative change of an impedance, or change of 1/Q, below which a discontinuity is not followed
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
    than an element; those between a fluid and a solid always. Then the others are, as long as the time step does not
    decrease below `SHORTER` of that without them, and elements are doubled as often.

    cuts : z, m, at which layers of elements end in any case, and elements are doubled.
    """
    (low, high), model, slowest = simulation.domain.z, medium.model, medium.slowest_between(simulation.domain)
    tops = [z for z in medium.tops[1:].tolist() if low < z < high]
    cuts = [min((z for z in tops if abs(z - cut) < SAME_LEVEL), default=cut) for cut in cuts if low < cut < high]
    fastest, kept, thin = _fastest_between(model), {high, low, *cuts}, []

    def layers(*more: float) -> tuple[list[RadialLayer], float, int]:
        found = _layers(simulation, model, slowest, {*kept, *more})
        step, doubled = _time_step(simulation, fastest, found)
        return found, step, len(doubled.intersection(cuts) if cuts else doubled)

    boundaries = [(_contrast(model, n), z) for n, z in enumerate(medium.tops.tolist()) if z in tops and z not in kept]
    for contrast, z in sorted(boundaries, reverse=True):
        gap = min(abs(z - other) for other in kept)
        size = element_size(simulation, slowest(max(z - gap, low), z + gap))
        thick = gap >= THINNEST * size and (not cuts or layers(z)[2] >= layers()[2])
        if np.isinf(contrast) or (contrast > WEAKEST and thick):
            kept.add(z)
        elif contrast > WEAKEST:
            thin.append(z)
    dropped, (found, step, doublings) = [], layers()
    surface = simulation.domain.surface
    for z in thin:
        if surface is not None and z >= surface.low:  # faces below the surface follow levels
            dropped.append(z)
            continue
        trial, own_step, own_doublings = layers(z)
        if own_step >= SHORTER * step and own_doublings >= doublings:
            kept.add(z)
            found = trial
        else:
            dropped.append(z)
    return found, dropped


def _layers(
    simulation: Simulation, model: RadialModel, slowest: Callable[[float, float], float], ends: set[float]
) -> list[RadialLayer]:
    """Return the layers of elements between z, m."""
    edges, found = sorted(ends, reverse=True), []
    last = max(n for n, one in enumerate(model.layers) if one.top - RADIUS > edges[-1])
    for top, bottom in zip(edges, edges[1:], strict=False):
        members = [n for n in range(last + 1) if _overlap(model, n, bottom, top) > 1e-3]
        parts = _parts(simulation, slowest, top, bottom)
        found += [RadialLayer(edge, speed, members[0], members[-1]) for edge, speed in parts]
    return found


def _fastest_between(model: RadialModel) -> Callable[[float, float], float]:
    """Return the function of two z, m, that returns the speed of the fastest wave at the examined radii around them."""
    radii, speeds = [], []
    for index, layer in enumerate(model.layers):
        radii.append(layer.probes())
        here = model.properties(radii[-1], index)
        speeds.append(phase_speed_range(here.love, here.rho)[1])
    z, speed = np.concatenate(radii[::-1]) - RADIUS, np.concatenate(speeds[::-1])

    def fastest(low: float, high: float) -> float:
        first, end = np.searchsorted(z, low, "right") - 1, np.searchsorted(z, high, "left") + 1
        return float(speed[max(first, 0) : max(end, 1)].max())

    return fastest


def _time_step(
    simulation: Simulation, fastest: Callable[[float, float], float], layers: list[RadialLayer]
) -> tuple[float, set[float]]:
    """Return the estimated time step with some layers of elements, in relative units, and the z, m, of doublings.

    The step is the minimum of 1 / (v sqrt(1/dx^2 + 1/dy^2 + 1/dz^2)) over slabs of elements, v the fastest velocity.
    """
    chunk, ends = simulation.domain.chunk, [*(one.top for one in layers), simulation.domain.z[0]]
    sizes = [element_size(simulation, one.slowest) for one in layers]
    widest = np.minimum.accumulate(column_widths(ends[:-1], sizes, chunk)[::-1])[::-1]
    slabs, _ = layer_plans(widest, -np.diff(ends), sizes)
    width, rates, doubled = float(widest[0]), [], set()
    for top, layer in zip(ends, slabs, strict=False):
        z = top
        for slab in layer:
            low = z - slab.height
            narrow = width if chunk is None else width * (RADIUS + low) / RADIUS
            height = slab.height if slab.kind == "even" else 0.5 * slab.height
            rate = np.hypot(1.0 / height, np.sqrt(2.0) / narrow) * (1.0 if slab.kind == "even" else DOUBLING)
            rates.append(rate * fastest(low, z))
            if slab.kind == "x":
                doubled.add(z)
            width, z = width * (2.0 if slab.kind == "y" else 1.0), low
    return 1.0 / max(rates), doubled


def change_of_speed(model: RadialModel, z: float) -> float:
    """Return the change of vs, or of vp in a fluid, at a discontinuity, relative to the larger value. z : m."""
    number = int(np.abs(np.array([one.top for one in model.layers]) - RADIUS - z).argmin())
    radius = np.array([model.layers[number].top])
    speeds = [
        float(here.vs[0] or here.vp[0]) for here in (model.properties(radius, layer) for layer in (number - 1, number))
    ]  # fmt: skip
    return 1.0 - min(speeds) / max(speeds)


def _overlap(model: RadialModel, number: int, bottom: float, top: float) -> float:
    """Return the thickness, m, of a layer of the model between two z, m; the first one reaches up without end."""
    layer = model.layers[number]
    upper = np.inf if number == 0 else layer.top - RADIUS
    return min(upper, top) - max(layer.bottom - RADIUS, bottom)


def _contrast(model: RadialModel, number: int) -> float:
    """Return the largest relative change of an impedance, or the change of 1/Q of shear, which changes velocities by
    dispersion, at the top of a layer; infinite between fluid and solid."""
    radius = np.array([model.layers[number].top])
    above, below = (model.properties(radius, layer) for layer in (number - 1, number))
    if bool(above.vs[0] > 0.0) != bool(below.vs[0] > 0.0):
        return np.inf
    pairs = zip(_impedances(above), _impedances(below), strict=True)
    change = max(abs(b - a) / max(a, b) for a, b in pairs if max(a, b) > 0.0)
    return max(change, float(abs(above.inverse_qmu[0] - below.inverse_qmu[0])))


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
