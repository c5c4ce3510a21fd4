"""Mesh of a simulation: imported from a file, or generated from the domain, with interfaces and topography."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh, curved
from lithowave.mesh.hexahedral_box import BoxPlan, plan_box
from lithowave.mesh.mesh_reading import read_hexahedral_mesh
from lithowave.parallel.collective import collective_call
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.elements.element_description import (
    cell_layers,
    element_properties,
    group_materials,
    kinds_of_faces,
    raised_to,
    with_layer_indices,
)
from lithowave.solvers.spectral_element.geometry import gll_positions
from lithowave.solvers.spectral_element.materials import ElementMaterials, materials_of, sampled_materials
from lithowave.solvers.spectral_element.mesh_partition import column_windows, element_parts, scatter_mesh
from lithowave.solvers.spectral_element.source_refinement import refined_at_sources

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation
    from lithowave.mesh.partition import Rectangle

GROWTH = 1.15  # growth of the elements of an absorbing layer, from one to the next outwards
LAYER_WAVELENGTHS, FEWEST_IN_LAYER = 12.0, 4  # thickness of a layer in shortest wavelengths; elements


@dataclass(frozen=True)
class AbsorbingLayer:
    """Additional elements around the domain: thickness beyond each face, m (0: none), as x_min, x_max, y_min, ..."""

    domain: tuple[tuple[float, float], ...]
    thickness: dict[str, float]

    def depth(self, positions: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the depth of positions (..., 3) in the layer as a fraction of its thickness, the maximum over the
        axes, and the minimum thickness, m."""
        found = np.zeros(positions.shape[:-1])
        for axis, (low, high) in enumerate(self.domain):
            for side, beyond in (("min", low - positions[..., axis]), ("max", positions[..., axis] - high)):
                thickness = self.thickness[f"{'xyz'[axis]}_{side}"]
                if thickness:
                    found = np.maximum(found, beyond / thickness)
        return np.clip(found, 0.0, 1.0), min((t for t in self.thickness.values() if t), default=0.0)


@dataclass(frozen=True)
class MeshedModel:
    """Mesh, materials of its elements, the kind of its outer faces (element, local face), and the layer.

    element_size : m, along the surface, of the global mesh; None: the median of the elements.
    """

    mesh: HexahedralMesh
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    layer: AbsorbingLayer | None
    element_size: float | None


def make_model(simulation: Simulation, ranks: Ranks = SINGLE_RANK) -> MeshedModel:
    """Return the mesh of a simulation with its materials; with several ranks each has its part.

    Raises
    ------
    InputError : the mesh file, its groups or the domain cannot be meshed; there are too many ranks.
    """
    if simulation.solver.mesh is not None:
        return _read(simulation, ranks)
    built = built_box(simulation)
    window = None
    if ranks.size > 1:
        window = windows(simulation, built, ranks.size)[ranks.rank]
    mesh, layer = collective_call(ranks, lambda: built_mesh(simulation, built, window))
    materials = _of_whole(collective_call(ranks, lambda: _materials(simulation, mesh)), ranks)
    used = any(layer.thickness.values())
    return MeshedModel(mesh, materials, kinds_of_faces(simulation, mesh), layer if used else None, built.element_size)


def _read(simulation: Simulation, ranks: Ranks) -> MeshedModel:
    """Read the file on the root and distribute the mesh."""
    if simulation.boundaries.absorption == "layer":
        raise InputError(
            "boundaries.absorption", "absorbing layers are not supported for an imported mesh",
            "allowed with solver.mesh: stacey", "set boundaries.absorption to stacey, or include the layer in the mesh",
        )  # fmt: skip
    grouped = simulation.material.kind == "groups"

    def read() -> tuple[HexahedralMesh | None, np.ndarray | None, float]:
        if not ranks.is_root:
            return None, None, 0.0
        mesh = read_hexahedral_mesh(simulation.solver.mesh, "solver.mesh")
        if grouped:  # A part may lack groups: materials are numbered in the order of the simulation file.
            mesh = replace(mesh, materials=group_materials(simulation, mesh)[1])
        if ranks.size == 1:
            return mesh, None, typical_size(mesh)
        absorbing = kinds_of_faces(simulation, mesh)["absorbing"]
        return mesh, element_parts(mesh, absorbing, ranks.size, simulation.solver.degree), typical_size(mesh)

    mesh, part, size = collective_call(ranks, read)
    if ranks.size > 1:
        mesh = scatter_mesh(mesh, part, ranks)
    mesh, size = mesh.local(), ranks.broadcast(size)
    if grouped:
        materials = materials_of(list(simulation.material.groups.values()), mesh.materials)
    else:
        materials = _of_whole(collective_call(ranks, lambda: _materials(simulation, mesh)), ranks)
    return MeshedModel(mesh, materials, kinds_of_faces(simulation, mesh), None, size)


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
    """Plan of a generated mesh: columns and slabs, tops of the layers and of the surface, m, absorbing layer."""

    plan: BoxPlan
    tops: list[float]
    layer: AbsorbingLayer
    element_size: float


def built_box(simulation: Simulation) -> BuiltBox:
    """Return the mesh plan of the domain with its absorbing layer."""
    domain = simulation.domain
    tops, edges = cell_layers(simulation)
    layer = _layer(simulation, max(edges), edges[0])
    x, y, z = (
        (ends[0] - layer.thickness[f"{axis}_min"], ends[1] + layer.thickness[f"{axis}_max"])
        for axis, ends in zip("xyz", (domain.x, domain.y, domain.z), strict=True)
    )
    interfaces = [z[1] if domain.surface is None else domain.surface.high, *tops[1:], z[0]]
    plan = plan_box(x, y, interfaces, list(zip(edges, edges, strict=True)))
    return BuiltBox(refined_at_sources(plan, simulation, tops, edges), tops, layer, edges[0])


def windows(simulation: Simulation, built: BuiltBox, parts: int) -> list[Rectangle]:
    """Return the columns of each rank."""
    absorbing = {name: kind == "absorbing" for name, kind in simulation.boundaries.faces.items()}
    return column_windows(built.plan, built.layer, absorbing, parts, simulation.solver.degree)


def built_mesh(
    simulation: Simulation, built: BuiltBox, window: Rectangle | None = None
) -> tuple[HexahedralMesh, AbsorbingLayer]:
    """Return the mesh, or its part in a window of columns, stretched to its layer and the topography."""
    domain = simulation.domain
    mesh, layer = _stretched(built.plan.build(window).local(), built.layer, _layer_elements(simulation))
    if domain.surface is not None:
        # Elements of 27 nodes follow the topography to third order; straight ones have corners above the surface.
        mesh = curved(mesh, raised_to(domain.surface_height, *built.plan.interfaces[:2]))
    return with_layer_indices(simulation, mesh, built.tops), layer


def _stretched(mesh: HexahedralMesh, layer: AbsorbingLayer, count: int) -> tuple[HexahedralMesh, AbsorbingLayer]:
    """Return a mesh of equal elements with the `count` elements of its layer growing outwards, and the layer.

    Long waves need a thick layer, and short ones are damped before they reach the large elements.
    """
    thickness = dict(layer.thickness)
    for name in (name for name, value in thickness.items() if value):
        scale = thickness[name] / (math.log(GROWTH) * count)
        thickness[name] = scale * math.expm1(math.log(GROWTH) * count)
    vertices = np.column_stack([stretched(mesh.vertices[:, axis], axis, layer, count) for axis in range(3)])
    return replace(mesh, vertices=vertices), AbsorbingLayer(layer.domain, thickness)


def stretched(positions: np.ndarray, axis: int, layer: AbsorbingLayer, count: int) -> np.ndarray:
    """Return positions along an axis, m, with those in a layer of `count` elements stretched outwards."""
    moved = positions.copy()
    for side, edge, sign in zip(("min", "max"), layer.domain[axis], (-1.0, 1.0), strict=True):
        thickness = layer.thickness[f"{'xyz'[axis]}_{side}"]
        if thickness:
            scale = thickness / (math.log(GROWTH) * count)
            beyond = sign * (moved - edge)
            outside = beyond > 0.0
            moved[outside] = edge + sign * scale * np.expm1(beyond[outside] / scale)
    return moved


def window_of_elements(simulation: Simulation, mesh: HexahedralMesh, parts: int) -> np.ndarray:
    """Return the part, of the given number of parts, in whose columns each element of a generated mesh is."""
    built = built_box(simulation)
    count = _layer_elements(simulation)
    x, y = (
        stretched(lines[:: built.plan.unit], axis, built.layer, count)
        for axis, lines in enumerate((built.plan.x, built.plan.y))
    )
    part = np.empty((len(y) - 1, len(x) - 1), np.int64)
    for number, window in enumerate(windows(simulation, built, parts)):
        part[window.first_y : window.end_y, window.first_x : window.end_x] = number
    centers = mesh.vertices[mesh.elements, :2].mean(axis=1)
    return part[np.searchsorted(y, centers[:, 1]) - 1, np.searchsorted(x, centers[:, 0]) - 1]


def _layer_elements(simulation: Simulation) -> int:
    """Return the elements across the absorbing layer: from the simulation file, or for a constant thickness."""
    solver, wanted = simulation.solver, simulation.boundaries.layer.elements
    if wanted is not None:
        return wanted
    points = solver.points_per_wavelength or solver.recommended_points
    if solver.spacing is not None and simulation.shortest_wavelength is not None:
        points = solver.degree * simulation.shortest_wavelength / solver.spacing
    first_elements = LAYER_WAVELENGTHS * points / solver.degree  # thickness over the size of the innermost element
    rate = math.log(GROWTH)
    return max(FEWEST_IN_LAYER, round(math.log1p(rate * first_elements) / rate))


def _layer(simulation: Simulation, deep: float, shallow: float) -> AbsorbingLayer:
    """Return the absorbing layer with its thickness beyond each face."""
    boundaries, domain = simulation.boundaries, simulation.domain
    count = _layer_elements(simulation) if boundaries.absorption == "layer" else 0
    thickness = {
        name: count * (deep if name == "z_min" else shallow) if kind == "absorbing" else 0.0
        for name, kind in boundaries.faces.items()
    }
    if domain.surface is not None:
        thickness["z_max"] = 0.0  # a layer above a topography is not supported
    return AbsorbingLayer((domain.x, domain.y, domain.z), thickness)


def _materials(simulation: Simulation, mesh: HexahedralMesh) -> ElementMaterials:
    properties = element_properties(simulation, mesh)
    if properties is not None:
        return materials_of(*properties)
    degree = simulation.solver.degree

    def positions(some: slice) -> np.ndarray:
        # A point on an interface belongs to its element: it is sampled slightly inside.
        nodes = mesh.element_nodes(some)
        places = gll_positions(nodes, degree)
        centre = nodes.mean(axis=1)[:, None, None, None]
        return places + 1e-6 * (centre - places)

    dtype = np.float32 if simulation.compute.precision == "single" else np.float64
    return sampled_materials(simulation.material.medium, positions, mesh.element_count, degree + 1, dtype)
