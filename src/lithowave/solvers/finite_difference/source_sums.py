"""Forces and moment tensors that the weights of sources at grid points represent.

The weights of a moment tensor times the volumes of the grid points sum to it everywhere: the polynomials of `points`
reproduce constants. The weights of a force are those of a velocity receiver, which sum to one unless points are omitted
because the velocity vanishes there, near rigid faces and at the outer end of absorbing layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.solvers.finite_difference.fields import FIELDS, STAGGER, VELOCITIES
from lithowave.solvers.finite_difference.line_weights import HALF_WIDTH, NEAR_FACE
from lithowave.solvers.finite_difference.moments import MomentList
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.placement import FORCE, MOMENT, Placement

REACH = NEAR_FACE + HALF_WIDTH  # cells from an end of the grid within which weights of a force may be omitted


def add_sources(placement: Placement, solver: Any, sources: Any) -> None:
    """Add the moment tensors and forces of the sources that change points of this rank."""
    kinds = [source.force is not None for source in sources]
    moments, forces = (np.flatnonzero(np.array(kinds, bool) == kind) for kind in (False, True))
    _add_moments(placement, solver.step.regions.stress.sources, sources, moments)
    time_step, material = solver.plan.schedule.time_step, solver.step.material
    number, index, weight, owner = solver.step.regions.velocity.sources.entries()
    nodes = solver.stencil.nodes(index)
    own = solver.stencil.is_own(nodes)
    for component, name in enumerate(VELOCITIES):
        chosen = own & (number == FIELDS.index(name))
        rates = weight[chosen] * solver.stencil.volumes(name, nodes[chosen]) / time_step
        rates = rates / material.buoyancy(name, index[chosen], solver.stencil.strides)
        source = forces[owner[chosen]]
        np.add.at(placement.totals[:, FORCE][:, component], source, rates)
        placement.acts[source[(rates != 0) & ~held(solver.stencil, name, nodes[chosen])]] = True
    for number in forces:
        placement.inexact[number] = _near_end(solver.stencil, sources[number].position)


def _add_moments(placement: Placement, moments: MomentList, sources: Any, numbers: np.ndarray) -> None:
    """Add the moment tensors of sources with these indices."""
    here = numbers[moments.known]
    if here.size:
        parts = moments.moments()
        np.add.at(placement.totals[:, MOMENT], here, parts)
        placement.acts[here[(parts != 0).any(axis=1)]] = True


def held(stencil: PointStencil, name: str, nodes: np.ndarray) -> np.ndarray:
    """True for nodes (entries, 3) where a rigid face sets a velocity field to zero."""
    found = np.zeros(len(nodes), bool)
    for axis, letter in enumerate(AXES):
        for side, end in (("min", 0), ("max", stencil.grid.whole.shape[axis] - 1)):
            if name[0] == "v" and not STAGGER[name][axis] and stencil.faces[f"{letter}_{side}"] == "rigid":
                found |= nodes[:, axis] == end
    return found


def _near_end(stencil: PointStencil, position: Any) -> bool:
    """True if weights of a force may have been omitted at an end of the grid."""
    whole = stencil.grid.whole
    for axis, letter in enumerate(AXES):
        place = whole.index(axis, position[axis])
        for side, distance in (("min", place), ("max", whole.shape[axis] - 1 - place)):
            if distance < REACH and stencil.faces[f"{letter}_{side}"] != "free":
                return True
    return False
