"""Sources of this rank: the points on which they act, and their weights.

`add_sources` adds the forces and moment tensors that the weights represent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import parts_in_order
from lithowave.physics import TENSOR_PAIRS
from lithowave.solvers.common.source_amplitudes import AmplitudeTable, SourceAmplitudes, upload_entries
from lithowave.solvers.elements.locations import (
    PointLocations,
    SharedLocations,
    SpreadSources,
    of_all_ranks,
    spread_sources,
)
from lithowave.solvers.interface import FORCE, MOMENT, Placement
from lithowave.solvers.spectral_element.gll import gll_positions
from lithowave.solvers.spectral_element.media import face_points
from lithowave.solvers.spectral_element.points import interpolation_tables, inverse_jacobians, locate_points, symmetric

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.description.sources import PointSource
    from lithowave.solvers.spectral_element.media import NumberedPlan

NEAR = 3.0  # sizes of the element: sources with receivers nearer than that are spread
RADIUS = 1.0  # radius of the ball over which a source is spread, in sizes of the element
ROWS = 1024  # locations that are processed at a time


@dataclass(frozen=True)
class Entries:
    """Point, weight (3), and index of the source of every entry.

    fluid : True if it acts on a potential, with the first weight only. scale : there, the negative of kappa of a moment
    tensor or of rho of a force at the source, by which the weight was divided.
    """

    point: np.ndarray
    weight: np.ndarray
    owner: np.ndarray
    fluid: np.ndarray
    scale: np.ndarray


class SourceList:
    """Points on which sources act: change of momentum per unit of amplitude.

    A moment tensor M acts as the force -M : grad delta, that is M : grad N_a at the point of shape function N_a; a
    force as F N_a. Elements that share the location get equal fractions. Each rank has the contributions of its own
    elements.

    In a fluid, the isotropic part m(t) of a moment tensor acts on the potential as -dm/dt N_a / kappa, and a force F(t)
    as -I . grad N_a / rho with its integral I(t) over time (see `docs/theory.md`).

    Parameters
    ----------
    plan : mesh, point indices, time step. entries : see `source_entries`. fluid : only what acts on fluids, or only the
    rest. on_border : only what acts on points that other ranks also have (True), or only the rest (False); None for
    all.
    """

    def __init__(
        self, backend: Backend, plan: NumberedPlan, sources: Sequence[PointSource], entries: Entries, fluid: bool,
        on_border: bool | None = None,
    ) -> None:  # fmt: skip
        self.backend, self.fluid = backend, fluid
        some = entries.fluid == fluid
        if on_border is not None:
            some &= np.isin(entries.point, plan.border.points) == on_border
        known, owner = np.unique(entries.owner[some], return_inverse=True)
        sources = [sources[number] for number in known]
        self.known, self._lists = known, upload_entries(backend, entries.point[some], entries.weight[some], owner)
        self.scale = entries.scale[some][np.lexsort((owner, entries.point[some]))]
        self.count = self._lists[0].size
        moment, force = ("rate", "impulse") if fluid else ("released", "amplitude")
        amplitudes = SourceAmplitudes(sources, plan.schedule, 0.5, moment, force)
        self.table = AmplitudeTable(backend, amplitudes, len(sources))

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return point, weight (3) and index of the source of every entry, as stored on the device."""
        target, begin, weight, owner = map(self.backend.download, self._lists)
        return np.repeat(target, np.diff(begin)), weight.reshape(-1, 3), self.known[owner]

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments of `inject` after the momenta and before the row."""
        return *self._lists, self.table.array


def spread_of(plan: NumberedPlan, experiment: Experiment) -> SpreadSources:
    """Return the points that represent the sources of a simulation: moment tensors with receivers near are spread, and
    forces in fluids, which act on a potential like these (collective call). Forces in solids remain the transpose of
    receivers, which makes reciprocity exact."""
    positions = experiment.acquisition.source_positions
    fluid = np.zeros(len(positions), bool)
    if plan.has_fluids:
        places = locate_points(plan.mesh, positions)
        fluid[places.point[plan.materials.is_fluid[places.element]]] = True
        fluid = np.any(plan.ranks.all_gather(fluid), axis=0)
    return spread_sources(experiment, plan.bounds[2][1], NEAR, RADIUS, partial(surroundings, plan), forces=fluid)


def surroundings(plan: NumberedPlan, positions: np.ndarray) -> np.ndarray:
    """Return the slowest and fastest wave velocity, m/s, and element size; see `locations.Surroundings`."""
    places = locate_points(plan.mesh, plan.in_mesh(positions))
    found = np.full((len(positions), 3), np.inf)
    known, index = np.unique(places.element, return_inverse=True)
    nodes = plan.mesh.element_nodes(known)[:, :8]
    size = np.prod([np.linalg.norm(nodes[:, end] - nodes[:, 0], axis=1) for end in (1, 3, 4)], axis=0) ** (1 / 3)
    facts = np.stack([plan.slowest(known), plan.fastest(known), size], axis=1).reshape(-1, 3)
    np.minimum.at(found, places.point, facts[index])
    found[plan.in_layer(positions, margins=True)] = np.inf
    return of_all_ranks(found, plan.ranks)


def source_entries(
    plan: NumberedPlan, sources: Sequence[PointSource], spread: SpreadSources, found: SharedLocations
) -> Entries:
    """Return the entries of all sources. spread, found : points that represent the sources, and their elements."""
    source = spread.source[found.locations.point]
    order = np.lexsort((found.locations.element, source))
    points, weights, owners = [np.zeros(0, np.int64)], [np.zeros((0, 3))], [np.zeros(0, np.int64)]
    fluids = [np.zeros(0, bool)]
    for first in range(0, len(order), ROWS):
        rows = order[first : first + ROWS]
        element, owner = found.locations.element[rows], source[rows]
        share = spread.weight[found.locations.point[rows]] / found.sharing[rows]
        weight = share[:, None, None] * _location_weights(plan, [sources[n] for n in owner], found.locations.rows(rows))
        begin = np.flatnonzero(np.append(True, (np.diff(element) != 0) | (np.diff(owner) != 0)))
        points.append(plan.numbers[element[begin]].ravel())
        weights.append(np.add.reduceat(weight, begin, axis=0).reshape(-1, 3))
        owners.append(np.repeat(owner[begin], weight.shape[1]))
        fluids.append(np.repeat(plan.materials.is_fluid[element[begin]], weight.shape[1]))
    point, weight, owner, fluid = (np.concatenate(parts) for parts in (points, weights, owners, fluids))
    scale = np.where(fluid, weight[:, 1] / np.where(fluid & (weight[:, 0] != 0), weight[:, 0], 1.0), 1.0)
    weight[fluid, 1] = 0.0
    acting = (weight != 0).any(axis=1)
    return Entries(*(part[acting] for part in (point, weight, owner, fluid, scale)))


def _location_weights(plan: NumberedPlan, sources: Sequence[PointSource], places: PointLocations) -> np.ndarray:
    """Return the forces (rows, points, 3) at the points of elements of the source of each row at its location.

    In a fluid, the first is that on the potential, and the second the same times the negative of kappa or rho.
    """
    count, tables = len(places.element), interpolation_tables(plan.degree, places.reference)
    (x, y, z), (sx, sy, sz) = (np.moveaxis(lines, 1, 0) for lines in tables)
    shape, *slopes = (
        np.einsum("mk,mj,mi->mkji", *lines).reshape(count, -1)
        for lines in ((z, y, x), (z, y, sx), (z, sy, x), (sz, y, x))
    )
    gradient = np.stack(slopes, axis=-1) @ inverse_jacobians(plan.mesh, places)
    moments = np.array([np.zeros((3, 3)) if one.force is not None else symmetric(one.moment) for one in sources])
    forces = np.array([np.zeros(3) if one.force is None else one.force for one in sources], float)
    axes = plan.axes_at(np.array([one.position for one in sources], float))
    if axes is not None:  # from East, North, Up to the coordinates of the mesh
        moments = np.swapaxes(axes, 1, 2) @ moments @ axes
        forces = np.einsum("mec,me->mc", axes, forces)
    weights = gradient @ moments + shape[..., None] * forces[:, None]
    for row in np.flatnonzero(plan.materials.is_fluid[places.element]):
        values = np.einsum("k,j,i->kji", z[row], y[row], x[row])
        stiffness, rho = plan.materials.within(int(places.element[row]), values)
        parts = shape[row] * np.trace(moments[row]) / 3.0, gradient[row] @ forces[row]
        weights[row] = 0.0
        weights[row, :, 0] = -parts[0] / stiffness[0, 0] - parts[1] / rho
        weights[row, :, 1] = sum(parts)
    return weights


CHUNK = 1 << 13  # elements that are searched at a time


def add_sources(
    placement: Placement, plan: NumberedPlan, sources: Sequence[PointSource], source_list: SourceList
) -> None:
    """Add the forces, sum of w_a, or moment tensors, sum of w_a (x_a - x_s), of the weights w_a at the points x_a.

    In a fluid, with the scales c_a of `sources.Entries`, the isotropic moment is the sum of c_a w_a, and the force that
    of c_a w_a (x_a - x_s).
    """
    point, weight, owner = source_list.entries()
    if not len(point):
        return
    points, row = np.unique(point, return_inverse=True)
    centers = np.array([source.position for source in sources], float)
    arms, axes = point_positions(plan, points)[row] - plan.in_mesh(centers)[owner], plan.axes_at(centers)
    if axes is not None:  # to East, North, Up at the source
        arms = np.einsum("mec,mc->me", axes[owner], arms)
        if not source_list.fluid:  # whose weights are scalars
            weight = np.einsum("mec,mc->me", axes[owner], weight)
    is_force = np.array([source.force is not None for source in sources])[owner]
    if source_list.fluid:
        placement.fluid[owner] = True
        placement.acts[owner[(weight[:, 0] != 0) & (plan.moves[point] > 0)]] = True
        value = weight[:, 0] * source_list.scale
        for axis in range(3):
            np.add.at(placement.totals[:, MOMENT][:, axis], owner[~is_force], value[~is_force])
            np.add.at(placement.totals[:, FORCE][:, axis], owner[is_force], (value * arms[:, axis])[is_force])
        return
    for axis in range(3):
        np.add.at(placement.totals[:, FORCE][:, axis], owner[is_force], weight[is_force, axis])
    for column, (a, b) in enumerate(TENSOR_PAIRS):
        moment = 0.5 * (weight[:, a] * arms[:, b] + weight[:, b] * arms[:, a])
        np.add.at(placement.totals[:, MOMENT][:, column], owner[~is_force], moment[~is_force])
    held = np.isin(point, face_points(plan.numbers, plan.faces["rigid"]))
    placement.acts[owner[(weight != 0).any(axis=1) & ~held]] = True


def point_positions(plan: NumberedPlan, points: np.ndarray) -> np.ndarray:
    """Positions (points, 3), m, of points of the mesh, by ascending index."""
    requested = np.zeros(plan.total_points, bool)
    requested[points] = True
    found = np.full((len(points), 3), np.nan)

    def search(part: slice) -> np.ndarray:
        numbers = plan.numbers[part]
        return part.start + np.flatnonzero(requested[numbers].reshape(len(numbers), -1).any(axis=1))

    for elements in parts_in_order(search, len(plan.numbers), CHUNK):
        positions = gll_positions(plan.mesh.element_nodes(elements), plan.degree).reshape(-1, 3)
        own = plan.numbers[elements].ravel()
        inside = requested[own]
        found[np.searchsorted(points, own[inside])] = positions[inside]
    return found
