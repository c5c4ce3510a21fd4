"""Memory that a run requires on its device and in main memory, and the size of its files."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lithowave.backends import cpu
from lithowave.backends.interface import Backend
from lithowave.description.outputs import SnapshotPlane, Snapshots
from lithowave.description.simulation import Simulation
from lithowave.errors import ResourceError
from lithowave.output.recorders import COMPONENTS, SnapshotSteps, block_length
from lithowave.output.results import MEASURES
from lithowave.output.vtkhdf import PLANE_POINT_BYTES, VOLUME_POINT_BYTES, stored_arrays
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers import load_method
from lithowave.solvers.interface import Plan


@dataclass(frozen=True)
class MemoryRequirement:
    """Bytes required by the arrays of a run, in main memory and on a device with separate memory (else None)."""

    main: int
    device: int | None


def memory_needed(simulation: Simulation, plan: Plan, backend: Backend) -> MemoryRequirement:
    """Return the memory required by a run, excluding the Python process."""
    arrays, buffers = plan.memory_bytes(backend), _buffer_bytes(simulation, plan)
    lists = plan.sampling_bytes(simulation.experiment)
    if not backend.own_memory:
        return MemoryRequirement(plan.plan_bytes() + arrays + lists + buffers, None)
    # A checkpoint is written from a copy in main memory, and so are the lists of a mesh made there.
    checkpoint = plan.state_bytes() if simulation.output.checkpoint else 0
    main = plan.plan_bytes() + max(plan.setup_bytes() + lists, checkpoint) + buffers
    return MemoryRequirement(main, arrays + lists + buffers)


def free_main_memory() -> int:
    """Return the free main memory, bytes."""
    return cpu.free_memory()


def free_device_memory(backend: Backend) -> int:
    """Return the free memory of the device, bytes."""
    return backend.free_memory()


def require_memory(need: MemoryRequirement, backend: Backend, hint: str, ranks: Ranks = SINGLE_RANK) -> None:
    """Refuse a run that does not fit into the memory.

    hint : advice that follows the sizes, see `memory_hint` of the plan. ranks : the ranks of one machine share its main
    memory, and a device if there are fewer devices than ranks.

    Raises
    ------
    ResourceError : the run requires more memory than is free, on the device or in main memory.
    """
    free = free_main_memory() // ranks.local_size
    if need.device is None:
        _require(need.main, free, "of memory for its arrays", "free", f"{hint}.")
        return
    sharers = ranks.local_size if backend.shared else 1
    _require(
        need.device, free_device_memory(backend) // sharers, "of GPU memory for its arrays",
        f"free on {backend.device}",
        f"{hint}; close other programs that use the GPU (nvidia-smi lists them), or set compute.backend: cpu.",
    )  # fmt: skip
    _require(
        need.main, free, "of main memory in addition to the GPU memory", "free",
        f"Checkpoints pass through main memory: set output.checkpoint: null to omit them. {hint}.",
    )  # fmt: skip


def require_room(simulation: Simulation, backend: Backend, ranks: Ranks) -> None:
    """Refuse a run before its mesh is generated, if a lower bound of its memory exceeds the free memory.

    Raises
    ------
    ResourceError : see `require_memory`.
    """
    estimate = load_method(simulation.solver.method).estimate_memory(simulation.experiment, backend)
    plan, arrays = estimate.plan_bytes // ranks.size, estimate.array_bytes // ranks.size
    need = MemoryRequirement(plan, arrays) if backend.own_memory else MemoryRequirement(plan + arrays, None)
    require_memory(need, backend, estimate.hint, ranks)


def require_mesh_memory(simulation: Simulation, backend: Backend) -> None:
    """Refuse to generate a mesh that does not fit into main memory.

    Raises
    ------
    ResourceError : see `require_memory`.
    """
    estimate = load_method(simulation.solver.method).estimate_memory(simulation.experiment, backend)
    _require(estimate.plan_bytes, free_main_memory(), "of memory for its mesh", "free", f"{estimate.hint}.")


def _require(needed: int, free: int, of_what: str, where: str, help_text: str) -> None:
    if needed > free:
        figures = f"the run needs {needed / 1e9:.2f} GB {of_what}; {free / 1e9:.2f} GB are {where}."
        raise ResourceError(f"{figures} {help_text}")


def _buffer_bytes(simulation: Simulation, plan: Plan) -> int:
    """Return the bytes of the blocks of records and snapshots: two of each, since one is written while the next
    fills."""
    output, count = simulation.output, len(simulation.acquisition.receivers)
    values = (9 if output.tensors else 3) + 6 * output.strain
    records = 8 * values * count * block_length(count)
    value = 4 if simulation.compute.precision == "single" else 8
    snapshots = sum(
        value * plan.snapshot_point_count(selection) * sum(COMPONENTS[name] for name in selection.fields)
        for selection in output.snapshots
    )
    return 2 * (records + snapshots)


FOLDER_BYTES = 7_000
"""Of ``simulation.yaml``, ``run.json`` and ``log.txt`` of a description without long lists."""

HDF5_BYTES = 10_000
"""Of the attributes and groups of a file of seismograms, snapshots or peak motion."""

ARRAY_BYTES = 1_500  # of the attributes of one more array
RECEIVER_BYTES = 60  # of names and position in seismograms.h5
MINISEED_RECORD, MINISEED_HEADER = 4096, 64
SAC_HEADER = 632
SEGY_HEADER, SEGY_TRACE_HEADER = 3600, 240
ASDF_TRACE, ASDF_STATION = 5_000, 2_500  # attributes and the description of a station


def output_bytes(simulation: Simulation, plan: Plan) -> int:
    """Return the predicted bytes of all files of a run, without checkpoints and figures."""
    output, schedule = simulation.output, plan.schedule
    value = 4 if simulation.compute.precision == "single" else 8
    receivers, samples = len(simulation.acquisition.receivers), schedule.sample_count
    components = 3 + 6 * output.stress + output.pressure + 6 * output.strain
    total = FOLDER_BYTES + HDF5_BYTES + 8 * samples
    total += receivers * (components * samples * value + RECEIVER_BYTES)
    total += sum(format_bytes(name, receivers, samples, value) for name in output.formats)
    for selection in output.snapshots:
        total += _snapshot_bytes(simulation, plan, selection)
    if output.peak_motion:
        surface = Snapshots(interval=simulation.duration, plane=SnapshotPlane(z=simulation.domain.z[1]))
        maps = 2 * len(MEASURES)
        total += HDF5_BYTES + maps * value * plan.snapshot_point_count(surface)
    return int(math.ceil(total))


def format_bytes(name: str, receivers: int, samples: int, value: int) -> int:
    """Return the bytes of the copies of all seismograms in a format of seismology. value : bytes of a sample."""
    traces = 3 * receivers
    if name == "miniseed":
        return traces * MINISEED_RECORD * -(-samples * value // (MINISEED_RECORD - MINISEED_HEADER))
    if name == "sac":
        return traces * (SAC_HEADER + 4 * samples)
    if name == "segy":
        return 3 * SEGY_HEADER + traces * (SEGY_TRACE_HEADER + 4 * samples)
    return traces * (ASDF_TRACE + value * samples) + receivers * ASDF_STATION  # asdf


def _snapshot_bytes(simulation: Simulation, plan: Plan, selection: Snapshots) -> int:
    points = plan.snapshot_point_count(selection)
    count = len(SnapshotSteps(selection.interval, plan.schedule))
    per_point = sum(COMPONENTS[name] for name in selection.fields)
    arrays = sum(len(stored_arrays(name)) for name in selection.fields)
    chunk = simulation.domain.chunk is not None
    upright = selection.plane is not None and selection.plane.axis in "xy"
    thickness = 2 if upright and not chunk else 1  # see `vtkhdf`
    total = HDF5_BYTES + 2 * ARRAY_BYTES * arrays + count * points * thickness * per_point * 4
    if chunk:
        total += points * (PLANE_POINT_BYTES if selection.plane is not None else VOLUME_POINT_BYTES)
    return total
