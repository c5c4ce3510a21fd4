"""The material model as a background of figures: values at the surface, and interfaces in vertical planes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import LithowaveError
from lithowave.output.figures import style
from lithowave.output.figures.description import FILE_NAME

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.output.figures.globe import SectionPage

POINTS = 241
MAX_MATERIALS, CONTOURS = 12, 6


@dataclass(frozen=True)
class GroundMap:
    """Values (n_y, n_x) on x and y (m) at the surface, and their label. All may be equal."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    label: str


def read_simulation(run_folder: Path) -> Simulation | None:
    """Return the simulation of a run; None if its file cannot be read, for example because a model file is missing."""
    from lithowave.description.simulation import Simulation

    try:
        return Simulation.from_file(run_folder / FILE_NAME)
    except LithowaveError:
        return None


def ground_map(simulation: Simulation | None, bounds: tuple[float, float, float, float]) -> GroundMap | None:
    """Return the topography or, with a flat surface, vs at the surface (vp in fluids); None if there is no model.

    bounds : x low, x high, y low, y high, m.
    """
    if simulation is None:
        return None
    x, y = np.linspace(*bounds[:2], POINTS), np.linspace(*bounds[2:], POINTS)
    height = simulation.domain.surface_height(x[None, :], y[:, None])
    if simulation.domain.surface is not None:
        return GroundMap(x, y, height, "Elevation of the surface (m)")
    try:
        vp, vs, _ = simulation.material.sample(x[None, :], y[:, None], height)
    except LithowaveError:
        return None
    name = "vp" if not vs.any() else "vs"
    return GroundMap(x, y, vs if vs.any() else vp, f"{name} at the surface (m/s)")


def draw_interfaces(
    panel: Any,
    simulation: Simulation | None,
    plane: str,
    position: float,
    bounds: tuple[float, float, float, float],
    page: SectionPage | None = None,
) -> list[Any]:
    """Draw the interfaces of the material in a vertical plane, or contours of a smooth model; return the artists.

    Parameters
    ----------
    plane : ``x`` or ``y``, the axis normal to the plane. position : coordinate of the plane, m.
    bounds : low and high coordinate along the horizontal axis, then z, km. page : of a section of a chunk.
    """
    if simulation is None or plane not in ("x", "y"):
        return []
    along, z = (1000.0 * np.linspace(*ends, POINTS) for ends in (bounds[:2], bounds[2:]))
    here = np.full(POINTS, position)
    x, y = (here, along) if plane == "x" else (along, here)
    try:
        vp, vs, _ = simulation.material.sample(x[None, :], y[None, :], z[:, None])
    except LithowaveError:
        return []
    speed = vp + vs
    across, up = np.meshgrid(along, z)
    if page is not None:
        x, y = (np.full_like(across, position), across) if plane == "x" else (across, np.full_like(across, position))
        across, up = np.moveaxis(page.project(np.stack([x, y, up], axis=-1)), -1, 0)
    levels = interface_levels(speed)
    drawn: list[Any] = []
    if len(levels):
        contours = panel.contour(
            across / 1000, up / 1000, speed, levels=levels, colors=style.INK, linewidths=0.8, alpha=0.7
        )
        contours.set_gid("interfaces")
        drawn.append(contours)
    if page is not None:
        return drawn
    surface = simulation.domain.surface_height(x, y)
    if np.ptp(surface) > 0:
        drawn += panel.plot(along / 1000, surface / 1000, color=style.INK, linewidth=1.2)
    return drawn


def interface_levels(values: np.ndarray) -> np.ndarray:
    """Return contour levels: between the values of a model of few materials, else evenly spaced ones."""
    distinct = np.unique(np.round(values, 3))
    if len(distinct) <= MAX_MATERIALS:
        return 0.5 * (distinct[1:] + distinct[:-1])
    return np.linspace(distinct[0], distinct[-1], CONTOURS + 2)[1:-1]
