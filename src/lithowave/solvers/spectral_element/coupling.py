r"""Coupling of fluids and solids at the pairs of points of their interfaces, and its arrays on a device.

With the sum A of quadrature area times normal out of the fluid, the pressure -phi' acts on the solid, and the velocity
of the solid on the fluid:

.. math:: M_s \dot v = f_s - D v - A\, \dot\phi, \qquad M_f \ddot\phi = f_f - d\, \dot\phi + A \cdot v .

Both sides of a face have the same quadrature points, so that only pairs are coupled. D and d are the damping of
absorbing sides. Both terms with A together do no work: with the mean of v and phi' before and after the step, as in
`damp`, the discrete energy of the coupled system is that of its parts, and the stable time step is theirs.

In an absorbing layer both are divided by the stretching S of the momenta. The area vector in stretched coordinates is
A_i S / s_i. Divided by S it is A, if the normal is perpendicular to the active axes, as on interfaces that a layer
continues; others are refused. The change of the momenta by the coupling is therefore not stretched: it is kept apart
from the part that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.physics.tensors import TENSOR_PAIRS
from lithowave.solvers.spectral_element.faces import Damping


def coupling_matrices(plan: Any, damping: Damping) -> np.ndarray:
    """Return E = (1 + G)^-1 - 1 (pairs, 4, 4), G = dt / 2 C M^-1, of the pairs of a plan.

    damping : that of all points, see `absorption.make_damping`.
    """
    interface, mass = plan.interface, plan.element_statistics.mass
    half, free = 0.5 * plan.schedule.time_step, plan.moves
    found = np.zeros((len(interface.fluid), 4, 4))
    rates = [free[points] / mass[points] for points in (interface.solid, interface.fluid)]
    found[:, :3, 3] = half * interface.area * rates[1][:, None]
    found[:, 3, :3] = -half * interface.area * rates[0][:, None]
    solid, fluid = damping.at(interface.solid), damping.at(interface.fluid)
    for number, (a, b) in enumerate(TENSOR_PAIRS):
        found[:, a, b] = found[:, b, a] = solid[:, number]
    found[:, 3, 3] = fluid[:, 0]
    return -np.linalg.solve(np.eye(4) + found, found)


@dataclass(frozen=True)
class CoupledPairs:
    """Pairs of points on a device: arrays of the kernels `uncouple` and `couple` (see `arguments`).

    fluid_points : indices of the fluid points on the host.
    """

    fluid_points: np.ndarray
    history: Any
    coupled: Any
    solid: Any
    fluid: Any
    matrix: Any

    @classmethod
    def allocate(
        cls, backend: Any, interface: Any, matrices: np.ndarray, some: np.ndarray, layer: bool
    ) -> CoupledPairs:
        """Return some of the pairs, at rest. layer : whether they are in an absorbing layer."""
        count = int(np.count_nonzero(some))
        return cls(
            interface.fluid[some], backend.zeros((count, 4)), backend.zeros((count if layer else 0, 4)),
            backend.upload(interface.solid[some], np.int64), backend.upload(interface.fluid[some], np.int64),
            backend.upload(matrices[some]),
        )  # fmt: skip

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.fluid_points)

    def downloaded(self, backend: Any) -> np.ndarray:
        """Return the state of each pair: p before, and in a layer the part of the coupling, (pairs, 4 or 8)."""
        parts = [self.history, self.coupled] if self.coupled.size else [self.history]
        return np.concatenate([backend.download(one)[: self.count] for one in parts], axis=1)

    def restore(self, backend: Any, values: np.ndarray) -> None:
        """Set the state from that of `downloaded`."""
        if self.count:
            backend.assign(self.history, np.ascontiguousarray(values[:, :4]))
        if self.coupled.size:
            backend.assign(self.coupled, np.ascontiguousarray(values[:, 4:]))
