r"""Smoothing of the velocities in the absorbing layers of soft ground (see `soft_ground`).

.. math::
    v \leftarrow v + q\, \nu \Delta t\, \nabla^2 v, \qquad \nu = \gamma \frac{v_p \lambda^2}{L}, \qquad
    q = \min\Big(1, \sum_a (x_a/L)^2\Big),

with gamma of `soft_ground.viscosity`, the fastest wave v_p, the shortest wavelength lambda, the thickness L and the
depth x_a in the layer along each axis. The viscosity nu is proportional to the damping d of the layer, which amplifies
the waves that it is to suppress. It changes neither static displacement nor waves that are long compared with lambda,
such as those of the rock. The Laplacian is the sum of the differences to the six neighbors, without those beyond a
closed face, over h^2.

After each step, a wave of a leapfrog scheme with a^2 = (omega dt)^2 < 4 has its velocity multiplied by f, 0 <= f < 1.
Its amplification matrix has the determinant f and the trace 1 + f - f a^2, which is within +-(1 + f): waves decay. This
does not hold for f < 0, and not for an application after every second step, which waves of four steps resist.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.mesh.grid import AXES, NodeRanges
from lithowave.solvers.finite_difference.fields import VELOCITIES
from lithowave.solvers.finite_difference.tiles import around

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.grid_plan import GridPlan

LARGEST = 1 / 12  # nu dt / h^2 in one application, at which the shortest waves vanish


@dataclass(frozen=True)
class Smoothing:
    """Strength nu dt / h^2 of an application at the outer sides, of which there are `times` after each step."""

    strength: float
    times: int


def smoothing_of(plan: GridPlan) -> Smoothing | None:
    """Return the smoothing of a plan, None if it needs none."""
    grid, layer = plan.grid, plan.layer
    cells = max(itertools.chain(*grid.whole.layers))
    if not layer.viscosity or cells == 0:
        return None
    h = grid.spacing
    viscosity = layer.viscosity * layer.speed * layer.wavelength**2 / (cells * h)
    rate = viscosity * plan.schedule.time_step / h**2
    times = math.ceil(rate / LARGEST)
    return Smoothing(rate / times, times)


def smoothed_boxes(plan: GridPlan) -> list[NodeRanges]:
    """Return boxes that cover the own nodes of a rank in absorbing layers, in its grid."""
    grid, own = plan.grid, plan.own
    local = [(low - first, end - first) for (low, end), first in zip(own, grid.first, strict=True)]
    inner = []
    for axis, ((first, end), start) in enumerate(zip(local, grid.first, strict=True)):
        low, high = grid.whole.layers[axis]
        inner.append((max(first, low - start), min(end, grid.whole.shape[axis] - high - (high > 0) - start)))
    return around(inner, local)


def _profiles(plan: GridPlan, strength: float) -> list[np.ndarray]:
    """Return q nu dt / h^2 along each axis, at nodes and half nodes (2, nodes)."""
    grid, found = plan.grid, []
    for axis in range(3):
        numbers = grid.first[axis] + np.arange(grid.shape[axis]) + np.array([[0.0], [0.5]])
        depth = np.zeros(numbers.shape)
        for cells, beyond in zip(
            grid.whole.layers[axis],
            (grid.whole.layers[axis][0] - numbers, numbers - (grid.whole.shape[axis] - 1 - grid.whole.layers[axis][1])),
            strict=True,
        ):
            if cells:
                depth = np.maximum(depth, np.clip(beyond / cells, 0.0, 1.0))
        found.append(strength * depth**2)
    return found


def _limits(plan: GridPlan, component: int) -> tuple[int, ...]:
    """Return the first and the last neighbor along x, y, z that a component has: those within closed faces."""
    grid, found = plan.grid, []
    for axis, letter in enumerate(AXES):
        first, last = -1, grid.shape[axis]  # the ghosts next to the grid
        if grid.is_end(axis, 0) and plan.faces[f"{letter}_min"] != "absorbing":
            first = 0
        if grid.is_end(axis, 1) and plan.faces[f"{letter}_max"] != "absorbing":
            last = grid.shape[axis] - 1 - (axis == component)
        found += [first, last]
    return tuple(found)


class LayerSmoothing:
    """Smoothing on one rank.

    Parameters
    ----------
    plan, backend, kernels : objects of the rank. exchange : updates the ghosts of other ranks; None for one rank.
    """

    def __init__(
        self, plan: GridPlan, backend: Any, kernels: Any, exchange: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self.smoothing, self.backend, self.kernels, self._exchange = smoothing_of(plan), backend, kernels, exchange
        self._graphs: dict[int, Callable[[], None]] = {}
        if self.smoothing is None:
            return
        self._halo, boxes = plan.halo, smoothed_boxes(plan)
        sizes = [math.prod(end - first for first, end in box) for box in boxes]
        self._boxes = [tuple(end for sides in box for end in sides) for box in boxes]
        self._places = [0, *itertools.accumulate(sizes)]
        self._differences = backend.zeros(max(1, sum(sizes)))
        profiles = [[backend.upload(line) for line in lines] for lines in _profiles(plan, self.smoothing.strength)]
        self._weights = [
            [profiles[axis][int(axis == component)] for axis in range(3)] for component in range(len(VELOCITIES))
        ]
        self._limits = [_limits(plan, component) for component in range(len(VELOCITIES))]
        self._most = backend.scalar(self.smoothing.strength)

    def apply(self, fields: dict[str, Any], turn: int) -> None:
        """Smooth the velocities after a step. turn : number of the set of fields that holds them."""
        if self.smoothing is None:
            return
        if turn not in self._graphs:
            velocities = [fields[name] for name in VELOCITIES]
            self._graphs[turn] = self.backend.capture_graph(lambda: self._smooth(velocities))
        for _ in range(self.smoothing.times):
            self._graphs[turn]()
            if self._exchange is not None:
                self._exchange(fields)

    def _smooth(self, velocities: Sequence[Any]) -> None:
        """Add the differences in all boxes to the velocities."""
        for field, weights, limits in zip(velocities, self._weights, self._limits, strict=True):
            for box, place in zip(self._boxes, self._places, strict=False):
                self.kernels.layer_differences(
                    field, self._halo, *weights, self._most, box, limits, self._differences, place
                )
            for box, place in zip(self._boxes, self._places, strict=False):
                self.kernels.add_layer_differences(field, self._halo, box, self._differences, place)
