"""Material on the grid: the values of the arrays that `fields.TABLE` lists as moduli and density."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.fields import MATERIAL

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.solvers.finite_difference.plan import MaterialExtremes

READING_REACH = 16  # nodes beyond a subdomain that weights of its sources and receivers may use

Planes = dict[str, np.ndarray]  # values of one plane (y, x) by name of the array


def material_values(kappa: ArrayLike, mu: ArrayLike, rho: ArrayLike) -> dict[str, ArrayLike]:
    """Return the material arrays by name for a bulk modulus and a shear modulus, Pa, and a density, kg/m^3."""
    return {"density": rho, "lam": kappa - 2.0 / 3.0 * mu, "compliance": 1.0 / mu}


def speeds(values: dict[str, float]) -> tuple[float, float]:
    """Return the P and S velocities, m/s, of values as `material_values` returns them."""
    mu = 1.0 / values["compliance"]
    return math.sqrt((values["lam"] + 2.0 * mu) / values["density"]), math.sqrt(mu / values["density"])


def medium_planes(simulation: Simulation, grid: Grid, halo: int) -> Iterator[Planes]:
    """Yield the material of each plane, the halo included: cell averages (harmonic moduli, arithmetic density).

    Absorbing layers and the halo have the value of the nearest point of the domain.
    """
    domain = simulation.domain
    x, y, z = (
        np.clip(grid.coordinates(axis, halo), *bounds)
        for axis, bounds in enumerate((domain.x, domain.y, domain.z))
    )
    uniform = simulation.material.kind in ("layers", "homogeneous")
    place = (x[:1], y[:1, None]) if uniform else (x[None, :], y[:, None])
    last = far_end(grid, halo, 2)
    made: Planes = {}
    previous, before = None, None
    for k, depth in enumerate(z):
        if depth != previous:
            kappa, mu, rho = simulation.material.moduli(
                *place, depth, spacing=grid.spacing, z_ceiling=domain.z[1], z_floor=domain.z[0]
            )
            plane, previous = material_values(kappa, mu, rho), depth
        values = tuple(float(np.asarray(value).flat[0]) for value in plane.values()) if uniform else None
        # Most planes of a layered medium equal the previous one, except those beyond the last node.
        if not (uniform and values == before and k < last):
            made, before = close_far_ends(grid, halo, k, plane), values
        yield made


def uniform_planes(extremes: MaterialExtremes, grid: Grid, halo: int) -> Iterator[Planes]:
    """Yield a uniform medium with the extreme velocities of a model, for performance measurements."""
    rho = 2500.0
    mu = rho * extremes.slowest**2
    last = far_end(grid, halo, 2)
    values = material_values(rho * extremes.fastest**2 - 4.0 / 3.0 * mu, mu, rho)
    inside, beyond = (close_far_ends(grid, halo, k, values) for k in (0, last))
    for k in range(grid.shape[2] + 2 * halo):
        yield inside if k < last else beyond


def far_end(grid: Grid, halo: int, axis: int) -> int:
    """Return the index in padded arrays after the last node of the global grid along an axis."""
    return halo + grid.whole.shape[axis] - grid.first[axis]


def close_far_ends(grid: Grid, halo: int, k: int, values: dict[str, ArrayLike]) -> Planes:
    """Return plane k of padded arrays, with the values `outside` of the table beyond the last nodes of the grid."""
    columns, rows, planes = (far_end(grid, halo, axis) for axis in range(3))
    shape = (grid.shape[1] + 2 * halo, grid.shape[0] + 2 * halo)
    beyond = np.zeros(shape, bool)
    beyond[rows:] = beyond[:, columns:] = True
    beyond |= k >= planes
    return {
        field.name: np.broadcast_to(values[field.name], shape)
        if field.outside is None
        else np.where(beyond, field.outside, values[field.name])
        for field in MATERIAL
    }


def surface_ratio(simulation: Simulation | None, extremes: MaterialExtremes, grid: Grid) -> Callable[..., np.ndarray]:
    """Return lambda / (lambda + 2 mu) on the uppermost plane as a function of the node counts along x and y.

    The function returns (rows, columns), for the nodes of a subdomain and `READING_REACH` around it.
    """
    if simulation is None:  # see `uniform_planes`
        ratio = np.array(1.0 - 2.0 * (extremes.slowest / extremes.fastest) ** 2)
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
