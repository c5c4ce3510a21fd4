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
        """Return those of some elements in which layers may meet."""
        elements = elements[self.first[elements] < self.last[elements]]
        if self.inside is None or not len(elements):
            return elements
        z = self.mesh.element_nodes(elements)[..., 2]
        low, high = z.min(axis=1) + SHORTEST, z.max(axis=1) - SHORTEST
        return elements[np.any([(low < one) & (one < high) for one in self.inside], axis=0)]

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

    def moduli(self, elements: np.ndarray | None) -> np.ndarray:
        """Return the moduli of some elements (None: all): (elements, c), or (elements, c, k, j, i) if they vary.

        c is lambda, mu, or, for anisotropic elements, which are never mixed with isotropic ones, the 21 of the upper
        triangle by rows.
        """
        some = slice(None) if elements is None else elements
        if self.values is not None:
            return np.moveaxis(self.values[:2, some], 0, 1)
        number = self.number[some]
        if len(number) and self.anisotropic[number[0]]:
            return self.stiffness[:, UPPER[0], UPPER[1]][number]
        mu = self.stiffness[:, 5, 5]
        return np.stack([self.stiffness[:, 0, 0] - 2 * mu, mu], axis=1)[number]

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
        if self.values is None:
            return (self.losses.inverse > 0.0).any(axis=0)[self.number[elements]]
        return (self.losses.inverse[:, elements] > 0.0).any(axis=(0, 2, 3, 4))

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


def sampled_materials(
    medium: SampledMedium, positions: Callable[[slice | np.ndarray], np.ndarray], elements: int, points: int,
    dtype: npt.DTypeLike, body: RelaxationBody | None = None,
    lossy: LossyMedium | None = None,
    layers: tuple[np.ndarray, ...] = (),
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element.

    medium : object with sample(x, y, z) -> vp, vs, rho. positions : function of a slice of elements -> (elements, k, j,
    i, 3), m. body, lossy : relaxation mechanisms, and object with inverse_quality(x, y, z) -> 1/Qkappa, 1/Qmu; None
    without attenuation. layers : further arguments of both, (elements,) each: see `layers.own_layers`.
    """
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

    def moduli(self, elements: np.ndarray | None) -> np.ndarray:
        """Return the moduli of some elements (None: all), either all isotropic or all anisotropic; see the base."""
        place = self.place if elements is None else self.place[elements]
        if len(place) and place[0] >= 0:
            return np.moveaxis(self.tensors[:, place], 0, 1)
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
) -> ElementMaterials:  # fmt: skip
    """Return values of a medium at every point of every element, with 21 moduli in some elements.

    Parameters
    ----------
    medium : object with sample as in `sampled_materials`, and love(x, y, z) -> (A, C, L, N, F), rho.
    chosen : (elements,) True for anisotropic elements.
    strongest : 21 moduli, Pa, and rho of the medium with the strongest anisotropy, the same on all ranks.
    axes : function of x and y, m, (...) -> unit vectors (..., 3) of the symmetry axes.
    averaged : effective media of the elements with more than one layer, which are anisotropic; None: without them.
    positions, points, dtype, body, lossy, layers : see `sampled_materials`.
    """
    base = sampled_materials(medium, positions, len(chosen), points, dtype, body, lossy, layers)
    means = [] if averaged is None else _effective(averaged, base)
    effective = np.zeros(len(chosen), bool)
    effective[np.concatenate([np.zeros(0, np.int64), *(elements for elements, _, _ in means)])] = True
    chosen = chosen | effective
    members = np.flatnonzero(chosen)
    place = np.full(len(chosen), -1, np.int64)
    place[members] = np.arange(len(members))
    tensors = np.empty((21, len(members), points, points, points), dtype)
    speeds, soft = np.empty((2, *tensors.shape[1:]), dtype), np.empty(len(members))
    points_of_softness = (np.array([*np.ndindex(2, 2, 2), (0.5, 0.5, 0.5)]) * (points - 1)).astype(int)

    def store(elements: np.ndarray, love: Sequence[np.ndarray], rho: np.ndarray) -> None:
        x, y, _ = np.moveaxis(positions(elements), -1, 0)
        some = place[elements]
        few = np.stack(np.broadcast_arrays(*map(_without_copies, (*love, rho))))
        rows = np.ascontiguousarray(few.reshape(6, -1))
        directions = np.ascontiguousarray(np.broadcast_to(axes(x, y), (*x.shape, 3)).reshape(-1, 3))
        own = np.empty((21, x.size), dtype)
        rotate_moduli(rows, x.size // rows.shape[1], directions, own)
        tensors[:, some] = own.reshape(21, *x.shape)
        slow, fast, ratio = (one.reshape(few.shape[1:]) for one in _speeds_and_softness(rows))
        speeds[0, some], speeds[1, some] = slow, fast
        k, j, i = (np.minimum(points_of_softness, size - 1) for size in few.shape[2:])
        soft[some] = ratio[:, k[:, 0], j[:, 1], i[:, 2]].max(axis=1)

    over_parts(lambda part: store(*means[part.start]), len(means), 1)
    others = np.flatnonzero(chosen & ~effective)

    def sample(part: slice) -> None:
        own = others[part]
        x, y, z = np.moveaxis(positions(own), -1, 0)
        store(own, *medium.love(x, y, z, *(layer[own, None, None, None] for layer in layers)))

    over_parts(sample, len(others), TRANSVERSE_PART, None if getattr(medium, "concurrent", False) else 1)
    stiffness, rho = full_matrices(strongest[0]), strongest[1]
    fastest = max(float(base.fastest[0]), float(speeds[1].max(initial=0.0)))
    slowest = min(float(base.slowest[0]), float(speeds[0].min(initial=np.inf)))
    return TransverseMaterials(
        np.where(chosen, TRANSVERSE, ISOTROPIC), np.stack([np.zeros((6, 6)), stiffness]), np.array([0.0, rho]),
        np.array([False, True]), np.array([fastest]), np.array([slowest]), base.values, base.losses,
        tensors, speeds, soft, place,
    )  # fmt: skip


def _effective(averaged: AveragedLayers, base: ElementMaterials) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return elements in which layers meet, with their moduli A, C, L, N and F and rho, in parts.

    Isotropic averages, densities and quality factors in `base` are changed to those of the effective media.
    """

    def evaluate(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        elements = averaged.candidates(np.arange(part.start, part.stop))
        if not len(elements):
            return None
        met, love, rho, inverse = averaged.evaluate(elements)
        elements = elements[met]
        if not len(elements):
            return None
        shape = rho[met].shape
        love, rho = (np.broadcast_to(_without_copies(one)[..., met, :, :, :], (*one.shape[:-4], *shape))
                     for one in (love, rho))  # fmt: skip
        kappa, mu = voigt_average_of_love(tuple(love))
        base.values[0, elements], base.values[1, elements] = kappa - 2.0 / 3.0 * mu, mu
        base.values[2, elements] = rho
        if base.losses is not None:
            base.losses.inverse[:, elements] = inverse[:, met]
        return elements, love, rho

    threads = None if getattr(averaged.medium, "concurrent", False) else 1
    return [one for one in over_parts(evaluate, len(base.number), TRANSVERSE_PART, threads) if one is not None]


def _without_copies(values: np.ndarray) -> np.ndarray:
    """Return an array without the copies of its values along the last two axes."""
    return values[..., :1, :1] if values.strides[-2:] == (0, 0) else values


_AXES = np.array(VOIGT_PAIRS)
_SAME = np.eye(3)


@exact_part
def rotate_moduli(love, copies, axes, moduli):  # pragma: no cover - compiled
    """Compute the 21 moduli (21, points) of `transverse_moduli` for A, C, L, N and F (5, rows), each of which belongs
    to `copies` points, and axes (points, 3)."""
    for point in range(len(axes)):
        row = point // copies
        a, c, l, n, f = love[0, row], love[1, row], love[2, row], love[3, row], love[4, row]  # noqa: E741
        lam, normal, shear, along = a - 2.0 * n, f - a + 2.0 * n, l - n, a + c - 2.0 * f - 4.0 * l
        s, number = axes[point], 0
        for first in range(6):
            i, j = _AXES[first]
            for second in range(first, 6):
                k, m = _AXES[second]
                moduli[number, point] = (
                    lam * (_SAME[i, j] * _SAME[k, m])
                    + n * (_SAME[i, k] * _SAME[j, m] + _SAME[i, m] * _SAME[j, k])
                    + normal * (_SAME[i, j] * s[k] * s[m] + s[i] * s[j] * _SAME[k, m])
                    + shear * (_SAME[i, k] * s[j] * s[m] + _SAME[i, m] * s[j] * s[k])
                    + shear * (_SAME[j, k] * s[i] * s[m] + _SAME[j, m] * s[i] * s[k])
                    + along * (s[i] * s[j] * s[k] * s[m])
                )
                number += 1
