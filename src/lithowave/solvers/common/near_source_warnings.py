"""Warnings about receivers, or the surface, close to a source, where its near field is not resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

SMALL = 0.02  # error up to which there is no warning


@dataclass(frozen=True)
class NearSourceErrors:
    """Errors of seismograms near a source, measured below a free surface, with explosions and, in grids, with the worst
    of double couples.

    distances : ascending, to the nearest source in grid spacings or elements. errors : relative L2 norms. unit : unit
    of the distances, plural. key : key of the simulation file for a length of one unit.
    """

    distances: tuple[float, ...]
    errors: tuple[float, ...]
    unit: str
    key: str

    def at(self, distance: np.ndarray) -> np.ndarray:
        """Return the error at distances in units."""
        return np.interp(distance, self.distances, self.errors)

    @property
    def enough(self) -> float:
        """Distance in units beyond which the error is small."""
        return float(np.interp(-SMALL, [-error for error in self.errors], self.distances))


GRID = NearSourceErrors((0.5, 1.2, 2.0, 3.3, 4.5), (0.3, 0.12, 0.08, 0.06, 0.02), "grid spacings", "solver.spacing")
HEXAHEDRA = NearSourceErrors((0.2, 0.7, 1.0, 1.45, 1.8), (0.5, 0.1, 0.08, 0.02, 0.005), "elements", "solver.spacing")
TETRAHEDRA = NearSourceErrors((0.2, 0.6, 1.0, 1.5), (0.5, 0.15, 0.02, 0.005), "elements", "solver.spacing")


def near_source_warnings(
    simulation: Simulation, size: np.ndarray, known: NearSourceErrors, top: float = 0.0
) -> list[str]:
    """Return a warning if the error near a source is not small.

    Parameters
    ----------
    size : grid spacing, or size of the elements, at each source (sources,), m; infinite if unknown.
    top : elevation of the surface, m, without topography.
    """
    sources = simulation.acquisition.source_positions
    cartesian = simulation.domain.cartesian
    if not len(sources):
        return []
    receivers = simulation.acquisition.receivers
    positions = np.array([one.position for one in receivers], float).reshape(-1, 3)
    distances, names = np.full(len(sources), np.inf), [""] * len(sources)
    for number, source in enumerate(sources if len(receivers) else []):
        every = np.linalg.norm(cartesian(positions) - cartesian(source), axis=1)
        nearest = int(every.argmin())
        distances[number], names[number] = every[nearest], receivers[nearest].name
    if simulation.output.peak_motion:
        depth = np.maximum(surface_heights(simulation, sources, top) - sources[:, 2], 0.0)
        for number in np.flatnonzero(depth < distances).tolist():
            distances[number], names[number] = depth[number], "the surface above (peak motion)"
    errors = np.where(np.isfinite(size), known.at(distances / size), 0.0)
    worst = int(errors.argmax())
    if errors[worst] <= SMALL:
        return []
    ratio, count = distances[worst] / size[worst], int((errors > SMALL).sum())
    others = f" ({count:,} of {len(sources):,} sources are as near to a receiver)" if count > 1 else ""
    resolved = ratio > known.distances[0]
    error = "the near field is not resolved there"
    if resolved:
        error = f"estimated error there {errors[worst]:.0%}, more where a double couple radiates little"
    elif distances[worst] == 0.0:
        error = "the motion at a point source is infinite, so that the record depends on the resolution alone"
    apart = f"a distance of at least {known.enough * size[worst]:.3g} m"
    remedy = f"Keep {apart}" if distances[worst] == 0.0 else (
        f"Use {known.key}: {distances[worst] / known.enough:.3g} or less, or {apart},"
    )
    return [
        f"sources[{worst}]: {names[worst]} is at a distance of {distances[worst]:.4g} m, {ratio:.2g} {known.unit} of "
        f"{size[worst]:.4g} m{others}; {error}. Records farther away are not affected. {remedy} for an error below "
        f"{SMALL:.0%}."
    ]


def surface_heights(simulation: Simulation, positions: np.ndarray, top: float) -> np.ndarray:
    """Return the elevation (n,), m, of the surface above positions (n, 3), m; `top` without topography."""
    surface = None if simulation.domain is None else simulation.domain.surface
    return np.full(len(positions), top) if surface is None else surface(positions[:, 0], positions[:, 1])
