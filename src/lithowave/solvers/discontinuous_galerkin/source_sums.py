"""Forces and moment tensors that sources in elements represent."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES
from lithowave.solvers.placement import FORCE, MOMENT, Placement


class SourceSums:
    """Totals of the sources of a list; see `Placement`."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        constant = basis_values(plan.order, np.full((1, 3), 0.25))[0, 0]
        self._mean = constant / 6.0  # integral of the constant basis function over the reference tetrahedron
        self._entries: list[tuple[int, bool, np.ndarray]] = []

    def add(self, owner: int, element: int, jacobian: float, shape: np.ndarray) -> None:
        """Add the rates (9, functions) of the coefficients of an element for a unit of a time function."""
        rates = shape[:, 0] * jacobian * self._mean
        rates[STRESSES :] *= self._plan.materials.rho[element]
        fluid = bool(self._plan.materials.is_fluid[element])
        self._entries.append((owner, fluid, np.where(np.arange(QUANTITIES) < STRESSES, -rates, rates)))

    def add_to(self, placement: Placement) -> None:
        """Add the totals of the list to a placement."""
        for owner, fluid, total in self._entries:
            placement.totals[owner, MOMENT] += total[: STRESSES]
            placement.totals[owner, FORCE] += total[STRESSES :]
            placement.fluid[owner] |= fluid
            placement.acts[owner] |= bool(total.any())
