"""Mesh of a simulation: imported from a file, or generated from the domain, with interfaces and topography.

Columns of elements in a chunk of the globe, whose number the simulation file may contain.

**Refinement of a generated mesh around sources with nearby receivers, by additional planes.** The field near a source
varies over the distance to it, and elements must resolve it at receivers. With sources spread over balls
(`spread_sources`) the error of seismograms at a distance d from an explosion, at four points along an element of size h
and 7 points per wavelength, was 26% for d / h = 0.2, 6% for 0.6, 2% for 1.2 and 0.6% for 1.75.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.description.domain import FACES
from lithowave.description.experiment import mesh_of
from lithowave.earth.radial_model import RadialGravity, transverse_moduli
from lithowave.errors import InputError
from lithowave.media.earth import EarthMedium
from lithowave.mesh.extrusion import extruded_hexahedra, hexahedron_sizes
from lithowave.mesh.hexahedra import HexahedralMesh, curved
from lithowave.mesh.hexahedral_box import BoxPlan, Slab, plan_box
from lithowave.mesh.imported import read_mesh_of
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, collective_call
from lithowave.process import phase
from lithowave.solvers.common.warnings import is_soft, needs_damping
from lithowave.solvers.elements.layers import (
    CellLayers,
    Ends,
    NearestMedium,
    after_margin,
    cell_layers,
    element_properties,
    layer_begin,
    layer_sides,
    margin_elements,
    own_layers,
    transverse_elements,
    with_materials,
)
from lithowave.solvers.elements.locations import recorded_distances
from lithowave.solvers.elements.plan import SAME_LEVEL, group_materials, kinds_of_faces
from lithowave.solvers.spectral_element.gll import gll_positions
from lithowave.solvers.spectral_element.layers import LAYER_ELEMENTS, SIDES, AbsorbingLayer, layer_steps
from lithowave.solvers.spectral_element.materials import (
    AveragedLayers,
    ElementMaterials,
    EqualElements,
    materials_of,
    sampled_materials,
    sampled_transverse_materials,
    vertical,
)
from lithowave.solvers.spectral_element.partition import column_windows, element_parts, scatter_mesh
from lithowave.solvers.spectral_element.relaxation import Losses

if TYPE_CHECKING:
    from lithowave.description.domain import Chunk
    from lithowave.description.experiment import Experiment
    from lithowave.media.elasticity import ElasticProperties
    from lithowave.media.medium import Medium
    from lithowave.mesh.partition import Rectangle


VERTICES = 65_536  # vertices that are placed at a time
MARGIN = 1.0  # distance of sources from the absorbing layer, in sizes of the elements


@dataclass(frozen=True)
class MeshedModel:
    """Mesh, materials of its elements, the kind of its outer faces (element, local face), and the layer.

    element_size : m, along the surface, of the global mesh; None: the median of the elements. mesh_ends, no_layer : see
    `ElementPlan`. gravity : see `SpectralElementPlan`.
    """

    mesh: HexahedralMesh
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    layer: AbsorbingLayer | None
    element_size: float | None
    mesh_ends: Ends | None = None
    no_layer: str = ""
    gravity: RadialGravity | None = None


def make_model(experiment: Experiment, ranks: Ranks = SINGLE_RANK) -> MeshedModel:
    """Return the mesh of a simulation with its materials; with several ranks each has its part.

    Raises
    ------
    InputError : the mesh file, its groups or the domain cannot be meshed; there are too many ranks.
    """
    if experiment.solver.mesh is not None:
        return _read(experiment, ranks)
    built = built_box(experiment)
    window = None
    if ranks.size > 1:
        window = windows(experiment, built, ranks.size)[ranks.rank]
    mesh = collective_call(ranks, lambda: built_mesh(experiment, built, window))
    materials = _of_whole(collective_call(ranks, lambda: _materials(experiment, mesh)), ranks)
    layer, chunk = built.layer if built.layer.used else None, experiment.domain.chunk
    if chunk is not None:
        mesh = replace(mesh, vertices=on_globe(mesh.vertices, chunk))
    medium = experiment.material.medium
    gravity = RadialGravity.of(medium.model) if experiment.physics.gravity else None  # type: ignore[attr-defined]
    return MeshedModel(mesh, materials, kinds_of_faces(experiment, mesh), layer, built.element_size, gravity=gravity)


def on_globe(vertices: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Return the Cartesian positions (n, 3), m, of vertices in the local coordinates of a chunk."""
    found = np.empty(vertices.shape)

    def place(some: slice) -> None:
        found[some] = chunk.map.to_cartesian(*vertices[some].T)

    over_parts(place, len(vertices), VERTICES)
    return found


def _read(experiment: Experiment, ranks: Ranks) -> MeshedModel:
    """Read the file and add the layer on the root, and distribute the mesh."""
    grouped = experiment.material.kind == "groups"

    def read() -> tuple[HexahedralMesh | None, np.ndarray | None, tuple]:
        if not ranks.is_root:
            return None, None, ()
        mesh = read_mesh_of(mesh_of(experiment.solver, experiment.boundaries))
        if grouped:  # A part may lack groups: materials are numbered in the order of the simulation file.
            mesh = replace(mesh, materials=group_materials(experiment, mesh)[1])
        size = typical_size(mesh)
        mesh, layer, ends = _with_layer(experiment, mesh)
        if ranks.size == 1:
            return mesh, None, (size, layer, *ends)
        absorbing = kinds_of_faces(experiment, mesh)["absorbing"]
        part = element_parts(mesh, absorbing, layer, ranks.size, experiment.solver.degree)
        return mesh, part, (size, layer, *ends)

    mesh, part, facts = collective_call(ranks, read)
    if ranks.size > 1:
        mesh = scatter_mesh(mesh, part, ranks)
    size, layer, ends, no_layer = ranks.broadcast(facts)
    mesh = mesh.local()
    if grouped:
        materials = _constant_materials(experiment, mesh.materials, lambda own: list(own.material.groups.values()))
    else:
        materials = _of_whole(collective_call(ranks, lambda: _materials(experiment, mesh, ends)), ranks)
    return MeshedModel(mesh, materials, kinds_of_faces(experiment, mesh), layer, size, ends, no_layer)


def _with_layer(
    experiment: Experiment, mesh: HexahedralMesh
) -> tuple[HexahedralMesh, AbsorbingLayer | None, tuple[Ends | None, str]]:
    """Return an imported mesh with its layer of elements as large as those beside it, and this layer; the ends of the
    mesh, m, and why it has none, see `layer_sides`."""
    sides, no_layer = layer_sides(experiment, mesh)
    if sides is None:
        return mesh, None, (None, no_layer)
    matched = is_matched(experiment)
    count = experiment.boundaries.layer.elements or LAYER_ELEMENTS[matched]
    sizes = hexahedron_sizes(mesh, sides)
    margins = margin_elements(experiment, sides.ends, sizes, MARGIN)
    steps = {side: layer_steps(size, count, matched) for side, size in sizes.items()}
    thickness = dict.fromkeys(FACES, 0.0) | {side: float(ends[-1]) for side, ends in steps.items()}
    begin = layer_begin(sides.ends, sizes, margins)
    layer = make_layer(experiment, begin, thickness, experiment.highest_frequency)
    steps = {side: after_margin(margins[side], sizes[side], ends) for side, ends in steps.items()}
    return extruded_hexahedra(mesh, sides, steps)[0], layer, (sides.ends, "")


def typical_size(mesh: HexahedralMesh) -> float:
    """Return the median edge along the first local axis, m."""
    first, second = (mesh.vertices[mesh.elements[:, corner]] for corner in (0, 1))
    return float(np.median(np.linalg.norm(second - first, axis=1)))


def _of_whole(materials: ElementMaterials, ranks: Ranks) -> ElementMaterials:
    """Return the materials with the extremes of the global mesh, if they are sampled at points."""
    if not materials.varying:
        return materials
    fastest, slowest = ranks.largest(float(materials.fastest[0])), ranks.smallest(float(materials.slowest[0]))
    return replace(materials, fastest=np.array([fastest]), slowest=np.array([slowest]))


@dataclass(frozen=True)
class BuiltBox:
    """Plan of a generated mesh: columns and slabs, absorbing layer, layers of cells, and material of each layer of the
    plan."""

    plan: BoxPlan
    layer: AbsorbingLayer
    cells: CellLayers
    materials: list[int]

    @property
    def element_size(self) -> float:
        """Edge of the elements along the surface, m."""
        return float(max(np.diff(self.plan.x).max(), np.diff(self.plan.y).max()))


def built_box(experiment: Experiment) -> BuiltBox:
    """Return the mesh plan of the domain with its absorbing layer.

    A layer along x or y has a multiple of the columns that stay together: at least two of the widest elements below.
    """
    domain = experiment.domain
    cells = cell_layers(experiment)
    edges, materials = cells.sizes, cells.materials
    widths = cells.widths(domain.chunk)
    even = plan_box(domain.x, domain.y, [*cells.tops, cells.bottom], list(zip(widths, edges, strict=True)))
    if domain.chunk is not None and domain.chunk.elements is not None:
        even = _with_columns(even, domain.chunk)
    box = refined_at_sources(even, experiment, cells)
    requested, matched = experiment.absorption, is_matched(experiment)
    count = (experiment.boundaries.layer.elements or LAYER_ELEMENTS[matched]) if requested == "layer" else 0
    sizes = {"x": float(even.x[1] - even.x[0]), "y": float(even.y[1] - even.y[0])}
    sizes = {
        face: size
        for face, size in zip(FACES, (sizes["x"], sizes["x"], sizes["y"], sizes["y"], edges[-1], edges[0]), strict=True)
        if count and _absorbs(experiment, face)
    }
    ends = (domain.x, domain.y, domain.z)
    margins = margin_elements(experiment, ends, sizes, MARGIN)
    thickness = dict.fromkeys(FACES, 0.0)
    for axis in "xy":
        lines, parts = getattr(box, axis), []
        for side in SIDES:
            face = f"{axis}_{side}"
            steps = np.zeros(0)
            if face in sizes:
                margin, size = margins[face], sizes[face]
                together = -(-(margin + count) // box.unit) * box.unit - margin
                steps = usual = layer_steps(size, count, matched)
                if together > count:
                    steps = layer_steps(size, together, matched, max(float(usual[-1]), together * size))
                thickness[face] = float(steps[-1])
                steps = after_margin(margin, size, steps)
            parts.append(steps)
        box = replace(box, **{axis: np.concatenate([lines[0] - parts[0][::-1], lines, lines[-1] + parts[1]])})
    for face in ("z_max", "z_min"):
        if face in sizes:
            steps = layer_steps(sizes[face], count, matched)
            thickness[face] = float(steps[-1])
            box, materials = _with_slabs(box, materials, face, after_margin(margins[face], sizes[face], steps))
    layer = make_layer(experiment, layer_begin(ends, sizes, margins), thickness)
    return BuiltBox(box, layer, cells, materials)


def _with_columns(box: BoxPlan, chunk: Chunk) -> BoxPlan:
    """Return the plan with the numbers of columns of a chunk in the simulation file.

    InputError: the elements are not doubled at the depths in the simulation file.
    """
    levels = [
        top for top, slabs in zip(box.interfaces, box.slabs, strict=False) for slab in slabs if slab.kind == "x"
    ]  # fmt: skip
    wanted = chunk.doubling_levels
    for number, z in enumerate(wanted):
        if number >= len(levels) or abs(levels[number] - z) > SAME_LEVEL:
            raise InputError(
                f"domain.chunk.doublings[{number}]",
                f"the layer of elements below {-z / 1e3:.6g} km is too thin for elements that become twice as wide",
                "expected a layer about two elements thick; layers end at the discontinuities that elements follow",
                "choose the depth of a discontinuity of the model, or one farther from them",
            )  # fmt: skip
    x, y = (np.linspace(*chunk.bounds[axis], count + 1) for axis, count in zip("xy", chunk.elements, strict=True))
    return replace(box, x=x, y=y)


def _absorbs(experiment: Experiment, face: str) -> bool:
    return experiment.boundaries.face(face) == "absorbing"


def _with_slabs(
    box: BoxPlan, materials: list[int], face: str, steps: np.ndarray
) -> tuple[BoxPlan, list[int]]:
    """Return the plan with slabs above or below whose elements end at some distances, m, and the materials of all
    layers of cells."""
    slabs, total = [[Slab("even", float(size)) for size in np.diff(steps, prepend=0.0)]], float(steps[-1])
    if face == "z_min":
        low = box.interfaces[-1]
        box = replace(box, interfaces=[*box.interfaces, low - total], slabs=box.slabs + slabs)
        return box, [*materials, materials[-1]]
    high = box.interfaces[0] + total
    slabs[0].reverse()
    box = replace(box, interfaces=[high, *box.interfaces], slabs=slabs + box.slabs)
    return box, [materials[0], *materials]


def make_layer(
    experiment: Experiment, domain: Ends, thickness: dict[str, float], highest: float | None = None
) -> AbsorbingLayer:
    """Return the absorbing layer with the parameters of the simulation file. highest : frequency, Hz, of the waves."""
    given = experiment.boundaries.layer
    frequency = given.frequency or 0.5 * (highest or experiment.resolved_frequency or 0.0)
    if not frequency and any(thickness.values()):
        raise InputError(
            "boundaries.layer.frequency", "unknown: neither this key nor solver.max_frequency is set",
            "set solver.max_frequency, from which the frequency of the layer follows",
        )  # fmt: skip
    matched = is_matched(experiment)
    elements = given.elements or LAYER_ELEMENTS[matched]
    reflection = given.reflection_with(experiment.solver.method)
    kappa = given.kappa if matched else 1.0
    return AbsorbingLayer(domain, thickness, elements, reflection, kappa, frequency, is_soft(experiment), matched)


def is_matched(experiment: Experiment) -> bool:
    """Return whether absorbing layers are perfectly matched: in models with fluids, or if no waves would grow there.

    The coupling of fluids and solids has no form for damped layers.
    """
    return not needs_damping(experiment) or experiment.material_extremes["vs_min"] == 0.0


def windows(experiment: Experiment, built: BuiltBox, parts: int) -> list[Rectangle]:
    """Return the columns of each rank."""
    absorbing = {name: kind == "absorbing" for name, kind in experiment.boundaries.faces.items()}
    return column_windows(built.plan, built.layer, absorbing, parts, experiment.solver.degree)


def built_mesh(experiment: Experiment, built: BuiltBox, window: Rectangle | None = None) -> HexahedralMesh:
    """Return the mesh, or its part in a window of columns, stretched to the topography and the interfaces.

    Its vertices are in local coordinates; elements of a chunk have 27 nodes, to be mapped to the sphere.
    """
    with phase("elements of the box"):
        mesh = built.plan.build(window)
    with phase("order of the elements"):
        mesh = mesh.local()
    level_map = built.cells.level_map
    if level_map is not None or experiment.domain.chunk is not None:
        # Elements of 27 nodes follow a surface to third order; straight ones have corners above the surface.
        with phase("curved elements"):
            mesh = curved(mesh, unmoved if level_map is None else level_map.displacement)
    return with_materials(experiment, mesh, built.materials)


def unmoved(*_: np.ndarray) -> tuple[float, float, float]:
    """Return no displacement."""
    return 0.0, 0.0, 0.0


def window_of_elements(experiment: Experiment, mesh: HexahedralMesh, parts: int) -> np.ndarray:
    """Return the part, of the given number of parts, in whose columns each element of a generated mesh is."""
    built = built_box(experiment)
    x, y = (lines[:: built.plan.unit] for lines in (built.plan.x, built.plan.y))
    part = np.empty((len(y) - 1, len(x) - 1), np.int64)
    for number, window in enumerate(windows(experiment, built, parts)):
        part[window.first_y : window.end_y, window.first_x : window.end_x] = number
    centers = mesh.vertices[mesh.elements].mean(axis=1)
    if experiment.domain.chunk is not None:
        centers = np.column_stack(experiment.domain.chunk.map.from_cartesian(centers))
    return part[np.searchsorted(y, centers[:, 1]) - 1, np.searchsorted(x, centers[:, 0]) - 1]


def _constant_materials(
    experiment: Experiment, number: np.ndarray, properties: Callable[[Experiment], list[ElasticProperties]]
) -> ElementMaterials:
    """Return constant materials. number : index of that of each element in the properties of a simulation."""
    losses = None
    if experiment.anelasticity is not None:
        inverse = np.array([one.inverse_quality for one in properties(experiment)], float).T
        losses = Losses(experiment.anelasticity.body, inverse)
    return materials_of(properties(experiment.unrelaxed), number, losses)


@phase("materials")
def _materials(experiment: Experiment, mesh: HexahedralMesh, ends: Ends | None = None) -> ElementMaterials:
    """Return the materials of a mesh. ends : of an imported mesh, m; in its absorbing layer, and in that of a box, the
    medium is that at the nearest point inside."""
    properties = element_properties(experiment, mesh)
    if properties is not None:
        return _constant_materials(
            experiment, properties[1], lambda own: element_properties(experiment, mesh, own)[0]
        )
    degree = experiment.solver.degree

    def positions(some: slice) -> np.ndarray:
        # A point on an interface belongs to its element: it is sampled slightly inside.
        nodes = mesh.element_nodes(some)
        places = gll_positions(nodes, degree)
        centre = nodes.mean(axis=1)[:, None, None, None]
        return places + 1e-6 * (centre - places)

    layers = own_layers(experiment, mesh)
    built = experiment.solver.mesh is None and experiment.domain.chunk is None

    def medium(own: Experiment) -> NearestMedium | Medium:
        if layers or built:
            return NearestMedium.of(own)
        return own.material.medium if ends is None else NearestMedium.inside(own, ends)

    dtype = np.float32 if experiment.compute.precision == "single" else np.float64
    media, body = (medium(experiment),), None
    if experiment.anelasticity is not None:
        media, body = (medium(experiment.unrelaxed), medium(experiment)), experiment.anelasticity.body
    chosen, averaged = transverse_elements(experiment, layers), None
    cells = cell_layers(experiment) if layers else None
    if cells is not None and cells.mixed:  # the same on all ranks
        material = experiment.material.medium
        inside = cells.inside if isinstance(material, EarthMedium) else None
        averaged = AveragedLayers(mesh, degree, media[0], media[-1] if body else None, material, *layers, inside)
    equal = EqualElements.between_levels(mesh, layers) if all(one.level for one in media) else None
    if chosen is None and averaged is None:
        return sampled_materials(
            media[0], positions, mesh.element_count, degree + 1, dtype, body, media[-1], layers, equal
        )
    if chosen is None:
        chosen = np.zeros(mesh.element_count, bool)
    chunk = experiment.domain.chunk
    axes = vertical if chunk is None else lambda x, y: chunk.map.axes(x, y)[..., 2, :]
    return sampled_transverse_materials(
        media[0], positions, chosen, _strongest(experiment), degree + 1, dtype, body, media[-1], layers, axes,
        averaged, equal,
    )  # fmt: skip


def _strongest(experiment: Experiment) -> tuple[np.ndarray, float]:
    """Return the 21 moduli, Pa, and rho of the medium of the layers with the strongest anisotropy."""
    medium = experiment.material.medium
    if isinstance(medium, EarthMedium):
        return medium.strongest_anisotropy(experiment.domain.ground)
    # Of isotropic layers, any of them.
    (a, c, l, n, f), rho = medium.love(*np.zeros((3, 1)))  # type: ignore[attr-defined]  # noqa: E741
    return transverse_moduli((a[0], c[0], l[0], n[0], f[0]), np.array([0.0, 0.0, 1.0])), float(rho[0])


FEWER = 0.95  # points per wavelength over the requested number, below which there is a warning


def refuse_wide_columns(experiment: Experiment, points: float | None, worst: str) -> None:
    """Require that the columns in the simulation file resolve max_frequency.

    Parameters
    ----------
    points : minimum points per wavelength at max_frequency; None if no frequency is known.
    worst : location of the minimum, with the wave velocity.

    Raises
    ------
    InputError : there are too few points per wavelength.
    """
    chunk, solver = experiment.domain.chunk, experiment.solver
    if chunk is None or chunk.elements is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    raise InputError(
        "domain.chunk.elements",
        f"{_product(chunk.elements)} elements have {points:.3g} points per shortest wavelength at "
        f"{solver.max_frequency:g} Hz in {worst}",
        f"degree {solver.degree} needs at least {solver.smallest_points:g}",
        f"use {_product(_columns_for(experiment, points, solver.smallest_points))} elements, or a max_frequency of "
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz",
    )


def column_warnings(experiment: Experiment, points: float | None, worst: str) -> list[str]:
    """Return warnings if the columns differ from those in the simulation file, or from the requested resolution.

    points, worst : see `refuse_wide_columns`.
    """
    chunk, requested = experiment.domain.chunk, experiment.solver.points_per_wavelength
    if chunk is None or chunk.elements is None:
        return []
    found, plan = [], built_box(experiment).plan
    columns = (len(plan.x) - 1, len(plan.y) - 1)
    if points is not None and requested is not None and points < FEWER * requested:
        found.append(
            f"domain.chunk.elements: {_product(chunk.elements)} elements have {points:.3g} points per shortest "
            f"wavelength in {worst}, fewer than solver.points_per_wavelength ({requested:g}), which applies to their "
            f"heights only. Use {_product(_columns_for(experiment, points, requested))} elements for {requested:g}."
        )
    if columns != tuple(chunk.elements):
        found.append(
            f"domain.chunk.elements: the mesh has {_product(columns)} columns instead of {_product(chunk.elements)}, "
            "since elements are smaller around sources near receivers, which also reduces the time step. Set "
            "solver.refine_sources: false to keep the number."
        )
    return found


def _columns_for(experiment: Experiment, points: float, requested: float) -> list[int]:
    """Return the columns along both axes with which these points per wavelength become the requested number."""
    chunk: Chunk = experiment.domain.chunk
    unit = 2 ** (len(chunk.doublings) + 1) if chunk.doublings else 1
    return [unit * math.ceil(count * requested / points / unit - 1e-6) for count in chunk.elements]


def _product(counts: Sequence[int]) -> str:
    return " x ".join(map(str, counts))


WANTED = 1.45  # minimum distance to receivers, over the size of the elements, without refinement
MOST_PARTS = 3  # child elements along each axis
LARGEST_GROWTH = 6.0  # of the number of elements


def refined_at_sources(plan: BoxPlan, experiment: Experiment, cells: CellLayers) -> BoxPlan:
    """Return the plan of a mesh with smaller elements around sources near receivers.

    Sources and receivers closer to each other than `locations.UNRESOLVED` elements are ignored. If the number of
    elements would grow by more than `LARGEST_GROWTH`, they are split into fewer children, or not at all.
    """
    sources = experiment.acquisition.source_positions
    if not len(sources) or experiment.solver.refine_sources is False:
        return plan
    places = sources if cells.level_map is None else cells.level_map.flattened(sources)
    size = np.array(cells.sizes)[np.searchsorted(-np.array(cells.tops), -places[:, 2], side="right").clip(1) - 1]
    distance = recorded_distances(experiment, experiment.domain.z[1], size)
    near = distance < WANTED * size
    sources, size, distance = places[near], size[near], distance[near]
    reach = np.maximum(distance, 0.5 * size)
    for most in range(MOST_PARTS, 1, -1):
        parts = np.minimum(most, np.ceil(WANTED * size / distance - 1e-9)).astype(int)
        refined = _refined(plan, sources, reach, parts)
        if _count(refined) <= LARGEST_GROWTH * _count(plan):
            return refined
    return plan


def _count(plan: BoxPlan) -> int:
    return (len(plan.x) - 1) * (len(plan.y) - 1) * sum(map(len, plan.slabs))


def _refined(plan: BoxPlan, sources: np.ndarray, reach: np.ndarray, parts: np.ndarray) -> BoxPlan:
    x, y = (
        _lines(values, plan.unit, sources[:, axis] - reach, sources[:, axis] + reach, parts)
        for axis, values in enumerate((plan.x, plan.y))
    )
    slabs = []
    for top, layer in zip(plan.interfaces, plan.slabs, strict=False):
        edges = top - np.concatenate([[0.0], np.cumsum([slab.height for slab in layer])])
        number = _parts(edges[1:], edges[:-1], sources[:, 2] - reach, sources[:, 2] + reach, parts)
        slabs.append([
            Slab("even", slab.height / count)
            if slab.kind == "even"
            else slab
            for slab, count in zip(layer, number.tolist(), strict=True)
            for _ in range(count if slab.kind == "even" else 1)
        ])  # fmt: skip
    return replace(plan, x=x, y=y, slabs=slabs)


def _lines(values: np.ndarray, unit: int, low: np.ndarray, high: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return lines that split the cells within intervals; `unit` cells are split together."""
    groups = values[::unit]
    number = np.repeat(_parts(groups[:-1], groups[1:], low, high, parts), unit)
    steps = np.concatenate([np.arange(count) / count for count in number.tolist()])
    first = np.repeat(np.arange(len(number)), number)
    return np.append(values[first] + steps * np.diff(values)[first], values[-1])


def _parts(begin: np.ndarray, end: np.ndarray, low: np.ndarray, high: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return the children of each cell (n,) from `begin` to `end`: the maximum over intersecting intervals."""
    margin = 1e-6 * (end - begin)
    found = np.ones(len(begin), int)
    for one_low, one_high, count in zip(low, high, parts, strict=True):
        met = (begin + margin < one_high) & (end - margin > one_low)
        found[met] = np.maximum(found[met], count)
    return found
