"""Elastic media as functions of position: layers, groups of a mesh, gridded values, a Python function.

All answer the same questions, for points given by arrays that broadcast against each other (for one
plane of a grid: x of shape (nx,), y of shape (ny, 1), z a number), with results of the broadcast shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel

Cell = tuple[np.ndarray, np.ndarray]
"""Index of the axis point below each point, and the part of the way to the next one."""

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
    """An elastic medium."""

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


@dataclass(frozen=True)
class LayeredMedium(Medium):
    """Flat layers from the top down; the first reaches up without end, the last down. One: homogeneous.

    Attributes
    ----------
    tops : z of the top of each layer in m, descending; a point at a top belongs to the layer below it.
    vp, vs, rho : one value a layer.
    slowest, fastest : the extreme speeds of each layer, m/s; left out where they are vs and vp.
    stiffness : c11, c22, c33, c12, c13, c23, c44, c55 and c66 of each layer, Pa; None if all layers are isotropic.
    """

    tops: tuple[float, ...]
    vp: tuple[float, ...]
    vs: tuple[float, ...]
    rho: tuple[float, ...]
    slowest: tuple[float, ...] | None = None
    fastest: tuple[float, ...] | None = None
    stiffness: tuple[tuple[float, ...], ...] | None = None

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

    @staticmethod
    def _spread(table: Sample, layer: np.ndarray, x: np.ndarray, y: np.ndarray) -> Sample:
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
        tops = (np.inf, *self.tops[1:], -np.inf)
        inside = [i for i in range(len(self.tops)) if tops[i] > box.z[0] and tops[i + 1] < box.z[1]]
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
    """

    names: tuple[str, ...]
    slowest: tuple[float, ...]
    fastest: tuple[float, ...]
    rho: tuple[float, ...]

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        raise InputError(
            "material.groups",
            "groups have no positions: the mesh defines the group of each point",
            "for values at points use layers, homogeneous or file",
        )

    def validate_domain(self, box: DomainExtent) -> None:
        """Do nothing: the mesh defines the covered volume."""

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values of all groups, and a text for the location of each."""
        values = tuple(np.array(each) for each in (self.fastest, self.slowest, self.rho))
        return values, lambda index: f"group {self.names[index]}"  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class GriddedMedium(Medium):
    """Values on a rectilinear grid; trilinear between its points, constant beyond its edges.

    In a cell that has both fluid (vs = 0) and solid points, all values are those of the nearest point: between the two
    there is no medium.

    Attributes
    ----------
    model : along an axis of one point its values are the same everywhere.
    key : the key of ``material`` that it comes from.
    """

    model: GriddedModel
    key: str = "file"

    def __post_init__(self) -> None:
        model = self.model

        def place(index: tuple[int, ...]) -> str:
            coordinates = zip(model.axes.items(), index, strict=True)
            return "at " + ", ".join(f"{name} = {axis[i]:z.12g} m" for (name, axis), i in coordinates)

        # Between the points values are as good as at them: vp > sqrt(4/3) vs is kept by linear interpolation.
        problem = value_problem(model.vp, model.vs, model.rho, place)
        if problem:
            raise InputError("values", problem[0], problem[1], file=model.path)

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        points = (x, y, z)
        cells = [_neighbours(p, axis) for p, axis in zip(points, self.model.axes.values(), strict=True)]
        shape = np.broadcast_shapes(*(p.shape for p in points))
        order = _product_order(points, len(shape))
        arrays = (self.model.vp, self.model.vs, self.model.rho)
        if order is None:
            found = tuple(_at_points(values, cells) for values in arrays)
        else:
            flat = [(index.reshape(-1), weight.reshape(-1)) for index, weight in cells]
            found = tuple(_on_product_grid(values, flat).transpose(order).reshape(shape) for values in arrays)
        self._separate_fluids(found, cells, shape)
        return found  # type: ignore[return-value]

    @cached_property
    def _mixed_cells(self) -> np.ndarray | None:
        """Which cells have fluid and solid points; None where there is no such cell."""
        fluid = self.model.vs == 0.0
        if not fluid.any() or fluid.all():
            return None
        some = every = fluid
        for axis, count in enumerate(fluid.shape):
            if count > 1:
                some = some.take(range(count - 1), axis) | some.take(range(1, count), axis)
                every = every.take(range(count - 1), axis) & every.take(range(1, count), axis)
        return some & ~every

    def _separate_fluids(self, found: Sequence[np.ndarray], cells: Sequence[Cell], shape: tuple[int, ...]) -> None:
        """Replace values interpolated between a fluid and a solid by those of the nearest point."""
        mixed = self._mixed_cells
        if mixed is None:
            return
        here = np.broadcast_to(mixed[tuple(index for index, _ in cells)], shape)
        if not here.any():
            return
        nearest = tuple(np.broadcast_to(index + (weight > 0.5), shape)[here] for index, weight in cells)
        for values, result in zip((self.model.vp, self.model.vs, self.model.rho), found, strict=True):
            result[here] = values[nearest]

    def validate_domain(self, box: DomainExtent) -> None:
        for name, axis in self.model.axes.items():
            low, high = getattr(box, name)
            if axis.size == 1:
                continue
            tolerance = 1e-6 * (axis[-1] - axis[0])
            if axis[0] > low + tolerance or axis[-1] < high - tolerance:
                raise InputError(
                    f"material.{self.key}",
                    f"{self.model.path} covers {name} = {axis[0]:.12g} to {axis[-1]:.12g} m",
                    f"it must cover the domain, {low:z.12g} to {high:z.12g} m",
                    _AXIS_HINTS[self.key](name, axis, (low, high)),
                )

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        axes = self.model.axes
        parts = tuple(_around(axis, getattr(box, name)) for name, axis in axes.items())
        values = tuple(array[parts] for array in (self.model.vp, self.model.vs, self.model.rho))

        def place(index: int) -> str:
            where = np.unravel_index(index, values[0].shape)
            named = zip(axes.items(), parts, where, strict=True)
            return ", ".join(f"{name} = {axis[part][i]:.12g} m" for (name, axis), part, i in named)

        return tuple(array.reshape(-1) for array in values), place  # type: ignore[return-value]


@dataclass(frozen=True)
class FunctionMedium(Medium):
    """Values from a function f(x, y, z) -> (vp, vs, rho), each an array of the shape of x or a number."""

    function: Callable[..., object]

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        points = np.broadcast_arrays(x, y, z)
        shape = points[0].shape
        try:
            vp, vs, rho = (np.asarray(values, dtype=float) for values in self.function(*points))  # type: ignore
            values = tuple(np.broadcast_to(array, shape).copy() for array in (vp, vs, rho))
        except Exception as error:  # a function of the user may raise any exception
            raise InputError(
                "material.function",
                f"failed for points of shape {shape}: {type(error).__name__}: {error}",
                "expected f(x, y, z) -> (vp, vs, rho), arrays of the shape of x",
            ) from error

        def place(index: tuple[int, ...]) -> str:
            return "at " + ", ".join(
                f"{name} = {p[index]:z.12g} m" for name, p in zip("xyz", points, strict=True)
            )

        problem = value_problem(*values, place)
        if problem:
            raise InputError("material.function", *problem)
        return values  # type: ignore[return-value]

    def validate_domain(self, box: DomainExtent) -> None:
        self.values_in(box)

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values on a regular grid of trial points, which may miss the extremes."""
        x, y, z = (np.linspace(*ends, _PROBES) for ends in (box.x, box.y, box.z))
        values = self.sample(x[:, None, None], y[:, None], z)

        def place(index: int) -> str:
            i, j, k = np.unravel_index(index, values[0].shape)
            return f"x = {x[i]:z.12g} m, y = {y[j]:z.12g} m, z = {z[k]:z.12g} m"

        return tuple(array.reshape(-1) for array in values), place  # type: ignore[return-value]


def elastic_moduli(vp: np.ndarray, vs: np.ndarray, rho: np.ndarray) -> Sample:
    """Return bulk modulus ρ(vp² − 4/3 vs²), shear modulus ρ vs² (Pa), and rho."""
    mu = rho * vs**2
    return rho * vp**2 - 4.0 / 3.0 * mu, mu, rho


def vertical_range(
    z: np.ndarray, spacing: float, limits: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
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


def _more(bad: np.ndarray) -> str:
    count = int(bad.sum()) - 1
    return f" (and {count} more points)" if count else ""


def _neighbours(points: np.ndarray, axis: np.ndarray) -> Cell:
    """Return the axis interval around each point; points beyond the axis are moved to its ends."""
    if axis.size == 1:
        return np.zeros(points.shape, dtype=int), np.zeros(points.shape)
    inside = np.clip(points, axis[0], axis[-1])
    index = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, axis.size - 2)
    return index, (inside - axis[index]) / (axis[index + 1] - axis[index])


def _at_points(values: np.ndarray, cells: Sequence[Cell]) -> np.ndarray:
    """Interpolate trilinearly at any points, from the eight corners of the cell around each."""
    result = np.zeros(np.broadcast_shapes(*(index.shape for index, _ in cells)))
    ends = [count - 1 for count in values.shape]
    for corner in np.ndindex(2, 2, 2):
        (i, wx), (j, wy), (k, wz) = (
            (np.minimum(index + side, last), weight if side else 1.0 - weight)
            for (index, weight), side, last in zip(cells, corner, ends, strict=True)
        )
        result += wx * wy * wz * values[i, j, k]
    return result


def _on_product_grid(values: np.ndarray, cells: Sequence[Cell]) -> np.ndarray:
    """Interpolate at all combinations of coordinates, axis by axis, that with the smallest result first."""
    for axis in sorted(range(3), key=lambda axis: cells[axis][0].size / values.shape[axis]):
        index, weight = cells[axis]
        weight = weight.reshape([-1 if other == axis else 1 for other in range(3)])
        above = np.minimum(index + 1, values.shape[axis] - 1)
        values = values.take(index, axis) * (1.0 - weight) + values.take(above, axis) * weight
    return values


def _product_order(points: Sequence[np.ndarray], dimensions: int) -> list[int] | None:
    """Return the order of x, y and z along the axes of the broadcast shape, if each has a separate axis; else None."""
    varying = [
        [dimensions - p.ndim + axis for axis, count in enumerate(p.shape) if count > 1] for p in points
    ]
    used = [axis for axes in varying for axis in axes]
    if any(len(axes) > 1 for axes in varying) or len(set(used)) < len(used):
        return None
    return sorted(range(3), key=lambda number: varying[number] or [-1])


def _around(axis: np.ndarray, ends: tuple[float, float]) -> slice:
    """Return the points of an axis on which values between two ends depend."""
    if axis.size == 1:
        return slice(None)
    first = np.clip(np.searchsorted(axis, ends[0], side="right") - 1, 0, axis.size - 2)
    last = np.clip(np.searchsorted(axis, ends[1], side="left"), first + 1, axis.size - 1)
    return slice(int(first), int(last) + 1)


def _axis_hint(name: str, axis: np.ndarray, ends: tuple[float, float]) -> str:
    """Return a hint about the probable error of an axis that does not cover the domain."""
    if name == "z" and axis[0] >= 0.0 and ends[1] <= 0.0 and axis[-1] > 0.0:
        return (
            "z is positive upwards; if the file counts depth, name the axis depth or give it positive = down"
        )
    if 500.0 * (axis[-1] - axis[0]) <= ends[1] - ends[0]:
        return "if the axis is in km, give it the attribute units = km"
    return "extend the model, or make the domain smaller"


_AXIS_HINTS: Mapping[str, Callable[[str, np.ndarray, tuple[float, float]], str]] = {
    "file": _axis_hint,
    "section": lambda *_: "spacing and origin of the section say where it is",
}
