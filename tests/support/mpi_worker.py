"""What the tests start on each rank: the command line, on a device that is emulated, shared or real.

python mpi_worker.py DEVICE [arguments of lithowave]; DEVICE: plain; emulated (CUDA kernels on the CPU); or "dies at T"
(the last rank is gone at once when the run comes to that time, s); "fails at T" (it has an error then); "grows at T"
(the motion grows from that time on); or "waits T" (s without a step after which the run ends).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """Run the command."""
    device, *sys.argv[1:] = sys.argv[1:]
    if device == "emulated":
        import lithowave.run.launch
        from cuda_emulation import EmulatedCudaBackend

        def emulated(_name: str, precision: str, *_: Any, **__: Any) -> Any:
            return EmulatedCudaBackend(precision)

        lithowave.run.launch.make_backend = emulated
    elif device.startswith("grows at"):
        from growing_motion import grow

        grow(float(device.split()[-1]))
    elif device.startswith("waits"):
        import lithowave.parallel.ranks

        lithowave.parallel.ranks.PATIENCE = float(device.split()[-1])
    elif " at " in device:
        end_at(float(device.split()[-1]), dead=device.startswith("dies"))
    from lithowave.cli import main as command

    command()


def end_at(time: float, dead: bool) -> None:
    """Let the last rank end without a word, or with an error."""
    from lithowave import ResourceError
    from lithowave.parallel import make_ranks
    from lithowave.solvers import Clock

    tick = Clock.tick

    def tick_or_end(clock: Clock) -> None:
        tick(clock)
        ranks = make_ranks()
        if clock.time >= time and ranks.rank == ranks.size - 1:
            if dead:
                os._exit(9)
            raise ResourceError("this rank was told to fail")

    Clock.tick = tick_or_end


if __name__ == "__main__":
    main()
