"""The mesh file of a simulation, in a domain: its ends and its free surface take the place of those of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lithowave.description.boundaries import Boundaries
from lithowave.description.domain import Domain
from lithowave.description.solver import Solver
from lithowave.readers.surface_names import SURFACE_NAMES

if TYPE_CHECKING:
    from lithowave.mesh.imported_meshes import MeshOfFile

SHAPES = {"spectral_element": "hexahedra", "discontinuous_galerkin": "tetrahedra"}
"""Shape of the elements of each method that imports meshes."""


def mesh_of(solver: Solver, boundaries: Boundaries) -> MeshOfFile | None:
    """Return the mesh file of a solver, which is not read yet; None without one, and for methods without meshes."""
    if solver.mesh is None or solver.method not in SHAPES:
        return None
    from lithowave.mesh.imported_meshes import MeshOfFile

    states = ((file, file.stat()) for file in solver.mesh.files)
    return MeshOfFile(
        SHAPES[solver.method],
        solver.mesh.file,
        tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in states),
        tuple(solver.mesh.surfaces.items()),
        frozenset(name for name in SURFACE_NAMES if boundaries.kind_of(name) == "free"),
    )


def with_mesh(domain: Domain, solver: Solver, boundaries: Boundaries) -> Domain:
    """Return a domain whose surface and ends are those of the mesh file of a solver; the same domain without one."""
    if domain.topography is not None or domain.chunk is not None:
        return domain  # together with a mesh they are refused
    return domain.with_mesh(mesh_of(solver, boundaries))
