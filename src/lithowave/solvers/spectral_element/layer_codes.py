"""Codes of the elements of an absorbing layer, by which kernels are compiled: see `elements.ElementKind.layer`.

An element is aligned if each active axis is along one of its local directions: the coordinate of this axis depends on
the local coordinate of the direction only, and the other coordinates do not depend on it. Then the filters of
`absorbing_layer` commute with the derivatives along the other directions, and fewer memory variables suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.absorbing_layer import ALIGNED, DAMPED

TOLERANCE = 1e-9  # of coefficients of a map, relative to the largest one that is not constant
PART = 20_000


def layer_codes(
    layer: Any, masks: np.ndarray, mesh: Any, coefficients: np.ndarray, numbers: np.ndarray, coupled: np.ndarray
) -> np.ndarray:
    """Return the code of each element: its active local directions plus `ALIGNED`, or its active axes.

    masks : active axes (see `AbsorbingLayer.masks`). coupled : True for each point on an interface with a fluid, which
    has no friction. Aligned elements have neither such points, nor points at which layers along two axes begin.
    """
    codes = masks.copy()
    members = np.flatnonzero((masks > 0) & (masks < DAMPED))
    for first in range(0, len(members), PART):
        some = members[first : first + PART]
        axes = active_axes(masks[some])
        directions = _directions(dependence(coefficients[some]), axes)
        aligned = (directions >= 0).all(axis=1)
        aligned &= _beginnings(layer, mesh, some).max(axis=1) <= 1
        aligned &= ~coupled[numbers[some]].any(axis=(1, 2, 3))
        local = (axes << np.maximum(directions, 0)).sum(axis=1)
        codes[some] = np.where(aligned, ALIGNED + local, masks[some])
    return codes


def active_axes(masks: np.ndarray) -> np.ndarray:
    """Return 1 for each active axis (elements, 3), else 0."""
    return masks[:, None] >> np.arange(3) & 1


def dependence(coefficients: np.ndarray) -> np.ndarray:
    """Return whether a coordinate of elements depends on a local one: (elements, coordinate, direction)."""
    size = np.abs(coefficients)
    size[..., 0, 0, 0] = 0.0
    limit = TOLERANCE * size.max(axis=(1, 2, 3, 4))
    powers = size[..., 1:], size[..., 1:, :], size[..., 1:, :, :]
    return np.stack([values.max(axis=(2, 3, 4)) for values in powers], axis=-1) > limit[:, None, None]


def _directions(depends: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return the local direction of each active axis (elements, 3); -1 if there is none, 0 for other axes."""
    alone = (depends.sum(axis=2) == 1)[:, :, None] & (depends.sum(axis=1) == 1)[:, None, :] & depends
    found = np.where(alone.any(axis=2), alone.argmax(axis=2), -1)
    return np.where(axes > 0, found, 0)


def _beginnings(layer: Any, mesh: Any, elements: np.ndarray) -> np.ndarray:
    """Return the number of active axes along which the layer begins at each corner (elements, 8)."""
    corners, count = mesh.vertices[mesh.elements[elements]], 0
    for face in layer.sides:
        depth = layer.beyond(corners, face)
        count = count + ((depth == 0) & (depth > 0).any(axis=1, keepdims=True))
    return count
