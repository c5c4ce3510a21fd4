r"""Estimated reflections from absorbing faces with a first-order condition: Stacey's, or the equivalent flux of
discontinuous Galerkin.

The condition absorbs plane waves along the normal of a face. Its reflections of the waves of a point source were
measured in 32 boxes of a homogeneous half-space (vp/vs = 1.73), with 4 to 10 receivers each, compared with absorbing
layers at distant sides. The relative L2 error of a seismogram is

    0.45 \lambda / (d_s + d_r)

with d_s and d_r the distances of source and receiver from their nearest absorbing faces, and \lambda the wavelength of
S waves at the frequency where the spectrum of the source has fallen to 5%; within a factor of 1.6 (root mean square)
and of 3.5 for all receivers, for d_s + d_r from one to nine wavelengths. In layered models with topography or basins it
was too low by a factor of up to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.sphere import RADIUS

if TYPE_CHECKING:
    from lithowave.description.chunk import Chunk
    from lithowave.description.domain import Domain
    from lithowave.description.simulation import Simulation

COEFFICIENT = 0.45
LARGEST_ERROR = 0.05  # of a seismogram, up to which there is no warning

Bounds = Sequence[tuple[float, float]]


def stacey_warnings(plan: Any, simulation: Simulation) -> list[str]:
    """Return the warning of a spectral-element plan about Stacey's condition (collective call)."""
    if plan.layer is not None or not plan.mesh_statistics.faces["absorbing"]:
        return []
    return _without_layer(plan, simulation, "boundaries.absorption: stacey")


def flux_warnings(plan: Any, simulation: Simulation) -> list[str]:
    """Return the warning of a discontinuous Galerkin plan about its absorbing faces (collective call)."""
    if not plan.mesh_statistics.faces["absorbing"]:
        return []
    if plan.mesh_ends is not None:
        return []
    if plan.mesh_statistics.layer:
        above = plan.domain.surface is not None and plan.face_kinds["z_max"] == "absorbing"
        faces = dict.fromkeys(plan.face_kinds, "free") | {"z_max": "absorbing" if above else "free"}
        condition = "boundaries.top: absorbing (above a topography by the flux at the faces, without a layer)"
        return reflection_warnings(simulation, plan.bounds, faces, condition)
    return _without_layer(plan, simulation, "boundaries.absorption: stacey (by the flux at the faces)")


def _without_layer(plan: Any, simulation: Simulation, condition: str) -> list[str]:
    """Return the warnings of a plan whose absorbing faces have no layer, and why an imported mesh has none."""
    remedy = "" if plan.no_layer or plan.curvature is not None else "absorption: layer, or "
    found = reflection_warnings(simulation, plan.bounds, plan.face_kinds, condition, remedy)
    return [plan.no_layer, *found] if plan.no_layer else found


def reflection_warnings(
    simulation: Simulation, bounds: Bounds, faces: dict[str, str] | None, condition: str, remedy: str = ""
) -> list[str]:
    """Return a warning if absorbing faces with a first-order condition are too near to sources and receivers.

    Parameters
    ----------
    bounds : ends of the mesh along x, y, z, m.
    faces : kind of each face of a box; None for an imported mesh, whose absorbing faces are taken for its sides and
        its bottom.
    condition : key and name of the condition, the subject of "reflects".
    remedy : what else helps, a clause that ends with "or ".
    """
    planes = [
        (axis, end, f"{'xyz'[axis]}_{side}")
        for axis, pair in enumerate(bounds)
        for side, end in zip(("min", "max"), pair, strict=True)
        if (faces or {"z_max": "free"}).get(f"{'xyz'[axis]}_{side}", "absorbing") == "absorbing"
    ]
    sources = simulation.acquisition.sources
    if not planes or not sources:
        return []
    wavelength = _wavelength(simulation)
    chunk = simulation.domain.chunk
    source = np.mean([one.position for one in sources], axis=0)
    receivers = simulation.acquisition.receivers
    positions = np.array([one.position for one in receivers], float).reshape(-1, 3) if receivers else source[None]
    distances = _distances(positions, planes, chunk)
    reach = distances.min(axis=1) + _distances(source[None], planes, chunk).min()
    errors = np.minimum(1.0, COEFFICIENT * wavelength / np.maximum(reach, 1e-9))
    longest = _longest_path(simulation)
    errors[_shortest_reflections(simulation.domain, source, positions, planes) >= longest] = 0.0
    worst = int(errors.argmax())
    if errors[worst] <= LARGEST_ERROR:
        return []
    where = f"at {receivers[worst].name}" if receivers else "at the source"
    nearest = f"{_meters(distances[worst].min(), 4)} from {planes[int(distances[worst].argmin())][2]}"
    outwards = 0.5 * (min(COEFFICIENT / LARGEST_ERROR * wavelength, longest) - reach[worst])
    return [
        f"{condition} reflects part of the waves; estimated error of the seismograms, within a factor of 3: "
        f"{_percent(np.median(errors))} (median), {_percent(errors[worst])} {where}, {nearest} (wavelength "
        f"{_meters(wavelength, 4)}). Use {remedy}faces {_meters(outwards, 2)} further away for an error below "
        f"{_percent(LARGEST_ERROR)}."
    ]


def _percent(error: float) -> str:
    return f"{float(f'{100.0 * error:.2g}'):g}%"


def _meters(length: float, digits: int) -> str:
    return f"{float(f'{length:.{digits}g}'):g} m"


def _distances(
    positions: np.ndarray, planes: Sequence[tuple[int, float, str]], chunk: Chunk | None = None
) -> np.ndarray:
    """Return the distances (positions, planes), m; those of the sides of a chunk, planes through the center of the
    Earth, along arcs of equal depth."""
    found = np.stack([np.abs(positions[:, axis] - end) for axis, end, _ in planes], axis=1)
    if chunk is None:
        return found
    radius = RADIUS + positions[:, 2]
    ups = chunk.map.directions(*np.moveaxis(positions[:, :2], -1, 0)) @ chunk.map.frame.T
    for column, (axis, end, _) in enumerate(planes):
        if axis < 2:
            sine = ups[:, axis] * np.cos(end / RADIUS) - ups[:, 2] * np.sin(end / RADIUS)
            found[:, column] = radius * np.abs(np.arcsin(sine))
    return found


def _wavelength(simulation: Simulation) -> float:
    """Return the wavelength, m, of S waves at the source, at the frequency where its spectrum has fallen to 5%."""
    sources = simulation.acquisition.sources
    frequency = float(np.median([one.time_function.maximum_frequency() for one in sources]))
    frequency = min(frequency, simulation.resolved_frequency or frequency)
    if simulation.material.groups is not None:  # only the mesh defines their location
        return simulation.material_extremes["slowest"] / frequency
    vp, vs, _ = simulation.material.sample(*np.array([one.position for one in sources], float).T)
    return float(np.median(np.where(vs > 0.0, vs, vp))) / frequency


def _longest_path(simulation: Simulation) -> float:
    """Return the longest path, m, that a wave can travel from a source before the end of the run."""
    start = min(one.time_function.support()[0] for one in simulation.acquisition.sources)
    return (simulation.duration - max(0.0, start)) * simulation.material_extremes["vp_max"]


def _shortest_reflections(
    domain: Domain, source: np.ndarray, positions: np.ndarray, planes: Sequence[tuple[int, float, str]]
) -> np.ndarray:
    """Return the length (positions,), m, of the shortest path from the source by way of one of the faces."""
    shortest = np.full(len(positions), np.inf)
    for axis, end, _ in planes:
        image = source.copy()
        image[axis] = 2.0 * end - source[axis]
        paths = np.linalg.norm(domain.cartesian(positions) - domain.cartesian(image), axis=1)
        shortest = np.minimum(shortest, paths)
    return shortest
