"""The traces of a run and of the data at one station, filtered alike, and their misfits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.output.attributes import UNITS
from lithowave.output.data_matching import ComparisonSettings, cut_trace
from lithowave.output.geometry import radial_direction
from lithowave.output.observed import ObservedTrace
from lithowave.output.resampling import interpolate
from lithowave.output.seismograms import QUANTITIES, Seismograms
from lithowave.verification.misfits import (
    FILTER_PERIODS,
    band_pass,
    correlation,
    differentiate,
    relative_l2,
    time_shift,
)

SAMPLES_PER_PERIOD = 10.0
"""Samples per period of the upper corner to which traces are refined before they are interpolated."""

LARGEST_RATIO = 1000.0
"""Ratio of the amplitudes of a station above which units are suspected."""

LARGEST_MEAN = 0.1
"""Mean of an observed trace, as a fraction of its maximum, above which it is reported."""


@dataclass(frozen=True)
class StationMisfits:
    """Misfits of one station.

    components : letters of the compared components. window : (start, end), s. relative_l2, correlation : over all
    components, before and after the shift. time_shift : s, positive if the run is late. amplitude_ratio : root mean
    square of the run divided by that of the data.
    """

    name: str
    components: str
    channels: tuple[str, ...]
    window: tuple[float, float]
    relative_l2: float
    correlation: float
    time_shift: float
    shifted_l2: float
    shifted_correlation: float
    amplitude_ratio: float
    component_l2: dict[str, float]


def _finer(interval: float, high: float) -> int:
    """Return the factor by which traces are refined, for SAMPLES_PER_PERIOD at the upper corner."""
    return max(1, int(np.ceil(SAMPLES_PER_PERIOD * high * interval)))


def filtered_run(run: Seismograms, row: int, settings: ComparisonSettings, high: float, end: float) -> np.ndarray:
    """Return the filtered traces (3, n) of a receiver up to `end` (s), E, N, Z or R, T, Z, refined by `_finer`.

    Before t = 0 the run is at rest, and is extended by zeros for the filter.
    """
    order = QUANTITIES.index(settings.quantity) - QUANTITIES.index(run.quantity)
    data = differentiate(np.asarray(run.data[row], dtype=float), run.sampling_interval, order)
    data = data[:, : int(np.ceil(end / run.sampling_interval - 1e-6)) + 1]
    if settings.rotate:
        data = _rotated(data, run, row)
    interval, finer = run.sampling_interval, _finer(run.sampling_interval, high)
    rest = int(np.ceil(FILTER_PERIODS / ((settings.low or high) * interval)))
    extended = np.concatenate([np.zeros((3, rest)), data], axis=-1)
    return band_pass(extended, interval, settings.low, high, finer)[:, rest * finer :]


def _rotated(data: np.ndarray, run: Seismograms, row: int) -> np.ndarray:
    """Return R, T, Z from E, N, Z: radial away from the source, transverse to the right of it."""
    angle = np.radians(radial_direction(run)[row])
    sine, cosine = np.sin(angle), np.cos(angle)
    return np.stack([data[0] * sine + data[1] * cosine, data[0] * cosine - data[1] * sine, data[2]])


@dataclass(frozen=True)
class Station:
    """The traces of the run and the observed traces of one station.

    Both are cut to the time that both cover before they are filtered, so that the filter continues both alike.
    """

    run: Seismograms
    row: int
    traces: dict[str, ObservedTrace]
    settings: ComparisonSettings
    high: float
    notes: list[str]

    @property
    def name(self) -> str:
        """Name of the receiver."""
        return self.run.names[self.row]

    def _samples(self, letter: str, time: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the time (s) of the first sample, and the samples without gaps around times on the axis of the run."""
        trace, settings = self.traces[letter], self.settings
        margin = settings.max_shift + FILTER_PERIODS / (settings.low or self.high)
        first, data = cut_trace(trace, settings, margin)
        usable = _around(data, (np.array([time[0], time[-1]]) - first) / trace.interval)
        return first + usable.start * trace.interval, data[usable]

    def _end(self, letter: str, time: np.ndarray) -> float:
        """Return the time (s) of the last of these samples."""
        first, data = self._samples(letter, time)
        return first + (len(data) - 1) * self.traces[letter].interval

    def observed(self, letter: str, time: np.ndarray, end: float) -> np.ndarray:
        """Return the filtered observed trace up to `end` at times on the axis of the run, s; NaN beyond its ends."""
        interval = self.traces[letter].interval
        first, data = self._samples(letter, time)
        data = data[: max(2, int(np.ceil((end - first) / interval - 1e-6)) + 1)]
        finer = _finer(interval, self.high)
        filtered = band_pass(data, interval, self.settings.low, self.high, finer)
        places = (time - first) / interval * finer
        inside = (places >= -1e-6) & (places <= len(filtered) - 1 + 1e-6)
        values = np.full(len(time), np.nan)
        values[inside] = interpolate(filtered, np.clip(places[inside], 0.0, len(filtered) - 1.0))
        return values

    def pair(self, time: np.ndarray, shift: float) -> tuple[str, np.ndarray, np.ndarray] | None:
        """Return component letters and the traces (n, n_samples) of run and data, with the data `shift` s later.

        Both are NaN where one of the components has no sample.
        """
        letters = [letter for letter in ("ENZ" if not self.settings.rotate else "RTZ") if letter in self.traces]
        end = min(float(self.run.time[-1]), *(self._end(letter, time - shift) + shift for letter in self.traces))
        observed = {letter: self.observed(letter, time - shift, end - shift) for letter in self.traces}
        if self.settings.rotate and {"E", "N"} <= self.traces.keys() and not {"R", "T"} & self.traces.keys():
            motion = np.stack([observed["E"], observed["N"], observed.get("Z", np.zeros(len(time)))])
            observed |= dict(zip("RT", _rotated(motion, self.run, self.row), strict=False))
            letters = ["R", "T", *letters]
        elif not letters:
            return None
        axes = "RTZ" if self.settings.rotate else "ENZ"
        places = time / self.run.sampling_interval * _finer(self.run.sampling_interval, self.high)
        rows = [axes.index(letter) for letter in letters]
        synthetic = filtered_run(self.run, self.row, self.settings, self.high, end)[rows]
        ours = interpolate(synthetic, np.clip(places, 0.0, synthetic.shape[-1] - 1.0))
        theirs = np.stack([observed[letter] for letter in letters])
        missing = ~np.isfinite(theirs).all(axis=0)
        ours[:, missing], theirs[:, missing] = np.nan, np.nan
        return "".join(letters), ours, theirs

    def misfits(self, time: np.ndarray, letters: str, ours: np.ndarray, theirs: np.ndarray) -> StationMisfits:
        """Return the misfits, and add notes on amplitudes and times."""
        covered = np.isfinite(theirs[0])
        a, b = ours[:, covered], theirs[:, covered]
        interval = float(time[1] - time[0])
        shift = time_shift(a, b, interval, self.settings.max_shift)
        shifted = self.pair(time, shift)
        assert shifted is not None
        both = np.isfinite(shifted[2][0])
        c, d = shifted[1][:, both], shifted[2][:, both]
        ratio = float(np.linalg.norm(a) / np.linalg.norm(b)) if b.any() else np.inf
        self._remark(ratio, shift, interval)
        return StationMisfits(
            self.name, letters, tuple(trace.code for trace in self.traces.values()),
            (float(time[covered][0]), float(time[covered][-1])), relative_l2(a, b), correlation(a, b), shift,
            relative_l2(c, d), correlation(c, d), ratio,
            {letter: float(relative_l2(x, y)) for letter, x, y in zip(letters, a, b, strict=True)},
        )  # fmt: skip

    def _remark(self, ratio: float, shift: float, interval: float) -> None:
        if not 1.0 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
            self.notes.append(
                f"Warning: {self.name}: the amplitude of the run is {ratio:.3g} times that of the data. Check the "
                f"units: the data must be {self.settings.quantity} in {UNITS[self.settings.quantity]}, without the "
                "instrument response."
            )
        if abs(shift) >= self.settings.max_shift - interval and self.settings.max_shift > interval:
            self.notes.append(f"{self.name}: the time shift is at its limit, {self.settings.max_shift:g} s.")
        for trace in self.traces.values():
            data = cut_trace(trace, self.settings, 0.0)[1]
            if self.settings.low is None and abs(data.mean()) > LARGEST_MEAN * np.abs(data).max():
                text = f"{self.name}: the mean of {trace.channel} is {data.mean():.3g} {UNITS[self.settings.quantity]}"
                self.notes.append(f"{text}; remove it with --fmin.")


def _around(data: np.ndarray, places: np.ndarray) -> slice:
    """Return the samples without NaN around the places, so that a gap far from the window does not matter."""
    missing = np.flatnonzero(~np.isfinite(data))
    before, after = missing[missing < places[0]], missing[missing > places[1]]
    return slice(int(before.max()) + 1 if before.size else 0, int(after.min()) if after.size else len(data))
