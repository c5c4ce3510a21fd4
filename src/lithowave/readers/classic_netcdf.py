"""Reader of the classic NetCDF formats CDF-1, CDF-2 and CDF-5.

The implementation follows the format specification (NetCDF Users' Guide, appendix "File Format Specifications"): a
header of dimensions, attributes and variables, then big-endian arrays at the offsets in the header. The NetCDF library
reads zeros past the end of a truncated file; this reader compares every array with the file's length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_CHARACTERS = 2
_TYPES = {
    1: "i1",
    2: "S1",
    3: ">i2",
    4: ">i4",
    5: ">f4",
    6: ">f8",
    7: "u1",
    8: ">u2",
    9: ">u4",
    10: ">i8",
    11: ">u8",
}
_STREAMING = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class ClassicVariable:
    """A variable: its header entries, and ``load``, which reads its values."""

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    attributes: dict[str, Any]
    load: Callable[[], np.ndarray]


class ClassicFile(dict[str, ClassicVariable]):
    """The variables of a file by name, and the attributes of the file itself."""

    def __init__(self, variables: Mapping[str, ClassicVariable], attributes: Mapping[str, Any]) -> None:
        super().__init__(variables)
        self.attributes = attributes


class _Header:
    """A position in the header, which advances as its parts are read."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.position = data, 4
        version = int(data[3]) if data.size > 3 else 0
        if version not in (1, 2, 5):
            raise ValueError(f"unknown version {version} of the classic NetCDF format")
        self.count_bytes = 8 if version == 5 else 4
        self.offset_bytes = 4 if version == 1 else 8

    def take(self, size: int) -> bytes:
        if self.position + size > self.data.size:
            raise ValueError("the file ends within its header")
        piece = self.data[self.position : self.position + size].tobytes()
        self.position += size
        return piece

    def integer(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def count(self) -> int:
        return self.integer(self.count_bytes)

    def padded(self, size: int) -> bytes:
        return self.take(size + -size % 4)[:size]

    def name(self) -> str:
        return self.padded(self.count()).decode("utf-8")

    def element_type(self) -> tuple[int, np.dtype]:
        code = self.integer()
        if code not in _TYPES:
            raise ValueError(f"the header has an unknown type of numbers, {code}")
        return code, np.dtype(_TYPES[code])

    def list_of(self, tag: int, read: Callable[[], Any]) -> list[Any]:
        found, length = self.integer(), self.count()
        if found not in (0, tag) or (found == 0 and length != 0):
            raise ValueError("the header is damaged")
        return [read() for _ in range(length)]

    def attribute(self) -> tuple[str, Any]:
        name = self.name()
        code, element = self.element_type()
        raw = self.padded(self.count() * element.itemsize)
        if code == _CHARACTERS:
            return name, raw.decode("utf-8", "replace").rstrip("\0")
        return name, np.frombuffer(raw, element)

    def variable(self) -> tuple[str, list[int], dict[str, Any], np.dtype, int]:
        name = self.name()
        dimensions = [self.count() for _ in range(self.count())]
        attributes = dict(self.list_of(_ATTRIBUTES, self.attribute))
        _, element = self.element_type()
        self.count()  # the size of the variable is redundant: it follows from the shape
        return name, dimensions, attributes, element, self.integer(self.offset_bytes)


def read_classic_netcdf(path: Path) -> ClassicFile:
    """Return the variables of a file by name; their values are read by ``load``.

    Raises
    ------
    ValueError
        for a damaged header, and by ``load`` if the file ends before the variable does.
    OSError
        if the file cannot be read.
    """
    data = np.memmap(path, dtype=np.uint8, mode="r")
    header = _Header(data)
    records = header.count()
    dimensions = header.list_of(_DIMENSIONS, lambda: (header.name(), header.count()))
    of_file = dict(header.list_of(_ATTRIBUTES, header.attribute))
    entries = header.list_of(_VARIABLES, header.variable)
    for name, indices, *_ in entries:
        if any(index >= len(dimensions) for index in indices):
            raise ValueError(f"the header is damaged: {name} has an undefined dimension")
    unlimited = next((index for index, (_, length) in enumerate(dimensions) if length == 0), -1)
    stride = _record_stride(entries, dimensions, unlimited)
    if records in _STREAMING:
        first = min((offset for *_, offset in entries), default=0)
        records = (data.size - first) // stride if stride else 0

    def variable(
        indices: list[int], attributes: dict[str, Any], element: np.dtype, offset: int
    ) -> ClassicVariable:
        in_records = bool(indices) and indices[0] == unlimited
        fixed = tuple(dimensions[index][1] for index in indices[1 if in_records else 0 :])
        shape = (records, *fixed) if in_records else fixed

        def load() -> np.ndarray:
            size = math.prod(fixed) * element.itemsize
            end = offset + (max(records - 1, 0) * stride if in_records else 0) + size
            if math.prod(shape) and end > data.size:
                raise ValueError(f"the file ends {end - data.size} bytes too early")
            steps = [element.itemsize * math.prod(fixed[axis + 1 :]) for axis in range(len(fixed))]
            steps = [stride, *steps] if in_records else steps
            view = np.ndarray(shape, element, buffer=data, offset=offset, strides=tuple(steps))
            return view.astype(element.newbyteorder("="))

        return ClassicVariable(tuple(dimensions[index][0] for index in indices), shape, attributes, load)

    return ClassicFile({name: variable(*rest) for name, *rest in entries}, of_file)


def _record_stride(entries: list[Any], dimensions: list[tuple[str, int]], unlimited: int) -> int:
    """Return the bytes between records: all variables with the unlimited dimension, each padded to four bytes."""
    sizes = [
        element.itemsize * math.prod(dimensions[index][1] for index in indices[1:])
        for _, indices, _, element, _ in entries
        if indices and indices[0] == unlimited
    ]
    return sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)
