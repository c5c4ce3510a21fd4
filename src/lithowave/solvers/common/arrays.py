"""Tables of the arrays of a run: each array is stated once, with its name, role, shape and type.

Allocation, the memory that a run requires, and the size of a checkpoint follow from the tables, which exist before any
array does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lithowave.backends.interface import Array, Backend


@dataclass(frozen=True)
class ArrayEntry:
    """An array on the device of a run.

    name : in its table. role : what it contains; the roles of a table are those of its method. shape, dtype : those of
    the array. copies : number of arrays of this kind.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: np.dtype
    copies: int = 1

    @property
    def size(self) -> int:
        """Number of values of all copies."""
        return self.copies * math.prod(self.shape)

    def nbytes(self, backend: Backend | None = None) -> int:
        """Return the bytes of all copies; with a backend, including its padding."""
        return self.size * self.dtype.itemsize

    def allocate(self, backend: Backend) -> Array:
        """Return one copy on a device, filled with zeros."""
        return backend.zeros(self.shape, self.dtype)


@dataclass(frozen=True)
class FieldEntry(ArrayEntry):
    """An array (z, y, x) of a grid with a halo, whose rows a backend pads; shift : see `Backend.field`."""

    halo: int = 0
    shift: int = 0

    def nbytes(self, backend: Backend | None = None) -> int:
        """See `ArrayEntry`."""
        if backend is None:
            return super().nbytes()
        return self.copies * backend.field_bytes(self.shape, self.halo, self.dtype)

    def allocate(self, backend: Backend) -> Array:
        """See `ArrayEntry`."""
        return backend.field(self.shape, self.halo, self.dtype, self.shift)


@dataclass
class ArrayTable:
    """Arrays of a run, or of a part of it, by name.

    real : type of the floating-point values of the run.
    """

    real: np.dtype
    entries: dict[str, ArrayEntry] = field(default_factory=dict)

    def add(
        self, name: str, role: str, shape: tuple[int, ...] | int, dtype: npt.DTypeLike | None = None, copies: int = 1
    ) -> None:
        """Add an array; its type is by default `real`."""
        whole = (shape,) if isinstance(shape, int) else shape
        self.entries[name] = ArrayEntry(name, role, whole, np.dtype(dtype or self.real), copies)

    def of(self, *roles: str) -> Iterator[ArrayEntry]:
        """Yield the arrays with one of these roles."""
        return (entry for entry in self.entries.values() if entry.role in roles)

    def nbytes(self, *roles: str, backend: Backend | None = None) -> int:
        """Return the bytes of the arrays with one of these roles, or of all; with a backend, including its padding."""
        chosen = self.of(*roles) if roles else self.entries.values()
        return sum(entry.nbytes(backend) for entry in chosen)

    def allocate(self, backend: Backend, *roles: str) -> dict[str, Array]:
        """Return new arrays of zeros with one of these roles, by name."""
        return {entry.name: entry.allocate(backend) for entry in self.of(*roles)}

    def zeros(self, backend: Backend, name: str) -> Array:
        """Return a new array of zeros."""
        return self.entries[name].allocate(backend)

    def upload(self, backend: Backend, name: str, values: npt.ArrayLike) -> Array:
        """Return an array with these values on a device.

        Raises
        ------
        AssertionError : the values have another shape than the table states.
        """
        entry = self.entries[name]
        array = backend.upload(values, entry.dtype)
        assert array.shape == entry.shape, f"{name} has shape {array.shape}, and {entry.shape} in the table of arrays"
        return array
