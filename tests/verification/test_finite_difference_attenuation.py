"""Attenuation of the finite differences: waves against the complex moduli of the relaxation body, stability, LOH.3."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from attenuating_space import exact_motion
from lithowave.solvers.finite_difference import (
    FIELDS,
    STAGGER,
    FiniteDifferenceSolver,
    choose_attenuation,
    node_mechanism,
)
from lithowave.solvers.finite_difference.law import VELOCITIES
from slow_variants import slow_except
from verification_tools import make, record, relative_l2, velocities

VP, VS, RHO, SPACING, NODES, POINTS = 4000.0, 2200.0, 2500.0, 100.0, 44, 12
HALF_SPAN = 6  # nodes on either side of the middle where waves are measured


def simulation(qp: float, qs: float, mode: str, safety: float) -> lw.Simulation:
    """A cube without sources; the frequencies of waves with `POINTS` points per wavelength are within the band."""
    extent = [0.0, (NODES - 1) * SPACING]
    frequency = VP / (POINTS * SPACING)
    return lw.Simulation(
        domain={"x": extent, "y": extent, "z": [-extent[1], 0.0]},
        boundaries={"top": "absorbing", "layer": {"cells": 1}},
        material={
            "homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "qp": qp, "qs": qs},
            "attenuation": {"band": [frequency / 20, 2 * frequency], "reference_frequency": frequency},
        },
        sources=[],
        receivers=[],
        duration=10.0,
        solver={"spacing": SPACING, "order": 4, "safety": safety, "memory_variables": mode},
        compute={"precision": "single", "backend": "cpu"},
    )


class HarmonicWave:
    """v = exp(s t - i k n x) along an axis, with real k and complex s: rho s^2 + M(s) K^2 = 0.

    K is the wavenumber of the stencil, so that only the discretization in time, and in mechanisms, has an effect.
    """

    def __init__(self, solver: FiniteDifferenceSolver, kind: str, axis: int) -> None:
        self.solver, self.axis, self.plan = solver, axis, solver.plan
        self.across = axis if kind == "P" else (axis + 1) % 3
        found = self.plan.attenuation
        source = found.anelasticity.source.homogeneous
        self.body, self.losses = found.body, source.inverse_quality
        self.weights = tuple(self.body.weights(loss) for loss in self.losses)
        medium = found.anelasticity.material.homogeneous
        self.mu = RHO * medium.vs**2
        self.kappa = RHO * medium.vp**2 - 4 / 3 * self.mu
        self.k = 2 * np.pi / (POINTS * SPACING)
        steps = np.arange(len(self.plan.coefficients[axis])) + 0.5
        self.slope = 2 / SPACING * np.sum(self.plan.coefficients[axis] * np.sin(steps * self.k * SPACING))
        self.s = 1j * self.k * (VP if kind == "P" else VS)
        for _ in range(100):
            modulus = (self.kappa * self.ratio(0) + 4 / 3 * self.mu * self.ratio(1)) if kind == "P" else (
                self.mu * self.ratio(1)
            )
            self.s = 1j * self.slope * np.sqrt(modulus / RHO)

    def ratio(self, which: int) -> complex:
        """M(s) / M_U of the bulk (0) or the shear modulus (1)."""
        rates = self.body.rates
        return 1 - np.sum(self.weights[which] * rates / (rates + self.s))

    def phase(self, name: str, time: float) -> np.ndarray:
        """exp(s t - i k x) at the points of a field or of the memory variables of a stress."""
        grid, halo, axis = self.solver.grid, self.plan.halo, self.axis
        x = grid.coordinates(axis, halo) + 0.5 * SPACING * STAGGER[name][axis]
        values = np.exp(self.s * time - 1j * self.k * x)
        return np.broadcast_to(values.reshape([-1 if a == axis else 1 for a in (2, 1, 0)]), self.plan.padded_shape())

    def amplitude(self, name: str, bulk: complex, shear: complex) -> complex:
        """Amplitude of a stress for these moduli, and a strain of the displacement."""
        strain = -1j * self.slope
        a, b = ("xyz".index(letter) for letter in name[1:])
        if a == b:
            return (bulk + shear * (4 / 3 if a == self.axis else -2 / 3)) * strain if self.across == self.axis else 0
        return shear * strain if {a, b} == {self.axis, self.across} and self.across != self.axis else 0

    def fill(self) -> None:
        """Assign the exact wave to all fields; each memory variable has its part of the exact stress."""
        step, fields, found = self.plan.schedule.time_step, self.solver.fields_by_name, self.plan.attenuation
        moduli = (self.kappa, self.mu)
        for name in FIELDS:
            if name in VELOCITIES:
                fields[name][...] = self.phase(name, 0.0).real * (name == VELOCITIES[self.across])
                continue
            factor = self.amplitude(name, *(m * self.ratio(w) / self.s for w, m in enumerate(moduli)))
            phase = self.phase(name, -0.5 * step)
            fields[name][...] = (factor * phase).real
            planes = self.plan.padded_shape()[0]
            for number, rate in enumerate(self.body.rates):
                parts = (found.fraction(number, loss) * m for loss, m in zip(self.losses, moduli, strict=True))
                factor = step * rate / (rate + self.s) * self.amplitude(name, *parts)
                values, memory = (factor * phase).real, fields["r" + name[1:]]
                if found.coarse:
                    here = mechanisms(self.plan) == number
                    memory[here] = values[here]
                else:
                    memory[number * planes : (number + 1) * planes] = values

    def measured(self, time: float) -> complex:
        """The mean s since time 0, from the velocity in the middle of the cube."""
        name = VELOCITIES[self.across]
        count = NODES + 2 + 2 * self.plan.halo
        middle = (slice(count // 2 - HALF_SPAN, count // 2 + HALF_SPAN),) * 3
        exact = self.phase(name, time)[middle].ravel()
        basis = np.stack([exact.real, -exact.imag], axis=1)
        real, imaginary = np.linalg.lstsq(basis, self.solver.fields_by_name[name][middle].ravel(), rcond=None)[0]
        return self.s + np.log(real + 1j * imaginary) / time


def mechanisms(plan: Any) -> np.ndarray:
    """The mechanism of each point of the padded arrays in the coarse mode."""
    cube = [node_mechanism(*(n - plan.halo for n in index)) for index in np.ndindex(2, 2, 2)]
    return np.reshape(cube, (2, 2, 2))[np.ix_(*(np.arange(count) % 2 for count in plan.padded_shape()))]


def wave_errors(kind: str, axis: int, mode: str, qp: float = 40.0, qs: float = 20.0, safety: float = 0.5) -> np.ndarray:
    """Relative errors of the decay and of the frequency of a wave with a given wavelength."""
    plan, solver = make(simulation(qp, qs, mode, safety))
    wave = HarmonicWave(solver, kind, axis)
    wave.fill()
    steps = int(0.22 * NODES * SPACING / plan.extremes.fastest / plan.schedule.time_step)
    for number in range(steps):
        solver.advance(number)
    found = wave.measured(steps * plan.schedule.time_step)
    return np.abs([found.real / wave.s.real - 1, found.imag / wave.s.imag - 1])


@pytest.mark.parametrize(
    ("kind", "axis", "mode"),
    slow_except(
        [("P", 0, "full"), ("S", 1, "coarse")],
        itertools.product("PS", range(3), ("full", "coarse")),
    ),
)
def test_decay_and_speed_of_plane_waves(kind: str, axis: int, mode: str) -> None:
    """Qp = 40, Qs = 20, 12 points per wavelength, half the largest time step.

    A coarse grid attenuates as in the mean of all directions and positions: single waves deviate by 0.4 to 2.5%.
    """
    decay, frequency = wave_errors(kind, axis, mode)
    record(f"finite_difference_attenuation_{mode}_{kind}_{axis}", decay_error=decay, speed_error=frequency)
    assert decay <= (0.002 if mode == "full" else 0.028)
    assert frequency <= (0.001 if mode == "full" else 0.0008)


def test_attenuation_is_of_second_order_in_time() -> None:
    coarse, fine = (wave_errors("P", 0, "full", safety=safety) for safety in (0.8, 0.4))
    assert np.all(coarse / fine > 3.5) and np.all(coarse / fine < 4.5)


# --- sources

RECEIVERS = np.array([[640.0, 310.0, -200.0], [-520.0, 500.0, 330.0], [100.0, -810.0, 420.0]])
MOMENT = dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), (1.3e15, -7e14, 2.1e15, 4e14, -1.6e15, 9e14), strict=True))
SIGMA = 0.16
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["coarse", "full"])
def test_moment_tensor_in_a_full_space(mode: str) -> None:
    """Order 4 and 10 points per wavelength at the frequency where the spectrum of the moment rate is 5%; Qs = 20."""
    frequency = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * SIGMA)
    spacing = VS / frequency / 10
    described = lw.Simulation(
        domain={axis: [-1300.0, 1300.0] for axis in "xyz"},
        boundaries={"top": "absorbing"},
        material={
            "homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "qp": 40, "qs": 20},
            "attenuation": {"band": [frequency / 50, frequency], "reference_frequency": 1.0},
        },
        sources=[{"position": [31.0, -17.0, 23.0], "moment_tensor": MOMENT, "time_function": PULSE}],
        receivers=[{"name": f"R{n}", "position": list(place)} for n, place in enumerate(RECEIVERS)],
        duration=12 * SIGMA + 0.6,
        solver={"order": 4, "spacing": spacing, "max_frequency": frequency, "memory_variables": mode},
        output={"sampling_interval": 0.02},
    )
    time, computed = velocities(described)
    exact = exact_motion(described, choose_attenuation(described).anelasticity, time)
    error = relative_l2(computed, exact)
    record(f"finite_difference_attenuation_full_space_{mode}", relative_l2=error)
    assert error <= (0.001 if mode == "full" else 0.02)


# --- stability


MODES = [("full", 10.0), ("coarse", 20.0)]


def noisy_box(mode: str, quality: float, sides: str, nodes: int, cells: int = 1) -> FiniteDifferenceSolver:
    """A box with a free top, random velocities away from its sides, and a soft layer that attenuates most."""
    spacing, extent = 50.0, 50.0 * (nodes - 1)
    described = lw.Simulation(
        domain={"x": [0.0, extent], "y": [0.0, extent], "z": [-extent, 0.0]},
        boundaries={"sides": sides, "bottom": sides, "layer": {"cells": cells}},
        material={
            "layers": [
                {"top": 0, "vp": 3000, "vs": 1700, "rho": 2300, "qp": 2 * quality, "qs": quality},
                {"top": -370, "vp": 5000, "vs": 2900, "rho": 2700, "qp": 4 * quality, "qs": 3 * quality},
            ],
            "attenuation": {"band": [0.05, 5.0]},
        },
        sources=[],
        receivers=[],
        duration=1000.0,
        solver={"spacing": spacing, "order": 4, "memory_variables": mode},
        compute={"precision": "single", "backend": "cpu"},
    )
    plan, solver = make(described)
    generator, outer = np.random.default_rng(3), plan.halo + cells
    inside = (slice(outer + 1, -outer - 2),) * 3
    for name in VELOCITIES:
        solver.fields_by_name[name][inside] = generator.standard_normal(solver.fields_by_name[name][inside].shape)
    return solver


def peaks(solver: FiniteDifferenceSolver, windows: int, steps: int) -> np.ndarray:
    """The largest kinetic energy in each of several windows of steps, at constant density."""
    found = np.zeros((windows, steps))
    for index in np.ndindex(found.shape):
        solver.advance(0)
        found[index] = sum(float(np.sum(solver.fields_by_name[name].astype(float) ** 2)) for name in VELOCITIES)
    return found.max(axis=1)


@pytest.mark.parametrize(("mode", "quality"), slow_except(MODES[:1], MODES))
def test_energy_of_a_closed_box_decays(mode: str, quality: float) -> None:
    """Rigid sides and random motion at all wavelengths."""
    found = peaks(noisy_box(mode, quality, "rigid", 18), 6, 100)
    assert np.all(np.diff(found) < 0)
    assert found[-1] < 0.1 * found[0]


@pytest.mark.parametrize(("mode", "quality"), slow_except(MODES[:1], MODES))
def test_absorbing_layers_do_not_make_waves_grow(mode: str, quality: float) -> None:
    """An interface crosses the layers; mechanisms that differ from node to node made them unstable."""
    found = peaks(noisy_box(mode, quality, "absorbing", 14, 8), 5, 150)
    assert np.all(np.diff(found) < 0)
    assert found[-1] < 1e-3 * found[0]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "quality"), MODES)
def test_absorbing_layers_are_stable_for_20000_steps(mode: str, quality: float) -> None:
    found = peaks(noisy_box(mode, quality, "absorbing", 20, 10), 20, 1000)
    assert np.all(np.diff(found) < 1e-9 * found[0])
    assert found[-1] < 1e-6 * found[0]
