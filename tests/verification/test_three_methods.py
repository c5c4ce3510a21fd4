"""Finite differences, spectral elements and discontinuous Galerkin elements on one experiment."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from verification_tools import draw, record, relative_l2, velocities

FREQUENCY = 2.0
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
METHODS = {
    "finite_difference": {"order": 4, "max_frequency": FREQUENCY, "points_per_wavelength": 9.0},
    "spectral_element": {"degree": 4, "max_frequency": FREQUENCY, "points_per_wavelength": 6.5},
    "discontinuous_galerkin": {"order": 5, "spacing": 1400.0},
}
RECEIVERS = ((730.0, 410.0), (-1620.0, 930.0), (520.0, -1890.0), (1730.0, 1680.0))


def experiment(method: str) -> lw.Simulation:
    """A source off all grids below the free surface of a homogeneous rock; the surface carries its waves on.

    The records end before reflections of the sides arrive.
    """
    return lw.Simulation(
        boundaries={} if method == "finite_difference" else {"absorption": "stacey"},
        domain={"x": [-5600, 5600], "y": [-5600, 5600], "z": [-7000, 0]},
        material={"homogeneous": {"vp": 6000, "vs": 3464, "rho": 2700}},
        sources=[
            {
                "position": [133, -71, -2617],
                "moment_tensor": {"xx": 4e15, "yy": -1e15, "zz": 2e15, "xy": 5e15, "xz": -3e15, "yz": 2e15},
                "time_function": {"gaussian": {"sigma": SIGMA, "delay": 5 * SIGMA}},
            }
        ],
        receivers=[{"name": f"R{n}", "position": [x, y, 0]} for n, (x, y) in enumerate(RECEIVERS)],
        duration=2.6,
        solver={"method": method, **METHODS[method]},
        compute={"backend": "cpu"},
        output={"sampling_interval": 0.02},
    )


@pytest.mark.slow
def test_three_methods_agree() -> None:
    """Seismograms at the surface differ by at most 0.85% from method to method."""
    traces = {}
    for method in METHODS:
        time, traces[method] = velocities(experiment(method))
    differences = {
        f"{one} - {other}": relative_l2(traces[one], traces[other]) for one, other in combinations(METHODS, 2)
    }
    record("three_methods", largest=max(differences.values()), relative_l2=differences)

    def plot(figure: Any) -> None:
        for axes, component in zip(figure.subplots(1, 3, sharey=True), range(3), strict=True):
            for (method, found), style in zip(traces.items(), ("-", "--", ":"), strict=True):
                for number in range(len(RECEIVERS)):
                    scale = 0.5 / np.abs(traces["spectral_element"][number]).max()
                    label = method.replace("_", " ") if number == 0 and component == 0 else None
                    axes.plot(
                        time, number + scale * found[number, component], style, linewidth=1.2, label=label,
                        color={"-": "0.6", "--": "tab:red", ":": "tab:blue"}[style],
                    )  # fmt: skip
            axes.set_title("ENZ"[component])
            axes.set_xlabel("time (s)")
        figure.legend(loc="outside lower center", ncols=3)
        figure.axes[0].set_yticks(range(len(RECEIVERS)), [f"receiver {n + 1}" for n in range(len(RECEIVERS))])

    draw("three_methods", plot)
    assert max(differences.values()) <= 0.0085
