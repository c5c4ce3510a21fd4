"""What every part of a description shares: the model base, refusals in validators, names of input files."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from lithowave.description.python_objects import is_obspy_object
from lithowave.errors import InputError

Result = TypeVar("Result")


def refusal(
    got: str, allowed: str = "", hint: str = "", *, at: Iterable[str | int] = ()
) -> PydanticCustomError:
    """The error to raise in a validator; the place, file and line are added where the description is read.

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
    """Like :func:`refusal`, for several problems in different places."""
    listed = tuple(problems)
    return PydanticCustomError("several", "{count} problems", {"count": len(listed), "problems": listed})


def shown(value: Any, limit: int = 60) -> str:
    """A value as it may stand in a message, cut when it is long."""
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
    """``did you mean 'duration'?`` for the choice most alike, or nothing when none is."""
    by_lower = {choice.lower(): choice for choice in choices}
    if (meant := SYNONYMS.get(name.lower())) in by_lower:
        return f"did you mean {meant!r}?"
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]!r}?" if found else ""


class DescriptionModel(BaseModel):
    """A part of the description: unknown keys are refused, values cannot be changed afterwards.

    Made directly in Python it raises :class:`lithowave.errors.InputError` instead of pydantic's own error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=False)

    def __init__(self, **data: Any) -> None:
        try:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
        except ValidationError as error:
            from lithowave.description.yaml_errors import input_error

            raise input_error(error, data, type(self)) from None

    # Without this mark pydantic would call __init__ for nested parts as well, and only the first problem
    # would be told.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _group_of_keys(cls, value: Any) -> Any:
        if is_obspy_object(value):  # pydantic would report each attribute of an event as an unknown key
            raise PydanticKnownError("model_type", {"class_name": cls.__name__})
        return value


def _existing_file(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise refusal(f"{shown(value)} is not a file name", "expected the name of a file, as text")
    directory = Path((info.context or {}).get("directory", "."))
    path = (directory / Path(value).expanduser()).resolve()
    if path.is_dir():
        raise refusal(f"{path} is a folder", "expected a file")
    if not path.is_file():
        neighbours = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        place = "" if str(path) == str(value) else f" ({path})"
        raise refusal(f"the file {str(value)!r} does not exist{place}", hint=nearest(path.name, neighbours))
    return path


InputFile = Annotated[Path, BeforeValidator(_existing_file)]
"""An existing file; a relative name starts in the folder of the description (``context["directory"]``)."""


def reading(read: Callable[[Path], Result], path: Path, at: tuple[str | int, ...] = ("file",)) -> Result:
    """Call a reader of a foreign file inside a validator: what it refuses is refused at the key ``at``.

    The text keeps the foreign file's own name and line, so that a user sees both places.
    """
    try:
        return read(path)
    except InputError as error:
        raise _carried(error, at) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refusal(f"{path} cannot be read: {reason}", at=at) from None


def _carried(error: InputError, at: tuple[str | int, ...]) -> PydanticCustomError:
    place = "" if error.file is None else f"{error.file}:{error.line}: " if error.line else f"{error.file}: "
    where = f"{error.where}: " if error.where and error.where != str(error.file) else ""
    more = "".join(f"\n    {other}" for other in error.others)
    return refusal(f"{place}{where}{error.got}", error.allowed, f"{error.hint}{more}", at=at)
