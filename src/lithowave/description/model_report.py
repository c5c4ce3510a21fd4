"""The sanity report of a material model: ranges of its values in the domain, and how it covers the domain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.description.gridded_medium import GriddedMedium
from lithowave.description.placed_medium import PlacedMedium

if TYPE_CHECKING:
    from lithowave.description.entries import Description
    from lithowave.readers.gridded_model import GriddedModel

_LARGE_RATIO = 10.0
"""vp/vs above which values are remarkable even in soft sediments."""

_UNITS = {"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}


@dataclass(frozen=True)
class ModelReport:
    """Ranges and coverage of a model.

    Attributes
    ----------
    kind : the key of ``material``, such as ``layers`` or ``file``.
    ranges : smallest and largest value in the domain of ``vp``, ``vs``, ``rho``, ``vp/vs`` (solids) and, with
        attenuation, ``qkappa`` and ``qmu``.
    grids : for gridded models, a text for each block of the model, from the top down.
    stated_units : units that the file states, by variable.
    extrapolated : ends of the domain beyond the model, with the distance in the unit of the axis.
    remarks : remarkable values, one sentence each.
    """

    kind: str
    ranges: dict[str, tuple[float, float]]
    grids: list[str]
    stated_units: dict[str, str]
    extrapolated: dict[str, float]
    remarks: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values."""
        return {name: value for name, value in vars(self).items() if value}

    def lines(self) -> list[tuple[str, str]]:
        """Return (name, text) of each entry for printing."""
        texts = []
        for name, (low, high) in self.ranges.items():
            unit = _UNITS.get(name, "")
            span = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
            texts.append(f"{name} {span} {unit}".rstrip())
        rows = [("model", ", ".join(texts))]
        rows += [("model grid", text) for text in self.grids]
        if self.grids:
            ends = [f"{name} by {distance:.4g}" for name, distance in self.extrapolated.items()]
            covered = f"extrapolated beyond {', '.join(ends)}" if ends else "covers the domain"
            stated = ", ".join(f"{name}: {unit}" for name, unit in self.stated_units.items())
            rows.append(("model extent", f"{covered}; units in the file: {stated or 'none, taken as SI'}"))
        return rows + [("model values", text) for text in self.remarks]


def model_report(simulation: Description) -> ModelReport:
    """Return the report of the material of a simulation."""
    material, ground = simulation.material, simulation.domain.ground
    medium = material.medium
    (vp, vs, rho), place = medium.values_in(ground)
    ranges = {name: _range(values) for name, values in (("vp", vp), ("vs", vs), ("rho", rho))}
    solid = np.flatnonzero(vs > 0.0)
    remarks = []
    if solid.size:
        ratio = vp[solid] / vs[solid]
        ranges["vp/vs"] = _range(ratio)
        remarks = _remarks(ratio, [place(int(solid[find(ratio)])) for find in (np.argmin, np.argmax)])
    if simulation.has_attenuation:
        for name, losses in zip(("qkappa", "qmu"), medium.inverse_quality_in(ground), strict=True):
            if (finite := losses[losses > 0.0]).size:
                ranges[name] = _range(1.0 / finite)
    grids, units, gaps = [], {}, {}
    if isinstance(medium, PlacedMedium):
        grids = [_grid(model) for model in medium.footprint.models]
        gaps = {" ".join(end): distance for end, distance in medium.footprint.gaps().items()}
        units = dict(medium.model.units)
    elif isinstance(medium, GriddedMedium):
        grids, units = [_grid(medium.model)], dict(medium.model.units)
    return ModelReport(material.kind, ranges, grids, units, gaps, remarks)


def _range(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _remarks(ratio: np.ndarray, places: list[str]) -> list[str]:
    """Return sentences on unusual ratios of the wave speeds. places : of the smallest and the largest one."""
    remarks = []
    if ratio.min() < np.sqrt(2.0):
        remarks.append(
            f"vp/vs = {ratio.min():.3g} is below 1.414, so that Poisson's ratio is negative ({places[0]}); rocks have "
            "larger ratios"
        )
    if ratio.max() > _LARGE_RATIO:
        remarks.append(f"vp/vs = {ratio.max():.3g} is unusually large ({places[1]}); check vs there")
    return remarks


def _grid(model: GriddedModel) -> str:
    """Return the extent and the number of points of a block."""
    parts = []
    for name, axis, unit in zip(model.frame.names, model.axes.values(), model.frame.units, strict=True):
        if name == "z" and model.top is not None and model.bottom is not None:
            parts.append(f"z {float(model.bottom.min()):.6g} to {float(model.top.max()):.6g} m between surfaces")
        else:
            parts.append(f"{name} {float(axis[0]):.6g} to {float(axis[-1]):.6g} {unit}")
    size = " x ".join(str(count) for count in model.vp.shape)
    where = "" if model.frame.kind != "projected" else f", azimuth {model.frame.azimuth:g} degrees"
    return f"{Path(model.path).name}: {size} points, {', '.join(parts)}{where}"
