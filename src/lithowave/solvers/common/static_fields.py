"""Warning about displacements of forces where absorbing layers are thin for static fields.

The displacement of a force that acts for a short time decays as 1 / r, and extends beyond a small domain. A layer with
the stretching 1 + d / (alpha + i omega) is as thick for it as the integral of d / alpha. With the large alpha of soft
ground (`soft_ground`) and in damped layers this is not much more than the domain. The displacement of moment tensors
decays as 1 / r^2 and has small errors.
"""

from __future__ import annotations

from lithowave.description.simulation import Simulation


def displacement_warnings(simulation: Simulation, error: str) -> list[str]:
    """Return a warning about displacements of forces. error : measured with the layers of the run, e.g. ``10%``."""
    output = simulation.output
    forces = [number for number, one in enumerate(simulation.acquisition.sources) if one.force is not None]
    if not forces or (output.quantity != "displacement" and not output.peak_motion):
        return []
    key = "output.quantity" if output.quantity == "displacement" else "output.peak_motion"
    return [
        f"{key}: the displacement of a force ({simulation.acquisition.sources[forces[0]].where}) also has a nearly "
        "static part, for which the absorbing layers of this model are thin. Displacements were wrong by up to "
        f"{error} in homogeneous boxes of one to two wavelengths. Velocities and moment tensors have small errors. "
        "Record velocity, or move the absorbing sides away."
    ]
