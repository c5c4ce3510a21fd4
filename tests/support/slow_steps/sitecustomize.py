"""For processes with this folder in PYTHONPATH: each step of finite differences lasts LITHOWAVE_STEP_PAUSE seconds
longer, except in elements of a job array that LITHOWAVE_FAST_ELEMENTS names."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import time
from typing import Any

SOLVER = "lithowave.solvers.finite_difference.solver"


class SlowSteps(importlib.abc.MetaPathFinder):
    """Finder that changes the solver when it is imported, so that other commands start as fast as ever."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return the specification of the solver module, with a loader that makes its steps slow."""
        if name != SOLVER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_slow(module: Any) -> None:
            execute(module)
            solver = module.FiniteDifferenceSolver
            advance = solver.advance

            def advance_slowly(self: Any, step: int) -> None:
                advance(self, step)
                time.sleep(float(os.environ["LITHOWAVE_STEP_PAUSE"]))

            solver.advance = advance_slowly

        spec.loader.exec_module = execute_and_slow
        return spec


fast = os.environ.get("LITHOWAVE_FAST_ELEMENTS", "").split(",")
if "LITHOWAVE_STEP_PAUSE" in os.environ and os.environ.get("SLURM_ARRAY_TASK_ID") not in fast:
    sys.meta_path.insert(0, SlowSteps())
