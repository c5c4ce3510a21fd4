"""Memory requirement of a run of a plan, on a device and in main memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.solvers.discontinuous_galerkin.materials import (
    FACE_NUMBERS,
    PADDED_NUMBERS,
    QUANTITIES,
    SPLIT_BLOCKS,
    SPLIT_ORDERS,
    STRESSES,
    BlockLayout,
    device_layout,
    law_numbers,
)
from lithowave.solvers.discontinuous_galerkin.reference import face_mode_count, mode_count
from lithowave.solvers.discontinuous_galerkin.tables import TABLE_PART, arrange
from lithowave.solvers.elements import plan as elements

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan

COPIES = 3  # of a trace: stored by its element, and sent in steps of even and of odd indices
ELEMENTS = 16_384  # elements whose neighbors are examined at a time
PARTS = 16  # parts of tables that threads compute at the same time


def state_bytes(plan: ClusteredPlan) -> int:
    """Return the bytes of the coefficients and memory variables of all elements."""
    lower = mode_count(plan.order - 1)
    modes = plan.element_count * mode_count(plan.order) + int(plan.layer.inside.sum()) * lower
    return plan.value_bytes * QUANTITIES * modes + relaxation_bytes(plan)


def relaxation_bytes(plan: ClusteredPlan) -> int:
    """Return the bytes of the memory variables of attenuation."""
    return int(plan.relaxing.sum()) * plan.value_bytes * relaxing_values(plan.order, plan.mechanisms)


def relaxing_values(order: int, mechanisms: int) -> int:
    """Return the number of memory variables of attenuation of an element."""
    return STRESSES * mechanisms * mode_count(order - 1)


def array_bytes(plan: ClusteredPlan, backend: Backend) -> int:
    """Return the bytes of coefficients, traces, elastic laws, faces and links in the blocks of a device.

    Without a backend no slot of a block is empty and nothing is padded.
    """
    terms: dict[tuple[bool, int, bool, int], int] = {}  # blocks whose first Taylor term is stored
    if backend is None:
        layout, kinds = BlockLayout(1, True), 4 * anisotropic_path(plan) + 2 * plan.layer.inside + plan.relaxing
        slots = {
            (bool(kind & 4), bool(kind & 2), plan.mechanisms * (kind & 1)): count
            for kind, count in enumerate(np.bincount(kinds).tolist()) if count
        }  # fmt: skip
    else:
        layout, slots = device_layout(backend.name, backend.precision), {}
        for group in arrange(plan, layout).groups:
            blocks = group.end - group.first
            slots[group.kind] = slots.get(group.kind, 0) + blocks * layout.lanes
            if backend.own_memory and plan.order >= SPLIT_ORDERS[backend.precision] and not group.mechanisms:
                terms[group.variant] = max(terms.get(group.variant, 0), min(blocks, SPLIT_BLOCKS))
    face_numbers = PADDED_NUMBERS if backend is not None and backend.own_memory else FACE_NUMBERS
    # Second halves of traces; traces from other ranks; and the messages.
    halves = (COPIES - 1) * half_count(plan) + 2 * COPIES * plan.shared.count
    traces = halves * 3 * layout.trace_width(face_mode_count(plan.order)) * plan.value_bytes
    of_block = QUANTITIES * mode_count(plan.order - 1) * layout.lanes * plan.value_bytes
    return traces + of_block * sum(terms.values()) + sum(
        count * element_bytes(plan.order, plan.value_bytes, layout, _numbers(plan, *kind) + 4 * face_numbers[kind[0]])
        for kind, count in slots.items()
    )


def _numbers(plan: ClusteredPlan, anisotropic: bool, layer: bool, mechanisms: int) -> int:
    """Return the coefficients of the law, and memory variables, of an element."""
    remembered = QUANTITIES * mode_count(plan.order - 1) if layer else 0
    return law_numbers(anisotropic, layer, mechanisms) + remembered + relaxing_values(plan.order, mechanisms)


def element_bytes(order: int, value_bytes: int, layout: BlockLayout, numbers: int) -> int:
    """Return the bytes of one element: coefficients, traces, `numbers` of its law and its faces, and links."""
    trace = 3 * layout.trace_width(face_mode_count(order))
    return value_bytes * (QUANTITIES * mode_count(order) + 4 * COPIES * trace + numbers) + 2 * 4 * 4


def anisotropic_path(plan: ClusteredPlan) -> np.ndarray:
    """True for elements that are anisotropic or have an anisotropic neighbor."""
    every, across = plan.materials.anisotropic, plan.mesh.neighbors
    if not every.any():
        return np.zeros(plan.element_count, bool)
    return every[: plan.element_count] | ((across >= 0) & every[across // 4]).any(axis=1)


def half_count(plan: ClusteredPlan) -> int:
    """Return the number of faces whose neighbor steps twice as often."""
    cluster, across = plan.clustering.cluster, plan.mesh.neighbors

    def count(part: slice) -> int:
        some = across[part]
        return int(np.count_nonzero((some >= 0) & (cluster[some // 4] < cluster[: plan.element_count][part, None])))

    return sum(over_parts(count, plan.element_count, ELEMENTS))


def plan_bytes(plan: ClusteredPlan) -> int:
    """Return the bytes of the mesh, its neighbors and materials, and the time steps, which stay in main memory."""
    neighbors, places = 32 * plan.element_count, 16 * plan.element_count
    return neighbors + places + elements.held_bytes(plan.mesh, plan.materials, plan.clustering, plan, plan.shared)


def setup_bytes(plan: ClusteredPlan) -> int:
    """Return the bytes of values of some elements, in double precision, while packed, and of all links."""
    anisotropic, layer = plan.materials.anisotropic.any(), plan.layer.inside.any()
    numbers = 4 * FACE_NUMBERS[True] + law_numbers(True, layer, plan.mechanisms) if anisotropic else 200
    links = 12 * 4 * 8 * plan.element_count
    return links + 3 * 8 * numbers * min(PARTS * TABLE_PART, plan.element_count)


def sampling_bytes(plan: ClusteredPlan, experiment: Experiment) -> int:
    """Return the bytes of the locations of receivers, of the points of snapshots, and of the surface with peaks.

    A location has the basis there; the blocks of its elements are completed.
    """
    modes = mode_count(plan.order)

    def location_bytes(count: int, tensors: bool) -> int:
        blocks = min(plan.element_count, 32 * count) * QUANTITIES * modes * plan.value_bytes
        return blocks + count * (60 + modes * (8 + plan.value_bytes))

    return elements.sampling_bytes(plan, experiment, location_bytes, QUANTITIES)
