"""The report of a run: description, model, source, seismograms, movie, warnings, timings and provenance.

The model is drawn in sections. The sources have a table, and plots of their time functions and spectra.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.domain import Chunk
from lithowave.description.simulation import Simulation
from lithowave.description.sources import PointSource
from lithowave.errors import InputError, LithowaveError
from lithowave.figures import station_map, style, wavefield_movie
from lithowave.figures.movie import snapshot_files
from lithowave.figures.plot import source_picture
from lithowave.figures.style import earth_model_of, layers_of, read_description
from lithowave.output.attributes import SourceTable
from lithowave.output.run_folder import DESCRIPTION, LOG, read_report
from lithowave.output.seismograms import FILE_NAME as SEISMOGRAMS
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.snapshots import load_snapshots, unjoined
from lithowave.report.page import (
    FILE_NAME,
    Page,
    add_seismograms,
    axis,
    data_table,
    facts_table,
    folded,
    input_files,
    media,
    packed,
    paragraph,
    require_plotly,
    text,
)

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

MAX_MOVIE_BYTES, MAX_MOVIES = 4_500_000, 2
LOG_LINES = 200
MAP_WIDTH = 6.4
STATE_TEXT = {"running": "not finished: it is running, or ended without reporting an exit state"}


def report_run(directory: str | Path, path: str | Path | None = None) -> Path:
    """Write an HTML file about the run in a folder, which may be incomplete or failed; return its path.

    The file contains the description, the model, the source, a map, seismograms in plots that can be zoomed, a movie of
    the first snapshot planes, peak values, warnings, timings and provenance, and requires no network.

    Parameters
    ----------
    directory : the run folder.
    path : the file; default: ``report.html`` in the run folder.

    Raises
    ------
    MissingPackageError : Plotly is not installed (extra ``report``).
    OutputError : the folder contains no run, its files are damaged, or the file cannot be written.
    """
    require_plotly()
    directory = Path(directory)
    facts = read_report(directory)
    seismograms = load_seismograms(directory) if (directory / SEISMOGRAMS).is_file() else None
    simulation, problem = _simulation(directory)
    entries = read_description(directory)
    title = str(entries.get("title") or directory.resolve().name)
    page = Page("Run", title, _summary(facts))
    with TemporaryDirectory() as folder:
        page.add("Overview", _warnings(facts), _overview(facts, entries, simulation, seismograms), problem)
        page.add("Map", _map(directory, Path(folder), seismograms))
        if simulation is not None:
            picture = source_picture(simulation.acquisition.sources, Path(folder) / "mechanism.svg")
            shown = "" if picture is None else media(
                picture, "Mechanism: P-wave polarity on the lower focal hemisphere, equal area; filled: outward.",
                kind="mechanism",
            )  # fmt: skip
            add_source(page, simulation, shown)
            add_model(page, simulation)
        if seismograms is not None:
            add_seismograms(page, seismograms, layers_of(entries), earth_model_of(entries))
        page.add("Wavefield", *_movies(directory, Path(folder)))
    page.add("Timings", _timings(facts))
    page.add("Provenance", _provenance(facts))
    page.add(
        "Files", _file(directory / DESCRIPTION, "Simulation file with all defaults"), _file(directory / LOG, "Log")
    )
    return page.write(directory / FILE_NAME if path is None else path)


def _simulation(directory: Path) -> tuple[Simulation | None, str]:
    """Return the simulation of a run; None, and a paragraph with the reason, if its file cannot be read."""
    try:
        return Simulation.from_file(directory / DESCRIPTION), ""
    except LithowaveError as error:
        reason = str(error).splitlines()[0]
        return None, paragraph(f"The report lacks the model and the source: {reason}")


def _summary(facts: ReadEntries) -> str:
    plan = facts.get("plan", {})
    method = str(plan.get("method", "unknown method")).replace("_", " ")
    state = facts.get("exit_state", "lost")
    started = facts.get("started", "at an unknown time")
    return f"{method.capitalize()}, {STATE_TEXT.get(state, state)}, started {started}"


def _warnings(facts: ReadEntries) -> str:
    """Return the state of the run if it is not complete, and its warnings."""
    state = facts.get("exit_state", "lost")
    lines = []
    if state != "finished":
        step = facts.get("failed_at_step", facts.get("stopped_at_step"))
        at = "" if step is None else f" at step {step}"
        words = STATE_TEXT.get(state, state) + at
        reason = facts.get("error") or (f"by {facts['stopped_by']}" if "stopped_by" in facts else "")
        lines.append(f'<p class="state-{text(state)}">{text(f"{words}: {reason}" if reason else words)}</p>')
    warnings = facts.get("warnings", [])
    if warnings:
        items = "".join(f"<li>{text(warning)}</li>" for warning in warnings)
        lines.append(f'<h3>Warnings</h3><ul class="warnings">{items}</ul>')
    else:
        lines.append(paragraph("The run issued no warnings."))
    return "\n".join(lines)


def _overview(
    facts: ReadEntries, entries: ReadEntries, simulation: Simulation | None, seismograms: Seismograms | None
) -> str:
    plan = facts.get("plan", {})
    rows: Entries = {"State": facts.get("exit_state")}
    if simulation is not None:
        domain = simulation.domain
        rows["Domain"] = domain.chunk.text() if domain.chunk is not None else "; ".join(
            f"{axis}: {low / 1000:g} to {high / 1000:g} km" for axis, (low, high) in domain.bounds.items()
        )
        rows["Origin"] = domain.crs and f"{domain.crs.longitude:g}° E, {domain.crs.latitude:g}° N (x = y = 0)"
        rows["Origin time"] = simulation.origin_time
        rows["Duration"] = f"{simulation.duration:g} s"
        resolved = simulation.resolved_frequency
        rows["Highest resolved frequency"] = resolved and f"{resolved:.4g} Hz"
    if seismograms is not None:
        rows["Receivers"] = len(seismograms)
        rows["Seismograms"] = f"{seismograms.quantity}, {seismograms.sampling_interval:g} s between samples"
        rows["Seismograms"] += f"; {seismograms.shortfall}" if seismograms.shortfall else ""
    rows |= _source_rows(plan.get("sources") or {}) | _plan_rows(plan)
    rows["Device"] = ", ".join(
        str(part) for part in (
            facts.get("device"), facts.get("backend"), facts.get("precision") and f"{facts['precision']} precision",
            facts.get("threads") and f"{facts['threads']} threads",
            facts.get("ranks", 1) > 1 and f"{facts['ranks']} ranks",
        ) if part
    )  # fmt: skip
    return facts_table(rows, "Description")


def _source_rows(summary: ReadEntries) -> Entries:
    """Return the summary of all sources in words."""
    if not summary:
        return {}
    rows = {"Sources": f"{summary['count']:,}"}
    if "moment_n_m" in summary:
        rows["Moment"] = f"{summary['moment_n_m']:.4g} N m (Mw {summary['moment_magnitude']:.2f})"
    low, high = summary["depth_m"]
    rows["Depth"] = f"{low:.6g} m" if low == high else f"{low:.6g} to {high:.6g} m below the surface"
    rows["Sources act"] = f"from {summary['begin_s']:.4g} to {summary['end_s']:.4g} s"
    rows["Spectrum"] = f"falls to 5% at {summary['frequency_hz']:.3g} Hz"
    return rows


def _plan_rows(plan: ReadEntries) -> Entries:
    """Return the discretization in words."""
    rows: Entries = {}
    if "method" in plan:
        accuracy = [f"{key} {plan[key]}" for key in ("order", "degree") if plan.get(key) is not None]
        rows["Method"] = ", ".join([str(plan["method"]).replace("_", " "), *accuracy])
    if plan.get("grid_points"):
        rows["Grid"] = (
            " × ".join(f"{count:,}" for count in plan["grid_points"]) + f" points, {plan['spacing_m']:.4g} m apart"
        )
    for key, name, words in (
        ("element_count", "Elements", "{:,}"), ("degrees_of_freedom", "Degrees of freedom", "{:,}"),
        ("steps", "Time steps", "{:,}"), ("element_size_m", "Element size", "{0[0]:.4g} to {0[1]:.4g} m"),
        ("points_per_wavelength", "Points per wavelength", "{:.3g}"), ("time_step_s", "Time step", "{:.4g} s"),
    ):  # fmt: skip
        if plan.get(key) is not None:
            rows[name] = words.format(plan[key])
    if plan.get("time_step_limit_s") is not None and "Time step" in rows:
        rows["Time step"] += f" (stable to {plan['time_step_limit_s']:.4g} s)"
    if plan.get("memory_bytes") is not None:
        rows["Memory"] = f"{plan['memory_bytes'] / 2**20:,.0f} MiB"
    return rows


def _map(directory: Path, folder: Path, seismograms: Seismograms | None) -> str:
    if seismograms is None or not (len(seismograms) or len(seismograms.sources)):
        return ""
    path = station_map(directory, folder / "map.png", width=MAP_WIDTH)
    return media(path, "Map of the receivers and sources; colors as labeled: peak ground motion or model.")


def _movies(directory: Path, folder: Path) -> Iterator[str]:
    """Yield the movies of the first snapshot files, drawn now unless ``lithowave plot`` has drawn them."""
    if unjoined(directory):
        yield paragraph("The snapshots are in parts of several ranks: run lithowave join, then lithowave report again.")
        return
    for file in snapshot_files(directory)[:MAX_MOVIES]:
        with load_snapshots(file) as snapshots:
            count = len(snapshots)
        if count:
            path = _movie(directory, folder, file, count)
            yield media(path, f"Movie of the wavefield, {file.stem.replace('_', ' ')}, {count} snapshots.")


def _movie(directory: Path, folder: Path, file: Path, count: int) -> Path:
    """Return the movie of a snapshot file, with fewer frames if it is too large for the page."""
    existing = [directory / "figures" / f"wavefield_{file.stem}{ending}" for ending in (".mp4", ".gif")]
    for path in existing:
        if path.is_file() and path.stat().st_mtime >= file.stat().st_mtime and path.stat().st_size <= MAX_MOVIE_BYTES:
            return path
    ending = ".mp4" if shutil.which("ffmpeg") else ".gif"
    path, frames = folder / f"{file.stem}{ending}", count
    while True:
        wavefield_movie(directory, path, snapshots=file, most_frames=frames)
        if path.stat().st_size <= MAX_MOVIE_BYTES or frames <= 2:
            return path
        frames = max(2, min(frames - 1, int(0.9 * frames * MAX_MOVIE_BYTES / path.stat().st_size)))


def _timings(facts: ReadEntries) -> str:
    setup, loop, wall = (facts.get(key) for key in ("setup_s", "loop_s", "wall_s"))
    rows = [["Preparation: mesh, material, compilation of kernels", setup], ["Time loop", loop]]
    if None not in (setup, loop, wall):
        rows.append(["Completion: seismograms in other formats, checks", max(0.0, wall - setup - loop)])
    rows.append(["Total", wall])
    table = data_table(["Phase", "Wall time (s)"], [row for row in rows if row[1] is not None], "Wall time by phase")
    rate = next((value for key, value in facts.items() if key.startswith("rate_") and value), None)
    speed = f"{rate / 1e6:.4g} million {facts.get('unit', 'points')} per second." if rate else ""
    restarts = facts.get("restarts", [])
    resumed = [f"Resumed at step {part['step']}, {part['time']}." for part in restarts]
    return "\n".join([table, *(paragraph(line) for line in (speed, *resumed) if line)])


def _provenance(facts: ReadEntries) -> str:
    rows = {
        "lithowave": facts.get("lithowave"), "Commit": facts.get("commit"),
        "Command": " ".join(facts.get("command", [])),
        "Started": facts.get("started"), "Host": facts.get("host"), "System": facts.get("system"),
        "Processor": facts.get("processor"), "Cores": facts.get("cores"), "Device": facts.get("device"),
        "Python": facts.get("python"),
        "Packages": ", ".join(f"{name} {version}" for name, version in facts.get("packages", {}).items()),
        "CUDA": ", ".join(f"{name} {version}" for name, version in facts.get("cuda", {}).items() if version),
        "MPI": facts.get("mpi"), "Transport": facts.get("transport"),
    }  # fmt: skip
    inputs = input_files(facts) or paragraph("The run read no input files.")
    return facts_table(rows, "Software and hardware") + inputs


def _file(path: Path, label: str) -> str:
    """Return the contents of a text file, folded."""
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > LOG_LINES and path.name == LOG:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - LOG_LINES} lines omitted ...", *lines[-half:]]
    return folded(label, "\n".join(lines))


ACROSS, DOWN, PROFILE = 161, 161, 401
MAX_POINTS = 200
COLORSCALE = "Viridis"  # legible with all kinds of color vision and in gray


def add_model(page: Page, simulation: Simulation) -> None:
    """Add the section about the material: vertical sections of vp and vs through the source, and depth profiles."""
    kind = simulation.material.kind
    try:
        plots = [*_section_plots(page, simulation), _profile_plot(page, simulation)]
    except InputError:  # groups of a mesh, whose positions only the mesh knows
        page.add("Model", _properties_table(simulation))
        return
    parts = [f'<div class="columns">{"".join(plots)}</div>']
    page.add("Model", paragraph(f"Material: {kind}."), _properties_table(simulation), *parts)


def _center(simulation: Simulation) -> tuple[float, float]:
    """Return x and y of the first source, or of the center of the domain."""
    sources = simulation.acquisition.sources
    return sources[0].position[:2] if sources else simulation.domain.center[:2]


def _section_plots(page: Page, simulation: Simulation) -> list[str]:
    name_along, along, z, (vp, vs) = model_section(simulation)
    x, y = _center(simulation)
    where = f"y = {y / 1000:.4g} km" if name_along == "x" else f"x = {x / 1000:.4g} km"
    title, column = f"{name_along} (km)", "xyz".index(name_along)
    points = _points(simulation, column)
    if simulation.domain.chunk is not None:  # the section is a great circle, drawn without its curvature
        title = f"{name_along}, angle times 6371 km (km)"
    plots = []
    for name, values in (("vp", vp), ("vs", vs)):
        picture = {
            "type": "heatmap", "x": packed(along / 1000), "y": packed(z / 1000), "z": packed(values),
            "colorscale": COLORSCALE,
            "colorbar": {"title": {"text": f"{name} (m/s)", "side": "right"}, "thickness": 12},
            "hovertemplate": f"{name_along} %{{x:.3f}} km<br>z %{{y:.3f}} km<br>{name} %{{z:.0f}} m/s<extra></extra>",
        }  # fmt: skip
        layout = {"xaxis": axis(title, showgrid=False), "yaxis": axis("z (km)", showgrid=False)}
        text = f"{name} in the vertical section at {where}; cross: source, triangles: receivers, projected."
        plots.append(page.add_plot([picture, *points], layout, text))
    return plots


def model_section(simulation: Simulation) -> tuple[str, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the axis (x or y) of a vertical section through the first source, its coordinates, z, and (vp, vs).

    The section follows the axis along which vs varies most or, if it varies along neither, the longer axis. Values
    above the topography are NaN. Coordinates are in m, vp and vs are (n_z, n_along) in m/s.

    Raises
    ------
    InputError : the material has no values at positions.
    """
    domain, center = simulation.domain, _center(simulation)
    z = np.linspace(domain.ground.z[0], domain.ground.z[1], DOWN)
    sections = []
    for name, bounds in (("x", domain.x), ("y", domain.y)):
        along = np.linspace(*bounds, ACROSS)
        x, y = (along, np.full(ACROSS, center[1])) if name == "x" else (np.full(ACROSS, center[0]), along)
        vp, vs, _ = simulation.material.sample(x[None, :], y[None, :], z[:, None])
        air = z[:, None] > domain.surface_height(x, y)[None, :] + 1e-6
        values = tuple(np.where(air, np.nan, field) for field in (vp, vs))
        variation = float(np.ptp(vs, axis=1).max())
        sections.append((variation, bounds[1] - bounds[0], (name, along, z, values)))
    return max(sections, key=lambda entry: entry[:2])[2]


def _points(simulation: Simulation, column: int) -> list[Entries]:
    """Return markers of the sources and receivers, projected to the section."""
    marks = []
    for points, symbol, size, color in (
        (simulation.acquisition.receivers, "triangle-down", 8, "#ffffff"),
        (simulation.acquisition.sources, "x", 9, "#ffffff"),
    ):
        shown = [points[index] for index in style.spread(len(points), MAX_POINTS)]
        marks.append({
            "type": "scatter", "mode": "markers", "hoverinfo": "x+y",
            "x": [point.position[column] / 1000 for point in shown], "y": [point.position[2] / 1000 for point in shown],
            "marker": {"symbol": symbol, "size": size, "color": color, "line": {"color": style.INK, "width": 1.2}},
            "cliponaxis": False,
        })  # fmt: skip
    return marks


def _profile_plot(page: Page, simulation: Simulation) -> str:
    x, y = _center(simulation)
    domain = simulation.domain
    top = float(domain.surface_height(np.array([x]), np.array([y]))[0])
    z = np.linspace(domain.z[0], top, PROFILE)
    vp, vs, rho = simulation.material.sample(np.full(PROFILE, x), np.full(PROFILE, y), z)
    lines = [
        {"type": "scatter", "mode": "lines", "name": name, "x": packed(values), "y": packed(z / 1000),
         "line": {"dash": dash}}
        for name, values, dash in (("vp (m/s)", vp, "solid"), ("vs (m/s)", vs, "dash"), ("density (kg/m³)", rho, "dot"))
    ]  # fmt: skip
    layout = {
        "xaxis": axis("m/s; density: kg/m³", range=[0.0, 1.05 * max(vp.max(), rho.max())]), "yaxis": axis("z (km)"),
        "showlegend": True, "legend": {"orientation": "h", "y": 1.15},
    }  # fmt: skip
    return page.add_plot(lines, layout, f"Depth profile below x = {x / 1000:.4g} km, y = {y / 1000:.4g} km.")


def _properties_table(simulation: Simulation) -> str:
    """Return a table of the layers, groups or the homogeneous medium; empty for gridded models and functions."""
    rows = []
    for keys, part in simulation.material.properties.items():
        name = keys[0] + "".join(f"[{key}]" if isinstance(key, int) else f": {key}" for key in keys[1:])
        rows.append([
            name, getattr(part, "top", None), *(getattr(part, key, None) for key in ("vp", "vs", "rho", "qp", "qs"))
        ])  # fmt: skip
    header = ["Part", "Top (m)", "vp (m/s)", "vs (m/s)", "Density (kg/m³)", "Qp", "Qs"]
    used = [n for n in range(len(header)) if any(row[n] is not None for row in rows)]
    return data_table([header[n] for n in used], [[row[n] for n in used] for row in rows], "Material")


MAX_SOURCES = 20  # with a line in the plots and a row in the table
MAX_SUMMED = 2000
SPECTRUM_SAMPLES = (2000, 40_000)


@dataclass(frozen=True)
class Signal:
    """Moment rate (N m/s) or force (N) as a function of time (s), which is zero outside start and end.

    highest : frequency at which its spectrum falls to 5% of the maximum, Hz.
    """

    label: str
    history: Callable[[np.ndarray], np.ndarray]
    start: float
    end: float
    highest: float


def add_source(page: Page, simulation: Simulation, picture: str) -> None:
    """Add the section about the sources: table, mechanism, time functions and their spectra.

    picture : element of the mechanism; may be empty.
    """
    sources = simulation.acquisition.sources
    if not sources:
        return
    shown = [sources[index] for index in style.spread(len(sources), MAX_SOURCES)]
    signals = source_signals(sources)
    kinds = {"Moment rate (N m/s)" if source.moment is not None else "Force (N)" for source in shown}
    plots = [
        picture,
        _function_plot(page, signals, " or ".join(sorted(kinds)), simulation.duration),
        _spectrum_plot(page, signals, simulation.resolved_frequency),
    ]
    table = _source_table(shown, len(sources), simulation.domain.chunk)
    page.add("Source", table, f'<div class="columns">{"".join(plots)}</div>')


def _source_table(sources: Sequence[PointSource], count: int, chunk: Chunk | None) -> str:
    rows = []
    stated = SourceTable.from_points(sources)
    for number, source in enumerate(sources, start=1):
        x, y, z = source.position
        kind, unit, values = "moment tensor", "N m", stated.moments[number - 1]
        if source.moment is None:
            kind, unit, values = "force", "N", stated.forces[number - 1]
        strength = ", ".join(f"{value:.3g}" for value in values) + f" {unit}"
        place = [x / 1000, y / 1000, z / 1000]
        if chunk is not None:
            place = [*(float(value) for value in chunk.map.to_geographic(x, y)), 0.0 - z / 1000]
        rows.append([source.name or str(number), kind, *place, strength, source.time_function.kind])
    columns = ["x (km)", "y (km)", "z (km)"] if chunk is None else ["Longitude (°)", "Latitude (°)", "Depth (km)"]
    header = ["Source", "Kind", *columns, "xx, yy, zz, xy, xz, yz; or E, N, Up", "Time function"]
    omitted = "" if len(sources) == count else f", {len(sources)} of {count}"
    return data_table(header, rows, f"Sources{omitted}")


def source_signals(sources: Sequence[PointSource]) -> list[Signal]:
    """Return the signals of the sources and, of several moment tensors, the sum of their scalar moment rates.

    Of many sources, only the sum is returned, or of forces evenly spaced ones. The sum of more than MAX_SUMMED sources
    is estimated from evenly spaced ones, and scaled to the total moment.
    """
    signals = []
    total = len(sources) > 1 and all(source.moment is not None for source in sources)
    if total:
        signals.append(_sum(sources))
    if not total or len(sources) <= MAX_SOURCES:
        shown = style.spread(len(sources), MAX_SOURCES)
        signals += [_signal(sources[index], sources[index].name or f"source {index + 1}") for index in shown]
    return signals


def _signal(source: PointSource, label: str) -> Signal:
    function = source.time_function
    strength = float(np.linalg.norm(source.force)) if source.moment is None else _moments([source])[0]

    def history(time: np.ndarray) -> np.ndarray:
        return strength * (function.amplitude(time) if source.moment is None else function.rate(time))

    return Signal(label, history, *function.support(1e-6), function.maximum_frequency())


def _sum(sources: Sequence[PointSource]) -> Signal:
    moments = _moments(sources)
    chosen = style.spread(len(sources), MAX_SUMMED)
    parts = [_signal(sources[index], "") for index in chosen]
    factor = moments.sum() / moments[chosen].sum()
    name = f"sum of {len(sources)} sources"
    if len(chosen) < len(sources):
        name += f", estimated from {len(chosen)}"
    return Signal(
        name, lambda time: factor * np.sum([part.history(time) for part in parts], axis=0),
        min(part.start for part in parts), max(part.end for part in parts), max(part.highest for part in parts),
    )  # fmt: skip


def _moments(sources: Sequence[PointSource]) -> np.ndarray:
    """Return the scalar moments, N m."""
    return SourceTable.from_points(sources).scalar_moments


def _function_plot(page: Page, signals: Sequence[Signal], name: str, duration: float) -> str:
    start = min(0.0, *(signal.start for signal in signals))
    end = max(min(max(signal.end for signal in signals), duration), start + 1e-6)
    time = np.linspace(start, end, 1201)
    lines = [_line(signal, time, signal.history(time)) for signal in signals]
    layout: Entries = {"xaxis": axis("Time (s)"), "yaxis": axis(name, exponentformat="power")}
    if 1 < len(signals) <= 4:
        layout |= {"showlegend": True, "legend": {"orientation": "h", "y": 1.15}}
    total = f", {signals[0].label}" if signals[0].label.startswith("sum of") else ""
    return page.add_plot(lines, layout, f"{name} over time{total}.")


def _line(signal: Signal, x: np.ndarray, y: np.ndarray) -> Entries:
    label = escape(signal.label, quote=False)  # Plotly interprets markup
    return {"type": "scatter", "mode": "lines", "name": label, "x": packed(x), "y": packed(y)}


def spectrum(signal: Signal, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies (Hz) up to `highest`, and the amplitude spectrum of a signal over its maximum."""
    margin = 0.01 * (signal.end - signal.start)
    count = int(np.clip(16.0 * highest * (signal.end - signal.start), *SPECTRUM_SAMPLES))
    time = np.linspace(signal.start - margin, signal.end + margin, count)
    padded = max(4 * count, int(np.ceil(100.0 / (highest * (time[1] - time[0])))))
    values = np.abs(np.fft.rfft(signal.history(time), padded))
    frequency = np.fft.rfftfreq(padded, time[1] - time[0])
    inside = (frequency > 0) & (frequency <= highest)
    return frequency[inside], values[inside] / (values.max() or 1.0)


def _spectrum_plot(page: Page, signals: Sequence[Signal], resolved: float | None) -> str:
    highest = 2.0 * max(resolved or 0.0, *(signal.highest for signal in signals))
    lines = []
    for signal in signals:
        frequency, amplitude = spectrum(signal, highest)
        every = style.spread(len(frequency), 600)
        lines.append(_line(signal, frequency[every], np.maximum(amplitude[every], 1e-6)))
    text = "Amplitude spectrum of the time function, relative to its maximum"
    layout: Entries = {
        "xaxis": axis("Frequency (Hz)"),
        "yaxis": axis("Relative amplitude", type="log", range=[-4, 0.2], exponentformat="power"),
    }
    if resolved is not None:
        mark = {"type": "line", "x0": resolved, "x1": resolved, "yref": "paper", "y0": 0, "y1": 1}
        layout["shapes"] = [mark | {"line": {"color": "#d55e00", "width": 1.5, "dash": "dash"}}]
        layout["annotations"] = [{
            "x": resolved, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
            "text": f"resolved to {resolved:.4g} Hz",
        }]  # fmt: skip
        text += f"; dashed line: the highest frequency that the grid resolves, {resolved:.4g} Hz"
    return page.add_plot(lines, layout, text + ".")
