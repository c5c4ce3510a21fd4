"""Numerical methods, one package each.

A plan is everything that is known before an array is allocated (grid or mesh, time step, memory); `lithowave check`
prints it. A solver owns the arrays of a run: it advances them by one step, reads receivers, provides fields for
snapshots, and stores its state in checkpoints. `interface.py` defines both as protocols.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from lithowave.rooms import public_names

METHODS = {
    "finite_difference": "lithowave.solvers.finite_difference",
    "spectral_element": "lithowave.solvers.spectral_element",
    "discontinuous_galerkin": "lithowave.solvers.discontinuous_galerkin",
}


def load_method(name: str) -> ModuleType:
    """Return the package of a numerical method, which has these functions.

    ``plan(experiment, backend, ranks, previous)`` returns the plan of this rank. previous : the plan in the report of a
    run that is resumed. ``Solver(plan, experiment, backend, halo)`` is its solver. ``estimate_memory(experiment,
    backend)`` returns a `MemoryEstimate` before a mesh is built. ``predict_loop_time(plan, backend, receiver_count)``
    returns a `LoopPrediction` from a short measurement. ``partition_report(experiment, plan, ranks_count, device)``
    returns the `RankWorkload` of each of the given number of ranks, for a plan of one rank. Methods with CUDA sources
    that take long to compile also have ``compile_ahead(experiment, backend)``, which begins this before the plan is
    made.
    """
    return importlib.import_module(METHODS[name])


def load_bench_cases(name: str) -> ModuleType:
    """Return the module with the benchmarks of a numerical method.

    It has ``CASES`` by name, ``USUAL_CASES``, ``OPTIONS`` and ``SMALLEST_SIZE``, and ``make_tasks(backend, cases,
    sizes, **options)``, which yields tasks (`interface.BenchTask`).
    """
    return importlib.import_module(f"{METHODS[name]}.bench")

__getattr__, __all__ = public_names(__name__, {
    "interface":
        "ArraySection Clock GatheredSolver Hyperslab PendingFields RowSelection Schedule SnapshotGrid "
        "make_schedule",
})
