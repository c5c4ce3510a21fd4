"""Files of events: CMTSOLUTION, FORCESOLUTION or QuakeML, distinguished by their content."""

from __future__ import annotations

from pathlib import Path

from lithowave.readers.cmtsolution import read_cmtsolutions
from lithowave.readers.forcesolution import is_forcesolution, read_forcesolutions
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.quakeml import read_quakeml
from lithowave.readers.seismic_event import SeismicEvent

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
    if is_forcesolution(start):
        return read_forcesolutions(path)
    with naming_foreign(path, "events"):
        return read_cmtsolutions(path)
