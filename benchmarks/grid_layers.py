"""Cost of the absorbing layers of finite differences, axis by axis: ``python benchmarks/grid_layers.py``.

The time of a step on a cube without sources and receivers, with a free surface: without layers, with those at both ends
of x, of y, at the bottom, and with all of them; the ratio is that to the step without layers.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from lithowave.backends import make_backend
from lithowave.solvers.common.kernels import Steps, call_time
from lithowave.solvers.finite_difference.bench import make_tasks


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    backend = make_backend(given.backend, "single", given.threads)
    [task] = make_tasks(backend, ["full"], [(given.size,) * 3], layer_cells=given.cells)
    plan, simulation = task.plan, task.simulation.with_overrides({"sources": [], "receivers": []})
    (x, y, z), none = plan.grid.layers, (0, 0)
    cases = {"none": (none, none, none), "x": (x, none, none), "y": (none, y, none), "z": (none, none, z)}
    first = 0.0
    for name, layers in (cases | {"all": (x, y, z)}).items():
        task.__dict__["plan"] = replace(plan, grid=replace(plan.grid, layers=layers))
        seconds = min(call_time(Steps(task.solver(simulation)), backend, minimum=1.0) for _ in range(2))
        first = first or seconds
        print(f"{name:5} {1e3 * seconds:.2f} ms, {seconds / first:.3f}", flush=True)


if __name__ == "__main__":
    main()
