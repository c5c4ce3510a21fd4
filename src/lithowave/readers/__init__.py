"""Readers of files that other programs write, one module per format."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "array_files": "open_arrays",
    "events": "SeismicEvent parse_quakeml read_cmtsolutions read_events read_quakeml",
    "foreign_formats": "is_hdf5 open_hdf5 waveform_format",
    "geographic_model": "read_perturbation_model",
    "gmsh": "text_numbers",
    "gridded_model": "GriddedModel local_model",
    "meshes": "FROM_VTK TETRAHEDRA read_mesh_file usual_name",
    "model_files": "read_model",
    "other_meshes": "EXODUS_SIDES FROM_EXODUS",
    "radial_models": "read_radial_model",
    "segy": "interval_problem microseconds read_segy_geometry read_segy_section read_shots segy_receivers segy_shots",
    "srf": "read_srf write_srf",
    "stations": "read_fdsn_text read_station_table read_stations read_stationxml",
    "surfaces": "GeographicSurface Surface read_surface",
    "text": "DENSITY LENGTH SPEED UTF8_MARK read_samples si_factor",
})
