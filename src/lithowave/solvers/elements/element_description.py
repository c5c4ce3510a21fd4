"""Element sizes, kinds of faces and materials of groups from the simulation file, for all element methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.description.boundaries import CONDITIONS
from lithowave.errors import InputError
from lithowave.sphere import RADIUS

if TYPE_CHECKING:
    from lithowave.description.chunk import Chunk
    from lithowave.description.simulation import Simulation

SAME_LEVEL = 1e-3  # m, between levels that are equal


def element_size(simulation: Simulation, speed: float) -> float:
    """Return the element size, m, required by the simulation file if the slowest wave has this velocity, m/s."""
    solver = simulation.solver
    if solver.spacing is not None:
        return solver.spacing
    points = solver.points_per_wavelength or solver.recommended_points
    return solver.steps_per_spacing * speed / solver.max_frequency / points


def column_widths(tops: Sequence[float], sizes: Sequence[float], chunk: Chunk | None) -> list[float]:
    """Return the largest width, m, at the surface, of the columns of each layer of cells. tops : z, m. sizes : m.

    In a chunk, columns become narrower with depth; the simulation file may contain their number and the depths at which
    they become twice as wide.
    """
    if chunk is None:
        return list(sizes)
    if chunk.elements is None:
        return [size * RADIUS / (RADIUS + top) for size, top in zip(sizes, tops, strict=True)]
    width = max((end - start) / n for (start, end), n in zip(chunk.bounds.values(), chunk.elements, strict=False))
    ends = np.array(chunk.doublings or ())
    return [width * 2 ** int((ends <= SAME_LEVEL - top).sum()) for top in tops]


def kinds_of_faces(simulation: Simulation, mesh: Any) -> dict[str, np.ndarray]:
    """Return the outer faces by kind."""
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in CONDITIONS}
    for name, faces in mesh.boundaries.items():
        found[simulation.boundaries.kind_of(name)].append(faces)
    return {kind: np.concatenate([np.zeros((0, 2), np.int64), *parts]) for kind, parts in found.items()}


def group_materials(simulation: Simulation, mesh: Any) -> tuple[list[Any], np.ndarray]:
    """Return the materials of the groups, and the index of the material of each element.

    InputError: groups of the mesh and of the simulation file differ, or the mesh has none.
    """
    groups = simulation.material.groups
    if not mesh.groups:
        raise InputError(
            "material.groups", f"the mesh {simulation.solver.mesh.file} has no groups of elements",
            f"material.groups has: {', '.join(groups)}",
            "define a physical volume (Gmsh), block (Exodus) or cell array (VTU) for each material, or use "
            "material.homogeneous, layers or file",
        )  # fmt: skip
    wanted = [mesh.groups[number] for number in np.unique(mesh.materials)]
    missing = [name for name in wanted if name not in groups]
    if missing:
        raise InputError(
            "material.groups", f"there is no material for the group {missing[0]!r} of {simulation.solver.mesh.file}",
            f"groups of the mesh: {', '.join(wanted)}", f"groups of material.groups: {', '.join(groups)}",
        )  # fmt: skip
    unknown = [name for name in groups if name not in wanted]
    if unknown:
        raise InputError(
            f"material.groups.{unknown[0]}", f"the mesh {simulation.solver.mesh.file} has no such group",
            f"groups of the mesh: {', '.join(wanted)}",
        )  # fmt: skip
    names = list(groups)
    number = np.array([names.index(name) if name in groups else 0 for name in mesh.groups])
    return [groups[name] for name in names], number[mesh.materials]


def negative_moduli(element: int) -> InputError:
    """Return the refusal of a medium whose moduli attenuation makes negative. element : as in messages."""
    return InputError(
        "material", f"attenuation makes the relaxed moduli of element {element} negative",
        "quality factors must be larger in a medium with strong anisotropy",
        "increase qp and qs, or reduce the anisotropy",
    )  # fmt: skip
