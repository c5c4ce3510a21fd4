"""Other programs in the comparison of `peers.py`, which starts this script with the interpreter that has them.

    python benchmarks/peer_programs.py deepwave-elastic problem.npz

The script does not import lithowave. It reads the problem, prepares the program, and prints a JSON object: its name,
version and setup, or the reason why it is not available. Then each line of the standard input is a JSON object with the
number of `steps` of a run from rest, and optionally the file in which to `save` the seismograms, (receivers, steps).
The answer is the time of the run.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Problem = Mapping[str, Any]  # arrays of the file; see `Problem.save` in `peers.py`
Run = Callable[[int], Any]  # makes this number of steps from rest and returns the seismograms, (receivers, steps)


def prepare_deepwave(problem: Problem) -> tuple[dict[str, Any], Run]:
    """Return the setup and the run of deepwave's elastic propagator."""
    import deepwave
    import numpy as np
    import torch

    device = "cuda" if problem["backend"] == "cuda" else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ImportError(f"PyTorch {torch.__version__} reaches no CUDA device (built for CUDA {torch.version.cuda})")
    torch.set_num_threads(int(problem["threads"]))
    moduli = problem["lam"], problem["mu"], 1.0 / problem["density"]
    models = [torch.from_numpy(values).to(device) for values in moduli]
    groups = [np.flatnonzero(problem["components"] == axis) for axis in range(3)]
    places = {
        f"receiver_locations_{letter}": torch.tensor(problem["receivers"][group][None], device=device)
        for letter, group in zip("xyz", groups, strict=True)
    }
    source = torch.tensor(problem["source"][None, None], device=device)
    amplitudes = torch.tensor(problem["amplitudes"][None, None], dtype=torch.float32, device=device)
    facts = {"program": f"deepwave {deepwave.__version__}", "arrays": "9 fields, 8 moduli"}
    facts["versions"] = {"torch": torch.__version__, "numpy": np.__version__}

    def run(steps: int) -> np.ndarray:
        # Velocities are recorded before the step in which they are used, half a step after the last stresses: sample
        # n + 2 follows the source of step n. The last two steps of these runs have no source.
        with torch.no_grad():
            out = deepwave.elastic(
                *models, grid_spacing=float(problem["spacing"]), dt=float(problem["time_step"]), accuracy=4,
                source_amplitudes_pressure_rate=amplitudes[..., : steps + 2], source_locations_pressure_rate=source,
                pml_width=int(problem["layer_cells"]), pml_freq=float(problem["layer_frequency"]),
                max_vel=float(problem["fastest"]), check_output_finite=False, **places,
            )  # fmt: skip
        if device == "cuda":
            torch.cuda.synchronize()
        if out.info.step_ratio != 1:
            raise RuntimeError(f"deepwave divided the time step by {out.info.step_ratio}")
        seismograms = np.empty((len(problem["receivers"]), steps))
        for letter, group in zip("xyz", groups, strict=True):
            seismograms[group] = getattr(out, f"receiver_amplitudes_{letter}")[0, :, 2:].cpu().numpy()
        return seismograms

    return facts, run


def prepare_devito(problem: Problem, in_place: bool) -> tuple[dict[str, Any], Run]:
    """Return the setup and the run of an elastic propagator in Devito with tuned block shapes.

    in_place : True for one time level of each field, which is overwritten (time_order=0), as in lithowave; otherwise
    the two time levels of the elastic examples of Devito (time_order=1).
    """
    import devito
    import numpy as np

    if problem["backend"] != "cpu":
        raise ImportError("this propagator is for CPUs")
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of SymPy, on Devito's use of its matrices
    devito.configuration["log-level"] = "WARNING"
    devito.configuration["language"] = "openmp"
    velocity, stress, record, operator = devito_operator(problem, in_place, devito, np)
    options = {"dt": np.float32(problem["time_step"]), "nthreads": int(problem["threads"])}
    operator.apply(time_m=0, time_M=1, autotune=("aggressive", "preemptive"), **options)
    tuned = operator._state["autotuning"]
    options |= {name: size for name, size in tuned[-1]["tuned"].items() if name != "nthreads"} if tuned else {}
    facts = {"program": f"Devito {version('devito')}", "arrays": f"{9 if in_place else 18} fields, 3 moduli"}
    facts["versions"] = {"numpy": np.__version__, "blocks": {k: v for k, v in options.items() if k != "dt"}}

    def run(steps: int) -> np.ndarray:
        for field in [*velocity, *(stress[i, j] for i in range(3) for j in range(i, 3))]:
            field.data_with_halo[:] = 0.0
        # The velocities of a step are updated before its stresses, so that they follow the source of the step before.
        operator.apply(time_m=0, time_M=steps, **options)
        return np.array(record.data)[1 : steps + 1].T

    return facts, run


def devito_operator(problem: Problem, in_place: bool, devito: Any, np: Any) -> tuple[Any, Any, Any, Any]:
    """Return the velocities and stresses, the seismograms, (steps, receivers), and the operator.

    The axes of the arrays are z, y, x. Density, lambda and 1/mu are averaged during the update to the points of the
    left-hand side: density over two points, 1/mu over four.
    """
    shape, h = problem["lam"].shape, float(problem["spacing"])
    grid = devito.Grid(shape=shape, extent=tuple((count - 1) * h for count in shape), dtype=np.float32)
    kind: dict[str, Any] = {"grid": grid, "space_order": 4}
    v = devito.VectorTimeFunction(name="v", time_order=0 if in_place else 1, **kind)
    tau = devito.TensorTimeFunction(name="tau", time_order=0 if in_place else 1, **kind)
    material = {name: devito.Function(name=name, **kind) for name in ("density", "lam", "compliance")}
    values = {"density": problem["density"], "lam": problem["lam"], "compliance": 1.0 / problem["mu"]}
    for name, function in material.items():
        padded = function.data_with_halo
        padded[:] = np.pad(values[name], (padded.shape[0] - shape[0]) // 2, mode="edge")
    step, divergence = grid.time_dim.spacing, devito.div(tau)
    equations = [devito.Eq(v[i].forward, v[i] + step / material["density"] * divergence[i]) for i in range(3)]
    new = v.forward
    strain = devito.grad(new) + devito.grad(new).transpose(inner=False)
    rate = material["lam"] * devito.diag(devito.div(new)) + 1 / material["compliance"] * strain
    equations += [devito.Eq(tau[i, j].forward, tau[i, j] + step * rate[i, j]) for i in range(3) for j in range(i, 3)]
    samples = len(problem["amplitudes"])
    source = devito.SparseTimeFunction(name="src", grid=grid, npoint=1, nt=samples)
    source.coordinates.data[:] = problem["source"] * h
    source.data[:, 0] = -float(problem["time_step"]) * problem["amplitudes"]
    equations += [source.inject(field=tau[i, i].forward, expr=source) for i in range(3)]
    # Devito's own interpolation of a velocity would average it over the two points beside each node.
    time_dim, number = grid.time_dim, devito.Dimension(name="number")
    record = devito.Function(
        name="record", dimensions=(time_dim, number), shape=(samples, len(problem["receivers"])), dtype=np.float32
    )
    for n, (axis, place) in enumerate(zip(problem["components"], problem["receivers"], strict=True)):
        velocity = v[2 - int(axis)][(grid.stepping_dim + 1, *map(int, place))]
        equations.append(devito.Eq(record[time_dim, n], velocity))
    options = ("advanced", {"openmp": True})
    return v, tau, record, devito.Operator(equations, subs=grid.spacing_map, opt=options, name="ElasticPeer")


PROGRAMS: dict[str, Callable[[Problem], tuple[dict[str, Any], Run]]] = {
    "deepwave-elastic": prepare_deepwave,
    "devito": lambda problem: prepare_devito(problem, in_place=False),
    "devito-in-place": lambda problem: prepare_devito(problem, in_place=True),
}


def main() -> None:
    """Prepare the program and make the requested runs."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output of the programs must not appear between the replies

    def reply(**entries: Any) -> None:
        print(json.dumps(entries), file=replies, flush=True)

    try:
        import numpy as np

        facts, run = PROGRAMS[sys.argv[1]](dict(np.load(sys.argv[2])))
    except (ImportError, OSError) as error:
        reply(missing=str(error))
        return
    reply(**facts)
    for line in sys.stdin:
        request = json.loads(line)
        begin = time.perf_counter()
        seismograms = run(request["steps"])
        seconds = time.perf_counter() - begin
        if "save" in request:
            np.save(request["save"], seismograms)
        reply(seconds=seconds)


if __name__ == "__main__":
    main()
