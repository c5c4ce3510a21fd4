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

The averages of one column of nodes are functions that Numba compiles for grids of samples, and that Python interprets
for layers, which have few columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import prange
from numba.extending import register_jitable

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import over_parts
from lithowave.media.medium import LayeredMedium, Medium, elastic_moduli

NORMAL = ((0, 3, 4), (3, 1, 5), (4, 5, 2))  # row of the modulus of two normal directions
OPPOSITE = 9  # the sum of two axes and of the row of their shear modulus
DENSITY = 9
ROWS = 10
LEVELS = 8  # samples along z between two planes of the grid, in media other than layers
ACROSS = (-0.25, 0.25)  # positions of the samples along x and y, in cells
UNIFORM = 0.01  # relative difference of samples that have arithmetic means, with an error of about UNIFORM^2 / 4
SHARPEST = 0.05  # of a mean
ROWS_AT_ONCE = 128  # rows of samples that are computed together, which limits the memory


@dataclass(frozen=True)
class Slab:
    """Medium between two levels at columns of nodes, as layers from the bottom up.

    samples : (layers, 10, 1, 1) media of layers that are the same at all columns, or (layers, 3, 2 rows, 2 columns)
    bulk moduli, shear moduli and densities at 2 x 2 points around each node. thickness : (layers,), m.
    """

    samples: np.ndarray
    thickness: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of nodes."""
        _, values, *points = self.samples.shape
        return (points[0], points[1]) if values == ROWS else (points[0] // 2, points[1] // 2)


def isotropic(kappa: np.ndarray, mu: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Return the medium (10, ...) of a bulk modulus, a shear modulus and a density."""
    lam = kappa - 2.0 / 3.0 * mu
    return np.stack([lam + 2.0 * mu] * 3 + [lam] * 3 + [mu] * 3 + [rho])


@register_jitable
def laminate(layers, axis, shares, weights, ratio_weights, found):
    """Compute the medium `found`, (10,), of layers (10, count) perpendicular to an axis (0, 1, 2).

    shares : (count,) for means of compliances. weights, ratio_weights : for the other means, and for r_t and r_u.
    """
    t, u = (axis + 1) % 3, (axis + 2) % 3
    nn, nt, nu = NORMAL[axis][axis], NORMAL[axis][t], NORMAL[axis][u]
    tt, uu, tu = NORMAL[t][t], NORMAL[u][u], NORMAL[t][u]
    shear_nt, shear_nu, shear_tu = OPPOSITE - axis - t, OPPOSITE - axis - u, OPPOSITE - t - u
    soft = soft_nt = soft_nu = ratio_t = ratio_u = flat_tt = flat_uu = flat_tu = stiff_tu = rho = 0.0
    for n in range(layers.shape[1]):
        compliance = 1.0 / layers[nn, n]
        r_t, r_u = layers[nt, n] * compliance, layers[nu, n] * compliance
        share, weight = shares[n], weights[n]
        soft += share * compliance
        soft_nt += share / layers[shear_nt, n]
        soft_nu += share / layers[shear_nu, n]
        ratio_t += ratio_weights[n] * r_t
        ratio_u += ratio_weights[n] * r_u
        flat_tt += weight * (layers[tt, n] - layers[nt, n] * r_t)
        flat_uu += weight * (layers[uu, n] - layers[nu, n] * r_u)
        flat_tu += weight * (layers[tu, n] - layers[nt, n] * r_u)
        stiff_tu += weight * layers[shear_tu, n]
        rho += weight * layers[DENSITY, n]
    whole = 1.0 / soft
    found[nn], found[nt], found[nu] = whole, ratio_t * whole, ratio_u * whole
    found[tt] = flat_tt + ratio_t * ratio_t * whole
    found[uu] = flat_uu + ratio_u * ratio_u * whole
    found[tu] = flat_tu + ratio_t * ratio_u * whole
    found[shear_nt], found[shear_nu], found[shear_tu], found[DENSITY] = 1.0 / soft_nt, 1.0 / soft_nu, stiff_tu, rho


@register_jitable
def falling_weights(layers, thickness, upward, bent, straight):
    """Compute the integrals of phi, m, over the layers of a slab: linear in the integral of 1/c44, and in z.

    phi is 1 at the lower end of the slab (`upward`) or at its upper end, and decreases to 0 at the other end.
    """
    total = height = 0.0
    for n in range(thickness.size):
        total += thickness[n] * (1.0 / layers[6, n] + 1.0 / layers[7, n])
        height += thickness[n]
    before = bottom = 0.0
    for n in range(thickness.size):
        step = thickness[n] * (1.0 / layers[6, n] + 1.0 / layers[7, n])
        part = (before + 0.5 * step) / total if total > 0.0 else 0.0
        level = (bottom + 0.5 * thickness[n]) / height if height > 0.0 else 0.0
        bent[n] = thickness[n] * (1.0 - part if upward else part)
        straight[n] = thickness[n] * (1.0 - level if upward else level)
        before += step
        bottom += thickness[n]


@register_jitable
def node_column(layers, below, above, spacing, shares, bent, straight, found):
    """Compute the medium `found`, (10,), of a node between two slabs, each at most one grid spacing thick.

    layers : (10, count) of both slabs, from the bottom up. below, above : thicknesses of the layers of the slabs, m.
    shares, bent, straight : (count,) working space.
    """
    first = below.size
    falling_weights(layers[:, :first], below, False, bent[:first], straight[:first])
    falling_weights(layers[:, first:], above, True, bent[first:], straight[first:])
    reach, whole, within = 0.0, 0.0, 0.0
    for n in range(above.size):  # the shares are the part of a layer within half a spacing
        shares[first + n] = min(max(0.5 * spacing - reach, 0.0), above[n])
        reach += above[n]
        within += shares[first + n]
    whole, reach = reach, 0.0
    for n in range(first - 1, -1, -1):
        shares[n] = min(max(0.5 * spacing - reach, 0.0), below[n])
        reach += below[n]
        within += shares[n]
    whole += reach
    for n in range(shares.size):
        shares[n] /= within
        bent[n] *= 2.0 / whole
        straight[n] *= 2.0 / whole
    laminate(layers, 2, shares, bent, straight, found)


@register_jitable
def half_column(layers, thickness, shares, found):
    """Compute the medium `found`, (10,), half-way between two nodes, from the slab between them."""
    height = 0.0
    for n in range(thickness.size):
        height += thickness[n]
    for n in range(thickness.size):
        shares[n] = thickness[n] / height
    laminate(layers, 2, shares, shares, shares, found)


@register_jitable
def isotropic_column(kappa, mu, rho, layer):
    """Compute the medium `layer`, (10,), of moduli and a density."""
    lam = kappa - 2.0 / 3.0 * mu
    layer[:3], layer[3:6], layer[6:9], layer[DENSITY] = lam + 2.0 * mu, lam, mu, rho


@register_jitable
def is_uniform(samples, j, i, first):
    """Return whether all samples of the cell around node (j, i) differ by at most `UNIFORM` from `first`, (3, 1, 1)."""
    uniform = True
    for n in range(3):
        most = UNIFORM * first[n, 0, 0]
        for level in range(samples.shape[0]):
            for b in range(2 * j, 2 * j + 2):
                for a in range(2 * i, 2 * i + 2):
                    uniform &= abs(samples[level, n, b, a] - first[n, 0, 0]) <= most
    return uniform


@register_jitable
def add_mean(samples, j, i, weights, found):
    """Add the mean of the samples of the cell around node (j, i), with weights of the levels, to `found`, (3,)."""
    for n in range(3):
        for level in range(samples.shape[0]):
            values = samples[level, n, 2 * j : 2 * j + 2, 2 * i : 2 * i + 2]
            found[n] += 0.25 * weights[level] * (values[0, 0] + values[0, 1] + values[1, 0] + values[1, 1])


@register_jitable
def level_media(samples, j, i, halves, pair, rows, layers):
    """Compute the media `layers`, (10, levels), of the cell around node (j, i), from `samples` of a `Slab`.

    The samples of a level are laminates along x and then y. halves, pair, rows : working space.
    """
    for level in range(samples.shape[0]):
        values = samples[level, :, 2 * j : 2 * j + 2, 2 * i : 2 * i + 2]
        if is_uniform(samples[level : level + 1], j, i, values):
            isotropic_column(
                0.25 * values[0].sum(), 0.25 * values[1].sum(), 0.25 * values[2].sum(), layers[:, level]
            )
            continue
        for b in range(2):
            for a in range(2):
                isotropic_column(values[0, b, a], values[1, b, a], values[2, b, a], pair[:, a])
            laminate(pair, 0, halves, halves, halves, rows[:, b])
        laminate(rows, 1, halves, halves, halves, layers[:, level])


@njit(error_model="numpy", cache=True, parallel=True)
def sampled_nodes(below, above, below_thickness, above_thickness, spacing, found):
    """Compute the media `found`, (10, rows, columns), of nodes between two slabs of samples."""
    first, count = below_thickness.size, below_thickness.size + above_thickness.size
    weights, unused = np.empty(count), np.empty(count)  # the weights phi of a uniform medium
    uniform = np.ones((ROWS, count))
    falling_weights(uniform[:, :first], below_thickness, False, unused[:first], weights[:first])
    falling_weights(uniform[:, first:], above_thickness, True, unused[first:], weights[first:])
    weights *= 2.0 / (below_thickness.sum() + above_thickness.sum())
    for j in prange(found.shape[1]):
        layers, work, halves = np.empty((ROWS, count)), np.empty((3, count)), np.full(2, 0.5)
        pair, rows = np.empty((ROWS, 2)), np.empty((ROWS, 2))
        for i in range(found.shape[2]):
            here = above[0, :, 2 * j : 2 * j + 2, 2 * i : 2 * i + 2]
            if is_uniform(below, j, i, here) and is_uniform(above, j, i, here):
                mean = np.zeros(3)
                add_mean(below, j, i, weights[:first], mean)
                add_mean(above, j, i, weights[first:], mean)
                isotropic_column(mean[0], mean[1], mean[2], found[:, j, i])
                continue
            level_media(below, j, i, halves, pair, rows, layers[:, :first])
            level_media(above, j, i, halves, pair, rows, layers[:, first:])
            node_column(
                layers, below_thickness, above_thickness, spacing, work[0], work[1], work[2], found[:, j, i]
            )


@njit(error_model="numpy", cache=True, parallel=True)
def sampled_halves(samples, thickness, found):
    """Compute the media `found`, (10, rows, columns), half-way between nodes, from the slab of samples between them."""
    weights = thickness / thickness.sum()
    for j in prange(found.shape[1]):
        layers, shares, halves = np.empty((ROWS, thickness.size)), np.empty(thickness.size), np.full(2, 0.5)
        pair, rows = np.empty((ROWS, 2)), np.empty((ROWS, 2))
        for i in range(found.shape[2]):
            if is_uniform(samples, j, i, samples[0, :, 2 * j : 2 * j + 2, 2 * i : 2 * i + 2]):
                mean = np.zeros(3)
                add_mean(samples, j, i, weights, mean)
                isotropic_column(mean[0], mean[1], mean[2], found[:, j, i])
                continue
            level_media(samples, j, i, halves, pair, rows, layers)
            half_column(layers, thickness, shares, found[:, j, i])


def at_node(below: Slab, above: Slab, spacing: float) -> np.ndarray:
    """Return the medium (10, rows, columns) of nodes between two slabs, each at most one grid spacing thick."""
    found = np.empty((ROWS, *below.shape))
    if below.samples.shape[1] != ROWS:
        sampled_nodes(below.samples, above.samples, below.thickness, above.thickness, spacing, found)
        return found
    layers = np.concatenate([below.samples, above.samples])[:, :, 0, 0].T
    node_column(layers, below.thickness, above.thickness, spacing, *np.empty((3, layers.shape[1])), found[:, 0, 0])
    return found


def between_nodes(slab: Slab) -> np.ndarray:
    """Return the medium (10, rows, columns) half-way between two nodes, from the slab between them."""
    found = np.empty((ROWS, *slab.shape))
    if slab.samples.shape[1] != ROWS:
        sampled_halves(slab.samples, slab.thickness, found)
    else:
        half_column(slab.samples[:, :, 0, 0].T, slab.thickness, np.empty(slab.thickness.size), found[:, 0, 0])
    return found


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


def slab_between(
    medium: Medium, x: np.ndarray, y: np.ndarray, low: float, high: float, spacing: float
) -> Slab:
    """Return the medium between two levels z = low and high at nodes x, (columns,), and y, (rows,).

    Flat layers are exact, and the same at all nodes. Other media are sampled in `LEVELS` intervals.
    """
    if isinstance(medium, LayeredMedium):
        ends = np.clip(np.array((np.inf, *medium.tops[1:], -np.inf))[::-1], low, high)
        return Slab(layer_media(medium)[:, ::-1].T[:, :, None, None], np.diff(ends))
    step = (high - low) / LEVELS
    x, y = (np.add.outer(values, spacing * np.array(ACROSS)).reshape(-1) for values in (x, y))
    samples = np.empty((LEVELS, 3, y.size, x.size), np.float32)
    parts = -(-y.size // ROWS_AT_ONCE)

    def sample(index: slice) -> None:
        number, rows = divmod(index.start, parts)
        part = slice(rows * ROWS_AT_ONCE, (rows + 1) * ROWS_AT_ONCE)
        z = np.asarray(low + (number + 0.5) * step)
        samples[number, :, part] = medium.interval_moduli(x, y[part, None], z, step)

    over_parts(sample, LEVELS * parts, 1, None if medium.concurrent else 1)
    return Slab(samples, np.full(LEVELS, step))


def layer_media(medium: LayeredMedium) -> np.ndarray:
    """Return the layers (10, layers), from the top down."""
    rho = np.array(medium.rho)
    if medium.stiffness is not None:
        return np.concatenate([np.array(medium.stiffness).T, rho[None]])
    kappa, mu, _ = elastic_moduli(np.array(medium.vp), np.array(medium.vs), rho)
    return isotropic(kappa, mu, rho)
