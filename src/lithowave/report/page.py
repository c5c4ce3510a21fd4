"""The page of a report: HTML from templates, with pictures, data and the plotting library embedded.

It also contains the seismograms for the interactive plots of a report, and the table of their peak values.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import require_package
from lithowave.figures import style
from lithowave.figures.traces import Layers, receiver_arrivals
from lithowave.json_types import finite
from lithowave.output.files import writing
from lithowave.output.geometry import azimuth, component, distance_unit, epicentral_distance, offsets
from lithowave.output.run_folder import now
from lithowave.output.seismograms import Seismograms
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

FILE_NAME = "report.html"
MEDIA_TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".gif": "image/gif", ".mp4": "video/mp4"}


class Html(str):
    """Text that is HTML already and is not escaped."""


@dataclass
class Page:
    """A report. kind : what it is about, for example ``Run``. plots : plots that the data describe completely. waves :
    seismograms for the plots of traces and of the record section."""

    kind: str
    title: str
    summary: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    plots: list[Entries] = field(default_factory=list)
    waves: Entries | None = None

    def add(self, heading: str, *parts: str) -> None:
        """Add a section of HTML parts; empty parts are omitted, and so is a section without parts."""
        if any(parts):
            self.sections.append((heading, "\n".join(part for part in parts if part)))

    def add_plot(self, data: Sequence[ReadEntries], layout: ReadEntries, description: str) -> Html:
        """Add a plot and return its element.

        Parameters
        ----------
        data, layout : traces and layout of Plotly; user text in them must be escaped.
        description : text for readers who do not see the plot.
        """
        name = f"plot-{len(self.plots) + 1}"
        self.plots.append({"id": name, "data": list(data), "layout": dict(layout)})
        return plot_element(name, description)

    def write(self, path: str | Path) -> Path:
        """Write the file and return its path.

        Raises
        ------
        MissingPackageError : Plotly is not installed.
        OutputError : the file cannot be written.
        """
        text = self.html()
        path = Path(path)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return path

    def html(self) -> str:
        """Return the text of the page."""
        anchors = [f"section-{number}" for number in range(1, len(self.sections) + 1)]
        headings = [escape(heading) for heading, _ in self.sections]
        links = (
            f'<li><a href="#{anchor}">{heading}</a></li>' for anchor, heading in zip(anchors, headings, strict=True)
        )
        sections = (
            f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{heading}</h2>\n{body}\n</section>'
            for anchor, heading, (_, body) in zip(anchors, headings, self.sections, strict=True)
        )
        return Template(_resource("page.html")).substitute(
            kind=escape(self.kind), title=escape(self.title), summary=escape(self.summary), version=__version__,
            date=now(), links="\n".join(links), sections="\n".join(sections), style=_resource("style.css"),
            data=script_json({"plots": self.plots, "waves": self.waves}), library=plotting_library(),
            plots=_resource("plots.js"),
        )  # fmt: skip


def _resource(name: str) -> str:
    return files("lithowave.report").joinpath(name).read_text(encoding="utf-8")


def require_plotly() -> None:
    """Raise MissingPackageError if Plotly, whose plotting library reports contain, is not installed."""
    require_package("plotly", "the report", "report", "without --report")


def plotting_library() -> str:
    """Return the JavaScript of Plotly, for use inside a script element."""
    require_plotly()
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def script_json(value: object) -> str:
    """Return JSON for use inside a script element: no character of it can end the element; NaN becomes null."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(values: np.ndarray) -> dict[str, str]:
    """Return an array of one or two dimensions as Plotly reads it: single precision in base64."""
    shape = {"shape": ", ".join(map(str, values.shape))} if values.ndim > 1 else {}
    return {"dtype": "f4", "bdata": base64_floats(values)} | shape


def base64_floats(values: np.ndarray) -> str:
    """Return the values in single precision, little-endian, as base64."""
    return b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def text(value: object) -> str:
    """Return a value as HTML text."""
    return value if isinstance(value, Html) else escape(str(value))


def paragraph(content: object) -> str:
    """Return a paragraph."""
    return f"<p>{text(content)}</p>"


def facts_table(rows: ReadEntries, caption: str = "") -> str:
    """Return a table of names and values; values that are None or empty are omitted."""
    lines = [
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>'
        for name, value in rows.items() if value not in (None, "")
    ]  # fmt: skip
    table = f'<table class="facts">{_caption(caption)}<tbody>{"".join(lines)}</tbody></table>'
    return _scrolled(table, caption) if lines else ""


def data_table(header: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """Return a table with a header; numbers are aligned to the right and shown with four digits."""
    rows = [list(row) for row in rows]
    if not rows:
        return ""
    numeric = [all(isinstance(row[column], (int, float, type(None))) for row in rows) for column in range(len(header))]
    kinds = [' class="number"' if number else "" for number in numeric]
    head = "".join(f'<th scope="col"{kind}>{text(name)}</th>' for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>\n"
        for row in rows
    )
    table = f"<table>{_caption(caption)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _scrolled(table, caption, tall=len(rows) > 15)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return number_text(value) if isinstance(value, float) else text(value)


def number_text(value: float) -> str:
    """Return a number with four digits, and without an exponent up to ten million."""
    if 1e3 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}"


def _caption(caption: str) -> str:
    return f"<caption>{text(caption)}</caption>" if caption else ""


def _scrolled(table: str, caption: str, tall: bool = False) -> str:
    """Return a table in a box of its own, which scrolls if the screen is narrow."""
    label = text(caption or "Table")
    return f'<div class="scroll{" tall" if tall else ""}" role="region" aria-label="{label}" tabindex="0">{table}</div>'


def input_files(facts: ReadEntries) -> str:
    """Return a table of the input files in a run.json or survey.json; empty without any."""
    return data_table(["Input file", "SHA-256"], facts.get("inputs", {}).items(), "Hashes of the input files")


def folded(label: str, content: str) -> Html:
    """Return plain text that is shown when its label is selected."""
    return Html(f'<details><summary>{text(label)}</summary><pre tabindex="0">{text(content)}</pre></details>')


def axis(title: str, **entries: object) -> Entries:
    """Return the entries of an axis of Plotly."""
    return {"title": {"text": title}, **entries}


def plot_element(name: str, description: str, high: bool = False) -> Html:
    """Return the element in which a plot is drawn."""
    kind = "plot high" if high else "plot"
    return Html(
        f'<figure><div class="{kind}" id="{name}" role="img" aria-label="{text(description)}"></div>'
        f"<figcaption>{text(description)}</figcaption></figure>"
    )


def selection(name: str, label: str, options: Iterable[tuple[object, str]]) -> Html:
    """Return a labeled list of options (value, text); the first one is selected."""
    entries = "".join(f'<option value="{text(value)}">{text(shown)}</option>' for value, shown in options)
    return Html(f'<label for="{name}">{text(label)}<br><select id="{name}">{entries}</select></label>')


def media(path: Path, description: str, caption: str = "", kind: str = "") -> Html:
    """Return a picture or movie with its bytes embedded; `description` is its alternative text."""
    content = b64encode(path.read_bytes()).decode("ascii")
    address, label = f"data:{MEDIA_TYPES[path.suffix]};base64,{content}", text(description)
    if path.suffix == ".mp4":
        element = f'<video controls loop muted playsinline aria-label="{label}" src="{address}"></video>'
    else:
        element = f'<img alt="{label}" src="{address}">'
    extra = f' class="{kind}"' if kind else ""
    return Html(f"<figure{extra}>{element}<figcaption>{text(caption or description)}</figcaption></figure>")


MAX_VALUES, MAX_RECEIVERS = 800_000, 90  # of all traces in the page: 4.3 MB
MAX_ROWS = 200
GAINS = (1, 0.5, 2, 4, 8)


def shown_receivers(seismograms: Seismograms, components: int) -> np.ndarray:
    """Return the indices of the receivers in the page, nearest first; evenly spaced ones if there are too many."""
    order = np.argsort(epicentral_distance(seismograms), kind="stable")
    return receivers_that_fit(order, components * len(seismograms.time))


def receivers_that_fit(order: np.ndarray, values: int) -> np.ndarray:
    """Return evenly spaced receivers of `order`, of each of which the page contains a number of values."""
    return order[style.spread(len(order), int(np.clip(MAX_VALUES // max(1, values), 1, MAX_RECEIVERS)))]


def add_seismograms(page: Page, seismograms: Seismograms, layers: Layers | None, model: str | None = None) -> None:
    """Add the sections with the record section, the traces and the peak values of a run."""
    if not len(seismograms) or not len(seismograms.time):
        return
    names = "ENZ" if seismograms.pressure is None else "ENZP"
    chosen = shown_receivers(seismograms, len(names))
    motions = {name: component(seismograms, name)[chosen] for name in names}
    page.waves = wave_data(seismograms, chosen, [("", motions)], component_units(seismograms, names))
    page.waves["arrivals"] = _arrivals(seismograms, chosen, layers, model)
    note = "" if len(chosen) == len(seismograms) else paragraph(
        f"The plots contain {len(chosen)} of {len(seismograms)} receivers, evenly spaced by distance."
    )  # fmt: skip
    shortfall = paragraph(f"The seismograms are {seismograms.shortfall}.") if seismograms.shortfall else ""
    note += shortfall
    what = f"Ground {seismograms.quantity}" + (" and pressure" if "P" in names else "")
    if len(chosen) > 1:
        page.add("Record section", _section_controls(seismograms, names), note, plot_element(
            "section", f"Record section: {what.lower()} over time by {offsets(seismograms)[1].lower()}. Drag to zoom, "
            "double-click to reset.", high=True,
        ))  # fmt: skip
    page.add("Seismograms", trace_controls(seismograms, chosen), note if len(chosen) == 1 else "", plot_element(
        "traces", f"{what} at one receiver over time. Drag to zoom, double-click to reset.", high=True
    ))  # fmt: skip
    page.add("Peak values", shortfall, peak_table(seismograms, names))


def component_units(seismograms: Seismograms, names: str) -> dict[str, str]:
    """Return the SI unit of each component."""
    return {name: "Pa" if name == "P" else seismograms.units for name in names}


Runs = Sequence[tuple[str, Mapping[str, np.ndarray]]]
"""Label and traces (n_receivers, n_samples) by component of each run."""


def wave_data(seismograms: Seismograms, chosen: np.ndarray, runs: Runs, units: Mapping[str, str]) -> Entries:
    """Return the data of the plots of traces and of the record section.

    seismograms : time and geometry. chosen : indices of the receivers. units : SI unit of each component.
    """
    place, label = offsets(seismograms)
    direction, (factor, length) = azimuth(seismograms), distance_unit(seismograms)
    receivers = [
        {"name": seismograms.names[index], "offset": factor * place[index], "azimuth": direction[index]}
        for index in chosen
    ]
    offset = {"offset_label": f"{label} ({length})", "offset_unit": length}
    return wave_entries(seismograms.time, seismograms.sampling_interval, receivers, runs, units) | offset


def wave_entries(
    time: np.ndarray, interval: float, receivers: Sequence[ReadEntries], runs: Runs, units: Mapping[str, str]
) -> Entries:
    """Return the data of a plot of traces at one receiver, without arrivals; see `wave_data`."""
    scales = common_scales(runs, units)
    components = [
        {"key": name, "label": style.COMPONENT_NAMES[name], "factor": scales[name][0], "unit": scales[name][1]}
        for name in units
    ]
    packed = [
        {"label": name, "components": {key: base64_floats(values) for key, values in motions.items()}}
        for name, motions in runs
    ]
    return {
        "start": time[0], "interval": interval, "count": len(time), "receivers": receivers, "components": components,
        "runs": packed, "arrivals": [], "offset_label": "",
    }  # fmt: skip


def common_scales(runs: Runs, units: Mapping[str, str]) -> dict[str, tuple[float, str]]:
    """Return (factor, unit) of each component: the same for all components with the same SI unit."""
    scales: dict[str, tuple[float, str]] = {}
    for unit in set(units.values()):
        names = [name for name in units if units[name] == unit]
        peak = max(float(np.abs(motions[name]).max(initial=0.0)) for _, motions in runs for name in names)
        factor, shown = style.readable_unit(peak, unit)
        shown = shown.replace("$", "").replace("{", "").replace("}", "")  # Plotly's fonts have no formulas
        scales |= {name: (factor, shown) for name in names}
    return scales


def _arrivals(seismograms: Seismograms, chosen: np.ndarray, layers: Layers | None, model: str | None) -> list[Entries]:
    """Return the first P and S arrivals at the receivers."""
    phases = []
    for label, times, _ in receiver_arrivals(seismograms, layers, model, chosen):
        known = [float(time) if np.isfinite(time) else None for time in times[chosen]]
        phases.append({"label": label, "times": known, "color": {"P": "--first", "S": "--second"}[label]})
    return phases


def trace_controls(seismograms: Seismograms, chosen: np.ndarray) -> Html:
    """Return the selection of a receiver."""
    factor, length = distance_unit(seismograms)
    place = factor * offsets(seismograms)[0]
    options = [(row, f"{seismograms.names[index]}, {place[index]:.4g} {length}") for row, index in enumerate(chosen)]
    return Html(f'<div class="controls">{selection("receiver", "Receiver", options)}</div>')


def _section_controls(seismograms: Seismograms, names: str) -> Html:
    components = (["P"] if "P" in names else []) + ["Z", *(["R", "T"] if len(seismograms.sources) else []), "E", "N"]
    scales = [("trace", "each trace by its own peak"), ("common", "one scale for all traces")]
    lists = [
        selection("component", "Component", [(name, style.COMPONENT_NAMES[name]) for name in components]),
        selection("amplitude", "Amplitude", scales),
        selection("gain", "Gain", [(gain, f"{gain:g}") for gain in GAINS]),
    ]
    return Html(f'<div class="controls">{"".join(lists)}</div>')


def peak_table(seismograms: Seismograms, names: str) -> str:
    """Return a table with the largest absolute value of each component of each receiver."""
    place, label = offsets(seismograms)
    order = np.argsort(np.abs(place), kind="stable")
    shown = order[style.spread(len(order), MAX_ROWS)]
    motions = {name: component(seismograms, name) for name in names}
    scales = common_scales([("", motions)], component_units(seismograms, names))
    factor, unit = scales["E"]
    horizontal = np.hypot(motions["E"], motions["N"]).max(axis=1)
    length_factor, length = distance_unit(seismograms)
    header = ["Receiver", f"{label} ({length})", "Azimuth (°)"]
    header += [f"{style.COMPONENT_NAMES[name]} ({scales[name][1]})" for name in names]
    header += [f"Horizontal ({unit})", "Time of the peak (s)"]
    total = np.sqrt(sum(motions[name] ** 2 for name in "ENZ"))
    rows = []
    for index in shown:
        peaks = [float(np.abs(motions[name][index]).max()) * scales[name][0] for name in names]
        when = float(seismograms.time[total[index].argmax()])
        rows.append([
            seismograms.names[index], length_factor * place[index], azimuth(seismograms)[index], *peaks,
            float(horizontal[index]) * factor, when,
        ])  # fmt: skip
    count = "" if len(shown) == len(order) else f", {len(shown)} of {len(order)} receivers"
    caption = f"Largest absolute {seismograms.quantity} of each component{count}; horizontal: largest sqrt(E² + N²)"
    return data_table(header, rows, caption)
