r"""Materials of elements: moduli, density, interfaces inside elements, gravity, transverse isotropy.

**Effective media of elements that contain an interface.** A point of an element stands for an interval of its column
whose length is its quadrature weight. Where layers of the material meet inside an element, the values of a point are
those of the medium that a long wave sees in this interval (Backus 1962, J. Geophys. Res. 67, 4427-4440): with Love's
moduli of the layers, and <.> the mean over the interval,

.. math::
    C = \langle 1/C \rangle^{-1}, \quad L = \langle 1/L \rangle^{-1}, \quad N = \langle N \rangle, \quad
    F = C \langle F/C \rangle, \quad A = \langle A - F^2/C \rangle + C \langle F/C \rangle^2 .

Points that take the layer they lie in would change the share of each layer in the element to that of its points, and a
single modulus for vertical and horizontal strain cannot be right for both.

**Gravity in solid elements, in the Cowling approximation.** A displacement s in a body at rest under its own gravity g
= -g(r) r/|r| changes the force by

.. math:: f = \nabla(\rho\, s \cdot g) - \nabla \cdot (\rho\, s)\, g

if the change of the gravitational potential is neglected (Komatitsch & Tromp 2002, GJI 150, 303-318). For a
density whose gradient is parallel to g, and surfaces normal to g, its weak form with a test function w is symmetric:

.. math::
    \int w \cdot f = \tfrac12 \int \rho\, \bigl[ (s \cdot \nabla w) \cdot g - (\nabla \cdot w)\, s \cdot g
        + (w \cdot \nabla s) \cdot g - (\nabla \cdot s)\, w \cdot g \bigr] + \int \rho\, s \cdot (\nabla g) \cdot w .

The kernels evaluate this form, which is symmetric at the quadrature points too, so that the discrete energy is
conserved. With h = -rho g and dg/dr = 4 pi G rho - 2 g / r, the stress (row: component of the force) and the body force
at a point are

.. math::
    \sigma = \tfrac12 (h\, s - (s \cdot h)\, I), \qquad
    b = \tfrac12 (\nabla \cdot s)\, h - \tfrac12 (\nabla s)^T h - p\, s - q\, (h \cdot s)\, h, \qquad
    p = \rho g / r, \quad q = \rho\, (dg/dr - g/r) / |h|^2 .

On surfaces that are parallel to g, such as the sides of a chunk, the symmetric form has a traction of the order of
rho g s, which changes the absorption there slightly.

Elements have one set of moduli and density per material, or values at every point; transversely isotropic ones have 21
moduli at every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.earth.radial_model import (
    GRAVITATIONAL_CONSTANT,
    Love,
    largest_softness,
    phase_speed_range,
    voigt_average_of_love,
)
from lithowave.errors import InputError
from lithowave.physics import VOIGT_PAIRS, isotropic_stiffness, lame_moduli, voigt_average
from lithowave.solvers.spectral_element.gll import gll_points, gll_positions, gll_weights, shape_functions
from lithowave.solvers.spectral_element.relaxation import Losses

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.earth.radial_model import RadialGravity
    from lithowave.media.elasticity import ElasticProperties
    from lithowave.media.medium import StackedLayers
    from lithowave.mesh.hexahedra import HexahedralMesh
    from lithowave.rheology import RelaxationBody
    from lithowave.solvers.elements.layers import LossyMedium, SampledMedium, TransverseMedium

SHORTEST = 1e-6  # m, of an interval
SMALLEST = 1e-6  # share of an interval, from which a layer is present
LEVEL = 1e-6  # m, of z in an element, up to which its columns are equal


@dataclass(frozen=True)
class AveragedLayers:
    """The effective media of the elements of a mesh in which layers of the material may meet.

    mesh : with columns along z. medium : object with love(x, y, z, first, last) -> (A, C, L, N, F), rho. lossy : object
    with inverse_quality(x, y, z, first, last) -> 1/Qkappa, 1/Qmu, or None. layers : of the material, with
    boundaries(x, y). first, last : layers of each element. inside : z, m, of the flat interfaces inside elements; None:
    any interface may be.
    """

    mesh: HexahedralMesh
    degree: int
    medium: TransverseMedium
    lossy: LossyMedium | None
    layers: StackedLayers
    first: np.ndarray
    last: np.ndarray
    inside: tuple[float, ...] | None = None

    def candidates(self, elements: np.ndarray) -> np.ndarray:
        """Return the places of those of some elements in which layers may meet."""
        places = np.flatnonzero(self.first[elements] < self.last[elements])
        if self.inside is None or not len(places):
            return places
        z = self.mesh.element_nodes(elements[places])[..., 2]
        low, high = z.min(axis=1) + SHORTEST, z.max(axis=1) - SHORTEST
        return places[np.any([(low < one) & (one < high) for one in self.inside], axis=0)]

    def columns(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return x and y (elements, j, i) of the columns of points, and z (elements, n + 1, j, i) of the ends of their
        intervals, m."""
        line, ends = gll_points(self.degree), np.append(-1.0, np.cumsum(gll_weights(self.degree)) - 1.0)
        ends[-1] = 1.0
        nodes = self.mesh.element_nodes(elements)
        z, y, x = np.meshgrid(ends, line, line, indexing="ij")
        shapes = shape_functions(np.stack([x, y, z], axis=-1), nodes.shape[1])
        x, y, z = np.moveaxis(np.einsum("kjia,eac->ekjic", shapes, nodes), -1, 0)
        return x[:, 0], y[:, 0], z

    def evaluate(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return True (elements,) where layers meet, and for all elements A, C, L, N and F, Pa, (5, elements, k, j, i),
        rho, kg/m^3, and 1/Qkappa and 1/Qmu (2, elements, k, j, i). Where fluids meet, it is False.
        """
        x, y, z = self.columns(elements)
        first, last = self.first[elements], self.last[elements]
        # Elements between the same levels are equal.
        if not self.medium_varies and np.ptp(z, axis=(2, 3)).max(initial=0.0) <= LEVEL:
            key = np.column_stack([np.round(z[:, [0, -1], 0, 0] / LEVEL), first, last])
            _, chosen, place = np.unique(key, axis=0, return_index=True, return_inverse=True)
            few = self._means(x[chosen, :1, :1], y[chosen, :1, :1], z[chosen, :, :1, :1], first[chosen], last[chosen])
            n, place = self.degree + 1, place.ravel()
            met, love, rho, inverse = (one[..., place, :, :, :] if one.ndim > 1 else one[place] for one in few)
            spread = (len(elements), n, n, n)
            return (
                met, np.broadcast_to(love, (5, *spread)), np.broadcast_to(rho, spread),
                np.broadcast_to(inverse, (2, *spread)),
            )  # fmt: skip
        return self._means(x, y, z, first, last)

    @property
    def medium_varies(self) -> bool:
        """True if the material depends on x and y."""
        return bool(getattr(self.layers, "sources", ())) or any(map(callable, getattr(self.layers, "tops", ())))

    def _means(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        low, high = z[:, :-1], z[:, 1:]
        x, y = (np.broadcast_to(one[:, None], low.shape) for one in (x, y))
        first, last = first[:, None, None, None], last[:, None, None, None]
        means, inverse = np.zeros((6, *low.shape)), np.zeros((2, *low.shape))
        present, fluid = np.zeros(len(low), np.int64), np.zeros(len(low), bool)
        ends = list(self.layers.boundaries(x[:, :1], y[:, :1]))
        for index in range(int(first.min()), int(last.max()) + 1):
            top = np.where(index == first, np.inf, ends[index])
            bottom = np.where(index == last, -np.inf, ends[index + 1])
            upper, lower = np.minimum(high, top), np.maximum(low, bottom)
            share = np.clip((upper - lower) / np.maximum(high - low, SHORTEST), 0.0, 1.0)
            share[np.broadcast_to((index < first) | (index > last), share.shape)] = 0.0
            if not share.any():
                continue
            present += (share > SMALLEST).any(axis=(1, 2, 3))
            middle, layer = 0.5 * (np.maximum(upper, lower) + lower), np.full((1, 1, 1, 1), index)
            (a, c, l, n, f), rho = self.medium.love(x, y, middle, layer, layer)  # noqa: E741
            fluid |= ((share > 0.0) & (l == 0.0)).any(axis=(1, 2, 3))
            l = np.where(l == 0.0, np.inf, l)  # noqa: E741
            parts = (1.0 / c, 1.0 / l, n, f / c, a - f * f / c, rho)
            for mean, part in zip(means, parts, strict=True):
                mean += share * part
            if self.lossy is not None:
                for mean, part in zip(inverse, self.lossy.inverse_quality(x, y, middle, layer, layer), strict=True):
                    mean += share * part
        return (present > 1) & ~fluid, np.stack(self._moduli(means)), means[5], inverse

    @staticmethod
    def _moduli(means: np.ndarray) -> Love:
        """Return A, C, L, N and F of the means of 1/C, 1/L, N, F/C and A - F^2/C."""
        soft, shear_soft, n, ratio, rest = means[:5]
        c = 1.0 / soft
        return rest + c * ratio**2, c, 1.0 / np.where(shear_soft > 0.0, shear_soft, np.inf), n, c * ratio


GRAVITY_VALUES = 5  # at a point: h (3), N/m^3, p, N/m^4, and q, m^2/N
PART = 1024


class HeavyPlan(Protocol):
    """What `gravity_values` uses of a `SpectralElementPlan`."""

    @property
    def degree(self) -> int: ...
    @property
    def mesh(self) -> HexahedralMesh: ...
    @property
    def materials(self) -> ElementMaterials: ...
    @property
    def gravity(self) -> RadialGravity: ...


def gravity_values(plan: HeavyPlan, elements: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """Return h, p and q at the points of some elements, (elements, 5, k, j, i)."""
    n = plan.degree + 1
    found = np.empty((len(elements), GRAVITY_VALUES, n, n, n), dtype)

    def compute(part: slice) -> None:
        own = elements[part]
        position = gll_positions(plan.mesh.element_nodes(own), plan.degree)
        radius = np.sqrt((position**2).sum(axis=-1))
        rho = np.broadcast_to(plan.materials.density(own).astype(float), (len(own), n**3)).reshape(radius.shape)
        acceleration = plan.gravity(radius)
        weight = rho * acceleration
        slope = 4.0 * np.pi * GRAVITATIONAL_CONSTANT * rho - 2.0 * acceleration / radius
        found[part, :3] = np.moveaxis(position, -1, 1) * (weight / radius)[:, None]
        found[part, 3] = weight / radius
        found[part, 4] = (slope - acceleration / radius) / (weight * acceleration)

    over_parts(compute, len(elements), PART)
    return found


NEGLIGIBLE = 1e-4  # 1/Q of fluids that are taken as elastic, such as the outer core with 1/57823
UPPER = np.triu_indices(6)


@dataclass(frozen=True)
class ElementMaterials:
    """Materials of the elements.

    number : index of each element's material in the tables. stiffness : (materials, 6, 6), Pa, Voigt's order xx, yy,
    zz, yz, xz, xy; rho : (materials,), kg/m^3; anisotropic : (materials,); fastest, slowest : phase velocities, m/s. If
    the model varies within elements, `values` has lambda, mu, rho at every point, (3, elements, k, j, i), and the only
    material states the extremes. With attenuation, moduli are unrelaxed, and `losses` has the quality factors.
    """

    number: np.ndarray
    stiffness: np.ndarray
    rho: np.ndarray
    anisotropic: np.ndarray
    fastest: np.ndarray
    slowest: np.ndarray
    values: np.ndarray | None = None
    losses: Losses | None = None

    @property
    def varying(self) -> bool:
        """True if there are values at every point."""
        return self.values is not None

    @cached_property
    def is_fluid(self) -> np.ndarray:
        """True for each element that is a fluid: mu = 0 at all points."""
        if self.values is not None:
            return ~self.values[1].reshape(len(self.number), -1).any(axis=1)
        return (self.stiffness[:, 5, 5] == 0.0)[self.number]

    def part(self, elements: np.ndarray) -> Self:
        """Return the materials of some elements."""
        values, losses = self.values, self.losses
        if values is not None:
            values = values[:, elements]
            losses = None if losses is None else Losses(losses.body, losses.inverse[:, elements])
        return replace(self, number=self.number[elements], values=values, losses=losses)

    def mobility(self, elements: np.ndarray) -> np.ndarray:
        """Return 1 / rho, m^3/kg, of fluid elements: (elements, 1), or (elements, 1, k, j, i) if it varies."""
        if self.values is not None:
            return 1.0 / self.values[2, elements][:, None]
        return 1.0 / self.rho[self.number[elements]][:, None]

    def moduli(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return moduli (rows, c), or (rows, c, k, j, i) if they vary, and the row of each of some elements in them.

        c is lambda, mu, or, for anisotropic elements, which are never mixed with isotropic ones, the 21 of the upper
        triangle by rows.
        """
        if self.values is not None:
            return np.moveaxis(self.values[:2], 0, 1), elements
        number = self.number[elements]
        if len(number) and self.anisotropic[number[0]]:
            return self.stiffness[:, UPPER[0], UPPER[1]], number
        mu = self.stiffness[:, 5, 5]
        return np.stack([self.stiffness[:, 0, 0] - 2 * mu, mu], axis=1), number

    def isotropic_moduli(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kappa and mu, Pa, of the isotropic (Voigt) average, (elements,), or (elements, k, j, i) if they
        vary."""
        if self.values is not None:
            lam, mu = self.values[:2, elements].astype(float)
            return lam + 2.0 / 3.0 * mu, mu
        kappa, mu = voigt_average(self.stiffness)
        return kappa[self.number[elements]], mu[self.number[elements]]

    def softness(self, elements: np.ndarray) -> np.ndarray:
        """Return the largest ratio (elements,) of the energy of a strain in the isotropic average to that in the
        medium."""
        if self.values is not None or not self.anisotropic.any():
            return np.ones(len(elements))
        kappa, mu = voigt_average(self.stiffness[self.anisotropic])
        average = isotropic_stiffness(kappa - 2.0 / 3.0 * mu, mu)
        ratios = np.ones(len(self.rho))
        strain = np.linalg.solve(self.stiffness[self.anisotropic], average)
        ratios[self.anisotropic] = np.linalg.eigvals(strain).real.max(axis=1)
        return ratios[self.number[elements]]

    def attenuates(self, elements: np.ndarray) -> np.ndarray:
        """Return True for each element with attenuation."""
        if self.losses is None:
            return np.zeros(len(elements), bool)
        inverse = self.losses.inverse
        if self.values is None:
            return (inverse > 0.0).any(axis=0)[self.number[elements]]
        found = np.empty(len(elements), bool)

        def examine(some: slice) -> None:
            found[some] = (inverse[:, elements[some]] > 0.0).any(axis=(0, 2, 3, 4))

        over_parts(examine, len(elements), PART)
        return found

    def density(self, some: slice = slice(None)) -> np.ndarray:
        """Return (elements, 1), or (elements, points) if it varies, kg/m^3, of all or some elements."""
        if self.values is not None:
            return self.values[2].reshape(len(self.number), -1)[some]
        return self.rho[self.number[some]][:, None]

    def inertia(self, some: slice = slice(None)) -> np.ndarray:
        """Return rho, kg/m^3, of solids and 1 / kappa, 1/Pa, of fluids: (elements, 1), or (elements, points) if they
        vary, of all or some elements."""
        fluid, rho = self.is_fluid[some, None], self.density(some)
        if not fluid.any():
            return rho
        if self.values is None:
            bulk = self.stiffness[:, 0, 0][self.number[some]][:, None]
        else:
            bulk = self.values[0].reshape(len(self.number), -1)[some]
        return np.where(fluid, 1.0 / bulk, rho)

    def _points(self, some: slice | np.ndarray) -> np.ndarray:
        """Return the values of some elements, (3, elements, points)."""
        return self.values[:, some].reshape(3, len(self.number[some]), math.prod(self.values.shape[2:]))

    def speed(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in some elements, m/s: (elements, 1), or (elements, points)."""
        if self.values is not None:
            lam, mu, rho = self._points(some)
            return np.sqrt((lam + 2 * mu) / rho)
        return self.fastest[self.number[some]][:, None]

    def fastest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in each of some elements, m/s."""
        return self.speed(some).max(axis=1)

    def slowest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the slowest wave in each of some elements, m/s: vs, or vp in a fluid."""
        if self.values is None:
            return self.slowest[self.number[some]]
        lam, mu, rho = self._points(some)
        return np.sqrt(np.where(mu == 0.0, lam, mu) / rho).min(axis=1)

    def at(self, elements: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Voigt's matrix (elements, points, 6, 6) and rho (elements, points) at points (k, j, i) of elements."""
        if self.values is not None:
            lam, mu, rho = self.values[:, elements][:, :, places[:, 0], places[:, 1], places[:, 2]].astype(float)
            return isotropic_stiffness(lam, mu), rho
        number = np.broadcast_to(self.number[elements][:, None], (len(elements), len(places)))
        return self.stiffness[number], self.rho[number]

    def within(self, element: int, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a point in an element; weights (k, j, i) interpolate."""
        if self.values is not None:
            lam, mu, rho = (float((part[element] * weights).sum()) for part in self.values)
            return isotropic_stiffness(lam, mu), rho
        number = self.number[element]
        return self.stiffness[number], float(self.rho[number])


def materials_of(
    properties: Sequence[ElasticProperties], number: np.ndarray, losses: Losses | None = None
) -> ElementMaterials:
    """Return constant materials from objects with `rho`, `stiffness_matrix()`, `is_anisotropic`, `speed_range`."""
    return ElementMaterials(
        number,
        np.array([one.stiffness_matrix() for one in properties]),
        np.array([one.rho for one in properties], float),
        np.array([one.is_anisotropic for one in properties], bool),
        np.array([one.speed_range[1] for one in properties], float),
        np.array([one.speed_range[0] for one in properties], float),
        losses=losses,
    )


@dataclass(frozen=True)
class EqualElements:
    """Groups of elements at whose points a medium has the same values. first : an element of each (groups,). group : of
    each element (elements,)."""

    first: np.ndarray
    group: np.ndarray

    @classmethod
    def between_levels(cls, mesh: HexahedralMesh, layers: tuple[np.ndarray, ...]) -> EqualElements | None:
        """Return the elements whose nodes have equal z, up to `LEVEL`, and which belong to the same layers, see
        `layers.own_layers`; None if most of them are different."""
        nodes, level = mesh.node_indices, np.rint(mesh.vertices[:, 2] / LEVEL).astype(np.int64)
        factors = np.random.default_rng(4).integers(1, 2**62, nodes.shape[1] + len(layers), np.int64)
        mixed = np.empty(len(nodes), np.int64)

        def mix(some: slice) -> None:
            own = [*level[nodes[some]].T, *(layer[some] for layer in layers)]
            mixed[some] = sum(factor * values for factor, values in zip(factors, own, strict=True))  # wraps around

        over_parts(mix, len(nodes), LEVEL_PART)
        _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
        return cls(first, group.ravel()) if len(first) <= MOST_GROUPS * len(nodes) else None

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return the values (c, elements, ...) of those of the groups, (c, groups, ...)."""
        found = np.empty((len(values), len(self.group), *values.shape[2:]), values.dtype)

        def copy(some: slice) -> None:
            for own, of_groups in zip(found, values, strict=True):
                np.take(of_groups, self.group[some], axis=0, out=own[some], mode="clip")

        over_parts(copy, len(self.group), LEVEL_PART)
        return found


def sampled_materials(
    medium: SampledMedium, positions: Callable[[slice | np.ndarray], np.ndarray], elements: int, points: int,
    dtype: npt.DTypeLike, body: RelaxationBody | None = None,
    lossy: LossyMedium | None = None,
    layers: tuple[np.ndarray, ...] = (), equal: EqualElements | None = None,
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element.

    medium : object with sample(x, y, z) -> vp, vs, rho. positions : function of a slice of elements -> (elements, k, j,
    i, 3), m. body, lossy : relaxation mechanisms, and object with inverse_quality(x, y, z) -> 1/Qkappa, 1/Qmu; None
    without attenuation. layers : further arguments of both, (elements,) each: see `layers.own_layers`. equal : elements
    with the same values; None: any may be different.
    """
    if equal is not None:
        few = sampled_materials(
            medium, lambda some: positions(equal.first[some]), len(equal.first), points, dtype, body, lossy,
            tuple(layer[equal.first] for layer in layers),
        )  # fmt: skip
        return _spread(few, equal)
    values = np.empty((3, elements, points, points, points), dtype)
    losses = None if body is None else Losses(body, np.empty((2, *values.shape[1:]), dtype))

    def sample(some: slice) -> tuple[float, float]:
        x, y, z = np.moveaxis(positions(some), -1, 0)
        own = [layer[some, None, None, None] for layer in layers]
        vp, vs, rho = medium.sample(x, y, z, *own)
        values[0, some], values[1, some] = lame_moduli(vp, vs, rho)
        values[2, some] = rho
        fluid = vs == 0.0
        if losses is not None:
            inverse = lossy.inverse_quality(x, y, z, *own)
            for number, one in enumerate(inverse):
                elastic = fluid & (one <= NEGLIGIBLE)
                losses.inverse[number, some] = np.where(elastic, 0.0, one)
        _refuse_mixed(fluid, x, y, z)
        return float(vp.max()), float(np.where(fluid, vp, vs).min())

    speeds = over_parts(sample, elements, PART, None if getattr(medium, "concurrent", False) else 1)
    fastest, slowest = max((vp for vp, _ in speeds), default=0.0), min((vs for _, vs in speeds), default=np.inf)
    return ElementMaterials(
        np.zeros(elements, np.int64), np.zeros((1, 6, 6)), np.zeros(1), np.zeros(1, bool), np.array([fastest]),
        np.array([slowest]), values, losses,
    )  # fmt: skip


def _spread(few: ElementMaterials, equal: EqualElements) -> ElementMaterials:
    """Return the materials of all elements, with values at points, of those of one element of each group."""
    losses = None if few.losses is None else Losses(few.losses.body, equal.spread(few.losses.inverse))
    return replace(few, number=few.number[equal.group], values=equal.spread(few.values), losses=losses)


def _refuse_mixed(fluid: np.ndarray, *positions: np.ndarray) -> None:
    """Refuse elements with fluid and solid points. fluid and positions x, y, z, m : [element, k, j, i]."""
    count = fluid.reshape(len(fluid), -1).sum(axis=1)
    mixed = np.flatnonzero((count > 0) & (count < fluid[0].size))
    if mixed.size:
        x, y, z = (axis[mixed[0]].mean() for axis in positions)
        raise InputError(
            "material", f"the element at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m has fluid (vs = 0) and solid points",
            "spectral_element: elements that are entirely fluid or entirely solid",
            "use material.layers with the sea floor as the top of a layer, or a mesh whose faces follow the sea floor "
            "(solver.mesh, material.groups); method: discontinuous_galerkin chooses one of the two for each element",
        )  # fmt: skip


TRANSVERSE_PART = 256  # elements that are processed at a time
LEVEL_PART = 8192
MOST_GROUPS = 0.25  # groups of equal elements over elements, above which each element is sampled
ISOTROPIC, TRANSVERSE = 0, 1  # indices in the tables of materials


@dataclass(frozen=True)
class TransverseMaterials(ElementMaterials):
    """Values at every point; those of anisotropic elements are the isotropic (Voigt) average, and in addition:

    tensors : 21 moduli, Pa, the upper triangle by rows, (21, anisotropic elements, k, j, i). speeds : slowest and
    fastest phase velocity, m/s, (2, anisotropic elements, k, j, i). soft : `softness` (anisotropic elements,). place :
    index (elements,) of each element in these arrays; -1 for isotropic elements.
    """

    tensors: np.ndarray = field(default_factory=lambda: np.zeros((21, 0, 1, 1, 1)))
    speeds: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 1, 1, 1)))
    soft: np.ndarray = field(default_factory=lambda: np.zeros(0))
    place: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def part(self, elements: np.ndarray) -> Self:
        """Return the materials of some elements."""
        rows = self.place[elements]
        own = rows[rows >= 0]
        return replace(
            super().part(elements), tensors=self.tensors[:, own], speeds=self.speeds[:, own], soft=self.soft[own],
            place=np.where(rows >= 0, np.cumsum(rows >= 0) - 1, -1),
        )  # fmt: skip

    def moduli(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moduli of some elements, either all isotropic or all anisotropic; see the base."""
        place = self.place[elements]
        if len(place) and place[0] >= 0:
            return np.moveaxis(self.tensors, 0, 1), place
        return super().moduli(elements)

    def softness(self, elements: np.ndarray) -> np.ndarray:
        """See the base; from the corners and the middle of each element."""
        found, place = super().softness(elements), self.place[elements]
        found[place >= 0] = self.soft[place[place >= 0]]
        return found

    def speed(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the fastest wave in some elements, m/s, (elements, points)."""
        found, place = np.array(super().speed(some)), self.place[some]
        own = self.speeds[1, place[place >= 0]]
        found[place >= 0] = own.reshape(len(own), found.shape[1])
        return found

    def slowest_in_elements(self, some: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the velocity of the slowest wave in each of some elements, m/s."""
        found, place = np.array(super().slowest_in_elements(some)), self.place[some]
        found[place >= 0] = self.speeds[0, place[place >= 0]].min(axis=(1, 2, 3))
        return found

    def at(self, elements: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Voigt's matrix (elements, points, 6, 6) and rho (elements, points) at points (k, j, i) of elements."""
        stiffness, rho = super().at(elements, places)
        place = self.place[elements]
        own = self.tensors[:, place[place >= 0]][:, :, places[:, 0], places[:, 1], places[:, 2]]
        stiffness[place >= 0] = full_matrices(np.moveaxis(own.astype(float), 0, -1))
        return stiffness, rho

    def within(self, element: int, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Voigt's matrix and rho at a point in an element; weights (k, j, i) interpolate."""
        stiffness, rho = super().within(element, weights)
        if self.place[element] < 0:
            return stiffness, rho
        moduli = (self.tensors[:, self.place[element]].astype(float) * weights).sum(axis=(1, 2, 3))
        return full_matrices(moduli), rho


def full_matrices(moduli: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (..., 6, 6) of 21 moduli (..., 21), the upper triangle by rows."""
    matrices = np.empty((*moduli.shape[:-1], 6, 6))
    matrices[..., UPPER[0], UPPER[1]] = moduli
    matrices[..., UPPER[1], UPPER[0]] = moduli
    return matrices


def vertical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the direction (0, 0, 1) at points (...), as (..., 3)."""
    return np.broadcast_to([0.0, 0.0, 1.0], (*np.broadcast_shapes(x.shape, y.shape), 3))


def _speeds_and_softness(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Return the lowest and the highest phase speed, m/s, and the largest softness, (n,), of moduli and density (6, n),
    of which many are equal."""
    distinct, index = np.unique(rows, axis=1, return_inverse=True)
    love, rho = tuple(distinct[:5]), distinct[5]
    return (one[index.ravel()] for one in (*phase_speed_range(love, rho), largest_softness(love)))


def sampled_transverse_materials(
    medium: TransverseMedium, positions: Callable[[slice | np.ndarray], np.ndarray], chosen: np.ndarray,
    strongest: tuple[np.ndarray, float], points: int,
    dtype: npt.DTypeLike,
    body: RelaxationBody | None = None, lossy: LossyMedium | None = None, layers: tuple[np.ndarray, ...] = (),
    axes: Callable[[np.ndarray, np.ndarray], np.ndarray] = vertical, averaged: AveragedLayers | None = None,
    equal: EqualElements | None = None,
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element, with 21 moduli in some elements.

    Parameters
    ----------
    medium : object with sample as in `sampled_materials`, and love(x, y, z) -> (A, C, L, N, F), rho.
    chosen : (elements,) True for anisotropic elements.
    strongest : 21 moduli, Pa, and rho of the medium with the strongest anisotropy, the same on all ranks.
    axes : function of x and y, m, (...) -> unit vectors (..., 3) of the symmetry axes.
    averaged : effective media of the elements with more than one layer, which are anisotropic; None: without them.
    positions, points, dtype, body, lossy, layers, equal : see `sampled_materials`; axes may differ in equal elements.
    """
    one_of_each = np.arange(len(chosen)) if equal is None else equal.first
    layers, chosen = tuple(layer[one_of_each] for layer in layers), chosen[one_of_each]

    def of_groups(some: slice | np.ndarray) -> np.ndarray:
        return positions(one_of_each[some])

    base = sampled_materials(medium, of_groups, len(chosen), points, dtype, body, lossy, layers)
    means = [] if averaged is None else _effective(averaged, base, one_of_each)
    effective = np.zeros(len(chosen), bool)
    effective[np.concatenate([np.zeros(0, np.int64), *(elements for elements, _, _ in means)])] = True
    chosen = chosen | effective
    place = np.where(chosen, np.cumsum(chosen) - 1, -1)
    found = TransverseValues.empty(int(chosen.sum()), points, dtype, keeps_love=equal is not None)

    def store(elements: np.ndarray, love: Sequence[np.ndarray], rho: np.ndarray) -> None:
        few = found.store(place[elements], np.stack(np.broadcast_arrays(*map(_without_copies, (*love, rho)))))
        if equal is None:
            found.rotate(place[elements], few, np.arange(len(elements)), positions(elements), axes)

    over_parts(lambda part: store(*means[part.start]), len(means), 1)
    others = np.flatnonzero(chosen & ~effective)

    def sample(part: slice) -> None:
        own = others[part]
        x, y, z = np.moveaxis(of_groups(own), -1, 0)
        store(own, *medium.love(x, y, z, *(layer[own, None, None, None] for layer in layers)))

    over_parts(sample, len(others), TRANSVERSE_PART, None if getattr(medium, "concurrent", False) else 1)
    fastest = max(float(base.fastest[0]), float(found.speeds[1].max(initial=0.0)))
    slowest = min(float(base.slowest[0]), float(found.speeds[0].min(initial=np.inf)))
    if equal is not None:
        base, chosen, place = _spread(base, equal), chosen[equal.group], place[equal.group]
        found, place = found.spread(place, positions, axes)
    stiffness, rho = full_matrices(strongest[0]), strongest[1]
    return TransverseMaterials(
        np.where(chosen, TRANSVERSE, ISOTROPIC), np.stack([np.zeros((6, 6)), stiffness]), np.array([0.0, rho]),
        np.array([False, True]), np.array([fastest]), np.array([slowest]), base.values, base.losses,
        found.tensors, found.speeds, found.soft, place,
    )  # fmt: skip


@dataclass(frozen=True)
class TransverseValues:
    """Values of anisotropic elements: `tensors`, `speeds` and `soft` of `TransverseMaterials`; with `love`, instead of
    the tensors, A, C, L, N and F and rho (6, elements, k, j, i)."""

    tensors: np.ndarray
    speeds: np.ndarray
    soft: np.ndarray
    love: np.ndarray | None = None

    @classmethod
    def empty(cls, elements: int, points: int, dtype: npt.DTypeLike, keeps_love: bool) -> TransverseValues:
        """Return the arrays of some elements, without values."""
        shape = elements, points, points, points
        tensors = np.empty((21, 0 if keeps_love else elements, *shape[1:]), dtype)
        love = np.empty((6, *shape)) if keeps_love else None
        return cls(tensors, np.empty((2, *shape), dtype), np.empty(elements), love)

    def store(self, some: np.ndarray, love: np.ndarray) -> np.ndarray:
        """Store the speeds and the softness of some elements with these A, C, L, N and F and rho (6, elements, k, j,
        i), whose axes j and i may have one value; return them as (6, elements, values)."""
        slow, fast, ratio = (one.reshape(love.shape[1:]) for one in _speeds_and_softness(love.reshape(6, -1)))
        self.speeds[0, some], self.speeds[1, some] = slow, fast
        n = self.speeds.shape[2]
        places = (np.array([*np.ndindex(2, 2, 2), (0.5, 0.5, 0.5)]) * (n - 1)).astype(int)
        k, j, i = (np.minimum(places, size - 1)[:, axis] for axis, size in enumerate(love.shape[2:]))
        self.soft[some] = ratio[:, k, j, i].max(axis=1)
        if self.love is not None:
            self.love[:, some] = love
        return love.reshape(*love.shape[:2], -1)

    def rotate(
        self, some: np.ndarray, love: np.ndarray, rows: np.ndarray, positions: np.ndarray,
        axes: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> None:  # fmt: skip
        """Store the moduli of some elements at these positions (elements, k, j, i, 3).

        love : (6, rows, values), see `store`; rows : of each element among them.
        """
        x, y, _ = np.moveaxis(positions, -1, 0)
        directions = np.ascontiguousarray(np.broadcast_to(axes(x, y), (*x.shape, 3)).reshape(len(some), -1, 3))
        own = np.empty((21, *directions.shape[:2]), self.tensors.dtype)
        rotate_moduli(np.ascontiguousarray(love), rows, directions, own)
        self.tensors[:, some] = own.reshape(21, *x.shape)

    def spread(
        self, place: np.ndarray, positions: Callable[[np.ndarray], np.ndarray],
        axes: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> tuple[TransverseValues, np.ndarray]:  # fmt: skip
        """Return the values of all elements, of those of one element of each group, and the index of each element in
        them, -1 for isotropic elements. place : index of the group of each element; -1 for isotropic elements."""
        members = np.flatnonzero(place >= 0)
        equal, n = EqualElements(np.zeros(0, np.int64), place[members]), self.speeds.shape[2]
        tensors = np.empty((21, len(members), n, n, n), self.speeds.dtype)
        found = TransverseValues(tensors, equal.spread(self.speeds), self.soft[equal.group])
        love = self.love.reshape(6, len(self.soft), -1)

        def rotate(part: slice) -> None:
            found.rotate(np.arange(part.start, part.stop), love, equal.group[part], positions(members[part]), axes)

        over_parts(rotate, len(members), TRANSVERSE_PART)
        return found, np.where(place >= 0, np.cumsum(place >= 0) - 1, -1)


def _effective(
    averaged: AveragedLayers, base: ElementMaterials, elements: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the places of elements in which layers meet among some elements, with their moduli A, C, L, N and F and
    rho, in parts.

    Isotropic averages, densities and quality factors in `base`, the materials of these elements, are changed to those
    of the effective media.
    """

    def evaluate(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        some = part.start + averaged.candidates(elements[part])
        if not len(some):
            return None
        met, love, rho, inverse = averaged.evaluate(elements[some])
        some = some[met]
        if not len(some):
            return None
        shape = rho[met].shape
        love, rho = (np.broadcast_to(_without_copies(one)[..., met, :, :, :], (*one.shape[:-4], *shape))
                     for one in (love, rho))  # fmt: skip
        kappa, mu = voigt_average_of_love(tuple(love))
        base.values[0, some], base.values[1, some] = kappa - 2.0 / 3.0 * mu, mu
        base.values[2, some] = rho
        if base.losses is not None:
            base.losses.inverse[:, some] = inverse[:, met]
        return some, love, rho

    threads = None if getattr(averaged.medium, "concurrent", False) else 1
    return [one for one in over_parts(evaluate, len(elements), TRANSVERSE_PART, threads) if one is not None]


def _without_copies(values: np.ndarray) -> np.ndarray:
    """Return an array without the copies of its values along the last two axes."""
    return values[..., :1, :1] if values.strides[-2:] == (0, 0) else values


_AXES = np.array(VOIGT_PAIRS)
_SAME = np.eye(3)


@exact_part
def rotate_moduli(love, rows, axes, moduli):  # pragma: no cover - compiled
    """Compute the 21 moduli (21, elements, points) of `transverse_moduli` for axes (elements, points, 3), and A, C, L,
    N and F (6, rows, values): those of an element are in its row, and each value belongs to as many successive points.
    """
    copies = axes.shape[1] // love.shape[2]
    for count in range(axes.shape[0] * axes.shape[1]):
        element, point = count // axes.shape[1], count % axes.shape[1]
        own = love[:, rows[element], point // copies]
        a, c, l, n, f = own[0], own[1], own[2], own[3], own[4]  # noqa: E741
        lam, normal, shear, along = a - 2.0 * n, f - a + 2.0 * n, l - n, a + c - 2.0 * f - 4.0 * l
        s, number = axes[element, point], 0
        for first in range(6):
            i, j = _AXES[first]
            for second in range(first, 6):
                k, m = _AXES[second]
                moduli[number, element, point] = (
                    lam * (_SAME[i, j] * _SAME[k, m])
                    + n * (_SAME[i, k] * _SAME[j, m] + _SAME[i, m] * _SAME[j, k])
                    + normal * (_SAME[i, j] * s[k] * s[m] + s[i] * s[j] * _SAME[k, m])
                    + shear * (_SAME[i, k] * s[j] * s[m] + _SAME[i, m] * s[j] * s[k])
                    + shear * (_SAME[j, k] * s[i] * s[m] + _SAME[j, m] * s[i] * s[k])
                    + along * (s[i] * s[j] * s[k] * s[m])
                )
                number += 1
