"""The measures of a mesh agree with those of the elements' geometry, and name the right elements."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hexahedra_boxes import bend, cubes, merged
from lithowave.mesh.hexahedra import HexahedralMesh, curved
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.quality_report import element_measures, gll_points, quality_report
from lithowave.solvers.spectral_element import geometry, gll


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 60 * np.sin(x / 170) * np.cos(y / 210)


@pytest.fixture(params=["trilinear", "curved"], scope="module")
def mesh(request: pytest.FixtureRequest) -> HexahedralMesh:
    mesh = layered_box((0, 800), (0, 900), [hill, -400, -1500], [(50, 50), (100, 100)])
    if request.param == "trilinear":
        return mesh
    return curved(mesh, lambda x, y, z: (8 * np.sin(x / 90 + y / 70), 0, 9 * np.cos(z / 120 + x / 80)))


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 8])
def test_points_are_those_of_the_elements(degree: int) -> None:
    np.testing.assert_allclose(gll_points(degree), gll.gll_points(degree), atol=1e-14)


def test_measures_agree_with_the_geometry(mesh: HexahedralMesh) -> None:
    nodes, found = mesh.element_nodes(), element_measures(mesh, 4)
    expected, coarse = geometry.quality(nodes, 4), geometry.quality(nodes, 2)
    np.testing.assert_allclose(found["skewness"], expected.skewness, atol=1e-12)
    np.testing.assert_allclose(found["edge_ratio"], expected.edge_ratio, rtol=1e-12)
    np.testing.assert_allclose(found["point_distance"], expected.distance, rtol=1e-12)
    np.testing.assert_allclose(found["jacobian_ratio"], coarse.jacobian_ratio, rtol=1e-12)
    np.testing.assert_allclose(found["jacobian"], coarse.jacobian, rtol=1e-12)


def test_the_shortest_travel_time(mesh: HexahedralMesh) -> None:
    speeds = np.random.default_rng(1).uniform(1000, 6000, mesh.element_count)
    expected = geometry.shortest_travel_time(mesh.element_nodes(), 5, speeds)
    report = quality_report(mesh, 5, speeds)
    assert report["travel_time"] == pytest.approx(expected.min(), rel=1e-12)
    assert report["worst"]["travel_time"]["element"] == expected.argmin()
    assert quality_report(mesh, 5, 2000.0)["travel_time"] == pytest.approx(report["point_distance"] / 2000)
    assert "travel_time" not in quality_report(mesh, 5)


def test_a_box_is_perfect() -> None:
    report = quality_report(merged(cubes((3, 2, 2))), 4)
    assert (report["elements"], report["nodes_per_element"]) == (12, 8)
    assert report["shortest_edge"] == report["longest_edge"] == report["edge_ratio"] == 1
    assert report["jacobian"] == pytest.approx(1 / 8) and report["jacobian_ratio"] == pytest.approx(1)
    assert report["skewness"] == pytest.approx(0, abs=1e-12)
    assert report["point_distance"] == pytest.approx((1 - np.sqrt(3 / 7)) / 2)


@pytest.mark.parametrize("nodes", [8, 27])
def test_the_worst_element_is_named(nodes: int) -> None:
    mesh = merged(cubes((3, 1, 1)))
    mesh.vertices[mesh.elements[2, 6]] -= [0.5, 0.3, 0.2]
    mesh = replace(mesh, ids=np.array([101, 102, 103]))
    mesh = curved(mesh, lambda x, y, z: (0, 0, 0)) if nodes == 27 else mesh
    report = quality_report(mesh, 4, bins=4)
    worst = report["worst_element"]
    assert (worst["element"], worst["id"]) == (2, 103)
    np.testing.assert_allclose(worst["centre"], np.array([2.5, 0.5, 0.5]) - np.array([0.5, 0.3, 0.2]) / 8)
    assert worst["value"] == report[worst["measure"]]
    for name in ("shortest_edge", "jacobian_ratio", "skewness", "point_distance"):
        assert report["worst"][name]["id"] == 103
    for histogram in report["histograms"].values():
        assert sum(histogram["counts"]) == 3 and histogram["edges"] == [0, 0.25, 0.5, 0.75, 1]
    assert json.loads(json.dumps(report)) == report


def test_degree_must_be_positive() -> None:
    with pytest.raises(ValueError, match="degree 1 or higher"):
        quality_report(curved(merged(cubes((1, 1, 1))), bend), 0)
