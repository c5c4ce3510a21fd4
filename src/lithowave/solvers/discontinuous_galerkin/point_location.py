"""Location of points in tetrahedra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.solvers.elements.point_location import PointLocations

TOLERANCE = 1e-7  # barycentric coordinates by which a point in an element may be outside of it
PAIRS = 1 << 13  # points and elements that are compared at a time
PART = 16384  # elements whose boxes are compared at a time


def locate_points(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float = TOLERANCE) -> PointLocations:
    """Return all elements that contain each of `positions` (points, 3), m; points in no element have no row.

    tolerance : distance in barycentric coordinates at which a point outside all elements is accepted and moved onto the
    nearest one. Elements touch a curved surface only at their vertices.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    found = _search(mesh, positions, TOLERANCE)
    if tolerance > TOLERANCE:
        lost = found.missing(len(positions))
        near = _search(mesh, positions[lost], tolerance)
        moved = replace(near, reference=_moved_onto(near.reference), excess=_excess(near.reference))
        found = found.with_nearest(moved, lost)
    return found


def _excess(reference: np.ndarray) -> np.ndarray:
    """Return the distance of points outside an element: minus the minimum barycentric coordinate, positive outside."""
    return -np.minimum(reference.min(axis=1), 1.0 - reference.sum(axis=1))


def _moved_onto(reference: np.ndarray) -> np.ndarray:
    """Return reference coordinates (rows, 3) of points moved onto their elements."""
    inside = np.clip(reference, 0.0, 1.0)
    return inside / np.maximum(1.0, inside.sum(axis=1))[:, None]


def _search(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float) -> PointLocations:
    """Return the elements within `tolerance` of each point, found on a grid of cells."""
    if not len(positions) or not mesh.element_count:
        return PointLocations.none()
    near, low, high = _boxes_near(mesh, positions, tolerance)
    points, elements = _pairs(positions, low, high)
    if not len(points):
        return PointLocations.none()
    parts = over_parts(
        lambda some: _within(mesh, positions, points[some], near[elements[some]], tolerance), len(points), PAIRS
    )
    point, element, reference = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((element, point))
    point, element = point[order], element[order]
    return PointLocations(point, element, reference[order], np.zeros(len(order)), mesh.keys_of_elements[element])


def _boxes_near(
    mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the elements whose boxes, with a margin, overlap that of the positions, and the ends (n, 3) of these."""
    start, end = positions.min(axis=0), positions.max(axis=0)

    def compare(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, b, c, d = (mesh.vertices[column] for column in mesh.elements[part].T)
        low, high = np.minimum(np.minimum(a, b), np.minimum(c, d)), np.maximum(np.maximum(a, b), np.maximum(c, d))
        margin = (tolerance + 1e-9) * (high - low)
        low, high = low - margin, high + margin
        near = np.flatnonzero(((low <= end) & (high >= start)).all(axis=1))
        return part.start + near, low[near], high[near]

    near, low, high = zip(*over_parts(compare, mesh.element_count, PART), strict=True)
    return np.concatenate(near), np.concatenate(low), np.concatenate(high)


def _pairs(positions: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points and boxes low .. high that may contain them, by the cells of a regular grid."""
    if not len(low):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, end = positions.min(axis=0), positions.max(axis=0)
    cell = np.maximum(np.median(high - low, axis=0), 1e-12)
    counts = np.clip(np.ceil((end - start) / cell), 1, 256).astype(np.int64)
    cell = np.maximum((end - start) / counts, 1e-300)

    def cells(of: np.ndarray) -> np.ndarray:
        return np.clip(np.floor((of - start) / cell), 0, counts - 1).astype(np.int64)

    strides = np.array([counts[1] * counts[2], counts[2], 1])
    home = cells(positions) @ strides
    order = np.argsort(home, kind="stable")
    begin = np.searchsorted(home[order], np.arange(counts.prod() + 1))
    first, last = cells(low), cells(high)
    spans = last - first + 1
    sizes = spans.prod(axis=1)
    box = np.repeat(np.arange(len(low)), sizes)
    within = np.arange(len(box)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    offsets = np.stack(
        [within // (spans[box, 1] * spans[box, 2]), within // spans[box, 2] % spans[box, 1], within % spans[box, 2]], 1
    )
    key = (first[box] + offsets) @ strides
    many = begin[key + 1] - begin[key]
    pair_box = np.repeat(box, many)
    place = np.arange(len(pair_box)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin[key], many)
    point = order[place]
    fits = ((positions[point] >= low[pair_box]) & (positions[point] <= high[pair_box])).all(axis=1)
    return point[fits], pair_box[fits]


def _within(
    mesh: TetrahedralMesh, positions: np.ndarray, point: np.ndarray, element: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Select the pairs in which the point is in the element, with its reference coordinates."""
    vertices = mesh.element_vertices(element)
    edges = vertices[:, 1:] - vertices[:, :1]
    reference = np.linalg.solve(edges.transpose(0, 2, 1), (positions[point] - vertices[:, 0])[..., None])[..., 0]
    there = _excess(reference) <= tolerance
    return point[there], element[there], reference[there]
