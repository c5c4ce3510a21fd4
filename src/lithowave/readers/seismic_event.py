"""An earthquake or a force as a point source, as files of events describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lithowave.physics.moments import moment_magnitude, scalar_moment

SPECFEM_DECAY = 1.628
"""SPECFEM's Gaussian for a half duration is exp(-(a t)^2) a / sqrt(pi) with a = 1.628 / half duration."""


@dataclass(frozen=True)
class SeismicEvent:
    """One event.

    Attributes
    ----------
    event_name : as in the file.
    origin_time : ISO text in UTC of the origin time; None for a Cartesian file without it.
    time_shift : centroid time after the origin time in s.
    half_duration : of the moment rate, in s; None if the file does not state it.
    geographic : True if latitude and longitude are given, False if x and y are.
    latitude, longitude : of the centroid in degrees; NaN in Cartesian files.
    x, y : of the centroid in m; NaN in geographic files.
    depth : of the centroid in m.
    moment : xx, yy, zz, xy, xz, yz in N m; x East, y North, z Up. None for a force.
    line_number : first line of the event, from 1.
    force : East, North, Up in N; None for a moment tensor.
    shape : time function of a force, as in a simulation file without delay; None if the file does not state it.
    """

    event_name: str
    origin_time: str | None
    time_shift: float
    half_duration: float | None
    geographic: bool
    latitude: float
    longitude: float
    x: float
    y: float
    depth: float
    moment: tuple[float, float, float, float, float, float] | None
    line_number: int
    force: tuple[float, float, float] | None = None
    shape: Mapping[str, Mapping[str, float]] | None = None

    @property
    def scalar_moment(self) -> float:
        """M0, N m; 0 of a force."""
        return float(scalar_moment(self.moment or (0.0,) * 6))

    @property
    def magnitude(self) -> float:
        """Moment magnitude Mw."""
        return moment_magnitude(self.scalar_moment)


def utc_text(moment: datetime) -> str:
    """Return a time with a time zone as ISO text in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
