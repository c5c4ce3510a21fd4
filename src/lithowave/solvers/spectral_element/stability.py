r"""Largest stable time step: 2 over the largest angular frequency of the mesh.

With matrices :math:`K_e'` of elements whose sum is that of the mesh, the largest eigenvalue of the mesh is at most
the largest one of all :math:`M_e^{-1} K_e'`, for any choice of them (Fried 1972, J. Sound Vib. 22, 407-418, with those
of elements with free faces, :math:`K_e`). At points that elements share, the coefficients of :math:`K_e` that couple
components differ in sign between neighbors and cancel in the sum, so that the eigenvalues of :math:`K_e` are up to
twice too large. Here each element has its part of the sum instead,

.. math::
    (K_e')_{pq} = \frac{k_e}{\sum_f k_f} \sum_f (K_f)_{pq},

over all elements f that have both points p and q, with the stiffness k of each, the integral of the trace
of its moduli. In the interior of a uniform mesh, the result is the largest eigenvalue of the mesh.

`element_statistics` computes fast bounds for all elements. The eigenvalues are computed from the largest bounds down,
until the bounds of all others are below the result. Elements that are equal, with equal neighbors, are computed once,
so that this covers all elements of most generated meshes. If there are too many different ones with similar bounds, as
in deformed meshes, they are computed for a sample, and the largest ratio of eigenvalue to bound applies to the others
that are equally exposed: the share of an element in the stiffness of all elements at a corner is 1/8 inside a uniform
mesh, and 1 at a free corner.

The friction of an absorbing layer reduces the mass of the fastest motion, that which changes its sign in each step.
Damping, also that of layers and of absorbing faces, and the coupling of fluids and solids act on the mean velocity
before and after the step, which is zero in this motion.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.mesh.numbering import CORNERS
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.physics import stiffness_tensor
from lithowave.solvers.spectral_element.element_statistics import is_affine, map_coefficients
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_weights, jacobian_matrix, metric
from lithowave.solvers.spectral_element.materials import UPPER

if TYPE_CHECKING:
    from lithowave.mesh.hexahedra import HexahedralMesh
    from lithowave.mesh.shared import SharedPoints
    from lithowave.solvers.spectral_element.materials import ElementMaterials
    from lithowave.solvers.spectral_element.media import NumberedPoints

EXPOSURES = (0.18, 0.36, 0.7)  # of the exposure, between classes
NEXT_LEVEL = 2.0**-0.125  # of the bounds, between classes
SAMPLE, SAMPLE_POINTS = 4, 500  # elements of a class in half of the sample, at least 2; their points at high degrees
ITERATIONS = 40
PART = 4096  # elements that a thread compares at a time
BATCH_POINTS = 4000  # GLL points of the elements whose laws are in memory at a time, without their neighbors
LAWS = 64  # elements whose laws a thread computes at a time
MARGIN = 1.03  # on eigenvalues: elements outside the sample may have a larger ratio
DIFFERENT = 96  # elements with similar bounds and different surroundings, up to which all are computed


def stable_time_step(
    mesh: HexahedralMesh, materials: ElementMaterials, points: NumberedPoints, keys: np.ndarray | None,
    moves: np.ndarray, bounds: np.ndarray,
    stiffness: np.ndarray, inertia: Callable[[np.ndarray], np.ndarray], ranks: Ranks = SINGLE_RANK,
) -> float:  # fmt: skip
    """Return the largest stable time step of the global mesh, s, to six digits (collective call).

    It is independent of the partition. points : see `media.number_media`. keys : of the points, the same on all ranks;
    default: their indices.
    moves : see `moving_points`. bounds : upper bounds of the eigenvalues of this rank's elements, 1/s^2. stiffness : of
    these elements, N/m, which determines their classes. inertia : function of elements -> (elements, k, j, i), factors
    of the mass of the fastest motion, infinite at rest.
    """
    corners = ElementCorners.of(mesh, points, materials.is_fluid)
    exposure = _exposure_classes(corners, moves, stiffness, ranks)
    surroundings = _surroundings(mesh, materials, corners, moves, ranks)
    left, found = bounds.copy(), 0.0
    size = min(SAMPLE, max(2, SAMPLE_POINTS // points.numbers[0].size))
    while (largest := ranks.largest(float(left.max(initial=0.0)))) > found:
        level = left > largest * NEXT_LEVEL
        left[level] = 0.0
        sample = _different(np.flatnonzero(level), surroundings, mesh.numbers_in_whole, ranks)
        if sample is not None:
            level[:] = False
        else:
            members = [np.flatnonzero(level & (exposure == number)) for number in range(len(EXPOSURES) + 1)]
            sample = np.concatenate([_sample(some, bounds, mesh.numbers_in_whole, size, ranks) for some in members])
        near, is_sample = _with_neighbors(sample, corners, ranks)
        measures = np.stack([is_sample, exposure[near], bounds[near]], axis=1)
        own = Patch.of(near, mesh, materials, points.numbers, keys, inertia(near), measures)
        patch = Patch.joined(ranks.all_gather(own))
        rows = np.flatnonzero(patch.measures[:, 0])
        values = shared_eigenvalues(patch, rows, points.numbers.shape[1] - 1)
        found = max(found, float(values.max()))
        level[sample] = False
        for number in range(len(EXPOSURES) + 1):
            same = patch.measures[rows, 1] == number
            ratio = float((values[same] / patch.measures[rows[same], 2]).max(initial=0.0))
            others = ranks.largest(float(bounds[level & (exposure == number)].max(initial=0.0)))
            found = max(found, MARGIN * ratio * others)
    return float(f"{2.0 / math.sqrt(found):.6g}")


@dataclass(frozen=True)
class ElementCorners:
    """Corners of elements, numbered by vertices: there are fewer of them than points.

    index : of the corners of each element (elements, 8); fluids and solids have different ones. point : at each corner,
    -1 if no element has it. count : number of points. border : points that ranks share.
    """

    index: np.ndarray
    point: np.ndarray
    count: int
    border: SharedPoints

    @classmethod
    def of(cls, mesh: HexahedralMesh, points: NumberedPoints, is_fluid: np.ndarray) -> ElementCorners:
        """Return the corners of the elements of this rank."""
        vertices, last = len(mesh.vertices), points.numbers.shape[1] - 1
        index = mesh.elements + vertices * is_fluid[:, None]
        point = np.full(2 * vertices if is_fluid.any() else vertices, -1)
        i, j, k = last * CORNERS.T
        point[index] = points.numbers[:, k, j, i]
        return cls(index, point, points.count, points.border)

    def sums(self, values: np.ndarray, ranks: Ranks) -> np.ndarray:
        """Return the sums of values (elements, 8) over the elements at each corner (collective call)."""
        found = np.bincount(self.index.reshape(-1), values.reshape(-1), len(self.point))
        self.combine(found, ranks)
        return found

    def combine(self, values: np.ndarray, ranks: Ranks, how: Callable[..., np.ndarray] = np.add) -> None:
        """See `SharedPoints.combine`, for values of corners."""
        if ranks.size > 1:
            whole = np.zeros(self.count + 1)
            whole[self.point] = values
            self.border.combine(whole, ranks, how)
            values[:] = whole[self.point]


def _exposure_classes(corners: ElementCorners, moves: np.ndarray, stiffness: np.ndarray, ranks: Ranks) -> np.ndarray:
    """Return the class of each element by its largest share in the stiffness at a moving corner (collective call)."""
    total = corners.sums(np.broadcast_to(stiffness[:, None], corners.index.shape), ranks)
    total[~moves[corners.point]] = np.inf
    return np.searchsorted(EXPOSURES, stiffness / total[corners.index].min(axis=1))


def _surroundings(
    mesh: HexahedralMesh, materials: ElementMaterials, corners: ElementCorners, moves: np.ndarray, ranks: Ranks
) -> np.ndarray | None:
    """Return a number for each element that is equal for elements of equal shapes and materials, also those of their
    neighbors (collective call); None if materials vary within elements."""
    if materials.varying:
        return None
    count, turns = len(corners.index), np.arange(8, dtype=np.int64)
    own, parts, found = np.empty(count, np.int64), np.empty((count, 8)), np.empty(count, np.uint64)

    def shapes(some: slice) -> np.ndarray:
        nodes = mesh.element_nodes(some)
        return (nodes - nodes[:, :1]).reshape(len(nodes), -1)

    extents = over_parts(lambda some: float(np.abs(shapes(some)).max()), count, PART)
    scale = ranks.largest(max(extents, default=0.0))

    def mix_own(some: slice) -> None:
        nodes = shapes(some)
        factors = np.random.default_rng(3).integers(1, 2**62, nodes.shape[1], np.int64)
        own[some] = (np.rint(nodes / scale * 1e7).astype(np.int64) * factors).sum(axis=1)
        own[some] += materials.number[some] * 2**40
        parts[some] = _mixed(own[some, None] * 8 + turns) >> np.uint64(19)  # 45 bits: their sums are exact

    over_parts(mix_own, count, PART)
    total = corners.sums(parts, ranks).astype(np.int64) * 2 + moves[corners.point]

    def mix_all(some: slice) -> None:
        around = _mixed(total[corners.index[some]] * 8 + turns).astype(np.int64).sum(axis=1)
        found[some] = _mixed(_mixed(own[some]).astype(np.int64) + around)

    over_parts(mix_all, count, PART)
    return found


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return pseudo-random integers of 64 bits that depend on integers."""
    found = values.astype(np.uint64)
    for shift in (30, 27, 31):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(0xBF58476D1CE4E5B9)
    return found


def _different(
    members: np.ndarray, surroundings: np.ndarray | None, numbers: np.ndarray, ranks: Ranks
) -> np.ndarray | None:
    """Return this rank's part of the elements among `members` with different surroundings, one of each; None if there
    are more than DIFFERENT (collective call)."""
    if surroundings is None:
        return None
    ordered = members[np.argsort(numbers[members])]
    kinds, first = np.unique(surroundings[ordered], return_index=True)
    mine = list(zip(kinds.tolist(), numbers[ordered[first]].tolist(), strict=True))
    chosen: dict[int, int] = {}
    every = [one for theirs in ranks.all_gather(mine[: DIFFERENT + 1]) for one in theirs]
    for kind, number in sorted(every, reverse=True):
        chosen[kind] = number  # the lowest number is the last one
    if len(chosen) > DIFFERENT:
        return None
    pairs = zip(ordered[first].tolist(), mine, strict=True)
    return np.array([element for element, (kind, number) in pairs if chosen[kind] == number], np.int64)


def _sample(members: np.ndarray, bounds: np.ndarray, numbers: np.ndarray, size: int, ranks: Ranks) -> np.ndarray:
    """Return this rank's elements among those with the largest bounds of a class, and a random sample of it, `size`
    each (collective call).

    members : of the class. numbers : global indices of all elements, which determine the random choice, so that it is
    independent of the partition.
    """
    chance = (numbers[members].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    chosen = []
    for rating in (-bounds[members], chance):
        order = np.lexsort((numbers[members], rating))[:size]
        mine = list(zip(rating[order].tolist(), numbers[members[order]].tolist(), strict=True))
        first = set(sorted(one for theirs in ranks.all_gather(mine) for one in theirs)[:size])
        chosen += [element for element, one in zip(members[order].tolist(), mine, strict=True) if one in first]
    return np.array(chosen, np.int64)


def _with_neighbors(sample: np.ndarray, corners: ElementCorners, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Return this rank's elements that share a corner with any rank's elements of the sample, and whether each is one
    of the sample (collective call)."""
    marks = np.zeros(len(corners.point), np.uint8)  # small, so that it remains in the cache
    marks[corners.index[sample]] = 1
    corners.combine(marks, ranks, np.maximum)
    near = np.flatnonzero(marks[corners.index].any(axis=1))
    return near, np.isin(near, sample)


@dataclass(frozen=True)
class Patch:
    """Elements of all ranks around those of a sample.

    numbers : global indices of the elements. nodes : (elements, 8 or 27, 3), m. keys : of their points [element, k, j,
    i]; inertia : factors of their mass. moduli : (elements, points or 1, 21), Pa. rho : (elements, points or 1),
    kg/m^3. is_fluid : (elements,). measures : further values of each element.
    """

    numbers: np.ndarray
    nodes: np.ndarray
    keys: np.ndarray
    inertia: np.ndarray
    moduli: np.ndarray
    rho: np.ndarray
    is_fluid: np.ndarray
    measures: np.ndarray

    @classmethod
    def of(
        cls, elements: np.ndarray, mesh: HexahedralMesh, materials: ElementMaterials, numbers: np.ndarray,
        keys: np.ndarray | None,
        inertia: np.ndarray, measures: np.ndarray,
    ) -> Patch:  # fmt: skip
        """Return some elements of this rank."""
        n = numbers.shape[1]
        places = np.stack(np.unravel_index(np.arange(n**3 if materials.varying else 1), (n,) * 3), axis=1)
        stiffness, rho = materials.at(elements, places)
        own = numbers[elements] if keys is None else keys[numbers[elements]]
        return cls(
            mesh.numbers_in_whole[elements], mesh.element_nodes(elements), own, inertia,
            stiffness[..., UPPER[0], UPPER[1]], rho, materials.is_fluid[elements], measures,
        )  # fmt: skip

    @classmethod
    def joined(cls, patches: list[Patch]) -> Patch:
        """Return the elements of all ranks in the order of their indices."""
        order = np.argsort(np.concatenate([one.numbers for one in patches]))
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(one, name) for one in patches])[order] for name in names))

    def fingerprint(self, some: np.ndarray) -> bytes:
        """Return bytes that are equal if the first of some elements, and the others around it, are equal to six digits,
        except for their position."""
        nodes = self.nodes[some] - self.nodes[some[0], 0]
        parts = nodes / np.abs(nodes).max(), np.log(np.abs(nodes).max()), self.inertia[some[0]], self.rho[some]
        moduli = self.moduli[some] / self.moduli[some].max()
        parts = *parts, np.log(self.moduli[some].max()), moduli
        return hashlib.sha256(b"".join((np.round(part, 6) + 0.0).tobytes() for part in parts)).digest()

    def laws(self, some: np.ndarray, degree: int) -> tuple[np.ndarray, ...]:
        """Return the stiffness in reference coordinates (elements, 3 c + d, 3 c + d, points) of elements of one medium,
        the force of a component along xi_d for the derivative of a component along xi_d, their volumes and masses
        (elements, points), and their stiffness (elements,).

        The first is per volume, and has one point if it is the same at all points of each element.
        """
        coefficients = map_coefficients(self.nodes[some])
        if self.moduli.shape[1] == 1 and is_affine(coefficients).all():
            matrix = np.stack([coefficients[:, :, *place] for place in ((0, 0, 1), (0, 1, 0), (1, 0, 0))], axis=-1)
            matrix = matrix[:, None]
        else:
            matrix = jacobian_matrix(self.nodes[some], degree).reshape(len(some), -1, 3, 3)
        inverse, jacobian = metric(matrix)
        weights = gll_weights(degree)
        volume = jacobian * np.einsum("k,j,i->kji", weights, weights, weights).reshape(-1)
        moduli = np.zeros((*self.moduli[some].shape[:2], 6, 6))
        moduli[..., UPPER[0], UPPER[1]] = moduli[..., UPPER[1], UPPER[0]] = self.moduli[some]
        if self.is_fluid[some[0]]:
            tensor = (np.eye(3) / self.rho[some][..., None, None])[..., None, :, None, :]
            inertia = 1.0 / moduli[..., 0, 0]
        else:
            tensor, inertia = stiffness_tensor(moduli), self.rho[some]
        size = 3 * tensor.shape[2]
        law = np.einsum("epdm,epcmal,epbl->ecdabp", inverse, tensor, inverse, optimize=True)
        stiffness = (np.einsum("epcdcd->ep", tensor) * volume).sum(axis=1)
        return np.ascontiguousarray(law).reshape(len(some), size, size, -1), volume, volume * inertia, stiffness


def shared_eigenvalues(patch: Patch, rows: np.ndarray, degree: int) -> np.ndarray:
    """Return upper bounds of the largest eigenvalue, 1/s^2, of M^-1 K' of some elements of a patch that has all their
    neighbors."""
    i, j, k = degree * CORNERS.T
    near = _elements_around(patch.keys[:, k, j, i], rows)
    # Elements that are equal, with equal neighbors, are computed once.
    _, first, same = np.unique([patch.fingerprint(some) for some in near], return_index=True, return_inverse=True)
    found, size = np.empty(len(first)), max(1, BATCH_POINTS // (degree + 1) ** 3)
    for fluid in (True, False):
        members = np.flatnonzero(patch.is_fluid[rows[first]] == fluid)
        for begin in range(0, len(members), size):
            batch = members[begin : begin + size]
            found[batch] = _largest_eigenvalues(patch, [near[number] for number in first[batch]], degree)
    return found[same]


def _elements_around(corners: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """Return each of some elements, followed by the others that have one of its corners (elements, 8), in ascending
    order."""
    keys, place = np.unique(corners, return_inverse=True)
    place = place.reshape(corners.shape)
    owners = np.argsort(place, axis=None, kind="stable") // corners.shape[1]
    ends = np.cumsum(np.bincount(place.reshape(-1), minlength=len(keys)))
    begins = np.concatenate([[0], ends[:-1]])
    found = []
    for row in rows.tolist():
        around = np.unique(np.concatenate([owners[begins[key] : ends[key]] for key in place[row].tolist()]))
        found.append(np.concatenate([[row], around[around != row]]))
    return found


def _outside(degree: int) -> np.ndarray:
    """Return the places (k, j, i) of points on the faces of an element, (points, 3)."""
    places = np.stack(np.unravel_index(np.arange((degree + 1) ** 3), (degree + 1,) * 3), axis=1)
    return places[((places == 0) | (places == degree)).any(axis=1)]


def _largest_eigenvalues(patch: Patch, near: list[np.ndarray], degree: int) -> list[float]:
    """Return upper bounds of the largest eigenvalues, 1/s^2, of elements of one medium. near : each element, followed
    by its neighbors."""
    derivative, outside = derivative_matrix(degree), _outside(degree)
    members, place = np.unique(np.concatenate(near), return_inverse=True)
    parts = over_parts(lambda part: patch.laws(members[part], degree), len(members), LAWS)
    points = max(part[0].shape[3] for part in parts)
    volumes, masses, stiffness = (np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[1:])
    keys, size = patch.keys[members][:, *outside.T], parts[0][0].shape[1] // 3
    scales = 1.0 / np.sqrt(masses * patch.inertia[members].reshape(masses.shape))
    start = np.ascontiguousarray(np.random.default_rng(2).standard_normal((scales.shape[1], size)).T)
    on_faces = np.ravel_multi_index(tuple(outside.T), (degree + 1,) * 3)
    elements = np.split(place, np.cumsum([len(some) for some in near])[:-1])

    def bound(part: slice) -> float:
        some = elements[part.start]
        first, laws = some[0], np.empty((len(some), 3 * size, 3 * size, points))
        for row, element in enumerate(some.tolist()):
            laws[row] = parts[element // LAWS][0][element % LAWS]
        change = _shared_stiffness(laws, volumes[some], stiffness[some], keys[some], outside, derivative)
        diagonal, beside = np.empty(ITERATIONS), np.empty(ITERATIONS)
        vector = start * (scales[first] > 0)
        _iterate(laws[0], volumes[first], change, scales[first], on_faces, derivative, vector, diagonal, beside)
        return _largest_ritz_bound(diagonal, beside)

    return over_parts(bound, len(elements), 1)


def _shared_stiffness(
    laws: np.ndarray, volumes: np.ndarray, stiffness: np.ndarray, keys: np.ndarray, outside: np.ndarray,
    derivative: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return K' - K of an element between components at points on its faces, (point and component, the same).

    laws, volumes, stiffness : of the element, followed by its neighbors, see `Patch.laws`. keys : of the points on
    their faces. outside : places of these points.
    """
    order = np.argsort(keys[0])
    place = order[np.minimum(np.searchsorted(keys[0], keys, sorter=order), len(order) - 1)]
    place[keys[0][place] != keys] = -1
    count, size = len(outside), laws.shape[1] // 3
    own, found = np.zeros((count, size, count, size)), np.zeros((count, size, count, size))
    _add_shared(
        laws, volumes, stiffness, place, outside, derivative, own, np.zeros((count, count)), found
    )
    return found.reshape(count * size, -1)


@exact_part
def _add_shared(
    laws, volumes, stiffness, place, outside, derivative, own, shares, total
):  # pragma: no cover - compiled
    """Add K' - K to zeros (points, c, points, c); see `_shared_stiffness`. own, shares : zeros to be overwritten.

    place : (elements, points), of each point among those of the first element; -1 if it is not one of them.
    """
    count, size = len(outside), total.shape[1]
    for number in range(len(laws)):
        _add_stiffness(laws[number], volumes[number], place[number], outside, derivative, total if number else own)
        for p in range(count):
            for q in range(count if place[number, p] >= 0 else 0):
                if place[number, q] >= 0:
                    shares[place[number, p], place[number, q]] += stiffness[number]
        if number == 0:
            for p in range(count):
                for c in range(size):
                    for q in range(count):
                        for g in range(size):
                            total[p, c, q, g] = own[p, c, q, g]
    for p in range(count):
        for q in range(count):
            share = stiffness[0] / shares[p, q]
            for c in range(size):
                for g in range(size):
                    total[p, c, q, g] = total[p, c, q, g] * share - own[p, c, q, g]


@exact_part
def _add_stiffness(law, volume, place, outside, derivative, total):  # pragma: no cover - compiled
    """Add the stiffness of an element between points on its faces. place : of these points in the result, or -1."""
    n, size, last = derivative.shape[0], total.shape[1], law.shape[2] - 1
    r = np.empty(3, np.int64)
    for p in range(len(place)):
        for q in range(len(place) if place[p] >= 0 else 0):
            if place[q] < 0:
                continue
            apart = 0  # axes along which the points differ
            for axis in range(3):
                apart |= (outside[p, axis] != outside[q, axis]) << axis
            if apart == 7:
                continue
            for d in range(3):  # place 2 - d along xi_d
                for f in range(3):
                    if apart & ~(1 << (2 - d) | 1 << (2 - f)):
                        continue
                    r[0], r[1], r[2] = outside[p, 0], outside[p, 1], outside[p, 2]
                    begin, end = (0, n) if d == f else (outside[q, 2 - d], outside[q, 2 - d] + 1)
                    for along in range(begin, end):
                        r[2 - d] = along
                        factor = derivative[r[2 - d], outside[p, 2 - d]] * derivative[r[2 - f], outside[q, 2 - f]]
                        point = (r[0] * n + r[1]) * n + r[2]
                        for c in range(size):
                            for g in range(size):
                                modulus = law[3 * c + d, 3 * g + f, min(point, last)]
                                total[place[p], c, place[q], g] += factor * (modulus * volume[point])


@exact_part
def _norm(vector):  # pragma: no cover - compiled
    """Return the Euclidean norm of (c, points)."""
    total = 0.0
    for c in range(vector.shape[0]):
        for p in range(vector.shape[1]):
            total += vector[c, p] * vector[c, p]
    return np.sqrt(total)


@exact_part
def _add_differences(values, matrix, step, found):  # pragma: no cover - compiled
    """Add the products of a matrix (n, n) and the values (points,) along the lines of points at distances `step`."""
    n = len(matrix)
    for begin in range(0, len(values), n * step):
        for row in range(n):
            for column in range(n):
                factor, to, place = matrix[row, column], begin + row * step, begin + column * step
                for i in range(step):
                    found[to + i] += factor * values[place + i]


@exact_part
def _add_forces(law, volume, u, derivative, gradient, force, after):  # pragma: no cover - compiled
    """Add K u to `after`. law : (3 c + d, 3 c + d, points or 1); gradient, force : to be overwritten."""
    size, points = u.shape
    n, transposed, gradient[:], force[:] = len(derivative), derivative.T, 0.0, 0.0
    for c in range(size):
        for d in range(3):
            _add_differences(u[c], derivative, n**d, gradient[3 * c + d])
    for row in range(3 * size):
        for b in range(3 * size):
            if law.shape[2] > 1:
                for p in range(points):
                    force[row, p] += law[row, b, p] * gradient[b, p]
            elif law[row, b, 0] != 0.0:
                for p in range(points):
                    force[row, p] += law[row, b, 0] * gradient[b, p]
        for p in range(points):
            force[row, p] *= volume[p]
        _add_differences(force[row], transposed, n ** (row % 3), after[row // 3])


@exact_part
def _iterate(law, volume, change, scale, outside, derivative, vector, diagonal, beside):  # pragma: no cover
    """Compute the tridiagonal matrix of Lanczos's iteration for an element: its diagonal, and the values beside it.

    law, volume : see `Patch.laws`. change : see `_shared_stiffness`. scale : (points,), 1 / sqrt(M). outside : points
    on faces. vector : (c, points), where the iteration starts; it is overwritten.
    """
    size, points = vector.shape
    last, u, after = np.zeros((size, points)), np.empty((size, points)), np.empty((size, points))
    gradient, force = np.empty((3 * size, points)), np.empty((3 * size, points))
    faces, norm = np.empty(len(change)), _norm(vector)
    for step in range(len(diagonal)):
        for c in range(size):
            for p in range(points):
                vector[c, p] /= norm
                u[c, p] = scale[p] * vector[c, p]
        faces[:], after[:] = 0.0, 0.0
        _add_forces(law, volume, u, derivative, gradient, force, after)
        for row in range(len(faces)):  # the matrix is symmetric: its rows are its columns
            value = u[row % size, outside[row // size]]
            for column in range(len(faces)):
                faces[column] += change[row, column] * value
        for row in range(len(faces)):
            after[row % size, outside[row // size]] += faces[row]
        factor, product = norm if step else 0.0, 0.0
        for c in range(size):
            for p in range(points):
                after[c, p] = after[c, p] * scale[p] - factor * last[c, p]
                product += after[c, p] * vector[c, p]
        for c in range(size):
            for p in range(points):
                last[c, p] = vector[c, p]
                vector[c, p] = after[c, p] - product * vector[c, p]
        norm = _norm(vector)
        diagonal[step], beside[step] = product, norm


def _largest_ritz_bound(diagonal: np.ndarray, beside: np.ndarray) -> float:
    """Return an upper bound of the largest eigenvalue: the largest Ritz value and its residual.

    Raises
    ------
    ValueError : a value is not finite; as the largest of several bounds, it would be ignored.
    """
    matrix = np.asarray_chkfinite(np.diag(diagonal) + np.diag(beside[:-1], -1))  # its upper triangle is not read
    values, states = np.linalg.eigh(matrix)
    return float(values[-1] + beside[-1] * abs(states[-1, -1]))
