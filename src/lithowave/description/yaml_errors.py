"""Pydantic's errors as one :class:`InputError` in the user's words, with file and line."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from lithowave.description.python_objects import replacement
from lithowave.description.refusals import nearest, shown
from lithowave.description.yaml_text import Document, EntryPath, written_path
from lithowave.errors import InputError

_GROUP_ERRORS = {"model_type", "model_attributes_type", "dict_type", "mapping_type", "dataclass_type"}
_LIST_ERRORS = {"list_type", "tuple_type", "sequence_type", "iterable_type"}


def input_error(
    error: ValidationError, data: Any, model: type[BaseModel], document: Document | None = None
) -> InputError:
    """Return all problems of one validation as one error, in the order of the file."""
    problems: list[InputError] = []
    found = error.errors(include_url=False)
    misspelled = set(_misspelled_keys(found, data, model))
    for details in found:
        if details["type"] == "missing" and _user_path(details, data) in misspelled:
            continue  # reported at the misspelled key
        if details["type"] == "several":
            for problem in details["ctx"]["problems"]:
                path = written_entry(problem.path, data)
                problems.append(_located(path, problem.got, problem.allowed, problem.hint, model, document))
        else:
            path = _user_path(details, data)
            problems.append(_located(path, *_words(details, path, model), model, document))
    return combined(problems)


def combined(problems: Sequence[InputError]) -> InputError:
    """Return one error for several problems, sorted by line."""
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    first, others = ordered[0], ordered[1:]
    return InputError(
        first.where, first.got, first.allowed, first.hint, file=first.file, line=first.line, others=others
    )


def _misspelled_keys(
    found: Sequence[Mapping[str, Any]], data: Any, model: type[BaseModel]
) -> Iterator[EntryPath]:
    """Return the probable paths of unknown keys."""
    for details in found:
        if details["type"] == "extra_forbidden":
            *group, key = _user_path(details, data)
            match = nearest(str(key), _keys_at(model, tuple(group)))
            if match:
                yield (*group, match.split("'")[1])


def _located(
    path: EntryPath, got: str, allowed: str, hint: str, model: type[BaseModel], document: Document | None
) -> InputError:
    where = written_path(path) or model.__name__.lower()
    file, line = document.place_of(path) if document else (None, None)
    return InputError(where, got, allowed, hint, file=file, line=line)


def written_entry(path: EntryPath, data: Any) -> EntryPath:
    """Return a path without the indices of lists that the user wrote as their only item."""
    written: list[str | int] = []
    for step in path:
        if isinstance(step, int) and isinstance(data, (Mapping, BaseModel)):
            continue
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        elif isinstance(data, BaseModel):
            data = getattr(data, str(step), None)
        else:
            data = None
        written.append(step)
    return tuple(written)


def _user_path(details: Mapping[str, Any], data: Any) -> EntryPath:
    """Return the path to the entry in the user's data, without steps internal to pydantic."""
    location = details["loc"]
    path: list[str | int] = []
    for position, step in enumerate(location):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        elif isinstance(data, BaseModel) and isinstance(step, str) and hasattr(data, step):
            data = getattr(data, step)
        elif not (details["type"] in ("missing", "extra_forbidden") and position == len(location) - 1):
            continue
        path.append(step)
    return (*path, *details.get("ctx", {}).get("at", ()))


def _words(details: Mapping[str, Any], path: EntryPath, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return the problem, the allowed values, and a hint."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "refused":
        return context["got"], context["allowed"], context["hint"]
    if kind == "missing":
        return "is missing", "this key is required", ""
    if kind == "extra_forbidden":
        keys = _keys_at(model, path[:-1])
        return (
            f"unknown key {path[-1]!r}" if path else "unknown key",
            f"valid keys: {', '.join(keys)}",
            nearest(str(path[-1]), keys),
        )
    if kind == "literal_error":
        choices = _literal_choices(context["expected"])
        return (
            f"{shown(value)} is not a valid choice",
            f"choose one of: {', '.join(choices)}",
            nearest(str(value), choices),
        )
    if kind.startswith("union_tag"):
        choices = _literal_choices(context.get("expected_tags", ""))
        given = context.get("tag", "")
        return (
            f"{shown(value)} is not understood",
            f"expected one of: {', '.join(choices)}",
            nearest(given, choices),
        )
    if kind in _GROUP_ERRORS:
        keys = _keys_at(model, path)
        return (
            f"{shown(value)} is not a group of keys",
            f"expected keys: {', '.join(keys)}" if keys else "",
            replacement(path, value),
        )
    if kind in _LIST_ERRORS:
        allowed = "expected a list: [..., ...] or lines that begin with '-'"
        return f"{shown(value)} is not a list", allowed, replacement(path, value)
    if kind == "string_type":
        hint = "put it in quotes" if isinstance(value, (int, float)) else ""
        return f"{shown(value)} is not text", "expected text", hint
    if kind in {"bool_type", "bool_parsing"}:
        meant = {"on": "true", "yes": "true", "y": "true", "off": "false", "no": "false", "n": "false"}
        word = meant.get(str(value).lower(), "")
        return (
            f"{shown(value)} is not true or false",
            "expected true or false",
            f"did you mean {word}?" if word else "",
        )
    if kind == "callable_type":
        hint = "a file cannot hold one: use Material(function=f) in Python, or a gridded model (material.file)"
        allowed = "expected a Python function f(x, y, z) that returns vp, vs and rho"
        return f"{shown(value)} is not a function", allowed, hint
    if kind in {"too_short", "too_long"}:
        limits = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
        words, key = limits[kind]
        return f"has {context.get('actual_length')} items", f"expected {words} {context[key]}", ""
    if kind in {"value_error", "assertion_error"}:
        return str(context["error"]), "", ""
    return f"{shown(value)}: {details['msg']}", "", ""


def _literal_choices(text: str) -> list[str]:
    """Return the choices in pydantic's ``'a', 'b' or 'c'``."""
    return [part.strip().strip("'") for part in text.replace(" or ", ", ").split(",") if part.strip()]


def _keys_at(model: type[BaseModel], path: EntryPath) -> list[str]:
    """Return the valid keys of an entry of the description."""
    candidates: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, int):
            continue
        fields = [
            entry
            for candidate in candidates
            for name, entry in candidate.model_fields.items()
            if step in (name, entry.alias)
        ]
        candidates = [found for entry in fields for found in _models_in(entry.annotation)] or candidates
    names = (
        entry.alias or name for candidate in candidates for name, entry in candidate.model_fields.items()
    )
    return list(dict.fromkeys(names))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the models inside ``list[A]``, ``A | None``, ``Annotated[A | B, ...]``."""
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
