"""Boxes of fluid and solid spectral elements: exact fields at an interface, driven from the outside, and energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from exact_solutions.fluid_solid import InterfaceField, Medium
from lithowave.description import FACES
from lithowave.mesh import HexahedralMesh, curved, layered_box
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.solvers import Schedule
from lithowave.solvers.spectral_element import (
    AbsorbingLayer,
    ElementMaterials,
    MeshedModel,
    SpectralElementPlan,
    make_plan,
)
from spectral_element_boxes import point_positions, several_materials, side_points

SIZE = 1000.0  # m
WATER, MUD, ROCK = Medium(1500.0, 0.0, 1000.0), Medium(1900.0, 900.0, 1800.0), Medium(5000.0, 2800.0, 2600.0)


def two_layers(count: int, shape: str, floor: Callable[..., np.ndarray] | float = -0.5 * SIZE) -> HexahedralMesh:
    """A cube below z = 0 whose interface, of materials 0 and 1, is at `floor`; its elements are bent along the faces
    of the cube and along a flat interface."""
    step = SIZE / count
    mesh = layered_box((0, SIZE), (0, SIZE), [0.0, floor, -SIZE], [(step, step)] * 2)

    def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (np.pi * one / SIZE for one in (x, y, -z))
        return (
            0.06 * SIZE * np.sin(a) * np.cos(1.2 * b + 0.7 * c),
            0.05 * SIZE * np.sin(b) * np.sin(1.1 * c - 0.8 * a),
            0.03 * SIZE * np.sin(2.0 * c) * np.cos(0.9 * a + 0.6 * b),
        )

    if shape == "triquadratic":
        mesh = curved(mesh, bend)
    elif shape == "trilinear":
        mesh = replace(mesh, vertices=mesh.vertices + np.stack(bend(*mesh.vertices.T), axis=-1))
    return mesh.local()


def media_of(number: np.ndarray, media: tuple[Medium, ...]) -> ElementMaterials:
    """number : of each element's medium."""
    stiffness = [isotropic_stiffness(*lame_moduli(one.vp, one.vs, one.rho)) for one in media]
    found = several_materials(number, stiffness, [one.rho for one in media], [False] * len(media))
    return replace(found, slowest=np.array([one.vs or one.vp for one in media]))


def sea_plan(count: int, shape: str, precision: str = "double", layer: str = "") -> SpectralElementPlan:
    """A sea over mud in a cube, free on top: Stacey sides, with a layer of the outer half along some axes."""
    mesh = two_layers(count, shape)
    none = np.zeros((0, 2), np.int64)
    sides = np.concatenate([faces for name, faces in mesh.boundaries.items() if name != "z_max"])
    faces = {"free": mesh.boundaries["z_max"], "rigid": none, "absorbing": sides}
    thickness = dict.fromkeys(FACES, 0.0) | dict.fromkeys([f"{axis}_max" for axis in layer], 0.4 * SIZE)
    ends = tuple((0.0, 0.6 * SIZE if axis in layer else SIZE) for axis in "xy") + ((-SIZE, 0.0),)
    own = AbsorbingLayer(ends, thickness, 2, frequency=1.0) if layer else None
    model = MeshedModel(mesh, media_of(mesh.materials, (WATER, MUD)), faces, own, None)
    return make_plan(model, 4, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), precision)


def fluid_points(plan: Any) -> np.ndarray:
    """True for each point of a plan that is in a fluid."""
    found = np.zeros(plan.total_points, bool)
    found[plan.numbers[plan.materials.is_fluid]] = True
    return found


def unknowns(field: InterfaceField, positions: np.ndarray, fluid: np.ndarray, time: float) -> np.ndarray:
    """Displacement, m, of solids and potential, Pa s, of fluids (points, 3) of a harmonic field.

    fluid : True for each point in the fluid, which is the upper medium.
    """
    found = np.zeros((len(positions), 3))
    rate = -1j * field.waveform.angular_frequency
    for waves, here in ((field.upper, fluid), (field.lower, ~fluid)):
        for wave in waves:
            s, d = wave.slowness, wave.polarization
            # grad phi = rho v, from a wave v = d f(t - s x) with d parallel to s
            pattern = -wave.medium.rho * (d @ s) / (s @ s) * np.array([1, 0, 0]) if wave.medium.fluid else d
            phase = field.waveform(time - (positions[here] - field.origin) @ s) / rate
            found[here] += np.multiply.outer(phase, pattern).real
    return found


def start(solver: Any, before: np.ndarray, after: np.ndarray) -> None:
    """Set the unknowns (points, 3) half a step before and after t = 0, and the state of coupled points."""
    solver.displacement[:-1, :3] = before
    scale = solver.displacement[:-1, 3:]
    solver.momentum[:-1, :3] = np.where(scale > 0, (after - before) / np.where(scale > 0, scale, 1.0), 0.0)
    keep_history(solver)


def keep_history(solver: Any) -> None:
    """Set p before of all coupled points to the present p."""
    for pairs in solver.pairs:
        if pairs.count:
            pairs.history[:, :3] = solver.momentum[pairs.solid, :3]
            pairs.history[:, 3] = solver.momentum[pairs.fluid, 0]


def driven(solver: Any, field: InterfaceField, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Follow a field, which is imposed on the sides; errors in L2 and sizes of the unknowns in the solid and in the
    fluid, (2,) each."""
    plan, step = solver.plan, solver.plan.schedule.time_step
    positions, fluid, held = point_positions(plan), fluid_points(plan), side_points(plan)
    some, wet = positions[held], fluid[held]

    def at(time: float) -> np.ndarray:
        return unknowns(field, some, wet, time)

    start(solver, *(unknowns(field, positions, fluid, half * step) for half in (-0.5, 0.5)))
    scale = solver.displacement[held, 3:]
    for number in range(steps):
        solver.update_displacement()
        present = at((number + 0.5) * step)
        solver.displacement[held, :3] = present
        solver.add_forces()
        solver.absorb()
        solver.momentum[held, :3] = (at((number + 1.5) * step) - present) / scale
        keep_history(solver)
    exact = unknowns(field, positions, fluid, (steps - 0.5) * step)
    mass = plan.element_statistics.mass[:, None]
    squares = [mass * (solver.displacement[:-1, :3] - exact) ** 2, mass * exact**2]
    errors, sizes = ([float(np.sqrt(one[part].sum())) for part in (~fluid, fluid)] for one in squares)
    return np.array(errors), np.array(sizes)


def energy(solver: Any) -> float:
    """p M^-1 p / 2 + u- K u+ / 2 of the discrete unknowns half a step before and after, J."""
    u, p = np.array(solver.displacement), np.array(solver.momentum)
    kinetic = 0.5 * float(np.sum(u[:, 3:] * p[:, :3] ** 2))
    solver.displacement[:, :3] += u[:, 3:] * p[:, :3]
    solver.momentum[:, :3] = 0.0
    solver.add_forces()
    forces = np.array(solver.momentum[:, :3])
    solver.displacement[:], solver.momentum[:] = u, p
    return kinetic - 0.5 * float(np.sum(forces * u[:, :3]))


def shake(solver: Any, seed: int = 1) -> None:
    """Set random velocities, m/s, and pressures of similar energy."""
    plan, random = solver.plan, np.random.default_rng(seed)
    rates = random.standard_normal((plan.total_points, 3))
    fluid = fluid_points(plan)
    rates[fluid] *= [1.5e6, 0.0, 0.0]
    mass = plan.element_statistics.mass[:, None]
    solver.momentum[:-1, :3] = plan.moves[:, None] * mass * rates / plan.schedule.time_step
    keep_history(solver)
