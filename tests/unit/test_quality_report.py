"""The measures of a mesh agree with those of the elements' geometry, and name the right elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hexahedra_boxes import cubes, merged
from hexahedra_geometry import quality
from lithowave.mesh import HexahedralMesh, curved, layered_box
from lithowave.mesh.checks import described
from lithowave.mesh.hexahedral_checks import element_measures


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 60 * np.sin(x / 170) * np.cos(y / 210)


@pytest.fixture(params=["trilinear", "curved"], scope="module")
def mesh(request: pytest.FixtureRequest) -> HexahedralMesh:
    mesh = layered_box((0, 800), (0, 900), [hill, -400, -1500], [(50, 50), (100, 100)])
    if request.param == "trilinear":
        return mesh
    return curved(mesh, lambda x, y, z: (8 * np.sin(x / 90 + y / 70), 0, 9 * np.cos(z / 120 + x / 80)))


def test_measures_agree_with_the_geometry(mesh: HexahedralMesh) -> None:
    nodes, found = mesh.element_nodes(), element_measures(mesh, 4)
    expected, coarse = quality(nodes, 4), quality(nodes, 2)
    np.testing.assert_allclose(found["skewness"], expected.skewness, atol=1e-12)
    np.testing.assert_allclose(found["edge_ratio"], expected.edge_ratio, rtol=1e-12)
    np.testing.assert_allclose(found["point_distance"], expected.distance, rtol=1e-12)
    np.testing.assert_allclose(found["jacobian_ratio"], coarse.jacobian_ratio, rtol=1e-12)
    np.testing.assert_allclose(found["jacobian"], coarse.jacobian, rtol=1e-12)


@pytest.mark.parametrize("curve", [False, True])
def test_a_box_is_perfect(curve: bool) -> None:
    mesh = merged(cubes((3, 2, 2)))
    found = element_measures(curved(mesh, lambda x, y, z: (0, 0, 0)) if curve else mesh, 4)
    for name in ("shortest_edge", "longest_edge", "edge_ratio"):
        np.testing.assert_array_equal(found[name], np.ones(12))
    np.testing.assert_allclose(found["jacobian"], 1 / 8)
    np.testing.assert_allclose(found["jacobian_ratio"], 1)
    np.testing.assert_allclose(found["skewness"], 0, atol=1e-12)
    np.testing.assert_allclose(found["point_distance"], (1 - np.sqrt(3 / 7)) / 2)


def test_an_element_is_described() -> None:
    mesh = merged(cubes((3, 1, 1)))
    mesh.vertices[mesh.elements[2, 6]] -= [0.5, 0.3, 0.2]
    found = described(replace(mesh, ids=np.array([101, 102, 103])), 2)
    assert (found["element"], found["id"]) == (2, 103)
    np.testing.assert_allclose(found["centre"], np.array([2.5, 0.5, 0.5]) - np.array([0.5, 0.3, 0.2]) / 8)
