"""All figures of a run folder at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lithowave.errors import OutputError
from lithowave.output.figures.description import earth_model_of, layers_of, read_description
from lithowave.output.figures.movie import snapshot_files, wavefield_movie
from lithowave.output.figures.record_section import record_section
from lithowave.output.figures.static_map import static_map
from lithowave.output.figures.station_map import station_map
from lithowave.output.figures.traces import traces
from lithowave.output.figures.wall_times import recorded_times, wall_times_figure
from lithowave.output.seismograms import load_seismograms
from lithowave.output.snapshots import load_snapshots

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
    curves: dict[str, Any] = {"layers": layers_of(entries), "model": earth_model_of(entries)}
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
