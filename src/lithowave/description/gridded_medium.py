"""Media with gridded values: trilinear interpolation on rectilinear axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lithowave.description.media import DomainExtent, Medium, Sample, value_problem
from lithowave.description.plausibility import unit_question
from lithowave.description.quality_values import MODULI, WAVES, InverseQuality, inverse_quality_of, quality_problem
from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel

Cell = tuple[np.ndarray, np.ndarray]
"""Index of the axis point below each point, and the part of the way to the next one."""


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
            return f"at {model.place(index)}"

        # Between the points values are as good as at them: vp > sqrt(4/3) vs is kept by linear interpolation.
        problem = value_problem(model.vp, model.vs, model.rho, place)
        if problem is None and model.quality:
            problem = quality_problem(*self._quality, model.vp, model.vs, place)
        if problem:
            raise InputError("values", problem[0], problem[1], self._suspected_units(), file=model.path)

    @property
    def concurrent(self) -> bool:
        return True

    def _suspected_units(self) -> str:
        """Return the unit that explains implausible values, as a question; empty if they are plausible."""
        for name in ("vp", "vs", "rho"):
            values = getattr(self.model, name)
            question = unit_question(name, float(np.nanmedian(values)))
            if question:
                stated = f"(units in the file: {self.model.units.get(name, 'none')})"
                si = "kg/m^3" if name == "rho" else "m/s"
                return f"The median of {name} is {np.nanmedian(values):.6g} {si} {stated}; {question}"
        return ""

    @property
    def _quality(self) -> tuple[tuple[str, str], np.ndarray, np.ndarray | None]:
        """Names of the pair of quality factors, the first of them, and the second; None in a model of fluids only."""
        names = WAVES if WAVES[0] in self.model.quality else MODULI
        return names, self.model.quality[names[0]], self.model.quality.get(names[1])

    @cached_property
    def _losses(self) -> InverseQuality | None:
        """1/Qkappa and 1/Qmu of the model, which are interpolated; None in an elastic model."""
        if not self.model.quality:
            return None
        return inverse_quality_of(*self._quality, self.model.vp, self.model.vs)

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        if self._losses is None:
            return super().inverse_quality(x, y, z)
        return self._interpolated(self._losses, x, y, z)  # type: ignore[return-value]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if self._losses is None:
            return super().inverse_quality_in(box)
        parts = tuple(_around(axis, getattr(box, name)) for name, axis in self.model.axes.items())
        bulk, shear = (array[parts].reshape(-1) for array in self._losses)
        return bulk, shear

    def losses_at(self, points: np.ndarray) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu of a model with quality factors at some of its grid points, given by a mask."""
        assert self._losses is not None
        return self._losses[0][points], self._losses[1][points]

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        arrays = (self.model.vp, self.model.vs, self.model.rho)
        return self._interpolated(arrays, x, y, z)  # type: ignore[return-value]

    def _interpolated(
        self, arrays: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        points = (x, y, z)
        cells = [trilinear_cells(p, axis) for p, axis in zip(points, self.model.axes.values(), strict=True)]
        shape = np.broadcast_shapes(*(p.shape for p in points))
        order = _product_order(points, len(shape))
        if order is None and z.size == 1:
            found = tuple(_on_level(values, cells).reshape(shape) for values in arrays)
        elif order is None:
            found = trilinear_values(arrays, cells)
        else:
            flat = [(index.reshape(-1), weight.reshape(-1)) for index, weight in cells]
            found = tuple(_on_product_grid(values, flat).transpose(order).reshape(shape) for values in arrays)
        self._separate_fluids(arrays, found, cells, shape)
        return found

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

    def _separate_fluids(
        self, arrays: Sequence[np.ndarray], found: Sequence[np.ndarray], cells: Sequence[Cell], shape: tuple[int, ...]
    ) -> None:
        """Replace values interpolated between a fluid and a solid by those of the nearest point."""
        mixed = self._mixed_cells
        if mixed is None:
            return
        here = np.broadcast_to(mixed[tuple(index for index, _ in cells)], shape)
        if not here.any():
            return
        nearest = tuple(np.broadcast_to(index + (weight > 0.5), shape)[here] for index, weight in cells)
        for values, result in zip(arrays, found, strict=True):
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
                    f"{self.model.path} covers {name} = {axis[0]:z.12g} to {axis[-1]:z.12g} m",
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


def trilinear_cells(points: np.ndarray, axis: np.ndarray) -> Cell:
    """Return the axis interval around each point; points beyond the axis are moved to its ends."""
    if axis.size == 1:
        return np.zeros(points.shape, dtype=int), np.zeros(points.shape)
    inside = np.clip(points, axis[0], axis[-1])
    index = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, axis.size - 2)
    return index, (inside - axis[index]) / (axis[index + 1] - axis[index])


def trilinear_values(arrays: Sequence[np.ndarray], cells: Sequence[Cell]) -> tuple[np.ndarray, ...]:
    """Interpolate trilinearly at any points, from the eight corners of the cell around each."""
    shape = np.broadcast_shapes(*(index.shape for index, _ in cells))
    results = tuple(np.zeros(shape) for _ in arrays)
    sides = [
        ((index, 1.0 - weight), (np.minimum(index + 1, count - 1), weight))
        for (index, weight), count in zip(cells, arrays[0].shape, strict=True)
    ]
    for corner in np.ndindex(2, 2, 2):
        (i, wx), (j, wy), (k, wz) = (ends[side] for ends, side in zip(sides, corner, strict=True))
        weight = wx * wy * wz
        for values, result in zip(arrays, results, strict=True):
            result += weight * values[i, j, k]
    return results


def _on_level(values: np.ndarray, cells: Sequence[Cell]) -> np.ndarray:
    """Interpolate at points of one z: first all values along z, then the four corners around each point."""
    (i, wx), (j, wy), (k, wz) = cells
    level, part = int(k.reshape(-1)[0]), wz.reshape(-1)[0]
    above = min(level + 1, values.shape[2] - 1)
    plane = values[:, :, level] * (1.0 - part) + values[:, :, above] * part
    beside = [np.minimum(index + 1, count - 1) for index, count in zip((i, j), plane.shape, strict=True)]
    low = plane[i, j] * (1.0 - wy) + plane[i, beside[1]] * wy
    high = plane[beside[0], j] * (1.0 - wy) + plane[beside[0], beside[1]] * wy
    return low * (1.0 - wx) + high * wx


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
    "dataset": _axis_hint,
    "section": lambda *_: "spacing and origin of the section say where it is",
}
