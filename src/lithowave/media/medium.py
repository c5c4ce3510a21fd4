"""Media as functions of position: flat layers, groups of a mesh, a Python function; their quality factors.

Other modules have gridded values (`gridded`) and layers bounded by surfaces (`bounded_layers`). All answer the same
questions, for points given by arrays that broadcast against each other (for one plane of a grid: x of shape (nx,), y of
shape (ny, 1), z a number), with results of the broadcast shape. Functions of positions store results for the next plane
of a grid, whose columns are the same.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from lithowave.earth.radial_model import Love, love_moduli
from lithowave.errors import InputError
from lithowave.rheology import LARGEST_INVERSE_QUALITY, inverse_bulk_quality, largest_qp

InverseQuality = tuple[np.ndarray, np.ndarray]
"""1/Qkappa and 1/Qmu; 0 without attenuation."""

WAVES = ("qp", "qs")
MODULI = ("qkappa", "qmu")

SMALLEST_QUALITY = 1.0 / LARGEST_INVERSE_QUALITY


def inverse_quality_of(
    names: Sequence[str], first: np.ndarray, second: np.ndarray | None, vp: np.ndarray, vs: np.ndarray
) -> InverseQuality:
    """Return 1/Qkappa and 1/Qmu from Qp and Qs (`WAVES`) or from Qkappa and Qmu (`MODULI`).

    second : Qs or Qmu, not used in a fluid; None if there are fluids only.
    """
    first = 1.0 / first
    if second is None:
        return first, np.zeros_like(first)
    solid = vs > 0.0
    inverse_shear = np.where(solid, 1.0 / np.where(solid, second, 1.0), 0.0)
    inverse_bulk = inverse_bulk_quality(first, inverse_shear, vp, vs) if tuple(names) == WAVES else first
    return inverse_bulk, inverse_shear


def quality_problem(
    names: Sequence[str],
    first: np.ndarray,
    second: np.ndarray | None,
    vp: np.ndarray,
    vs: np.ndarray,
    place: Callable[[tuple[int, ...]], str],
) -> tuple[str, str] | None:
    """Return the problem of quality factors and the allowed values; None if a medium can have them.

    ``place`` turns the index of the first bad point into text.
    """
    allowed = f"must be at least {SMALLEST_QUALITY:g}, or infinite without attenuation"
    for name, values in zip(names, (first, second), strict=True):
        if values is None:
            continue
        relevant = np.ones(vs.shape, bool) if name == names[0] else vs > 0.0
        bad = relevant & ~(values >= SMALLEST_QUALITY)
        if bad.any():
            index = np.unravel_index(int(bad.argmax()), bad.shape)
            return f"{name} = {values[index]:.12g} {place(index)}{_more(bad)}".rstrip(), allowed  # type: ignore
    if tuple(names) != WAVES or second is None:
        return None
    bulk, _ = inverse_quality_of(names, first, second, vp, vs)
    bad = (bulk < 0.0) | (bulk > LARGEST_INVERSE_QUALITY)
    if not bad.any():
        return None
    index = np.unravel_index(int(bad.argmax()), bad.shape)
    got = f"qp = {first[index]:.12g} and qs = {second[index]:.12g} {place(index)}{_more(bad)}".rstrip()  # type: ignore
    if bulk[index] < 0.0:
        limit = largest_qp(second[index], vp[index], vs[index])
        return (
            f"{got}: attenuation of the bulk modulus would be negative",
            f"with this qs, qp must be at most {limit:.6g}, which is qs / (4/3 vs^2/vp^2)",
        )
    return f"{got}: the quality factor of the bulk modulus is {1.0 / bulk[index]:.3g}", allowed


def _more(bad: np.ndarray) -> str:
    count = int(bad.sum()) - 1
    return f" (and {count} more points)" if count else ""


T = TypeVar("T")

_LOCK = threading.Lock()  # of all objects, so that they can be copied


class RecentResults(Generic[T]):
    """Results by key; the oldest are removed. Several threads may use it at the same time.

    Parameters
    ----------
    most : maximum sum of the sizes of the stored results.
    size : function that returns the size of a result.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size = most, size
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a key, which `make` returns if it is not stored."""
        with _LOCK:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        result = make()
        with _LOCK:
            self._known[key] = result
            while sum(map(self._size, self._known.values())) > self._most:
                self._known.popitem(last=False)
        return result


Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
"""vp, vs (m/s) and rho (kg/m^3); or bulk modulus, shear modulus (Pa) and rho."""

_GAUSS = 0.5 / np.sqrt(3.0)
"""Distance of the two Gauss points from the middle of an interval of length one."""

_PROBES = 33
"""Points along each axis at which a function is tried out before it is used."""


class DomainExtent(Protocol):
    """The extent of a domain: the two ends of each axis in m."""

    @property
    def x(self) -> tuple[float, float]: ...
    @property
    def y(self) -> tuple[float, float]: ...
    @property
    def z(self) -> tuple[float, float]: ...


class Medium(ABC):
    """A medium: wave speeds, density, and quality factors if it attenuates waves."""

    @property
    def concurrent(self) -> bool:
        """True if several threads may sample the medium at the same time, each at coordinates of one shape."""
        return False

    @property
    def level(self) -> bool:
        """True if the properties depend on z only."""
        return False

    @abstractmethod
    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        """Return vp, vs and rho at points."""

    @abstractmethod
    def validate_domain(self, box: DomainExtent) -> None:
        """Raise InputError where the medium does not cover the box, or has a value there that cannot be."""

    @abstractmethod
    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values in the box as flat arrays, and a text for the location of each.

        In an anisotropic medium vp and vs are here the fastest and the slowest phase speed.
        """

    def attenuates(self, box: DomainExtent) -> bool:
        """Return True if the medium has quality factors."""
        return False

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu at points; zeros where the medium is elastic."""
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        return np.zeros(shape), np.zeros(shape)

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu at the positions of `values_in`."""
        (vp, _, _), _ = self.values_in(box)
        return np.zeros(vp.shape), np.zeros(vp.shape)

    def sample_all(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[Sample, InverseQuality]:
        """Return the results of `sample` and `inverse_quality`."""
        return self.sample(x, y, z), self.inverse_quality(x, y, z)

    def sample_changed(
        self, change: Callable[[np.ndarray, np.ndarray, np.ndarray, InverseQuality], Sample],
        x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray,
    ) -> Sample:  # fmt: skip
        """Return a function of the results of `sample_all`, which applies to each point alone."""
        values, losses = self.sample_all(x, y, z, *within)
        return change(*values, losses)

    def moduli(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        """Return bulk modulus, shear modulus and rho at points."""
        return elastic_moduli(*self.sample(x, y, z))

    def average_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, z_limits: tuple[float, float]
    ) -> Sample:
        """Return the moduli averaged over cubes, from 2 x 2 x 2 Gauss points."""
        low, high = vertical_range(z, spacing, z_limits)
        middle, height = 0.5 * (low + high), high - low
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        softness, shear_softness, density = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for dx, dy, dz in np.ndindex(2, 2, 2):
            kappa, mu, rho = self.moduli(
                x + (2 * dx - 1) * _GAUSS * spacing,
                y + (2 * dy - 1) * _GAUSS * spacing,
                middle + (2 * dz - 1) * _GAUSS * height,
            )
            softness += 0.125 / kappa
            with np.errstate(divide="ignore"):  # water: no rigidity, and none of the whole cell
                shear_softness += 0.125 / mu
            density += 0.125 * rho
        return 1.0 / softness, 1.0 / shear_softness, density

    def interval_moduli(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, height: float) -> Sample:
        """Return the moduli that represent intervals along z of a small height around points: those at the points."""
        return self.moduli(x, y, z)


@dataclass(frozen=True)
class LayeredMedium(Medium):
    """Flat layers from the top down; the first reaches up without end, the last down. One: homogeneous.

    Attributes
    ----------
    tops : z of the top of each layer in m, descending; a point at a top belongs to the layer below it.
    vp, vs, rho : one value a layer.
    slowest, fastest : the extreme speeds of each layer, m/s; left out where they are vs and vp.
    stiffness : c11, c22, c33, c12, c13, c23, c44, c55 and c66 of each layer, Pa; None if all layers are isotropic.
    losses : 1/Qkappa and 1/Qmu of each layer; None if all layers are elastic.
    """

    tops: tuple[float, ...]
    vp: tuple[float, ...]
    vs: tuple[float, ...]
    rho: tuple[float, ...]
    slowest: tuple[float, ...] | None = None
    fastest: tuple[float, ...] | None = None
    stiffness: tuple[tuple[float, ...], ...] | None = None
    losses: tuple[tuple[float, float], ...] | None = None

    @property
    def concurrent(self) -> bool:
        return True

    @cached_property
    def _table(self) -> Sample:
        return np.array(self.vp), np.array(self.vs), np.array(self.rho)

    def layer_of(self, z: np.ndarray) -> np.ndarray:
        """Return the index of the layer at each z."""
        return np.searchsorted(-np.array(self.tops[1:]), -z, side="right")

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        return self._spread(self._table, self.layer_of(z), x, y)

    def moduli(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        return self._spread(elastic_moduli(*self._table), self.layer_of(z), x, y)

    def average_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, z_limits: tuple[float, float]
    ) -> Sample:
        """Return the moduli averaged exactly over cubes: the weight of each layer is its fraction of the height."""
        if len(self.tops) == 1:
            return self.moduli(x, y, z)
        low, high = vertical_range(z, spacing, z_limits)
        tops = (np.inf, *self.tops[1:], -np.inf)
        softness, shear_softness, density = np.zeros(z.shape), np.zeros(z.shape), np.zeros(z.shape)
        for index, (kappa, mu, rho) in enumerate(zip(*elastic_moduli(*self._table), strict=True)):
            share = np.minimum(high, tops[index]) - np.maximum(low, tops[index + 1])
            share = np.maximum(share, 0.0) / (high - low)
            softness += share / kappa
            shear_softness += share / mu if mu > 0.0 else np.where(share > 0.0, np.inf, 0.0)
            density += share * rho
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        averages = (1.0 / softness, 1.0 / shear_softness, density)
        return tuple(np.broadcast_to(average, shape).copy() for average in averages)  # type: ignore[return-value]

    def attenuates(self, box: DomainExtent) -> bool:
        return self.losses is not None

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        if self.losses is None:
            return super().inverse_quality(x, y, z)
        return self._spread(np.array(self.losses).T, self.layer_of(z), x, y)  # type: ignore[return-value]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if self.losses is None:
            return super().inverse_quality_in(box)
        bulk, shear = np.array(self.losses)[self._inside(box)].T
        return bulk, shear

    def _inside(self, box: DomainExtent) -> list[int]:
        """Return the indices of the layers in a box."""
        tops = (np.inf, *self.tops[1:], -np.inf)
        return [i for i in range(len(self.tops)) if tops[i] > box.z[0] and tops[i + 1] < box.z[1]]

    @staticmethod
    def _spread(table: Iterable[np.ndarray], layer: np.ndarray, x: np.ndarray, y: np.ndarray) -> Sample:
        shape = np.broadcast_shapes(x.shape, y.shape, layer.shape)
        # Looked up for the z there are, then spread: the results are all that is allocated.
        return tuple(np.broadcast_to(values[layer], shape).copy() for values in table)  # type: ignore[return-value]

    def validate_domain(self, box: DomainExtent) -> None:
        if self.tops[0] < box.z[1]:
            raise InputError(
                "material.layers[0].top",
                f"the first layer begins at z = {self.tops[0]:z.12g} m",
                f"it must reach the top of the domain, z = {box.z[1]:z.12g} m",
                "`top` is z of the layer's top, and layers are listed from the top down",
            )

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        tops, inside = (np.inf, *self.tops[1:], -np.inf), self._inside(box)
        speeds = (self.fastest or self.vp, self.slowest or self.vs, self.rho)
        vp, vs, rho = (np.array(values)[inside] for values in speeds)

        def place(index: int) -> str:
            if len(self.tops) == 1:
                return "everywhere"
            return f"layers[{inside[index]}], z = {max(tops[inside[index] + 1], box.z[0]):z.12g} to " + (
                f"{min(tops[inside[index]], box.z[1]):z.12g} m"
            )

        return (vp, vs, rho), place


@dataclass(frozen=True)
class GroupedMedium(Medium):
    """One material for each group of a mesh; where the groups are only the mesh knows.

    Attributes
    ----------
    names : of the groups. rho : one value a group.
    slowest, fastest : the extreme speeds of each group, m/s.
    losses : 1/Qkappa and 1/Qmu of each group; None if all groups are elastic.
    """

    names: tuple[str, ...]
    slowest: tuple[float, ...]
    fastest: tuple[float, ...]
    rho: tuple[float, ...]
    losses: tuple[tuple[float, float], ...] | None = None

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        raise InputError(
            "material.groups",
            "groups have no positions: the mesh defines the group of each point",
            "for values at points use layers, homogeneous or file",
        )

    def attenuates(self, box: DomainExtent) -> bool:
        return self.losses is not None

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        self.sample(x, y, z)  # raises the error
        raise AssertionError

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if self.losses is None:
            return super().inverse_quality_in(box)
        bulk, shear = np.array(self.losses).T
        return bulk, shear

    def validate_domain(self, box: DomainExtent) -> None:
        """Do nothing: the mesh defines the covered volume."""

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values of all groups, and a text for the location of each."""
        values = tuple(np.array(each) for each in (self.fastest, self.slowest, self.rho))
        return values, lambda index: f"group {self.names[index]}"  # type: ignore[return-value]


@dataclass(frozen=True)
class FunctionMedium(Medium):
    """Values from a function f(x, y, z) -> (vp, vs, rho) or (vp, vs, rho, qp, qs).

    The values are arrays of the shape of x, or numbers.
    """

    function: Callable[..., object]
    _counts: set[int] = field(default_factory=set, repr=False, compare=False)

    def attenuates(self, box: DomainExtent) -> bool:
        middle = (np.full((1, 1, 1), 0.5 * sum(ends)) for ends in (box.x, box.y, box.z))
        return len(self._evaluated(*middle)) > 3

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        return self._evaluated(x, y, z)[:3]  # type: ignore[return-value]

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        return self.sample_all(x, y, z)[1]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        bulk, shear = self.inverse_quality(*self._trial_points(box))
        return bulk.reshape(-1), shear.reshape(-1)

    def sample_all(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[Sample, InverseQuality]:
        vp, vs, rho, *quality = self._evaluated(x, y, z)
        losses = inverse_quality_of(WAVES, *quality, vp, vs) if quality else super().inverse_quality(x, y, z)
        return (vp, vs, rho), losses

    def _evaluated(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return vp, vs, rho and, if the function returns them, qp and qs at points."""
        points = np.broadcast_arrays(x, y, z)
        shape = points[0].shape
        try:
            found = [np.asarray(values, dtype=float) for values in self.function(*points)]  # type: ignore
            if len(found) not in (3, 5):
                raise ValueError(f"it returned {len(found)} values")
            self._counts.add(len(found))
            if len(self._counts) > 1:
                raise ValueError("it returned 3 values for some points and 5 for others")
            values = tuple(np.broadcast_to(array, shape).copy() for array in found)
        except Exception as error:  # a function of the user may raise any exception
            raise InputError(
                "material.function",
                f"failed for points of shape {shape}: {type(error).__name__}: {error}",
                "expected f(x, y, z) -> (vp, vs, rho) or (vp, vs, rho, qp, qs), arrays of the shape of x",
            ) from error

        def place(index: tuple[int, ...]) -> str:
            return "at " + ", ".join(f"{name} = {p[index]:z.12g} m" for name, p in zip("xyz", points, strict=True))

        problem = value_problem(*values[:3], place)
        if problem is None and len(values) > 3:
            problem = quality_problem(WAVES, *values[3:], *values[:2], place)
        if problem:
            raise InputError("material.function", *problem)
        return values

    def validate_domain(self, box: DomainExtent) -> None:
        self.values_in(box)

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values on a regular grid of trial points, which may miss the extremes."""
        points = self._trial_points(box)
        values = self.sample(*points)
        x, y, z = (axis.reshape(-1) for axis in points)

        def place(index: int) -> str:
            i, j, k = np.unravel_index(index, values[0].shape)
            return f"x = {x[i]:z.12g} m, y = {y[j]:z.12g} m, z = {z[k]:z.12g} m"

        return tuple(array.reshape(-1) for array in values), place  # type: ignore[return-value]

    @staticmethod
    def _trial_points(box: DomainExtent) -> tuple[np.ndarray, ...]:
        x, y, z = (np.linspace(*ends, _PROBES) for ends in (box.x, box.y, box.z))
        return x[:, None, None], y[:, None], z


def elastic_moduli(vp: np.ndarray, vs: np.ndarray, rho: np.ndarray) -> Sample:
    """Return bulk modulus ρ(vp² − 4/3 vs²), shear modulus ρ vs² (Pa), and rho."""
    mu = rho * vs**2
    return rho * vp**2 - 4.0 / 3.0 * mu, mu, rho


def vertical_range(z: np.ndarray, spacing: float, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper end of the cells around z, clipped to the limits.

    A cell around a point outside the limits is that around the nearest point within, so that none is empty.
    """
    middle = np.clip(z, *limits)
    return np.maximum(middle - 0.5 * spacing, limits[0]), np.minimum(middle + 0.5 * spacing, limits[1])


def value_problem(
    vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, place: Callable[[tuple[int, ...]], str]
) -> tuple[str, str] | None:
    """Return the problem of values and the allowed values; None if they can be those of a solid or a fluid.

    ``place`` turns the index of the first bad point into text.
    """
    for name, values, least in (("vp", vp, "> 0"), ("vs", vs, ">= 0"), ("rho", rho, "> 0")):
        bad = ~(np.isfinite(values) & (values > 0.0 if least == "> 0" else values >= 0.0))
        if bad.any():
            index = _first(bad)
            return f"{name} = {values[index]:.12g} {place(index)}{_more(bad)}", f"must be finite and {least}"
    bad = vp <= np.sqrt(4.0 / 3.0) * vs
    if not bad.any():
        return None
    index = _first(bad)
    got = f"vp = {vp[index]:.12g} m/s and vs = {vs[index]:.12g} m/s {place(index)}{_more(bad)}"
    return got, "vp^2 must be greater than 4/3 vs^2: the bulk modulus is positive"


def _first(bad: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))


Moduli = Callable[[np.ndarray, np.ndarray, np.ndarray, InverseQuality], Sample]

SHORTEST = 1e-6
"""Height of intervals, m, in which means are taken, at least."""

_BESIDE = 0.25  # distance of the columns of an average from the middle of its cell, in cells


class StackedLayers(Medium):
    """Layers from the top down.

    Points on an interface belong to two layers: in all methods, the arguments ``within`` are the first and the last
    layer to which a point may belong, such as those of its element; default: the layer below.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of layers."""

    @abstractmethod
    def boundaries(self, x: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray | float]:
        """Yield z, m, at which each layer begins, from the first, and the end of the last one; both are infinite."""

    @abstractmethod
    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        """Return vp, vs and rho at points."""

    def love(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> tuple[Love, np.ndarray]:
        """Return the moduli A, C, L, N and F, Pa, of transverse isotropy with a vertical axis, and rho at points."""
        vp, vs, rho = self.sample(x, y, z, *within)
        return love_moduli(vp, vp, vs, vs, np.ones_like(rho), rho), rho

    @abstractmethod
    def sample_all(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[Sample, InverseQuality]:
        """Return vp, vs, rho and 1/Qkappa, 1/Qmu at points."""

    def vertical_means(
        self, x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray, moduli: Moduli | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the means of 1/kappa, 1/mu, rho and 1/(kappa + 4/3 mu) from z = low to high, in columns at x, y.

        The fraction of each layer is exact, with its properties in the middle of its part.

        moduli : function of vp, vs, rho, (1/Qkappa, 1/Qmu) -> kappa, mu, rho; default: the elastic moduli.
        """
        means = np.zeros((4, *np.broadcast_shapes(x.shape, y.shape, low.shape)))
        ends = list(self.boundaries(x, y))
        for index in range(self.count):
            upper, lower = np.minimum(high, ends[index]), np.maximum(low, ends[index + 1])
            share = np.clip((upper - lower) / (high - low), 0.0, None)
            if not share.any():
                continue
            z = np.broadcast_to(0.5 * (np.maximum(upper, lower) + lower), means.shape[1:])
            layer = np.full(z.shape, index)
            if moduli is None:
                kappa, mu, rho = elastic_moduli(*self.sample(x, y, z, layer, layer))
            else:
                values, losses = self.sample_all(x, y, z, layer, layer)
                kappa, mu, rho = moduli(*values, losses)
            with np.errstate(divide="ignore"):  # water: no rigidity, and none of the whole cell
                shear = np.where(share > 0.0, share / mu, 0.0)
            means += np.stack(np.broadcast_arrays(share / kappa, shear, share * rho, share / (kappa + 4.0 / 3.0 * mu)))
        return means[0], means[1], means[2], means[3]

    def average_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, z_limits: tuple[float, float],
        moduli: Moduli | None = None,
    ) -> Sample:  # fmt: skip
        """Return the moduli averaged over cubes: exactly along z, in 2 x 2 columns. moduli : as in `vertical_means`."""
        low, high = vertical_range(z, spacing, z_limits)
        parts = [
            np.stack(self.vertical_means(x + a * _BESIDE * spacing, y + b * _BESIDE * spacing, low, high, moduli))
            for a in (-1, 1)
            for b in (-1, 1)
        ]
        softness, shear_softness, rho, _ = np.mean(parts, axis=0)
        return 1.0 / softness, 1.0 / shear_softness, rho

    def interval_moduli(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, height: float, moduli: Moduli | None = None
    ) -> Sample:
        """Return the isotropic medium of the same vertical compliances and mass in intervals of a height around z."""
        height = max(height, SHORTEST)  # above the uppermost node there is nothing
        ends = z - 0.5 * height, z + 0.5 * height
        _, shear_softness, rho, softness = self.vertical_means(x, y, *ends, moduli)
        mu = 1.0 / shear_softness
        return 1.0 / softness - 4.0 / 3.0 * mu, mu, rho
