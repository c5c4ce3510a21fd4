"""Times at which sources begin to act in a run, and latest arrival times of their waves at the receivers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lithowave.description.domain import Domain
from lithowave.description.simulation import Simulation
from lithowave.description.sources import PointSource
from lithowave.errors import InputError, SelfCheckError

ACTED = 1e-6  # of the largest amplitude in the run: a source that has reached it has acted
SMALLEST = 1e-15  # N or N m / s: waves of weaker sources may vanish in single precision
STEPS = 5  # between the onset of a source and a velocity that differs from zero
SLOWER = 1.5  # upper limit of the arrival time over that along the straight ray, which may leave the subsurface
RAY_POINTS = 200
MAX_SOURCES = 100  # sources whose arrival times are compared
RADIATED = 1e-6  # |M g| over |M|, below which a moment tensor M radiates nothing in the direction g


@dataclass(frozen=True)
class Onsets:
    """The sources whose weights act, and the steps at which their time functions are evaluated.

    sources : all point sources. totals : (sources, 9) see `Placement`. acts : (sources,) see `Placement`.
    """

    sources: Sequence[PointSource]
    totals: np.ndarray
    acts: np.ndarray
    time_step: float
    steps: int

    def onset(self, number: int) -> float:
        """Time, s, of the first step at which a source has acted; infinite if it does not act in this run."""
        source = self.sources[number]
        if not self.acts[number] or source.time_function.support(ACTED)[0] > self.time_step * self.steps:
            return math.inf
        function = source.time_function.rate if source.force is None else source.time_function.amplitude
        values = np.abs(function(self.time_step * np.arange(self.steps + 1)))
        peak = values.max()
        if not peak * np.abs(self.totals[number]).max() * ACTED > SMALLEST:
            return math.inf
        return self.time_step * int(np.argmax(values >= ACTED * peak))

    def acted(self, time: float) -> tuple[PointSource, float] | None:
        """A source that has acted for some steps at this time, s, and its onset; None if there is none."""
        for number in np.flatnonzero(self.acts):
            if (onset := self.onset(number)) + STEPS * self.time_step <= time:
                return self.sources[number], onset
        return None

    def radiating(self) -> list[tuple[int, float]]:
        """Return up to 100 sources that act in this run, and their onsets."""
        found = ((int(number), self.onset(number)) for number in np.flatnonzero(self.acts)[:MAX_SOURCES])
        return [(number, onset) for number, onset in found if onset < math.inf]


def require_motion(onsets: Onsets, step: int) -> None:
    """Raise an error if a source has acted by this step, at which all velocities are zero.

    Raises
    ------
    SelfCheckError : a source has acted for some steps.
    """
    found = onsets.acted(step * onsets.time_step)
    if found is not None:
        (source, onset), time = found, step * onsets.time_step
        raise SelfCheckError(
            f"at step {step} (t = {time:.6g} s) all velocities are zero, although the source "
            f"{source.name or source.where} has acted since t = {onset:.6g} s."
        )


def explain_zero_seismograms(onsets: Onsets, simulation: Simulation, faces: dict[str, Any]) -> str:
    """Return a warning if all seismograms of a run may be zero because no wave can have reached a receiver.

    Parameters
    ----------
    simulation : its receivers, material and domain.
    faces : boundary conditions from the summary of the plan.

    Raises
    ------
    SelfCheckError : a P wave must have reached a receiver.
    """
    end = onsets.steps * onsets.time_step
    positions = _free_positions(simulation, faces)
    earliest, latest = math.inf, math.inf
    for number, onset in onsets.radiating():
        distance = _distances(simulation.domain, onsets.sources[number], positions)
        if not np.isfinite(distance).any():
            continue
        nearest = int(np.argmin(distance))
        earliest = min(earliest, onset + distance[nearest] / simulation.material_extremes["vp_max"])
        ray = straight_time(simulation, onsets.sources[number].position, positions[nearest])
        latest = min(latest, onset + SLOWER * ray + STEPS * onsets.time_step)
    if latest < end:
        raise SelfCheckError(
            f"all seismograms are zero, although a P wave has reached a receiver by t = {latest:.6g} s; the "
            f"run ends at t = {end:.6g} s."
        )
    when = "no source acts in this run" if earliest == math.inf else f"the first P wave arrives after {earliest:.4g} s"
    return (
        f"duration: all seismograms are zero; {when} and the run ends at {end:.4g} s. Increase the duration, "
        "or check the positions of sources and receivers."
    )


def straight_time(simulation: Simulation, start: ArrayLike, end: ArrayLike) -> float:
    """Travel time, s, of a P wave along the straight line between two points, m."""
    start, end = (simulation.domain.cartesian(point) for point in (start, end))
    line = start + (end - start) * ((np.arange(RAY_POINTS) + 0.5) / RAY_POINTS)[:, None]
    if simulation.domain.chunk is not None:
        line = np.column_stack(simulation.domain.chunk.map.from_cartesian(line))
    try:
        speed = simulation.material.sample(*line.T)[0]
    except InputError:  # groups of a mesh, which only the mesh can locate
        speed = np.array(simulation.material_extremes["vp_min"])
    return float(np.linalg.norm(end - start) * np.mean(1.0 / speed))


def _distances(domain: Domain, source: PointSource, positions: np.ndarray) -> np.ndarray:
    """Return the distances (receivers,), m; infinite for receivers in directions without radiation."""
    arms = domain.cartesian(positions) - domain.cartesian(source.position)
    if domain.chunk is not None:  # to East, North and Up at the source
        arms = arms @ domain.chunk.map.axes(*np.array(source.position[:2])).T
    distance = np.linalg.norm(arms, axis=1)
    if source.moment is None:
        return distance
    xx, yy, zz, xy, xz, yz = source.moment
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    radiated = np.linalg.norm(arms @ tensor, axis=1)
    return np.where(radiated > RADIATED * np.linalg.norm(tensor) * distance, distance, np.inf)


def _free_positions(simulation: Simulation, faces: dict[str, Any]) -> np.ndarray:
    """Return the positions (receivers, 3), m, of the receivers that are not on a rigid face."""
    positions = simulation.acquisition.receiver_positions
    if "rigid" in faces:  # of a mesh file: anywhere
        return positions[:0]
    domain = simulation.domain
    for axis, letter in enumerate("xyz"):
        low, high = getattr(domain, letter)
        for side, end in (("min", low), ("max", high)):
            if faces.get(f"{letter}_{side}") == "rigid":
                positions = positions[np.abs(positions[:, axis] - end) > 1e-6 * (high - low)]
    return positions
