"""Where the wavefield is recorded: points, lines, planes and station files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.domain import Domain
from lithowave.description.point_input import Point, check_point_keys, local_point
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import Latitude, Length, Longitude, PositionOnSurface, WholeNumber

if TYPE_CHECKING:
    from lithowave.readers.stations import StationRecord

DEFAULT_NETWORK = "XX"


@dataclass(frozen=True)
class Receiver:
    """One receiver, in local coordinates.

    ``position`` is (x, y, z) in m, ``where`` the entry of the description it comes from, ``elevation`` what a
    station file says; the receiver itself stands at its burial below the surface, which is flat without a
    topography.
    """

    network: str
    station: str
    position: Point
    where: str
    elevation: float = 0.0

    @property
    def name(self) -> str:
        """Network and station: ``XX.S01``."""
        return f"{self.network}.{self.station}"


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


def _stations_file(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, (str, Path)) and Path(value).suffix.lower() in (".xml", ".stationxml"):
        raise refusal(
            f"{shown(str(value))}: StationXML is not available in this version",
            "available: STATIONS files, a line each: name network latitude longitude elevation burial",
        )
    return value


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
    for point in zip(x, y, domain.surface_height(x, y), strict=True):
        yield tuple(map(float, point))  # type: ignore[misc]


class Receivers(DescriptionModel):
    """One entry of ``receivers``: a point, a line, a plane, or a file of stations."""

    network: Code | None = Field(
        default=None, description="Network code (default: XX); files contain their own codes."
    )
    name: Code | None = Field(default=None, description="Station name of a point.")
    position: PositionOnSurface | None = Field(
        default=None, description="Position [x, y, z], m, with negative z below z = 0; or [x, y]: on the surface."
    )
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    depth: Length | None = Field(
        default=None, description="With longitude and latitude: depth below the surface, m (default: 0)."
    )
    line: ReceiverLine | None = Field(default=None, description="Receivers on a line.")
    plane: ReceiverPlane | None = Field(default=None, description="Receivers on a grid.")
    file: Annotated[InputFile, BeforeValidator(_stations_file)] | None = Field(
        default=None,
        description="STATIONS file with lines: name network latitude (or y) longitude (or x) elevation burial.",
    )
    coordinates: Literal["geographic", "cartesian"] | None = Field(
        default=None,
        description="Coordinates of the file: geographic (latitude longitude; requires domain.crs) or cartesian "
        "(y x in m). Default: geographic; without domain.crs, cartesian if the values cannot be degrees.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [key for key in ("line", "plane", "file") if getattr(self, key) is not None]
        point_keys = [
            key
            for key in ("name", "position", "longitude", "latitude", "depth")
            if getattr(self, key) is not None
        ]
        if len(kinds) > 1 or (kinds and point_keys):
            both = (kinds + point_keys)[:2]
            raise refusal(
                f"{both[0]} and {both[1]} are both given", "an entry is a point, a line, a plane or a file"
            )
        if self.coordinates is not None and self.file is None:
            raise refusal(
                "coordinates are given without a file",
                "coordinates tell the columns of a file",
                at=("coordinates",),
            )
        if self.network is not None and self.file is not None:
            raise refusal(
                "a network is given with a file",
                "the file names the network of each station",
                at=("network",),
            )
        if not kinds:
            if not point_keys:
                raise refusal("has no receivers", "give name and position, or line, plane or file")
            check_point_keys(self.position, self.longitude, self.latitude, self.depth, depth_needed=False)
            if self.name is None:
                raise refusal("is missing", "a receiver needs a name", at=("name",))
        return self

    @property
    def kind(self) -> str:
        """The key that says where the receivers are: position, longitude, line, plane or file."""
        kinds = ("line", "plane", "file", "position")
        return next((key for key in kinds if getattr(self, key) is not None), "longitude")

    def receivers(self, domain: Domain, where: str) -> list[Receiver]:
        """Return the receivers of this entry in local coordinates; ``where`` is its key in the description."""
        network = self.network or DEFAULT_NETWORK
        if self.file is not None:
            return self._from_file(domain, where)
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
        return [Receiver(network, self.name or "", point, where)]

    @property
    def on_surface(self) -> bool:
        """True if positions without z ask for the surface."""
        grid = self.line or self.plane
        return grid.on_surface if grid is not None else self.position is not None and len(self.position) == 2

    def _from_file(self, domain: Domain, where: str) -> list[Receiver]:
        from lithowave.readers.stations import read_stations

        assert self.file is not None
        records = reading(read_stations, self.file)
        kind = self._column_kind(records, domain)
        places = [(record.second, record.first) for record in records]
        if kind == "geographic":
            places = [domain.to_local(*place) for place in places]
        x, y = (np.array(values, dtype=float) for values in zip(*places, strict=True))
        surface = np.zeros(x.shape) if domain.surface is None else domain.surface(x, y)
        receivers = []
        for record, *point in zip(records, x, y, surface, strict=True):
            x, y, z = map(float, point)
            position = (x, y, z - record.burial)
            place = f"{where}.file ({self.file.name}:{record.line_number})"
            receivers.append(Receiver(record.network, record.name, position, place, record.elevation))
        return receivers

    def _column_kind(self, records: list[StationRecord], domain: Domain) -> str:
        """Return the meaning of the columns: meters if stated, or if the values cannot be degrees."""
        beyond = [record for record in records if abs(record.first) > 90.0 or abs(record.second) > 360.0]
        kind = self.coordinates or ("cartesian" if domain.crs is None and beyond else "geographic")
        if kind == "geographic" and beyond:
            raise refusal(
                f"{self.file}:{beyond[0].line_number}: ({beyond[0].first:g}, {beyond[0].second:g}) is no "
                "latitude and longitude",
                "expected degrees",
                "for y and x in m set coordinates: cartesian",
                at=("file",),
            )
        if kind == "geographic" and domain.crs is None:
            raise refusal(
                "a file with latitudes and longitudes needs the origin domain.crs, which is not given",
                "expected in domain: crs: {longitude: ..., latitude: ...}",
                "for y and x in m set coordinates: cartesian",
                at=("file",),
            )
        return kind
