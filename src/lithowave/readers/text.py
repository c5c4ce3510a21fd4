"""Functions shared by readers of text files.

It contains numbered lines, and numbers in the notation of other programs; units and their exact factors to SI: the base
units of the simulation file, and unit texts of data files; samples of a time function: one column (values), or two
(time in s, value); and XML files as trees of elements with line numbers, through the expat parser of the standard
library.

Document type declarations are refused: they can define entities that expand without limit or refer to other files, and
the formats of seismology do not use them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Self, TypeVar
from xml.parsers import expat

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.budget import LINE_BYTES

C = TypeVar("C")
R = TypeVar("R")

UTF8_MARK = b"\xef\xbb\xbf"
"""Bytes with which some programs begin files of UTF-8."""

_MAX_ERRORS = 20
"""Number of errors of one file that are listed."""

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of a file.

    Raises
    ------
    InputError : the file cannot be read; ``what`` is the purpose of the file.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(what, f"cannot be read: {error.strerror or error}", file=path) from None


def read_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a text file, without line ends; the last item is empty if the file ends with a line end.

    Raises
    ------
    InputError
        if the file cannot be opened, is empty or is not text; ``what`` is the purpose of the file.
    """
    data = read_bytes(path, what)
    if not data.strip():
        raise InputError(what, "the file is empty", file=path)
    if b"\0" in data:
        raise InputError(what, "the file is not text", file=path)
    require_lines(data, what, path)
    return re.split(r"\r\n|\n|\r", decoded(data))


@contextmanager
def located(path: Path | None, line: int | None = None) -> Iterator[None]:
    """Add the file, and the line unless it is known, to an InputError without a file that is raised in this context."""
    try:
        yield
    except InputError as error:
        raise with_file(error, path, line) from None


def with_file(error: InputError, path: Path | None, line: int | None = None) -> InputError:
    """Return the error with a file, and a line unless it is known, if it has no file."""
    return error if error.file is not None else error.located(path, error.line or line)


class LineErrors:
    """The errors in the lines of a file, which are raised together: a context for each line records its error."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.errors: list[InputError] = []

    def at(self, line: int) -> Self:
        """Return the context for a line; 0 for the lines that the errors state."""
        self.line = line
        return self

    def __enter__(self) -> None:
        """Begin a line."""

    def __exit__(self, kind: type | None, error: object, trace: object) -> bool:
        if isinstance(error, InputError):
            self.errors.append(with_file(error, self.path, self.line))
        return isinstance(error, InputError)

    def raise_any(self) -> None:
        """Raise the errors, up to `_MAX_ERRORS`, as one; do nothing without any."""
        if self.errors:
            first, *others = self.errors[:_MAX_ERRORS]
            raise InputError(
                first.where, first.got, first.allowed, first.hint, file=self.path, line=first.line, others=others
            )


def decoded(data: bytes) -> str:
    """Return text in UTF-8, with or without its mark, or else in Latin-1, of which every byte is a character."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # place names in old catalogs
        return data.removeprefix(UTF8_MARK).decode("latin-1")


def is_text(head: bytes) -> bool:
    """True if the first bytes of a file are text, which has no control characters other than blanks and line ends."""
    return bool(head) and all(byte in b"\t\n\r\f" or (byte >= 32 and byte != 127) for byte in head)


def require_lines(data: bytes, what: str, path: Path) -> None:
    """Refuse text with a line that is longer than the budget."""
    start = 0
    while len(data) - start > LINE_BYTES:
        end = max(data.rfind(mark, start, start + LINE_BYTES) for mark in (b"\n", b"\r"))
        if end < 0:
            number = data.count(b"\n", 0, start) + 1
            raise InputError(what, f"the line has more than {LINE_BYTES} characters", file=path, line=number)
        start = end + 1


def parse_number(text: str) -> float | None:
    """Return the value of a number, with Fortran's exponent letter ``D`` allowed; None if it is not a finite number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text.lower().replace("d", "e"))
    return value if math.isfinite(value) else None


def read_table(
    path: Path,
    what: str,
    expected: str,
    columns_of: Callable[[list[str]], C],
    record_of: Callable[[C, list[str], int], R],
) -> tuple[C, list[R]]:
    """Return the columns and the records of a table of text, whose cells are separated by commas, semicolons or tabs.

    Blank lines, and lines that begin with ``#``, are ignored.

    Parameters
    ----------
    what : the records, a plural. expected : what a file without any line should have.
    columns_of : function of the cells of the first line. record_of : function of the columns, the cells of another
        line, of which there are as many, and its number.

    Raises
    ------
    InputError : the table has no record, or with the line an error of these functions.
    """
    lines = [(number, line) for number, line in enumerate(read_lines(path, what), start=1)]
    lines = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
    nothing = f"the file has no {what.removesuffix('s')}"
    if not lines:
        raise InputError(what, nothing, expected, file=path)
    (head, titles), *rows = lines
    delimiter = max(",;\t", key=titles.count)
    with located(path, head):
        names = _cells(titles, delimiter, what)
        columns = columns_of(names)
    records: list[R] = []
    errors = LineErrors(path)
    for number, line in rows:
        with errors.at(number):
            cells = _cells(line, delimiter, what)
            if len(cells) != len(names):
                raise InputError(what, f"the line has {len(cells)} columns, the first line {len(names)}")
            records.append(record_of(columns, cells, number))
    errors.raise_any()
    if not records:
        raise InputError(what, nothing, "a line for each follows that of the columns", file=path)
    return columns, records


def _cells(line: str, delimiter: str, what: str) -> list[str]:
    try:
        reader = csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True)
        return [cell.strip() for cell in next(reader)]
    except csv.Error as error:
        raise InputError(what, f"the line cannot be split into columns: {error}") from None


def finite_number(text: str, where: str) -> float:
    """Return the value of a number. InputError: it is not a finite number."""
    value = parse_number(text)
    if value is None:
        raise InputError(where, f"{text!r} is not a finite number")
    return value


def digit_pattern(text: str) -> tuple[int, int]:
    """Return the digits after the point and in the exponent, as a program has formatted its numbers."""
    mantissa, _, exponent = text.lower().replace("d", "e").partition("e")
    return len(mantissa.partition(".")[2]), len(exponent.lstrip("+-"))


Exponents = tuple[int, int, int]
"""Powers of length, mass and time."""

LENGTH: Exponents = (1, 0, 0)
SPEED: Exponents = (1, 0, -1)
DENSITY: Exponents = (-3, 1, 0)
_VOLUME, _MASS, _TIME, _FREQUENCY = (3, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1)
_PRESSURE, _FORCE, _ANGLE = (-1, 1, -2), (1, 1, -2), (0, 0, 0)

# Symbol, factor to SI (degrees for angles), dimension, other spellings in data files (None: not allowed there).
# fmt: off
_ROWS = (
    ("m", "1", LENGTH, "metre metres meter meters"),
    ("km", "1e3", LENGTH, "kilometre kilometres kilometer kilometers"),
    ("cm", "1e-2", LENGTH, "centimetre centimetres centimeter centimeters"),
    ("mm", "1e-3", LENGTH, "millimetre millimetres millimeter millimeters"),
    ("um", "1e-6", LENGTH, None), ("ft", "0.3048", LENGTH, "foot feet"),
    ("cc", "1e-6", _VOLUME, ""),
    ("kg", "1", _MASS, "kilogram kilograms"), ("g", "1e-3", _MASS, "gm gr gram grams"),
    ("t", "1e3", _MASS, "tonne tonnes"),
    ("s", "1", _TIME, "sec second seconds"), ("ms", "1e-3", _TIME, None), ("us", "1e-6", _TIME, None),
    ("ns", "1e-9", _TIME, None), ("min", "60", _TIME, None), ("h", "3600", _TIME, None),
    ("Hz", "1", _FREQUENCY, None), ("mHz", "1e-3", _FREQUENCY, None), ("kHz", "1e3", _FREQUENCY, None),
    ("MHz", "1e6", _FREQUENCY, None),
    ("Pa", "1", _PRESSURE, None), ("kPa", "1e3", _PRESSURE, None), ("MPa", "1e6", _PRESSURE, None),
    ("GPa", "1e9", _PRESSURE, None), ("bar", "1e5", _PRESSURE, None),
    ("N", "1", _FORCE, None), ("kN", "1e3", _FORCE, None), ("MN", "1e6", _FORCE, None), ("GN", "1e9", _FORCE, None),
    ("dyn", "1e-5", _FORCE, None),
    ("deg", "1", _ANGLE, None), ("rad", repr(180.0 / math.pi), _ANGLE, None),
)
# fmt: on
_UNITS: Mapping[str, Decimal] = {symbol: Decimal(factor) for symbol, factor, _, _ in _ROWS}
_IN_FILES: Mapping[str, tuple[float, Exponents]] = {
    word: (float(factor), exponents)
    for symbol, factor, exponents, words in _ROWS
    if words is not None
    for word in (symbol, *words.split())
}
_TERM = re.compile(r"(/?)\s*([A-Za-z]+)\^?([-+]?\d+)?")


def exact_factor(text: str) -> Decimal:
    """Return the factor from a product of unit symbols such as ``kg/m^3`` or ``dyn cm`` to SI (degrees for angles).

    KeyError: an unknown symbol.
    """
    factor = Decimal(1)
    for name, exponent in _terms(text):
        factor *= _UNITS[name] ** exponent
    return factor


def si_factor(text: str, exponents: Exponents) -> float | None:
    """Return the factor from this unit to SI; None if the unit is unknown or of another dimension.

    A unit is a product of terms, each a name with an optional power; the term after ``/`` or ``per`` is inverted.
    """
    normal = re.sub(r"\bper\b", "/", text.replace("³", "3").replace("⁻", "-").replace("¹", "1").replace("**", "^"))
    # A point or star between terms is a product; all other text between matches must be blank.
    normal = re.sub(r"[.·*()]", " ", normal)
    if re.sub(_TERM, "", normal).strip() or not normal.strip():
        return None
    factor, powers = 1.0, [0, 0, 0]
    for name, exponent in _terms(normal):
        unit = _IN_FILES.get(name) or _IN_FILES.get(name.lower())
        if unit is None:
            return None
        factor *= unit[0] ** exponent
        powers = [have + exponent * each for have, each in zip(powers, unit[1], strict=True)]
    return factor if tuple(powers) == exponents else None


def _terms(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the power of each term of a product."""
    for slash, name, power in _TERM.findall(text):
        yield name, int(power or 1) * (-1 if slash else 1)


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

    def error(self, where: str, got: str, allowed: str = "") -> InputError:
        """Return an error with the line of this element."""
        return InputError(where, got, allowed, line=self.line)

    def content(self, *names: str) -> str:
        """Return the text at a path of names; empty without such an element."""
        element = self.first(*names)
        return "" if element is None else element.text.strip()


def read_xml(path: str | Path, what: str, skipped: Collection[str] = ()) -> Element:
    """Return the root element of an XML file; see `parse_xml`."""
    path = Path(path)
    return parse_xml(read_bytes(path, what), what, path, skipped)


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


_WHAT = "samples"


@dataclass(frozen=True, eq=False)
class SampleTable:
    """The columns of the file: ``values`` of shape (n,), and ``times`` in s of shape (n,) or None."""

    values: np.ndarray
    times: np.ndarray | None


def read_samples(path: str | Path) -> SampleTable:
    """Read samples, one or two numbers per line, separated by blanks or commas.

    Blank lines, and text after ``#``, ``!`` or ``%``, are ignored.

    Raises
    ------
    InputError
        with the line: a word is not a number, lines have different numbers of columns, times do not increase, or there
        are fewer than two samples.
    """
    path = Path(path)
    rows: list[tuple[int, list[float]]] = []
    for number, line in enumerate(read_lines(path, _WHAT), start=1):
        words = re.split("[#!%]", line, maxsplit=1)[0].replace(",", " ").split()
        if words:
            with located(path, number):
                rows.append((number, _parse_row(words)))
    if len(rows) < 2:
        count = "1 sample" if rows else "no samples"
        raise InputError(_WHAT, f"the file has {count}", "at least 2 are needed", file=path)
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            got = f"{len(row)} number{'' if len(row) == 1 else 's'} on this line"
            raise InputError(_WHAT, got, f"the first line has {width}", file=path, line=number)
    table = np.array([row for _, row in rows])
    if width == 1:
        return SampleTable(table[:, 0], None)
    backward = np.flatnonzero(np.diff(table[:, 0]) <= 0)
    if backward.size:
        number, row = rows[int(backward[0]) + 1]
        got = f"the time {row[0]:.12g} s does not follow the one before it"
        raise InputError(_WHAT, got, "times must increase", file=path, line=number)
    return SampleTable(table[:, 1], table[:, 0])


def _parse_row(words: list[str]) -> list[float]:
    if len(words) > 2:
        raise InputError(_WHAT, f"{len(words)} columns", "expected one (value) or two (time in s, value)")
    return [finite_number(word, _WHAT) for word in words]
