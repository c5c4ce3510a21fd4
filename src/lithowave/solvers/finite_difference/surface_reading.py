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
from dataclasses import dataclass, replace

import numpy as np

from lithowave.solvers.finite_difference.fields import STAGGER
from lithowave.solvers.finite_difference.line_weights import DEEP, Lines, polynomial_weights

NEAR_SOURCE = 3.0  # cells
HERMITE = (9.0 / 8.0, -1.0 / 8.0, -3.0 / 8.0)  # of the first two half nodes and of h times the upward slope
LINEAR = (1.0, 0.0, -1.0 / 2.0)
SECOND = (-1.0, 2.0, -1.0)  # second difference, negative


@dataclass(frozen=True)
class Blocks:
    """Weights of boxes of points of a field, one box of the same shape for each of m positions.

    owner : (m,) index of the position. first : (m, 3) first indices along x, y, z. weight : (m, planes, rows, columns).
    """

    field: str
    owner: np.ndarray
    first: np.ndarray
    weight: np.ndarray

    def moved(self, field: str, shift: tuple[int, int, int], weight: np.ndarray) -> Blocks:
        """Return blocks of a field whose first points are shifted along x, y, z, with other weights."""
        return Blocks(field, self.owner, self.first + np.array(shift), weight)


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


@dataclass(frozen=True)
class FreeSurface:
    """Data for reading velocities at the free surface.

    ratios : function of the node indices (..., columns) along x and (..., rows) along y that returns c13 / c33 and
    c23 / c33 there, (2, ..., rows, columns). coefficients : coefficients of the stencil. shape : nodes of the global
    grid along x and y.
    """

    ratios: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    gains: Gains
    shape: tuple[int, int]


def outer(field: str, owner: np.ndarray, x: Lines, y: Lines, z: Lines) -> Blocks:
    """Return the blocks whose weights are products of those along the axes; all lines of an axis have equal counts."""
    first = np.stack([x.first, y.first, z.first], axis=1)
    return Blocks(field, owner, first, z.used()[:, :, None, None] * _flat(x, y)[:, None])


def _flat(x: Lines, y: Lines) -> np.ndarray:
    """Return the products (n, rows, columns) of the weights along x and y."""
    return y.used()[:, :, None] * x.used()[:, None]


def read_horizontal(surface: FreeSurface, blocks: Blocks, top: int) -> list[Blocks]:
    """Return the corrections of the weights of vx or vy on the plane of the surface, the last one of nodes.

    For vx: -h^2 gain d_x (d_x vx + d_y vy); vy likewise.
    """
    plane, gain = top - blocks.first[:, 2], surface.gains.horizontal
    some = (plane >= 0) & (plane < blocks.weight.shape[1])
    some &= _has_room(surface, blocks.field, blocks.first, blocks.weight.shape[2:])
    if gain == 0.0 or not some.any():
        return []
    plane, first = plane[some], blocks.first[some]
    first[:, 2] = top
    flat = Blocks(blocks.field, blocks.owner[some], first, blocks.weight[some, plane][:, None])
    weight = gain * flat.weight
    if blocks.field == "vx":
        second = flat.moved("vx", (-1, 0, 0), _convolved(weight, (1.0,), SECOND))
        return [second, flat.moved("vy", (0, -1, 0), _convolved(weight, (-1.0, 1.0), (1.0, -1.0)))]
    second = flat.moved("vy", (0, -1, 0), _convolved(weight, SECOND, (1.0,)))
    return [second, flat.moved("vx", (-1, 0, 0), _convolved(weight, (1.0, -1.0), (-1.0, 1.0)))]


def read_vertical(
    surface: FreeSurface, owner: np.ndarray, x: Lines, y: Lines, depth: np.ndarray, top: int, clearance: np.ndarray
) -> list[Blocks]:
    """Return the blocks that read vz at depths (n,), in cells, from equally many points.

    x, y : lines along x and y. top : plane of the surface; half node n of z is half a cell above plane n. clearance :
    (n,) cells to the nearest source.
    """
    points = np.concatenate([[0.0], 0.5 + np.arange(top)])
    index, weights = polynomial_weights(depth, points, int(points_along_z(depth[:1])[0]))
    flat = Blocks("vz", owner, np.stack([x.first, y.first, np.full(owner.size, top)], axis=1), _flat(x, y)[:, None])
    found = []
    for number, weight in enumerate(weights.T):
        below, one = index + number, replace(flat, weight=weight[:, None, None, None] * flat.weight)
        at_surface = below == 0
        if at_surface.any():
            found += _surface_value(surface, _some(one, at_surface), clearance[at_surface])
        deeper = _some(one, ~at_surface)
        deeper.first[:, 2] -= below[~at_surface]
        found.append(deeper)
    return found


def points_along_z(depth: np.ndarray) -> np.ndarray:
    """Return the number of points from which vz is read at depths (n,), in cells."""
    return np.where(depth > 1e-9, np.where(depth < DEEP, 4, 6), 1)


def _some(blocks: Blocks, rows: np.ndarray) -> Blocks:
    return Blocks(blocks.field, blocks.owner[rows], blocks.first[rows], blocks.weight[rows])


def _surface_value(surface: FreeSurface, flat: Blocks, clearance: np.ndarray) -> list[Blocks]:
    """Return the blocks that read vz on the surface; flat : weights (m, 1, rows, columns) of the nodes there."""
    weight, (rows, columns) = flat.weight, flat.weight.shape[2:]
    linear = (clearance < NEAR_SOURCE)[:, None]
    first, second, slope = np.where(linear, LINEAR, HERMITE).T[..., None, None, None]
    blocks = [flat.moved("vz", (0, 0, -1), first * weight), flat.moved("vz", (0, 0, -2), second * weight)]
    gain = surface.gains.vertical_at(clearance) * _has_room(surface, "vz", flat.first, (rows, columns))
    laplacian = _convolved(weight, (0.0, 1.0, 0.0), SECOND) + _convolved(weight, SECOND, (0.0, 1.0, 0.0))
    blocks.append(flat.moved("vz", (-1, -1, -1), gain[:, None, None, None] * laplacian))
    x, y = (flat.first[:, axis, None] + np.arange(count) for axis, count in enumerate((columns, rows)))
    sloped_x, sloped_y = slope[:, 0] * weight[:, 0] * surface.ratios(x, y)
    along_x, along_y = (
        derivative_matrices(nodes, surface.coefficients, count)
        for nodes, count in zip((x, y), surface.shape, strict=True)
    )
    reach = len(surface.coefficients)
    blocks.append(flat.moved("vx", (-reach, 0, 0), (sloped_x @ along_x)[:, None]))
    blocks.append(flat.moved("vy", (0, -reach, 0), (along_y.swapaxes(1, 2) @ sloped_y)[:, None]))
    return blocks


def derivative_matrices(nodes: np.ndarray, coefficients: np.ndarray, count: int) -> np.ndarray:
    """Return h d/dn at contiguous nodes (m, nodes) of a line of `count`, (m, nodes, half nodes from reach before the
    first one).

    Where the stencil does not fit, next to a face, two half nodes are used, and on a rigid face, where the normal
    velocity vanishes, one.
    """
    reach, (size, width) = len(coefficients), nodes.shape
    matrices = np.zeros((size, width, width + 2 * reach - 1))
    full = np.concatenate([-coefficients[::-1], coefficients])
    middle = slice(reach - 1, reach + 1)
    for row, node in enumerate(nodes.T):
        lines = matrices[:, row, row : row + 2 * reach]
        inside = (node >= reach) & (node < count - reach)
        lines[inside] = full
        lines[~inside, middle] = np.where((node > 0) & (node < count - 1), [[-1.0], [1.0]], [[0.0], [2.0]]).T[~inside]
        lines[node >= count - 1, middle] = [-2.0, 0.0]
    return matrices


def _convolved(weight: np.ndarray, rows: tuple[float, ...], columns: tuple[float, ...]) -> np.ndarray:
    """Return weights (..., rows, columns) convolved with a line along each axis; larger by their lengths less one."""
    height, width = weight.shape[-2:]
    found = np.zeros((*weight.shape[:-2], height + len(rows) - 1, width + len(columns) - 1))
    for row, column in np.argwhere(np.outer(rows, columns)):
        found[..., row : row + height, column : column + width] += rows[row] * columns[column] * weight
    return found


def _has_room(surface: FreeSurface, field: str, first: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """True (m,) if the corrections, which reach one point further, remain on the grid.

    first : (m, 3) first indices. shape : rows and columns.
    """
    end = np.array(surface.shape) - np.array(STAGGER[field][:2]) - 1
    return ((first[:, :2] > 0) & (first[:, :2] + np.array(shape[::-1]) < end)).all(axis=1)
