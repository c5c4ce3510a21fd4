"""Where the wavefield is recorded: points, lines, planes and station files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, model_validator

from lithowave.description.base import DescriptionModel, InputFile
from lithowave.description.domain import Domain
from lithowave.description.horizontal_axes import convergences
from lithowave.description.outputs import _OneOrMany
from lithowave.description.point_input import Point, check_point_keys, local_point
from lithowave.description.projected import ReferenceSystemName
from lithowave.description.receiver import DEFAULT_NETWORK, Receiver
from lithowave.description.receiver_files import PlacedReceivers, UtcTime, check_file_keys, place_file
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import Latitude, Length, Longitude, PositionOnSurface, WholeNumber
from lithowave.description.unstated_coordinates import Coordinates


def _code(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_-]+", value):
        raise refusal(f"{shown(value)} is not a valid name", "use letters, digits, '-' and '_' only")
    return value


def _counts(value: Any) -> Any:
    items = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(items, (list, tuple)) or len(items) != 2:
        raise refusal(
            f"{shown(items)} is not a pair of counts", "expected two whole numbers, one for each side"
        )
    return items


Code = Annotated[str, BeforeValidator(_code)]
PairCount = Annotated[int, WholeNumber(ge=2)]


class ReceiverLine(DescriptionModel):
    """Equally spaced receivers from ``start`` to ``end``, both included; numbered from 1."""

    prefix: Code = Field(description="Names consist of the prefix and a number: L001, L002 ...")
    start: PositionOnSurface = Field(
        description="Position of the first receiver [x, y, z], m; or [x, y]: all receivers on the surface."
    )
    end: PositionOnSurface = Field(description="Position of the last receiver, like start.")
    count: PairCount = Field(description="Number of receivers, at least 2.")

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        _check_alike(self.start, self.end)
        if self.start == self.end:
            raise refusal("the line ends where it starts", "start and end must differ", at=("end",))
        return self

    @property
    def on_surface(self) -> bool:
        """True if the receivers stand on the surface."""
        return len(self.start) == 2

    def points(self) -> Iterator[Point]:
        """Return the positions, from the start; z is 0 for positions on the surface."""
        for index in range(self.count):
            yield _between(_with_height(self.start), _with_height(self.end), (index / (self.count - 1),) * 3)


class ReceiverPlane(DescriptionModel):
    """A grid of receivers on a plane normal to an axis; ``start`` and ``end`` are opposite corners.

    The corners have one equal coordinate. ``counts`` are the numbers of receivers along the other two axes, in the
    order x, y, z; the numbering is fastest along the first of them.
    """

    prefix: Code = Field(description="Names consist of the prefix and a number: P001, P002 ...")
    start: PositionOnSurface = Field(description="One corner [x, y, z], m; or [x, y]: all receivers on the surface.")
    end: PositionOnSurface = Field(description="The opposite corner, like start, with exactly one equal coordinate.")
    counts: Annotated[tuple[PairCount, PairCount], BeforeValidator(_counts)] = Field(
        description="Numbers of receivers along the two sides, in the order x, y, z."
    )

    @model_validator(mode="after")
    def _is_plane(self) -> Self:
        _check_alike(self.start, self.end)
        ends = (_with_height(self.start), _with_height(self.end))
        same = [axis for axis, low, high in zip("xyz", *ends, strict=True) if low == high]
        if len(same) != 1:
            got = (
                f"start and end agree in {' and '.join(same)}"
                if same
                else "start and end agree in no coordinate"
            )
            raise refusal(
                got, "opposite corners of a plane normal to an axis agree in exactly one of x, y and z"
            )
        return self

    @property
    def count(self) -> int:
        """Number of receivers."""
        return self.counts[0] * self.counts[1]

    @property
    def on_surface(self) -> bool:
        """True if the receivers stand on the surface."""
        return len(self.start) == 2

    def points(self) -> Iterator[Point]:
        """Return the positions, the first side fastest; z is 0 for positions on the surface."""
        start, end = _with_height(self.start), _with_height(self.end)
        first, second = (index for index in range(3) if start[index] != end[index])
        for j, i in itertools.product(range(self.counts[1]), range(self.counts[0])):
            fractions = [0.0, 0.0, 0.0]
            fractions[first] = i / (self.counts[0] - 1)
            fractions[second] = j / (self.counts[1] - 1)
            yield _between(start, end, tuple(fractions))


def _check_alike(start: tuple[float, ...], end: tuple[float, ...]) -> None:
    if len(start) != len(end):
        raise refusal(
            f"start has {len(start)} numbers and end {len(end)}",
            "both are [x, y, z], or both [x, y] for receivers on the surface",
            at=("end",),
        )


def _with_height(point: tuple[float, ...]) -> Point:
    x, y, *z = point
    return (x, y, z[0] if z else 0.0)


def _between(start: Point, end: Point, fractions: tuple[float, ...]) -> Point:
    """Return the point at a fraction of the distance between two points; the ends are exact."""
    x, y, z = (
        low if fraction == 0.0 else high if fraction == 1.0 else low + fraction * (high - low)
        for low, high, fraction in zip(start, end, fractions, strict=True)
    )
    return (x, y, z)


def _on_surface(domain: Domain, points: Iterator[Point]) -> Iterator[Point]:
    """Return the points at the elevation of the surface."""
    x, y, _ = np.array(list(points)).T
    for point in zip(x, y, domain.surface_at(x, y), strict=True):
        yield tuple(map(float, point))  # type: ignore[misc]


class Receivers(DescriptionModel):
    """One entry of ``receivers``: a point, a line, a plane, or a file of stations."""

    network: Code | None = Field(
        default=None,
        description="Network code (default: XX); STATIONS, StationXML and FDSN text contain their own codes.",
    )
    name: Code | None = Field(default=None, description="Station name of a point.")
    location: Code | None = Field(
        default=None, description="Location code of a point, if several sensors of a station have different positions."
    )
    position: PositionOnSurface | None = Field(
        default=None, description="Position [x, y, z], m, with negative z below z = 0; or [x, y]: on the surface."
    )
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs or domain.chunk."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    depth: Length | None = Field(
        default=None, description="With longitude and latitude: depth below the surface, m (default: 0)."
    )
    line: ReceiverLine | None = Field(default=None, description="Receivers on a line.")
    plane: ReceiverPlane | None = Field(default=None, description="Receivers on a grid.")
    file: InputFile | None = Field(
        default=None,
        description="STATIONS file with lines: name network latitude (or y) longitude (or x) elevation burial; or "
        "StationXML (.xml), text of an FDSN service (network|station|...), a CSV table with named columns (.csv, .tsv) "
        "or SEG-Y (.segy, .sgy).",
    )
    coordinates: Coordinates | None = Field(
        default=None,
        description="Coordinates of a STATIONS file, or of x and y without a unit in a CSV table or SEG-Y file: "
        "geographic (degrees; requires domain.crs) or cartesian (m). Default for STATIONS: geographic; without "
        "domain.crs, cartesian if the values cannot be degrees. Default for others: cartesian, but geographic if the "
        "values are degrees in the domain.",
    )
    crs: ReferenceSystemName | None = Field(
        default=None,
        description="Coordinate reference system of a CSV table or SEG-Y file, for example EPSG:32611 (default: local "
        "coordinates, or WGS 84 for longitudes and latitudes); requires domain.crs.",
    )
    time: UtcTime | None = Field(
        default=None,
        description="StationXML, FDSN text: use only epochs that contain this UTC time (default: all epochs).",
    )
    channels: Annotated[list[str], _OneOrMany()] | None = Field(
        default=None,
        description="StationXML, FDSN text: patterns of the channels, for example [BH?, HN?], whose positions "
        "are used (default: all sensors of ground motion).",
    )
    at_surface: StrictBool | None = Field(
        default=None,
        description="SEG-Y: true places receivers on the surface; false at the elevation of the trace header.",
    )
    outside: Literal["refuse", "omit"] | None = Field(
        default=None,
        description="Receivers of a file beyond the sides of the domain: refuse (default), or omit with a warning.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [key for key in ("line", "plane", "file") if getattr(self, key) is not None]
        point_keys = [
            key
            for key in ("name", "location", "position", "longitude", "latitude", "depth")
            if getattr(self, key) is not None
        ]
        if len(kinds) > 1 or (kinds and point_keys):
            both = (kinds + point_keys)[:2]
            raise refusal(
                f"{both[0]} and {both[1]} are both given", "an entry is a point, a line, a plane or a file"
            )
        if self.file is not None:
            check_file_keys(self)
        else:
            self._refuse_file_keys()
        if not kinds:
            if not point_keys:
                raise refusal("has no receivers", "give name and position, or line, plane or file")
            check_point_keys(self.position, self.longitude, self.latitude, self.depth, depth_needed=False)
            if self.name is None:
                raise refusal("is missing", "a receiver needs a name", at=("name",))
        return self

    def _refuse_file_keys(self) -> None:
        for key in ("coordinates", "crs", "time", "channels", "at_surface", "outside"):
            if getattr(self, key) is not None:
                raise refusal(f"{key} is given without a file", "it applies to files of receivers", at=(key,))

    @property
    def stated_count(self) -> int:
        """Number of receivers that the entry states; 0 for a file."""
        grid = self.line or self.plane
        return grid.count if grid is not None else int(self.file is None)

    @property
    def kind(self) -> str:
        """The key that says where the receivers are: position, longitude, line, plane or file."""
        kinds = ("line", "plane", "file", "position")
        return next((key for key in kinds if getattr(self, key) is not None), "longitude")

    def receivers(self, domain: Domain, where: str) -> list[Receiver]:
        """Return the receivers of this entry in local coordinates; ``where`` is its key in the description."""
        return _on_grid(domain, self._stated_receivers(domain, where))

    def _stated_receivers(self, domain: Domain, where: str) -> list[Receiver]:
        network = self.network or DEFAULT_NETWORK
        if self.file is not None:
            return list(self.placed_file(domain, where).receivers)
        grid = self.line or self.plane
        if grid is not None:
            width = len(str(grid.count))
            points = _on_surface(domain, grid.points()) if grid.on_surface else grid.points()
            return [
                Receiver(network, f"{grid.prefix}{number:0{width}d}", point, where)
                for number, point in enumerate(points, start=1)
            ]
        point = local_point(
            domain, self.position, self.longitude or 0.0, self.latitude or 0.0, self.depth or 0.0
        )
        geographic = self.position is None
        return [Receiver(network, self.name or "", point, where, location=self.location or "", geographic=geographic)]

    def placed_file(self, domain: Domain, where: str) -> PlacedReceivers:
        """Return the receivers of the file, and notes about its content; the file is read once for a domain."""
        known = self.__dict__.get("_placed")
        if known is None or known[0] is not domain or known[1] != where:
            known = (domain, where, place_file(self, domain, where))
            self.__dict__["_placed"] = known
        return known[2]

    @property
    def on_surface(self) -> bool:
        """True if positions without z ask for the surface."""
        grid = self.line or self.plane
        return grid.on_surface if grid is not None else self.position is not None and len(self.position) == 2


def _on_grid(domain: Domain, receivers: Sequence[Receiver]) -> list[Receiver]:
    """Return receivers with their convergence."""
    if domain.crs is None:
        return list(receivers)
    angles = convergences(domain, receivers).tolist()
    return [replace(receiver, convergence=angle) for receiver, angle in zip(receivers, angles, strict=True)]
