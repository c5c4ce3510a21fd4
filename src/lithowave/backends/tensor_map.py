"""Descriptors for the copy engine (TMA, compute capability 9.0 and above), which copies boxes of a field."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from lithowave.backends.cuda_driver import driver_library
from lithowave.errors import ResourceError

BYTES, ALIGNMENT = 128, 64
TYPES = {"uint16": 1, "float32": 7, "float64": 8}  # CUtensorMapDataType
NO_PROMOTION, PROMOTION_128B = 0, 2  # CUtensorMapL2promotion
LARGEST_BOX = 256


def tensor_map(array: Any, first_column: int, box: tuple[int, int], whole_lines: bool = True) -> np.ndarray:
    """Return the descriptor of a 3-D tiled map over a field (z, y, x): 128 bytes, passed to a kernel by value.

    Elements outside the map are read as zero; coordinates count from element (0, 0, first_column).

    Parameters
    ----------
    array : field on the device; its strides may be padded. first_column : negative columns may extend over the
    field's lead. box : columns and rows of one copy. whole_lines : whether the second-level cache loads whole lines of
    128 bytes, for neighboring boxes, or only the sectors of 32 bytes that a box touches.

    Raises
    ------
    ValueError : the copy engine does not support the address, the strides or the box. ResourceError : the driver
    rejects the descriptor.
    """
    address, sizes, pitches = map_geometry(array, first_column, box)
    room = np.zeros(BYTES + ALIGNMENT, np.uint8)
    encoded = room[-room.ctypes.data % ALIGNMENT :][:BYTES]
    status = _encoder()(
        ctypes.c_void_p(encoded.ctypes.data), TYPES[array.dtype.name], 3, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 3)(*sizes), (ctypes.c_uint64 * 2)(*pitches), (ctypes.c_uint32 * 3)(*box, 1),
        (ctypes.c_uint32 * 3)(1, 1, 1), 0, 0, PROMOTION_128B if whole_lines else NO_PROMOTION, 0,
    )  # fmt: skip
    if status != 0:
        raise ResourceError(
            f"the driver refuses a tensor map of {sizes} elements, strides {pitches} bytes, box {box} (error {status})"
        )
    return encoded.copy()


def map_geometry(
    array: Any, first_column: int, box: tuple[int, int]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the address, sizes (x, y, z) in elements and strides (y, z) in bytes of a map; see `tensor_map`."""
    if array.ndim != 3 or array.dtype.name not in TYPES or array.strides[2] != array.itemsize:
        raise ValueError(f"a tensor map needs a field (z, y, x) of {', '.join(TYPES)} with contiguous rows")
    address = array.data.ptr + first_column * array.itemsize
    pitches = (array.strides[1], array.strides[0])
    if address % 16 or any(pitch % 16 for pitch in pitches):
        raise ValueError(f"column {first_column} or the rows of the field are not aligned to 16 bytes")
    if address < array.data.mem.ptr or first_column >= array.shape[2]:
        raise ValueError(f"column {first_column} lies outside the memory of the field")
    if box[0] * array.itemsize % 16 or not all(1 <= side <= LARGEST_BOX for side in box):
        raise ValueError(f"box {box}: sides of 1 to {LARGEST_BOX}, rows of whole 16 bytes are possible")
    return address, (array.shape[2] - first_column, array.shape[1], array.shape[0]), pitches


def _encoder() -> Any:
    encode = getattr(driver_library(), "cuTensorMapEncodeTiled", None)
    if encode is None:
        raise ResourceError("the NVIDIA driver has no tensor maps: it is older than CUDA 12. Update it.")
    encode.restype = ctypes.c_int
    return encode
