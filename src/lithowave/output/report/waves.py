"""Seismograms for the interactive plots of a report, and the table of their peak values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lithowave.output.figures import style
from lithowave.output.figures.travel_times import Layers, receiver_arrivals
from lithowave.output.geometry import azimuth, component, distance_unit, epicentral_distance, offsets
from lithowave.output.report.page import Html, Page, base64_floats, data_table, paragraph, plot_element, selection
from lithowave.output.seismograms import Seismograms

MAX_VALUES, MAX_RECEIVERS = 800_000, 90  # of all traces in the page: 4.3 MB
MAX_ROWS = 200
GAINS = (1, 0.5, 2, 4, 8)


def shown_receivers(seismograms: Seismograms, components: int) -> np.ndarray:
    """Return the indices of the receivers in the page, nearest first; evenly spaced ones if there are too many."""
    order = np.argsort(epicentral_distance(seismograms), kind="stable")
    room = MAX_VALUES // max(1, components * len(seismograms.time))
    return order[style.spread(len(order), int(np.clip(room, 1, MAX_RECEIVERS)))]


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


def wave_data(
    seismograms: Seismograms,
    chosen: np.ndarray,
    runs: Sequence[tuple[str, Mapping[str, np.ndarray]]],
    units: Mapping[str, str],
) -> dict[str, Any]:
    """Return the data of the plots.

    Parameters
    ----------
    seismograms : time and geometry.
    chosen : indices of the receivers.
    runs : label and traces (len(chosen), n_samples) by component of each run.
    units : SI unit of each component.
    """
    place, label = offsets(seismograms)
    direction, (factor, length) = azimuth(seismograms), distance_unit(seismograms)
    scales = common_scales(runs, units)
    components = [
        {"key": name, "label": style.COMPONENT_NAMES[name], "factor": scales[name][0], "unit": scales[name][1]}
        for name in units
    ]
    receivers = [
        {"name": seismograms.names[index], "offset": factor * place[index], "azimuth": direction[index]}
        for index in chosen
    ]
    packed = [
        {"label": name, "components": {key: base64_floats(values) for key, values in motions.items()}}
        for name, motions in runs
    ]
    return {
        "start": seismograms.time[0], "interval": seismograms.sampling_interval, "count": len(seismograms.time),
        "receivers": receivers, "components": components, "runs": packed, "offset_label": f"{label} ({length})",
        "offset_unit": length, "arrivals": [],
    }  # fmt: skip


def common_scales(
    runs: Sequence[tuple[str, Mapping[str, np.ndarray]]], units: Mapping[str, str]
) -> dict[str, tuple[float, str]]:
    """Return (factor, unit) of each component: the same for all components with the same SI unit."""
    scales = {}
    for unit in set(units.values()):
        names = [name for name in units if units[name] == unit]
        peak = max(float(np.abs(motions[name]).max(initial=0.0)) for _, motions in runs for name in names)
        factor, shown = style.readable_unit(peak, unit)
        shown = shown.replace("$", "").replace("{", "").replace("}", "")  # Plotly's fonts have no formulas
        scales |= {name: (factor, shown) for name in names}
    return scales


def _arrivals(
    seismograms: Seismograms, chosen: np.ndarray, layers: Layers | None, model: str | None
) -> list[dict[str, Any]]:
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
