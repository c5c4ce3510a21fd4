"""Local time steps: clusters of elements whose time steps are powers of two of the shortest.

An element of cluster c steps 2^c times as far as one of cluster 0; elements at a face are of the same cluster or of
neighbouring ones (Breuer, Heinecke & Bader 2016, IPDPS, 854-863). All meet at the steps of the largest cluster, which
are the steps of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lithowave.mesh.shared_faces import SharedFaces
from lithowave.solvers.clock import Schedule, make_schedule

MAX_CLUSTERS = 9  # as many steps of cluster 0 as amplitudes are computed at a time
MIN_GAIN = 1.2  # times fewer element updates than with one time step: local ones are then used by default
STEPS_BETWEEN_SAMPLES = 40  # of the largest step in the period of max_frequency, where nothing else asks for samples


@dataclass(frozen=True)
class Clustering:
    """Clusters and their time steps.

    schedule : of the run; its step is that of the largest cluster. shortest : time step of cluster 0, s. cluster :
    (elements,) of each element of this rank, and behind them of the elements across shared faces. gain : times fewer
    updates than if all elements took the largest step stable for all. totals : elements of all ranks in each cluster;
    None: all are here.
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
        """Elements in each cluster, of the first `count`: those of this rank."""
        return np.bincount(self.cluster[:count], minlength=self.count).tolist()

    @property
    def updates(self) -> int:
        """Updates of elements in a step of the run, of all ranks."""
        return sum(size << (self.count - 1 - c) for c, size in enumerate(self.sizes))


def limit_cluster_jumps(cluster: np.ndarray, neighbors: np.ndarray, shared: SharedFaces | None = None) -> np.ndarray:
    """Clusters, some made smaller, so that neighbours differ by one at most.

    cluster : of this rank's elements; those across shared faces follow in what is returned. neighbors : (elements, 4),
    -1 for none. shared : with other ranks.
    """
    shared = SharedFaces() if shared is None else shared
    own = cluster.copy()
    while True:
        every = shared.with_ghosts(own)
        changed = False
        while True:
            across = np.where(neighbors >= 0, every[neighbors], MAX_CLUSTERS)
            most = across.min(axis=1) + 1
            if (own <= most).all():
                break
            changed = True
            np.minimum(own, most, out=own)
            every[: len(own)] = own
        if not shared.ranks.largest(changed):
            return every


def raw_clusters(limits: np.ndarray, shortest: float, most: int) -> np.ndarray:
    """The largest cluster, below `most`, that each element's largest stable time step allows."""
    levels = np.floor(np.log2(limits / shortest) + 1e-9)
    return np.clip(levels, 0, most - 1).astype(np.int64)


def single_cluster(limits: np.ndarray, schedule: Schedule, shared: SharedFaces | None = None) -> Clustering:
    """All elements in one cluster."""
    shared = SharedFaces() if shared is None else shared
    cluster = np.zeros(len(limits) + shared.count, np.int64)
    return Clustering(schedule, schedule.time_step, cluster, 1.0, _totals(cluster[: len(limits)], 1, shared))


def _totals(own: np.ndarray, count: int, shared: SharedFaces) -> tuple[int, ...] | None:
    """Elements of all ranks in each of so many clusters; None where all are on one."""
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
    """The clusters with the fewest updates of elements.

    Parameters
    ----------
    limits : largest stable time step of each element of this rank, s. neighbors : (elements, 4), -1 for none. duration,
    safety, time_step, sampling_interval : as of `make_schedule`; a time_step is that of cluster 0. local : whether to
    have more than one cluster; None: where it pays. shared : with other ranks, whose clusters are those of one mesh.

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
            continue  # fewer clusters do the same
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
    """Schedules and time steps of cluster 0 worth trying: for each number of clusters the longest step that fits.

    ends : the smallest and the largest of the largest stable time steps, s.
    """
    shortest = time_step or safety * ends[0]
    longest = safety * ends[1]
    for count in range(2, MAX_CLUSTERS + 1):
        ticks = 1 << (count - 1)
        if shortest * ticks > 2 * longest:
            return
        if interval is None:
            step = shortest * ticks
            if max_frequency is not None and step > 1.0 / (STEPS_BETWEEN_SAMPLES * max_frequency):
                return
            yield _schedule(step, everywhere.limit * ticks, 1, duration), shortest
        elif time_step is not None:
            every = round(interval / (time_step * ticks))
            if every < 1 or abs(every * time_step * ticks - interval) > 1e-6 * interval:
                continue
            yield _schedule(interval / every, everywhere.limit * ticks, every, duration), time_step
        else:
            every = math.ceil(interval / (shortest * ticks) - 1e-9)
            for more in range(4):
                step = interval / (every + more)
                yield _schedule(step, everywhere.limit * ticks, every + more, duration), step / ticks
            if shortest * ticks > interval:
                return


def _schedule(step: float, limit: float, every: int, duration: float) -> Schedule:
    samples = int(math.floor(duration / (every * step) + 1e-6)) + 1
    return Schedule(step, limit, every, max(samples, 2))
