"""The material on the grid, as the kernels want it: lambda, 1/mu and density at nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lithowave.mesh.grid import Grid

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.solvers.finite_difference.plan import Survey

IMMENSE_DENSITY, IMMENSE_COMPLIANCE = 1e20, 1e10
READING_REACH = 16  # nodes beyond a part of a grid that weights of its sources and receivers may take


def medium_planes(simulation: Simulation, grid: Grid, halo: int) -> Iterator[tuple[np.ndarray, ...]]:
    """lambda, 1/mu and density of plane after plane (y, x), the halo included: cell averages (harmonic moduli,
    arithmetic density).

    Inside absorbing layers and the halo the value of the nearest point of the domain is taken.
    """
    domain = simulation.domain
    x, y, z = (
        np.clip(grid.coordinates(axis, halo), *bounds)
        for axis, bounds in enumerate((domain.x, domain.y, domain.z))
    )
    uniform = simulation.material.kind in ("layers", "homogeneous")
    place = (x[:1], y[:1, None]) if uniform else (x[None, :], y[:, None])
    last = far_end(grid, halo, 2)
    made: tuple[np.ndarray, ...] = ()
    previous, before = None, None
    for k, depth in enumerate(z):
        if depth != previous:
            kappa, mu, rho = simulation.material.moduli(
                *place, depth, spacing=grid.spacing, z_ceiling=domain.z[1], z_floor=domain.z[0]
            )
            kept, previous = (kappa - 2.0 / 3.0 * mu, 1.0 / mu, rho), depth
        values = tuple(float(value.flat[0]) for value in map(np.asarray, kept)) if uniform else None
        # Most planes of a layered medium are the one before; those beyond the last node are not.
        if not (uniform and values == before and k < last):
            made, before = close_far_ends(grid, halo, k, *kept), values
        yield made


def uniform_planes(survey: Survey, grid: Grid, halo: int) -> Iterator[tuple[np.ndarray, ...]]:
    """A uniform medium with the extreme speeds of a survey: for measurements of speed, where values do not matter."""
    rho = 2500.0
    mu = rho * survey.slowest**2
    last = far_end(grid, halo, 2)
    inside, beyond = (
        close_far_ends(grid, halo, k, rho * survey.fastest**2 - 2.0 * mu, 1.0 / mu, rho) for k in (0, last)
    )
    for k in range(grid.shape[2] + 2 * halo):
        yield inside if k < last else beyond


def far_end(grid: Grid, halo: int, axis: int) -> int:
    """Index in padded arrays behind the last node of the whole grid along an axis."""
    return halo + grid.whole.shape[axis] - grid.first[axis]


def close_far_ends(
    grid: Grid, halo: int, k: int, lam: ArrayLike, compliance: ArrayLike, density: ArrayLike
) -> tuple[np.ndarray, ...]:
    """A plane of padded arrays, with immense density and 1/mu beyond the last nodes of the whole grid: half nodes there
    move by 1e-16 of others.

    Not infinite: the compiler may take reciprocals by Newton's iteration, which makes NaN of infinity.
    """
    columns, rows, planes = (far_end(grid, halo, axis) for axis in range(3))
    whole = (grid.shape[1] + 2 * halo, grid.shape[0] + 2 * halo)
    beyond = np.zeros(whole, bool)
    beyond[rows:] = beyond[:, columns:] = True
    beyond |= k >= planes
    return (
        np.broadcast_to(lam, whole),
        np.where(beyond, IMMENSE_COMPLIANCE, compliance),
        np.where(beyond, IMMENSE_DENSITY, density),
    )


def surface_ratio(simulation: Simulation | None, survey: Survey, grid: Grid) -> Callable[..., np.ndarray]:
    """Return lambda / (lambda + 2 mu) on the uppermost plane as a function of the numbers of nodes along x and y.

    The function returns (rows, columns), for the nodes of a part of a grid and `READING_REACH` around it.
    """
    if simulation is None:  # see `uniform_planes`
        ratio = np.array(1.0 - 2.0 * (survey.slowest / survey.fastest) ** 2)
        return lambda columns, rows: np.broadcast_to(ratio, (len(rows), len(columns)))
    domain, firsts = simulation.domain, [first - READING_REACH for first in grid.first[:2]]
    x, y = (
        np.clip(grid.coordinates(axis, READING_REACH), *bounds) for axis, bounds in enumerate((domain.x, domain.y))
    )
    kappa, mu, _ = simulation.material.moduli(
        x[None, :], y[:, None], domain.z[1], spacing=grid.spacing, z_ceiling=domain.z[1], z_floor=domain.z[0]
    )
    plane = np.broadcast_to((kappa - 2.0 / 3.0 * mu) / (kappa + 4.0 / 3.0 * mu), (len(y), len(x)))
    return lambda columns, rows: plane[np.ix_(rows - firsts[1], columns - firsts[0])]
