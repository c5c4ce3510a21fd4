r"""Effective moduli of cells that contain more than one medium.

A cell cut by an interface is equivalent, for long waves, to a laminate of its media, which is anisotropic even if they
are not (Backus 1962, J. Geophys. Res. 67, 4427-4440). For layers along the axis n, with t and u the other two axes,

.. math::
    c_{nn} = \langle 1/c_{nn} \rangle^{-1}, \qquad c_{nt} = r_t c_{nn}, \qquad
    c_{tu} = \langle c_{tu} - c_{nt} c_{nu} / c_{nn} \rangle + r_t r_u c_{nn}, \qquad
    r_t = \langle c_{nt} / c_{nn} \rangle,

also with u = t; shear moduli that involve n are harmonic means, that of t and u is an arithmetic mean. Only with such
moduli, each for the cell around the location of its stress, are finite differences of second order at interfaces (Moczo
et al. 2002, BSSA 92(8), 3042-3066; Kristek et al. 2017, Geophys. J. Int. 208, 1401-1414).

A stiffness is an array (9, ...) with the rows c11, c22, c33, c12, c13, c23, c44, c55, c66.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from lithowave.description.media import LayeredMedium, Medium, elastic_moduli, vertical_range

NORMAL = {(0, 0): 0, (1, 1): 1, (2, 2): 2, (0, 1): 3, (0, 2): 4, (1, 2): 5}
SHEAR = {(1, 2): 6, (0, 2): 7, (0, 1): 8}
GAUSS = 0.5 / np.sqrt(3.0)  # of two Gauss points, from the middle of an interval of length one
FINE = (4, 4, 8)  # points along x, y and z in a cell with a contact
CONTRAST = 1.1  # ratio of moduli at the corners of a cell above which it has a contact
CHUNK = 60_000  # points that are averaged at a time

Point = tuple[np.ndarray, np.ndarray, np.ndarray]


def isotropic(kappa: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return the stiffness (9, ...) of a bulk and a shear modulus."""
    lam = kappa - 2.0 / 3.0 * mu
    return np.stack([lam + 2.0 * mu] * 3 + [lam] * 3 + [mu] * 3)


def laminate(stiffness: np.ndarray, shares: np.ndarray, axis: int) -> np.ndarray:
    """Return the stiffness (9, ...) of a laminate whose layers are perpendicular to an axis (0, 1, 2).

    stiffness : (9, layers, ...). shares : (layers, ...) of the thickness; they add up to one.
    """

    def mean(values: np.ndarray) -> np.ndarray:
        return (shares * values).sum(axis=0)

    def normal(a: int, b: int) -> int:
        return NORMAL[min(a, b), max(a, b)]

    t, u = (other for other in range(3) if other != axis)
    across = stiffness[normal(axis, axis)]
    found = np.empty((9, *np.broadcast_shapes(stiffness.shape[1:], shares.shape)[1:]))
    whole = found[normal(axis, axis)] = 1.0 / mean(1.0 / across)
    ratio = {other: mean(stiffness[normal(axis, other)] / across) for other in (t, u)}
    for other in (t, u):
        found[normal(axis, other)] = ratio[other] * whole
    for a, b in ((t, t), (u, u), (t, u)):
        pair = stiffness[normal(axis, a)] * stiffness[normal(axis, b)] / across
        found[normal(a, b)] = mean(stiffness[normal(a, b)] - pair) + ratio[a] * ratio[b] * whole
    for pair, row in SHEAR.items():
        found[row] = 1.0 / mean(1.0 / stiffness[row]) if axis in pair else mean(stiffness[row])
    return found


def effective_stiffness(
    medium: Medium, x: np.ndarray, y: np.ndarray, z: np.ndarray, spacing: float, limits: tuple[float, float]
) -> np.ndarray:
    """Return the stiffness (9, ...) in Pa of the cells of side `spacing` around points.

    x, y, z : coordinates that broadcast against each other. limits : z between which the medium is averaged. The result
    is exact for layers; in gridded models and functions a cell is sampled at 8 points, or at 128 if the moduli at its
    corners differ by more than a tenth, and is a laminate of laminates along x, y, and finally z.
    """
    shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
    z = z.reshape(*[1] * (len(shape) - z.ndim), *z.shape)
    if isinstance(medium, LayeredMedium):
        shares, stiffness = layer_shares(medium, z, spacing, limits), layer_stiffness(medium)
        found = laminate(stiffness.reshape(9, -1, *[1] * len(shape)), shares, 2)
        return np.broadcast_to(found, (9, *shape))
    rows = max(1, CHUNK // max(1, shape[-1])) if len(shape) == 2 and y.shape[0] > 1 else None
    if rows is None or shape[0] <= rows:
        return sampled_stiffness(medium, (x, y, z), spacing, limits)
    parts = [y[first : first + rows] for first in range(0, shape[0], rows)]
    return np.concatenate([sampled_stiffness(medium, (x, part, z), spacing, limits) for part in parts], axis=1)


def layer_shares(
    medium: LayeredMedium, z: np.ndarray, spacing: float, limits: tuple[float, float]
) -> np.ndarray:
    """Return the fraction of the height of the cells around z in each layer, (layers, ...)."""
    low, high = vertical_range(z, spacing, limits)
    tops = (np.inf, *medium.tops[1:], -np.inf)
    heights = [np.minimum(high, top) - np.maximum(low, bottom) for top, bottom in zip(tops, tops[1:], strict=False)]
    return np.maximum(np.stack(heights), 0.0) / (high - low)


def layer_stiffness(medium: LayeredMedium) -> np.ndarray:
    """Return the stiffness (9, layers)."""
    if medium.stiffness is not None:
        return np.array(medium.stiffness).T
    kappa, mu, _ = elastic_moduli(np.array(medium.vp), np.array(medium.vs), np.array(medium.rho))
    return isotropic(kappa, mu)


def sampled_stiffness(medium: Medium, points: Point, spacing: float, limits: tuple[float, float]) -> np.ndarray:
    """Return the stiffness (9, ...) of cells from samples of the medium."""
    pair = np.array([-GAUSS, GAUSS])
    found = _from_samples(medium, points, spacing, limits, (pair, pair, pair))
    contact = has_contact(medium, points, spacing, limits)
    if contact.any():
        some = tuple(np.broadcast_to(values, contact.shape)[contact] for values in points)
        middles = tuple((np.arange(count) + 0.5) / count - 0.5 for count in FINE)
        found[:, contact] = _from_samples(medium, some, spacing, limits, middles)  # type: ignore[arg-type]
    return found


def has_contact(medium: Medium, points: Point, spacing: float, limits: tuple[float, float]) -> np.ndarray:
    """Return where the moduli at the corners of the cells around points differ by more than `CONTRAST`."""
    ends = np.array([-0.5, 0.5]) * (1.0 - 1e-9)
    corners = _samples(medium, points, spacing, limits, (ends, ends, ends))
    moduli = np.stack([np.stack([kappa + 4.0 / 3.0 * mu, mu]) for kappa, mu in corners])
    return (moduli.max(axis=0) > CONTRAST * moduli.min(axis=0)).any(axis=0)


def _samples(
    medium: Medium, points: Point, spacing: float, limits: tuple[float, float], offsets: Point
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the bulk and shear moduli of samples at offsets along x, y and z, in cells; those along x are the fastest."""
    x, y, z = points
    low, high = vertical_range(z, spacing, limits)
    middle, height = 0.5 * (low + high), high - low
    for dz, dy, dx in itertools.product(*offsets[::-1]):
        yield medium.moduli(x + dx * spacing, y + dy * spacing, middle + dz * height)[:2]


def _from_samples(
    medium: Medium, points: Point, spacing: float, limits: tuple[float, float], offsets: Point
) -> np.ndarray:
    """Return the stiffness (9, ...) of laminates along x of samples, of these along y, and of these along z."""
    counts = [len(values) for values in offsets]

    def combined(layers: list[np.ndarray], axis: int) -> np.ndarray:
        shares = np.full((len(layers), *[1] * (layers[0].ndim - 1)), 1.0 / len(layers))
        return laminate(np.stack(layers, axis=1), shares, axis)

    lines: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    planes: list[np.ndarray] = []
    for moduli in _samples(medium, points, spacing, limits, offsets):
        lines.append(isotropic(*moduli))
        if len(lines) == counts[0]:
            rows.append(combined(lines, 0))
            lines = []
        if len(rows) == counts[1]:
            planes.append(combined(rows, 1))
            rows = []
    return combined(planes, 2)
