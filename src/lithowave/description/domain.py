"""The domain: a box and its position on the Earth, or a chunk of the cubed sphere."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictBool,
    field_validator,
    model_serializer,
    model_validator,
)

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.text import refusal
from lithowave.description.units import (
    Count,
    Interval,
    Latitude,
    Longitude,
    NumberList,
    PositiveLength,
    Quantity,
    with_unit,
)
from lithowave.earth.reference_models import earth_ellipticity
from lithowave.globe_coordinates import RADIUS, ChunkMap, angular_distance
from lithowave.projection import convergence, projection_text, transformer
from lithowave.readers.array_files import cover_problem
from lithowave.readers.surfaces import GeographicSurface, Surface, read_surface

if TYPE_CHECKING:
    from pydantic import ValidationInfo
    from pyproj import Transformer

    from lithowave.mesh.free_surface import FreeSurface
    from lithowave.mesh.imported import MeshOfFile


Angle = Annotated[float, Quantity("angle")]
Width = Annotated[float, Quantity("angle", gt=0, le=90)]
Center = Annotated[tuple[Longitude, Latitude], NumberList(("longitude", "latitude"))]
Widths = Annotated[tuple[Width, Width], NumberList(("east-west", "north-south"))]

C = TypeVar("C", float, np.ndarray)
"""Coordinates of a point or of many."""


class Chunk(DescriptionModel):
    """A piece of the globe below a quadrilateral of great circles on the surface, with spectral elements.

    Positions are given by longitude, latitude and depth, and components are East, North and Up at the place of a source
    or receiver. The Earth is a sphere with a radius of 6371 km; geographic latitudes are converted to geocentric ones.
    Local coordinates x and y, m, are the angles of the cubed sphere times this radius, and z is the radius minus 6371
    km, so that the chunk is a box in local coordinates.
    """

    center: Center = Field(description="[longitude, latitude] of the center, degrees.")
    width: Widths = Field(
        description="Angles between opposite sides along the great circles through the center, degrees: across and "
        "along the azimuth, at most 90."
    )
    depth: PositiveLength = Field(description="Depth of the bottom, m, less than the radius of the Earth.")
    azimuth: Angle = Field(
        default=0.0, description="Direction of the side of largest y, seen from the center, degrees from North to East."
    )
    ellipticity: StrictBool = Field(
        default=False,
        description="true: surfaces of equal depth are ellipsoids in hydrostatic equilibrium (1/300 at the surface), "
        "and Up is normal to the surface; false: they are spheres.",
    )
    elements: Annotated[tuple[Count, Count], NumberList(("x", "y"))] | None = Field(
        default=None,
        description="Numbers of elements along x and y at the surface, without those that solver.refine_sources adds. "
        "Default: from solver.max_frequency and solver.points_per_wavelength, like their heights.",
    )
    doublings: list[PositiveLength] | None = Field(
        default=None,
        description="With elements: depths, m, below which elements are twice as wide, in ascending order.",
    )

    @model_validator(mode="after")
    def _doublings_ascend(self) -> Self:
        depths = self.doublings or []
        if depths and self.elements is None:
            raise refusal("is given without elements", "the number at the surface is required", at=("doublings",))
        if depths != sorted(set(depths)) or any(depth >= self.depth for depth in depths):
            got = f"[{', '.join(with_unit(depth, 'length') for depth in depths)}]"
            raise refusal(got, "expected ascending depths above the bottom of the chunk", at=("doublings",))
        for axis, count in zip("xy", self.elements or (), strict=False):
            unit = 2 ** (len(depths) + 1) if depths else 1
            if count % unit:
                raise refusal(
                    f"{count} elements along {axis} cannot be halved {len(depths)} times",
                    f"expected a multiple of {unit}", at=("elements",),
                )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _ends_above_the_center(self) -> Self:
        if self.depth > 0.99 * RADIUS:
            raise refusal(
                f"{with_unit(self.depth, 'length')} is at or near the center of the Earth, where all columns meet",
                f"expected less than {0.99 * RADIUS / 1e3:g} km", "the outer core begins at a depth of 2891 km",
                at=("depth",),
            )  # fmt: skip
        return self

    @functools.cached_property
    def map(self) -> ChunkMap:
        """The map from local coordinates to those of the Earth."""
        return ChunkMap(*self.center, self.azimuth, earth_ellipticity() if self.ellipticity else None)

    @property
    def doubling_levels(self) -> list[float]:
        """z, m, below which elements are twice as wide; empty if they follow from the velocities."""
        return [-depth for depth in self.doublings or ()]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper end of each axis of the local coordinates, m."""
        x, y = (0.5 * RADIUS * math.radians(width) for width in self.width)
        return {"x": (-x, x), "y": (-y, y), "z": (-self.depth, 0.0)}

    def text(self) -> str:
        """Return center, widths, depth and azimuth for messages and reports."""
        first, second = self.width
        turned = f", azimuth {self.azimuth:z.6g}°" if self.azimuth else ""
        turned += ", with ellipticity" if self.ellipticity else ""
        return (
            f"chunk of the globe, center at {place_text(*self.center)}, width {first:g}° x {second:g}°, depth "
            f"{self.depth / 1e3:.6g} km{turned}"
        )

    def extent_text(self) -> str:
        """Return where the sides are, for messages."""
        first, second = (0.5 * width for width in self.width)
        return (
            f"its sides are {first:g}° and {second:g}° from the center, at {place_text(*self.center)}, across and "
            f"along the azimuth of {self.azimuth:z.6g}°"
        )

    def position_text(self, position: Sequence[float]) -> str:
        """Return a position in local coordinates, m, as longitude, latitude and depth."""
        longitude, latitude = self.map.to_geographic(position[0], position[1])
        return f"{place_text(float(longitude), float(latitude))}, depth {0.0 - position[2] / 1e3:z.6g} km"


def place_text(longitude: float, latitude: float) -> str:
    """Return ``longitude 20.5, latitude -35``, degrees."""
    return f"longitude {longitude:z.7g}, latitude {latitude:z.7g}"


AXES = ("x", "y", "z")
SWAP_QUESTION = "did you swap longitude and latitude?"
FACES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")


_FARTHEST = 1e9
"""Largest distance of the ends of a box from the origin, m: a hundred times the radius of the Earth."""


class GeographicOrigin(DescriptionModel):
    """The point of the Earth (WGS84) at which x = y = 0."""

    longitude: Longitude = Field(description="Longitude of x = 0, degrees East.")
    latitude: Latitude = Field(description="Latitude of y = 0, degrees North.")

    @property
    def projection(self) -> str:
        """PROJ text of the local transverse Mercator: scale 1 on the central meridian, meters, WGS84."""
        return projection_text(self.longitude, self.latitude)


@dataclass(frozen=True)
class ModelExtent:
    """A box that contains the entire model: the domain, up to the highest point of a topography. Ends in m."""

    x: tuple[float, float]
    y: tuple[float, float]
    z: tuple[float, float]


class Domain(DescriptionModel):
    """The box of the simulation: x East, y North, z Up, in meters; the flat free surface is z = 0.

    With ``solver.mesh``, the box around the mesh and its upward free faces take the place of the box and its surface.
    With ``crs``, x and y are those of a map, and true North is that of y on the meridian of the origin only.

    Absorbing layers are added outside the box, so sources and receivers may be anywhere in the box. With a
    ``topography``, z = 0 is the reference level of elevations, and the model extends up to the surface, which may be
    above or below this level.
    """

    x: Interval = Field(default=None, description="West and east end of the box, m.")  # type: ignore[assignment]
    y: Interval = Field(default=None, description="South and north end of the box, m.")  # type: ignore[assignment]
    z: Interval = Field(
        default=None,  # type: ignore[assignment]
        description="Lower and upper end of the box, m; z is positive upwards, the surface is z = 0.",
    )
    chunk: Chunk | None = Field(
        default=None, description="Instead of x, y and z: a piece of the globe (spectral_element only)."
    )
    crs: GeographicOrigin | None = Field(
        default=None,
        description="Origin of the local transverse Mercator projection; required for geographic coordinates. "
        "Mechanisms and components at positions on the Earth are along true East and North, at positions in m along "
        "x and y.",
    )
    topography: InputFile | None = Field(
        default=None,
        description="File with the surface elevation (not with finite_difference): `elevation` in m on axes x and "
        "y (NetCDF, HDF5, .npz), or a grid on longitude and latitude, such as those of GMT. If x and y have the same "
        "number of points, an .npz or plain HDF5 file must name the order of the dimensions in an entry axes: [y, x]. "
        "Above z = 0, the material is evaluated as specified there.",
    )

    _mesh: MeshOfFile | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        same = super().__eq__(other)
        return self._mesh == other._mesh if same is True and isinstance(other, Domain) else same

    @model_validator(mode="after")
    def _box_or_chunk(self) -> Self:
        if self.chunk is None:
            missing = [key for key in AXES if getattr(self, key) is None]
            if missing:
                raise refusal(
                    "is missing", "this key is required", "a piece of the globe has a chunk instead", at=missing[:1]
                )
            return self
        given = [key for key in (*AXES, "crs") if key in self.model_fields_set and getattr(self, key) is not None]
        if given:
            raise refusal(f"{given[0]} and chunk are both given", "a chunk has its own coordinates", at=given[:1])
        self._settle(**self.chunk.bounds)
        return self

    @model_serializer(mode="wrap")
    def _without_box_of_chunk(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = handler(self)
        return given if self.chunk is None else {key: entry for key, entry in given.items() if key not in AXES}

    @field_validator("x", "y", "z", mode="after")
    @classmethod
    def _ends_in_order(cls, value: tuple[float, float], info: ValidationInfo) -> tuple[float, float]:
        low, high = value
        if max(-low, high) > _FARTHEST:
            got = f"{with_unit(max(-low, high), 'length')} is too far from the origin"
            raise refusal(got, f"allowed: at most {_FARTHEST:g} m")
        if low < high:
            return value
        hint = f"did you mean [{high:.12g}, {low:.12g}]?" if low > high else ""
        if info.field_name == "z" and low == 0 < high:
            hint = f"depth is negative z; did you mean [{-high:.12g}, 0]?"
        raise refusal(
            f"the upper end {with_unit(high, 'length')} is not above the lower end "
            f"{with_unit(low, 'length')}",
            "expected [minimum, maximum]",
            hint,
        )

    @model_validator(mode="after")
    def _topography_fits(self) -> Self:
        if self.topography is None:
            return self
        surface = self.surface  # read now, so that its errors are reported with their key
        assert isinstance(surface, Surface)
        if self.z[1] != 0.0:
            raise refusal(
                f"the box ends at z = {with_unit(self.z[1], 'length')}",
                "with a topography it must end at 0, the reference level of elevations",
                at=("z",),
            )
        if problem := cover_problem(surface.path, zip("xy", surface.extent, strict=True), self.bounds):
            raise refusal(*problem[1:], at=("topography",))
        low, _ = self._surface_range
        if low <= self.z[0]:
            raise refusal(
                f"{surface.path} goes down to z = {with_unit(low, 'length')} in the domain",
                f"the surface must be above the bottom of the domain, z = {with_unit(self.z[0], 'length')}",
                at=("topography",),
            )
        return self

    def with_mesh(self, mesh: MeshOfFile | None) -> Self:
        """Return the domain whose surface and ends are those of a mesh file; None: those of the box."""
        if mesh == self._mesh:
            return self
        parts = {name: getattr(self, name) for name in type(self).model_fields}
        other = self.model_construct(self.model_fields_set, **parts)
        other._mesh = mesh
        return other

    @property
    def is_meshed(self) -> bool:
        """True if the domain is that of an imported mesh."""
        return self._mesh is not None

    @functools.cached_property
    def surface(self) -> Surface | FreeSurface | None:
        """The topography, or the upward free faces of an imported mesh.

        None for a flat surface at z = 0, and for a mesh without such faces.

        InputError: the mesh cannot be read.
        """
        if self._mesh is not None:
            return self._mesh.outline.surface
        if self.topography is None:
            return None
        return reading(lambda path: self.placed_surface(read_surface(path)), self.topography, ("topography",))

    def placed_surface(self, surface: Surface) -> Surface:
        """Return a surface of a file in local coordinates.

        Axes without a unit are in m. If the grid does not cover the domain so, but can be on longitude and latitude and
        the domain has an origin, they are in degrees.

        InputError: the surface is on longitude and latitude, and does not cover the domain.
        """
        if surface.unstated and self.is_geographic and surface.can_be_geographic:
            surface = surface if surface.covers(self.x, self.y) else surface.geographic
        if not isinstance(surface, GeographicSurface):
            return surface
        return surface.placed(self.to_geographic, self.x, self.y)

    def surface_height(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return z of the surface, m, at points in m: of the topography or the imported mesh, or the top of the box.

        An array of the broadcast shape of x and y.
        """
        if self.surface is not None:
            return self.surface(x, y)
        return np.full(np.broadcast_shapes(np.shape(x), np.shape(y)), self.z[1])

    def surface_at(self, x: ArrayLike, y: ArrayLike, names: Sequence[str] = ()) -> np.ndarray:
        """Return z of the surface, m, at positions of sources or receivers, as `surface_height` does.

        names : of these positions, for the error.

        PydanticCustomError: a position is beside the surface of an imported mesh.
        """
        heights = self.surface_height(x, y)
        if not self.is_meshed or self.surface is None:
            return heights
        beside = np.flatnonzero(~np.atleast_1d(self.within_sides(x, y)))
        if beside.size:
            first = int(beside[0])
            east, north = (float(np.broadcast_to(each, heights.shape).flat[first]) for each in (x, y))
            name = f"{names[first]} at " if len(names) else ""
            more = f" (and {beside.size - 1} more)" if beside.size > 1 else ""
            (west, end), (south, last) = self.ground.x, self.ground.y
            raise refusal(
                f"{name}x = {east:z.12g} m, y = {north:z.12g} m is beside the free surface of the mesh{more}",
                f"the mesh has x from {west:z.12g} to {end:z.12g} m, y from {south:z.12g} to {last:z.12g} m",
                self.swap_question_at(east, north),
            )
        return heights

    def within_sides(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return a mask, of the broadcast shape of x and y, of points (m) below or above the surface of the domain."""
        surface = self.surface
        if surface is not None and not isinstance(surface, Surface):
            return surface.covers(x, y)
        (west, east), (south, north) = self.ground.x, self.ground.y
        x, y = np.asarray(x), np.asarray(y)
        return (x >= west) & (x <= east) & (y >= south) & (y <= north)

    @property
    def ground(self) -> ModelExtent:
        """The box that contains the entire model: the domain, with a topography up to its highest point, or the box
        around an imported mesh."""
        if self._mesh is not None:
            return ModelExtent(*self._mesh.outline.ends)
        top = self.z[1] if self.surface is None else max(self.z[1], self._surface_range[1])
        return ModelExtent(self.x, self.y, (self.z[0], top))

    @functools.cached_property
    def _surface_range(self) -> tuple[float, float]:
        """The minimum and maximum elevation of the surface within the domain, m."""
        assert self.surface is not None
        return self.surface.range_in(self.x, self.y)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper end of each axis, m."""
        return {"x": self.x, "y": self.y, "z": self.z}

    @property
    def center(self) -> tuple[float, float, float]:
        """Center of the box, m."""
        return tuple(0.5 * (low + high) for low, high in self.bounds.values())  # type: ignore[return-value]

    def cartesian(self, positions: ArrayLike) -> np.ndarray:
        """Return Cartesian coordinates (..., 3), m, of positions: Earth-centered in a chunk, unchanged in a box."""
        points = np.asarray(positions, dtype=float)
        return points if self.chunk is None else self.chunk.map.to_cartesian(*np.moveaxis(points, -1, 0))

    @property
    def is_geographic(self) -> bool:
        """True if local coordinates have longitudes and latitudes."""
        return self.crs is not None or self.chunk is not None

    @property
    def geographic_origin(self) -> tuple[float, ...] | None:
        """Longitude and latitude of x = y = 0, degrees; in a chunk also its azimuth, and 1 if it has ellipticity.

        None without an origin.
        """
        if self.chunk is not None:
            return (*self.chunk.center, self.chunk.azimuth, *([1.0] if self.chunk.ellipticity else []))
        return None if self.crs is None else (self.crs.longitude, self.crs.latitude)

    def to_local(self, longitude: C, latitude: C) -> tuple[C, C]:
        """Return (x, y) in m of points given by longitude and latitude in degrees (floats or arrays).

        Raises
        ------
        PydanticCustomError
            (a ``ValueError``) without ``domain.crs``, and for points that the projection cannot reach.
        """
        x, y = self.to_local_grid(longitude, latitude)
        if not all(math.isfinite(value) for value in _flat(x) + _flat(y)):
            if self.chunk is not None:
                distance = np.atleast_1d(angular_distance(longitude, latitude, self.chunk.center))
                worst, places = int(distance.argmax()), zip(_flat(longitude), _flat(latitude), strict=True)
                place = list(places)[worst]
                got = f"{place_text(*place)} is {distance[worst]:.4g}° from the center and outside the chunk"
                raise refusal(got, self.chunk.extent_text(), self.swap_question(*place))
            first = int(np.argmin(np.isfinite(np.atleast_1d(x)) & np.isfinite(np.atleast_1d(y))))
            place = _flat(longitude)[first], _flat(latitude)[first]
            got = f"{place_text(*place)} is too far from the origin domain.crs to be projected"
            raise refusal(got, "", self.swap_question(*place))
        return x, y

    def to_local_grid(self, longitude: C, latitude: C) -> tuple[C, C]:
        """Return (x, y) in m of many points given in degrees; not finite where the projection does not reach."""
        if self.chunk is not None:
            x, y = self.chunk.map.to_local(longitude, latitude)
            return x[()], y[()]  # type: ignore[return-value]
        x, y = self._transformer().transform(longitude, latitude)
        return x, y

    def contains_places(self, longitude: ArrayLike, latitude: ArrayLike) -> np.ndarray:
        """Return a mask (n,) of the places, in degrees, within the sides; False for impossible latitudes."""
        longitude, latitude = np.atleast_1d(longitude).astype(float), np.atleast_1d(latitude).astype(float)
        inside = np.isfinite(longitude) & (np.abs(latitude) <= 90.0)
        x, y = self.to_local_grid(longitude, np.where(inside, latitude, 0.0))
        for values, (low, high) in zip((x, y), (self.x, self.y), strict=True):
            inside &= (np.asarray(values) >= low) & (np.asarray(values) <= high)  # False for NaN
        return inside

    def swap_question(self, longitude: float, latitude: float) -> str:
        """Return `SWAP_QUESTION` if a place, in degrees, is in the domain with exchanged coordinates; else no text."""
        return SWAP_QUESTION if self.contains_places(latitude, longitude).any() else ""

    def swap_question_at(self, x: float, y: float) -> str:
        """Return the text of `swap_question` of local coordinates, m; no text without `crs` and `chunk`."""
        if not self.is_geographic:
            return ""
        longitude, latitude = self.to_geographic(x, y)
        return self.swap_question(float(longitude), float(latitude))

    def to_geographic(self, x: C, y: C) -> tuple[C, C]:
        """Return (longitude, latitude) in degrees of points given by x and y in m (floats or arrays)."""
        if self.chunk is not None:
            longitude, latitude = self.chunk.map.to_geographic(x, y)
            return longitude[()], latitude[()]  # type: ignore[return-value]
        return self._transformer().transform(x, y, direction="INVERSE")

    def convergence(self, longitude: ArrayLike, latitude: ArrayLike) -> np.ndarray:
        """Return the azimuth of the axis y at places (degrees), degrees clockwise from true North.

        Zero in a chunk, of which mechanisms and components are along true East and North, and without ``crs``.
        """
        if self.crs is None:
            return np.zeros(np.broadcast_shapes(np.shape(longitude), np.shape(latitude)))
        return convergence(self.crs.projection, longitude, latitude)

    def convergence_at(self, x: C, y: C) -> np.ndarray:
        """Return `convergence` at x and y, m."""
        return self.convergence(*self.to_geographic(x, y)) if self.crs is not None else self.convergence(x, y)

    def _transformer(self) -> Transformer:
        if self.crs is None:
            raise refusal(
                "longitude and latitude require the origin domain.crs, which is missing",
                "expected in domain: crs: {longitude: ..., latitude: ...}",
            )
        return transformer(self.crs.projection)


def _flat(values: ArrayLike) -> list[float]:
    return np.atleast_1d(values).tolist()
