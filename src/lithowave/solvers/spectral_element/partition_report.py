"""What each rank of a run would have to do, told without a run: for `lithowave check --ranks N`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.mesh_reading import read_hexahedral_mesh
from lithowave.mesh.shared_points import CORNERS_OF, boundary_entities, matches
from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.elements.element_description import kinds_of_faces
from lithowave.solvers.spectral_element.element_statistics import map_coefficients
from lithowave.solvers.spectral_element.elements import is_affine
from lithowave.solvers.spectral_element.mesh_partition import DAMPED_POINT, element_parts
from lithowave.solvers.spectral_element.meshing import AbsorbingLayer, built_box, built_mesh, windows

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

# Time of a trilinear and of a triquadratic element, with moduli at each point, over that of a parallelepiped of one
# material, in single precision at degree 4.
CURVED_WORK = {"cpu": {8: 1.0, 27: 1.2}, "cuda": {8: 1.02, 27: 1.08}}
PART = 20_000


def partition_report(simulation: Simulation, ranks_count: int, backend_name: str) -> list[RankWorkload]:
    """The share of each rank. Built meshes are built part by part: the whole is never there.

    work : in updates of an undeformed element without damping.

    InputError: the mesh cannot be cut into so many parts.
    """
    keys, units, work = [], [], []
    for mesh, layer in _parts(simulation, ranks_count):
        keys.append(boundary_entities(mesh).keys)
        units.append(mesh.element_count)
        work.append(_work(simulation, mesh, layer, backend_name))
    degree = simulation.solver.degree
    points = np.array([1, degree - 1, (degree - 1) ** 2])  # inside a corner, an edge and a face
    shares = []
    for own, (row, other), count, done in zip(keys, matches(keys), units, work, strict=True):
        sizes = (own[row] >= 0).sum(axis=1)
        sent = 3 * int(points[np.searchsorted(CORNERS_OF, sizes)].sum())
        shares.append(RankWorkload(count, done, len(np.unique(other)), sent))
    return shares


def _parts(simulation: Simulation, count: int) -> Iterator[tuple[HexahedralMesh, AbsorbingLayer | None]]:
    if simulation.solver.mesh is None:
        built = built_box(simulation)
        for window in windows(simulation, built, count):
            yield built_mesh(simulation, built, window)
        return
    mesh = read_hexahedral_mesh(simulation.solver.mesh, "solver.mesh")
    absorbing = kinds_of_faces(simulation, mesh)["absorbing"]
    part = element_parts(mesh, absorbing, count, simulation.solver.degree)
    for number in range(count):
        yield mesh.part(np.flatnonzero(part == number)), None


def _work(simulation: Simulation, mesh: HexahedralMesh, layer: AbsorbingLayer | None, backend_name: str) -> float:
    """Of one part: its elements by the kind of their maps, and its damped points."""
    curved, degree = CURVED_WORK[backend_name][mesh.node_indices.shape[1]], simulation.solver.degree
    work = 0.0
    for first in range(0, mesh.element_count, PART):
        affine = is_affine(map_coefficients(mesh.element_nodes(slice(first, first + PART))))
        work += float(np.where(affine, 1.0, curved).sum())
    damped = (degree + 1) ** 2 * len(kinds_of_faces(simulation, mesh)["absorbing"])
    if layer is not None and any(layer.thickness.values()):
        centres = mesh.vertices[mesh.elements].mean(axis=1)
        damped += degree**3 * int((layer.depth(centres)[0] > 0).sum())
    return work + damped * DAMPED_POINT
