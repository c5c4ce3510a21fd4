"""Comparison of a run with observed seismograms, station by station.

Traces are matched by network, station and component, and by the location code if the receiver has one. Records with
defects are reported: missing samples, dead channels, filled gaps, clipping. Both are cut to the time that both cover,
filtered alike (band-pass with zero phase), sampled at the same times, those of the coarser of the two, and cut to the
same window. The time shift of a station is that of the largest cross-correlation of all its components, and misfits are
given before and after it.

If the observed quantity differs from that of the run, the run is differentiated or integrated, since it is at rest at
its start and free of noise. The instrument response is not removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.compare.misfits import FILTER_PERIODS, band_pass, correlation, differentiate, relative_l2, time_shift
from lithowave.compare.results import DataMisfits, StationMisfits
from lithowave.compare.runs import interpolate, resolved_frequency
from lithowave.errors import InputError
from lithowave.labels import first_names, shifted_time
from lithowave.output.attributes import UNITS
from lithowave.output.geometry import radial_direction
from lithowave.output.observed import ObservedTrace, joined, nanoseconds, read_observed
from lithowave.output.seismograms import QUANTITIES, Seismograms, load_seismograms

if TYPE_CHECKING:
    from obspy import Trace

SHORTEST_STRETCH, STRETCH_FRACTION = 10, 0.05
"""Constant samples within a record that count as a filled gap: number, and fraction of the record."""

PLATEAU, PLATEAU_SAMPLES, DISTINCT_VALUES = 3, 5, 50
"""Clipping: equal samples in a row at the largest or smallest value, their total, and the minimum number of different
values in the record (records of a few counts have such plateaus without clipping)."""


def find_defect(data: np.ndarray, interval: float) -> str:
    """Return why samples (n,) at an interval (s) should not be compared, as a clause; empty if no defect was found."""
    missing = ~np.isfinite(data)
    if missing.any():
        return f"it has a gap of {np.count_nonzero(missing) * interval:.3g} s"
    if len(data) < 2 or np.ptp(data) == 0.0:
        return "it is constant"
    starts, lengths = _runs(data)
    values = data[starts]
    for level in (values.max(), values.min()):
        plateau = lengths[(values == level) & (lengths >= PLATEAU)]
        if level != 0.0 and plateau.sum() >= PLATEAU_SAMPLES and len(np.unique(values)) >= DISTINCT_VALUES:
            return f"it is clipped at {level:.4g} in {plateau.sum()} samples"
    inner = lengths[1:-1]
    limit = max(SHORTEST_STRETCH, STRETCH_FRACTION * len(data))
    if len(inner) and inner.max() >= limit:
        return f"it is constant for {inner.max() * interval:.3g} s within the record"
    for end, what in ((0, "before"), (-1, "after")):
        if lengths[end] >= limit and data[starts[end]] != 0.0:
            return f"it is constant for {lengths[end] * interval:.3g} s {what} the other samples"
    return ""


def _runs(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first indices and the lengths of the runs of equal samples."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(data) != 0.0) + 1])
    return starts, np.diff(np.concatenate([starts, [len(data)]]))


SHORTEST_OVERLAP = 0.5
"""Fraction of the window that an observed trace must cover."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Checked options. start : ns since 1970 of t = 0. frequency : upper corner, or None to derive it."""

    quantity: str
    start: int
    low: float | None
    high: float | None
    window: tuple[float, float]
    max_shift: float
    channels: tuple[str, ...]
    rotate: bool


def match_traces(
    run: Seismograms, traces: list[ObservedTrace], settings: ComparisonSettings, notes: list[str]
) -> tuple[list[tuple[int, dict[str, ObservedTrace]]], list[str]]:
    """Return (row of the receiver, traces by component) of the stations with usable traces, and those without data."""
    stations: dict[tuple[str, str], dict[str, list[ObservedTrace]]] = {}
    for trace in traces:
        if _selected(trace, settings.channels):
            channels = stations.setdefault((trace.network, trace.station), {})
            channels.setdefault(f"{trace.location}.{trace.channel}", []).append(trace)
    found, missing = [], []
    codes = zip(run.networks, run.stations, run.locations, strict=True)
    for row, (network, station, location) in enumerate(codes):
        channels = stations.get((network, station), {})
        if location:
            channels = {code: each for code, each in channels.items() if code.startswith(f"{location}.")}
        if not channels:
            missing.append(run.names[row])
            continue
        usable = dict(_usable(run.names[row], channels, settings, notes))
        if usable:
            found.append((row, usable))
    known = set(zip(run.networks, run.stations, strict=True))
    unknown = sorted({f"{network}.{station}" for network, station in stations} - {".".join(pair) for pair in known})
    if missing:
        notes.append(f"{len(missing)} receivers have no data: {first_names(missing)}.")
    if unknown:
        notes.append(f"{len(unknown)} stations of the data are not in the run: {first_names(unknown)}.")
    return found, missing


def _selected(trace: ObservedTrace, patterns: Sequence[str]) -> bool:
    codes = trace.channel, f"{trace.location}.{trace.channel}"
    return not patterns or any(fnmatchcase(code, pattern) for code in codes for pattern in patterns)


def _usable(
    name: str, channels: dict[str, list[ObservedTrace]], settings: ComparisonSettings, notes: list[str]
) -> Iterator[tuple[str, ObservedTrace]]:
    """Yield the trace of each component; notes state why others are not used."""
    wanted = "RTZEN" if settings.rotate else "ENZ"
    components: dict[str, list[str]] = {}
    for code in channels:
        components.setdefault(code[-1:], []).append(code)
    others = sorted(code for letter, codes in components.items() if letter not in wanted for code in codes)
    if others:
        notes.append(f"{name}: {_code_names(others)} not used: the orientation is not {', '.join(wanted)}.")
    for letter in wanted:
        codes = components.get(letter, [])
        if len(codes) > 1:
            several = f"several channels for {letter}, {_code_names(codes)}"
            notes.append(f"{name}: {several}: none used; select with --channel.")
        elif codes:
            record = joined(channels[codes[0]])
            trouble = record if isinstance(record, str) else _trouble(record, settings)
            if trouble:
                notes.append(f"{name}: {codes[0].lstrip('.')} not used: {trouble}.")
            else:
                assert isinstance(record, ObservedTrace)
                yield letter, record


def _trouble(trace: ObservedTrace, settings: ComparisonSettings) -> str:
    """Return why a trace cannot be compared in the window; empty if it can."""
    start, end = settings.window
    first, last = trace.seconds_from(settings.start)
    if min(last, end) - max(first, start) < SHORTEST_OVERLAP * (end - start):
        return f"it covers t = {first:.6g} to {last:.6g} s, less than half of the window"
    return find_defect(cut_trace(trace, settings, settings.max_shift)[1], trace.interval)


def cut_trace(trace: ObservedTrace, settings: ComparisonSettings, margin: float) -> tuple[float, np.ndarray]:
    """Return the time of the first sample on the axis of the run, and the samples up to a margin around the window."""
    first, _ = trace.seconds_from(settings.start)
    low = max(0, int(np.floor((settings.window[0] - margin - first) / trace.interval)))
    high = int(np.ceil((settings.window[1] + margin - first) / trace.interval)) + 1
    return first + low * trace.interval, trace.data[low:high]


def _code_names(codes: Sequence[str]) -> str:
    return first_names([code.lstrip(".") for code in codes])


SAMPLES_PER_PERIOD = 10.0
"""Samples per period of the upper corner to which traces are refined before they are interpolated."""

LARGEST_RATIO = 1000.0
"""Ratio of the amplitudes of a station above which units are suspected."""

LARGEST_MEAN = 0.1
"""Mean of an observed trace, as a fraction of its maximum, above which it is reported."""


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


OF_NYQUIST = 0.8
"""Largest default upper corner as a fraction of the Nyquist frequency of the coarser traces."""

_ANY_TIME = "2000-01-01T00:00:00"
"""Origin time of a run without one, if the data state times after the origin time."""

LARGEST_SHIFT = 0.25
"""Default limit of the time shift as a fraction of the window."""


class DataComparison(DataMisfits):
    """A run and observed seismograms at n stations.

    Attributes
    ----------
    label_run, label_data : names of the run and of the data.
    quantity, units : of the traces.
    band : corners of the filter, Hz; the lower one is None without a high-pass.
    components : letters of the axis of components: E, N, Z or R, T, Z.
    time : (n_samples,), s, on the time axis of the run. start_time : UTC time of t = 0.
    data_run, data_observed : (n, 3, n_samples) in `units`; NaN for components and times that were not compared.
    stations : misfits, one per station.
    missing : receivers of the run without data.
    notes : sentences on traces and stations that were not used, and on differences.
    shortfall : whether the run is incomplete: see `Seismograms.shortfall`.
    """

    def figure(self, path: str | Path) -> Path:
        """Draw the observed traces, those of the run, and the misfits to the file `path`; return the path."""
        from lithowave.figures.comparisons import data_figure

        return data_figure(self, path)


def compare_data(
    run: str | Path, observed: str | Path | Iterable[Trace], *, quantity: str | None = None,
    origin_time: str | None = None,
    min_frequency: float | None = None, max_frequency: float | None = None, start: float | None = None,
    end: float | None = None, max_shift: float | None = None, channels: Sequence[str] = (), rotate: bool = False,
) -> DataComparison:  # fmt: skip
    """Compute the misfits of a run relative to observed seismograms.

    Parameters
    ----------
    run : the run folder, or its ``seismograms.h5``.
    observed : a file or folder of MiniSEED, SAC, SEG-Y, ASDF or text of SPECFEM (``.semd``, ``.semv``, ``.sema``, with
        times after the origin time), or an ObsPy Stream; in m, m/s or m/s^2. Components E and N are those of true East
        and North, to which components of the run along the axes of the grid are turned.
    quantity : of the data: ``displacement``, ``velocity`` or ``acceleration``; default: that of the run, or that which
        the files of SPECFEM have.
    origin_time : UTC origin time of the event in ISO 8601; default: that of the run, which has one if its source is
        from a file.
    min_frequency, max_frequency : corners of the filter, Hz; default: no high-pass, and the maximum frequency that the
        run resolves, at most 0.8 of the Nyquist frequency.
    start, end : window on the time axis of the run, s; default: the entire run.
    max_shift : largest time shift, s; default: a quarter of the window.
    channels : patterns such as ``HH?`` or ``00.BH?`` that select channels; default: all.
    rotate : compare radial and transverse components instead of E and N, relative to the centroid of the sources.

    Returns
    -------
    DataComparison : misfits, traces, and notes on all that was not used.

    Raises
    ------
    InputError : no trace can be compared, the origin time is unknown, or an option is out of range.
    OutputError : the run has no seismograms. MissingPackageError : ObsPy, to read the data.
    """
    seismograms, traces, notes = _loaded(run, observed)
    quantity, traces = _of_quantity(quantity, seismograms.quantity, traces, notes)
    if origin_time is None and seismograms.start_time is None and all(trace.after_origin for trace in traces):
        origin_time = _ANY_TIME
    settings = _settings(
        seismograms, quantity, origin_time, (min_frequency, max_frequency), (start, end), max_shift, channels, rotate
    )
    traces = _after_origin(traces, settings, seismograms, notes)
    label = str(observed) if isinstance(observed, (str, Path)) else "an ObsPy Stream"
    found, missing = match_traces(seismograms, traces, settings, notes)
    if not found:
        raise InputError(
            label, "no trace can be compared with the run", "matched are network, station and component",
            " ".join(notes) or f"the run has {', '.join(seismograms.names[:3])}",
        )  # fmt: skip
    interval = max(seismograms.sampling_interval, *(t.interval for _, each in found for t in each.values()))
    high = _upper_corner(settings, resolved_frequency(run), interval, notes)
    time = _times(settings.window, interval)
    data_run, data_observed, stations = _compared(seismograms, found, settings, high, time, notes)
    start_time = _start_time(seismograms, origin_time)
    return DataComparison(
        str(run), label, settings.quantity, UNITS[settings.quantity], (settings.low, high),
        "RTZ" if rotate else "ENZ", time, start_time, data_run, data_observed, stations, missing, notes,
        seismograms.shortfall,
    )  # fmt: skip


def _loaded(
    run: str | Path, observed: str | Path | Iterable[Trace]
) -> tuple[Seismograms, list[ObservedTrace], list[str]]:
    """Return the seismograms of the run, along true North, the observed traces, and notes on both."""
    seismograms = load_seismograms(run)
    traces, notes = read_observed(observed)
    if seismograms.north_azimuth.any():
        seismograms = seismograms.along_true_north()
        notes.append("Components along the axes x and y of the grid were turned to true East and North, those of data.")
    if seismograms.shortfall:
        notes.append(f"The run is {seismograms.shortfall}.")
    return seismograms, traces, notes


def _after_origin(
    traces: list[ObservedTrace], settings: ComparisonSettings, seismograms: Seismograms, notes: list[str]
) -> list[ObservedTrace]:
    """Return the traces with the absolute start of those whose times count from the origin time, and add a note."""
    if any(trace.after_origin for trace in traces):
        notes.append(
            "Times of SPECFEM were taken as those after the origin time; its own zero is the centroid time of the "
            "earliest source, so that time shifts contain the time shift of that source."
        )
    origin = settings.start + round((seismograms.origin_delay or 0.0) * 1e9)
    return [replace(one, start=one.start + origin) if one.after_origin else one for one in traces]


def _start_time(seismograms: Seismograms, origin_time: str | None) -> str:
    """Return the text of the time at which the run starts."""
    shift = seismograms.origin_delay or 0.0
    if origin_time is _ANY_TIME:
        return f"{shift:g} s before the origin time" if shift else "the origin time"
    return str(seismograms.start_time if origin_time is None else shifted_time(origin_time, -shift))


def _of_quantity(
    quantity: str | None, of_run: str, traces: list[ObservedTrace], notes: list[str]
) -> tuple[str | None, list[ObservedTrace]]:
    """Return the quantity of the data, and the traces that have it or do not state one."""
    stated = sorted({trace.quantity for trace in traces if trace.quantity})
    if not stated:
        return quantity, traces
    if quantity is None:
        quantity = stated[0] if len(stated) == 1 else of_run
    kept = [trace for trace in traces if trace.quantity in ("", quantity)]
    if not kept:
        got = f"the data have {' and '.join(stated)}, not {quantity}"
        raise InputError("--observed-quantity", got, f"allowed: {', '.join(stated)}")
    if len(kept) < len(traces):
        notes.append(f"{len(traces) - len(kept)} traces of another quantity than {quantity} were not used.")
    return quantity, kept


def _settings(
    run: Seismograms,
    quantity: str | None,
    origin_time: str | None,
    band: tuple[float | None, float | None],
    window: tuple[float | None, float | None],
    max_shift: float | None,
    channels: Sequence[str],
    rotate: bool,
) -> ComparisonSettings:
    quantity = quantity or run.quantity
    if quantity not in QUANTITIES:
        raise InputError("--observed-quantity", f"{quantity!r} is not a quantity", f"allowed: {', '.join(QUANTITIES)}")
    if origin_time is None and run.start_time is None:
        raise InputError(
            "--origin-time", "the event of the run has no origin time", "it is required to place the data in time",
            "give the UTC time, for example 2008-07-29T18:42:15.7",
        )  # fmt: skip
    try:
        origin = nanoseconds(origin_time or str(run.start_time))
    except ValueError:
        raise InputError("--origin-time", f"{origin_time!r} is not a time", "expected 2008-07-29T18:42:15.7") from None
    if origin_time is not None:
        origin -= round((run.origin_delay or 0.0) * 1e9)
    low, high = band
    if low is not None and not low > 0.0 or high is not None and not high > (low or 0.0):
        raise InputError("--fmin and --fmax", f"{low} and {high} Hz are not a band", "expected 0 < fmin < fmax")
    last = float(run.time[-1]) if len(run.time) else 0.0
    first = max(0.0, window[0] if window[0] is not None else 0.0)
    last = min(last, window[1] if window[1] is not None else last)
    if not last > first:
        got = f"{first:g} to {last:g} s is not a window"
        raise InputError("--start and --end", got, f"the run has 0 to {run.time[-1] if len(run.time) else 0.0:g} s")
    if max_shift is not None and not max_shift >= 0.0:
        raise InputError("--max-shift", f"{max_shift:g} s is out of range", "allowed: 0 or more")
    if rotate and run.sources.centroid is None:
        raise InputError("--rotate", "the run has no source", "the direction from the source is required")
    limit = LARGEST_SHIFT * (last - first) if max_shift is None else max_shift
    return ComparisonSettings(quantity, origin, low, high, (first, last), limit, tuple(channels), rotate)


def _upper_corner(settings: ComparisonSettings, resolved: float | None, interval: float, notes: list[str]) -> float:
    nyquist = 0.5 / interval
    if settings.high is not None:
        if settings.high >= nyquist:
            allowed = f"expected less than the Nyquist frequency of the coarser traces, {nyquist:g} Hz"
            raise InputError("--fmax", f"{settings.high:g} Hz is out of range", allowed)
        if resolved is not None and settings.high > resolved * (1.0 + 1e-9):
            notes.append(f"The run resolves frequencies only up to {resolved:g} Hz.")
        return settings.high
    if resolved is None:
        notes.append(f"The maximum frequency of the run is unknown; the upper corner is {OF_NYQUIST:g} of Nyquist.")
    elif resolved > OF_NYQUIST * nyquist:
        notes.append(f"The run resolves {resolved:g} Hz; the upper corner is {OF_NYQUIST:g} of the Nyquist frequency.")
    high = min(resolved or np.inf, OF_NYQUIST * nyquist)
    if settings.low is not None and settings.low >= high:
        raise InputError("--fmin", f"{settings.low:g} Hz is out of range", f"expected less than {high:g} Hz")
    return high


def _times(window: tuple[float, float], interval: float) -> np.ndarray:
    first, last = (value / interval for value in window)
    count = np.arange(np.ceil(first - 1e-6), np.floor(last + 1e-6) + 1.0)
    if len(count) < 4:
        raise InputError("--start and --end", f"the window has {len(count)} samples", f"the interval is {interval:g} s")
    return count * interval + 0.0


def _compared(
    run: Seismograms,
    found: list[tuple[int, dict[str, ObservedTrace]]],
    settings: ComparisonSettings,
    high: float,
    time: np.ndarray,
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray, list[StationMisfits]]:
    axes = "RTZ" if settings.rotate else "ENZ"
    data_run, data_observed = np.full((2, len(found), 3, len(time)), np.nan)
    stations = []
    kept = []
    for index, (row, traces) in enumerate(found):
        station = Station(run, row, traces, settings, high, notes)
        pair = station.pair(time, 0.0)
        if pair is None:
            notes.append(f"{station.name}: not used: {', '.join(traces)} alone cannot be rotated.")
            continue
        letters, ours, theirs = pair
        places = [axes.index(letter) for letter in letters]
        data_run[index, places], data_observed[index, places] = ours, theirs
        stations.append(station.misfits(time, letters, ours, theirs))
        kept.append(index)
    if not stations:
        raise InputError("the data", "no trace can be compared with the run", "", " ".join(notes))
    partial = [one for one in stations if one.window != (float(time[0]), float(time[-1]))]
    if partial:
        parts = [f"{one.name} from t = {one.window[0]:.6g} to {one.window[1]:.6g} s" for one in partial]
        notes.append(f"{len(partial)} stations have data in a part of the window only: {first_names(parts)}.")
    intervals = {t.interval for _, traces in found for t in traces.values()} - {run.sampling_interval}
    if intervals:
        listed = ", ".join(f"{value:.6g}" for value in sorted(intervals)[:3])
        notes.append(f"Observed traces are sampled every {listed} s, the run every {run.sampling_interval:.6g} s.")
    return data_run[kept], data_observed[kept], stations
