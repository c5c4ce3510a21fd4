"""XML files as trees of elements with line numbers, through the expat parser of the standard library.

Document type declarations are refused: they can define entities that expand without limit or refer to other files, and
the formats of seismology do not use them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from lithowave.errors import InputError
from lithowave.readers.budget import LINE_BYTES

_DEEPEST = 100
"""Depth of nested elements at which a file is refused."""

_LONG_TAG = re.compile(rb"<[^>]{%d}" % LINE_BYTES)


@dataclass(slots=True)
class Element:
    """An element. name : without its namespace. namespace : URI, or empty. line : of its start tag, from 1."""

    name: str
    namespace: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, name: str, namespace: str | None = None) -> list[Element]:
        """Return the children with this name and a namespace, by default that of the element."""
        space = self.namespace if namespace is None else namespace
        return [child for child in self.children if child.name == name and child.namespace == space]

    def first(self, *names: str) -> Element | None:
        """Return the first element at a path of names, or None."""
        element: Element | None = self
        for name in names:
            element = next(iter(element.all(name)), None) if element is not None else None
        return element

    def content(self, *names: str) -> str:
        """Return the text at a path of names; empty without such an element."""
        element = self.first(*names)
        return "" if element is None else element.text.strip()


def read_xml(path: str | Path, what: str, skipped: Collection[str] = ()) -> Element:
    """Return the root element of an XML file; see `parse_xml`."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(what, f"cannot be read: {error.strerror or error}", file=path) from None
    return parse_xml(data, what, path, skipped)


def parse_xml(data: bytes, what: str, path: Path | None = None, skipped: Collection[str] = ()) -> Element:
    """Return the root element of an XML document.

    Parameters
    ----------
    what : name of the format, for messages. path : file of the document.
    skipped : names of elements whose content is checked for correct XML, but not stored.

    Raises
    ------
    InputError : the document is not well-formed (with the line), or has a document type declaration.
    """
    if not data.strip():
        raise InputError(what, "the file is empty", file=path)
    if _LONG_TAG.search(data):
        raise InputError(what, f"has a tag with more than {LINE_BYTES} characters", file=path)
    builder = _Builder(path, what, frozenset(skipped))
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        got = f"is not well-formed XML: {expat.ErrorString(error.code)}"
        raise InputError(what, got, hint="check that the file is complete", file=path, line=error.lineno) from None
    except (LookupError, ValueError) as error:  # an unknown encoding
        raise InputError(what, f"is not readable XML: {error}", file=path) from None
    assert builder.root is not None
    return builder.root


class _Builder:
    """The handlers of the parser, which build the tree."""

    def __init__(self, path: Path | None, what: str, skipped: frozenset[str]) -> None:
        self.path, self.what, self.skipped = path, what, skipped
        self.root: Element | None = None
        self.open: list[Element] = []
        self.texts: list[list[str]] = []  # of the open elements
        self.lengths: list[int] = []
        self.ignored = 0  # depth within a skipped element
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.open) + self.ignored >= _DEEPEST:
            got = f"has more than {_DEEPEST} nested elements"
            raise InputError(self.what, got, file=self.path, line=self.parser.CurrentLineNumber)
        namespace, _, name = tag.rpartition(" ")
        if self.ignored or name in self.skipped:
            self.ignored += 1
            return
        element = Element(name, namespace, attributes, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.texts.append([])
        self.lengths.append(0)

    def end(self, tag: str) -> None:
        if self.ignored:
            self.ignored -= 1
        else:
            self.open.pop().text = "".join(self.texts.pop())
            self.lengths.pop()

    def characters(self, text: str) -> None:
        if self.open and not self.ignored:
            self.texts[-1].append(text)
            self.lengths[-1] += len(text)
            if self.lengths[-1] > LINE_BYTES:
                got = f"the element {self.open[-1].name} has more than {LINE_BYTES} characters of text"
                raise InputError(self.what, got, file=self.path, line=self.open[-1].line)

    def refuse_doctype(self, *_: object) -> None:
        got, line = "has a document type declaration (DOCTYPE)", self.parser.CurrentLineNumber
        hint = "remove the declaration and the entities that it defines"
        raise InputError(self.what, got, "is not accepted for security", hint, file=self.path, line=line)
