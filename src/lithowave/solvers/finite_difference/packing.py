"""GPU kernel arguments that are structures passed by value, packed as the CUDA sources declare them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.solvers.finite_difference.fields import LawFields
from lithowave.solvers.finite_difference.tiles import LayerRanges

# Scales (low, step) of the codes of each material array; None if the arrays hold values.
Scales = dict[str, tuple[float, float]] | None


def address(array: Any) -> int:
    """Return the address of an array in device memory."""
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def element_strides(array: Any) -> tuple[int, ...]:
    """Return the strides of an array in elements."""
    return tuple(step // array.itemsize for step in array.strides)


def blob(packed: bytes) -> np.ndarray:
    """Return bytes as an array that the launch passes as a structure by value."""
    return np.frombuffer(packed, np.uint8)


def pack_layout(field: Any, halo: int) -> np.ndarray:
    """Return `Layout` of stencil.cuh."""
    planes, rows, columns = (count - 2 * halo for count in field.shape)
    plane, pitch, _ = element_strides(field)
    return blob(struct.pack("iiiiq", columns, rows, planes, pitch, plane))


def layer_ranges(backend: Any, named: dict[str, Any], axis: str, nodes: int) -> LayerRanges:
    """Return the nonzero ranges of the layers along an axis."""
    starts = tuple(int(start) for start in backend.download(named[f"{axis}_start"]))
    if not starts:
        return LayerRanges(nodes, 0, (), ())
    half, node = (backend.download(named[f"{axis}_{part}"]).reshape(3, len(starts), -1) for part in ("half", "node"))
    used = []
    for side, start in enumerate(starts):
        nonzero = np.flatnonzero((half[:, side] != 0).any(axis=0) | (node[:, side] != 0).any(axis=0))
        used.append((start + int(nonzero[0]), start + int(nonzero[-1]) + 1))
    ends = used[-1][1] == nodes and half[0, -1, -1] == 0  # the half node after the last node is outside the grid
    return LayerRanges(nodes, half.shape[2], starts, tuple(used), bool(ends))


def pack_layers(named: dict[str, Any], ranges: dict[str, LayerRanges]) -> np.ndarray:
    """Return `LayerSet` of layers.cuh."""
    packed = b""
    for axis, found in ranges.items():
        pointers = (address(named[f"{axis}_{part}"]) for part in ("memory", "half", "node"))
        sides, used = len(found.starts), found.used
        middle = used[1][0] if sides == 2 else found.nodes
        if axis == "x":  # whole sectors of memory variables, where the profiles are zero, too
            used = tuple((start, min(start + found.depths, found.nodes)) for start in found.starts)
            middle = max(used[1][0], found.used[0][1]) if sides == 2 else middle
        starts = (*found.starts, 0, 0)[:2]
        (low, low_end), (high, high_end) = (*used, (0, 0), (0, 0))[:2]
        packed += struct.pack(
            "3Q10i", *pointers, sides, found.depths, middle, *starts, low, high, low_end, high_end, 0
        )
    return blob(packed)


def pack_scales(scales: Scales, *names: str) -> np.ndarray:
    """Return `Scale` of stencil.cuh for each of these material arrays; zeros unless they hold codes."""
    values = [float(value) for name in names for value in (scales[name] if scales else (0.0, 0.0))]
    return blob(struct.pack(f"{len(values)}f", *values))


def moduli_of(law: Sequence[Any], fields: LawFields) -> dict[str, Any]:
    """Return the moduli in the argument `law` of a kernel by name."""
    first = len(fields.memory) + 3 if fields.mechanisms else 0
    return dict(zip(fields.moduli, law[first:], strict=False))


def pack_law(law: Sequence[Any], fields: LawFields, scales: Scales, after: Sequence[Any] = ()) -> np.ndarray:
    """Return `Law` of law.cuh: the moduli in the order of the table, then their scales, and `Memory` with attenuation.

    law : argument of the kernels. after : arrays for the updated memory variables; default: those in `law`.
    """
    if not fields.mechanisms:
        return np.concatenate([pack_fields(law), pack_scales(scales, *fields.moduli)])
    count = len(fields.memory)
    memory, (codes, part, unit) = law[:count], law[count : count + 3]
    moduli = list(moduli_of(law, fields).values())
    plane, pitch, _ = element_strides(codes)
    grid = codes.shape[0] // fields.mechanisms * plane
    packed = struct.pack("3q", grid, plane, pitch) + unit.tobytes().ljust(8, b"\0")
    pointers = pack_fields([*memory, *(after or memory), codes, part])
    return np.concatenate([pack_fields(moduli), pack_scales(scales, *fields.moduli), pointers, blob(packed)])


def pack_fields(fields: Sequence[Any]) -> np.ndarray:
    """Return a structure of pointers to arrays, as `Fields` of point_kernels.cu."""
    return blob(struct.pack(f"{len(fields)}Q", *map(address, fields)))


def signed(step: Any) -> int:
    """Return a step that may have wrapped around as an unsigned integer."""
    return (int(step) + 2**63) % 2**64 - 2**63


def pack_face(field: Any, named: dict[str, Any]) -> tuple[np.ndarray, tuple[int, int]]:
    """Return `Face` of boundary_kernels.cu, and the rows and columns of the face."""
    strides = element_strides(field)

    def offset(steps: Any) -> int:
        return sum(signed(step) * stride for step, stride in zip(steps, strides, strict=True))

    normal = next(axis for axis in range(3) if named["shape"][axis] == 1)
    over, along = (axis for axis in range(3) if axis != normal)
    rows, columns = named["shape"][over], named["shape"][along]
    places = [offset(named.get(name, named["first"])) for name in ("first", "half")]
    steps = [offset(named.get(name, (0, 0, 0))) for name in ("inward", "n", "t", "u")]
    reach = [0, 0, 0]
    if "node_change" in named:
        reach = [*named["node_change"].shape, named["half_change"].shape[1]]
    packed = struct.pack("8q6i", *places, *steps, strides[over], strides[along], rows, columns, *reach, 2 - normal)
    return blob(packed), (rows, columns)


def pack_box(field: Any, named: dict[str, Any]) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Return `Box` of boundary_kernels.cu, and its columns, rows and planes."""
    plane, pitch, _ = element_strides(field)
    x, x_end, y, y_end, z, z_end = named["box"]
    shape = (x_end - x, y_end - y, z_end - z)
    node = named["halo"] * (plane + pitch + 1)
    limits = named.get("limits", (0,) * 6)
    return blob(struct.pack("4q12i", node, pitch, plane, named["place"], x, y, z, *shape, *limits)), shape
