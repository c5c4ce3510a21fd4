"""Radial models as files with the headers of AxiSEM, which lithowave reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.earth.radial_model import EarthLayer, EarthProperties, RadialModel

SAMPLES = 21
"""Radii of a layer without nodes inside, such as one with polynomials."""

_INFINITE = 1e9  # quality factor without attenuation, which files cannot state
_NAMES = ("radius", "rho", "vpv", "vsv", "qka", "qmu", "vph", "vsh", "eta")


def write_axisem(model: RadialModel, path: str | Path) -> Path:
    """Write a model in SI, from the surface downwards, and return the file.

    Tables are written with their rows, other layers at `SAMPLES` radii. Quality factors without attenuation
    are written as 1e9, and Qmu of fluids as 0.
    """
    path = Path(path)
    lines = ["ANELASTIC T", "ANISOTROPIC T", "UNITS m", "COLUMNS " + " ".join(_NAMES)]
    if model.reference_frequency is not None:
        lines.insert(0, f"REFERENCE_FREQUENCY {model.reference_frequency!r}")
    for layer in model.layers:
        radius = _radii(layer)
        here = EarthProperties(*layer.profile(radius))
        bulk, shear = (np.minimum(quality, _INFINITE) for quality in (here.qkappa, here.qmu))
        shear = np.where(here.vsv > 0.0, shear, 0.0)
        rows = np.column_stack([radius, here.rho, here.vpv, here.vsv, bulk, shear, here.vph, here.vsh, here.eta])
        lines += [" ".join(f"{value:.17g}" for value in row) for row in rows.tolist()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _radii(layer: EarthLayer) -> np.ndarray:
    """Return the radii of the rows of a layer, m, descending."""
    nodes = layer.profile.nodes
    inside = nodes[(nodes > layer.bottom) & (nodes < layer.top)]
    if inside.size:
        return np.array([layer.top, *inside[::-1], layer.bottom])
    return np.linspace(layer.top, layer.bottom, SAMPLES)
