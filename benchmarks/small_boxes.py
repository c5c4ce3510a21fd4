"""Displacements in boxes of one to two wavelengths, against a wide box: ``python benchmarks/small_boxes.py``.

The last column is the largest difference of the last 5 s, relative to the peak: an offset or a drift. --soft and
--damped use the absorbing layers of soft ground and of strong contrasts of vs in the same homogeneous medium.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.solvers.common import warnings as soft_ground

METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
SOURCES: dict[str, dict[str, Any]] = {
    "force": {"force": [0.5e12, 0, 1e12]},
    "moment": {"moment_tensor": {"xx": 1e15, "yy": -0.4e15, "zz": 0.2e15, "xy": 0.5e15, "xz": -0.7e15, "yz": 0.3e15}},
}
RECEIVERS = [[700, 300, 0], [600, -700, -300], [-500, 500, -700]]


def displacements(method: str, source: str, half: float, depth: float, boundaries: dict[str, Any]) -> np.ndarray:
    """Return displacements (receivers, 3, samples) in a box with sides `half` from the source, m."""
    simulation = lw.Simulation(
        domain={"x": [-half, half], "y": [-half, half], "z": [-depth, 0]}, boundaries=boundaries,
        material={"homogeneous": {"vp": 2600, "vs": 1500, "rho": 2300}},
        sources=[{
            "position": [0, 0, -300], "time_function": {"gaussian": {"sigma": 0.25, "delay": 1.5}}, **SOURCES[source],
        }],
        receivers=[{"name": f"R{number}", "position": one} for number, one in enumerate(RECEIVERS)],
        duration=15.0, solver={"method": method, "max_frequency": 1.5},
        output={"quantity": "displacement", "sampling_interval": 0.05},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.LithowaveWarning)
        return np.asarray(simulation.run(output=f"{folder}/run").seismograms.data, float)


def main() -> None:
    """Print the relative L2 difference at each receiver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--half", nargs="+", type=float, default=[800.0, 1500.0], help="m [%(default)s]")
    parser.add_argument("--soft", action="store_true")
    parser.add_argument("--damped", action="store_true")
    chosen = parser.parse_args()
    for source in SOURCES:
        wide = displacements("spectral_element", source, 3000.0, 3500.0, {"layer": {"elements": 4}})
        if chosen.soft or chosen.damped:
            soft_ground.SOFT_RATIO = soft_ground.LAYERED_RATIO = 0.1
            soft_ground.DAMPED_CONTRAST = 0.1 if chosen.damped else np.inf
        for half in chosen.half:
            for method in chosen.methods:
                difference = displacements(method, source, half, half, {}) - wide
                errors = np.linalg.norm(difference, axis=(1, 2)) / np.linalg.norm(wide, axis=(1, 2))
                late = np.abs(difference[..., -100:]).max() / np.abs(wide).max()
                text = " ".join(f"{error:7.2%}" for error in errors)
                print(f"{source:7s} {half:6g} m  {method:24s} {text}  late {late:.2%}", flush=True)
        soft_ground.SOFT_RATIO, soft_ground.LAYERED_RATIO, soft_ground.DAMPED_CONTRAST = 5.0, 3.8, 2.9


if __name__ == "__main__":
    main()
