"""Warnings about sources, receivers and snapshots beside interfaces of the medium."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.description.media import LayeredMedium
from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.line_weights import NEAR_FACE
from lithowave.solvers.finite_difference.snapshot_grids import select_snapshot_grid
from lithowave.solvers.finite_difference.source_interfaces import find_interfaces

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

SMALL = 0.02  # error up to which there is no warning
MEASURED = 3.7  # ratio of moduli for which errors were measured
DISTANCES = (0.0, 0.25, 0.5, 1.0, 2.0)  # cells along z
DIPS = (0.0, 15.0, 30.0, 45.0)  # degrees
DECREASE = ((0.5, 1.3, 1.75, 2.5), (1.0, 0.45, 0.33, 0.0))  # of errors of dips: cells along the normal, factors
STEEPEST, VERTICAL = 80.0, 90.0  # dips, degrees: of interfaces that have no slope, and of those along x or y
NEAR_SURFACE = 2.5  # factor of errors where weights do not consider the interface, because the free surface is near
SAMPLES = 12  # of a snapshot, along x and y


@dataclass(frozen=True)
class Kind:
    """Kind of points beside interfaces.

    name : of several. what : has the error. errors : largest ones at `DISTANCES`, at all positions of a horizontal
    interface in its cell, less those in a homogeneous medium; order 4, 8 points per wavelength. dipping : errors half
    a cell from interfaces with dips `DIPS`, see `DECREASE`.
    """

    name: str
    what: str
    errors: tuple[float, ...]
    dipping: tuple[float, ...]

    def estimate(self, distance: np.ndarray, dip: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return the errors at distances, cells, from interfaces with dips, degrees, and ratios of moduli."""
        contrast = (1.0 - 1.0 / ratio) / (1.0 - 1.0 / MEASURED)
        sloped = np.interp(dip, DIPS, self.dipping) * np.interp(distance, *DECREASE)
        return np.maximum(np.interp(distance, DISTANCES, self.errors), sloped) * contrast


# See `benchmarks/interface_sources.py`, `interface_receivers.py` and `interface_dips.py`.
SOURCES = Kind("moment tensors", "its seismograms", (0.07, 0.035, 0.025, 0.012, 0.0), (0.0, 0.08, 0.13, 0.17))
RECEIVERS = Kind("receivers", "its stress or pressure", (0.15, 0.07, 0.03, 0.013, 0.0), (0.0, 0.08, 0.15, 0.19))


def interface_warnings(simulation: Simulation, grid: Grid) -> list[str]:
    """Return warnings about points on an interface, or so near that their error is not small, and about snapshots of
    stress."""
    sources = [
        (one.where or f"sources[{number}]", one.position)
        for number, one in enumerate(simulation.acquisition.sources) if one.moment is not None
    ]  # fmt: skip
    receivers = [(f"receivers: {one.name}", one.position) for one in simulation.acquisition.receivers]
    return [
        *_near_warning(simulation, grid.whole, sources, SOURCES),
        *_near_warning(simulation, grid.whole, receivers if simulation.output.tensors else [], RECEIVERS),
        *_snapshot_warnings(simulation, grid.whole),
    ]


def _near_warning(simulation: Simulation, grid: Grid, points: Sequence[tuple[str, Any]], kind: Kind) -> list[str]:
    """Return the warning about points, labels and positions, beside an interface."""
    if not points:
        return []
    positions, spacing = np.array([one for _, one in points], float), grid.spacing
    medium = simulation.material.medium
    near = find_interfaces(medium, positions, spacing, simulation.domain.z)
    distance, ratio = np.abs(near.z[:, 0] - positions[:, 2]) / spacing, near.ratio[:, 0]
    dip = np.zeros(len(points))
    if not isinstance(medium, LayeredMedium):
        dip[near.present] = _dips(simulation, spacing, positions[near.present], near.z[near.present, 0])
        distance *= np.cos(np.radians(dip))
        _add_vertical(simulation, spacing, positions, distance, dip, ratio)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    depth = (grid.nodes(2)[-1] - positions[:, 2]) / spacing
    shallow = (depth < NEAR_FACE) & (simulation.boundaries.face("z_max") != "absorbing")
    factor = np.where(shallow, NEAR_SURFACE, 1.0)
    errors = factor * kind.estimate(distance, dip, ratio)
    worst = int(errors.argmax())
    if errors[worst] <= SMALL:
        return []
    several = int((errors > SMALL).sum())
    others = f" ({several:,} of {len(points):,} {kind.name} are as near to one)" if several > 1 else ""
    cells = np.linspace(0.0, DECREASE[0][-1], 251)
    remaining = factor[worst] * kind.estimate(cells, np.full_like(cells, dip[worst]), np.full_like(cells, ratio[worst]))
    limit, metres = float(cells[remaining <= SMALL][0]), distance[worst] * spacing
    where, remedy = "on an interface", f"Move it by {limit * spacing:.3g} m"
    if metres > 1e-3 * spacing:
        where = f"{metres:.4g} m ({distance[worst]:.2g} grid spacings) from an interface"
        remedy = f"Use solver.spacing: {metres / limit:.3g} or less"
    sloped = f" with a dip of {dip[worst]:.0f} degrees" if dip[worst] > 1.0 else f" at z = {near.z[worst, 0]:.6g} m"
    return [
        f"{points[worst][0]}: it is {where}{sloped}{others}, where moduli change by a factor of {ratio[worst]:.2g}; "
        f"estimated error of {kind.what} {errors[worst]:.0%}. {remedy} for an error below {SMALL:.0%}, or "
        "solver.method: spectral_element."
    ]


def _dips(simulation: Simulation, spacing: float, positions: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the dips (n,), degrees, of the interfaces at z = level, m, above or below positions (n, 3), m."""
    slopes, bounds = [], (simulation.domain.x, simulation.domain.y)
    for axis in range(2):
        ends = []
        for side in (-spacing, spacing):
            moved = np.column_stack([positions[:, :2], level])
            moved[:, axis] = np.clip(moved[:, axis] + side, *bounds[axis])
            found = find_interfaces(simulation.material.medium, moved, spacing, simulation.domain.z)
            ends.append((moved[:, axis], found.z[:, 0]))
        (low, below), (high, above) = ends
        slopes.append((above - below) / (high - low))
    found = np.degrees(np.arctan(np.hypot(*slopes)))
    return np.where(np.isfinite(found), found, STEEPEST)


@dataclass(frozen=True)
class _Turned:
    """A medium with an axis (0, 1) and z exchanged."""

    medium: Any
    axis: int

    def moduli(self, *place: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `lithowave.description.media.Medium`."""
        return tuple(self.medium.moduli(*_exchanged(list(place), self.axis)))


def _exchanged(values: list[Any], axis: int) -> list[Any]:
    values[axis], values[2] = values[2], values[axis]
    return values


def _add_vertical(
    simulation: Simulation, spacing: float, positions: np.ndarray, distance: np.ndarray, dip: np.ndarray,
    ratio: np.ndarray,
) -> None:  # fmt: skip
    """Set the distance, cells, dip and ratio (n,) of points beside vertical interfaces that have none along z."""
    for axis in range(2):
        rows = np.flatnonzero(~np.isfinite(distance))
        turned = np.stack(_exchanged(list(positions[rows].T), axis), axis=1)
        bounds = (simulation.domain.x, simulation.domain.y)[axis]
        near = find_interfaces(_Turned(simulation.material.medium, axis), turned, spacing, bounds)
        some = rows[near.present]
        distance[some] = np.abs(near.z[near.present, 0] - positions[some, axis]) / spacing
        dip[some], ratio[some] = VERTICAL, near.ratio[near.present, 0]


def _snapshot_warnings(simulation: Simulation, grid: Grid) -> list[str]:
    """Return a warning about snapshots of stress or pressure with points within a cell of an interface."""
    warnings = []
    for number, selection in enumerate(simulation.output.snapshots):
        names = [name for name in selection.fields if name in ("stress", "pressure")]
        if not names:
            continue
        snapshot = select_snapshot_grid(grid, selection)
        lines = [
            origin + step * np.unique(np.linspace(0, count - 1, min(count, most)).round())
            for origin, step, count, most in zip(
                snapshot.origin, snapshot.spacing, snapshot.shape, (SAMPLES, SAMPLES, max(1, snapshot.shape[2] // 4)),
                strict=True,
            )
        ]
        positions = np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 3)
        near = find_interfaces(simulation.material.medium, positions, grid.spacing, simulation.domain.z)
        flat = snapshot.shape[2] == 1
        close = np.abs(near.z[:, 0] - positions[:, 2]) < (1.0 if flat else np.inf) * grid.spacing
        if close.any():
            first = np.flatnonzero(close)[0]
            warnings.append(
                f"output.snapshots[{number}]: within one grid spacing ({grid.spacing:.4g} m) of an interface of the "
                f"medium, for example at z = {near.z[first, 0]:.6g} m, snapshots of {' and '.join(names)} have a mean "
                "of both sides. For the values of one side, use receivers, or solver.method: spectral_element."
            )
    return warnings
