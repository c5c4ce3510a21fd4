"""The free surface of a mesh: the elevation of its upward free faces at points (x, y), and the box around the mesh.

Faces are triangles, quadrilaterals with four nodes (bilinear), or with nine nodes (biquadratic, possibly curved), as
those of the elements. Where several faces are above each other, in an overhang or above a cavity, the highest counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.checks import Mesh, face_corners
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_checks import FACE_CENTER_NODES, FACE_EDGE_NODES

if TYPE_CHECKING:
    import numpy.typing as npt

INSIDE = 1e-8
"""Excess in reference coordinates up to which a point is on a face."""

UPWARD = 1e-6
"""Sine of the smallest slope between a face and the vertical of a face that points upwards."""

_OVERSHOOT = 0.15
"""Margin of the box around a curved face, as a fraction of its size: its edges are beyond its nodes by up to 1/8."""

_PAIRS = 1 << 18
"""Pairs of points and faces that are examined at a time."""

_STEPS = 12
"""Largest number of Newton steps to a point of a face."""

Ends = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class FreeSurface:
    """The upward free faces of a mesh, as a surface z(x, y).

    Attributes
    ----------
    path : the mesh file.
    nodes : positions (f, 3, 4 or 9, 3) of the nodes of each face, m: corners in cyclic order, then of nine nodes those
        of the edges from each corner to the next, and the center.
    rim : ends (r, 2, 3) of the edges of one face only, m; curved edges are two straight lines.
    is_top : True if every upward face of the mesh is free, so that nothing is above the surface.
    """

    path: Path
    nodes: np.ndarray
    rim: np.ndarray
    is_top: bool
    unused: tuple[str, ...] = ()
    concurrent: bool = True

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> np.ndarray:
        """Return the elevation, m, at points in m, of the broadcast shape of x and y; beside the faces it is that of
        the nearest point of their rim."""
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        points = self._points(x, y)
        found = self._on_faces(points)
        beside = np.flatnonzero(np.isnan(found))
        found[beside] = self._on_rim(points[beside])
        return found.reshape(shape)

    def covers(self, x: npt.ArrayLike, y: npt.ArrayLike) -> np.ndarray:
        """Return a mask, of the broadcast shape of x and y, of the points above or below a face."""
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        return ~np.isnan(self._on_faces(self._points(x, y))).reshape(shape)

    @cached_property
    def low(self) -> float:
        """Lowest node, m."""
        return float(self.nodes[..., 2].min())

    @cached_property
    def high(self) -> float:
        """Highest node, m."""
        return float(self.nodes[..., 2].max())

    def range_in(self, x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
        """Return the lowest and highest node, m; the rectangle with ends x and y is not considered."""
        return self.low, self.high

    @staticmethod
    def _points(x: npt.ArrayLike, y: npt.ArrayLike) -> np.ndarray:
        """Return points (n, 2), m."""
        return np.stack(np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float)), axis=-1).reshape(-1, 2)

    def _on_faces(self, points: np.ndarray) -> np.ndarray:
        """Return the elevation (n,), m, at points (n, 2), m; NaN beside the faces."""
        found = np.full(len(points), -np.inf)
        for point, face in self._cells.pairs(points):
            nodes = self.nodes[face]
            z, excess = _heights(nodes, points[point])
            inside = excess <= INSIDE
            np.maximum.at(found, point[inside], z[inside])
        return np.where(np.isinf(found), np.nan, found)

    def _on_rim(self, points: np.ndarray) -> np.ndarray:
        """Return z (n,), m, of the point of the rim that is horizontally nearest to each of points (n, 2), m."""
        start, along = self.rim[:, 0], self.rim[:, 1] - self.rim[:, 0]
        length = np.maximum((along[:, :2] ** 2).sum(axis=1), np.finfo(float).tiny)
        found, part = np.empty(len(points)), max(1, _PAIRS // max(1, len(start)))
        for first in range(0, len(points), part):
            some = points[first : first + part, None]
            fraction = np.clip(((some - start[:, :2]) * along[:, :2]).sum(axis=-1) / length, 0.0, 1.0)
            places = start + fraction[..., None] * along
            nearest = ((places[..., :2] - some) ** 2).sum(axis=-1).argmin(axis=1)
            found[first : first + part] = places[np.arange(len(some)), nearest, 2]
        return found

    @cached_property
    def _cells(self) -> FaceCells:
        low, high = self.nodes[..., :2].min(axis=1), self.nodes[..., :2].max(axis=1)
        margin = (_OVERSHOOT if self.nodes.shape[1] == 9 else 10 * INSIDE) * (high - low).max(axis=1, keepdims=True)
        return FaceCells.of(low - margin, high + margin)


@dataclass(frozen=True, eq=False)
class FaceCells:
    """A regular grid over rectangles, whose cells list the rectangles that they touch.

    low, high : corners (f, 2) of the rectangles, m. origin, size : corner and width of the cells (2,), m. shape : their
    number along x and y. face, begin : the rectangles of all cells one after another, and where each cell begins.
    """

    low: np.ndarray
    high: np.ndarray
    origin: np.ndarray
    size: np.ndarray
    shape: np.ndarray
    face: np.ndarray
    begin: np.ndarray

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray) -> FaceCells:
        """Return a grid with about as many cells as rectangles."""
        origin, extent = low.min(axis=0), np.maximum((high.max(axis=0) - low.min(axis=0)), 1e-300)
        width = np.sqrt(extent.prod() / len(low))
        shape = np.clip(np.ceil(extent / width), 1, len(low)).astype(np.int64)
        size = extent / shape
        first, last = (np.clip((ends - origin) // size, 0, shape - 1).astype(np.int64) for ends in (low, high))
        counts = last - first + 1
        every = counts.prod(axis=1)
        face = np.repeat(np.arange(len(low)), every)
        rank = np.arange(len(face)) - np.repeat(np.cumsum(every) - every, every)
        column, row = rank % counts[face, 0], rank // counts[face, 0]
        cell = (first[face, 1] + row) * shape[0] + first[face, 0] + column
        order = np.argsort(cell, kind="stable")
        begin = np.searchsorted(cell[order], np.arange(shape.prod() + 1))
        return cls(low, high, origin, size, shape, face[order], begin)

    def pairs(self, points: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield indices of points (n, 2) and of the rectangles that contain them, in portions."""
        position = (points - self.origin) / self.size
        within = np.flatnonzero(((position >= 0.0) & (position <= self.shape)).all(axis=1))  # False for NaN
        column, row = np.minimum(position[within].astype(np.int64), self.shape - 1).T
        cell = row * self.shape[0] + column
        counts = self.begin[cell + 1] - self.begin[cell]
        total = np.cumsum(counts)
        start = 0
        while start < len(within):
            stop = max(start + 1, int(np.searchsorted(total, total[start] - counts[start] + _PAIRS, side="right")))
            some = counts[start:stop]
            point = np.repeat(within[start:stop], some)
            rank = np.arange(len(point)) - np.repeat(np.cumsum(some) - some, some)
            face = self.face[np.repeat(self.begin[cell[start:stop]], some) + rank]
            inside = ((points[point] >= self.low[face]) & (points[point] <= self.high[face])).all(axis=1)
            yield point[inside], face[inside]
            start = stop


def _shapes(count: int, r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the shape functions (n, count) of a face at reference coordinates (n,), and their derivatives.

    r and s are from 0 to 1 in triangles, where their sum is at most 1, and from -1 to 1 in quadrilaterals.
    """
    zero, one = np.zeros_like(r), np.ones_like(r)
    if count == 3:
        return np.stack([1 - r - s, r, s], -1), np.stack([-one, one, zero], -1), np.stack([-one, zero, one], -1)
    if count == 4:
        lines = [np.stack([(1 - t) / 2, (1 + t) / 2]) for t in (r, s)]
        slopes = [np.stack([-one / 2, one / 2])] * 2
        places = [(0, 0), (1, 0), (1, 1), (0, 1)]
    else:
        lines = [np.stack([t * (t - 1) / 2, 1 - t * t, t * (t + 1) / 2]) for t in (r, s)]
        slopes = [np.stack([t - 0.5, -2 * t, t + 0.5]) for t in (r, s)]
        places = [(0, 0), (2, 0), (2, 2), (0, 2), (1, 0), (2, 1), (1, 2), (0, 1), (1, 1)]
    tables = ((lines[0], lines[1]), (slopes[0], lines[1]), (lines[0], slopes[1]))
    values, along_r, along_s = (np.stack([a[i] * b[j] for i, j in places], -1) for a, b in tables)
    return values, along_r, along_s


def _heights(nodes: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return z (n,), m, of faces at points (n, 2), m, and how far these are outside, in reference coordinates.

    nodes : positions (n, 3, 4 or 9, 3) of the face of each point, m. The excess is infinite where Newton's method does
    not find the point.
    """
    count = nodes.shape[1]
    r = np.full(len(points), 1.0 / 3.0 if count == 3 else 0.0)
    s = r.copy()
    step = np.full(len(points), np.inf)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for _ in range(_STEPS):
            values, along_r, along_s = _shapes(count, r, s)
            gap = np.einsum("nk,nkc->nc", values, nodes[..., :2]) - points
            a, b = (np.einsum("nk,nkc->nc", slopes, nodes[..., :2]) for slopes in (along_r, along_s))
            determinant = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
            dr = (gap[:, 0] * b[:, 1] - gap[:, 1] * b[:, 0]) / determinant
            ds = (a[:, 0] * gap[:, 1] - a[:, 1] * gap[:, 0]) / determinant
            r, s, step = r - dr, s - ds, np.maximum(np.abs(dr), np.abs(ds))
            if not (step > 1e-13).any():
                break
        z = np.einsum("nk,nk->n", _shapes(count, r, s)[0], nodes[..., 2])
        excess = -np.minimum(np.minimum(r, s), 1 - r - s) if count == 3 else np.maximum(np.abs(r), np.abs(s)) - 1
        return z, np.where(step < 0.1 * INSIDE, excess, np.inf)  # NaN does not satisfy this


@dataclass(frozen=True, eq=False)
class MeshOutline:
    """Ends of a mesh along x, y and z, m, and its free surface; None if no free face points upwards."""

    ends: Ends
    surface: FreeSurface | None

    @classmethod
    def of(cls, mesh: Mesh, free: Collection[str], path: Path) -> MeshOutline:
        """Return the outline of a mesh; free : names of its boundaries that are free."""
        vertices = mesh.vertices
        low, high = vertices.min(axis=0).tolist(), vertices.max(axis=0).tolist()
        names = [name for name in mesh.boundaries if len(mesh.boundaries[name])]
        faces = [_upward(mesh, mesh.boundaries[name]) for name in names]
        chosen = [some for name, some in zip(names, faces, strict=True) if name in free]
        others = [some for name, some in zip(names, faces, strict=True) if name not in free]
        surface = None
        if sum(map(len, chosen)):
            some = np.concatenate(chosen)
            numbers = _face_nodes(mesh, some)
            is_top = not any(map(len, others))
            surface = FreeSurface(path, vertices[numbers], _rim(numbers, vertices), is_top)
        return cls(tuple(zip(low, high, strict=True)), surface)


def _face_nodes(mesh: Mesh, faces: np.ndarray) -> np.ndarray:
    """Return the nodes (f, 3, 4 or 9) of faces (f, 2), element and local face."""
    corners = face_corners(mesh, faces)
    if not isinstance(mesh, HexahedralMesh) or mesh.nodes is None:
        return corners
    element, local = faces.T
    edges = np.take_along_axis(mesh.nodes[element], FACE_EDGE_NODES[local], axis=1)
    centers = mesh.nodes[element, FACE_CENTER_NODES[local]]
    return np.column_stack([corners, edges, centers])


def _upward(mesh: Mesh, faces: np.ndarray) -> np.ndarray:
    """Return those of some faces whose outward normal points upwards."""
    corners = mesh.vertices[_face_nodes(mesh, faces)[:, : 4 if isinstance(mesh, HexahedralMesh) else 3]]
    normal = np.cross(corners[:, 2] - corners[:, 0], corners[:, -1] - corners[:, 1])
    inside = mesh.vertices[mesh.elements[faces[:, 0]]].mean(axis=1)
    outward = np.einsum("ij,ij->i", normal, corners.mean(axis=1) - inside)
    return faces[normal[:, 2] * np.sign(outward) > UPWARD * np.linalg.norm(normal, axis=1)]


def _rim(nodes: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Return the ends (r, 2, 3), m, of the edges that belong to one face only; `nodes` as those of `_face_nodes`."""
    sides = 3 if nodes.shape[1] == 3 else 4
    start = nodes[:, :sides]
    end = np.roll(start, -1, axis=1)
    middle = nodes[:, 4:8] if nodes.shape[1] == 9 else start
    pairs = np.sort(np.stack([start, end], axis=-1).reshape(-1, 2), axis=1)
    _, number, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    alone = count[number.reshape(-1)] == 1
    ends = [each.reshape(-1)[alone] for each in (start, middle, end)]
    lines = [(0, 1), (1, 2)] if nodes.shape[1] == 9 else [(0, 2)]
    return np.concatenate([np.stack([vertices[ends[a]], vertices[ends[b]]], axis=1) for a, b in lines])
