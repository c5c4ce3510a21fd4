r"""Absorbing layers around the domain, perfectly matched or damped: stretching of the coordinates, and its filters.

In the layer a derivative along a = x, y, z is divided by the stretching of this coordinate,

.. math::
    s_a(\omega) = \kappa_a + \frac{d_a}{\alpha_a + i \omega}, \qquad S = s_x s_y s_z,

which depends only on the coordinate a (complex frequency shift: Kuzuoglu & Mittra 1996; unsplit for spectral elements:
Xie et al. 2014, GJI 198, 1714-1747, where the memory variables have partial fractions instead of a cascade),

.. math::
    i\omega \rho S v_i = \sum_j \partial_j \Big( \frac{S}{s_j} \sigma_{ij} \Big), \qquad
    \sigma = C : \tilde\varepsilon, \quad \tilde\varepsilon \text{ from } \frac{1}{s_k} \partial_k u_l .

Multiplication by s is a filter with one memory variable m. The trapezoidal rule with the time step makes it

.. math::
    y = b x + m, \quad m \leftarrow c x + a m, \qquad b = \kappa + \frac{q d}{1 + q\alpha}, \quad
    a = \frac{1 - q\alpha}{1 + q\alpha}, \quad c = \frac{2 q d}{(1 + q\alpha)^2}, \quad q = \frac{\Delta t}{2},

and its exact inverse is x = (y - m) / b with the same update of m, so that the discrete layer is as matched as the
continuous one. For each of its n active axes, an element filters three derivatives, and two columns of stresses.

All elements of a point have the same S there, except where a layer begins. The forces are therefore divided by S in
each element: filters are linear, so that their sum is divided. An element whose active axes are along its local
directions (`layer_codes`) needs fewer filters. The force f^d of the derivatives along the direction d of the test
function has the factor S / s_d, which is constant along d, so that the division leaves

.. math::
    \Delta p = \sum_d f^d / s_d ,

with three memory variables for each active direction, of the force instead of six of stresses. Where a layer along d
begins, p is that of all elements, and f^d + s_d \sum_{e \ne d} f^e / s_e is added to S p.

Elements become wider outwards, which reduces d and the waves that are trapped at strong
contrasts. Most of the reflection of a layer of few elements is caused by the discretization. It is
smallest for a damping that increases from a finite value towards infinity, with the fraction r of the thickness L,

.. math::
    d(r) = \kappa (1 - p) \bar d\, (1 - r)^{-p}, \qquad \bar d = \frac{c}{2 L} \ln \frac{1}{R}

(compare the unbounded profiles of Bermudez et al. 2007, J. Comput. Phys. 223, 469-488, where p = 1). Since d jumps at
the inner side, it belongs to the points of elements, not of the mesh: the momentum of a mesh point has the mean of S
over its elements, weighted by their masses. alpha depends on the position, so that this mean is also a filter with one
variable. It decreases outwards,

.. math::
    \alpha(r) = \alpha_0 (1 - r) + \alpha_1 r,

because a static field extends beyond a small domain: the layer is as thick for it as the integral of d / alpha, and its
elements resolve it only if the stretching begins with a small value.

Waves shorter than the elements resolve may travel against their phase and grow in the layer. Two measures prevent
it: d is at most `MAX_DAMPING` times the degree of the elements times their vs / h, and the momentum passes another
filter, a friction of the rate

.. math::
    \frac{\epsilon}{2} \frac{\omega^2 \omega_c}{\omega^2 + \omega_c^2}, \qquad
    S \to S\, \Big(1 - \epsilon + \epsilon \frac{\omega_c}{\omega_c + i\omega}\Big),

with omega_c above all resolved frequencies, epsilon proportional to the depth and such that the rate of the shortest
waves is a fraction `FRICTION` of the mean of d, but at most `MAX_EPSILON`, since it reduces the stable time step.

At strong contrasts of vs, guided waves grow in perfectly matched layers (see `warnings`). These layers are damped
instead: all coordinates have the same stretching s, with the sum d of the faces,

.. math::
    i\omega \rho s v_i = \sum_j \partial_j \sigma_{ij}, \qquad
    \sigma = C : \tilde\varepsilon, \quad \tilde\varepsilon \text{ from } \frac{1}{s} \partial_k u_l ,

so that the momentum has a friction and the stress relaxes at the same rate. Both only dissipate energy, in any medium:
s and 1 / s multiply a mass and a stiffness, and the real parts of i omega s and of 1 / (i omega s) are not negative.
Waves along the normal enter without reflection; for others, d(r) = 3 d_mean r^2 begins slowly, and the layer is
thick, of elements that become much wider outwards.

**Codes of the elements of an absorbing layer, by which kernels are compiled: see `elements.ElementKind.layer`.** An
element is aligned if each active axis is along one of its local directions: the coordinate of this axis depends on the
local coordinate of the direction only, and the other coordinates do not depend on it. Then the filters of `layers`
commute with the derivatives along the other directions, and fewer memory variables suffice.

Warnings about anisotropic media in which waves grow in a perfectly matched layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import exact_part
from lithowave.description.domain import FACES
from lithowave.media.elasticity import backward_waves
from lithowave.mesh.arrays import distinct
from lithowave.mesh.extrusion import outward_steps
from lithowave.solvers.common.warnings import GROWTH_TOLERANCE
from lithowave.solvers.spectral_element.gll import gll_positions

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.mesh.hexahedra import HexahedralMesh
    from lithowave.mesh.shared import SharedPoints
    from lithowave.parallel.ranks import Ranks
    from lithowave.solvers.spectral_element.materials import ElementMaterials

POWER = 0.6  # damping is inversely proportional to this power of the distance from the outer side
KAPPA_POWER = 2  # kappa - 1 increases with this power of the depth
MAX_DAMPING, CORNER = 10.0, 4.5  # of d and of omega_c, over vs / h times the degree of the elements
FRICTION, MAX_EPSILON = 0.2, 0.4
TOLERANCE = 1e-6  # depth, as a fraction of the thickness, below which a point is outside the layer
SIDES = ("min", "max")
WIDEST = 2.25  # width of the outermost elements over those of the domain
LAYER_ELEMENTS = {True: 2, False: 9}  # default thickness of a layer that is matched, or damped
# Of damped layers: code of their elements among `masks`, growth of the elements, power of d, and the reflection of the
# fastest wave along the normal.
DAMPED, DAMPED_GROWTH, DAMPED_POWER, DAMPED_REFLECTION = 8, 1.4, 2, 0.01
ALIGNED = 8  # code of aligned elements, to which their active local directions are added
LINE_VALUES = 7  # of a point of an aligned element along an active direction: see `Stretching.lines`
SHIFTS = (0.375, 0.075)  # alpha over pi times the frequency of the layer, at its inner and outer side
DAMPED_SHIFT = 0.25  # the same in a damped layer
LOW_DEGREE = 3  # up to which waves grow at strong contrasts unless alpha is larger


def layer_steps(size: float, count: int, matched: bool, total: float | None = None) -> np.ndarray:
    """Return the distances (count,), m, at which the elements of a layer end outside elements of this size, m.

    Each is wider than the one before by a factor of at most 1.5. total : thickness, m, to which the factor is adapted.
    """
    growth = min(math.sqrt(WIDEST), WIDEST ** (1.0 / count)) if matched else DAMPED_GROWTH
    return outward_steps(size, count, growth, total)


def has_large_shift(layer: AbsorbingLayer, degree: int) -> bool:
    """True if alpha of a matched layer is constant and larger, see `frequency_shift`."""
    return degree <= LOW_DEGREE or layer.soft


def frequency_shift(layer: AbsorbingLayer, degree: int, depth: np.ndarray) -> np.ndarray:
    """Return alpha, 1/s, at fractions of the thickness of a layer.

    It is constant and larger at low degrees and in soft ground (see `warnings`), where waves grow otherwise.
    """
    begin, end = (1.0, 1.0) if has_large_shift(layer, degree) else SHIFTS
    return math.pi * layer.frequency * (begin + (end - begin) * depth)


@dataclass(frozen=True)
class AbsorbingLayer:
    """Additional elements around the domain.

    domain : ends along x, y, z, m. thickness : beyond each face, m (0: none), as x_min, x_max, y_min, ... elements :
    thickness in elements. reflection : theoretical reflection of the fastest wave at normal incidence. kappa : maximum
    of the real stretching. frequency : f of alpha, Hz, soft : True in soft ground (`frequency_shift`). matched : False
    if damped.
    """

    domain: tuple[tuple[float, float], ...]
    thickness: dict[str, float]
    elements: int = LAYER_ELEMENTS[True]
    reflection: float = 1e-4
    kappa: float = 1.0
    frequency: float = 1.0
    soft: bool = False
    matched: bool = True

    @property
    def used(self) -> bool:
        """True if there is a layer beyond any face."""
        return any(self.thickness.values())

    @property
    def sides(self) -> list[str]:
        """Faces with a layer."""
        return [face for face in FACES if self.thickness[face]]

    def beyond(self, positions: np.ndarray, face: str) -> np.ndarray:
        """Return the depth in the layer beyond a face, as a fraction of its thickness: 0 outside, at most 1."""
        axis, high = divmod(FACES.index(face), 2)
        depth = (1 if high else -1) * (positions[..., axis] - self.domain[axis][high]) / self.thickness[face]
        return np.where(depth > TOLERANCE, np.minimum(depth, 1.0), 0.0)

    def masks(self, vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
        """Return the active axes of elements as a sum of 1 for x, 2 for y and 4 for z: those along which a corner is in
        the layer; `DAMPED` if the layer is damped."""
        masks = np.zeros(len(elements), np.int64)
        for face in self.sides:
            masks |= np.where(self.contains(vertices, elements, face), AXIS_MASK[face], 0)
        return masks if self.matched else np.where(masks > 0, DAMPED, 0)

    def contains(self, vertices: np.ndarray, elements: np.ndarray, face: str) -> np.ndarray:
        """Return True for each element with a corner in the layer beyond a face."""
        if 8 * len(elements) < len(vertices):
            return (self.beyond(vertices[elements], face) > 0).any(axis=1)
        return (self.beyond(vertices, face) > 0)[elements].any(axis=1)


AXIS_MASK = {face: 1 << number // 2 for number, face in enumerate(FACES)}


@dataclass(frozen=True)
class LayerDamping:
    """Damping of the layer beyond each face.

    speed : of the fastest wave in the layer, m/s. rate : mean of d without its limit, 1/s. limit : maximum of d, 1/s.
    corner : omega_c, 1/s. matched : see `AbsorbingLayer`; a damped layer has no limit and no friction.
    """

    speed: dict[str, float]
    rate: dict[str, float]
    limit: dict[str, float]
    corner: dict[str, float]
    matched: bool = True

    @property
    def friction(self) -> dict[str, float]:
        """Epsilon at the outer side of each layer."""
        if not self.matched:
            return dict.fromkeys(self.rate, 0.0)
        return {face: min(2 * FRICTION * rate / self.corner[face], MAX_EPSILON) for face, rate in self.rate.items()}

    def at(self, face: str, depth: npt.ArrayLike) -> np.ndarray:
        """Return d / kappa, 1/s, at fractions of the thickness of a layer."""
        if not self.matched:
            return (DAMPED_POWER + 1) * self.rate[face] * np.asarray(depth) ** DAMPED_POWER
        with np.errstate(divide="ignore"):
            return np.minimum((1 - POWER) * self.rate[face] * (1.0 - depth) ** -POWER, self.limit[face])

    def reflection(self, layer: AbsorbingLayer) -> dict[str, float]:
        """Return the theoretical reflection of the fastest wave from each layer at normal incidence."""
        depth = (np.arange(1000) + 0.5) / 1000
        return {
            face: math.exp(-2 * self.at(face, depth).mean() * layer.thickness[face] / speed)
            for face, speed in self.speed.items()
        }  # fmt: skip

    def inertia(self, layer: AbsorbingLayer, positions: np.ndarray) -> np.ndarray:
        """Return the factor of the mass of the fastest motion at positions (..., 3), m: 1 - epsilon."""
        friction = [self.friction[face] * layer.beyond(positions, face) for face in layer.sides]
        return 1.0 - np.max(friction, axis=0, initial=0.0)


def layer_damping(
    layer: AbsorbingLayer, mesh: HexahedralMesh, materials: ElementMaterials, degree: int, ranks: Ranks
) -> LayerDamping:
    """Return the damping of the layers from the materials of their elements (collective call)."""
    damping = LayerDamping({}, {}, {}, {}, layer.matched)
    reflection = layer.reflection if layer.matched else DAMPED_REFLECTION
    fastest, slowest = materials.fastest_in_elements(), materials.slowest_in_elements()
    for face in layer.sides:
        axis = FACES.index(face) // 2
        members = np.flatnonzero(layer.contains(mesh.vertices, mesh.elements, face))
        size = np.ptp(mesh.vertices[mesh.elements[members], axis], axis=1)
        speed = ranks.largest(float(fastest[members].max(initial=0.0)))
        resolution = degree * ranks.smallest(float((slowest[members] / size).min(initial=np.inf)))
        damping.speed[face], damping.corner[face] = speed, CORNER * resolution
        damping.rate[face] = speed * math.log(1 / reflection) / (2 * layer.thickness[face])
        damping.limit[face] = MAX_DAMPING * resolution
    return damping


def coefficients(kappa: npt.ArrayLike, damping: npt.ArrayLike, shift: npt.ArrayLike, time_step: float) -> np.ndarray:
    """Return b, a, c (..., 3) of the filter kappa + d / (alpha + i omega); damping : d, shift : alpha, 1/s."""
    half, shift = 0.5 * time_step * damping, 1 + 0.5 * time_step * shift
    values = np.broadcast_arrays(kappa + half / shift, (2 - shift) / shift, 2 * half / shift**2)
    return np.stack(values, axis=-1)


@dataclass(frozen=True)
class Stretching:
    """Filters of the layer at the points of the elements of a plan."""

    layer: AbsorbingLayer
    damping: LayerDamping
    mesh: HexahedralMesh
    degree: int
    time_step: float

    def representatives(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one element for each distinct set of filters and friction of some elements, and the place of the one
        of each element among them.

        Both depend only on the coordinates of the nodes along the axes along which an element is in the layer: a layer
        of straight elements has a few distinct ones.
        """
        nodes = self.mesh.element_nodes(elements)
        relevant = np.zeros((len(nodes), 1, 3), bool)
        for face in self.layer.sides:
            relevant[..., FACES.index(face) // 2] |= (self.layer.beyond(nodes, face) > 0).any(axis=1, keepdims=True)
        first, place = distinct(np.where(relevant, nodes, 0.0).reshape(len(nodes), 3 * nodes.shape[1]))
        return elements[first], place

    def filters(self, elements: np.ndarray) -> np.ndarray:
        """Return b, a, c along each axis at the points of elements: (elements, k, j, i, axis, 3).

        Those of all axes of a damped layer are at the first one.
        """
        return self._filters(self._positions(elements), elements)

    def friction(self, elements: np.ndarray) -> np.ndarray:
        """Return b, a, c of the friction at the points of elements: (elements, k, j, i, 3)."""
        return self._friction(self._positions(elements))

    def begins(self, elements: np.ndarray) -> np.ndarray:
        """Return True for points of elements in the plane in which a layer along an active axis begins: (elements, k,
        j, i, axis). A damped layer has none, as its damping is continuous there."""
        return self._begins(self._positions(elements), elements)

    def lines(self, elements: np.ndarray, axes: np.ndarray, directions: Sequence[int]) -> np.ndarray:
        """Return the filters of aligned elements along active local directions: (elements, directions, points, 7).

        axes : (elements, directions), the axis of each direction. The values are 1 / b, a, c of the stretching, those
        of the friction of this axis alone, and b where the layer begins, else 0.
        """
        positions, count = self._positions(elements), np.arange(len(elements))
        found = np.empty((len(elements), len(directions), self.degree + 1, LINE_VALUES))
        for number, direction in enumerate(directions):
            line = positions[(slice(None), *(slice(None) if d == direction else slice(1) for d in (2, 1, 0)))]
            line = line.reshape(len(elements), self.degree + 1, 3)
            axis = axes[:, number]
            own = self._filters(line, elements)[count, :, axis]
            found[:, number, :, :3] = own
            found[:, number, :, 3:6] = self._friction(line, axis)
            found[:, number, :, 6] = np.where(self._begins(line, elements)[count, :, axis], own[..., 0], 0.0)
        found[..., [0, 3]] = 1.0 / found[..., [0, 3]]
        return found

    def _positions(self, elements: np.ndarray) -> np.ndarray:
        return gll_positions(self.mesh.element_nodes(elements), self.degree)

    def _depths(self, positions: np.ndarray, elements: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield each face, True for the elements in the layer beyond it, and the depths of their points."""
        for face in self.layer.sides:
            own = self.layer.contains(self.mesh.vertices, self.mesh.elements[elements], face)
            yield face, own, self.layer.beyond(positions[own], face)

    def _filters(self, positions: np.ndarray, elements: np.ndarray) -> np.ndarray:
        layer = self.layer
        found, total = np.zeros((*positions.shape, 3)), np.zeros(positions.shape[:-1])
        found[..., 0] = 1.0
        for face, own, depth in self._depths(positions, elements):
            kappa = 1 + (layer.kappa - 1) * depth**KAPPA_POWER
            damping = kappa * self.damping.at(face, depth)
            total[own] += damping
            if layer.matched:
                shift = frequency_shift(layer, self.degree, depth)
                axis = FACES.index(face) // 2
                found[own, ..., axis, :] = coefficients(kappa, damping, shift, self.time_step)
        if not layer.matched:
            found[..., 0, :] = coefficients(1.0, total, DAMPED_SHIFT * math.pi * layer.frequency, self.time_step)
        return found

    def _friction(self, positions: np.ndarray, axis: np.ndarray | None = None) -> np.ndarray:
        """Return b, a, c of the friction: of the axis with the smallest b, or of one axis of each element."""
        found = np.zeros((*positions.shape[:-1], 3))
        found[..., 0] = 1.0
        for face in self.layer.sides:
            epsilon = self.damping.friction[face] * self.layer.beyond(positions, face)
            corner = self.damping.corner[face]
            values = coefficients(1 - epsilon, epsilon * corner, corner, self.time_step)
            stronger = (epsilon > 0) & (values[..., 0] < found[..., 0])
            if axis is not None:
                stronger &= (axis == FACES.index(face) // 2)[:, None]
            found = np.where(stronger[..., None], values, found)
        return found

    def _begins(self, positions: np.ndarray, elements: np.ndarray) -> np.ndarray:
        found = np.zeros(positions.shape, bool)
        for face, own, depth in self._depths(positions, elements):
            found[own, ..., FACES.index(face) // 2] |= (depth == 0) & self.layer.matched
        return found


def active_axes(numbers: np.ndarray, masks: np.ndarray, count: int, border: SharedPoints, ranks: Ranks) -> np.ndarray:
    """Return the active axes of points (count,), those of all their elements (collective call).

    numbers : indices of points [element, k, j, i]. masks : active axes of each element, the sum of 1 for x, 2 for y and
    4 for z. border : points that ranks share: their elements in the layer may all belong to another rank.
    """
    axes = np.zeros(count, np.uint8)
    mark_axes(numbers.reshape(len(numbers), -1), np.flatnonzero(masks), masks.astype(np.uint8), axes)
    border.combine(axes, ranks, np.bitwise_or)
    return axes


@exact_part
def mark_axes(numbers, members, masks, axes):  # pragma: no cover - compiled
    """Add the active axes of some elements to those of their points numbers (elements, points)."""
    for element in members:
        for number in numbers[element]:
            axes[number] |= masks[element]


MAP_TOLERANCE = 1e-9  # of coefficients of a map, relative to the largest one that is not constant
CODED_PART = 20_000


def layer_codes(
    layer: AbsorbingLayer, masks: np.ndarray, mesh: HexahedralMesh, coefficients: np.ndarray, numbers: np.ndarray,
    coupled: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the code of each element: its active local directions plus `ALIGNED`, or its active axes.

    masks : active axes (see `AbsorbingLayer.masks`). coupled : True for each point on an interface with a fluid, which
    has no friction. Aligned elements have neither such points, nor points at which layers along two axes begin.
    """
    codes = masks.copy()
    members = np.flatnonzero((masks > 0) & (masks < DAMPED))
    for first in range(0, len(members), CODED_PART):
        some = members[first : first + CODED_PART]
        axes = axes_of_masks(masks[some])
        directions = _directions(dependence(coefficients[some]), axes)
        aligned = (directions >= 0).all(axis=1)
        aligned &= _beginnings(layer, mesh, some).max(axis=1) <= 1
        aligned &= ~coupled[numbers[some]].any(axis=(1, 2, 3))
        local = (axes << np.maximum(directions, 0)).sum(axis=1)
        codes[some] = np.where(aligned, ALIGNED + local, masks[some])
    return codes


def axes_of_masks(masks: np.ndarray) -> np.ndarray:
    """Return 1 for each active axis (elements, 3), else 0."""
    return masks[:, None] >> np.arange(3) & 1


def dependence(coefficients: np.ndarray) -> np.ndarray:
    """Return whether a coordinate of elements depends on a local one: (elements, coordinate, direction)."""
    size = np.abs(coefficients)
    size[..., 0, 0, 0] = 0.0
    limit = MAP_TOLERANCE * size.max(axis=(1, 2, 3, 4))
    powers = size[..., 1:], size[..., 1:, :], size[..., 1:, :, :]
    return np.stack([values.max(axis=(2, 3, 4)) for values in powers], axis=-1) > limit[:, None, None]


def _directions(depends: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return the local direction of each active axis (elements, 3); -1 if there is none, 0 for other axes."""
    alone = (depends.sum(axis=2) == 1)[:, :, None] & (depends.sum(axis=1) == 1)[:, None, :] & depends
    found = np.where(alone.any(axis=2), alone.argmax(axis=2), -1)
    return np.where(axes > 0, found, 0)


def _beginnings(layer: AbsorbingLayer, mesh: HexahedralMesh, elements: np.ndarray) -> np.ndarray:
    """Return the number of active axes along which the layer begins at each corner (elements, 8)."""
    corners, count = mesh.vertices[mesh.elements[elements]], 0
    for face in layer.sides:
        depth = layer.beyond(corners, face)
        count = count + ((depth == 0) & (depth > 0).any(axis=1, keepdims=True))
    return count


def growing_wave_warnings(masks: np.ndarray, materials: ElementMaterials, ranks: Ranks) -> list[str]:
    """Return a warning for each anisotropic material in the layer whose waves may grow there (collective call).

    masks : active axes of the elements of this rank.
    """
    warnings = []
    for number in np.flatnonzero(materials.anisotropic):
        own = int(np.bitwise_or.reduce(masks[materials.number == number], initial=0))
        active = int(np.bitwise_or.reduce(ranks.all_gather(own)))
        found = backward_waves(materials.stiffness[number], materials.rho[number])
        axes = [axis for axis in range(3) if active >> axis & 1 and found[axis] < -GROWTH_TOLERANCE]
        if axes:
            axis = "xyz"[min(axes, key=lambda one: found[one])]
            warnings.append(
                f"boundaries.absorption: layer: in the anisotropic material number {number + 1} (rho = "
                f"{materials.rho[number]:g} kg/m^3), some waves may grow in the layers along {axis}: their group "
                f"velocity along {axis} is opposite to their phase velocity, by up to "
                f"{100 * -found['xyz'.index(axis)]:.2g}% of it. If the run becomes unstable, set boundaries.absorption "
                "to stacey."
            )
    return warnings
