"""Files of events: CMTSOLUTION or QuakeML, distinguished by their content."""

from __future__ import annotations

from pathlib import Path

from lithowave.readers.cmtsolution import read_cmtsolutions
from lithowave.readers.quakeml import read_quakeml
from lithowave.readers.seismic_event import SeismicEvent

_XML_SUFFIXES = (".xml", ".quakeml", ".qml")


def read_events(path: Path) -> list[SeismicEvent]:
    """Read a QuakeML file if its text begins with ``<`` or its name ends as that of XML, else a CMTSOLUTION file."""
    with path.open("rb") as file:
        start = file.read(256).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<") or path.suffix.lower() in _XML_SUFFIXES:
        return read_quakeml(path)
    return read_cmtsolutions(path)
