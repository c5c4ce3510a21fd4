"""Errors of the methods in LOH.3, a layer over a half space with attenuation, against its reference solution.

    python benchmarks/loh3_errors.py [--backend cuda] [--method finite_difference spectral_element ...] [--points 10]
                                     [--frequency 3.25] [--precision single] [--memory-variables coarse full]
                                     [--receivers 10] [--duration 9] [--order 5] [--json FILE]

Prints the relative L2 error of the velocity at each receiver (distances 1 to 10 km, 9 s), for a number of points per
wavelength (default: 10 for finite differences, 7 for elements) at a frequency (default: 3.25 Hz, where the spectrum of
the source has decreased to 5%). The order is that of discontinuous Galerkin. The frequencies of attenuation are the
same in all runs. With fewer receivers, the domain is smaller.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.compare.misfits import relative_l2

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import loh3

FREQUENCY = 3.25  # Hz
MARGIN = 2000.0  # m, around source and receivers
FD, SE, DG = "finite_difference", "spectral_element", "discontinuous_galerkin"


def simulation(method: str, backend: str, precision: str, count: int, duration: float, **solver: Any) -> lw.Simulation:
    """Return LOH.3 with the first receivers of the reference."""
    receivers = loh3.reference()[1][:count]
    x, y = ([-MARGIN, float(np.ceil(values.max() / 100) * 100) + MARGIN] for values in receivers.T[:2])
    return lw.Simulation(
        title="LOH.3",
        domain={"x": x, "y": y, "z": [-5000, 0]},
        material=loh3.material(band=[FREQUENCY / 100, FREQUENCY]),
        sources=[loh3.SOURCE],
        receivers=[{"name": f"R{n}", "position": list(place)} for n, place in enumerate(receivers)],
        duration=duration,
        solver={"method": method} | solver,
        compute={"backend": backend, "precision": precision},
        output={"sampling_interval": 0.01, "formats": [], "checkpoint": None},
    )


def errors(described: lw.Simulation) -> tuple[np.ndarray, dict[str, Any]]:
    """Run, and return the relative L2 error of each receiver and the report of the run."""
    time, _, exact = loh3.reference()
    with tempfile.TemporaryDirectory() as folder:
        result = described.run(output=Path(folder) / "run")
        found = result.seismograms
    count = found.data.shape[0]
    if not np.allclose(found.time, time[: found.time.size], atol=1e-9):
        raise RuntimeError("the samples are not at the times of the reference")
    exact = exact[:count, :, : found.time.size]
    return np.array([relative_l2(*pair) for pair in zip(found.data, exact, strict=True)]), result.report


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--method", nargs="+", default=[FD])
    parser.add_argument("--points", type=float)
    parser.add_argument("--frequency", type=float, default=FREQUENCY)
    parser.add_argument("--precision", default="single")
    parser.add_argument("--memory-variables", nargs="+", default=["coarse", "full"])
    parser.add_argument("--receivers", type=int, default=10)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--duration", type=float, default=9.0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    modes = {FD: chosen.memory_variables, SE: chosen.memory_variables}
    cases = [(method, mode) for method in chosen.method for mode in modes.get(method, [""])]
    records = []
    for method, mode in cases:
        points = chosen.points or (10.0 if method == FD else 7.0)
        solver = {"points_per_wavelength": points, "max_frequency": chosen.frequency}
        solver |= {"memory_variables": mode} if mode else {}
        solver |= {"order": chosen.order} if method == DG else {}
        described = simulation(method, chosen.backend, chosen.precision, chosen.receivers, chosen.duration, **solver)
        found, report = errors(described)
        name = f"{method} {mode}".strip()
        print(f"{name}: {100 * found.max():.2f}% at most; " + " ".join(f"{100 * one:.2f}" for one in found), flush=True)
        records.append({"method": method, "mode": mode, "points": points, "frequency": chosen.frequency,
                        "errors": found.tolist(), "device": report["device"], "loop_s": report["loop_s"]})  # fmt: skip
    if chosen.json:
        chosen.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
