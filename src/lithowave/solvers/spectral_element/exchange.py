"""Exchange of the momenta of points that ranks share: each rank sums the contributions of all ranks.

Before its outer elements add their forces, a rank saves these momenta and sets them to zero; the sums of its forces are
then sent to the other ranks. The contributions are added in rank order, and then the saved momenta: all ranks that
share a point obtain bitwise identical values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lithowave.solvers.common.programs import Launch

OWN = -1  # instead of an index into `incoming`: the contribution of this rank


class SharedMomenta:
    """Saved, sent and received momenta.

    Parameters
    ----------
    backend, kernels : objects of the run. plan : plan with the shared points. halo : halo exchange with other ranks.
    """

    def __init__(self, backend: Any, kernels: Any, plan: Any, halo: Any) -> None:
        self.kernels, border = kernels, plan.border
        sizes = {rank: 3 * len(points) for rank, points in border.with_rank.items()}
        self.message = halo.message(sizes, sizes)
        points = border.points
        sent = np.concatenate([np.zeros(0, np.int64), *border.with_rank.values()])
        begin, entry = summands(border)
        self.kept = backend.zeros((max(1, len(points)), 3))
        self.count = len(points)
        self.point, self._sent = backend.upload(points, np.int64), backend.upload(sent, np.int64)
        self._begin, self._entry = backend.upload(begin, np.int64), backend.upload(entry, np.int64)

    def saving(self, momentum: Any) -> Launch:
        """Return the launch that saves the momenta of shared points and sets them to zero."""
        return partial(self.kernels.save_momenta, momentum, self.point, self.kept)

    def start(self, momentum: Any) -> None:
        """Send the contributions of this rank's elements and sources."""
        self.message.start(lambda: self.kernels.pack(momentum, self._sent, self.message.outgoing))

    def finish(self, momentum: Any) -> None:
        """Add the saved momenta and the sum over all ranks."""
        self.message.finish(
            lambda: self.kernels.unpack(
                momentum, self.kept, self.point, self._begin, self._entry, self.message.incoming
            )
        )


def summands(border: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (begin, entry): the received points that are added for each shared point, in ascending rank order.

    Those of points[n] are entry[begin[n]:begin[n + 1]]; -1 is this rank's contribution.
    """
    points = border.points
    rows, entries, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for rank in sorted([*border.with_rank, border.rank]):
        if rank == border.rank:
            rows.append(np.arange(len(points)))
            entries.append(np.full(len(points), OWN))
            continue
        theirs = border.with_rank[rank]
        rows.append(np.searchsorted(points, theirs))
        entries.append(first + np.arange(len(theirs)))
        first += len(theirs)
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(points)))])
    return begin, np.concatenate(entries)[order]
