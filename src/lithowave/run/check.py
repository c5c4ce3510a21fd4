"""The dry run: memory, run time and output of a simulation, and whether this machine can run it."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lithowave.backends import make_backend
from lithowave.backends.cpu import host_threads_in_use, usable_cores
from lithowave.backends.interface import Backend
from lithowave.description.accuracy import error_text
from lithowave.description.model_report import model_report
from lithowave.description.simulation import Simulation
from lithowave.errors import OVERWRITE, InputError, LithowaveError, MissingPackageError, ResourceError
from lithowave.output.disk_rate import MEASURED_BYTES, disk_rate
from lithowave.output.disk_use import output_bytes
from lithowave.output.hdf5 import readable_size
from lithowave.output.run_folder import existing_outputs
from lithowave.output.waveforms import check_names
from lithowave.run.checkpoints import checkpoint_count
from lithowave.run.machine_rates import CHECK, store_rate
from lithowave.run.memory import (
    MemoryRequirement,
    free_device_memory,
    free_main_memory,
    memory_needed,
    require_mesh_memory,
)
from lithowave.run.plan_summary import domain_lines, layer_lines, plan_anelasticity, plan_summary
from lithowave.run.progress import rate_key, rate_text
from lithowave.run.scaling_estimate import ScalingEstimate, estimate_scaling, require_ranks
from lithowave.run.source_summary import receiver_line, source_line
from lithowave.solvers import load_method

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
    plan: dict[str, Any]
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
    model: dict[str, Any] = field(default_factory=dict)
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

    def as_dict(self) -> dict[str, Any]:
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


def report_text(report: Any) -> str:
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
    measure : time a few steps on a small grid or mesh of the same kind to predict the run time (a few seconds).
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
    method = load_method(simulation.solver.method)
    backend, problems = _backend(simulation)
    require_mesh_memory(simulation, backend)
    plan = method.plan(simulation, backend)
    plan.require_points(simulation)
    anelasticity = plan_anelasticity(simulation, plan)
    schedule = plan.schedule
    receivers = simulation.acquisition.receivers
    written = output_bytes(simulation, plan)
    checkpoints = checkpoint_count(simulation, schedule)
    checkpoint = plan.state_bytes() if checkpoints else 0
    whole = memory_needed(simulation, plan, backend)
    partition = None if ranks is None else estimate_scaling(simulation, plan, backend, whole, ranks, PROCESS_BYTES)
    need = MemoryRequirement(whole.main + PROCESS_BYTES, whole.device)
    free = free_main_memory()
    device_free = None if need.device is None else free_device_memory(backend)
    one = need if partition is None else MemoryRequirement(partition.memory_bytes, partition.device_memory_bytes)
    problems += _memory_problems(one, free, device_free, backend, "" if partition is None else " for a rank")
    directory = Path(simulation.output.directory)
    # The old checkpoint is deleted only after the new one is complete, so the disk must hold both.
    problems += _disk_problems(directory, written + min(2, checkpoints) * checkpoint)
    try:
        check_names(receivers, simulation.output.formats)
    except InputError:
        raise
    except LithowaveError as error:
        problems.append(str(error))
    loop = outputs = None
    if measure and not problems:
        prediction = method.predict_loop_time(plan, backend, len(receivers))
        loop = prediction.seconds
        store_rate(simulation.solver.method, plan, backend, prediction.domain_rate, CHECK)
        outputs = _writing_time(directory, written + checkpoints * checkpoint, free)
    warnings = [*simulation.warnings(), *plan.warnings(simulation), *_occupied(directory)]
    warnings += _slow_disk(loop, outputs, written + checkpoints * checkpoint)
    report = model_report(simulation)
    fitting = None
    if partition is not None:
        fitting = int(free // partition.memory_bytes)
        fitting = min(fitting, backend.device_count) if partition.own_device else fitting
        problems += _too_many_ranks(partition, fitting, free, backend)
        warnings += _shared_cores(partition)
        partition = partition if loop is None else partition.timed(loop, schedule.steps)
        warnings += partition.warnings()
    summary = plan_summary(simulation, plan)
    lines = domain_lines(simulation) + plan.lines() + layer_lines(simulation)
    lines += [] if anelasticity is None else anelasticity.lines()
    if summary["sources"]:
        lines.append(("sources", source_line(summary["sources"], simulation.resolved_frequency)))
    lines.append(("receivers", receiver_line(simulation)))
    return CheckReport(
        title=simulation.title,
        plan=summary,
        plan_lines=lines,
        backend=backend.name,
        device=backend.device,
        threads=backend.facts().get("threads"),
        memory_bytes=need.main,
        free_memory_bytes=free,
        device_memory_bytes=need.device,
        free_device_memory_bytes=device_free,
        unit=plan.unit,
        rate=plan.unit_count * schedule.steps / loop if loop else None,
        loop_s=None if loop is None else max(loop, outputs or 0.0),
        outputs_s=outputs,
        output_bytes=written + checkpoint,
        free_disk_bytes=_free_disk(directory),
        warnings=warnings,
        problems=problems,
        partition=partition,
        ranks_per_machine=fitting,
        model=report.as_dict(),
        model_lines=report.lines(),
        accuracy=accuracy_levels(simulation, loop),
    )


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
        f"output.directory: {directory} contains another run ({', '.join(names[:3])}); choose another folder "
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
