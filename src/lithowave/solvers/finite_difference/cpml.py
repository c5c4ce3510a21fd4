r"""Convolutional perfectly matched layers: profiles and slabs.

After Komatitsch & Martin (2007, Geophysics 72, SM155-SM167), with x the depth in a layer of thickness L:

.. math::
    d(x) = d_0 (x/L)^2, \quad d_0 = -\frac{3 v_p \ln R}{2 L}, \qquad
    \kappa(x) = 1 + (\kappa_{max} - 1)(x/L)^2, \qquad \alpha(x) = \pi f_0 (1 - x/L)

or, in soft ground (see `soft_ground`), the constant alpha of `SOFT_SHIFT`, and

.. math:: b = e^{-(d/\kappa + \alpha)\Delta t}, \qquad a = \frac{d}{\kappa (d + \kappa\alpha)} (b - 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.mesh.grid import Grid

SOFT_SHIFT = 2.0  # alpha over pi f_0 in soft ground
SOFT_REFLECTION = 1e-6  # default theoretical reflection there: a larger damping compensates the larger alpha
VECTOR = 8  # the width of a layer along x is a multiple of this, so that its short loops are vectorized


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of the layers.

    reflection : theoretical reflection coefficient R of the layer at normal incidence.
    kappa : largest kappa, >= 1.
    frequency : f_0, Hz, near which alpha makes the layer a filter; usually the dominant frequency.
    speed : largest vp, m/s. soft : True in soft ground. viscosity : gamma of `layer_smoothing`; 0: no smoothing.
    wavelength : shortest, m.
    """

    reflection: float
    kappa: float
    frequency: float
    speed: float
    soft: bool = False
    viscosity: float = 0.0
    wavelength: float = 0.0


def profile(depth: np.ndarray, thickness: float, layer: LayerParameters, time_step: float) -> np.ndarray:
    """Return b, a and r = 1/kappa - 1, shape (3, n), at depths (m) in the layer; 0 if a depth is not in (0, L]."""
    inside = (depth > 1e-9 * thickness) & (depth <= thickness * (1 + 1e-9))
    relative = np.where(inside, depth / thickness, 0.0)
    damping = -1.5 * layer.speed * np.log(layer.reflection) / thickness * relative**2
    kappa = 1.0 + (layer.kappa - 1.0) * relative**2
    alpha = np.pi * layer.frequency * (SOFT_SHIFT if layer.soft else 1.0 - relative)
    b = np.exp(-(damping / kappa + alpha) * time_step)
    a = damping / (kappa * (damping + kappa * alpha) + 1e-300) * (b - 1.0)
    return np.where(inside, np.stack([b, a, 1.0 / kappa - 1.0]), 0.0)


@dataclass(frozen=True)
class AxisLayers:
    """Layers at both ends of an axis, stored contiguously; each spans the entire cross-section, corners included.

    sides : sides of the layers, 0 low, 1 high. starts : first node of each layer along the axis.
    half, node : b, a, r at half nodes and nodes: (3, layers, width) along x; (3, layers * depths, 1) along y and z.
    memory : shape of the memory variables of three derivatives: (planes, rows, 3 * layers, width) along x, (planes,
    layers * depths, 3, columns) along y, (layers * depths, rows, 3, columns) along z.
    """

    sides: tuple[int, ...]
    starts: tuple[int, ...]
    half: np.ndarray
    node: np.ndarray
    memory: tuple[int, int, int, int]


def axis_layers(grid: Grid, axis: int, layer: LayerParameters, time_step: float) -> AxisLayers:
    """Return the layers along an axis within a grid or a subdomain."""
    columns, rows, planes = grid.shape
    nodes, whole, first = grid.shape[axis], grid.whole, grid.first[axis]
    ends = whole.shape[axis] - 1
    found = []  # side, number of cells, and local nodes of each layer within this grid
    for side, cells in enumerate(whole.layers[axis]):
        # A layer at a high side has one additional node, the innermost, of depth 0: its half node has depth 1/2. Both
        # sides use that length.
        inside = min(nodes, cells + 1 - first if side == 0 else first + nodes - (ends - cells))
        if cells and inside > 1 - side:
            found.append((side, cells, inside))
    depths = max((inside for _, _, inside in found), default=1)
    if axis == 0:
        # Widths are multiples of the vector length; the padding has a profile of zeros and therefore no effect.
        depths = min(-(-depths // VECTOR) * VECTOR, nodes)
    starts, lines = [], []
    for side, cells, _ in found:
        starts.append(0 if side == 0 else nodes - depths)
        position = first + starts[-1] + np.arange(depths, dtype=float)
        # Depths of nodes and half nodes; the last half node at a high side is beyond the last node, hence zero.
        node_depth = cells - position if side == 0 else position - (ends - cells)
        half_depth = node_depth - 0.5 if side == 0 else node_depth + 0.5
        both = np.stack([half_depth, node_depth]) * grid.spacing
        lines.append(profile(both, cells * grid.spacing, layer, time_step))
    if axis == 0:
        table = np.stack(lines, axis=2) if lines else np.zeros((3, 2, 0, depths))
    else:
        line = np.concatenate(lines, axis=2) if lines else np.zeros((3, 2, 0))
        table = line[..., None]
    count = len(found)
    memory = {
        0: (planes, rows, 3 * count, depths),
        1: (planes, count * depths, 3, columns),
        2: (count * depths, rows, 3, columns),
    }[axis]
    return AxisLayers(tuple(side for side, _, _ in found), tuple(starts), table[:, 0], table[:, 1], memory)
