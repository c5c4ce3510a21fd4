"""Common style of all figures: matplotlib objects on the Agg canvas, without pyplot and its global state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

INK = "#16202b"
MUTED = "#5c6b7a"
FAINT = "#dfe5eb"
PAPER = "#ffffff"
# Colors of Okabe and Ito (2008), distinguishable with all kinds of color vision.
P_COLOR = "#0072b2"
S_COLOR = "#d55e00"
COMPONENT_NAMES = {"E": "East", "N": "North", "Z": "Vertical", "R": "Radial", "T": "Transverse", "P": "Pressure"}
RUN_COLORS = (S_COLOR, INK)
PEAK_COLORS = ("#fbfaf5", "#f4e3b2", "#f2b56b", "#e07a4f", "#b23a48", "#5e1f45")
WAVE_COLORS = ("#0b2545", "#2a6fbb", "#8fbfe0", "#f7f7f4", "#f0b48a", "#c8452f", "#5c0f1d")
DOTS_PER_INCH = 160
PREFIXES = {
    "m": ((1.0, ""), (1e2, "c"), (1e3, "m"), (1e6, "µ"), (1e9, "n")),
    "P": ((1e-9, "G"), (1e-6, "M"), (1e-3, "k"), (1.0, ""), (1e3, "m")),
}

SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "mathtext.fontset": "dejavusans",
}


COLORED = 99.5
"""Percentage of the values below the limit of a color scale."""


@contextmanager
def styled() -> Iterator[None]:
    """Apply matplotlib settings for figures of lithowave temporarily."""
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        yield


def new_figure(width: float, height: float, **keywords: Any) -> Any:
    """Return a figure of `width` by `height` inches with an Agg canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, **keywords)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: str | Path) -> Path:
    """Write `figure` to `path` (its extension is the format) and create the directory if necessary.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    from lithowave.output import hdf5

    path = Path(path)
    with hdf5.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def marked(title: str, shortfall: str) -> str:
    """Return a title with a line that marks seismograms as incomplete; see `Seismograms.shortfall`."""
    return f"{title}\n{shortfall}" if shortfall else title


def colormap(name: str, colors: tuple[str, ...]) -> Any:
    """Return a smooth color map through `colors`."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, colors, N=256)


def color_limit(values: np.ndarray) -> tuple[float, float]:
    """Return the largest absolute value, and the limit of a color scale: `COLORED` percent of the values are below it.

    A few large values, for example at a source, would leave all others pale. Without a value above 0 the limit is 0.
    """
    sizes = np.abs(values[np.isfinite(values)])
    largest = float(sizes.max(initial=0.0))
    limit = float(np.percentile(sizes, COLORED)) if sizes.size else 0.0
    return largest, limit if limit > 0.0 else largest


def extension(largest: float, limit: float) -> str:
    """Return the ends of a color bar that are pointed: the upper one if values exceed the limit."""
    return "max" if largest > limit else "neither"


def halo(width: float = 2.5) -> list[Any]:
    """Return path effects that keep text and lines legible on any background."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground=PAPER)]


def readable_unit(largest: float, unit: str) -> tuple[float, str]:
    """Return (factor, unit) that scale `largest` (in the SI `unit`, of meters or Pa) to a readable number."""
    prefixes = PREFIXES.get(unit[:1])
    if prefixes is None or not np.isfinite(largest) or largest <= 0:
        return 1.0, pretty_unit(unit)
    for factor, prefix in prefixes:
        if largest * factor >= 0.5:
            return factor, pretty_unit(prefix + unit)
    exponent = 3 * math.floor(math.log10(largest) / 3)
    return 10.0**-exponent, f"$10^{{{exponent}}}$ {pretty_unit(unit)}"


def pretty_unit(unit: str) -> str:
    """Return `unit` with a superscript exponent: m/s² for m/s^2."""
    return unit.replace("^2", "²").replace("^3", "³")


def number(value: float) -> str:
    """Format `value` with three digits, without an exponent if possible."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}" if digits <= 4 and abs(value) < 1e5 else f"{value:.2e}"


def spread(count: int, most: int) -> np.ndarray:
    """Return at most `most` indices from `count`, evenly spaced, including the first and the last."""
    return (
        np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(int))
        if count
        else np.zeros(0, int)
    )
