r"""Attenuation on the grid: the relaxation mechanisms that each node stores, and their fractions.

A node stores either all n mechanisms of the body (*full*), with the fractions f_j = Y_j, or one mechanism of a body with
eight (*coarse*), with f of about 8 Y_j, so that each mechanism is at one node of every cube of 2 x 2 x 2 nodes (Day 1998, BSSA
88(4), 1051-1062; Day & Bradley 2001, BSSA 91(3), 520-531). Waves that are much longer than two cells have the moduli of
the average. Stresses at half nodes have the mechanism and the fractions of the node with the same indices.

In kernels, the argument `law` of a medium with attenuation is the tuple of

=============  =======================================================================================================
memory         six arrays of memory variables; the grids of the mechanisms are one above the other
fractions      32-bit codes with the same layout: f_kappa / unit in the lower 16 bits, f_mu / unit in the upper ones
b              2 x / (1 + x) with x = w dt / 2: (mechanisms, 8) by the parity 4 k + 2 j + i of the indices
unit           of the codes
moduli         arrays of the law, unrelaxed
grids          the first plane of each mechanism
=============  =======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.anelasticity import Anelasticity
from lithowave.description.media import LayeredMedium, elastic_moduli, vertical_range
from lithowave.errors import InputError
from lithowave.mesh.grid import Grid
from lithowave.rheology.body import RelaxationBody, fit_body
from lithowave.rheology.quality import QualityLaw

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

NODES = 8
"""Nodes of a cube, and mechanisms of the body in the coarse mode."""

SMALLEST_COARSE_QUALITY = 20.0
"""Q below which ``memory_variables: auto`` stores all mechanisms at every node: the modulus of a cube of eight nodes is
a harmonic mean for some waves, which differs from the sum of the mechanisms by an amount of the order 1/Q^2 (Graves &
Day 2003, BSSA 93(1), 283-300)."""

LAST_CODE = 65535
VARIANCE_WEIGHT = 0.5  # theta of `coarse_fractions`
_SAMPLES = 257  # values of 1/Q at which the largest fraction is determined
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
    largest 1/Q of a modulus. anelasticity : attenuation of the material with this body; None for measurements.
    """

    body: RelaxationBody
    coarse: bool
    largest_loss: float
    anelasticity: Anelasticity | None = None

    @property
    def stored(self) -> int:
        """Number of mechanisms that a node stores."""
        return 1 if self.coarse else self.body.mechanisms

    @cached_property
    def table(self) -> np.ndarray:
        """Fractions divided by 1/Q, (m, n), at the nodes of the body; see `fraction`."""
        losses = np.maximum(self.body.nodes, _WEAK)[:, None]
        return (coarse_fractions(self.body, losses[:, 0]) if self.coarse else self.body.weights(losses[:, 0]).T) / losses

    def fraction(self, number: int, loss: np.ndarray) -> np.ndarray:
        """Return the fraction of a mechanism for values of 1/Q."""
        return loss * np.interp(loss, self.body.nodes, self.table[:, number])

    @cached_property
    def largest(self) -> float:
        """Largest fraction, whose code is `LAST_CODE`."""
        losses = np.linspace(0.0, self.largest_loss, _SAMPLES)
        return max(float(self.fraction(number, losses).max()) for number in range(self.body.mechanisms))

    def relaxation(self, time_step: float, grid: Grid, halo: int) -> np.ndarray:
        """Return b (stored, 8) for the parity of indices in the padded arrays of a rank."""
        half = 0.5 * time_step * self.body.rates
        part = 2.0 * half / (1.0 + half)
        if not self.coarse:
            return np.repeat(part[:, None], NODES, axis=1)
        i, j, k = (first - halo for first in grid.first)
        return part[[[node_mechanism(k + z, j + y, i + x) for z, y, x in np.ndindex(2, 2, 2)]]]

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


def coarse_fractions(body: RelaxationBody, losses: np.ndarray) -> np.ndarray:
    r"""Return the fractions (m, 8) with which the average of eight nodes has the modulus of the body, for values of 1/Q.

    To second order, the modulus of a medium whose moduli vary over short distances is less than their mean,

    .. math:: M = \langle M_j \rangle - \theta\,(\langle M_j^2 \rangle - \langle M_j \rangle^2) / \langle M_j \rangle,

    with theta = 6 (kappa + 2 mu) / (5 (3 kappa + 4 mu)) for mu, and kappa / (kappa + 4/3 mu) for kappa, if the variation
    is isotropic; both are about 1/2 in rocks. The fractions are those of the least-squares fit of this modulus in the
    band of the body; without variance, they are 8 Y_j. Graves & Day (2003) correct the same effect, with a harmonic mean.
    """
    omega = 2.0 * np.pi * np.geomspace(*body.band, _FITTED)[:, None]
    steps = body.rates / (body.rates + 1j * omega)
    found = NODES * body.weights(losses).T
    for fractions, weights in zip(found, body.weights(losses).T, strict=True):
        target = steps @ weights
        for _ in range(_ITERATIONS):
            parts = steps * fractions
            mean = parts.mean(axis=1)
            rest = target - mean - VARIANCE_WEIGHT * ((parts**2).mean(axis=1) - mean**2)
            slopes = steps / NODES * (1.0 + 2.0 * VARIANCE_WEIGHT * (parts - mean[:, None]))
            rows = [np.concatenate([part.real, part.imag]) for part in (slopes / np.abs(target)[:, None], rest / np.abs(target))]
            fractions += np.linalg.lstsq(*rows, rcond=None)[0]
    return found


def choose_attenuation(simulation: Simulation) -> GridAttenuation | None:
    """Return the attenuation on the grid; None if the material is elastic.

    Raises
    ------
    InputError : the coarse mode is requested, and a mechanism that represents eight would remove all stiffness.
    """
    given = simulation.anelasticity
    if given is None:
        return None
    requested, smallest = simulation.solver.memory_variables, 1.0 / given.inverse_qualities[1]
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


def unrelaxed_simulation(simulation: Simulation) -> Simulation:
    """Return the simulation with the unrelaxed material, which the grid represents; itself without attenuation."""
    found = choose_attenuation(simulation)
    if found is None or found.anelasticity is None:
        return simulation
    return simulation.model_copy(update={"material": found.anelasticity.material})


def synthetic_attenuation(coarse: bool, time_step: float, mechanisms: int = 3) -> GridAttenuation:
    """Return attenuation with Q = 50 in two decades of frequency, for measurements."""
    highest = 0.02 / time_step
    body = fit_body(QualityLaw(), (0.01 * highest, highest), NODES if coarse else mechanisms, (0.02, 0.02))
    return GridAttenuation(body, coarse, 0.02)


def code_planes(
    attenuation: GridAttenuation, simulation: Simulation | None, grid: Grid, halo: int
) -> Iterator[np.ndarray]:
    """Yield the codes (stored, rows, columns) of the fractions of each plane, the halo included.

    Absorbing layers and the halo have the values of the nearest point of the domain. Without a simulation, Q is uniform.

    Raises
    ------
    InputError : a quality factor is below the smallest one that the examination of the model has found.
    """
    unit = attenuation.largest / LAST_CODE
    place = [grid.coordinates(axis, halo) for axis in range(3)]
    fractions_at = _uniform(attenuation) if simulation is None else _of_material(attenuation, simulation, grid, place)
    i, j, k = (first - halo for first in grid.first)
    for plane, z in enumerate(place[2]):
        fractions = fractions_at(float(z))
        codes = np.empty((attenuation.stored, place[1].size, place[0].size), np.uint32)
        for number, index in attenuation.pattern(k + plane, j, i):
            bulk, shear = (np.rint(np.asarray(values) / unit) for values in fractions(number, *index[1:]))
            if max(bulk.max(initial=0), shear.max(initial=0)) > LAST_CODE:
                raise InputError(
                    "material",
                    f"a quality factor near z = {z:g} m is below {1.0 / attenuation.largest_loss:.4g}",
                    "the smallest value that the examination of the model has found",
                    "use a smoother function, or a gridded model",
                )
            codes[index] = bulk.astype(np.uint32) | shear.astype(np.uint32) << np.uint32(16)
        yield codes


def _uniform(attenuation: GridAttenuation) -> Callable[[float], Fractions]:
    values = [attenuation.fraction(number, attenuation.largest_loss) for number in range(attenuation.body.mechanisms)]
    return lambda _z: lambda number, _rows, _columns: (values[number], values[number])


def _of_material(
    attenuation: GridAttenuation, simulation: Simulation, grid: Grid, place: Sequence[np.ndarray]
) -> Callable[[float], Fractions]:
    """Return the fractions of a plane as a function of mechanism, rows and columns."""
    anelasticity, domain = attenuation.anelasticity, simulation.domain
    assert anelasticity is not None
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
