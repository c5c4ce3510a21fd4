"""Limits of SEG-Y files of revision 1: intervals in integer microseconds, and 16-bit integers."""

from __future__ import annotations

import math
from fractions import Fraction

LARGEST = 32767
"""Largest 16-bit integer: the maximum number of samples per trace, and of microseconds between samples."""

_LONGEST_ROUND = 20_000
"""Largest 1, 2 or 5 times a power of ten, in microseconds, that does not exceed `LARGEST`."""

_ROUNDING = 2e-6
"""Tolerance for rounding an interval: schedules represent the requested interval to 1e-6."""


def microseconds(interval: float) -> int | None:
    """Return an interval in s as integer microseconds; None if it is not one."""
    whole = round(interval * 1e6)
    return whole if whole > 0 and abs(interval * 1e6 - whole) <= _ROUNDING * whole else None


def interval_problem(interval: float, sample_count: int) -> tuple[str, str, str] | None:
    """Return the reason (got, allowed, hint) why traces with an interval in s cannot be written, or None."""
    whole = microseconds(interval)
    if whole is None:
        allowed = "SEG-Y requires integer microseconds between samples"
        return f"{interval:.9g} s is not an integer number of microseconds", allowed, f"use {_nearest(interval):.6f}"
    if whole > LARGEST:
        allowed = f"SEG-Y permits at most {LARGEST} microseconds between samples"
        return f"{interval:.9g} s is too long for SEG-Y", allowed, "use miniseed or sac, which support any interval"
    if sample_count > LARGEST:
        allowed = f"SEG-Y permits at most {LARGEST} in a trace"
        return f"{interval:.9g} s makes {sample_count} samples", allowed, "use a longer interval or a shorter duration"
    return None


def default_interval(preferred: float, longest: float, duration: float) -> float | None:
    """Return the interval in s closest to a preferred one that a file can hold; None if there is none.

    It is 1, 2 or 5 times a power of ten, if possible.

    Parameters
    ----------
    preferred : s; the interval is at most this if possible.
    longest : largest interval that samples the waves, s.
    duration : of the traces, s, which limits the interval from below by the number of samples.
    """
    least = max(1, math.ceil(duration * 1e6 / (LARGEST - 1) - 1e-9))
    most = min(LARGEST, math.floor(min(longest, duration) * 1e6 * (1.0 + 1e-9)))
    candidates = [least, *(digit * 10**power for power in range(5) for digit in (1, 2, 5))]
    candidates = [candidate for candidate in candidates if least <= candidate <= most]
    below = [candidate for candidate in candidates if candidate <= min(preferred * 1e6 * (1.0 + 1e-9), _LONGEST_ROUND)]
    if not candidates:
        return None
    return float(Fraction(max(below) if below else min(candidates), 10**6))


def _nearest(interval: float) -> float:
    return max(1, round(interval * 1e6)) * 1e-6
