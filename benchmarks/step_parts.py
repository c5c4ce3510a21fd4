"""Times of the parts of a finite-difference step in one pass on a GPU: around the box of the pass, and inside.

    python benchmarks/step_parts.py [--width 36] [--depth 12]
    python benchmarks/step_parts.py --cube 512 --law transverse --attenuation coarse --different-columns
    ncu -k "regex:one_pass|update_" -c 6 --set full python benchmarks/step_parts.py --cube 512

The case is that of `lithowave bench --case default`, or with --cube that of `--case full --passes one`. In both, all
columns of material are equal; --different-columns: with the kernels for other media. Parts are timed as graphs of their
own: all tiles around the box, each box of them with its points, closures with the surface and the sources, and the pass
inside.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lithowave.backends import make_backend
from lithowave.bench import default_simulation
from lithowave.run.launch import run_simulation
from lithowave.solvers.common.kernels import call_time
from lithowave.solvers.finite_difference.bench import NOISY_PLANES, fill_with_noise, make_tasks
from lithowave.solvers.finite_difference.law import VELOCITIES
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver
from lithowave.solvers.finite_difference.step import advance_around, advance_inside, box_table
from lithowave.solvers.finite_difference.tiles import around


def solver_of_run(width: float, depth: float) -> FiniteDifferenceSolver:
    """Return the solver of a short run of the default case on a GPU."""
    made: list[FiniteDifferenceSolver] = []
    original = FiniteDifferenceSolver.__init__

    def remember(self: FiniteDifferenceSolver, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        made.append(self)

    FiniteDifferenceSolver.__init__ = remember
    simulation = default_simulation("finite_difference", "elastic", (width, width, depth), 0.2, {"backend": "cuda"})
    with tempfile.TemporaryDirectory() as folder:
        run_simulation(simulation, Path(folder) / "run")
    return made[-1]


def main() -> None:
    """Print the times of the parts, ms."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=float, default=36.0, help="of the box, km")
    parser.add_argument("--depth", type=float, default=12.0, help="of the box, km")
    parser.add_argument("--cube", type=int, help="points along the sides of the case `full`, instead of the box")
    parser.add_argument("--law", default="isotropic", help="with --cube")
    parser.add_argument("--attenuation", default="none", help="with --cube")
    parser.add_argument("--different-columns", action="store_true", help="with --cube")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cube:
        more = {"law": options.law, "attenuation": options.attenuation, "passes": "one"}
        [task] = make_tasks(make_backend("cuda", "single"), ["full"], [(options.cube,) * 3], **more)
        plan = replace(task.plan, equal_columns=not options.different_columns)
        solver = FiniteDifferenceSolver(plan, task.simulation, task.backend)
        fill_with_noise(solver, NOISY_PLANES)
    else:
        solver = solver_of_run(options.width, options.depth)
    step, scheme, backend = solver.step, solver.scheme, solver.backend
    old, new = scheme._sets
    box, shape = scheme._inside[0].reshape(3, 2).tolist(), [(0, count) for count in solver.grid.shape]
    outside = around(box, shape)
    stress, velocity = (replace(one, boxes=box_table(outside)) for one in (step.regions.stress, step.regions.velocity))
    stresses = {name: old[name] for name in step.plan.law_fields.stresses}
    velocities = {name: new[name] for name in VELOCITIES}
    before = {name: (old if name in VELOCITIES else new)[name] for name in new}  # as `advance_around` has them
    after = {name: (new if name in VELOCITIES else old)[name] for name in new}

    def measured(function: Callable[[], None]) -> float:
        return 1e3 * call_time(backend.capture_graph(function), backend)

    def updates(boxes: list) -> tuple[float, float]:
        table = box_table(boxes)
        return (
            measured(lambda: step.kernels.update_stress.into(stresses, *step.stress_arguments(before, table))),
            measured(lambda: step.kernels.update_velocity.into(velocities, *step.velocity_arguments(old, table))),
        )

    bandwidth = backend.bandwidths()["copy"] / 1e12
    print(f"{backend.device}, copy {bandwidth:.2f} TB/s; box {box} of {solver.grid.shape}")
    print(f"step {1e3 * call_time(scheme.advance, backend):.3f} ms")
    print(f"around {measured(partial(advance_around, step, stress, velocity, old, new)):.3f} ms")
    print(f"inside {measured(partial(advance_inside, step, box, old, new)):.3f} ms")
    for name, boxes in [("all", outside), *((str(one), [one]) for one in outside)]:
        points = sum(math.prod(end - first for first, end in one) for one in boxes)
        times = "stresses {:.3f}, velocities {:.3f} ms".format(*updates(boxes))
        print(f"{name}: {points / 1e6:.2f} million points, {times}")
    closing = (lambda: step.finish_stress(old, stress)), (lambda: step.finish_velocity(after, velocity))
    print("closures, surface, sources: {:.3f}, {:.3f} ms".format(*map(measured, closing)))


if __name__ == "__main__":
    main()
