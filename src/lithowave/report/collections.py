"""Reports of comparisons and of surveys.

That of a comparison of two runs has the misfits of all receivers and their traces, that of a survey a table of its
shots, with their states and links to their reports.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from lithowave.compare.results import RunMisfits
from lithowave.description.text import read_document
from lithowave.figures.comparisons import comparison_figure
from lithowave.figures.style import chunk_of, domain_of
from lithowave.globe_coordinates import ChunkMap
from lithowave.output.seismograms import FILE_NAME as SEISMOGRAMS
from lithowave.output.seismograms import read_seismograms
from lithowave.report.page import (
    FILE_NAME,
    Html,
    Page,
    axis,
    data_table,
    facts_table,
    folded,
    input_files,
    media,
    packed,
    paragraph,
    plot_element,
    receivers_that_fit,
    require_plotly,
    selection,
    text,
    wave_entries,
)

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries


def report_comparison(comparison: RunMisfits, path: str | Path) -> Path:
    """Write an HTML file about a comparison of two runs, and return its path.

    Raises
    ------
    MissingPackageError : Plotly is not installed (extra ``report``).
    OutputError : the file cannot be written.
    """
    require_plotly()
    title = f"{comparison.label_a} and {comparison.label_b}"
    summary = f"Relative L2 misfit {comparison.overall_l2:.3%} over {len(comparison.names)} receivers"
    page = Page("Comparison", title, summary)
    band = comparison.band and f"{comparison.band[0]:.3g} to {comparison.band[1]:.3g} Hz"
    page.add("Overview", facts_table({
        "Run": comparison.label_a, "Method of the run": comparison.methods[0], "Reference": comparison.label_b,
        "Method of the reference": comparison.methods[1], "Quantity": f"{comparison.quantity} ({comparison.units})",
        "Receivers": len(comparison.names),
        "Time": f"{comparison.time[0]:g} to {comparison.time[-1]:g} s",
        "Low-pass": f"{comparison.max_frequency:g} Hz" if comparison.max_frequency else "none",
        "Envelope and phase misfits": band, "Overall relative L2 misfit": f"{comparison.overall_l2:.4%}",
    }, "Comparison"), *(paragraph(note) for note in comparison.notes))  # fmt: skip
    _add_traces(page, comparison)
    header = ["Receiver", "Relative L2 (%)", "Shift (s)", "Envelope (%)", "Phase (%)"]
    rows = [
        [row["name"], 100 * row["relative_l2"], row["time_shift"], *(
            None if row[name] is None else 100 * row[name] for name in ("envelope_misfit", "phase_misfit")
        )]
        for row in comparison.rows()
    ]  # fmt: skip
    page.add("Misfits", data_table(header, rows, "Misfits relative to the reference"))
    with TemporaryDirectory() as folder:
        picture = comparison_figure(comparison, Path(folder) / "comparison.png")
        page.add("Figure", media(picture, "Traces with the largest, median and smallest misfit, and all misfits."))
    return page.write(path)


def _add_traces(page: Page, comparison: RunMisfits) -> None:
    """Add the plot of both traces at a receiver; the receiver with the largest misfit is first."""
    order = np.argsort(-comparison.relative_l2, kind="stable")
    chosen = receivers_that_fit(order, 6 * len(comparison.time))
    receivers = [{"name": comparison.names[index], "offset": 0.0, "azimuth": 0.0} for index in chosen]
    runs = [
        (label, {name: data[chosen, n] for n, name in enumerate("ENZ")})
        for label, data in ((comparison.label_a, comparison.data_a), (comparison.label_b, comparison.data_b))
    ]
    interval = comparison.time[1] - comparison.time[0]
    page.waves = wave_entries(comparison.time, interval, receivers, runs, dict.fromkeys("ENZ", comparison.units))
    names = (
        (row, f"{comparison.names[index]}, {comparison.relative_l2[index]:.3%}") for row, index in enumerate(chosen)
    )
    controls = Html(f'<div class="controls">{selection("receiver", "Receiver and relative L2 misfit", names)}</div>')
    page.add("Traces", controls, plot_element(
        "traces", f"Ground {comparison.quantity} of both runs at one receiver. Drag to zoom, double-click to reset.",
        high=True,
    ))  # fmt: skip


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
    index: ReadEntries,
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
    counts = Counter(shot.state for shot in shots)
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
    page.add("Provenance", facts_table(facts, "Software"), input_files(index))
    page.add("Files", folded("Simulation file", description))
    return page.write(target)


def _row(directory: Path, target: Path, shot: ShotRow, chunk: ChunkMap | None) -> list[object]:
    state = Html(f'<span class="state-{text(shot.state)}">{text(shot.state)}</span>')
    folder = directory / shot.folder
    found = folder / FILE_NAME if (folder / FILE_NAME).is_file() else folder
    results: object = "–"
    if found.exists():
        link = quote(os.path.relpath(found.resolve(), target.resolve().parent))
        results = Html(f'<a href="{text(link)}">{"folder" if found == folder else "report"}</a>')
    place = [float(value) for value in shot.position]
    if chunk is not None:
        place = [*map(float, chunk.to_geographic(place[0], place[1])), 0.0 - place[2]]
    return [shot.number, shot.name, *place, state, shot.note, results]


def _layout(page: Page, directory: Path, shots: Sequence[ShotRow], entries: ReadEntries) -> str:
    """Return a map of the shots, and of the receivers of the first shot that has started."""
    traces: list[Entries] = []
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
    layout: Entries = {
        "xaxis": axis("x, East (km)", constrain="domain"), "yaxis": axis("y, North (km)", scaleanchor="x"),
        "showlegend": True, "legend": {"orientation": "h", "y": 1.12},
    }  # fmt: skip
    if bounds is not None:
        x0, x1, y0, y1 = (bound / 1000 for bound in bounds)
        layout["shapes"] = [
            {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": {"width": 1, "color": "#888888"}}
        ]
    if chunk is not None:
        layout |= {"xaxis": axis("Longitude (°)", constrain="domain"), "yaxis": axis("Latitude (°)")}
    which = "" if started is None else f", and receivers of shot {started.number}"
    return page.add_plot(traces, layout, f"Positions of the shots{which}{'; rectangle: the domain' if bounds else ''}.")


def _markers(x: object, y: object, name: str, symbol: str, color: str) -> Entries:
    return {
        "type": "scatter", "mode": "markers", "name": name,
        "x": packed(np.asarray(x, dtype=float)), "y": packed(np.asarray(y, dtype=float)),
        "marker": {"symbol": symbol, "size": 9, "color": color},
    }  # fmt: skip
