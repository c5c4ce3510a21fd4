"""Files of a run: written during the run, and read afterwards."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "asdf": "event_id tensor write_asdf",
    "attributes": "SourceTable attributes_of geographic_origin standard_attributes",
    "checkpoint": "CheckpointWriter FILE_NAME FOLDER State open_checkpoint",
    "conversion": "convert_file write_gridded_model",
    "files": "ContiguousDataset PAGE PagedFile changing creating disk_rate open_file preallocate replacing",
    "geometry":
        "azimuth common_positions component distance_unit epicentral_distance line_direction offsets "
        "radial_direction",
    "observed": "is_asdf is_observed read_observed",
    "recorders":
        "Deliveries ImmediateJobs MAX_PENDING Recorder Sampling SeismogramRecorder SnapshotSteps WriterThread "
        "make_recorders record_lag",
    "results": "load_peak_motion write_peak_motion",
    "run_folder": "DESCRIPTION LOG MADE_BY_RUNS REPORT RunFolder fingerprint read_report",
    "segy": "write_segy",
    "seismograms": "SeismogramWriter Seismograms load_seismograms read_seismograms",
    "snapshots":
        "PartReader PartWriter SnapshotHead SnapshotWriter join_run join_snapshots load_snapshots part_writer "
        "parts_folder unjoined",
    "vtkhdf": "PLANE_POINT_BYTES THICKNESS VOLUME_POINT_BYTES geometry_bytes",
    "waveforms": "band_letter channel_codes check_names write_miniseed write_sac",
})
