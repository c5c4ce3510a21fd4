"""YAML text with the line of every entry, changes to single entries, and errors in the words of the user.

Plain words are read after YAML 1.2: only ``true`` and ``false`` are truth values, so that the network code ``NO`` stays
text, and ``1e18`` is a number. A key that stands twice in one group is refused. The errors of Pydantic become one
:class:`InputError` with file and line, the values as text, hints, and the closest valid name.
"""

from __future__ import annotations

import copy
import difflib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from lithowave.errors import InputError
from lithowave.process import no_collection
from lithowave.readers.budget import DESCRIPTION_BYTES, DIGITS, NESTING, REPEATED_ENTRIES

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

LISTS = ("sources", "receivers")
_TEXT_KEYS = {
    "sources": "file", "receivers": "file", "material": "file", "solver": "method", "compute": "backend",
    "output": "directory",
}  # fmt: skip
"""For each entry the key that was most likely meant when the entry itself is text."""

_STATION = (
    '{"network": network.code, "name": station.code, "longitude": station.longitude, "latitude": station.latitude}'
)
_OBJECTS: dict[tuple[str | int, str], str] = {
    ("receivers", "Station"): f"give receivers=[{_STATION}] with the code of the network",
    ("material", "ndarray"): (
        'give arrays by name with their axes, material={"x": x, "y": y, "z": z, "vp": vp, "vs": vs, "rho": rho, '
        '"axes": ["x", "y", "z"]}, or an xarray Dataset'
    ),
    ("material", "function"): 'give material={"function": f} with a function f(x, y, z) that returns vp, vs and rho',
}


def is_obspy_object(value: object) -> bool:
    """True if a value is an object of ObsPy, whose events are mappings, and whose catalogs are iterable."""
    return type(value).__module__.partition(".")[0] == "obspy"


def replacement(path: tuple[str | int, ...], value: object) -> str:
    """Return a replacement for a value of the wrong type as a hint; empty if none is known.

    Parameters
    ----------
    path : keys and indices that lead to the value.
    """
    if not path or not all(isinstance(step, int) for step in path[1:]):
        return ""
    entry, in_list = path[0], len(path) == 1 and path[0] in LISTS
    if (entry, type(value).__name__) in _OBJECTS:
        return _OBJECTS[entry, type(value).__name__]
    if isinstance(value, (str, Path)) and entry in _TEXT_KEYS:
        group = f"{{{_TEXT_KEYS[entry]}: {value}}}"
        return f"did you mean {f'[{group}]' if in_list else group}?"
    return "put the group of keys into a list: [{...}]" if in_list and isinstance(value, Mapping) else ""


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


def shown(value: object, limit: int = 60) -> str:
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


class RemovedKey(NamedTuple):
    """A key that no longer exists. default : its former default, which stored descriptions contain and which is
    ignored. now : the only behavior, as a clause of the error for other values."""

    default: Any
    now: str


REMOVED: Mapping[str, Mapping[str, RemovedKey]] = {
    "solver": {"coefficients": RemovedKey("taylor", "the Taylor coefficients are always used")},
    "compute": {
        "overlap": RemovedKey(True, "communication always overlaps with computation"),
        "patience": RemovedKey(600.0, "the limit is always 600 s without a completed step"),
    },
}
"""Removed keys by group and name."""


def without_former_defaults(group: str, data: Entries) -> Entries:
    """Return the entries of a group of keys without removed keys at their former defaults."""
    removed = REMOVED.get(group)
    if removed is None:
        return data
    return {key: value for key, value in data.items() if key not in removed or value != removed[key].default}


EntryPath = tuple[str | int, ...]
LONG = 100_000
"""Characters from which a text is read with libyaml."""


class _Budget:
    """Limits of loaders: repeated entries and NUL characters."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()  # type: ignore[misc]
        if node is not None:
            _refuse_repetition(node)
        return node

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        text: str = super().construct_scalar(node)  # type: ignore[misc]
        if "\0" in text:
            raise ConstructorError(None, None, "there is a NUL character", node.start_mark)
        return text


class _Loader(_Budget, yaml.SafeLoader):
    """SafeLoader with the plain-word rules of the YAML 1.2 core schema, within the budget of `lithowave.readers`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def fetch_flow_collection_start(self, token: object) -> None:
        if self.flow_level >= NESTING:
            raise ScannerError(None, None, "there are too many nested groups", self.get_mark())
        super().fetch_flow_collection_start(token)


def _refuse_repetition(root: yaml.Node) -> None:
    """Raise an error if aliases repeat more entries than the budget permits; an alias within its own group is
    refused elsewhere."""
    sizes: dict[int, int] = {}  # entries of each node, with those that aliases repeat

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 1
            parts = node.value if isinstance(node, yaml.CollectionNode) else ()
            sizes[id(node)] = 1 + sum(sum(map(size, part)) if isinstance(part, tuple) else size(part) for part in parts)
        return sizes[id(node)]

    repeated = size(root) - len(sizes)
    if repeated > REPEATED_ENTRIES:
        count = str(repeated) if repeated < 10**9 else "more than a billion"  # it may have thousands of digits
        problem = f"aliases repeat {count} entries; allowed: {REPEATED_ENTRIES}"
        raise ConstructorError(None, None, problem, root.start_mark)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"
        r"|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+.0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def _whole_number(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    if len(text) > DIGITS:
        problem = f"the integer has {len(text)} digits; allowed: {DIGITS}"
        raise ConstructorError(None, None, problem, node.start_mark)
    return int(text)  # leading zeros are decimal, never octal


def _decimal_number(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = loader.construct_scalar(node).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _decimal_number)


class _LongLoader(_Budget, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """`_Loader` with the parser of libyaml, which is six times faster, and whose messages are not used."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
    yaml_constructors = _Loader.yaml_constructors


def _loader_of(text: str) -> _Loader | _LongLoader:
    """Return the loader of a text. libyaml composes nodes by recursion without a limit, so that texts with errors or
    many nested groups are left to the other loader."""
    if len(text) < LONG or not yaml.__with_libyaml__:
        return _Loader(text)
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LongLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > NESTING:
                return _Loader(text)
    except yaml.YAMLError:
        return _Loader(text)
    return _LongLoader(text)


@dataclass(frozen=True)
class Document:
    """The content of a YAML text, and where its entries stand."""

    data: ReadEntries
    file: Path | None = None
    lines: Mapping[EntryPath, int] = field(default_factory=dict)
    replaced: frozenset[EntryPath] = frozenset()

    def with_overrides(self, overrides: ReadEntries) -> Document:
        """Return the document with replaced entries, which have no line in the file."""
        replaced = frozenset(parse_path(key) for key in overrides)
        return Document(overridden(self.data, overrides), self.file, self.lines, replaced)

    def place_of(self, path: Sequence[str | int]) -> tuple[Path | None, int | None]:
        """Return file and line of an entry; neither for a replaced entry or a group created for it."""
        place = tuple(path)
        below = any(place[: len(other)] == other for other in self.replaced)
        made = place not in self.lines and any(other[: len(place)] == place for other in self.replaced)
        if below or made:
            return None, None
        return self.file, self.line_of(path)

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """Return the line (from 1) of an entry, or of the innermost written entry around it."""
        for end in range(len(path), -1, -1):
            if tuple(path[:end]) in self.lines:
                return self.lines[tuple(path[:end])]
        return None


@no_collection()
def read_document(text: str, file: Path | None = None) -> Document:
    """Parse YAML text whose top level is a group of keys.

    Raises
    ------
    InputError
        for text that is no YAML, for a key that stands twice, and when the top level is no group of keys.
    """
    if len(text) > DESCRIPTION_BYTES:
        got, allowed = f"has {len(text)} characters", f"allowed: {DESCRIPTION_BYTES}; list many points in files"
        raise InputError("description", got, allowed, file=file)
    loader = None
    try:
        loader = _loader_of(text)
        node = loader.get_single_node()
        if node is None:
            raise InputError("description", "is empty", "expected keys such as 'domain:' and 'material:'", file=file)
        lines: dict[EntryPath, int] = {}
        _note_lines(node, (), lines, file, ())
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None
    except RecursionError:
        raise InputError("description", "has too many nested groups", file=file) from None
    except yaml.YAMLError as error:
        raise InputError(
            "description", f"is not readable as YAML: {error}".replace("\n", " "), file=file
        ) from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(data, dict):
        raise InputError(
            "description", f"{shown(data)} is not a group of keys", "expected keys such as 'domain:'", file=file,
            line=1,
        )  # fmt: skip
    return Document(data, file, lines)


def _note_lines(
    node: yaml.Node,
    path: EntryPath,
    lines: dict[EntryPath, int],
    file: Path | None,
    around: tuple[yaml.Node, ...],
) -> None:
    if node in around:
        got = "an alias stands inside the group that it repeats"
        raise InputError(written_path(path), got, file=file, line=node.start_mark.line + 1)
    around = (*around, node)
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*path, index), lines, file, around)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise InputError(
                    written_path(path) or "description",
                    f"{shown(name) if name else 'a list or group'} stands as a key", "keys are words", file=file,
                    line=line,
                )  # fmt: skip
            if name in seen and key.tag != "tag:yaml.org,2002:merge":
                raise InputError(
                    written_path((*path, name)), f"the key {name!r} stands twice, on lines {seen[name]} and {line}",
                    "every key may stand once", file=file, line=line,
                )  # fmt: skip
            seen[name] = line
            lines[(*path, name)] = line
            _note_lines(value, (*path, name), lines, file, around)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: Path | None) -> InputError:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    number = None if mark is None else min(mark.line, len(lines) - 1) + 1
    source = "" if number is None else lines[number - 1].rstrip()
    got = f"is not readable as YAML: {error.problem or error.context}"
    if source:
        got += f", in {shown(source.strip())}"
    hint = ""
    if "\t" in source:
        hint = "indent with spaces, not with tabs"
    elif "mapping values are not allowed" in (error.problem or ""):
        hint = "check the indentation, and put text that holds ': ' in quotes"
    return InputError("description", got, "", hint, file=file, line=number)


def written_path(path: Iterable[str | int]) -> str:
    """Return ``("sources", 0, "position")`` as ``sources[0].position``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def parse_path(text: str) -> EntryPath:
    """Return ``sources.0.position`` or ``sources[0].position`` as ``("sources", 0, "position")``."""
    steps = [step for step in re.split(r"[.\[\]]+", text.strip()) if step]
    if not steps:
        raise InputError(text or "set", "is not the name of an entry", "expected key=value, e.g. solver.order=8")
    return tuple(int(step) if step.isdigit() else step for step in steps)


def parse_overrides(arguments: Iterable[str]) -> Entries:
    """Return ``["solver.order=8", "title=test"]`` as a mapping; values are parsed as YAML."""
    overrides: Entries = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not key.strip():
            raise InputError(
                "--set", f"{shown(argument)} has no key and value", "expected key=value, e.g. solver.order=8"
            )
        overrides[key.strip()] = _parse_value(key.strip(), value)
    return overrides


def _parse_value(key: str, text: str) -> object:
    try:
        return yaml.load(text, Loader=_Loader)
    except RecursionError:
        raise InputError(f"--set {key}", "has too many nested groups") from None
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"--set {key}", f"{shown(text)} is not readable as YAML: {problem}") from None


def overridden(data: ReadEntries, overrides: ReadEntries) -> Entries:
    """Return a copy of nested data with replaced entries; missing groups are created.

    Raises
    ------
    InputError
        when a list has no such item, or the way leads through something that is neither group nor list.
    """
    changed: object = copy.copy(data)
    for key, value in overrides.items():
        changed = _replaced(changed, parse_path(key), value, ())
    return cast("Entries", changed)


def _replaced(data: object, path: EntryPath, value: object, done: EntryPath) -> object:
    if not path:
        return value
    step, here = path[0], written_path((*done, path[0]))
    if isinstance(data, (list, tuple)):
        if not isinstance(step, int) and len(data) == 1:
            return [_replaced(data[0], path, value, done)]  # the number of an only item may be left out
        if not isinstance(step, int) or step >= len(data):
            count = f"the list has {len(data)} items" if len(data) != 1 else "the list has one item"
            raise InputError(here, f"there is no such item: {count}", "items are numbered from 0")
        items = list(data)
        items[step] = _replaced(items[step], path[1:], value, (*done, step))
        return items
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise InputError(here, f"{written_path(done)} is {shown(data)}, which has no entries")
    group = dict(data)
    group[str(step)] = _replaced(group.get(str(step)), path[1:], value, (*done, step))
    return group


_GROUP_ERRORS = {"model_type", "model_attributes_type", "dict_type", "mapping_type", "dataclass_type"}
_LIST_ERRORS = {"list_type", "tuple_type", "sequence_type", "iterable_type"}


def input_error(
    error: ValidationError, data: object, model: type[BaseModel], document: Document | None = None
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


def _misspelled_keys(found: Sequence[ReadEntries], data: object, model: type[BaseModel]) -> Iterator[EntryPath]:
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


def written_entry(path: EntryPath, data: object) -> EntryPath:
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


def _user_path(details: ReadEntries, data: object) -> EntryPath:
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


def _words(details: ReadEntries, path: EntryPath, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return the problem, the allowed values, and a hint."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "refused":
        return context["got"], context["allowed"], context["hint"]
    if kind == "missing":
        return "is missing", "this key is required", ""
    if kind == "extra_forbidden":
        return _unknown_key(path, model)
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
        return (f"{shown(value)} is not understood", f"expected one of: {', '.join(choices)}", nearest(given, choices))
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


def _unknown_key(path: EntryPath, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return the words for a key that does not exist, or no longer exists."""
    group = path[-2] if len(path) > 1 else model.__name__.lower()
    if removed := REMOVED.get(str(group), {}).get(str(path[-1])):
        return "was removed", removed.now, "delete the key"
    keys = _keys_at(model, path[:-1])
    return f"unknown key {path[-1]!r}", f"valid keys: {', '.join(keys)}", nearest(str(path[-1]), keys)


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
    names = (entry.alias or name for candidate in candidates for name, entry in candidate.model_fields.items())
    return list(dict.fromkeys(names))


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Return the models inside ``list[A]``, ``A | None``, ``Annotated[A | B, ...]``."""
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
