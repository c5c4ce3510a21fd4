"""The dry run of a survey: requirements of one shot and of all shots.

The report of a run or of a survey, whichever a folder contains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError
from lithowave.output.files import readable_size
from lithowave.output.run_folder import read_text
from lithowave.report import ShotRow, report_run, report_survey
from lithowave.run.check import CheckReport, check_simulation, duration_text, report_text
from lithowave.run.status import FINISHED, run_state
from lithowave.shots.folder import DESCRIPTION, SurveyFolder, is_survey, shot_slots, survey_state

if TYPE_CHECKING:
    from lithowave.json_types import Entries


@dataclass(frozen=True)
class SurveyReport:
    """Requirements and predicted time of a survey, as reported by ``lithowave check``.

    Attributes
    ----------
    first : the dry run of the first unfinished shot, which represents all shots.
    shots, finished : number of shots, and of finished shots.
    at_once : number of shots that run at the same time.
    problems : reasons why the survey would fail on this machine.
    """

    first: CheckReport
    shots: int
    finished: int
    at_once: int
    devices: int
    problems: list[str]

    @property
    def title(self) -> str:
        """Title of the simulation."""
        return self.first.title

    @property
    def warnings(self) -> list[str]:
        """Entries that are allowed but may not be intended."""
        return self.first.warnings

    @property
    def runnable(self) -> bool:
        """True if the survey can run on this machine."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """One line that states whether the survey can run on this machine."""
        return "this run would work here" if self.runnable else "this run would fail here"

    @property
    def to_do(self) -> int:
        """Number of shots that are not finished."""
        return self.shots - self.finished

    @property
    def time_s(self) -> float | None:
        """Predicted time in the time loops of all unfinished shots, s; shots on one device or CPU share its rate."""
        if self.first.loop_s is None:
            return None
        return self.first.loop_s * -(-self.to_do // max(1, self.devices))

    @property
    def output_bytes(self) -> int:
        """Size of the output of the unfinished shots, bytes."""
        return self.to_do * self.first.output_bytes

    def as_dict(self) -> Entries:
        """Return all entries as plain values for JSON."""
        return {
            "shots": self.shots, "finished": self.finished, "at_once": self.at_once, "time_s": self.time_s,
            "memory_bytes": self.at_once * self.first.memory_bytes, "output_bytes": self.output_bytes,
            "problems": self.problems, "runnable": self.runnable, "shot": self.first.as_dict(),
        }  # fmt: skip

    def lines(self) -> list[tuple[str, str]]:
        """Return (name, text) of each entry, first for one shot, then for all shots."""
        done = f", {self.finished} of {self.shots} finished" if self.finished else ""
        lines = [*self.first.lines(), ("shots", f"{self.shots}, {self.at_once} at a time{done}")]
        lines.append(("total memory", f"{readable_size(self.at_once * self.first.memory_bytes)}"))
        sizes = f"{readable_size(self.output_bytes)}; {readable_size(self.first.free_disk_bytes)} free"
        lines.append(("output", sizes))
        if self.time_s is not None:
            lines.append(("time", f"{duration_text(self.time_s)} for {self.to_do} shots"))
        return lines

    def __str__(self) -> str:
        return report_text(self)


def check_survey(simulation: Simulation, *, measure: bool = True) -> SurveyReport:
    """Plan one shot and report the requirements of all shots, without running them.

    Raises
    ------
    InputError : the description, or any of its shots, is invalid.
    """
    assert simulation.survey is not None
    shots, slots = simulation.survey.shot_list(simulation.domain), shot_slots(simulation)
    directory = simulation.output.directory
    assert directory is not None
    states = [run_state(directory / shot.folder).state for shot in shots]
    finished = states.count(FINISHED)
    number = next((number for number, state in enumerate(states, 1) if state != FINISHED), 1)
    first = check_simulation(simulation.shot(number), measure=measure)
    devices = {slot.environment.get("CUDA_VISIBLE_DEVICES") for slot in slots}
    warnings = [text for text in first.warnings if not text.startswith("output.directory: ")]
    problems = [*first.problems, *_sharing_problems(first, len(slots), len(devices), len(shots) - finished)]
    if is_survey(directory):
        try:
            SurveyFolder.prepare(simulation)
        except InputError as error:
            warnings.append(str(error))
    first = replace(first, title=simulation.title, warnings=warnings, problems=problems)
    return SurveyReport(first, len(shots), finished, len(slots), len(devices), problems)


def _sharing_problems(first: CheckReport, at_once: int, devices: int, to_do: int) -> list[str]:
    """Return why the shots that run at the same time, or the output of all shots, do not fit on this machine."""
    problems = []
    if first.memory_bytes <= first.free_memory_bytes < at_once * first.memory_bytes:
        problems.append(
            f"not enough memory for {at_once} shots at a time: {readable_size(at_once * first.memory_bytes)} needed, "
            f"{readable_size(first.free_memory_bytes)} free (survey.at_once)"
        )
    need, free, share = first.device_memory_bytes, first.free_device_memory_bytes, -(-at_once // devices)
    if need is not None and free is not None and need <= free < share * need:
        problems.append(
            f"not enough GPU memory for {share} shots on a device: {readable_size(share * need)} needed, "
            f"{readable_size(free)} free (survey.at_once)"
        )
    if first.output_bytes <= first.free_disk_bytes < to_do * first.output_bytes:
        problems.append(
            f"not enough disk space for {to_do} shots: {readable_size(to_do * first.output_bytes)} needed, "
            f"{readable_size(first.free_disk_bytes)} free"
        )
    return problems


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
