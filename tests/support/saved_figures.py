"""Figures that a test draws: coarse, and kept in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from lithowave.figures import style


def keep_figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that are saved from now on, by the stem of their file. Coarse pictures are drawn faster."""
    saved, save = {}, style.save

    def save_and_keep(figure: Any, path: Path) -> Any:
        saved[path.stem] = figure
        return save(figure, path)

    monkeypatch.setattr(style, "save", save_and_keep)
    monkeypatch.setattr(style, "DOTS_PER_INCH", 50)
    return saved


def texts_of(figures: dict[str, Any]) -> list[str]:
    """All texts in figures."""
    for figure in figures.values():
        figure.canvas.draw()
    artists = [artist for figure in figures.values() for artist in figure.findobj(Text)]
    return [artist.get_text() for artist in artists if artist.get_text()]
