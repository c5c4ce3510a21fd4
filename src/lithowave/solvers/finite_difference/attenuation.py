r"""Attenuation on the grid: the relaxation mechanisms that each node stores, and their fractions.

A node stores either all n mechanisms of the body (*full*), with the fractions f_j = Y_j, or one mechanism of a body
with eight (*coarse*), with f of about 8 Y_j, so that each mechanism is at one node of every cube of 2 x 2 x 2 nodes
(Day 1998, BSSA 88(4), 1051-1062; Day & Bradley 2001, BSSA 91(3), 520-531). Waves that are much longer than two cells
have the moduli of the average. Stresses at half nodes have the mechanism and the fractions of the node with the same
indices.

Absorbing layers are unstable in a medium whose moduli vary from node to node. In the coarse mode, their nodes therefore
store one mechanism with a common rate, whose modulus is close to that of the body at the upper end of its band.

In kernels, the argument `law` of a medium with attenuation is the tuple of

=============  =======================================================================================================
memory         six arrays of memory variables; the grids of the mechanisms are one above the other
fractions      32-bit codes with the same layout: f_kappa / unit in the lowest 15 bits, f_mu / unit from bit 16 on; bit
               15 is set where the mechanism has the common rate of the absorbing layers
b              2 x / (1 + x) with x = w dt / 2: (mechanisms, 16), first by the parity 4 k + 2 j + i of the indices, then
               eight times that of the common rate
unit           of the codes
moduli         arrays of the law, unrelaxed
grids          the first plane of each mechanism
=============  =======================================================================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.experiment import in_material
from lithowave.errors import InputError
from lithowave.media.anelasticity import Anelasticity
from lithowave.media.medium import LayeredMedium, elastic_moduli, vertical_range
from lithowave.mesh.grid import Grid
from lithowave.rheology import RelaxationBody, fit_body

if TYPE_CHECKING:
    from lithowave.description.experiment import Experiment

NODES = 8
"""Nodes of a cube, and mechanisms of the body in the coarse mode."""

SMALLEST_COARSE_QUALITY = 20.0
"""Q below which ``memory_variables: auto`` stores all mechanisms at every node: the modulus of a cube of eight nodes is
a harmonic mean for some waves, which differs from the sum of the mechanisms by an amount of the order 1/Q^2 (Graves &
Day 2003, BSSA 93(1), 283-300)."""

LAST_CODE = 32767
COMMON_RATE = np.uint32(1 << 15)
PLANES_KEPT = 4  # different planes of codes of layers that may be yielded again
VARIANCE_WEIGHT = 0.5  # theta of `coarse_fractions`
_SHORTER_STEP = 0.1  # relative excess of the unrelaxed vp from which on there is a warning
_SAMPLES = 257  # values of 1/Q at which the largest fraction is determined
_SMOOTHING = 0.1  # weight of the relative change of fractions: neighboring mechanisms have similar effects
_FITTED, _ITERATIONS = 60, 8  # frequencies and iterations of the fit of fractions
_WEAK = 1e-6  # 1/Q at which the ratio of fractions to 1/Q is that of weak attenuation

Fractions = Callable[[int, slice, slice], tuple[np.ndarray, ...]]


def node_mechanism(k: int, j: int, i: int) -> int:
    """Return the mechanism of a node of the global grid in the coarse mode.

    Rates ascend with the number of the mechanism. In both halves of a cube along each axis, the numbers have the same
    sum, so that planes of nodes have similar attenuation.
    """
    k, j, i = k % 2, j % 2, i % 2
    return 4 * (i ^ j ^ k) + 2 * (i ^ k) + (i ^ j)


@dataclass(frozen=True, eq=False)
class GridAttenuation:
    """Mechanisms of the nodes.

    body : mechanisms of the model: eight in the coarse mode. coarse : True if a node stores one of them. largest_loss :
    largest 1/Q of a modulus. anelasticity : attenuation of the material with this body.
    """

    body: RelaxationBody
    coarse: bool
    largest_loss: float
    anelasticity: Anelasticity

    @property
    def stored(self) -> int:
        """Number of mechanisms that a node stores."""
        return 1 if self.coarse else self.body.mechanisms

    @cached_property
    def table(self) -> np.ndarray:
        """Fractions divided by 1/Q, (m, n), at the nodes of the body; see `fraction`."""
        losses = np.maximum(self.body.nodes, _WEAK)[:, None]
        weights = self.body.weights(losses[:, 0]).T
        if not self.coarse:
            return weights / losses
        found = coarse_fractions(self.body, weights)
        return np.concatenate([found, common_fractions(self.body, weights, self.common_rate)[:, None]], axis=1) / losses

    @cached_property
    def common_rate(self) -> float:
        """Rate of the mechanism of absorbing layers in the coarse mode, rad/s: that of the closest modulus."""
        weights = self.body.weights(np.array([self.largest_loss])).T
        rates = 2.0 * np.pi * np.geomspace(*self.body.band, _SAMPLES)

        def rest(rate: float) -> float:
            omega = _upper_band(self.body)
            fraction = common_fractions(self.body, weights, rate)
            target = relaxation(omega, self.body.rates, weights[0])
            return float(np.abs(target - fraction * rate / (rate + 1j * omega)).max())

        return min(rates, key=rest)

    def fraction(self, number: int, loss: np.ndarray) -> np.ndarray:
        """Return the fraction of a mechanism for values of 1/Q; the last number is that of absorbing layers."""
        return loss * np.interp(loss, self.body.nodes, self.table[:, number])

    @cached_property
    def largest(self) -> float:
        """Largest fraction, whose code is `LAST_CODE`."""
        losses = np.linspace(0.0, self.largest_loss, _SAMPLES)
        return max(float(self.fraction(number, losses).max()) for number in range(self.table.shape[1]))

    def relaxation(self, time_step: float, grid: Grid, halo: int) -> np.ndarray:
        """Return b (stored, 16), with the parity of indices in the padded arrays of a rank."""
        rates = np.append(self.body.rates, self.common_rate) if self.coarse else self.body.rates
        half = 0.5 * time_step * rates
        part = 2.0 * half / (1.0 + half)
        if not self.coarse:
            return np.repeat(part[:, None], 2 * NODES, axis=1)
        i, j, k = (first - halo for first in grid.first)
        mechanisms = [node_mechanism(k + z, j + y, i + x) for z, y, x in np.ndindex(2, 2, 2)]
        return part[[mechanisms + [NODES] * NODES]]

    def pattern(self, k: int, j: int, i: int) -> Iterator[tuple[int, tuple]]:
        """Yield each mechanism of a plane and the index of its nodes in an array (stored, rows, columns).

        k, j, i : indices of the first node of the plane in the global grid.
        """
        if not self.coarse:
            yield from ((number, (number, slice(None), slice(None))) for number in range(self.stored))
            return
        for row, column in np.ndindex(2, 2):
            index = (0, slice(row, None, 2), slice(column, None, 2))
            yield node_mechanism(k, j + row, i + column), index


def relaxation(omega: np.ndarray, rates: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return sum_j Y_j w_j / (w_j + i w), the part by which the modulus is less than the unrelaxed one."""
    return (weights * rates / (rates + 1j * omega[:, None])).sum(axis=1)


def _upper_band(body: RelaxationBody) -> np.ndarray:
    return 2.0 * np.pi * np.geomspace(max(body.band[0], 0.1 * body.band[1]), body.band[1], _FITTED)


def common_fractions(body: RelaxationBody, weights: np.ndarray, rate: float) -> np.ndarray:
    """Return the fractions (m,) of one mechanism with the modulus that is closest to those of weights Y (m, n).

    It is the least-squares fit in the upper decade of the band, where most of the energy of the waves is expected.
    """
    omega = _upper_band(body)
    step = rate / (rate + 1j * omega)
    targets = np.stack([relaxation(omega, body.rates, one) for one in weights])
    return (targets * step.conj()).real.sum(axis=1) / (np.abs(step) ** 2).sum()


def coarse_fractions(body: RelaxationBody, weights: np.ndarray) -> np.ndarray:
    r"""Return the fractions (m, 8) with which the average of eight nodes has the modulus of weights Y (m, 8).

    To second order, the modulus of a medium whose moduli vary over short distances is less than their mean,

    .. math::
        M = \langle M_j \rangle
          - \theta\,(\langle M_j^2 \rangle - \langle M_j \rangle^2) / \langle M_j \rangle,

    with theta = 6 (kappa + 2 mu) / (5 (3 kappa + 4 mu)) for mu, and kappa / (kappa + 4/3 mu) for kappa, if the
    variation is isotropic; both are about 1/2 in rocks. The fractions are those of the least-squares fit of this
    modulus in the band of the body; without variance, they are 8 Y_j. Graves & Day (2003) correct the same effect, with
    a harmonic mean.
    """
    omega = 2.0 * np.pi * np.geomspace(*body.band, _FITTED)[:, None]
    steps = body.rates / (body.rates + 1j * omega)
    found = NODES * weights
    for fractions, given in zip(found, weights, strict=True):
        target = steps @ given
        for _ in range(_ITERATIONS):
            parts = steps * fractions
            mean = parts.mean(axis=1)
            rest = target - mean - VARIANCE_WEIGHT * ((parts**2).mean(axis=1) - mean**2)
            slopes = steps / NODES * (1.0 + 2.0 * VARIANCE_WEIGHT * (parts - mean[:, None]))
            size = np.abs(target)
            rows = [np.concatenate([part.real, part.imag]) for part in (slopes / size[:, None], rest / size)]
            rows[0] = np.concatenate([rows[0], np.diag(_SMOOTHING / (NODES * given))])
            rows[1] = np.concatenate([rows[1], _SMOOTHING * (1.0 - fractions / (NODES * given))])
            fractions += np.linalg.lstsq(*rows, rcond=None)[0]
    return found


def choose_attenuation(experiment: Experiment) -> GridAttenuation | None:
    """Return the attenuation on the grid; None if the material is elastic.

    Raises
    ------
    InputError : the coarse mode is requested, and a mechanism that represents eight would remove all stiffness.
    """
    given, requested = experiment.anelasticity, experiment.solver.memory_variables
    if given is None:
        return None
    smallest = 1.0 / given.inverse_qualities[1]
    coarse = requested == "coarse" or (requested == "auto" and smallest >= SMALLEST_COARSE_QUALITY)
    if coarse:
        body = fit_body(given.body.law, given.body.band, NODES, given.inverse_qualities)
        given = replace(given, body=body)
    found = GridAttenuation(given.body, coarse, given.inverse_qualities[1], given)
    if coarse and found.largest >= 1.0:
        raise InputError(
            "solver.memory_variables",
            f"coarse is not possible with the quality factor {smallest:.3g} in this band",
            "allowed here: auto, full",
            "one mechanism per node represents eight, and its modulus would be negative at low frequencies",
        )
    return found


def attenuation_warnings(
    found: GridAttenuation | None, fastest: float, experiment: Experiment
) -> Iterator[str]:
    """Yield warnings about a coarse grid with strong attenuation, and about a time step that is much shorter.

    fastest : vp of waves of high frequency, m/s.
    """
    if found is None:
        return
    smallest = 1.0 / found.largest_loss
    if found.coarse and smallest < SMALLEST_COARSE_QUALITY:
        yield (
            f"solver.memory_variables: coarse is inaccurate with a quality factor of {smallest:.3g}; its error was 2% "
            f"(relative L2 norm of seismograms) with {SMALLEST_COARSE_QUALITY:g}, and grows as 1/Q^2. Use full."
        )
    described = experiment.material_extremes["vp_max"]
    if fastest > (1.0 + _SHORTER_STEP) * described:
        yield (
            f"material: attenuation shortens the time step by {1.0 - described / fastest:.0%}: waves of "
            f"high frequency have vp = {fastest:.5g} m/s instead of {described:.5g} m/s. A higher "
            "material.attenuation.reference_frequency or a narrower band reduces the difference."
        )


def unrelaxed(experiment: Experiment, attenuation: GridAttenuation | None) -> Experiment:
    """Return the experiment in the unrelaxed material, which the grid represents; itself without attenuation."""
    if attenuation is None or attenuation.anelasticity is None:
        return experiment
    return in_material(experiment, attenuation.anelasticity.material)


def code_planes(
    attenuation: GridAttenuation, experiment: Experiment, grid: Grid, halo: int
) -> Iterator[np.ndarray]:
    """Yield the codes (stored, rows, columns) of the fractions of each plane, the halo included.

    Absorbing layers and the halo have the values of the nearest point of the domain. In layers, planes that equal one
    of the `PLANES_KEPT` last different ones are the same array.

    Raises
    ------
    InputError : a quality factor is below the smallest one that the examination of the model has found.
    """
    place = [grid.coordinates(axis, halo) for axis in range(3)]
    fractions_at = _of_material(attenuation, experiment, grid, place)
    i, j, k = (first - halo for first in grid.first)
    outside = [_outside(grid, axis, halo) for axis in range(3)]
    everywhere = (0, slice(None), slice(None))
    layered = isinstance(attenuation.anelasticity.source.medium, LayeredMedium)
    recent: deque[tuple[object, np.ndarray]] = deque(maxlen=PLANES_KEPT)
    for plane, z in enumerate(place[2]):
        fractions = fractions_at(float(z))
        what = None
        if layered:
            values = (fractions(number, *everywhere[1:]) for number in range(attenuation.table.shape[1]))
            what = ((k + plane) % 2, outside[2][plane], *(float(one) for pair in values for one in pair))
            same = next((codes for known, codes in recent if known == what), None)
            if same is not None:
                yield same
                continue
        codes = np.empty((attenuation.stored, place[1].size, place[0].size), np.uint32)
        for number, index in attenuation.pattern(k + plane, j, i):
            codes[index] = _encode(attenuation, fractions(number, *index[1:]), z)
        if attenuation.coarse:
            in_layer = outside[2][plane] | outside[1][:, None] | outside[0]
            common = _encode(attenuation, fractions(NODES, *everywhere[1:]), z) | COMMON_RATE
            codes[0] = np.where(in_layer, common, codes[0])
        recent.append((what, codes))
        yield codes


def _outside(grid: Grid, axis: int, halo: int) -> np.ndarray:
    """Return True for the nodes along an axis, the halo included, that are in absorbing layers."""
    numbers, inside = grid.first[axis] + np.arange(-halo, grid.shape[axis] + halo), grid.whole.interior(axis)
    return (numbers < inside.start) | (numbers >= inside.stop)


def _encode(attenuation: GridAttenuation, fractions: Sequence[np.ndarray], z: float) -> np.ndarray:
    unit = attenuation.largest / LAST_CODE
    bulk, shear = (np.rint(np.asarray(values) / unit) for values in fractions)
    if max(bulk.max(initial=0), shear.max(initial=0)) > LAST_CODE:
        raise InputError(
            "material",
            f"a quality factor near z = {z:g} m is below {1.0 / attenuation.largest_loss:.4g}",
            "the smallest value that the examination of the model has found",
            "use a smoother function, or a gridded model",
        )
    return bulk.astype(np.uint32) | shear.astype(np.uint32) << np.uint32(16)


def _of_material(
    attenuation: GridAttenuation, experiment: Experiment, grid: Grid, place: Sequence[np.ndarray]
) -> Callable[[float], Fractions]:
    """Return the fractions of a plane as a function of mechanism, rows and columns."""
    anelasticity, domain = attenuation.anelasticity, experiment.domain
    if isinstance(anelasticity.source.medium, LayeredMedium):
        return lambda z: _of_layers(attenuation, anelasticity, z, grid.spacing, domain.z)
    x, y = (np.clip(values, *ends) for values, ends in zip(place[:2], (domain.x, domain.y), strict=True))

    def at(z: float) -> Fractions:
        losses = anelasticity.inverse_quality(x, y[:, None], np.clip(z, *domain.z))
        return lambda number, rows, columns: tuple(attenuation.fraction(number, loss[rows, columns]) for loss in losses)

    return at


def _of_layers(
    attenuation: GridAttenuation, anelasticity: Anelasticity, z: float, spacing: float, limits: tuple[float, float]
) -> Fractions:
    """Return the fractions of a cell of layers: means over its height with weights f / M_U, divided by that of 1 / M_U.

    To first order in f, they are those of the harmonic mean of the complex moduli.
    """
    medium, unrelaxed = anelasticity.source.medium, anelasticity.material.medium
    assert isinstance(medium, LayeredMedium) and isinstance(unrelaxed, LayeredMedium)
    low, high = vertical_range(np.asarray(z), spacing, limits)
    tops = np.array((np.inf, *medium.tops[1:], -np.inf))
    heights = np.clip(np.minimum(high, tops[:-1]) - np.maximum(low, tops[1:]), 0.0, None)
    moduli = elastic_moduli(*(np.array(values) for values in (unrelaxed.vp, unrelaxed.vs, unrelaxed.rho)))[:2]
    shares = [heights / modulus / (heights / modulus).sum() for modulus in moduli]
    losses = np.array(medium.losses).T
    return lambda number, _rows, _columns: tuple(
        attenuation.fraction(number, loss) @ share for loss, share in zip(losses, shares, strict=True)
    )
