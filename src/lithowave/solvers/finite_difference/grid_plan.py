"""The grid of the finite differences: what determines its arrays, before any of them is allocated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.description.anelasticity import Anelasticity
from lithowave.mesh.grid import Grid, NodeRanges
from lithowave.solvers.clock import Schedule
from lithowave.solvers.finite_difference.attenuation import GridAttenuation
from lithowave.solvers.finite_difference.cpml import LayerParameters
from lithowave.solvers.finite_difference.exchange import Subdomain
from lithowave.solvers.finite_difference.fields import LAWS, LawFields

PLANES = 20  # in double precision, in use while a plane of a layered medium is averaged


@dataclass(frozen=True)
class MaterialExtremes:
    """Extremes of the material and their locations: the largest vp limits the time step, the smallest vs the grid."""

    fastest: float
    fastest_place: str
    slowest: float
    slowest_place: str


@dataclass(frozen=True)
class GridPlan:
    """Discretization parameters, fixed before any array is allocated.

    grid : grid of this rank, ghost points included. faces : kind of each face of the global grid, ``x_min`` ..
    ``z_max``. coefficients : stencils along x, y, z. passes : passes over the grid in a step, ``one`` or ``two``.
    law : constitutive law, a name in `fields.LAWS`.
    law_reason : why it was chosen. averaged_planes : planes in memory while the medium is averaged. attenuation :
    mechanisms of the nodes; None in elastic media. concurrent : threads average several planes at once. equal_columns :
    True if all columns of nodes have the same material. subdomain : subdomain of this rank; None for one rank.
    """

    grid: Grid
    schedule: Schedule
    order: int
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray]
    faces: dict[str, str]
    layer: LayerParameters
    extremes: MaterialExtremes
    max_frequency: float | None
    value_bytes: int
    passes: str = "auto"
    moduli: str = "full"
    law: str = "isotropic"
    law_reason: str = ""
    averaged_planes: int = PLANES
    attenuation: GridAttenuation | None = None
    concurrent: bool = False
    equal_columns: bool = False
    subdomain: Subdomain | None = None

    @property
    def point_count(self) -> int:
        """Points of the global grid, absorbing layers included."""
        return self.grid.whole.point_count

    @property
    def own(self) -> NodeRanges:
        """Nodes of the global grid that this rank owns."""
        return self.subdomain.own if self.subdomain else [(0, count) for count in self.grid.shape]

    @property
    def halo(self) -> int:
        """Width of the halo around the grid, in cells."""
        return self.order // 2

    def padded_shape(self) -> tuple[int, int, int]:
        """Shape (z, y, x) of a field array."""
        nx, ny, nz = (count + 2 * self.halo for count in self.grid.shape)
        return nz, ny, nx

    def memory_shape(self) -> tuple[int, int, int]:
        """Shape (z, y, x) of an array of memory variables: the grids of all stored mechanisms."""
        nz, ny, nx = self.padded_shape()
        return nz * self.law_fields.mechanisms, ny, nx

    @property
    def law_fields(self) -> LawFields:
        """Arrays of the law, with those of attenuation."""
        law = LAWS[self.law]
        return law if self.attenuation is None else law.attenuating(self.attenuation.stored, self.attenuation.coarse)

    @property
    def anelasticity(self) -> Anelasticity | None:
        """Attenuation of the material with the mechanisms that the grid uses; None if it is elastic."""
        return self.attenuation and self.attenuation.anelasticity
