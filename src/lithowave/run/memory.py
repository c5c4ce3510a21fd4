"""How much memory a run takes, on its device and in main memory, and whether that much is there."""

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
    """Bytes that the arrays of a run take: in main memory, and on a device with memory of its own (else None)."""

    main: int
    device: int | None


def memory_needed(simulation: Simulation, plan: Plan, backend: Backend) -> MemoryRequirement:
    """What a run takes beside the process itself."""
    arrays, buffers = plan.memory_bytes(backend), _buffer_bytes(simulation, plan)
    lists = plan.sampling_bytes(simulation)
    if not backend.own_memory:
        return MemoryRequirement(plan.plan_bytes() + arrays + lists + buffers, None)
    # A checkpoint is written from a copy in main memory. Lists are made there.
    checkpoint = plan.state_bytes() if simulation.output.checkpoint else 0
    main = plan.plan_bytes() + max(plan.setup_bytes() + lists, checkpoint) + buffers
    return MemoryRequirement(main, arrays + lists + buffers)


def free_main_memory() -> int:
    """Bytes of main memory that a run could take now."""
    return cpu.free_memory()


def free_device_memory(backend: Backend) -> int:
    """Bytes that a run could take on the device now."""
    return backend.free_memory()


def require_memory(need: MemoryRequirement, backend: Backend, hint: str, ranks: Ranks = SINGLE_RANK) -> None:
    """Refuse a run that does not fit, with figures and a hint (`memory_hint` of the plan).

    ranks : those on one machine share its main memory, and a device where there are fewer of them.

    Raises
    ------
    ResourceError : it needs more than is free, on the device or in main memory.
    """
    free = free_main_memory() // ranks.local_size
    if need.device is None:
        _require(need.main, free, "of memory for its arrays", "free", f"{hint}.")
        return
    sharers = ranks.local_size if backend.shared else 1
    _require(
        need.device, free_device_memory(backend) // sharers, "of GPU memory for its arrays",
        f"free on {backend.device}",
        f"{hint}; other programs on the GPU (nvidia-smi) take their share; compute.backend: cpu uses main memory.",
    )  # fmt: skip
    _require(
        need.main, free, "of main memory beside that of the GPU", "free",
        f"A checkpoint passes through main memory: none (output.checkpoint: null) needs less. {hint}, too.",
    )  # fmt: skip


def require_room(simulation: Simulation, backend: Backend, ranks: Ranks) -> None:
    """Refuse a run before its mesh is built, if a lower bound of what it needs is more than there is.

    Raises
    ------
    ResourceError : see `require_memory`.
    """
    estimate = load_method(simulation.solver.method).estimate_memory(simulation, backend)
    plan, arrays = estimate.plan_bytes // ranks.size, estimate.array_bytes // ranks.size
    need = MemoryRequirement(plan, arrays) if backend.own_memory else MemoryRequirement(plan + arrays, None)
    require_memory(need, backend, estimate.hint, ranks)


def require_mesh_memory(simulation: Simulation, backend: Backend) -> None:
    """Refuse to build a mesh that does not fit into main memory.

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
    """Blocks of records and snapshots: one of each is on its way to the files while the next is made."""
    output, count = simulation.output, len(simulation.acquisition.receivers)
    values = (9 if output.tensors else 3) + 6 * output.strain
    records = 8 * values * count * block_length(count)
    value = 4 if simulation.compute.precision == "single" else 8
    snapshots = sum(
        value * plan.snapshot_point_count(selection) * sum(COMPONENTS[name] for name in selection.fields)
        for selection in output.snapshots
    )
    return 2 * (records + snapshots)
