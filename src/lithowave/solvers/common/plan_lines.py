"""Lines of `check` about a plan that are common to all methods, from the entries of its summary."""

from __future__ import annotations

from typing import Any

Line = tuple[str, str]


def face_line(summary: dict[str, Any], more: str = "") -> Line:
    """Return the faces by name; more : type of absorption."""
    return "faces", ", ".join(f"{face} {kind}" for face, kind in summary["faces"].items()) + more


def resolution_line(summary: dict[str, Any]) -> Line:
    """Return the minimum points per shortest wavelength, and where."""
    name = "points per wavelength"
    if summary["points_per_wavelength"] is None:
        return name, "unknown: solver.max_frequency is not set"
    slowest = summary["points_per_wavelength_at"]
    place = where_text(slowest["place"])
    wave = "vp" if slowest.get("fluid") else "vs"
    return name, f"{summary['points_per_wavelength']:.3g} at {wave} = {slowest['vs_m_s']:g} m/s {place}"


def time_lines(summary: dict[str, Any]) -> list[Line]:
    """Return the time step, its limit, and the number of steps."""
    step, limited = summary["time_step_s"], summary["time_step_limited_by"]
    fraction = step / summary["time_step_limit_s"]
    place = where_text(limited["place"])
    return [
        ("time step", f"{step:.6g} s ({fraction:.1%} of the limit, set by vp = {limited['vp_m_s']:g} m/s {place})"),
        ("steps", f"{summary['steps']:,}; a sample every {summary['sampling_interval_s']:.6g} s"),
    ]


def where_text(place: str) -> str:
    """Return a location as part of a sentence."""
    return place if place == "everywhere" else f"in {place}"
