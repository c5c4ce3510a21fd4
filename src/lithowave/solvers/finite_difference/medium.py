"""The material on the grid, as the kernels want it: lambda, 1/mu and density at nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import Grid

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation
    from lithowave.solvers.finite_difference.plan import Survey


def fill_medium(
    simulation: Simulation, grid: Grid, halo: int, lam: np.ndarray, compliance: np.ndarray, density: np.ndarray
) -> None:
    """Fill host arrays (z, y, x) plane by plane with cell averages (harmonic moduli, arithmetic density).

    Inside absorbing layers and the halo the value of the nearest point of the domain is taken.
    """
    domain = simulation.domain
    x, y, z = (
        np.clip(grid.origin[axis] + grid.spacing * (np.arange(grid.shape[axis] + 2 * halo) - halo), *bounds)
        for axis, bounds in enumerate((domain.x, domain.y, domain.z))
    )
    previous, kept = None, None
    uniform = simulation.material.kind in ("layers", "homogeneous")
    for k, depth in enumerate(z):
        if depth != previous:
            place = (x[:1], y[:1, None]) if uniform else (x[None, :], y[:, None])
            kappa, mu, rho = simulation.material.moduli(
                *place, depth, spacing=grid.spacing, z_ceiling=domain.z[1], z_floor=domain.z[0]
            )
            kept, previous = (kappa - 2.0 / 3.0 * mu, 1.0 / mu, rho), depth
        lam[k], compliance[k], density[k] = kept
    close_far_ends(grid, halo, density, compliance)


def fill_uniform(
    survey: Survey, grid: Grid, halo: int, lam: np.ndarray, compliance: np.ndarray, density: np.ndarray
) -> None:
    """A uniform medium with the extreme speeds of a survey: for measurements of speed, where values do not matter."""
    rho = 2500.0
    mu = rho * survey.slowest**2
    lam[...] = rho * survey.fastest**2 - 2.0 * mu
    compliance[...] = 1.0 / mu
    density[...] = rho
    close_far_ends(grid, halo, density, compliance)


def close_far_ends(grid: Grid, halo: int, density: np.ndarray, compliance: np.ndarray) -> None:
    """Immense density and 1/mu beyond the last nodes, so that the half nodes there do not move (by 1e-16 of others).

    Not infinite: the compiler may take reciprocals by Newton's iteration, which makes NaN of infinity.
    """
    for array, immense in ((density, 1e20), (compliance, 1e10)):
        for axis in range(3):
            beyond = [slice(None)] * 3
            beyond[2 - axis] = slice(halo + grid.shape[axis], None)
            array[tuple(beyond)] = immense
