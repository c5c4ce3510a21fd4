r"""Effective moduli and densities of a medium with interfaces between the points of a grid.

For long waves, a stack of layers is equivalent to a homogeneous anisotropic medium (Backus 1962, J. Geophys. Res. 67,
4427-4440). For layers along the axis n, with t and u the other two axes,

.. math::
    c_{nn} = \langle 1/c_{nn} \rangle^{-1}, \qquad c_{nt} = r_t c_{nn}, \qquad
    c_{tu} = \langle c_{tu} - c_{nt} c_{nu} / c_{nn} \rangle + r_t r_u c_{nn}, \qquad
    r_t = \langle c_{nt} / c_{nn} \rangle,

also with u = t; shear moduli that involve n are harmonic means, that of t and u is an arithmetic mean. Finite
differences are of second order at interfaces only with such moduli, each for the location of its stress (Moczo et al.
2002, BSSA 92(8), 3042-3066; Kristek et al. 2017, Geophys. J. Int. 208, 1250-1264).

Means of compliances are over the cell of the size of the grid spacing around the point. If the other means were over
the same cell, the error would depend on the position of an interface in its cell, because they preserve the mass (and
the stiffness to horizontal strain) but not its centre. They therefore have the weights phi(z) of a function that
decreases from 1 at the point to 0 at the next ones, linearly in the integral of 1 / c44: this is the static
displacement between the points, so that the energies of the grid are those of this displacement, and mass and centre of
mass are
preserved. For r_t and r_u, which couple displacement and stress, phi is linear in z.

A medium is an array (10, ...) with the rows c11, c22, c33, c12, c13, c23, c44, c55, c66 and the density.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.description.media import LayeredMedium, Medium, elastic_moduli

NORMAL = {(0, 0): 0, (1, 1): 1, (2, 2): 2, (0, 1): 3, (0, 2): 4, (1, 2): 5}
SHEAR = {(1, 2): 6, (0, 2): 7, (0, 1): 8}
DENSITY = 9
ROWS = 10
LEVELS = 8  # samples along z between two planes of the grid, in media other than layers
SHARPEST = 0.05  # of a mean
ACROSS = (-0.25, 0.25)  # their positions along x and y, in cells


@dataclass(frozen=True)
class Slab:
    """Medium between two levels, as thin layers from the bottom up.

    layers : (10, layers, ...). thickness : (layers, 1, ...), m.
    """

    layers: np.ndarray
    thickness: np.ndarray


def isotropic(kappa: np.ndarray, mu: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Return the medium (10, ...) of a bulk modulus, a shear modulus and a density."""
    lam = kappa - 2.0 / 3.0 * mu
    return np.stack([lam + 2.0 * mu] * 3 + [lam] * 3 + [mu] * 3 + [rho])


def laminate(
    layers: np.ndarray,
    shares: np.ndarray,
    axis: int,
    weights: np.ndarray | None = None,
    ratio_weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the medium (10, ...) of layers (10, layers, ...) perpendicular to an axis (0, 1, 2).

    shares : (layers, ...) for means of compliances. weights, ratio_weights : for the other means, and for r_t and r_u;
    default: the shares.
    """
    weights = shares if weights is None else weights
    ratio_weights = shares if ratio_weights is None else ratio_weights

    def mean(values: np.ndarray) -> np.ndarray:
        return (weights * values).sum(axis=0)

    def normal(a: int, b: int) -> int:
        return NORMAL[min(a, b), max(a, b)]

    t, u = (other for other in range(3) if other != axis)
    across = layers[normal(axis, axis)]
    found = np.empty((ROWS, *np.broadcast_shapes(layers.shape[1:], shares.shape)[1:]))
    whole = found[normal(axis, axis)] = 1.0 / (shares / across).sum(axis=0)
    ratio = {other: (ratio_weights * layers[normal(axis, other)] / across).sum(axis=0) for other in (t, u)}
    for other in (t, u):
        found[normal(axis, other)] = ratio[other] * whole
    for a, b in ((t, t), (u, u), (t, u)):
        pair = layers[normal(axis, a)] * layers[normal(axis, b)] / across
        found[normal(a, b)] = mean(layers[normal(a, b)] - pair) + ratio[a] * ratio[b] * whole
    for pair, row in SHEAR.items():
        found[row] = 1.0 / (shares / layers[row]).sum(axis=0) if axis in pair else mean(layers[row])
    found[DENSITY] = mean(layers[DENSITY])
    return found


def falling_weights(slab: Slab, compliance: np.ndarray | float, upward: bool) -> np.ndarray:
    """Return the integrals of phi over the layers of a slab, m.

    phi is 1 at its lower end (`upward`) or its upper end, and decreases linearly in the integral of `compliance`.
    """
    steps = slab.thickness * compliance
    total = steps.sum(axis=0)
    before = np.cumsum(steps, axis=0) - 0.5 * steps
    part = before / np.where(total > 0.0, total, 1.0)
    return slab.thickness * (1.0 - part if upward else part)


def at_node(below: Slab, above: Slab, spacing: float) -> np.ndarray:
    """Return the medium (10, ...) of the node between two slabs, each at most one grid spacing thick."""
    near = [_within(below, 0.5 * spacing, from_top=True), _within(above, 0.5 * spacing, from_top=False)]
    shares = np.concatenate([part.thickness + 0.0 * part.layers[0] for part in near])
    half_height = 0.5 * (below.thickness.sum(axis=0) + above.thickness.sum(axis=0))
    layers = np.concatenate([below.layers, above.layers], axis=1)
    bent, straight = (
        np.concatenate([falling_weights(below, first, False), falling_weights(above, second, True)]) / half_height
        for first, second in ((_shear_compliance(below), _shear_compliance(above)), (1.0, 1.0))
    )
    return laminate(layers, shares / shares.sum(axis=0), 2, bent, straight)


def _shear_compliance(slab: Slab) -> np.ndarray:
    return 0.5 * (1.0 / slab.layers[6] + 1.0 / slab.layers[7])


def sharpened(below: np.ndarray, here: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the medium (10, ...) of a node without the second moment of its weights phi, given its neighbors along z.

    A mean m becomes m - (m_above - 2 m + m_below) / 24, which is a mean of cubic accuracy in a smooth medium. It
    changes by no more than `SHARPEST`, because the expansion is not valid at large contrasts.
    """

    def means(medium: np.ndarray) -> np.ndarray:
        c11, c22, c33, c12, c13, c23 = medium[:6]
        flat = (c11 - c13**2 / c33, c22 - c23**2 / c33, c12 - c13 * c23 / c33)
        return np.stack([*flat, medium[8], medium[DENSITY], c13 / c33, c23 / c33])

    old = means(here)
    most = SHARPEST * np.abs(old)
    new = old + np.clip((2.0 * old - means(above) - means(below)) / 24.0, -most, most)
    c33, x, y = here[2], *new[5:]
    found = here.copy()
    found[[0, 1, 3, 8, DENSITY]] = new[:5]
    found[[0, 1, 3]] += np.stack([x * x, y * y, x * y]) * c33
    found[[4, 5]] = new[5:] * c33
    return found


def between_nodes(slab: Slab) -> np.ndarray:
    """Return the medium (10, ...) half-way between two nodes, from the slab between them."""
    shares = slab.thickness / slab.thickness.sum(axis=0)
    return laminate(slab.layers, shares, 2)


def _within(slab: Slab, height: float, from_top: bool) -> Slab:
    """Return the layers of a slab with the thickness of their part within a height from its top, or its bottom."""
    thickness = slab.thickness[::-1] if from_top else slab.thickness
    ends = np.cumsum(thickness, axis=0)
    part = np.clip(height - (ends - thickness), 0.0, thickness)
    return Slab(slab.layers, part[::-1] if from_top else part)


def slab_between(
    medium: Medium, x: np.ndarray, y: np.ndarray, low: float, high: float, spacing: float
) -> Slab:
    """Return the medium between two levels z = low and high at points x, y (which broadcast against each other).

    Layers are exact. Gridded media and functions are sampled at `LEVELS` levels and 2 x 2 points of the cell in each;
    the samples of a level are laminates along x and then y.
    """
    shape = np.broadcast_shapes(x.shape, y.shape)
    flat = [1] * len(shape)
    if isinstance(medium, LayeredMedium):
        ends = np.clip(np.array((np.inf, *medium.tops[1:], -np.inf))[::-1], low, high)
        layers = layer_media(medium)[:, ::-1].reshape(ROWS, -1, *flat)
        return Slab(np.broadcast_to(layers, (*layers.shape[:2], *shape)), np.diff(ends).reshape(-1, *flat))
    step = (high - low) / LEVELS
    levels = [_level(medium, x, y, low + (number + 0.5) * step, spacing) for number in range(LEVELS)]
    return Slab(np.stack(levels, axis=1), np.full((LEVELS, *flat), step))


def layer_media(medium: LayeredMedium) -> np.ndarray:
    """Return the layers (10, layers), from the top down."""
    rho = np.array(medium.rho)
    if medium.stiffness is not None:
        return np.concatenate([np.array(medium.stiffness).T, rho[None]])
    kappa, mu, _ = elastic_moduli(np.array(medium.vp), np.array(medium.vs), rho)
    return isotropic(kappa, mu, rho)


def _level(medium: Medium, x: np.ndarray, y: np.ndarray, z: float, spacing: float) -> np.ndarray:
    """Return the medium (10, ...) of the cells around x, y at a level, from samples."""
    half = np.full((2, *[1] * len(np.broadcast_shapes(x.shape, y.shape))), 0.5)
    rows = []
    for dy in ACROSS:
        line = [isotropic(*medium.moduli(x + dx * spacing, y + dy * spacing, np.asarray(z))) for dx in ACROSS]
        rows.append(laminate(np.stack(line, axis=1), half, 0))
    return laminate(np.stack(rows, axis=1), half, 1)
