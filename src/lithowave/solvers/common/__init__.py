"""Parts that all numerical methods share: kernel arguments, source amplitudes, records of receivers, warnings."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "kernels": "PartialMaxima Programs captured count_step named_arguments",
    "reports": "RankWorkload Records file_elements",
    "resampling": "Resampling combine corrected_frequency correction_warnings limited",
    "source_amplitudes": "AmplitudeRow AmplitudeTable BLOCK SourceAmplitudes source_values upload_entries",
    "warnings": "COARSE_GRID GRID SMALL",
})
