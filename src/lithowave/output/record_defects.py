"""Defects of observed records: missing samples, dead channels, filled gaps, clipping."""

from __future__ import annotations

import numpy as np

SHORTEST_STRETCH, STRETCH_FRACTION = 10, 0.05
"""Constant samples within a record that count as a filled gap: number, and fraction of the record."""

PLATEAU, PLATEAU_SAMPLES, DISTINCT_VALUES = 3, 5, 50
"""Clipping: equal samples in a row at the largest or smallest value, their total, and the minimum number of different
values in the record (records of a few counts have such plateaus without clipping)."""


def find_defect(data: np.ndarray, interval: float) -> str:
    """Return why samples (n,) at an interval (s) should not be compared, as a clause; empty if no defect was found."""
    missing = ~np.isfinite(data)
    if missing.any():
        return f"it has a gap of {np.count_nonzero(missing) * interval:.3g} s"
    if len(data) < 2 or np.ptp(data) == 0.0:
        return "it is constant"
    starts, lengths = _runs(data)
    values = data[starts]
    for level in (values.max(), values.min()):
        plateau = lengths[(values == level) & (lengths >= PLATEAU)]
        if level != 0.0 and plateau.sum() >= PLATEAU_SAMPLES and len(np.unique(values)) >= DISTINCT_VALUES:
            return f"it is clipped at {level:.4g} in {plateau.sum()} samples"
    inner = lengths[1:-1]
    limit = max(SHORTEST_STRETCH, STRETCH_FRACTION * len(data))
    if len(inner) and inner.max() >= limit:
        return f"it is constant for {inner.max() * interval:.3g} s within the record"
    for end, what in ((0, "before"), (-1, "after")):
        if lengths[end] >= limit and data[starts[end]] != 0.0:
            return f"it is constant for {lengths[end] * interval:.3g} s {what} the other samples"
    return ""


def _runs(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first indices and the lengths of the runs of equal samples."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(data) != 0.0) + 1])
    return starts, np.diff(np.concatenate([starts, [len(data)]]))
