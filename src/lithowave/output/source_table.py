"""The point sources of a run, as stored in its seismogram file for figures and waveform headers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lithowave.physics.moments import moment_magnitude, scalar_moment
from lithowave.projection import turned


@dataclass(frozen=True)
class SourceTable:
    """Positions and strengths of n point sources.

    names : n texts.
    positions : (n, 3), m.
    moments : (n, 6), N m, order xx, yy, zz, xy, xz, yz; zeros for a force.
    forces : (n, 3), N, order x, y, z; zeros for a moment tensor.
    onsets : (n,) s, times at which the sources begin to act.
    geographic : (n,) True if moments and forces are along true East and North, False along x and y; default: True.
    convergence : (n,) azimuth of y at the sources, degrees clockwise from true North; default: 0.
    """

    names: list[str]
    positions: np.ndarray
    moments: np.ndarray
    forces: np.ndarray
    onsets: np.ndarray
    geographic: np.ndarray = field(default_factory=lambda: np.ones(0, bool))
    convergence: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name, value in (("geographic", True), ("convergence", 0.0)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.names), value))

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def from_points(cls, points: Iterable[Any]) -> SourceTable:
        """Make a table from objects with `name`, `position`, and `moment` (6) or `force` (3); the other one is None.

        They are along x, y, z; those with `geographic` are turned to true East and North by their `convergence`.
        """
        points = list(points)

        def rows(field: str, width: int) -> np.ndarray:
            values = [getattr(point, field, None) for point in points]
            filled = [np.zeros(width) if value is None else value for value in values]
            return np.array(filled, dtype=float).reshape(len(points), width)

        names = [str(getattr(point, "name", "") or "") for point in points]
        functions = [getattr(point, "time_function", None) for point in points]
        onsets = [0.0 if function is None else max(0.0, float(function.support()[0])) for function in functions]
        geographic = np.array([getattr(point, "geographic", True) for point in points], bool)
        angles = np.array([getattr(point, "convergence", 0.0) for point in points], float)
        strengths = rows("moment", 6), rows("force", 3)
        on_grid = cls(names, rows("position", 3), *strengths, np.array(onsets), convergence=angles)
        return on_grid.turned(np.where(geographic, -angles, 0.0), geographic)

    def turned(self, angles: np.ndarray, geographic: np.ndarray) -> SourceTable:
        """Return sources turned counterclockwise about the vertical axis by angles (n,), degrees, to other axes."""
        moments, forces = turned(self.moments, angles), turned(self.forces, angles)
        return replace(self, moments=moments, forces=forces, geographic=geographic)

    def along_grid(self) -> SourceTable:
        """Return the sources with moments and forces along the axes x and y of the grid."""
        angles = np.where(self.geographic, self.convergence, 0.0)
        return self.turned(angles, np.zeros(len(self), bool)) if angles.any() else self

    def along_true_north(self) -> SourceTable:
        """Return the sources with moments and forces along true East and North; unchanged without a projection."""
        return self.turned(np.where(self.geographic, 0.0, -self.convergence), np.ones(len(self), bool))

    @property
    def onset(self) -> float:
        """Time at which the first source begins to act, s; 0 without sources."""
        return float(self.onsets.min()) if len(self) else 0.0

    @property
    def scalar_moments(self) -> np.ndarray:
        """(n,) M0, N m."""
        return scalar_moment(self.moments)

    @property
    def moment(self) -> np.ndarray:
        """(6,) sum of all moment tensors, N m."""
        return self.moments.sum(axis=0)

    @property
    def moment_magnitude(self) -> float | None:
        """Moment magnitude Mw of the sum; None without moment."""
        scalar = float(scalar_moment(self.moment))
        return moment_magnitude(scalar) if scalar > 0 else None

    @property
    def centroid(self) -> np.ndarray | None:
        """(3,) mean position weighted by strength (moments if there are any, else forces), m."""
        if not len(self):
            return None
        strengths = self.scalar_moments
        if not strengths.any():
            strengths = np.linalg.norm(self.forces, axis=1)
        if not strengths.any():
            strengths = np.ones(len(self))
        return strengths @ self.positions / strengths.sum()
