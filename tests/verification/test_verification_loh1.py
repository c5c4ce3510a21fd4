"""LOH.1 by all methods against wavenumber integration, which is good to half a percent: receivers 1 to 5, t < 4 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from slow_variants import slow_except
from verification_tools import draw, record, relative_l2, traces_against, velocities

REFERENCE = Path(__file__).parents[1] / "data" / "loh1" / "loh1.npz"
MATERIAL = {"layers": [
    {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700},
]}  # fmt: skip
SMALL = {"x": [-1500, 4700], "y": [-1500, 5600], "z": [-4000, 0]}
LARGE = {"x": [-6000, 9000], "y": [-6000, 10000], "z": [-8000, 0]}
SE = {"method": "spectral_element", "points_per_wavelength": 7.0}
DG = {"method": "discontinuous_galerkin", "order": 5, "points_per_wavelength": 6.0}


def grid(order: int, position: float) -> tuple[dict[str, list[float]], dict[str, Any], float, float]:
    """Ten points in the shortest wavelength; the interface lies a number of grid steps below a plane of nodes."""
    return SMALL, {"order": order, "spacing": 1000.0 / (12 + position)}, 0.0088, 0.015


# Domain, solver, largest error of all receivers and of one. Faces of elements are on the interface.
CASES = {
    f"loh1_order_{order}_{position}": grid(order, position)
    for order, position in [(4, 0.0), (4, 0.25), (4, 0.5), (4, 0.75), (8, 0.0)]
} | {"loh1_degree_4": (LARGE, SE, 0.003, 0.005), "loh1_tetrahedra": (LARGE, DG, 0.0028, 0.0034)}  # fmt: skip
FIGURES = {
    "loh1_order_4_0.25": ("loh1", "order 4"), "loh1_degree_4": ("loh1_degree_4", "degree 4"),
    "loh1_tetrahedra": ("loh1_tetrahedra", "tetrahedra of order 5"),
}  # fmt: skip


def loh1(domain: dict[str, list[float]], solver: dict[str, Any], receivers: np.ndarray) -> lw.Simulation:
    pulse = {"gaussian": {"sigma": 0.12, "delay": 0.72}}
    return lw.Simulation(
        title="LOH.1", domain=domain, material=MATERIAL, duration=4.0,
        sources=[{"position": [0, 0, -2000], "moment_tensor": {"xy": 1e18}, "time_function": pulse}],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": p.tolist()} for n, p in enumerate(receivers, 1)],
        solver={"max_frequency": 2.5, **solver}, output={"sampling_interval": 0.01},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *slow_except([("loh1_order_4_0.25", "cpu")], [(name, "cpu") for name in CASES]),
        pytest.param("loh1_tetrahedra", "cuda", marks=pytest.mark.gpu),
    ],
)
def test_loh1(name: str, device: str) -> None:
    reference = np.load(REFERENCE)
    domain, solver, limit, largest = CASES[name]
    simulation = loh1(domain, solver, reference["receivers"][:5]).with_overrides({"compute.backend": device})
    time, computed = velocities(simulation)
    exact = np.array([[np.interp(time, reference["t"], one) for one in receiver] for receiver in reference["v"][:5]])
    error, each = relative_l2(computed, exact), [relative_l2(*pair) for pair in zip(computed, exact, strict=True)]
    points = solver.get("points_per_wavelength", 10)
    record(name, relative_l2=error, each_receiver=each, limit=limit, points_per_wavelength=points)
    if name in FIGURES:
        file, label = FIGURES[name]
        draw(file, lambda figure: traces_against(figure, time, computed, exact, f"LOH.1, {label}"))
    assert error <= limit
    assert max(each) <= largest


@pytest.mark.slow
def test_layers_replace_a_larger_box() -> None:
    """Seismograms in a small box are those of a box so large that nothing returns in time, near the surface too."""
    receivers = np.array([[600.0, 800.0, 0.0], [1200.0, 900.0, -500.0]])
    traces = {}
    for name, margin in (("small", 0.0), ("large", 4000.0)):
        domain = {"x": [-800 - margin, 1600 + margin], "y": [-800 - margin, 1600 + margin], "z": [-2800 - margin, 0]}
        simulation = loh1(domain, {"order": 4, "spacing": 100.0}, receivers).with_overrides({"duration": 2.2})
        _, traces[name] = velocities(simulation)
    error = relative_l2(traces["small"], traces["large"])
    record("layers_against_large_box", relative_l2=error, cells=10)
    assert 0 < error < 0.0002
