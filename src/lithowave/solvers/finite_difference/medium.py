"""Material on the grid: the values of the arrays that `fields.LAWS` lists as moduli and density."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike

from lithowave.backends.host_threads import parts_in_order
from lithowave.description.media import LayeredMedium, Medium
from lithowave.mesh.grid import Grid
from lithowave.solvers.finite_difference.effective_medium import (
    Slab,
    at_node,
    between_nodes,
    sharpened,
    slab_between,
)
from lithowave.solvers.finite_difference.fields import Field, LawFields
from lithowave.solvers.finite_difference.grid_plan import PLANES

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

READING_REACH = 16  # nodes beyond a subdomain that weights of its sources and receivers may use

PLANES_BYTES = 1 << 30  # of `PLANES`, at most

Planes = dict[str, np.ndarray]  # values of one plane (y, x) by name of the array


def isotropic_values(kappa: ArrayLike, mu: ArrayLike, rho: ArrayLike) -> dict[str, ArrayLike]:
    """Return the arrays of the isotropic law for a bulk modulus and a shear modulus, Pa, and a density, kg/m^3."""
    return {"density": rho, "lam": kappa - 2.0 / 3.0 * mu, "compliance": 1.0 / mu}


def orthorhombic_values(medium: np.ndarray) -> dict[str, ArrayLike]:
    """Return the arrays of the orthorhombic law for a medium (10, ...) as in `effective_medium`."""
    names = ("c11", "c22", "c33", "c12", "c13", "c23", "compliance_yz", "compliance_xz", "compliance_xy", "density")
    values = dict(zip(names, medium, strict=True))
    return {name: 1.0 / array if name.startswith("compliance") else array for name, array in values.items()}


def transverse_values(medium: np.ndarray) -> dict[str, ArrayLike]:
    """Return the arrays of the transverse law for the mean of a medium (10, ...) over both horizontal axes."""
    full = orthorhombic_values(medium)
    return {
        "density": full["density"],
        "c11": 0.5 * (full["c11"] + full["c22"]),
        "c13": 0.5 * (full["c13"] + full["c23"]),
        "c33": full["c33"],
        "compliance": 0.5 * (full["compliance_yz"] + full["compliance_xz"]),
        "compliance_xy": full["compliance_xy"],
    }


VALUES = {"transverse": transverse_values, "orthorhombic": orthorhombic_values}


def speeds(values: dict[str, float]) -> tuple[float, float]:
    """Return the vertical P velocity and an S velocity, m/s, of values of any law by the names of its arrays."""
    mu = 1.0 / values.get("compliance", values.get("compliance_xz", np.nan))
    stiffness = values["c33"] if "c33" in values else values["lam"] + 2.0 * mu
    return math.sqrt(stiffness / values["density"]), math.sqrt(mu / values["density"])


class PlaneAverages:
    """Values of the arrays of a law on planes of nodes, from the lowest plane upwards.

    The isotropic law has harmonic means of the bulk and the shear modulus over the cell of a node, and the arithmetic
    mean of the density; the other laws have the averages of `effective_medium`.

    Parameters
    ----------
    x, y : nodes, (columns,) and (rows, 1), m; outside the domain the values are those of the nearest point within.
    """

    def __init__(self, simulation: Simulation, spacing: float, law: LawFields, x: np.ndarray, y: np.ndarray) -> None:
        self.material, self.spacing, self.law = simulation.material, spacing, law
        self.limits = simulation.domain.z
        self.bounds = simulation.domain.x, simulation.domain.y
        self.place = x, y
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, z: float) -> dict[str, ArrayLike]:
        """Return the values of all arrays for the plane at z, m."""
        low, high = self.limits
        z = min(max(z, low), high)
        if self.law.name == "isotropic":
            averages = self.material.moduli(
                *self._inside(0, 0), z, spacing=self.spacing, z_ceiling=high, z_floor=low
            )
            return isotropic_values(*averages)
        found: dict[str, ArrayLike] = {}
        oldest = {"node": z - 1.5 * self.spacing, "slab": z - 0.5 * self.spacing}
        self._known = {key: value for key, value in self._known.items() if key[0] > oldest[key[1]]}
        for stagger in dict.fromkeys(field.stagger for field in self.law.material):
            medium = self._medium(z, stagger)
            values = VALUES[self.law.name](medium)
            found |= {field.name: values[field.name] for field in self.law.material if field.stagger == stagger}
        return found

    def _medium(self, z: float, stagger: tuple[int, int, int]) -> np.ndarray:
        low, high = self.limits
        if stagger[2]:
            ends = (z, z + self.spacing) if z < high else (z - self.spacing, z)
            return between_nodes(self._slab(*ends, stagger))
        planes = (max(z - self.spacing, low), z, min(z + self.spacing, high))
        return sharpened(*(self._node(plane, stagger) for plane in planes))

    def _node(self, z: float, stagger: tuple[int, int, int]) -> np.ndarray:
        def make() -> np.ndarray:
            below, above = self._slab(z - self.spacing, z, stagger), self._slab(z, z + self.spacing, stagger)
            return at_node(below, above, self.spacing)

        return self._once(z, ("node", *stagger[:2]), make)

    def _slab(self, low: float, high: float, stagger: tuple[int, int, int]) -> Slab:
        """Return the medium between two levels, cut at the ends of the domain."""
        low, high = max(low, self.limits[0]), min(high, self.limits[1])
        x, y = self._inside(*stagger[:2])
        return self._once(
            low,
            ("slab", round(high, 6), *stagger[:2]),
            lambda: slab_between(self.material.medium, x, y[:, 0], low, high, self.spacing),
        )

    def _once(self, z: float, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return a result that the next planes use again."""
        key = (round(z, 6), *what)
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _inside(self, *stagger: int) -> tuple[np.ndarray, ...]:
        return tuple(
            np.clip(values + 0.5 * self.spacing * shift, *bounds)
            for values, shift, bounds in zip(self.place, stagger, self.bounds, strict=True)
        )


def averages_concurrently(medium: Medium, law: LawFields) -> bool:
    """Return whether threads average several planes at once: with the other laws, they sample slabs of one plane."""
    return law.name == "isotropic" and medium.concurrent and not isinstance(medium, LayeredMedium)


def planes_at_once(points: int) -> int:
    """Return the number of planes with this many points that threads average at the same time."""
    return max(1, min(get_num_threads(), PLANES_BYTES // (8 * PLANES * points)))


def medium_planes(simulation: Simulation, grid: Grid, halo: int, law: LawFields) -> Iterator[Planes]:
    """Yield the material of each plane, the halo included; absorbing layers and the halo have the value of the nearest
    point of the domain."""
    x, y, z = (grid.coordinates(axis, halo) for axis in range(3))
    uniform = isinstance(simulation.material.medium, LayeredMedium)
    averages = PlaneAverages(simulation, grid.spacing, law, *((x[:1], y[:1, None]) if uniform else (x, y[:, None])))
    last = far_end(grid, halo, 2) - 1  # the plane above this one, and this one's half nodes, are outside
    made: Planes = {}
    previous, before = None, None
    depths = np.clip(z, *simulation.domain.z)
    distinct = depths[np.append(True, np.diff(depths) != 0)]
    threads = planes_at_once(x.size * y.size) if averages_concurrently(simulation.material.medium, law) else 1
    planes = parts_in_order(lambda part: averages(float(distinct[part.start])), len(distinct), 1, threads)
    for k, depth in enumerate(depths):
        if depth != previous:
            plane, previous = next(planes), depth
        values = tuple(float(np.asarray(value).flat[0]) for value in plane.values()) if uniform else None
        # Most planes of a layered medium equal the previous one, except the last ones.
        if not (uniform and values == before and k < last):
            made, before = close_far_ends(grid, halo, k, plane, law), values
        yield made


def far_end(grid: Grid, halo: int, axis: int) -> int:
    """Return the index in padded arrays after the last node of the global grid along an axis."""
    return halo + grid.whole.shape[axis] - grid.first[axis]


def close_far_ends(grid: Grid, halo: int, k: int, values: dict[str, ArrayLike], law: LawFields) -> Planes:
    """Return plane k of padded arrays, with the values `outside` of the table beyond the last nodes of the grid."""
    ends = [far_end(grid, halo, axis) for axis in range(3)]
    shape = (grid.shape[1] + 2 * halo, grid.shape[0] + 2 * halo)

    def closed(field: Field) -> np.ndarray:
        if field.outside is None:
            return np.broadcast_to(values[field.name], shape)
        columns, rows, planes = (end - shift for end, shift in zip(ends, field.stagger, strict=True))
        beyond = np.zeros(shape, bool)
        beyond[rows:] = beyond[:, columns:] = True
        return np.where(beyond | (k >= planes), field.outside, values[field.name])

    return {field.name: closed(field) for field in law.material}


def surface_ratios(simulation: Simulation, grid: Grid, law: LawFields) -> Callable[..., np.ndarray]:
    """Return c13 / c33 and c23 / c33 on the uppermost plane as a function of the node counts along x and y.

    The function returns (2, ..., rows, columns), for the nodes of a subdomain and `READING_REACH` around it. With the
    isotropic law both ratios are lambda / (lambda + 2 mu).
    """
    x, y = (grid.coordinates(axis, READING_REACH) for axis in range(2))
    firsts = [first - READING_REACH for first in grid.first[:2]]
    values = PlaneAverages(simulation, grid.spacing, law, x, y[:, None])(simulation.domain.z[1])
    if law.name == "isotropic":
        whole = values["lam"] + 2.0 / values["compliance"]
        ratios = [values["lam"] / whole] * 2
    else:
        ratios = [values["c13"] / values["c33"], values.get("c23", values["c13"]) / values["c33"]]
    planes = np.stack([np.broadcast_to(ratio, (len(y), len(x))) for ratio in ratios])
    return lambda columns, rows: planes[:, rows[..., None] - firsts[1], columns[..., None, :] - firsts[0]]
