r"""Local time stepping: clusters of elements whose time steps are powers of two of the shortest.

The step of an element of cluster c is 2^c times that of cluster 0; elements at a face belong to the same cluster or to
adjacent ones (Breuer, Heinecke & Bader 2016, IPDPS, 854-863). All clusters are synchronized at the steps of the largest
one, which are the steps of the run. A *tick* is a step of cluster 0.

**Largest stable time steps of elements.** Beyond its limit, the step of order N amplifies modes that change sign in
each step. Most of them are dissipated at the faces, at rates proportional to the wave velocity over the heights h_f of
an element above its faces f. With its fastest wave v,

.. math::
    \Delta t = \frac{C_N\,\bigl(1 + a\,(1 - \varphi)\bigr)}{(2 N - 1)\,v}
    \Bigl[\sum_f \frac{1 + b_f}{h_f^2}\Bigr]^{-1/2}, \qquad
    b_f = \beta\,\Bigl|\frac{Z^+ - Z^-}{Z^+ + Z^-}\Bigr|, \qquad Z = \rho v,

between two elements, `BOUNDARY` at free and rigid faces, 0 at absorbing ones. phi is 0 for a regular tetrahedron and 1
for a flat one: (3 s - 1) / 2 with the ratio s of the largest eigenvalue of G = sum of n_f n_f^T / h_f^2 to its trace. a
depends on (vs / vp)^2: a fluid dissipates pressure at all faces of an element at the same time.

The constants are fits to about 1,000 limits measured by `benchmarks/galerkin_limits.py`, of which none is exceeded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.mesh.shared import SharedFaces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import Ranks
from lithowave.solvers.discontinuous_galerkin.materials import ABSORBING, ElementMaterials
from lithowave.solvers.discontinuous_galerkin.reference import make_geometry
from lithowave.solvers.interface import Schedule, make_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from lithowave.solvers.discontinuous_galerkin.layer import LayerRates

MAX_CLUSTERS = 9  # steps of cluster 0 for which amplitudes are computed at a time
ROWS_AT_ONCE = 65_536  # elements that a thread examines at a time
MIN_GAIN = 1.2  # minimum reduction of element updates for using LTS by default
STEPS_BETWEEN_SAMPLES = 40  # steps in a period of max_frequency, at least
LEVELS = 128  # steps of cluster 0 per factor of two that are compared: a shorter one may promote many elements
STEP_COST = 0.03  # exponent of the step of cluster 0 in the rating of clusters: each tick takes time in addition
MOST_TRIED = 8  # of these steps, for which elements of neighboring clusters are compared


T = TypeVar("T")


class ClusteredPlan(Protocol):
    """What the parts of a solver use of a `DiscontinuousGalerkinPlan`."""

    @property
    def mesh(self) -> TetrahedralMesh: ...
    @property
    def order(self) -> int: ...
    @property
    def materials(self) -> ElementMaterials: ...
    @property
    def face_neighbors(self) -> np.ndarray: ...
    @property
    def clustering(self) -> Clustering: ...
    @property
    def layer(self) -> LayerRates: ...
    @property
    def shared(self) -> SharedFaces: ...
    @property
    def ranks(self) -> Ranks: ...
    @property
    def bounds(self) -> tuple[tuple[float, float], ...]: ...
    @property
    def element_count(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def mechanisms(self) -> int: ...
    @property
    def relaxing(self) -> np.ndarray: ...
    def once(self, name: str, compute: Callable[[], T]) -> T: ...
    def in_layer(self, positions: np.ndarray, margins: bool = False) -> np.ndarray: ...


@dataclass(frozen=True)
class Clustering:
    """Clusters and their time steps.

    schedule : schedule of the run, with the step of the largest cluster. shortest : time step of cluster 0, s. cluster
    : (elements,) of each element of this rank, then of the elements across shared faces. gain : factor by which LTS
    reduces the updates, compared with the largest step stable for all. totals : elements of all ranks in each cluster;
    None on one rank.
    """

    schedule: Schedule
    shortest: float
    cluster: np.ndarray
    gain: float
    totals: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Number of clusters."""
        return 1 + round(math.log2(self.schedule.time_step / self.shortest))

    @property
    def ticks(self) -> int:
        """Steps of cluster 0 in a step of the run."""
        return 1 << (self.count - 1)

    @property
    def sizes(self) -> list[int]:
        """Elements in each cluster, of all ranks."""
        return list(self.totals) if self.totals is not None else self.own_sizes(len(self.cluster))

    def own_sizes(self, count: int) -> list[int]:
        """Return the elements in each cluster among the first `count`: those of this rank."""
        return np.bincount(self.cluster[:count], minlength=self.count).tolist()

    @property
    def element_updates(self) -> np.ndarray:
        """Updates of each element of `cluster` in a step of the run."""
        return self.ticks >> self.cluster.astype(np.int64)

    @property
    def updates(self) -> int:
        """Element updates in a step of the run, of all ranks."""
        return sum(size << (self.count - 1 - c) for c, size in enumerate(self.sizes))


def limit_cluster_jumps(cluster: np.ndarray, neighbors: np.ndarray, shared: SharedFaces | None = None) -> np.ndarray:
    """Return clusters, some of them lowered, so that those of neighbors differ by at most one.

    cluster : of this rank's elements; those across shared faces are appended in the result. neighbors : (elements, 4),
    -1 for none. shared : faces shared with other ranks.
    """
    shared = SharedFaces() if shared is None else shared
    own = cluster.copy()
    while True:
        every = shared.with_ghosts(own)
        changed = lower_clusters(every, neighbors)
        own = every[: len(own)]
        if not shared.ranks.largest(changed):
            return every


def lower_clusters(cluster: np.ndarray, neighbors: np.ndarray) -> bool:
    """Lower clusters of the own elements until those of neighbors differ by at most one; return whether any changed.

    The largest such clusters are unique, so that the order of the elements has no effect on them.
    """
    parts = over_parts(lambda part: exceeding(part.start, part.stop, cluster, neighbors), len(neighbors), ROWS_AT_ONCE)
    return bool(lower(np.concatenate([np.zeros(0, np.int64), *parts]), cluster, neighbors))


@exact_part
def exceeding(first, end, cluster, neighbors):  # pragma: no cover - compiled
    """Return those of some elements whose clusters exceed that of a neighbor by more than one."""
    found, count = np.empty(end - first, np.int64), 0
    for element in range(first, end):
        for face in range(4):
            across = neighbors[element, face]
            if across >= 0 and cluster[element] > cluster[across] + 1:
                found[count] = element
                count += 1
                break
    return found[:count]


@exact_part
def lower(elements, cluster, neighbors):  # pragma: no cover - compiled
    """Lower the clusters of some elements, then those of their neighbors where necessary; return whether any changed.
    """
    changed = False
    while len(elements):
        following, count = np.empty(4 * len(elements), np.int64), 0
        for element in elements:
            most = cluster[element]
            for face in range(4):
                across = neighbors[element, face]
                if across >= 0:
                    most = min(most, cluster[across] + 1)
            if most < cluster[element]:
                cluster[element] = most
                changed = True
                for face in range(4):
                    across = neighbors[element, face]
                    if 0 <= across < len(neighbors) and cluster[across] > most + 1:
                        following[count] = across
                        count += 1
        elements = following[:count]
    return changed


def raw_clusters(limits: np.ndarray, shortest: float, most: int) -> np.ndarray:
    """Return the largest cluster, below `most`, that each element's largest stable time step allows."""
    found = np.empty(len(limits), np.int64)

    def compute(part: slice) -> None:
        levels = np.floor(np.log2(limits[part] / shortest) + 1e-9)
        found[part] = np.clip(levels, 0, most - 1)

    over_parts(compute, len(limits), ROWS_AT_ONCE)
    return found


def single_cluster(limits: np.ndarray, schedule: Schedule, shared: SharedFaces | None = None) -> Clustering:
    """Return a clustering with all elements in one cluster."""
    shared = SharedFaces() if shared is None else shared
    cluster = np.zeros(len(limits) + shared.count, np.int64)
    return Clustering(schedule, schedule.time_step, cluster, 1.0, _totals(cluster[: len(limits)], 1, shared))


def _totals(own: np.ndarray, count: int, shared: SharedFaces) -> tuple[int, ...] | None:
    """Return the elements of all ranks in each of `count` clusters; None on one rank."""
    if shared.ranks.size == 1:
        return None
    return tuple(shared.ranks.total(np.bincount(own, minlength=count)).tolist())


def make_clusters(
    limits: np.ndarray,
    neighbors: np.ndarray,
    duration: float,
    safety: float,
    time_step: float | None,
    sampling_interval: float | None,
    local: bool | None,
    max_frequency: float | None,
    shared: SharedFaces | None = None,
) -> Clustering:
    """Return the clusters with the fewest element updates.

    Parameters
    ----------
    limits : largest stable time step of each element of this rank, s. neighbors : (elements, 4), -1 for none. duration,
    safety, time_step, sampling_interval : as for `make_schedule`; a time_step is that of cluster 0. local : True allows
    several clusters; None: if the gain is at least MIN_GAIN. shared : faces shared with other ranks, whose clusters are
    those of one mesh.

    Raises
    ------
    InputError : as `make_schedule`.
    """
    shared = SharedFaces() if shared is None else shared
    ranks = shared.ranks
    smallest = ranks.smallest(float(limits.min()))
    everywhere = make_schedule(smallest, duration, safety, time_step, sampling_interval)
    if local is False:
        return single_cluster(limits, everywhere, shared)
    found, best, count = None, 0.0, ranks.total(len(limits))
    usable = limits if time_step is not None else safety * limits
    longest = math.inf if max_frequency is None else 1.0 / (STEPS_BETWEEN_SAMPLES * max_frequency)
    if time_step is None:
        tried = _candidates(level_counts(limits, smallest, ranks), longest / everywhere.time_step)
    else:
        tried = [(math.inf, most, 1.0) for most in range(2, MAX_CLUSTERS + 1) if time_step * 2 ** (most - 1) <= longest]
    for bound, most, part in tried:
        if bound <= best * (1 + 1e-9):
            break
        shortest = part * everywhere.time_step
        cluster = limit_cluster_jumps(raw_clusters(usable, shortest, most), neighbors, shared)
        own = cluster[: len(limits)]
        most = 1 + int(ranks.largest(int(own.max(initial=0))))
        totals = _totals(own, most, shared)
        sizes = np.array(totals or np.bincount(own, minlength=most))
        if most == 1 or not sizes[0]:
            continue  # the step of all elements is not shorter
        ticks = 1 << (most - 1)
        if time_step is None:
            shortest = min(ranks.smallest(longest_step(usable, own)), longest / ticks)
        gain = count / everywhere.time_step * shortest / float((sizes * 0.5 ** np.arange(most)).sum())
        rating = gain * (shortest / everywhere.time_step) ** STEP_COST
        if rating > best * (1 + 1e-9):
            best = rating
            schedule = make_schedule(everywhere.limit * ticks, duration, safety, shortest * ticks, sampling_interval)
            found = Clustering(schedule, shortest, cluster, gain, totals)
    if found is None or (local is None and found.gain < MIN_GAIN):
        return single_cluster(limits, everywhere, shared)
    return found


def level_counts(limits: np.ndarray, smallest: float, ranks: Ranks) -> np.ndarray:
    """Return the number of elements of all ranks by level: LEVELS times the binary logarithm of their largest stable
    step over the smallest one of all ranks, s."""
    most = LEVELS * MAX_CLUSTERS - 1

    def count(part: slice) -> np.ndarray:
        levels = (LEVELS * np.log2(limits[part] / smallest) + 1e-6).astype(np.int64)
        return np.bincount(np.minimum(levels, most), minlength=most + 1)

    return ranks.total(sum(over_parts(count, len(limits), ROWS_AT_ONCE), np.zeros(most + 1, np.int64)))


def longest_step(limits: np.ndarray, cluster: np.ndarray) -> float:
    """Return the longest step of cluster 0, s, that these stable steps of elements in these clusters permit."""
    parts = over_parts(lambda part: float((limits[part] * 0.5 ** cluster[part]).min()), len(limits), ROWS_AT_ONCE)
    return min(parts, default=math.inf)


def _candidates(counts: np.ndarray, longest: float) -> list[tuple[float, int, float]]:
    """Return upper bounds of the rating, numbers of clusters, and steps of cluster 0, relative to its largest step.

    counts : see `level_counts`. longest : step of the largest cluster that is allowed, relative to the same step. The
    candidates are those of the highest bounds, in descending order.
    """
    levels, parts = np.flatnonzero(counts), np.arange(LEVELS)
    highest = np.minimum(np.floor(np.log2(longest) + parts / LEVELS), MAX_CLUSTERS - 1).astype(np.int64)
    clusters = np.minimum((levels + parts[:, None]) // LEVELS, highest[:, None])
    updates = 2.0 ** (parts / LEVELS) * (0.5**clusters @ counts[levels])
    # Between two candidates, shorter steps only cost more.
    better = np.flatnonzero((np.diff(updates, prepend=np.inf) < 0) & (highest > 0))
    ratings = counts.sum() / updates[better] * 2.0 ** ((1 + STEP_COST - STEP_COST * better) / LEVELS)
    order = np.argsort(-ratings, kind="stable")[:MOST_TRIED]
    steps = 2.0 ** (-better / LEVELS)
    return list(zip(ratings[order].tolist(), (1 + highest[better[order]]).tolist(), steps[order].tolist(), strict=True))


FLAT = {2: 0.67, 3: 0.688, 4: 0.655, 5: 0.603, 6: 0.555, 7: 0.507}  # C_N
RIGIDITIES, REGULAR = [0.0, 1 / 9, 1 / 4, 4 / 9, 0.7], [-0.19, 0.0, 0.2, 0.1, -0.04]  # (vs / vp)^2, and a for it
CONTRAST, BOUNDARY = 0.6, 0.2  # beta, and b_f at free and rigid faces
PART = 4096  # elements that a thread processes at a time


def stable_time_steps(
    order: int, mesh: TetrahedralMesh, materials: ElementMaterials, neighbors: np.ndarray
) -> np.ndarray:
    """Return the largest stable step (elements,), s, of this rank's elements; see the module.

    neighbors : (elements, 4), the element across each face, or the kind of the face (`materials.KINDS`); materials
    contains these elements.
    """
    found = np.empty(mesh.element_count)
    speed = materials.fastest_speed
    impedance = materials.rho * speed

    def compute(part: slice) -> None:
        geometry = make_geometry(mesh.element_vertices(part))
        stiffness = np.empty((len(geometry.lifts), 2))
        measure_faces(part.start, geometry.lifts, geometry.normals, neighbors, impedance, stiffness)
        total, flatness = stiffness.T
        number = FLAT[order] * (1.0 + regular_gains(materials, part) * (1.0 - flatness))
        found[part] = number / ((2 * order - 1) * speed[part] * np.sqrt(total))

    over_parts(compute, mesh.element_count, PART)
    return found


def regular_gains(materials: ElementMaterials, part: slice) -> np.ndarray:
    """Return a of some elements: in anisotropic ones its minimum."""
    anisotropic = materials.anisotropic[part]
    modulus = np.where(anisotropic, 1.0, materials.lam[part] + 2.0 * materials.mu[part])
    gains = np.interp(materials.mu[part] / modulus, RIGIDITIES, REGULAR)
    return np.where(anisotropic, min(REGULAR), gains)


@exact_part
def measure_faces(first, lifts, normals, neighbors, impedance, found):  # pragma: no cover - compiled
    """Compute the sum over faces, 1/m^2, and phi of some elements. first : the first of them. lifts : 1 / h_f."""
    for n in range(len(lifts)):
        total, xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        own = impedance[first + n]
        for face in range(4):
            across, square = neighbors[first + n, face], lifts[n, face] ** 2
            more = 0.0 if across == ABSORBING else BOUNDARY
            if across >= 0:
                more = CONTRAST * abs(impedance[across] - own) / (impedance[across] + own)
            total += square * (1.0 + more)
            x, y, z = normals[n, face]
            xx, yy, zz = xx + square * x * x, yy + square * y * y, zz + square * z * z
            xy, xz, yz = xy + square * x * y, xz + square * x * z, yz + square * y * z
        mean = (xx + yy + zz) / 3.0
        xx, yy, zz = xx / mean - 1.0, yy / mean - 1.0, zz / mean - 1.0
        xy, xz, yz = xy / mean, xz / mean, yz / mean
        # The eigenvalues of this deviator are 2 p cos(angle + 2 k pi / 3).
        p = np.sqrt((xx * xx + yy * yy + zz * zz + 2.0 * (xy * xy + xz * xz + yz * yz)) / 6.0)
        determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        cosine = determinant / (2.0 * p * p * p) if p > 1e-12 else 0.0
        largest = 2.0 * p * np.cos(np.arccos(min(1.0, max(-1.0, cosine))) / 3.0)
        found[n, 0], found[n, 1] = total, min(1.0, 0.5 * largest)
