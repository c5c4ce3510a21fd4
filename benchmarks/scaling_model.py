"""The model behind `scaling.py`: what a step takes on how many ranks.

With U units (points, elements) in each rank, b bytes that a rank sends to n others in a step,

    alone      t = a + U / r
    silent     t + c0 + c1 b                      being cut: ghosts done twice, numbers packed, more kernels
    exchange   X = x0 + n l + b / B               waited - silent
    step       silent + max(e X, X - h U / r)     overlapped

r, a, c0, c1, x0, l, B and e are fitted to records, none negative, each difference by its relative error; h, the work
behind which messages may hide, is that of `lithowave.run.check`. Where all records have the same number of
neighbours x0 and n l cannot be told apart: all is then counted as latency, which grows with the neighbours.

On more ranks these are assumed: blocks as cubic as can be, of which the worst has neighbours on all sides; b grows with
the area of its faces, U^(2/3); ranks fill hosts in their order, x fastest; between hosts each message takes
`NETWORK_LATENCY` longer, and bytes go at `NETWORK_BANDWIDTH` for each device, whoever else sends, but not faster than
within a host. Work is even.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lithowave.mesh.grid import products_of_three
from lithowave.run.check import TRANSPORTS

NETWORK_LATENCY, NETWORK_BANDWIDTH = 3e-6, 50e9  # s, bytes/s: assumptions
HIDING = TRANSPORTS["nccl"].hiding

Record = dict[str, Any]
Counts = tuple[int, int, int]


class Same(NamedTuple):
    """What records of one model have in common."""

    method: str
    accuracy: str
    precision: str
    device: str
    options: str

    def __str__(self) -> str:
        return ", ".join(part for part in self if part)


class Group(NamedTuple):
    """What records of one table of efficiencies have in common; size : of a rank (weak) or of all (strong)."""

    method: str
    accuracy: str
    precision: str
    device: str
    options: str
    kind: str
    size: tuple[int, ...]


def group_of(record: Record) -> Same:
    """Records with the same are fitted together."""
    options = ", ".join(f"{name} {value}" for name, value in record.get("options", {}).items())
    return Same(record["method"], record["accuracy"], record["precision"], record["device"], options)


def table_of(record: Record) -> Group:
    """Records with the same are compared."""
    return Group(*group_of(record), record["kind"], tuple(record["size"]))


def grouped(records: Iterable[Record], by: Callable[[Record], Any] = table_of) -> dict[Any, list[Record]]:
    """Records that belong together, rising with the ranks."""
    found: dict[Any, list[Record]] = {}
    for record in sorted(records, key=lambda one: one["ranks"]):
        found.setdefault(by(record), []).append(record)
    return found


def efficiency(record: Record, alone: Record) -> float:
    """Rate of a rank over that of one alone: of weak and of strong scaling."""
    rate = record["updates"] / record["best_s"].get("overlapped", record["best_s"].get("alone"))
    return rate / record["ranks"] / (alone["updates"] / alone["best_s"]["alone"])


# ------------------------------------------------------------------------------------------------- blocks of ranks


def cubic_counts(ranks: int) -> Counts:
    """Blocks along x, y, z, as cubic as can be; most along y, fewest along x, where rows of memory would be cut."""
    x, z, y = min((sorted(counts) for counts in products_of_three(ranks)), key=lambda one: (sum(one), one))
    return x, y, z


def faces_of(counts: Counts) -> int:
    """Of the block that has most, faces towards others."""
    return sum(min(count - 1, 2) for count in counts)


def neighbors_of(counts: Counts) -> int:
    """Of the block that has most, others that touch it."""
    return int(np.prod([min(count, 3) for count in counts])) - 1


def inside_host(counts: Counts, devices: int) -> tuple[int, int]:
    """Of a block at the corner of its host's: faces towards, and neighbours among, the ranks of the same host."""
    room, block = devices, []
    for count in counts:
        block.append(min(count, max(1, room)))
        room //= block[-1]
    # Where a host has all blocks of an axis the worst one has neighbours there on both sides, else on one.
    near = [min(own, 3 if own == count else 2) for own, count in zip(block, counts, strict=True)]
    faces = sum(near) - 3
    return faces, int(np.prod(near)) - 1


# -------------------------------------------------------------------------------------------------------- the model


class Prediction(NamedTuple):
    """Seconds of a step, of its exchange, and of what is not hidden of that."""

    step_s: float
    exchange_s: float
    exposed_s: float


@dataclass(frozen=True)
class Model:
    """Fitted numbers; see the head of this file.

    unit_s : 1/r. fixed_s : a. cut_s, cut_s_per_byte : c0, c1. exchange_s : x0. latency_s : l. s_per_byte : 1/B.
    exposed : e. face_bytes : sent over a face of a block of U units, over U^(2/3). units : the most of a rank that was
    measured. separate : whether x0 and l could be told apart.
    """

    unit: str
    unit_s: float
    fixed_s: float
    cut_s: float
    cut_s_per_byte: float
    exchange_s: float
    latency_s: float
    s_per_byte: float
    exposed: float
    face_bytes: float
    units: float
    separate: bool

    def alone_time(self, units: float) -> float:
        """Seconds of a step on one rank."""
        return self.fixed_s + units * self.unit_s

    def exchange_time(self, neighbors: float, sent_bytes: float) -> float:
        """Seconds of an exchange within a host."""
        return self.exchange_s + neighbors * self.latency_s + sent_bytes * self.s_per_byte

    def predict(
        self, ranks: int, units: float, devices: int = 8, latency: float = NETWORK_LATENCY,
        bandwidth: float = NETWORK_BANDWIDTH,
    ) -> Prediction:  # fmt: skip
        """A step on so many ranks of so many units each. devices : of a host; latency, bandwidth : between hosts."""
        counts = cubic_counts(ranks)
        faces, neighbors = faces_of(counts), neighbors_of(counts)
        near_faces, near = (faces, neighbors) if ranks <= devices else inside_host(counts, devices)
        area = self.face_bytes * units ** (2 / 3)
        exchange = self.exchange_time(neighbors, near_faces * area) if ranks > 1 else 0.0
        exchange += (neighbors - near) * latency + (faces - near_faces) * area * max(1 / bandwidth, self.s_per_byte)
        cut = self.cut_s + self.cut_s_per_byte * faces * area if ranks > 1 else 0.0
        exposed = max(self.exposed * exchange, exchange - HIDING * units * self.unit_s)
        return Prediction(self.alone_time(units) + cut + exposed, exchange, exposed)

    def lines(self) -> list[tuple[str, str]]:
        """Name and value."""
        bandwidth = f"{1e-9 / self.s_per_byte:.4g} GB/s each way" if self.s_per_byte else "no limit seen"
        return [
            ("rate", f"{1 / self.unit_s:.4g} {self.unit}/s"),
            ("fixed, of a step", f"{1e6 * self.fixed_s:.3g} us"),
            ("being cut", f"{1e6 * self.cut_s:.3g} us and {1e9 * self.cut_s_per_byte * 1e3:.3g} us a MB"),
            ("fixed, of an exchange", f"{1e6 * self.exchange_s:.3g} us" if self.separate else "counted as latency"),
            ("latency, of a message", f"{1e6 * self.latency_s:.3g} us"),
            ("bandwidth", bandwidth),
            ("not hidden", f"{self.exposed:.1%} of an exchange"),
        ]


def require_records(records: Sequence[Record], what: str) -> None:
    """Refuse what nothing can be fitted to."""
    kinds = {record["ranks"] > 1 for record in records}
    if kinds != {True, False}:
        raise SystemExit(f"{what}: records of one rank and of several are needed, of the same method, order and device")
    if len({record["sent_bytes"] for record in records if record["ranks"] > 1}) < 2:
        raise SystemExit(f"{what}: messages of one size tell nothing of latency and bandwidth: measure a second size")


def fit_model(records: Sequence[Record]) -> Model:
    """The model that comes nearest to some records of one method on one kind of device."""
    alone = [one for one in records if one["ranks"] == 1]
    several = [one for one in records if one["ranks"] > 1]
    units = np.array([one["units"] for one in alone], float)
    times = np.array([one["best_s"]["alone"] for one in alone])
    columns = [units] if len(set(units)) == 1 else [units, np.ones(len(units))]
    unit_s, fixed_s = [*nonnegative(columns, times, times), 0.0][:2]

    sent, neighbors = (np.array([one[name] for one in several], float) for name in ("sent_bytes", "neighbors"))
    each = np.array([one["units"] / one["ranks"] for one in several])
    waited, silent, over = (
        np.array([one["best_s"][way] for one in several]) for way in ("waited", "silent", "overlapped")
    )
    ones, cut = np.ones(len(several)), silent - fixed_s - unit_s * each
    cut_s, cut_s_per_byte = nonnegative([ones, sent], cut, silent)

    exchange = waited - silent
    separate = len(set(neighbors)) > 1
    terms = [neighbors, sent, ones] if separate else [neighbors, sent]
    latency_s, s_per_byte, exchange_s = [*nonnegative(terms, exchange, np.maximum(exchange, 1e-6)), 0.0][:3]
    exposed = float(np.clip(np.sum(over - silent) / max(np.sum(exchange), 1e-12), 0.0, 1.0))
    counts = [one["parts"] or cubic_counts(one["ranks"]) for one in several]
    areas = [faces_of(count) * size ** (2 / 3) for count, size in zip(counts, each, strict=True)]
    return Model(
        unit=records[0]["unit"], unit_s=unit_s, fixed_s=fixed_s, cut_s=cut_s, cut_s_per_byte=cut_s_per_byte,
        exchange_s=exchange_s, latency_s=latency_s, s_per_byte=s_per_byte, exposed=exposed,
        face_bytes=float(np.mean(sent / np.array(areas))), units=float(max(units.max(), each.max())), separate=separate,
    )  # fmt: skip


def nonnegative(columns: Sequence[np.ndarray], values: np.ndarray, scale: np.ndarray) -> list[float]:
    """c >= 0 with the least sum of ((columns c - values) / scale)^2: the best of all choices of columns."""
    matrix, wanted = np.stack(columns, axis=1) / scale[:, None], values / scale
    best, found = float(np.sum(wanted**2)), np.zeros(len(columns))
    for count in range(1, len(columns) + 1):
        for chosen in map(list, itertools.combinations(range(len(columns)), count)):
            norms = np.linalg.norm(matrix[:, chosen], axis=0)
            if not norms.all():
                continue
            some = np.linalg.lstsq(matrix[:, chosen] / norms, wanted, rcond=None)[0] / norms
            error = float(np.sum((matrix[:, chosen] @ some - wanted) ** 2))
            if (some >= 0).all() and error < best * (1 - 1e-9):
                best, found = error, np.zeros(len(columns))
                found[chosen] = some
    return found.tolist()
