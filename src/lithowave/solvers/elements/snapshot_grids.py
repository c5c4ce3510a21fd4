"""Regular sets of points for snapshots of element methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.solvers.interface import SnapshotGrid


def _axis(low: float, high: float, spacing: float, stride: int) -> tuple[float, int]:
    """Return the spacing near a given one that divides the extent, times the stride, and the number of points."""
    steps = max(1, math.ceil((high - low) / spacing - 1e-6))
    return (high - low) / steps * stride, steps // stride + 1


def box_of(plan: Any) -> tuple[tuple[float, float], ...]:
    """Return the domain: from the simulation file, or around the mesh, up to the highest point of the surface.

    Of an imported mesh it is the box around it, without an absorbing layer.
    """
    if plan.domain is None and getattr(plan, "bounds", None) is not None:
        return plan.bounds  # of the global mesh, if a rank has only a part of it
    vertices = plan.mesh.vertices
    if plan.domain is None:
        return tuple((float(vertices[:, axis].min()), float(vertices[:, axis].max())) for axis in range(3))
    if plan.domain.is_meshed:
        ends = plan.domain.ground
        return ends.x, ends.y, ends.z
    sides = [tuple(getattr(plan.domain, axis)) for axis in "xyz"]
    if plan.domain.surface is not None:
        sides[2] = (sides[2][0], max(sides[2][1], plan.domain.surface.high))
    return tuple(sides)


def select_snapshot_grid(plan: Any, selection: Any) -> SnapshotGrid:
    """Return the points of a snapshot selection, about as close to each other as the unknowns."""
    origin, spacing, shape = [], [], []
    for letter, (low, high) in zip("xyz", box_of(plan), strict=True):
        fixed = None if selection.plane is None else getattr(selection.plane, letter)
        if fixed is not None:
            origin.append(float(fixed))
            spacing.append(plan.surface_spacing)
            shape.append(1)
        else:
            step, count = _axis(low, high, plan.surface_spacing, selection.stride)
            origin.append(low)
            spacing.append(step)
            shape.append(count)
    return SnapshotGrid(tuple(origin), tuple(spacing), tuple(shape))


def points_within(snapshot: SnapshotGrid, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return ascending indices, x fastest, of points of a snapshot grid between corners `low`, `high` (3,), m."""
    ranges = []
    for axis in range(3):
        place = snapshot.origin[axis] + snapshot.spacing[axis] * np.arange(snapshot.shape[axis])
        ranges.append(np.flatnonzero((place >= low[axis]) & (place <= high[axis])))
    x, y, z = ranges
    nx, ny, _ = snapshot.shape
    return ((z[:, None, None] * ny + y[:, None]) * nx + x).reshape(-1)


def positions_of(snapshot: SnapshotGrid, numbers: np.ndarray) -> np.ndarray:
    """Return positions (n, 3), m, of points of a snapshot grid by their indices, x fastest."""
    x, y, z = (o + d * np.arange(n) for o, d, n in zip(snapshot.origin, snapshot.spacing, snapshot.shape, strict=True))
    nx, ny, _ = snapshot.shape
    return np.stack([x[numbers % nx], y[numbers // nx % ny], z[numbers // (nx * ny)]], axis=-1)


def surface_grid(plan: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and positions (points, 3) of a regular grid on the surface of the domain, x fastest."""
    (x_low, x_high), (y_low, y_high), (_, top) = box_of(plan)
    lines = []
    for low, high in ((x_low, x_high), (y_low, y_high)):
        step, count = _axis(low, high, plan.surface_spacing, 1)
        lines.append(low + step * np.arange(count))
    x, y = np.meshgrid(*lines)
    surface = None if plan.domain is None else plan.domain.surface
    z = np.full(x.shape, top) if surface is None else surface(x, y)
    return *lines, np.stack([x, y, z], axis=-1).reshape(-1, 3)
