"""All figures of a run folder at once; the mechanism of a source, and the wall times of phases, as separate pictures.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.errors import OutputError
from lithowave.figures import style
from lithowave.figures.maps import station_map
from lithowave.figures.movie import snapshot_files, static_map, wavefield_movie
from lithowave.figures.style import draw_beachball, earth_model_of, layers_of, read_description
from lithowave.figures.traces import record_section, traces
from lithowave.output.attributes import SourceTable
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import load_seismograms
from lithowave.output.snapshots import load_snapshots

if TYPE_CHECKING:
    from lithowave.description.sources import PointSource
    from lithowave.json_types import Entries

FOLDER = "figures"


def plot_run(
    directory: str | Path,
    folder: str | Path | None = None,
    *,
    file_format: str = "png",
    normalise: str = "trace",
    gain: float = 1.0,
    clip: float | None = None,
) -> list[Path]:
    """Draw all figures that the files of a run permit and return the files, map first.

    The files are ``map.png``, ``record_section.png``, of displacements ``static_offset.png``, ``traces.png`` (or
    ``traces_1.png``, ...), for each snapshot file ``wavefield_<name>.gif`` (and ``.mp4`` if ffmpeg is available), and
    ``wall_times.png``, the wall times of the preparation and of the time loop.

    Parameters
    ----------
    directory : the run folder.
    folder : the folder of the figures; default: ``figures`` in the run folder.
    file_format : ``png``, ``pdf`` or ``svg``, for all figures except movies.
    normalise, gain, clip : amplitudes of the record section (see `record_section`).

    Raises
    ------
    OutputError : there are no seismograms, nothing can be drawn, or a file cannot be written.
    """
    directory = Path(directory)
    folder = directory / FOLDER if folder is None else Path(folder)
    seismograms = load_seismograms(directory)
    entries = read_description(directory)
    curves: Entries = {"layers": layers_of(entries), "model": earth_model_of(entries)}
    written: list[Path] = []
    if len(seismograms) or len(seismograms.sources):
        written.append(station_map(directory, folder / f"map.{file_format}"))
    if len(seismograms) and len(seismograms.time):
        # Without a source the radial and transverse directions are undefined.
        components = "ZRT" if len(seismograms.sources) else "ENZ"
        pressure = "" if seismograms.pressure is None else "P"
        amplitudes = {"normalise": normalise, "gain": gain, "clip": clip}
        section = folder / f"record_section.{file_format}"
        written.append(record_section(seismograms, section, pressure + components, **curves, **amplitudes))
        if seismograms.quantity == "displacement":
            written.append(static_map(directory, folder / f"static_offset.{file_format}"))
        written += traces(seismograms, folder / f"traces.{file_format}", pressure + "ENZ", **curves)
    for file in snapshot_files(directory):
        with load_snapshots(file) as snapshots:
            if not len(snapshots):
                continue
        written += wavefield_movie(directory, folder / f"wavefield_{file.stem}", snapshots=file)
    if not written:
        raise OutputError(f"{directory}: nothing to draw: no receivers, sources or snapshots.")
    if phases := recorded_times(directory):
        written.append(wall_times_figure(phases, folder / f"wall_times.{file_format}"))
    return written


def source_picture(sources: Iterable[PointSource], path: str | Path) -> Path | None:
    """Draw the summed mechanism of point sources to `path` and return it; None if they are forces."""
    table = SourceTable.from_points(sources)
    if not table.moment.any():
        return None
    with style.styled():
        figure = style.new_figure(2.0, 2.0)
        panel = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        panel.set_aspect("equal")
        panel.set_axis_off()
        draw_beachball(panel, (0.0, 0.0), 1.0, table.moment)
        figure.patch.set_alpha(0.0)
        return style.save(figure, path)


LOOP = ("outputs", "first step", "other steps", "waiting for outputs")
SMALLEST_SHARE = 0.002  # of the total time; shorter phases are not drawn


def recorded_times(directory: Path) -> list[Entries]:
    """Return the phases in the run.json of a folder; none if it contains none."""
    try:
        return read_report(directory).get("phases") or []
    except OutputError:
        return []


def wall_times_figure(phases: list[Entries], path: str | Path) -> Path:
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
