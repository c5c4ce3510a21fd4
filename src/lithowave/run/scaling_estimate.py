"""Partition of a run among ranks and its predicted efficiency, for ``lithowave check --ranks N``.

Rank k has the work W_k, in updates of an interior unit; one of N ranks updates r units per second. A time step takes

    T = max_k (W_k / r + E_k),   E_k = max(0, X_k - h W_k / r),   X_k = n_k l + b_k / B

with n_k messages and b_k bytes sent by the rank in a step, message latency l, bandwidth B, and the fraction h of a step
that can overlap with communication. With local time stepping on several devices, each of the exchanges of a step adds
`EXCHANGE_SECONDS`, because the launches of a step are then not one graph. The efficiency is W / (N r T), where W is the
work of a run on one rank; the rest is lost to load imbalance, redundant computation and communication that is not
overlapped.

``lithowave check`` measures r on this machine: with one device per rank it is the rate of the device, on a CPU the
share of the cores that each of N processes has. The model neglects the lower rate of kernels on small subdomains and
other users of the network.
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

EXCHANGE_SECONDS = 5e-4
"""Measured on two H100 with 53,000 tetrahedra in four clusters: 41.6 million elements/s instead of 150 on one, that is
an additional 0.5 ms for each of the eight exchanges of a step."""

DEVICES_OF_A_HOST = 8  # connected by NVLink: a typical number, assumed for larger numbers of ranks


@dataclass(frozen=True)
class TransportModel:
    """Performance model of a transport.

    latency_s : latency of a message, s. bandwidth : bytes per second in each direction. hiding : fraction of a step
        that
    can overlap with communication. source : origin of these values.
    """

    name: str
    latency_s: float
    bandwidth: float
    hiding: float
    source: str

    def exchange_time(self, neighbors: float, sent_bytes: float) -> float:
        """Return the time, s, of the halo exchange of a rank in one step; its messages are sent sequentially."""
        return neighbors * self.latency_s + sent_bytes / self.bandwidth

    def exposed_time(self, exchange: float, work: float) -> float:
        """Return the time of an exchange that is not overlapped, s. work : computing time of the step, s."""
        return max(0.0, exchange - self.hiding * work)


# NVLink: measured 13, 15, 54 and 194 us for 0.1, 1, 10 and 50 MB, which the two values reproduce within 10%. On a CPU
# the working cores also copy the messages, so nothing overlaps. Finite differences in two passes overlap messages with
# the velocities of inner points, 13/30 of a step; one pass and elements overlap with nearly the entire step.
TRANSPORTS = {
    "peer": TransportModel("peer copies, NVLink", 12e-6, 270e9, 0.4, "as measured for NCCL between two H200"),
    "nccl": TransportModel("NCCL, NVLink", 12e-6, 270e9, 0.4, "measured between two H200 of one host"),
    "network": TransportModel("NCCL, network", 15e-6, 50e9, 0.4, "assumed: 3 us and 50 GB/s for each device"),
    "host": TransportModel("main memory and MPI", 30e-6, 7e9, 0.4, "assumed: PCIe 5 twice, a copy of 10 GB/s between"),
    "mpi": TransportModel("MPI in main memory", 5e-6, 3.3e9, 0.0, "measured on two cores, messages of 10 MB"),
}


def transport_of(backend: Backend, requested: str, ranks: int) -> TransportModel:
    """Return the transport of a run on this number of ranks. requested : value of ``compute.transport``."""
    if not backend.own_memory:
        return TRANSPORTS["mpi"]
    if requested == "host":
        return TRANSPORTS["host"]
    if ranks > DEVICES_OF_A_HOST:
        return TRANSPORTS["network"]
    return TRANSPORTS["peer" if requested == "auto" else requested]


@dataclass(frozen=True)
class ScalingEstimate:
    """Prediction for a run on several ranks; bytes, units and neighbors are the maxima over the ranks.

    parts : subdomains along x, y, z of a grid, else None. balance : mean over maximum work. repeated_work : redundant
    computation relative to all work. memory_bytes, device_memory_bytes : approximate, of the process and of the device.
    own_device : True if each rank has a separate device. speed : rate of a rank relative to a standalone run. shares :
    workload of each rank. alone_work : work of a run on one rank. value_bytes : bytes per value. step_s : time per step
        of the slowest rank, including communication; alone_s : of one rank; exchange_s, exposed_s : maxima over the
    ranks of the exchange time and of the part that is not overlapped; None without a measurement.
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
        """Return (name, text) of each entry, as printed by ``lithowave check``."""
        parts = f" in {' x '.join(map(str, self.parts))} subdomains" if self.parts else ""
        twice = f", redundant computation {self.repeated_work:.1%}" if self.repeated_work > 5e-4 else ""
        others = f"{self.neighbors} other rank{'s' * (self.neighbors != 1)}"
        rows = [
            ("ranks", f"{self.ranks}{parts}, {self.least_units:,} to {self.most_units:,} {self.unit} per rank"),
            ("balance", f"{self.balance:.1%} (mean / maximum work){twice}"),
            ("messages", f"{readable_size(self.sent_bytes)} per step, to at most {others}"),
        ]
        if self.efficiency is not None:
            way = f"{self.transport.name} ({self.transport.source})"
            step, alone = _time_text(self.step_s), _time_text(self.alone_s)
            rows += [
                ("exchange", f"{_time_text(self.exchange_s)} by {way}, {self._hidden()}"),
                ("efficiency", f"{self.efficiency:.1%} predicted: {step} per step, {alone} on one rank"),
            ]
        return rows

    def warnings(self) -> list[str]:
        """Return a warning if the ranks are predicted to take longer than one rank, with the size from which they do
        not."""
        if self.step_s is None or self.alone_s is None or not self.own_device or self.step_s <= self.alone_s:
            return []
        units, factor = sum(share.units for share in self.shares), self.step_s / self.alone_s
        enough = units * self.exposed_s / (self.alone_s * (1.0 - 1.0 / self.ranks))
        return [
            f"ranks: {self.ranks} ranks are predicted to take {factor:.2g} times as long as one rank "
            f"({_time_text(self.step_s)} per step, {_time_text(self.alone_s)} on one rank), because communication "
            f"takes {self.exposed_s / self.step_s:.0%} of a step with {units:,} {self.unit}. Use one rank; more "
            f"ranks reduce the time from about {enough:,.0f} {self.unit} with such time steps."
        ]

    def _hidden(self) -> str:
        if self.exposed_s in (0.0, self.exchange_s):
            return "overlapped" if self.exposed_s == 0 else "not overlapped"
        return f"{_time_text(self.exposed_s)} of it not overlapped"

    def timed(self, loop_s: float, steps: int) -> ScalingEstimate:
        """Return the estimate with predicted times. loop_s : measured time in the time loop on one rank, s."""
        alone_s = loop_s / steps
        rate = self.speed * self.alone_work / alone_s
        work = [share.work / rate for share in self.shares]
        exchange = [
            self.transport.exchange_time(share.neighbors * share.exchanges, self.value_bytes * share.sent_values)
            for share in self.shares
        ]
        exposed = [self.transport.exposed_time(*pair) for pair in zip(exchange, work, strict=True)]
        exchanges = max(share.exchanges for share in self.shares)
        launches = EXCHANGE_SECONDS * exchanges if self.own_device and exchanges > 1 else 0.0
        exposed = [one + launches for one in exposed]
        step = max(map(sum, zip(work, exposed, strict=True)))
        return replace(
            self, alone_s=alone_s, step_s=step, exchange_s=max(exchange) + launches, exposed_s=max(exposed),
            efficiency=self.alone_work / (self.ranks * rate * step), loop_s=step * steps,
        )  # fmt: skip


def require_ranks(simulation: Simulation, ranks: int) -> None:
    """Refuse fewer than 2 ranks, and surveys, whose shots run in separate processes instead."""
    if ranks < 2:
        raise InputError("--ranks", f"{ranks} is out of range", "allowed: integers from 2; omit --ranks for one rank")
    if simulation.survey is not None:
        raise InputError(
            "--ranks", "the file has a survey, whose shots run in separate processes",
            "allowed: files without a survey",
        )  # fmt: skip


def estimate_scaling(
    simulation: Simulation, plan: Plan, backend: Backend, need: MemoryRequirement, ranks: int, process_bytes: int
) -> ScalingEstimate:
    """Return the estimate for a run on this number of ranks, without times.

    plan, need : of a run on one rank. process_bytes : memory of a process without its arrays.

    Raises
    ------
    InputError : the grid or mesh cannot be partitioned among these ranks, or a rank would be empty.
    """
    method = load_method(simulation.solver.method)
    shares = method.partition_report(simulation, plan, ranks, backend.name)
    whole = simulation.with_overrides({"compute.parts": None})
    alone = method.partition_report(whole, plan, 1, backend.name)[0].work
    units, work = [share.units for share in shares], [share.work for share in shares]
    if min(units) < 1:
        raise InputError("--ranks", f"{ranks} ranks share {sum(units)} {plan.unit}", "allowed: at least one per rank")
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
    """Return a time as text: ``4.71 ms``, ``85.3 us``."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.4g} ms" if seconds < 1 else f"{seconds:.3g} s"
