"""Errors and warnings for users. Each states the location, the value, the allowed values and a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Protocol

OVERWRITE = "--overwrite, in Python overwrite=True"
"""Remedy in messages about existing results."""


class LithowaveWarning(UserWarning):
    """A result may be less accurate than expected, or an entry may not be intended."""


def issue_warning(text: str) -> None:
    """Issue a `LithowaveWarning` in every run of a process, whereas Python shows a text only once per line of code.

    Filters of the `warnings` module apply."""
    warnings.warn_explicit(text, LithowaveWarning, "lithowave", 1)


class LithowaveError(Exception):
    """The base class of all errors that lithowave raises intentionally; the text is for the user."""


class InputError(LithowaveError):
    """The description, or another input, is invalid.

    Parameters
    ----------
    where : the key, for example ``sources[0].position``, or the option, file or folder.
    got : the problem as a clause with the value: ``z = 20 m is above the free surface (z = 0)``.
    allowed : the allowed values or range, as a clause or sentence; may be empty.
    hint : the remedy, or the closest valid name; may be empty.
    file, line : location of the entry, if the description is from a file.
    others : further errors found in the same pass.
    """

    def __init__(
        self,
        where: str,
        got: str,
        allowed: str = "",
        hint: str = "",
        *,
        file: str | Path | None = None,
        line: int | None = None,
        others: Sequence[InputError] = (),
    ) -> None:
        self.where, self.got, self.allowed, self.hint = where, got, allowed, hint
        self.file, self.line, self.others = file, line, tuple(others)
        super().__init__(where, got, allowed, hint)

    def located(self, file: str | Path | None, line: int | None) -> InputError:
        """Return the same error with file and line."""
        return InputError(self.where, self.got, self.allowed, self.hint, file=file, line=line, others=self.others)

    def _own_text(self) -> str:
        place = "" if self.file is None else f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        text = _joined(self.got, self.allowed, self.hint)
        return f"{place}{self.where}: {text}" + ("" if text.endswith("?") else ".")

    def __str__(self) -> str:
        return "\n".join([self._own_text(), *(str(other) for other in self.others)])


def _joined(*parts: str) -> str:
    """Join clauses by semicolons, and sentences, which begin with a capital letter, by periods."""
    text = ""
    for part in (part.strip().rstrip(".") for part in parts if part.strip()):
        mark = " " if text.endswith("?") else "; " if part[0].islower() else ". "
        text += mark + part if text else part
    return text


class InstabilityError(LithowaveError):
    """The fields have grown without bound or contain NaN; the text states step, time, location and likely causes."""


class SelfCheckError(LithowaveError):
    """A self-check of lithowave failed, so the results of the run are unreliable; the text names the check."""

    def __str__(self) -> str:
        return (
            f"self-check failed: {super().__str__()} The results of this run cannot be trusted. Run it again; if the "
            "error occurs again, report it with the simulation file."
        )


class PartialResult(Protocol):
    """The result of a run or a survey, complete or not."""

    @property
    def directory(self) -> Path: ...
    @property
    def complete(self) -> bool: ...


class Interruption(BaseException):
    """The base class of exceptions of a run, or of a survey, that a signal has ended; see `RunInterrupted`."""

    def __init__(self, signal_name: str, result: PartialResult, checkpoint: Path | None = None) -> None:
        self.signal_name, self.result, self.checkpoint = signal_name, result, checkpoint
        super().__init__(signal_name, result, checkpoint)

    def __str__(self) -> str:
        directory = self.result.directory
        if self.result.complete:
            return f"{self.signal_name} arrived after the last step; the results in {directory} are complete."
        return (
            f"stopped by {self.signal_name}; the results in {directory} are incomplete. "
            f"`lithowave restart {quote(str(directory))}` resumes from the last checkpoint."
        )


class RunInterrupted(Interruption, LithowaveError):
    """SIGTERM or SIGUSR1 has ended a run or a survey.

    Attributes
    ----------
    signal_name : name of the signal.
    result : the result up to this time, a `Result` or a `SurveyResult`; ``result.complete`` is True only if the signal
        arrived after the last step.
    checkpoint : the file from which a run can be resumed (``lithowave restart``); None if the run is complete, and for
        a survey, whose shots have one each.
    """


class RunKeyboardInterrupt(Interruption, KeyboardInterrupt):
    """Ctrl-C (SIGINT), or the interrupt of a notebook, has ended a run or a survey.

    It has the attributes of `RunInterrupted`: ``signal_name``, ``result`` and ``checkpoint``.
    """


def interruption(signal_name: str, result: PartialResult, checkpoint: Path | None = None) -> Interruption:
    """Return the exception of a run or a survey that a signal has ended; see `RunInterrupted`."""
    kind = RunKeyboardInterrupt if signal_name == "SIGINT" else RunInterrupted
    return kind(signal_name, result, checkpoint)


class OutputError(LithowaveError):
    """A result could not be written or read: the disk is full, or a file is missing or damaged."""


class ResourceError(LithowaveError):
    """The machine lacks a resource that the run requires (memory, device, driver); the text states both amounts."""


class KernelBuildError(LithowaveError):
    """A kernel did not compile; the text contains the compiler log and the definitions."""


class MissingPackageError(LithowaveError):
    """An optional package is required but not installed; the text names the extra that installs it.

    Parameters
    ----------
    package : name of the package.
    purpose : operation that requires it.
    extra : extra of lithowave that installs it.
    without : options of a run that does not require the package; may be empty.
    """

    def __init__(self, package: str, purpose: str, extra: str, without: str = "") -> None:
        text = f'{purpose} needs the package {package}: pip install "lithowave[{extra}]"'
        super().__init__(text + (f", or run without it: {without}" if without else ""))


def require_package(package: str, purpose: str, extra: str, without: str = "") -> None:
    """Raise MissingPackageError if a package is not installed; see there for the parameters."""
    if find_spec(package) is None:
        raise MissingPackageError(package, purpose, extra, without)
