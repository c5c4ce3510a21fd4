"""The errors a user may meet. Each says where, what stands there, what is allowed, and what to try."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path


class LithowaveWarning(UserWarning):
    """A result that may be less accurate than the user expects, or an entry that may not be meant."""


def issue_warning(text: str) -> None:
    """Issue a `LithowaveWarning` with this text, in every run of a process: Python shows a text only once per line of
    code otherwise. Filters of the `warnings` module apply."""
    warnings.warn_explicit(text, LithowaveWarning, "lithowave", 1)


class LithowaveError(Exception):
    """Base of every error that lithowave raises on purpose; its text is meant for the user."""


class InputError(LithowaveError):
    """Something in the description cannot be accepted.

    Parameters
    ----------
    where : place in the description, e.g. ``sources[0].position``.
    got : what stands there, as a clause: ``z = 20 m is above the free surface (z = 0)``.
    allowed : what is allowed, as a sentence or clause; may be empty.
    hint : what to try, or the nearest valid name; may be empty.
    file, line : set where the description came from a file.
    others : further problems found in the same pass.
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
        """The same problem, with the file and line it stands in."""
        return InputError(
            self.where, self.got, self.allowed, self.hint, file=file, line=line, others=self.others
        )

    def _own_text(self) -> str:
        place = "" if self.file is None else f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        text = _joined(self.got, self.allowed, self.hint)
        return f"{place}{self.where}: {text}" + ("" if text.endswith("?") else ".")

    def __str__(self) -> str:
        return "\n".join([self._own_text(), *(str(other) for other in self.others)])


def _joined(*parts: str) -> str:
    """Clauses after a semicolon, sentences (they begin with a capital letter) after a full stop."""
    text = ""
    for part in (part.strip().rstrip(".") for part in parts if part.strip()):
        mark = " " if text.endswith("?") else "; " if part[0].islower() else ". "
        text += mark + part if text else part
    return text


class InstabilityError(LithowaveError):
    """The fields grew without bound or turned into NaN; the text has step, time, place, likely causes."""


class SelfCheckError(LithowaveError):
    """A check of lithowave by itself failed: the results of the run cannot be trusted; the text names the check."""

    def __str__(self) -> str:
        return (
            f"self-check failed: {super().__str__()} The results of this run cannot be trusted. Run it again; if the "
            "error occurs again, report it with the simulation file."
        )


class OutputError(LithowaveError):
    """A result could not be written or read: disk full, folder in use, file damaged."""


class ResourceError(LithowaveError):
    """The machine lacks what the run needs (memory, device, driver); the text has both figures."""


class KernelBuildError(LithowaveError):
    """A kernel did not compile; the text has the compiler's log and the definitions."""


class MissingPackageError(LithowaveError):
    """An optional package is needed for what was asked; the text names the extra that brings it.

    without : options of a run that does without the package; may be empty.
    """

    def __init__(self, package: str, purpose: str, extra: str, without: str = "") -> None:
        text = f'{purpose} needs the package {package}: pip install "lithowave[{extra}]"'
        super().__init__(text + (f", or run without it: {without}" if without else ""))
