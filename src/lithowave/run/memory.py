"""Memory required by a run on its device and in main memory, compared with the free memory."""

from __future__ import annotations

from dataclasses import dataclass

from lithowave.backends import cpu
from lithowave.backends.interface import Backend
from lithowave.description.simulation import Simulation
from lithowave.errors import ResourceError
from lithowave.output.recorders import COMPONENTS, block_length
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
    lists = plan.sampling_bytes(simulation)
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
    estimate = load_method(simulation.solver.method).estimate_memory(simulation, backend)
    plan, arrays = estimate.plan_bytes // ranks.size, estimate.array_bytes // ranks.size
    need = MemoryRequirement(plan, arrays) if backend.own_memory else MemoryRequirement(plan + arrays, None)
    require_memory(need, backend, estimate.hint, ranks)


def require_mesh_memory(simulation: Simulation, backend: Backend) -> None:
    """Refuse to generate a mesh that does not fit into main memory.

    Raises
    ------
    ResourceError : see `require_memory`.
    """
    estimate = load_method(simulation.solver.method).estimate_memory(simulation, backend)
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
