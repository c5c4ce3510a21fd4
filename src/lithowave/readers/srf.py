"""Finite faults in the Standard Rupture Format (SRF): versions 1.0 and 2.0 as text, and the HDF5 form of SW4.

The format is that of Graves (2014), Standard Rupture Format, version 2.0. A text file contains the version, optional
planes (``PLANE n``, two lines per plane) and subfaults (``POINTS n``), each in one or several blocks. A subfault has
two header lines,

    LON LAT DEP STK DIP AREA TINIT DT [VS DEN]
    RAKE SLIP1 NT1 SLIP2 NT2 SLIP3 NT3

where only version 2.0 has VS and DEN, and then NT1, NT2 and NT3 samples of the slip rate, each component on lines of
its own. Text after ``#`` is a comment. Units are degrees, km (DEP, LEN, WID, DTOP, SHYP, DHYP), s, cm, cm/s, cm2
and g/cm3.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO

import numpy as np

from lithowave.errors import InputError
from lithowave.faults.subfaults import FaultPlane, FiniteFault
from lithowave.readers.budget import DIGITS, LINE_BYTES
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.hdf5_files import is_hdf5
from lithowave.readers.srf_hdf5 import read_hdf5_tables
from lithowave.readers.srf_tables import PLANE_FIELDS, POINT_FIELDS, SLIP_FIELDS, WHAT, SrfTables, fault_of, plane_of
from lithowave.readers.text import UTF8_MARK, digit_pattern, parse_number

_SAMPLES_AT_ONCE = 1 << 17
"""Number of samples whose text is stored before it is converted."""

Line = tuple[int, bytes, list[bytes]]
"""Number of a line, from 1, its text without comment, and its words."""


def read_srf(path: str | Path) -> FiniteFault:
    """Read a finite fault from a text or HDF5 file.

    The integral of the slip rate is the sum of its samples times DT, as in the generators of the format, or that of the
    trapezoidal rule if this one is closer to the stated slip. If both differ from it by more than 2%, the slip rate
    is scaled to the stated slip, and a `LithowaveWarning` states the number of these subfaults and the largest
    difference. Another one states the moment of subfaults without samples, or with zeros, which are omitted.

    Raises
    ------
    InputError
        with the file and the line, or the subfault of an HDF5 file: truncated files, text that is not a number, values
        out of range, numbers of samples or subfaults that do not match.
    """
    path = Path(path)
    with naming_foreign(path, WHAT):
        return _read(path)


def _read(path: Path) -> FiniteFault:
    try:
        tables = read_hdf5_tables(path) if is_hdf5(path) else _read_text(path)
    except OSError as error:
        raise InputError(WHAT, f"cannot be read: {error.strerror or error}", file=path) from None
    return fault_of(tables)


def _read_text(path: Path) -> SrfTables:
    with path.open("rb") as file:
        return _TextReader(file, path).tables()


class _TextReader:
    """Reads the blocks of a text file line by line; samples are converted in large portions."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self.lines = self._words(file)
        self.last: Line = (0, b"", [])
        self.planes: list[FaultPlane] = []
        self.headers, self.header_lines, self.counts = array("d"), array("q"), array("q", [0])
        self.pending: list[bytes] = []
        self.pending_lines, self.pending_samples, self.converted = array("q"), 0, [np.empty(0)]

    def _words(self, file: BinaryIO) -> Iterator[Line]:
        """Yield the lines with words; an error if the last number of the file may be truncated."""
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), start=1):
            if len(line) >= LINE_BYTES:
                raise InputError(WHAT, f"the line has {LINE_BYTES} characters or more", file=self.path, line=number)
            text = line.removeprefix(UTF8_MARK) if number == 1 else line
            if b"\0" in text:
                raise InputError(WHAT, "the file is neither text nor HDF5", file=self.path, line=number)
            if b"#" in text:
                text = text.partition(b"#")[0] + b"\n"
            words = text.split()
            if words:
                if text[-1:] != b"\n":
                    self._refuse_cut(words, number)
                if b"_" in text:  # float() accepts 1_000
                    word = next(word for word in words if b"_" in word)
                    raise InputError(WHAT, f"{_text(word)} is not a finite number", file=self.path, line=number)
                yield number, text, words

    def _refuse_cut(self, words: list[bytes], number: int) -> None:
        """Raise an error if the last word of a file without a line end has fewer digits than the words before it."""
        *others, last = (digit_pattern(word.decode("latin-1")) for word in [*self.last[2], *words])
        if last not in others:
            got = f"the file ends within this line: {_text(words[-1])} is not written as the numbers before it"
            raise self._error(WHAT, got, hint="complete it, with a line end", line=number)

    def _error(self, where: str, got: str, allowed: str = "", hint: str = "", line: int | None = None) -> InputError:
        return InputError(where, got, allowed, hint, file=self.path, line=self.last[0] if line is None else line)

    def _next(self, expected: str) -> list[bytes]:
        self.last = next(self.lines, None) or self._end(expected)
        return self.last[2]

    def _end(self, expected: str) -> NoReturn:
        """Raise the error at the end of the file."""
        got = f"the file ends, where {expected} is expected" if self.last[0] else "the file is empty"
        raise self._error(WHAT, got, hint="check that the file is complete", line=self.last[0] or None)

    def tables(self) -> SrfTables:
        """Return the values of the file."""
        version = self._version()
        while (line := next(self.lines, None)) is not None:
            self.last = line
            keyword, count = self._block(line[2])
            if keyword == "PLANE":
                for _ in range(count):
                    self._plane()
            else:
                for index in range(count):
                    self._point(version, index, count)
        self._convert()
        if not self.header_lines:
            raise self._error(WHAT, "the file ends without subfaults", "expected a block: POINTS n", line=self.last[0])
        names = (*POINT_FIELDS[version], *(name for name in SLIP_FIELDS if not name.startswith("NT")))
        values = np.array(self.headers).reshape(-1, len(names))
        offsets = np.cumsum(np.array(self.counts, dtype=np.int64))
        points = {name: values[:, index].copy() for index, name in enumerate(names)}
        lines = np.array(self.header_lines).reshape(-1, 2)

        def locate(field: str, subfault: int) -> tuple[str, int]:
            return f"{field} of subfault {subfault + 1}", int(lines[subfault, int(field in SLIP_FIELDS)])

        rates = np.concatenate(self.converted)
        self.converted.clear()  # the iterator of lines keeps the reader until the next garbage collection
        return SrfTables(self.path, points, rates, offsets, tuple(self.planes), locate)

    def _version(self) -> str:
        words = self._next("the version")
        value = parse_number(words[0].decode("latin-1")) if len(words) == 1 else None
        version = next((name for name in POINT_FIELDS if value == float(name)), None)
        if version is None:
            got = f"the file begins with {_text(b' '.join(words))}, which is not a version"
            raise self._error("version", got, f"available: {' and '.join(POINT_FIELDS)}, on a line of its own")
        return version

    def _block(self, words: list[bytes]) -> tuple[str, int]:
        keyword = words[0].decode("latin-1").upper()
        if keyword not in ("PLANE", "POINTS") or len(words) != 2:
            got = f"{_text(b' '.join(words))} does not begin a block"
            hint = "check that the numbers of subfaults and samples before this line are those of the file"
            raise self._error(WHAT, got, "expected PLANE n or POINTS n", hint)
        return keyword, self._count(words[1], keyword, least=1)

    def _count(self, word: bytes, name: str, least: int = 0) -> int:
        if word.isdigit() and len(word) <= DIGITS and int(word) >= least:
            return int(word)
        raise self._error(name, f"{_text(word)} is not valid", f"must be an integer of at least {least}")

    def _numbers(self, words: list[bytes], names: tuple[str, ...]) -> list[float]:
        if len(words) != len(names):
            hint = (
                "version 2.0 has VS and DEN, version 1.0 does not" if "LON" in names and len(words) in (8, 10) else ""
            )
            got = f"{len(words)} words on this line"
            raise self._error(WHAT, got, f"expected {len(names)}: {' '.join(names)}", hint)
        try:
            return list(map(float, words))  # infinity and NaN are refused together with values out of range
        except ValueError:
            return [self._number(word, name) for word, name in zip(words, names, strict=True)]

    def _number(self, word: bytes, name: str, line: int | None = None) -> float:
        value = parse_number(word.decode("latin-1"))
        if value is None:
            raise self._error(name, f"{_text(word)} is not a finite number", line=line)
        return value

    def _plane(self) -> None:
        values: list[float] = []
        start = None
        for names in (PLANE_FIELDS[:6], PLANE_FIELDS[6:]):
            words = self._next(f"the line {' '.join(names)} of a plane")
            start = start or self.last[0]
            for name in {"NSTK", "NDIP"} & set(names) if len(words) == len(names) else ():
                self._count(words[names.index(name)], name, least=1)
            values += self._numbers(words, names)
        where = f"PLANE {len(self.planes) + 1}"
        self.planes.append(plane_of(dict(zip(PLANE_FIELDS, values, strict=True)), self.path, where, start))

    def _point(self, version: str, index: int, count: int) -> None:
        names = POINT_FIELDS[version]
        self.headers.extend(self._numbers(self._next(f"subfault {index + 1} of {count}"), names))
        self.header_lines.append(self.last[0])
        words = self._next(f"the line {' '.join(SLIP_FIELDS)} of subfault {index + 1}")
        values = self._numbers(words, SLIP_FIELDS)
        self.header_lines.append(self.last[0])
        self.headers.extend((values[0], values[1], values[3], values[5]))
        for name, word in zip(SLIP_FIELDS[2::2], words[2::2], strict=True):
            self._samples(name, self._count(word, name))

    def _samples(self, name: str, count: int) -> None:
        """Store the lines of one component."""
        missing = count
        while missing > 0:
            self.last = next(self.lines, None) or self._end(f"the sample {count - missing + 1} of {count} ({name})")
            missing -= len(self.last[2])
            if missing < 0:
                got = f"this line has {-missing} more values than {name} = {count} announces"
                raise self._error(name, got, "the samples of each component begin on a new line")
            self.pending.append(self.last[1])
            self.pending_lines.append(self.last[0])
        self.counts.append(count)
        self.pending_samples += count
        if self.pending_samples >= _SAMPLES_AT_ONCE:
            self._convert()

    def _convert(self) -> None:
        """Convert the stored lines to numbers."""
        if not self.pending:
            return
        try:
            values = np.fromstring(b" ".join(self.pending), sep=" ")
        except ValueError:
            values = np.empty(0)
        if values.size != self.pending_samples or not np.isfinite(values).all():
            # Exponents with D are valid, too.
            rows = zip(self.pending, self.pending_lines, strict=True)
            numbers = (self._number(word, "slip rate", line) for text, line in rows for word in text.split())
            values = np.fromiter(numbers, dtype=float)
        self.converted.append(values)
        self.pending, self.pending_lines, self.pending_samples = [], array("q"), 0


def _text(word: bytes) -> str:
    return repr(word[:40].decode("latin-1"))


def write_srf(fault: FiniteFault, path: str | Path, version: str = "2.0") -> None:
    """Write a fault as text in the Standard Rupture Format.

    Values have 9 significant digits; version 2.0 states VS = DEN = -1 where they are unknown.

    Raises
    ------
    InputError
        for another version, and a fault in local coordinates, since the format has longitude and latitude.
    """
    if version not in POINT_FIELDS:
        raise InputError("version", f"{version!r}", f"available: {' and '.join(POINT_FIELDS)}")
    if not fault.geographic:
        hint = "create the fault with longitude and latitude"
        raise InputError(WHAT, "the fault is in local coordinates", "the format has longitude and latitude", hint)
    with Path(path).open("w", encoding="ascii") as file:
        file.write(f"{version}\n")
        if fault.planes:
            file.write(f"PLANE {len(fault.planes)}\n")
        for plane in fault.planes:
            file.write(
                f"{plane.longitude:.9g} {plane.latitude:.9g} {plane.count_strike} {plane.count_dip} "
                f"{1e-3 * plane.length:.9g} {1e-3 * plane.width:.9g}\n{plane.strike:.9g} {plane.dip:.9g} "
                f"{1e-3 * plane.top_depth:.9g} {1e-3 * plane.hypocenter_strike:.9g} {1e-3 * plane.hypocenter_dip:.9g}\n"
            )
        file.write(f"POINTS {fault.count}\n")
        for index in range(fault.count):
            _write_point(file, fault, index, version)


def _write_point(file: TextIO, fault: FiniteFault, index: int, version: str) -> None:
    first = [*fault.horizontal[index], 1e-3 * fault.depth[index], fault.strike[index], fault.dip[index]]
    first += [1e4 * fault.area[index], fault.start[index], fault.interval[index]]
    if version == "2.0":
        known = (100.0 * fault.vs[index], 1e-3 * fault.density[index])
        first += [value if value > 0.0 else -1.0 for value in known]
    bounds = fault.offsets[3 * index : 3 * index + 4]
    second = " ".join(f"{100 * slip:.9g} {n}" for slip, n in zip(fault.slip[index], np.diff(bounds), strict=True))
    longitude, latitude, *others = first
    others_text = " ".join(f"{value:.9g}" for value in others)
    file.write(f"{longitude:.8f} {latitude:.8f} {others_text}\n{fault.rake[index]:.9g} {second}\n")
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        file.write(_rows(high - low) % tuple((100.0 * fault.rates[low:high]).tolist()))


@lru_cache(maxsize=256)
def _rows(count: int) -> str:
    """Return the format of samples, six per line."""
    full, rest = divmod(count, 6)
    return ("%.8e " * 5 + "%.8e\n") * full + (" ".join(["%.8e"] * rest) + "\n" if rest else "")
