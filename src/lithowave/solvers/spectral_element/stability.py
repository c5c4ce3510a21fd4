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
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from lithowave.backends.kernel_cache import njit
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.spectral_element.faces import VOIGT
from lithowave.solvers.spectral_element.geometry import jacobian_matrix, metric
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_weights
from lithowave.solvers.spectral_element.materials import UPPER

EXPOSURES = (0.18, 0.36, 0.7)  # of the exposure, between classes
NEXT_LEVEL = 2.0**-0.125  # of the bounds, between classes
SAMPLE, SAMPLE_POINTS = 4, 500  # elements of a class in half of the sample, at least 2; their points at high degrees
ITERATIONS = 40
CHANGES = 8_000_000  # coefficients of K' - K of elements that are iterated at a time
MARGIN = 1.03  # on eigenvalues: elements outside the sample may have a larger ratio
DIFFERENT = 96  # elements with similar bounds and different surroundings, up to which all are computed

def stable_time_step(
    mesh: Any, materials: Any, points: Any, keys: np.ndarray, moves: np.ndarray, bounds: np.ndarray,
    stiffness: np.ndarray, inertia: Callable[[np.ndarray], np.ndarray], ranks: Ranks = SINGLE_RANK,
) -> float:  # fmt: skip
    """Return the largest stable time step of the global mesh, s, to six digits (collective call).

    It is independent of the partition. points : see `media.number_media`. keys : of the points, the same on all ranks.
    moves : see `moving_points`. bounds : upper bounds of the eigenvalues of this rank's elements, 1/s^2. stiffness : of
    these elements, N/m, which determines their classes. inertia : function of elements -> (elements, k, j, i), factors
    of the mass of the fastest motion, infinite at rest.
    """
    exposure = _exposure_classes(points, moves, stiffness, ranks)
    surroundings = _surroundings(mesh, materials, points, moves, ranks)
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
        near, is_sample = _with_neighbors(sample, points, ranks)
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


def _corners(numbers: np.ndarray) -> np.ndarray:
    """Return the points at the corners of elements, (elements, 8)."""
    return numbers[:, ::numbers.shape[1] - 1, ::numbers.shape[2] - 1, ::numbers.shape[3] - 1].reshape(len(numbers), 8)


def _exposure_classes(points: Any, moves: np.ndarray, stiffness: np.ndarray, ranks: Ranks) -> np.ndarray:
    """Return the class of each element by its largest share in the stiffness at a moving corner (collective call)."""
    corners = _corners(points.numbers)
    total = np.bincount(corners.reshape(-1), np.repeat(stiffness, 8), points.count)
    points.border.combine(total, ranks)
    total[~moves] = np.inf
    return np.searchsorted(EXPOSURES, stiffness / total[corners].min(axis=1))


def _surroundings(mesh: Any, materials: Any, points: Any, moves: np.ndarray, ranks: Ranks) -> np.ndarray | None:
    """Return a number for each element that is equal for elements of equal shapes and materials, also those of their
    neighbors (collective call); None if materials vary within elements."""
    if materials.varying:
        return None
    corners = _corners(points.numbers)
    nodes = mesh.element_nodes(np.arange(len(corners)))
    nodes = (nodes - nodes[:, :1]).reshape(len(nodes), -1)
    scale = ranks.largest(float(np.abs(nodes).max()))
    factors = np.random.default_rng(3).integers(1, 2**62, nodes.shape[1], np.int64)
    own = (np.rint(nodes / scale * 1e7).astype(np.int64) * factors).sum(axis=1) + materials.number * 2**40
    turns = np.arange(8, dtype=np.int64)
    parts = _mixed(own[:, None] * 8 + turns) >> np.uint64(19)  # 45 bits: their sums are exact
    total = np.bincount(corners.reshape(-1), parts.reshape(-1).astype(float), points.count)
    points.border.combine(total, ranks)
    around = total[corners].astype(np.int64) * 2 + moves[corners]
    return _mixed(_mixed(own).astype(np.int64) + _mixed(around * 8 + turns).astype(np.int64).sum(axis=1))


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


def _with_neighbors(sample: np.ndarray, points: Any, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Return this rank's elements that share a corner with any rank's elements of the sample, and whether each is one
    of the sample (collective call)."""
    corners = _corners(points.numbers)
    marks = np.zeros(points.count)
    marks[corners[sample]] = 1.0
    points.border.combine(marks, ranks, np.maximum)
    near = np.flatnonzero(marks[corners].any(axis=1))
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
        cls, elements: np.ndarray, mesh: Any, materials: Any, numbers: np.ndarray, keys: np.ndarray,
        inertia: np.ndarray, measures: np.ndarray,
    ) -> Patch:  # fmt: skip
        """Return some elements of this rank."""
        n = numbers.shape[1]
        places = np.stack(np.unravel_index(np.arange(n**3 if materials.varying else 1), (n,) * 3), axis=1)
        stiffness, rho = materials.at(elements, places)
        return cls(
            mesh.numbers_in_whole[elements], mesh.element_nodes(elements), keys[numbers[elements]], inertia,
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

    def laws(self, some: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the stiffness in reference coordinates (elements, k, j, i, c, d, c, d) of elements of one medium, the
        force of a component along xi_d for the derivative of a component along xi_d, their masses (elements, k, j, i),
        and their stiffness (elements,)."""
        n, weights = degree + 1, gll_weights(degree)
        inverse, jacobian = metric(jacobian_matrix(self.nodes[some], degree))
        volume = jacobian * np.einsum("k,j,i->kji", weights, weights, weights)
        matrix = np.zeros((*self.moduli[some].shape[:2], 6, 6))
        matrix[..., UPPER[0], UPPER[1]] = matrix[..., UPPER[1], UPPER[0]] = self.moduli[some]
        if self.is_fluid[some[0]]:
            tensor = (np.eye(3) / self.rho[some][..., None, None])[..., None, :, None, :]
            inertia = 1.0 / matrix[..., 0, 0]
        else:
            tensor, inertia = matrix[..., VOIGT[:, :, None, None], VOIGT], self.rho[some]
        axes = tensor.shape[2:]
        uniform = tensor.shape[1] == 1 and np.ptp(inverse, axis=(1, 2, 3)).max() <= 1e-9 * np.abs(inverse).max()
        m = 1 if uniform else n  # points along each axis at which the law differs by more than its weight
        tensor = np.broadcast_to(tensor, (len(some), m**3, *axes)).reshape(len(some), m, m, m, *axes)
        inverse = inverse[:, :m, :m, :m]
        law = np.einsum("ekjidm,ekjicmal,ekjibl->ekjicdab", inverse, tensor, inverse, optimize=True)
        law = law * volume[..., *(None,) * 4]
        stiffness = (np.einsum("ekjicdcd->ekji", tensor) * volume).sum(axis=(1, 2, 3))
        return law, volume * np.broadcast_to(inertia, (len(some), n**3)).reshape(volume.shape), stiffness


def shared_eigenvalues(patch: Patch, rows: np.ndarray, degree: int) -> np.ndarray:
    """Return the largest eigenvalue, 1/s^2, of M^-1 K' of some elements of a patch that has all their neighbors."""
    corners = _corners(patch.keys)
    near = [np.flatnonzero(np.isin(corners, corners[row]).any(axis=1)) for row in rows]
    near = [np.concatenate([[row], some[some != row]]) for row, some in zip(rows, near, strict=True)]
    # Elements that are equal, with equal neighbors, are computed once.
    _, first, same = np.unique([patch.fingerprint(some) for some in near], return_index=True, return_inverse=True)
    found = np.empty(len(first))
    for fluid, size in ((True, 1), (False, 3)):
        members = np.flatnonzero(patch.is_fluid[rows[first]] == fluid)
        surface = size * ((degree + 1) ** 3 - (degree - 1) ** 3)
        part = max(1, CHANGES // surface**2)
        for begin in range(0, len(members), part):
            some = members[begin : begin + part]
            parts = (_shared_stiffness(patch, near[number], degree) for number in first[some])
            laws, changes, masses = zip(*parts, strict=True)
            mass = np.stack(masses) * patch.inertia[rows[first[some]]]
            found[some] = _largest_eigenvalues(np.stack(laws), np.stack(changes), mass)
    return found[same]


def _outside(degree: int) -> np.ndarray:
    """Return the places (k, j, i) of points on the faces of an element, (points, 3)."""
    places = np.stack(np.unravel_index(np.arange((degree + 1) ** 3), (degree + 1,) * 3), axis=1)
    return places[((places == 0) | (places == degree)).any(axis=1)]


def _shared_stiffness(patch: Patch, near: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the law and the masses (k, j, i) of an element, see `Patch.laws`, and K' - K between points on its faces,
    (points, c, points, c). near : the element, followed by its neighbors."""
    outside = _outside(degree)
    laws, masses, stiffness = patch.laws(near, degree)
    keys = patch.keys[near][:, *outside.T]
    order = np.argsort(keys[0])
    place = order[np.minimum(np.searchsorted(keys[0], keys, sorter=order), len(order) - 1)]
    place[keys[0][place] != keys] = -1
    count, size = len(outside), laws.shape[4]
    total, shares = np.zeros((count, size, count, size)), np.zeros((count, count))
    derivative = derivative_matrix(degree)
    _add_stiffness(laws[:1], stiffness[:1], place[:1], outside, derivative, total, shares)
    own, own_share = total.copy(), shares.copy()
    _add_stiffness(laws[1:], stiffness[1:], place[1:], outside, derivative, total, shares)
    return laws[0], total * (own_share / shares)[:, None, :, None] - own, masses[0]


@njit(cache=True, nogil=True)
def _add_stiffness(laws, stiffness, place, outside, derivative, total, shares):  # pragma: no cover - compiled
    """Add the stiffness of elements between points on their faces, and the stiffness of those that have both points.

    place : (elements, points), of each point among those of the result; -1 if it is not one of them.
    """
    n, size = derivative.shape[0], laws.shape[4]
    r = np.empty(3, np.int64)
    for e in range(len(laws)):
        members = np.flatnonzero(place[e] >= 0)
        for p in members:
            for q in members:
                a, b = place[e, p], place[e, q]
                shares[a, b] += stiffness[e]
                for d in range(3):  # place 2 - d along xi_d
                    for f in range(3):
                        for axis in range(3):
                            r[axis] = outside[p, axis]
                        same = True
                        for axis in range(3):
                            if axis not in (2 - d, 2 - f) and outside[p, axis] != outside[q, axis]:
                                same = False
                        if not same:
                            continue
                        if d != f:
                            r[2 - d] = outside[q, 2 - d]
                            factor = derivative[r[2 - d], outside[p, 2 - d]] * derivative[r[2 - f], outside[q, 2 - f]]
                            law = laws[e, r[0], r[1], r[2]]
                            for c in range(size):
                                for g in range(size):
                                    total[a, c, b, g] += factor * law[c, d, g, f]
                            continue
                        for along in range(n):
                            r[2 - d] = along
                            factor = derivative[along, outside[p, 2 - d]] * derivative[along, outside[q, 2 - d]]
                            law = laws[e, r[0], r[1], r[2]]
                            for c in range(size):
                                for g in range(size):
                                    total[a, c, b, g] += factor * law[c, d, g, d]


def _largest_eigenvalues(laws: np.ndarray, changes: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return upper bounds of the largest eigenvalues, 1/s^2, of elements by Lanczos's iteration.

    laws, changes : of each element, see `_shared_stiffness`. mass : (elements, k, j, i).
    """
    count, n, size = len(laws), mass.shape[1], laws.shape[4]
    derivative, outside = derivative_matrix(n - 1), tuple(_outside(n - 1).T)
    scale = (1.0 / np.sqrt(mass))[..., None]
    changes = changes.reshape(count, len(outside[0]) * size, -1)

    def product(vector: np.ndarray) -> np.ndarray:
        u = vector * scale
        gradient = np.stack(
            [
                np.einsum("il,ekjla->ekjia", derivative, u),
                np.einsum("jl,eklia->ekjia", derivative, u),
                np.einsum("kl,eljia->ekjia", derivative, u),
            ],
            axis=-1,
        )
        force = np.einsum("ekjicdab,ekjiab->ekjicd", laws, gradient, optimize=True)
        after = np.einsum("li,ekjlc->ekjic", derivative, force[..., 0])
        after += np.einsum("lj,eklic->ekjic", derivative, force[..., 1])
        after += np.einsum("lk,eljic->ekjic", derivative, force[..., 2])
        on_faces = u[:, *outside].reshape(count, -1, 1)
        after[:, *outside] += (changes @ on_faces).reshape(count, -1, size)
        return after * scale

    start = np.random.default_rng(2).standard_normal((n, n, n, size))
    return _lanczos(product, np.repeat(start[None], count, axis=0) * (scale > 0))


def _lanczos(product: Callable[[np.ndarray], np.ndarray], vector: np.ndarray) -> np.ndarray:
    """Return upper bounds of the largest eigenvalues of symmetric operators: the largest Ritz value and its residual.

    vector : (operators, ...), where the iteration starts.
    """
    count, axes = len(vector), tuple(range(1, vector.ndim))

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a * b).sum(axis=axes)

    def column(values: np.ndarray) -> np.ndarray:
        return values.reshape(count, *(1,) * len(axes))

    diagonal, beside, last = np.zeros((count, ITERATIONS)), np.zeros((count, ITERATIONS)), np.zeros_like(vector)
    norm = np.sqrt(dot(vector, vector))
    for step in range(ITERATIONS):
        before, vector = last, vector / column(norm)
        last, after = vector, product(vector) - column(norm if step else 0.0 * norm) * before
        diagonal[:, step] = dot(after, vector)
        vector = after - column(diagonal[:, step]) * vector
        norm = beside[:, step] = np.sqrt(dot(vector, vector))
    bounds = np.empty(count)
    for number in range(count):
        largest = {"select": "i", "select_range": (ITERATIONS - 1, ITERATIONS - 1)}
        value, state = eigh_tridiagonal(diagonal[number], beside[number, :-1], **largest)
        bounds[number] = value[0] + beside[number, -1] * abs(state[-1, 0])
    return bounds
