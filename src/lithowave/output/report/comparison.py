"""The report of a comparison of two runs: misfits of all receivers and their traces."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lithowave.output.figures import style
from lithowave.output.figures.comparison import ComparedRuns
from lithowave.output.report.page import (
    Html,
    Page,
    base64_floats,
    data_table,
    facts_table,
    media,
    paragraph,
    plot_element,
    require_plotly,
    selection,
)

MAX_VALUES, MAX_RECEIVERS = 800_000, 90


def report_comparison(comparison: ComparedRuns, path: str | Path) -> Path:
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
        picture = comparison.figure(Path(folder) / "comparison.png")
        page.add("Figure", media(picture, "Traces with the largest, median and smallest misfit, and all misfits."))
    return page.write(path)


def _add_traces(page: Page, comparison: ComparedRuns) -> None:
    """Add the plot of both traces at a receiver; the receiver with the largest misfit is first."""
    order = np.argsort(-comparison.relative_l2, kind="stable")
    room = int(np.clip(MAX_VALUES // (6 * len(comparison.time)), 1, MAX_RECEIVERS))
    chosen = order[style.spread(len(order), room)]
    peak = max(float(np.abs(data).max(initial=0.0)) for data in (comparison.data_a, comparison.data_b))
    factor, unit = style.readable_unit(peak, comparison.units)
    runs = [
        {"label": label, "components": {name: base64_floats(data[chosen, n]) for n, name in enumerate("ENZ")}}
        for label, data in ((comparison.label_a, comparison.data_a), (comparison.label_b, comparison.data_b))
    ]  # fmt: skip
    page.waves = {
        "start": comparison.time[0], "interval": comparison.time[1] - comparison.time[0], "count": len(comparison.time),
        "receivers": [{"name": comparison.names[index], "offset": 0.0, "azimuth": 0.0} for index in chosen],
        "components": [
            {"key": name, "label": style.COMPONENT_NAMES[name], "factor": factor, "unit": unit} for name in "ENZ"
        ],
        "runs": runs, "arrivals": [], "offset_label": "",
    }  # fmt: skip
    names = (
        (row, f"{comparison.names[index]}, {comparison.relative_l2[index]:.3%}") for row, index in enumerate(chosen)
    )
    controls = Html(f'<div class="controls">{selection("receiver", "Receiver and relative L2 misfit", names)}</div>')
    page.add("Traces", controls, plot_element(
        "traces", f"Ground {comparison.quantity} of both runs at one receiver. Drag to zoom, double-click to reset.",
        high=True,
    ))  # fmt: skip
