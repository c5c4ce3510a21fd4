"""Common style of all figures, entries of a run folder, and focal mechanisms.

Figures are matplotlib objects on the Agg canvas, without pyplot and its global state. The entries are those of the
resolved ``simulation.yaml`` that figures need. Focal mechanisms show the polarity of the first P motion on the lower
focal hemisphere of a moment tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError
from lithowave.globe_coordinates import RADIUS, ChunkMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.patheffects import AbstractPathEffect

    from lithowave.json_types import ReadEntries

FILE_NAME = "simulation.yaml"
TAUP_MODELS = ("prem", "ak135", "iasp91")


def read_description(directory: Path) -> ReadEntries:
    """Return the contents of the run's ``simulation.yaml``; empty if it is missing or unreadable."""
    from lithowave.description.text import read_document

    try:
        return read_document((directory / FILE_NAME).read_text(encoding="utf-8")).data
    except (OSError, UnicodeDecodeError, InputError):
        return {}


def domain_of(description: ReadEntries) -> tuple[float, float, float, float] | None:
    """Return (x low, x high, y low, y high) of the domain, m, of a chunk in its local coordinates; None if it is not
    given as numbers."""
    try:
        if chunk_of(description) is not None:
            first, second = (math.radians(float(width)) for width in description["domain"]["chunk"]["width"])
            return tuple(0.5 * RADIUS * end for end in (-first, first, -second, second))
        x, y = description["domain"]["x"], description["domain"]["y"]
        return float(x[0]), float(x[1]), float(y[0]), float(y[1])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None


def layers_of(description: ReadEntries) -> tuple[list[float], list[float], list[float]] | None:
    """Return (tops, vp, vs) of the `material` of a resolved simulation file; None without flat layers."""
    material = description.get("material")
    if chunk_of(description) is not None:
        return None
    if not isinstance(material, Mapping):
        return None
    layers = material.get("layers")
    if not layers and isinstance(material.get("homogeneous"), Mapping):
        layers = [{"top": 0.0, **material["homogeneous"]}]
    try:
        if any(layer.get(key) for layer in layers for key in ("gradient", "anisotropy", "stiffness")):
            return None  # the first arrivals are other ones
        rows = [(float(layer.get("top", 0.0)), float(layer["vp"]), float(layer["vs"])) for layer in layers]
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    tops, vp, vs = (list(values) for values in zip(*sorted(rows, reverse=True), strict=True))
    return tops, vp, vs


def earth_model_of(description: ReadEntries) -> str | None:
    """Return the name of the radial Earth model of a chunk in a resolved simulation file that TauP knows, else None."""
    try:
        name = str(description["material"]["earth"]["model"])
    except (KeyError, TypeError):
        return None
    return name if chunk_of(description) is not None and name in TAUP_MODELS else None


def chunk_of(description: ReadEntries) -> ChunkMap | None:
    """Return the map of the chunk of the globe of a resolved simulation file; None for a box."""
    domain = description.get("domain")
    chunk = domain.get("chunk") if isinstance(domain, Mapping) else None
    try:
        longitude, latitude = (float(value) for value in chunk["center"])
        return ChunkMap(longitude, latitude, float(chunk.get("azimuth", 0.0)))
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


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


def new_figure(width: float, height: float, **keywords: object) -> Figure:
    """Return a figure of `width` by `height` inches with an Agg canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, **keywords)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write `figure` to `path` (its extension is the format) and create the directory if necessary.

    Raises
    ------
    OutputError : the file cannot be written.
    """
    from lithowave.output import files

    path = Path(path)
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def heading(run: str, text: str) -> str:
    """Return a title: that of the run, if it has one, and a text."""
    return f"{run}: {text}" if run else text


def marked(title: str, shortfall: str) -> str:
    """Return a title with a line that marks seismograms as incomplete; see `Seismograms.shortfall`."""
    return f"{title}\n{shortfall}" if shortfall else title


def colormap(name: str, colors: tuple[str, ...]) -> Colormap:
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


def color_bar(figure: Figure, image: ScalarMappable, panel: Axes, label: str, extend: str = "neither") -> Colorbar:
    """Draw the color bar of a map."""
    bar = figure.colorbar(image, ax=panel, shrink=0.62, aspect=28, pad=0.02, extend=extend)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return bar


def extension(largest: float, limit: float) -> str:
    """Return the ends of a color bar that are pointed: the upper one if values exceed the limit."""
    return "max" if largest > limit else "neither"


def halo(width: float = 2.5) -> list[AbstractPathEffect]:
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
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(int))


RINGS, SPOKES = 150, 361


def polarity(moment: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the P amplitude g M g over the lower hemisphere, divided by its largest absolute value.

    The ray leaves in direction g = (sin i sin a, sin i cos a, -cos i) (East, North, Up) with azimuth a and angle i
    from vertically down, and is drawn at the distance sqrt(2) sin(i / 2) from the center (equal area; Aki &
    Richards 2002, box 4.4).

    Parameters
    ----------
    moment : xx, yy, zz, xy, xz, yz in any unit.

    Returns (x, y, amplitude), each (RINGS, SPOKES); x East and y North in the unit circle.
    """
    xx, yy, zz, xy, xz, yz = moment
    radius, angle = np.meshgrid(np.linspace(0.0, 1.0, RINGS), np.linspace(0.0, 2 * np.pi, SPOKES), indexing="ij")
    incidence = 2.0 * np.arcsin(radius / np.sqrt(2.0))
    east, north = np.sin(incidence) * np.sin(angle), np.sin(incidence) * np.cos(angle)
    up = -np.cos(incidence)
    amplitude = (
        xx * east**2
        + yy * north**2
        + zz * up**2
        + 2.0 * (xy * east * north + xz * east * up + yz * north * up)
    )
    largest = np.abs(amplitude).max()
    return radius * np.sin(angle), radius * np.cos(angle), amplitude / (largest or 1.0)


def draw_beachball(
    panel: Axes, center: tuple[float, float], radius: float, moment: Sequence[float], color: str = INK
) -> None:
    """Draw the mechanism at `center` with `radius` in data coordinates; outward first motion is filled."""
    x, y, amplitude = polarity(moment)
    x, y = center[0] + radius * x, center[1] + radius * y
    colors = [PAPER, color]
    if amplitude.min() >= 0 or amplitude.max() <= 0:
        # With one sign only (an explosion or an implosion) there is no nodal line to draw.
        panel.fill(x[-1], y[-1], color=color if amplitude.max() > 0 else PAPER, zorder=8)
    else:
        panel.contourf(x, y, amplitude, levels=[-1.1, 0.0, 1.1], colors=colors, zorder=8)
    panel.plot(x[-1], y[-1], color=color, linewidth=1.0, zorder=9)
