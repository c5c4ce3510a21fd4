r"""Attenuation on the grid: the relaxation mechanisms that each node stores, and their fractions.

A node stores either all n mechanisms of the body (*full*), with the fractions f_j = Y_j, or one mechanism of a body with
eight (*coarse*), with f = 8 Y_j, so that each mechanism is at one node of every cube of 2 x 2 x 2 nodes (Day 1998, BSSA
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
_SAMPLES = 257  # values of 1/Q at which the largest fraction is determined

Weights = Callable[[int, slice, slice], tuple[np.ndarray, np.ndarray]]


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

    @property
    def share(self) -> int:
        """Ratio of fractions to weights Y_j."""
        return NODES if self.coarse else 1

    @property
    def largest(self) -> float:
        """Largest fraction, whose code is `LAST_CODE`."""
        return self.share * float(self.body.weights(np.linspace(0.0, self.largest_loss, _SAMPLES)).max())

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
    unit = attenuation.largest / (LAST_CODE * attenuation.share)
    place = [grid.coordinates(axis, halo) for axis in range(3)]
    weights_at = _uniform(attenuation) if simulation is None else _of_material(attenuation, simulation, grid, place)
    i, j, k = (first - halo for first in grid.first)
    for plane, z in enumerate(place[2]):
        weights = weights_at(float(z))
        codes = np.empty((attenuation.stored, place[1].size, place[0].size), np.uint32)
        for number, index in attenuation.pattern(k + plane, j, i):
            bulk, shear = (np.rint(np.asarray(values) / unit) for values in weights(number, *index[1:]))
            if max(bulk.max(initial=0), shear.max(initial=0)) > LAST_CODE:
                raise InputError(
                    "material",
                    f"a quality factor near z = {z:g} m is below {1.0 / attenuation.largest_loss:.4g}",
                    "the smallest value that the examination of the model has found",
                    "use a smoother function, or a gridded model",
                )
            codes[index] = bulk.astype(np.uint32) | shear.astype(np.uint32) << np.uint32(16)
        yield codes


def _uniform(attenuation: GridAttenuation) -> Callable[[float], Weights]:
    values = attenuation.body.weights(attenuation.largest_loss)
    return lambda _z: lambda number, _rows, _columns: (values[number], values[number])


def _of_material(
    attenuation: GridAttenuation, simulation: Simulation, grid: Grid, place: Sequence[np.ndarray]
) -> Callable[[float], Weights]:
    """Return the weights Y of a plane as a function of mechanism, rows and columns."""
    anelasticity, domain = attenuation.anelasticity, simulation.domain
    assert anelasticity is not None
    if isinstance(anelasticity.source.medium, LayeredMedium):
        return lambda z: _layer_weights(anelasticity, float(np.clip(z, *domain.z)), grid.spacing, domain.z)
    x, y = (np.clip(values, *ends) for values, ends in zip(place[:2], (domain.x, domain.y), strict=True))
    body = attenuation.body
    total = body.table.sum(axis=1)

    def at(z: float) -> Weights:
        losses = anelasticity.inverse_quality(x, y[:, None], np.clip(z, *domain.z))

        def weights(number: int, rows: slice, columns: slice) -> tuple[np.ndarray, np.ndarray]:
            found = []
            for loss in losses:
                part = loss[rows, columns]
                strength, sum_of_all = (
                    part * np.interp(part, body.nodes, values) for values in (body.table[:, number], total)
                )
                found.append(strength / (1.0 + sum_of_all))
            return found[0], found[1]

        return weights

    return at


def _layer_weights(
    anelasticity: Anelasticity, z: float, spacing: float, limits: tuple[float, float]
) -> Weights:
    """Return the weights of a cell of layers: means over its height with the weights Y / M_U, divided by that of 1 / M_U.

    To first order in Y, they are those of the harmonic mean of the complex moduli.
    """
    medium, unrelaxed = anelasticity.source.medium, anelasticity.material.medium
    assert isinstance(medium, LayeredMedium) and isinstance(unrelaxed, LayeredMedium)
    low, high = vertical_range(np.asarray(z), spacing, limits)
    tops = np.array((np.inf, *medium.tops[1:], -np.inf))
    heights = np.clip(np.minimum(high, tops[:-1]) - np.maximum(low, tops[1:]), 0.0, None)
    moduli = elastic_moduli(*(np.array(values) for values in (unrelaxed.vp, unrelaxed.vs, unrelaxed.rho)))[:2]
    found = []
    for modulus, losses in zip(moduli, np.array(medium.losses).T, strict=True):
        share = heights / modulus
        found.append(anelasticity.body.weights(losses) @ (share / share.sum()))
    return lambda number, _rows, _columns: (found[0][number], found[1][number])
