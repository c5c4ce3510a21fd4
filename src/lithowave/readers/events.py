"""Files of events: CMTSOLUTION, FORCESOLUTION or QuakeML, distinguished by their content.

An earthquake or a force is read as a point source, as the file describes it.

**CMTSOLUTION**: centroid moment tensors in the format of SPECFEM and the Global CMT project. An event has a header line
(catalog, origin time, hypocenter, magnitudes, region) and twelve lines ``key: value``. Geographic files have
``latitude`` and ``longitude`` in degrees, Cartesian ones ``latorUTM`` (y) and ``longorUTM`` (x) in m; ``depth`` is in
km, times in s, moments in dyn cm along r (up), theta (south) and phi (east).

**FORCESOLUTION**: point forces in the format of SPECFEM. A force has a header line (``FORCE 001``) and ten lines ``key:
value``: time shift (s), ``hdurorf0`` (also ``f0`` or ``half duration``), position as in a CMTSOLUTION file, depth (km),
``source time function``, ``factor force source`` (N) and the components E, N and Z_UP of the direction, which is
normalized. The time functions of SPECFEM are

=== ======================================================================================
0   Gaussian exp(-(t/h)^2) / (h sqrt(pi)) of unit area, with h = hdurorf0 / 1.628
1   Ricker wavelet of the frequency hdurorf0 and the peak 1
2   step (1 + erf(t/h)) / 2, with h = hdurorf0 / 1.628
=== ======================================================================================

Other numbers, and older files without this line, whose time function is chosen in SPECFEM's Par_file, have none here.

**QuakeML**, version 1.2 of the Basic Event Description (BED): events with moment tensors or nodal planes. Values are in
SI units: depth in m, moments in N m along r (up), t (south) and p (east). The XML parser is that of the standard
library; files with a document type declaration, and thus with entities, are refused.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lithowave.errors import InputError
from lithowave.physics import double_couple, moment_magnitude, moment_of_magnitude, scalar_moment
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.text import Element, digit_pattern, located, parse_number, parse_xml, read_lines, read_xml

_XML_SUFFIXES = (".xml", ".quakeml", ".qml")


def read_events(path: Path) -> list[SeismicEvent]:
    """Read a file of events.

    It is QuakeML if its text begins with ``<`` or its name ends as that of XML, FORCESOLUTION if it has a line
    ``FORCE`` or ``factor force source``, else CMTSOLUTION.
    """
    with path.open("rb") as file:
        start = file.read(2048).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<") or path.suffix.lower() in _XML_SUFFIXES:
        return read_quakeml(path)
    if _FORCE_MARK.search(start):
        return read_forcesolutions(path)
    with naming_foreign(path, "events"):
        return read_cmtsolutions(path)


SPECFEM_DECAY = 1.628
"""SPECFEM's Gaussian for a half duration is exp(-(a t)^2) a / sqrt(pi) with a = 1.628 / half duration."""


@dataclass(frozen=True)
class SeismicEvent:
    """One event.

    Attributes
    ----------
    event_name : as in the file.
    origin_time : ISO text in UTC of the origin time; None for a Cartesian file without it.
    time_shift : centroid time after the origin time in s.
    half_duration : of the moment rate, in s; None if the file does not state it.
    geographic : True if latitude and longitude are given, False if x and y are.
    latitude, longitude : of the centroid in degrees; NaN in Cartesian files.
    x, y : of the centroid in m; NaN in geographic files.
    depth : of the centroid in m.
    moment : xx, yy, zz, xy, xz, yz in N m; x East, y North, z Up. None for a force.
    line_number : first line of the event, from 1.
    force : East, North, Up in N; None for a moment tensor.
    shape : time function of a force, as in a simulation file without delay; None if the file does not state it.
    """

    event_name: str
    origin_time: str | None
    time_shift: float
    half_duration: float | None
    geographic: bool
    latitude: float
    longitude: float
    x: float
    y: float
    depth: float
    moment: tuple[float, float, float, float, float, float] | None
    line_number: int
    force: tuple[float, float, float] | None = None
    shape: Mapping[str, Mapping[str, float]] | None = None

    @property
    def scalar_moment(self) -> float:
        """M0, N m; 0 of a force."""
        return float(scalar_moment(self.moment or (0.0,) * 6))

    @property
    def magnitude(self) -> float:
        """Moment magnitude Mw."""
        return moment_magnitude(self.scalar_moment)


def utc_text(moment: datetime) -> str:
    """Return a time with a time zone as ISO text in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_CMT = "CMTSOLUTION"
_DYN_CM_PER_N_M = 1e7
_COMPONENTS = ("Mrr", "Mtt", "Mpp", "Mrt", "Mrp", "Mtp")
_NUMBERS = ("time shift", "half duration", "depth", *_COMPONENTS)
_GEOGRAPHIC = ("latitude", "longitude")
_CARTESIAN = ("latorUTM", "longorUTM")
_CMT_KEYS = ("event name", "time shift", "half duration", *_GEOGRAPHIC, *_CARTESIAN, "depth", *_COMPONENTS)
_CMT_SPELLINGS = {key.lower().replace(" ", ""): key for key in _CMT_KEYS}
_ORIGIN = re.compile(
    r"\s*[A-Za-z*-]*\s*(\d{4})\s+(\d{1,2})\s+(\d{1,2})\s+(\d{1,2})\s+(\d{1,2})\s+(\d+(?:\.\d*)?)(?=\s|$)"
)

Entry = tuple[str, int]
"""Text of a value, and its line."""


def read_cmtsolutions(path: str | Path) -> list[SeismicEvent]:
    """Read a file with one or more events.

    Raises
    ------
    InputError
        with the file, the line and the key: missing or repeated keys, values that are not numbers or out of range, a
        file that ends within its last number.
    """
    path = Path(path)
    lines = read_lines(path, _CMT)
    blocks: list[tuple[int, dict[str, Entry]]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, colon, _ = line.partition(":")
        key = _CMT_SPELLINGS.get("".join(name.split()).lower()) if colon else None
        with located(path, number):
            if key is None and (not blocks or _begins_event(line, blocks[-1][1])):
                blocks.append((number, {}))
            elif not blocks:
                allowed = "the file begins with the line of catalog and origin time: PDE 2008 7 29 18 42 15.00 ..."
                raise InputError(_CMT, f"there is no header line before {key!r}", allowed)
            else:
                _note(blocks[-1][1], key, line, number)
    with located(path):
        _refuse_cut(lines, blocks[-1][1])
        return [_event(lines[start - 1], entries, start) for start, entries in blocks]


def _begins_event(line: str, entries: Mapping[str, Entry]) -> bool:
    """True if a line without a known key is the header of another event."""
    return _ORIGIN.match(line) is not None or (":" not in line and _missing_cmt_keys(entries) == [])


def _note(entries: dict[str, Entry], key: str | None, line: str, number: int) -> None:
    name, colon, value = line.partition(":")
    if key is None:
        near = difflib.get_close_matches(name.strip(), _CMT_KEYS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0] + ':'!r}?" if near else ""
        got = f"{line.strip()[:40]!r} is not understood"
        raise InputError(_CMT, got, f"keys: {', '.join(_CMT_KEYS)}", hint)
    if key in entries:
        allowed = "each key may appear once per event; a header line starts the next event"
        raise InputError(key, f"is already on line {entries[key][1]}", allowed)
    entries[key] = (value.strip(), number)


def _missing_cmt_keys(entries: Mapping[str, Entry]) -> list[str]:
    place = _CARTESIAN if any(key in entries for key in _CARTESIAN) else _GEOGRAPHIC
    wanted = ("event name", "time shift", "half duration", *place, "depth", *_COMPONENTS)
    return [key for key in wanted if key not in entries]


def _refuse_cut(lines: Sequence[str], entries: Mapping[str, Entry]) -> None:
    """Raise an error if the last number of a file is truncated, since the rest of 7.78e+23 may be a valid number.

    If the file does not end with a line end, the last component must have the same number of digits as the others,
    provided that these agree.
    """
    written = {key: entries[key] for key in _COMPONENTS if key in entries}
    last = next((key for key, (_, line) in written.items() if line == len(lines)), None)
    patterns = {digit_pattern(value) for key, (value, _) in written.items() if key != last}
    if last is not None and len(patterns) == 1 and digit_pattern(written[last][0]) not in patterns:
        text, line = written[last]
        got = f"the file ends within this line: {text!r} is not written as the other components"
        raise InputError(last, got, hint="complete it, with a line end", line=line)


def _event(header: str, entries: Mapping[str, Entry], start: int) -> SeismicEvent:
    missing = _missing_cmt_keys(entries)
    if missing:
        end = max((line for _, line in entries.values()), default=start)
        got = f"the event that begins on line {start} ends without {', '.join(missing)}"
        raise InputError(_CMT, got, "check that the file is complete", line=end)
    if any(key in entries for key in _CARTESIAN) and any(key in entries for key in _GEOGRAPHIC):
        line = next(entries[key][1] for key in _CARTESIAN if key in entries)
        allowed = f"expected {' and '.join(_GEOGRAPHIC)}, or {' and '.join(_CARTESIAN)}"
        raise InputError(_CMT, "has both geographic and Cartesian coordinates", allowed, line=line)
    geographic = "latitude" in entries
    place = _GEOGRAPHIC if geographic else _CARTESIAN
    values = {key: _number(*entries[key], key) for key in (*_NUMBERS, *place)}
    _check_ranges(values, entries)
    north, east = (values[key] for key in place)
    rr, tt, pp, rt, rp, tp = (values[key] / _DYN_CM_PER_N_M for key in _COMPONENTS)
    return SeismicEvent(
        event_name=entries["event name"][0],
        origin_time=_origin_time(header, geographic, start),
        time_shift=values["time shift"],
        half_duration=values["half duration"],
        geographic=geographic,
        latitude=north if geographic else math.nan,
        longitude=east if geographic else math.nan,
        x=math.nan if geographic else east,
        y=math.nan if geographic else north,
        depth=1000.0 * values["depth"],
        # x = phi, y = -theta, z = r.
        moment=(pp, tt, rr, -tp, rp, -rt),
        line_number=start,
    )


def _number(text: str, line: int, key: str) -> float:
    """Return the number in a value, to which some files append the unit."""
    words = text.split()
    value = parse_number(words[0]) if words else None
    if value is None:
        raise InputError(key, f"{text!r} is not a finite number" if text else "has no value", line=line)
    return value


def _check_ranges(values: Mapping[str, float], entries: Mapping[str, Entry]) -> None:
    limits = {"latitude": 90.0, "longitude": 360.0}
    for key, limit in limits.items():
        if abs(values.get(key, 0.0)) > limit:
            got, allowed = f"{values[key]:.12g} is not a {key} in degrees", f"must be between {-limit:g} and {limit:g}"
            hint = "for Cartesian coordinates in m the keys are latorUTM (y) and longorUTM (x)"
            raise InputError(key, got, allowed, hint, line=entries[key][1])
    if values["half duration"] < 0.0:
        got, line = f"{values['half duration']:.12g} s is negative", entries["half duration"][1]
        raise InputError("half duration", got, "must be 0 or more", line=line)
    if not any(values[key] for key in _COMPONENTS):
        raise InputError(_CMT, "all components of the moment tensor are zero", line=entries["Mrr"][1])


def _origin_time(header: str, geographic: bool, line: int) -> str | None:
    """Return the time in the header as ISO text; a Cartesian file may have any header."""
    match = _ORIGIN.match(header)
    try:
        if match is None:
            raise ValueError("the header has no origin time")
        year, month, day, hour, minute = (int(text) for text in match.groups()[:5])
        # Seconds may be rounded up to 60.00.
        seconds = timedelta(hours=hour, minutes=minute, microseconds=round(1e6 * float(match[6])))
        moment = datetime(year, month, day, tzinfo=UTC) + seconds
        if hour > 23 or minute > 59 or float(match[6]) > 61.0:
            raise ValueError("the origin time of the header is not a valid time")
    except (ValueError, OverflowError) as error:
        if not geographic:
            return None
        allowed = "expected catalog, year, month, day, hour, minute, second: PDE 2008 7 29 18 42 15.00 ..."
        raise InputError(_CMT, f"{header.strip()[:60]!r}: {error}", allowed, line=line) from None
    return utc_text(moment)


_FORCES = "FORCESOLUTION"
_FORCE_KEYS = {
    "time shift": ("timeshift",),
    "hdurorf0": ("hdurorf0", "f0", "halfduration"),
    "latorUTM": ("latorutm", "latitude", "latitude(ory)"),
    "longorUTM": ("longorutm", "longitude", "longitude(orx)"),
    "depth": ("depth",),
    "source time function": ("sourcetimefunction",),
    "factor force source": ("factorforcesource",),
    "component dir vect source E": ("componentdirvectsourcee",),
    "component dir vect source N": ("componentdirvectsourcen",),
    "component dir vect source Z_UP": ("componentdirvectsourcez_up", "componentdirvectsourcez"),
}
_FORCE_SPELLINGS = {spelling: key for key, spellings in _FORCE_KEYS.items() for spelling in spellings}
_OPTIONAL = ("source time function",)
_FORCE_MARK = re.compile(rb"^\s*(FORCE\b|factor force source\s*:)", re.IGNORECASE | re.MULTILINE)
_GAUSSIAN, _RICKER, _STEP = 0, 1, 2


def read_forcesolutions(path: str | Path) -> list[SeismicEvent]:
    """Read a file with one or more forces.

    Raises
    ------
    InputError
        with the file, the line and the key: missing, unknown or repeated keys, values that are not numbers, a force
        without magnitude or direction.
    """
    path = Path(path)
    blocks: list[tuple[int, dict[str, tuple[float, int]]]] = []
    for number, line in enumerate(read_lines(path, _FORCES), start=1):
        text = line.partition("!")[0].partition("#")[0].strip()
        if not text:
            continue
        name, colon, value = text.partition(":")
        key = _FORCE_SPELLINGS.get("".join(name.split()).lower()) if colon else None
        if key is None and not colon and (not blocks or not _missing_force_keys(blocks[-1][1])):
            blocks.append((number, {}))
            continue
        with located(path, number):
            if key is None or not blocks:
                allowed = f"a header line such as FORCE 001, then the keys {', '.join(_FORCE_KEYS)}"
                raise InputError(_FORCES, f"{text[:40]!r} is not understood", allowed)
            if key in blocks[-1][1]:
                got = f"is already on line {blocks[-1][1][key][1]}"
                raise InputError(key, got, "each key may appear once per force")
            blocks[-1][1][key] = _number(value.strip(), number, key), number
    with located(path):
        return [_force(entries, start) for start, entries in blocks]


def _missing_force_keys(entries: dict[str, tuple[float, int]]) -> list[str]:
    return [key for key in _FORCE_KEYS if key not in entries and key not in _OPTIONAL]


def _force(entries: dict[str, tuple[float, int]], start: int) -> SeismicEvent:
    if missing := _missing_force_keys(entries):
        end = max((line for _, line in entries.values()), default=start)
        got = f"the force that begins on line {start} ends without {', '.join(missing)}"
        raise InputError(_FORCES, got, "check that the file is complete", line=end)
    values = {key: value for key, (value, _) in entries.items()}
    direction = [values[f"component dir vect source {name}"] for name in ("E", "N", "Z_UP")]
    length, factor = math.hypot(*direction), values["factor force source"]
    if not length or not factor:
        key = "factor force source" if length else "component dir vect source E"
        raise InputError(key, "the force is zero", "expected a force", line=entries[key][1])
    duration = values["hdurorf0"]
    if duration < 0.0:
        got = f"{duration:.12g} is negative"
        raise InputError("hdurorf0", got, "must be 0 or more", line=entries["hdurorf0"][1])
    kind = values.get("source time function")
    shape: dict[str, dict[str, float]] | None = None
    sigma = duration / (SPECFEM_DECAY * math.sqrt(2.0))
    if duration and kind == _GAUSSIAN:
        shape = {"gaussian": {"sigma": sigma}}
        factor /= sigma * math.sqrt(2.0 * math.pi)  # its area is 1 in SPECFEM, its peak is 1 here
    elif duration and kind == _RICKER:
        shape = {"ricker": {"frequency": duration}}
    elif duration and kind == _STEP:
        shape = {"error_function": {"sigma": sigma}}
    east, north, up = (factor * component / length for component in direction)
    return SeismicEvent(
        event_name=f"force on line {start}", origin_time=None, time_shift=values["time shift"], half_duration=None,
        geographic=False, latitude=math.nan, longitude=math.nan, x=values["longorUTM"], y=values["latorUTM"],
        depth=1000.0 * values["depth"], moment=None, line_number=start, force=(east, north, up), shape=shape,
    )  # fmt: skip


_QUAKEML = "QuakeML"
_ROOT = "http://quakeml.org/xmlns/quakeml/1.2"
_BED = "http://quakeml.org/xmlns/bed/1.2"
_MOMENT_RATIO = 2.0
"""Largest ratio of the moment of the tensor and the stated scalar moment."""
_MAGNITUDE_DIFFERENCE = 1.0
"""Largest difference of the magnitude of the tensor and the stated Mw; dyn cm instead of N m amount to 4.7."""


def read_quakeml(path: str | Path) -> list[SeismicEvent]:
    """Read the events of a file; see `parse_quakeml`."""
    return _events(read_xml(path, _QUAKEML), Path(path))


def parse_quakeml(data: bytes) -> list[SeismicEvent]:
    """Return the events of a document.

    The mechanism is the moment tensor of the preferred focal mechanism; without a tensor, it is the double couple of
    the nodal plane 1, with the scalar moment or the preferred magnitude, which must be Mw. The position and the
    centroid time are those of the origin from which the moment tensor is derived, if it is in the document, else of the
    preferred origin. The origin time is that of the triggering origin of the mechanism, if it is in the document, else
    of the preferred origin. The half duration is half the duration of the source time function.

    Raises
    ------
    InputError
        with the identifier of the event and the line: text that is not QuakeML 1.2, declarations of document types or
        entities, missing or ambiguous origins and mechanisms, missing values, and values out of range.
    """
    return _events(parse_xml(data, _QUAKEML), None)


def _events(root: Element, path: Path | None) -> list[SeismicEvent]:
    if (root.name, root.namespace) != ("quakeml", _ROOT):
        shown = f"{root.namespace} {root.name}".strip()
        got, allowed = f"the root element is {shown!r}", f"expected the element quakeml of {_ROOT}"
        raise InputError(_QUAKEML, got, allowed, file=path, line=root.line)
    events = [event for parameters in root.all("eventParameters", _BED) for event in parameters.all("event")]
    if not events:
        got = "the document has no events"
        raise InputError(_QUAKEML, got, f"expected eventParameters and event of {_BED}", file=path)
    return [_EventReader(event, path).event() for event in events]


def _identifier(element: Element) -> str:
    return element.attributes.get("publicID", "").strip()


class _EventReader:
    """The values of one event."""

    def __init__(self, element: Element, path: Path | None) -> None:
        self.element, self.path = element, path
        self.identifier = _identifier(element) or "event without publicID"

    def event(self) -> SeismicEvent:
        preferred = self._chosen("origin", "preferredOriginID")
        mechanism = self._chosen("focalMechanism", "preferredFocalMechanismID")
        centroid = self._referred(mechanism.first("momentTensor"), "derivedOriginID") or preferred
        origin = self._referred(mechanism, "triggeringOriginID") or preferred
        start = self._time(origin)
        return SeismicEvent(
            event_name=self._name(), origin_time=utc_text(start),
            time_shift=(self._time(centroid) - start).total_seconds(), half_duration=self._half_duration(mechanism),
            geographic=True, latitude=self._number(centroid, "latitude", "value", low=-90.0, high=90.0),
            longitude=self._number(centroid, "longitude", "value", low=-360.0, high=360.0), x=math.nan, y=math.nan,
            depth=self._number(centroid, "depth", "value", low=0.0, unit=" m"), moment=self._moment(mechanism),
            line_number=self.element.line,
        )  # fmt: skip

    def _error(self, element: Element, key: str, got: str, allowed: str = "", hint: str = "") -> InputError:
        return InputError(f"{self.identifier}: {key}", got, allowed, hint, file=self.path, line=element.line)

    def _name(self) -> str:
        descriptions = self.element.all("description")
        named = [entry for entry in descriptions if entry.content("type") == "earthquake name"]
        return next((text for entry in (*named, *descriptions) if (text := entry.content("text"))), self.identifier)

    def _chosen(self, name: str, key: str) -> Element:
        """Return the preferred element of a kind, or the only one."""
        elements = self.element.all(name)
        if (preferred := self.element.content(key)) and elements:
            chosen = [element for element in elements if _identifier(element) == preferred]
            if not chosen:
                raise self._error(self.element, key, f"{preferred!r} is not the publicID of an element {name}")
        else:
            chosen = elements
        if name == "focalMechanism" and len(chosen) > 1:
            chosen = [element for element in chosen if element.first("momentTensor", "tensor")] or chosen
        if len(chosen) != 1:
            got = f"the event has {len(chosen)} elements of this kind, and {key} names none" if chosen else "is missing"
            raise self._error(self.element, name, got, f"expected one element {name}, or {key}")
        if chosen[0].content("evaluationStatus") == "rejected":
            raise self._error(chosen[0], name, "its evaluationStatus is 'rejected'", "", "choose another one")
        return chosen[0]

    def _referred(self, element: Element | None, key: str) -> Element | None:
        """Return the origin of the document to which an element refers; None if there is none."""
        identifier = "" if element is None else element.content(key)
        return next((origin for origin in self.element.all("origin") if identifier == _identifier(origin) != ""), None)

    def _number(
        self, element: Element, *names: str, low: float = -math.inf, high: float = math.inf, unit: str = ""
    ) -> float:
        key = ".".join((element.name, *(name for name in names if name != "value")))
        text = element.content(*names)
        if not text:
            raise self._error(element, key, "is missing", "the source cannot be determined without it")
        value = parse_number(text)
        if value is None:
            raise self._error(element.first(*names) or element, key, f"{text[:40]!r} is not a finite number")
        if not low <= value <= high:
            limits = f"at least {low:g}{unit}" + (f" and at most {high:g}{unit}" if math.isfinite(high) else "")
            raise self._error(element.first(*names) or element, key, f"{value:.12g}{unit}", f"must be {limits}")
        return value

    def _time(self, origin: Element) -> datetime:
        text = origin.content("time", "value")
        try:
            time = datetime.fromisoformat(text)
            # Times without a time zone are in UTC.
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        except (ValueError, OverflowError):
            got = f"{text[:40]!r} is not a time" if text else "is missing"
            raise self._error(origin, "origin.time", got, "expected for example 2008-07-29T18:42:15.5Z") from None

    def _half_duration(self, mechanism: Element) -> float | None:
        function = mechanism.first("momentTensor", "sourceTimeFunction")
        if function is None or not function.content("duration"):
            return None
        return 0.5 * self._number(function, "duration", low=0.0, unit=" s")

    def _moment(self, mechanism: Element) -> tuple[float, float, float, float, float, float]:
        tensor = mechanism.first("momentTensor", "tensor")
        if tensor is None:
            return self._double_couple(mechanism)
        rr, tt, pp, rt, rp, tp = (self._number(tensor, name, "value") for name in _COMPONENTS)
        moment = float(scalar_moment((rr, tt, pp, rt, rp, tp)))
        if moment == 0.0:
            raise self._error(tensor, "tensor", "all components are zero")
        self._check_size(mechanism, tensor, moment)
        # x = phi, y = -theta, z = r.
        return (pp, tt, rr, -tp, rp, -rt)

    def _check_size(self, mechanism: Element, tensor: Element, moment: float) -> None:
        """Refuse a tensor that contradicts the scalar moment or Mw, which indicates another unit."""
        units = "QuakeML has moments in N m; 1 dyn cm is 1e-7 N m"
        element = mechanism.first("momentTensor")
        if element is not None and element.content("scalarMoment", "value"):
            stated = self._number(element, "scalarMoment", "value")
            if not moment <= _MOMENT_RATIO * stated or not stated <= _MOMENT_RATIO * moment:
                got = f"its scalar moment is {moment:.4g} N m, while scalarMoment is {stated:.4g} N m"
                raise self._error(tensor, "tensor", got, "both must agree", units)
        magnitude = moment_magnitude(moment)
        stated_magnitude = self._moment_magnitude(mechanism)
        if stated_magnitude is not None and abs(stated_magnitude - magnitude) > _MAGNITUDE_DIFFERENCE:
            got = f"its scalar moment, {moment:.4g} N m, is Mw {magnitude:.2f}, while Mw is {stated_magnitude:g}"
            raise self._error(tensor, "tensor", got, "both must agree", units)

    def _moment_magnitude(self, mechanism: Element) -> float | None:
        """Return the magnitude of the moment tensor, or the preferred one, if it is Mw; else None."""
        magnitudes = self.element.all("magnitude")
        identifiers = (
            mechanism.content("momentTensor", "momentMagnitudeID"),
            self.element.content("preferredMagnitudeID"),
        )
        chosen = [entry for name in identifiers for entry in magnitudes if name and _identifier(entry) == name]
        chosen = chosen or (magnitudes if len(magnitudes) == 1 else [])
        if not chosen or not chosen[0].content("type").lower().startswith("mw"):
            return None
        return self._number(chosen[0], "mag", "value", low=-10.0, high=11.0)

    def _double_couple(self, mechanism: Element) -> tuple[float, float, float, float, float, float]:
        planes = mechanism.first("nodalPlanes")
        plane = None if planes is None else planes.first("nodalPlane1") or planes.first("nodalPlane2")
        if plane is None:
            got = "has neither a moment tensor nor a nodal plane"
            raise self._error(mechanism, "focalMechanism", got, "expected tensor, or nodalPlanes with nodalPlane1")
        strike = self._number(plane, "strike", "value", low=-360.0, high=360.0, unit=" degrees")
        dip = self._number(plane, "dip", "value", low=0.0, high=90.0, unit=" degrees")
        rake = self._number(plane, "rake", "value", low=-360.0, high=360.0, unit=" degrees")
        xx, yy, zz, xy, xz, yz = (self._scalar_moment(mechanism) * double_couple(strike, dip, rake)).tolist()
        return (xx, yy, zz, xy, xz, yz)

    def _scalar_moment(self, mechanism: Element) -> float:
        element = mechanism.first("momentTensor")
        if element is not None and element.content("scalarMoment", "value"):
            moment = self._number(element, "scalarMoment", "value")
            if moment > 0.0:
                return moment
            raise self._error(element, "scalarMoment", f"{moment:g} N m", "must be positive")
        magnitude = self._moment_magnitude(mechanism)
        if magnitude is None:
            got = "the nodal plane has neither a scalar moment nor a preferred magnitude Mw"
            raise self._error(mechanism, "focalMechanism", got, "other magnitudes do not determine the moment")
        return moment_of_magnitude(magnitude)
