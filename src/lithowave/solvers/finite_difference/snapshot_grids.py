"""Velocity and stress interpolated to the nodes of planes and volumes, for snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES, Grid
from lithowave.solvers.finite_difference.law import STAGGER, STRESSES, VELOCITIES
from lithowave.solvers.interface import SnapshotGrid

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.grid_plan import GridPlan
    from lithowave.solvers.interface import SnapshotSelection


def select_snapshot_grid(grid: Grid, selection: SnapshotSelection) -> SnapshotGrid:
    """Return the nodes of the domain (without layers) for a snapshot selection.

    A plane is at the requested coordinate, also between nodes; a stride selects each n-th node along the other axes.
    """
    stride = selection.stride
    origin, spacing, shape = [], [], []
    for axis, letter in enumerate(AXES):
        nodes = grid.nodes(axis)[grid.interior(axis)]
        fixed = None if selection.plane is None else getattr(selection.plane, letter)
        if fixed is not None:
            origin.append(float(np.clip(fixed, nodes[0], nodes[-1])))
            spacing.append(grid.spacing)
            shape.append(1)
        else:
            origin.append(float(nodes[0]))
            spacing.append(grid.spacing * stride)
            shape.append(len(nodes[::stride]))
    return SnapshotGrid(tuple(origin), tuple(spacing), tuple(shape))


def parts_of(name: str) -> tuple[str, ...]:
    """Return the fields from which velocity, stress or pressure is computed."""
    return {"velocity": VELOCITIES, "stress": STRESSES, "pressure": ("sxx", "syy", "szz")}[name]


def local_snapshot_grid(plan: GridPlan, snapshot: SnapshotGrid) -> list[tuple[int, int]]:
    """Return the points (first, end) along x, y, z of a snapshot grid that are next to the nodes of this rank."""
    found = []
    for axis, (first, end) in enumerate(plan.own):
        nodes = plan.grid.whole.shape[axis]
        place = np.clip(np.floor(_positions(plan.grid.whole, snapshot, axis) + 1e-9), 0, nodes - 1)
        found.append(tuple(np.searchsorted(place, (first, end)).tolist()))
    return found


def own_points(snapshot: SnapshotGrid, ranges: list[tuple[int, int]]) -> np.ndarray:
    """Return the indices, x fastest, of the points of a snapshot grid within these ranges."""
    x, y, z = (np.arange(first, end) for first, end in ranges)
    nx, ny, _ = snapshot.shape
    return ((z[:, None, None] * ny + y[:, None]) * nx + x).ravel()


def _positions(grid: Grid, snapshot: SnapshotGrid, axis: int) -> np.ndarray:
    """Return the points of a snapshot grid along an axis, in grid spacings from node 0 of the global grid."""
    steps = np.arange(snapshot.shape[axis]) * (snapshot.spacing[axis] / grid.spacing)
    return grid.index(axis, snapshot.origin[axis]) + steps


def snapshot_lines(plan: GridPlan, field: str, snapshot: SnapshotGrid) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for z, y and x the indices into a field's array of the nodes below this rank's points of a snapshot grid,
    and the weights of the next nodes.

    Linear interpolation from the staggered points: accurate enough for images (second order), not for waveforms.
    """
    lines, ranges, whole = [], local_snapshot_grid(plan, snapshot), plan.grid.whole
    for axis in (2, 1, 0):
        half = STAGGER[field][axis]
        position = (_positions(whole, snapshot, axis) - 0.5 * half)[slice(*ranges[axis])]
        below = np.clip(np.floor(position + 1e-9).astype(np.int64), 0, whole.shape[axis] - 2 - half)
        lines.append((below - plan.grid.first[axis] + plan.halo, position - below))
    return lines


@dataclass(frozen=True)
class SurfacePart:
    """Surface nodes of a rank: rows and columns of its grid; points : their indices in the interior of the global
    surface, x fastest."""

    rows: slice
    columns: slice
    points: np.ndarray


def surface_part(plan: GridPlan, here: bool) -> SurfacePart:
    """Return the surface nodes of a rank, without layers; here : True if its own nodes reach the surface."""
    whole, found = plan.grid.whole, []
    for axis in range(2):
        inside, (first, end) = whole.interior(axis), plan.own[axis]
        low, high = max(first, inside.start), min(end, inside.stop)
        found.append((low, max(low, high) if here else low, inside.start, inside.stop - inside.start))
    (x, x_end, x_first, columns), (y, y_end, y_first, _) = found
    points = (np.arange(y, y_end)[:, None] - y_first) * columns + np.arange(x, x_end) - x_first
    slices = [slice(low - start, high - start) for (low, high, *_), start in zip(found, plan.grid.first, strict=False)]
    return SurfacePart(slices[1], slices[0], points.ravel())


def finish_fields(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the fields of a snapshot, (points, components): pressure is minus the mean of the normal stresses."""
    flat = {name: array.reshape(-1, array.shape[-1]) for name, array in parts.items()}
    return {name: -array.mean(axis=-1) if name == "pressure" else array for name, array in flat.items()}
