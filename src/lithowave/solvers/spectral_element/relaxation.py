r"""Relaxation of the stresses of elements with attenuation, with memory variables at some of their points.

With the unrelaxed moduli C, the weights Y_j of the bulk modulus kappa and of the shear modulus mu, and the rates w_j of
the mechanisms (`lithowave.rheology`),

.. math::
    \sigma = C : \varepsilon - \sum_j R_j, \qquad \dot R_j + \omega_j R_j = \omega_j F_j, \qquad
    F_j = Y_j^\kappa \kappa\, \mathrm{tr}(\varepsilon) I + 2 Y_j^\mu \mu\, \mathrm{dev}(\varepsilon),

where kappa and mu of an anisotropic medium are those of its isotropic (Voigt) average. For a strain that is linear
between the steps, the solution at t_{n+1} is exact with one memory variable m per component and mechanism,

.. math::
    R = b F + m, \quad m \leftarrow c F + a m, \qquad x = \omega \Delta t, \quad a = e^{-x}, \quad
    g = \frac{1 - a}{x}, \quad b = 1 - g, \quad c = g (1 - a).

With the stress s = F - R of the spring and dashpot of a mechanism, whose modulus is f, F = f e, the work of a step is
(s + s') (e' - e) / 2 = (1 + a) / (4 g f) (s'^2 - s^2) + (1 - a) / (4 g f) (s + s')^2. The last term, the dissipation,
is never negative: for every time step that is stable with the unrelaxed moduli, the discrete energy does not increase.

Only some points of an element carry F_j (coarse-grained memory variables: Day 1998, BSSA 88, 1051-1062; van Driel &
Nissen-Meyer 2014, GJI 199, 1078-1093). Each point assigns its moduli w J Y kappa and w J Y mu, with the quadrature
weight w and the Jacobian J, to the nearest carrying point of the reference cube, or to the nearest ones in proportion
to their w. The sum of the moduli over an element, and with it the attenuation of long waves to first order in 1/Q,
does not depend on the set. To second order, strain concentrates at carrying points: a stress R there increases the
strain by nu R / C, so that the weights y_j = Y_j C w J / (C w J of the point) act as y / (1 - nu y) with the complex
y(omega). The weight of each mechanism is therefore divided by (1 + nu Re y)^2 at its rate, which corrects the
attenuation there. nu is that of a sphere in an infinite medium times a constant of the set, which was determined with
long waves in a periodic mesh of cubes with vp/vs = sqrt(3). The relaxed moduli of carrying points must be positive,
and the error of the correction increases with y: the set of an element is the smallest one whose sums of y are below
`LARGEST_RELAXATION`. Strain, and with it the amplitude of waves from a source, differs between carrying and other
points: all points of the elements around a source carry memory variables. At 7 points per wavelength, this reduced
the error of the motion in a full space from 1.5% to 0.5% (Qs = 40), and from 3.1% to 1.1% (Qs = 20); with all points
in all elements it was 0.2%.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.rheology import RelaxationBody
from lithowave.solvers.elements.plan import negative_moduli
from lithowave.solvers.spectral_element.element_statistics import is_affine, map_coefficients
from lithowave.solvers.spectral_element.gll import determinant, gll_points, gll_weights, jacobian_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.mesh.hexahedra import HexahedralMesh

Point = tuple[int, int, int]


@dataclass(frozen=True)
class CarrierSet:
    """Points (k, j, i) of an element that carry memory variables.

    concentration : nu of the bulk and of the shear modulus, relative to those of a sphere.
    """

    points: tuple[Point, ...]
    concentration: tuple[float, float] = (0.0, 0.0)


def mixed(pair: tuple[int, ...], single: tuple[int, ...]) -> tuple[Point, ...]:
    """Return the points with two indices in `pair`, and one in `single`."""
    indices = sorted((*pair, *single))
    points = itertools.product(indices, repeat=3)
    return tuple(point for point in points if sum(index in single for index in point) == 1)


def cube(indices: Iterable[int]) -> tuple[Point, ...]:
    """Return the points whose indices along each axis are in a list."""
    return tuple(itertools.product(indices, repeat=3))


def checkerboard(indices: Iterable[int]) -> tuple[Point, ...]:
    """Return the points whose indices are in a list and have an even sum."""
    return tuple(point for point in cube(indices) if sum(point) % 2 == 0)


def both(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Point, ...]:
    """Return the points whose indices are in two lists, but not all in the same one."""
    return tuple(sorted((*mixed(first, second), *mixed(second, first))))


COARSE = {
    2: (CarrierSet(mixed((1,), (0, 2))),),
    3: (CarrierSet(cube((1, 2)), (0.398, 0.389)),),
    4: (CarrierSet(checkerboard(range(1, 4)), (0.302, 0.221)),),
    5: (CarrierSet(checkerboard(range(1, 5)), (0.421, 0.311)),),
    6: (CarrierSet(both((1, 3, 5), (2, 4)), (0.175, 0.153)),),
    7: (CarrierSet(cube(range(1, 7)), (0.142, 0.088)),),
    8: (CarrierSet(both((1, 3, 5, 7), (2, 4, 6)), (0.189, 0.145)),),
}
"""Sets of carrying points by degree, smaller ones first.

The attenuation of plane waves in all directions, with vp/vs = sqrt(3) and the recommended number of points per
wavelength, deviates with Q = 40 by at most 2.5% at degree 3, 1.2% at degree 5, 1.1% at degree 6, less at other degrees.
"""

LARGEST_RELAXATION = {"auto": 0.6, "coarse": 0.8, "full": 0.0}
"""Largest sum of the weights Y_j at a carrying point of a set with fewer than all points, by `solver.memory_variables`.

At degree 4 with three mechanisms in two decades, 0.6 corresponds to Q = 20. With vp/vs = sqrt(3) and 7 points per
wavelength of S waves, the attenuation of plane waves in all directions then deviates by -0.2 to 1.3%, with Q = 40
by -0.1 to 0.7%, and phase velocities deviate by less than 0.1%."""

COMPONENTS = 6
"""Memory variables of a mechanism: xx, yy, zz, yz, xz, xy."""

PART, MAPS = 500, 4096  # elements that are processed at a time; whose maps are compared at a time
FEW = 8  # sources, to which all distances are computed


@dataclass(frozen=True)
class Losses:
    """Attenuation of the materials of elements.

    body : relaxation mechanisms. inverse : 1/Qkappa and 1/Qmu, (2, materials), or (2, elements, k, j, i) at points.
    """

    body: RelaxationBody
    inverse: np.ndarray


@dataclass(frozen=True)
class Storage:
    """Choice of the set of each element.

    mode : see `solver.memory_variables`. sources : positions (n, 3), m, around which all points carry memory variables.
    """

    mode: str = "auto"
    sources: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))


NO_SOURCES = Storage()


@lru_cache
def carrier_sets(degree: int) -> tuple[CarrierSet, ...]:
    """Return the sets of carrying points of a degree, smaller ones first; the last one contains all points."""
    return (*COARSE.get(degree, ()), CarrierSet(cube(range(degree + 1))))


@lru_cache
def shares(degree: int, number: int) -> np.ndarray:
    """Return the part (carriers, points) of each point of an element that each point of a set, from 1, receives."""
    position = gll_points(degree)[np.array(cube(range(degree + 1)))]
    own = gll_points(degree)[np.array(carrier_sets(degree)[number - 1].points)]
    distance = np.linalg.norm(own[:, None] - position, axis=2)
    nearest = distance <= distance.min(axis=0) + 1e-9
    parts = nearest * quadrature_weights(degree)[carrier_indices(degree, number), None]
    return parts / parts.sum(axis=0)


def quadrature_weights(degree: int) -> np.ndarray:
    """Return the quadrature weights of the points of an element, k slowest; their sum is 8."""
    weights = gll_weights(degree)
    return (weights[:, None, None] * weights[:, None] * weights).ravel()


def carrier_indices(degree: int, number: int) -> np.ndarray:
    """Return the indices of the points of a set, from 1, among the points of an element, k slowest."""
    points = np.array(carrier_sets(degree)[number - 1].points)
    return points @ [(degree + 1) ** 2, degree + 1, 1]


def carrier_count(degree: int, number: int) -> int:
    """Return the number of points of a set, from 1; 0 for 0, without attenuation."""
    return len(carrier_sets(degree)[number - 1].points) if number else 0


def recursion(body: RelaxationBody, time_step: float) -> np.ndarray:
    """Return b, a and c of each mechanism, (n, 3)."""
    decay = np.exp(-body.rates * time_step)
    mean = -np.expm1(-body.rates * time_step) / (body.rates * time_step)
    return np.stack([1.0 - mean, decay, mean * -np.expm1(-body.rates * time_step)], axis=1)


class LossyMaterials(Protocol):
    """What attenuation uses of the materials of elements."""

    @property
    def number(self) -> np.ndarray: ...
    @property
    def rho(self) -> np.ndarray: ...
    @property
    def varying(self) -> bool: ...
    @property
    def losses(self) -> Losses: ...
    def isotropic_moduli(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def softness(self, elements: np.ndarray) -> np.ndarray: ...
    def attenuates(self, elements: np.ndarray) -> np.ndarray: ...


def carried_moduli(
    mesh: HexahedralMesh, materials: LossyMaterials, degree: int, elements: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moduli Y_j kappa and Y_j mu of the points of a set, (n, 2, elements, points), Pa, and the largest sum
    of Y_j in each element, without anisotropy."""
    losses = materials.losses
    volume = determinant(jacobian_matrix(mesh.element_nodes(elements), degree)).reshape(len(elements), -1)
    volume = volume * quadrature_weights(degree)
    inverse = losses.inverse[:, elements if materials.varying else materials.number[elements]]
    stiffness = np.stack(materials.isotropic_moduli(elements)).reshape(2, len(elements), -1)
    inverse = inverse.astype(float).reshape(stiffness.shape)
    indices, nu = carrier_indices(degree, number), np.array(carrier_sets(degree)[number - 1].concentration)
    carried = np.zeros((losses.body.mechanisms, 2, len(elements), len(indices)))
    strength = np.zeros(len(elements))
    body = losses.body
    carry(
        volume, stiffness, inverse, body.nodes, body.table, body.rates, *share_list(degree, number), indices, nu,
        carried, strength,
    )  # fmt: skip
    return carried, strength


@lru_cache
def share_list(degree: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the parts of `shares` that are not 0 by point: the first entry of each point, and the carriers and parts.
    """
    parts = shares(degree, number).T
    point, carrier = np.nonzero(parts)
    begin = np.searchsorted(point, np.arange(len(parts) + 1))
    return begin, carrier, parts[point, carrier]


@exact_part
def carry(
    volume, stiffness, inverse, nodes, table, rates, begin, carriers, parts, indices, nu, carried, strength
):  # pragma: no cover - compiled
    """Compute the moduli `carried` (n, 2, elements, points of a set), which are 0 before, and `strength` (elements,).

    volume : w J, (elements, points). stiffness, inverse : kappa and mu, and their 1/Q, (2, elements, points or 1).
    nodes, table : of the relaxation body. begin, carriers, parts : see `share_list`. nu : of a set, relative to that of
    a sphere, the increase of the volumetric and of the deviatoric strain in a sphere relative to a small decrease of
    its moduli (Eshelby 1957, Proc. R. Soc. A 241, 376-396).
    """
    count, values, total = len(rates), stiffness.shape[2], np.zeros(2)
    weights, known, ratio = np.zeros((2, count)), np.full(2, -1.0), np.zeros(count)
    for element in range(volume.shape[0]):
        for point in range(volume.shape[1]):
            at = point if values > 1 else 0
            for m in range(2):
                quality = inverse[m, element, at]
                if quality != known[m]:  # most points have the quality factors of the one before
                    known[m], total[m] = quality, 1.0
                    low = max(min(np.searchsorted(nodes, quality) - 1, len(nodes) - 2), 0)
                    step = (quality - nodes[low]) / (nodes[low + 1] - nodes[low])
                    for j in range(count):
                        weights[m, j] = quality * (table[low, j] + step * (table[low + 1, j] - table[low, j]))
                        total[m] += weights[m, j]
                modulus = stiffness[m, element, at] * volume[element, point] / total[m]
                for entry in range(begin[point], begin[point + 1]):
                    for j in range(count):
                        carried[j, m, element, carriers[entry]] += parts[entry] * weights[m, j] * modulus
        for carrier in range(len(indices)):
            at = indices[carrier] if values > 1 else 0
            kappa, mu = stiffness[0, element, at], stiffness[1, element, at]
            sphere = (3.0 * kappa, 1.2 * (kappa + 2.0 * mu))
            for m in range(2):
                largest, own = 0.0, stiffness[m, element, at]
                concentration = nu[m] * sphere[m] / (3.0 * kappa + 4.0 * mu)
                for j in range(count):
                    carried[j, m, element, carrier] /= volume[element, indices[carrier]]
                    ratio[j] = carried[j, m, element, carrier] / own
                    largest += ratio[j]
                strength[element] = max(strength[element], largest)
                for i in range(count):
                    real = 0.0
                    for j in range(count):
                        real += rates[j] ** 2 / (rates[j] ** 2 + rates[i] ** 2) * ratio[j]
                    carried[i, m, element, carrier] /= (1.0 + concentration * real) ** 2


def distinct_moduli(
    mesh: HexahedralMesh, materials: LossyMaterials, degree: int, elements: np.ndarray, number: int,
    dtype: npt.DTypeLike,
    affine: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the distinct Y_j kappa - 2/3 Y_j mu and Y_j mu, Pa, of the points of a set, (distinct, points, 2 n), and
    the index of those of each element among them. affine : see `representatives`."""
    chosen, place = representatives(mesh, materials, elements, affine)
    found = np.empty((len(chosen), carrier_count(degree, number), materials.losses.body.mechanisms, 2), dtype)

    def compute(some: slice) -> None:
        kappa, mu = np.moveaxis(carried_moduli(mesh, materials, degree, chosen[some], number)[0], (1, 0), (0, 3))
        found[some, ..., 0], found[some, ..., 1] = kappa - 2.0 / 3.0 * mu, mu

    over_parts(compute, len(chosen), PART)
    return found.reshape(*found.shape[:2], -1), place


def representatives(
    mesh: HexahedralMesh, materials: LossyMaterials, elements: np.ndarray, affine: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return one element for each distinct result of `carried_moduli`, up to round-off, for some elements, and the
    place of the one of each element among them.

    The result depends on ratios of volumes within an element only: it is the same for all parallelepipeds of a
    material. affine : True for each of `elements` that is one; default: from their nodes.
    """
    if materials.varying:
        return elements, np.arange(len(elements))
    if affine is None:
        found = over_parts(
            lambda some: is_affine(map_coefficients(mesh.element_nodes(elements[some]))), len(elements), MAPS
        )
        affine = np.concatenate([np.zeros(0, bool), *found])
    key, curved = materials.number[elements].astype(np.int64), np.flatnonzero(~affine)
    key[curved] = len(materials.rho) + np.arange(len(curved))
    present = np.zeros(len(materials.rho) + len(curved), bool)
    present[key] = True
    place = (np.cumsum(present) - 1)[key]
    first = np.empty(np.count_nonzero(present), np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return elements[first], place


def around(mesh: HexahedralMesh, elements: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return True for elements that contain or touch the element of a position (n, 3), and for some next to these."""
    if not len(positions):
        return np.zeros(len(elements), bool)
    nodes = mesh.element_nodes(elements)
    low, high = (np.array([find(nodes[..., axis], axis=1) for axis in range(3)]) for find in (np.min, np.max))
    center, reach = 0.5 * (low + high), (1.5 + 1e-6) * (high - low).max(axis=0)
    if len(positions) > FEW:
        from scipy.spatial import cKDTree

        return cKDTree(positions).query(center.T, p=np.inf)[0] <= reach
    return np.any([np.abs(center - place[:, None]).max(axis=0) <= reach for place in positions], axis=0)


def choose_sets(
    mesh: HexahedralMesh, materials: LossyMaterials, degree: int, storage: Storage = NO_SOURCES,
    affine: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the index in `carrier_sets`, from 1, of the set of each element; 0 without attenuation. affine : of all
    elements, see `representatives`.

    Raises
    ------
    InputError : the relaxed moduli of a medium are not positive.
    """
    chosen = np.zeros(materials.number.size, np.int64)
    if materials.losses is None:
        return chosen
    sets, rest = carrier_sets(degree), np.flatnonzero(materials.attenuates(np.arange(chosen.size)))
    near = over_parts(lambda some: around(mesh, rest[some], storage.sources), len(rest), MAPS)
    largest = np.where(np.concatenate([np.zeros(0, bool), *near]), 0.0, LARGEST_RELAXATION[storage.mode])
    for number in range(1, len(sets) + 1):
        if not len(rest):
            break
        strength = _strength(mesh, materials, degree, rest, number, None if affine is None else affine[rest])
        # With all points, the limit is that of the medium itself.
        fits = strength < (largest if number < len(sets) else 1.0)
        chosen[rest[fits]] = number
        rest, largest = rest[~fits], largest[~fits]
    if len(rest):
        raise negative_moduli(mesh.numbers_in_whole[rest[0]] + 1)
    return chosen


def _strength(
    mesh: HexahedralMesh, materials: LossyMaterials, degree: int, elements: np.ndarray, number: int,
    affine: np.ndarray | None,
) -> np.ndarray:  # fmt: skip
    """Return the largest sum of Y_j in each element at a carrying point of a set, with its anisotropy."""
    some, place = representatives(mesh, materials, elements, affine)
    strength = over_parts(
        lambda part: carried_moduli(mesh, materials, degree, some[part], number)[1], len(some), PART
    )
    return np.concatenate(strength)[place] * materials.softness(elements)
