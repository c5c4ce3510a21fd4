"""Reports: one HTML file about a run, a survey or a comparison, which requires no network."""

from __future__ import annotations

from lithowave.report.collections import ShotRow, report_comparison, report_survey
from lithowave.report.page import FILE_NAME, require_plotly
from lithowave.report.run import report_run
from lithowave.rooms import public_names

__all__ = ["FILE_NAME", "ShotRow", "report_comparison", "report_run", "report_survey", "require_plotly"]

__getattr__, _others = public_names(__name__, {
    "page": "Page data_table number_text packed script_json shown_receivers",
    "run": "Signal model_section source_signals spectrum",
})
__all__ += _others
