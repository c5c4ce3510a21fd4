r"""Sources and receivers beside interfaces of the medium, and warnings about them.

**Moment tensors beside interfaces of the medium.** By reciprocity a moment tensor M reads M : strain at its position.
Across an interface the strains along its normal z are discontinuous, and weights that spread M over nodes on both sides
read a mean of them: within two cells of an interface with a ratio of shear moduli of 3.7 the seismograms were wrong by
up to 143%. Continuous are the tractions and the strains along the interface. These are read, and the strains at the
source follow with the moduli c of the medium there,

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
the weights are exact for these jumps, too (`points.windowed_sinc`).

The normal of an interface is taken as vertical: for one that dips, the weights are those of a horizontal interface at
the same distance along z.

**Stresses and velocities at receivers beside interfaces of the medium.** Across an interface with the normal z, the
stresses along it, xx, yy and xy, are discontinuous, and weights that read them from nodes on both sides give a mean of
the sides: up to 1.4 times the stress itself off. Continuous are the tractions and the strains along the interface. The
latter follow at each node from the stresses there and the moduli C of the grid, and the stresses at the receiver from
the strains and the moduli c of the medium there:

.. math::
    \begin{pmatrix} \sigma_{xx} \\ \sigma_{yy} \end{pmatrix} = p \sum_k w_k P_k^{-1} \left[
    \begin{pmatrix} \sigma_{xx} \\ \sigma_{yy} \end{pmatrix}_k - \begin{pmatrix} C_{13} \\ C_{23} \end{pmatrix}_k
    \frac{\sigma_{zz,k}}{C_{33,k}} \right] + \begin{pmatrix} c_{13} \\ c_{23} \end{pmatrix}
    \sum_k w_k \frac{\sigma_{zz,k}}{c_{33}}, \qquad
    \sigma_{xy} = c_{66} \sum_k w_k \frac{\sigma_{xy,k}}{C_{66,k}},

with the moduli of plane stress :math:`p_{11} = c_{11} - c_{13}^2 / c_{33}`, :math:`p_{12} = c_{12} - c_{13} c_{23} /
c_{33}` of the medium, and P of the grid. Slopes along z jump at the interface; the weights are exact for these jumps,
also those of velocities (`points.windowed_sinc`), except near a free or rigid face.

A receiver exactly on an interface has the stresses below it. The normal of an interface is taken as vertical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lithowave.media.medium import LayeredMedium, Medium
from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.effective_medium import LEVELS, isotropic, layer_media
from lithowave.solvers.finite_difference.law import LawFields
from lithowave.solvers.finite_difference.medium import CONTRAST, PlaneAverages
from lithowave.solvers.finite_difference.points import HALF_WIDTH, NEAR_FACE, Blocks, PointStencil
from lithowave.solvers.finite_difference.snapshot_grids import select_snapshot_grid

if TYPE_CHECKING:
    from lithowave.backends.interface import Array
    from lithowave.description.experiment import Experiment
    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource


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

    def logarithms(row: Array, level: np.ndarray) -> np.ndarray:
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
    experiment : domain and (unrelaxed) material. law : constitutive law of the grid. grid : of any rank.
    """

    def __init__(self, experiment: Experiment, law: LawFields, grid: Grid) -> None:
        self._simulation, self._law, self._grid = experiment, law, grid.whole
        self._medium, self._limits = self._simulation.material.medium, experiment.domain.z

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
    nodes), see `interfaces.ROWS`."""
    c13, c23, c33, _, _, c11, c22, c12, _ = moduli
    x, y = c13 / c33, c23 / c33
    flat = np.array([[c11 - c13 * x, c12 - c13 * y], [c12 - c13 * y, c22 - c23 * y]])
    return np.moveaxis(flat, (0, 1), (-2, -1)), np.stack([x, y], axis=-1)


SMALL = 0.02  # error up to which there is no warning
MEASURED = 3.7  # ratio of moduli for which errors were measured
DISTANCES = (0.0, 0.25, 0.5, 1.0, 2.0)  # cells along z
DIPS = (0.0, 15.0, 30.0, 45.0)  # degrees
DECREASE = ((0.5, 1.3, 1.75, 2.5), (1.0, 0.45, 0.33, 0.0))  # of errors of dips: cells along the normal, factors
STEEPEST, VERTICAL = 80.0, 90.0  # dips, degrees: of interfaces that have no slope, and of those along x or y
NEAR_SURFACE = 2.5  # factor of errors where weights do not consider the interface, because the free surface is near
SAMPLES = 12  # of a snapshot, along x and y


@dataclass(frozen=True)
class Kind:
    """Kind of points beside interfaces.

    name : of several. what : has the error. errors : largest ones at `DISTANCES`, at all positions of a horizontal
    interface in its cell, less those in a homogeneous medium; order 4, 8 points per wavelength. dipping : errors half
    a cell from interfaces with dips `DIPS`, see `DECREASE`.
    """

    name: str
    what: str
    errors: tuple[float, ...]
    dipping: tuple[float, ...]

    def estimate(self, distance: np.ndarray, dip: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return the errors at distances, cells, from interfaces with dips, degrees, and ratios of moduli."""
        contrast = (1.0 - 1.0 / ratio) / (1.0 - 1.0 / MEASURED)
        sloped = np.interp(dip, DIPS, self.dipping) * np.interp(distance, *DECREASE)
        return np.maximum(np.interp(distance, DISTANCES, self.errors), sloped) * contrast


# See interface_sources.py, interface_receivers.py and interface_dips.py of the benchmarks.
SOURCES = Kind("moment tensors", "its seismograms", (0.07, 0.035, 0.025, 0.012, 0.0), (0.0, 0.08, 0.13, 0.17))
RECEIVERS = Kind("receivers", "its stress or pressure", (0.15, 0.07, 0.03, 0.013, 0.0), (0.0, 0.08, 0.15, 0.19))


def interface_warnings(experiment: Experiment, grid: Grid) -> list[str]:
    """Return warnings about points on an interface, or so near that their error is not small, and about snapshots of
    stress."""
    sources = [
        (one.where or f"sources[{number}]", one.position)
        for number, one in enumerate(experiment.acquisition.sources) if one.moment is not None
    ]  # fmt: skip
    receivers = [(f"receivers: {one.name}", one.position) for one in experiment.acquisition.receivers]
    return [
        *_near_warning(experiment, grid.whole, sources, SOURCES),
        *_near_warning(experiment, grid.whole, receivers if experiment.output.tensors else [], RECEIVERS),
        *_snapshot_warnings(experiment, grid.whole),
    ]


def _near_warning(
    experiment: Experiment, grid: Grid, points: Sequence[tuple[str, PointSource | Receiver]], kind: Kind
) -> list[str]:
    """Return the warning about points, labels and positions, beside an interface."""
    if not points:
        return []
    positions, spacing = np.array([one for _, one in points], float), grid.spacing
    medium = experiment.material.medium
    near = find_interfaces(medium, positions, spacing, experiment.domain.z)
    distance, ratio = np.abs(near.z[:, 0] - positions[:, 2]) / spacing, near.ratio[:, 0]
    dip = np.zeros(len(points))
    if not isinstance(medium, LayeredMedium):
        dip[near.present] = _dips(experiment, spacing, positions[near.present], near.z[near.present, 0])
        distance *= np.cos(np.radians(dip))
        _add_vertical(experiment, spacing, positions, distance, dip, ratio)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    depth = (grid.nodes(2)[-1] - positions[:, 2]) / spacing
    shallow = (depth < NEAR_FACE) & (experiment.boundaries.face("z_max") != "absorbing")
    factor = np.where(shallow, NEAR_SURFACE, 1.0)
    errors = factor * kind.estimate(distance, dip, ratio)
    worst = int(errors.argmax())
    if errors[worst] <= SMALL:
        return []
    several = int((errors > SMALL).sum())
    others = f" ({several:,} of {len(points):,} {kind.name} are as near to one)" if several > 1 else ""
    cells = np.linspace(0.0, DECREASE[0][-1], 251)
    remaining = factor[worst] * kind.estimate(cells, np.full_like(cells, dip[worst]), np.full_like(cells, ratio[worst]))
    limit, metres = float(cells[remaining <= SMALL][0]), distance[worst] * spacing
    where, remedy = "on an interface", f"Move it by {limit * spacing:.3g} m"
    if metres > 1e-3 * spacing:
        where = f"{metres:.4g} m ({distance[worst]:.2g} grid spacings) from an interface"
        remedy = f"Use solver.spacing: {metres / limit:.3g} or less"
    sloped = f" with a dip of {dip[worst]:.0f} degrees" if dip[worst] > 1.0 else f" at z = {near.z[worst, 0]:.6g} m"
    return [
        f"{points[worst][0]}: it is {where}{sloped}{others}, where moduli change by a factor of {ratio[worst]:.2g}; "
        f"estimated error of {kind.what} {errors[worst]:.0%}. {remedy} for an error below {SMALL:.0%}, or "
        "solver.method: spectral_element."
    ]


def _dips(experiment: Experiment, spacing: float, positions: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the dips (n,), degrees, of the interfaces at z = level, m, above or below positions (n, 3), m."""
    slopes, bounds = [], (experiment.domain.x, experiment.domain.y)
    for axis in range(2):
        ends = []
        for side in (-spacing, spacing):
            moved = np.column_stack([positions[:, :2], level])
            moved[:, axis] = np.clip(moved[:, axis] + side, *bounds[axis])
            found = find_interfaces(experiment.material.medium, moved, spacing, experiment.domain.z)
            ends.append((moved[:, axis], found.z[:, 0]))
        (low, below), (high, above) = ends
        slopes.append((above - below) / (high - low))
    found = np.degrees(np.arctan(np.hypot(*slopes)))
    return np.where(np.isfinite(found), found, STEEPEST)


@dataclass(frozen=True)
class _Turned:
    """A medium with an axis (0, 1) and z exchanged."""

    medium: Medium
    axis: int

    def moduli(self, *place: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `Medium`."""
        return tuple(self.medium.moduli(*_exchanged(list(place), self.axis)))


T = TypeVar("T")


def _exchanged(values: list[T], axis: int) -> list[T]:
    values[axis], values[2] = values[2], values[axis]
    return values


def _add_vertical(
    experiment: Experiment, spacing: float, positions: np.ndarray, distance: np.ndarray, dip: np.ndarray,
    ratio: np.ndarray,
) -> None:  # fmt: skip
    """Set the distance, cells, dip and ratio (n,) of points beside vertical interfaces that have none along z."""
    for axis in range(2):
        rows = np.flatnonzero(~np.isfinite(distance))
        turned = np.stack(_exchanged(list(positions[rows].T), axis), axis=1)
        bounds = (experiment.domain.x, experiment.domain.y)[axis]
        near = find_interfaces(_Turned(experiment.material.medium, axis), turned, spacing, bounds)
        some = rows[near.present]
        distance[some] = np.abs(near.z[near.present, 0] - positions[some, axis]) / spacing
        dip[some], ratio[some] = VERTICAL, near.ratio[near.present, 0]


def _snapshot_warnings(experiment: Experiment, grid: Grid) -> list[str]:
    """Return a warning about snapshots of stress or pressure with points within a cell of an interface."""
    warnings = []
    for number, selection in enumerate(experiment.output.snapshots):
        names = [name for name in selection.fields if name in ("stress", "pressure")]
        if not names:
            continue
        snapshot = select_snapshot_grid(grid, selection)
        lines = [
            origin + step * np.unique(np.linspace(0, count - 1, min(count, most)).round())
            for origin, step, count, most in zip(
                snapshot.origin, snapshot.spacing, snapshot.shape, (SAMPLES, SAMPLES, max(1, snapshot.shape[2] // 4)),
                strict=True,
            )
        ]
        positions = np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 3)
        near = find_interfaces(experiment.material.medium, positions, grid.spacing, experiment.domain.z)
        flat = snapshot.shape[2] == 1
        close = np.abs(near.z[:, 0] - positions[:, 2]) < (1.0 if flat else np.inf) * grid.spacing
        if close.any():
            first = np.flatnonzero(close)[0]
            warnings.append(
                f"output.snapshots[{number}]: within one grid spacing ({grid.spacing:.4g} m) of an interface of the "
                f"medium, for example at z = {near.z[first, 0]:.6g} m, snapshots of {' and '.join(names)} have a mean "
                "of both sides. For the values of one side, use receivers, or solver.method: spectral_element."
            )
    return warnings
