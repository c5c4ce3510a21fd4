r"""The grid of a plan: its absorbing layers, its box for one pass over memory, and the smoothing in soft ground.

**Convolutional perfectly matched layers: profiles and slabs.** After Komatitsch & Martin (2007, Geophysics 72,
SM155-SM167), with x the depth in a layer of thickness L:

.. math::
    d(x) = d_0 (x/L)^2, \quad d_0 = -\frac{3 v_p \ln R}{2 L}, \qquad
    \kappa(x) = 1 + (\kappa_{max} - 1)(x/L)^2, \qquad \alpha(x) = \pi f_0 (1 - x/L)

or, in soft ground (see `warnings`), the constant alpha of `SOFT_SHIFT`, and

.. math:: b = e^{-(d/\kappa + \alpha)\Delta t}, \qquad a = \frac{d}{\kappa (d + \kappa\alpha)} (b - 1).

**Smoothing of the velocities in the absorbing layers of soft ground** (see `warnings`).

.. math::
    v \leftarrow v + q\, \nu \Delta t\, \nabla^2 v, \qquad \nu = \gamma \frac{v_p \lambda^2}{L}, \qquad
    q = \min\Big(1, \sum_a (x_a/L)^2\Big),

with gamma of `warnings.viscosity`, the fastest wave v_p, the shortest wavelength lambda, the thickness L and the
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
from typing import TYPE_CHECKING

import numpy as np

from lithowave.media.anelasticity import Anelasticity
from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.solvers.finite_difference.attenuation import GridAttenuation
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.exchange import Subdomain
from lithowave.solvers.finite_difference.law import LAWS, VELOCITIES, LawFields
from lithowave.solvers.finite_difference.points import HALF_WIDTH
from lithowave.solvers.finite_difference.tiles import around, line_shift, whole_lines
from lithowave.solvers.interface import Schedule

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.solvers.finite_difference.law import Fields

SOFT_SHIFT = 2.0  # alpha over pi f_0 in soft ground
SOFT_REFLECTION = 1e-6  # default theoretical reflection there: a larger damping compensates the larger alpha
VECTOR = 8  # the width of a layer along x is a multiple of this, so that its short loops are vectorized


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of the layers.

    reflection : theoretical reflection coefficient R of the layer at normal incidence.
    kappa : largest kappa, >= 1.
    frequency : f_0, Hz, near which alpha makes the layer a filter; usually the dominant frequency.
    speed : largest vp, m/s. soft : True in soft ground. viscosity : gamma of `grid_plan`; 0: no smoothing.
    wavelength : shortest, m.
    """

    reflection: float
    kappa: float
    frequency: float
    speed: float
    soft: bool = False
    viscosity: float = 0.0
    wavelength: float = 0.0


def profile(depth: np.ndarray, thickness: float, layer: LayerParameters, time_step: float) -> np.ndarray:
    """Return b, a and r = 1/kappa - 1, shape (3, n), at depths (m) in the layer; 0 if a depth is not in (0, L]."""
    inside = (depth > 1e-9 * thickness) & (depth <= thickness * (1 + 1e-9))
    relative = np.where(inside, depth / thickness, 0.0)
    damping = -1.5 * layer.speed * np.log(layer.reflection) / thickness * relative**2
    kappa = 1.0 + (layer.kappa - 1.0) * relative**2
    alpha = np.pi * layer.frequency * (SOFT_SHIFT if layer.soft else 1.0 - relative)
    b = np.exp(-(damping / kappa + alpha) * time_step)
    a = damping / (kappa * (damping + kappa * alpha) + 1e-300) * (b - 1.0)
    return np.where(inside, np.stack([b, a, 1.0 / kappa - 1.0]), 0.0)


@dataclass(frozen=True)
class AxisLayers:
    """Layers at both ends of an axis, stored contiguously; each spans the entire cross-section, corners included.

    sides : sides of the layers, 0 low, 1 high. starts : first node of each layer along the axis.
    half, node : b, a, r at half nodes and nodes: (3, layers, width) along x; (3, layers * depths, 1) along y and z.
    memory : shape of the memory variables of three derivatives: (planes, rows, 3 * layers, width) along x, (planes,
    layers * depths, 3, columns) along y, (layers * depths, rows, 3, columns) along z.
    """

    sides: tuple[int, ...]
    starts: tuple[int, ...]
    half: np.ndarray
    node: np.ndarray
    memory: tuple[int, int, int, int]


def axis_layers(grid: Grid, axis: int, layer: LayerParameters, time_step: float) -> AxisLayers:
    """Return the layers along an axis within a grid or a subdomain."""
    columns, rows, planes = grid.shape
    nodes, whole, first = grid.shape[axis], grid.whole, grid.first[axis]
    ends = whole.shape[axis] - 1
    found = []  # side, number of cells, and local nodes of each layer within this grid
    for side, cells in enumerate(whole.layers[axis]):
        # A layer at a high side has one additional node, the innermost, of depth 0: its half node has depth 1/2. Both
        # sides use that length.
        inside = min(nodes, cells + 1 - first if side == 0 else first + nodes - (ends - cells))
        if cells and inside > 1 - side:
            found.append((side, cells, inside))
    depths = max((inside for _, _, inside in found), default=1)
    if axis == 0:
        # Widths are multiples of the vector length; the padding has a profile of zeros and therefore no effect.
        depths = min(-(-depths // VECTOR) * VECTOR, nodes)
    starts, lines = [], []
    for side, cells, _ in found:
        starts.append(0 if side == 0 else nodes - depths)
        position = first + starts[-1] + np.arange(depths, dtype=float)
        # Depths of nodes and half nodes; the last half node at a high side is beyond the last node, hence zero.
        node_depth = cells - position if side == 0 else position - (ends - cells)
        half_depth = node_depth - 0.5 if side == 0 else node_depth + 0.5
        both = np.stack([half_depth, node_depth]) * grid.spacing
        lines.append(profile(both, cells * grid.spacing, layer, time_step))
    if axis == 0:
        table = np.stack(lines, axis=2) if lines else np.zeros((3, 2, 0, depths))
    else:
        line = np.concatenate(lines, axis=2) if lines else np.zeros((3, 2, 0))
        table = line[..., None]
    count = len(found)
    memory = {
        0: (planes, rows, 3 * count, depths),
        1: (planes, count * depths, 3, columns),
        2: (count * depths, rows, 3, columns),
    }[axis]
    return AxisLayers(tuple(side for side, _, _ in found), tuple(starts), table[:, 0], table[:, 1], memory)


PLANES = 20  # in double precision, in use while a plane of a layered medium is averaged


@dataclass(frozen=True)
class MaterialExtremes:
    """Extremes of the material and their locations: the largest vp limits the time step, the smallest vs the grid."""

    fastest: float
    fastest_place: str
    slowest: float
    slowest_place: str


Box = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class GridPlan:
    """Discretization parameters, fixed before any array is allocated.

    grid : grid of this rank, ghost points included. faces : kind of each face of the global grid, ``x_min`` ..
    ``z_max``. coefficients : stencils along x, y, z. law : constitutive law, a name in `law.LAWS`. law_reason : why it
    was chosen. averaged_planes : planes in memory while the medium is averaged. attenuation :
    mechanisms of the nodes; None in elastic media. concurrent : threads average several planes at once. equal_columns :
    True if all columns of nodes have the same material. subdomain : subdomain of this rank; None for one rank. box :
    nodes that a step computes in one pass over memory; None: two passes.
    """

    grid: Grid
    schedule: Schedule
    order: int
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray]
    faces: dict[str, str]
    layer: LayerParameters
    extremes: MaterialExtremes
    max_frequency: float | None
    value_bytes: int
    moduli: str = "full"
    law: str = "isotropic"
    law_reason: str = ""
    averaged_planes: int = PLANES
    attenuation: GridAttenuation | None = None
    concurrent: bool = False
    equal_columns: bool = False
    subdomain: Subdomain | None = None
    box: Box | None = None

    @property
    def passes(self) -> str:
        """Passes over the grid in a step, ``one`` or ``two``."""
        return "two" if self.box is None else "one"

    @property
    def point_count(self) -> int:
        """Points of the global grid, absorbing layers included."""
        return self.grid.whole.point_count

    @property
    def own(self) -> NodeRanges:
        """Nodes of the global grid that this rank owns."""
        return self.subdomain.own if self.subdomain else [(0, count) for count in self.grid.shape]

    @property
    def halo(self) -> int:
        """Width of the halo around the grid, in cells."""
        return self.order // 2

    def padded_shape(self) -> tuple[int, int, int]:
        """Shape (z, y, x) of a field array."""
        nx, ny, nz = (count + 2 * self.halo for count in self.grid.shape)
        return nz, ny, nx

    def memory_shape(self) -> tuple[int, int, int]:
        """Shape (z, y, x) of an array of memory variables: the grids of all stored mechanisms."""
        nz, ny, nx = self.padded_shape()
        return nz * self.law_fields.mechanisms, ny, nx

    @property
    def law_fields(self) -> LawFields:
        """Arrays of the law, with those of attenuation."""
        law = LAWS[self.law]
        return law if self.attenuation is None else law.attenuating(self.attenuation.stored, self.attenuation.coarse)

    @property
    def anelasticity(self) -> Anelasticity | None:
        """Attenuation of the material with the mechanisms that the grid uses; None if it is elastic."""
        return self.attenuation and self.attenuation.anelasticity


def possible(precision: str, order: int, law: LawFields) -> bool:
    """True if the shared memory and the registers that a block needs are available."""
    return precision == "single" and order <= 4 and law.mechanisms <= 1


def inner_box(left_out: Sequence[tuple[int, int]], shape: Sequence[int], shift: int) -> Box:
    """Return a grid without some nodes at the low and the high side along x, y, z, and along x without incomplete
    memory lines at these sides."""
    x, y, z = ((low, nodes - high) for (low, high), nodes in zip(left_out, shape, strict=True))
    return [whole_lines(x, shape[0], shift), y, z]


def margins(plan: GridPlan) -> list[tuple[int, int]]:
    """Return the nodes at the low and the high side along x, y, z whose velocities a layer or a closed face changes or
    other ranks need or own, plus the reach of the stencil."""
    closed = face_closure(plan.order).node_change.shape[0]
    shared = plan.subdomain.sent_width + plan.subdomain.reach if plan.subdomain else 0
    found = []
    for axis, letter in enumerate("xyz"):
        sides = []
        for side, end in enumerate(("min", "max")):
            cells = plan.grid.layers[axis][side]
            changed = cells + 1 if cells else 0
            if not plan.grid.is_end(axis, side):
                changed = max(changed, shared)
            elif plan.faces[f"{letter}_{end}"] != "absorbing":
                changed = closed
            sides.append(changed + plan.halo if changed else 0)
        found.append((sides[0], sides[1]))
    return found


def column_shift(plan: GridPlan) -> int:
    """Return the columns by which the first memory line begins before the grid."""
    return line_shift(*margins(plan)[0], plan.grid.shape[0])


def touches(plan: GridPlan, box: Box, position: Sequence[float]) -> bool:
    """True if the velocities that a force at a position changes are in the box or within reach of it."""
    reach = 2 * HALF_WIDTH + plan.halo  # the stencil may be shifted next to a face
    places = (plan.grid.index(axis, position[axis]) for axis in range(3))
    return all(first - reach <= place < end + reach for place, (first, end) in zip(places, box, strict=True))


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


def smoothed_count(plan: GridPlan) -> int:
    """Return the number of points whose velocities are smoothed after each step."""
    if smoothing_of(plan) is None:
        return 0
    return max(1, sum(math.prod(end - first for first, end in box) for box in smoothed_boxes(plan)))


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
        self, plan: GridPlan, backend: Backend, kernels: SimpleNamespace, exchange: Callable[[Fields], None] | None
    ) -> None:
        self.smoothing, self.backend, self.kernels, self._exchange = smoothing_of(plan), backend, kernels, exchange
        self._graphs: dict[int, Callable[[], None]] = {}
        if self.smoothing is None:
            return
        self._halo, boxes = plan.halo, smoothed_boxes(plan)
        sizes = [math.prod(end - first for first, end in box) for box in boxes]
        self._boxes = [tuple(end for sides in box for end in sides) for box in boxes]
        self._places = [0, *itertools.accumulate(sizes)]
        self._differences = backend.zeros(smoothed_count(plan))
        profiles = [[backend.upload(line) for line in lines] for lines in _profiles(plan, self.smoothing.strength)]
        self._weights = [
            [profiles[axis][int(axis == component)] for axis in range(3)] for component in range(len(VELOCITIES))
        ]
        self._limits = [_limits(plan, component) for component in range(len(VELOCITIES))]
        self._most = backend.scalar(self.smoothing.strength)

    def apply(self, fields: Fields, turn: int) -> None:
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

    def _smooth(self, velocities: Sequence[Array]) -> None:
        """Add the differences in all boxes to the velocities."""
        for field, weights, limits in zip(velocities, self._weights, self._limits, strict=True):
            for box, place in zip(self._boxes, self._places, strict=False):
                self.kernels.layer_differences(
                    field, self._halo, *weights, self._most, box, limits, self._differences, place
                )
            for box, place in zip(self._boxes, self._places, strict=False):
                self.kernels.add_layer_differences(field, self._halo, box, self._differences, place)
