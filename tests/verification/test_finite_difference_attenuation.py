"""Attenuation of the finite differences: waves in homogeneous media against the complex moduli of the relaxation body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.finite_difference.attenuation import node_mechanism
from lithowave.solvers.finite_difference.fields import FIELDS, STAGGER, VELOCITIES
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver
from verification_tools import make, record

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
        solver={"spacing": SPACING, "order": 8, "safety": safety, "memory_variables": mode},
        compute={"precision": "double", "backend": "cpu"},
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
        self.weights = found.anelasticity.property_weights(source)
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
    return np.array([node_mechanism(*(n - plan.halo for n in index)) for index in np.ndindex(2, 2, 2)]).reshape(2, 2, 2)[
        np.ix_(*(np.arange(count) % 2 for count in plan.padded_shape()))
    ]


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
