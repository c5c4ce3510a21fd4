"""Arguments of the closure kernels at a face, and the volumes of the points next to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.solvers.finite_difference.coefficients import FaceClosure

UNIT = ((0, 0, 1), (0, 1, 0), (1, 0, 0))  # unit steps (k, j, i) along x, y, z
TANGENTS = ((1, 2), (0, 2), (0, 1))  # the axes t and u for the normal n


def unsigned(steps: Sequence[int]) -> tuple[np.uint64, ...]:
    """Return steps as unsigned integers for the kernels; a negative step wraps around, as in unsigned addition."""
    return tuple(np.uint64(step % 2**64) for step in steps)


@dataclass(frozen=True)
class ClosedFace:
    """Free or rigid face.

    axis : its normal. plane : array index of its nodes along that axis. first, half, shape, inward, node_change,
    half_change : arguments of `close_velocity` and `close_stress`.
    """

    axis: int
    kind: str
    plane: int
    first: tuple[np.uint64, ...]
    half: tuple[np.uint64, ...]
    shape: tuple[int, int, int]
    inward: tuple[np.uint64, ...]
    node_change: np.ndarray
    half_change: np.ndarray


def closed_faces(
    grid: Grid, faces: dict[str, str], closure: FaceClosure, halo: int, boxes: Sequence[NodeRanges] = ()
) -> list[ClosedFace]:
    """Return the free and rigid faces of a grid or subdomain within some boxes (default: everywhere).

    A box that contains a section of a face must be thicker than the closure.
    """
    found = []
    for axis, letter in enumerate(AXES):
        for number, (side, sign) in enumerate((("min", 1), ("max", -1))):
            kind = faces[f"{letter}_{side}"]
            if kind != "absorbing" and grid.is_end(axis, number):
                plane = 0 if sign > 0 else grid.shape[axis] - 1
                for box in boxes or [[(0, count) for count in grid.shape]]:
                    if box[axis][0] <= plane < box[axis][1]:
                        found.append(_closed_face(axis, kind, sign, plane, closure, halo, box))
    return found


def _closed_face(
    axis: int, kind: str, sign: int, plane: int, closure: FaceClosure, halo: int, box: NodeRanges
) -> ClosedFace:
    """Return the section of a face within a box; sign : direction into the grid."""
    node = halo + plane
    first = [halo + begin for begin, _ in box[::-1]]
    half = list(first)
    first[2 - axis] = node
    half[2 - axis] = node if sign > 0 else node - 1
    shape = [end - begin for begin, end in box[::-1]]
    shape[2 - axis] = 1
    inward = tuple(sign * step for step in UNIT[axis])
    return ClosedFace(
        axis, kind, node, unsigned(first), unsigned(half), tuple(shape), unsigned(inward),
        sign * closure.node_change, sign * closure.half_change,
    )  # fmt: skip


def line_volumes(grid: Grid, faces: dict[str, str], closure: FaceClosure) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the quadrature weights of nodes and half nodes along each axis: 1 except at closed faces."""
    volumes = []
    for axis, letter in enumerate(AXES):
        nodes, halves = np.ones(grid.shape[axis]), np.ones(grid.shape[axis])
        for side in ("min", "max"):
            if faces[f"{letter}_{side}"] == "absorbing":
                continue
            node_line = nodes if side == "min" else nodes[::-1]
            half_line = halves if side == "min" else halves[:-1][::-1]
            node_line[: closure.node_weights.size] = closure.node_weights[: node_line.size]
            half_line[: closure.half_weights.size] = closure.half_weights[: half_line.size]
        volumes.append((nodes, halves))
    return volumes
