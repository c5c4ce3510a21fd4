"""Small meshes of boxes for tests: whole ones, and ones put together from elements anywhere."""

from __future__ import annotations

import numpy as np

from lithowave.mesh import CORNERS, HexahedralMesh


def cube(low: tuple[float, float, float] = (0, 0, 0), size: tuple[float, float, float] = (1, 1, 1)) -> np.ndarray:
    """Corners (8, 3) of one element."""
    return np.asarray(low, float) + CORNERS * np.asarray(size, float)


def cubes(shape: tuple[int, int, int], low: tuple[float, float, float] = (0, 0, 0)) -> list[np.ndarray]:
    """Unit cubes side by side, x fastest."""
    return [cube(np.add(low, place[::-1])) for place in np.ndindex(*shape[::-1])]


def merged(elements: list[np.ndarray]) -> HexahedralMesh:
    """A mesh of these elements; corners at the same place are one vertex."""
    positions = np.concatenate(elements)
    vertices, places = np.unique(positions.round(9), axis=0, return_inverse=True)
    return HexahedralMesh(vertices, places.reshape(-1, 8), np.zeros(len(elements), np.int64))


def apart(*meshes: HexahedralMesh) -> HexahedralMesh:
    """All of these meshes, of which no two share a vertex."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    return HexahedralMesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.elements + start for mesh, start in zip(meshes, starts, strict=False)]),
        np.concatenate([mesh.materials for mesh in meshes]),
    )


def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A smooth displacement, different along each axis."""
    return 0.06 * np.sin(1.1 * x + 0.7 * y), 0.05 * np.cos(0.9 * z + 0.4 * x), 0.04 * np.sin(1.3 * y - 0.6 * x)
