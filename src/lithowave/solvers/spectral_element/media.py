r"""Points of fluids and solids: their numbers, faces, coupling, and absorbing layers.

**Boundary conditions on the faces of a mesh: points at rest, and points whose motion is damped.** On an absorbing face
the traction is that of a plane wave at normal incidence (Clayton & Engquist 1977, BSSA 67; Stacey 1988, BSSA 78),

.. math:: \sigma \cdot n = -Z v, \qquad Z = \sqrt{\rho}\,\sqrt{\Gamma}, \quad \Gamma_{ik} = C_{ijkl} n_j n_l,

which for an isotropic solid is rho (vp n n + vs (1 - n n)), and for an anisotropic one absorbs all three waves along n.

**Coupling of fluids and solids at the pairs of points of their interfaces, and its arrays on a device.** With the sum A
of quadrature area times normal out of the fluid, the pressure -phi' acts on the solid, and the velocity of the solid on
the fluid:

.. math:: M_s \dot v = f_s - D v - A\, \dot\phi, \qquad M_f \ddot\phi = f_f - d\, \dot\phi + A \cdot v .

Both sides of a face have the same quadrature points, so that only pairs are coupled. D and d are the damping of
absorbing sides. Both terms with A together do no work: with the mean of v and phi' before and after the step, as in
`damp`, the discrete energy of the coupled system is that of its parts, and the stable time step is theirs.

In an absorbing layer both are divided by the stretching S of the momenta. The area vector in stretched coordinates is
A_i S / s_i. Divided by S it is A, if the normal is perpendicular to the active axes, as on interfaces that a layer
continues; others are refused. The change of the momenta by the coupling is therefore not stretched: it is kept apart
from the part that is.

**Points of fluid and solid elements: numbered separately, and paired on the interfaces between the media.** Fluid
elements are numbered as if they had vertices of their own, so that the same place on an interface has a point in each
medium. Both are needed to couple them: a rank whose elements are in one medium only also gets the points of the other,
without elements, as points that it shares with another rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import FACES, number_points, shared_count
from lithowave.mesh.shared import (
    CORNERS_OF,
    NOTHING,
    Entities,
    SharedPoints,
    boundary_entities,
    entity_point_numbers,
    shared_entities,
    shared_points,
)
from lithowave.parallel.ranks import collective_call
from lithowave.physics import TENSOR_PAIRS, stiffness_tensor, tensor_components
from lithowave.solvers.spectral_element.element_statistics import point_masses
from lithowave.solvers.spectral_element.gll import gll_points, gll_weights, shape_derivatives
from lithowave.solvers.spectral_element.layers import DAMPED, active_axes

if TYPE_CHECKING:
    from collections.abc import Callable

    from lithowave.backends.interface import Array, Backend
    from lithowave.parallel.ranks import Ranks
    from lithowave.solvers.common.arrays import ArrayTable
    from lithowave.solvers.interface import Schedule
    from lithowave.solvers.spectral_element.element_statistics import ElementStatistics
    from lithowave.solvers.spectral_element.layers import AbsorbingLayer, Stretching
    from lithowave.solvers.spectral_element.materials import ElementMaterials

PART = 1024  # faces that are integrated at a time


class NumberedPlan(Protocol):
    """What the parts of a solver use of a `SpectralElementPlan`."""

    @property
    def mesh(self) -> HexahedralMesh: ...
    @property
    def degree(self) -> int: ...
    @property
    def numbers(self) -> np.ndarray: ...
    @property
    def total_points(self) -> int: ...
    @property
    def element_count(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def coefficients(self) -> np.ndarray: ...
    @property
    def materials(self) -> ElementMaterials: ...
    @property
    def faces(self) -> dict[str, np.ndarray]: ...
    @property
    def layer(self) -> AbsorbingLayer | None: ...
    @property
    def layer_masks(self) -> np.ndarray: ...
    @property
    def stretching(self) -> Stretching: ...
    @property
    def coupled(self) -> np.ndarray: ...
    @property
    def element_statistics(self) -> ElementStatistics: ...
    @property
    def schedule(self) -> Schedule: ...
    @property
    def ranks(self) -> Ranks: ...
    @property
    def border(self) -> SharedPoints: ...
    @property
    def interface(self) -> Interface: ...
    @property
    def moves(self) -> np.ndarray: ...
    @property
    def bounds(self) -> tuple[tuple[float, float], ...] | None: ...
    @property
    def has_fluids(self) -> bool: ...
    @property
    def damped_point_count(self) -> int: ...
    @property
    def shared(self) -> int: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def mechanisms(self) -> int: ...
    def axes_at(self, positions: np.ndarray) -> np.ndarray | None: ...
    def in_mesh(self, positions: np.ndarray) -> np.ndarray: ...
    def in_layer(self, positions: np.ndarray, margins: bool = False) -> np.ndarray: ...
    def slowest(self, some: slice | np.ndarray) -> np.ndarray: ...
    def fastest(self, some: slice | np.ndarray) -> np.ndarray: ...
    def layer_friction(self, elements: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Damping:
    """Points whose motion is damped, each once and in ascending order, and the symmetric matrices G = dt / 2 M^-1 C as
    (points, 6): xx, yy, zz, xy, xz, yz."""

    point: np.ndarray
    matrix: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """Return the matrices (n, 6) at some points, 0 where the motion is not damped."""
        found = np.zeros((len(points), len(TENSOR_PAIRS)))
        place = np.searchsorted(self.point, points)
        known = place < len(self.point)
        known[known] = self.point[place[known]] == points[known]
        found[known] = self.matrix[place[known]]
        return found

    def kernel_matrix(self) -> np.ndarray:
        """Return B = (1 + G)^-1 in the same form, by cofactors."""
        (x, y, z), (u, v, w) = 1.0 + self.matrix[:, :3].T, self.matrix[:, 3:].T
        inverse = np.stack(
            [y * z - w * w, x * z - v * v, x * y - u * u, v * w - u * z, u * w - v * y, u * v - w * x], axis=1
        )
        determinant = x * inverse[:, 0] + u * inverse[:, 3] + v * inverse[:, 4]
        return inverse / determinant[:, None]


def face_places(face: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices (k, j, i) of the points of a local face (n * n, 3), and the weights of its quadrature."""
    axis, high = divmod(face, 2)
    n = degree + 1
    a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    places = np.empty((n * n, 3), np.int64)
    others = [other for other in range(3) if other != axis]
    places[:, 2 - axis] = high * degree
    places[:, 2 - others[0]], places[:, 2 - others[1]] = a.ravel(), b.ravel()
    weights = gll_weights(degree)
    return places, (weights[:, None] * weights).ravel()


def face_areas(nodes: np.ndarray, face: int, degree: int) -> np.ndarray:
    """Return outward normal times quadrature area (elements, points, 3), m^2, at the points of a face of elements."""
    places, weights = face_places(face, degree)
    reference = gll_points(degree)[places[:, ::-1]]
    slopes = shape_derivatives(reference, nodes.shape[1])  # (points, 3, count)
    axis, high = divmod(face, 2)
    first, second = ((nodes.transpose(0, 2, 1) @ slopes[:, (axis + step) % 3].T).transpose(0, 2, 1) for step in (1, 2))
    return np.cross(first, second) * (weights[:, None] * (1 if high else -1))


def impedances(stiffness: np.ndarray, rho: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return Z (..., 3, 3), kg/(m^2 s). stiffness (..., 6, 6) in Pa, rho (...), unit normals (..., 3)."""
    christoffel = np.einsum("...ijkl,...j,...l->...ik", stiffness_tensor(stiffness), normal, normal)
    values, vectors = np.linalg.eigh(christoffel * rho[..., None, None])
    return np.einsum("...ia,...a,...ka->...ik", vectors, np.sqrt(np.maximum(values, 0)), vectors)


def isotropic_impedances(vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return rho (vp n n + vs (1 - n n)), shape (..., 3, 3)."""
    along = normal[..., :, None] * normal[..., None, :]
    return (rho * (vp - vs))[..., None, None] * along + (rho * vs)[..., None, None] * np.eye(3)


def face_points(numbers: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the indices of the points on faces (element, local face); shared points occur several times."""
    degree, found = numbers.shape[1] - 1, [np.zeros(0, np.int64)]
    for face in range(len(FACES)):
        elements = faces[faces[:, 1] == face, 0]
        k, j, i = face_places(face, degree)[0].T
        found.append(numbers[elements[:, None], k, j, i].ravel())
    return np.concatenate(found)


def absorbing_matrices(
    mesh: HexahedralMesh, numbers: np.ndarray, faces: np.ndarray, impedance: Callable[..., np.ndarray]
) -> Damping:
    """Return the sum of Z dA over the faces that meet at each point: C of the damping, kg/s.

    impedance : function (elements, point indices (points, 3) as k, j, i, unit normals) -> Z (elements, points, 3, 3).
    """
    degree = numbers.shape[1] - 1
    points, matrices = [np.zeros(0, np.int64)], [np.zeros((0, len(TENSOR_PAIRS)))]
    for face in range(len(FACES)):
        members = faces[faces[:, 1] == face, 0]
        places, _ = face_places(face, degree)

        def integrate(
            part: slice, face: int = face, members: np.ndarray = members, places: np.ndarray = places
        ) -> tuple[np.ndarray, np.ndarray]:
            some = members[part]
            area = face_areas(mesh.element_nodes(some), face, degree)
            size = np.linalg.norm(area, axis=-1)
            z = impedance(some, places, area / size[..., None])
            matrix = tensor_components(z * size[..., None, None])
            return numbers[some[:, None], *places.T].ravel(), matrix.reshape(-1, len(TENSOR_PAIRS))

        for point, matrix in over_parts(integrate, len(members), PART):
            points.append(point)
            matrices.append(matrix)
    every, flat = np.concatenate(points), np.concatenate(matrices)
    damped = np.zeros(every.max(initial=-1) + 1, bool)
    damped[every] = True
    point = np.flatnonzero(damped)
    total = np.empty((len(point), len(TENSOR_PAIRS)))
    place = np.empty(len(every), np.int64)

    def find(part: slice) -> None:
        place[part] = np.searchsorted(point, every[part])

    def add(part: slice) -> None:
        for column in range(part.start, part.stop):
            total[:, column] = np.bincount(place, flat[:, column], len(point))

    over_parts(find, len(every), 16 * PART)
    over_parts(add, len(TENSOR_PAIRS), 1)
    return Damping(point, total)


def coupling_matrices(plan: NumberedPlan, damping: Damping) -> np.ndarray:
    """Return E = (1 + G)^-1 - 1 (pairs, 4, 4), G = dt / 2 C M^-1, of the pairs of a plan.

    damping : that of all points, see `media.make_damping`.
    """
    interface, mass = plan.interface, plan.element_statistics.mass
    half, free = 0.5 * plan.schedule.time_step, plan.moves
    found = np.zeros((len(interface.fluid), 4, 4))
    rates = [free[points] / mass[points] for points in (interface.solid, interface.fluid)]
    found[:, :3, 3] = half * interface.area * rates[1][:, None]
    found[:, 3, :3] = -half * interface.area * rates[0][:, None]
    solid, fluid = damping.at(interface.solid), damping.at(interface.fluid)
    for number, (a, b) in enumerate(TENSOR_PAIRS):
        found[:, a, b] = found[:, b, a] = solid[:, number]
    found[:, 3, 3] = fluid[:, 0]
    return -np.linalg.solve(np.eye(4) + found, found)


PAIRS = ("pairs", "layer_pairs")  # outside and inside of an absorbing layer, also in a checkpoint


@dataclass(frozen=True)
class CoupledPairs:
    """Pairs of points on a device: arrays of the kernels `uncouple` and `couple` (see `arguments`).

    fluid_points : indices of the fluid points on the host.
    """

    fluid_points: np.ndarray
    history: Array
    coupled: Array
    solid: Array
    fluid: Array
    matrix: Array

    @staticmethod
    def add_to(table: ArrayTable, layer: bool, count: int) -> None:
        """State the arrays of this many pairs. layer : whether they are in an absorbing layer."""
        name = PAIRS[layer]
        for part, shape in (("history", (count, 4)), ("coupled", (count * layer, 4)), ("matrix", (count, 4, 4))):
            table.add(f"{name}/{part}", "coupling", shape)
        for part in ("solid", "fluid"):
            table.add(f"{name}/{part}", "coupling", count, np.int64)

    @classmethod
    def allocate(
        cls, backend: Backend, table: ArrayTable, interface: Interface, matrices: np.ndarray, some: np.ndarray,
        layer: bool,
    ) -> CoupledPairs:  # fmt: skip
        """Return some of the pairs, at rest."""
        name = PAIRS[layer]
        history, coupled = (table.zeros(backend, f"{name}/{part}") for part in ("history", "coupled"))
        values = {"solid": interface.solid[some], "fluid": interface.fluid[some], "matrix": matrices[some]}
        uploaded = (table.upload(backend, f"{name}/{part}", array) for part, array in values.items())
        return cls(interface.fluid[some], history, coupled, *uploaded)

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.fluid_points)

    def freeze(self, backend: Backend) -> Callable[[], np.ndarray]:
        """Return a function of the state of each pair: p before, and in a layer the part of the coupling, (pairs, 4 or
        8)."""
        parts = [backend.freeze(one) for one in (self.history, self.coupled) if one is self.history or one.size]
        return lambda: np.concatenate([part.wait()[: self.count] for part in parts], axis=1)

    def restore(self, backend: Backend, values: np.ndarray) -> None:
        """Set the state from that of `freeze`."""
        if self.count:
            backend.assign(self.history, np.ascontiguousarray(values[:, :4]))
        if self.coupled.size:
            backend.assign(self.coupled, np.ascontiguousarray(values[:, 4:]))


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


def number_media(mesh: HexahedralMesh, fluid: np.ndarray, degree: int, ranks: Ranks) -> NumberedPoints:
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


def with_separate_vertices(mesh: HexahedralMesh, fluid: np.ndarray, ranks: Ranks) -> tuple[HexahedralMesh, int]:
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
    """Return the keys (n, 4) of corners, edges and faces in the other medium; see `shared.Entities`."""
    return np.where(keys == NOTHING, NOTHING, np.where(keys < offset, keys + offset, keys - offset))


def partners(keys: np.ndarray, offset: int) -> np.ndarray:
    """Return for each of the distinct keys (n, 4) the row of the same entity in the other medium; -1 if there is none.
    """
    _, place = np.unique(np.concatenate([keys, partner_keys(keys, offset)]), axis=0, return_inverse=True)
    place = place.reshape(2, -1)
    row = np.full(place.max(initial=0) + 1, -1)
    row[place[0]] = np.arange(len(keys))
    return row[place[1]]


def with_partners(entities: Entities, offset: int, ranks: Ranks) -> tuple[Entities, dict[int, np.ndarray]]:
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
    border: SharedPoints, ranks: Ranks,
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


def refuse_oblique_interfaces(mesh: HexahedralMesh, points: NumberedPoints, masks: np.ndarray, ranks: Ranks) -> None:
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


NO_BEGINNINGS = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3))


def make_damping(plan: NumberedPlan) -> Damping:
    """Return G = dt / 2 M^-1 C at the points of absorbing faces; a layer has none, but ends at points at rest.

    On the faces of a fluid, v . n = P / (rho c): C of its points has the component xx only, the area over rho c.
    """

    def impedance(elements: np.ndarray, places: np.ndarray, normal: np.ndarray) -> np.ndarray:
        stiffness, rho = plan.materials.at(elements, places)
        if plan.materials.anisotropic.any():
            found = impedances(stiffness, rho, normal)
        else:
            found = isotropic_impedances(
                np.sqrt(stiffness[..., 0, 0] / rho), np.sqrt(stiffness[..., 5, 5] / rho), rho, normal
            )
        fluid = plan.materials.is_fluid[elements]
        found[fluid] = 0.0  # its only component is that of the potential
        found[fluid, :, 0, 0] = 1.0 / np.sqrt(stiffness[fluid, :, 0, 0] * rho[fluid])
        return found

    if plan.layer is not None:
        return Damping(np.zeros(0, np.int64), np.zeros((0, 6)))
    sides = absorbing_matrices(plan.mesh, plan.numbers, plan.faces["absorbing"], impedance)
    sides = _of_all_ranks(sides, plan)
    half = 0.5 * plan.schedule.time_step
    return Damping(sides.point, half * sides.matrix / plan.element_statistics.mass[sides.point, None])


def _of_all_ranks(damping: Damping, plan: NumberedPlan) -> Damping:
    """Add the contributions of other ranks at shared points: a face may belong only to another rank."""
    if plan.ranks.size == 1:
        return damping
    full = np.zeros((plan.total_points, damping.matrix.shape[1]))
    full[damping.point] = damping.matrix
    plan.border.combine(full, plan.ranks)
    point = np.union1d(damping.point, plan.border.points[full[plan.border.points].any(axis=1)])
    return Damping(point, full[point])


@dataclass(frozen=True)
class LayerPoints:
    """Points at which absorbing layers along the same number of axes begin.

    point : indices. filters : (points, axes, 3), b, a, c of the means of the stretching.
    """

    point: np.ndarray
    filters: np.ndarray

    @property
    def name(self) -> str:
        """Name of their arrays, also in a checkpoint."""
        return f"layer_points_{self.filters.shape[1]}"


def layer_points(plan: NumberedPlan) -> list[LayerPoints]:
    """Return the points at which layers along one, two and three axes begin (collective call).

    Elsewhere all elements of a point have the same stretching, by which they divide their forces.
    """
    if plan.layer is None:
        return []
    members = np.flatnonzero(plan.layer_masks)
    chosen, kind = plan.stretching.representatives(members)
    filters, begins = plan.stretching.filters(chosen), plan.stretching.begins(chosen)
    beginning = begins.any(axis=(1, 2, 3, 4))[kind]
    members, kind = members[beginning], kind[beginning]

    def beginnings(part: slice) -> tuple[np.ndarray, ...]:
        some, own = members[part], kind[part]
        *place, axis = np.nonzero(begins[own])
        mass = point_masses(plan.coefficients[some], plan.materials.inertia(some), plan.degree)
        mass = mass.reshape(len(some), *plan.numbers.shape[1:])[*place]
        return plan.numbers[some][*place], axis, mass, filters[own[place[0]], *place[1:], axis]

    parts = over_parts(beginnings, len(members), PART)
    point, axis, mass, values = map(np.concatenate, zip(*parts, strict=True)) if parts else NO_BEGINNINGS
    # The elements of a shared point that are in the layer may all belong to another rank.
    points, slot = np.unique(np.concatenate([point, plan.border.points]), return_inverse=True)
    rows, size = 3 * slot[: len(point)] + axis, 3 * len(points)
    # b and c of the mean of s, weighted by masses; the domain has b = 1 and c = 0.
    means = [np.bincount(rows, mass * part, size) for part in (values[:, 0] - 1.0, values[:, 2])]
    both, shift = np.stack(means, axis=-1).reshape(-1, 3, 2), np.zeros(size)
    np.maximum.at(shift, rows, values[:, 1])
    both, shift = both / plan.element_statistics.mass[points, None, None], shift.reshape(-1, 3)
    border = plan.border.within(points)
    border.combine(both, plan.ranks)
    border.combine(shift, plan.ranks, np.maximum)
    sums = np.stack([both[..., 0] + 1.0, shift, both[..., 1]], axis=-1)
    active = sums[..., 2] > 0
    count, found = active.sum(axis=1), []
    for axes in (1, 2, 3):
        some = np.flatnonzero(count == axes)
        found.append(LayerPoints(points[some], sums[some][active[some]].reshape(len(some), axes, 3)))
    return found


@dataclass(frozen=True)
class LayerMemory:
    """Points with the same number of filters, and the arrays of `unstretch` (see `arguments`).

    numbers : indices of the points, on the host; point : the same on the device.
    """

    numbers: np.ndarray
    stretched: Array
    memory: Array
    point: Array
    filters: Array

    @staticmethod
    def add_to(table: ArrayTable, points: LayerPoints) -> None:
        """State the arrays of these points."""
        count, axes, _ = points.filters.shape
        name = points.name
        for part, shape in (("stretched", (count, 3)), ("memory", (count, axes, 3)), ("filters", (count, axes, 3))):
            table.add(f"{name}/{part}", "layer", shape)
        table.add(f"{name}/point", "layer", count, np.int64)

    @classmethod
    def allocate(cls, backend: Backend, table: ArrayTable, points: LayerPoints) -> LayerMemory:
        """Return zero memory variables on the device of a backend."""
        stretched, memory = (table.zeros(backend, f"{points.name}/{part}") for part in ("stretched", "memory"))
        values = {"point": points.point, "filters": points.filters}
        uploaded = (table.upload(backend, f"{points.name}/{part}", array) for part, array in values.items())
        return cls(points.point, stretched, memory, *uploaded)

    def arguments(self) -> tuple[object, ...]:
        """Return the arguments of `unstretch` after the momentum."""
        return self.stretched, self.memory, self.point, self.filters

    def freeze(self, backend: Backend) -> Callable[[], np.ndarray]:
        """Return a function of the variables of each point, (points, 3 + 3 filters)."""
        stretched, memory = backend.freeze(self.stretched), backend.freeze(self.memory)
        rows, columns = memory.shape[0], memory.shape[1] * memory.shape[2]
        return lambda: np.concatenate([stretched.wait(), memory.wait().reshape(rows, columns)], axis=1)

    def restore(self, backend: Backend, values: np.ndarray) -> None:
        """Set the variables from those of `freeze`."""
        if len(self.numbers):
            backend.assign(self.stretched, np.ascontiguousarray(values[:, :3]))
            backend.assign(self.memory, np.ascontiguousarray(values[:, 3:]).reshape(self.memory.shape))
