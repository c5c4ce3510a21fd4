"""Columns of elements in a chunk of the globe, whose number the simulation file may contain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lithowave.errors import InputError
from lithowave.solvers.spectral_element.meshing import built_box

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

FEWER = 0.95  # points per wavelength over the requested number, below which there is a warning


def refuse_wide_columns(simulation: Simulation, points: float | None, worst: str) -> None:
    """Require that the columns in the simulation file resolve max_frequency.

    Parameters
    ----------
    points : minimum points per wavelength at max_frequency; None if no frequency is known.
    worst : location of the minimum, with the wave velocity.

    Raises
    ------
    InputError : there are too few points per wavelength.
    """
    chunk, solver = simulation.domain.chunk, simulation.solver
    if chunk is None or chunk.elements is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    raise InputError(
        "domain.chunk.elements",
        f"{_product(chunk.elements)} elements have {points:.3g} points per shortest wavelength at "
        f"{solver.max_frequency:g} Hz in {worst}",
        f"degree {solver.degree} needs at least {solver.smallest_points:g}",
        f"use {_product(_columns_for(simulation, points, solver.smallest_points))} elements, or a max_frequency of "
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz",
    )


def column_warnings(simulation: Simulation, points: float | None, worst: str) -> list[str]:
    """Return warnings if the columns differ from those in the simulation file, or from the requested resolution.

    points, worst : see `refuse_wide_columns`.
    """
    chunk, requested = simulation.domain.chunk, simulation.solver.points_per_wavelength
    if chunk is None or chunk.elements is None:
        return []
    found, plan = [], built_box(simulation).plan
    columns = (len(plan.x) - 1, len(plan.y) - 1)
    if points is not None and requested is not None and points < FEWER * requested:
        found.append(
            f"domain.chunk.elements: {_product(chunk.elements)} elements have {points:.3g} points per shortest "
            f"wavelength in {worst}, fewer than solver.points_per_wavelength ({requested:g}), which applies to their "
            f"heights only. Use {_product(_columns_for(simulation, points, requested))} elements for {requested:g}."
        )
    if columns != tuple(chunk.elements):
        found.append(
            f"domain.chunk.elements: the mesh has {_product(columns)} columns instead of {_product(chunk.elements)}, "
            "since elements are smaller around sources near receivers, which also reduces the time step. Set "
            "solver.refine_sources: false to keep the number."
        )
    return found


def _columns_for(simulation: Simulation, points: float, requested: float) -> list[int]:
    """Return the columns along both axes with which these points per wavelength become the requested number."""
    chunk: Any = simulation.domain.chunk
    unit = 2 ** (len(chunk.doublings) + 1) if chunk.doublings else 1
    return [unit * math.ceil(count * requested / points / unit - 1e-6) for count in chunk.elements]


def _product(counts: Any) -> str:
    return " x ".join(map(str, counts))
