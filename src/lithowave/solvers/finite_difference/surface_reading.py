r"""Velocities at a free surface, read from grid points on it and below.

Half nodes of vz are half a cell below the surface. The vanishing traction gives the slope of vz there,

.. math:: \partial_z v_z = -r\,(\partial_x v_x + \partial_y v_y), \qquad r = \lambda / (\lambda + 2\mu)

(in an anisotropic medium c13 / c33 with the derivative along x, and c23 / c33 with that along y), so that a polynomial
through two half nodes reads vz from points within a cell and a half,

.. math:: v_z(0) = \tfrac98 v_z(-\tfrac12) - \tfrac18 v_z(-\tfrac32) - \tfrac38 h r\,(\partial_x v_x + \partial_y v_y),

where the weights of eight half nodes would reach into the near field of a shallow source.

The closures of the stencils (`closures.py`) underestimate waves and static fields at the surface by about (k h)^2 / 15
and (k h)^2 / 20, with k the horizontal wavenumber. These factors follow from comparison with a grid that is six times
finer, for P and S waves and static fields of wavelengths down to six cells and vp/vs from 1.75 to 4; orders 4, 6 and 8
differ little. The correction is

.. math:: v_h \mathrel{-}= \tfrac{h^2}{15} \nabla_h (\nabla_h \cdot v_h), \qquad
    v_z \mathrel{-}= \tfrac{h^2}{20} \nabla_h^2 v_z .

The field of a source a few cells away is not resolved below the surface, so that fewer points are used there: the
correction of vz is reduced (`Gains`), and within `NEAR_SOURCE` cells only the uppermost half nodes are read,
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lithowave.solvers.finite_difference.fields import STAGGER

NEAR_SOURCE = 3.0  # cells
DEEP = 4.0  # cells from which vz is read from 6 points along z instead of 4
HERMITE = (9.0 / 8.0, -1.0 / 8.0, -3.0 / 8.0)  # of the first two half nodes and of h times the upward slope
LINEAR = (1.0, 0.0, -1.0 / 2.0)

Line = tuple[int, np.ndarray]  # first index and weights


@dataclass(frozen=True)
class Block:
    """Weights (planes, rows, columns) of a box of points of a field; first : its first indices along x, y, z."""

    field: str
    first: tuple[int, int, int]
    weight: np.ndarray


@dataclass(frozen=True)
class Gains:
    """Strength of the correction of velocities at the surface.

    horizontal, vertical : factors of h^2. start : cells from a source up to which vz is not corrected; the correction
    is complete two cells further.
    """

    horizontal: float
    vertical: float
    start: float

    def vertical_at(self, clearance: np.ndarray | float) -> np.ndarray | float:
        """Return the factor of vz at these distances, in cells, from the nearest source."""
        return self.vertical * np.clip((clearance - self.start) / 2.0, 0.0, 1.0)


# At order 2 dispersion is larger than the correction. Orders 6 and 8 use a slightly larger distance.
GAINS = {
    2: Gains(0.0, 0.0, 0.0),
    4: Gains(1 / 15, 1 / 20, 2.5),
    6: Gains(1 / 15, 1 / 20, 1.5),
    8: Gains(1 / 15, 1 / 20, 1.0),
}
FULL_GAIN = 4.5  # cells from a source beyond which nothing depends on it


@dataclass(frozen=True)
class FreeSurface:
    """Data for reading velocities at the free surface.

    ratios : function of the node indices along x and y that returns c13 / c33 and c23 / c33 there, (2, rows, columns).
    coefficients : coefficients of the stencil. shape : nodes of the global grid along x and y.
    """

    ratios: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    gains: Gains
    shape: tuple[int, int]


def outer(field: str, x: Line, y: Line, z: Line) -> Block:
    """Return the block whose weights are products of those along the axes."""
    return Block(field, (x[0], y[0], z[0]), z[1][:, None, None] * y[1][:, None] * x[1])


def polynomial_weights(position: float, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and weights of the polynomial through the `count` ascending points nearest to a position."""
    count = min(count, len(points))
    start = int(np.searchsorted(points, position, side="right")) - (count + 1) // 2
    index = np.arange(count) + min(max(start, 0), len(points) - count)
    chosen = points[index]
    differences = chosen[:, None] - chosen + np.eye(count)
    factors = np.where(np.eye(count, dtype=bool), 1.0, (position - chosen) / differences)
    return index, factors.prod(axis=1)


def read_horizontal(surface: FreeSurface, block: Block, top: int) -> list[Block]:
    """Return the corrections of the weights of vx or vy on the plane of the surface, the last one of nodes.

    For vx: -h^2 gain d_x (d_x vx + d_y vy); vy likewise.
    """
    plane, gain = top - block.first[2], surface.gains.horizontal
    if gain == 0.0 or not 0 <= plane < len(block.weight):
        return []
    weight, along = gain * block.weight[plane], 0 if block.field == "vx" else 1
    if not _has_room(surface, block.field, block.first, weight):
        return []
    x, y, _ = block.first
    if along == 0:
        second = _convolved(weight, [1.0], [-1.0, 2.0, -1.0])
        cross = Block("vy", (x, y - 1, top), _convolved(weight, [-1.0, 1.0], [1.0, -1.0])[None])
        return [Block("vx", (x - 1, y, top), second[None]), cross]
    second = _convolved(weight, [-1.0, 2.0, -1.0], [1.0])
    cross = Block("vx", (x - 1, y, top), _convolved(weight, [1.0, -1.0], [-1.0, 1.0])[None])
    return [Block("vy", (x, y - 1, top), second[None]), cross]


def read_vertical(surface: FreeSurface, lines: list[Line], depth: float, top: int, clearance: float) -> list[Block]:
    """Return the blocks that read vz at a depth, in cells.

    lines : along x and y. top : plane of the surface; half node n of z is half a cell above plane n. clearance : cells
    to the nearest source.
    """
    points = np.concatenate([[0.0], 0.5 + np.arange(top)])
    count = (4 if depth < DEEP else 6) if depth > 1e-9 else 1
    index, weights = polynomial_weights(depth, points, count)
    horizontal = lines[1][1][:, None] * lines[0][1]
    blocks = []
    for number, weight in zip(index.tolist(), weights.tolist(), strict=True):
        if number == 0:
            blocks += _surface_value(surface, lines, weight * horizontal, top, clearance)
        elif weight:
            blocks.append(Block("vz", (lines[0][0], lines[1][0], top - number), weight * horizontal[None]))
    return blocks


def _surface_value(
    surface: FreeSurface, lines: list[Line], weight: np.ndarray, top: int, clearance: float
) -> list[Block]:
    """Return the blocks that read vz on the surface; weight : (rows, columns) of the nodes there."""
    (x, _), (y, _) = lines
    first, second, slope = LINEAR if clearance < NEAR_SOURCE else HERMITE
    blocks = [Block("vz", (x, y, top - 1), first * weight[None])]
    if second:
        blocks.append(Block("vz", (x, y, top - 2), second * weight[None]))
    gain = surface.gains.vertical_at(clearance)
    if gain and _has_room(surface, "vz", (x, y, 0), weight):
        laplacian = _convolved(weight, [0.0, 1.0, 0.0], [-1.0, 2.0, -1.0])
        laplacian += _convolved(weight, [-1.0, 2.0, -1.0], [0.0, 1.0, 0.0])
        blocks.append(Block("vz", (x - 1, y - 1, top - 1), gain * laplacian[None]))
    columns, rows = x + np.arange(weight.shape[1]), y + np.arange(weight.shape[0])
    sloped_x, sloped_y = slope * weight * surface.ratios(columns, rows)
    along_x, along_y = (
        derivative_matrix(numbers, surface.coefficients, count)
        for numbers, count in zip((columns, rows), surface.shape, strict=True)
    )
    reach = len(surface.coefficients)
    blocks.append(Block("vx", (x - reach, y, top), (sloped_x @ along_x)[None]))
    blocks.append(Block("vy", (x, y - reach, top), (along_y.T @ sloped_y)[None]))
    return blocks


def derivative_matrix(nodes: np.ndarray, coefficients: np.ndarray, count: int) -> np.ndarray:
    """Return h d/dn at some contiguous nodes of a line of `count`, (nodes, half nodes from reach before the first one).

    Where the stencil does not fit, next to a face, two half nodes are used, and on a rigid face, where the normal
    velocity vanishes, one.
    """
    reach = len(coefficients)
    matrix = np.zeros((len(nodes), len(nodes) + 2 * reach - 1))
    for row, node in enumerate(nodes.tolist()):
        if reach <= node < count - reach:
            line, first = np.concatenate([-coefficients[::-1], coefficients]), row
        elif 0 < node < count - 1:
            line, first = np.array([-1.0, 1.0]), row + reach - 1
        else:
            line, first = (np.array([2.0]), row + reach) if node == 0 else (np.array([-2.0]), row + reach - 1)
        matrix[row, first : first + len(line)] = line
    return matrix


def _convolved(weight: np.ndarray, rows: list[float], columns: list[float]) -> np.ndarray:
    """Return weights (rows, columns) convolved with a line along each axis; larger by their lengths less one."""
    found = np.apply_along_axis(np.convolve, 0, weight, rows)
    return np.apply_along_axis(np.convolve, 1, found, columns)


def _has_room(surface: FreeSurface, field: str, first: tuple[int, ...], weight: np.ndarray) -> bool:
    """True if the corrections, which reach one point further, remain on the grid."""
    return all(
        first[axis] > 0 and first[axis] + weight.shape[1 - axis] < surface.shape[axis] - STAGGER[field][axis] - 1
        for axis in range(2)
    )
