"""An earthquake or a force as a point source, as files of events describe it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

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
        """M0 = sqrt(M_ij M_ij / 2) in N m; 0 of a force."""
        xx, yy, zz, xy, xz, yz = self.moment or (0.0,) * 6
        return math.sqrt(0.5 * (xx**2 + yy**2 + zz**2) + xy**2 + xz**2 + yz**2)

    @property
    def magnitude(self) -> float:
        """Mw = 2/3 (log10 M0 - 9.1), M0 in N m (IASPEI 2013)."""
        return 2.0 / 3.0 * (math.log10(self.scalar_moment) - 9.1)


def utc_text(moment: datetime) -> str:
    """Return a time with a time zone as ISO text in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
