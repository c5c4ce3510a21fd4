"""The description of an experiment: what the user says, validated; it knows no device, no MPI and no grid."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "acquisition": "Acquisition",
    "experiment": "Experiment",
    "domain": "Chunk Domain FACES",
    "fault_sources": "SlipRates SubfaultFunction",
    "material": "Material",
    "outputs": "Checkpoint WaveformFormat",
    "receivers": "Receivers",
    "schema": "SCHEMA_PATH schema_text simulation_schema",
    "simulation": "Simulation",
    "solver":
        "LEVELS MEASURED METHODS PARAMETERS_BY_METHOD POINTS RECOMMENDED_POINTS_BY_DEGREE "
        "SMALLEST_POINTS_BY_DEGREE Solver estimated_error",
    "sources": "DoubleCouple MomentTensor",
    "template": "template_text",
    "text": "parse_overrides read_document",
    "time_functions": "Gaussian NaturalSpline TimeFunction",
    "units": "parse_quantity",
})
