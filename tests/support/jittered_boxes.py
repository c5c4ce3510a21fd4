"""Tetrahedral meshes for tests: vertices moved at random, and periodic boxes without boundaries."""

from __future__ import annotations

import numpy as np

from lithowave.mesh import (
    CORNERS,
    EDGES,
    TetrahedralMesh,
    cornered_elements,
    exterior_triangles,
    face_vertices,
    make_mesh,
    moved,
)


def jittered(mesh: TetrahedralMesh, amount: float, seed: int = 0) -> TetrahedralMesh:
    """Return the mesh with its inner vertices moved at random, for tests on unstructured meshes.

    amount : largest move along each axis, as a fraction of the vertex's shortest edge.

    Vertices of exterior faces and of faces between two materials are fixed. Periodic images of a vertex move with it.

    InputError: an element has no volume or is inverted: the amount is too large.
    """
    count = len(mesh.vertices)
    same = np.arange(count) if mesh.same is None else mesh.same
    shortest = np.full(count, np.inf)
    for low, high in EDGES:
        low, high = mesh.elements[:, low], mesh.elements[:, high]
        length = np.linalg.norm(mesh.vertices[high] - mesh.vertices[low], axis=1)
        np.minimum.at(shortest, same[low], length)
        np.minimum.at(shortest, same[high], length)
    shortest[np.isinf(shortest)] = 0
    shortest[same[fixed_vertices(mesh)]] = 0
    moves = np.random.default_rng(seed).uniform(-amount, amount, (count, 3)) * shortest[:, None]
    return moved(mesh, mesh.vertices + moves[same])


def fixed_vertices(mesh: TetrahedralMesh) -> np.ndarray:
    """Return the vertices of exterior faces and of faces between two materials, possibly repeated."""
    neighbors = mesh.neighbors
    between = (neighbors >= 0) & (mesh.materials[neighbors // 4] != mesh.materials[:, None])
    return face_vertices(mesh, np.concatenate([exterior_triangles(neighbors), np.argwhere(between)])).ravel()


def periodic_box(
    counts: tuple[int, int, int],
    lengths: tuple[float, float, float] = (1.0, 1.0, 1.0),
    jitter: float = 0.0,
    seed: int = 0,
    cut: str = "five",
) -> TetrahedralMesh:
    """Return a periodic box from (0, 0, 0) to `lengths`, m, without exterior faces.

    counts : cubes along each axis: even numbers from 4, or 3 or more for the cut 'six'.
    jitter, seed : as in `jittered`.

    ValueError: the counts are not possible, or the cut is another one.
    """
    if cut not in ("five", "six"):
        raise ValueError(f"cut: {cut!r}; allowed for a periodic box: 'five', 'six'")
    least = 4 if cut == "five" else 3  # with fewer, different faces have the same vertices
    if min(counts) < least or (cut == "five" and any(count % 2 for count in counts)):
        allowed = "even numbers from 4" if cut == "five" else "3 or more"
        raise ValueError(f"counts: {tuple(counts)}; allowed for the cut '{cut}': {allowed}")
    shape = [count + 1 for count in counts]
    places = np.indices(shape).reshape(3, -1)
    vertices = (places * (np.array(lengths) / counts)[:, None]).T
    same = np.ravel_multi_index([place % count for place, count in zip(places, counts, strict=True)], shape)
    lowest = np.indices(counts).reshape(3, -1).T
    corners = np.ravel_multi_index(np.moveaxis(lowest[:, None] + CORNERS, 2, 0), shape)
    rank = np.arange(len(vertices))
    if cut == "five":
        rank += len(vertices) * (places.sum(axis=0) % 2)
    elements, _ = cornered_elements(corners, rank)
    mesh = make_mesh(vertices, elements, same=same)
    return jittered(mesh, jitter, seed) if jitter else mesh
