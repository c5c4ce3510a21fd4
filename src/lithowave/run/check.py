"""The dry run: memory, run time, output and summary of a simulation, and its partition among ranks.

For ``lithowave check --ranks N``: rank k has the work W_k, in updates of an interior unit; one of N ranks updates r
units per second. A time step takes

    T = max_k (W_k / r + E_k),   E_k = max(0, X_k - h W_k / r),   X_k = n_k l + b_k / B

with n_k messages and b_k bytes sent by the rank in a step, message latency l, bandwidth B, and the fraction h of a step
that can overlap with communication. With local time stepping on several devices, each of the exchanges of a step adds
`EXCHANGE_SECONDS`, because the launches of a step are then not one graph. The efficiency is W / (N r T), where W is the
work of a run on one rank; the rest is lost to load imbalance, redundant computation and communication that is not
overlapped.

r is measured on this machine: with one device per rank it is the rate of the device, on a CPU the share of the cores
that each of N processes has. The model neglects the lower rate of kernels on small subdomains and other users of the
network.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lithowave.backends import make_backend
from lithowave.backends.cpu import host_threads_in_use, usable_cores
from lithowave.backends.interface import Backend
from lithowave.checks.description import axes_line, axes_summary
from lithowave.checks.materials import model_report
from lithowave.description.simulation import Simulation
from lithowave.description.solver import error_text
from lithowave.errors import OVERWRITE, InputError, LithowaveError, MissingPackageError, ResourceError
from lithowave.labels import first_names
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.media.earth import EarthMedium
from lithowave.output.files import MEASURED_BYTES, disk_rate, readable_size
from lithowave.output.run_folder import existing_outputs
from lithowave.output.waveforms import check_names
from lithowave.run.machine_rates import CHECK, store_rate
from lithowave.run.preparation import Preparation, prepare
from lithowave.run.progress import rate_key, rate_text
from lithowave.run.requirements import (
    MemoryRequirement,
    free_device_memory,
    free_main_memory,
    require_mesh_memory,
)
from lithowave.solvers import load_method
from lithowave.solvers.common.reports import RankWorkload
from lithowave.solvers.interface import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lithowave.json_types import Entries


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
    shares = method.partition_report(simulation.experiment, plan, ranks, backend.name)
    whole = simulation.with_overrides({"compute.parts": None})
    alone = method.partition_report(whole.experiment, plan, 1, backend.name)[0].work
    units, work = [share.units for share in shares], [share.work for share in shares]
    if min(units) < 1:
        raise InputError("--ranks", f"{ranks} ranks share {sum(units)} {plan.unit}", "allowed: at least one per rank")
    sent = max(share.sent_values for share in shares) * backend.dtype.itemsize
    part = max(units) / sum(units)
    main, device = (None if one is None else math.ceil(part * one) + 2 * sent for one in (need.main, need.device))
    return ScalingEstimate(
        ranks=ranks, parts=None if shares[0].parts is None else list(shares[0].parts), unit=plan.unit,
        least_units=min(units), most_units=max(units), balance=sum(work) / len(work) / max(work),
        repeated_work=max(0.0, sum(work) / alone - 1.0), neighbors=max(share.neighbors for share in shares),
        sent_bytes=sent, memory_bytes=main + process_bytes, device_memory_bytes=device, own_device=backend.own_memory,
        speed=1.0 if backend.own_memory else min(1.0, usable_cores() / (ranks * backend.facts()["threads"])),
        transport=transport_of(backend, simulation.compute.transport, ranks), shares=shares, alone_work=alone,
        value_bytes=backend.dtype.itemsize,
    )  # fmt: skip


def _time_text(seconds: float) -> str:
    """Return a time as text: ``4.71 ms``, ``85.3 us``."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.4g} ms" if seconds < 1 else f"{seconds:.3g} s"


def source_line(summary: Entries, resolved: float | None) -> str:
    """Return the text of a summary; resolved : highest frequency that the discretization resolves, Hz."""
    parts = [f"{summary['count']:,} point source{'s' * (summary['count'] > 1)}"]
    if "moment_n_m" in summary:
        parts.append(f"moment {summary['moment_n_m']:.4g} N m (Mw {summary['moment_magnitude']:.2f})")
    parts.append(_depths(*summary["depth_m"]))
    parts.append(f"from {summary['begin_s']:.4g} to {summary['end_s']:.4g} s")
    limit = "" if resolved is None else f" ({resolved:.3g} Hz are resolved)"
    return ", ".join(parts) + f"; spectrum to {summary['frequency_hz']:.3g} Hz{limit}"


def receiver_line(simulation: Simulation) -> str:
    """Return the number, the first and last name, and the depths below the surface of the receivers."""
    names = simulation.acquisition.receiver_names
    if not names:
        return "none: the run records no seismograms"
    x, y, z = simulation.acquisition.receiver_positions.T
    depths = simulation.domain.surface_height(x, y) - z + 0.0
    named = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{len(names):,} ({named}), {_depths(float(depths.min()), float(depths.max()))}"


def _depths(low: float, high: float) -> str:
    return f"depth {low:.6g} m" if low == high else f"depths {low:.6g} to {high:.6g} m"


def layer_lines(simulation: Simulation) -> list[tuple[str, str]]:
    """Return (name, text) of the lines about layers with surfaces or gradients, or of radial models, that `check`
    prints."""
    medium = simulation.material.medium
    return medium.lines(simulation.domain) if isinstance(medium, (BoundedLayers, EarthMedium)) else []


# Memory of a Python process with the packages loaded and the kernels compiled, without the arrays of a run.
PROCESS_BYTES = 200_000_000
SHOWN_SHARE = 0.05  # of the time loop: shorter times of outputs are not printed
WARNED_SECONDS = 10.0  # shorter times of outputs cause no warning


@dataclass(frozen=True)
class AccuracyLevel:
    """Estimates for a level of ``solver.accuracy``, or ``this run``.

    points : per shortest wavelength. error : relative error of seismograms; None if not measured. loop_s : time of the
    loop, s; None if not measured.
    """

    name: str
    points: float
    error: float | None
    loop_s: float | None

    def text(self) -> str:
        """Return the estimates as text: ``standard (7 points): error about 0.3%, 12 s``."""
        error = "" if self.error is None else f"error about {error_text(self.error)}"
        parts = [error, "" if self.loop_s is None else f"about {duration_text(self.loop_s)}"]
        return f"{self.name} ({self.points:.3g} points): " + ", ".join(part for part in parts if part)


def accuracy_levels(simulation: Simulation, loop_s: float | None) -> list[AccuracyLevel]:
    """Return the estimates of this run and of the levels of accuracy; empty without a known resolution.

    Times are proportional to the fourth power of the points per wavelength: three directions, and the time step.
    """
    solver, wavelength = simulation.solver, simulation.shortest_wavelength
    points = None if wavelength is None else solver.resolution_points(wavelength) or solver.points_per_wavelength
    levels = solver.accuracy_levels()
    if solver.mesh is not None or points is None or not levels:
        return []
    if not any(abs(one - points) < 1e-6 * points for one in levels.values()):
        levels = {"this run": points} | levels
    return [
        AccuracyLevel(name, one, solver.estimated_error(one), loop_s and loop_s * (one / points) ** 4)
        for name, one in levels.items()
    ]


class Report(Protocol):
    """What is printed of a report of a run or of a survey."""

    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def problems(self) -> Sequence[str]: ...
    def lines(self) -> list[tuple[str, str]]: ...


@dataclass(frozen=True)
class CheckReport:
    """Requirements and predicted time of a run, as reported by ``lithowave check``.

    Attributes
    ----------
    title : title of the simulation.
    plan, plan_lines : the discretization, as a dictionary and as (name, text) for printing.
    backend, device : ``cpu`` or ``cuda``, and the name of the processor or GPU.
    threads : threads of the CPU backend; None on a GPU.
    memory_bytes, free_memory_bytes : main memory of the process, and free main memory.
    device_memory_bytes, free_device_memory_bytes : the same for the GPU; None on a CPU.
    unit, rate : ``points`` or ``elements``, and their updates per second; None if not measured.
    loop_s : predicted time in the time loop, s, from measurements on this machine: that of the steps, or of writing if
        this takes longer; None if not measured.
    outputs_s : predicted time of writing all files, s, while the time loop continues; None if not measured.
    output_bytes, free_disk_bytes : size of all files of the complete run, with its last checkpoint, and free disk
        space.
    warnings : entries that are allowed but may not be intended.
    problems : reasons why the run would fail on this machine; empty if it can run.
    partition : the partition among several MPI ranks, if requested; the memory and time of the other attributes are
        those of a run on one rank.
    ranks_per_machine : number of these ranks that fit on this machine; None without a partition.
    model, model_lines : ranges of the material model and its coverage of the domain, as `plan` and `plan_lines`.
    accuracy : estimated error and time of the levels of ``solver.accuracy`` and of this run, if they were measured.
    """

    title: str
    plan: Entries
    plan_lines: list[tuple[str, str]]
    backend: str
    device: str
    threads: int | None
    memory_bytes: int
    free_memory_bytes: int
    device_memory_bytes: int | None
    free_device_memory_bytes: int | None
    unit: str
    rate: float | None
    loop_s: float | None
    output_bytes: int
    free_disk_bytes: int
    warnings: list[str]
    problems: list[str]
    partition: ScalingEstimate | None = None
    ranks_per_machine: int | None = None
    model: Entries = field(default_factory=dict)
    model_lines: list[tuple[str, str]] = field(default_factory=list)
    outputs_s: float | None = None
    accuracy: list[AccuracyLevel] = field(default_factory=list)

    @property
    def runnable(self) -> bool:
        """True if the run, with all of its ranks, can run on this machine."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """One line that states whether the run can run on this machine."""
        ranks = 1 if self.partition is None else self.partition.ranks
        if self.runnable:
            return "this run would work here" + (f", with all {ranks} ranks on this machine" if ranks > 1 else "")
        fitting = self.ranks_per_machine or 0
        if len(self.problems) > 1 or not 0 < fitting < ranks:
            return "this run would fail here"
        return (
            f"this run would fail with all {ranks} ranks on this machine; it needs at least {-(-ranks // fitting)} "
            f"machines like this one, with at most {fitting} rank{'s' * (fitting > 1)} on each"
        )

    def as_dict(self) -> Entries:
        """Return all entries as plain values for JSON."""
        entries = asdict(self) | {rate_key(self.unit): self.rate, "runnable": self.runnable}
        return {name: entry for name, entry in entries.items() if name not in ("plan_lines", "model_lines", "rate")}

    def lines(self) -> list[tuple[str, str]]:
        """Return (name, text) of each entry, in printing order."""
        rows = [*self.plan_lines, *self.model_lines, *self._sizes()]
        if self.loop_s is not None:
            speed = rate_text(self.rate, self.unit)
            rows.append(("time", f"{duration_text(self.loop_s)} on {self._place()} ({speed} measured)"))
            if self.outputs_s is not None and self.outputs_s > SHOWN_SHARE * self.loop_s:
                rows.append(("time of outputs", f"{duration_text(self.outputs_s)} to write, during the time loop"))
        if self.accuracy:
            rows.append(("accuracy", "; ".join(level.text() for level in self.accuracy)))
        if self.partition is not None:
            rows += self.partition.lines()
            if self.partition.loop_s is not None:
                each = "each on a device like this one" if self.partition.own_device else "which share this CPU"
                time = duration_text(self.partition.loop_s)
                rows.append((f"time on {self.partition.ranks} ranks", f"{time}, {each}"))
        return rows

    def _sizes(self) -> list[tuple[str, str]]:
        """Return the sizes; with a partition, the approximate memory of the rank that requires most."""
        one = self if self.partition is None else self.partition
        of, about = ("", "") if self.partition is None else (" of a rank", "about ")
        rows = [
            (f"GPU memory{of}", about, one.device_memory_bytes, self.free_device_memory_bytes),
            (f"memory{of}", about, one.memory_bytes, self.free_memory_bytes),
            ("output", "", self.output_bytes, self.free_disk_bytes),
        ]
        if self.partition is not None:
            all_ranks = self.partition.ranks * self.partition.memory_bytes
            rows.insert(2, (f"memory of {self.partition.ranks} ranks", about, all_ranks, self.free_memory_bytes))
        present = (row for row in rows if row[2] is not None)
        return [(name, f"{how}{readable_size(size)}; {readable_size(free)} free") for name, how, size, free in present]

    def _place(self) -> str:
        if self.threads is None:
            return self.device
        return f"{self.backend}, {self.threads} thread{'s' * (self.threads > 1)}"

    def __str__(self) -> str:
        return report_text(self)


def report_text(report: Report) -> str:
    """Return the entries, warnings and problems of a report of a run or of a survey, one per line."""
    lines = [*report.lines(), *(("warning", text) for text in report.warnings)]
    lines += [("PROBLEM", text) for text in report.problems]
    return "\n".join(f"{name:>22}: {value}" for name, value in lines)


@host_threads_in_use()
def check_simulation(simulation: Simulation, *, measure: bool = True, ranks: int | None = None) -> CheckReport:
    """Plan a run and report its requirements, without running it.

    Parameters
    ----------
    simulation : the validated description.
    measure : time a few steps on a small grid, or on a part of the mesh, to predict the run time (a few seconds).
    ranks : report also the partition and load balance for this number of MPI ranks, at least 2; `problems` then
        compares the memory of one rank with the free memory.

    Returns
    -------
    CheckReport : sizes, predicted time, warnings and problems. Missing memory, disk space, packages or devices are
        listed in `problems`; without a requested GPU, the sizes are those of a run on the CPU.

    Raises
    ------
    InputError : the description is invalid, or cannot be partitioned among this number of ranks.
    """
    if ranks is not None:
        require_ranks(simulation, ranks)
    backend, problems = _backend(simulation)
    require_mesh_memory(simulation, backend)
    prepared = prepare(simulation, backend)
    plan, sizes = prepared.plan, prepared.outputs
    plan.require_points(simulation.experiment)
    memory = _memory(prepared, ranks)
    directory = Path(simulation.output.directory)
    problems += memory.problems + _disk_problems(directory, sizes.at_once) + _missing_packages(simulation)
    loop = outputs = None
    if measure and not problems:
        loop, outputs = _predicted_times(simulation, plan, backend, sizes.written, memory.free)
    warnings = [*prepared.warnings, *_occupied(directory)]
    warnings += _slow_disk(loop, outputs, sizes.written)
    model, steps = model_report(simulation), plan.schedule.steps
    partition, fitting = memory.partition, None
    if partition is not None:
        fitting = _fitting_ranks(partition, memory.free, backend)
        problems += _too_many_ranks(partition, fitting, memory.free, backend)
        partition = partition if loop is None else partition.timed(loop, steps)
        warnings += _shared_cores(partition) + partition.warnings()
    return CheckReport(
        title=simulation.title, plan=prepared.summary, plan_lines=_plan_lines(prepared),
        backend=backend.name, device=backend.device, threads=backend.facts().get("threads"),
        memory_bytes=memory.need.main, free_memory_bytes=memory.free,
        device_memory_bytes=memory.need.device, free_device_memory_bytes=memory.device_free,
        unit=plan.unit, rate=plan.unit_count * steps / loop if loop else None,
        loop_s=None if loop is None else max(loop, outputs or 0.0), outputs_s=outputs,
        output_bytes=sizes.outputs + sizes.checkpoint, free_disk_bytes=_free_disk(directory),
        warnings=warnings, problems=problems, partition=partition, ranks_per_machine=fitting,
        model=model.as_dict(), model_lines=model.lines(), accuracy=accuracy_levels(simulation, loop),
    )  # fmt: skip


class _Memory(NamedTuple):
    """Memory of a run.

    need : of a run on one rank. free, device_free : free memory, bytes. partition : estimate for several ranks.
    problems : requirements of a run, or of one of several ranks, that exceed the free memory.
    """

    need: MemoryRequirement
    free: int
    device_free: int | None
    partition: ScalingEstimate | None
    problems: list[str]


def _memory(prepared: Preparation, ranks: int | None) -> _Memory:
    """Return the required and the free memory."""
    simulation, plan, backend, arrays = prepared.simulation, prepared.plan, prepared.backend, prepared.memory
    partition = None if ranks is None else estimate_scaling(simulation, plan, backend, arrays, ranks, PROCESS_BYTES)
    need = MemoryRequirement(arrays.main + PROCESS_BYTES, arrays.device)
    free = free_main_memory()
    device_free = None if need.device is None else free_device_memory(backend)
    one = need if partition is None else MemoryRequirement(partition.memory_bytes, partition.device_memory_bytes)
    whom = "" if partition is None else " for a rank"
    return _Memory(need, free, device_free, partition, _memory_problems(one, free, device_free, backend, whom))


def _missing_packages(simulation: Simulation) -> list[str]:
    """Return why the requested formats cannot be written.

    Raises
    ------
    InputError : a name does not fit into a format.
    """
    try:
        check_names(simulation.acquisition.receivers, simulation.output.formats)
    except InputError:
        raise
    except LithowaveError as error:
        return [str(error)]
    return []


def _predicted_times(
    simulation: Simulation, plan: Plan, backend: Backend, written: int, free: int
) -> tuple[float, float | None]:
    """Measure and store the rate of this machine; return the times of the loop and of writing the outputs, s."""
    method = load_method(simulation.solver.method)
    prediction = method.predict_loop_time(plan, backend, len(simulation.acquisition.receivers))
    store_rate(simulation.solver.method, plan, backend, prediction.domain_rate, CHECK)
    return prediction.seconds, _writing_time(Path(simulation.output.directory), written, free)


def _fitting_ranks(partition: ScalingEstimate, free: int, backend: Backend) -> int:
    """Return the number of ranks whose memory and devices this machine has."""
    fitting = int(free // partition.memory_bytes)
    return min(fitting, backend.device_count) if partition.own_device else fitting


def _plan_lines(prepared: Preparation) -> list[tuple[str, str]]:
    """Return (name, text) of the entries about domain, plan, sources and receivers."""
    simulation, summary = prepared.simulation, prepared.summary
    chunk, axes = simulation.domain.chunk, axes_summary(simulation)
    lines = [] if chunk is None else [("domain", chunk.text())]
    lines += [("axes", axes_line(axes))] if axes else []
    lines += prepared.plan.lines() + layer_lines(simulation)
    lines += [] if prepared.anelasticity is None else prepared.anelasticity.lines()
    if summary["sources"]:
        lines.append(("sources", source_line(summary["sources"], simulation.resolved_frequency)))
    return [*lines, ("receivers", receiver_line(simulation))]


def _memory_problems(
    need: MemoryRequirement, free: int, device_free: int | None, backend: Backend, whom: str
) -> list[str]:
    """Return the requirements that exceed the memory of the device or of this machine."""
    problems = []
    if need.device is not None and need.device > device_free:
        problems.append(
            f"not enough GPU memory{whom}: {readable_size(need.device)} needed, {readable_size(device_free)} free on "
            f"{backend.device}"
        )
    if need.main > free:
        problems.append(f"not enough memory{whom}: {readable_size(need.main)} needed, {readable_size(free)} free")
    return problems


def _disk_problems(directory: Path, size: int) -> list[str]:
    """Return why `size` bytes cannot be written to a folder."""
    place, problems = _existing(directory), []
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        problems.append(f"{directory} cannot be written: {place} is not a writable folder")
    if size > (disk := _free_disk(directory)):
        problems.append(f"not enough disk space in {place}: {readable_size(size)} needed, {readable_size(disk)} free")
    return problems


def _too_many_ranks(partition: ScalingEstimate, fitting: int, free: int, backend: Backend) -> list[str]:
    """Return why the ranks, each of which fits, do not fit on this machine together.

    fitting : number of ranks that fit.
    """
    ranks = partition.ranks
    if not 0 < fitting < ranks:
        return []  # all fit, or a problem of a single rank is stated already
    if partition.own_device and fitting == backend.device_count:
        return [f"ranks: {ranks} ranks need {ranks} GPUs; this machine has {backend.device_count}"]
    return [
        f"not enough memory for all ranks on this machine: {readable_size(ranks * partition.memory_bytes)} needed by "
        f"{ranks} ranks, {readable_size(free)} free, which is enough for {fitting}"
    ]


def _shared_cores(partition: ScalingEstimate) -> list[str]:
    """Return a warning if there are more ranks than cores."""
    cores = usable_cores()
    if partition.own_device or partition.ranks <= cores:
        return []
    return [f"ranks: {partition.ranks} on this machine share {cores} core{'s' * (cores > 1)}"]


def _backend(simulation: Simulation) -> tuple[Backend, list[str]]:
    """Return the backend; if it is missing, the CPU backend and the problem."""
    compute = simulation.compute
    try:
        return make_backend(compute.backend, compute.precision, compute.threads), []
    except (MissingPackageError, ResourceError) as error:
        return make_backend("cpu", compute.precision, compute.threads), [str(error)]


def _writing_time(directory: Path, size: int, free_memory: int) -> float | None:
    """Return the predicted time of writing `size` bytes, s; None if the speed of the disk cannot be measured.

    The system writes larger outputs than its page cache accepts at the speed of the disk.
    """
    try:
        return size / disk_rate(_existing(directory), min(size, MEASURED_BYTES), sync=size > free_memory // 10)
    except OSError:
        return None


def _slow_disk(loop_s: float | None, outputs_s: float | None, size: int) -> list[str]:
    """Return a warning if the time loop will wait for the disk."""
    if loop_s is None or outputs_s is None or outputs_s < max(loop_s, WARNED_SECONDS):
        return []
    return [
        f"output: writing {readable_size(size)} takes about {duration_text(outputs_s)}, longer than the "
        f"{duration_text(loop_s)} of the time steps, so that the time loop will wait. Increase the interval or the "
        "stride of snapshots, write fewer fields, save fewer checkpoints, or choose a folder on a faster disk."
    ]


def _occupied(directory: Path) -> list[str]:
    names = existing_outputs(directory)
    if not names:
        return []
    return [
        f"output.directory: {directory} contains another run ({first_names(names)}); choose another folder "
        f"(--output DIR, in Python output=DIR), or replace that run ({OVERWRITE})"
    ]


def duration_text(seconds: float) -> str:
    """Return a duration as text: ``43 s``, ``5 min 20 s``, ``3 h 05 min``."""
    if seconds < 99.5:
        return f"{seconds:.3g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _free_disk(directory: Path) -> int:
    return shutil.disk_usage(_existing(directory)).free


def _existing(path: Path) -> Path:
    """Return the nearest parent folder that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
