"""The complete description of an experiment as one object, which corresponds to one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from pydantic import ValidationInfo, model_validator

from lithowave.description.description_warnings import find_warnings
from lithowave.description.entries import Description
from lithowave.description.imported_mesh import with_mesh
from lithowave.description.refusals import refusals
from lithowave.description.shots import shot_simulation, survey_problems
from lithowave.description.validation import find_problems
from lithowave.description.writing import resolved_yaml
from lithowave.errors import InputError


class Simulation(Description):
    """A complete, validated experiment, independent of any device, MPI or grid.

    Create it from a file, from text, or in Python from objects or dictionaries. Each of these raises
    :class:`lithowave.errors.InputError` with all problems found. ``lithowave.Simulation`` is this class with the
    methods ``run`` and ``check``.
    """

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        self.__dict__["domain"] = with_mesh(self.domain, self.solver, self.boundaries)
        with suppress(InputError):  # the checks of the mesh and of the material report these
            self.__dict__["material"] = self.material.in_domain(self.domain)
        self._fill_in((info.context or {}).get("stem", ""))
        problems = find_problems(self) or survey_problems(self)
        if problems:
            raise refusals(problems)
        return self

    def shot(self, number: int) -> Self:
        """Return the simulation of one shot of the survey, numbered from 1; this simulation has no survey.

        Raises
        ------
        InputError : if there is no shot with this number.
        """
        shots = [] if self.survey is None else self.survey.shot_list(self.domain)
        if not 1 <= number <= len(shots):
            count = f"the survey has shots 1 to {len(shots)}" if shots else "the description has no survey"
            raise InputError("survey", f"there is no shot {number}", count)
        return shot_simulation(self, shots[number - 1])

    def shots(self) -> Iterator[Self]:
        """Yield the simulations of all shots of the survey in ascending order; nothing without a survey."""
        for shot in () if self.survey is None else self.survey.shot_list(self.domain):
            yield shot_simulation(self, shot)

    def warnings(self) -> list[str]:
        """Return warnings about entries that are valid but probably not intended, one sentence each."""
        return find_warnings(self)

    def to_yaml(self) -> str:
        """Return the simulation file as YAML with all defaults and absolute names of input files.

        Reading this text gives an equal simulation.

        Raises
        ------
        InputError
            if the material is a Python function, which cannot be stored in a file.
        """
        return resolved_yaml(self)
