"""Cells of mesh files, and the tables of numbers in text that list them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Cells of one kind: VTK name, IDs in the file (k,), nodes (k, n), and index (k,) of the group.

    IDs are None if the file has none. Nodes are numbered from 0; -1 is a node that the file does not contain. Group 0
    means no group.
    """

    kind: str
    ids: np.ndarray | None
    nodes: np.ndarray
    tags: np.ndarray


CellFile = tuple[np.ndarray, Sequence[CellBlock], Mapping[int, str], Mapping[int, str]]
"""Positions (n, 3) of the nodes, m; the cells; names of the groups of volumes and of those of surfaces."""


# Numbers in text


def text_numbers(text: bytes, kind: type, line: int) -> np.ndarray:
    """Return all numbers, int or float, of a text; Fortran's exponent letter D is allowed.

    line : line number of the text's first line in the file. ValueError: a word is not such a number, with its line.
    """
    if not text.strip():
        return np.zeros(0, kind)
    attempts = [text]
    if kind is float and re.search(rb"\d[dD]", text):
        attempts = [text.translate(bytes.maketrans(b"dD", b"ee"))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy up to 2.2 only warns of other words
            return np.fromstring(attempts[0], kind, sep=" ")
    except (ValueError, DeprecationWarning):
        pass
    for number, row in enumerate(attempts[0].split(b"\n"), line):
        for word in row.split():
            try:
                kind(word)
            except ValueError:
                shown = word[:30].decode("latin-1")
                what = "an integer" if kind is int else "a number"
                raise ValueError(f"line {number}: '{shown}' is not {what}") from None
    raise ValueError(f"there is a word that is not a number after line {line}")


def whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return the values as integers. ValueError: one is not an integer."""
    if not ((values == np.rint(values)) & (np.abs(values) < 2.0**53)).all():
        raise ValueError("there is a value that is not an integer")
    return values.astype(np.int64)


class TextNumbers:
    """Numbers of a text, read sequentially."""

    def __init__(self, text: bytes, kind: type, line: int) -> None:
        self.values, self.place = text_numbers(text, kind, line), 0

    def reals(self, count: int) -> np.ndarray:
        """Return the next numbers. ValueError: there are fewer."""
        if not 0 <= count <= len(self.values) - self.place:
            raise ValueError(f"there are {len(self.values) - self.place} numbers where {count} should follow")
        self.place += count
        return self.values[self.place - count : self.place]

    def ints(self, count: int) -> np.ndarray:
        """Return the next numbers, which must be integers."""
        return whole_numbers(self.reals(count))

    sizes = ints

    @property
    def done(self) -> bool:
        """True if all numbers have been read."""
        return self.place == len(self.values)


def alike_rows(values: np.ndarray, length: int, columns: slice) -> int:
    """Return the number of leading rows of `values` that equal the first one in some columns."""
    count, step, room = 0, 64, len(values) // length
    while count < room:
        some = values[count * length : min(room, count + step) * length].reshape(-1, length)
        alike = (some[:, columns] == values[columns]).all(axis=1)
        if not alike.all():
            return count + int(np.argmin(alike))
        count, step = count + len(some), 4 * step
    return count


def row_runs(values: np.ndarray, width: Callable[[int, int], int]) -> Iterator[np.ndarray]:
    """Yield batches of consecutive rows (k, width) of `values` with equal second and third numbers.

    width : length of a row as a function of these two numbers. ValueError: the last row is not complete.
    """
    place = 0
    while place < len(values):
        if place + 3 > len(values):
            raise ValueError(f"the row of element {values[place]} ends too early")
        first, second = values[place + 1 : place + 3].tolist()
        length = width(first, second)
        if length > len(values) - place:
            raise ValueError(f"the row of element {values[place]} ends too early")
        count = alike_rows(values[place:], length, slice(1, 3))
        yield values[place : place + count * length].reshape(count, length)
        place += count * length


def refuse_odd_rows(text: bytes, width: Callable[[int, int], int], line: int) -> None:
    """ValueError: a line has more or fewer numbers than its second and third numbers require."""
    for number, row in enumerate(text.split(b"\n"), line):
        words = [int(word) for word in row.split()]
        if words and (len(words) < 3 or len(words) != width(*words[1:3])):
            got = f"line {number}: the row of element {words[0]} has {len(words)} numbers"
            raise ValueError(f"{got}, which does not match its type")


Places = Callable[[np.ndarray], np.ndarray]
"""Function from IDs in the file to indices, -1 for unknown IDs."""


def place_finder(numbers: np.ndarray, what: str) -> Places:
    """Return a function from requested IDs to their indices in `numbers` (n,).

    ValueError: an ID is repeated; `what` names the kind of item.
    """
    count = len(numbers)
    if (numbers == np.arange(1, count + 1)).all():
        return lambda wanted: np.where((wanted >= 1) & (wanted <= count), wanted - 1, -1)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    double = ordered[1:] == ordered[:-1]
    if double.any():
        raise ValueError(f"{what} {ordered[np.argmax(double)]} appears twice")

    def places(wanted: np.ndarray) -> np.ndarray:
        spots = np.minimum(np.searchsorted(ordered, wanted), count - 1)
        return np.where(ordered[spots] == wanted, order[spots], -1)

    return places
