"""Interpolation in cells of rectilinear grids, compiled: it releases the interpreter lock, so that several threads can
sample a gridded model at the same time."""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part


@exact_part
def add_corners(
    values: np.ndarray, i: np.ndarray, wx: np.ndarray, j: np.ndarray, wy: np.ndarray, k: np.ndarray, wz: np.ndarray,
    result: np.ndarray,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Add the values at the eight corners of cells, weighted by their distances from points, to `result` (points,).

    i, j, k : indices of the cells. wx, wy, wz : weights of the upper corners.
    """
    nx, ny, nz = values.shape
    for n in range(len(result)):
        for a in range(2):
            x, p = (min(i[n] + 1, nx - 1), wx[n]) if a else (i[n], 1.0 - wx[n])
            for b in range(2):
                y, q = (min(j[n] + 1, ny - 1), wy[n]) if b else (j[n], 1.0 - wy[n])
                for c in range(2):
                    z, r = (min(k[n] + 1, nz - 1), wz[n]) if c else (k[n], 1.0 - wz[n])
                    result[n] += p * q * r * values[x, y, z]
