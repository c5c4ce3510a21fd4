"""The report of a run or of a survey, whichever a folder contains."""

from __future__ import annotations

from pathlib import Path

from lithowave.output.report import ShotRow, report_run, report_survey
from lithowave.output.run_folder import read_text
from lithowave.shots.folder import DESCRIPTION, SurveyFolder, is_survey
from lithowave.shots.state import survey_state


def write_report(directory: str | Path, path: str | Path | None = None) -> Path:
    """Write an HTML file about a run or a survey, which requires no network; return its path.

    The report of a run contains the description, the model, the source, a map, seismograms that can be zoomed, a movie,
    peak values, warnings, timings and provenance. The report of a survey lists its shots with their states, and links
    to the reports of shots that have one.

    Parameters
    ----------
    directory : the folder of the run or the survey.
    path : the file; default: ``report.html`` in the folder.

    Returns
    -------
    Path : the file.

    Raises
    ------
    MissingPackageError : Plotly is not installed (extra ``report``).
    OutputError : the folder contains no run, its files are damaged, or the file cannot be written.
    """
    directory = Path(directory)
    if not is_survey(directory):
        return report_run(directory, path)
    folder, state = SurveyFolder.open(directory), survey_state(directory)
    shots = [
        ShotRow(shot["shot"], shot["folder"], shot["name"] or "", tuple(shot["position"]), found.state, found.text())
        for shot, found in zip(folder.index["shots"], state.shots, strict=True)
    ]
    description = read_text(directory / DESCRIPTION)
    return report_survey(directory, folder.index, description, shots, path)
