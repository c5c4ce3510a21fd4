"""What a SEG-Y file of revision 1 can hold: intervals in whole microseconds, and numbers of 16 bits."""

from __future__ import annotations

import math
from fractions import Fraction

LARGEST = 32767
"""The greatest number of 16 bits: of samples in a trace, and of microseconds between two."""

_LONGEST_ROUND = 20_000
"""The largest 1, 2 or 5 times a power of ten, in microseconds, that is not above `LARGEST`."""

_ROUNDING = 2e-6
"""Part of an interval that may be rounded away: a schedule keeps the interval asked for to 1e-6."""


def microseconds(interval: float) -> int | None:
    """An interval in s as a whole number of microseconds; None where it is none."""
    whole = round(interval * 1e6)
    return whole if whole > 0 and abs(interval * 1e6 - whole) <= _ROUNDING * whole else None


def interval_problem(interval: float, sample_count: int) -> tuple[str, str, str] | None:
    """Why traces with an interval in s cannot be written (got, allowed, hint); None where they can."""
    whole = microseconds(interval)
    if whole is None:
        allowed = "segy has whole microseconds between two samples"
        return f"{interval:.9g} s is no whole number of microseconds", allowed, f"{_nearest(interval):.6f} would do"
    if whole > LARGEST:
        allowed = f"segy has at most {LARGEST} microseconds between two samples"
        return f"{interval:.9g} s is too long for segy", allowed, "miniseed and sac hold any interval"
    if sample_count > LARGEST:
        allowed = f"segy has at most {LARGEST} in a trace"
        return f"{interval:.9g} s makes {sample_count} samples", allowed, "a longer interval, or a shorter duration"
    return None


def default_interval(preferred: float, longest: float, duration: float, time_step: float | None = None) -> float | None:
    """Return the interval in s closest to a preferred one that a file can hold; None if there is none.

    Without a time step it is 1, 2 or 5 times a power of ten, if possible, and with one a multiple of it.

    Parameters
    ----------
    preferred : s; the interval is at most this if possible.
    longest : largest interval that samples the waves, s.
    duration : of the traces, s, which limits the interval from below by the number of samples.
    """
    least = max(1, math.ceil(duration * 1e6 / (LARGEST - 1) - 1e-9))
    most = min(LARGEST, math.floor(min(longest, duration) * 1e6 * (1.0 + 1e-9)))
    if time_step is None:
        candidates = [least, *(digit * 10**power for power in range(5) for digit in (1, 2, 5))]
    else:
        unit = Fraction(repr(time_step)) * 10**6
        candidates = [*range(unit.numerator, most + 1, unit.numerator)]
    candidates = [candidate for candidate in candidates if least <= candidate <= most]
    below = [candidate for candidate in candidates if candidate <= min(preferred * 1e6 * (1.0 + 1e-9), _LONGEST_ROUND)]
    if not candidates:
        return None
    return float(Fraction(max(below) if below else min(candidates), 10**6))


def _nearest(interval: float) -> float:
    return max(1, round(interval * 1e6)) * 1e-6
