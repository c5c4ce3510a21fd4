"""Layers of elements: of the model, of radial models, and around the domain.

It contains layers of cells of generated meshes: their sizes, their materials, and the surfaces that bound them; layers
in a radial model of the Earth: which discontinuities they follow, and their sizes; absorbing layers around imported
meshes: the sides at which they begin, and the medium in them; and elements between the sides of a domain and its
absorbing layers, where sources are near them (`margin_elements`).

The near field of a source varies over its distance, and the elements of a layer, where coordinates are stretched or
waves are damped, do not represent it: the waves of a source on a side differ by a factor of up to 3, although the layer
absorbs incident waves. Layers beside such sources therefore begin some elements farther outwards. These elements have
the material of the nearest point of the domain, like the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from lithowave.description.domain import FACES
from lithowave.description.solver import METHODS
from lithowave.earth.radial_model import RADIUS, EarthProperties, RadialModel, phase_speed_range
from lithowave.errors import InputError
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.media.earth import EarthMedium
from lithowave.media.medium import StackedLayers
from lithowave.mesh.extrusion import PlaneSides, plane_sides
from lithowave.mesh.hexahedral_box import LevelMap, layer_plans
from lithowave.solvers.elements.plan import SAME_LEVEL, column_widths, element_size, group_materials

if TYPE_CHECKING:
    from lithowave.description.domain import Chunk
    from lithowave.description.experiment import Experiment
    from lithowave.media.bounded_layers import LayerProfile
    from lithowave.media.elasticity import ElasticProperties
    from lithowave.media.medium import DomainExtent, Medium
    from lithowave.mesh.hexahedra import HexahedralMesh
    from lithowave.mesh.tetrahedra import TetrahedralMesh
    from lithowave.solvers.elements.locations import Mesh


SLABS = 12  # of depth; the slowest wave in each determines the element size of a medium that varies
ALIKE = 1.9  # ratio of speeds of slabs that have the same elements; elements are doubled from 2 on
FLATTEST = 0.1  # height over width of elements, below which an interface is not followed
PINCHED = 0.2  # height over width of elements below which an interface is in elements where a layer pinches out
MOST_PINCHED = 0.95  # fraction of the area in which an interface may be in elements; else nothing of it is followed
PART = 4096
LAYERED = ("layers", "earth")  # kinds of materials whose layers the elements of generated meshes follow


@dataclass(frozen=True)
class Unfollowed:
    """An interface that the elements do not follow: the top of a layer of the material, and why."""

    index: int
    reason: str


@dataclass(frozen=True)
class Pinched:
    """An interface that the elements follow except where a layer pinches out: there it is inside elements.

    index : of the layer of the material below it. fraction : of the area in which it is inside elements. reason : why.
    distance : function of x and y, m, -> distance of the elements from the interface, positive below it. upper, lower :
    codes of the layers of cells above and below. mixed : code of elements in which the interface is.
    """

    index: int
    fraction: float
    reason: str
    distance: Callable[..., np.ndarray]
    upper: int
    lower: int
    mixed: int


@dataclass(frozen=True)
class CellLayers:
    """Layers of cells of a generated mesh from the top, at flat levels, before the mesh is deformed.

    Attributes
    ----------
    tops : z, m, of the level of each top. bottom : that of the last layer.
    slowest : velocity of the slowest wave, m/s. sizes : edges of the cells, m.
    materials : code of the layers of the material in each, see `layer_code`.
    level_map : map of the levels to the surfaces; None if all are flat.
    unfollowed : interfaces inside the layers of cells. pinched : interfaces partly inside them. inside : z, m, of
    discontinuities of a radial model inside them.
    mixed : True if layers of the material with a contrast meet inside cells.
    """

    tops: list[float]
    bottom: float
    slowest: list[float]
    sizes: list[float]
    materials: list[int]
    level_map: LevelMap | None = None
    unfollowed: tuple[Unfollowed, ...] = ()
    inside: tuple[float, ...] = ()
    pinched: tuple[Pinched, ...] = ()
    mixed: bool = False

    def widths(self, chunk: Chunk | None) -> list[float]:
        """Return the largest width, m, at the surface, of the columns of the cells of each layer."""
        return column_widths(self.tops, self.sizes, chunk)


def cell_layers(experiment: Experiment) -> CellLayers:
    """Return the layers of cells of a generated mesh.

    InputError: flat layers cross the topography.
    """
    medium = experiment.material.medium
    if experiment.material.bounded and isinstance(medium, BoundedLayers):
        return _bounded(experiment, medium)
    if isinstance(medium, EarthMedium):
        return _radial(experiment, medium)
    tops, slowest, materials = _flat_layers(experiment)
    bottom, surface = experiment.domain.z[0], experiment.domain.surface_height
    level_map = None
    if experiment.domain.surface is not None:
        ends = [tops[0], tops[1] if len(tops) > 1 else bottom]
        level_map = LevelMap(ends, [surface], experiment.domain.surface.concurrent)
    for z in () if experiment.domain.chunk is None else experiment.domain.chunk.doubling_levels:
        index = sum(top > z for top in tops) - 1  # the layer that is divided at z
        if all(abs(top - z) > SAME_LEVEL for top in tops):
            tops.insert(index + 1, z)
            slowest.insert(index + 1, slowest[index])
            materials.insert(index + 1, materials[index])
    sizes = [element_size(experiment, speed) for speed in slowest]
    return CellLayers(tops, bottom, slowest, sizes, materials, level_map)


def _flat_layers(experiment: Experiment) -> tuple[list[float], list[float], list[int]]:
    """Return tops, m, slowest wave velocity, m/s, and material of flat layers of elements."""
    domain, material = experiment.domain, experiment.material
    low, high = domain.z
    if material.kind == "homogeneous":
        return [high if domain.surface is None else domain.surface.high], [material.homogeneous.speed_range[0]], [0]
    if material.kind != "layers":
        tops, speeds = _slabs(experiment)
        return tops, speeds, list(range(len(tops)))
    inside = [one for one in material.layers if one.top > low]
    tops = [one.top for one in inside]
    # A layer that ends above the surface everywhere has no elements.
    ground = high if domain.surface is None else domain.surface.high
    first = max((n for n, top in enumerate(tops) if top >= ground), default=0)
    if domain.surface is not None:
        _refuse_outcrops(tops, first, domain.surface.low)
    speeds = [one.speed_range[0] for one in inside[first:]]
    return [ground, *tops[first + 1 :]], speeds, list(range(first, len(tops)))


def _radial(experiment: Experiment, medium: EarthMedium) -> CellLayers:
    """Return the layers of cells of a radial model of the Earth."""
    domain = experiment.domain
    chunk, bottom = domain.chunk, domain.z[0]
    layers, dropped = radial_layers(experiment, medium, chunk.doubling_levels if chunk is not None else ())
    tops = [one.top for one in layers]
    level_map = None
    if domain.surface is not None:
        _refuse_outcrops(tops, 0, domain.surface.low, radial=True)
        level_map = LevelMap([tops[0], tops[1] if len(tops) > 1 else bottom], [domain.surface_height])
    return CellLayers(
        tops, bottom, [one.slowest for one in layers], [element_size(experiment, one.slowest) for one in layers],
        [layer_code(one.first, one.last, medium.count) for one in layers], level_map, inside=tuple(dropped),
        mixed=bool(dropped),
    )  # fmt: skip


def _refuse_outcrops(tops: list[float], first: int, lowest: float, radial: bool = False) -> None:
    """Require that layers below index `first` are below the lowest point of the topography."""
    for number in range(first + 1, len(tops)):
        if tops[number] >= lowest:
            where, hint = f"material.layers[{number}].top", "use material.file for a model of any shape"
            if radial:
                where = f"material.earth: layer of elements {number}"
                hint = "remove thin layers with material.earth.minimum_thickness, or use longer periods"
            raise InputError(
                where, f"{tops[number]:zg} m crosses the topography, which has a minimum of {lowest:zg} m",
                "allowed: layer tops below the surface everywhere, since element faces follow them", hint,
            )  # fmt: skip


def _slabs(experiment: Experiment) -> tuple[list[float], list[float]]:
    """Return equal slabs of the depth, with neighbors of similar wave velocity merged."""
    domain = experiment.domain
    low, high = domain.z
    ground = high if domain.surface is None else domain.surface.high
    start = high if domain.surface is None else domain.surface.low
    edges = np.linspace(start, low, SLABS + 1)
    edges[0] = high
    tops, speeds = [], []
    for above, below in zip(edges[:-1], edges[1:], strict=True):
        box = domain.model_copy(update={"z": (float(below), float(above))})
        _join(tops, speeds, float(above), experiment.material.extremes(box)["slowest"])
    return [ground, *tops[1:]], speeds


def _join(tops: list[float], speeds: list[float], top: float, speed: float) -> None:
    """Add a slab, or merge it with the last one."""
    if speeds and speed < ALIKE * speeds[-1]:
        speeds[-1] = min(speeds[-1], speed)
    else:
        tops.append(top)
        speeds.append(speed)


@dataclass(frozen=True)
class _Group:
    """Layers of the material, first to last, between two followed boundaries: z, m, (rows, columns).

    above, below : smallest thickness, m, of the layers above and below its top, which elements follow only as far.
    reason : why it is limited. fraction : of the area in which it is.
    """

    first: int
    last: int
    top: np.ndarray
    bottom: np.ndarray
    above: float = 0.0
    below: float = 0.0
    reason: str = ""
    fraction: float = 0.0

    @property
    def thickness(self) -> np.ndarray:
        return self.top - self.bottom


def _bounded(experiment: Experiment, medium: BoundedLayers) -> CellLayers:
    """Return the layers of cells of layers bounded by surfaces; those with gradients are divided by velocity."""
    domain = experiment.domain
    groups, unfollowed = _groups(experiment, medium)
    refused = [(one.index, one.reason) for one in unfollowed]
    refused += [(one.first, one.reason) for one in groups if one.reason]
    if refused and medium.anisotropic.any():
        raise InputError(
            f"material.layers[{refused[0][0]}].top",
            f"the elements cannot follow this surface: {refused[0][1]}; anisotropic layers require that they do",
            "allowed: layers that do not pinch out", "use isotropic layers, or give the layer a minimum thickness",
        )  # fmt: skip
    bottom = domain.z[0]
    heights = [float(one.thickness.max()) for one in groups]
    levels = [bottom + sum(heights[number:]) for number in range(len(groups))]
    tops, slowest, materials = [], [], []
    for group, level, height in zip(groups, levels, heights, strict=True):
        edges, speeds = _parts(medium, domain, group)
        tops += [level - edge * height for edge in edges]
        slowest += speeds
        materials += [layer_code(group.first, group.last, medium.count)] * len(edges)
    surfaces, pinched = [], []
    for number, one in enumerate(groups):
        surface = _surface(experiment, medium, one.first if number else -1)
        if one.reason:
            limited = _limited(surface, surfaces[-1], bottom, one)
            pinched.append(_pinched(medium, groups[number - 1], one, surface, limited))
            surface = limited
        surfaces.append(surface)
    moved = any(float(np.ptp(one.top)) > 0.0 for one in groups)
    concurrent = medium.concurrent and (domain.surface is None or domain.surface.concurrent)
    level_map = LevelMap([*levels, bottom], surfaces, concurrent) if moved else None
    sizes = [element_size(experiment, speed) for speed in slowest]
    mixed = bool(pinched) or any(one.first < one.last for one in groups)
    return CellLayers(
        tops, bottom, slowest, sizes, materials, level_map, tuple(unfollowed), pinched=tuple(pinched), mixed=mixed
    )


def _limited(
    surface: Callable[..., np.ndarray], above: Callable[..., np.ndarray], bottom: float, group: _Group
) -> Callable[..., np.ndarray]:
    """Return the surface at the top of a group without what is too near to the one above it, or to the bottom."""

    def height(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = surface(x, y)
        found = np.minimum(found, above(x, y) - group.above) if group.above else found
        return np.maximum(found, bottom + group.below) if group.below else found

    return height


def _pinched(
    medium: BoundedLayers, above: _Group, group: _Group, surface: Callable[..., np.ndarray],
    limited: Callable[..., np.ndarray],
) -> Pinched:  # fmt: skip
    upper, lower = (layer_code(one.first, one.last, medium.count) for one in (above, group))
    mixed = layer_code(above.first, medium.count - 1, medium.count)
    return Pinched(
        group.first, group.fraction, group.reason, lambda x, y: surface(x, y) - limited(x, y), upper, lower, mixed
    )


def _groups(experiment: Experiment, medium: BoundedLayers) -> tuple[list[_Group], list[Unfollowed]]:
    """Return the layers between boundaries that elements follow, and the tops of layers that they do not follow.

    Where a layer pinches out, curved elements follow its boundary as far as they are not flat. Straight tetrahedra may
    be inverted beside such places, and do not follow it anywhere.
    """
    domain = experiment.domain
    profile = medium.profile(domain)
    ends, none = profile.z, 1e-9 * (domain.z[1] - domain.z[0])
    bottom = ends[-1]
    groups: list[_Group] = []
    unfollowed: list[Unfollowed] = []
    first, top, limits = 0, ends[0], (0.0, 0.0, "", 0.0)
    for index in range(1, medium.count):
        here = ends[index]
        if (top - here <= none).all():  # nothing of the layers above
            first = index
            continue
        if (here - bottom <= none).all():  # this layer and the next ones are below the domain
            break
        above, why = _too_thin(experiment, medium, profile, top - here, (first, index - 1))
        below, reason = _too_thin(experiment, medium, profile, here - bottom, (index, index))
        limited = np.minimum(here, top - above) if above else here
        limited = np.maximum(limited, bottom + below) if below else limited
        fraction = float((np.abs(limited - here) > none).mean())
        most = MOST_PINCHED if METHODS[experiment.solver.method].curved else 0.0
        if fraction > most or (top - limited < 0.99 * above).any():
            unfollowed.append(Unfollowed(index, why or reason))
            continue
        groups.append(_Group(first, index - 1, top, limited, *limits))
        limits, first, top = (above, below, why or reason, fraction), index, limited
    last = max(one.index for one in medium.ranges(domain) if one.depths is not None)
    return [*groups, _Group(first, max(last, first), top, bottom, *limits)], unfollowed


def _too_thin(
    experiment: Experiment, medium: BoundedLayers, profile: LayerProfile, thickness: np.ndarray, layers: tuple[int, int]
) -> tuple[float, str]:
    """Return the thickness, m, that elements need where layers are too thin for them, and why; 0 if they are not."""
    slowest = min(_slowest(medium, experiment.domain, index) for index in range(layers[0], layers[1] + 1))
    size = min(element_size(experiment, slowest), float(thickness.max()))
    rows = np.ceil(float(thickness.max()) / size - 1e-6)
    if thickness.min() >= FLATTEST * size * rows:
        return 0.0, ""
    x, y = profile.place(thickness)
    names = " to ".join(f"layers[{index}]" for index in sorted(set(layers)))
    thinnest, thickest = max(float(thickness.min()), 0.0), float(thickness.max())
    reason = f"{names}: {thinnest:.4g} m thick at x = {x:zg} m, y = {y:zg} m, and up to {thickest:.4g} m"
    return PINCHED * size * rows, reason


def _slowest(medium: BoundedLayers, domain: DomainExtent, index: int) -> float:
    """Return the velocity of the slowest wave in a layer of the material, m/s; infinite if it is absent."""
    depths = medium.ranges(domain)[index].depths
    return np.inf if depths is None else float(medium.slowest_at(index, np.array(depths)).min())


def _parts(medium: BoundedLayers, domain: DomainExtent, group: _Group) -> tuple[list[float], list[float]]:
    """Return the upper ends of parts of a group, as fractions of its thickness, and the slowest wave in each, m/s."""
    if group.first == group.last and not medium.varying[group.first]:
        return [0.0], [_slowest(medium, domain, group.first)]
    profile, edges, speeds = medium.profile(domain), [], []
    for number in range(SLABS):
        high = group.top - number / SLABS * group.thickness
        low = group.top - (number + 1) / SLABS * group.thickness
        _join(edges, speeds, number / SLABS, min(_speeds_between(medium, profile, group, low, high)))
    return edges, speeds


def _speeds_between(
    medium: BoundedLayers, profile: LayerProfile, group: _Group, low: np.ndarray, high: np.ndarray
) -> Iterator[float]:
    """Yield the slowest velocity, m/s, of each layer of a group between two surfaces."""
    for index in range(group.first, group.last + 1):
        upper, lower = np.minimum(high, profile.z[index]), np.maximum(low, profile.z[index + 1])
        there = upper > lower
        if there.any():
            for z in (upper, lower):
                depth = np.broadcast_to(medium.depth(index, profile.x, profile.y, z), there.shape)
                yield float(medium.slowest_at(index, depth[there]).min())


def _surface(experiment: Experiment, medium: BoundedLayers, index: int) -> Callable[..., np.ndarray]:
    """Return z(x, y), m, at which a layer begins (-1: of the ground); outside the domain that of the nearest point."""
    domain = experiment.domain

    def height(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = np.clip(x, *domain.x), np.clip(y, *domain.y)
        ground = domain.surface_height(x, y)
        if index < 0:
            return ground
        begin = list(medium.boundaries(x, y))[index]
        return np.clip(begin, domain.z[0], np.maximum(ground, domain.z[0]))

    return height


def layer_code(first: int, last: int, count: int) -> int:
    """Return the code of the layers first to last of `count` layers: of a single layer, its index."""
    return first + (last - first) * count


def layers_of(codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last layer of codes."""
    first = codes % count
    return first, first + codes // count


M = TypeVar("M", "HexahedralMesh", "TetrahedralMesh")


def with_materials(experiment: Experiment, mesh: M, materials: list[int]) -> M:
    """Return a mesh with the codes of the layers of the simulation file instead of indices of layers of cells."""
    if experiment.material.kind not in LAYERED:
        return mesh
    codes = np.array(materials, np.int64)[mesh.materials]
    if experiment.material.bounded and experiment.solver.mesh is None:
        for one in cell_layers(experiment).pinched:
            _mix(codes, one, mesh)
    return replace(mesh, materials=codes)


def _mix(codes: np.ndarray, interface: Pinched, mesh: Mesh) -> None:
    """Set the codes (elements,) of the elements in which an interface is."""
    chosen = np.flatnonzero((codes == interface.upper) | (codes == interface.lower))
    for first in range(0, len(chosen), PART):
        some = chosen[first : first + PART]
        x, y = np.moveaxis(mesh.vertices[mesh.elements[some]][..., :2], -1, 0)
        distance = interface.distance(x.ravel(), y.ravel()).reshape(x.shape)
        inside = np.where(codes[some, None] == interface.upper, distance, -distance).max(axis=1) > SAME_LEVEL
        codes[some[inside]] = interface.mixed


def own_layers(experiment: Experiment, mesh: Mesh) -> tuple[np.ndarray, ...]:
    """Return the first and the last layer (elements,) of the material in each element of a generated mesh.

    Empty for media that are evaluated by position only, among them layers in an imported mesh.
    """
    medium = experiment.material.medium
    if experiment.solver.mesh is not None or not isinstance(medium, StackedLayers):
        return ()
    return layers_of(mesh.materials, medium.count)


def transverse_elements(experiment: Experiment, layers: tuple[np.ndarray, ...]) -> np.ndarray | None:
    """Return True (elements,) for the elements of a radial model that are transversely isotropic; None without any.

    layers : see `own_layers`. The result is None on all ranks or on none.

    InputError: the layers of the model cross an imported mesh.
    """
    medium = experiment.material.medium
    if not isinstance(medium, EarthMedium) or not medium.anisotropic_layers.any():
        return None
    if not layers:
        raise InputError(
            "material.earth.anisotropy", "true is not supported in an imported mesh", "allowed here: false",
            "omit solver.mesh, so that the elements follow the layers of the model",
        )  # fmt: skip
    counts = np.append(0, np.cumsum(medium.anisotropic_layers))
    return counts[layers[1] + 1] > counts[layers[0]]


def is_sampled(experiment: Experiment) -> bool:
    """Return whether the elements have values sampled at points, instead of one medium each.

    InputError: anisotropic layers cross an imported mesh.
    """
    material = experiment.material
    if material.kind in ("homogeneous", "groups"):
        return False
    if material.kind != "layers":
        return True
    if experiment.solver.mesh is None:
        cells = cell_layers(experiment)
        return any(layer.varies for layer in material.layers) or bool(cells.unfollowed or cells.pinched)
    if any(getattr(layer, "is_anisotropic", False) for layer in material.layers):
        raise InputError(
            "material.layers", "anisotropic layers are not supported in an imported mesh",
            "set material.groups, with the group names of the mesh",
        )  # fmt: skip
    return True


def element_properties(
    experiment: Experiment, mesh: Mesh, own: Experiment | None = None
) -> tuple[list[ElasticProperties], np.ndarray] | None:
    """Return the materials of the simulation file and the index (elements,) of that of each element; None for a medium
    that is sampled at points.

    own : the simulation whose materials are returned, such as that with unrelaxed media; default: `experiment`.

    InputError: anisotropic layers cross an imported mesh, or groups of the mesh and of the simulation file differ.
    """
    if is_sampled(experiment):
        return None
    material = (own or experiment).material
    if material.kind == "homogeneous":
        return [material.homogeneous], np.zeros(mesh.element_count, np.int64)
    if material.kind == "groups":
        return group_materials(own or experiment, mesh)
    return list(material.layers), mesh.materials


THINNEST = 0.5  # thickness over the size of elements, from which a discontinuity is followed in any case
SHORTER = 0.75  # estimated time step over that without a discontinuity, from which a thinner layer is followed
DOUBLING = 1.4  # largest eigenvalue of the skewed elements of a doubling over that of a box with half their height
WEAKEST = 0.005  # relative change of an impedance, or change of 1/Q, below which a discontinuity is not followed
RADIAL_SLABS = 24  # of a layer, in each of which the slowest wave is determined
ALIKE_IN_RADIUS = 1.15  # ratio of the speeds of slabs with equal elements


@dataclass(frozen=True)
class RadialLayer:
    """A layer of equal elements. top : z, m. slowest : m/s. first, last : layers of the model that it contains."""

    top: float
    slowest: float
    first: int
    last: int


def radial_layers(
    experiment: Experiment, medium: EarthMedium, cuts: Sequence[float] = ()
) -> tuple[list[RadialLayer], list[float]]:
    """Return the layers of elements from the top, and the discontinuities, z, m, that are inside elements.

    Discontinuities are followed in the order of their contrast, as long as the layers between them are not much thinner
    than an element; those between a fluid and a solid always. Then the others are, as long as the time step does not
    decrease below `SHORTER` of that without them, and elements are doubled as often.

    cuts : z, m, at which layers of elements end in any case, and elements are doubled.
    """
    (low, high), model, slowest = experiment.domain.z, medium.model, medium.slowest_between(experiment.domain)
    tops = [z for z in medium.tops[1:].tolist() if low < z < high]
    cuts = [min((z for z in tops if abs(z - cut) < SAME_LEVEL), default=cut) for cut in cuts if low < cut < high]
    fastest, kept, thin = _fastest_between(model), {high, low, *cuts}, []

    def layers(*more: float) -> tuple[list[RadialLayer], float, int]:
        found = _layers(experiment, model, slowest, {*kept, *more})
        step, doubled = _time_step(experiment, fastest, found)
        return found, step, len(doubled.intersection(cuts) if cuts else doubled)

    boundaries = [(_contrast(model, n), z) for n, z in enumerate(medium.tops.tolist()) if z in tops and z not in kept]
    for contrast, z in sorted(boundaries, reverse=True):
        gap = min(abs(z - other) for other in kept)
        size = element_size(experiment, slowest(max(z - gap, low), z + gap))
        thick = gap >= THINNEST * size and (not cuts or layers(z)[2] >= layers()[2])
        if np.isinf(contrast) or (contrast > WEAKEST and thick):
            kept.add(z)
        elif contrast > WEAKEST:
            thin.append(z)
    dropped, (found, step, doublings) = [], layers()
    surface = experiment.domain.surface
    for z in thin:
        if surface is not None and z >= surface.low:  # faces below the surface follow levels
            dropped.append(z)
            continue
        trial, own_step, own_doublings = layers(z)
        if own_step >= SHORTER * step and own_doublings >= doublings:
            kept.add(z)
            found = trial
        else:
            dropped.append(z)
    return found, dropped


def _layers(
    experiment: Experiment, model: RadialModel, slowest: Callable[[float, float], float], ends: set[float]
) -> list[RadialLayer]:
    """Return the layers of elements between z, m."""
    edges, found = sorted(ends, reverse=True), []
    last = max(n for n, one in enumerate(model.layers) if one.top - RADIUS > edges[-1])
    for top, bottom in zip(edges, edges[1:], strict=False):
        members = [n for n in range(last + 1) if _overlap(model, n, bottom, top) > 1e-3]
        parts = _parts_of_radius(experiment, slowest, top, bottom)
        found += [RadialLayer(edge, speed, members[0], members[-1]) for edge, speed in parts]
    return found


def _fastest_between(model: RadialModel) -> Callable[[float, float], float]:
    """Return the function of two z, m, that returns the speed of the fastest wave at the examined radii around them."""
    radii, speeds = [], []
    for index, layer in enumerate(model.layers):
        radii.append(layer.probes())
        here = model.properties(radii[-1], index)
        speeds.append(phase_speed_range(here.love, here.rho)[1])
    z, speed = np.concatenate(radii[::-1]) - RADIUS, np.concatenate(speeds[::-1])

    def fastest(low: float, high: float) -> float:
        first, end = np.searchsorted(z, low, "right") - 1, np.searchsorted(z, high, "left") + 1
        return float(speed[max(first, 0) : max(end, 1)].max())

    return fastest


def _time_step(
    experiment: Experiment, fastest: Callable[[float, float], float], layers: list[RadialLayer]
) -> tuple[float, set[float]]:
    """Return the estimated time step with some layers of elements, in relative units, and the z, m, of doublings.

    The step is the minimum of 1 / (v sqrt(1/dx^2 + 1/dy^2 + 1/dz^2)) over slabs of elements, v the fastest velocity.
    """
    chunk, ends = experiment.domain.chunk, [*(one.top for one in layers), experiment.domain.z[0]]
    sizes = [element_size(experiment, one.slowest) for one in layers]
    widest = np.minimum.accumulate(column_widths(ends[:-1], sizes, chunk)[::-1])[::-1]
    slabs, _ = layer_plans(widest, -np.diff(ends), sizes)
    width, rates, doubled = float(widest[0]), [], set()
    for top, layer in zip(ends, slabs, strict=False):
        z = top
        for slab in layer:
            low = z - slab.height
            narrow = width if chunk is None else width * (RADIUS + low) / RADIUS
            height = slab.height if slab.kind == "even" else 0.5 * slab.height
            rate = np.hypot(1.0 / height, np.sqrt(2.0) / narrow) * (1.0 if slab.kind == "even" else DOUBLING)
            rates.append(rate * fastest(low, z))
            if slab.kind == "x":
                doubled.add(z)
            width, z = width * (2.0 if slab.kind == "y" else 1.0), low
    return 1.0 / max(rates), doubled


def change_of_speed(model: RadialModel, z: float) -> float:
    """Return the change of vs, or of vp in a fluid, at a discontinuity, relative to the larger value. z : m."""
    number = int(np.abs(np.array([one.top for one in model.layers]) - RADIUS - z).argmin())
    radius = np.array([model.layers[number].top])
    speeds = [
        float(here.vs[0] or here.vp[0]) for here in (model.properties(radius, layer) for layer in (number - 1, number))
    ]  # fmt: skip
    return 1.0 - min(speeds) / max(speeds)


def _overlap(model: RadialModel, number: int, bottom: float, top: float) -> float:
    """Return the thickness, m, of a layer of the model between two z, m; the first one reaches up without end."""
    layer = model.layers[number]
    upper = np.inf if number == 0 else layer.top - RADIUS
    return min(upper, top) - max(layer.bottom - RADIUS, bottom)


def _contrast(model: RadialModel, number: int) -> float:
    """Return the largest relative change of an impedance, or the change of 1/Q of shear, which changes velocities by
    dispersion, at the top of a layer; infinite between fluid and solid."""
    radius = np.array([model.layers[number].top])
    above, below = (model.properties(radius, layer) for layer in (number - 1, number))
    if bool(above.vs[0] > 0.0) != bool(below.vs[0] > 0.0):
        return np.inf
    pairs = zip(_impedances(above), _impedances(below), strict=True)
    change = max(abs(b - a) / max(a, b) for a, b in pairs if max(a, b) > 0.0)
    return max(change, float(abs(above.inverse_qmu[0] - below.inverse_qmu[0])))


def _impedances(here: EarthProperties) -> tuple[float, float]:
    return float(here.rho[0] * here.vp[0]), float(here.rho[0] * here.vs[0])


def _parts_of_radius(
    experiment: Experiment, slowest: Callable[[float, float], float], top: float, bottom: float
) -> list[tuple[float, float]]:
    """Return the upper ends, z, m, of the layers of elements between two z, and the slowest wave in each, m/s."""
    edges = np.linspace(top, bottom, RADIAL_SLABS + 1)
    speeds = [slowest(lower, upper) for upper, lower in zip(edges, edges[1:], strict=False)]
    found: list[list[float]] = []
    for edge, speed in zip(edges, speeds, strict=False):
        thick = bool(found) and found[-1][0] - edge >= element_size(experiment, found[-1][1])
        if not found or (thick and speed >= ALIKE_IN_RADIUS * found[-1][1]):
            found.append([float(edge), speed])
        else:
            found[-1][1] = min(found[-1][1], speed)
    if len(found) > 1 and found[-1][0] - bottom < element_size(experiment, found[-1][1]):
        found.pop()
    return [(edge, speed) for edge, speed in found]


Ends = tuple[tuple[float, float], ...]
INWARDS = 1e-6  # of the extent of a mesh: how far inside its ends the medium of a layer is sampled
AWAY = "with its absorbing sides far from sources and receivers"


def layer_sides(experiment: Experiment, mesh: Mesh) -> tuple[PlaneSides | None, str]:
    """Return the sides of an imported mesh outside which a layer is added, or None.

    The text states why the default adds no layer although faces absorb; empty otherwise.

    InputError: `boundaries.absorption` is layer, and an absorbing side is not plane.
    """
    boundaries = experiment.boundaries
    if experiment.absorption != "layer":
        return None, ""
    absorbing = {name: boundaries.kind_of(name) == "absorbing" for name in mesh.boundaries}
    try:
        sides = plane_sides(mesh, absorbing)
    except InputError as error:
        if boundaries.absorption == "layer":
            hint = f"{error.hint}, or set boundaries.absorption to stacey {AWAY}"
            raise InputError(error.where, error.got, error.allowed, hint) from None
        remedy = error.hint[0].upper() + error.hint[1:]
        return None, (
            f"boundaries.absorption: auto is stacey here, which reflects part of the waves: {error.got}; "
            f"{error.allowed}. {remedy}; or set stacey by name {AWAY}."
        )  # fmt: skip
    return (sides if sides.used else None), ""


class SampledMedium(Protocol):
    """A medium that is sampled at points; further arguments are those of `BoundedLayers.layer_of`."""

    def sample(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vp, vs and rho."""


class LossyMedium(Protocol):
    """A medium with attenuation."""

    def inverse_quality(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return 1/Qkappa and 1/Qmu."""


class TransverseMedium(SampledMedium, Protocol):
    """A medium that is transversely isotropic in some elements."""

    def love(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return the moduli A, C, L, N and F, and rho."""


@dataclass(frozen=True)
class NearestMedium:
    """Medium whose values outside a domain are those at the nearest point of the domain; ends of the domain, m."""

    medium: Medium
    x: tuple[float, float]
    y: tuple[float, float]
    z: tuple[float, float]

    @classmethod
    def of(cls, experiment: Experiment) -> NearestMedium:
        """Return the medium of a simulation."""
        ground = experiment.domain.ground
        return cls(experiment.material.medium, ground.x, ground.y, ground.z)

    @classmethod
    def inside(cls, experiment: Experiment, ends: Ends) -> NearestMedium:
        """Return the medium of a simulation in an imported mesh with these ends, m, and its layer.

        At the ends it is sampled slightly inside: a model may change abruptly there.
        """
        margins = [INWARDS * (high - low) for low, high in ends]
        inner = [(low + margin, high - margin) for (low, high), margin in zip(ends, margins, strict=True)]
        return cls(experiment.material.medium, *inner)

    @property
    def concurrent(self) -> bool:
        """See `Medium.concurrent`."""
        return self.medium.concurrent

    @property
    def level(self) -> bool:
        """See `Medium.level`."""
        return self.medium.level

    def sample(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vp, vs and rho at points. within : see `BoundedLayers.layer_of`."""
        return self.medium.sample(*self._inside(x, y, z), *within)

    def inverse_quality(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return 1/Qkappa and 1/Qmu at points. within : as in `sample`."""
        return self.medium.inverse_quality(*self._inside(x, y, z), *within)

    def love(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, *within: np.ndarray
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return the moduli of transverse isotropy and rho at points; see `EarthMedium.love`."""
        return self.medium.love(*self._inside(x, y, z), *within)  # type: ignore[attr-defined]

    def _inside(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.clip(x, *self.x), np.clip(y, *self.y), np.clip(z, *self.z)


SLACK = 0.1  # of the required distance, in sizes of the elements, for which no further element is added


def margin_elements(experiment: Experiment, ends: Ends, sizes: Mapping[str, float], reach: float) -> dict[str, int]:
    """Return the number of additional elements beyond each face that has a layer.

    ends : of the domain along x, y, z, m. sizes : of the elements at faces with a layer, m. reach : required distance
    of sources from the layer, in sizes of the elements.
    """
    sources = experiment.acquisition.source_positions
    counts = dict.fromkeys(sizes, 0)
    low, high = np.transpose(ends[:2])
    inside = ((sources[:, :2] >= low) & (sources[:, :2] <= high)).all(axis=1)  # those outside are refused later
    sources = sources[inside]
    for face, size in sizes.items() if len(sources) else ():
        axis, end = divmod(FACES.index(face), 2)
        nearest = float(np.abs(sources[:, axis] - ends[axis][end]).min())
        counts[face] = max(0, int(np.ceil(reach - SLACK - nearest / size)))
    return counts


def layer_begin(ends: Ends, sizes: Mapping[str, float], margins: Mapping[str, int]) -> Ends:
    """Return the ends along x, y, z, m, inside of the layer: those of the domain with its margins, elements
    of these sizes, m, beyond faces."""
    beyond = {face: sizes[face] * count for face, count in margins.items()}
    return tuple(
        (low - beyond.get(f"{axis}_min", 0.0), high + beyond.get(f"{axis}_max", 0.0))
        for axis, (low, high) in zip("xyz", ends, strict=True)
    )


def after_margin(margin: int, size: float, steps: np.ndarray) -> np.ndarray:
    """Return the distances, m, at which the elements of a margin, then those of a layer at `steps`, m, end."""
    return np.concatenate([size * np.arange(1, margin + 1), margin * size + steps])
