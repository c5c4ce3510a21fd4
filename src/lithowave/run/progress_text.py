"""Progress of a run as text, and as one line that is updated in place in terminals and notebooks."""

from __future__ import annotations

import sys
from typing import Any

from lithowave.run.check import duration_text
from lithowave.run.progress import rate_key, rate_text

WIDTH = 100


def begin_text(heading: str, entries: dict[str, Any]) -> str:
    """Return the lines printed when a run begins or resumes."""
    begun = f"from step {entries['step']} (t = {entries['time_s']:.4g} s) " if entries["step"] else ""
    return (
        f"{heading}\n{entries[entries['unit']]:,} {entries['unit']}, {begun}{entries['steps']:,} steps "
        f"to t = {entries['end_s']:.4g} s; kernels are compiled on first use"
    )


def line_text(entries: dict[str, Any]) -> str:
    """Return one line of progress."""
    share = 100.0 * entries["step"] / entries["steps"]
    return f"step {entries['step']} of {entries['steps']} ({share:.0f}%), {state_text(entries)}"


def state_text(entries: dict[str, Any]) -> str:
    """Return simulated time, rate and remaining time."""
    parts = [f"t = {entries['time_s']:.4g} of {entries['end_s']:.4g} s"]
    if rate := rate_of(entries):
        parts.append(rate_text(rate, entries["unit"]))
    if entries["remaining_s"] and entries["step"] < entries["steps"]:
        parts.append(f"{duration_text(entries['remaining_s'])} remaining")
    return ", ".join(parts)


def rate_of(entries: dict[str, Any]) -> float | None:
    """Return the points or elements updated per second; None if unknown."""
    return entries[rate_key(entries["unit"])]


class ProgressLine:
    """A function for `show` that updates one line, in terminals and Jupyter notebooks; else it prints the last line."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        notebook = type(self.stream).__module__.partition(".")[0] == "ipykernel"
        self.updates = notebook or bool(getattr(self.stream, "isatty", lambda: False)())

    def __call__(self, entries: dict[str, Any]) -> None:
        """Show the progress."""
        finished = entries["step"] >= entries["steps"]
        if self.updates:
            self.stream.write("\r" + line_text(entries)[:WIDTH].ljust(WIDTH) + ("\n" if finished else ""))
        elif finished:
            self.stream.write(line_text(entries) + "\n")
        self.stream.flush()
