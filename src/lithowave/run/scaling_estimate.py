"""How the ranks of a run would share its work, and how well that would go: for `lithowave check --ranks N`.

Rank k has the work W_k, in updates of a plain unit, of which one of N ranks makes r in a second. A step then takes

    T = max_k (W_k / r + E_k),   E_k = max(0, X_k - h W_k / r),   X_k = n_k l + b_k / B

with n_k neighbours, b_k bytes that the rank sends, l the latency of a message, B the bandwidth, and h the part of a
step behind which messages can be hidden. The efficiency is W / (N r T), where W is the work of a run on one rank: the
rest is lost to uneven parts, to work done on both sides, and to what of the exchange is not hidden.

r is what `lithowave check` measures on this machine: with a device for each rank its rate, on a CPU what each of N
processes has of the cores. Not in the model: what kernels lose on small parts, and other users of the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lithowave.backends.cpu import usable_cores
from lithowave.backends.interface import Backend
from lithowave.errors import InputError
from lithowave.output.hdf5 import readable_size
from lithowave.run.memory import MemoryRequirement
from lithowave.solvers import load_method
from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.interface import Plan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

DEVICES_OF_A_HOST = 8  # that NVLink connects: what is usual, and assumed where there are more ranks


@dataclass(frozen=True)
class TransportModel:
    """How messages travel.

    latency_s : of a message. bandwidth : bytes a second each way. hiding : part of a step behind which messages can be
    hidden. source : where the numbers are from.
    """

    name: str
    latency_s: float
    bandwidth: float
    hiding: float
    source: str

    def exchange_time(self, neighbors: float, sent_bytes: float) -> float:
        """Seconds until what a rank sends and receives in a step has travelled; its messages one after another."""
        return neighbors * self.latency_s + sent_bytes / self.bandwidth

    def exposed_time(self, exchange: float, work: float) -> float:
        """What of an exchange is left when the work that may be done meanwhile is done; work : of the step, s."""
        return max(0.0, exchange - self.hiding * work)


# NVLink: of 13, 15, 54 and 194 us for 0.1, 1, 10 and 50 MB, which the two numbers meet within a tenth. On a CPU the
# cores that work bring the messages, too, so that nothing is hidden. Finite differences in two passes hide messages
# behind the velocities of inner points, 13/30 of a step; one pass and elements behind nearly all of it, in large parts.
TRANSPORTS = {
    "peer": TransportModel("peer copies, NVLink", 12e-6, 270e9, 0.4, "as measured for NCCL between two H200"),
    "nccl": TransportModel("NCCL, NVLink", 12e-6, 270e9, 0.4, "measured between two H200 of one host"),
    "network": TransportModel("NCCL, network", 15e-6, 50e9, 0.4, "assumed: 3 us and 50 GB/s for each device"),
    "host": TransportModel("main memory and MPI", 30e-6, 7e9, 0.4, "assumed: PCIe 5 twice, a copy of 10 GB/s between"),
    "mpi": TransportModel("MPI in main memory", 5e-6, 3.3e9, 0.0, "measured on two cores, messages of 10 MB"),
}


def transport_of(backend: Backend, wanted: str, ranks: int) -> TransportModel:
    """What a run on so many ranks would take. wanted : as ``compute.transport``."""
    if not backend.own_memory:
        return TRANSPORTS["mpi"]
    if wanted == "host":
        return TRANSPORTS["host"]
    if ranks > DEVICES_OF_A_HOST:
        return TRANSPORTS["network"]
    return TRANSPORTS["peer" if wanted == "auto" else wanted]


@dataclass(frozen=True)
class ScalingEstimate:
    """What `check` tells of a run on several ranks; bytes, units and neighbours are those of the rank that has most.

    parts : slices along x, y, z, where the ranks have straight ones. balance : mean over largest work. repeated_work :
    done by more than one rank, in parts of all. memory_bytes, device_memory_bytes : about; of the process, of the
    device. own_device : whether each rank has a device of its own. speed : of a rank, in parts of that of one alone.
    shares : of all ranks. alone_work : of one rank that does all. value_bytes : of a number. step_s : of the slowest
    rank, exchange included; alone_s : of one rank; exchange_s, exposed_s : of the rank that exchanges longest, and
    that waits longest; None where nothing was measured.
    """

    ranks: int
    parts: list[int] | None
    unit: str
    least_units: int
    most_units: int
    balance: float
    repeated_work: float
    neighbors: int
    sent_bytes: int
    memory_bytes: int
    device_memory_bytes: int | None
    own_device: bool
    speed: float
    transport: TransportModel
    shares: list[RankWorkload]
    alone_work: float
    value_bytes: int
    alone_s: float | None = None
    step_s: float | None = None
    exchange_s: float | None = None
    exposed_s: float | None = None
    efficiency: float | None = None
    loop_s: float | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Name and value, as `check` prints them."""
        parts = f" in {' x '.join(map(str, self.parts))} parts" if self.parts else ""
        twice = f"; {self.repeated_work:.1%} of the work is done twice" if self.repeated_work > 5e-4 else ""
        others = f"{self.neighbors} other rank{'s' * (self.neighbors != 1)}"
        told = [
            ("ranks", f"{self.ranks}{parts}, {self.least_units:,} to {self.most_units:,} {self.unit} in each"),
            ("balance", f"{self.balance:.1%} (mean over largest work){twice}"),
            ("messages", f"{readable_size(self.sent_bytes)} sent in a step, to {others} at most"),
        ]
        if self.efficiency is not None:
            way = f"{self.transport.name} ({self.transport.source})"
            step, alone = _time_text(self.step_s), _time_text(self.alone_s)
            told += [
                ("exchange", f"{_time_text(self.exchange_s)} by {way}, {self._hidden()}"),
                ("efficiency", f"{self.efficiency:.1%} predicted: {step} a step, on one rank {alone}"),
            ]
        return told

    def _hidden(self) -> str:
        if self.exposed_s in (0.0, self.exchange_s):
            return "hidden" if self.exposed_s == 0 else "not hidden"
        return f"{_time_text(self.exposed_s)} of it not hidden"

    def timed(self, loop_s: float, steps: int) -> ScalingEstimate:
        """With what the model predicts. loop_s : of a run on one rank, as it was measured."""
        alone_s = loop_s / steps
        rate = self.speed * self.alone_work / alone_s
        work = [share.work / rate for share in self.shares]
        exchange = [
            self.transport.exchange_time(share.neighbors, self.value_bytes * share.sent_values) for share in self.shares
        ]
        exposed = [self.transport.exposed_time(*pair) for pair in zip(exchange, work, strict=True)]
        step = max(map(sum, zip(work, exposed, strict=True)))
        return replace(
            self, alone_s=alone_s, step_s=step, exchange_s=max(exchange), exposed_s=max(exposed),
            efficiency=self.alone_work / (self.ranks * rate * step), loop_s=step * steps,
        )  # fmt: skip


def require_ranks(simulation: Simulation, ranks: int) -> None:
    """Refuse a number of ranks that is no partition, and surveys, whose shots run beside each other instead."""
    if ranks < 2:
        raise InputError("--ranks", f"{ranks} is out of range", "expected 2 or more; without --ranks it is one")
    if simulation.survey is not None:
        raise InputError(
            "--ranks", "this is a survey, whose shots run in processes of their own",
            "Only a single shot runs on several ranks",
        )  # fmt: skip


def estimate_scaling(
    simulation: Simulation, plan: Plan, backend: Backend, need: MemoryRequirement, ranks: int, process_bytes: int
) -> ScalingEstimate:
    """What a run on so many ranks would be like.

    plan, need : of a run on one rank. process_bytes : of a process without its arrays.

    Raises
    ------
    InputError : the grid or mesh cannot be cut into so many parts, or a rank would have nothing.
    """
    method = load_method(simulation.solver.method)
    shares = method.partition_report(simulation, plan, ranks, backend.name)
    whole = simulation.with_overrides({"compute.parts": None})
    alone = method.partition_report(whole, plan, 1, backend.name)[0].work
    units, work = [share.units for share in shares], [share.work for share in shares]
    if min(units) < 1:
        raise InputError("--ranks", f"{ranks} ranks for {sum(units)} {plan.unit}", "Each needs some", "fewer ranks")
    sent = max(share.sent_values for share in shares) * backend.dtype.itemsize
    part = max(units) / sum(units)
    main, device = (None if one is None else math.ceil(part * one) + 2 * sent for one in (need.main, need.device))
    return ScalingEstimate(
        ranks=ranks,
        parts=None if shares[0].parts is None else list(shares[0].parts),
        unit=plan.unit,
        least_units=min(units),
        most_units=max(units),
        balance=sum(work) / len(work) / max(work),
        repeated_work=max(0.0, sum(work) / alone - 1.0),
        neighbors=max(share.neighbors for share in shares),
        sent_bytes=sent,
        memory_bytes=main + process_bytes,
        device_memory_bytes=device,
        own_device=backend.own_memory,
        speed=1.0 if backend.own_memory else min(1.0, usable_cores() / (ranks * backend.facts()["threads"])),
        transport=transport_of(backend, simulation.compute.transport, ranks),
        shares=shares,
        alone_work=alone,
        value_bytes=backend.dtype.itemsize,
    )


def _time_text(seconds: float) -> str:
    """``4.71 ms``, ``85.3 us``."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.4g} ms" if seconds < 1 else f"{seconds:.3g} s"
