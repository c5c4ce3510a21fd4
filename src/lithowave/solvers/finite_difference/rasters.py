"""Fields for pictures: velocity and stress brought to the nodes of the grid, on planes and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES, Grid
from lithowave.solvers.base import Raster
from lithowave.solvers.finite_difference.arguments import STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.points import STAGGER


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


def parts_of(name: str) -> tuple[str, ...]:
    """The fields that velocity, stress or pressure is made of."""
    return {"velocity": VELOCITIES, "stress": STRESSES, "pressure": ("sxx", "syy", "szz")}[name]


def raster_lines(grid: Grid, halo: int, field: str, raster: Raster) -> list[tuple[np.ndarray, np.ndarray]]:
    """For z, y and x: indices into a field's array of the points below those of a raster, and the weights of the next.

    Linear interpolation from the staggered points: good for pictures (second order), not for waveforms.
    """
    lines = []
    for axis in (2, 1, 0):
        half = STAGGER[field][axis]
        start = grid.index(axis, raster.origin[axis]) - 0.5 * half
        position = start + np.arange(raster.shape[axis]) * (raster.spacing[axis] / grid.spacing)
        below = np.clip(np.floor(position + 1e-9).astype(np.int64), 0, grid.shape[axis] - 2 - half)
        lines.append((below + halo, position - below))
    return lines


def finish_fields(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a snapshot keeps: pressure is minus the mean of the normal stresses."""
    return {name: -array.mean(axis=-1) if name == "pressure" else array for name, array in parts.items()}
