"""Seismograms of a run in memory: arrays, codes of the receivers and axes of the components."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from lithowave.errors import InputError
from lithowave.names import receiver_name
from lithowave.output.attributes import convergence
from lithowave.output.source_table import SourceTable
from lithowave.projection import turned
from lithowave.utc import shifted_time

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
    attributes: dict[str, Any] = field(default_factory=dict)
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
        names = ", ".join(self.names[:4]) + (", ..." if len(self) > 4 else "")
        others = [name for name in ("stress", "pressure", "strain") if getattr(self, name) is not None]
        return (
            f"<Seismograms of {self.quantity} ({self.units}){''.join(f', {name}' for name in others)}: "
            f"{len(self)} receivers, {count} samples every {self.sampling_interval:.6g} s{last}{state}\n"
            f" receivers: {names or 'none'}>"
        )
