"""The reference of the Python interface in Markdown, from the signatures and docstrings of the public names."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any

import pydantic

import lithowave as lw

PREFACE = """\
# Python reference

<!-- Written by docs/generate_reference.py; do not edit by hand. -->

This page documents all public names of the package, imported with `import lithowave as lw`. [Getting
started](getting_started.md#the-same-in-python) shows how to use them.

The classes of the simulation file have the keys of the corresponding section of [the simulation
file](simulation_file.md) as attributes and as keyword arguments. Each argument may be an object or a dictionary, and
values may be numbers in SI units or strings with a unit. Invalid arguments raise `lw.InputError`.
"""

GROUPS = (
    ("Simulations", "lithowave.description.simulation", "lithowave.runnable", "lithowave.run", "lithowave.agreement"),
    ("Results", "lithowave.output", "lithowave.compare", "lithowave.figures", "lithowave.shots.checking"),
    ("Classes of the simulation file", "lithowave.description", "lithowave.media"),
    ("Errors and warnings", "lithowave.errors"),
)
"""Title and packages of each section; a name belongs to the first section with its package."""

SECTION = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w[\w.*]*(?:, \*{0,2}\w[\w.*]*)*) : (.*)$")


def python_page(file_sections: Mapping[str, str]) -> str:
    """Return the page with one section per group of public names.

    file_sections : for the name of each class of the simulation file, a link to the section with its keys.
    """
    public = {name: getattr(lw, name) for name in lw.__all__ if not name.startswith("_")}
    results = {value.__name__: value for value in _returned(public.values()) if value not in public.values()}
    lines = [PREFACE]
    documented = set()
    for title, *packages in GROUPS:
        lines += [f"## {title}", ""]
        for name, value in {**public, **results}.items():
            if name not in documented and any(_is_in(value, package) for package in packages):
                documented.add(name)
                lines.append(_text_of(name, value, "lw." if name in public else "", file_sections.get(name)))
    missing = set(public) - documented
    if missing:
        raise ValueError(f"no section for {', '.join(sorted(missing))}")
    return "\n".join(lines).rstrip() + "\n"


def _is_in(value: Any, package: str) -> bool:
    return f"{value.__module__}.".startswith(f"{package}.")


def _returned(values: Iterable[Any]) -> Iterator[type]:
    """Classes of lithowave that public functions return."""
    for value in values:
        if inspect.isfunction(value):
            # Types of parameters may be known to the type checker only.
            annotation = inspect.signature(value).return_annotation
            names = inspect.unwrap(value).__globals__
            yield from _classes_in(eval(annotation, names) if isinstance(annotation, str) else annotation)


def _classes_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, UnionType) or typing.get_origin(annotation) is not None:
        for part in typing.get_args(annotation):
            yield from _classes_in(part)
    elif isinstance(annotation, type) and annotation.__module__.startswith("lithowave."):
        yield annotation


def _text_of(name: str, value: Any, prefix: str, file_section: str | None) -> str:
    lines = [f"### {name}", "", *_block(prefix + _call(name, value)), _markdown(value.__doc__), ""]
    if file_section:
        lines += [f"Keys and arguments: {file_section}.", ""]
    if inspect.isclass(value):
        lines += _members(name, value)
    return "\n".join(lines)


def _call(name: str, value: Any) -> str:
    """A name with its parameters, without annotations of types."""
    if inspect.isclass(value) and issubclass(value, pydantic.BaseModel):
        return f"{name}({', '.join(value.model_fields)})"
    if inspect.isclass(value) and issubclass(value, Exception) and not inspect.isfunction(value.__init__):
        return f"{name}(text)"
    if getattr(value, "_is_protocol", False):
        return name
    signature = inspect.signature(value)
    own = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for key, parameter in signature.parameters.items()
        if key not in ("self", "cls")
    ]
    text = str(inspect.Signature(own))
    return name + re.sub(r"=<factory>", "=...", text)


def _block(call: str) -> list[str]:
    return ["```text", *textwrap.wrap(call, 100, subsequent_indent="    ", break_on_hyphens=False), "```", ""]


def _members(name: str, value: type) -> list[str]:
    """Public attributes and methods of a class that have a docstring and are not inherited from other packages."""
    attributes, methods = [], []
    for key in dir(value):
        home = next((base for base in value.__mro__ if key in vars(base)), object)
        hidden = key.startswith(("_", "model_")) and key != "__call__"
        if hidden or not home.__module__.startswith("lithowave."):
            continue
        member = inspect.getattr_static(value, key)
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        text = inspect.getdoc(getattr(member, "func", member))
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            attributes.append(f"* `{key}`: {_first_paragraph(text)}")
        elif inspect.isfunction(member) and text:
            methods += [f"#### {name}.{key}", "", *_block(_call(key, member)), _markdown(text), ""]
    return [*(["Attributes:", "", *attributes, ""] if attributes else []), *methods]


def _first_paragraph(text: str | None) -> str:
    return " ".join(_marks((text or "").split("\n\n")[0]).split())


def _marks(text: str) -> str:
    """Roles and literals of docstrings as Markdown."""
    text = re.sub(r":\w+:`~?\.?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _markdown(text: str | None) -> str:
    """A docstring as Markdown: sections and entries (``name : text``) become lists."""
    text = SECTION.sub(r"\n**\1**\n", _marks(inspect.cleandoc(text or "")))
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n{2,}", text) if part.strip())


def _paragraph(text: str) -> str:
    lines = text.strip("\n").split("\n")
    if not any(ENTRY.match(line) for line in lines):
        if len(lines) > 1 and re.fullmatch(r"\w+", lines[0]) and lines[1].startswith("    "):
            return f"* `{lines[0]}`: {' '.join(line.strip() for line in lines[1:])}"
        return text
    items: list[str] = []
    for line in lines:
        if entry := ENTRY.match(line):
            items.append(f"* `{entry[1]}`: {entry[2]}")
        elif items:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line)
    return "\n".join(part for item in items for part in _separated(item))


def _separated(item: str) -> list[str]:
    """One list item per entry, where a line of a docstring has several."""
    first, *others = re.split(r"(?<=[.;]) (?=\w[\w.]*(?:, \w[\w.]*)* : )", item)
    return [first.rstrip(";"), *(re.sub(r"^(.*?) : ", r"* `\1`: ", other).rstrip(";") for other in others)]
