r"""Convolutional perfectly matched layers: profiles and slabs.

After Komatitsch & Martin (2007, Geophysics 72, SM155-SM167), with x the depth in a layer of thickness L:

.. math::
    d(x) = d_0 (x/L)^2, \quad d_0 = -\frac{3 v_p \ln R}{2 L}, \qquad
    \kappa(x) = 1 + (\kappa_{max} - 1)(x/L)^2, \qquad \alpha(x) = \pi f_0 (1 - x/L),

.. math:: b = e^{-(d/\kappa + \alpha)\Delta t}, \qquad a = \frac{d}{\kappa (d + \kappa\alpha)} (b - 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.mesh.grid import Grid


VECTOR = 8  # columns of a layer along x are rounded up to this, which lets its short loops run in vectors


@dataclass(frozen=True)
class LayerParameters:
    """What shapes the layers.

    reflection : theoretical reflection R of the layer at normal incidence.
    kappa : largest kappa, >= 1.
    frequency : f_0, Hz, the frequency around which alpha makes the layer a filter; the dominant frequency does well.
    speed : largest vp, m/s.
    """

    reflection: float
    kappa: float
    frequency: float
    speed: float


def profile(depth: np.ndarray, thickness: float, layer: LayerParameters, time_step: float) -> np.ndarray:
    """b, a and r = 1/kappa - 1, shape (3, n), at depths (m) in the layer; 0 where the depth is not inside (0, L]."""
    inside = (depth > 1e-9 * thickness) & (depth <= thickness * (1 + 1e-9))
    relative = np.where(inside, depth / thickness, 0.0)
    damping = -1.5 * layer.speed * np.log(layer.reflection) / thickness * relative**2
    kappa = 1.0 + (layer.kappa - 1.0) * relative**2
    alpha = np.pi * layer.frequency * (1.0 - relative)
    b = np.exp(-(damping / kappa + alpha) * time_step)
    a = damping / (kappa * (damping + kappa * alpha) + 1e-300) * (b - 1.0)
    return np.where(inside, np.stack([b, a, 1.0 / kappa - 1.0]), 0.0)


@dataclass(frozen=True)
class Slab:
    """One absorbing layer: which axis it damps, its first node (k, j, i), its extent and its profiles.

    half, node: b, a, r of shape (3, depths, columns) for half nodes and nodes; constant along x unless the axis is x.
    """

    axis: int
    start: tuple[int, int, int]
    extent: tuple[int, int, int]
    half: np.ndarray
    node: np.ndarray


def slabs(grid: Grid, layer: LayerParameters, time_step: float) -> list[Slab]:
    """The layers of a grid; each spans the whole cross-section, corners included."""
    found = []
    for axis in range(3):
        for side in range(2):
            cells = grid.layers[axis][side]
            if cells:
                found.append(_slab(grid, axis, side, cells, layer, time_step))
    return found


def _slab(grid: Grid, axis: int, side: int, cells: int, layer: LayerParameters, time_step: float) -> Slab:
    nodes = grid.shape[axis]
    count = cells if side == 0 else cells + 1
    if axis == 0:
        # Whole vectors, the same on both sides; the points added have a profile of zeros: nothing happens to them.
        count = min(-(-(cells + 1) // VECTOR) * VECTOR, nodes)
    first = 0 if side == 0 else nodes - count
    position = first + np.arange(count, dtype=float)
    # Depths of nodes and half nodes; the last half node at a high side is beyond the last node: outside, so zero.
    node_depth = cells - position if side == 0 else position - (nodes - 1 - cells)
    half_depth = node_depth - 0.5 if side == 0 else node_depth + 0.5
    step = grid.spacing
    tables = [profile(depth * step, cells * step, layer, time_step) for depth in (half_depth, node_depth)]
    start, extent = [0, 0, 0], [grid.shape[2], grid.shape[1], grid.shape[0]]
    start[2 - axis], extent[2 - axis] = first, count
    if axis == 0:
        half, node = (table[:, None, :] for table in tables)
    else:
        half, node = (np.repeat(table[:, :, None], grid.shape[0], axis=2) for table in tables)
    return Slab(axis, tuple(start), tuple(extent), half, node)
