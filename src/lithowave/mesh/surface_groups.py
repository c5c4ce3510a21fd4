"""Boundaries of imported meshes: exterior faces by the surface groups of the file, or by the planes of the box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.mesh.box_planes import SIDES, Exterior
from lithowave.mesh.checks import Mesh, counted, element_text, face_corners, face_text, local_faces, place_text
from lithowave.mesh.numbering import identify
from lithowave.readers.meshes import IGNORED, SURFACE_NAMES, MeshFile, usual_name

_MISSPELLED = 0.8
"""Similarity of a name to a known one, from which on it is not regarded as another name."""


@dataclass(frozen=True, eq=False)
class SurfaceGroups:
    """Faces (k) that a file lists in groups, and the exterior faces (f) of its mesh.

    Attributes
    ----------
    mesh : the mesh. outer : its exterior faces (f, 2), element and local face.
    names : of the groups in the file.
    group : index (k,) of the group of each face.
    corners : vertices (k, 3 or 4) of each face; -1 for a node that belongs to no element.
    centers : position (k, 3), m, of each face.
    """

    mesh: Mesh
    outer: np.ndarray
    names: list[str]
    group: np.ndarray
    corners: np.ndarray
    centers: np.ndarray

    @classmethod
    def of(cls, mesh: Mesh, outer: np.ndarray, file: MeshFile, vertex: np.ndarray) -> SurfaceGroups:
        """Return the groups of a file. vertex : of the mesh for each node of the file, -1 for none."""
        names = list(file.surfaces)
        nodes = np.concatenate([file.surfaces[name] for name in names])
        group = np.repeat(np.arange(len(names)), [len(file.surfaces[name]) for name in names])
        return cls(mesh, outer, names, group, vertex[nodes], file.positions[nodes].mean(axis=1))

    @cached_property
    def exterior(self) -> Exterior:
        """The exterior faces by their positions."""
        return exterior_of(self.mesh, self.outer)

    @cached_property
    def matched(self) -> np.ndarray:
        """Index (k,) of the exterior face that each face is, -1 for none."""
        count = len(self.outer)
        # 0: a node that belongs to no element.
        numbers, total = identify(np.concatenate([face_corners(self.mesh, self.outer), self.corners]) + 1)
        place = np.full(total, -1, np.int64)
        place[numbers[:count]] = np.arange(count)
        return place[numbers[count:]]

    def between_elements(self, faces: np.ndarray) -> np.ndarray:
        """Return a mask of some faces (indices) that are between two elements."""
        every = self.mesh.elements[:, local_faces(self.mesh)].reshape(-1, self.corners.shape[1])
        numbers, total = identify(np.concatenate([every, self.corners[faces]]) + 1)
        return np.bincount(numbers[: len(every)], minlength=total)[numbers[len(every) :]] == 2

    def stray(self, name: str, faces: np.ndarray) -> InputError:
        """Return the error for faces (indices) of a group that are not exterior."""
        first = self.corners[faces[0]]
        near = np.flatnonzero(np.isin(self.mesh.elements, first).sum(axis=1) == len(first))
        sides = np.sort(self.mesh.elements[near][:, local_faces(self.mesh)], axis=2)
        holders = near[(sides == np.sort(first)).all(axis=2).any(axis=1)]
        what = "inside the mesh, between two elements" if len(holders) else "not on a face of an element"
        got = f"of the surface group '{name}' {counted(len(faces), 'face is', 'faces are')} {what}; the first is "
        got += f"around {place_text(self.centers[faces[0]])}"
        got += f", at {element_text(self.mesh, int(holders[0]))}" if len(holders) else ""
        return InputError("mesh", got, "surface groups must consist of exterior faces")

    def doubled(self, first: str, second: str, faces: np.ndarray) -> InputError:
        """Return the error for exterior faces (indices) in two groups."""
        got = f"{counted(len(faces), 'face is', 'faces are')} in the surface groups '{first}' and '{second}'; the "
        got += f"first is {face_text(self.mesh, self.outer[faces[0]])}"
        return InputError("mesh", got, "a face may belong to one boundary only")

    def bare(self, faces: np.ndarray) -> InputError:
        """Return the error for exterior faces (indices) in no group."""
        got = f"of {len(self.outer)} exterior faces {counted(len(faces), 'is', 'are')} in no surface group; the first "
        got += f"is {face_text(self.mesh, self.outer[faces[0]])}"
        hint = "Name the other surfaces, or none: the planes of the bounding box then define the boundaries"
        return InputError("mesh", got, "surface groups must cover the exterior, or leave entire sides of the box", hint)


def exterior_of(mesh: Mesh, faces: np.ndarray) -> Exterior:
    """Return exterior faces (f, 2) by their positions."""
    return Exterior(mesh.vertices[face_corners(mesh, faces)], mesh.vertices[mesh.elements[faces[:, 0]]].mean(axis=1))


def boundary_faces(groups: SurfaceGroups, given: Mapping[str, str], path: Path) -> dict[str, np.ndarray]:
    """Return the indices of the exterior faces of each boundary, a name in `SURFACE_NAMES`.

    A group is the boundary that ``given`` or its name states. Groups of other names are ignored inside the mesh; on the
    exterior, and for the sides of the box without a group, the planes of the bounding box define the boundaries, where
    z_max contains all other faces, which must point upwards. A warning states what was ignored or assumed.

    Parameters
    ----------
    given : boundary, or `IGNORED`, of groups by their names.

    Raises
    ------
    InputError : faces of a known boundary that are not exterior, faces in two groups, sides of which some faces are in
        a group and others in none, and groups of unknown names that are not on a plane of the box.
    """
    boundaries = {name: given.get(name) or usual_name(name) for name in groups.names}
    exterior = groups.exterior
    taken = np.full(len(exterior.corners), -1)
    notes: list[str] = []
    unknown: list[int] = []
    for number, (name, boundary) in enumerate(boundaries.items()):
        own = np.flatnonzero(groups.group == number)
        if boundary == IGNORED:
            continue
        if boundary is None:
            unknown.append(number)
            continue
        if len(lost := own[groups.matched[own] < 0]):
            raise groups.stray(name, lost)
        faces = groups.matched[own]
        if len(double := faces[taken[faces] >= 0]):
            raise groups.doubled(groups.names[taken[double[0]]], name, double)
        taken[faces] = number
    labels = [boundary or "" for boundary in boundaries.values()]
    for number in unknown:
        notes += _by_planes(groups, number, taken, labels)
    by_boundary: dict[str, list[np.ndarray]] = {}
    for number, boundary in enumerate(labels):
        if len(faces := np.flatnonzero(taken == number)):
            by_boundary.setdefault(boundary, []).append(faces)
    rest = np.flatnonzero(taken == -1)
    if len(rest):
        mixed = np.isin(exterior.planes, np.unique(exterior.planes[taken >= 0]))
        top = exterior.planes == SIDES.index("z_max")
        if len(refused := rest[(mixed | (top & ~exterior.upward))[rest]]):
            raise groups.bare(refused)
    planes = taken < 0  # of an unknown group, or of none
    for number in np.unique(exterior.planes[planes]).tolist():
        by_boundary.setdefault(SIDES[number], []).append(np.flatnonzero(planes & (exterior.planes == number)))
    if len(rest) and len(rest) < len(taken):
        sides = ", ".join(SIDES[number] for number in np.unique(exterior.planes[rest]).tolist())
        notes.append(f"{len(rest)} exterior faces are in no surface group, and are those of {sides}")
    if notes:
        issue_warning(f"{path}: {'; '.join(notes)}. solver.mesh.surfaces states it otherwise.")
    return {name: np.sort(np.concatenate(parts)) for name, parts in by_boundary.items()}


_OF_UNKNOWN = -2


def _by_planes(groups: SurfaceGroups, number: int, taken: np.ndarray, labels: list[str]) -> list[str]:
    """Mark the exterior faces of a group of an unknown name, and return notes; see `boundary_faces`."""
    name, exterior = groups.names[number], groups.exterior
    own = np.flatnonzero(groups.group == number)
    lost = own[groups.matched[own] < 0]
    inner = groups.between_elements(lost) if len(lost) else np.zeros(0, bool)
    if not inner.all():
        raise groups.stray(name, lost[~inner])
    faces = groups.matched[own[groups.matched[own] >= 0]]
    if not len(faces):
        return [f"the surface group '{name}' is inside the mesh, between elements ({len(own)} faces), and is ignored"]
    plain = name.lower().replace(" ", "_").replace("-", "_")
    close = get_close_matches(plain, SURFACE_NAMES, n=1, cutoff=_MISSPELLED)
    oblique = (exterior.planes[faces] == SIDES.index("z_max")) & ~exterior.upward[faces]
    if close or oblique.any():
        why = "" if close else ", and faces on no plane of the bounding box"
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise InputError(
            "mesh",
            f"the surface group '{name}' has a name that is not known{why}",
            f"allowed: {', '.join(SURFACE_NAMES)}, and usual names such as xmin or free_surface",
            f"{hint}State it: solver.mesh: {{file: ..., surfaces: {{'{name}': absorbing}}}}, or free, ..., {IGNORED}",
        )
    faces = faces[taken[faces] == -1]
    taken[faces] = _OF_UNKNOWN
    sides = ", ".join(SIDES[plane] for plane in np.unique(exterior.planes[faces]).tolist())
    notes = []
    if sides:
        notes.append(f"the name of the surface group '{name}' states no boundary; by its position it is {sides}")
    if len(lost):
        notes.append(f"{len(lost)} faces of the surface group '{name}' are inside the mesh, and are ignored")
    return notes


def check_given(given: Mapping[str, str], names: list[str], where: str) -> None:
    """InputError: ``given`` names a surface group that the file does not have."""
    for name in given:
        if name not in names:
            there = ", ".join(names) or "none"
            got = "the mesh has no such surface group"
            raise InputError(f"{where}.surfaces.{name}", got, f"surface groups of the mesh: {there}")
