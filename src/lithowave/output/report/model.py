"""Plots of the material model for a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError
from lithowave.output.figures import style
from lithowave.output.report.page import Page, data_table, packed, paragraph

ACROSS, DOWN, PROFILE = 161, 161, 401
MAX_POINTS = 200
COLORSCALE = "Viridis"  # legible with all kinds of color vision and in gray


def add_model(page: Page, simulation: Simulation) -> None:
    """Add the section about the material: vertical sections of vp and vs through the source, and depth profiles."""
    kind = simulation.material.kind
    try:
        plots = [*_section_plots(page, simulation), _profile_plot(page, simulation)]
    except InputError:  # groups of a mesh, whose positions only the mesh knows
        page.add("Model", _properties_table(simulation))
        return
    parts = [f'<div class="columns">{"".join(plots)}</div>']
    page.add("Model", paragraph(f"Material: {kind}."), _properties_table(simulation), *parts)


def _center(simulation: Simulation) -> tuple[float, float]:
    """Return x and y of the first source, or of the center of the domain."""
    sources = simulation.acquisition.sources
    return sources[0].position[:2] if sources else simulation.domain.center[:2]


def _section_plots(page: Page, simulation: Simulation) -> list[str]:
    axis, along, z, (vp, vs) = model_section(simulation)
    x, y = _center(simulation)
    where = f"y = {y / 1000:.4g} km" if axis == "x" else f"x = {x / 1000:.4g} km"
    title, column = f"{axis} (km)", "xyz".index(axis)
    points = _points(simulation, column)
    if simulation.domain.chunk is not None:  # the section is a great circle, drawn without its curvature
        title = f"{axis}, angle times 6371 km (km)"
    plots = []
    for name, values in (("vp", vp), ("vs", vs)):
        picture = {
            "type": "heatmap", "x": packed(along / 1000), "y": packed(z / 1000), "z": packed(values),
            "colorscale": COLORSCALE,
            "colorbar": {"title": {"text": f"{name} (m/s)", "side": "right"}, "thickness": 12},
            "hovertemplate": f"{axis} %{{x:.3f}} km<br>z %{{y:.3f}} km<br>{name} %{{z:.0f}} m/s<extra></extra>",
        }  # fmt: skip
        layout = {
            "xaxis": {"title": {"text": title}, "showgrid": False},
            "yaxis": {"title": {"text": "z (km)"}, "showgrid": False},
        }
        text = f"{name} in the vertical section at {where}; cross: source, triangles: receivers, projected."
        plots.append(page.add_plot([picture, *points], layout, text))
    return plots


def model_section(simulation: Simulation) -> tuple[str, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the axis (x or y) of a vertical section through the first source, its coordinates, z, and (vp, vs).

    The section follows the axis along which vs varies most or, if it varies along neither, the longer axis. Values
    above the topography are NaN. Coordinates are in m, vp and vs are (n_z, n_along) in m/s.

    Raises
    ------
    InputError : the material has no values at positions.
    """
    domain, center = simulation.domain, _center(simulation)
    z = np.linspace(domain.ground.z[0], domain.ground.z[1], DOWN)
    found = []
    for axis, bounds in (("x", domain.x), ("y", domain.y)):
        along = np.linspace(*bounds, ACROSS)
        x, y = (along, np.full(ACROSS, center[1])) if axis == "x" else (np.full(ACROSS, center[0]), along)
        vp, vs, _ = simulation.material.sample(x[None, :], y[None, :], z[:, None])
        air = z[:, None] > domain.surface_height(x, y)[None, :] + 1e-6
        values = tuple(np.where(air, np.nan, field) for field in (vp, vs))
        variation = float(np.ptp(vs, axis=1).max())
        found.append((variation, bounds[1] - bounds[0], (axis, along, z, values)))
    return max(found, key=lambda entry: entry[:2])[2]


def _points(simulation: Simulation, column: int) -> list[dict[str, Any]]:
    """Return markers of the sources and receivers, projected to the section."""
    marks = []
    for points, symbol, size, color in (
        (simulation.acquisition.receivers, "triangle-down", 8, "#ffffff"),
        (simulation.acquisition.sources, "x", 9, "#ffffff"),
    ):
        shown = [points[index] for index in style.spread(len(points), MAX_POINTS)]
        marks.append({
            "type": "scatter", "mode": "markers", "hoverinfo": "x+y",
            "x": [point.position[column] / 1000 for point in shown], "y": [point.position[2] / 1000 for point in shown],
            "marker": {"symbol": symbol, "size": size, "color": color, "line": {"color": style.INK, "width": 1.2}},
            "cliponaxis": False,
        })  # fmt: skip
    return marks


def _profile_plot(page: Page, simulation: Simulation) -> str:
    x, y = _center(simulation)
    domain = simulation.domain
    top = float(domain.surface_height(np.array([x]), np.array([y]))[0])
    z = np.linspace(domain.z[0], top, PROFILE)
    vp, vs, rho = simulation.material.sample(np.full(PROFILE, x), np.full(PROFILE, y), z)
    lines = [
        {"type": "scatter", "mode": "lines", "name": name, "x": packed(values), "y": packed(z / 1000),
         "line": {"dash": dash}}
        for name, values, dash in (("vp (m/s)", vp, "solid"), ("vs (m/s)", vs, "dash"), ("density (kg/m³)", rho, "dot"))
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "m/s; density: kg/m³"}, "range": [0.0, 1.05 * max(vp.max(), rho.max())]},
        "yaxis": {"title": {"text": "z (km)"}},
        "showlegend": True, "legend": {"orientation": "h", "y": 1.15},
    }  # fmt: skip
    return page.add_plot(lines, layout, f"Depth profile below x = {x / 1000:.4g} km, y = {y / 1000:.4g} km.")


def _properties_table(simulation: Simulation) -> str:
    """Return a table of the layers, groups or the homogeneous medium; empty for gridded models and functions."""
    rows = []
    for keys, part in simulation.material.properties.items():
        name = keys[0] + "".join(f"[{key}]" if isinstance(key, int) else f": {key}" for key in keys[1:])
        rows.append([
            name, getattr(part, "top", None), *(getattr(part, key, None) for key in ("vp", "vs", "rho", "qp", "qs"))
        ])  # fmt: skip
    header = ["Part", "Top (m)", "vp (m/s)", "vs (m/s)", "Density (kg/m³)", "Qp", "Qs"]
    used = [n for n in range(len(header)) if any(row[n] is not None for row in rows)]
    return data_table([header[n] for n in used], [[row[n] for n in used] for row in rows], "Material")
