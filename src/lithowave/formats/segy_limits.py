"""What a SEG-Y file of revision 1 can hold: intervals in whole microseconds, and numbers of 16 bits."""

from __future__ import annotations

LARGEST = 32767
"""The greatest number of 16 bits: of samples in a trace, and of microseconds between two."""

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


def _nearest(interval: float) -> float:
    return max(1, round(interval * 1e6)) * 1e-6
