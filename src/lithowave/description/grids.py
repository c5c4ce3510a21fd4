"""Lines and planes of points, given by the positions of their ends or corners: of receivers and of shots."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from lithowave.description.base import DescriptionModel
from lithowave.description.text import refusal, shown
from lithowave.description.units import WholeNumber


def _pair(value: object) -> object:
    items = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(items, (list, tuple)) or len(items) != 2:
        raise refusal(f"{shown(items)} is not a pair of counts", "expected two whole numbers, one for each side")
    return items


PairCount = Annotated[int, WholeNumber(ge=2)]
Counts = Annotated[tuple[PairCount, PairCount], BeforeValidator(_pair)]


class PointGrid(DescriptionModel):
    """Points between ``start`` and ``end``, which are both [x, y, z], or both [x, y] for points on the surface."""

    if TYPE_CHECKING:  # declared by each kind, in its own words
        start: tuple[float, ...]
        end: tuple[float, ...]

    @property
    def on_surface(self) -> bool:
        """True if the points stand on the surface."""
        return len(self.start) == 2

    def _check_ends(self) -> None:
        """Refuse ends with different numbers of coordinates, or at one position."""
        if len(self.start) != len(self.end):
            got = f"start has {len(self.start)} numbers and end {len(self.end)}"
            raise refusal(got, "both are [x, y, z], or both [x, y] for points on the surface", at=("end",))
        if self.start == self.end:
            raise refusal("it ends where it starts", "start and end must differ", at=("end",))

    def _between(self, *fractions: float) -> tuple[float, ...]:
        """Return the point at fractions of the distance along the axes; both ends are exact."""
        return tuple(
            high if fraction == 1.0 else low + fraction * (high - low)
            for low, high, fraction in zip(self.start, self.end, fractions, strict=True)
        )


class PointPlane(PointGrid):
    """A grid of points on a plane normal to an axis."""

    if TYPE_CHECKING:
        counts: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of points."""
        return self.counts[0] * self.counts[1]

    @property
    def _sides(self) -> list[int]:
        """The axes in which the corners differ."""
        return [axis for axis, pair in enumerate(zip(self.start, self.end, strict=True)) if pair[0] != pair[1]]

    def _check_corners(self) -> None:
        """Refuse corners that do not differ in two coordinates."""
        self._check_ends()
        if len(self._sides) != 2:
            same = [name for axis, name in enumerate("xyz") if axis not in self._sides]
            got = f"start and end agree in {' and '.join(same) or 'no coordinate'}"
            raise refusal(got, "opposite corners of a plane normal to an axis differ in exactly two of x, y and z")

    def points(self) -> Iterator[tuple[float, ...]]:
        """Return the positions, the first side fastest, with the number of coordinates of the corners."""
        first, second = self._sides
        for j, i in itertools.product(range(self.counts[1]), range(self.counts[0])):
            fractions = [0.0] * len(self.start)
            fractions[first], fractions[second] = i / (self.counts[0] - 1), j / (self.counts[1] - 1)
            yield self._between(*fractions)
