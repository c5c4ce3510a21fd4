r"""Material on the grid: the constitutive law for a model, and the values of its arrays of moduli and density.

**Material stored in 16-bit integers, which reduces memory traffic and has a stated error.** A linear scale stores low +
step * code (density and moduli), a logarithmic one two to the power of that (1/mu), so that low velocities retain their
relative precision next to high ones:

.. math:: |\delta\rho| \le \tfrac12 \frac{\rho_{max} - \rho_{min}}{65534}, \qquad
    |\delta\lambda| \le \tfrac12 \frac{\lambda_{max} - \lambda_{min}}{65534}, \qquad
    \left|\frac{\delta\mu}{\mu}\right| \le \frac{\ln(\mu_{max} / \mu_{min})}{2 \cdot 65534}.

The last code is the value `outside` of the table of fields, beyond the far ends of the grid.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike

from lithowave.backends.loops import parts_in_order
from lithowave.errors import InputError
from lithowave.media.elasticity import is_transverse
from lithowave.media.medium import LayeredMedium, Medium, elastic_moduli
from lithowave.mesh.grid import Grid
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.finite_difference.arrays import MATERIAL_ROLES, grid_arrays
from lithowave.solvers.finite_difference.attenuation import (
    LAST_CODE,
    PLANES_KEPT,
    GridAttenuation,
    code_planes,
    unrelaxed,
)
from lithowave.solvers.finite_difference.effective_medium import Slab, at_node, between_nodes, sharpened, slab_between
from lithowave.solvers.finite_difference.grid_plan import PLANES
from lithowave.solvers.finite_difference.law import LAWS, VELOCITIES, Field, LawFields

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.finite_difference.grid_plan import GridPlan


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


T = TypeVar("T")


class PlaneAverages:
    """Values of the arrays of a law on planes of nodes, from the lowest plane upwards.

    The isotropic law has harmonic means of the bulk and the shear modulus over the cell of a node, and the arithmetic
    mean of the density; the other laws have the averages of `effective_medium`.

    Parameters
    ----------
    x, y : nodes, (columns,) and (rows, 1), m; outside the domain the values are those of the nearest point within.
    """

    def __init__(self, experiment: Experiment, spacing: float, law: LawFields, x: np.ndarray, y: np.ndarray) -> None:
        self.material, self.spacing, self.law = experiment.material, spacing, law
        self.limits = experiment.domain.z
        self.bounds = experiment.domain.x, experiment.domain.y
        self.place = x, y
        self._known: dict[tuple[object, ...], object] = {}

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

    def _once(self, z: float, what: tuple[object, ...], make: Callable[[], T]) -> T:
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


def medium_planes(experiment: Experiment, grid: Grid, halo: int, law: LawFields) -> Iterator[Planes]:
    """Yield the material of each plane, the halo included; absorbing layers and the halo have the value of the nearest
    point of the domain."""
    x, y, z = (grid.coordinates(axis, halo) for axis in range(3))
    uniform = isinstance(experiment.material.medium, LayeredMedium)
    averages = PlaneAverages(experiment, grid.spacing, law, *((x[:1], y[:1, None]) if uniform else (x, y[:, None])))
    last = far_end(grid, halo, 2) - 1  # the plane above this one, and this one's half nodes, are outside
    made: Planes = {}
    previous, before = None, None
    depths = np.clip(z, *experiment.domain.z)
    distinct = depths[np.append(True, np.diff(depths) != 0)]
    threads = planes_at_once(x.size * y.size) if averages_concurrently(experiment.material.medium, law) else 1
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


def surface_ratios(experiment: Experiment, grid: Grid, law: LawFields) -> Callable[..., np.ndarray]:
    """Return c13 / c33 and c23 / c33 on the uppermost plane as a function of the node counts along x and y.

    The function returns (2, ..., rows, columns), for the nodes of a subdomain and `READING_REACH` around it. With the
    isotropic law both ratios are lambda / (lambda + 2 mu).
    """
    x, y = (grid.coordinates(axis, READING_REACH) for axis in range(2))
    firsts = [first - READING_REACH for first in grid.first[:2]]
    values = PlaneAverages(experiment, grid.spacing, law, x, y[:, None])(experiment.domain.z[1])
    if law.name == "isotropic":
        whole = values["lam"] + 2.0 / values["compliance"]
        ratios = [values["lam"] / whole] * 2
    else:
        ratios = [values["c13"] / values["c33"], values.get("c23", values["c13"]) / values["c33"]]
    planes = np.stack([np.broadcast_to(ratio, (len(y), len(x))) for ratio in ratios])
    return lambda columns, rows: planes[:, rows[..., None] - firsts[1], columns[..., None, :] - firsts[0]]


class GridMaterial:
    """Arrays of the table of fields that contain material.

    arrays : material arrays by name. moduli : those of the law, in its order. fractions : codes of the fractions of
    mechanisms; None without attenuation. relaxation : as in `attenuation`, for the argument `law` of kernels.
    quantizations : quantizations by name; empty unless the material is stored in codes.

    Parameters
    ----------
    plan : grid and storage. experiment : material. ranks : ranks that agree on the quantization.
    """

    def __init__(self, plan: GridPlan, experiment: Experiment, backend: Backend, ranks: Ranks) -> None:
        self.fields = plan.law_fields
        elastic = unrelaxed(experiment, plan.attenuation)

        def planes() -> Iterator[Planes]:
            return medium_planes(elastic, plan.grid, plan.halo, self.fields)

        self.backend = backend
        self.quantizations: dict[str, Quantization] = {}
        if plan.moduli == "compact":
            self.quantizations = quantize(planes(), self.fields.material, ranks)
        self.stores_codes = bool(self.quantizations) and backend.stores_codes
        table = grid_arrays(plan, backend)
        self.arrays = table.allocate(backend, *MATERIAL_ROLES)
        before: Planes | None = None
        for k, values in enumerate(planes()):
            for name, array in self.arrays.items():  # most planes of a layered medium are the previous one
                backend.assign(array[k], array[k - 1] if values is before else self._stored(name, values[name]))
            before = values
        self.moduli = tuple(self.arrays[name] for name in self.fields.moduli)
        self.fractions: Array | None = None
        self.relaxation: tuple[Array, np.floating] | None = None
        if plan.attenuation is not None:
            self.fractions = table.zeros(backend, "fractions")
            self._store_mechanisms(plan, plan.attenuation, experiment)

    def _store_mechanisms(
        self, plan: GridPlan, attenuation: GridAttenuation, experiment: Experiment
    ) -> None:
        backend, planes = self.backend, plan.padded_shape()[0]
        recent: deque[tuple[int, np.ndarray]] = deque(maxlen=PLANES_KEPT)
        for k, codes in enumerate(code_planes(attenuation, experiment, plan.grid, plan.halo)):
            before = next((index for index, known in recent if known is codes), None)
            for number, values in enumerate(codes):
                same = None if before is None else self.fractions[number * planes + before]
                backend.assign(self.fractions[number * planes + k], values if same is None else same)
            if before is None:
                recent.append((k, codes))
        table = attenuation.relaxation(plan.schedule.time_step, plan.grid, plan.halo)
        grids = tuple(np.uint64(number * planes) for number in range(attenuation.stored))
        self.relaxation = backend.upload(table), backend.scalar(attenuation.largest / LAST_CODE)
        self.grids = grids

    def law(self, memory: Sequence[Array]) -> tuple[object, ...]:
        """Return the argument `law` of kernels, for these arrays of memory variables; none without attenuation."""
        if self.relaxation is None:
            return self.moduli
        return *memory, self.fractions, *self.relaxation, *self.moduli, *self.grids

    @property
    def scales(self) -> dict[str, tuple[float, float]] | None:
        """Scales (low, step) of the codes of each array; None if the arrays hold values."""
        if not self.stores_codes:
            return None
        return {name: (code.low, code.step) for name, code in self.quantizations.items()}

    def errors(self) -> dict[str, float]:
        """Return the maximum error of each array due to its storage, by the name in run.json."""
        fields = self.fields.material if self.quantizations else ()
        return {field.report: self.quantizations[field.name].error() for field in fields}

    def _stored(self, name: str, plane: np.ndarray) -> np.ndarray:
        """Return a plane as the kernels read it; on a CPU codes become the values that they represent."""
        if name not in self.quantizations:
            return plane
        codes = self.quantizations[name].encode(plane)
        return codes if self.stores_codes else self.quantizations[name].decode(codes)

    def values(self, name: str, section: tuple[slice, ...]) -> np.ndarray:
        """Return values of a section of an array in main memory, in double precision."""
        host = self.backend.download(section)
        return self.quantizations[name].decode(host) if self.stores_codes else host.astype(float)

    def buoyancy(self, name: str, index: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
        """Return 1/rho, m^3/kg, as the update of velocity `name` uses it.

        index : in the flattened arrays. strides : of the arrays along x, y, z, in elements.
        """
        pitch, plane = strides[1:]
        pair = np.zeros(index.shape)
        for position in (index, index + strides[VELOCITIES.index(name)]):
            k, j, i = position // plane, position % plane // pitch, position % pitch
            for number in np.unique(k):
                here = k == number
                pair[here] += self.values("density", self.arrays["density"][int(number)])[j[here], i[here]]
        return 2.0 / pair

    def describe(self, k: int, j: int, i: int) -> str:
        """Return the velocities and the density at a node as text."""
        values = {name: float(self.values(name, array[k, j])[i]) for name, array in self.arrays.items()}
        vp, vs = speeds(values)
        return f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {values['density']:.5g} kg/m^3"


CONTRAST = 1.2  # ratio of moduli at a distance of one grid spacing from which a gridded medium has interfaces
COLUMNS = 33  # columns along x and y at which a gridded medium or a function is examined

Choice = tuple[str, str]  # name of the law, and the reason as text


def choose_law(experiment: Experiment, grid: Grid) -> Choice:
    """Return the constitutive law for a model, a name in `law.LAWS`, and why.

    The isotropic law is accurate where the medium is uniform within a cell, or where interfaces are midway between
    nodes; other interfaces need the transverse law, and anisotropic media the law with their symmetry.

    Raises
    ------
    InputError : the model is anisotropic, and ``solver.effective_medium`` names a law without this anisotropy.
    """
    requested = experiment.solver.effective_medium
    required, reason = _symmetry(experiment)
    if requested == "auto":
        return (required, reason) if required != "isotropic" else _for_interfaces(experiment, grid)
    if LAWS[requested].number < LAWS[required].number:
        allowed = [name for name, law in LAWS.items() if law.number >= LAWS[required].number]
        raise InputError(
            "solver.effective_medium",
            f"{requested} is not sufficient: {reason}",
            f"allowed here: auto, {', '.join(allowed)}",
        )
    return requested, "solver.effective_medium"


def _symmetry(experiment: Experiment) -> Choice:
    """Return the law that the anisotropy of the media requires."""
    law, reason = "isotropic", "isotropic media"
    for path, properties in experiment.material.properties.items():
        if properties.is_anisotropic:
            place = "material." + ".".join(map(str, path))
            if not is_transverse(properties.stiffness_matrix()):
                return "orthorhombic", f"{place} is anisotropic without a vertical symmetry axis"
            law, reason = "transverse", f"{place} is anisotropic"
    return law, reason


def _for_interfaces(experiment: Experiment, grid: Grid) -> Choice:
    medium = experiment.material.medium
    if isinstance(medium, LayeredMedium):
        top = _first_cut(medium, experiment, grid)
        if top is None:
            return "isotropic", "no interface cuts a cell"
        return "transverse", f"interface at z = {top:g} m"
    ratio, (x, y, z) = _largest_contrast(experiment, grid.spacing)
    if ratio < CONTRAST:
        return "isotropic", "smooth medium"
    return "transverse", f"moduli change by a factor of {ratio:.2g} per cell near ({x:.4g}, {y:.4g}, {z:.4g}) m"


def _first_cut(medium: LayeredMedium, experiment: Experiment, grid: Grid) -> float | None:
    """Return z of the first interface in the domain that is not midway between planes of nodes."""
    low, high = experiment.domain.z
    nodes = float(grid.whole.nodes(2)[0])
    for top in medium.tops[1:]:
        if low < top < high and abs((top - nodes) / grid.spacing % 1.0 - 0.5) > 1e-6:
            return top
    return None


def _largest_contrast(experiment: Experiment, spacing: float) -> tuple[float, tuple[float, float, float]]:
    """Return the largest ratio of moduli one grid spacing apart along z at sampled columns, and its location."""
    domain = experiment.domain
    count = 2 * int(np.ceil((domain.z[1] - domain.z[0]) / spacing)) + 1
    x, y = (np.linspace(*ends, COLUMNS) for ends in (domain.x, domain.y))
    z = np.linspace(*domain.z, count)
    largest, place = 1.0, (float(x[0]), float(y[0]), float(z[0]))
    for row in y:
        kappa, mu, _ = elastic_moduli(*experiment.material.medium.sample(x[:, None], np.asarray(row), z))
        for values in (kappa + 4.0 / 3.0 * mu, mu):
            step = np.abs(np.log(values[:, 2:] / values[:, :-2]))
            i, k = np.unravel_index(int(step.argmax()), step.shape)
            if np.exp(step[i, k]) > largest:
                largest, place = float(np.exp(step[i, k])), (float(x[i]), float(row), float(z[k + 1]))
    return largest, place


STEPS = 65534
LAST = 65535


@dataclass(frozen=True)
class Quantization:
    """Codes of one material array.

    low, step : in single precision, as on the device. logarithmic : True if the codes are exponents of two. outside :
    value of the last code; infinite without such a value.
    """

    low: np.float32
    step: np.float32
    logarithmic: bool
    outside: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return 16-bit codes."""
        inside = np.where(values < self.outside, values, 1.0)
        line = np.log2(inside) if self.logarithmic else inside
        steps = (line - float(self.low)) / float(self.step) if self.step else np.zeros(np.shape(line))
        return np.where(values < self.outside, np.clip(np.rint(steps), 0, STEPS), LAST).astype(np.uint16)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes."""
        line = float(self.low) + float(self.step) * codes.astype(float)
        values = np.exp2(line) if self.logarithmic else line
        return np.where((codes == LAST) & np.isfinite(self.outside), self.outside, values)

    def error(self) -> float:
        """Return the largest error of a value: half a step in its unit, relative if the scale is logarithmic."""
        half = 0.5 * float(self.step)
        return float(np.exp2(half) - 1.0) if self.logarithmic else half


def quantize(
    planes: Iterable[dict[str, np.ndarray]], fields: Sequence[Field], ranks: Ranks = SINGLE_RANK
) -> dict[str, Quantization]:
    """Return the quantization of each material array, with codes that span the values of these planes on all ranks."""
    limits = np.array([math.inf if field.outside is None else field.outside for field in fields])
    lows, highs = np.full(len(fields), np.inf), np.full(len(fields), -np.inf)
    for plane in planes:
        for number, field in enumerate(fields):
            inside = np.where(plane[field.name] < limits[number], plane[field.name], np.nan)
            if not np.isnan(inside).all():
                lows[number] = min(lows[number], np.nanmin(inside))
                highs[number] = max(highs[number], np.nanmax(inside))
    lows = np.min(ranks.all_gather(lows), axis=0)
    highs = np.max(ranks.all_gather(highs), axis=0)
    quantizations = {}
    for field, low, high, limit in zip(fields, lows, highs, limits, strict=True):
        logarithmic = field.scale == "logarithmic"
        first, last = (np.log2(low), np.log2(high)) if logarithmic else (low, high)
        step = np.float32((last - first) / STEPS)
        quantizations[field.name] = Quantization(np.float32(first), step, logarithmic, float(limit))
    return quantizations
