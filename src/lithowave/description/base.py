"""The base class of every part of a description, and the names of input files."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from lithowave.description.text import (
    input_error,
    is_obspy_object,
    nearest,
    refusal,
    shown,
    without_former_defaults,
)
from lithowave.errors import InputError

Result = TypeVar("Result")


class DescriptionModel(BaseModel):
    """A part of the description: unknown keys are refused, values cannot be changed afterwards.

    Made directly in Python it raises :class:`lithowave.errors.InputError` instead of pydantic's own error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=False)

    def __init__(self, **data: object) -> None:
        try:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
        except ValidationError as error:
            raise input_error(error, data, type(self)) from None

    # Without this mark, pydantic would call __init__ also for nested parts, and report only the first problem.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DescriptionModel) or type(self).model_fields.keys() != type(other).model_fields.keys():
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def _given(self, *keys: str) -> list[str]:
        """Return those of some keys that are given, in this order."""
        return [key for key in keys if getattr(self, key) is not None]

    def _settle(self, **values: object) -> None:
        """Set values that follow from others, while the part is made; they do not count as set by the user."""
        self.__dict__.update(values)

    def _settled(self, **values: object) -> Self:
        """Return a copy with these values, which do not count as set by the user."""
        copied = self.model_copy()
        copied._settle(**values)
        return copied

    @model_validator(mode="before")
    @classmethod
    def _group_of_keys(cls, value: object) -> object:
        if is_obspy_object(value):  # pydantic would report each attribute of an event as an unknown key
            raise PydanticKnownError("model_type", {"class_name": cls.__name__})
        if not isinstance(value, dict):
            return value
        for key, item in value.items():
            if isinstance(item, str) and "\0" in item:
                raise refusal("contains a NUL character", "expected text", at=(key,))
        return without_former_defaults(cls.__name__.lower(), value)


def existing_file(value: object, info: ValidationInfo) -> Path:
    """Return the absolute path of an existing file; a relative name starts in the folder of the description."""
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise refusal(f"{shown(value)} is not a file name", "expected the name of a file, as text")
    directory = Path((info.context or {}).get("directory", "."))
    path = (directory / Path(value).expanduser()).resolve()
    if path.is_dir():
        raise refusal(f"{path} is a folder", "expected a file")
    if not path.is_file():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        place = "" if str(path) == str(value) else f" ({path})"
        hint = hint_of_script(path) or nearest(path.name, siblings)
        raise refusal(f"the file {str(value)!r} does not exist{place}", hint=hint)
    return path


def hint_of_script(path: Path) -> str:
    """Return a hint to run the script in the folder of a missing file that writes it; empty if there is none.

    The docstring of such a script contains the name of the file and a form of the verb "write".
    """
    name = re.compile(rf"(?<![\w.-]){re.escape(path.name)}(?![\w-]|\.\w)")
    for script in sorted(path.parent.glob("*.py")):
        try:
            purpose = ast.get_docstring(ast.parse(script.read_bytes())) or ""
        except (OSError, SyntaxError, ValueError):  # not a script that Python could run
            continue
        if name.search(purpose) and re.search(r"\bwrit(e|es|ing|ten)\b", purpose, re.IGNORECASE):
            return f"Write it with the script in its folder: `python {shlex.quote(str(script))}`"
    return ""


def keys_as_text(value: object) -> object:
    """Return a mapping with text instead of integers as keys, such as the numbers of groups of a mesh; others as is."""
    if not isinstance(value, dict):
        return value
    return {str(key) if type(key) is int else key: entry for key, entry in value.items()}


InputFile = Annotated[Path, BeforeValidator(existing_file)]
"""An existing file; a relative name starts in the folder of the description (``context["directory"]``)."""


def reading(read: Callable[[Path], Result], path: Path, at: tuple[str | int, ...] = ("file",)) -> Result:
    """Call a reader of a foreign file inside a validator: what it refuses is refused at the key ``at``.

    The text keeps the foreign file's own name and line, so that a user sees both places.
    """
    try:
        return read(path)
    except InputError as error:
        raise carried(error, at) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refusal(f"{path} cannot be read: {reason}", at=at) from None


def carried(error: InputError, at: tuple[str | int, ...]) -> PydanticCustomError:
    """Return the error of a reader as an error at the key ``at``."""
    place = "" if error.file is None else f"{error.file}:{error.line}: " if error.line else f"{error.file}: "
    where = f"{error.where}: " if error.where and error.where != str(error.file) else ""
    more = "".join(f"\n    {other}" for other in error.others)
    return refusal(f"{place}{where}{error.got}", error.allowed, f"{error.hint}{more}", at=at)
