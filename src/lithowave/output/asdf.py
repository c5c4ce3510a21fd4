"""Seismograms, event and stations in one ASDF file, version 1.0.3, through h5py.

Reference: Krischer et al. (2016), An Adaptable Seismic Data Format, Geophys. J. Int. 207, 1003-1011, and the format
definition, https://seismic-data.org. Layout of ``seismograms.h5`` in the folder ``asdf``::

    /                       attributes file_format, file_format_version
    /QuakeML                the event as QuakeML 1.2, bytes
    /Waveforms/NET.STA/StationXML                                     the station as StationXML 1.1, bytes
    /Waveforms/NET.STA/NET.STA.LOC.CHA__START__END__synthetic         samples; attributes starttime (ns since 1970),
                                                                      sampling_rate (Hz), event_id, and those of
                                                                      lithowave: quantity, units, x, y, z (m),
                                                                      complete (0 if the run was not complete)
    /Provenance, /AuxiliaryData                                       empty

QuakeML and StationXML require longitudes and latitudes: without a geographic origin, the file has waveforms only. The
moment tensor is that of all sources, in N m, in the axes r (up), t (true South), p (true East). Channels have the
azimuths `Seismograms.north_azimuth`. Channel codes and times are those of MiniSEED files, see `waveforms`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from lithowave.errors import OutputError
from lithowave.labels import shifted_time
from lithowave.output import files
from lithowave.output.attributes import to_geographic
from lithowave.output.observed import nanoseconds
from lithowave.output.seismograms import FILE_NAME, Seismograms
from lithowave.output.waveforms import channel_codes
from lithowave.physics import scalar_moment
from lithowave.version import __version__

if TYPE_CHECKING:
    import h5py

TAG = "synthetic"
ORIENTATIONS = {"E": (90, 0), "N": (0, 0), "Z": (0, -90)}
"""Azimuth from North and dip below the horizontal of the components, degrees."""

_EPOCH = "1970-01-01T00:00:00"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def write_asdf(seismograms: Seismograms, directory: str | Path, ground: np.ndarray | None = None) -> list[Path]:
    """Write ``seismograms.h5`` in ASDF to a folder; return its path in a list.

    Parameters
    ----------
    ground : (n_receivers,) z of the surface at the receivers, m, from which depths are derived; default: 0.

    Raises
    ------
    OutputError : no sample has been recorded yet, or the disk is full.
    """
    path = Path(directory) / FILE_NAME
    if len(seismograms) and not len(seismograms.time):
        raise OutputError(f"{directory}: nothing to write: no sample has been recorded yet.")
    heights = np.zeros(len(seismograms)) if ground is None else np.asarray(ground, dtype=float)
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.require_space(path, seismograms.data.nbytes)
    with files.replacing(path) as file:
        file.attrs["file_format"], file.attrs["file_format_version"] = _ascii("ASDF"), _ascii("1.0.3")
        for name in ("Provenance", "AuxiliaryData"):
            file.create_group(name)
        event = ""
        if seismograms.geographic_origin is not None and seismograms.sources.centroid is not None:
            event = event_id(seismograms)
            _write_bytes(file, "QuakeML", quakeml(seismograms))
        waveforms = file.create_group("Waveforms")
        for rows in _stations(seismograms):
            first = rows[0]
            group = waveforms.create_group(f"{seismograms.networks[first]}.{seismograms.stations[first]}")
            for row in rows:
                _write_traces(group, seismograms, row, event)
            if seismograms.geographic_origin is not None:
                _write_bytes(group, "StationXML", stationxml(seismograms, rows, heights))
    return [path]


def _stations(seismograms: Seismograms) -> Iterator[list[int]]:
    """Yield the rows of the receivers of each station."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row, codes in enumerate(zip(seismograms.networks, seismograms.stations, strict=True)):
        rows.setdefault(codes, []).append(row)
    yield from rows.values()


def _write_traces(group: h5py.Group, seismograms: Seismograms, row: int, event: str) -> None:
    interval = seismograms.sampling_interval
    start = nanoseconds(seismograms.start_time or _EPOCH)
    times = (start, start + round((len(seismograms.time) - 1) * interval * 1e9))
    first, last = (f"{datetime.fromtimestamp(time // 10**9, UTC):%Y-%m-%dT%H:%M:%S}" for time in times)
    codes = ".".join((seismograms.networks[row], seismograms.stations[row], seismograms.locations[row]))
    for component, channel in enumerate(channel_codes(interval)):
        name = f"{codes}.{channel}__{first}__{last}__{TAG}"
        dataset = group.create_dataset(name, data=seismograms.data[row, component], maxshape=(None,), fletcher32=True)
        dataset.attrs["starttime"], dataset.attrs["sampling_rate"] = np.int64(start), 1.0 / interval
        if event:
            dataset.attrs["event_id"] = _ascii(event)
        dataset.attrs["quantity"], dataset.attrs["units"] = seismograms.quantity, seismograms.units
        dataset.attrs["complete"] = np.uint8(seismograms.complete)
        for axis, value in zip("xyz", seismograms.positions[row], strict=True):
            dataset.attrs[axis] = float(value)


def _ascii(text: str) -> np.bytes_:
    """Return a text with a final zero byte, which readers in C require."""
    return np.bytes_((text + "\0").encode("ascii", "replace"))


def _write_bytes(group: h5py.Group, name: str, text: str) -> None:
    data = np.frombuffer(text.encode("utf-8"), dtype=np.int8)
    group.create_dataset(name, data=data, maxshape=(None,), fletcher32=True)


def event_id(seismograms: Seismograms) -> str:
    """Return the resource identifier of the event, which depends on title, time and position."""
    sources = seismograms.sources.along_true_north()
    centroid = [] if sources.centroid is None else sources.centroid.tolist()
    content = repr((seismograms.title, seismograms.origin_time, centroid, sources.moment.tolist()))
    return f"smi:local/lithowave/event/{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def quakeml(seismograms: Seismograms) -> str:
    """Return the event as QuakeML 1.2: the centroid of all sources, its origin time, and the sum of moment tensors.

    An event without a date has its origin time `Seismograms.origin_delay` after 1970-01-01T00:00:00.
    """
    sources, event = seismograms.sources.along_true_north(), event_id(seismograms)
    x, y, z = sources.centroid
    longitude, latitude = to_geographic(x, y, seismograms.geographic_origin)
    time = (seismograms.origin_time or shifted_time(_EPOCH, seismograms.origin_delay or 0.0)).rstrip("Z") + "Z"
    names = ("origin", "magnitude", "mechanism")
    origin, magnitude, mechanism = (event.replace("/event/", f"/{name}/") for name in names)
    text = [
        _HEAD, '<q:quakeml xmlns="http://quakeml.org/xmlns/bed/1.2" xmlns:q="http://quakeml.org/xmlns/quakeml/1.2">\n',
        f'<eventParameters publicID="smi:local/lithowave/{event.rpartition("/")[2]}">\n<event publicID="{event}">\n',
        f"<description><text>{escape(seismograms.title or 'lithowave')}</text><type>earthquake name</type>",
        "</description>\n",
        f'<origin publicID="{origin}">{_value("time", time)}{_value("longitude", float(longitude))}',
        f"{_value('latitude', float(latitude))}{_value('depth', float(0.0 - z))}</origin>\n",
    ]  # fmt: skip
    if sources.moment_magnitude is not None:
        scalar = float(scalar_moment(sources.moment))
        text += [
            f'<magnitude publicID="{magnitude}">{_value("mag", float(sources.moment_magnitude))}<type>Mw</type>',
            f"<originID>{origin}</originID></magnitude>\n",
            f'<focalMechanism publicID="{mechanism}"><momentTensor publicID="{mechanism}/tensor">',
            f"<derivedOriginID>{origin}</derivedOriginID>{_value('scalarMoment', scalar)}",
            f"<tensor>{''.join(_value(name, number) for name, number in tensor(sources.moment).items())}</tensor>",
            "</momentTensor></focalMechanism>\n",
        ]
    return "".join([*text, "</event>\n</eventParameters>\n</q:quakeml>\n"])


def tensor(moment: np.ndarray) -> dict[str, float]:
    """Return Mrr, Mtt, ... of a moment tensor (xx, yy, zz, xy, xz, yz): r is z, t is -y, p is x."""
    xx, yy, zz, xy, xz, yz = (float(value) for value in moment)
    return {"Mrr": zz, "Mtt": yy, "Mpp": xx, "Mrt": 0.0 - yz, "Mrp": xz, "Mtp": 0.0 - xy}


def _value(name: str, value: object) -> str:
    return f"<{name}><value>{value!s}</value></{name}>" if isinstance(value, str) else _value(name, repr(value))


def stationxml(seismograms: Seismograms, rows: list[int], ground: np.ndarray) -> str:
    """Return a station as StationXML 1.1 with a channel per receiver and component.

    The elevation of a channel is z of the receiver, its depth the distance below the surface; the elevation of the
    station is that of the surface.
    """
    places = seismograms.positions[rows]
    x, y, _ = places.T
    longitudes, latitudes = map(np.atleast_1d, to_geographic(x, y, seismograms.geographic_origin))
    start = seismograms.start_time or _EPOCH
    surface = ground[rows]
    station = quoteattr(seismograms.stations[rows[0]])
    text = [
        _HEAD, '<FDSNStationXML xmlns="http://www.fdsn.org/xml/station/1" schemaVersion="1.1">\n',
        f"<Source>lithowave {__version__}</Source><Module>lithowave</Module>",
        f"<Created>{start.rstrip('Z')}Z</Created>\n<Network code={quoteattr(seismograms.networks[rows[0]])}>\n",
        f'<Station code={station}>{_place(longitudes[0], latitudes[0], surface[0])}',
        "<Site><Name>synthetic seismograms</Name></Site>\n",
    ]  # fmt: skip
    for index, row in enumerate(rows):
        z = float(places[index, 2])
        for channel in channel_codes(seismograms.sampling_interval):
            azimuth, dip = ORIENTATIONS[channel[-1]]
            azimuth = azimuth if dip else (azimuth + float(seismograms.north_azimuth[row])) % 360.0
            location = quoteattr(seismograms.locations[row])
            text.append(
                f'<Channel code="{channel}" locationCode={location}>{_place(longitudes[index], latitudes[index], z)}'
                f"<Depth>{max(0.0, float(surface[index]) - z)!r}</Depth><Azimuth>{azimuth}</Azimuth><Dip>{dip}</Dip>"
                f"<SampleRate>{1.0 / seismograms.sampling_interval!r}</SampleRate></Channel>\n"
            )
    return "".join([*text, "</Station>\n</Network>\n</FDSNStationXML>\n"])


def _place(longitude: float, latitude: float, elevation: float) -> str:
    return (
        f"<Latitude>{float(latitude)!r}</Latitude><Longitude>{float(longitude)!r}</Longitude>"
        f"<Elevation>{float(elevation)!r}</Elevation>"
    )
