"""A radial model of the Earth: speeds, density and quality factors against depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lithowave.earth import EarthProperties, RadialModel
from lithowave.output.figures.style import INK, MUTED, P_COLOR, S_COLOR, new_figure, save, styled

_SPEEDS = (("vp", P_COLOR, (("vpv", "-"), ("vph", "--"))), ("vs", S_COLOR, (("vsv", "-"), ("vsh", "--"))))


def radial_profile(model: RadialModel, depth: float) -> tuple[np.ndarray, EarthProperties]:
    """Return depths, m, down to a depth with both sides of each discontinuity, and the properties there.

    Raises
    ------
    InputError : the model does not reach the depth.
    """
    radii, values = [], []
    for layer in model.truncated(depth).layers:
        radii.append(layer.probes()[::-1])
        values.append(layer.profile(radii[-1]))
    return model.radius - np.concatenate(radii), EarthProperties(*np.concatenate(values, axis=1))


def radial_model_figure(model: RadialModel, depth: float, path: str | Path) -> Path:
    """Draw speeds, density and, with attenuation, quality factors down to a depth, m, and return the file.

    Raises
    ------
    InputError : as `radial_profile`. OutputError : the file cannot be written.
    """
    depths, here = radial_profile(model, depth)
    attenuates = bool(here.inverse_qkappa.any() or here.inverse_qmu.any())
    with styled():
        figure = new_figure(9.0 if attenuates else 6.5, 5.5, layout="constrained")
        axes = figure.subplots(1, 3 if attenuates else 2, sharey=True)
        _draw_speeds(axes[0], depths, here)
        axes[1].plot(here.rho / 1e3, depths / 1e3, color=INK)
        axes[1].set_xlabel("density (g/cm³)")
        if attenuates:
            for name, color, style in (("qkappa", P_COLOR, "-"), ("qmu", S_COLOR, "-")):
                axes[2].plot(getattr(here, name), depths / 1e3, style, color=color, label=f"Q{name[1:]}")
            axes[2].set_xscale("log")
            axes[2].set_xlabel("quality factor")
            axes[2].legend()
        axes[0].set_ylabel("depth (km)")
        axes[0].set_ylim(depth / 1e3, 0.0)
        for axis in axes:
            for radius in model.discontinuities:
                axis.axhline((model.radius - radius) / 1e3, color=MUTED, lw=0.4, zorder=0)
        figure.suptitle(Path(model.name).name, x=0.01, ha="left", weight="bold")
        return save(figure, path)


def _draw_speeds(axis: Any, depths: np.ndarray, here: EarthProperties) -> None:
    """Draw vp and vs; of an anisotropic model, those of radial and horizontal waves."""
    for name, color, pair in _SPEEDS:
        for label, style in pair if here.anisotropic.any() else ((name, "-"),):
            axis.plot(getattr(here, label) / 1e3, depths / 1e3, style, color=color, label=label)
    axis.set_xlabel("speed (km/s)")
    axis.legend()
