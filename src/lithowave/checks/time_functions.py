"""Warnings about time functions: cut off, rough, above the resolved frequencies, too late, or longer than the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.sources import ONSET_LIMIT, PointSource
from lithowave.description.validation import percent

if TYPE_CHECKING:
    from lithowave.description.experiment import Experiment


_SMALLEST_JUMP = 3e-4
"""Jump of a time function, as a fraction of its peak, from which on there is a warning."""

_UNRESOLVED_LIMIT = 0.2
"""Unresolved part of the radiated velocity from which on there is a warning. A Gaussian whose spectrum falls to 5% at
the resolved frequency has 0.04."""

_UNRELEASED_LIMIT = 0.01
"""Part of the moment, or of the peak of a force, that a simulation does not reach, from which on there is a warning."""

_SPECTRUM_SAMPLES = (1 << 13, 1 << 20)  # fewest, most


def time_function_warnings(experiment: Experiment, sources: list[tuple[str, bool, PointSource]]) -> Iterator[str]:
    """Yield one warning for each kind of defect, with the number of sources that have it and the worst of them.

    Parameters
    ----------
    sources : label, whether it is from a file, and the source. The delay of a file is chosen so that at most
        `ONSET_LIMIT` of the peak is cut off.
    """
    highest = experiment.resolved_frequency
    groups = _groups(highest, experiment.duration)
    known: dict[tuple[int, bool], Roughness] = {}
    for label, from_file, source in sources:
        key = (id(source.time_function), source.moment is not None)
        if key not in known:  # many sources may share one function
            known[key] = roughness(source, highest, experiment.duration)
        found = known[key]
        groups["cut"].add(label, found, ONSET_LIMIT if from_file else _SMALLEST_JUMP)
        groups["jump"].add(label, found, _SMALLEST_JUMP)
        groups["reaches"].add(label, found, math.inf if highest is None else highest * (1.0 + 1e-6))
        groups["unresolved"].add(label, found, _UNRESOLVED_LIMIT)
        groups["start"].add(label, found, math.nextafter(experiment.duration, 0.0))
        groups["unreleased"].add(label, found, _UNRELEASED_LIMIT)
    for group in groups.values():
        yield from group.sentences(len(sources))


def _groups(highest: float | None, duration: float) -> dict[str, _Group]:
    """Return the kinds of defects, by the measure of `Roughness` in which they show."""
    limit = f"{highest or 0.0:.3g} Hz"
    above = "high frequencies" if highest is None else f"frequencies above the {limit} that the grid resolves"
    kinds = (
        _Group(
            "cut", "it is cut off at time 0, before which it reaches {value} of its peak; this jump radiates " + above,
            "are cut off at time 0, before which they reach up to {value} of their peak; these jumps radiate " + above,
            "Use a longer delay.", percent,
        ),
        _Group(
            "jump", "{kind} jumps by {value} of its peak at t = {time:.4g} s, which radiates " + above,
            "jump by up to {value} of their peak, which radiates " + above,
            "Use a smooth shape (gaussian, smoothed_step), or low-pass the seismograms.", percent,
        ),
        _Group(
            "reaches", f"its spectrum falls to 5% only at {{value}}, above the {limit} that the grid resolves",
            f"have spectra that fall to 5% only at up to {{value}}, above the {limit} that the grid resolves",
            "The higher part will be dispersed.", lambda value: f"{value:.3g} Hz",
        ),
        _Group(
            "unresolved", "{kind} has corners, so that its spectrum falls slowly: {value} of the radiated velocity "
            f"(relative L2 norm) has {above}", "have corners, so that their spectra fall slowly: up to {value} of the "
            f"radiated velocity (relative L2 norm) has {above}",
            f"Low-pass the seismograms at {limit}, or use a smooth shape (gaussian, smoothed_step).", percent,
        ),
        _Group(
            "start", "it begins at {value}, after the end of the simulation",
            "begin at up to {value}, after the end of the simulation", "Use a longer duration or a shorter delay.",
            lambda value: f"{value:g} s",
        ),
        _Group(
            "unreleased", f"it lasts until t = {{end:.4g}} s, and the simulation ends at t = {duration:g} s: {{value}} "
            "of {whole} is missing", f"last longer than the simulation, which ends at t = {duration:g} s: up to "
            "{value} of their moment, or of the peak of a force, is missing",
            "Use a longer duration or a shorter delay.", percent,
        ),
    )  # fmt: skip
    return {group.measure: group for group in kinds}


class _Group:
    """Sources with one kind of defect; a sentence states the number of them, the first and the worst.

    Parameters
    ----------
    measure : name of the number in `Roughness`. one, several : predicates of one and of several time functions. show :
        text of the number.
    """

    def __init__(self, measure: str, one: str, several: str, remedy: str, show: Callable[[float], str]) -> None:
        self.measure, self.one, self.several, self.remedy, self.show = measure, one, several, remedy, show
        self.found: list[tuple[str, Roughness]] = []

    def value(self, found: Roughness) -> float:
        """Return the number that makes the defect."""
        return getattr(found, self.measure)

    def add(self, label: str, found: Roughness, limit: float) -> None:
        """Count a source if its number is above a limit."""
        if self.value(found) > limit:
            self.found.append((label, found))

    def sentences(self, total: int) -> Iterator[str]:
        """Yield the warning; none without sources."""
        if not self.found:
            return
        label, worst = max(self.found, key=lambda item: self.value(item[1]))
        words = {**vars(worst), "value": self.show(self.value(worst)), "time": worst.jump_time}
        if len(self.found) == 1:
            yield f"{label}.time_function: {self.one.format(**words)}. {self.remedy}"
        else:
            yield (
                f"sources: {len(self.found)} of {total} time functions {self.several.format(**words)} (first: "
                f"{self.found[0][0]}, worst: {label}). {self.remedy}"
            )


@dataclass(frozen=True)
class Roughness:
    """Measures of a time function of some kind.

    cut : part of the peak reached before time 0. jump : largest jump, as a fraction of the peak, at jump_time, s.
    reaches : frequency at which the spectrum falls to 5%, Hz; 0 if it jumps. unresolved : part of the radiated velocity
    above the resolved frequency; 0 if one of the others shows that there is much of it. start, end : s. unreleased :
    part of `whole` (the moment, or the peak of a force) that the experiment does not reach; 0 if it begins later.
    """

    kind: str
    cut: float
    jump: float
    jump_time: float
    reaches: float
    unresolved: float
    start: float
    end: float
    unreleased: float
    whole: str


def roughness(source: PointSource, highest: float | None, duration: float) -> Roughness:
    """Return the measures of a source's time function.

    highest : resolved frequency, Hz. duration : of the experiment, s.
    """
    function = source.time_function
    jump, time = largest_jump(source)
    reaches = 0.0 if jump > _SMALLEST_JUMP else function.maximum_frequency()
    unresolved = 0.0
    if highest is not None and jump <= _SMALLEST_JUMP and reaches <= highest * (1.0 + 1e-6):
        unresolved = unresolved_velocity(source, highest)
    start, end = function.support()
    return Roughness(
        function.kind, function.onset_amplitude(), jump, time, reaches, unresolved, start, end,
        unreleased(source, duration) if start < duration < end else 0.0,
        "its moment" if source.moment is not None else "the peak of the force",
    )  # fmt: skip


def unreleased(source: PointSource, duration: float) -> float:
    """Return the part of the moment, or of the peak of a force, that is not reached until a time (s)."""
    function = source.time_function
    if source.moment is not None:
        return float(abs(function.final - function.released(np.array([duration]))[0]))
    start, end = function.support()
    reached, peak = (
        np.abs(function.amplitude(np.linspace(start, stop, 4001))).max() for stop in (min(duration, end), end)
    )
    return float(1.0 - reached / peak)


def _history(source: PointSource) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function of time to which the radiated displacement is proportional."""
    function = source.time_function
    return function.rate if source.moment is not None else function.amplitude


def largest_jump(source: PointSource) -> tuple[float, float]:
    """Return the largest jump of a time function from t = 0 on at its beginning or end, as a fraction of its peak, and
    its time in s."""
    start, end = source.time_function.support()
    step = 1e-9 * (end - start)
    values = np.abs(_history(source)(np.linspace(start, end, 4001)))
    times = [time for time in (start, end) if time >= 0.0]
    sides = np.array([[time - step, time + step] for time in times]).reshape(-1, 2)
    jumps = np.abs(np.diff(_history(source)(sides), axis=1)).ravel() / values.max()
    first = int(jumps.argmax()) if times else 0
    return (float(jumps[first]), times[first]) if times else (0.0, 0.0)


def unresolved_velocity(source: PointSource, frequency: float) -> float:
    """Return the part of the far-field velocity above a frequency (Hz), as a ratio of L2 norms.

    The velocity is proportional to the time derivative of the moment rate or of the force.
    """
    frequencies, energy = _velocity_spectrum(*_radiated_velocity(source, frequency))
    return float(np.sqrt(energy[frequencies > frequency].sum() / energy.sum()))


def velocity_outside(source: PointSource, band: tuple[float, float], highest: float | None) -> float:
    """Return the part of the far-field velocity outside a band (Hz), as a ratio of L2 norms.

    Frequencies above the highest one, which the grid does not resolve, are not counted; None: all are.
    """
    step, velocity = _radiated_velocity(source, band[1])
    frequencies, energy = _velocity_spectrum(step, velocity)
    energy[frequencies > (np.inf if highest is None else highest * (1.0 + 1e-6))] = 0.0
    outside = energy[frequencies > band[1] * (1.0 + 1e-6)].sum() + _energy_below(band[0], step, velocity)
    return float(np.sqrt(min(outside / max(energy.sum(), np.finfo(float).tiny), 1.0)))


def _radiated_velocity(source: PointSource, frequency: float) -> tuple[float, np.ndarray]:
    """Return a time step, s, and samples of the far-field velocity that resolve a frequency."""
    start, end = source.time_function.support(1e-6)
    margin = 1e-2 * (end - start)
    count = int(np.clip(16.0 * frequency * (end - start), *_SPECTRUM_SAMPLES))
    times = np.linspace(start - margin, end + margin, count + 1)
    return times[1] - times[0], np.diff(_history(source)(times))


def _velocity_spectrum(step: float, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies, Hz, at four to the inverse of the duration, and the energy density of samples."""
    length = 4 * velocity.size
    return np.fft.rfftfreq(length, step), np.abs(np.fft.rfft(velocity, length)) ** 2


def _energy_below(frequency: float, step: float, velocity: np.ndarray) -> float:
    """Return the energy below a frequency, in units of the sum over `_velocity_spectrum`.

    The midpoint rule over a spectrum whose details are as wide as the inverse of the duration: the frequency itself may
    lie below the first one of the discrete spectrum.
    """
    duration = velocity.size * step
    nodes = 8 + int(4.0 * frequency * duration)
    frequencies = (np.arange(nodes) + 0.5) * (frequency / nodes)
    coarse = max(1, int(duration / (64.0 * step * (1.0 + frequency * duration))))  # samples in a sum
    sums = np.add.reduceat(velocity, np.arange(0, velocity.size, coarse))
    waves = np.exp(-2j * np.pi * coarse * step * np.outer(frequencies, np.arange(sums.size)))
    return float(np.sum(np.abs(waves @ sums) ** 2) * 4.0 * duration * frequency / nodes)
