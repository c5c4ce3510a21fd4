"""The report of a survey: a table of its shots, with their states and links to their reports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from lithowave.description.yaml_text import read_document
from lithowave.output.figures.description import chunk_of, domain_of
from lithowave.output.report.page import FILE_NAME, Html, Page, data_table, facts_table, packed, require_plotly, text
from lithowave.output.seismograms import FILE_NAME as SEISMOGRAMS
from lithowave.output.seismograms import read_seismograms
from lithowave.sphere import ChunkMap


@dataclass(frozen=True)
class ShotRow:
    """One shot of a survey. state : finished, running, stopped, failed, lost or waiting. note : state in words."""

    number: int
    folder: str
    name: str
    position: tuple[float, float, float]
    state: str
    note: str


def report_survey(
    directory: str | Path,
    index: Mapping[str, Any],
    description: str,
    shots: Sequence[ShotRow],
    path: str | Path | None = None,
) -> Path:
    """Write an HTML file about the survey in a folder, with links to the reports of its shots; return its path.

    Parameters
    ----------
    directory : the folder of the survey.
    index : content of its survey.json. description : content of its survey.yaml.
    shots : its shots with their states.
    path : the file; default: ``report.html`` in the folder.

    Raises
    ------
    MissingPackageError : Plotly is not installed (extra ``report``).
    OutputError : the file cannot be written.
    """
    require_plotly()
    directory = Path(directory)
    target = directory / FILE_NAME if path is None else Path(path)
    entries = read_document(description, directory / "survey.yaml").data
    counts = {
        state: sum(shot.state == state for shot in shots) for state in dict.fromkeys(shot.state for shot in shots)
    }
    page = Page(
        "Survey", str(entries.get("title") or directory.resolve().name),
        f"{len(shots)} shots: " + ", ".join(f"{count} {state}" for state, count in counts.items()),
    )  # fmt: skip
    page.add("Layout", _layout(page, directory, shots, entries))
    chunk = chunk_of(entries)
    rows = [_row(directory, target, shot, chunk) for shot in shots]
    columns = ["x (m)", "y (m)", "z (m)"] if chunk is None else ["Longitude (°)", "Latitude (°)", "Depth (m)"]
    header = ["Shot", "Name", *columns, "State", "Details", "Results"]
    page.add("Shots", data_table(header, rows, "Shots"))
    facts = {"lithowave": index.get("lithowave"), "Started": index.get("started")}
    inputs = data_table(["Input file", "SHA-256"], index.get("inputs", {}).items(), "Hashes of the input files")
    page.add("Provenance", facts_table(facts, "Software"), inputs)
    page.add(
        "Files", f'<details><summary>Simulation file</summary><pre tabindex="0">{text(description)}</pre></details>'
    )
    return page.write(target)


def _row(directory: Path, target: Path, shot: ShotRow, chunk: ChunkMap | None) -> list[Any]:
    state = Html(f'<span class="state-{text(shot.state)}">{text(shot.state)}</span>')
    folder = directory / shot.folder
    found = folder / FILE_NAME if (folder / FILE_NAME).is_file() else folder
    results: Any = "–"
    if found.exists():
        link = quote(os.path.relpath(found.resolve(), target.resolve().parent))
        results = Html(f'<a href="{text(link)}">{"folder" if found == folder else "report"}</a>')
    place = [float(value) for value in shot.position]
    if chunk is not None:
        place = [*map(float, chunk.to_geographic(place[0], place[1])), 0.0 - place[2]]
    return [shot.number, shot.name, *place, state, shot.note, results]


def _layout(page: Page, directory: Path, shots: Sequence[ShotRow], entries: dict[str, Any]) -> str:
    """Return a map of the shots, and of the receivers of the first shot that has started."""
    traces: list[dict[str, Any]] = []
    chunk = chunk_of(entries)

    def place(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (x / 1000, y / 1000) if chunk is None else chunk.to_geographic(x, y)

    started = next((shot for shot in shots if (directory / shot.folder / SEISMOGRAMS).is_file()), None)
    if started is not None:
        receivers = read_seismograms(directory / started.folder).positions
        traces.append(_markers(*place(*receivers[:, :2].T), "Receivers", "triangle-up", "#009e73"))
    x, y, _ = np.array([shot.position for shot in shots], dtype=float).reshape(-1, 3).T
    traces.append(_markers(*place(x, y), "Shots", "star", "#d55e00"))
    bounds = domain_of(entries) if chunk is None else None
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "x, East (km)"}, "constrain": "domain"},
        "yaxis": {"title": {"text": "y, North (km)"}, "scaleanchor": "x"},
        "showlegend": True, "legend": {"orientation": "h", "y": 1.12},
    }  # fmt: skip
    if bounds is not None:
        x0, x1, y0, y1 = (bound / 1000 for bound in bounds)
        layout["shapes"] = [
            {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": {"width": 1, "color": "#888888"}}
        ]
    if chunk is not None:
        layout["xaxis"]["title"]["text"], layout["yaxis"] = "Longitude (°)", {"title": {"text": "Latitude (°)"}}
    which = "" if started is None else f", and receivers of shot {started.number}"
    return page.add_plot(traces, layout, f"Positions of the shots{which}{'; rectangle: the domain' if bounds else ''}.")


def _markers(x: Any, y: Any, name: str, symbol: str, color: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name,
        "x": packed(np.asarray(x, dtype=float)), "y": packed(np.asarray(y, dtype=float)),
        "marker": {"symbol": symbol, "size": 9, "color": color},
    }  # fmt: skip
