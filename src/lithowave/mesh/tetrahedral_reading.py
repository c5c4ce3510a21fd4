"""Imported meshes of tetrahedra: read, checked, with the faces of their boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.mesh_checks import ExteriorSurface, counted, element_text, place_text
from lithowave.mesh.surface_groups import Exterior, SurfaceGroups, bare_faces, boundary_faces, check_given
from lithowave.mesh.tetrahedra import FACES, TetrahedralMesh, face_vertices, plane_boundaries, rising, triple_keys
from lithowave.mesh.tetrahedral_checks import check_holes, check_tetrahedra
from lithowave.readers.hexahedral_mesh import MeshFile
from lithowave.readers.tetrahedral_mesh import read_tetrahedra_file


def read_tetrahedral_mesh(
    path: str | Path, where: str = "mesh", given: Mapping[str, str] | None = None
) -> TetrahedralMesh:
    """Read a mesh from a Gmsh (.msh), GAMBIT (.neu) or VTU file, lengths in m; elements are in the order of the file.

    where : name of the mesh in the errors. given : boundaries of surface groups, see `boundary_faces`.

    Named volumes become materials and groups, and named surfaces become boundaries. Without named surfaces, exterior
    faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get that name, and all others z_max;
    holes are then not allowed.

    InputError: as `read_tetrahedra_file`, `check_tetrahedra` and `boundary_faces`, with the path; ``given`` names a
    surface that the file does not have.
    MissingPackageError: meshio is not installed, and the file is VTU.
    """
    path = Path(path)
    try:
        file = read_tetrahedra_file(path)
        kept = np.zeros(len(file.positions), bool)
        kept[file.elements] = True
        places = np.where(kept, np.cumsum(kept) - 1, -1)  # -1: a node that belongs to no element
        ordered = places[file.elements]
        positions = np.ascontiguousarray(file.positions[kept], float)
        mesh = TetrahedralMesh(positions, rising(ordered), file.materials, {}, file.ids, file.groups)
        surface = check_tetrahedra(mesh, where, ordered)
        check_given(given or {}, list(file.surfaces), where)
        if file.surfaces:
            mesh.boundaries.update(named_boundaries(mesh, surface, file, places, given or {}))
        else:
            check_holes(mesh, surface, where)
            mesh.boundaries.update(plane_boundaries(mesh, surface.faces))
    except InputError as error:
        if error.where.startswith(f"{where}."):
            raise
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def named_boundaries(
    mesh: TetrahedralMesh, surface: ExteriorSurface, file: MeshFile, places: np.ndarray, given: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each boundary; see `boundary_faces`.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    names = list(file.surfaces)
    drawn = np.concatenate([file.surfaces[name] for name in names])
    group = np.repeat(np.arange(len(names)), [len(file.surfaces[name]) for name in names])
    outer = surface.faces
    triples = np.concatenate([surface.corners, np.sort(places[drawn], axis=1)])
    keys = triple_keys(triples + 1)  # 0: a node that belongs to no element
    order = np.argsort(keys[: len(outer)])
    known, wanted = keys[order], keys[len(outer) :]
    spots = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    matched = np.where(known[spots] == wanted, order[spots], -1)

    def between(some: np.ndarray) -> np.ndarray:
        every = np.sort(mesh.elements[:, FACES].reshape(-1, 3), axis=1)
        found = triple_keys(np.concatenate([every, np.sort(places[drawn[some]], axis=1)]) + 1)
        return np.isin(found[len(every) :], found[: len(every)])

    def stray(name: str, some: np.ndarray) -> InputError:
        return stray_surface(mesh, name, len(some), drawn[some[0]], file, places)

    def doubled(first: str, second: str, some: np.ndarray) -> InputError:
        got = f"{counted(len(some), 'face is', 'faces are')} in the surface groups '{first}' and '{second}'; the first "
        got += f"is {face_text(mesh, outer[some[0]])}"
        return InputError("mesh", got, "a face may belong to one boundary only")

    groups = SurfaceGroups(
        names, group, matched, between, stray, doubled,
        lambda some: bare_faces(len(outer), len(some), face_text(mesh, outer[some[0]])),
    )  # fmt: skip
    centers = mesh.vertices[mesh.elements[outer[:, 0]]].mean(axis=1)
    exterior = Exterior(mesh.vertices[face_vertices(mesh, outer)], centers)
    return {name: outer[some] for name, some in boundary_faces(exterior, groups, given, file.path).items()}


def face_text(mesh: TetrahedralMesh, face: np.ndarray) -> str:
    """Format a face by its element and its center."""
    element, local = face.tolist()
    center = mesh.vertices[mesh.elements[element, FACES[local]]].mean(axis=0)
    return f"that of element {mesh.element_id(element)} around {place_text(center)}"


def stray_surface(
    mesh: TetrahedralMesh, name: str, count: int, nodes: np.ndarray, file: MeshFile, places: np.ndarray
) -> InputError:
    """Return the error for faces of a surface, the first with `nodes` (3,) of the file, that are not exterior."""
    holders = np.flatnonzero(np.isin(mesh.elements, places[nodes]).sum(axis=1) == 3)
    what = "inside the mesh, between two elements" if len(holders) else "not on a face of an element"
    got = f"of the surface group '{name}' {counted(count, 'face is', 'faces are')} {what}; the first is around "
    got += place_text(file.positions[nodes].mean(axis=0))
    got += f", at {element_text(mesh, int(holders[0]))}" if len(holders) else ""
    return InputError("mesh", got, "surface groups must consist of exterior faces")
