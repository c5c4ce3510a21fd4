r"""Contributions of sources to the Taylor terms of their elements.

A moment tensor M gives the rate -M s(t) delta of stress, a force F the rate F s(t) delta / rho of velocity. With s(t) =
sum of c_d ((t - t_n) / T)^d in a step of length T the terms of the predictor become

.. math:: D^{d+1} = \frac{T}{d+1} \Big( \sum_c A_c K_c D^d + c_d\, \phi(x_s) / |J| \Big).

These equations are linear, so the response to c_d of the coefficients at the end of the step, and of the stored and
sent traces, is computed once: `step` does not depend on sources, and the response is added after it.

**Responses of elements to sources in a step.** The contributions of a term d of a source to the Taylor terms of its
element, see `sources`, are multiples of R_k, with R_0 the rate of the coefficients for a unit of the time function, and
R_{k+1} = T sum of A_c K_c R_k in a step of length T. The increments of the coefficients and traces for a unit of c_d T
/ (d + 1) are sums over k:

.. math:: \sum_{n > d} \frac{(d + 1)!}{n!} R_{n - d - 1}, \qquad
    \sum_{d < n < \text{order}} \frac{(d + 1)!}{n! (n + 1)} R_{n - d - 1},

the second one for means over the step, and with another factor 1 / 2^n for means over its first half.

Forces and moment tensors that sources in elements represent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import parts_in_order
from lithowave.physics import TENSOR_INDEX
from lithowave.solvers.common.source_amplitudes import BLOCK, AmplitudeRow, AmplitudeTable, source_values
from lithowave.solvers.discontinuous_galerkin.materials import (
    FASTER,
    JUMP,
    QUANTITIES,
    SLOWER,
    SOURCES,
    STRESSES,
    anisotropic_faces,
    elastic_matrices,
)
from lithowave.solvers.discontinuous_galerkin.meshing import element_sizes
from lithowave.solvers.discontinuous_galerkin.points import TOLERANCE, locate_points
from lithowave.solvers.discontinuous_galerkin.reference import basis_values, make_geometry, make_reference
from lithowave.solvers.elements.locations import SharedLocations, SpreadSources, of_all_ranks, spread_sources
from lithowave.solvers.interface import FORCE, MOMENT, Placement

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend
    from lithowave.description.experiment import Experiment
    from lithowave.description.sources import PointSource
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan
    from lithowave.solvers.discontinuous_galerkin.tables import ElementTables

PAIRS = 128  # pairs of an element and a source whose responses are computed at a time
MANY = 200  # number of sources above which only those with receivers within NEAR elements are spread
NEAR = 3.0
RADIUS = 0.6  # radius of the ball over which a source is spread, in sizes of the element

# Targets, number of entries of each, weights and owners.
Entries = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class TaylorAmplitudes:
    """Amplitudes of sources per step, as T c_d / (d + 1), d from 0 to order - 2, a block of steps at a time.

    The cumulative moment, or the amplitude of a force, is interpolated at points of the step, the moment also at its
    ends, so that the total moment is exact for any time function.
    """

    def __init__(self, sources: Sequence[PointSource], order: int, time_step: float) -> None:
        self.sources, self.terms, self.time_step = list(sources), order - 1, time_step
        self._ends = 0.5 - 0.5 * np.cos(np.pi * np.arange(order) / (order - 1))
        self._inside = 0.5 + 0.5 * np.polynomial.legendre.leggauss(order - 1)[0]
        self._of_ends = np.linalg.inv(np.vander(self._ends, increasing=True))[1:]
        powers = np.linalg.inv(np.vander(self._inside, increasing=True))
        self._of_inside = powers * time_step / np.arange(1, order)[:, None]

    def block(self, step: int) -> np.ndarray:
        """Return (BLOCK, sources * terms) for the block of steps with this one; see `SourceAmplitudes.block`."""
        begin = (step - step % BLOCK + np.arange(BLOCK))[:, None]
        found = np.empty((BLOCK, len(self.sources), self.terms))
        forces = np.array([source.force is not None for source in self.sources], bool)
        for some, points, matrix in ((forces, self._inside, self._of_inside), (~forces, self._ends, self._of_ends)):
            chosen = [self.sources[number] for number in np.flatnonzero(some)]
            values = source_values(chosen, ((begin + points) * self.time_step).ravel(), "released")
            values = values.reshape(BLOCK, len(points), len(chosen))
            values = values if matrix is self._of_inside else values - values[:, :1]
            found[:, some] = np.einsum("tp,bps->bst", matrix, values)
        return found.reshape(BLOCK, -1)


class SourceList:
    """Sources in outer or inner elements of one cluster, on a device. Elements of all ranks that share a location get
    equal fractions.

    Parameters
    ----------
    plan, tables : mesh, materials, slots of elements. sources : all sources. spread, found : points that represent
    them, and their elements. cluster, outer : selection of elements.
    """

    def __init__(
        self, backend: Backend, plan: ClusteredPlan, tables: ElementTables, sources: Sequence[PointSource],
        spread: SpreadSources,
        found: SharedLocations, cluster: int, outer: bool = False,
    ) -> None:  # fmt: skip
        self.cluster, self.outer = cluster, outer
        step = plan.clustering.shortest * 2**cluster
        own = np.flatnonzero(_chosen(plan, tables, found.locations.element, cluster, outer))
        places, self.sums = found.locations.rows(own), SourceSums(plan)
        weight, source = spread.weight[places.point] / found.sharing[own], spread.source[places.point]
        acting, column = np.unique(source, return_inverse=True)
        amplitudes = TaylorAmplitudes([sources[number] for number in acting.tolist()], plan.order, step)
        order = np.lexsort((column, places.element))
        element, column = places.element[order], column[order]
        begin = np.flatnonzero(np.append(True, (np.diff(element) != 0) | (np.diff(column) != 0))[: len(order)])
        ends, parts = np.append(begin, len(order)), _whole_elements(element[begin])

        def respond(index: slice) -> tuple[tuple[object, ...], dict[str, Entries]]:
            pairs = parts[index.start]
            rows = order[ends[pairs.start] : ends[pairs.stop]]
            first, columns = begin[pairs] - ends[pairs.start], column[begin[pairs]]
            responses = Responses(plan, tables, element[begin[pairs]], step)
            own_sources = [amplitudes.sources[number] for number in columns.tolist()]
            shapes = responses.source_shapes(own_sources, places.reference[rows], weight[rows], first)
            sums = acting[columns], responses.element, responses.jacobian, shapes[:, :, 0]
            found = responses.entries(shapes)
            columns = amplitudes.terms * columns[:, None] + np.arange(amplitudes.terms)
            return sums, {name: _entries(*some, responses.first, columns) for name, some in found.items()}

        entries: dict[str, list[Entries]] = {}
        for sums, some in parts_in_order(respond, len(parts), 1):
            self.sums.add(*sums)
            for name, one in some.items():
                entries.setdefault(name, []).append(one)
        self._lists = {name: _uploaded(backend, some) for name, some in entries.items()}
        self.count = sum(target.size for target, *_ in self._lists.values())
        self._table = AmplitudeTable(backend, amplitudes, len(acting) * amplitudes.terms)
        self.row = AmplitudeRow(backend, [self._table])

    def arguments(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield names of arrays, and the arguments of `inject` after each."""
        for name, lists in self._lists.items():
            if lists[0].size:
                yield name, (*lists, self._table.array, self.row.array)


def _whole_elements(element: np.ndarray) -> list[slice]:
    """Return slices of at least `PAIRS` pairs, sorted by element, that contain all pairs of their elements."""
    ends = np.append(np.flatnonzero(np.append(True, np.diff(element) != 0)[: len(element)]), len(element))
    cuts = np.unique(ends[np.searchsorted(ends, np.arange(0, len(element) + PAIRS, PAIRS)).clip(0, len(ends) - 1)])
    return [slice(int(low), int(high)) for low, high in zip(cuts[:-1], cuts[1:], strict=True)]


def _entries(target: np.ndarray, weight: np.ndarray, first: np.ndarray, owner: np.ndarray) -> Entries:
    """Return distinct targets, the number of entries of each, and the weights and owners of the entries by target and
    owner, without entries that are 0.

    target : (elements, n), -1 for none. weight : (pairs, terms, n), those of an element from first[element] on. owner :
    (pairs, terms) column of the amplitudes.
    """
    element = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(weight))))
    weight = np.where((target >= 0).T[:, element, None], weight.transpose(2, 0, 1), 0.0)
    acting = weight != 0
    counts = np.add.reduceat(acting.sum(axis=2), first, axis=1)
    owners = np.broadcast_to(owner, weight.shape)[acting]
    return target.T[counts > 0], counts[counts > 0], weight[acting], owners


def _uploaded(backend: Backend, entries: Sequence[Entries]) -> tuple[Array, ...]:
    """Return target, begin, weight, owner of `inject` on a device from parts of them."""
    target, count, weight, owner = (np.concatenate(column) for column in zip(*entries, strict=True))
    begin = np.append(0, np.cumsum(count))
    arrays = (target, np.int64), (begin, np.int64), (weight, np.float64), (owner, np.int64)
    return tuple(backend.upload(array, dtype) for array, dtype in arrays)


def _chosen(plan: ClusteredPlan, tables: ElementTables, element: np.ndarray, cluster: int, outer: bool) -> np.ndarray:
    return (plan.clustering.cluster[element] == cluster) & (tables.outer[element] == outer)


def spread_of(plan: ClusteredPlan, experiment: Experiment) -> SpreadSources:
    """Return the points that represent the sources: all are spread, or of many those with receivers near."""
    reach = np.inf if len(experiment.acquisition.sources) <= MANY else NEAR
    return spread_sources(experiment, plan.bounds[2][1], reach, RADIUS, partial(surroundings, plan))


def surroundings(plan: ClusteredPlan, positions: np.ndarray) -> np.ndarray:
    """Return the slowest and fastest wave velocity, m/s, and edge of the cube that twelve elements would fill, m, at
    positions; see `locations.Surroundings`."""
    places = locate_points(plan.mesh, positions)
    found, materials = np.full((len(positions), 2), np.inf), plan.materials
    speeds = materials.slowest_speed[places.element], materials.fastest_speed[places.element]
    np.minimum.at(found, places.point, np.stack(speeds, axis=1))
    sizes = element_sizes(plan.mesh, positions, TOLERANCE, plan.ranks)
    surrounding = np.column_stack([of_all_ranks(found, plan.ranks), sizes])
    surrounding[plan.in_layer(positions, margins=True)] = np.inf
    return surrounding


VELOCITY = slice(STRESSES, QUANTITIES)


def taylor_sums(order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the factors (terms, order) of R_k in the increments at the end of a step, their mean over the step, and
    that over its first half."""
    total, mean, half = np.zeros((3, order - 1, order))
    for term in range(order - 1):
        for n in range(term + 1, order + 1):
            total[term, n - term - 1] = factorial(term + 1) / factorial(n)
        for n in range(term + 1, order):
            mean[term, n - term - 1] = total[term, n - term - 1] / (n + 1)
            half[term, n - term - 1] = mean[term, n - term - 1] * 0.5**n
    return total, mean, half


class Responses:
    """Responses of pairs of an element and a source, for a unit of each Taylor amplitude of the source.

    Parameters
    ----------
    plan, tables : mesh, materials, slots of elements. element : (pairs,) element of each pair, ascending. step : length
    of the step of the elements, s.
    """

    def __init__(self, plan: ClusteredPlan, tables: ElementTables, element: np.ndarray, step: float) -> None:
        self.plan, self.tables = plan, tables
        self.own, self.first, self.index = np.unique(element, return_index=True, return_inverse=True)
        self.element, self.reference = element, make_reference(plan.order)
        self.geometry = make_geometry(plan.mesh.element_vertices(self.own))
        gradients = step * self.geometry.along_directions()
        self.law = elastic_matrices(plan.materials, self.own, gradients)
        self.faces = anisotropic_faces(
            plan.materials, self.own, plan.face_neighbors[self.own], self.geometry.normals, self.geometry.lifts,
            np.finfo(np.float32 if plan.value_bytes == 4 else np.float64).eps,
        )  # fmt: skip

    @property
    def jacobian(self) -> np.ndarray:
        """Jacobian of the element of each pair (pairs,), m^3."""
        return self.geometry.jacobian[self.index]

    def source_shapes(
        self, sources: Sequence[PointSource], reference: np.ndarray, weight: np.ndarray, begin: np.ndarray
    ) -> np.ndarray:
        """Return (pairs, 9, functions): the rates of the coefficients for a unit of the time functions of the sources.

        In a fluid only the isotropic part of a moment tensor acts. reference, weight : of the points of the sources in
        their elements, those of a pair from begin[pair] on.
        """
        phi = np.add.reduceat(basis_values(self.plan.order, reference) * weight, begin, axis=1).T
        gains = np.zeros((len(self.element), QUANTITIES))
        fluid, rho = self.plan.materials.is_fluid[self.element], self.plan.materials.rho[self.element]
        for pair, source in enumerate(sources):
            if source.force is not None:
                gains[pair, VELOCITY] = np.asarray(source.force, float) / rho[pair]
            elif fluid[pair]:
                gains[pair, :3] = -np.mean(source.moment[:3])
            else:
                gains[pair, :STRESSES] = -np.asarray(source.moment, float)
        return gains[:, :, None] * (phi / self.jacobian[:, None])[:, None]

    def powers(self, shapes: np.ndarray) -> np.ndarray:
        """Return R_k (pairs, order, 9, functions) for R_0 (pairs, 9, functions)."""
        found = np.empty((len(shapes), self.plan.order, *shapes.shape[1:]))
        found[:, 0], law = shapes, self.law[self.index]
        for k in range(1, self.plan.order):
            slopes = np.einsum("ckl,pql->pcqk", self.reference.derivatives, found[:, k - 1])
            found[:, k] = np.einsum("pacj,pcajk->pak", law, slopes[:, :, SOURCES])
        return found

    def sides(self, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u and w (pairs, k, faces, 3, functions of a face) of R_k; see `materials`."""
        trace = np.einsum("pkqm,fmn->pkfqn", powers, self.reference.traces)
        numbers = self.faces[self.index]
        traction = np.einsum("pkfijn,pfj->pkfin", trace[:, :, :, TENSOR_INDEX], numbers[..., JUMP : JUMP + 3])
        own, across = (numbers[..., first + TENSOR_INDEX] for first in (JUMP + 3, JUMP + 9))
        own_part, across_part = (
            np.einsum("pfij,pkfjn->pkfin", matrix, trace[:, :, :, VELOCITY]) for matrix in (own, across)
        )
        return traction + across_part, own_part - traction

    def entries(self, shapes: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the indices (elements, n) in arrays of the elements `own`, -1 for none, and the increments there
        (pairs, terms, n), by the name of the array."""
        total, mean, half = taylor_sums(self.plan.order)
        powers = self.powers(shapes)
        stored, sent = self.sides(powers)

        def sums(factors: np.ndarray, values: np.ndarray) -> np.ndarray:
            return np.einsum("tk,pk...->pt...", factors, values)

        quantity, mode = np.indices(shapes.shape[1:]).reshape(2, -1)
        places = self.tables.coefficient_place(self.own[:, None], quantity, mode)
        found = {"coefficients": (places, sums(total, powers)), "own": (self._own_places(), sums(mean, stored))}
        slots, whole, early = self._sent_places(), sums(mean, sent), sums(half, sent)
        faster = (slots["late"][:, :, :1, :1] >= 0)[self.index][:, None]
        found["half of slower"] = slots["slower"], 0.5 * whole
        found["sent"] = (
            np.stack([slots["sent"], slots["late"]], axis=2),
            np.stack([np.where(faster, early, whole), np.where(faster, 2 * whole - early, 0.0)], axis=3),
        )
        return {
            name: (target.reshape(len(self.own), -1), added.reshape(*added.shape[:2], -1))
            for name, (target, added) in found.items()
        }

    def _own_places(self) -> np.ndarray:
        """Return indices (elements, faces, 3, functions of a face) in the stored traces."""
        layout, place = self.tables.arrangement.layout, self.tables.arrangement.place[self.own]
        return np.array([[layout.own_index(int(one), face, self.reference.face_count) for face in range(4)]
                         for one in place])  # fmt: skip

    def _sent_places(self) -> dict[str, np.ndarray]:
        """Return indices (elements, faces, 3, functions of a face) in the sent traces, -1 where there is none: ``sent``
        of a step, or of its first half to a faster neighbor, ``late`` of its second half, ``slower`` of a neighbor that
        steps slower."""
        arrangement, count = self.tables.arrangement, self.reference.face_count
        width, place = arrangement.layout.trace_width(count), arrangement.place[self.own]
        slot, link = 4 * place[:, None] + np.arange(4), self.tables.links.second[place]
        there, step = self.plan.face_neighbors[self.own] >= 0, link & 3
        within = np.arange(3)[:, None] * width + np.arange(count)

        def indices(slots: np.ndarray, some: np.ndarray) -> np.ndarray:
            return np.where(some[:, :, None, None], (slots * 3 * width)[:, :, None, None] + within, -1)

        return {
            "sent": indices(slot, there & (step != SLOWER)),
            "late": indices(link >> 2, there & (step == FASTER)),
            "slower": indices(slot, there & (step == SLOWER)),
        }


class SourceSums:
    """Totals of the sources of a list; see `Placement`."""

    def __init__(self, plan: ClusteredPlan) -> None:
        self._plan = plan
        constant = basis_values(plan.order, np.full((1, 3), 0.25))[0, 0]
        self._mean = constant / 6.0  # integral of the constant basis function over the reference tetrahedron
        self._entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, owner: np.ndarray, element: np.ndarray, jacobian: np.ndarray, rates: np.ndarray) -> None:
        """Add the rates (pairs, 9) of the first coefficients of elements for a unit of the time functions of sources.

        owner, element, jacobian : (pairs,) index of the source, and the element.
        """
        found = rates * (jacobian * self._mean)[:, None]
        found[:, :STRESSES] *= -1.0
        found[:, STRESSES:] *= self._plan.materials.rho[element, None]
        self._entries.append((owner, self._plan.materials.is_fluid[element], found))

    def add_to(self, placement: Placement) -> None:
        """Add the totals of the list to a placement."""
        for owner, fluid, totals in self._entries:
            np.add.at(placement.totals[:, MOMENT], owner, totals[:, :STRESSES])
            np.add.at(placement.totals[:, FORCE], owner, totals[:, STRESSES:])
            np.logical_or.at(placement.fluid, owner, fluid)
            np.logical_or.at(placement.acts, owner, totals.any(axis=1))
