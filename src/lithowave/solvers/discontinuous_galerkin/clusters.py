"""Local time stepping: clusters of elements whose time steps are powers of two of the shortest.

The step of an element of cluster c is 2^c times that of cluster 0; elements at a face belong to the same cluster or to
adjacent ones (Breuer, Heinecke & Bader 2016, IPDPS, 854-863). All clusters are synchronized at the steps of the largest
one, which are the steps of the run. A *tick* is a step of cluster 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.shared_faces import SharedFaces
from lithowave.solvers.clock import Schedule, make_schedule

MAX_CLUSTERS = 9  # steps of cluster 0 for which amplitudes are computed at a time
PART = 65_536  # elements that a thread examines at a time
MIN_GAIN = 1.2  # minimum reduction of element updates for using LTS by default
STEPS_BETWEEN_SAMPLES = 40  # steps in a period of max_frequency, at least
PARTS_OF_LIMIT = (1.0, 0.92, 0.85, 0.78)  # steps of cluster 0 over its limit, of which a shorter one may promote many


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
    parts = over_parts(lambda part: exceeding(part.start, part.stop, cluster, neighbors), len(neighbors), PART)
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

    over_parts(compute, len(limits), PART)
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
    ends = ranks.smallest(float(limits.min())), ranks.largest(float(limits.max()))
    everywhere = make_schedule(ends[0], duration, safety, time_step, sampling_interval)
    if local is False:
        return single_cluster(limits, everywhere, shared)
    found, count = None, ranks.total(len(limits))
    tried = _candidates(ends, everywhere, duration, safety, time_step, sampling_interval, max_frequency)
    for schedule, shortest in tried:
        most = 1 + round(math.log2(schedule.time_step / shortest))
        raw = raw_clusters(safety * limits if time_step is None else limits, shortest, most)
        cluster = limit_cluster_jumps(raw, neighbors, shared)
        totals = _totals(cluster[: len(limits)], most, shared)
        sizes = np.array(totals or np.bincount(cluster, minlength=most))
        if not sizes[0] or not sizes[-1]:
            continue  # fewer clusters give the same gain
        gain = count / everywhere.time_step * shortest / float((sizes * 0.5 ** np.arange(most)).sum())
        if found is None or gain > found.gain * (1 + 1e-9):
            found = Clustering(schedule, shortest, cluster, gain, totals)
    if found is None or (local is None and found.gain < MIN_GAIN):
        return single_cluster(limits, everywhere, shared)
    return found


def _candidates(
    ends: tuple[float, float],
    everywhere: Schedule,
    duration: float,
    safety: float,
    time_step: float | None,
    interval: float | None,
    max_frequency: float | None,
) -> Iterator[tuple[Schedule, float]]:
    """Return candidate schedules and time steps of cluster 0: the longest possible step for each number of clusters.

    ends : minimum and maximum of the largest stable time steps, s.
    """
    longest = safety * ends[1]
    for count in range(2, MAX_CLUSTERS + 1):
        ticks = 1 << (count - 1)
        for part in PARTS_OF_LIMIT if time_step is None else (1.0,):
            shortest = time_step or part * safety * ends[0]
            step = shortest * ticks
            if max_frequency is not None and step > 1.0 / (STEPS_BETWEEN_SAMPLES * max_frequency):
                return
            if step <= 2 * longest:
                yield make_schedule(everywhere.limit * ticks, duration, safety, step, interval), shortest
