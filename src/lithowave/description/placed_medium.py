"""Gridded models in other coordinates than those of the domain, or in several blocks, placed in a domain.

A point (x, y, z) of the domain is projected to longitude and latitude, then to the coordinates of the model, in which
values are interpolated trilinearly. Beyond the edges of the model they are those of the nearest edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from lithowave.description.footprint import Footprint, bilinear, filled, model_coordinates
from lithowave.description.gridded_medium import GriddedMedium
from lithowave.description.media import DomainExtent, Medium, Sample
from lithowave.description.quality_values import InverseQuality
from lithowave.description.recent_results import RecentResults
from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel

if TYPE_CHECKING:
    from lithowave.description.domain import Domain

DepthOrigin = Literal["sea_level", "surface"]

_REMEMBERED_POINTS = 4_000_000
"""Number of projected points that a medium stores for the next plane of a grid."""


@dataclass(frozen=True, eq=False)
class ModelOnEarth(Medium):
    """A gridded model before its domain is known: it has no values at points yet.

    Attributes
    ----------
    models : its blocks, from the top down.
    depth_origin : z of the model is measured from z = 0 (``sea_level``), or from the surface of the domain.
    extrapolate : allow a domain that the model does not cover.
    key : the key of ``material`` that the model comes from.
    """

    models: tuple[GriddedModel, ...]
    depth_origin: DepthOrigin = "sea_level"
    extrapolate: bool = False
    key: str = "file"

    @property
    def model(self) -> GriddedModel:
        """The uppermost block."""
        return self.models[0]

    def placed(self, domain: Domain) -> PlacedMedium:
        """Return the medium in a domain.

        Raises
        ------
        InputError
            the domain has no geographic origin, the model does not cover it, or has points without a value in it.
        """
        frame = self.model.frame
        if frame.kind != "local" and not domain.is_geographic:
            raise InputError(
                f"material.{self.key}",
                f"{self.model.path} is on "
                + ("longitudes and latitudes" if frame.kind == "geographic" else "a map with a geographic origin"),
                "the domain needs a geographic origin",
                "give domain: crs: {longitude: ..., latitude: ...}, the point at x = y = 0",
            )
        footprint = Footprint.of(domain, self.models, self.depth_origin == "surface", self.key)
        if not self.extrapolate:
            footprint.require_cover()
        try:
            blocks = tuple(GriddedMedium(filled(footprint.cut(model), footprint)) for model in footprint.models)
        except InputError as error:
            if error.file is None:
                raise
            raise InputError(f"material.{self.key}", f"{error.file}: {error.got}", error.allowed, error.hint) from None
        return PlacedMedium(blocks, footprint, self.depth_origin, self.extrapolate)

    def _unplaced(self) -> InputError:
        return InputError(
            f"material.{self.key}",
            f"{self.model.path} has no values at local coordinates without a domain",
            "the simulation places it by domain.crs",
        )

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        raise self._unplaced()

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        raise self._unplaced()

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def validate_domain(self, box: DomainExtent) -> None:
        self.placed(box)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class PlacedMedium(Medium):
    """A gridded model in a domain."""

    blocks: tuple[GriddedMedium, ...]
    footprint: Footprint
    depth_origin: DepthOrigin = "sea_level"
    extrapolate: bool = False
    _known: RecentResults[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=lambda: RecentResults(_REMEMBERED_POINTS, lambda found: found[0].size), repr=False
    )

    @property
    def model(self) -> GriddedModel:
        """The uppermost block."""
        return self.blocks[0].model

    @property
    def models(self) -> tuple[GriddedModel, ...]:
        """The blocks, from the top down."""
        return tuple(block.model for block in self.blocks)

    @property
    def concurrent(self) -> bool:
        surface = self.footprint.domain.surface
        return self.depth_origin != "surface" or surface is None or surface.concurrent

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        return self._evaluated(GriddedMedium.sample, 3, x, y, z)  # type: ignore[return-value]

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        return self._evaluated(GriddedMedium.inverse_quality, 2, x, y, z)  # type: ignore[return-value]

    def _evaluated(
        self, ask: Callable[..., tuple[np.ndarray, ...]], count: int, x: np.ndarray, y: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the results of a method of the block at each point."""
        first, second = self._coordinates(x, y)
        if self.depth_origin == "surface":
            z = z - self.footprint.domain.surface_height(x, y)
        shape = np.broadcast_shapes(first.shape, second.shape, z.shape)
        bottoms = [self._bottom(block.model, first, second) for block in self.blocks[:-1]]
        number = sum((z < bottom).astype(int) for bottom in bottoms) if bottoms else np.zeros((), dtype=int)
        used = np.unique(number)
        if used.size == 1:
            block = self.blocks[int(used[0])]
            found = ask(block, first, second, self._level(block.model, first, second, z))
            return tuple(np.array(np.broadcast_to(each, shape)) for each in found)
        result = tuple(np.empty(shape) for _ in range(count))
        points = [np.broadcast_to(each, shape) for each in (number, first, second, z)]
        for index in used:
            here = points[0] == index
            a, b, c = (each[here] for each in points[1:])
            block = self.blocks[int(index)]
            for whole, part in zip(result, ask(block, a, b, self._level(block.model, a, b, c)), strict=True):
                whole[here] = part
        return result

    def _coordinates(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the model at points, which are stored for the next plane of a grid."""
        if self.model.frame.kind == "local":
            return x, y
        shape = np.broadcast_shapes(x.shape, y.shape)
        size = int(np.prod(shape))
        if x.size + y.size > size or size > _REMEMBERED_POINTS:
            return model_coordinates(self.footprint.domain, self.model, x, y)
        key = (x.shape, y.shape, x.tobytes(), y.tobytes())
        return self._known.get(key, lambda: model_coordinates(self.footprint.domain, self.model, x, y))

    @staticmethod
    def _bottom(model: GriddedModel, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        if model.bottom is None:
            return np.asarray(model.z[0])
        return bilinear(model.bottom, model, first, second)

    @staticmethod
    def _level(model: GriddedModel, first: np.ndarray, second: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the coordinate on the third axis of a block."""
        if model.top is None or model.bottom is None:
            return z
        low, high = (bilinear(surface, model, first, second) for surface in (model.bottom, model.top))
        height = high - low
        return np.where(height > 0.0, (z - low) / np.where(height > 0.0, height, 1.0), 1.0)

    def validate_domain(self, box: DomainExtent) -> None:
        """Do nothing: the domain was compared with the model when the model was placed."""

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        parts = [self._columns_in(model) for model in self.models]
        values = tuple(
            np.concatenate([getattr(model, name)[inside] for model, inside in zip(self.models, parts, strict=True)])
            for name in ("vp", "vs", "rho")
        )
        ends = np.cumsum([int(inside.sum()) for inside in parts])

        def place(index: int) -> str:
            block = int(np.searchsorted(ends, index, side="right"))
            before = int(ends[block - 1]) if block else 0
            model = self.models[block]
            return model.place([int(each[index - before]) for each in np.nonzero(parts[block])])

        return values, place  # type: ignore[return-value]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if not self.model.quality:
            return super().inverse_quality_in(box)
        found = [block.losses_at(self._columns_in(block.model)) for block in self.blocks]
        bulk, shear = (np.concatenate(each) for each in zip(*found, strict=True))
        return bulk, shear

    def _columns_in(self, model: GriddedModel) -> np.ndarray:
        """Return which points of a block count in the domain."""
        inside = np.zeros(model.vp.shape, dtype=bool)
        levels = self.footprint.levels(model)
        inside[:, :, levels] = self.footprint.columns(model)[:, :, None]
        return inside
