"""Imported meshes of tetrahedra: read, checked, with the faces of their boundaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.mesh_checks import ExteriorSurface, counted, element_text, place_text
from lithowave.mesh.tetrahedra import FACES, TetrahedralMesh, plane_boundaries, rising, triple_keys
from lithowave.mesh.tetrahedral_checks import check_holes, check_tetrahedra
from lithowave.readers.hexahedral_mesh import MeshFile
from lithowave.readers.tetrahedral_mesh import read_tetrahedra_file


def read_tetrahedral_mesh(path: str | Path, where: str = "mesh") -> TetrahedralMesh:
    """Read a mesh from a Gmsh (.msh), GAMBIT (.neu) or VTU file, lengths in m; elements are in the order of the file.

    where : name of the mesh in the errors.

    Named volumes become materials and groups. Named surfaces become boundaries, and must cover the entire exterior.
    Without named surfaces, exterior faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get
    that name, and all others z_max; holes are then not allowed.

    InputError: as `read_tetrahedra_file` and `check_tetrahedra`, with the path; a surface that is not on the exterior;
    a face in two surfaces; exterior faces in none.
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
        if file.surfaces:
            mesh.boundaries.update(named_boundaries(mesh, surface, file, places))
        else:
            check_holes(mesh, surface, where)
            mesh.boundaries.update(plane_boundaries(mesh, surface.faces))
    except InputError as error:
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def named_boundaries(
    mesh: TetrahedralMesh, surface: ExteriorSurface, file: MeshFile, places: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each surface of the file.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    names = list(file.surfaces)
    drawn = np.concatenate([file.surfaces[name] for name in names])
    group = np.repeat(np.arange(len(names)), [len(file.surfaces[name]) for name in names])
    exterior = surface.faces
    triples = np.concatenate([surface.corners, np.sort(places[drawn], axis=1)])
    keys = triple_keys(triples + 1)  # 0: a node that belongs to no element
    order = np.argsort(keys[: len(exterior)])
    known, wanted = keys[order], keys[len(exterior) :]
    spots = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    lost = known[spots] != wanted
    for number, name in enumerate(names):
        mine = lost & (group == number)
        if mine.any():
            raise stray_surface(mesh, name, np.count_nonzero(mine), drawn[np.argmax(mine)], file, places)
    faces = order[spots]
    of_face = np.full(len(exterior), -1, np.int64)
    for number, name in enumerate(names):
        mine = faces[group == number]
        taken = mine[of_face[mine] >= 0]
        if len(taken):
            got = f"{counted(len(taken), 'face is', 'faces are')} in the surface groups '{names[of_face[taken[0]]]}' "
            got += f"and '{name}'; the first is {face_text(mesh, exterior[taken[0]])}"
            raise InputError("mesh", got, "a face may belong to one boundary only")
        of_face[mine] = number
    bare = np.flatnonzero(of_face < 0)
    if len(bare):
        got = f"of {len(exterior)} exterior faces {counted(len(bare), 'is', 'are')} in no surface group; the first is "
        got += face_text(mesh, exterior[bare[0]])
        hint = "Name the other surfaces, or none: the planes of the bounding box then define the boundaries"
        raise InputError("mesh", got, "surface groups must cover the entire exterior", hint)
    return {name: exterior[of_face == number] for number, name in enumerate(names)}


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
