r"""Contributions of sources to the Taylor terms of their elements.

A moment tensor M gives the rate -M s(t) delta of stress, a force F the rate F s(t) delta / rho of velocity. With s(t) =
sum of c_d ((t - t_n) / T)^d in a step of length T the terms of the predictor become

.. math:: D^{d+1} = \frac{T}{d+1} \Big( \sum_c A_c K_c D^d + c_d\, \phi(x_s) / |J| \Big).

These equations are linear, so the response to c_d of the coefficients at the end of the step, and of the stored and
sent traces, is computed once: `step` does not depend on sources, and the response is added after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lithowave.backends.host_threads import parts_in_order
from lithowave.solvers.common.source_amplitudes import BLOCK, AmplitudeRow, AmplitudeTable
from lithowave.solvers.common.source_values import source_values
from lithowave.solvers.discontinuous_galerkin.meshing import element_sizes
from lithowave.solvers.discontinuous_galerkin.point_location import TOLERANCE, locate_points
from lithowave.solvers.discontinuous_galerkin.source_responses import Responses
from lithowave.solvers.discontinuous_galerkin.source_sums import SourceSums
from lithowave.solvers.elements.point_location import SharedLocations
from lithowave.solvers.elements.spread_sources import SpreadSources, of_all_ranks, spread_sources

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

    def __init__(self, sources: Sequence[Any], order: int, time_step: float) -> None:
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
        self, backend: Any, plan: Any, tables: Any, sources: Sequence[Any], spread: SpreadSources,
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

        def respond(index: slice) -> tuple[tuple[Any, ...], dict[str, Entries]]:
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

    def arguments(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
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


def _uploaded(backend: Any, entries: Sequence[Entries]) -> tuple[Any, ...]:
    """Return target, begin, weight, owner of `inject` on a device from parts of them."""
    target, count, weight, owner = (np.concatenate(column) for column in zip(*entries, strict=True))
    begin = np.append(0, np.cumsum(count))
    arrays = (target, np.int64), (begin, np.int64), (weight, np.float64), (owner, np.int64)
    return tuple(backend.upload(array, dtype) for array, dtype in arrays)


def _chosen(plan: Any, tables: Any, element: np.ndarray, cluster: int, outer: bool) -> np.ndarray:
    return (plan.clustering.cluster[element] == cluster) & (tables.outer[element] == outer)


def spread_of(plan: Any, simulation: Any) -> SpreadSources:
    """Return the points that represent the sources: all are spread, or of many those with receivers near."""
    reach = np.inf if len(simulation.acquisition.sources) <= MANY else NEAR
    return spread_sources(simulation, plan.bounds[2][1], reach, RADIUS, partial(surroundings, plan))


def surroundings(plan: Any, positions: np.ndarray) -> np.ndarray:
    """Return the slowest and fastest wave velocity, m/s, and edge of the cube that twelve elements would fill, m, at
    positions; see `spread_sources.Surroundings`."""
    places = locate_points(plan.mesh, positions)
    found, materials = np.full((len(positions), 2), np.inf), plan.materials
    speeds = materials.slowest_speed[places.element], materials.fastest_speed[places.element]
    np.minimum.at(found, places.point, np.stack(speeds, axis=1))
    sizes = element_sizes(plan.mesh, positions, TOLERANCE, plan.ranks)
    surrounding = np.column_stack([of_all_ranks(found, plan.ranks), sizes])
    surrounding[plan.in_layer(positions, margins=True)] = np.inf
    return surrounding
