"""Boundaries of imported meshes: exterior faces by the surface groups of the file, or by the planes of the box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, issue_warning
from lithowave.readers.meshes import IGNORED, SURFACE_NAMES, usual_name

PLANES = SURFACE_NAMES[:6]

IN_PLANE = 1e-6
"""Corners this close to a plane of the bounding box, as a fraction of its longest side, are in the plane."""

_MISSPELLED = 0.8
"""Similarity of a name to a known one, from which on it is not regarded as another name."""


@dataclass(frozen=True, eq=False)
class Exterior:
    """Exterior faces of a mesh: positions (f, corners, 3) of their corners, and centers (f, 3) of their elements."""

    corners: np.ndarray
    centers: np.ndarray

    @cached_property
    def planes(self) -> np.ndarray:
        """Index (f,) in `PLANES` of the plane of the bounding box that contains a face; z_max for all others."""
        found = np.full(len(self.corners), PLANES.index("z_max"))
        if not len(found):
            return found
        low, high = self.corners.min(axis=(0, 1)), self.corners.max(axis=(0, 1))
        tolerance = IN_PLANE * (high - low).max()
        # Backwards, so that x_min prevails for a face in two planes.
        for number in reversed(range(len(PLANES) - 1)):
            axis, plane = number // 2, (low, high)[number % 2][number // 2]
            found[(np.abs(self.corners[:, :, axis] - plane) <= tolerance).all(axis=1)] = number
        return found

    @cached_property
    def upward(self) -> np.ndarray:
        """True (f,) for faces whose outward normal points upwards."""
        normals = np.cross(self.corners[:, 1] - self.corners[:, 0], self.corners[:, 2] - self.corners[:, 0])
        outward = np.einsum("ij,ij->i", normals, self.corners.mean(axis=1) - self.centers)
        return normals[:, 2] * outward > 0.0

    @property
    def by_plane(self) -> dict[str, np.ndarray]:
        """Indices of the faces of each plane that has any."""
        faces = {name: np.flatnonzero(self.planes == number) for number, name in enumerate(PLANES)}
        return {name: some for name, some in faces.items() if len(some)}


@dataclass(frozen=True, eq=False)
class SurfaceGroups:
    """Faces (k) that a file lists in groups.

    Attributes
    ----------
    names : of the groups in the file.
    group : index (k,) of the group of each face.
    matched : index (k,) of the exterior face that it is, -1 for none.
    between : function that returns True for those of some faces, by their indices, that are between two elements.
    stray : function of a name and indices of faces that returns the error for faces that are not exterior.
    doubled : function of two names and indices of exterior faces that returns the error for faces in both groups.
    bare : function of indices of exterior faces that returns the error for faces in no group.
    """

    names: list[str]
    group: np.ndarray
    matched: np.ndarray
    between: Callable[[np.ndarray], np.ndarray]
    stray: Callable[[str, np.ndarray], InputError]
    doubled: Callable[[str, str, np.ndarray], InputError]
    bare: Callable[[np.ndarray], InputError]


def boundary_faces(
    exterior: Exterior, groups: SurfaceGroups, given: Mapping[str, str], path: Path
) -> dict[str, np.ndarray]:
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
        notes += _by_planes(exterior, groups, number, taken, labels)
    found: dict[str, list[np.ndarray]] = {}
    for number, boundary in enumerate(labels):
        if len(faces := np.flatnonzero(taken == number)):
            found.setdefault(boundary, []).append(faces)
    rest = np.flatnonzero(taken == -1)
    if len(rest):
        mixed = np.isin(exterior.planes, np.unique(exterior.planes[taken >= 0]))
        top = exterior.planes == PLANES.index("z_max")
        if len(refused := rest[(mixed | (top & ~exterior.upward))[rest]]):
            raise groups.bare(refused)
    planes = taken < 0  # of an unknown group, or of none
    for number in np.unique(exterior.planes[planes]).tolist():
        found.setdefault(PLANES[number], []).append(np.flatnonzero(planes & (exterior.planes == number)))
    if len(rest) and len(rest) < len(taken):
        sides = ", ".join(PLANES[number] for number in np.unique(exterior.planes[rest]).tolist())
        notes.append(f"{len(rest)} exterior faces are in no surface group, and are those of {sides}")
    if notes:
        issue_warning(f"{path}: {'; '.join(notes)}. solver.mesh.surfaces states it otherwise.")
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


_OF_UNKNOWN = -2


def _by_planes(
    exterior: Exterior, groups: SurfaceGroups, number: int, taken: np.ndarray, labels: list[str]
) -> list[str]:
    """Mark the exterior faces of a group of an unknown name, and return notes; see `boundary_faces`."""
    name = groups.names[number]
    own = np.flatnonzero(groups.group == number)
    lost = own[groups.matched[own] < 0]
    inner = groups.between(lost) if len(lost) else np.zeros(0, bool)
    if not inner.all():
        raise groups.stray(name, lost[~inner])
    faces = groups.matched[own[groups.matched[own] >= 0]]
    if not len(faces):
        return [f"the surface group '{name}' is inside the mesh, between elements ({len(own)} faces), and is ignored"]
    plain = name.lower().replace(" ", "_").replace("-", "_")
    close = get_close_matches(plain, SURFACE_NAMES, n=1, cutoff=_MISSPELLED)
    oblique = (exterior.planes[faces] == PLANES.index("z_max")) & ~exterior.upward[faces]
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
    sides = ", ".join(PLANES[plane] for plane in np.unique(exterior.planes[faces]).tolist())
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


def bare_faces(total: int, count: int, first: str) -> InputError:
    """Return the error for exterior faces in no group; ``first`` describes one of them."""
    got = f"of {total} exterior faces {count} {'is' if count == 1 else 'are'} in no surface group; the first is {first}"
    hint = "Name the other surfaces, or none: the planes of the bounding box then define the boundaries"
    return InputError("mesh", got, "surface groups must cover the exterior, or leave entire sides of the box", hint)
