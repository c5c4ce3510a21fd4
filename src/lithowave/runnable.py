"""The public class ``lithowave.Simulation``: a description that can be checked and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lithowave.description.simulation import Simulation as Description

if TYPE_CHECKING:
    from lithowave.run.check import CheckReport
    from lithowave.run.status import Result
    from lithowave.shots import SurveyReport, SurveyResult


class Simulation(Description):
    """A complete, validated description of a simulation.

    Created from a file (`from_file`), from YAML text (`from_text`), or in Python from objects or dictionaries
    (``Simulation(domain={...}, material={...}, ...)``).

    Raises
    ------
    InputError : the description is invalid; the error lists all problems.
    """

    def check(self) -> CheckReport | SurveyReport:
        """Return the memory, time and disk space required by a run, without running it.

        See :func:`lithowave.check_simulation`; with a survey, :func:`lithowave.shots.check_survey`.
        """
        from lithowave.run.check import check_simulation
        from lithowave.shots import check_survey

        return check_simulation(self) if self.survey is None else check_survey(self)

    def run(self, **keywords: object) -> Result | SurveyResult:
        """Run the simulation, or all shots of its survey.

        Parameters
        ----------
        keywords : those of :func:`lithowave.run_simulation` (``output``, ``overwrite``, ``show``, ``callbacks`` and the
        keys of ``compute`` and ``output``); with a survey, those of :func:`lithowave.shots.run_survey`, which has
        ``executor`` (a ``concurrent.futures.Executor`` or a Dask client) in addition. ``show=True`` displays the
        progress of a run in one line, which is updated in terminals and notebooks.
        """
        from lithowave.run.launch import run_simulation
        from lithowave.run.status import ProgressLine
        from lithowave.shots import run_survey

        if isinstance(keywords.get("show"), bool):
            keywords["show"] = ProgressLine() if keywords["show"] and self.survey is None else None
        return run_simulation(self, **keywords) if self.survey is None else run_survey(self, **keywords)
