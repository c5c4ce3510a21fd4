"""Warnings about receivers, or the surface, close to a source, where its near field is not resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

SMALL = 0.02  # error up to which there is no warning


@dataclass(frozen=True)
class NearSourceErrors:
    """Errors of seismograms near a source, measured below a free surface, with explosions and, in grids, with the worst
    of double couples.

    distances : ascending, to the nearest source in grid spacings or elements. errors : relative L2 norms. unit : unit
    of the distances, plural. key : key of the simulation file for a length of one unit. along_axes : the errors at
    receivers in directions within `NEEDLE` of an axis x, y or z through the source, if they are others. at_surface :
    errors at receivers within `SHALLOW` of a free surface, if they are others; below_shallow : at deeper receivers,
    from a source within `SHALLOW` of it.
    """

    distances: tuple[float, ...]
    errors: tuple[float, ...]
    unit: str
    key: str
    along_axes: tuple[float, ...] = ()
    at_surface: NearSourceErrors | None = None
    below_shallow: NearSourceErrors | None = None

    def at(self, distance: np.ndarray, along_axis: np.ndarray) -> np.ndarray:
        """Return the error at distances in units. along_axis : True near an axis."""
        errors = np.interp(distance, self.distances, self.errors)
        if not self.along_axes:
            return errors
        return np.where(along_axis, np.interp(distance, self.distances, self.along_axes), errors)

    @property
    def enough(self) -> float:
        """Distance in units beyond which the error is small."""
        return float(np.interp(-SMALL, [-error for error in self.along_axes or self.errors], self.distances))


SHALLOW = 1.5  # units
DIP_SLIP = 0.02  # of the largest component of a moment tensor
NEEDLE = 0.93  # cosine of an angle
SURFACE = NearSourceErrors(
    (1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0, 8.5), (0.9, 0.5, 0.45, 0.65, 0.24, 0.1, 0.06, 0.05, 0.02, 0.01),
    "grid spacings", "solver.spacing", (1.2, 0.8, 0.65, 0.35, 0.16, 0.16, 0.065, 0.04, 0.021, 0.012),
)  # fmt: skip
BELOW_ERRORS = (15.0, 3.8, 0.18, 0.085, 0.055, 0.05, 0.02)
BELOW = NearSourceErrors(
    (3.0, 4.0, 5.0, 6.0, 7.0, 9.0, 9.01), BELOW_ERRORS, "grid spacings", "solver.spacing", BELOW_ERRORS
)
# The largest errors of shear couples, explosions and compensated dipoles at nodes and between them in a homogeneous
# medium, against the closed form (below and at a surface: spectral elements), with the weights of
# `finite_difference.line_weights.CLEARANCES`. Those of one tensor are up to six times smaller. On the axes of the grid
# through the source, the field of a shear couple is smallest.
GRID = NearSourceErrors(
    (0.5, 1.0, 1.5, 1.75, 2.0, 2.25, 2.6, 3.0, 3.75, 4.4, 4.6, 5.25, 6.0, 7.0),
    (0.9, 1.4, 1.6, 1.4, 0.8, 0.3, 0.16, 0.075, 0.036, 0.02, 0.01, 0.006, 0.004, 0.0025), "grid spacings",
    "solver.spacing", (1.0, 1.7, 2.3, 1.6, 0.65, 0.5, 0.5, 0.24, 0.045, 0.022, 0.016, 0.008, 0.004, 0.0025),
    SURFACE, BELOW,
)  # fmt: skip
# The same with one relaxation mechanism at each node, where moments act on at least six points along each axis.
COARSE_GRID = NearSourceErrors(
    (1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0), (1.7, 2.0, 1.2, 0.33, 0.09, 0.082, 0.019, 0.006, 0.0025),
    "grid spacings", "solver.spacing", (2.0, 2.6, 1.75, 1.75, 0.38, 0.08, 0.029, 0.008, 0.0035), SURFACE, BELOW,
)  # fmt: skip
# The same beside an interface, where weights along z have eight points at any distance.
WIDE_GRID = NearSourceErrors(
    (0.5, 1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0), (0.9, 1.8, 1.6, 1.2, 0.33, 0.09, 0.082, 0.019, 0.007, 0.003),
    "grid spacings", "solver.spacing", (1.0, 2.1, 2.6, 2.8, 1.75, 0.9, 0.52, 0.07, 0.016, 0.0035), SURFACE, BELOW,
)  # fmt: skip
HEXAHEDRA = NearSourceErrors((0.2, 0.7, 1.0, 1.45, 1.8), (0.5, 0.1, 0.08, 0.02, 0.005), "elements", "solver.spacing")
TETRAHEDRA = NearSourceErrors((0.2, 0.6, 1.0, 1.5), (0.5, 0.15, 0.02, 0.005), "elements", "solver.spacing")


def near_source_warnings(
    simulation: Simulation, size: np.ndarray, errors_of: Sequence[NearSourceErrors], top: float = 0.0,
    free: bool = True,
) -> list[str]:  # fmt: skip
    """Return a warning if the error near a source is not small.

    Parameters
    ----------
    size : grid spacing, or size of the elements, at each source (sources,), m; infinite if unknown.
    errors_of : known errors near each source, or those near all of them.
    top : elevation of the surface, m, without topography. free : True if it is a free surface.
    """
    sources = simulation.acquisition.source_positions
    cartesian = simulation.domain.cartesian
    if not len(sources):
        return []
    receivers = simulation.acquisition.receivers
    positions = np.array([one.position for one in receivers], float).reshape(-1, 3)
    distances, errors, names = np.full(len(sources), np.inf), np.zeros(len(sources)), [""] * len(sources)
    surface, tables = top if free else np.inf, list(errors_of) * (len(sources) // len(errors_of))
    at_surface = tables[0].at_surface or tables[0]
    units, places = np.where(np.isfinite(size), size, 1.0), cartesian(positions)
    for number, source in enumerate(sources if len(receivers) else []):
        away = places - cartesian(source)
        every = np.linalg.norm(away, axis=1)
        shallow = surface - positions[:, 2] < SHALLOW * units[number]
        deep = known = tables[number]
        if known.below_shallow and surface - source[2] < SHALLOW * units[number]:
            deep = known.below_shallow if _is_dip_slip(simulation.acquisition.sources[number]) else known
        along = every / units[number], np.abs(away).max(axis=1) >= NEEDLE * every
        found = np.where(shallow, at_surface.at(*along), deep.at(*along))
        largest = int(np.lexsort((every, -found))[0])
        tables[number] = at_surface if shallow[largest] else deep
        distances[number], errors[number], names[number] = every[largest], found[largest], receivers[largest].name
    if simulation.output.peak_motion:
        depth = np.maximum(surface_heights(simulation, sources, top) - sources[:, 2], 0.0)
        above = at_surface.at(depth / units, np.full(len(depth), True))
        for number in np.flatnonzero(above > errors).tolist():
            tables[number] = at_surface
            distances[number], errors[number] = depth[number], above[number]
            names[number] = "the surface above (peak motion)"
    errors[~np.isfinite(size)] = 0.0
    worst = int(errors.argmax())
    if errors[worst] <= SMALL:
        return []
    ratio, count, known = distances[worst] / size[worst], int((errors > SMALL).sum()), tables[worst]
    others = f" ({count:,} of {len(sources):,} sources are as near to a receiver)" if count > 1 else ""
    resolved = ratio > known.distances[0]
    error = "the near field is not resolved there"
    if resolved:
        reach = "up to " if known.along_axes else ""
        error = f"estimated error there {reach}{errors[worst]:.0%}, more where a double couple radiates little"
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


def _is_dip_slip(source: Any) -> bool:
    """True if a source has shear couples on horizontal planes."""
    moment = np.zeros(6) if source.moment is None else np.asarray(source.moment, float)
    return bool(np.abs(moment[4:]).max() > DIP_SLIP * np.abs(moment).max())


def surface_heights(simulation: Simulation, positions: np.ndarray, top: float) -> np.ndarray:
    """Return the elevation (n,), m, of the surface above positions (n, 3), m; `top` without topography."""
    surface = None if simulation.domain is None else simulation.domain.surface
    return np.full(len(positions), top) if surface is None else surface(positions[:, 0], positions[:, 1])
