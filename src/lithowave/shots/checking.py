"""The dry run of a survey: what one shot takes, and all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError
from lithowave.output.hdf5 import readable_size
from lithowave.run.check import CheckReport, check_simulation, duration_text
from lithowave.run.status import FINISHED, run_state
from lithowave.shots.folder import SurveyFolder, is_survey
from lithowave.shots.slots import shot_slots


@dataclass(frozen=True)
class SurveyReport:
    """What `lithowave check` tells of a survey.

    first : the dry run of the first shot to do; the others are like it. shots, finished : how many there are, and are
    finished already. at_once : how many run at the same time. problems : why the survey would fail here.
    """

    first: CheckReport
    shots: int
    finished: int
    at_once: int
    devices: int
    problems: list[str]

    @property
    def title(self) -> str:
        """Of the description."""
        return self.first.title

    @property
    def warnings(self) -> list[str]:
        """What may not be meant."""
        return self.first.warnings

    @property
    def runnable(self) -> bool:
        """Whether the survey could be made here."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """Whether the survey would work on this machine, in one line."""
        return "this run would work here" if self.runnable else "this run would fail here"

    @property
    def to_do(self) -> int:
        """Shots that are not finished."""
        return self.shots - self.finished

    @property
    def time_s(self) -> float | None:
        """Predicted time in the time loops of all shots to do; those on one device or CPU share its speed."""
        if self.first.loop_s is None:
            return None
        return self.first.loop_s * -(-self.to_do // max(1, self.devices))

    @property
    def output_bytes(self) -> int:
        """What the shots to do will write."""
        return self.to_do * self.first.output_bytes

    def as_dict(self) -> dict[str, Any]:
        """All entries, for JSON."""
        return {
            "shots": self.shots, "finished": self.finished, "at_once": self.at_once, "time_s": self.time_s,
            "memory_bytes": self.at_once * self.first.memory_bytes, "output_bytes": self.output_bytes,
            "problems": self.problems, "runnable": self.runnable, "shot": self.first.as_dict(),
        }  # fmt: skip

    def lines(self) -> list[tuple[str, str]]:
        """Name and value, in the order in which they are told: of one shot, then of all."""
        done = f"; {self.finished} of {self.shots} are finished" if self.finished else ""
        lines = [*self.first.lines(), ("shots", f"{self.shots}, {self.at_once} at a time{done}")]
        lines.append(("in all: memory", f"{readable_size(self.at_once * self.first.memory_bytes)}"))
        sizes = f"{readable_size(self.output_bytes)}; {readable_size(self.first.free_disk_bytes)} free"
        lines.append(("output", sizes))
        if self.time_s is not None:
            lines.append(("time", f"{duration_text(self.time_s)} for {self.to_do} shots"))
        return lines


def check_survey(simulation: Simulation, *, measure: bool = True) -> SurveyReport:
    """Make the plan of a shot without running it, and tell what all shots take.

    Raises
    ------
    InputError : where the description, or any shot, cannot be accepted.
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
    """What fits once but not as often as it is wanted."""
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
            f"not enough room for {to_do} shots: {readable_size(to_do * first.output_bytes)} needed, "
            f"{readable_size(first.free_disk_bytes)} free"
        )
    return problems
