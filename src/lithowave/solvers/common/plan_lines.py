"""What `check` tells of a plan in the same words for all methods, from the entries of its summary."""

from __future__ import annotations

from typing import Any

Line = tuple[str, str]


def face_line(summary: dict[str, Any], more: str = "") -> Line:
    """The faces by name; more : how they absorb."""
    return "faces", ", ".join(f"{face} {kind}" for face, kind in summary["faces"].items()) + more


def resolution_line(summary: dict[str, Any]) -> Line:
    """Points in the shortest wavelength, and where they are fewest."""
    name = "points per wavelength"
    if summary["points_per_wavelength"] is None:
        return name, "unknown: solver.max_frequency is not given"
    slowest = summary["points_per_wavelength_at"]
    place = where_text(slowest["place"])
    return name, f"{summary['points_per_wavelength']:.3g} at vs = {slowest['vs_m_s']:g} m/s {place}"


def time_lines(summary: dict[str, Any]) -> list[Line]:
    """The time step, what limits it, and the number of steps."""
    step, limited = summary["time_step_s"], summary["time_step_limited_by"]
    fraction = step / summary["time_step_limit_s"]
    place = where_text(limited["place"])
    return [
        ("time step", f"{step:.6g} s ({fraction:.1%} of the limit, set by vp = {limited['vp_m_s']:g} m/s {place})"),
        ("steps", f"{summary['steps']:,}; a sample every {summary['sampling_interval_s']:.6g} s"),
    ]


def where_text(place: str) -> str:
    """A place within a sentence."""
    return place if place == "everywhere" else f"in {place}"
