"""Events within the simulation file, and those of ObsPy, as the source files CMTSOLUTION and QuakeML describe them."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from lithowave.description.base import DescriptionModel, carried
from lithowave.description.mechanisms import MomentTensor
from lithowave.description.python_objects import is_obspy_object
from lithowave.description.refusals import refusal, shown
from lithowave.description.units import Duration, Latitude, Length, Longitude, PositiveDuration
from lithowave.errors import InputError

if TYPE_CHECKING:
    from lithowave.readers.seismic_event import SeismicEvent


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
    def _in_utc(cls, value: Any) -> str:
        from lithowave.readers.seismic_event import utc_text

        try:
            time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise refusal(f"{shown(value)} is not a time", "expected for example 2008-07-29T18:42:15.5Z") from None
        return utc_text(time.replace(tzinfo=UTC) if time.tzinfo is None else time)

    @property
    def seismic_event(self) -> SeismicEvent:
        """The event as a reader of files returns it."""
        from lithowave.readers.seismic_event import SeismicEvent

        return SeismicEvent(
            event_name=self.name,
            origin_time=self.origin_time,
            time_shift=self.time_shift,
            half_duration=self.half_duration,
            geographic=True,
            latitude=self.latitude,
            longitude=self.longitude,
            x=math.nan,
            y=math.nan,
            depth=self.depth,
            moment=self.moment_tensor.components,
            line_number=0,
        )


def is_obspy_event(value: Any) -> bool:
    """True for an ObsPy Event or Catalog."""
    return is_obspy_object(value) and type(value).__name__ in ("Event", "Catalog")


def events_of_obspy(value: Any) -> list[dict[str, Any]]:
    """Return the events of an ObsPy Event or Catalog as the key ``events`` contains them, by way of QuakeML."""
    from lithowave.readers.quakeml import parse_quakeml

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
