"""Events with moment tensors or nodal planes in QuakeML, version 1.2 of the Basic Event Description (BED).

Values are in SI units: depth in m, moments in N m along r (up), t (south) and p (east). The XML parser is that of the
standard library; files with a document type declaration, and thus with entities, are refused.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

from lithowave.errors import InputError
from lithowave.physics.moments import double_couple, moment_magnitude, moment_of_magnitude, scalar_moment
from lithowave.readers.seismic_event import SeismicEvent, utc_text
from lithowave.readers.text import parse_number
from lithowave.readers.xml_tree import Element, parse_xml, read_xml

_WHAT = "QuakeML"
_ROOT = "http://quakeml.org/xmlns/quakeml/1.2"
_BED = "http://quakeml.org/xmlns/bed/1.2"
_COMPONENTS = ("Mrr", "Mtt", "Mpp", "Mrt", "Mrp", "Mtp")
_MOMENT_RATIO = 2.0
"""Largest ratio of the moment of the tensor and the stated scalar moment."""
_MAGNITUDE_DIFFERENCE = 1.0
"""Largest difference of the magnitude of the tensor and the stated Mw; dyn cm instead of N m amount to 4.7."""


def read_quakeml(path: str | Path) -> list[SeismicEvent]:
    """Read the events of a file; see `parse_quakeml`."""
    return _events(read_xml(path, _WHAT), Path(path))


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
    return _events(parse_xml(data, _WHAT), None)


def _events(root: Element, path: Path | None) -> list[SeismicEvent]:
    if (root.name, root.namespace) != ("quakeml", _ROOT):
        shown = f"{root.namespace} {root.name}".strip()
        got, allowed = f"the root element is {shown!r}", f"expected the element quakeml of {_ROOT}"
        raise InputError(_WHAT, got, allowed, file=path, line=root.line)
    events = [event for parameters in root.all("eventParameters", _BED) for event in parameters.all("event")]
    if not events:
        got = "the document has no events"
        raise InputError(_WHAT, got, f"expected eventParameters and event of {_BED}", file=path)
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
        mechanism = self._mechanism()
        centroid = self._referred(mechanism.first("momentTensor"), "derivedOriginID") or preferred
        origin = self._referred(mechanism, "triggeringOriginID") or preferred
        start = self._time(origin)
        return SeismicEvent(
            event_name=self._name(),
            origin_time=utc_text(start),
            time_shift=(self._time(centroid) - start).total_seconds(),
            half_duration=self._half_duration(mechanism),
            geographic=True,
            latitude=self._number(centroid, "latitude", "value", low=-90.0, high=90.0),
            longitude=self._number(centroid, "longitude", "value", low=-360.0, high=360.0),
            x=math.nan,
            y=math.nan,
            depth=self._number(centroid, "depth", "value", low=0.0, unit=" m"),
            moment=self._moment(mechanism),
            line_number=self.element.line,
        )

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

    def _mechanism(self) -> Element:
        return self._chosen("focalMechanism", "preferredFocalMechanismID")

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
