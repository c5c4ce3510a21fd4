r"""Absorbing layers outside the domain: perfectly matched, or damped if waves would grow in a perfectly matched one.

In a perfectly matched layer, derivatives along each direction j normal to a face are stretched,

.. math::
    \frac{\partial}{\partial x_j} \to \frac{1}{s_j} \frac{\partial}{\partial x_j}, \qquad
    s_j = 1 + \frac{d_j}{\alpha + i \omega}, \qquad d_j = \frac{v_p}{2 L} \ln \frac{1}{R},

with the fastest wave v_p of the model, the thickness L and the reflection R of a wave along the normal (Komatitsch &
Martin 2007, Geophysics 72(5), SM155-SM167). In equations for q = (stress, velocity), dq/dt = sum_j A_j dq/dx_j, this
adds memory variables psi:

.. math::
    \frac{\partial q}{\partial t} = \sum_j A_j \frac{\partial q}{\partial x_j} + \psi, \qquad
    \frac{\partial \psi}{\partial t} = -\kappa \psi - \sum_j d_j A_j \frac{\partial q}{\partial x_j}

with kappa = d_j + alpha. As d_j does not depend on the position in the layer, kappa is the same for all directions
(where layers of different thickness overlap, that of the largest d_j), and one memory variable per quantity is
sufficient. alpha is pi times a frequency, and at least a third of d_j, or half of it in a medium with attenuation,
without which waves may grow. The layer begins in a plane of element faces. Waves of any angle and frequency enter it
without reflection, except for the discretization; at its outer faces they meet the absorbing flux of `materials`.

psi is constant in each time step T, and is updated between steps from the derivatives at the beginning, and from the
jumps at the faces averaged over the step before; without these jumps the scheme would be unstable:

.. math::
    T \psi \leftarrow e^{-\kappa T} \Big( T \psi - \sum_j g_j T A_j \frac{\partial q}{\partial x_j} \Big),
    \qquad g_j = \frac{d_j}{\kappa} (e^{\kappa T} - 1).

A jump v* - v of the velocity at a face with normal n contributes g_j n_j (v* - v) as derivative along j, a jump of the
traction g_j n_j^2 (t* - t). psi is a polynomial of one degree less than q, like the derivatives. Anisotropic elements
store sum_j g_j T A_j and the fluxes of the jumps with gains as matrices (`materials.stretched_laws`).

A perfectly matched layer may be unstable in an anisotropic medium in which waves travel backwards: their group velocity
along the normal is opposite to their phase velocity (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433). If
the model contains such a medium, or a strong contrast of vs (see `warnings`), all quantities are damped instead,
dq/dt = ... - s q, which does not reflect waves along the normal; s increases with the square of the depth in the layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.mesh.extrusion import outward_steps
from lithowave.mesh.hexahedral_box import BoxPlan, Slab
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.solvers.elements.layers import after_margin

# Cells across a layer that is perfectly matched, or damped, and their growth from one to the next outwards.
CELLS, GROWTH = {True: 3, False: 5}, {True: 2.3, False: 2.0}
DAMPING = 2.0  # integral of s along the normal over the velocity of the fastest wave
# Smallest alpha over the largest d: in a thin box of vp / vs = 4 with a free surface, waves grew with 0.12 and 0.16,
# and did not with 0.28.
LEAST_SHIFT = 1 / 3
# With attenuation: waves grew there with 1/3 and Qs = 10, by 30% in 4,000 steps, and not in 40,000 steps with 1/2.
LEAST_RELAXING_SHIFT = 1 / 2
PART = 8192  # elements whose rates are computed at a time
INSIDE = 1e-6  # depth in the layer, as a fraction of its thickness, from which a center is in the layer


@dataclass(frozen=True)
class LayerRates:
    """Rates of the elements of an absorbing layer, 1/s.

    inside : (elements,) True in the layer. stretching : d (elements, 3). decay : kappa (elements,). damping : s
    (elements,).
    """

    inside: np.ndarray
    stretching: np.ndarray
    decay: np.ndarray
    damping: np.ndarray

    @classmethod
    def none(cls, count: int) -> LayerRates:
        """Return the rates of elements that are all in the domain."""
        zero = np.zeros(count)
        return cls(np.zeros(count, bool), np.zeros((count, 3)), zero, zero)

    def numbers(self, elements: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gains along x, y, z (n, 3), and decay and damping (n, 2), of some elements with time steps (n,), s."""
        kappa = self.decay[elements] * steps
        mean = np.divide(np.expm1(kappa), kappa, out=np.ones_like(kappa), where=kappa > 0)
        gains = self.stretching[elements] * (mean * steps)[:, None]
        return gains, np.exp(-np.column_stack([kappa, self.damping[elements] * steps]))


@dataclass(frozen=True)
class AbsorbingLayer:
    """Additional cells around a domain.

    domain : its ends along x, y, z, m. thickness : m, beyond each face that has a layer: x_min, x_max, y_min, ...
    matched : True if perfectly matched. speed : fastest wave, m/s. reflection : R. shift : alpha, 1/s,
    unless the fraction `least_shift` of the largest d is more.
    """

    domain: tuple[tuple[float, float], ...]
    thickness: Mapping[str, float]
    matched: bool
    speed: float
    reflection: float
    shift: float
    least_shift: float = LEAST_SHIFT

    def depths(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the depth (n, 3) of positions in the layer along each axis as a fraction of its thickness, 0 outside,
        and this thickness (n, 3), m."""
        depth, thickness = np.zeros((len(positions), 3)), np.ones((len(positions), 3))
        for axis, (low, high) in enumerate(self.domain):
            for side, beyond in (("min", low - positions[:, axis]), ("max", positions[:, axis] - high)):
                width = self.thickness.get(f"{'xyz'[axis]}_{side}", 0.0)
                there = beyond > INSIDE * width if width else np.zeros(len(positions), bool)
                depth[there, axis], thickness[there, axis] = beyond[there] / max(width, INSIDE), width
        return np.minimum(depth, 1.0), thickness

    def zones(self, positions: np.ndarray) -> np.ndarray:
        """Return the zone (n,) of positions: 0 in the domain, else a sum of 1, 2, 4 for layers along x, y, z."""
        return ((self.depths(positions)[0] > 0.0) @ [1, 2, 4]).astype(np.int64)

    def rates(self, mesh: TetrahedralMesh) -> LayerRates:
        """Return the rates of the elements of a mesh, from their centers."""
        parts = over_parts(
            lambda part: self._rates(mesh.element_vertices(part).mean(axis=1)), mesh.element_count, PART
        )
        return LayerRates(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _rates(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the rates of elements with centers (n, 3), m: the attributes of `LayerRates`."""
        depth, thickness = self.depths(positions)
        inside = (depth > 0.0).any(axis=1)
        if not self.matched:
            damping = (3.0 * DAMPING * self.speed / thickness * depth**2).sum(axis=1)
            return inside, np.zeros_like(depth), np.zeros(len(depth)), damping
        rate = 0.5 * math.log(1.0 / self.reflection) * self.speed
        stretching = np.where(depth > 0.0, rate / thickness, 0.0)
        strongest = rate / min(self.thickness.values())
        shift = max(self.shift, self.least_shift * strongest)
        decay = np.where(inside, stretching.max(axis=1, initial=0.0) + shift, 0.0)
        return inside, stretching, decay, np.zeros(len(depth))


def with_layer(
    plan: BoxPlan, sizes: Mapping[str, float], margins: Mapping[str, int], cells: int, growth: float
) -> tuple[BoxPlan, dict[str, float]]:
    """Return the plan of a box extended by a layer beyond some faces, and the thickness of the layer at each, m.

    plan : of flat cells at the bottom, and at the top if z_max is among the faces. sizes : edge, m, of the cells at
    each of these faces: along x and y, of those at the bottom, of which the columns above are equal parts. margins :
    cells between the box and its layer. cells : across the layer. growth : of the cells.
    """
    thickness = {face: float(outward_steps(size, cells, growth)[-1]) for face, size in sizes.items()}
    beyond = {
        face: after_margin(margins[face], size, outward_steps(size, cells, growth)) for face, size in sizes.items()
    }
    x, y = (_extended(lines, axis, plan.merged, beyond) for axis, lines in (("x", plan.x), ("y", plan.y)))
    interfaces, slabs = list(plan.interfaces), list(plan.slabs)
    for face in sizes.keys() & {"z_min", "z_max"}:
        rows = [Slab("even", float(height)) for height in np.diff(beyond[face], prepend=0.0)]
        if face == "z_min":
            interfaces.append(interfaces[-1] - float(beyond[face][-1]))
            slabs.append(rows)
        else:
            interfaces.insert(0, interfaces[0] + float(beyond[face][-1]))
            slabs.insert(0, rows[::-1])
    return replace(plan, x=x, y=y, interfaces=interfaces, slabs=slabs), thickness


def extruded_steps(edge: float, cells: int | None, usual: int, growth: float) -> np.ndarray:
    """Return the distances, m, at which the cells of a layer of extruded prisms end, next to cells with this edge.

    cells : across the layer. None: one more than the `usual` number across a generated layer, in the same thickness,
    since the two prisms outside the face of a cube have six tetrahedra, and a cube of a generated layer twelve.
    """
    if cells is not None:
        return outward_steps(edge, cells, growth)
    return outward_steps(edge, usual + 1, growth, float(outward_steps(edge, usual, growth)[-1]))


def _extended(lines: np.ndarray, axis: str, merged: int, beyond: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the lines of columns with those outside the box. merged : columns of one cell at the bottom. beyond :
    distances, m, from each face at which cells at the bottom end."""
    parts = []
    for side in ("min", "max"):
        ends = np.concatenate([[0.0], beyond.get(f"{axis}_{side}", np.zeros(0))])
        parts.append(np.interp(np.arange(1, (len(ends) - 1) * merged + 1) / merged, np.arange(len(ends)), ends))
    return np.concatenate([lines[0] - parts[0][::-1], lines, lines[-1] + parts[1]])
