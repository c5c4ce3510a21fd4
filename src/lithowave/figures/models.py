"""Figures of material models: sections, as the methods evaluate the model, and radial models of the Earth, whose
speeds, density and quality factors are drawn against depth.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.earth import EarthProperties, RadialModel
from lithowave.errors import InputError
from lithowave.figures.maps import MapPage, SectionPage, page_coordinates
from lithowave.figures.style import FAINT, INK, MUTED, P_COLOR, PEAK_COLORS, S_COLOR, colormap, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Colormap

    from lithowave.description.simulation import Simulation


POINTS = 201
"""Points along each axis of a section."""

_LABELS = {"vp": "vp (km/s)", "vs": "vs (km/s)", "rho": "density (g/cm³)"}


def model_sections(simulation: Simulation) -> dict[str, dict[str, np.ndarray]]:
    """Return values on three sections: ``surface`` (x, y), ``west_east`` (x, z) and ``south_north`` (y, z).

    Each has the axes ``a`` and ``b`` (m), and ``vp``, ``vs`` and ``rho`` in SI of shape (b, a). The vertical sections
    are through the middle of the domain; NaN is above the surface. The map is that of the values at the surface.

    Raises
    ------
    InputError : the material is given by groups of a mesh, which have no positions.
    """
    domain = simulation.domain
    if simulation.material.groups is not None:
        raise InputError("material.groups", "groups have no positions without the mesh", "expected another material")
    x, y = (np.linspace(*domain.bounds[axis], POINTS) for axis in "xy")
    z = np.linspace(*domain.ground.z, POINTS)
    middle = domain.center
    height = domain.surface_height(x, y[:, None])
    sections = {"surface": _section(simulation, x, y, (x[None, :], y[:, None], height))}
    for name, along, points in (
        ("west_east", x, (x[None, :], np.full((1, 1), middle[1]), z[:, None])),
        ("south_north", y, (np.full((1, 1), middle[0]), y[None, :], z[:, None])),
    ):
        section = _section(simulation, along, z, points)
        above = z[:, None] > domain.surface_height(points[0], points[1]) + 1e-9 * (z[-1] - z[0])
        for key in _LABELS:
            section[key] = np.where(above, np.nan, section[key])
        sections[name] = section
    return sections


def _section(
    simulation: Simulation, a: np.ndarray, b: np.ndarray, points: tuple[np.ndarray, ...]
) -> dict[str, np.ndarray]:
    shape = np.broadcast_shapes(*(each.shape for each in points))
    values = (np.broadcast_to(each, shape) for each in simulation.material.sample(*points))
    return {"a": a, "b": b, **dict(zip(_LABELS, values, strict=True))}


def model_figure(simulation: Simulation, path: str | Path) -> Path:
    """Draw vp, vs and density at the surface and on two vertical sections through the middle, and return the file.

    A radial model without perturbations is drawn against depth instead.

    Raises
    ------
    InputError : as `model_sections`. OutputError : the file cannot be written.
    """
    earth = simulation.material.earth
    if earth is not None and not earth.perturbations:
        return radial_model_figure(earth.radial_model, -simulation.domain.z[0], path)
    sections = model_sections(simulation)
    with styled():
        figure = new_figure(11.0, 9.0, layout="constrained")
        axes = figure.subplots(3, 3)
        colors = colormap("model", PEAK_COLORS)
        pages = section_pages(simulation)
        for column, (key, label) in enumerate(_LABELS.items()):
            finite = np.concatenate([each[key][np.isfinite(each[key])] for each in sections.values()]) / 1e3
            limits = _limits(float(finite.min()), float(finite.max()))
            for row, (name, section) in enumerate(sections.items()):
                image = _draw(axes[row, column], section, key, limits, colors, pages[name])
                _mark(axes[row, column], simulation, name, pages[name])
                if pages[name] is None:
                    _label(axes[row, column], name, label if row == 0 else "", column == 0)
                else:
                    axes[row, column].set_title(label if row == 0 else "")
            figure.colorbar(image, ax=list(axes[:, column]), location="bottom", label=label, shrink=0.9)
        figure.suptitle(simulation.title or "Material model", x=0.01, ha="left", weight="bold")
        return save(figure, path)


def section_pages(simulation: Simulation) -> dict[str, MapPage | SectionPage | None]:
    """Return the page of each section in a chunk of the globe; None in a box."""
    chunk = simulation.domain.chunk
    if chunk is None:
        return dict.fromkeys(("surface", "west_east", "south_north"))
    sections = {"west_east": SectionPage(chunk.map, "y", 0.0), "south_north": SectionPage(chunk.map, "x", 0.0)}
    return {"surface": MapPage(chunk.map), **sections}


def _limits(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a color scale, which are apart also for constant values."""
    margin = 0.0 if high - low > 1e-6 * abs(high) else 0.01 * abs(high) + 1e-9
    return low - margin, high + margin


def _draw(
    axis: Axes,
    section: dict[str, np.ndarray],
    key: str,
    limits: tuple[float, float],
    colors: Colormap,
    page: MapPage | SectionPage | None,
) -> QuadMesh:
    a, b = page_coordinates(page, section["a"], section["b"])
    image = axis.pcolormesh(
        a, b, section[key] / 1e3, shading="nearest", cmap=colors, vmin=limits[0], vmax=limits[1], rasterized=True
    )
    if page is not None:
        axis.set_aspect("equal")
        if isinstance(page, MapPage):
            page.draw_axes(axis, (a.min(), a.max(), b.min(), b.max()))
        else:
            page.draw_axes(axis, page.ends(page.local_axes(section["a"], section["b"])))
        return image
    axis.set_facecolor(FAINT)  # above a topography
    axis.set_xlim(a[0], a[-1])
    axis.set_ylim(b[0], b[-1])
    return image


def _mark(axis: Axes, simulation: Simulation, name: str, page: MapPage | SectionPage | None) -> None:
    """Mark sources and receivers on the map."""
    if name != "surface":
        return
    axis.set_aspect("equal")
    receivers = np.array([each.position for each in simulation.receiver_list()]).reshape(-1, 3)
    sources = np.array([each.position for each in simulation.point_sources()]).reshape(-1, 3)
    if page is not None:
        receivers, sources = page.project(receivers), page.project(sources)
    receivers, sources = receivers / 1e3, sources / 1e3
    axis.plot(receivers[:, 0], receivers[:, 1], "v", ms=4, mfc="none", mec=INK, mew=0.7)
    axis.plot(sources[:, 0], sources[:, 1], "*", ms=7, mfc="white", mec=INK, mew=0.7)


def _label(axis: Axes, name: str, title: str, first: bool) -> None:
    across, along = {"surface": ("x", "y"), "west_east": ("x", "z"), "south_north": ("y", "z")}[name]
    axis.set_xlabel(f"{across} (km)")
    if first:
        where = {"surface": "at the surface", "west_east": "west to east", "south_north": "south to north"}[name]
        axis.set_ylabel(f"{where}\n{along} (km)")
    axis.set_title(title)


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


def _draw_speeds(axis: Axes, depths: np.ndarray, here: EarthProperties) -> None:
    """Draw vp and vs; of an anisotropic model, those of radial and horizontal waves."""
    for name, color, pair in _SPEEDS:
        for label, style in pair if here.anisotropic.any() else ((name, "-"),):
            axis.plot(getattr(here, label) / 1e3, depths / 1e3, style, color=color, label=label)
    axis.set_xlabel("speed (km/s)")
    axis.legend()
