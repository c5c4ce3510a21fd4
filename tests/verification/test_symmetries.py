"""Laws of grids that hold whatever the answer is: energy, and that no axis is special."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.finite_difference import LAWS
from slow_variants import slow_except
from verification_tools import make, record, relative_l2, velocities

DOUBLE = {"precision": "double", "threads": 1}  # these grids are too small for more threads
PULSE = {"gaussian": {"sigma": 0.08, "delay": 0.4}}
LAYERED = {
    "layers": [
        {"top": 0, "vp": 3000, "vs": 1500, "rho": 2200},
        {"top": -430, "vp": 5000, "vs": 2900, "rho": 2600},
    ]
}


def box(sources: list, receivers: list, order: int = 4, **changes: object) -> lw.Simulation:
    description = {
        "domain": {"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1500, 0]},
        "material": LAYERED,
        "sources": sources,
        "receivers": [{"network": "XX", "name": f"R{n}", "position": p} for n, p in enumerate(receivers)],
        "duration": 2.0,
        "solver": {"order": order, "spacing": 100.0, "max_frequency": 1.5 if order == 2 else 3.0},
        "output": {"sampling_interval": 0.02},
        **changes,
    }
    return lw.Simulation(**description)


def discrete_energy(solver: object, before: dict[str, np.ndarray]) -> float:
    """Kinetic energy at t_n plus the elastic energy of the stresses half a step before and after, exactly conserved."""
    halo = solver.plan.halo
    inner = (slice(halo, -halo),) * 3
    arrays = {name: array[inner].astype(float) for name, array in solver.material.arrays.items()}
    density, law = arrays["density"], solver.plan.law
    volumes = solver.stencil.line_volume

    def weight(half: tuple[int, int, int]) -> np.ndarray:
        x, y, z = (volumes[axis][half[axis]] for axis in range(3))
        return z[:, None, None] * y[None, :, None] * x[None, None, :]

    def shifted(array: np.ndarray, *axes: int) -> np.ndarray:
        for axis in axes:
            array = np.concatenate([array, np.take(array, [-1], axis=2 - axis)], axis=2 - axis)
            index = [slice(None)] * 3
            index[2 - axis] = slice(1, None)
            array = array[tuple(index)]
        return array

    kinetic = 0.0
    for axis, name in enumerate(("vx", "vy", "vz")):
        half = tuple(int(a == axis) for a in range(3))
        v = before[name][inner]
        kinetic += 0.5 * np.sum(weight(half) * 0.5 * (density + shifted(density, axis)) * v * v)
    now = {name: array[inner].astype(float) for name, array in solver.fields_by_name.items()}
    past = {name: array[inner].astype(float) for name, array in before.items()}
    normal_now, normal_past = (np.stack([f["sxx"], f["syy"], f["szz"]], axis=-1) for f in (now, past))
    strain = np.linalg.solve(normal_stiffness(arrays, law), normal_past[..., None])[..., 0]
    elastic = 0.5 * np.sum(weight((0, 0, 0)) * (normal_now * strain).sum(axis=-1))
    for a, b, name in ((0, 1, "sxy"), (0, 2, "sxz"), (1, 2, "syz")):
        half = tuple(int(axis in (a, b)) for axis in range(3))
        if law == "orthorhombic":
            mean = arrays[f"compliance_{name[1:]}"]
        elif law == "transverse" and b == 2:
            mean = (arrays["compliance"] + shifted(arrays["compliance"], a)) / 2
        else:
            flat = arrays["compliance_xy" if law == "transverse" else "compliance"]
            mean = (flat + shifted(flat, a) + shifted(flat, b) + shifted(flat, a, b)) / 4
        elastic += 0.5 * np.sum(weight(half) * mean * now[name] * past[name])
    return kinetic + elastic


def normal_stiffness(arrays: dict[str, np.ndarray], law: str) -> np.ndarray:
    """Return c11 to c33 (..., 3, 3) of the nodes."""
    if law == "isotropic":
        lam, mu = arrays["lam"], 1 / arrays["compliance"]
        rows = [[lam + 2 * mu, lam, lam], [lam, lam + 2 * mu, lam], [lam, lam, lam + 2 * mu]]
    else:
        c11, c13, c33 = arrays["c11"], arrays["c13"], arrays["c33"]
        c12 = arrays["c12"] if law == "orthorhombic" else c11 - 2 / arrays["compliance_xy"]
        c22, c23 = arrays.get("c22", c11), arrays.get("c23", c13)
        rows = [[c11, c12, c13], [c12, c22, c23], [c13, c23, c33]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


@pytest.mark.parametrize(
    ("order", "law"),
    slow_except([(8, "transverse"), (4, "orthorhombic")], itertools.product([2, 4, 8], LAWS)),
)
def test_energy_of_a_closed_box_is_conserved(order: int, law: str) -> None:
    """Free top, five rigid faces, strong contrast, random initial stress: constant to rounding over many steps."""
    simulation = box([], [], order, boundaries={"sides": "rigid", "bottom": "rigid"}, compute=DOUBLE)
    simulation = simulation.with_overrides({"solver.effective_medium": law})
    plan, solver = make(simulation)
    generator = np.random.default_rng(1)
    halo = plan.halo
    for name in ("vx", "vy", "vz"):
        solver.fields_by_name[name][(slice(halo + 1, -halo - 2),) * 3] = generator.standard_normal(
            tuple(n - 3 for n in plan.grid.shape[::-1])
        )
    solver.step.finish_velocity(solver.fields_by_name, solver.step.regions.velocity)  # zero on rigid faces
    energies = []
    for _ in range(400):
        before = {name: array.copy() for name, array in solver.fields_by_name.items()}
        solver.step.advance_stress(solver.fields_by_name, solver.step.regions.stress)
        energies.append(discrete_energy(solver, before))
        solver.step.advance_velocity(solver.fields_by_name, solver.step.regions.velocity)
    drift = np.abs(np.array(energies) / energies[0] - 1).max()
    record(f"energy_closed_box_order_{order}_{law}", drift=float(drift), steps=400)
    assert energies[0] > 0
    assert drift < 1e-10


@pytest.mark.parametrize(
    ("kind", "turn"),
    slow_except([("absorbing", 1), ("rigid", 2)], itertools.product(["absorbing", "rigid"], [1, 2])),
)
def test_no_axis_is_special(kind: str, turn: int) -> None:
    """Turning domain, source and receivers by a permutation of the axes turns the seismograms, bit for bit nearly."""
    extent = [1000.0, 1200.0, 1400.0]
    force, source = [1e10, -0.5e10, 0.7e10], [120.0, -230.0, 310.0]
    receivers = [[-340.0, 270.0, -410.0], [480.0, 590.0, 690.0]]
    moment = {"xx": 1e13, "yy": -2e13, "zz": 3e13, "xy": 0.5e13, "xz": -0.7e13, "yz": 0.9e13}

    def turned(values: list[float]) -> list[float]:
        return [values[(n + turn) % 3] for n in range(3)]

    def turned_moment() -> dict[str, float]:
        letters = [("x", "y", "z")[(n + turn) % 3] for n in range(3)]
        pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
        return {"xyz"[i] + "xyz"[j]: moment["".join(sorted(letters[i] + letters[j]))] for i, j in pairs}

    def run(lengths: list[float], place: list, push: list, tensor: dict, points: list) -> np.ndarray:
        entries = [
            {"position": place, "force": push, "time_function": PULSE},
            {"position": place, "moment_tensor": tensor, "time_function": PULSE},
        ]
        simulation = box(
            entries, points, 8,
            domain={axis: [-length, length] for axis, length in zip("xyz", lengths, strict=True)},
            boundaries={"top": kind, "sides": kind, "bottom": kind},
            material={"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
            compute=DOUBLE, duration=1.2,
        )  # fmt: skip
        return velocities(simulation)[1]

    straight = run(extent, source, force, moment, receivers)
    other = run(turned(extent), turned(source), turned(force), turned_moment(), [turned(r) for r in receivers])
    back = np.stack([other[:, (n - turn) % 3] for n in range(3)], axis=1)
    assert np.abs(straight).max() > 0
    assert relative_l2(back, straight) < 1e-11
