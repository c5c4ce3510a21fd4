"""Layers of elements outside meshes: extruded sides, edges and corners, boundaries, and sides that are not plane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jittered_boxes import jittered
from lithowave import InputError
from lithowave.mesh import (
    HexahedralMesh,
    check_mesh,
    curved,
    extruded_hexahedra,
    extruded_tetrahedra,
    jacobians,
    lattice_slopes,
    layered_box,
    plane_sides,
    split_hexahedra,
)
from tetrahedra_plans import check_conforming

BELOW = ("x_min", "x_max", "y_min", "y_max", "z_min")
STEPS = np.array([1.0, 2.5])


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 0.3 * np.sin(x) * np.cos(0.7 * y)


def box(top: Any = 0.0) -> HexahedralMesh:
    return layered_box((0, 4), (0, 3), [top, -1.0, -2.0], [(1, 1), (1, 1)])


def absorbing(mesh: Any, names: tuple[str, ...] = BELOW) -> dict[str, bool]:
    return {name: name in names for name in mesh.boundaries}


def extruded(mesh: Any, names: tuple[str, ...] = BELOW) -> tuple[Any, np.ndarray]:
    sides = plane_sides(mesh, absorbing(mesh, names))
    assert sides.used == [name for name in BELOW if name in names]
    extrude = extruded_hexahedra if isinstance(mesh, HexahedralMesh) else extruded_tetrahedra
    return extrude(mesh, sides, dict.fromkeys(sides.used, STEPS))


@pytest.mark.parametrize("nodes", [8, 27])
def test_the_surface_continues_with_its_height_at_the_side(nodes: int) -> None:
    """Curved elements: their sides remain in their planes, and the layer has the curves of the sides."""
    mesh = box(hill)
    if nodes == 27:
        mesh = curved(box(), lambda x, y, z: (0.0, 0.0, (2.0 + z) / 2.0 * hill(x, y)))
    found, _ = extruded(mesh)
    volume = jacobians(np.ascontiguousarray(found.vertices.T), found.node_indices, lattice_slopes(3, nodes))
    assert volume.min() > 0
    assert check_mesh(found, "mesh").faces.shape[0] == sum(len(faces) for faces in found.boundaries.values())
    top = found.boundaries["z_max"]
    assert len(top) == 8 * 7
    positions = found.vertices[found.node_indices[top[:, 0]]].reshape(-1, 3)
    surface = hill(np.clip(positions[:, 0], 0, 4), np.clip(positions[:, 1], 0, 3))
    on_top = np.abs(positions[:, 2] - surface) < 1e-12
    assert on_top.reshape(len(top), nodes).sum(axis=1).min() >= (4 if nodes == 8 else 9)


@pytest.mark.parametrize("names", [BELOW, ("y_min", "z_min")])
def test_tetrahedra_are_conforming(names: tuple[str, ...]) -> None:
    """Prisms share faces with their neighbors for any order of the vertices, and fill the layer."""
    mesh = jittered(split_hexahedra(box(hill), "twelve"), 0.2)
    mesh = mesh.renamed(np.random.default_rng(2).permutation(len(mesh.vertices)))
    found, parent = extruded(mesh, names)
    check_conforming(found)
    np.testing.assert_array_equal(found.materials, mesh.materials[parent])
    solid, _ = extruded(box(hill), names)
    sizes = jacobians(np.ascontiguousarray(solid.vertices.T), solid.elements, lattice_slopes(3, 8))
    weights = np.array([1, 4, 1]) / 3.0  # Simpson's rule along each axis
    volume = np.einsum("k,j,i->kji", weights, weights, weights).ravel() @ sizes
    # The surface of straight tetrahedra differs from that of trilinear hexahedra.
    assert found.volumes().sum() == pytest.approx(volume.sum(), rel=2e-3)
    flat = jittered(split_hexahedra(box(), "twelve"), 0.2)
    assert extruded(flat)[0].volumes().sum() == pytest.approx(9 * 8 * 4.5, rel=1e-12)
    for name in mesh.boundaries:
        assert len(found.boundaries[name]) >= len(mesh.boundaries[name])
    heights = found.vertices[found.elements[found.boundaries["z_max"][:, 0]]][:, :, 2].max()
    assert heights == pytest.approx(mesh.vertices[:, 2].max())


@pytest.mark.parametrize("split", [lambda mesh: mesh, split_hexahedra])
def test_sides_that_are_not_plane_are_named(split: Any) -> None:
    mesh = split(box())
    tilted = replace(mesh, vertices=mesh.vertices + 0.1 * mesh.vertices[:, [2, 0, 0]] * [1, 0, 0])
    with pytest.raises(InputError, match=r"in the surface 'x_min' around x = .* in no plane of its bounding box"):
        plane_sides(tilted, absorbing(tilted))
    assert plane_sides(tilted, absorbing(tilted, ("y_min", "z_min"))).used == ["y_min", "z_min"]
    bottom = mesh.boundaries["z_min"]
    parted = replace(mesh, boundaries={**mesh.boundaries, "z_min": bottom[1:], "rigid": bottom[:1]})
    with pytest.raises(InputError, match=r"only a part of the side z_min .* is in the surface 'rigid'"):
        plane_sides(parted, absorbing(parted))
