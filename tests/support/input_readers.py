"""All functions that read a file of a user, by the kind of file: for tests with damaged and malicious files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lithowave as lw
from lithowave.mesh import read_hexahedral_mesh, read_tetrahedral_mesh
from lithowave.output import (
    FILE_NAME,
    REPORT,
    load_peak_motion,
    load_seismograms,
    load_snapshots,
    open_checkpoint,
    read_observed,
    read_report,
)
from lithowave.readers import (
    read_events,
    read_fdsn_text,
    read_model,
    read_perturbation_model,
    read_radial_model,
    read_samples,
    read_segy_geometry,
    read_segy_section,
    read_shots,
    read_srf,
    read_station_table,
    read_stations,
    read_stationxml,
    read_surface,
)


@dataclass(frozen=True)
class Entry:
    """A reader, and the names of the files that it reads."""

    read: Callable[[Path], Any]
    names: tuple[str, ...]


def _checkpoint(path: Path) -> Any:
    return open_checkpoint(path.parents[1], "fingerprint")


ENTRIES = {
    "description": Entry(lw.Simulation.from_file, ("simulation.yaml",)),
    "events": Entry(read_events, ("CMTSOLUTION", "event.xml", "FORCESOLUTION")),
    "fault": Entry(read_srf, ("fault.srf", "fault.h5")),
    "samples": Entry(read_samples, ("stf.txt",)),
    "model": Entry(read_model, ("model.nc", "model.npz", "model.h5", "model.txt", "model.rfile", "model.sw4")),
    "perturbation": Entry(read_perturbation_model, ("model.nc",)),
    "radial model": Entry(read_radial_model, ("model.nd", "model.tvel", "model.bm", "model.txt")),
    "surface": Entry(read_surface, ("surface.nc", "surface.npz", "surface.h5", "surface.txt", "surface.grd")),
    "section": Entry(read_segy_section, ("vp.segy",)),
    "geometry": Entry(read_segy_geometry, ("shot.segy",)),
    "shots": Entry(read_shots, ("shots.csv", "shots.segy")),
    "stations": Entry(read_stations, ("STATIONS",)),
    "station table": Entry(read_station_table, ("stations.csv",)),
    "FDSN text": Entry(read_fdsn_text, ("stations.txt",)),
    "stationxml": Entry(read_stationxml, ("stations.xml",)),
    "tetrahedra": Entry(read_tetrahedral_mesh, ("mesh.msh", "mesh.neu", "mesh.vtu", "mesh.exo")),
    "hexahedra": Entry(read_hexahedral_mesh, ("mesh.msh", "mesh.vtu", "mesh.exo", "mesh_file")),
    "observed": Entry(read_observed, ("data.mseed", "data.sac", "data.h5", "data.segy", "data[1].mseed", "data.zip")),
    "seismograms": Entry(load_seismograms, ("seismograms.h5",)),
    "snapshots": Entry(load_snapshots, ("snapshots.h5",)),
    "peak motion": Entry(load_peak_motion, ("peak_motion.h5",)),
    "report": Entry(lambda path: read_report(path.parent), (REPORT,)),
    "checkpoint": Entry(_checkpoint, (FILE_NAME,)),
}


def files() -> Iterator[tuple[str, str]]:
    """All pairs of an entry and the name of a file."""
    for entry, value in ENTRIES.items():
        for name in value.names:
            yield entry, name
