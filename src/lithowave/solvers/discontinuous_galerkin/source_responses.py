r"""Responses of elements to sources in a step.

The contributions of a term d of a source to the Taylor terms of its element, see `sources`, are multiples of R_k, with
R_0 the rate of the coefficients for a unit of the time function, and R_{k+1} = T sum of A_c K_c R_k in a step of
length T. The increments of the coefficients and traces for a unit of c_d T / (d + 1) are sums over k:

.. math:: \sum_{n > d} \frac{(d + 1)!}{n!} R_{n - d - 1}, \qquad
    \sum_{d < n < \text{order}} \frac{(d + 1)!}{n! (n + 1)} R_{n - d - 1},

the second one for means over the step, and with another factor 1 / 2^n for means over its first half.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

import numpy as np

from lithowave.physics.tensors import TENSOR_INDEX
from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.element_layout import FASTER, SLOWER
from lithowave.solvers.discontinuous_galerkin.geometry import make_geometry
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import JUMP, SOURCES, anisotropic_faces, elastic_matrices

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

    def __init__(self, plan: Any, tables: Any, element: np.ndarray, step: float) -> None:
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
        self, sources: Sequence[Any], reference: np.ndarray, weight: np.ndarray, begin: np.ndarray
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
        """Return u and w (pairs, k, faces, 3, functions of a face) of R_k; see `riemann`."""
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
