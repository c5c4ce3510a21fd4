"""Base of the benchmark tasks of element methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class ElementTask:
    """Measurement of a case on a box of cells; see `lithowave.solvers.interface.BenchTask`.

    shape : cells along x, y, z. order : degree or order of the elements, named `order_name` in messages and records.
    """

    case: str
    shape: tuple[int, int, int]
    order: int
    backend: Any

    plan: ClassVar[Any]
    method: ClassVar[str]
    order_name: ClassVar[str]
    cells: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Case, size and order, for messages."""
        return f"{self.case}, {'x'.join(map(str, self.shape))}{self.cells}, {self.order_name} {self.order}"

    def entries(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.BenchTask`."""
        return {"size": list(self.shape), self.order_name: self.order, "elements": self.plan.element_count}

    def memory_bytes(self, _: dict[str, Any]) -> int:
        """Return the bytes of the arrays of the device."""
        return self.plan.memory_bytes(self.backend)
