"""Fields for pictures: velocity and stress brought to the nodes of the grid, on planes and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES, Grid
from lithowave.solvers.base import Raster
from lithowave.solvers.finite_difference.points import STAGGER, STRESSES, VELOCITIES


def select_raster(grid: Grid, selection: Any) -> Raster:
    """The nodes of the domain (layers left out) that a snapshot selection stands for.

    A plane lies at the coordinate asked for, between nodes if need be; a stride takes each n-th node along the others.
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
    return Raster(tuple(origin), tuple(spacing), tuple(shape))


def node_fields(
    grid: Grid, halo: int, fields: dict[str, np.ndarray], raster: Raster, names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Velocity (nz, ny, nx, 3), stress (nz, ny, nx, 6) or pressure (nz, ny, nx) at the points of a raster.

    Linear interpolation from the staggered points: good for pictures (second order), not for waveforms.
    """
    found = {}
    for name in names:
        parts = VELOCITIES if name == "velocity" else STRESSES if name == "stress" else ("sxx", "syy", "szz")
        stack = np.stack([_interpolated(grid, halo, fields[part], STAGGER[part], raster) for part in parts], axis=-1)
        found[name] = -stack.mean(axis=-1) if name == "pressure" else stack
    return found


def _interpolated(grid: Grid, halo: int, field: np.ndarray, half: tuple[int, int, int], raster: Raster) -> np.ndarray:
    """Linear interpolation along z, y and x in turn, each on what the ones before left."""
    values = field
    for axis in (2, 1, 0):
        start = grid.index(axis, raster.origin[axis]) - 0.5 * half[axis]
        position = start + np.arange(raster.shape[axis]) * (raster.spacing[axis] / grid.spacing)
        last = grid.shape[axis] - 1 - half[axis]
        below = np.clip(np.floor(position + 1e-9).astype(int), 0, last - 1)
        weight = (position - below).reshape([-1 if dimension == 2 - axis else 1 for dimension in range(3)])
        low = np.take(values, below + halo, axis=2 - axis)
        high = np.take(values, below + halo + 1, axis=2 - axis)
        values = (low * (1 - weight) + high * weight).astype(field.dtype)
    return values
