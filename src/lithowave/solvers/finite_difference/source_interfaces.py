r"""Moment tensors beside interfaces of the medium.

By reciprocity a moment tensor M reads M : strain at its position. Across an interface the strains along its normal z
are discontinuous, and weights that spread M over nodes on both sides read a mean of them: within two cells of an
interface with a ratio of shear moduli of 3.7 the seismograms were wrong by up to 143%. Continuous are the tractions
and the strains along the interface. These are read, and the strains at the source follow with the moduli c of the
medium there,

.. math::
    M : \varepsilon = \Big(M_{xx} - \frac{c_{13}}{c_{33}} M_{zz}\Big) \varepsilon_{xx}
    + \Big(M_{yy} - \frac{c_{23}}{c_{33}} M_{zz}\Big) \varepsilon_{yy} + 2 M_{xy} \varepsilon_{xy}
    + \frac{M_{zz}}{c_{33}} \sigma_{zz} + \frac{M_{xz}}{c_{55}} \sigma_{xz} + \frac{M_{yz}}{c_{44}} \sigma_{yz}.

The source is the transpose of this reading. Reading a strain at a node is a stress change with the weight of the node,
reading a traction is the stress change due to a strain, so with the moduli C of the node:

.. math::
    -\Delta\sigma_{zz} = w\,\frac{C_{33}}{c_{33}} M_{zz}, \quad
    -\Delta\sigma_{xx} = w \Big(M_{xx} - \frac{c_{13} - C_{13}}{c_{33}} M_{zz}\Big), \quad
    -\Delta\sigma_{xz} = w\,\frac{C_{55}}{c_{55}} M_{xz},

and so on, which is -w M in a homogeneous medium. The slopes along z of the continuous quantities jump at the interface;
the weights are exact for these jumps, too (`line_weights.windowed_sinc`).

The normal of an interface is taken as vertical: for one that dips, the weights are those of a horizontal interface at
the same distance along z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.description.media import LayeredMedium, Medium
from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.attenuation import unrelaxed_simulation
from lithowave.solvers.finite_difference.choose_law import CONTRAST
from lithowave.solvers.finite_difference.effective_medium import LEVELS, isotropic, layer_media
from lithowave.solvers.finite_difference.fields import LawFields
from lithowave.solvers.finite_difference.medium import PlaneAverages

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

REACH = 5.0  # cells along z from a source within which an interface changes its weights
JUMP = 1.05  # ratio of moduli of an interface
PROBES = 4  # samples per cell in the search for interfaces
BISECTIONS = 24
MOST = 2  # interfaces near a source; the nearest ones
AT_ONCE = 4096  # sources that are processed together
ON_INTERFACE = 1e-6  # cells within which a source is on an interface
# Rows of the moduli in the order C13, C23, C33, C55, C44, C11, C22, C12, C66; of a medium (10, ...) as in
# `effective_medium`. C55 and C44 are those of half nodes along z.
ROWS = [4, 5, 2, 7, 6, 0, 1, 3, 8]
HALF = (3, 4)


@dataclass(frozen=True)
class Interfaces:
    """Interfaces near sources.

    z : (n, MOST), m, ascending by distance from each source; NaN for none. ratio : (n, MOST) of the moduli on both
    sides, at least 1.
    """

    z: np.ndarray
    ratio: np.ndarray

    @property
    def present(self) -> np.ndarray:
        """True (n,) for sources near an interface."""
        return np.isfinite(self.z[:, 0])


def find_interfaces(medium: Medium, positions: np.ndarray, spacing: float, limits: tuple[float, float]) -> Interfaces:
    """Return the interfaces within `REACH` cells along z from positions (n, 3), m; limits : of the domain along z."""
    found = Interfaces(np.full((len(positions), MOST), np.nan), np.ones((len(positions), MOST)))
    for first in range(0, len(positions), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        _find(medium, positions[part], spacing, limits, found.z[part], found.ratio[part])
    return found


def _find(
    medium: Medium, positions: np.ndarray, spacing: float, limits: tuple[float, float], z: np.ndarray, ratio: np.ndarray
) -> None:
    """Compute the rows z and ratio (n, MOST) of `find_interfaces`."""
    x, y = positions[:, 0], positions[:, 1]

    def logarithms(row: Any, level: np.ndarray) -> np.ndarray:
        shape = [-1] + [1] * (level.ndim - 1)
        kappa, mu, _ = medium.moduli(x[row].reshape(shape), y[row].reshape(shape), np.clip(level, *limits))
        return np.log(np.stack([kappa + 4.0 / 3.0 * mu, mu]))

    def changes(row: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.abs(logarithms(row, high) - logarithms(row, low)).max(axis=0)

    levels = positions[:, 2:] + spacing * np.arange(-REACH, REACH + 0.5 / PROBES, 1.0 / PROBES)
    steps = np.abs(np.diff(logarithms(slice(None), levels))).max(axis=0)
    row, column = np.nonzero(steps > np.log(JUMP))
    if not len(row):
        return
    low, high = levels[row, column], levels[row, column + 1]
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        upper = changes(row, middle, high) > changes(row, low, middle)
        low, high = np.where(upper, middle, low), np.where(upper, high, middle)
    middle = 0.5 * (low + high)
    across = changes(row, middle - 0.5 * spacing, middle + 0.5 * spacing)
    sharp = (changes(row, low, high) > np.log(JUMP)) | (across > np.log(CONTRAST))
    row, middle, across, weight = (values[sharp] for values in (row, middle, across, steps[row, column]))
    # Changes less than a cell apart are one interface.
    starts = np.flatnonzero(np.append(True, (np.diff(row) != 0) | (np.diff(middle) > spacing))[: len(row)])
    if not len(starts):
        return
    place = np.add.reduceat(middle * weight, starts) / np.add.reduceat(weight, starts)
    across, row = np.maximum.reduceat(across, starts), row[starts]
    distance = np.abs(place - positions[row, 2])
    order = np.lexsort((distance, row))
    row, place, across = row[order], place[order], across[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    near = rank < MOST
    z[row[near], rank[near]], ratio[row[near], rank[near]] = place[near], np.exp(across[near])


class SourceColumns:
    """Moduli of the medium at sources and receivers near interfaces, and of the grid above and below them.

    Parameters
    ----------
    simulation : material and domain. law : constitutive law of the grid. grid : of any rank.
    """

    def __init__(self, simulation: Simulation, law: LawFields, grid: Grid) -> None:
        self._simulation, self._law, self._grid = unrelaxed_simulation(simulation), law, grid.whole
        self._medium, self._limits = self._simulation.material.medium, simulation.domain.z

    def interfaces(self, positions: np.ndarray) -> Interfaces:
        """Return the interfaces near positions (n, 3), m."""
        return find_interfaces(self._medium, positions, self._grid.spacing, self._limits)

    def at_sources(self, positions: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Return the moduli (9, n), see `ROWS`, of the medium at positions (n, 3), m; on interfaces those below (n,) or
        above."""
        x, y, z = positions.T
        z = np.clip(z + ON_INTERFACE * self._grid.spacing * np.where(below, -1.0, 1.0), *self._limits)
        if isinstance(self._medium, LayeredMedium):
            return layer_media(self._medium)[:, self._medium.layer_of(z)][ROWS]
        return isotropic(*self._medium.moduli(x, y, z))[ROWS]

    def at_nodes(self, positions: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
        """Return the moduli (9, n, count), see `ROWS`, of the grid at the horizontal places of positions (n, 3), m.

        first : (n, 2) first node along z for normal stresses, and first half node for shear stresses.
        """
        nodes = first[:, :, None] + np.arange(count)
        if isinstance(self._medium, LayeredMedium):
            return self._of_layers(nodes)
        found = np.empty((len(ROWS), len(positions), count))
        for begin in range(0, len(positions), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            found[:, part] = self._of_samples(positions[part], nodes[part])
        return found

    def _plane(self, node: np.ndarray) -> np.ndarray:
        """Return z of nodes, m."""
        return self._grid.origin[2] + self._grid.spacing * node

    def _of_layers(self, nodes: np.ndarray) -> np.ndarray:
        """Return the moduli (9, n, count) at nodes and half nodes (n, 2, count) of flat layers."""
        corner = np.zeros(1), np.zeros((1, 1))
        averages = PlaneAverages(self._simulation, self._grid.spacing, self._law, *corner)
        low, end = int(nodes.min()), int(nodes.max()) + 2
        values = [averages(float(self._plane(node))) for node in range(low, end)]
        table = {name: np.array([float(np.asarray(one[name]).flat[0]) for one in values]) for name in values[0]}
        if self._law.name == "isotropic":
            mu, lam = 1.0 / table["compliance"], table["lam"]
            half = 2.0 / (table["compliance"] + np.append(table["compliance"][1:], table["compliance"][-1]))
            columns = [lam, lam, lam + 2.0 * mu, half, half, lam + 2.0 * mu, lam + 2.0 * mu, lam, mu]
        else:
            shear = [1.0 / table.get(name, table.get("compliance")) for name in ("compliance_xz", "compliance_yz")]
            c11, c13, c66 = table["c11"], table["c13"], 1.0 / table["compliance_xy"]
            c22, c12 = table.get("c22", c11), table.get("c12", c11 - 2.0 * c66)
            columns = [c13, table.get("c23", c13), table["c33"], *shear, c11, c22, c12, c66]
        at = nodes - low
        return np.stack([column[at[:, int(number in HALF)]] for number, column in enumerate(columns)])

    def _of_samples(self, positions: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the moduli (9, n, count) at nodes and half nodes (n, 2, count) from samples of a column."""
        count = nodes.shape[2]
        start = nodes[:, :, 0].min(axis=1) - 1
        cells = int((nodes[:, :, -1].max(axis=1) - start).max()) + 2
        level = self._plane(start[:, None] + (np.arange(cells * LEVELS) + 0.5) / LEVELS)
        kappa, mu, _ = self._medium.moduli(positions[:, :1], positions[:, 1:2], np.clip(level, *self._limits))
        stiff, first = kappa + 4.0 / 3.0 * mu, (nodes[:, :, 0] - start[:, None]) * LEVELS
        row = np.arange(len(positions))[:, None, None]

        def window(values: np.ndarray, half: int, shift: int, length: int) -> np.ndarray:
            index = first[:, half, None, None] + LEVELS * np.arange(count)[:, None] + shift + np.arange(length)
            return values[row, index]

        def mean(values: np.ndarray, half: int, shift: int, weights: np.ndarray) -> np.ndarray:
            return window(values, half, shift, len(weights)) @ weights

        whole = np.full(LEVELS, 1.0 / LEVELS)
        if self._law.name == "isotropic":
            bulk, shear = (1.0 / mean(1.0 / values, 0, -LEVELS // 2, whole) for values in (kappa, mu))
            halves = [1.0 / mean(1.0 / mu, 1, shift, whole) for shift in (-LEVELS // 2, LEVELS // 2)]
            lam, half = bulk - 2.0 / 3.0 * shear, 2.0 / (1.0 / halves[0] + 1.0 / halves[1])
            flat = lam + 2.0 * shear
            return np.stack([lam, lam, flat, half, half, flat, flat, lam, shear])
        falling = 1.0 - np.abs((np.arange(2 * LEVELS) + 0.5) / LEVELS - 1.0)
        c33, half = 1.0 / mean(1.0 / stiff, 0, -LEVELS // 2, whole), 1.0 / mean(1.0 / mu, 1, 0, whole)
        ratio = mean((stiff - 2.0 * mu) / stiff, 0, -LEVELS, falling / LEVELS)
        # The weights of the other means decrease linearly in the integral of the compliance, see `effective_medium`.
        soft = window(1.0 / mu, 0, -LEVELS, 2 * LEVELS)
        parts = [soft[..., :LEVELS], soft[..., : LEVELS - 1 : -1]]
        below, above = ((np.cumsum(part, axis=-1) - 0.5 * part) / part.sum(axis=-1, keepdims=True) for part in parts)
        bent = np.concatenate([below, above[..., ::-1]], axis=-1) / LEVELS

        def plane(values: np.ndarray) -> np.ndarray:
            return (window(values, 0, -LEVELS, 2 * LEVELS) * bent).sum(axis=-1)

        normal, c66 = plane(4.0 * mu * (1.0 - mu / stiff)), plane(mu)
        c11, c12 = normal + ratio**2 * c33, plane(2.0 * mu * (1.0 - 2.0 * mu / stiff)) + ratio**2 * c33
        return np.stack([ratio * c33, ratio * c33, c33, half, half, c11, c11, c12, c66])


@dataclass(frozen=True)
class MomentParts:
    """Parts of moment tensors, each with a product of lines of weights: one part of a source, or several beside an
    interface.

    source : (m,) index of the source, ascending. moment : (m, 6) factor of each stress change. share : (m, 6) the part
    of the moment tensor that it represents. gain : (m, 2, count) factors of the weights along z at nodes and half
    nodes.
    """

    source: np.ndarray
    moment: np.ndarray
    share: np.ndarray
    gain: np.ndarray


def whole_moments(moments: np.ndarray, count: int) -> MomentParts:
    """Return moment tensors (n, 6) as one part each."""
    return MomentParts(np.arange(len(moments)), moments, moments, np.ones((len(moments), 2, count)))


def parts_of_moments(moments: np.ndarray, here: np.ndarray, there: np.ndarray) -> MomentParts:
    """Return the parts of moment tensors (n, 6) beside interfaces.

    here : (9, n) moduli of the medium at the sources, see `ROWS`. there : (9, n, count) those of the grid.
    """
    parts = whole_moments(moments, there.shape[2])
    ratio, (xx, yy, zz, xy, xz, yz), none = here[:2] / here[2], moments.T, np.zeros(len(moments))
    flat = np.stack([xx - ratio[0] * zz, yy - ratio[1] * zz, none, xy, none, none], axis=1)
    columns = [(flat, flat, parts.gain)]
    for component in (0, 1):  # normal stresses due to the strain along z
        moment, share = np.zeros((2, len(moments), 6))
        moment[:, component], share[:, component] = zz, ratio[component] * zz
        columns.append((moment, share, np.stack([there[component] / here[2][:, None]] * 2, axis=1)))
    for component, values, normal in ((4, xz, zz), (5, yz, none)):
        moment = np.zeros((len(moments), 6))
        moment[:, component], moment[:, 2] = values, normal
        gains = [there[number] / here[number][:, None] for number in (2, component - 1)]
        columns.append((moment, moment, np.stack(gains, axis=1)))
    columns = _joined(columns, (1, 2), (3, 4))
    moment, share, gain = (np.concatenate(column) for column in zip(*columns, strict=True))
    source = np.tile(np.arange(len(moments)), len(columns))
    used = np.flatnonzero((moment != 0).any(axis=1))
    order = used[np.argsort(source[used], kind="stable")]
    return MomentParts(source[order], moment[order], share[order], gain[order])


def _joined(columns: list[tuple[np.ndarray, ...]], *pairs: tuple[int, int]) -> list[tuple[np.ndarray, ...]]:
    """Return the columns of `parts_of_moments` with pairs of the same gains as one."""
    dropped = []
    for first, second in pairs:
        if np.array_equal(columns[first][2], columns[second][2]):
            moment, share = (columns[first][number] + columns[second][number] for number in (0, 1))
            columns[first] = moment, share, columns[first][2]
            dropped.append(second)
    return [column for number, column in enumerate(columns) if number not in dropped]
