"""Kinds of elements, for each of which a kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.solvers.spectral_element.element_statistics import AFFINE, CUBOID, GENERAL, UPRIGHT
from lithowave.solvers.spectral_element.layers import ALIGNED, DAMPED
from lithowave.solvers.spectral_element.materials import GRAVITY_VALUES, ElementMaterials

if TYPE_CHECKING:
    from lithowave.solvers.spectral_element.media import LayerPoints, NumberedPlan

    class GroupedPlan(NumberedPlan, Protocol):
        """What groups of elements and their memory use of a `SpectralElementPlan`."""

        @property
        def kinds(self) -> tuple[list[ElementKind], np.ndarray]: ...
        @property
        def outer(self) -> np.ndarray: ...
        @property
        def layer_points(self) -> list[LayerPoints]: ...


FIRST_AXES = (0, 0, 1, 0, 2, 2, 1, 0)  # by active axes: none, x, y, xy, z, zx, yz, xyz


@dataclass(frozen=True)
class ElementKind:
    """Properties of elements for which a kernel is compiled.

    map : trilinear (8 nodes), triquadratic (27 nodes), upright (either of them, but x is linear in xi and y in eta, and
    neither depends on another local coordinate), affine (parallelepipeds) or cuboid (aligned with x, y and z).
    anisotropic : 21 moduli, else 2. varying : moduli at every point, else one set per element. layer : active axes of
    an absorbing layer, the sum of 1 for x, 2 for y and 4 for z; `ALIGNED` plus the same sum of the active local
    directions, if `layer_codes` finds the element aligned; 0 in the domain, `DAMPED` in a damped layer. mechanisms : of
    attenuation; 0 in elastic elements. carriers : set of the points with their memory variables (see
    `relaxation.carrier_sets`), from 1. fluid : the unknown is a potential. gravity : with the values of `gravity` after
    the moduli, at every point.

    Kernels are compiled for the number of active axes: they rotate the coordinates, or the local directions of aligned
    elements, to begin with those.
    """

    map: str
    anisotropic: bool
    varying: bool
    layer: int = 0
    mechanisms: int = 0
    carriers: int = 0
    fluid: bool = False
    gravity: bool = False

    @property
    def affine(self) -> bool:
        """True for parallelepipeds."""
        return self.map in ("affine", "cuboid")

    @property
    def components(self) -> int:
        """Components of the unknown."""
        return 1 if self.fluid else 3

    @property
    def filters(self) -> int:
        """Filters of an absorbing layer of each component at a point: see `arguments`."""
        return filter_count(self.layer)

    @property
    def memory_variables(self) -> int:
        """Memory variables of an absorbing layer at a point."""
        return self.components * self.filters

    @property
    def moduli(self) -> int:
        """Number of moduli: 21, or lambda and mu, or 1 / rho of a fluid; and of values of gravity."""
        return 1 if self.fluid else (21 if self.anisotropic else 2) + GRAVITY_VALUES * self.gravity

    @property
    def axes(self) -> int:
        """Number of active axes."""
        return active_count(self.layer)

    @property
    def damped(self) -> bool:
        """True in a layer that is damped: it has the coefficients of one axis."""
        return self.layer == DAMPED

    @property
    def aligned(self) -> bool:
        """True if the active axes are local directions."""
        return self.layer > ALIGNED

    @property
    def first_axis(self) -> int:
        """Axis, or local direction of aligned elements, that becomes the first by a cyclic rotation, after which the
        active ones precede the others."""
        return FIRST_AXES[self.layer % ALIGNED]

    @property
    def rotation(self) -> list[int]:
        """Axes, or local directions, in the order of the kernels."""
        return [(self.first_axis + step) % 3 for step in range(3)]


def active_count(layer: int) -> int:
    """Return the number of active axes of a code of elements; a damped layer has one."""
    return 1 if layer == DAMPED else (layer % ALIGNED).bit_count()


def filter_count(layer: int) -> int:
    """Return the number of filters of each component at a point for a code of elements; 0 outside of a layer."""
    if layer in (0, DAMPED):
        return 4 * (layer == DAMPED)
    return (2 if layer > ALIGNED else 4) * active_count(layer) + 1


FILTER_COUNTS = tuple(sorted({filter_count(layer) for layer in range(1, 16)}))


def element_kinds(
    curved: str, shapes: np.ndarray, materials: ElementMaterials, layers: np.ndarray, sets: np.ndarray,
    gravity: bool = False,
) -> tuple[list[ElementKind], np.ndarray]:
    """Return the kinds of elements in a mesh, and the index of each element's kind in that list.

    curved : map of elements of any shape. shapes : see `element_shapes`. layers : code of each element (see
    `ElementKind.layer`). sets : see `relaxation.choose_sets`. gravity : of all elements.
    """
    anisotropic = materials.anisotropic[materials.number]
    rotated = (layers > 0) & (layers <= ALIGNED)  # the coordinates change their places
    shapes = np.where(rotated, np.where(shapes >= AFFINE, AFFINE, GENERAL), shapes)
    code = np.stack([materials.is_fluid, sets, layers, shapes, anisotropic], axis=1)
    found, place = distinct_rows(code)
    kinds = []
    names = {GENERAL: curved, UPRIGHT: "upright", AFFINE: "affine", CUBOID: "cuboid"}
    for fluid, number, layer, shape, anisotropic in found.tolist():
        relaxing = (materials.losses.body.mechanisms, number) if number else (0, 0)
        own = names[shape], bool(anisotropic), materials.varying, layer
        kinds.append(ElementKind(*own, *relaxing, bool(fluid), gravity))
    return kinds, place


def distinct_rows(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of small numbers (n, c) in ascending order, and the place of each row among them."""
    sizes = tuple((code.max(axis=0, initial=0) + 1).tolist())
    keys = np.ravel_multi_index(tuple(code.T), sizes)
    present = np.bincount(keys, minlength=1) > 0
    found = np.flatnonzero(present)
    return np.stack(np.unravel_index(found, sizes), axis=1), (np.cumsum(present) - 1)[keys]
