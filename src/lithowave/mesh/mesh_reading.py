"""Imported meshes of hexahedra: read, checked, with the faces of their boundaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.mesh_checks import MeshFaces, check_mesh, counted, place_text
from lithowave.mesh.numbering import FACES, identify
from lithowave.readers.hexahedral_mesh import MeshFile, read_mesh_file

# Corners this close to a plane of the bounding box, as a fraction of its longest side, are in the plane.
IN_PLANE = 1e-6


def read_hexahedral_mesh(path: str | Path, where: str = "mesh") -> HexahedralMesh:
    """Read a mesh with 8 or 27 nodes per element from a Gmsh (.msh), VTU or Exodus file, lengths in m.

    where : name of the mesh in the errors.

    Named volumes become materials and groups. Named surfaces become boundaries, and must cover the entire exterior.
    Without named surfaces, exterior faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get
    that name, and all others z_max.

    InputError: as `read_mesh_file` and `check_mesh`, with the path; a surface that is not on the exterior; a face in
    two surfaces; exterior faces in none.
    MissingPackageError: meshio is not installed, and the file is VTU.
    """
    path = Path(path)
    try:
        file = read_mesh_file(path)
        kept = np.zeros(len(file.positions), bool)
        kept[file.elements] = True
        places = np.where(kept, np.cumsum(kept) - 1, -1)  # -1: a node that belongs to no element
        nodes = places[file.elements]
        mesh = HexahedralMesh(
            file.positions[kept],
            np.ascontiguousarray(nodes[:, :8]),
            file.materials,
            nodes=nodes if nodes.shape[1] == 27 else None,
            ids=file.ids,
            groups=file.groups,
        )
        faces = check_mesh(mesh, where)
        mesh.boundaries.update(named_faces(mesh, faces, file, places) if file.surfaces else box_faces(mesh, faces))
    except InputError as error:
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def box_faces(mesh: HexahedralMesh, faces: MeshFaces) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, by the plane of the bounding box that contains them."""
    exterior = faces.exterior
    corners = mesh.vertices[np.take_along_axis(mesh.elements[exterior[:, 0]], FACES[exterior[:, 1]], axis=1)]
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    tolerance = IN_PLANE * (high - low).max()
    free = np.ones(len(exterior), bool)
    found = {}
    for name, axis, plane in (
        *(("x_min", 0, low[0]), ("x_max", 0, high[0]), ("y_min", 1, low[1])),
        *(("y_max", 1, high[1]), ("z_min", 2, low[2])),
    ):
        there = free & (np.abs(corners[:, :, axis] - plane) <= tolerance).all(axis=1)
        found[name] = exterior[there]
        free &= ~there
    found["z_max"] = exterior[free]
    return {name: some for name, some in found.items() if len(some)}


def named_faces(
    mesh: HexahedralMesh, faces: MeshFaces, file: MeshFile, places: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each surface of the file.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    exterior = faces.exterior
    corners = np.take_along_axis(mesh.elements[exterior[:, 0]], FACES[exterior[:, 1]], axis=1)
    names = list(file.surfaces)
    sizes = [len(file.surfaces[name]) for name in names]
    drawn = np.concatenate([file.surfaces[name] for name in names])
    numbers, count = identify(np.concatenate([corners, places[drawn]]) + 1)
    at = np.full(count, -1, np.int64)
    at[numbers[: len(exterior)]] = np.arange(len(exterior))
    matched = at[numbers[len(exterior) :]]
    surface = np.repeat(np.arange(len(names)), sizes)
    for number, name in enumerate(names):
        lost = (surface == number) & (matched < 0)
        if lost.any():
            raise stray_surface(mesh, name, lost, drawn, places, file.positions)
    of_face = np.full(len(exterior), -1, np.int64)
    for number, name in enumerate(names):
        mine = matched[surface == number]
        taken = mine[of_face[mine] >= 0]
        if len(taken):
            got = counted(len(taken), "face is", "faces are")
            got += f" in the surface groups '{names[of_face[taken[0]]]}' and '{name}'; the first is around "
            got += place_text(mesh.vertices[corners[taken[0]]].mean(axis=0))
            raise InputError("mesh", got, "a face may belong to one boundary only")
        of_face[mine] = number
    refuse_bare_faces(mesh, corners, np.flatnonzero(of_face < 0))
    return {name: exterior[of_face == number] for number, name in enumerate(names)}


def refuse_bare_faces(mesh: HexahedralMesh, corners: np.ndarray, bare: np.ndarray) -> None:
    """InputError: `bare` of the exterior faces, given by their corners (f, 4), are in no surface."""
    if len(bare):
        got = f"of {len(corners)} exterior faces {counted(len(bare), 'is', 'are')} in no surface group; the first is "
        got += f"around {place_text(mesh.vertices[corners[bare[0]]].mean(axis=0))}"
        hint = "Name the other surfaces, or none: the planes of the bounding box then define the boundaries"
        raise InputError("mesh", got, "surface groups must cover the entire exterior", hint)


def stray_surface(
    mesh: HexahedralMesh, name: str, lost: np.ndarray, drawn: np.ndarray, places: np.ndarray, positions: np.ndarray
) -> InputError:
    """Return the error for faces (`lost` of all `drawn`, by the nodes of the file) that are not on the exterior."""
    first = drawn[np.argmax(lost)]
    corners = places[first]
    near = mesh.elements[np.isin(mesh.elements, corners).sum(axis=1) == 4]
    inside = (np.sort(near[:, FACES], axis=2) == np.sort(corners)).all(axis=2).any()
    count = np.count_nonzero(lost)
    what = "inside the mesh, between two elements" if inside else "not on a face of an element"
    got = f"of the surface group '{name}' {counted(count, 'face is', 'faces are')} {what}; the first is around "
    got += place_text(positions[first].mean(axis=0))
    return InputError("mesh", got, "surface groups must consist of exterior faces")
