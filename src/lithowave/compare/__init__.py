"""Comparison of seismograms: of runs, and of a run with data."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "data": "find_defect",
    "misfits": "frequency_band low_pass relative_l2 time_shift wavelet_misfit_maps wavelet_misfits",
    "runs": "compare_runs",
})
