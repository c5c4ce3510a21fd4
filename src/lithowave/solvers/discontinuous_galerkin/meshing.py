"""Mesh of a simulation and its materials: imported from a file, or generated from the domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts
from lithowave.description.experiment import mesh_of
from lithowave.mesh.extrusion import extruded_tetrahedra, tetrahedron_sizes
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_box import BoxPlan, graded_box
from lithowave.mesh.imported import read_mesh_of
from lithowave.mesh.partition import Rectangle
from lithowave.mesh.shared import SharedFaces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_boxes import around, deformed, refined, split_hexahedra
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.process import phase
from lithowave.solvers.common.warnings import backward_media, needs_damping
from lithowave.solvers.discontinuous_galerkin.layer import (
    CELLS,
    GROWTH,
    LEAST_RELAXING_SHIFT,
    LEAST_SHIFT,
    AbsorbingLayer,
    LayerRates,
    extruded_steps,
    with_layer,
)
from lithowave.solvers.discontinuous_galerkin.materials import KINDS, ElementMaterials
from lithowave.solvers.discontinuous_galerkin.points import TOLERANCE, locate_points
from lithowave.solvers.discontinuous_galerkin.reference import tetrahedron_rule
from lithowave.solvers.discontinuous_galerkin.relaxation import average_quality
from lithowave.solvers.elements.layers import (
    LAYERED,
    CellLayers,
    Ends,
    NearestMedium,
    after_margin,
    cell_layers,
    element_properties,
    is_sampled,
    layer_begin,
    layer_sides,
    margin_elements,
    own_layers,
    with_materials,
)
from lithowave.solvers.elements.locations import SURFACE_TOLERANCE, of_all_ranks, recorded_distances, resolve_owners
from lithowave.solvers.elements.plan import kinds_of_faces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lithowave.description.domain import Domain
    from lithowave.description.experiment import Experiment
    from lithowave.media.elasticity import ElasticProperties
    from lithowave.solvers.elements.layers import LossyMedium, SampledMedium

# Distance of a source from receivers over the edge of the cubes there, above which no refinement is needed. The edges
# of elements around a source are halved at least once, since its radiation depends on its position in them.
WANTED, FEWEST_HALVINGS, MOST_HALVINGS = 1.75, 1, 4
MARGIN = 1.5  # distance of sources from the absorbing layer, in edges of the cubes
SAMPLES = 3  # points of quadrature along each direction in which an element's material is sampled
PART = 4096


@dataclass(frozen=True)
class MeshedModel:
    """Mesh, materials of its elements, the kind of its outer faces (element, local face), the size of the cubes from
    which it was generated, m, and its absorbing layer. mesh_ends, no_layer : see `ElementPlan`.

    With several ranks: this rank's part, whose neighbors include elements across `shared` faces, with indices after its
    own elements; materials also contains these.
    """

    mesh: TetrahedralMesh
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    element_size: float | None
    shared: SharedFaces = field(default_factory=SharedFaces)
    layer: AbsorbingLayer | None = None
    mesh_ends: Ends | None = None
    no_layer: str = ""

    def layer_rates(self) -> LayerRates:
        """Return the rates of the absorbing layer in each element."""
        return LayerRates.none(self.mesh.element_count) if self.layer is None else self.layer.rates(self.mesh)

    def face_neighbors(self) -> np.ndarray:
        """Return (elements, 4): the element across each face, or the kind of the face (`materials.KINDS`)."""
        across = self.mesh.neighbors
        found = np.where(across >= 0, across // 4, 0)
        for kind, faces in self.faces.items():
            found[faces[:, 0], faces[:, 1]] = KINDS[kind]
        return found


def usual_size(mesh: TetrahedralMesh) -> float:
    """Return the edge, m, of the cube that twelve elements of typical size would fill."""
    return float(np.cbrt(12.0 * np.median(mesh.volumes())))


@phase("mesh")
def make_model(experiment: Experiment) -> MeshedModel:
    """Return the mesh of a simulation with its materials.

    Raises
    ------
    InputError : the mesh file, its groups or the domain cannot be meshed.
    """
    if experiment.solver.mesh is not None:
        return _imported(experiment)
    box = built_box(experiment)
    mesh = refined_at_sources(split_box(experiment, box), experiment, box)
    return made_of(experiment, on_surfaces(experiment, mesh, box), box)


def made_of(experiment: Experiment, mesh: TetrahedralMesh, box: BuiltBox) -> MeshedModel:
    """Return a generated mesh, or a part of it, with its materials and the kinds of its outer faces."""
    faces = kinds_of_faces(experiment, mesh)
    return MeshedModel(mesh, _materials(experiment, mesh), faces, box.element_size, layer=box.layer)


def _imported(experiment: Experiment) -> MeshedModel:
    """Return the mesh of the file with its absorbing layer, whose elements have the material of those they continue."""
    mesh = read_mesh_of(mesh_of(experiment.solver, experiment.boundaries))
    materials, layer, size = _materials(experiment, mesh), None, None
    sides, no_layer = layer_sides(experiment, mesh)
    if sides is not None:
        size = usual_size(mesh)
        matched = is_matched(experiment)
        cells = experiment.boundaries.layer.elements, CELLS[matched], GROWTH[matched]
        edges = tetrahedron_sizes(mesh, sides)
        margins = margin_elements(experiment, sides.ends, edges, MARGIN)
        steps = {side: extruded_steps(edge, *cells) for side, edge in edges.items()}
        thickness = {side: float(ends[-1]) for side, ends in steps.items()}
        begin = layer_begin(sides.ends, edges, margins)
        layer = make_layer(experiment, begin, thickness, experiment.highest_frequency)
        steps = {side: after_margin(margins[side], edges[side], ends) for side, ends in steps.items()}
        mesh, parent = extruded_tetrahedra(mesh, sides, steps)
        materials = materials.reordered(parent)
    mesh = mesh.along_curve()
    return MeshedModel(
        mesh, materials.reordered(mesh.keys_of_elements), kinds_of_faces(experiment, mesh), size, layer=layer,
        mesh_ends=sides and sides.ends, no_layer=no_layer,
    )  # fmt: skip


@dataclass(frozen=True)
class BuiltBox:
    """Plan of a generated mesh: columns and slabs of cubes, layers of cubes, material of each layer of the plan, and
    absorbing layer."""

    plan: BoxPlan
    cells: CellLayers
    materials: list[int]
    layer: AbsorbingLayer | None

    @property
    def element_size(self) -> float:
        """Edge of the cubes along the surface, m."""
        return self.cells.sizes[0]


def built_box(experiment: Experiment) -> BuiltBox:
    """Return the cubes of a domain and its absorbing layer."""
    domain = experiment.domain
    cells = cell_layers(experiment)
    edges, materials = cells.sizes, cells.materials
    faces = layer_faces(experiment)
    matched = is_matched(experiment) if faces else True
    across = experiment.boundaries.layer.elements or CELLS[matched]
    plan = graded_box(domain.x, domain.y, [*cells.tops, cells.bottom], edges, dict.fromkeys(faces, across))
    if not faces:
        return BuiltBox(plan, cells, materials, None)
    usual = {"x": plan.x[plan.merged] - plan.x[0], "y": plan.y[plan.merged] - plan.y[0]}
    usual |= {"z_min": max(edges), "z_max": plan.slabs[0][0].height}
    sizes = {face: float(usual.get(face, usual.get(face[0], 0.0))) for face in faces}
    ends = (domain.x, domain.y, domain.z)
    margins = margin_elements(experiment, ends, sizes, MARGIN)
    plan, thickness = with_layer(plan, sizes, margins, across, GROWTH[matched])
    materials = materials[:1] * ("z_max" in faces) + materials + materials[-1:] * ("z_min" in faces)
    begin = layer_begin(ends, sizes, margins)
    layer = make_layer(experiment, begin, thickness, experiment.resolved_frequency or 0.0)
    return BuiltBox(plan, cells, materials, layer)


def is_matched(experiment: Experiment) -> bool:
    """Return whether the absorbing layer is perfectly matched: no waves would grow in it."""
    return not (needs_damping(experiment) or list(backward_media(experiment, layer_axes(experiment))))


def make_layer(experiment: Experiment, domain: Ends, thickness: dict[str, float], highest: float) -> AbsorbingLayer:
    """Return the absorbing layer with the parameters of the simulation file. highest : resolved frequency, Hz."""
    own, fastest = experiment.boundaries.layer, experiment.material_extremes["vp_max"]
    return AbsorbingLayer(
        domain, thickness, is_matched(experiment), fastest, own.reflection_with(experiment.solver.method),
        np.pi * (own.frequency or 0.5 * highest),
        LEAST_SHIFT if experiment.anelasticity is None else LEAST_RELAXING_SHIFT,
    )  # fmt: skip


def layer_faces(experiment: Experiment) -> list[str]:
    """Return the faces of the box that have an absorbing layer; above a topography there is none."""
    boundaries, flat = experiment.boundaries, experiment.domain.surface is None
    if boundaries.resolved_absorption() != "layer":
        return []
    return [name for name, kind in boundaries.faces.items() if kind == "absorbing" and (flat or name != "z_max")]


def layer_axes(experiment: Experiment) -> list[int]:
    """Return the axes along which a generated mesh has absorbing layers; all axes if the mesh is imported."""
    if experiment.solver.mesh is not None:
        return [0, 1, 2]
    return sorted({"xyz".index(face[0]) for face in layer_faces(experiment)})


@phase("mesh")
def split_box(experiment: Experiment, box: BuiltBox, columns: Rectangle | None = None) -> TetrahedralMesh:
    """Return the cubes split into tetrahedra, all of them, or those in some columns, deformed to a topography.

    In layers bounded by surfaces, the mesh has flat levels before `on_surfaces`.
    """
    domain = experiment.domain
    cubes = box.plan.build(None if columns is None else widened(columns, box.plan.units))
    own = None if columns is None else within(box.plan, columns, cubes)
    if is_sampled(experiment):
        fluid = fluid_cubes(experiment, cubes, box)
        cubes = replace(cubes, materials=2 * cubes.materials + fluid)
    if box.layer is not None:  # No element crosses the plane in which the layer begins.
        begin = box.layer.domain
        low, high = np.array([box.cells.bottom, box.cells.tops[0]]) + np.subtract(begin[2], domain.z)
        zones = replace(box.layer, domain=(*begin[:2], (low, high))).zones(cubes.element_nodes()[:, :8].mean(axis=1))
        cubes = replace(cubes, materials=8 * cubes.materials + zones)
    mesh = split_hexahedra(cubes, own=own)
    if box.layer is not None:
        mesh = replace(mesh, materials=mesh.materials // 8)
    if is_sampled(experiment) and experiment.material.kind in LAYERED:
        mesh = replace(mesh, materials=mesh.materials // 2)
    level_map = box.cells.level_map
    if level_map is not None and not experiment.material.bounded:
        mesh = deformed(mesh, replace(level_map, surfaces=[nearest_height(domain)]).displacement)
    return with_materials(experiment, mesh, box.materials)


def on_surfaces(experiment: Experiment, mesh: TetrahedralMesh, box: BuiltBox) -> TetrahedralMesh:
    """Return a refined mesh of layers bounded by surfaces, deformed such that its vertices are on them.

    InputError: an element has no volume or is inverted.
    """
    level_map = box.cells.level_map
    if level_map is None or not experiment.material.bounded:
        return mesh
    return deformed(mesh, level_map.displacement)


def widened(columns: Rectangle, units: tuple[int, int]) -> Rectangle:
    """Return the columns with adjacent ones: cubes there determine how those at the edge are split."""
    return Rectangle(
        max(0, columns.first_x - 1), min(units[0], columns.end_x + 1),
        max(0, columns.first_y - 1), min(units[1], columns.end_y + 1),
    )  # fmt: skip


def within(plan: BoxPlan, columns: Rectangle, cubes: HexahedralMesh) -> np.ndarray:
    """True for the cubes in these columns."""
    low = plan.x[columns.first_x * plan.unit], plan.y[columns.first_y * plan.unit]
    high = plan.x[columns.end_x * plan.unit], plan.y[columns.end_y * plan.unit]
    centres = cubes.element_nodes()[:, :8, :2].mean(axis=1)
    return ((centres > low) & (centres < high)).all(axis=1)


@phase("mesh around sources")
def refined_at_sources(
    mesh: TetrahedralMesh, experiment: Experiment, box: BuiltBox, ranks: Ranks = SINGLE_RANK
) -> TetrahedralMesh:
    """Return the mesh with smaller elements around sources, depending on the distance to receivers.

    Seismograms at a distance d from an explosion, in elements from cubes of edge h, had an error of 12% for d / h =
    0.6, 2% for 1.0 and 0.3% for 2.0 (order 5, 7 points per wavelength). Far from sources in elements of typical size
    the error was 1.4%, with elements halved once 0.6% (6 points per wavelength). Receivers count whose distance is at
    least two elements after all halvings.
    """
    positions = experiment.acquisition.source_positions
    if len(positions) and experiment.solver.refine_sources is not False:
        tolerance = SURFACE_TOLERANCE if experiment.domain.surface is not None else TOLERANCE
        if experiment.material.bounded and box.cells.level_map is not None:
            positions = box.cells.level_map.flattened(positions)
        size = element_sizes(mesh, positions, tolerance, ranks)
        least = 2.0 * 0.5**MOST_HALVINGS
        distance = recorded_distances(experiment, experiment.domain.z[1], size, least)
        # The peaks above a source so near the surface are not resolved: half as many elements along each direction.
        distance = np.where(distance > least * size, distance, 2.0 * least * size)
        with np.errstate(divide="ignore"):  # a receiver at a source
            halvings = np.maximum(FEWEST_HALVINGS, np.ceil(np.log2(WANTED * size / distance) - 1e-9))
        for done in range(MOST_HALVINGS):
            some = positions[halvings > done]
            elements = resolve_owners(locate_points(mesh, some, tolerance), ranks).locations.element
            if len(some):
                mesh = refined(mesh, around(mesh, elements, ranks), ranks)
    return mesh.along_curve()


def element_sizes(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float, ranks: Ranks) -> np.ndarray:
    """Return edges (n,), m, of cubes of twelve elements as large as those at positions (n, 3); infinite outside the
    mesh. Collective; the result is the same on all ranks."""
    places = resolve_owners(locate_points(mesh, positions, tolerance), ranks).locations
    vertices, found = mesh.element_vertices(places.element), np.full(len(positions), np.inf)
    np.minimum.at(found, places.point, np.cbrt(2.0 * np.abs(np.linalg.det(vertices[:, 1:] - vertices[:, :1]))))
    return of_all_ranks(found, ranks)


def fluid_cubes(experiment: Experiment, cubes: HexahedralMesh, box: BuiltBox) -> np.ndarray:
    """True for hexahedra that are mostly fluid: tetrahedra then do not cross a sea floor between two of them."""
    medium, level_map, layers = NearestMedium.of(experiment), None, ()
    if experiment.material.kind in LAYERED:
        level_map = box.cells.level_map
        layers = own_layers(experiment, with_materials(experiment, cubes, box.materials))
    line = 0.5 + 0.5 * np.polynomial.legendre.leggauss(SAMPLES)[0]
    x, y, z = (axis.ravel() for axis in np.meshgrid(line, line, line, indexing="ij"))
    found = np.empty(cubes.element_count, bool)

    def examine(some: slice) -> None:
        corners = cubes.element_nodes(some)[:, :8]
        low, high = corners.min(axis=1)[:, None], corners.max(axis=1)[:, None]
        places = np.moveaxis(low + np.stack([x, y, z], axis=1) * (high - low), -1, 0)
        if level_map is not None:
            places[2] += level_map.displacement(*places)[2]
        vs = medium.sample(*places, *(layer[some, None] for layer in layers))[1]
        found[some] = (vs == 0).mean(axis=1) > 0.5

    concurrent = medium.concurrent and (level_map is None or level_map.concurrent)
    over_parts(examine, cubes.element_count, PART, None if concurrent else 1)
    return found


@phase("materials")
def _materials(experiment: Experiment, mesh: TetrahedralMesh) -> ElementMaterials:
    """Return the materials of a mesh; with attenuation the unrelaxed ones, with the relaxation body and 1/Q."""
    anelasticity, unrelaxed = experiment.anelasticity, experiment.unrelaxed
    properties = element_properties(experiment, mesh, unrelaxed)
    if properties is None:
        medium, described = (
            NearestMedium.of(own) if experiment.solver.mesh is None else own.material.medium
            for own in (unrelaxed, experiment)
        )  # fmt: skip
        lossy = None if anelasticity is None else described
        found = sampled_materials(medium, mesh, lossy, own_layers(experiment, mesh))
    else:
        found = constant_materials(*properties)
        if anelasticity is not None:
            described = element_properties(experiment, mesh)
            assert described is not None
            losses = np.array([one.inverse_quality for one in described[0]], float)
            found = replace(found, inverse_quality=losses[described[1]])
    return found if anelasticity is None else replace(found, body=anelasticity.body)


def nearest_height(domain: Domain) -> Callable[..., np.ndarray]:
    """Return the function of x and y that is the elevation, m, of the surface at the nearest point of the domain."""
    return lambda x, y: domain.surface_height(np.clip(x, *domain.x), np.clip(y, *domain.y))


def constant_materials(properties: Sequence[ElasticProperties], number: np.ndarray) -> ElementMaterials:
    """Return materials of `rho`, `stiffness_matrix()`, `is_anisotropic`, `is_fluid`, `vp`, `vs`, `speed_range`.

    number : index of the object of each element.
    """
    rho = np.array([one.rho for one in properties], float)
    anisotropic = [one for one in properties if one.is_anisotropic]
    row = np.cumsum([one.is_anisotropic for one in properties]) - 1
    vp, vs = (
        np.array([0.0 if one.is_anisotropic else getattr(one, name) for one in properties]) for name in ("vp", "vs")
    )
    plain = ElementMaterials.isotropic(vp[number], vs[number], rho[number])
    if not anisotropic:
        return plain
    speeds = np.array([one.speed_range for one in anisotropic]) * np.sqrt([[one.rho] for one in anisotropic])
    rows = np.where([one.is_anisotropic for one in properties], row, -1)
    stiffness = np.array([one.stiffness_matrix() for one in anisotropic])
    return replace(plain, number=rows[number], stiffness=stiffness, slowest=speeds[:, 0], fastest=speeds[:, 1])


def sampled_materials(
    medium: SampledMedium, mesh: TetrahedralMesh, lossy: LossyMedium | None = None, layers: tuple[np.ndarray, ...] = ()
) -> ElementMaterials:
    r"""Return averages of a medium over the elements.

    An element is a fluid if most of it is fluid. Over its fluid or solid fraction, the density and the compliances 1 /
    mu and 1 / (lambda + 2 mu) are averaged: waves along layers thinner than an element depend on the mean density and,
    to the order of the medium's contrast, these moduli (Backus 1962, J. Geophys. Res. 67, 4427-4440).

    medium : object with sample(x, y, z) -> vp, vs, rho. lossy : object with inverse_quality(x, y, z) -> 1/Qkappa,
    1/Qmu; None without attenuation. layers : further arguments of both, (elements,) each: see `layers.own_layers`.
    """
    points, weights = tetrahedron_rule(SAMPLES)
    weights = weights / weights.sum()
    found, losses = np.empty((3, mesh.element_count)), None if lossy is None else np.empty((mesh.element_count, 2))

    def average(some: slice) -> None:
        vertices = mesh.element_vertices(some)
        places = vertices[:, None, 0] + points @ (vertices[:, 1:] - vertices[:, :1])
        x, y, z = np.moveaxis(places, -1, 0)
        own = [layer[some, None] for layer in layers]
        vp, vs, rho = medium.sample(x, y, z, *own)
        fluid = (vs == 0) @ weights > 0.5
        alike = np.where((vs == 0) == fluid[:, None], weights, 0.0)
        alike /= alike.sum(axis=1, keepdims=True)
        density = (alike * rho).sum(axis=1)
        stiff = 1.0 / (alike / (rho * vp**2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            shear = 1.0 / (alike / np.where(fluid[:, None], 1.0, np.where(alike > 0, rho * vs**2, 1.0))).sum(axis=1)
        found[:, some] = np.sqrt(stiff / density), np.where(fluid, 0.0, np.sqrt(shear / density)), density
        if losses is not None:
            losses[some] = average_quality(alike, (rho * vp**2, rho * vs**2), lossy.inverse_quality(x, y, z, *own))

    concurrent = all(getattr(one, "concurrent", False) for one in (medium, lossy) if one is not None)
    over_parts(average, mesh.element_count, PART, None if concurrent else 1)
    return replace(ElementMaterials.isotropic(*found), inverse_quality=losses)
