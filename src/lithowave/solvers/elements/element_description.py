"""Element sizes, kinds of faces and materials of groups from the simulation file, for all element methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

SLABS = 12  # of depth; the slowest wave in each determines the element size of a medium that varies
KINDS = ("free", "absorbing", "rigid")
SIDE_NAMES = {"top": "z_max", "bottom": "z_min"}


def element_layers(simulation: Simulation) -> tuple[list[float], list[float]]:
    """Return tops of the layers of elements from above, m, and the slowest wave velocity in each, m/s."""
    domain, material = simulation.domain, simulation.material
    low, high = domain.z
    if material.kind == "homogeneous":
        return [high], [material.homogeneous.speed_range[0]]
    if material.kind == "layers":
        inside = [one for one in material.layers if one.top > low]
        tops = [one.top for one in inside]
        # A layer that ends above the surface everywhere has no elements.
        ground = high if domain.surface is None else domain.surface.high
        first = max((n for n, top in enumerate(tops) if top >= ground), default=0)
        if domain.surface is not None:
            _refuse_outcrops(tops, first, domain.surface.low)
        return [ground, *tops[first + 1 :]], [one.speed_range[0] for one in inside[first:]]
    return _slabs(simulation)


def _refuse_outcrops(tops: list[float], first: int, lowest: float) -> None:
    """Require that layers below index `first` are below the lowest point of the topography."""
    for number in range(first + 1, len(tops)):
        if tops[number] >= lowest:
            raise InputError(
                f"material.layers[{number}].top",
                f"{tops[number]:zg} m crosses the topography, which has a minimum of {lowest:zg} m",
                "allowed: layer tops below the surface everywhere, since element faces follow them",
                "use material.file for a model of any shape",
            )


def _slabs(simulation: Simulation) -> tuple[list[float], list[float]]:
    """Return equal slabs of the depth, with neighbors of similar wave velocity merged."""
    domain = simulation.domain
    low, high = domain.z
    start = high if domain.surface is None else domain.surface.low
    edges = np.linspace(start, low, SLABS + 1)
    edges[0] = high
    tops, speeds = [], []
    for above, below in zip(edges[:-1], edges[1:], strict=True):
        box = domain.model_copy(update={"z": (float(below), float(above))})
        speed = simulation.material.extremes(box)["slowest"]
        if speeds and speed < 1.9 * speeds[-1]:
            speeds[-1] = min(speeds[-1], speed)
        else:
            tops.append(float(above))
            speeds.append(speed)
    return tops, speeds


def element_size(simulation: Simulation, speed: float) -> float:
    """Return the element size, m, required by the simulation file if the slowest wave has this velocity, m/s."""
    solver = simulation.solver
    if solver.spacing is not None:
        return solver.spacing
    points = solver.points_per_wavelength or solver.recommended_points
    return solver.steps_per_spacing * speed / solver.max_frequency / points


def kinds_of_faces(simulation: Simulation, mesh: Any) -> dict[str, np.ndarray]:
    """Return the outer faces by kind."""
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for name, faces in mesh.boundaries.items():
        found[kind_of_boundary(simulation, name)].append(faces)
    return {kind: np.concatenate([np.zeros((0, 2), np.int64), *parts]) for kind, parts in found.items()}


def kind_of_boundary(simulation: Simulation, name: str) -> str:
    """Return the boundary condition of a boundary of a mesh: the name of a face, top, bottom, sides, or a condition."""
    if name in KINDS:
        return name
    return simulation.boundaries.sides if name == "sides" else simulation.boundaries.face(SIDE_NAMES.get(name, name))


def element_properties(simulation: Simulation, mesh: Any) -> tuple[list[Any], np.ndarray] | None:
    """Return the materials of the simulation file and the index (elements,) of that of each element; None for a medium
    that is sampled at points.

    InputError: anisotropic layers cross an imported mesh, or groups of the mesh and of the simulation file differ.
    """
    material = simulation.material
    if material.kind == "homogeneous":
        return [material.homogeneous], np.zeros(mesh.element_count, np.int64)
    if material.kind == "groups":
        return group_materials(simulation, mesh)
    if material.kind == "layers" and simulation.solver.mesh is None:
        return list(material.layers), mesh.materials
    if any(getattr(layer, "is_anisotropic", False) for layer in material.layers or []):
        raise InputError(
            "material.layers", "anisotropic layers are not supported in an imported mesh",
            "set material.groups, with the group names of the mesh",
        )  # fmt: skip
    return None


def cell_layers(simulation: Simulation) -> tuple[list[float], list[float]]:
    """Return tops of the layers of cells from above, m, and the edge of the cells in each, m."""
    tops, slowest = element_layers(simulation)
    return tops, [element_size(simulation, speed) for speed in slowest]


def with_layer_indices(simulation: Simulation, mesh: Any, tops: list[float]) -> Any:
    """Return a mesh whose materials are those of the layers of the simulation file instead of those of the cells.

    tops : tops of the layers of cells, m.
    """
    if simulation.material.kind != "layers":
        return mesh
    lower = np.array([layer.top for layer in simulation.material.layers[1:]])
    below = np.array([int((lower >= top - 1e-9).sum()) for top in tops])
    return replace(mesh, materials=below[mesh.materials])


def raised_to(height: Callable, top: float, below: float) -> Callable:
    """Return the displacement of points (x, y, z) that maps a box to the topography.

    Points at z = `top` are moved to height(x, y), those at z = `below` and lower are not moved.
    """

    def lifted(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, np.ndarray]:
        part = np.clip((z - below) / (top - below), 0.0, 1.0)
        return 0.0, 0.0, part * (height(x, y) - top)

    return lifted


def group_materials(simulation: Simulation, mesh: Any) -> tuple[list[Any], np.ndarray]:
    """Return the materials of the groups, and the index of the material of each element.

    InputError: groups of the mesh and of the simulation file differ.
    """
    groups = simulation.material.groups
    wanted = [mesh.groups[number] for number in np.unique(mesh.materials)]
    missing = [name for name in wanted if name not in groups]
    if missing:
        raise InputError(
            "material.groups", f"there is no material for the group {missing[0]!r} of {simulation.solver.mesh}",
            f"groups of the mesh: {', '.join(wanted)}", f"groups of material.groups: {', '.join(groups)}",
        )  # fmt: skip
    unknown = [name for name in groups if name not in wanted]
    if unknown:
        raise InputError(
            f"material.groups.{unknown[0]}", f"the mesh {simulation.solver.mesh} has no such group",
            f"groups of the mesh: {', '.join(wanted)}",
        )  # fmt: skip
    names = list(groups)
    number = np.array([names.index(name) if name in groups else 0 for name in mesh.groups])
    return [groups[name] for name in names], number[mesh.materials]
