"""Summary of the sources and receivers of a simulation, as `check` and run.json report them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.description.slip_rates import SubfaultFunction
from lithowave.output.source_table import SourceTable


def source_summary(simulation: Simulation) -> dict[str, Any]:
    """Return facts about all point sources; empty without sources.

    Entries: ``count``; ``moment_n_m``, the sum of the scalar moments of all moment tensors, and ``moment_magnitude``;
    ``begin_s`` and ``end_s`` of the time functions; ``depth_m``, from the surface to the shallowest and the deepest
    source; ``frequency_hz``, at which the spectrum of the time functions has decreased to 5%, of a finite fault that of
    the sum over its subfaults.
    """
    sources = simulation.acquisition.sources
    if not sources:
        return {}
    supports = np.array([source.time_function.support() for source in sources])
    x, y, z = simulation.acquisition.source_positions.T
    depths = simulation.domain.surface_height(x, y) - z
    moments = SourceTable.from_points(sources).scalar_moments
    total = float(moments.sum())
    found = {
        "count": len(sources), "begin_s": float(supports[:, 0].min()), "end_s": float(supports[:, 1].max()),
        "depth_m": [float(depths.min()), float(depths.max())], "frequency_hz": _highest(sources, moments),
    }  # fmt: skip
    if total > 0.0:
        found |= {"moment_n_m": total, "moment_magnitude": 2.0 / 3.0 * (np.log10(total) - 9.1)}
    return found


def source_line(summary: dict[str, Any], resolved: float | None) -> str:
    """Return the text of a summary; resolved : highest frequency that the discretization resolves, Hz."""
    parts = [f"{summary['count']:,} point source{'s' * (summary['count'] > 1)}"]
    if "moment_n_m" in summary:
        parts.append(f"moment {summary['moment_n_m']:.4g} N m (Mw {summary['moment_magnitude']:.2f})")
    parts.append(_depths(*summary["depth_m"]))
    parts.append(f"from {summary['begin_s']:.4g} to {summary['end_s']:.4g} s")
    limit = "" if resolved is None else f" ({resolved:.3g} Hz are resolved)"
    return ", ".join(parts) + f"; spectrum to {summary['frequency_hz']:.3g} Hz{limit}"


def receiver_line(simulation: Simulation) -> str:
    """Return the number, the first and last name, and the depths below the surface of the receivers."""
    names = simulation.acquisition.receiver_names
    if not names:
        return "none: the run records no seismograms"
    x, y, z = simulation.acquisition.receiver_positions.T
    depths = simulation.domain.surface_height(x, y) - z + 0.0
    named = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{len(names):,} ({named}), {_depths(float(depths.min()), float(depths.max()))}"


def _depths(low: float, high: float) -> str:
    return f"depth {low:.6g} m" if low == high else f"depths {low:.6g} to {high:.6g} m"


def _highest(sources: Any, moments: np.ndarray) -> float:
    """Return the highest frequency of the time functions, Hz."""
    found, faults = {0.0}, {}
    for source, moment in zip(sources, moments, strict=True):
        function = source.time_function
        if isinstance(function, SubfaultFunction):
            faults.setdefault(function.table, []).append(moment)
        else:
            found.add(function.maximum_frequency())
    found |= {table.total(np.array(weights)).maximum_frequency() for table, weights in faults.items()}
    return max(found)
