"""Point sources: forces, moment tensors, double couples, and events from CMTSOLUTION and QuakeML files or ObsPy.

Moment tensors are in x East, y North, z Up, with components in the order xx, yy, zz, xy, xz, yz.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from lithowave.description.base import DescriptionModel, InputFile, carried, reading
from lithowave.description.coordinates import (
    Coordinates,
    Point,
    are_degrees,
    check_point_keys,
    convergences,
    depth_origin,
    local_point,
)
from lithowave.description.domain import Domain
from lithowave.description.fault_sources import SubfaultFunction, fault_sources
from lithowave.description.material import Material
from lithowave.description.text import is_obspy_object, refusal, shown
from lithowave.description.time_functions import TimeFunction
from lithowave.description.units import (
    Duration,
    ForceVector,
    Latitude,
    Length,
    Longitude,
    Moment,
    NonNegativeDuration,
    Position,
    PositiveDuration,
    PositiveMoment,
    quantity,
)
from lithowave.errors import InputError
from lithowave.physics import double_couple, moment_of_magnitude
from lithowave.projection import turned
from lithowave.readers.events import SPECFEM_DECAY

if TYPE_CHECKING:
    from lithowave.faults import FiniteFault
    from lithowave.json_types import Entries
    from lithowave.readers.events import SeismicEvent


MomentTuple = tuple[float, float, float, float, float, float]


_COMPONENTS = ("xx", "yy", "zz", "xy", "xz", "yz")
_SPHERICAL = ("rr", "tt", "pp", "rt", "rp", "tp")


class MomentTensor(DescriptionModel):
    """The six components, N m; omitted components are zero.

    Instead of the axes x (East), y (North) and z (Up), the components may refer to r (Up), t (South) and p (East), as
    in catalogs: xx = pp, yy = tt, zz = rr, xy = -tp, xz = rp, yz = -rt. Values in dyn cm need the unit:
    ``1e25 dyn cm``.

    East and North are true at a position on the Earth, else x and y.
    """

    xx: Moment = Field(default=0.0, description="East-East, N m.")
    yy: Moment = Field(default=0.0, description="North-North, N m.")
    zz: Moment = Field(default=0.0, description="Up-Up, N m.")
    xy: Moment = Field(default=0.0, description="East-North, N m.")
    xz: Moment = Field(default=0.0, description="East-Up, N m.")
    yz: Moment = Field(default=0.0, description="North-Up, N m.")
    rr: Moment | None = Field(default=None, description="Instead of x, y, z: Up-Up, N m.")
    tt: Moment | None = Field(default=None, description="South-South, N m.")
    pp: Moment | None = Field(default=None, description="East-East, N m.")
    rt: Moment | None = Field(default=None, description="Up-South, N m.")
    rp: Moment | None = Field(default=None, description="Up-East, N m.")
    tp: Moment | None = Field(default=None, description="South-East, N m.")

    @model_validator(mode="after")
    def _in_local_axes(self) -> Self:
        given = self._given(*_SPHERICAL)
        if not given:
            return self
        if others := [name for name in _COMPONENTS if name in self.model_fields_set]:
            allowed = "give xx, yy, zz, xy, xz, yz, or rr, tt, pp, rt, rp, tp"
            raise refusal(f"{others[0]} and {given[0]} are both given", allowed, at=(given[0],))
        rr, tt, pp, rt, rp, tp = (float(getattr(self, name) or 0.0) for name in _SPHERICAL)
        values = dict(zip(_COMPONENTS, (pp, tt, rr, 0.0 - tp, rp, 0.0 - rt), strict=True))
        # Stored and written in the local axes only, as if these had been given.
        self._settle(**values, **dict.fromkeys(_SPHERICAL))
        self.model_fields_set.clear()
        self.model_fields_set.update(_COMPONENTS)
        return self

    @model_serializer(mode="wrap")
    def _components_only(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in _COMPONENTS}

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        if not any(self.components):
            raise refusal("all components are zero", "give at least one of xx, yy, zz, xy, xz and yz, in N m")
        return self

    @property
    def components(self) -> MomentTuple:
        """(xx, yy, zz, xy, xz, yz), N m."""
        return (self.xx, self.yy, self.zz, self.xy, self.xz, self.yz)


class DoubleCouple(DescriptionModel):
    """Slip on a fault plane, after Aki & Richards: the plane dips to the right of the strike direction."""

    strike: quantity("angle", ge=-360, le=360) = Field(  # type: ignore[valid-type]
        description="Clockwise from North, degrees: true North at a position on the Earth, else y."
    )
    dip: quantity("angle", ge=0, le=90) = Field(description="Angle down from the horizontal, degrees.")  # type: ignore[valid-type]
    rake: quantity("angle", ge=-360, le=360) = Field(  # type: ignore[valid-type]
        description="Slip direction of the hanging wall relative to the strike, positive upwards, degrees."
    )
    m0: PositiveMoment | None = Field(default=None, description="Scalar moment, N m; alternative to mw.")
    mw: quantity("number", ge=-10, le=11) | None = Field(  # type: ignore[valid-type]
        default=None, description="Moment magnitude, (log10 m0 - 9.1) / 1.5; alternative to m0."
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.m0 is None) == (self.mw is None):
            got = "m0 and mw are both given" if self.m0 is not None else "neither m0 nor mw is given"
            raise refusal(got, "give one of them: m0 in N m, or mw")
        return self

    @property
    def scalar_moment(self) -> float:
        """M0 in N m: 10^(1.5 mw + 9.1) where the magnitude is given (IASPEI standard)."""
        return self.m0 if self.m0 is not None else moment_of_magnitude(float(self.mw or 0.0))

    @property
    def components(self) -> MomentTuple:
        """(xx, yy, zz, xy, xz, yz), N m."""
        xx, yy, zz, xy, xz, yz = (self.scalar_moment * double_couple(self.strike, self.dip, self.rake)).tolist()
        return (xx, yy, zz, xy, xz, yz)


class Event(DescriptionModel):
    """An event with its origin time, centroid and moment tensor, as a CMTSOLUTION or QuakeML file describes it."""

    name: str = Field(default="", description="Name of the event.")
    origin_time: str = Field(description="Origin time, ISO 8601, in UTC unless it states a time zone.")
    time_shift: Duration = Field(default=0.0, description="Centroid time after the origin time, s.")
    half_duration: PositiveDuration | None = Field(
        default=None, description="Half duration of the moment rate, s; null: time_function is required."
    )
    longitude: Longitude = Field(description="Of the centroid, degrees East; requires domain.crs or domain.chunk.")
    latitude: Latitude = Field(description="Of the centroid, degrees North.")
    depth: Length = Field(description="Depth of the centroid below the surface, m.")
    moment_tensor: MomentTensor = Field(description="Moment tensor, N m.")

    @field_validator("origin_time", mode="before")
    @classmethod
    def _in_utc(cls, value: object) -> str:
        from lithowave.readers.events import utc_text

        try:
            time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise refusal(f"{shown(value)} is not a time", "expected for example 2008-07-29T18:42:15.5Z") from None
        return utc_text(time.replace(tzinfo=UTC) if time.tzinfo is None else time)

    @property
    def seismic_event(self) -> SeismicEvent:
        """The event as a reader of files returns it."""
        from lithowave.readers.events import SeismicEvent

        return SeismicEvent(
            event_name=self.name, origin_time=self.origin_time, time_shift=self.time_shift,
            half_duration=self.half_duration, geographic=True, latitude=self.latitude, longitude=self.longitude,
            x=math.nan, y=math.nan, depth=self.depth, moment=self.moment_tensor.components, line_number=0,
        )  # fmt: skip


def is_obspy_event(value: object) -> bool:
    """True for an ObsPy Event or Catalog."""
    return is_obspy_object(value) and type(value).__name__ in ("Event", "Catalog")


def events_of_obspy(value: object) -> list[Entries]:
    """Return the events of an ObsPy Event or Catalog as the key ``events`` contains them, by way of QuakeML."""
    from lithowave.readers.events import parse_quakeml

    stream = io.BytesIO()
    try:
        value.write(stream, format="QUAKEML")
    except Exception as error:  # ObsPy raises errors of any kind for incomplete objects
        raise refusal(f"{shown(value)} cannot be converted to QuakeML: {error}") from None
    try:
        events = parse_quakeml(stream.getvalue())
    except InputError as error:
        raise carried(error, ()) from None
    return [
        {
            "name": event.event_name,
            "origin_time": event.origin_time,
            "time_shift": event.time_shift,
            **({"half_duration": event.half_duration} if event.half_duration else {}),
            "longitude": event.longitude,
            "latitude": event.latitude,
            "depth": event.depth,
            "moment_tensor": dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), event.moment or (), strict=True)),
        }
        for event in events
    ]


ONSET_LIMIT = 1e-3
"""Part of its peak that a time function may have before time 0, where the simulation starts."""

Side = Literal["below", "above"]

_MECHANISMS = ("force", "moment_tensor", "double_couple")


@dataclass(frozen=True)
class PointSource:
    """One point source in local coordinates.

    Either ``moment`` (xx, yy, zz, xy, xz, yz) in N m, acting with ``time_function.rate``, or ``force`` (E, N,
    Up) in N, acting with ``time_function.amplitude``.  ``position`` is (x, y, z) in m. ``side`` : of an interface on
    which the source is, ``below`` or ``above``. Both mechanisms are along the axes x, y, z. If ``geographic``, they
    were given along true East and North; ``convergence`` is the azimuth of y there, degrees (`coordinates`).
    """

    name: str
    position: Point
    moment: MomentTuple | None
    force: tuple[float, float, float] | None
    time_function: TimeFunction | SubfaultFunction
    where: str
    side: Side = "below"
    geographic: bool = False
    convergence: float = 0.0


class Source(DescriptionModel):
    """One entry of ``sources``.

    An entry contains either a position (``position``, or ``longitude``, ``latitude``, ``depth``), one of ``force``,
    ``moment_tensor`` and ``double_couple``, and a ``time_function``; or a ``file`` with events, or ``events``. In
    Python, an ObsPy Event or Catalog may be given instead of an entry, or a Catalog instead of the list.

    The moment rate of an event is the Gaussian that SPECFEM uses for CMTSOLUTION files, with the standard deviation
    half duration / (1.628 sqrt 2), centered at the origin time plus the time shift of the event. ``time_function``
    replaces the Gaussian; its delay is relative to the time shift. Time 0 of the simulation is the origin time minus
    ``delay``. A FORCESOLUTION file states forces with a Gaussian, Ricker wavelet or step of SPECFEM.

    ``latorUTM`` and ``longorUTM`` of CMTSOLUTION and FORCESOLUTION files are y and x in m, but latitude and longitude
    if these numbers are degrees in the domain; ``coordinates`` decides otherwise.

    In QuakeML files, the mechanism is the preferred moment tensor, or else the nodal plane 1 with the scalar moment or
    the preferred magnitude, which must be Mw. The half duration is half the duration of the source time function. The
    centroid is the origin from which the moment tensor is derived, or else the preferred origin. The origin time is
    that of the triggering origin, or else of the preferred origin.

    The subfaults of a finite fault (SRF) are point sources, each with the slip rate of the file, linear between
    samples. Their moment is the product of area, slip and shear modulus: that of VS and DEN in a file of version 2.0,
    else that of the material. Depths are below the surface; the times of the file are delayed by ``delay``.
    """

    name: str = Field(default="", description="A name for figures and messages; files contain their own names.")
    position: Position | None = Field(default=None, description="[x, y, z], m; z is negative below the surface.")
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs or domain.chunk."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    depth: Length | None = Field(default=None, description="With longitude and latitude: depth below the surface, m.")
    depth_origin: Literal["surface", "sea_level"] | None = Field(
        default=None,
        description="Zero of depths, also of those in files: surface (default), which is the topography, the surface "
        "of an imported mesh or z = 0, or sea_level, z = 0, so that a topography does not bend a fault.",
    )
    force: ForceVector | None = Field(
        default=None,
        description="Force [East, North, Up], N; true East and North at a position on the Earth, else x and y.",
    )
    moment_tensor: MomentTensor | None = Field(default=None, description="Moment tensor, N m.")
    double_couple: DoubleCouple | None = Field(default=None, description="Strike, dip, rake and m0 or mw.")
    side: Side = Field(
        default="below",
        description="Side on which a source acts that is exactly on an interface: in the medium below it (default) or "
        "above it. The strains across an interface differ, and with them the waves of a moment tensor.",
    )
    time_function: TimeFunction | None = Field(
        default=None,
        description="Shape of the moment rate (unit area), or amplitude of a force (peak 1, not unit area). With file "
        "or events: replaces the Gaussian.",
    )
    file: InputFile | None = Field(
        default=None,
        description="A CMTSOLUTION, FORCESOLUTION or QuakeML file of one or more events, of which geographic "
        "coordinates require domain.crs; or a finite fault in the Standard Rupture Format, versions 1.0 and 2.0, as "
        "text (.srf) or HDF5 (.srf, .h5).",
    )
    coordinates: Coordinates | None = Field(
        default=None,
        description="latorUTM and longorUTM of a CMTSOLUTION or FORCESOLUTION file: geographic (degrees) or cartesian "
        "(m). Default: cartesian, but geographic if the values are degrees in the domain.",
    )
    events: list[Event] | None = Field(
        default=None, min_length=1, description="The events themselves, instead of a file."
    )
    delay: NonNegativeDuration | None = Field(
        default=None,
        description="With file or events: time by which the source is delayed, s, so that it begins after time 0. "
        "Default: 0, or the minimum delay required if this entry is the only source.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_obspy(cls, value: object) -> object:
        return {"events": events_of_obspy(value)} if is_obspy_event(value) else value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        mechanisms = self._given(*_MECHANISMS)
        if self.event_key is not None:
            self._check_events(mechanisms, self.event_key)
            return self
        if self.delay is not None:
            raise refusal(
                "a delay is given without a file or events",
                "the time function has its own: {gaussian: {..., delay: ...}}",
                at=("delay",),
            )
        if self.coordinates is not None:
            raise refusal("coordinates is given without a file", "it applies to files", at=("coordinates",))
        if len(mechanisms) != 1:
            got = f"{' and '.join(mechanisms)} are both given" if mechanisms else "has no mechanism"
            raise refusal(got, f"give exactly one of {', '.join(_MECHANISMS)} (or a file, or events)")
        check_point_keys(self.position, self.longitude, self.latitude, self.depth, depth_needed=True)
        if self.time_function is None:
            raise refusal(
                "is missing",
                "a source needs one, e.g. {gaussian: {sigma: 0.1, delay: 0.6}}",
                at=("time_function",),
            )
        if self.position is not None and self.depth_origin is not None:
            raise refusal("depth_origin and position are both given", "a position has z", at=("depth_origin",))
        if self.force is not None and not any(self.force):
            raise refusal("the force is zero", "at least one component must differ from 0", at=("force",))
        if self.force is None:
            self._check_moment_rate()
        elif self.time_function.is_moment:
            got = "quantity: moment is given with a force"
            raise refusal(got, "it applies to moment tensors", at=("time_function",))
        return self

    @property
    def is_fault(self) -> bool:
        """True if the file is a finite fault."""
        return self.file is not None and self.file.suffix.lower() in (".srf", ".h5", ".hdf5")

    @property
    def fault(self) -> FiniteFault:
        """Finite fault of the file."""
        assert self.file is not None
        status = self.file.stat()
        return reading(lambda path: _read_fault(path, status.st_mtime_ns, status.st_size), self.file)

    def _check_events(self, mechanisms: list[str], key: str) -> None:
        both = ["events"] if key == "file" and self.events is not None else []
        places = self._given("position", "longitude", "latitude", "depth")
        if extra := both + mechanisms + places:
            owner = "the file has" if key == "file" else "events have"
            raise refusal(f"{key} and {extra[0]} are both given", f"{owner} place and mechanism", at=extra[:1])
        if self.is_fault:
            if self.time_function is not None:
                raise refusal("the file has the slip rate of each subfault", at=("time_function",))
            _ = self.fault
            return
        events = self.events_of_file()
        if self.coordinates is not None and (self.is_fault or any(event.geographic for event in events)):
            got = "coordinates is given, but the file states longitudes and latitudes"
            raise refusal(got, "it applies to latorUTM and longorUTM", at=("coordinates",))
        for event in events:
            if self.time_function is None and not event.half_duration and event.shape is None:
                where = f"{self.file}:{event.line_number}: " if key == "file" else ""
                has = "does not state its duration" if event.half_duration is None else "has a half duration of 0 s"
                has = has if event.force is None else "does not state a time function that lithowave has"
                raise refusal(
                    f"{where}{event.event_name} {has}", "a source without duration cannot be simulated",
                    f"give time_function beside the {key}, e.g. {{gaussian: {{sigma: 0.1}}}}", at=(key,),
                )  # fmt: skip
        if any(event.force is None for event in events):
            self._check_moment_rate()

    def _check_moment_rate(self) -> None:
        reason = self.time_function.moment_refusal() if self.time_function is not None else None
        if reason:
            raise refusal(reason, at=("time_function",))

    @property
    def event_key(self) -> str | None:
        """The key that contains events or a fault, ``"file"`` or ``"events"``; None for a source with a position."""
        return "file" if self.file is not None else "events" if self.events is not None else None

    def events_of_file(self) -> list[SeismicEvent]:
        """Return the events of the file or of ``events``; none for a source with a position and for a fault."""
        from lithowave.readers.events import read_events

        if self.file is not None:
            return [] if self.is_fault else reading(read_events, self.file)
        return [event.seismic_event for event in self.events or ()]

    def origin_times(self) -> list[str]:
        """Return the different origin times of the events, as ISO text."""
        stated = (event.origin_time for event in self.events_of_file())
        return list(dict.fromkeys(time for time in stated if time is not None))

    def needed_delay(self) -> float:
        """Return the minimum ``delay``, to two digits, that leaves at most 1e-3 of the peak before time 0.

        A finite fault begins after time 0 with it.
        """
        if self.is_fault:
            first = self.fault.time_span[0]
            return _rounded_up(-first) if first < 0.0 else 0.0
        undelayed = (self._file_time_function(event, 0.0) for event in self.events_of_file())
        early = [
            -function.support(ONSET_LIMIT)[0] for function in undelayed if function.onset_amplitude() > ONSET_LIMIT
        ]
        return _rounded_up(max(early)) if early else 0.0

    def point_sources(self, domain: Domain, material: Material, where: str) -> list[PointSource]:
        """Return the sources of this entry in local coordinates: one, all events, or the subfaults of a fault in the
        order of their onsets.

        material : medium whose shear modulus applies if the file of a fault has none.
        """
        return _on_grid(domain, self._stated_sources(domain, material, where))

    def _stated_sources(self, domain: Domain, material: Material, where: str) -> list[PointSource]:
        """Return `point_sources` with mechanisms along the axes in which they are given."""
        if self.is_fault:
            at_sea_level = self.depth_origin == "sea_level"
            places, sampled, table = fault_sources(self.fault, domain, material, self.delay or 0.0, at_sea_level)
            columns = zip(places.tolist(), sampled.moment.tolist(), sampled.subfault.tolist(), strict=True)
            geographic = self.fault.geographic
            return [
                PointSource(
                    f"subfault {n + 1}", tuple(place), tuple(moment), None, SubfaultFunction(table, row), where,
                    self.side, geographic,
                )
                for row, (place, moment, n) in enumerate(columns)
            ]
        if self.event_key is not None:
            key = f"{where}.{self.event_key}"
            return [self._from_event(event, domain, key) for event in self.placed_events(domain)]
        assert self.time_function is not None
        place = local_point(domain, self.position, self.longitude or 0.0, self.latitude or 0.0, self.depth or 0.0)
        if self.position is None and self.depth_origin == "sea_level":
            place = (*place[:2], 0.0 - (self.depth or 0.0))
        mechanism = self.moment_tensor or self.double_couple
        moment = None if mechanism is None else mechanism.components
        geographic = self.position is None
        return [PointSource(self.name, place, moment, self.force, self.time_function, where, self.side, geographic)]

    def placed_events(self, domain: Domain) -> list[SeismicEvent]:
        """Return the events, with longitude and latitude if their x and y are degrees."""
        events = self.events_of_file()
        plain = [event for event in events if not event.geographic]
        x, y = [event.x for event in plain], [event.y for event in plain]
        names = "longorUTM and latorUTM"
        if not plain or not are_degrees(domain, x, y, self.coordinates, names=names, at=(str(self.event_key),)):
            return events
        return [
            event if event.geographic else replace(event, geographic=True, longitude=event.x, latitude=event.y)
            for event in events
        ]

    def _from_event(self, event: SeismicEvent, domain: Domain, where: str) -> PointSource:
        x, y = domain.to_local(event.longitude, event.latitude) if event.geographic else (event.x, event.y)
        top = 0.0 if self.depth_origin == "sea_level" else depth_origin(domain, float(x), float(y))
        place = (float(x), float(y), top - event.depth)
        function = self._file_time_function(event, self.delay or 0.0)
        name = self.name or event.event_name
        return PointSource(name, place, event.moment, event.force, function, where, self.side, event.geographic)

    def _file_time_function(self, event: SeismicEvent, delay: float) -> TimeFunction:
        shift = event.time_shift + delay
        if self.time_function is None and event.shape is not None:
            ((kind, values),) = event.shape.items()
            return TimeFunction(**{kind: {**values, "delay": shift}})
        if self.time_function is None:
            sigma = float(event.half_duration or 0.0) / (SPECFEM_DECAY * math.sqrt(2.0))
            return TimeFunction(gaussian={"sigma": sigma, "delay": shift})
        shape = self.time_function.shape
        moved = shape.model_copy(update={"delay": shape.delay + shift})
        return self.time_function.model_copy(update={self.time_function.kind: moved})


@lru_cache(maxsize=2)
def _read_fault(path: Path, changed: int, size: int) -> FiniteFault:
    """Return the fault of a file, which is read again only after a change: copies of a simulation share it."""
    from lithowave.readers.srf import read_srf

    return read_srf(path)


def _rounded_up(value: float) -> float:
    """Return the next larger number with two digits."""
    scale = 10.0 ** (math.floor(math.log10(value)) - 1)
    # Division by a power of ten and rounding leave the shortest decimal: 1.9 and not 1.9000000000000001.
    return float(f"{math.ceil(value / scale - 1e-9) * scale:.2g}")


def _on_grid(domain: Domain, sources: Sequence[PointSource]) -> list[PointSource]:
    """Return sources with their convergence, and with the mechanisms of those on the Earth along the grid axes."""
    if domain.crs is None:
        return list(sources)
    angles = convergences(domain, sources)
    found = []
    for source, angle in zip(sources, angles.tolist(), strict=True):
        turn = angle if source.geographic else 0.0
        moment, force = (
            None if part is None else tuple(turned(np.array([part], float), [turn])[0].tolist())
            for part in (source.moment, source.force)
        )
        found.append(replace(source, moment=moment, force=force, convergence=angle))
    return found
