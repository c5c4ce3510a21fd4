"""The mechanism of a source as a picture of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lithowave.output.figures import style
from lithowave.output.figures.beachball import draw_beachball
from lithowave.output.source_table import SourceTable


def source_picture(sources: Iterable[Any], path: str | Path) -> Path | None:
    """Draw the summed mechanism of point sources to `path` and return it; None if they are forces."""
    table = SourceTable.from_points(sources)
    if not table.moment.any():
        return None
    with style.styled():
        figure = style.new_figure(2.0, 2.0)
        panel = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        panel.set_aspect("equal")
        panel.set_axis_off()
        draw_beachball(panel, (0.0, 0.0), 1.0, table.moment)
        figure.patch.set_alpha(0.0)
        return style.save(figure, path)
