"""Imported meshes of hexahedra: read, checked, with the faces of their boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.mesh_checks import MeshFaces, check_mesh, counted, place_text
from lithowave.mesh.numbering import FACES, identify
from lithowave.mesh.surface_groups import Exterior, SurfaceGroups, bare_faces, boundary_faces, check_given
from lithowave.readers.hexahedral_mesh import MeshFile, read_mesh_file


def read_hexahedral_mesh(
    path: str | Path, where: str = "mesh", given: Mapping[str, str] | None = None
) -> HexahedralMesh:
    """Read a mesh with 8 or 27 nodes per element from a Gmsh (.msh), VTU or Exodus file, lengths in m.

    where : name of the mesh in the errors. given : boundaries of surface groups, see `boundary_faces`.

    Named volumes become materials and groups, and named surfaces become boundaries. Without named surfaces, exterior
    faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get that name, and all others z_max.

    InputError: as `read_mesh_file`, `check_mesh` and `boundary_faces`, with the path; ``given`` names a surface that
    the file does not have.
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
        check_given(given or {}, list(file.surfaces), where)
        mesh.boundaries.update(named_faces(mesh, faces, file, places, given or {}))
    except InputError as error:
        if error.where.startswith(f"{where}."):
            raise
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def named_faces(
    mesh: HexahedralMesh, faces: MeshFaces, file: MeshFile, places: np.ndarray, given: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each boundary; see `boundary_faces`.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    outer = faces.exterior
    corners = np.take_along_axis(mesh.elements[outer[:, 0]], FACES[outer[:, 1]], axis=1)
    exterior = Exterior(mesh.vertices[corners], mesh.vertices[mesh.elements[outer[:, 0]]].mean(axis=1))
    if not file.surfaces:
        return {name: outer[some] for name, some in exterior.by_plane.items()}
    names = list(file.surfaces)
    sizes = [len(file.surfaces[name]) for name in names]
    drawn = np.concatenate([file.surfaces[name] for name in names])
    numbers, count = identify(np.concatenate([corners, places[drawn]]) + 1)
    at = np.full(count, -1, np.int64)
    at[numbers[: len(outer)]] = np.arange(len(outer))

    def between(some: np.ndarray) -> np.ndarray:
        every = mesh.elements[:, FACES].reshape(-1, 4)
        found, total = identify(np.concatenate([every, places[drawn[some]]]) + 1)
        return np.bincount(found[: len(every)], minlength=total)[found[len(every) :]] == 2

    def doubled(first: str, second: str, some: np.ndarray) -> InputError:
        got = f"{counted(len(some), 'face is', 'faces are')} in the surface groups '{first}' and '{second}'; the "
        got += f"first is around {place_text(exterior.corners[some[0]].mean(axis=0))}"
        return InputError("mesh", got, "a face may belong to one boundary only")

    def stray(name: str, some: np.ndarray) -> InputError:
        return stray_surface(mesh, name, some, drawn, places, file.positions)

    def bare(some: np.ndarray) -> InputError:
        text = f"around {place_text(exterior.corners[some[0]].mean(axis=0))}"
        return bare_faces(len(outer), len(some), text)

    groups = SurfaceGroups(
        names, np.repeat(np.arange(len(names)), sizes), at[numbers[len(outer) :]], between, stray, doubled, bare
    )
    return {name: outer[some] for name, some in boundary_faces(exterior, groups, given, file.path).items()}


def stray_surface(
    mesh: HexahedralMesh, name: str, lost: np.ndarray, drawn: np.ndarray, places: np.ndarray, positions: np.ndarray
) -> InputError:
    """Return the error for faces (indices `lost` in all `drawn`, by the nodes of the file) that are not exterior."""
    first = drawn[lost[0]]
    corners = places[first]
    near = mesh.elements[np.isin(mesh.elements, corners).sum(axis=1) == 4]
    inside = (np.sort(near[:, FACES], axis=2) == np.sort(corners)).all(axis=2).any()
    count = len(lost)
    what = "inside the mesh, between two elements" if inside else "not on a face of an element"
    got = f"of the surface group '{name}' {counted(count, 'face is', 'faces are')} {what}; the first is around "
    got += place_text(positions[first].mean(axis=0))
    return InputError("mesh", got, "surface groups must consist of exterior faces")
