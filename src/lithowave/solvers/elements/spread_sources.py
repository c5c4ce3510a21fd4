r"""Point sources of element methods, spread over small balls.

In the polynomials of an element a point source is least accurate near it, and its error depends on its position in the
element. Distant waves do not depend on the spreading of a source over a ball: the field outside of a source density
w(r) in a homogeneous neighborhood is that of a point source times

.. math:: \int w(r)\, \frac{\sin k r}{k r}\, dV = 1 - \frac{k^2 \langle r^2 \rangle}{6}
    + \frac{k^4 \langle r^4 \rangle}{120} - \dots

for P and S waves of wavenumber k, near fields and reflections at the free surface included. The density

.. math:: w(r) \propto (1 - s^2)^3 (A + B s^2), \qquad s = r / a,

has :math:`\langle r^2 \rangle = 0`; with the radius a below, the rest is less than 0.5% at the shortest wavelength.
It is represented by points with weights, each of which is a point source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.solvers.common.near_source_warnings import surface_heights
from lithowave.solvers.elements.point_location import (
    SharedLocations,
    point_names,
    point_positions,
    require_located,
)

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

RADII, POLAR = 5, 5  # points along the radius and the polar angle; twice as many in azimuth
OF_DISTANCE, OF_WAVELENGTH = 0.95, 0.29  # largest radius over the distance to the nearest receiver, the wavelength
SHRINK = (1.0, 0.75, 0.5, 0.35, 0.2)  # radii that are tried until a ball is in the mesh and in one material
UNRESOLVED = 0.2  # sizes of the element: nothing nearer to a source is resolved
ALIKE = 0.1  # relative change of wave velocities up to which it is one material

# Function of positions (n, 3), m: slowest and fastest wave velocity, m/s, and size of the element there, m (n, 3);
# infinite outside of all elements. Collective; the result is identical on all ranks.
Surroundings = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SpreadSources:
    """Points that represent sources. positions : (n, 3), m. source : index (n,) of the source. weight : (n,)."""

    positions: np.ndarray
    source: np.ndarray
    weight: np.ndarray


@cache
def unit_ball() -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 3) in the unit ball and their weights (n,), whose sum is 1 and whose second moments vanish.

    Polynomials of up to the ninth degree in the angles are integrated exactly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(RADII)
    radius, weights = 0.5 * (1.0 + nodes), 0.5 * weights
    density = weights * radius**2 * (1.0 - radius**2) ** 3
    moments = [(density * radius**power).sum() for power in (0, 2, 4)]
    # sum of weights 1, second moment 0
    a, b = np.linalg.solve([moments[:2], moments[1:]], [1.0, 0.0])
    radial = density * (a + b * radius**2)
    cosine, polar = np.polynomial.legendre.leggauss(POLAR)
    azimuth = np.pi * (np.arange(2 * POLAR) + 0.5) / POLAR
    sine = np.sqrt(1.0 - cosine**2)
    directions = np.stack([
        np.outer(sine, np.cos(azimuth)), np.outer(sine, np.sin(azimuth)), np.outer(cosine, np.ones(2 * POLAR))
    ], axis=-1).reshape(-1, 3)  # fmt: skip
    angular = np.repeat(0.5 * polar / (2 * POLAR), 2 * POLAR)
    return (radius[:, None, None] * directions).reshape(-1, 3), np.outer(radial, angular).ravel()


def recorded_distances(simulation: Simulation, top: float, size: np.ndarray) -> np.ndarray:
    """Return the distance (sources,), m, of each source from receivers, and from the surface if peak motion is recorded
    there.

    Receivers nearer than `UNRESOLVED` elements are omitted, since no record there is accurate.

    Parameters
    ----------
    top : elevation of the surface, m, without topography.
    size : of the elements at the sources (sources,), m.
    """
    sources = simulation.acquisition.source_positions
    receivers = simulation.acquisition.receiver_positions
    least, found = UNRESOLVED * size, np.full(len(sources), np.inf)
    for number, source in enumerate(sources if len(receivers) else []):
        distances = np.sqrt(((receivers - source) ** 2).sum(axis=1))
        found[number] = distances[distances >= least[number]].min(initial=np.inf)
    if simulation.output.peak_motion:
        found = np.minimum(found, np.maximum(surface_heights(simulation, sources, top) - sources[:, 2], least))
    return found


def spread_sources(
    simulation: Simulation, top: float, reach: float, largest: float, surroundings: Surroundings,
    forces: bool | np.ndarray = True,
) -> SpreadSources:
    """Return the points that represent the sources of a simulation (collective call).

    Parameters
    ----------
    top : as in `recorded_distances`.
    reach : sizes of the element; sources farther from receivers are not spread.
    largest : radius of a ball over the size of the element, at most.
    surroundings : function that returns wave velocities and element sizes.
    forces : True to spread forces also; for all sources, or for each (sources,).
    """
    positions = simulation.acquisition.source_positions
    here = surroundings(positions)
    slowest, _, size = here.T
    distances = recorded_distances(simulation, top, np.where(np.isfinite(size), size, 0.0))
    wavelength = slowest / simulation.highest_frequency
    radii = np.minimum(OF_DISTANCE * distances, np.minimum(largest * size, OF_WAVELENGTH * wavelength))
    spread = np.isfinite(size) & (distances < reach * size) & (radii > 1e-3 * size)
    spread &= forces | np.array([one.force is None for one in simulation.acquisition.sources], bool)
    offsets, weights = unit_ball()
    balls, left = np.zeros((len(positions), 1, 1)), np.flatnonzero(spread)
    for part in SHRINK:
        if not len(left):
            break
        around = positions[left, None] + part * radii[left, None, None] * offsets
        speeds = surroundings(around.reshape(-1, 3)).reshape(*around.shape)[..., :2]
        fits = (np.abs(speeds - here[left, None, :2]) <= ALIKE * here[left, None, :2]).all(axis=(1, 2))
        balls[left[fits], 0, 0] = part * radii[left[fits]]
        left = left[~fits]
    some = balls[:, 0, 0] > 0.0
    numbers = np.arange(len(positions))
    found = SpreadSources(
        np.concatenate([positions[~some], (positions[some, None] + balls[some] * offsets).reshape(-1, 3)]),
        np.concatenate([numbers[~some], np.repeat(numbers[some], len(weights))]),
        np.concatenate([np.ones(int((~some).sum())), np.tile(weights, int(some.sum()))]),
    )
    return _by_source(found)


def _by_source(points: SpreadSources) -> SpreadSources:
    order = np.argsort(points.source, kind="stable")
    return SpreadSources(points.positions[order], points.source[order], points.weight[order])


def of_all_ranks(found: np.ndarray, ranks: Any) -> np.ndarray:
    """Return the minimum of the values of all ranks; infinite if no rank has one."""
    return np.min(ranks.all_gather(found), axis=0)


def locate_sources(plan: Any, sources: Sequence[Any], spread: SpreadSources) -> SharedLocations:
    """Return the elements of all ranks that contain the points of sources (collective call).

    Raises
    ------
    InputError : a source is in no element of any rank.
    """
    owners, names = [sources[index] for index in spread.source.tolist()], point_names(sources, "source")
    outside = plan.in_layer(point_positions(sources))[spread.source] | plan.in_layer(spread.positions, margins=True)
    found = plan.locate(spread.positions, plan.tolerance, owners=owners, outside=outside)
    require_located(found, plan.ranks, [names[index] for index in spread.source], spread.positions, "sources")
    return found
