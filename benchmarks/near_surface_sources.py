"""Finite differences within a few cells of a shallow source, against refined spectral elements:
``python benchmarks/near_surface_sources.py``.

The receivers are on the surface above the source and beside it, and below a source within a cell of the surface. The
largest errors are the tables `SURFACE` and `BELOW` of `lithowave.solvers.common.warnings`.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Sequence

import numpy as np

import lithowave as lw

SPACING = 400.0 / 3.0
TENSORS = {"xz": (0, 0, 0, 0, 1, 0), "general": (1, -2, 0.5, 2, -1, 3), "explosion": (1, 1, 1, 0, 0, 0)}
ABOVE, BELOW = (1.4, 2.25, 3.0, 3.75, 4.5, 5.25, 7.0), (0.3, 0.75)  # depths of the source, cells
BESIDE = ((0.2, 0.1), (0.7, 0.7), (2.0, 0.0), (1.5, -1.5), (4.0, 0.0), (0.0, 6.3))  # from the epicenter, cells
UNDER = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0)  # cells below the source


def velocities(method: str, frequency: float, depth: float, tensor: str, receivers: Sequence[tuple]) -> np.ndarray:
    """Return velocities (receivers, 3, samples); depth and receivers relative to the source's epicenter in cells."""
    names = ("xx", "yy", "zz", "xy", "xz", "yz")
    places = [[13 + SPACING * x, -21 + SPACING * y, SPACING * z] for x, y, z in receivers]
    simulation = lw.Simulation(
        domain={"x": [-1200, 1200], "y": [-1200, 1200], "z": [-2400, 0]},
        material={"homogeneous": {"vp": 3000, "vs": 1700, "rho": 2300}},
        sources=[{
            "position": [13, -21, -SPACING * depth], "time_function": {"gaussian": {"sigma": 0.24, "delay": 1.2}},
            "moment_tensor": {name: 1e13 * value for name, value in zip(names, TENSORS[tensor], strict=True)},
        }],
        receivers=[{"name": f"R{number}", "position": one} for number, one in enumerate(places)],
        duration=2.8, solver={"method": method, "max_frequency": frequency}, output={"sampling_interval": 0.01},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.LithowaveWarning)
        return np.asarray(simulation.run(output=f"{folder}/run").seismograms.data, float)


def main() -> None:
    """Print the relative L2 error of each receiver, which is alone in its run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", nargs="+", default=list(TENSORS), choices=list(TENSORS))
    for tensor in parser.parse_args().tensors:
        for depth in (*ABOVE, *BELOW):
            below = [(0.13, 0.46, -depth - cells) for cells in UNDER]
            places = below if depth in BELOW else [(x, y, 0.0) for x, y in BESIDE]
            exact = velocities("spectral_element", 4.5, depth, tensor, places)
            found = np.concatenate([velocities("finite_difference", 1.5, depth, tensor, [one]) for one in places])
            errors = np.linalg.norm(found - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
            text = " ".join(f"{error:8.2%}" for error in errors)
            print(f"{tensor:10s} {'below' if depth in BELOW else 'above'} {depth:5g} cells {text}", flush=True)


if __name__ == "__main__":
    main()
