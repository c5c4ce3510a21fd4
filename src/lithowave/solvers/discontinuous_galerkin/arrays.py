"""Tables of the arrays of a rank and of its blocks of elements, and what follows from them: memory, and the size of a
checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.solvers.common.arrays import ArrayTable
from lithowave.solvers.discontinuous_galerkin.materials import (
    FACE_NUMBERS,
    PADDED_NUMBERS,
    QUANTITIES,
    SPLIT_BLOCKS,
    SPLIT_ORDERS,
    STRESSES,
    BlockLayout,
    ElementLayout,
    device_layout,
    law_numbers,
    make_arrangement,
)
from lithowave.solvers.discontinuous_galerkin.reference import face_mode_count, mode_count
from lithowave.solvers.elements import plan as elements

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan

    Kind = tuple[bool, bool, int]  # see `materials.Group.kind`

TABLE_PART = 1 << 12  # elements whose coefficients are computed at a time
ELEMENTS = 16_384  # elements whose neighbors are examined at a time
PARTS = 16  # parts of tables that threads compute at the same time
NONE = 1  # value of arrays of which a kind has none: kernels cannot be passed empty ones


def real_type(plan: ClusteredPlan, backend: Backend | None = None) -> np.dtype:
    """Return the type of the floating-point values of a run."""
    return np.dtype(f"f{plan.value_bytes}") if backend is None else backend.dtype


def field_arrays(order: int, real: np.dtype, layout: BlockLayout, blocks: int, trace_slots: int) -> ArrayTable:
    """Return the arrays of all blocks of a rank: coefficients, traces, and links to neighbors.

    trace_slots : see `materials.Links`.
    """
    table, trace = ArrayTable(real), (3, layout.trace_width(face_mode_count(order)))
    table.add("coefficients", "field", layout.coefficients(blocks, mode_count(order)))
    table.add("own", "field", (4 * blocks * layout.lanes, *trace))
    for name in ("even", "odd"):  # sent in steps of even and of odd indices
        table.add(name, "field", (trace_slots, *trace))
    for name in ("neighbor", "second"):
        table.add(name, "link", (blocks * layout.lanes, 4), np.int32)
    table.add("cluster", "link", blocks, np.int32)
    return table


def kind_arrays(order: int, real: np.dtype, layout: BlockLayout, kind: Kind, blocks: int) -> ArrayTable:
    """Return the arrays of the blocks of a kind: elastic laws, faces, and memory variables.

    ``memory`` : those of an absorbing layer; ``relaxation`` : those of attenuation.
    """
    table, (anisotropic, layer, mechanisms), lanes = ArrayTable(real), kind, layout.lanes
    table.add("elastic", "table", (blocks, law_numbers(anisotropic, layer, mechanisms), lanes))
    if layout.mode_major:
        table.add("faces", "table", (blocks, 4 * FACE_NUMBERS[anisotropic], lanes))
    else:
        table.add("faces", "table", (blocks, lanes, 4, PADDED_NUMBERS[anisotropic]))
    for name, quantities in (("memory", QUANTITIES * layer), ("relaxation", STRESSES * mechanisms)):
        shape = layout.coefficients(blocks, mode_count(order - 1), quantities)
        table.add(name, "memory", shape if quantities else NONE)
    return table


def arrange(plan: ClusteredPlan, layout: BlockLayout) -> ElementLayout:
    """Return the element layout of a plan."""

    def make() -> ElementLayout:
        across = np.where(plan.mesh.neighbors >= 0, plan.mesh.neighbors // 4, -1)
        clustering = plan.clustering
        return make_arrangement(
            layout, clustering.cluster, across, plan.materials.anisotropic, clustering.count, plan.layer.inside,
            plan.materials.mechanisms(plan.element_count),
        )  # fmt: skip

    return plan.once(f"arrangement for {layout}", make)


def element_bytes(order: int, real: np.dtype, layout: BlockLayout, kind: Kind) -> int:
    """Return the bytes of one element of a full block."""
    fields = field_arrays(order, real, layout, 1, 4 * layout.lanes)
    tables = fields, kind_arrays(order, real, layout, kind, 1)
    return sum(table.nbytes() for table in tables) // layout.lanes


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


def array_bytes(plan: ClusteredPlan, backend: Backend | None) -> int:
    """Return the bytes of coefficients, traces, elastic laws, faces and links in the blocks of a device.

    Without a backend no slot of a block is empty and nothing is padded.
    """
    real, order = real_type(plan), plan.order
    shared, halves = plan.shared.count, half_count(plan)
    if backend is None:
        layout, blocks = BlockLayout(1, True), lean_blocks(plan)
    else:
        layout, blocks = device_layout(backend.name, backend.precision), blocks_of_kinds(plan, backend)
    count = sum(blocks.values())
    # Traces of all faces; second halves; those from other ranks with theirs; and a slot of zeros.
    fields = field_arrays(order, real, layout, count, 4 * count * layout.lanes + halves + 2 * shared + 1)
    messages = 2 * shared * 3 * layout.trace_width(face_mode_count(order)) * plan.value_bytes
    kinds = sum(kind_arrays(order, real, layout, kind, own).nbytes() for kind, own in blocks.items())
    return fields.nbytes() + kinds + messages + (0 if backend is None else _term_bytes(plan, backend))


def lean_blocks(plan: ClusteredPlan) -> dict[Kind, int]:
    """Return the number of elements of each kind."""
    codes = 4 * anisotropic_path(plan) + 2 * plan.layer.inside + plan.relaxing
    return {
        (bool(code & 4), bool(code & 2), plan.mechanisms * (code & 1)): count
        for code, count in enumerate(np.bincount(codes).tolist()) if count
    }  # fmt: skip


def blocks_of_kinds(plan: ClusteredPlan, backend: Backend) -> dict[Kind, int]:
    """Return the number of blocks of each kind on a device."""
    blocks: dict[Kind, int] = {}
    for group in arrange(plan, device_layout(backend.name, backend.precision)).groups:
        blocks[group.kind] = blocks.get(group.kind, 0) + group.end - group.first
    return blocks


def _term_bytes(plan: ClusteredPlan, backend: Backend) -> int:
    """Return the bytes of the first Taylor terms of the blocks whose step is two kernels on a GPU."""
    if not backend.own_memory or plan.order < SPLIT_ORDERS[backend.precision]:
        return 0
    layout, terms = device_layout(backend.name, backend.precision), {}
    for group in arrange(plan, layout).groups:
        if not group.mechanisms:
            terms[group.variant] = max(terms.get(group.variant, 0), min(group.end - group.first, SPLIT_BLOCKS))
    return QUANTITIES * mode_count(plan.order - 1) * layout.lanes * plan.value_bytes * sum(terms.values())


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
