"""Figures of a run: record section, traces, map, wavefield movie, comparison.

matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from lithowave.figures.comparisons import comparison_figure
from lithowave.figures.maps import station_map
from lithowave.figures.movie import static_map, wavefield_movie
from lithowave.figures.plot import plot_run
from lithowave.figures.traces import record_section, traces
from lithowave.rooms import public_names

__all__ = ["comparison_figure", "plot_run", "record_section", "static_map", "station_map", "traces", "wavefield_movie"]

__getattr__, _others = public_names(__name__, {
    "comparisons": "title",
    "maps":
        "MapPage Raster SectionPage beachball_position coastlines draw_coastlines draw_interfaces ground_map "
        "interface_levels map_frame map_page on_page page_coordinates",
    "models": "model_figure model_sections radial_profile",
    "movie": "last_displacement nice_limit snapshot_files",
    "style": "chunk_of domain_of earth_model_of layers_of polarity read_description readable_unit",
    "traces": "choose_traces drawn_phases first_arrival global_arrivals move_apart normalised receiver_arrivals",
})
__all__ += _others
