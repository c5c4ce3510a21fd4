"""Memory requirement of a run of a plan, on a device and in main memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.elements import plan as elements
from lithowave.solvers.spectral_element.element_layout import MAP_VALUES, ElementLayout, device_layout
from lithowave.solvers.spectral_element.layers import LINE_VALUES
from lithowave.solvers.spectral_element.media import face_points
from lithowave.solvers.spectral_element.relaxation import COMPONENTS as STRESSES
from lithowave.solvers.spectral_element.relaxation import carrier_count as carrier_count

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.spectral_element.elements import ElementKind, GroupedPlan

KEY = 8  # bytes
COMPONENTS = 4  # of a point in an array: x, y, z, and the mass
PACKED_PART = 8  # bytes of a value of moduli and maps while they are packed


def field_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of u, p, p before at damped and coupled points, and the saved and sent momenta of points shared
    by ranks."""
    shared, sent = len(plan.border.points), sum(len(points) for points in plan.border.with_rank.values())
    values = 2 * COMPONENTS * (plan.total_points + 1) + 3 * plan.damped_point_count + 3 * shared + 6 * sent
    return plan.value_bytes * values + 8 * (3 * shared + 2 * sent) + layer_point_bytes(plan) + pair_bytes(plan)


def pair_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of p before, of the part of the coupling, and of the matrices at coupled points, and of their
    indices."""
    return len(plan.interface.fluid) * (16 + plan.value_bytes * (16 + 4 * (2 if plan.layer else 1)))


def layer_point_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of p S - p, memory variables and filters of the points of a layer, and of their indices."""
    counts = layer_point_counts(plan)
    return sum(count * (8 + plan.value_bytes * (3 + 6 * axes)) for axes, count in enumerate(counts, 1))


def layer_point_counts(plan: GroupedPlan) -> list[int]:
    """Return the number of points at which layers along one, two and three axes begin."""
    return [len(points.point) for points in plan.layer_points]


def layer_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the memory variables and filters of a layer, of its elements and its points."""
    elements = sum(count * layer_values(plan.degree, kind) for kind, count in members(plan) if kind.layer)
    return plan.value_bytes * elements + layer_point_bytes(plan)


def layer_values(degree: int, kind: ElementKind) -> int:
    """Return the number of memory variables and coefficients of filters of a layer in an element."""
    points = (degree + 1) ** 3
    return kind.memory_variables * points + filter_values(degree, kind, points, 1)


def filter_values(degree: int, kind: ElementKind, points: int, elements: int) -> int:
    """Return the number of coefficients of filters of a layer in a block with these numbers of points and elements."""
    if kind.aligned:
        return LINE_VALUES * kind.axes * (degree + 1) * elements
    return 3 * (kind.axes + (not kind.damped)) * points if kind.layer else 0


def layer_state_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the memory variables of the layer in a checkpoint, with their keys."""
    points = sum(
        count * (KEY + plan.value_bytes * (3 + 3 * axes))
        for axes, count in enumerate(layer_point_counts(plan), 1)
    )
    size = plan.value_bytes * (plan.degree + 1) ** 3
    pairs = len(plan.interface.fluid) * (KEY + plan.value_bytes * 4 * (2 if plan.layer else 1))
    elements = sum(count * (KEY + kind.memory_variables * size) for kind, count in members(plan) if kind.layer)
    return points + pairs + elements


def state_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of u and p of points, and p before of damped points, of the layer, and of attenuation, with
    their keys."""
    motion = (KEY + 6 * plan.value_bytes) * plan.total_points
    relaxation = sum(
        count * (KEY + plan.value_bytes * STRESSES * kind.mechanisms * carrier_count(plan.degree, kind.carriers))
        for kind, count in members(plan) if kind.mechanisms
    )  # fmt: skip
    damped = (KEY + 3 * plan.value_bytes) * plan.damped_point_count
    return motion + damped + layer_state_bytes(plan) + relaxation


def array_bytes(plan: GroupedPlan, backend: Backend) -> int:
    """Return the bytes of the state, of points, moduli and maps in the blocks of a device, and of the damping.

    Without a backend no slot of a block is empty.
    """
    damping = plan.damped_point_count * (8 + 6 * plan.value_bytes)
    if backend is None:
        return field_bytes(plan) + damping + sum(
            lean_bytes(plan.degree, plan.value_bytes, kind) * count for kind, count in members(plan)
        )
    layout = device_layout(backend.name, plan.degree)
    blocks = sum(
        layout.block_count(count) * block_bytes(plan, layout, backend.name, kind) for kind, count in members(plan)
    )
    return field_bytes(plan) + damping + blocks


def members(plan: GroupedPlan) -> Iterator[tuple[ElementKind, int]]:
    """Yield each kind of elements and its number of elements, outer and inner elements separately."""
    kinds, place = plan.kinds
    counts = np.bincount(2 * place + ~plan.outer)
    for index in np.flatnonzero(counts).tolist():
        yield kinds[index // 2], int(counts[index])


def lean_bytes(degree: int, value_bytes: int, kind: ElementKind) -> int:
    """Return the bytes of the point indices, moduli, mapping, memory variables and filters of one element."""
    points = (degree + 1) ** 3
    moduli = kind.moduli * (points if kind.varying else 1)
    layer = layer_values(degree, kind)
    return 4 * points + value_bytes * (moduli + layer + relaxation_values(degree, kind) + MAP_VALUES["cpu"][kind.map])


def relaxation_bytes(plan: GroupedPlan) -> int:
    """Return the bytes of the relaxing moduli and memory variables of attenuation."""
    return sum(count * plan.value_bytes * relaxation_values(plan.degree, kind) for kind, count in members(plan))


def relaxation_values(degree: int, kind: ElementKind) -> int:
    """Return the number of relaxing moduli and memory variables of attenuation of one element."""
    return (2 + STRESSES) * kind.mechanisms * carrier_count(degree, kind.carriers)


def block_bytes(plan: GroupedPlan, layout: ElementLayout, device: str, kind: ElementKind) -> int:
    """Return the same for a block of elements of a device."""
    order, points = 8, 4 * layout.block_size
    moduli = kind.moduli * (layout.block_size if kind.varying else layout.elements)
    maps = MAP_VALUES[device][kind.map] * layout.elements
    layer = kind.memory_variables * layout.block_size + filter_values(
        plan.degree, kind, layout.block_size, layout.elements
    )
    relaxation = relaxation_values(plan.degree, kind) * layout.elements
    return order + points + plan.value_bytes * (maps + moduli + layer + relaxation)


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
    indices = 4 * (plan.degree + 1) ** 3
    largest = max(
        (lean_bytes(plan.degree, plan.value_bytes, kind) - indices) * count for kind, count in members(plan)
    )  # fmt: skip
    return largest // plan.value_bytes * PACKED_PART


def sampling_bytes(plan: GroupedPlan, experiment: Experiment) -> int:
    """Return the bytes of the locations of receivers, of the points of snapshots, and of the surface with peaks.

    A location has polynomials in double precision and on the device, and moduli if stress is read.
    """
    polynomials = 6 * (plan.degree + 1)

    def location_bytes(count: int, tensors: bool) -> int:
        return count * (40 + 8 + polynomials * (8 + plan.value_bytes) + (8 * (9 + 36) if tensors else 0))

    return elements.sampling_bytes(plan, experiment, location_bytes, 12)
