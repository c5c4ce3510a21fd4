"""Times the grid updates of the finite differences on a CUDA device for different shapes of tiles.

    python benchmarks/tune_gpu.py --size 512 --order 4 --precision single --layers 16 64x16x2,32x16x1,3,64,1

An arrangement is the shape of tiles inside (columns x rows x rows of a thread) and at the layers, the slots of the
ring, the most planes of a tile, and the blocks of a multiprocessor. With `--layers N` five faces absorb in N cells and
the top is free. What wins goes into `RING` or `LAYERED_RING` of `tiles.py`.
"""

from __future__ import annotations

import argparse

from lithowave.backends import make_backend
from lithowave.solvers.common.kernels import call_time
from lithowave.solvers.finite_difference import launches as grid_update
from lithowave.solvers.finite_difference import tiles
from lithowave.solvers.finite_difference.bench import make_tasks, uniform_simulation
from lithowave.solvers.finite_difference.law import LAWS

STEP_WORDS = LAWS["isotropic"].step_words()
VELOCITY_WORDS = 13


def parse(text: str) -> tiles.TileLayout:
    inside, edge, *numbers = text.split(",")
    shapes = (tiles.TileShape(*map(int, shape.split("x"))) for shape in (inside, edge))
    return tiles.TileLayout(*shapes, *map(int, numbers))


def name(how: tiles.TileLayout) -> str:
    inside, edge = (f"{shape.columns}x{shape.rows}x{shape.rows_of_thread}" for shape in (how.inside, how.edge))
    return f"{inside},{edge},{how.slots},{how.chunk},{how.blocks}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--precision", default="single")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--direct", action="store_true", help="the arrangement of older devices")
    arguments = parser.parse_args()
    backend = make_backend("cuda", arguments.precision)
    if arguments.direct:
        backend.copy_engine = False
    copy = backend.bandwidths()["copy"]
    case, cells = ("full", {"layer_cells": arguments.layers}) if arguments.layers else ("interior", {})
    [task] = make_tasks(backend, [case], [(arguments.size,) * 3], [arguments.order], "two", **cells)
    plan, solver = task.plan, task.solver(uniform_simulation(task.plan))
    item = backend.dtype.itemsize
    key = (arguments.precision, arguments.order)
    print(f"{backend.device}, copy {copy / 1e12:.3f} TB/s, {arguments}")
    table = tiles.LAYERED_RING if arguments.layers else tiles.RING
    default = tiles.DIRECT if arguments.direct else table[key]
    for text in arguments.shapes or [name(default)]:
        if arguments.direct:
            grid_update.DIRECT = parse(text)
        else:
            table[key] = parse(text)
        solver.step.kernels = backend.kernels("lithowave.solvers.finite_difference", order=arguments.order)
        try:
            velocity, stress = (call_time(half, backend) for half in (solver.update_velocity, solver.update_stress))
            step = call_time(lambda: (solver.update_stress(), solver.update_velocity()), backend)
            rate = plan.point_count / step
        except Exception as error:  # a shape that does not fit is no reason to stop
            print(f"{text:>28}: {type(error).__name__}: {str(error)[:150]}")
            continue
        bytes_of = [words * item * plan.point_count / copy for words in (VELOCITY_WORDS, STEP_WORDS - VELOCITY_WORDS)]
        print(
            f"{text:>28}: velocity {velocity * 1e3:6.3f} ms ({bytes_of[0] / velocity:.2f}), stress {stress * 1e3:6.3f} "
            f"ms ({bytes_of[1] / stress:.2f}), {rate / 1e9:6.2f} Gpoint/s, "
            f"{rate * STEP_WORDS * item / copy:.2f} of the limit without layers",
            flush=True,
        )


if __name__ == "__main__":
    main()
