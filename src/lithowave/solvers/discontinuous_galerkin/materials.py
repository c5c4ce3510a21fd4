r"""Materials of the elements, one per element.

**Memory layout of elements: in blocks that a device processes in parallel, by kind and by cluster.** Elements that use
the same kernel are contiguous: isotropic ones, and those that are anisotropic or have an anisotropic neighbor; among
each those in the domain, and those in an absorbing layer; among each of these elastic ones, and those with attenuation;
among each of these those whose neighbors are all in the same cluster, those that also have neighbors with longer steps,
and those that have neighbors with shorter steps; and among these the outer elements, for which other ranks wait, before
the inner ones. In each of these groups they are sorted by cluster, so that at any time those whose step begins are the
first blocks of the group.

**Exact solution of the Riemann problem at the faces, for any two elastic or fluid media.** At a face with unit normal
n, outward from an element (-) to its neighbor (+), traction t = sigma n and velocity v jump to t*, v*. Waves that leave
the face on either side have t* - t^- = Z^- (v* - v^-) and t* - t^+ = -Z^+ (v* - v^+) with the impedances

.. math::
    Z(n) = \rho\,\Gamma^{1/2}, \quad \Gamma_{ik} = C_{ijkl} n_j n_l / \rho; \qquad
    Z = Z_s + (Z_p - Z_s)\, n n^T, \; Z_p = \sqrt{(\lambda + 2\mu)\rho}, \; Z_s = \sqrt{\mu\rho}

of an isotropic medium. With w = t^+ + Z^+ v^+, which the neighbor sends, and u = t^- + Z^+ v^-,

.. math::
    v^* - v^- = (Z^- + Z^+)^{-1} (w - u), \qquad t^* - t^- = Z^- (v^* - v^-).

A fluid has Z_s = 0, and if this holds on both sides the tangential velocities are independent: the inverse is that of
the normal part only. A free surface is a neighbor with Z^+ = 0 that sends zeros, an absorbing face one with Z^+ = Z^-
(which is exact for waves along its normal), a rigid one has a Z^+ beyond the floating-point resolution.

Toro (2009), Riemann Solvers and Numerical Methods for Fluid Dynamics, section 2.3, for linear systems; Käser & Dumbser
(2006), GJI 166, 855-877, for the waves of isotropic media.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.mesh.shared import SharedFaces
from lithowave.physics import SWAPPED, TENSOR_INDEX, isotropic_stiffness, lame_moduli
from lithowave.rheology import RelaxationBody

# Quantities of an element: stress in this order, then velocity x, y, z.
STRESS = ("xx", "yy", "zz", "xy", "xz", "yz")
STRESSES, VELOCITIES = len(STRESS), 3
QUANTITIES = STRESSES + VELOCITIES


@dataclass(frozen=True)
class ElementMaterials:
    """Materials of the elements.

    lam, mu : Lame's moduli (elements,), Pa; mu = 0 in a fluid; unused if an element is anisotropic. rho : (elements,),
    kg/m^3. number : (elements,), row of `stiffness`, or -1 if the element is isotropic. stiffness : (materials, 6, 6),
    Pa, in Voigt's order. fastest, slowest : phase velocities of each row of `stiffness` times the root of its density,
    that is (materials,), Pa^(1/2). With attenuation, all moduli are unrelaxed ones; body : relaxation mechanisms, and
    inverse_quality : 1/Qkappa and 1/Qmu of this rank's elements (elements, 2); else None.
    """

    lam: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    number: np.ndarray
    stiffness: np.ndarray
    fastest: np.ndarray
    slowest: np.ndarray
    body: RelaxationBody | None = None
    inverse_quality: np.ndarray | None = None

    @classmethod
    def isotropic(cls, vp: np.ndarray, vs: np.ndarray, rho: np.ndarray) -> ElementMaterials:
        """Return materials from wave velocities, m/s, and densities, kg/m^3, of every element."""
        vp, vs, rho = (np.asarray(values, float) for values in (vp, vs, rho))
        none = np.zeros(0)
        return cls(*lame_moduli(vp, vs, rho), rho, np.full(len(rho), -1), np.zeros((0, 6, 6)), none, none)

    @property
    def anisotropic(self) -> np.ndarray:
        """True for anisotropic elements (elements,)."""
        return self.number >= 0

    @property
    def is_fluid(self) -> np.ndarray:
        """True for elements without shear stress (elements,)."""
        return (self.mu == 0) & (self.number < 0)

    @cached_property
    def fastest_speed(self) -> np.ndarray:
        """Velocity of the fastest wave in each element, m/s."""
        modulus = np.sqrt(self.lam + 2 * self.mu)
        modulus[self.anisotropic] = self.fastest[self.number[self.anisotropic]]
        return modulus / np.sqrt(self.rho)

    @cached_property
    def slowest_speed(self) -> np.ndarray:
        """Velocity of the slowest wave in each element, m/s: in a fluid there is only one."""
        modulus = np.sqrt(np.where(self.mu > 0, self.mu, self.lam))
        modulus[self.anisotropic] = self.slowest[self.number[self.anisotropic]]
        return modulus / np.sqrt(self.rho)

    def mechanisms(self, count: int) -> np.ndarray:
        """Return the number of relaxation mechanisms of each of the first `count` elements, those of this rank."""
        if self.body is None or self.inverse_quality is None:
            return np.zeros(count, np.int64)
        return self.body.mechanisms * (self.inverse_quality > 0.0).any(axis=1)

    def reordered(self, order: np.ndarray) -> ElementMaterials:
        """Return the materials of the elements `order`."""
        changed = {name: getattr(self, name)[order] for name in ("lam", "mu", "rho", "number")}
        losses = None if self.inverse_quality is None else self.inverse_quality[order]
        return replace(self, inverse_quality=losses, **changed)

    def with_ghosts(self, shared: SharedFaces) -> ElementMaterials:
        """Append the materials of the elements across shared faces; stiffnesses are the same on all ranks."""
        changed = {name: shared.with_ghosts(getattr(self, name)) for name in ("lam", "mu", "rho", "number")}
        return replace(self, **changed)

    def matrix(self, elements: np.ndarray) -> np.ndarray:
        """Return the stiffness (n, 6, 6) of some elements, Pa, in the order of `STRESS`."""
        lam, mu, number = self.lam[elements], self.mu[elements], self.number[elements]
        found = isotropic_stiffness(lam, mu)
        there = number >= 0
        found[there] = self.stiffness[number[there]][:, SWAPPED][:, :, SWAPPED]
        return found


LANES = {"single": 16, "double": 8}  # elements of a block on a CPU
GPU_LANES = 32  # and on a GPU: those of a warp
# From this order on, a step on a GPU is two kernels, which process this number of blocks at a time.
SPLIT_ORDERS, SPLIT_BLOCKS = {"single": 7, "double": 6}, 4224
PADDED_NUMBERS = {False: 16, True: 44}  # values of a face on a GPU, padded for alignment

PART = 65_536  # slots that a thread links at a time

# Step of an element's neighbor at a face: as often, half as often, twice as often. Of an element: FASTER if any of its
# neighbors is, else SLOWER if any is.
ALIKE, SLOWER, FASTER = 0, 1, 2


@dataclass(frozen=True)
class BlockLayout:
    """Arrangement of the values of blocks on a device.

    lanes : elements in a block. mode_major : True for coefficients [block, mode, quantity, lane], as on a CPU; on a GPU
    [block, quantity, mode, lane].
    """

    lanes: int
    mode_major: bool

    def trace_width(self, face_modes: int) -> int:
        """Return the number of values stored for a component of a trace."""
        return -(-face_modes // 4) * 4

    def packed(self, values: np.ndarray) -> np.ndarray:
        """Arrange values (slots, c) of elements as (blocks, c, lanes)."""
        return np.ascontiguousarray(values.reshape(-1, self.lanes, values.shape[1]).swapaxes(1, 2))

    def coefficients(self, blocks: int, modes: int, quantities: int = QUANTITIES) -> tuple[int, int, int, int]:
        """Return the shape of the coefficients of this many blocks."""
        return (blocks, *((modes, quantities) if self.mode_major else (quantities, modes)), self.lanes)

    def own_index(self, place: int, face: int, face_modes: int) -> np.ndarray:
        """Return indices (3, face modes) in the flattened stored traces; see `kernels` for a CPU."""
        width = self.trace_width(face_modes)
        component, mode = np.arange(3)[:, None], np.arange(face_modes)
        if not self.mode_major:
            return ((4 * place + face) * 3 + component) * width + mode
        block, lane = divmod(place, self.lanes)
        return ((block * 4 + face) * 3 * width + component * face_modes + mode) * self.lanes + lane

    def of_host(self, values: np.ndarray) -> np.ndarray:
        """Arrange coefficients (blocks * lanes, quantities, modes) as on the device."""
        split = values.reshape(-1, self.lanes, *values.shape[1:])
        return np.ascontiguousarray(split.transpose(0, 3, 2, 1) if self.mode_major else split.transpose(0, 2, 3, 1))

    def to_host(self, values: np.ndarray) -> np.ndarray:
        """Invert `of_host`."""
        split = values.transpose(0, 3, 2, 1) if self.mode_major else values.transpose(0, 3, 1, 2)
        return split.reshape(-1, *split.shape[2:])


@dataclass(frozen=True)
class Group:
    """Blocks that use the same kernel.

    first. ends : end of each cluster's blocks, (clusters,). anisotropic : itself or a neighbor. layer : in an absorbing
    layer. mechanisms : of attenuation. mixed : ALIKE, SLOWER or FASTER. outer : a neighbor is on another rank.
    """

    first: int
    ends: tuple[int, ...]
    anisotropic: bool
    layer: bool
    mechanisms: int
    mixed: int
    outer: bool = False

    @property
    def kind(self) -> tuple[bool, bool, int]:
        """Anisotropic, in a layer, and mechanisms: blocks with the same coefficients."""
        return self.anisotropic, self.layer, self.mechanisms

    @property
    def variant(self) -> tuple[bool, int, bool, int]:
        """Anisotropic, mixed, in a layer, and mechanisms: blocks with the same kernel."""
        return self.anisotropic, self.mixed, self.layer, self.mechanisms

    @property
    def end(self) -> int:
        """Index after the last block."""
        return self.ends[-1]


@dataclass(frozen=True)
class ElementLayout:
    """Slots of the elements.

    slots : element in each slot, -1 for none. place : slot of each element. groups. block_cluster : cluster of each
    block.
    """

    layout: BlockLayout
    slots: np.ndarray
    place: np.ndarray
    groups: tuple[Group, ...]
    block_cluster: np.ndarray

    @property
    def block_count(self) -> int:
        """Blocks of all groups."""
        return len(self.block_cluster)

    def of_elements(self, values: np.ndarray, some: slice = slice(None)) -> np.ndarray:
        """Return values of elements (elements, ...) in the slots `some`; 0 for an empty slot."""
        slots = self.slots[some]
        found = values[np.maximum(slots, 0)]
        found[slots < 0] = 0
        return found


def make_arrangement(
    layout: BlockLayout, cluster: np.ndarray, neighbors: np.ndarray, anisotropic: np.ndarray, clusters: int = 1,
    layer: np.ndarray | None = None, mechanisms: np.ndarray | None = None,
) -> ElementLayout:  # fmt: skip
    """Assign slots to elements; those in each group and cluster retain their order.

    neighbors : (elements, 4), -1 for none; those of other ranks have indices after the own elements. cluster,
    anisotropic : of each element, those of other ranks included. clusters : minimum number of clusters.
    layer : True for own elements of an absorbing layer; None for no layer. mechanisms : of attenuation of own elements;
    None for elastic ones.
    """
    there, elements = neighbors >= 0, len(neighbors)
    relaxing = np.zeros(elements, np.int64) if mechanisms is None else mechanisms
    layered = np.zeros(elements, bool) if layer is None else layer
    own_cluster = cluster[:elements]
    kind, count = np.empty(elements, np.uint16), max(clusters, int(cluster.max(initial=0)) + 1)
    amounts = np.unique(relaxing)

    def examine(part: slice) -> None:
        some, across = there[part], neighbors[part]
        near = anisotropic[:elements][part] | (some & anisotropic[across]).any(axis=1)
        further = np.where(some, cluster[across] - own_cluster[part, None], 0)
        mixed = np.select([(further < 0).any(axis=1), (further > 0).any(axis=1)], [FASTER, SLOWER], ALIKE)
        inner = (across < elements).all(axis=1)
        parts = near, layered[part], np.searchsorted(amounts, relaxing[part]), mixed, inner
        kind[part] = np.ravel_multi_index(tuple(value.astype(np.int64) for value in parts), sizes)

    sizes = 2, 2, len(amounts), 3, 2
    over_parts(examine, elements, PART)
    groups, slots, clusters_of_blocks, blocks = [], [], [], 0
    # Of 16 bits, a stable sort takes time in proportion to the number of elements.
    code = kind * np.uint16(count) + own_cluster.astype(np.uint16)
    order = np.argsort(code, kind="stable")
    ends_of = np.cumsum(np.bincount(code, minlength=math.prod(sizes) * count)).reshape(-1, count)
    for number, last in enumerate(ends_of):
        begin = ends_of[number - 1, -1] if number else 0
        if begin == last[-1]:
            continue
        first, ends = blocks, []
        for c in range(count):
            own, begin = order[begin : last[c]], last[c]
            own = np.append(own, np.full(-len(own) % layout.lanes, -1))
            slots.append(own)
            blocks += len(own) // layout.lanes
            clusters_of_blocks.append(np.full(len(own) // layout.lanes, c, np.int32))
            ends.append(blocks)
        near, layered_too, amount, mixed, inner = (int(one) for one in np.unravel_index(number, sizes))
        groups.append(
            Group(first, tuple(ends), bool(near), bool(layered_too), int(amounts[amount]), mixed, not inner)
        )
    joined = np.concatenate(slots)
    place = np.empty(elements, np.int64)
    place[joined[joined >= 0]] = np.flatnonzero(joined >= 0)
    return ElementLayout(layout, joined, place, tuple(groups), np.concatenate(clusters_of_blocks))


@dataclass(frozen=True)
class Links:
    """Slots from which the faces of elements read their neighbors' traces; a slot holds one trace.

    neighbor : (element slots, 4), slot that the neighbor at a face writes; the slot of zeros without a neighbor. second
    : (element slots, 4), 4 times the slot of a second half plus the step of the neighbor: if it steps faster, this
    element writes there the trace of the second half of its step; if it steps slower, the neighbor does. Traces
    received from other ranks have separate slots. slots : number of slots, including the slot of zeros, which is the
    last one.
    """

    neighbor: np.ndarray
    second: np.ndarray
    slots: int


def make_links(arrangement: ElementLayout, cluster: np.ndarray, neighbors: np.ndarray) -> Links:
    """Return links. neighbors : (elements, 4), 4 x neighbor + its local face, -1 for none; cluster : of each."""
    slots, elements = arrangement.slots, len(arrangement.place)
    remote = len(cluster) - elements
    neighbor, relation = np.empty((len(slots), 4), np.int64), np.empty((len(slots), 4), np.int64)
    lists = slots, arrangement.place, cluster, neighbors, neighbor, relation
    over_parts(lambda part: link_slots(part.start, part.stop, *lists), len(slots), PART)
    # Slots: all faces of all elements; second halves; faces across shared ones, and their second halves.
    faster, slower = relation == FASTER, relation == SLOWER
    writers = np.flatnonzero(faster)
    first_remote = 4 * len(slots) + len(writers)
    far = neighbor >= 4 * len(slots)
    neighbor[far] += len(writers)
    halves = np.full(first_remote + remote, -1, np.int64)
    halves[writers] = 4 * len(slots) + np.arange(len(writers))
    readers = np.unique(neighbor[far & slower])
    halves[readers] = first_remote + remote + np.arange(len(readers))
    last = first_remote + remote + len(readers)
    second = relation.copy()
    second.ravel()[writers] += 4 * halves[writers]
    second[slower] += 4 * halves[neighbor[slower]]
    neighbor[neighbor < 0] = last
    return Links(neighbor, second, last + 1)


@exact_part
def link_slots(first, end, slots, place, cluster, neighbors, neighbor, relation):  # pragma: no cover - compiled
    """Compute for some slots the slots that the neighbors write, -1 for none, and how often they step; the elements of
    other ranks follow all slots of this rank."""
    for slot in range(first, end):
        element = slots[slot]
        for face in range(4):
            across = neighbors[element, face] if element >= 0 else -1
            neighbor[slot, face], relation[slot, face] = -1, ALIKE
            if across >= 0:
                other = across // 4
                if other < len(place):
                    neighbor[slot, face] = 4 * place[other] + across % 4
                else:
                    neighbor[slot, face] = 4 * len(slots) + other - len(place)
                if cluster[other] > cluster[element]:
                    relation[slot, face] = SLOWER
                elif cluster[other] < cluster[element]:
                    relation[slot, face] = FASTER


def device_layout(device: str, precision: str) -> BlockLayout:
    """Return the layout of the blocks of a device: ``cpu`` or ``cuda``."""
    if device == "cpu":
        return BlockLayout(LANES[precision], mode_major=True)
    return BlockLayout(GPU_LANES, mode_major=False)


FREE, ABSORBING, RIGID = -1, -2, -3  # instead of a neighbor
KINDS = {"free": FREE, "absorbing": ABSORBING, "rigid": RIGID}

# Coefficients of a face: normal, 1 / (Zs + Zs'), 1 / (Zp + Zp') less that; 0, S lambda, S mu; S Zs / rho, S (Zp - Zs) /
# rho, Zs', Zp' - Zs'; Zs, Zp - Zs, with S = time step * area / (3 volume).
ISOTROPIC_NUMBERS = 14
# Coefficients of a face next to anisotropic elements: flux of a jump w - u to the nine quantities (9, 3), times S;
# normal; Z and Z' (xx, yy, zz, xy, xz, yz).
ANISOTROPIC_NUMBERS = 3 * QUANTITIES + 3 + 6 + 6
FACE_NUMBERS = {False: ISOTROPIC_NUMBERS, True: ANISOTROPIC_NUMBERS}  # of isotropic and of anisotropic elements
# Coefficients of an elastic law: d xi_c / d x_i (3, 3), lambda, mu, 1 / rho; or `elastic_matrices`.
ISOTROPIC_LAW, ANISOTROPIC_LAW = 9 + 3, QUANTITIES * 9
LAW_NUMBERS = {False: ISOTROPIC_LAW, True: ANISOTROPIC_LAW}
JUMP = 3 * QUANTITIES  # coefficients of the flux of a jump to the nine quantities
# Further coefficients in an absorbing layer, see `layer`: gains along x, y, z, or with these gains the law (see
# `elastic_matrices`) and the fluxes of the jumps at the four faces; decay of the memory variables; damping.
LAYER_NUMBERS = {False: 3 + 1 + 1, True: ANISOTROPIC_LAW + 4 * JUMP + 1 + 1}

# Further coefficients of anisotropic elements with attenuation: see `relaxation.isotropic_stresses`.
STRAIN_NUMBERS = STRESSES * (STRESSES + 1)


def law_numbers(anisotropic: bool, layer: bool, mechanisms: int = 0) -> int:
    """Return the number of coefficients of the law of an element, in an absorbing layer or not: of the elastic law, of
    the layer, and of attenuation with a number of relaxation mechanisms (see `relaxation`)."""
    relaxing = 2 * mechanisms + (STRAIN_NUMBERS if anisotropic and mechanisms else 0)
    return LAW_NUMBERS[anisotropic] + layer * LAYER_NUMBERS[anisotropic] + relaxing


def neighbor_impedance(own: np.ndarray, across: np.ndarray, kind: np.ndarray, epsilon: float) -> np.ndarray:
    """Return Z^+ from that of the element, that of its neighbor if there is one, and the kind of the face.

    kind : the neighbor (0 or more), or FREE, ABSORBING, RIGID; has the shape of the impedances, or is broadcast.
    """
    outside = np.select([kind == ABSORBING, kind == RIGID], [own, own / epsilon], 0.0)
    return np.where(kind >= 0, across, outside)


def isotropic_faces(
    materials: ElementMaterials,
    elements: np.ndarray,
    neighbors: np.ndarray,
    normals: np.ndarray,
    scale: np.ndarray,
    epsilon: float,
) -> np.ndarray:
    """Return coefficients of the faces (n, 4, ISOTROPIC_NUMBERS) of some elements.

    neighbors : (n, 4), element or kind of face. normals : (n, 4, 3), outward. scale : S (n, 4), s/m. epsilon : of the
    precision of the run.
    """
    found = np.empty((len(elements), 4, ISOTROPIC_NUMBERS))
    media = materials.lam, materials.mu, materials.rho
    compute_isotropic_faces(elements, neighbors, normals, scale, epsilon, media, found)
    return found


@exact_part
def compute_isotropic_faces(elements, neighbors, normals, scale, epsilon, media, found):  # pragma: no cover - compiled
    """Compute `isotropic_faces`. media : lambda, mu and density of all elements."""
    for n in range(len(elements)):
        lam, mu, rho = media[0][elements[n]], media[1][elements[n]], media[2][elements[n]]
        zp, zs = np.sqrt((lam + 2 * mu) * rho), np.sqrt(mu * rho)
        for face in range(4):
            across, size, numbers = neighbors[n, face], scale[n, face], found[n, face]
            if across >= 0:
                stiff, rigid, heavy = media[0][across], media[1][across], media[2][across]
                zp_across, zs_across = np.sqrt((stiff + 2 * rigid) * heavy), np.sqrt(rigid * heavy)
            elif across == ABSORBING:
                zp_across, zs_across = zp, zs
            elif across == RIGID:
                zp_across, zs_across = zp / epsilon, zs / epsilon
            else:
                zp_across, zs_across = 0.0, 0.0
            p, s = 1.0 / (zp + zp_across), zs + zs_across
            s = 1.0 / s if s > 0 else 0.0
            numbers[:3], numbers[3], numbers[4], numbers[5] = normals[n, face], s, p - s, 0.0
            numbers[6], numbers[7] = size * lam, size * mu
            numbers[8], numbers[9] = size * zs / rho, size * (zp - zs) / rho
            numbers[10], numbers[11], numbers[12], numbers[13] = zs_across, zp_across - zs_across, zs, zp - zs


def impedance_matrices(stiffness: np.ndarray, rho: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return Z(n) (..., 3, 3), kg/(m^2 s), of stiffness (..., 6, 6), ordered as `STRESS`, for normals (..., 3)."""
    tractions = traction_matrices(stiffness, normals)
    christoffel = np.einsum("...iaj,...a->...ij", tractions[..., TENSOR_INDEX, :], normals)
    values, vectors = np.linalg.eigh(christoffel * rho[..., None, None])
    # In a fluid two eigenvalues vanish up to round-off, but the root of round-off is not small.
    values = np.where(values > 1e-12 * values[..., -1:], values, 0.0)
    return np.einsum("...ik,...k,...jk->...ij", vectors, np.sqrt(values), vectors)


def traction_matrices(stiffness: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return C : (n d) for the unit vectors d: (..., 6, 3), Pa; stress in the order of `STRESS`."""
    return np.einsum("...ajl,...l->...aj", stiffness[..., TENSOR_INDEX], normals)


def anisotropic_faces(
    materials: ElementMaterials,
    elements: np.ndarray,
    neighbors: np.ndarray,
    normals: np.ndarray,
    scale: np.ndarray,
    epsilon: float,
) -> np.ndarray:
    """Return coefficients of the faces (n, 4, ANISOTROPIC_NUMBERS) of some elements; see `isotropic_faces`."""
    own, across = both_impedances(materials, elements, neighbors, normals, epsilon)
    rows, columns = np.array([[0, 0], [1, 1], [2, 2], [0, 1], [0, 2], [1, 2]]).T
    return np.concatenate(
        [
            jump_matrices(materials, elements, own, across, normals, scale),
            normals,
            own[..., rows, columns],
            across[..., rows, columns],
        ],
        axis=-1,
    )


def both_impedances(
    materials: ElementMaterials, elements: np.ndarray, neighbors: np.ndarray, normals: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return Z^- and Z^+ (n, 4, 3, 3) at the faces of some elements; see `isotropic_faces`."""
    inside = np.maximum(neighbors, 0)
    rho = materials.rho[elements][:, None] + np.zeros(inside.shape)
    own = impedance_matrices(materials.matrix(elements)[:, None], rho, normals)
    around = materials.matrix(inside.ravel()).reshape(*inside.shape, 6, 6)
    across = impedance_matrices(around, materials.rho[inside], normals)
    return own, neighbor_impedance(own, across, neighbors[..., None, None], epsilon)


def jump_matrices(
    materials: ElementMaterials, elements: np.ndarray, own: np.ndarray, across: np.ndarray, normals: np.ndarray,
    scale: np.ndarray, gains: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the flux of a jump w - u to the quantities (n, 4, JUMP).

    own, across : Z^-, Z^+. gains : of the directions (n, 3), for memory variables; see `layer`.
    """
    stiffness, rho = materials.matrix(elements)[:, None], materials.rho[elements][:, None, None, None]
    inverse = np.linalg.pinv(own + across, rcond=1e-10, hermitian=True)
    velocity = own / rho
    if gains is not None:
        velocity *= (normals**2 * gains[:, None]).sum(axis=-1)[..., None, None]
        normals = normals * gains[:, None]
    jump = np.concatenate([traction_matrices(stiffness, normals), velocity], axis=-2) @ inverse
    return (scale[..., None, None] * jump).reshape(*scale.shape, JUMP)


def elastic_matrices(materials: ElementMaterials, elements: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return the matrices of the reference derivatives along the directions c: (n, 9, 3, 3).

    The rate of quantity a is the sum over c and j of [a, c, j] times the derivative c of the quantity SOURCES[a, j]. A
    stress depends on the velocities x, y, z, a velocity on the stresses in its row.

    gradients : (n, 3, 3), d xi_c / d x_i, in directions c, 1/m.
    """
    stiffness = materials.matrix(elements)
    stress = np.einsum("najl,ncl->nacj", stiffness[:, :, TENSOR_INDEX], gradients)
    velocity = gradients / materials.rho[elements][:, None, None]
    return np.concatenate([stress, np.repeat(velocity[:, None], 3, axis=1)], axis=1)


def stretched_laws(
    materials: ElementMaterials, elements: np.ndarray, neighbors: np.ndarray, normals: np.ndarray, scale: np.ndarray,
    epsilon: float, gradients: np.ndarray, gains: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return `elastic_matrices` and the four `jump_matrices` of elements (n, ANISOTROPIC_LAW + 4 JUMP) with gains of
    the directions (n, 3); see `isotropic_faces` and `elastic_matrices` for the other parameters."""
    impedances = both_impedances(materials, elements, neighbors, normals, epsilon)
    law = elastic_matrices(materials, elements, gradients * gains[:, None])
    jumps = jump_matrices(materials, elements, *impedances, normals, scale, gains)
    return np.column_stack([law.reshape(-1, ANISOTROPIC_LAW), jumps.reshape(-1, 4 * JUMP)])


SOURCES = np.concatenate([np.tile(np.arange(STRESSES, QUANTITIES), (STRESSES, 1)), TENSOR_INDEX])
