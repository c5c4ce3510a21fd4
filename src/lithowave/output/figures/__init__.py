"""Figures of a run: record section, traces, map, wavefield movie, comparison.

matplotlib is imported only when a figure is drawn.
"""

from lithowave.output.figures.comparison import comparison_figure
from lithowave.output.figures.movie import wavefield_movie
from lithowave.output.figures.plot import plot_run
from lithowave.output.figures.record_section import record_section
from lithowave.output.figures.static_map import static_map
from lithowave.output.figures.station_map import station_map
from lithowave.output.figures.traces import traces

__all__ = [
    "comparison_figure",
    "plot_run",
    "record_section",
    "static_map",
    "station_map",
    "traces",
    "wavefield_movie",
]
