r"""Media of layers bounded by surfaces, whose properties may increase with depth.

Layer k lies below its top z_k(x, y) and above the layers that follow. If tops cross, the layer that is listed first
prevails: layer k begins at the minimum of z_1, ..., z_k. The first layer reaches up without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError
from lithowave.media.medium import (
    WAVES,
    DomainExtent,
    InverseQuality,
    RecentResults,
    Sample,
    StackedLayers,
    inverse_quality_of,
    quality_problem,
    value_problem,
)
from lithowave.readers.array_files import cover_problem
from lithowave.readers.surfaces import Surface

if TYPE_CHECKING:
    pass

Top = float | Callable[..., np.ndarray]

PROPERTIES = ("vp", "vs", "rho", "qp", "qs")

PROBES = 129
"""Positions along x and y at which the boundaries are compared, in addition to those of the points of files."""

MOST_PROBES = 513
DEPTHS = 33
"""Depths in the range of a layer with gradients at which its properties are examined; the first and last are exact."""

KEPT_BYTES = 1 << 30
"""Elevations of grids of columns that are kept, since the planes of a grid have the same columns."""

TINY = 1e-9
"""Thickness over the depth of the domain below which a layer is absent."""


@dataclass(frozen=True)
class FunctionTop:
    """A function z(x, y) as the top of layer ``index``; its results are checked."""

    function: Callable[..., np.ndarray]
    index: int

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return z in m, of the broadcast shape of x and y."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        where, allowed = f"material.layers[{self.index}].top", "expected z(x, y): an array of the shape of x, m"
        try:
            found = np.broadcast_to(np.asarray(self.function(x, y), dtype=float), x.shape).copy()
        except Exception as error:  # a function of the user may raise any exception
            got = f"failed for points of shape {x.shape}: {type(error).__name__}: {error}"
            raise InputError(where, got, allowed) from error
        if not np.isfinite(found).all():
            place = np.unravel_index(int((~np.isfinite(found)).argmax()), x.shape)
            raise InputError(where, f"z = {found[place]} at x = {x[place]:zg} m, y = {y[place]:zg} m", allowed)
        return found


@dataclass(frozen=True)
class LayerRange:
    """A layer in a domain.

    index : of the layer. thinnest, thickest : m; 0 where it is absent. absent : fraction of the area without it.
    place : (x, y), m, where it is thinnest. depths : smallest and largest depth of the gradient, m; None if the layer
    is absent.
    """

    index: int
    thinnest: float
    thickest: float
    absent: float
    place: tuple[float, float]
    depths: tuple[float, float] | None


@dataclass(frozen=True)
class LayerProfile:
    """Boundaries of the layers at columns of a domain: x (columns,), y (rows, 1), and z (layers + 1, rows, columns), m.

    Those above the ground are at the ground, those below the domain at its bottom.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray

    @property
    def thickness(self) -> np.ndarray:
        """Thickness (layers, rows, columns), m."""
        return self.z[:-1] - self.z[1:]

    def place(self, values: np.ndarray) -> tuple[float, float]:
        """Return x and y, m, of the smallest of values (rows, columns)."""
        row, column = np.unravel_index(int(values.argmin()), values.shape)
        return float(self.x[column]), float(self.y[row, 0])


@dataclass(frozen=True, eq=False)
class BoundedLayers(StackedLayers):
    """Layers bounded by surfaces, from the top down.

    Attributes
    ----------
    tops : of each layer: z in m, or a function z(x, y) of arrays.
    values : (layers, 5) vp, vs, rho, qp and qs at the depth 0; NaN without attenuation.
    slopes : (layers, 5) increase of the values per m of depth.
    levels : (layers,) z, m, from which the depth is measured; NaN: from the top of the layer.
    losses : (layers, 2) 1/Qkappa and 1/Qmu at the depth 0; 0 without attenuation.
    speeds : (layers, 2) the slowest and the fastest phase velocity at the depth 0, m/s: of a fluid 0 and vp.
    anisotropic : (layers,) True for layers of which ``values`` are not complete.
    """

    tops: tuple[Top, ...]
    values: np.ndarray
    slopes: np.ndarray
    levels: np.ndarray
    losses: np.ndarray
    speeds: np.ndarray
    anisotropic: np.ndarray
    _known: RecentResults[np.ndarray] = field(
        default_factory=lambda: RecentResults(KEPT_BYTES, lambda heights: heights.nbytes), repr=False
    )
    _profiles: dict[tuple[object, ...], LayerProfile] = field(default_factory=dict, repr=False)

    @property
    def concurrent(self) -> bool:
        return all(not callable(top) or getattr(top, "concurrent", False) for top in self.tops)

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(self.tops)

    @cached_property
    def varying(self) -> np.ndarray:
        """True for each layer (layers,) with gradients."""
        return np.asarray(self.slopes.any(axis=1))

    def height(self, index: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return z, m, of the top of a layer as it is described."""
        top = self.tops[index]
        if not callable(top):
            return np.asarray(top, float)
        size = int(np.prod(np.broadcast_shapes(x.shape, y.shape)))
        if 4 * (x.size + y.size) > size:
            return np.asarray(top(x, y))
        key = (index, x.shape, y.shape, x.tobytes(), y.tobytes())
        return self._known.get(key, lambda: np.asarray(top(x, y)))

    def boundaries(self, x: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray | float]:
        """Yield z, m, at which each layer begins, from the first, and -inf for the end of the last one."""
        lowest: np.ndarray | float = np.inf
        yield lowest
        for index in range(1, self.count):
            lowest = np.minimum(lowest, self.height(index, x, y))
            yield lowest
        yield -np.inf

    def layer_of(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> np.ndarray:
        """Return the index of the layer at each point.

        within : the first and the last layer that a point may belong to, such as those of its element.
        """
        found = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.int64)
        if within and (within[0] == within[1]).all():
            return found + within[0]
        for index, top in enumerate(self.boundaries(x, y)):
            if 0 < index < self.count:
                found[np.broadcast_to(z <= top, found.shape)] = index
        return np.clip(found, *within) if within else found

    def depth(self, index: int, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the depth, m, in a layer, at which its gradients give its properties."""
        if np.isfinite(self.levels[index]):
            return self.levels[index] - z
        return np.maximum(self.height(index, x, y) - z, 0.0)

    def _values(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, layer: np.ndarray, columns: slice = slice(None)
    ) -> np.ndarray:
        """Return vp, vs, rho, qp and qs, or some of them, (5, ...) at points in these layers."""
        found = np.moveaxis(self.values[:, columns][layer], -1, 0).copy()
        for index in np.flatnonzero(self.varying).tolist():
            here = layer == index
            if here.any():
                depth = np.broadcast_to(self.depth(index, x, y, z), layer.shape)[here]
                found[:, here] += self.slopes[index, columns, None] * depth
        return found

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> Sample:
        """Return vp, vs and rho at points. within : see `layer_of`."""
        vp, vs, rho = self._values(x, y, z, self.layer_of(x, y, z, *within), slice(3))
        return vp, vs, rho

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.losses.any())

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu at points. within : see `layer_of`."""
        return self._inverse_quality(x, y, z, self.layer_of(x, y, z, *within))

    def _inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, layer: np.ndarray) -> InverseQuality:
        found = np.moveaxis(self.losses[layer], -1, 0).copy()
        here = (self.varying & self.losses.any(axis=1))[layer]
        if here.any():
            px, py, pz = (np.broadcast_to(points, layer.shape)[here] for points in (x, y, z))
            found[:, here] = _losses(self._values(px, py, pz, layer[here]))
        return found[0], found[1]

    def sample_all(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[Sample, InverseQuality]:
        layer = self.layer_of(x, y, z, *within)
        vp, vs, rho = self._values(x, y, z, layer, slice(3))
        return (vp, vs, rho), self._inverse_quality(x, y, z, layer)

    def profile(self, box: DomainExtent) -> LayerProfile:
        """Return the boundaries of the layers at columns of a domain."""
        surface = getattr(box, "surface", None)
        key = (box.x, box.y, box.z, id(surface))
        if key not in self._profiles:
            files = [top for top in (*self.tops, surface) if isinstance(top, Surface)]
            x = _probes(box.x, [one.x for one in files])
            y = _probes(box.y, [one.y for one in files])[:, None]
            ground = box.z[1] if surface is None else surface(x, y)
            ends = [np.clip(top, box.z[0], np.maximum(ground, box.z[0])) for top in self.boundaries(x, y)]
            self._profiles[key] = LayerProfile(x, y, np.stack(np.broadcast_arrays(*ends, x + y)[:-1]))
        return self._profiles[key]

    def ranges(self, box: DomainExtent) -> list[LayerRange]:
        """Return the thickness and depths of each layer in a domain, at the columns of its `profile`."""
        profile, found = self.profile(box), []
        for index, thickness in enumerate(profile.thickness):
            there = thickness > TINY * (box.z[1] - box.z[0])
            depths = None
            if there.any():
                ends = (self.depth(index, profile.x, profile.y, profile.z[index + side]) for side in (0, 1))
                low, high = (np.broadcast_to(depth, there.shape)[there] for depth in ends)
                depths = float(low.min()), float(high.max())
            found.append(
                LayerRange(
                    index, float(thickness.min()), float(thickness.max()), float(1.0 - there.mean()),
                    profile.place(thickness), depths,
                )
            )  # fmt: skip
        return found

    def _examined(self, box: DomainExtent) -> list[tuple[int, np.ndarray]]:
        """Return each layer in the domain with the depths at which its properties are examined."""
        present = [(one.index, one.depths) for one in self.ranges(box) if one.depths is not None]
        return [
            (index, np.linspace(*depths, DEPTHS) if self.varying[index] else np.zeros(1)) for index, depths in present
        ]

    def _values_at_depths(self, index: int, depths: np.ndarray) -> np.ndarray:
        return self.values[index][:, None] + self.slopes[index][:, None] * depths

    def slowest_at(self, index: int, depths: np.ndarray) -> np.ndarray:
        """Return the velocity, m/s, of the slowest wave at depths in a layer: vs, or vp of a fluid."""
        if not self.varying[index]:
            low, high = self.speeds[index]
            return np.full(np.shape(depths), low or high)
        vp, vs = self.values[index, :2, None] + self.slopes[index, :2, None] * np.ravel(depths)
        return np.where(vs > 0.0, vs, vp).reshape(np.shape(depths))

    def validate_domain(self, box: DomainExtent) -> None:
        for index, top in enumerate(self.tops):
            if not isinstance(top, Surface):
                continue
            uncovered = cover_problem(top.path, zip("xy", top.extent, strict=True), {"x": box.x, "y": box.y})
            if uncovered:
                raise InputError(f"material.layers[{index}].top", uncovered[1], uncovered[2])
        self._require_first(box)
        for index, depths in self._examined(box):
            values = self._values_at_depths(index, depths)

            def place(at: tuple[int, ...], depths: np.ndarray = depths) -> str:
                return f"at the depth {depths[at]:.6g} m in the layer"

            if not self.varying[index]:
                continue
            vp, vs, rho, qp, qs = values
            problem = value_problem(vp, vs, rho, place)
            if problem is None and self.losses[index].any():
                problem = quality_problem(WAVES, qp, qs if self.losses[index, 1] > 0.0 else None, vp, vs, place)
            if problem:
                hint = "gradients apply down to the next layer or the bottom of the domain: divide the layer"
                raise InputError(f"material.layers[{index}].gradient", *problem, hint)

    def _require_first(self, box: DomainExtent) -> None:
        """Require that the first layer reaches the ground, or z = 0 with a topography and a flat top."""
        x, y = (self.profile(box).x, self.profile(box).y)
        surface = getattr(box, "surface", None)
        ground = box.z[1] if surface is None or not callable(self.tops[0]) else surface(x, y)
        gap = np.broadcast_to(ground - self.height(0, x, y), (y.size, x.size))
        if gap.max() <= 1e-6 * (box.z[1] - box.z[0]):
            return
        row, column = np.unravel_index(int(gap.argmax()), gap.shape)
        raise InputError(
            "material.layers[0].top",
            f"the first layer begins {gap.max():.6g} m below the top of the domain at x = {x[column]:zg} m, y = "
            f"{y[row, 0]:zg} m",
            "it must reach the top of the domain everywhere",
            "`top` is z of the layer's top, and layers are listed from the top down",
        )

    def lines(self, box: DomainExtent) -> list[tuple[str, str]]:
        """Return (name, text) of the lines that `check` prints: thickness and velocities of each layer in a domain."""
        rows = []
        for one in self.ranges(box):
            name = f"layers[{one.index}]"
            if one.depths is None:
                rows.append((name, "absent in the domain"))
                continue
            ends = dict.fromkeys((f"{one.thinnest:.4g}", f"{one.thickest:.4g}"))
            where = f"{' to '.join(ends)} m thick"
            if one.absent:
                where = f"up to {one.thickest:.4g} m thick, absent in {one.absent:.0%} of the area"
            depths = np.array(one.depths if self.varying[one.index] else (0.0, 0.0))
            values = self._values_at_depths(one.index, depths)
            texts = [
                f"{key} {low:.5g}" + (f" to {high:.5g}" if low != high else "") + f" {unit}"
                for key, (low, high), unit in zip(("vp", "vs", "rho"), values, ("m/s", "m/s", "kg/m^3"), strict=False)
            ]
            rows.append((name, f"{where}; {', '.join(texts)}"))
        return rows

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        """Return the values at `DEPTHS` depths between the least and the largest one in the domain of each layer."""
        examined = self._examined(box)
        vp, vs, rho = np.concatenate([self._values_at_depths(*one)[:3] for one in examined], axis=1)
        layer = np.concatenate([np.full(depths.size, index) for index, depths in examined])
        depth = np.concatenate([depths for _, depths in examined])
        constant = ~self.varying[layer]
        vs = np.where(constant, self.speeds[layer, 0], vs)
        vp = np.where(constant, self.speeds[layer, 1], vp)

        def place(at: int) -> str:
            index = layer[at]
            if not self.varying[index]:
                return f"layers[{index}]"
            return f"layers[{index}], depth {depth[at]:.6g} m"

        return (vp, vs, rho), place

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        parts = []
        for index, depths in self._examined(box):
            found = np.broadcast_to(self.losses[index][:, None], (2, depths.size))
            if self.varying[index] and found.any():
                found = np.stack(_losses(self._values_at_depths(index, depths)))
            parts.append(found)
        bulk, shear = np.concatenate(parts, axis=1)
        return bulk, shear


def _losses(values: np.ndarray) -> InverseQuality:
    """Return 1/Qkappa and 1/Qmu of vp, vs, rho, qp and qs (5, ...)."""
    vp, vs, _, qp, qs = values
    return inverse_quality_of(WAVES, qp, qs, vp, vs)


def _probes(ends: tuple[float, float], axes: list[np.ndarray]) -> np.ndarray:
    """Return coordinates from one end to the other: regular ones, and at most `MOST_PROBES` of each axis inside."""
    parts = [np.linspace(*ends, PROBES)]
    for axis in axes:
        inside = axis[(axis > ends[0]) & (axis < ends[1])]
        parts.append(inside[:: -(-inside.size // MOST_PROBES) or 1])
    return np.unique(np.concatenate(parts))
