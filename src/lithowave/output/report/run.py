"""The report of a run: description, model, source, seismograms, movie, warnings, timings and provenance."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lithowave.description.simulation import Simulation
from lithowave.errors import LithowaveError
from lithowave.output.figures import station_map, wavefield_movie
from lithowave.output.figures.description import earth_model_of, layers_of, read_description
from lithowave.output.figures.movie import snapshot_files
from lithowave.output.figures.source import source_picture
from lithowave.output.joining import unjoined
from lithowave.output.report.model import add_model
from lithowave.output.report.page import (
    FILE_NAME,
    Html,
    Page,
    data_table,
    facts_table,
    media,
    paragraph,
    require_plotly,
    text,
)
from lithowave.output.report.sources import add_source
from lithowave.output.report.waves import add_seismograms
from lithowave.output.run_folder import DESCRIPTION, LOG, read_report
from lithowave.output.seismograms import FILE_NAME as SEISMOGRAMS
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.snapshots import load_snapshots

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


def _summary(facts: Mapping[str, Any]) -> str:
    plan = facts.get("plan", {})
    method = str(plan.get("method", "unknown method")).replace("_", " ")
    state = facts.get("exit_state", "lost")
    return (
        f"{method.capitalize()}, {STATE_TEXT.get(state, state)}, started {facts.get('started', 'at an unknown time')}"
    )


def _warnings(facts: Mapping[str, Any]) -> str:
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
    facts: Mapping[str, Any], entries: Mapping[str, Any], simulation: Simulation | None, seismograms: Seismograms | None
) -> str:
    plan = facts.get("plan", {})
    rows: dict[str, Any] = {"State": facts.get("exit_state")}
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


def _source_rows(summary: Mapping[str, Any]) -> dict[str, Any]:
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


def _plan_rows(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the discretization in words."""
    rows: dict[str, Any] = {}
    if "method" in plan:
        accuracy = [f"{key} {plan[key]}" for key in ("order", "degree") if plan.get(key) is not None]
        rows["Method"] = ", ".join([str(plan["method"]).replace("_", " "), *accuracy])
    if plan.get("grid_points"):
        rows["Grid"] = (
            " × ".join(f"{count:,}" for count in plan["grid_points"]) + f" points, {plan['spacing_m']:.4g} m apart"
        )
    for key, name in (
        ("element_count", "Elements"),
        ("degrees_of_freedom", "Degrees of freedom"),
        ("steps", "Time steps"),
    ):
        if plan.get(key) is not None:
            rows[name] = f"{plan[key]:,}"
    if plan.get("element_size_m") is not None:
        rows["Element size"] = "{:.4g} to {:.4g} m".format(*plan["element_size_m"])
    if plan.get("points_per_wavelength") is not None:
        rows["Points per wavelength"] = f"{plan['points_per_wavelength']:.3g}"
    if plan.get("time_step_s") is not None:
        rows["Time step"] = f"{plan['time_step_s']:.4g} s"
        if plan.get("time_step_limit_s") is not None:
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


def _timings(facts: Mapping[str, Any]) -> str:
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


def _provenance(facts: Mapping[str, Any]) -> str:
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
    inputs = data_table(["Input file", "SHA-256"], facts.get("inputs", {}).items(), "Hashes of the input files")
    return facts_table(rows, "Software and hardware") + (inputs or paragraph("The run read no input files."))


def _file(path: Path, label: str) -> str:
    """Return the contents of a text file, folded."""
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > LOG_LINES and path.name == LOG:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - LOG_LINES} lines omitted ...", *lines[-half:]]
    content = text("\n".join(lines))
    return Html(f'<details><summary>{text(label)}</summary><pre tabindex="0">{content}</pre></details>')
