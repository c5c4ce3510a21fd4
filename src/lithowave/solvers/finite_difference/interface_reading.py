r"""Stresses and velocities at receivers beside interfaces of the medium.

Across an interface with the normal z, the stresses along it, xx, yy and xy, are discontinuous, and weights that read
them from nodes on both sides give a mean of the sides: up to 1.4 times the stress itself off. Continuous are the
tractions and the strains along the interface. The latter follow at each node from the stresses there and the moduli C
of the grid, and the stresses at the receiver from the strains and the moduli c of the medium there:

.. math::
    \begin{pmatrix} \sigma_{xx} \\ \sigma_{yy} \end{pmatrix} = p \sum_k w_k P_k^{-1} \left[
    \begin{pmatrix} \sigma_{xx} \\ \sigma_{yy} \end{pmatrix}_k - \begin{pmatrix} C_{13} \\ C_{23} \end{pmatrix}_k
    \frac{\sigma_{zz,k}}{C_{33,k}} \right] + \begin{pmatrix} c_{13} \\ c_{23} \end{pmatrix}
    \sum_k w_k \frac{\sigma_{zz,k}}{c_{33}}, \qquad
    \sigma_{xy} = c_{66} \sum_k w_k \frac{\sigma_{xy,k}}{C_{66,k}},

with the moduli of plane stress :math:`p_{11} = c_{11} - c_{13}^2 / c_{33}`, :math:`p_{12} = c_{12} - c_{13} c_{23} /
c_{33}` of the medium, and P of the grid. Slopes along z jump at the interface; the weights are exact for these jumps,
also those of velocities (`line_weights.windowed_sinc`), except near a free or rigid face.

A receiver exactly on an interface has the stresses below it. The normal of an interface is taken as vertical.
"""

from __future__ import annotations

import numpy as np

from lithowave.solvers.finite_difference.line_weights import HALF_WIDTH, NEAR_FACE
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.source_interfaces import SourceColumns
from lithowave.solvers.finite_difference.surface_reading import Blocks

NORMAL = ("sxx", "syy", "szz")


class InterfaceReading:
    """Factors of weights of points beside interfaces.

    Parameters
    ----------
    columns : moduli near the points. positions : (n, 3), m. stress : True if stresses are read, too.

    Attributes
    ----------
    present : True (n,) for points beside an interface. kinks : (n, m) interfaces, in cells along z from node 0, NaN for
    none.
    """

    def __init__(self, columns: SourceColumns, stencil: PointStencil, positions: np.ndarray, stress: bool) -> None:
        whole = stencil.grid.whole
        place, self.present = whole.index(2, positions[:, 2]), np.zeros(len(positions), bool)
        deep = whole.shape[2] - 1 - place >= NEAR_FACE
        some = np.flatnonzero(deep | stress | (stencil.surface is None))
        found = columns.interfaces(positions[some])
        self.present[some] = found.present
        self.kinks = np.full((len(positions), found.z.shape[1]), np.nan)
        self.kinks[some] = whole.index(2, found.z)
        if stress and self.present.any():
            rows = np.flatnonzero(self.present)
            self._row = np.cumsum(self.present) - 1
            start = np.floor(place[rows]).astype(np.int64) - HALF_WIDTH + 1
            self._first = np.clip(start, 0, max(whole.shape[2] - 2 * HALF_WIDTH, 0))
            here = columns.at_sources(positions[rows], np.ones(rows.size, bool))
            there = columns.at_nodes(positions[rows], np.stack([self._first] * 2, axis=1), 2 * HALF_WIDTH)
            self._shear = here[8][:, None] / there[8]
            (flat, ratio), (grid_flat, grid_ratio) = _plane_stress(here[..., None]), _plane_stress(there)
            self._along = flat @ np.linalg.inv(grid_flat)  # (n, nodes, 2, 2)
            self._across = ratio - (self._along @ grid_ratio[..., None])[..., 0]

    def blocks(self, blocks: Blocks) -> list[Blocks]:
        """Return the blocks that read the field of some blocks at points beside interfaces."""
        if blocks.field not in ("sxx", "syy", "sxy"):
            return [blocks]
        row = self._row[blocks.owner, None]
        nodes = blocks.first[:, 2, None] - self._first[row] + np.arange(blocks.weight.shape[1])
        if blocks.field == "sxy":
            factors = {"sxy": self._shear[row, nodes]}
        else:
            component = NORMAL.index(blocks.field)
            along = np.moveaxis(self._along[row, nodes, component], -1, 0)
            factors = dict(zip(NORMAL, (*along, self._across[row, nodes, component]), strict=True))
        return [
            blocks.moved(name, (0, 0, 0), factor[..., None, None] * blocks.weight) for name, factor in factors.items()
        ]


def _plane_stress(moduli: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moduli of plane stress (n, nodes, 2, 2), and c13 / c33 and c23 / c33 (n, nodes, 2); moduli : (9, n,
    nodes), see `source_interfaces.ROWS`."""
    c13, c23, c33, _, _, c11, c22, c12, _ = moduli
    x, y = c13 / c33, c23 / c33
    flat = np.array([[c11 - c13 * x, c12 - c13 * y], [c12 - c13 * y, c22 - c23 * y]])
    return np.moveaxis(flat, (0, 1), (-2, -1)), np.stack([x, y], axis=-1)
