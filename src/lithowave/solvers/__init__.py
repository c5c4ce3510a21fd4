"""Numerical methods. Each is a package with `plan(simulation)`, `Solver(plan, simulation, backend)` and
`predict_loop_time(plan, backend, receiver_count)`, and the modules `bench_cases` with what `lithowave bench` measures
and `partition_report` with what `lithowave check --ranks` tells.

A plan is what can be said before anything is allocated (grid or mesh, time step, memory); `lithowave check` prints it.
A solver owns the arrays of a run and does the four things the time loop asks for: advance by one step, read the
receivers, give fields for pictures, and hand its state to a checkpoint. See `base.py` for both as protocols.
"""

from __future__ import annotations

import importlib
from types import ModuleType

METHODS = {
    "finite_difference": "lithowave.solvers.finite_difference",
    "spectral_element": "lithowave.solvers.spectral_element",
    "discontinuous_galerkin": "lithowave.solvers.discontinuous_galerkin",
}


def load_method(name: str) -> ModuleType:
    """The package of a numerical method."""
    return importlib.import_module(METHODS[name])


def load_bench_cases(name: str) -> ModuleType:
    """What is measured of a numerical method.

    ``CASES`` by name, ``USUAL_CASES``, ``OPTIONS`` and ``SMALLEST_SIZE``, and ``make_tasks(backend, cases, sizes,
    **options)``, which gives tasks (`base.BenchTask`).
    """
    return importlib.import_module(f"{METHODS[name]}.bench_cases")


def load_partition_report(name: str) -> ModuleType:
    """How a numerical method shares its work among ranks.

    ``partition_report(simulation, ranks_count, backend_name)`` gives the `RankWorkload` of each rank, of one rank, too.
    Where ranks have straight slices ``parts``, of the same arguments, gives their numbers along x, y, z.
    """
    return importlib.import_module(f"{METHODS[name]}.partition_report")
