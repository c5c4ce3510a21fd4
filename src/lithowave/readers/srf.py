"""Finite faults in the Standard Rupture Format (SRF): versions 1.0 and 2.0 as text, and the HDF5 form of SW4.

The format is that of Graves (2014), Standard Rupture Format, version 2.0. A text file contains the version, optional
planes (``PLANE n``, two lines per plane) and subfaults (``POINTS n``), each in one or several blocks. A subfault has
two header lines,

    LON LAT DEP STK DIP AREA TINIT DT [VS DEN]
    RAKE SLIP1 NT1 SLIP2 NT2 SLIP3 NT3

where only version 2.0 has VS and DEN, and then NT1, NT2 and NT3 samples of the slip rate, each component on lines of
its own. Text after ``#`` is a comment. Units are degrees, km (DEP, LEN, WID, DTOP, SHYP, DHYP), s, cm, cm/s, cm2
and g/cm3.

The HDF5 form is that which SW4 reads. The file has the attributes VERSION (1.0 or 2.0) and PLANE (a compound type, one
element per plane), a dataset POINTS (a compound type, one element per subfault) and datasets SR1, SR2 and SR3: the
samples of all subfaults, one subfault after another. SR2 and SR3 may be absent if no subfault has samples of these
components. Units are those of the text form.

The values are read in the units of the format, and then converted to a fault.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TextIO

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.faults.subfaults import (
    COMPONENTS,
    SLIP_TOLERANCE,
    FaultPlane,
    FiniteFault,
    SubfaultError,
    segment_sums,
    slip_mismatch,
    trapezoids,
)
from lithowave.readers.budget import DIGITS, LINE_BYTES, ExpandedSize
from lithowave.readers.foreign_formats import is_hdf5, naming_foreign, open_hdf5, read_dataset
from lithowave.readers.text import UTF8_MARK, digit_pattern, located, parse_number

if TYPE_CHECKING:
    import h5py

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
    with naming_foreign(path, WHAT), located(path):
        return _read(path)


def _read(path: Path) -> FiniteFault:
    try:
        tables = read_hdf5_tables(path) if is_hdf5(path) else _read_text(path)
    except OSError as error:
        raise InputError(WHAT, f"cannot be read: {error.strerror or error}") from None
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
                raise InputError(WHAT, f"the line has {LINE_BYTES} characters or more", line=number)
            text = line.removeprefix(UTF8_MARK) if number == 1 else line
            if b"\0" in text:
                raise InputError(WHAT, "the file is neither text nor HDF5", line=number)
            if b"#" in text:
                text = text.partition(b"#")[0] + b"\n"
            words = text.split()
            if words:
                if text[-1:] != b"\n":
                    self._refuse_cut(words, number)
                if b"_" in text:  # float() accepts 1_000
                    word = next(word for word in words if b"_" in word)
                    raise InputError(WHAT, f"{_text(word)} is not a finite number", line=number)
                yield number, text, words

    def _refuse_cut(self, words: list[bytes], number: int) -> None:
        """Raise an error if the last word of a file without a line end has fewer digits than the words before it."""
        *others, last = (digit_pattern(word.decode("latin-1")) for word in [*self.last[2], *words])
        if last not in others:
            got = f"the file ends within this line: {_text(words[-1])} is not written as the numbers before it"
            raise self._error(WHAT, got, hint="complete it, with a line end", line=number)

    def _error(self, where: str, got: str, allowed: str = "", hint: str = "", line: int | None = None) -> InputError:
        return InputError(where, got, allowed, hint, line=self.last[0] if line is None else line)

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
        self.planes.append(plane_of(dict(zip(PLANE_FIELDS, values, strict=True)), where, start))

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


_OTHER_NAMES = {"LON": "LONGITUDE", "LAT": "LATITUDE", "DEP": "DEPTH"}
"""Long names of some fields, which are read as well."""


def read_hdf5_tables(path: Path) -> SrfTables:
    """Return the values of an HDF5 file, samples in single precision unless the file has double precision.

    Raises
    ------
    InputError
        if attributes, datasets or fields are missing or of the wrong type, if the file is damaged, or if the numbers of
        samples do not match.
    """
    size = ExpandedSize(path)
    try:
        with open_hdf5(path) as file:
            version = _version(file)
            points = _table(file, "POINTS", (*POINT_FIELDS[version], *SLIP_FIELDS), size)
            planes = _table(file.attrs, "PLANE", PLANE_FIELDS, size) if "PLANE" in file.attrs else {}
            counts = _counts(points)
            samples = [_samples(file, component, counts[:, component], size) for component in range(3)]
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(WHAT, f"the HDF5 file cannot be read: {error}") from None
    rows = zip(*(planes[name] for name in PLANE_FIELDS), strict=True) if planes else ()
    offsets = np.concatenate([[0], np.cumsum(counts.ravel())])
    return SrfTables(
        path=path,
        points={name: values.astype(float) for name, values in points.items() if not name.startswith("NT")},
        rates=_interleaved(samples, counts),
        offsets=offsets,
        planes=tuple(
            plane_of(dict(zip(PLANE_FIELDS, row, strict=True)), f"PLANE[{index}]") for index, row in enumerate(rows)
        ),
        locate=lambda field, subfault: (f"POINTS[{subfault}].{field}", None),
    )


def _version(file: h5py.File) -> str:
    value = file.attrs.get("VERSION")
    if value is None:
        raise InputError("VERSION", "the attribute is missing", f"expected {' or '.join(POINT_FIELDS)}")
    text = value.decode() if isinstance(value, bytes) else str(np.asarray(value).ravel()[0] if np.size(value) else "")
    try:
        return next(name for name in POINT_FIELDS if float(name) == float(text))
    except (ValueError, StopIteration):
        raise InputError("VERSION", f"{text!r}", f"available: {' and '.join(POINT_FIELDS)}") from None


def _table(container: h5py.Group, key: str, names: tuple[str, ...], size: ExpandedSize) -> dict[str, np.ndarray]:
    """Return the fields of a compound dataset or attribute."""
    if key not in container:
        raise InputError(key, "is missing", "expected a table with one element per subfault")
    item = container[key]
    data = np.atleast_1d(np.asarray(read_dataset(item, size) if hasattr(item, "id") else item)).ravel()
    if data.dtype.names is None:
        raise InputError(key, f"has the type {data.dtype}", f"expected a compound type: {', '.join(names)}")
    columns = {}
    for name in names:
        spelling = name if name in data.dtype.names else _OTHER_NAMES.get(name, name)
        if spelling not in data.dtype.names:
            raise InputError(key, f"has no field {name}", f"expected {', '.join(names)}")
        if data.dtype[spelling].kind not in "fiu":
            raise InputError(f"{key}.{spelling}", f"has the type {data.dtype[spelling]}", "expected numbers")
        columns[name] = data[spelling]
    if data.size == 0:
        raise InputError(key, "has no elements", "expected at least one")
    return columns


def _counts(points: dict[str, np.ndarray]) -> np.ndarray:
    """Return the numbers of samples, shape (n, 3)."""
    counts = np.stack([points[f"NT{component}"] for component in (1, 2, 3)], axis=-1)
    if (invalid := ~np.isfinite(counts) | (counts < 0) | (counts != np.floor(counts))).any():
        index, component = (int(value) for value in np.argwhere(invalid)[0])
        got = f"{counts[index, component]} is not a number of samples"
        raise InputError(f"POINTS[{index}].NT{component + 1}", got, "must be an integer of at least 0")
    return counts.astype(np.int64)


def _samples(file: h5py.File, component: int, counts: np.ndarray, size: ExpandedSize) -> np.ndarray:
    name, expected = f"SR{component + 1}", int(counts.sum())
    if name not in file:
        if expected == 0:
            return np.empty(0, dtype=np.float32)
        got = f"is missing, while NT{component + 1} of the subfaults add up to {expected} samples"
        raise InputError(name, got, "the file must contain the samples of all components with slip")
    data = file[name]
    if not hasattr(data, "dtype") or data.dtype.kind != "f":
        raise InputError(name, "is not a dataset of real numbers")
    if data.size != expected:
        got = f"has {data.size} samples, while NT{component + 1} of the subfaults add up to {expected}"
        raise InputError(name, got, "the numbers must agree", "check that the file is complete")
    return read_dataset(data, size).ravel()


def _interleaved(samples: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """Return the samples with the components of each subfault one after another."""
    dtype = np.float64 if any(values.dtype == np.float64 for values in samples) else np.float32
    if not counts[:, 1:].any():
        return samples[0].astype(dtype)
    rates = np.empty(int(counts.sum()), dtype=dtype)
    component = np.repeat(np.tile(np.arange(3, dtype=np.int8), counts.shape[0]), counts.ravel())
    for index, values in enumerate(samples):
        rates[component == index] = values
    return rates


WHAT = "SRF"

PLANE_FIELDS = ("ELON", "ELAT", "NSTK", "NDIP", "LEN", "WID", "STK", "DIP", "DTOP", "SHYP", "DHYP")
POINT_FIELDS = {
    "1.0": ("LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT"),
    "2.0": ("LON", "LAT", "DEP", "STK", "DIP", "AREA", "TINIT", "DT", "VS", "DEN"),
}
"""Values of the first line of a subfault."""
SLIP_FIELDS = ("RAKE", "SLIP1", "NT1", "SLIP2", "NT2", "SLIP3", "NT3")
"""Values of its second line."""

# Names of the fields of FiniteFault in the format, factors from the units of the format to SI, and these units.
# fmt: off
_FIELDS = {
    "longitude": ("LON", 1.0, "degrees"), "latitude": ("LAT", 1.0, "degrees"), "depth": ("DEP", 1e3, "km"),
    "strike": ("STK", 1.0, "degrees"), "dip": ("DIP", 1.0, "degrees"), "rake": ("RAKE", 1.0, "degrees"),
    "area": ("AREA", 1e-4, "cm2"), "start": ("TINIT", 1.0, "s"), "interval": ("DT", 1.0, "s"),
    "vs": ("VS", 1e-2, "cm/s"), "density": ("DEN", 1e3, "g/cm3"), "slip1": ("SLIP1", 1e-2, "cm"),
    "slip2": ("SLIP2", 1e-2, "cm"), "slip3": ("SLIP3", 1e-2, "cm"),
}
# fmt: on
_CM_PER_M = 100

_SLOWEST = 50.0
"""Least S-wave velocity in m/s; a smaller value suggests that VS is not in cm/s."""
_SLIP_DIGITS = 1e-3
"""Relative difference of slip below which the digits of a file may not distinguish two rules of integration."""
_AREA_TOLERANCE = 0.2
"""Relative difference between the area of the planes and of the subfaults that is worth a warning."""


@dataclass(frozen=True, eq=False)
class SrfTables:
    """Values of a file in its units.

    Attributes
    ----------
    path : the file.
    points : (n,) double precision values by the names of `POINT_FIELDS` and `SLIP_FIELDS`, except NT1, NT2 and NT3.
    rates : (total,) samples of all components in the order of `FiniteFault`.
    offsets : (3 n + 1,) as in `FiniteFault`.
    planes : in SI units.
    locate : returns the place of a field of a subfault for messages: the key, and the line or None.
    """

    path: Path
    points: Mapping[str, np.ndarray]
    rates: np.ndarray
    offsets: np.ndarray
    planes: tuple[FaultPlane, ...]
    locate: Callable[[str, int], tuple[str, int | None]]

    def error(self, field: str, subfault: int, got: str, allowed: str = "", hint: str = "") -> InputError:
        """Return the error for a field of a subfault."""
        where, line = self.locate(field, subfault)
        return InputError(where, got, allowed, hint, file=self.path, line=line)


def plane_of(values: Mapping[str, float], where: str, line: int | None = None) -> FaultPlane:
    """Return a plane in SI units; an error if its values are out of range.

    A segment without the hypocenter has SHYP = DHYP = -999.9 in some files; these are not checked.
    """
    checks = (
        ("ELON", abs(values["ELON"]) <= 360.0, "must be between -360 and 360 degrees"),
        ("ELAT", abs(values["ELAT"]) <= 90.0, "must be between -90 and 90 degrees"),
        ("NSTK", values["NSTK"] >= 1, "must be at least 1"),
        ("NDIP", values["NDIP"] >= 1, "must be at least 1"),
        ("LEN", values["LEN"] > 0.0, "must be positive (km)"),
        ("WID", values["WID"] > 0.0, "must be positive (km)"),
        ("DIP", 0.0 <= values["DIP"] <= 90.0, "must be between 0 and 90 degrees"),
        ("DTOP", values["DTOP"] >= 0.0, "must be 0 or more (km)"),
    )
    for name, valid, allowed in checks:
        if not valid:
            raise InputError(f"{where}.{name}", f"{values[name]:.12g}", allowed, line=line)
    for name in PLANE_FIELDS:
        if not np.isfinite(values[name]):
            raise InputError(f"{where}.{name}", f"{values[name]} is not a finite number", line=line)
    length, width, top, along, down = (1e3 * values[name] for name in ("LEN", "WID", "DTOP", "SHYP", "DHYP"))
    return FaultPlane(
        values["ELON"], values["ELAT"], int(values["NSTK"]), int(values["NDIP"]), length, width, values["STK"],
        values["DIP"], top, along, down,
    )  # fmt: skip


def _finite_values(tables: SrfTables) -> dict[str, np.ndarray]:
    """Return the values of the subfaults in SI units, by the names of `FiniteFault`; refuse others than numbers."""
    si = {}
    for field, (name, factor, _) in _FIELDS.items():
        if name in tables.points:
            values = tables.points[name]
            if (invalid := ~np.isfinite(values)).any():
                index = int(np.argmax(invalid))
                raise tables.error(name, index, f"{values[index]} is not a finite number")
            si[field] = factor * values
    return si


def fault_of(tables: SrfTables) -> FiniteFault:
    """Return the fault in SI units.

    The samples are converted in their array. The generators of the format integrate the slip rate as the sum of the
    samples times DT, which is the integral of a function that rises from 0 within DT before its first sample and falls
    to 0 within DT after the last one: these zeros are added, unless the trapezoidal rule is closer to the stated slip.
    A slip rate that differs from the stated slip by more than 2% is scaled to it, with a warning. Slip whose
    samples are missing or zero is omitted, with a warning that states its moment.

    Raises
    ------
    InputError
        for values out of range, and slip rates that cannot be scaled.
    """
    si = _finite_values(tables)
    _require_finite_rates(tables)
    rates = tables.rates
    rates /= _CM_PER_M  # exact in single precision, unlike the factor 0.01
    if not rates.any():
        raise InputError(WHAT, "all samples of the slip rate are zero", "a subfault must slip", file=tables.path)
    slip = np.stack([si.pop(f"slip{component}") for component in (1, 2, 3)], axis=-1)
    horizontal = np.stack([si.pop("longitude"), si.pop("latitude")], axis=-1)
    for field in ("vs", "density"):
        values = si.get(field, np.zeros(slip.shape[0]))
        si[field] = np.where(values > 0.0, values, np.nan)
    if (slow := si["vs"] < _SLOWEST).any():
        index = int(np.argmax(slow))
        got = f"{tables.points['VS'][index]:.6g} cm/s is {si['vs'][index]:.4g} m/s"
        raise tables.error(
            "VS", index, got, f"must be at least {_SLOWEST:g} m/s, or 0 if unknown", "convert VS to cm/s"
        )
    if (early := si["start"] < 0.0).any():
        index = int(np.argmax(early))
        raise tables.error("TINIT", index, f"{si['start'][index]:.12g} s", "must be at least 0 s")
    _omit_silent(tables, slip, si)
    offsets = tables.offsets
    if (si["interval"] > 0.0).all():
        rates, offsets, led = with_end_samples(rates, offsets, slip, si["interval"])
        si["start"] = si["start"] - led * si["interval"]
        _match_slip(tables, rates, offsets, slip, si["interval"])
    try:
        fault = FiniteFault(
            geographic=True, horizontal=horizontal, slip=slip, rates=rates, offsets=offsets, planes=tables.planes, **si
        )
    except SubfaultError as error:
        name, _, unit = _FIELDS[error.field]
        got = f"{tables.points[name][error.index]:.12g} {unit}"
        raise tables.error(name, error.index, got, error.allowed) from None
    _check_planes(tables, fault)
    return fault


def _require_finite_rates(tables: SrfTables) -> None:
    invalid = ~np.isfinite(tables.rates)
    if invalid.any():
        sample = int(np.argmax(invalid))
        subfault, component = divmod(int(np.searchsorted(tables.offsets, sample, side="right")) - 1, 3)
        got = f"{tables.rates[sample]} in the samples of {COMPONENTS[component]} is not a finite number"
        raise tables.error(f"NT{component + 1}", subfault, got)


def _omit_silent(tables: SrfTables, slip: np.ndarray, si: Mapping[str, np.ndarray]) -> None:
    """Set the slip (n, 3) of components without samples other than zeros to 0, with a warning."""
    silent = (slip != 0.0) & (segment_sums(tables.rates != 0, tables.offsets) == 0).reshape(-1, 3)
    if not silent.any():
        return
    # A fault whose area is not valid is refused below.
    potency = si["area"] * np.where(silent, np.abs(slip), 0.0).sum(axis=1)
    part = potency.sum() / max((si["area"][:, np.newaxis] * np.abs(slip)).sum(), np.finfo(float).tiny)
    shear = si["density"] * si["vs"] ** 2
    known = not np.isnan(shear[silent.any(axis=1)]).any()
    size = f"moment {np.nansum(shear * potency):.4g} N m" if known else f"area times slip {potency.sum():.4g} m^3"
    subfault, component = (int(index) for index in np.argwhere(silent)[0])
    where, line = tables.locate(f"SLIP{component + 1}", subfault)
    issue_warning(
        f"{tables.path}: {silent.sum()} of {np.count_nonzero(slip)} slip components have no samples of the slip rate, "
        f"or zeros only, and are omitted: {size}, {100.0 * part:.3g}% of the area times slip of the file. The first is "
        f"{where}{f' (line {line})' if line else ''}, {100 * slip[subfault, component]:.6g} cm."
    )
    slip[silent] = 0.0


def with_end_samples(
    rates: np.ndarray, offsets: np.ndarray, slip: np.ndarray, interval: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slip rates with zeros before and after those whose sum times the interval is their slip.

    Parameters
    ----------
    rates, offsets : samples (total,) and offsets (3 n + 1,) as in `FiniteFault`.
    slip : (n, 3) stated slip, m. interval : (n,) s.

    Returns
    -------
    Samples, their offsets, and a mask (n,) of subfaults whose slip rates begin one interval earlier. Segments are
    unchanged if they begin and end with 0, or if the trapezoidal rule is closer to their slip.
    """
    counts = np.diff(offsets)
    filled = np.flatnonzero(counts)
    first, last = np.zeros(counts.size, bool), np.zeros(counts.size, bool)
    first[filled] = rates[offsets[:-1][filled]] != 0.0
    last[filled] = rates[offsets[1:][filled] - 1] != 0.0
    stated, intervals = slip.ravel(), np.repeat(interval, 3)
    by_sum = np.abs(intervals * segment_sums(rates, offsets) - stated)
    by_trapezoids = np.abs(trapezoids(rates, offsets, intervals) - stated)
    summed = (first | last) & (by_sum < by_trapezoids) & (by_trapezoids > _SLIP_DIGITS * np.abs(stated))
    led = (summed & first).reshape(-1, 3).any(axis=1)
    before, after = np.repeat(led, 3) & (counts > 0), summed & last
    if not (before.any() or after.any()):
        return rates, offsets, led
    ends = np.concatenate([[0], np.cumsum(counts + before + after)])
    extended = np.zeros(ends[-1], dtype=rates.dtype)
    extended[np.arange(rates.size) + np.repeat(ends[:-1] + before - offsets[:-1], counts)] = rates
    return extended, ends, led


def _match_slip(
    tables: SrfTables, rates: np.ndarray, offsets: np.ndarray, slip: np.ndarray, interval: np.ndarray
) -> None:
    """Scale the slip rates that do not release the stated slip, with a warning; an error if this is impossible."""
    mismatch = slip_mismatch(slip, rates, offsets, interval)
    if not mismatch.any():
        return
    intervals = np.repeat(interval, 3)
    released = trapezoids(rates, offsets, intervals)
    size = trapezoids(np.abs(rates), offsets, intervals)
    stated, differs = slip.ravel(), mismatch.ravel()
    impossible = differs & ((stated * released <= 0.0) | (np.abs(released) < SLIP_TOLERANCE * size))
    if impossible.any():
        subfault, component = divmod(int(np.argmax(impossible)), 3)
        segment = 3 * subfault + component
        count = offsets[segment + 1] - offsets[segment]
        name = f"SLIP{component + 1}"
        release = f"the {count} samples of the slip rate release {100 * released[segment]:.6g} cm"
        allowed = f"both must have the same sign and agree within {100 * SLIP_TOLERANCE:g}%, or be zero"
        got = f"{100 * stated[segment]:.6g} cm, but {release}"
        raise tables.error(name, subfault, got, allowed, f"correct {name}, the samples or DT")
    factors = np.ones(stated.size)
    factors[differs] = stated[differs] / released[differs]
    for segment in np.flatnonzero(differs).tolist():
        rates[offsets[segment] : offsets[segment + 1]] *= rates.dtype.type(factors[segment])
    worst = int(np.argmax(np.where(differs, np.abs(np.log(factors)), 0.0)))
    where, line = tables.locate(f"SLIP{worst % 3 + 1}", worst // 3)
    issue_warning(
        f"{tables.path}: the slip rates of {differs.sum()} of {np.count_nonzero(np.diff(offsets))} slip components do "
        f"not release the stated slip within {100 * SLIP_TOLERANCE:g}%; they are scaled to the stated slip. The "
        f"largest difference is that of {where}{f' (line {line})' if line else ''}: {100 * stated[worst]:.6g} cm, "
        f"while its samples release {100 * released[worst]:.6g} cm. Check DT, the unit of the samples (cm/s) and that "
        "of the slip (cm)."
    )


def _check_planes(tables: SrfTables, fault: FiniteFault) -> None:
    """Refuse planes whose number of subfaults differs from that of the file; warn if their area differs."""
    if not tables.planes:
        return
    expected = sum(plane.count_strike * plane.count_dip for plane in tables.planes)
    if expected != fault.count:
        raise InputError(
            "POINTS", f"the file has {fault.count} subfaults, while NSTK x NDIP of its planes add up to {expected}",
            "the numbers must agree", "check that the file is complete, or remove the PLANE blocks, which are optional",
            file=tables.path,
        )  # fmt: skip
    planes, subfaults = sum(plane.length * plane.width for plane in tables.planes), float(fault.area.sum())
    if abs(subfaults - planes) > _AREA_TOLERANCE * planes:
        issue_warning(
            f"{tables.path}: AREA of all subfaults adds up to {1e-6 * subfaults:.4g} km2, while LEN x WID of the "
            f"planes is {1e-6 * planes:.4g} km2. The moment follows from AREA, which is in cm2 (1 km2 = 1e10 cm2); "
            "check its unit."
        )
