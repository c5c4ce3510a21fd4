"""Surveys: many shots with the same model and receivers, and the source at different positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, StrictBool, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.coordinates import (
    Coordinates,
    Point,
    ReferenceSystemName,
    check_point_keys,
    local_point,
    refuse_two_kinds,
    require_origin,
)
from lithowave.description.domain import Domain
from lithowave.description.grids import Counts, PairCount, PointGrid, PointPlane
from lithowave.description.outputs import _OneOrMany
from lithowave.description.receivers import SEGY, file_kind, is_geographic, local_coordinates
from lithowave.description.text import refusal
from lithowave.description.time_functions import TimeFunction
from lithowave.description.units import (
    Count,
    Latitude,
    Length,
    Longitude,
    PositionOnSurface,
    PositiveLength,
    PositiveNumber,
)
from lithowave.readers.budget import SHOTS
from lithowave.readers.segy import segy_shots

if TYPE_CHECKING:
    from lithowave.readers.segy import ShotRecord

@dataclass(frozen=True)
class Shot:
    """One shot, in local coordinates.

    number : from 1. position : (x, y, z), m. scale : factor to force or moment. time_function : instead of that of the
    source; None keeps it. where : the entry of the description it comes from. spread : file of SEG-Y and the names of
    the receivers in it that record this shot; None: all receivers. geographic : True for a position on the Earth.
    """

    number: int
    name: str
    position: Point
    scale: float
    time_function: TimeFunction | None
    where: tuple[str | int, ...]
    spread: tuple[Path, frozenset[str]] | None = None
    geographic: bool = False

    @property
    def folder(self) -> str:
        """Name of its run folder within that of the survey."""
        return f"shot_{self.number:04d}"

    @property
    def label(self) -> str:
        """Number and name for people."""
        return f"shot {self.number}" + (f" ({self.name})" if self.name else "")


class ShotLine(PointGrid):
    """Shots on a straight line, the first at ``start``."""

    start: PositionOnSurface = Field(
        description="Position of the first shot [x, y, z], m; or [x, y] with depth below the surface."
    )
    end: PositionOnSurface = Field(description="The end of the line, like start.")
    count: PairCount | None = Field(
        default=None, description="Number of shots, the last one at end; alternative to step."
    )
    step: PositiveLength | None = Field(
        default=None, description="Instead of count: distance between shots, m; the last shot is at or before end."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_ends()
        if (self.count is None) == (self.step is None):
            got = "count and step are both given" if self.count else "neither count nor step is given"
            raise refusal(got, "give one of them: how many shots, or their distance")
        stated = self.count or math.dist(self.start, self.end) / float(self.step or 1.0)
        _check_count(stated, "count" if self.count else "step")
        return self

    def points(self) -> Iterator[tuple[float, ...]]:
        """Return the positions, with the number of coordinates of start and end."""
        count = self.count
        part = 1.0 if count is None else 1.0 / (count - 1)
        if count is None:
            length = math.dist(self.start, self.end)
            part = float(self.step or 0.0) / length
            count = int(length / float(self.step or 1.0) * (1.0 + 1e-12)) + 1
        for index in range(count):
            yield self._between(*[index * part] * len(self.start))


class ShotPlane(PointPlane):
    """A grid of shots on a plane normal to an axis; ``start`` and ``end`` are opposite corners.

    ``counts`` are the numbers of shots along the two axes in which the corners differ, in the order x, y, z; the
    numbering is fastest along the first of them.
    """

    start: PositionOnSurface = Field(description="One corner [x, y, z], m; or [x, y] with depth below the surface.")
    end: PositionOnSurface = Field(description="The opposite corner, like start.")
    counts: Counts = Field(description="Numbers of shots along the two sides, in the order x, y, z.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_corners()
        _check_count(self.count, "counts")
        return self


def _check_count(count: float, key: str) -> None:
    if not count <= SHOTS:
        text = f"{count:.3g}" if count < 1e300 else "more than 1e300"
        raise refusal(f"makes {text} shots", f"allowed: at most {SHOTS}", at=(key,))


class Shots(DescriptionModel):
    """One entry of ``survey.shots``: a position, a line, a plane, or a file of positions.

    The first line of a CSV file names its columns, separated by commas, semicolons or tabs; each further line is a
    shot. The columns are ``x, y, z`` in m; ``x, y``, for shots on the surface; or ``longitude, latitude``. The last two
    forms may have a column ``depth`` in m below the surface. Optional columns are ``name`` and ``scale``. Lines that
    begin with # are comments.
    """

    name: str = Field(default="", description="A name for a single shot.")
    position: PositionOnSurface | None = Field(
        default=None, description="Position [x, y, z], m; or [x, y] with depth below the surface."
    )
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs or domain.chunk."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    line: ShotLine | None = Field(default=None, description="Shots on a line.")
    plane: ShotPlane | None = Field(default=None, description="Shots on a grid.")
    file: InputFile | None = Field(
        default=None,
        description="CSV file with columns x, y, z, or x, y, depth, or longitude, latitude, depth; and name, scale; or "
        "SEG-Y (.segy, .sgy): one shot for each distinct source position of the trace headers.",
    )
    crs: ReferenceSystemName | None = Field(
        default=None,
        description="Coordinate reference system of a SEG-Y file, for example EPSG:32611 (default: local coordinates, "
        "or WGS 84 for degrees); requires domain.crs.",
    )
    coordinates: Coordinates | None = Field(
        default=None,
        description="With file: x and y without a unit are geographic (degrees; requires domain.crs) or cartesian (m). "
        "Default: cartesian, but geographic if the values are degrees in the domain.",
    )
    at_surface: StrictBool | None = Field(
        default=None,
        description="SEG-Y: true places shots at the source depth below the surface; false at the elevation of the "
        "surface in the trace header minus the source depth.",
    )
    depth: Length | None = Field(
        default=None, description="Depth below the surface, m, if z is not given (default: 0)."
    )
    scale: PositiveNumber = Field(
        default=1.0, description="Factor by which the force or moment of the source is multiplied."
    )
    time_function: TimeFunction | None = Field(
        default=None, description="Replaces the time function of the source for the shots of this entry."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = self._given("line", "plane", "file")
        point_keys = (["name"] if self.name else []) + self._given("position", "longitude", "latitude")
        refuse_two_kinds(kinds, point_keys, "place")
        if not kinds and not [key for key in point_keys if key != "name"]:
            raise refusal("has no place", "give position: [x, y, z], or line, plane or file")
        if not kinds:
            check_point_keys(self.position, self.longitude, self.latitude, None, depth_needed=False)
        if self.coordinates is not None and self.file is None:
            raise refusal("coordinates is given without a file", "it applies to files of shots", at=("coordinates",))
        if (extra := self._given("crs", "at_surface")) and not self._is_segy:
            raise refusal(f"{extra[0]} is given without a SEG-Y file", "it applies to SEG-Y files", at=extra[:1])
        if self.depth is not None and (self.file is not None or len(self._corner) == 3):
            got = "the file has a column for it" if self.file is not None else "z is given as well"
            allowed = "depth goes with [x, y], or longitude and latitude"
            raise refusal(f"a depth is given, but {got}", allowed, at=("depth",))
        return self

    @property
    def _corner(self) -> tuple[float, ...]:
        shape = self.line or self.plane
        return shape.start if shape is not None else self.position or ()

    @property
    def _is_segy(self) -> bool:
        return self.file is not None and file_kind(self.file) == SEGY

    def notes(self) -> tuple[str, ...]:
        """Return clauses on the interpretation of the file."""
        return reading(segy_shots, self.file)[1].notes if self.file is not None and self._is_segy else ()

    def spreads(self) -> Iterable[tuple[Path, frozenset[str]] | None]:
        """Return `Shot.spread` of each shot of a SEG-Y file; None without end for other entries."""
        if self.file is None or not self._is_segy:
            return itertools.repeat(None)
        file = self.file
        return [(file, shot.spread) for shot in reading(segy_shots, file)[0]]

    def _segy_places(self, domain: Domain) -> list[tuple[str, Point, float, bool]]:
        assert self.file is not None
        shots, geometry = reading(segy_shots, self.file)
        places = [shot.place for shot in shots]
        geographic = is_geographic(domain, places, geometry.geographic, geometry.unstated, self.coordinates, self.crs)
        x, y = local_coordinates(domain, places, self.crs, geographic, False)
        heights = [shot.z for shot in shots]
        if self.at_surface:
            surface = domain.surface_at(x, y, [shot.name for shot in shots])
            heights = [float(z) - shot.depth for shot, z in zip(shots, surface, strict=True)]
        on_earth = geographic or self.crs is not None
        return [
            (shot.name, (float(east), float(north), z), self.scale, on_earth)
            for shot, east, north, z in zip(shots, x, y, heights, strict=True)
        ]

    def places(self, domain: Domain) -> list[tuple[str, Point, float, bool]]:
        """Return (name, position, scale, True for a position on the Earth) of each shot."""
        if self._is_segy:
            return self._segy_places(domain)
        if self.file is not None:
            from lithowave.readers.segy import read_shots

            records = reading(read_shots, self.file)
            stated = any(record.geographic for record in records)
            if stated:
                require_origin(domain, "a file with longitudes and latitudes needs", ("file",))
            corners = [(record.place[0], record.place[1]) for record in records]
            geographic = is_geographic(domain, corners, stated, not stated, self.coordinates, None)
            return [
                (record.name, _record_place(domain, record, geographic), self.scale * record.scale, geographic)
                for record in records
            ]
        shape = self.line or self.plane
        if shape is not None:
            return [("", _place(domain, point, False, self.depth), self.scale, False) for point in shape.points()]
        point = self.position or (float(self.longitude or 0.0), float(self.latitude or 0.0))
        on_earth = self.position is None
        return [(self.name, _place(domain, point, on_earth, self.depth), self.scale, on_earth)]


def _record_place(domain: Domain, record: ShotRecord, geographic: bool) -> Point:
    """Return (x, y, z) of a shot of a CSV file, which may state z with longitude and latitude."""
    x, y, z = _place(domain, record.place[:2] if geographic else record.place, geographic, record.depth)
    return (x, y, record.place[2] if len(record.place) == 3 else z)


def _place(domain: Domain, point: tuple[float, ...], geographic: bool, depth: float | None) -> Point:
    """Return (x, y, z) of a point; ``depth`` is relative to the surface if z is omitted."""
    if geographic:
        return local_point(domain, None, point[0], point[1], depth or 0.0)
    x, y, z = local_point(domain, point, 0.0, 0.0, 0.0)
    return (x, y, z - (depth or 0.0))


class Survey(DescriptionModel):
    """Many shots: each one is a separate run with the source at a different position.

    ``sources`` must contain exactly one source. Without this section, the simulation file is also valid, with the
    source at the position given in ``sources``.
    """

    shots: Annotated[list[Shots], Field(min_length=1), _OneOrMany()] = Field(
        description="One entry or a list of entries; shots are numbered from 1 in this order."
    )
    moving_receivers: StrictBool = Field(
        default=False,
        description="true: receivers move horizontally with the source; those given by [x, y] remain on the "
        "surface.",
    )
    at_once: Count | None = Field(
        default=None, description="Number of simultaneous shots; null: one per CUDA device, or one on a CPU."
    )

    def shot_list(self, domain: Domain) -> list[Shot]:
        """Return all shots in local coordinates, in the order of the description."""
        shots: list[Shot] = []
        for index, entry in enumerate(self.shots):
            where = ("survey", "shots", index)
            for (name, position, scale, on_earth), spread in zip(entry.places(domain), entry.spreads(), strict=False):
                function, number = entry.time_function, len(shots) + 1
                shots.append(Shot(number, name, position, scale, function, where, spread, on_earth))
        return shots
