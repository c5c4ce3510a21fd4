"""Short measurements of the spectral-element kernels: for predictions (`check`) and for `bench`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lithowave.mesh.hexahedra import curved, layered_box
from lithowave.solvers.clock import Schedule
from lithowave.solvers.spectral_element.elements import Kind
from lithowave.solvers.spectral_element.materials import ElementMaterials, isotropic_stiffness
from lithowave.solvers.spectral_element.meshing import MeshedModel
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, make_plan
from lithowave.solvers.spectral_element.solver import SpectralElementSolver

SIZE, VP, VS, RHO = 100.0, 5000.0, 2900.0, 2700.0
SAMPLE_ELEMENTS = {"cpu": 8_000, "cuda": 200_000}
SHORTEST = 5e-3  # s, of what is timed at once
REPEATS = 7


def synthetic_plan(
    counts: tuple[int, int, int], degree: int, precision: str, kind: Kind, *, absorbing: bool = True,
    deterministic: bool = False,
) -> SpectralElementPlan:  # fmt: skip
    """A box of elements of one kind, free on top and absorbing elsewhere, for measurements.

    Trilinear and triquadratic elements are deformed by smooth waves; the moduli of varying ones differ from point to
    point.
    """
    ends = [(0.0, SIZE * count) for count in counts]
    mesh = layered_box(ends[0], ends[1], [0.0, -ends[2][1]], [(SIZE, SIZE)]).local()
    if kind.map != "affine":
        mesh = deformed(mesh, kind.map)
    faces = np.concatenate([faces for name, faces in mesh.boundaries.items() if name != "z_max"])
    none = np.zeros((0, 2), np.int64)
    kinds = {"absorbing": faces if absorbing else none, "rigid": none, "free": mesh.boundaries["z_max"]}
    materials = synthetic_materials(mesh.element_count, degree, kind, precision)
    model = MeshedModel(mesh, materials, kinds, None, SIZE)
    return make_plan(model, degree, lambda limit: Schedule(0.8 * limit, limit, 10, 2), precision, deterministic)


def deformed(mesh: Any, shape: str) -> Any:
    """The mesh bent by waves some elements long, by up to a tenth of an element."""

    def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (2 * np.pi * one / (6.3 * SIZE) for one in (x, y, z))
        return tuple(0.1 * SIZE * wave for wave in (np.sin(b + c), np.sin(c + a), np.sin(a + b)))

    if shape == "triquadratic":
        return curved(mesh, bend)
    from dataclasses import replace

    x, y, z = mesh.vertices.T
    return replace(mesh, vertices=mesh.vertices + np.stack(bend(x, y, z), axis=1))


def synthetic_materials(elements: int, degree: int, kind: Kind, precision: str) -> ElementMaterials:
    """Moduli that vary by a tenth from point to point, or one set for all elements."""
    mu, lam = RHO * VS**2, RHO * (VP**2 - 2 * VS**2)
    values = None
    if kind.varying:
        dtype = np.float32 if precision == "single" else np.float64
        ripple = 1 + 0.1 * np.sin(np.arange((degree + 1) ** 3, dtype=dtype)).reshape((degree + 1,) * 3)
        values = np.empty((3, elements, *ripple.shape), dtype)
        for part, value in zip(values, (lam, mu, RHO), strict=True):
            part[:] = value * ripple
    stiffness = isotropic_stiffness(np.array([lam]), np.array([mu]))
    return ElementMaterials(
        np.zeros(elements, np.int64), stiffness, np.array([RHO]), np.array([kind.anisotropic]), np.array([VP]),
        np.array([VS]), values,
    )  # fmt: skip


def fill_with_noise(solver: SpectralElementSolver) -> None:
    """Small random momenta: zeros and denormal numbers have speeds of their own."""
    random = np.random.default_rng(1)
    mass = solver.plan.survey.mass
    momentum = np.zeros((len(mass) + 1, 4), solver.backend.dtype)
    momentum[:-1, :3] = 1e-3 * mass[:, None] * random.standard_normal((len(mass), 3), dtype=np.float32)
    momentum[:, :3] /= solver.plan.schedule.time_step
    solver.backend.assign(solver.momentum, momentum)


def typical_time(function: Callable[[], object], backend: Any) -> float:
    """Median time of a call, s, once kernels are compiled and graphs are loaded."""

    def seconds(calls: int) -> float:
        backend.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        backend.synchronize()
        return (time.perf_counter() - begin) / calls

    warm = min(seconds(1) for _ in range(3))
    calls = min(100, math.ceil(SHORTEST / max(warm, 1e-9)))
    return float(np.median([seconds(calls) for _ in range(REPEATS)]))


def predict_loop_time(plan: SpectralElementPlan, backend: Any, receiver_count: int) -> float:
    """Predicted time of the loop, s: steps of a small box of each kind of elements, scaled, and a record's time."""
    kinds, place = plan.kinds
    per_step = 0.0
    for number, kind in enumerate(kinds):
        members = int((place == number).sum())
        side = max(4, math.ceil(min(members, SAMPLE_ELEMENTS[backend.name]) ** (1 / 3)))
        sample = synthetic_plan(
            (side,) * 3, plan.degree, backend.precision, kind, deterministic=plan.deterministic
        )  # fmt: skip
        solver = SpectralElementSolver(sample, None, backend)
        fill_with_noise(solver)
        per_step += typical_time(lambda solver=solver: solver.advance(0), backend) * members / sample.element_count
    return plan.schedule.steps * (per_step + receiver_count * RECORD_TIME[backend.name])


RECORD_TIME = {"cpu": 4e-7, "cuda": 2e-9}  # s for a receiver: some 125 points are gathered
