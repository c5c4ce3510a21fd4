r"""Warnings that all methods share: layers, near fields of sources, soft ground, static fields.

They concern thin material layers and media in which waves grow; receivers, or the surface, close to a source, where its
near field is not resolved; soft ground in absorbing layers; and displacements of forces where these layers are thin for
static fields.

**Soft ground.** Guided waves may grow in perfectly matched layers. A soft layer over rock guides waves, some of which
have a group velocity opposite to their phase velocity. A perfectly matched layer with the stretching 1 + d / (alpha + i
omega) damps a guided wave at the rate

.. math:: \frac{v_g}{v_p}\, d\, \frac{\omega^2}{\omega^2 + \alpha^2},

so that it amplifies waves with v_g / v_p < 0 (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433). A larger
alpha, constant in the layer, reduces the amplification below the losses of these waves; it also reduces the absorption
of waves much longer than those of the highest frequency. It is therefore used in soft ground only.

At contrasts of vs of 3.5 and more it does not suffice. Finite differences then also have a viscosity in the layers,
which damps waves at the rate nu k^2 / 2: those of soft ground, which are short, much more than those of rock
(`finite_difference.grid_plan.Smoothing`). The layers of the element methods are damped instead of perfectly matched:
thick layers, in which momentum and stress decay at the same rate, so that no wave can grow.

**Static fields.** The displacement of a force that acts for a short time decays as 1 / r, and extends beyond a small
domain. A layer with the stretching 1 + d / (alpha + i omega) is as thick for it as the integral of d / alpha. With the
large alpha of soft ground (`warnings`) and in damped layers this is not much more than the domain. The displacement of
moment tensors decays as 1 / r^2 and has small errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from lithowave.description.experiment import Experiment
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.media.earth import EarthMedium
from lithowave.media.elasticity import backward_waves

if TYPE_CHECKING:
    from lithowave.description.sources import PointSource

# Frequency shift and friction of a layer damp waves that grow slowly: runs of spectral elements with -0.13 were stable.
GROWTH_TOLERANCE = 0.05

# Relative L2 difference of the seismograms from those of a larger box: in the first example of the README 2.0% (worst
# receiver 3.3%), and next to a side of a homogeneous box of order 3 2.1% (4.9%).
DAMPED_ERROR = "2% (5% at single receivers) near the sides"

THINNEST = 0.05
"""Thickness of a layer in grid spacings below which a smaller spacing is not a remedy."""


class GridDiscretization(Protocol):
    """What the warnings use of a finite-difference plan."""

    @property
    def grid(self) -> LayeredGrid: ...


class LayeredGrid(Protocol):
    """Part of a grid with absorbing layers. whole : the global grid."""

    @property
    def spacing(self) -> float: ...
    @property
    def layers(self) -> Sequence[tuple[int, int]]: ...
    @property
    def whole(self) -> LayeredGrid: ...


def grid_warnings(plan: GridDiscretization, experiment: Experiment) -> list[str]:
    """Return the warnings of a finite-difference plan about the model."""
    return [*averaged_layers(experiment, plan.grid.spacing), *growing_waves(plan, experiment)]


def growing_waves(plan: GridDiscretization, experiment: Experiment) -> Iterator[str]:
    """Yield a warning for each anisotropic medium in which waves may grow in the absorbing layers of a plan."""
    for medium in backward_media(experiment, [axis for axis in range(3) if any(plan.grid.whole.layers[axis])]):
        yield (
            f"{medium.place}: some waves may grow in the absorbing layers along {medium.axis}: {medium.reason}. If the "
            "run becomes unstable, use solver.method: discontinuous_galerkin, whose layers damp such media."
        )


def damped_media(experiment: Experiment, axes: Sequence[int]) -> Iterator[str]:
    """Yield a warning for each anisotropic medium because of which the layers along some axes are damped."""
    for medium in backward_media(experiment, axes):
        yield (
            f"{medium.place}: some waves would grow in perfectly matched layers along {medium.axis}: {medium.reason}. "
            f"The absorbing layers are damped instead; they changed seismograms by {DAMPED_ERROR} in "
            "two measured models. For a smaller error, enlarge the domain, or use solver.method: spectral_element."
        )


class BackwardMedium(NamedTuple):
    """Key of a medium in which waves travel backwards along an axis; the smallest ratio of group to phase velocity."""

    place: str
    axis: str
    ratio: float

    @property
    def reason(self) -> str:
        """Why waves may grow in a perfectly matched layer along the axis."""
        return (
            f"their group velocity along {self.axis} is opposite to their phase velocity, by up to "
            f"{-100 * self.ratio:.2g}% of it"
        )


def backward_media(experiment: Experiment, axes: Sequence[int]) -> Iterator[BackwardMedium]:
    """Yield the anisotropic media in which waves may grow in perfectly matched layers along some axes."""
    for path, properties in experiment.material.properties.items():
        if properties.is_anisotropic and axes:
            found = backward_waves(properties.stiffness_matrix(), properties.rho)
            worst = min(axes, key=lambda axis: found[axis])
            if found[worst] < -GROWTH_TOLERANCE:
                yield BackwardMedium(".".join(("material", *map(str, path))), "xyz"[worst], float(found[worst]))


def layer_thicknesses(experiment: Experiment) -> Iterator[tuple[int, float]]:
    """Yield the index and the smallest thickness, m, of each layer in the domain that has a lower end there.

    Of a layer that pinches out it is the largest thickness.
    """
    domain, medium = experiment.domain, experiment.material.medium
    if experiment.material.layers is not None and isinstance(medium, BoundedLayers):
        for one in medium.ranges(domain)[:-1]:
            if one.depths is not None:
                yield one.index, one.thickest if one.absent else one.thinnest
        return
    top = domain.z[1] if domain.surface is None else domain.surface.low
    if isinstance(medium, EarthMedium):
        tops = medium.tops.tolist()
    else:
        tops = [layer.top for layer in experiment.material.layers or []]
    for index, (upper, lower) in enumerate(zip(tops, tops[1:], strict=False)):
        thickness = min(upper, top) - lower
        if thickness > 0.0 and upper > domain.z[0] and lower > domain.z[0]:
            yield index, thickness


def layer_name(experiment: Experiment, index: int) -> str:
    """Return the key of a layer, with its depths if it belongs to a radial model."""
    medium = experiment.material.medium
    if not isinstance(medium, EarthMedium):
        return f"material.layers[{index}]"
    top, bottom = (0.0 - medium.tops[number] / 1e3 for number in (index, index + 1))
    return f"material.earth: layer at a depth of {top:g} to {bottom:g} km"


def averaged_layers(experiment: Experiment, spacing: float) -> list[str]:
    """Return a warning for each layer thinner than the grid spacing of finite differences.

    Layers of 0.5 and 0.9 grid spacings, with vs lower by 28%, changed seismograms by 12% and 18% (relative L2 norm);
    the averages missed 13% and 14% of these changes.
    """
    return [
        f"{layer_name(experiment, index)}: {thickness:g} m thick, {thickness / spacing:.0%} of the grid spacing "
        f"({spacing:.4g} m). Finite differences average it with its neighbors; the error is about 15% of the effect of "
        f"this layer on the seismograms. {_thin_remedy(thickness, spacing)}"
        for index, thickness in layer_thicknesses(experiment)
        if thickness < spacing * (1.0 - 1e-6)
    ]


def _thin_remedy(thickness: float, spacing: float) -> str:
    """Return what to do about a layer thinner than the grid spacing."""
    if thickness < THINNEST * spacing:  # the required grid would be larger than any machine
        return "Merge it with a neighbor, or give it a minimum thickness."
    return f"Use solver.spacing: {thickness:.4g} or less to resolve it."


SMALL = 0.02  # error up to which there is no warning


@dataclass(frozen=True)
class NearSourceErrors:
    """Errors of seismograms near a source, measured below a free surface, with explosions and, in grids, with the worst
    of double couples.

    distances : ascending, to the nearest source in grid spacings or elements. errors : relative L2 norms. unit : unit
    of the distances, plural. key : key of the simulation file for a length of one unit. along_axes : the errors at
    receivers in directions within `NEEDLE` of an axis x, y or z through the source, if they are others. at_surface :
    errors at receivers within `SHALLOW` of a free surface, if they are others; below_shallow : at deeper receivers,
    from a source within `SHALLOW` of it.
    """

    distances: tuple[float, ...]
    errors: tuple[float, ...]
    unit: str
    key: str
    along_axes: tuple[float, ...] = ()
    at_surface: NearSourceErrors | None = None
    below_shallow: NearSourceErrors | None = None

    def at(self, distance: np.ndarray, along_axis: np.ndarray) -> np.ndarray:
        """Return the error at distances in units. along_axis : True near an axis."""
        errors = np.interp(distance, self.distances, self.errors)
        if not self.along_axes:
            return errors
        return np.where(along_axis, np.interp(distance, self.distances, self.along_axes), errors)

    @property
    def enough(self) -> float:
        """Distance in units beyond which the error is small."""
        return float(np.interp(-SMALL, [-error for error in self.along_axes or self.errors], self.distances))


SHALLOW = 1.5  # units
DIP_SLIP = 0.02  # of the largest component of a moment tensor
NEEDLE = 0.93  # cosine of an angle
SURFACE = NearSourceErrors(
    (1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0, 8.5), (0.9, 0.5, 0.45, 0.65, 0.24, 0.1, 0.06, 0.05, 0.02, 0.01),
    "grid spacings", "solver.spacing", (1.2, 0.8, 0.65, 0.35, 0.16, 0.16, 0.065, 0.04, 0.021, 0.012),
)  # fmt: skip
BELOW_ERRORS = (15.0, 3.8, 0.18, 0.085, 0.055, 0.05, 0.02)
BELOW = NearSourceErrors(
    (3.0, 4.0, 5.0, 6.0, 7.0, 9.0, 9.01), BELOW_ERRORS, "grid spacings", "solver.spacing", BELOW_ERRORS
)
# The largest errors of shear couples, explosions and compensated dipoles at nodes and between them in a homogeneous
# medium, against the closed form (below and at a surface: spectral elements), with the weights of
# `finite_difference.line_weights.CLEARANCES`. Those of one tensor are up to six times smaller. On the axes of the grid
# through the source, the field of a shear couple is smallest.
GRID = NearSourceErrors(
    (0.5, 1.0, 1.5, 1.75, 2.0, 2.25, 2.6, 3.0, 3.75, 4.4, 4.6, 5.25, 6.0, 7.0),
    (0.9, 1.4, 1.6, 1.4, 0.8, 0.3, 0.16, 0.075, 0.036, 0.02, 0.01, 0.006, 0.004, 0.0025), "grid spacings",
    "solver.spacing", (1.0, 1.7, 2.3, 1.6, 0.65, 0.5, 0.5, 0.24, 0.045, 0.022, 0.016, 0.008, 0.004, 0.0025),
    SURFACE, BELOW,
)  # fmt: skip
# The same with one relaxation mechanism at each node, where moments act on at least six points along each axis.
COARSE_GRID = NearSourceErrors(
    (1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0), (1.7, 2.0, 1.2, 0.33, 0.09, 0.082, 0.019, 0.006, 0.0025),
    "grid spacings", "solver.spacing", (2.0, 2.6, 1.75, 1.75, 0.38, 0.08, 0.029, 0.008, 0.0035), SURFACE, BELOW,
)  # fmt: skip
# The same beside an interface, where weights along z have eight points at any distance.
WIDE_GRID = NearSourceErrors(
    (0.5, 1.0, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 7.0), (0.9, 1.8, 1.6, 1.2, 0.33, 0.09, 0.082, 0.019, 0.007, 0.003),
    "grid spacings", "solver.spacing", (1.0, 2.1, 2.6, 2.8, 1.75, 0.9, 0.52, 0.07, 0.016, 0.0035), SURFACE, BELOW,
)  # fmt: skip
HEXAHEDRA = NearSourceErrors((0.2, 0.7, 1.0, 1.45, 1.8), (0.5, 0.1, 0.08, 0.02, 0.005), "elements", "solver.spacing")
TETRAHEDRA = NearSourceErrors((0.2, 0.6, 1.0, 1.5), (0.5, 0.15, 0.02, 0.005), "elements", "solver.spacing")


def near_source_warnings(
    experiment: Experiment, size: np.ndarray, errors_of: Sequence[NearSourceErrors], top: float = 0.0,
    free: bool = True,
) -> list[str]:  # fmt: skip
    """Return a warning if the error near a source is not small.

    Parameters
    ----------
    size : grid spacing, or size of the elements, at each source (sources,), m; infinite if unknown.
    errors_of : known errors near each source, or those near all of them.
    top : elevation of the surface, m, without topography. free : True if it is a free surface.
    """
    count = len(experiment.acquisition.source_positions)
    if not count:
        return []
    tables = list(errors_of) * (count // len(errors_of))
    found = _largest_near_errors(experiment, size, tables, top, free)
    errors = np.where(np.isfinite(size), found.errors, 0.0)
    worst = int(errors.argmax())
    if errors[worst] <= SMALL:
        return []
    near, known = int((errors > SMALL).sum()), found.tables[worst]
    others = f" ({near:,} of {count:,} sources are as near to a receiver)" if near > 1 else ""
    text = _near_source_text(found.names[worst], found.distances[worst], size[worst], errors[worst], known, others)
    return [f"sources[{worst}]: {text}"]


class _NearErrors(NamedTuple):
    """Largest known errors near each source.

    distances, errors : (sources,), m, and relative. names : of the receivers there. tables : those of the errors.
    """

    distances: np.ndarray
    errors: np.ndarray
    names: list[str]
    tables: list[NearSourceErrors]


def _largest_near_errors(
    experiment: Experiment, size: np.ndarray, tables: list[NearSourceErrors], top: float, free: bool
) -> _NearErrors:
    """Return the largest errors at receivers, and at the surface above if its peak motion is an output.

    tables : the errors near each source. Other arguments: see `near_source_warnings`.
    """
    sources, receivers = experiment.acquisition.source_positions, experiment.acquisition.receivers
    cartesian = experiment.domain.cartesian
    positions = np.array([one.position for one in receivers], float).reshape(-1, 3)
    distances, errors, names = np.full(len(sources), np.inf), np.zeros(len(sources)), [""] * len(sources)
    surface, at_surface = top if free else np.inf, tables[0].at_surface or tables[0]
    units, places = np.where(np.isfinite(size), size, 1.0), cartesian(positions)
    for number, source in enumerate(sources if len(receivers) else []):
        away = places - cartesian(source)
        every = np.linalg.norm(away, axis=1)
        shallow = surface - positions[:, 2] < SHALLOW * units[number]
        deep = known = tables[number]
        if known.below_shallow and surface - source[2] < SHALLOW * units[number]:
            deep = known.below_shallow if _is_dip_slip(experiment.acquisition.sources[number]) else known
        along = every / units[number], np.abs(away).max(axis=1) >= NEEDLE * every
        found = np.where(shallow, at_surface.at(*along), deep.at(*along))
        largest = int(np.lexsort((every, -found))[0])
        tables[number] = at_surface if shallow[largest] else deep
        distances[number], errors[number], names[number] = every[largest], found[largest], receivers[largest].name
    if experiment.output.peak_motion:
        depth = np.maximum(surface_heights(experiment, sources, top) - sources[:, 2], 0.0)
        above = at_surface.at(depth / units, np.full(len(depth), True))
        for number in np.flatnonzero(above > errors).tolist():
            tables[number] = at_surface
            distances[number], errors[number] = depth[number], above[number]
            names[number] = "the surface above (peak motion)"
    return _NearErrors(distances, errors, names, tables)


def _near_source_text(
    name: str, distance: float, size: float, error: float, known: NearSourceErrors, others: str
) -> str:
    """Return the text of a warning about the error at a distance (m) from a source, with a remedy.

    size : of a unit of distance, m. others : remark on other sources.
    """
    ratio = distance / size
    words = "the near field is not resolved there"
    if ratio > known.distances[0]:
        reach = "up to " if known.along_axes else ""
        words = f"estimated error there {reach}{error:.0%}, more where a double couple radiates little"
    elif distance == 0.0:
        words = "the motion at a point source is infinite, so that the record depends on the resolution alone"
    apart = f"a distance of at least {known.enough * size:.3g} m"
    remedy = f"Keep {apart}" if distance == 0.0 else (
        f"Use {known.key}: {distance / known.enough:.3g} or less, or {apart},"
    )
    return (
        f"{name} is at a distance of {distance:.4g} m, {ratio:.2g} {known.unit} of "
        f"{size:.4g} m{others}; {words}. Records farther away are not affected. {remedy} for an error below "
        f"{SMALL:.0%}."
    )


def _is_dip_slip(source: PointSource) -> bool:
    """True if a source has shear couples on horizontal planes."""
    moment = np.zeros(6) if source.moment is None else np.asarray(source.moment, float)
    return bool(np.abs(moment[4:]).max() > DIP_SLIP * np.abs(moment).max())


def surface_heights(experiment: Experiment, positions: np.ndarray, top: float) -> np.ndarray:
    """Return the elevation (n,), m, of the surface above positions (n, 3), m; `top` without topography."""
    surface = None if experiment.domain is None else experiment.domain.surface
    return np.full(len(positions), top) if surface is None else surface(positions[:, 0], positions[:, 1])


# vp of the fastest rock over the slowest velocity of a wave. Without measures, waves grew in long runs with ratios of
# 6, 8.7 and 14, and with a ratio of 4 if vs has a contrast of 2. They did not with a ratio of 4 in a homogeneous
# medium, or with 3.6 and a contrast of 2 (200,000 steps).
SOFT_RATIO, LAYERED_RATIO, CONTRAST = 5.0, 3.8, 1.5
# gamma of `grid_plan` at these ratios of vs of the fastest rock to the slowest velocity. Waves did not grow
# without it at 3 and 3.5, and did at 4 and above; with three quarters of these values they did not.
CONTRASTS, VISCOSITIES = (3.0, 5.0), (0.0, 0.0156)
# The same ratio from which layers of the element methods are damped. In perfectly matched layers, waves grew during one
# period of the highest frequency by factors of up to 1.006 at a ratio of 3, 1.05 at 3.5, 1.16 at 4, 1.3 at 5, 2 at 8.
DAMPED_CONTRAST = 2.9
WIDE_CELLS = 20  # of layers with a viscosity whose effect is small


def is_soft(experiment: Experiment) -> bool:
    """True if layers need measures for soft ground."""
    extremes = experiment.material_extremes
    layered = extremes["vs_max"] >= CONTRAST * extremes["slowest"]
    return extremes["vp_max"] >= (LAYERED_RATIO if layered else SOFT_RATIO) * extremes["slowest"]


def viscosity(experiment: Experiment) -> float:
    """Return gamma of `finite_difference.grid_plan.Smoothing`; 0 if the ground is not soft."""
    extremes = experiment.material_extremes
    contrast = extremes["vs_max"] / extremes["slowest"]
    return float(np.interp(contrast, CONTRASTS, VISCOSITIES)) if is_soft(experiment) else 0.0


def needs_damping(experiment: Experiment) -> bool:
    """True if waves would grow in perfectly matched layers of the element methods."""
    extremes = experiment.material_extremes
    return extremes["vs_max"] >= DAMPED_CONTRAST * extremes["slowest"]


def viscosity_warnings(experiment: Experiment) -> list[str]:
    """Return a warning if the viscosity of the layers changes seismograms next to them.

    Relative L2 differences from a larger box at receivers 50 to 200 m from its sides, of ground of 400 m/s and 300 m:
    4% at a contrast of 4 and 8% at 8 with layers of 10 cells, 2 and 4% with 20, of which 2% are due to the grid.
    """
    layer = experiment.boundaries.layer
    if not viscosity(experiment) or layer.cells >= WIDE_CELLS:
        return []
    extremes = experiment.material_extremes
    return [
        f"boundaries.layer.cells: vs varies by a factor of {extremes['vs_max'] / extremes['slowest']:.3g}, so that the "
        f"velocities in the absorbing layers are smoothed. Layers of {layer.cells} cells then changed seismograms next "
        f"to the sides by 4 to 8% in a measured model; set boundaries.layer.cells: {WIDE_CELLS} for half of this, or "
        "move the sides away from the receivers."
    ]


def soft_ground_warnings(experiment: Experiment, limit: float = DAMPED_CONTRAST) -> list[str]:
    """Return a warning if waves may grow in the layers despite the measures: above this ratio of vs."""
    extremes = experiment.material_extremes
    fastest, slowest = extremes["vs_max"], extremes["slowest"]
    if fastest < limit * slowest:
        return []
    places = experiment.material.extreme_places(experiment.domain.ground)
    return [
        f"boundaries: vs = {fastest:g} m/s in {places['vs_max']} is {fastest / slowest:.3g} times the velocity "
        f"{slowest:g} m/s in {places['slowest']}. If soft ground with such a contrast reaches an absorbing layer, "
        "guided waves may grow there in runs of many periods; such a run ends with an error. Then move the absorbing "
        "sides to where the ground is stiffer, or shorten the duration."
    ]


def displacement_warnings(experiment: Experiment, error: str) -> list[str]:
    """Return a warning about displacements of forces. error : measured with the layers of the run, e.g. ``10%``."""
    output = experiment.output
    forces = [number for number, one in enumerate(experiment.acquisition.sources) if one.force is not None]
    if not forces or (output.quantity != "displacement" and not output.peak_motion):
        return []
    key = "output.quantity" if output.quantity == "displacement" else "output.peak_motion"
    return [
        f"{key}: the displacement of a force ({experiment.acquisition.sources[forces[0]].where}) also has a nearly "
        "static part, for which the absorbing layers of this model are thin. Displacements were wrong by up to "
        f"{error} in homogeneous boxes of one to two wavelengths. Velocities and moment tensors have small errors. "
        "Record velocity, or move the absorbing sides away."
    ]
