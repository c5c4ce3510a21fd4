"""Words of refusals: the errors that validators raise, values as text, and the closest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

from lithowave.description.python_objects import is_obspy_object


def refusal(
    got: str, allowed: str = "", hint: str = "", *, at: Iterable[str | int] = ()
) -> PydanticCustomError:
    """Return the error to raise in a validator; key, file and line are added when the description is read.

    Parameters
    ----------
    got : what stands there, as a clause: ``z = 20 m is above the free surface (z = 0)``.
    allowed : what is allowed; may be empty.
    hint : what to try, or the nearest valid name; may be empty.
    at : keys and indices that lead from the validated value to the culprit, when that lies deeper.
    """
    context = {"got": got, "allowed": allowed, "hint": hint, "at": tuple(at)}
    return PydanticCustomError("refused", "{got}", context)


class Problem(NamedTuple):
    """One thing that is wrong: keys and indices that lead to it, and the words of :func:`refusal`."""

    path: tuple[str | int, ...]
    got: str
    allowed: str = ""
    hint: str = ""


def refusals(problems: Iterable[Problem]) -> PydanticCustomError:
    """Return an error as :func:`refusal` does, for several problems with different keys."""
    listed = tuple(problems)
    return PydanticCustomError("several", "{count} problems", {"count": len(listed), "problems": listed})


def shown(value: Any, limit: int = 60) -> str:
    """Return a value as text for messages, truncated if it is long."""
    text = (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else "null"
        if value is None
        else repr(str(value) if isinstance(value, Path) else value)
    )
    if is_obspy_object(value):
        text = f"an ObsPy {type(value).__name__}"
    elif text.startswith("<"):  # the representation of an object without one of its own
        text = f"an object of the type {type(value).__name__}"
    text = " ".join(text.split())  # that of an array has several lines
    return text if len(text) <= limit else text[: limit - 4] + " ..."


SYNONYMS = {
    "gpu": "cuda", "nvidia": "cuda", "float32": "single", "float64": "double", "fd": "finite_difference",
    "sem": "spectral_element", "dg": "discontinuous_galerkin",
}  # fmt: skip
"""Names of other programs, in lower case, with the choice that means the same but is not spelled alike."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return ``did you mean 'duration'?`` for the closest choice, or an empty text without a close one."""
    by_lower = {choice.lower(): choice for choice in choices}
    if (meant := SYNONYMS.get(name.lower())) in by_lower:
        return f"did you mean {meant!r}?"
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]!r}?" if found else ""
