"""Tables of the arrays of a rank and of its groups of elements, and what follows from them: memory, and the size of a
checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.common.arrays import ArrayTable
from lithowave.solvers.elements import plan as elements
from lithowave.solvers.spectral_element.element_kinds import FILTER_COUNTS, ElementKind
from lithowave.solvers.spectral_element.element_layout import MAP_VALUES, ElementLayout, device_layout
from lithowave.solvers.spectral_element.layers import LINE_VALUES
from lithowave.solvers.spectral_element.media import PAIRS, CoupledPairs, LayerMemory, face_points
from lithowave.solvers.spectral_element.relaxation import COMPONENTS as STRESSES
from lithowave.solvers.spectral_element.relaxation import carrier_count, carrier_sets

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.spectral_element.element_kinds import GroupedPlan

COMPONENTS = 4  # of a point in an array: x, y, z, and the mass
KEY = 8  # bytes of the key of a row in a checkpoint
PACKED_PART = 8  # bytes of a value of moduli and maps while they are packed


def real_type(plan: GroupedPlan, backend: Backend | None = None) -> np.dtype:
    """Return the type of the floating-point values of a run."""
    return np.dtype(f"f{plan.value_bytes}") if backend is None else backend.dtype


# ------------------------------------------------------------------------------------------------ points of a rank


def point_arrays(plan: GroupedPlan, backend: Backend | None = None) -> ArrayTable:
    """Return the arrays with values for the points of a rank.

    The roles are ``motion``; ``damping``: points of absorbing faces; ``coupling``: points on interfaces with fluids;
    ``layer``: points at which absorbing layers begin; ``exchange``: points that ranks share.
    """
    table = ArrayTable(real_type(plan, backend))
    for name in ("displacement", "momentum"):
        table.add(name, "motion", (plan.total_points + 1, COMPONENTS))
    damped = plan.damped_point_count
    table.add("damped", "damping", damped, np.int64)
    table.add("damping", "damping", (damped, 6))
    table.add("history", "damping", (damped, 3))
    for layer, count in enumerate(pair_counts(plan)):
        CoupledPairs.add_to(table, bool(layer), count)
    for points in plan.layer_points:
        LayerMemory.add_to(table, points)
    shared, sent = len(plan.border.points), sum(len(points) for points in plan.border.with_rank.values())
    table.add("kept", "exchange", (max(1, shared), 3))
    for name, count in (("shared", shared), ("sent", sent), ("begin", shared + 1), ("entry", shared + sent)):
        table.add(name, "exchange", count, np.int64)
    table.add("messages", "exchange", (sent, 3), copies=2)  # allocated by the exchange of halos
    return table


def stretched_pairs(plan: GroupedPlan) -> np.ndarray:
    """Return True for each pair of points on interfaces at which absorbing layers begin."""
    if not len(plan.interface.fluid):
        return np.zeros(0, bool)
    in_layer = np.zeros(plan.total_points, bool)
    for points in plan.layer_points:
        in_layer[points.point] = True
    return in_layer[plan.interface.fluid]


def pair_counts(plan: GroupedPlan) -> tuple[int, int]:
    """Return the number of pairs of points on interfaces outside and inside `stretched_pairs`."""
    inside = int(np.count_nonzero(stretched_pairs(plan)))
    return len(plan.interface.fluid) - inside, inside


# ---------------------------------------------------------------------------------------------- groups of elements


@dataclass(frozen=True)
class Members:
    """Elements of one kind; outer : True if each of them has points of other ranks, False if none has."""

    kind: ElementKind
    outer: bool
    elements: np.ndarray


def group_members(plan: GroupedPlan) -> list[Members]:
    """Return the elements of each group of a rank: outer ones first, by kind."""
    kinds, place = plan.kinds
    every = [
        Members(kind, outer, np.flatnonzero((place == number) & (plan.outer == outer)))
        for outer in (True, False) for number, kind in enumerate(kinds)
    ]  # fmt: skip
    return [members for members in every if len(members.elements)]


def group_arrays(
    degree: int, real: np.dtype, layout: ElementLayout, device: str, kind: ElementKind, slots: int
) -> ArrayTable:
    """Return the arrays of a group with this many slots for elements.

    The roles are ``order``; ``element``: moduli and mapping; ``layer``: memory variables and filters of an absorbing
    layer; ``relaxation``: arrays of attenuation. Arrays of what a kind does not have are empty.
    """
    table, blocks = ArrayTable(real), layout.block_count(slots)
    table.add("order", "order", blocks, np.int64)
    pair = 3 if layout.lanes and kind.moduli == 2 else None  # lambda and mu of a point are side by side
    moduli = partial(layout.component_shape, axis=pair) if kind.varying else layout.element_shape
    table.add("moduli", "element", moduli(slots, kind.moduli))
    table.add("geometry", "element", layout.element_shape(slots, MAP_VALUES[device][kind.map]))
    table.add("memory", "layer", layout.component_shape(slots, kind.memory_variables) if kind.layer else 0)
    if kind.aligned:
        table.add("filters", "layer", layout.element_shape(slots, LINE_VALUES * kind.axes * (degree + 1)))
    else:
        values = 3 * (kind.axes + (not kind.damped))
        table.add("filters", "layer", layout.component_shape(slots, values) if kind.layer else 0)
    carriers = carrier_count(degree, kind.carriers) if kind.mechanisms else 0
    for name, values in (("relaxing", 2), ("relaxation", STRESSES)):
        shape = layout.carrier_shape(blocks, carriers, values * kind.mechanisms)
        table.add(name, "relaxation", shape if carriers else 0)
    table.add("recursion", "recursion", (kind.mechanisms, 3) if kind.mechanisms else 0)
    return table


def element_values(degree: int, kind: ElementKind, *roles: str) -> int:
    """Return the number of values of one element in the arrays with these roles."""
    table = group_arrays(degree, np.dtype(float), ElementLayout(degree + 1, 1), "cpu", kind, 1)
    return sum(entry.size for entry in table.of(*roles))


def role_bytes(plan: GroupedPlan, *roles: str) -> int:
    """Return the bytes of all elements in the arrays with these roles, without empty slots."""
    return plan.value_bytes * sum(
        len(members.elements) * element_values(plan.degree, members.kind, *roles) for members in group_members(plan)
    )


def lean_bytes(degree: int, value_bytes: int, kind: ElementKind) -> int:
    """Return the bytes of the point indices, moduli, mapping, memory variables and filters of one element, at least."""
    return 4 * (degree + 1) ** 3 + value_bytes * element_values(degree, kind, "element", "layer", "relaxation")


# -------------------------------------------------------------------------------------------- memory, and checkpoint


def array_bytes(plan: GroupedPlan, backend: Backend | None) -> int:
    """Return the bytes of all arrays in the blocks of a device. Without a backend no slot of a block is empty."""
    total, groups = point_arrays(plan).nbytes(), group_members(plan)
    if backend is None:
        sizes = (len(own.elements) * lean_bytes(plan.degree, plan.value_bytes, own.kind) for own in groups)
        return total + sum(sizes)
    layout = device_layout(backend.name, plan.degree)
    for own in groups:
        count = len(own.elements)
        table = group_arrays(plan.degree, real_type(plan), layout, backend.name, own.kind, count)
        total += table.nbytes() + 4 * math.prod(layout.index_shape(count))  # with the indices of the points
    return total


def layer_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the memory variables and filters of a layer, of its elements and its points."""
    return role_bytes(plan, "layer") + point_arrays(plan).nbytes("layer")


def relaxation_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the relaxing moduli and memory variables of attenuation."""
    return role_bytes(plan, "relaxation")


def layer_sets(plan: GroupedPlan) -> dict[str, tuple[int, bool]]:
    """Return the arrays of a checkpoint with the memory variables of elements of a layer, equal on all ranks: the
    number of filters at a point, and whether the elements are in a fluid."""
    if plan.layer is None:
        return {}
    media = {"": False, "fluid_": True} if plan.has_fluids else {"": False}
    return {
        f"{name}layer_elements_{filters}": (filters, fluid)
        for name, fluid in media.items() for filters in FILTER_COUNTS
    }  # fmt: skip


def pair_sets(plan: GroupedPlan) -> tuple[str, ...]:
    """Return the arrays of a checkpoint with the state of points on interfaces: outside and inside of a layer."""
    if not plan.has_fluids:
        return ()
    return PAIRS[:1] if plan.layer is None else PAIRS


def relaxation_sets(plan: GroupedPlan) -> dict[str, int]:
    """Return the arrays of a checkpoint with the memory variables of attenuation: the set of points (see
    `relaxation.carrier_sets`)."""
    count = len(carrier_sets(plan.degree)) if plan.mechanisms else 0
    return {f"relaxation_{number}": number for number in range(1, count + 1)}


def state_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of a checkpoint of this rank with the keys of its rows."""
    points, groups = (plan.degree + 1) ** 3, group_members(plan)
    sizes = [(plan.total_points, 6), (plan.damped_point_count, 3)]  # rows and columns of each array
    sizes += [(len(own.point), 3 + 3 * axes) for axes, own in enumerate(plan.layer_points, 1)]
    sizes += [(len(own.elements), own.kind.memory_variables * points) for own in groups if own.kind.layer]
    sizes += list(zip(pair_counts(plan), (4, 8), strict=True))
    for own in groups:
        if own.kind.mechanisms:
            columns = STRESSES * own.kind.mechanisms * carrier_count(plan.degree, own.kind.carriers)
            sizes.append((len(own.elements), columns))
    return sum(rows * (KEY + plan.value_bytes * columns) for rows, columns in sizes)


def damped_point_count(plan: GroupedPlan) -> int:
    """Return the number of points of absorbing faces, at which a layer does not damp, without coupled points."""
    if plan.layer is not None:
        return 0
    damped = np.zeros(plan.total_points, bool)
    damped[face_points(plan.numbers, plan.faces["absorbing"])] = True
    plan.border.combine(damped, plan.ranks, np.maximum)
    damped[np.concatenate([plan.interface.solid, plan.interface.fluid])] = False
    return int(np.count_nonzero(damped))


def plan_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the mesh, its point indices, maps, statistics and materials, which stay in main memory."""
    places = 16 * plan.element_count  # of each element's kind, and of its first point
    losses = () if plan.materials.losses is None else (plan.materials.losses,)
    return places + elements.held_bytes(plan.mesh, plan.materials, plan.element_statistics, plan.border, plan, *losses)


def setup_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of moduli, maps and filters of the largest group, in double precision, while they are packed."""
    return PACKED_PART * max(
        len(own.elements) * element_values(plan.degree, own.kind, "element", "layer", "relaxation")
        for own in group_members(plan)
    )  # fmt: skip


def sampling_bytes(plan: GroupedPlan, experiment: Experiment) -> int:
    """Return the bytes of the locations of receivers, of the points of snapshots, and of the surface with peaks.

    A location has polynomials in double precision and on the device, the points of its element, if no other location is
    there, and moduli if stress is read.
    """
    polynomials, points = 6 * (plan.degree + 1), (plan.degree + 1) ** 3

    def location_bytes(count: int, tensors: bool) -> int:
        tables = polynomials * (8 + plan.value_bytes) + (8 * (9 + 36) if tensors else 0)
        return count * (40 + 8 + tables) + 4 * points * min(count, plan.element_count)

    return elements.sampling_bytes(plan, experiment, location_bytes, 12)
