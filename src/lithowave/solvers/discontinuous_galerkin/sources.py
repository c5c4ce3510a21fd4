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

from lithowave.solvers.common.source_amplitudes import BLOCK, AmplitudeRow, AmplitudeTable, upload_entries
from lithowave.solvers.common.source_values import source_values
from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.element_layout import FASTER, SLOWER
from lithowave.solvers.discontinuous_galerkin.geometry import make_geometry
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, ROWS, STRESSES
from lithowave.solvers.discontinuous_galerkin.meshing import element_sizes
from lithowave.solvers.discontinuous_galerkin.point_location import TOLERANCE, locate_points
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import SOURCES, anisotropic_faces, elastic_matrices
from lithowave.solvers.discontinuous_galerkin.source_sums import SourceSums
from lithowave.solvers.elements.point_location import SharedLocations
from lithowave.solvers.elements.spread_sources import SpreadSources, of_all_ranks, spread_sources

VELOCITY = slice(STRESSES, QUANTITIES)
MANY = 200  # number of sources above which only those with receivers within NEAR elements are spread
NEAR = 3.0
RADIUS = 0.6  # radius of the ball over which a source is spread, in sizes of the element


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
        amplitudes = TaylorAmplitudes(sources, plan.order, step)
        entries: dict[str, list] = {}
        own = np.flatnonzero(_chosen(plan, tables, found.locations.element, cluster, outer))
        places, self.sums = found.locations.rows(own), SourceSums(plan)
        weight, source = spread.weight[places.point] / found.sharing[own], spread.source[places.point]
        pairs, pair = np.unique(np.column_stack([places.element, source]), axis=0, return_inverse=True)
        for number, (element, owner) in enumerate(pairs.tolist()):
            rows = np.flatnonzero(pair.ravel() == number)
            response = Response(plan, element, step)
            shape = response.source_shape(sources[owner], places.reference[rows], weight[rows])
            self.sums.add(owner, element, response.geometry.jacobian[0], shape)
            for term in range(amplitudes.terms):
                for name, target, added in response.added(tables, shape, term):
                    entries.setdefault(name, []).append((target, added, owner * amplitudes.terms + term))
        self._lists = {name: _uploaded(backend, parts) for name, parts in entries.items()}
        self.count = sum(target.size for target, *_ in self._lists.values())
        self._table = AmplitudeTable(backend, amplitudes, len(sources) * amplitudes.terms)
        self.row = AmplitudeRow(backend, [self._table])

    def arguments(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield names of arrays, and the arguments of `inject` after each."""
        for name, lists in self._lists.items():
            if lists[0].size:
                yield name, (*lists, self._table.array, self.row.array)


def _uploaded(backend: Any, entries: list[tuple[np.ndarray, np.ndarray, int]]) -> tuple[Any, ...]:
    """Return target, begin, weight, owner of `inject` from targets, weights and the owner of some of them."""
    target, weight = (np.concatenate(column) for column in list(zip(*entries, strict=True))[:2])
    owner = np.concatenate([np.full(len(target), owner) for target, _, owner in entries])
    acting = weight != 0
    return upload_entries(backend, target[acting], weight[acting], owner[acting])


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
    surrounding[plan.in_layer(positions)] = np.inf
    return surrounding


class Response:
    """Response of an element to a source in a step, for a unit of one of its Taylor amplitudes."""

    def __init__(self, plan: Any, element: int, step: float) -> None:
        self.plan, self.element, self.step = plan, element, step
        one = np.array([element])
        self.geometry = make_geometry(plan.mesh.element_vertices(one))
        self.law = elastic_matrices(plan.materials, one, step * self.geometry.along_directions())[0]
        self.reference = make_reference(plan.order)
        self.faces = anisotropic_faces(
            plan.materials, one, plan.face_neighbors[one], self.geometry.normals, self.geometry.lifts,
            np.finfo(np.float32 if plan.value_bytes == 4 else np.float64).eps,
        )[0]  # fmt: skip

    def source_shape(self, source: Any, reference: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return (9, functions): the rate of the coefficients for a unit of the time function. In a fluid only the
        isotropic part of a moment tensor acts. reference, weight : of the points of the source in the element."""
        phi = basis_values(self.plan.order, reference) @ weight / self.geometry.jacobian[0]
        gains = np.zeros(QUANTITIES)
        if source.force is not None:
            gains[VELOCITY] = np.asarray(source.force, float) / self.plan.materials.rho[self.element]
        elif self.plan.materials.is_fluid[self.element]:
            gains[:3] = -np.mean(source.moment[:3])
        else:
            gains[:STRESSES] = -np.asarray(source.moment, float)
        return np.outer(gains, phi)

    def rate(self, values: np.ndarray) -> np.ndarray:
        """Return the step times the sum of A_c K_c values."""
        slopes = np.einsum("ckl,ql->cqk", self.reference.derivatives, values)
        return np.einsum("acj,cajk->ak", self.law, slopes[:, SOURCES])

    def added(self, tables: Any, shape: np.ndarray, term: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield names of arrays, indices in them, and the increments there for a unit of the amplitude of a term."""
        value, total, mean, half = shape, 0.0, 0.0, 0.0
        for d in range(term + 1, self.plan.order):
            total, mean, half = total + value, mean + value / (d + 1), half + value * 0.5**d / (d + 1)
            value = self.rate(value) / (d + 1)
        total = total + value  # the volume's contribution to the flux: for a source the last one is nonzero
        quantity, mode = np.indices(shape.shape)
        place = tables.coefficient_place(np.array([self.element]), quantity, mode)
        yield "coefficients", place.ravel(), total.ravel()
        for face in range(4):
            yield from self._at_face(tables, face, mean, half)

    def _at_face(
        self, tables: Any, face: int, mean: np.ndarray, half: np.ndarray
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        layout, place = tables.arrangement.layout, int(tables.arrangement.place[self.element])
        kept, sent = self._sides(face, mean)
        count = self.reference.face_count
        yield "own", layout.own_index(place, face, count).ravel(), kept.ravel()
        if self.plan.face_neighbors[self.element, face] < 0:
            return
        width = layout.trace_width(count)
        within = (np.arange(3)[:, None] * width + np.arange(count)).ravel()
        slot, link = 4 * place + face, int(tables.links.second[place, face])
        if link & 3 == SLOWER:
            yield "half of slower", slot * 3 * width + within, 0.5 * sent.ravel()
        elif link & 3 == FASTER:
            early = self._sides(face, half)[1]
            yield "sent", slot * 3 * width + within, early.ravel()
            yield "sent", (link >> 2) * 3 * width + within, (2 * sent - early).ravel()
        else:
            yield "sent", slot * 3 * width + within, sent.ravel()

    def _sides(self, face: int, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u and w (3, functions on the face); see `riemann`."""
        trace = mean @ self.reference.traces[face]
        numbers = self.faces[face]
        traction = np.einsum("ijm,j->im", trace[ROWS], numbers[27:30])
        xx, yy, zz, xy, xz, yz = numbers[30:42].reshape(2, 6).T
        own, across = np.moveaxis(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), -1, 0)
        return traction + across @ trace[VELOCITY], own @ trace[VELOCITY] - traction
