"""LOH.1 against wavenumber integration, and what the absorbing layers leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from slow_variants import slow_except
from verification_tools import draw, make, record, relative_l2, traces_against, velocities

REFERENCE = Path(__file__).parents[1] / "data" / "loh1" / "loh1.npz"


def loh1(spacing: float, order: int, domain: dict[str, list[float]], receivers: np.ndarray) -> lw.Simulation:
    return lw.Simulation(
        title="LOH.1",
        domain=domain,
        material={
            "layers": [
                {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600},
                {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700},
            ]
        },
        sources=[
            {
                "position": [0, 0, -2000],
                "moment_tensor": {"xy": 1e18},
                "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
            }
        ],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": p.tolist()} for n, p in enumerate(receivers, 1)],
        duration=4.0,
        solver={"order": order, "spacing": spacing, "max_frequency": 2.5},
        output={"sampling_interval": 0.01},
    )


@pytest.mark.parametrize(
    ("order", "position"),
    slow_except([(4, 0.25)], [(4, 0.0), (4, 0.25), (4, 0.5), (4, 0.75), (8, 0.0)]),
)
def test_loh1(order: int, position: float) -> None:
    """Receivers 1 to 5, t < 4 s, 10 points per wavelength of 2.5 Hz; the reference is good to half a percent.

    The interface is at several positions in its cell, in units of the grid spacing below a plane of nodes.
    """
    reference = {name: values[:5] if name != "t" else values for name, values in np.load(REFERENCE).items()}
    domain = {"x": [-1500, 4700], "y": [-1500, 5600], "z": [-4000, 0]}
    simulation = loh1(1000.0 / (12 + position), order, domain, reference["receivers"])
    time, computed = velocities(simulation)
    exact = np.array(
        [[np.interp(time, reference["t"], component) for component in receiver] for receiver in reference["v"]]
    )
    error = relative_l2(computed, exact)
    each = [relative_l2(computed[n], exact[n]) for n in range(5)]
    limit = 0.013
    name = f"loh1_order_{order}_{position}"
    record(name, relative_l2=error, each_receiver=each, limit=limit, points_per_wavelength=10)
    if order == 4 and position == 0.25:
        draw("loh1", lambda figure: traces_against(figure, time, computed, exact, "LOH.1, order 4"))
    assert error <= limit
    assert max(each) <= 0.018


def kinetic_energy(solver: object) -> float:
    """Sum of |v|^2 over the points that lie in no layer."""
    grid, halo = solver.grid, solver.plan.halo
    inside = tuple(
        slice(s.start + halo, s.stop + halo) for s in (grid.interior(axis) for axis in (2, 1, 0))
    )
    return sum(float(np.sum(solver.fields_by_name[name][inside].astype(float) ** 2)) for name in ("vx", "vy", "vz"))


@pytest.mark.slow
def test_absorbing_layers_leave_nothing_and_do_not_grow() -> None:
    """Ten cells, vp/vs = 4, a long thin box along whose sides waves graze, 20,000 steps."""
    simulation = lw.Simulation(
        domain={"x": [0, 6000], "y": [0, 1500], "z": [-1500, 0]},
        boundaries={"top": "absorbing"},
        material={"homogeneous": {"vp": 4000, "vs": 1000, "rho": 2200}},
        sources=[
            {
                "position": [330, 210, -170],
                "moment_tensor": {"xx": 1e15, "yy": 2e15, "xz": 1.5e15},
                "time_function": {"gaussian": {"sigma": 0.25, "delay": 1.5}},
            }
        ],
        receivers=[],
        duration=300.0,
        solver={"order": 4, "spacing": 100.0, "max_frequency": 1.5},
        output={"sampling_interval": 0.015},
    )
    plan, solver = make(simulation)
    steps, energies, times = 20_000, [], []
    for step in range(steps):
        solver.advance(step)
        if step % 20 == 0 and (step < 2000 or step % 200 == 0):
            energies.append(kinetic_energy(solver))
            times.append((step + 1) * plan.schedule.time_step)
    energies, times = np.array(energies), np.array(times)
    # The slowest wave has crossed the box along its diagonal twice.
    left = energies[times > 3.0 + 2 * 6400 / 1000] / energies.max()
    record("absorbing_layers", cells=10, steps=steps, energy_left=float(left[0]), energy_at_end=float(left[-1]))

    def plot(figure: object) -> None:
        axis = figure.subplots()
        axis.loglog(times, energies / energies.max() + 1e-40)
        axis.axhline(1e-6, color="k", linewidth=0.8, linestyle="--")
        axis.set_xlabel("time (s)")
        axis.set_ylabel("energy in the box over its largest")
        axis.set_ylim(1e-20, 2)

    draw("absorbing_layers", plot)
    assert left.max() <= 1e-6
    half = len(left) // 2
    assert left[half:].max() <= left[:half].max() * 1.0001


@pytest.mark.slow
def test_layers_replace_a_larger_box() -> None:
    """Seismograms in a small box are those of a box so large that nothing returns in time, near the surface too."""
    receivers = np.array([[600.0, 800.0, 0.0], [1200.0, 900.0, -500.0]])
    traces = {}
    for name, margin in (("small", 0.0), ("large", 4000.0)):
        domain = {"x": [-800 - margin, 1600 + margin], "y": [-800 - margin, 1600 + margin], "z": [-2800 - margin, 0]}
        simulation = loh1(100.0, 4, domain, receivers).with_overrides({"duration": 2.2})
        _, traces[name] = velocities(simulation)
    error = relative_l2(traces["small"], traces["large"])
    record("layers_against_large_box", relative_l2=error, cells=10)
    assert 0 < error < 0.01
