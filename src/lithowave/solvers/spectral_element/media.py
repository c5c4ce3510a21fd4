"""Points of fluid and solid elements: numbered separately, and paired on the interfaces between the media.

Fluid elements are numbered as if they had vertices of their own, so that the same place on an interface has a point in
each medium. Both are needed to couple them: a rank whose elements are in one medium only also gets the points of the
other, without elements, as points that it shares with another rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import number_points, shared_count
from lithowave.mesh.shared_points import (
    CORNERS_OF,
    NOTHING,
    Entities,
    SharedPoints,
    boundary_entities,
    entity_point_numbers,
    shared_entities,
    shared_points,
)
from lithowave.parallel.collective import collective_call
from lithowave.solvers.spectral_element.absorbing_layer import DAMPED, active_axes
from lithowave.solvers.spectral_element.faces import face_areas, face_places

LARGEST_SLOPE = 1e-6  # component of the normal along an active axis of an absorbing layer, up to round-off


@dataclass(frozen=True)
class Interface:
    """Pairs of a solid and a fluid point at the same place on an interface.

    solid, fluid : (pairs,) their indices, the latter in ascending order. area : (pairs, 3), m^2, the sum of quadrature
    area times normal, out of the fluid, over the faces that meet there, of all ranks. faces : (f, 2), fluid element of
    this rank, local face.
    """

    solid: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    fluid: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    area: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    faces: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))


@dataclass(frozen=True)
class NumberedPoints:
    """Indices of points [element, k, j, i], their number, those that other ranks share, and those on interfaces."""

    numbers: np.ndarray
    count: int
    border: SharedPoints
    interface: Interface = field(default_factory=Interface)


def number_media(mesh: HexahedralMesh, fluid: np.ndarray, degree: int, ranks: Any) -> NumberedPoints:
    """Number the points of a mesh with fluid elements, fluid (elements,); collective call."""
    if ranks.largest(float(fluid.any())) == 0.0:
        numbers, count = number_points(mesh.elements, degree)
        return NumberedPoints(numbers, count, shared_points(mesh, numbers, ranks))
    mesh, offset = with_separate_vertices(mesh, fluid, ranks)
    numbers, count = number_points(mesh.elements, degree)
    entities, found = with_partners(boundary_entities(mesh), offset, ranks)
    points, count = EntityPoints.number(mesh, numbers, count, entities)
    border = SharedPoints(ranks.rank, {rank: points.of(some) for rank, some in found.items()})
    interface = _interface(mesh, numbers, count, entities, points, offset, border, ranks)
    return NumberedPoints(numbers, count, border, interface)


def with_separate_vertices(mesh: HexahedralMesh, fluid: np.ndarray, ranks: Any) -> tuple[HexahedralMesh, int]:
    """Return the mesh with a second copy of its vertices for fluid elements, and what it adds to a global index."""
    count = len(mesh.vertices)
    ids = np.arange(count)
    if mesh.vertex_ids is not None:  # those of the corners, which precede the other vertices
        ids[: len(mesh.vertex_ids)] = mesh.vertex_ids
    offset = 1 + int(ranks.largest(float(ids[mesh.elements].max(initial=0))))
    separate = replace(
        mesh, vertices=np.concatenate([mesh.vertices, mesh.vertices]),
        elements=mesh.elements + count * fluid[:, None], vertex_ids=np.concatenate([ids, ids + offset]),
    )  # fmt: skip
    return separate, offset


def partner_keys(keys: np.ndarray, offset: int) -> np.ndarray:
    """Return the keys (n, 4) of corners, edges and faces in the other medium; see `shared_points.Entities`."""
    return np.where(keys == NOTHING, NOTHING, np.where(keys < offset, keys + offset, keys - offset))


def partners(keys: np.ndarray, offset: int) -> np.ndarray:
    """Return for each of the distinct keys (n, 4) the row of the same entity in the other medium; -1 if there is none.
    """
    _, place = np.unique(np.concatenate([keys, partner_keys(keys, offset)]), axis=0, return_inverse=True)
    place = place.reshape(2, -1)
    row = np.full(place.max(initial=0) + 1, -1)
    row[place[0]] = np.arange(len(keys))
    return row[place[1]]


def with_partners(entities: Entities, offset: int, ranks: Any) -> tuple[Entities, dict[int, np.ndarray]]:
    """Return the entities and those at their places in the other medium that other ranks have, with element -1; and
    the indices of those shared with each other rank (collective call)."""
    if ranks.size == 1:
        return entities, {}
    absent = partner_keys(entities.keys[partners(entities.keys, offset) < 0], offset)
    keys = np.concatenate([entities.keys, absent])
    order = np.lexsort(keys.T[::-1])
    element, local = (np.append(own, np.full(len(absent), -1))[order] for own in (entities.element, entities.local))
    every = Entities(keys[order], element, local)
    found = shared_entities(every, ranks)
    known = element >= 0
    theirs = ranks.all_to_all([known[found[rank]] if rank in found else None for rank in range(ranks.size)])
    for rank, rows in found.items():
        known[rows] |= theirs[rank]
    place = np.cumsum(known) - 1
    kept = {rank: place[rows[known[rows]]] for rank, rows in found.items()}
    return Entities(every.keys[known], element[known], local[known]), {r: rows for r, rows in kept.items() if len(rows)}


@dataclass(frozen=True)
class EntityPoints:
    """Indices of the points inside entities, concatenated: those of entity e are flat[begin[e]:begin[e + 1]]."""

    flat: np.ndarray
    begin: np.ndarray

    @classmethod
    def number(
        cls, mesh: HexahedralMesh, numbers: np.ndarray, count: int, entities: Entities
    ) -> tuple[EntityPoints, int]:
        """Return the points of entities, and the number of all points.

        Those of entities without an element are inserted before the points inside elements, changing `numbers`.
        """
        degree = numbers.shape[1] - 1
        sizes = np.array([(degree - 1) ** power if power else 1 for power in (0, 1, 2)])
        sizes = sizes[np.searchsorted(CORNERS_OF, entities.sizes)]
        begin = np.concatenate([[0], np.cumsum(sizes)])
        own = entities.element >= 0
        inside, shared = np.repeat(own, sizes), shared_count(count, len(numbers), degree)
        added = int(np.count_nonzero(~inside))
        numbers[numbers >= shared] += added
        flat = np.empty(begin[-1], np.int64)
        flat[inside] = entity_point_numbers(mesh, numbers, entities, np.flatnonzero(own))
        flat[~inside] = shared + np.arange(added)
        return cls(flat, begin), count + added

    def of(self, some: np.ndarray) -> np.ndarray:
        """Return the points of some entities, concatenated."""
        sizes = np.diff(self.begin)[some]
        before = np.cumsum(sizes) - sizes
        return self.flat[np.repeat(self.begin[some] - before, sizes) + np.arange(sizes.sum())]


def _interface(
    mesh: HexahedralMesh, numbers: np.ndarray, count: int, entities: Entities, points: EntityPoints, offset: int,
    border: SharedPoints, ranks: Any,
) -> Interface:  # fmt: skip
    """Return the pairs of points on the faces between the media (collective call)."""
    partner = partners(entities.keys, offset)
    wet = np.flatnonzero((partner >= 0) & (entities.keys[:, 3] >= offset))
    area, degree = np.zeros((count, 3)), numbers.shape[1] - 1
    chosen = wet[(entities.sizes[wet] == 4) & (entities.element[wet] >= 0)]
    faces = np.stack([entities.element[chosen], entities.local[chosen]], axis=1)
    for local in range(6):
        elements = faces[faces[:, 1] == local, 0]
        k, j, i = face_places(local, degree)[0].T
        np.add.at(area, numbers[elements][:, k, j, i], face_areas(mesh.element_nodes(elements), local, degree))
    border.combine(area, ranks)
    solid, fluid = points.of(partner[wet]), points.of(wet)
    order = np.argsort(fluid)
    order = order[area[fluid[order]].any(axis=1)]
    return Interface(solid[order], fluid[order], area[fluid[order]], faces)


def refuse_oblique_interfaces(mesh: HexahedralMesh, points: NumberedPoints, masks: np.ndarray, ranks: Any) -> None:
    """Refuse interfaces in an absorbing layer whose normal has a component along an active axis (see `coupling`).

    points : of the mesh. masks : active axes of the elements, see `ElementKind.layer`. Collective call.
    """
    interface, numbers = points.interface, points.numbers
    if not ranks.largest(float(len(interface.fluid))):
        return
    axes = active_axes(numbers, np.where(masks < DAMPED, masks, 0), points.count, points.border, ranks)
    axes[interface.fluid] |= axes[interface.solid]

    def check() -> None:
        for element, local in interface.faces.tolist():
            k, j, i = face_places(local, numbers.shape[1] - 1)[0].T
            inside = np.bitwise_and.reduce(axes[numbers[element, k, j, i]]) >> np.arange(3) & 1 > 0
            area = face_areas(mesh.element_nodes(np.array([element])), local, numbers.shape[1] - 1)[0]
            size = np.linalg.norm(area, axis=1).max()
            if np.abs(area[:, inside]).max(initial=0.0) > LARGEST_SLOPE * size:
                x, y, z = mesh.vertices[mesh.elements[element]].mean(axis=0)
                raise InputError(
                    "boundaries.absorption",
                    f"layer: the interface of the fluid at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m and a solid is not "
                    "parallel to the direction in which the layer absorbs",
                    "interfaces that continue into the layer without a slope",
                    "set boundaries.absorption: stacey, or method: discontinuous_galerkin",
                )  # fmt: skip

    collective_call(ranks, check)
