"""Sums along lines of an element, and the map of a line, for the element kernels of the CPU; work arrays of threads."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lithowave.backends.loops import U, row
from lithowave.solvers.spectral_element.element_layout import LANES

MAP_POWERS = {"affine": 2, "trilinear": 2, "triquadratic": 3}  # of each coordinate, in the monomials of the map


@row
def dot(c, f, at, step):
    """Return the sum over l of c[l] f[at + l step]."""
    total = c[0] * f[at]
    for l in range(U(1), U(len(c))):  # noqa: E741
        total += c[l] * f[at + l * step]
    return total


@row
def dots(c, f, at, field, step):
    """Return the same for three fields at a distance of `field` entries."""
    return dot(c, f, at, step), dot(c, f, at + field, step), dot(c, f, at + field + field, step)


@row
def collapse(coefficients, base, line, values, slopes_y, slopes_z, powers):
    """Compute polynomials in xi of x, dx/deta and dx/dzeta on the line of points with the weights `values` ...."""
    lanes, p = U(LANES), U(powers)
    cube, square = p * p * p * lanes, p * lanes
    for component in range(U(3)):
        for power in range(p):
            at = base + component * cube + power * lanes
            out = (component * p + power) * lanes
            for w in range(lanes):
                line[out + w] = dot(values, coefficients, at + w, square)
                line[U(3) * square + out + w] = dot(slopes_y, coefficients, at + w, square)
                line[U(6) * square + out + w] = dot(slopes_z, coefficients, at + w, square)


def monomials(points: np.ndarray, powers: int, dtype: np.dtype) -> tuple[tuple, ...]:
    """Return for each (k, j) the weights [power of zeta, of eta] of a value and of its slopes along eta and zeta; for
    each i the powers of xi, and their slopes."""
    exponents = np.arange(powers)
    value = points[:, None] ** exponents
    slope = exponents * points[:, None] ** np.maximum(exponents - 1, 0)

    def pairs(z: np.ndarray, y: np.ndarray) -> tuple:
        table = np.einsum("kc,jb->kjcb", z, y).reshape(len(points) ** 2, -1).astype(dtype)
        return tuple(map(tuple, table))

    lines = (tuple(map(tuple, table.astype(dtype))) for table in (value, slope))
    return pairs(value, value), pairs(value, slope), pairs(slope, value), *lines


@lru_cache(maxsize=8)
def room(threads: int, block: int, line: int, dtype: np.dtype, components: int = 3) -> tuple[np.ndarray, ...]:
    """Allocate the work arrays of threads: unknowns, F, forces, and the polynomials of a line."""
    sizes = components * block, 3 * components * block, components * block, line
    return tuple(np.empty((threads, size), dtype) for size in sizes)
