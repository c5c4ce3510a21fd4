"""Seismograms in memory, and the geometry of their sources and receivers.

Seismograms are arrays with codes of the receivers and axes of the components; the geometry gives distances, azimuths,
and the motion in radial and transverse directions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from lithowave.errors import InputError
from lithowave.globe_coordinates import RADIUS, angular_distance, azimuths, directions, propagation_azimuths
from lithowave.labels import first_names, receiver_name, shifted_time
from lithowave.output.attributes import SourceTable, chunk_map, convergence, to_geographic
from lithowave.projection import turned

if TYPE_CHECKING:
    from lithowave.json_types import Entries

FINISHED = "finished"


@dataclass(frozen=True)
class SeismogramArrays:
    """Arrays and codes of the receivers of a run; see `seismograms.Seismograms`."""

    time: np.ndarray
    data: np.ndarray
    networks: list[str]
    stations: list[str]
    positions: np.ndarray
    quantity: str
    units: str
    sampling_interval: float
    sample_count: int
    stress: np.ndarray | None = None
    pressure: np.ndarray | None = None
    strain: np.ndarray | None = None
    origin_time: str | None = None
    origin_delay: float | None = 0.0
    geographic_origin: tuple[float, ...] | None = None
    sources: SourceTable = field(default_factory=lambda: SourceTable.from_points(()))
    title: str = ""
    attributes: Entries = field(default_factory=dict)
    locations: list[str] = field(default_factory=list)
    state: str = FINISHED
    geographic: np.ndarray = field(default_factory=lambda: np.ones(0, bool))
    convergence: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.geographic):
            object.__setattr__(self, "geographic", np.ones(len(self.networks), bool))
        if not len(self.convergence):
            x, y = np.asarray(self.positions, dtype=float).reshape(-1, 3)[:, :2].T
            object.__setattr__(self, "convergence", convergence(x, y, self.geographic_origin))
        if not any(self.locations):
            object.__setattr__(self, "locations", [""] * len(self.networks))
        elif len(self.locations) != len(self.networks):
            raise ValueError(f"{len(self.locations)} location codes for {len(self.networks)} receivers")

    @property
    def names(self) -> list[str]:
        """``NETWORK.STATION`` of each receiver, or ``NETWORK.STATION.LOCATION`` with a location code."""
        return [receiver_name(*codes) for codes in zip(self.networks, self.stations, self.locations, strict=True)]

    @property
    def start_time(self) -> str | None:
        """ISO 8601 UTC time of t = 0, the first sample; None if the event has no date."""
        return self.origin_time and shifted_time(self.origin_time, -(self.origin_delay or 0.0))

    @property
    def complete(self) -> bool:
        """True if the run was complete when its file was read; False if it was running, was stopped or has failed.

        A run that a callback has ended is complete.
        """
        return self.state == FINISHED and len(self.time) == self.sample_count

    @property
    def shortfall(self) -> str:
        """What is missing, for example ``incomplete: stopped by SIGTERM, ends at 3.2 of 9 s``; empty if complete."""
        if self.complete:
            return ""
        end = f"ends at {self.time[-1]:.4g}" if len(self.time) else "no sample"
        state = "" if self.state == FINISHED else f"{self.state}, "
        return f"incomplete: {state}{end} of {(self.sample_count - 1) * self.sampling_interval:.4g} s"

    @property
    def north_azimuth(self) -> np.ndarray:
        """(n_receivers,) azimuth of the component N, degrees clockwise from true North: 0, or `convergence`."""
        return np.where(self.geographic, 0.0, self.convergence)

    def along_true_north(self) -> Self:
        """Return the seismograms with all components along true East and North; unchanged without a projection."""
        return self._turned(-self.north_azimuth, np.ones(len(self), bool))

    def along_grid(self) -> Self:
        """Return the seismograms with all components along the axes x and y of the grid."""
        return self._turned(np.where(self.geographic, self.convergence, 0.0), np.zeros(len(self), bool))

    def _turned(self, angles: np.ndarray, geographic: np.ndarray) -> Self:
        """Return the seismograms turned counterclockwise about the vertical axis by angles (n_receivers,), degrees."""
        parts = {
            name: turned(values, angles)
            for name in ("data", "stress", "strain") if (values := getattr(self, name)) is not None
        }  # fmt: skip
        return replace(self, geographic=geographic, **parts)

    def __len__(self) -> int:
        return len(self.networks)

    def index(self, name: str) -> int:
        """Return the index of the receiver `name` (``NETWORK.STATION``).

        Raises
        ------
        InputError : no receiver has this name; the error states the closest name.
        """
        names = self.names
        if name in names:
            return names.index(name)
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise InputError("receiver", f"{name!r} is not among the {len(names)} receivers", "", hint)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the seismograms (3, n_samples) of the receiver `name`, components E, N, Z."""
        return self.data[self.index(name)]

    def __repr__(self) -> str:
        last = f" from t = 0 to {self.time[-1]:.6g} s" if len(self.time) else ""
        count = f"{len(self.time)}" + ("" if self.complete else f" of {self.sample_count}")
        state = f"; {self.shortfall}" if self.shortfall else ""
        names = first_names(self.names, 4)
        others = [name for name in ("stress", "pressure", "strain") if getattr(self, name) is not None]
        return (
            f"<Seismograms of {self.quantity} ({self.units}){''.join(f', {name}' for name in others)}: "
            f"{len(self)} receivers, {count} samples every {self.sampling_interval:.6g} s{last}{state}\n"
            f" receivers: {names or 'none'}>"
        )


def epicenter(seismograms: SeismogramArrays) -> np.ndarray:
    """Return the origin (x, y, z) of distances, m: the centroid of the sources, or the first receiver."""
    centroid = seismograms.sources.centroid
    return np.asarray(seismograms.positions[0] if centroid is None else centroid)


def on_sphere(seismograms: SeismogramArrays) -> tuple[np.ndarray, np.ndarray, tuple[float, float]] | None:
    """Return longitudes and latitudes (n_receivers,) and those of the epicenter in a chunk, degrees; None in a box."""
    chunk = chunk_map(seismograms.geographic_origin)
    if chunk is None:
        return None
    longitude, latitude = chunk.to_geographic(*epicenter(seismograms)[:2])
    return *chunk.to_geographic(*seismograms.positions[:, :2].T), (float(longitude), float(latitude))


def distance_unit(seismograms: SeismogramArrays) -> tuple[float, str]:
    """Return the factor from m to the unit of distances in figures, and this unit: km, or degrees in a chunk."""
    if chunk_map(seismograms.geographic_origin) is None:
        return 1e-3, "km"
    return float(np.degrees(1.0 / RADIUS)), "°"


def epicentral_distance(seismograms: SeismogramArrays) -> np.ndarray:
    """Return the horizontal distances (n_receivers,) from the epicenter, m; in a chunk along great circles at the
    radius of the surface."""
    places = on_sphere(seismograms)
    if places is not None:
        return RADIUS * np.radians(angular_distance(*places))
    offset = seismograms.positions[:, :2] - epicenter(seismograms)[:2]
    return np.hypot(offset[:, 0], offset[:, 1])


def is_earthquake(seismograms: SeismogramArrays) -> bool:
    """True if distances are epicentral: the sources have a shear mechanism and a geographic position."""
    moment = seismograms.sources.moments.sum(axis=0)
    volume = moment[:3].mean()
    deviator = moment - volume * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    shear = np.abs(deviator).max(initial=0.0) > 1e-6 * np.abs(moment).max(initial=0.0)
    return bool(shear) and seismograms.geographic_origin is not None


def offsets(seismograms: SeismogramArrays) -> tuple[np.ndarray, str]:
    """Return the positions (n_receivers,) of traces on the axis of a gather, m, and the name of this quantity.

    The offset of receivers on a line with the source is signed: positive towards East, on a line from South to North
    towards North. All other positions are horizontal distances from the source, or without a source from the first
    receiver. In a chunk, no offsets are signed.
    """
    distance = epicentral_distance(seismograms)
    if not len(seismograms.sources):
        return distance, "Horizontal distance from the first receiver"
    if is_earthquake(seismograms):
        return distance, "Epicentral distance"
    direction = line_direction(seismograms.positions[:, :2], epicenter(seismograms)[:2])
    if direction is None or chunk_map(seismograms.geographic_origin) is not None:
        return distance, "Horizontal distance from the source"
    along = (seismograms.positions[:, :2] - epicenter(seismograms)[:2]) @ direction
    behind = along < -1e-6 * np.abs(along).max()  # not by round-off
    return np.where(behind, -distance, distance), "Offset"


def line_direction(points: np.ndarray, source: np.ndarray) -> np.ndarray | None:
    """Return the unit vector, towards East or else North, of a line through points (n, 2) that passes the source (2,).

    None if there are fewer than three points, or if a point or the source deviates from the line by more than a
    hundredth or a twentieth of the length of the line.
    """
    if len(points) < 3:
        return None
    relative = points - points.mean(axis=0)
    direction = np.linalg.svd(relative, full_matrices=False)[2][0]
    normal = np.array([-direction[1], direction[0]])
    length = float(np.ptp(relative @ direction))
    deviation, miss = np.abs(relative @ normal).max(), abs((source - points.mean(axis=0)) @ normal)
    if not length > 0 or deviation > 0.01 * length or miss > 0.05 * length:
        return None
    main = direction[0] if abs(direction[0]) > 1e-3 else direction[1]
    return direction * np.sign(main)


def azimuth(seismograms: SeismogramArrays) -> np.ndarray:
    """Return the azimuths (n_receivers,) from the epicenter to the receivers, degrees from true North over East.

    Without a geographic origin, North is the axis y.
    """
    places = on_sphere(seismograms)
    if places is not None:
        return azimuths(*places)
    of_grid = convergence(*epicenter(seismograms)[:2], seismograms.geographic_origin)
    return (_grid_azimuth(seismograms) + of_grid) % 360.0


def _grid_azimuth(seismograms: SeismogramArrays) -> np.ndarray:
    """Return the angles (n_receivers,) from the axis y over x of the directions from the epicenter, degrees."""
    x, y = (seismograms.positions[:, :2] - epicenter(seismograms)[:2]).T
    return np.degrees(np.arctan2(x, y))


def radial_direction(seismograms: SeismogramArrays) -> np.ndarray:
    """Return the angles (n_receivers,) from the component N over E of the direction away from the source, degrees.

    Where components are along true East and North, this is the back azimuth plus 180 degrees; in a box, the direction
    is that of the straight line in the grid, in which the waves propagate.
    """
    places = on_sphere(seismograms)
    if places is not None:
        return propagation_azimuths(*places)
    of_grid = seismograms.convergence - seismograms.north_azimuth
    return (_grid_azimuth(seismograms) + of_grid) % 360.0


def component(seismograms: SeismogramArrays, name: str) -> np.ndarray:
    """Return (n_receivers, n_samples) of a component: E, N, Z, R (away from the source), T (right of R), P (pressure).

    R = E sin a + N cos a and T = E cos a - N sin a with a = `radial_direction`.
    """
    if name == "P" and seismograms.pressure is not None:
        return seismograms.pressure
    east, north, up = (seismograms.data[:, index] for index in range(3))
    if name in "ENZ":
        return {"E": east, "N": north, "Z": up}[name]
    angle = np.radians(radial_direction(seismograms))[:, None]
    if name == "R":
        return east * np.sin(angle) + north * np.cos(angle)
    if name == "T":
        return east * np.cos(angle) - north * np.sin(angle)
    raise ValueError(f"unknown component {name!r}; known: E, N, Z, R, T, and P if pressure was recorded")


def common_positions(
    first: SeismogramArrays, first_rows: list[int], second: SeismogramArrays, second_rows: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (n, 3), m, of receivers of two runs in the same coordinates.

    They are Earth-centered, on the sphere, if both runs have a geographic origin, and one is in a chunk or the origins
    differ; else local.
    """
    rows = (first, first_rows), (second, second_rows)
    origins = [run.geographic_origin for run in (first, second)]
    if None in origins or not any(map(chunk_map, origins)) and origins[0] == origins[1]:
        return first.positions[first_rows], second.positions[second_rows]
    places = []
    for run, selected in rows:
        x, y, z = run.positions[selected].T
        places.append((RADIUS + z)[:, None] * directions(*map(np.asarray, to_geographic(x, y, run.geographic_origin))))
    return places[0], places[1]
