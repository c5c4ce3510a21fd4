"""Forces and moment tensors that sources in elements represent."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.materials import STRESSES
from lithowave.solvers.placement import FORCE, MOMENT, Placement


class SourceSums:
    """Totals of the sources of a list; see `Placement`."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        constant = basis_values(plan.order, np.full((1, 3), 0.25))[0, 0]
        self._mean = constant / 6.0  # integral of the constant basis function over the reference tetrahedron
        self._entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, owner: np.ndarray, element: np.ndarray, jacobian: np.ndarray, rates: np.ndarray) -> None:
        """Add the rates (pairs, 9) of the first coefficients of elements for a unit of the time functions of sources.

        owner, element, jacobian : (pairs,) index of the source, and the element.
        """
        found = rates * (jacobian * self._mean)[:, None]
        found[:, :STRESSES] *= -1.0
        found[:, STRESSES:] *= self._plan.materials.rho[element, None]
        self._entries.append((owner, self._plan.materials.is_fluid[element], found))

    def add_to(self, placement: Placement) -> None:
        """Add the totals of the list to a placement."""
        for owner, fluid, totals in self._entries:
            np.add.at(placement.totals[:, MOMENT], owner, totals[:, :STRESSES])
            np.add.at(placement.totals[:, FORCE], owner, totals[:, STRESSES:])
            np.logical_or.at(placement.fluid, owner, fluid)
            np.logical_or.at(placement.acts, owner, totals.any(axis=1))
