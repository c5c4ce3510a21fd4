"""The wall times of the phases of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lithowave.errors import OutputError
from lithowave.output.figures import style
from lithowave.output.run_folder import read_report

LOOP = ("outputs", "first step", "other steps", "waiting for outputs")
SMALLEST_SHARE = 0.002  # of the total time; shorter phases are not drawn


def recorded_times(directory: Path) -> list[dict[str, Any]]:
    """Return the phases in the run.json of a folder; none if it contains none."""
    try:
        return read_report(directory).get("phases") or []
    except OutputError:
        return []


def wall_times_figure(phases: list[dict[str, Any]], path: str | Path) -> Path:
    """Draw a bar for the wall time of each phase to `path`, and return it.

    A bar begins where the previous one ends, also for phases that alternate with others. Colors distinguish the
    preparation from the time loop. phases : entries of ``phases`` in run.json.
    """
    total = sum(one["wall_s"] for one in phases)
    drawn = [one for one in phases if one["wall_s"] >= SMALLEST_SHARE * total]
    rows = [(one["name"], one["wall_s"], one["name"] in LOOP) for one in drawn]
    loop = sum(one["wall_s"] for one in phases if one["name"] in LOOP)
    with style.styled():
        figure = style.new_figure(7.0, 0.9 + 0.24 * len(rows), layout="constrained")
        panel = figure.subplots()
        begin = 0.0
        for number, (_, seconds, looping) in enumerate(rows):
            panel.barh(number, seconds, left=begin, color=style.S_COLOR if looping else style.P_COLOR, height=0.7)
            text, right = f"{style.number(seconds)} s, {seconds / total:.1%}", begin + seconds > 0.7 * total
            panel.annotate(
                text, (begin if right else begin + seconds, number), (-4 if right else 4, 0), va="center",
                textcoords="offset points", fontsize=8, ha="right" if right else "left",
            )  # fmt: skip
            begin += seconds
        panel.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        panel.invert_yaxis()
        panel.set_xlim(0.0, total)
        panel.set_xlabel("Wall time (s)")
        panel.set_title(f"Preparation {style.number(total - loop)} s, time loop {style.number(loop)} s")
        return style.save(figure, path)
