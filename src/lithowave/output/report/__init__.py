"""Reports: one HTML file about a run, a survey or a comparison, which requires no network."""

from lithowave.output.report.comparison import report_comparison
from lithowave.output.report.page import FILE_NAME, require_plotly
from lithowave.output.report.run import report_run
from lithowave.output.report.survey import ShotRow, report_survey

__all__ = ["FILE_NAME", "ShotRow", "report_comparison", "report_run", "report_survey", "require_plotly"]
