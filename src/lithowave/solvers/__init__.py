"""Numerical methods. Each is a package with `plan(simulation)`, `Solver(plan, simulation,
backend)` and `predict_loop_time(plan, backend, receiver_count)`.

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
}


def load_method(name: str) -> ModuleType:
    """The package of a numerical method."""
    return importlib.import_module(METHODS[name])
