"""Arrays of the elements on a device: elastic laws, faces, and links to neighbors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import parts_in_order
from lithowave.solvers.discontinuous_galerkin.arrays import TABLE_PART, arrange, field_arrays, kind_arrays
from lithowave.solvers.discontinuous_galerkin.materials import (
    FACE_NUMBERS,
    QUANTITIES,
    BlockLayout,
    anisotropic_faces,
    elastic_matrices,
    isotropic_faces,
    law_numbers,
    make_links,
    stretched_laws,
)
from lithowave.solvers.discontinuous_galerkin.reference import make_geometry, mode_count
from lithowave.solvers.discontinuous_galerkin.relaxation import recursion, relaxing_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lithowave.backends.interface import Array, Backend
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan
    from lithowave.solvers.discontinuous_galerkin.materials import Group


@dataclass(frozen=True)
class BlockTables:
    """Tables of the blocks of one kind, from block `first`. elastic, faces : on the device, see `materials`. memory :
    variables of elements of an absorbing layer, relaxation : of attenuation; else one value."""

    first: int
    elastic: Array
    faces: Array
    memory: Array
    relaxation: Array


class ElementTables:
    """Arguments of `step` in addition to the fields.

    Parameters
    ----------
    backend : the device. plan : mesh, materials, clusters, kinds of faces. layout : arrangement of blocks on the
    device. pack_faces : function of the device's kernels that arranges coefficients of faces (slots, 4, c).
    """

    def __init__(
        self, backend: Backend, plan: ClusteredPlan, layout: BlockLayout, pack_faces: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        self.backend, self.plan, self.pack_faces = backend, plan, pack_faces
        self.modes = mode_count(plan.order)
        self.arrangement = arrange(plan, layout)
        self.links = make_links(self.arrangement, plan.clustering.cluster, plan.mesh.neighbors)
        self.slots = self.links.slots
        # Elements that have neighbors on other ranks.
        self.outer = (plan.mesh.neighbors >= 4 * plan.element_count).any(axis=1)
        count = self.arrangement.block_count
        self.fields = field_arrays(plan.order, backend.dtype, layout, count, self.links.slots)
        self.neighbor = self.fields.upload(backend, "neighbor", self.links.neighbor)
        self.second = self.fields.upload(backend, "second", self.links.second)
        self.cluster = self.fields.upload(backend, "cluster", self.arrangement.block_cluster)
        groups, clustering = self.arrangement.groups, plan.clustering
        self.recursion = backend.upload(np.zeros((clustering.count, 1)), backend.dtype)
        if plan.materials.body is not None:
            steps = clustering.shortest * 2.0 ** np.arange(clustering.count)
            numbers = recursion(plan.materials.body, steps, plan.order)
            self.recursion = backend.upload(numbers.reshape(clustering.count, -1), backend.dtype)
        self.kinds = {
            kind: self._kind(*kind, [group for group in groups if group.kind == kind])
            for kind in {group.kind for group in groups}
        }

    def coefficient_place(self, elements: np.ndarray, quantity: npt.ArrayLike, mode: npt.ArrayLike) -> np.ndarray:
        """Return the index in the flattened coefficients of a quantity's mode in elements."""
        own = self.arrangement.layout
        block, lane = np.divmod(self.arrangement.place[elements], own.lanes)
        return self.index(block, lane, quantity, mode)

    def index(
        self, block: npt.ArrayLike, lane: npt.ArrayLike, quantity: npt.ArrayLike, mode: npt.ArrayLike
    ) -> np.ndarray:
        """Return the index in flattened coefficients of blocks."""
        own, count = self.arrangement.layout, self.modes
        within = mode * QUANTITIES + quantity if own.mode_major else quantity * count + mode
        return (block * QUANTITIES * count + within) * own.lanes + lane

    def _kind(self, anisotropic: bool, layer: bool, mechanisms: int, groups: Sequence[Group]) -> BlockTables:
        layout, backend = self.arrangement.layout, self.backend
        lanes, first, end = layout.lanes, groups[0].first, groups[-1].end
        kind = anisotropic, layer, mechanisms
        table = kind_arrays(self.plan.order, backend.dtype, layout, kind, end - first)
        arrays = table.allocate(backend, "table", "memory")

        def pack(part: slice) -> tuple[slice, np.ndarray, np.ndarray]:
            slots = slice((first + part.start) * lanes, (first + part.stop) * lanes)
            law, of_faces = self._numbers(slots, anisotropic, layer, mechanisms)
            packed = layout.packed(law), self.pack_faces(of_faces)
            return part, *(np.asarray(values, backend.dtype) for values in packed)

        for part, law, of_faces in parts_in_order(pack, end - first, max(1, TABLE_PART // lanes)):
            backend.assign(arrays["elastic"][part], law)
            backend.assign(arrays["faces"][part], of_faces)
        return BlockTables(first, **arrays)

    def _numbers(
        self, some: slice, anisotropic: bool, layer: bool, mechanisms: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return elastic laws (slots, c) and faces (slots, 4, c) of some slots; zeros in empty slots."""
        slots, plan = self.arrangement.slots[some], self.plan
        there = slots >= 0
        elements = slots[there]
        law = np.zeros((len(slots), law_numbers(anisotropic, layer, mechanisms)))
        faces = np.zeros((len(slots), 4, FACE_NUMBERS[anisotropic]))
        geometry = make_geometry(plan.mesh.element_vertices(elements))
        steps = plan.clustering.shortest * 2.0 ** plan.clustering.cluster[elements]
        gradients = geometry.along_directions() * steps[:, None, None]
        make_faces = anisotropic_faces if anisotropic else isotropic_faces
        epsilon = np.finfo(self.backend.dtype).eps
        neighbors = plan.face_neighbors[elements]
        of_faces = plan.materials, elements, neighbors, geometry.normals, geometry.lifts * steps[:, None], epsilon
        faces[there] = make_faces(*of_faces)
        if anisotropic:
            numbers = elastic_matrices(plan.materials, elements, gradients).reshape(len(elements), -1)
        else:
            moduli = (plan.materials.lam, plan.materials.mu, 1.0 / plan.materials.rho)
            numbers = np.column_stack([gradients.reshape(-1, 9), *(values[elements] for values in moduli)])
        if layer:
            gains, rest = plan.layer.numbers(elements, steps)
            if anisotropic:
                gains = stretched_laws(*of_faces, gradients, gains)
            numbers = np.column_stack([numbers, gains, rest])
        if mechanisms:
            numbers = np.column_stack([numbers, relaxing_numbers(plan.materials, elements, anisotropic)])
        law[there] = numbers
        return law, faces
