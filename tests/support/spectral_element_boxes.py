"""Boxes of spectral elements for tests: a solver on any mesh, its state set and driven, errors in L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from element_kinds import quiet_solver
from lithowave.backends import make_backend
from lithowave.media import speed_range
from lithowave.mesh import HexahedralMesh, curved, lattice, layered_box, shape_tables
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.solvers import Schedule
from lithowave.solvers.spectral_element import (
    ElementMaterials,
    MeshedModel,
    SpectralElementPlan,
    SpectralElementSolver,
    face_points,
    gll_points,
    lagrange_values,
    make_plan,
)

VP, VS, RHO = 6000.0, 3464.0, 2700.0
ROCK = isotropic_stiffness(*lame_moduli(VP, VS, RHO))
MAPS = ("affine", "trilinear", "triquadratic")

# A field of displacements: time, s -> (points, 3), m.
Field = Callable[[float], np.ndarray]


def box_mesh(counts: tuple[int, int, int], size: float = 1000.0, shape: str = "affine") -> HexahedralMesh:
    """A cube of `size` m below z = 0; its faces are plane, trilinear and triquadratic elements inside it bent."""
    steps = [size / count for count in counts]
    mesh = layered_box((0, size), (0, size), [0.0, -size], [(max(steps[:2]), steps[2])])
    if shape != "affine":
        bend = bending(size)
        if shape == "triquadratic":
            mesh = curved(mesh, bend)
        else:
            mesh = replace(mesh, vertices=mesh.vertices + np.stack(bend(*mesh.vertices.T), axis=-1))
    return mesh.local()


def bending(size: float) -> Callable[..., tuple[np.ndarray, ...]]:
    """A smooth displacement, different along each axis, that leaves the faces of a cube below z = 0 in their planes."""

    def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (np.pi * one / size for one in (x, y, -z))
        return (
            0.06 * size * np.sin(a) * np.cos(1.2 * b + 0.7 * c),
            0.05 * size * np.sin(b) * np.sin(1.1 * c - 0.8 * a),
            0.05 * size * np.sin(c) * np.cos(0.9 * a + 0.6 * b),
        )

    return bend


def one_material(
    elements: int, stiffness: np.ndarray = ROCK, rho: float = RHO, anisotropic: bool = False
) -> ElementMaterials:
    """The same everywhere. stiffness : (6, 6), Pa."""
    return several_materials(np.zeros(elements, np.int64), [stiffness], [rho], [anisotropic])


def several_materials(number: np.ndarray, stiffness: list, rho: list, anisotropic: list) -> ElementMaterials:
    """number : of each element's material in the lists."""
    ranges = np.array([speed_range(one, density) for one, density in zip(stiffness, rho, strict=True)])
    return ElementMaterials(
        number, np.array(stiffness), np.array(rho, float), np.array(anisotropic), ranges[:, 1], ranges[:, 0]
    )


def make_solver(
    mesh: HexahedralMesh, degree: int, materials: ElementMaterials, kinds: Mapping[str, str] | None = None, *,
    safety: float = 0.5, precision: str = "double",
) -> SpectralElementSolver:  # fmt: skip
    """A solver without sources. kinds : of the sides, x_min ...: free unless told."""
    faces = {kind: [np.zeros((0, 2), np.int64)] for kind in ("free", "absorbing", "rigid")}
    for name, members in mesh.boundaries.items():
        faces[(kinds or {}).get(name, "free")].append(members)
    joined = {kind: np.concatenate(parts) for kind, parts in faces.items()}
    model = MeshedModel(mesh, materials, joined, None, None)
    plan = make_plan(model, degree, lambda limit: Schedule(safety * limit, limit, safety * limit, 2), precision)
    return quiet_solver(plan, make_backend("cpu", precision, 2))


def point_positions(plan: SpectralElementPlan) -> np.ndarray:
    """Positions (points, 3), m, of the points of a plan."""
    found = np.empty((plan.total_points, 3))
    found[plan.numbers] = plan.mesh.positions(gll_points(plan.degree))
    return found


def side_points(plan: SpectralElementPlan, *names: str) -> np.ndarray:
    """Points on sides of the mesh, each once; on all sides without names."""
    chosen = names or tuple(plan.mesh.boundaries)
    return np.unique(face_points(plan.numbers, np.concatenate([plan.mesh.boundaries[name] for name in chosen])))


def start_from(solver: SpectralElementSolver, before: np.ndarray, after: np.ndarray) -> None:
    """Set the state at t = 0 by the displacements (points, 3), m, half a step before and after."""
    displacement = solver.displacement.copy()
    displacement[:-1, :3] = before
    momentum = np.zeros_like(solver.momentum)
    scale = displacement[:-1, 3:]
    momentum[:-1, :3] = np.where(scale > 0, (after - before) / np.where(scale > 0, scale, 1.0), 0.0)
    solver.backend.assign(solver.displacement, displacement)
    solver.backend.assign(solver.momentum, momentum)


def drive(solver: SpectralElementSolver, field: Field, steps: int, held: np.ndarray) -> float:
    """Begin with a field and go on, the points `held` led along it; the time, s, that the displacements are then of."""
    step = solver.plan.schedule.time_step
    start_from(solver, field(-0.5 * step), field(0.5 * step))
    for number in range(steps):
        solver.update_displacement()
        solver.displacement[held, :3] = field((number + 0.5) * step)[held]
        solver.add_forces()
    return (steps - 0.5) * step


def leapfrog_frequency(frequency: float, time_step: float) -> float:
    """The angular frequency, 1/s, at which leapfrog steps oscillate where the exact one is `frequency`.

    With a field of this frequency and the exact wavenumber, steps in time add no error: what is left is of space.
    """
    return 2.0 / time_step * np.arcsin(0.5 * frequency * time_step)


def relative_error(plan: SpectralElementPlan, values: np.ndarray, exact: Callable[[np.ndarray], np.ndarray]) -> float:
    """Error in L2 over that of the exact field, by Gauss quadrature of higher degree within every element.

    values : (points, 3). exact : function of positions (..., 3) -> (..., 3).
    """
    points, weights = np.polynomial.legendre.leggauss(plan.degree + 4)
    line = lagrange_values(plan.degree, points)
    nodes = plan.mesh.element_nodes()
    slopes = shape_tables(lattice(points), nodes.shape[1])[1]
    matrix = np.einsum("dpa,eac->epcd", slopes, nodes, optimize=True)
    volume = np.linalg.det(matrix) * np.einsum("k,j,i->kji", weights, weights, weights).ravel()
    found = np.einsum("ck,bj,ai,ekjid->ecbad", line, line, line, values[plan.numbers], optimize=True)
    truth = exact(plan.mesh.positions(points))
    difference = ((found - truth) ** 2).sum(axis=-1).reshape(volume.shape)
    return float(np.sqrt((volume * difference).sum() / (volume * (truth**2).sum(axis=-1).reshape(volume.shape)).sum()))


def harmonic(direction: Any, polarization: Any, wavelength: float, phase: float = 0.4) -> Callable[..., np.ndarray]:
    """A plane wave of displacement: function (positions, angle of time, rad) -> (..., 3), m."""
    wavenumber = 2 * np.pi / wavelength * np.asarray(direction, float) / np.linalg.norm(direction)

    def wave(positions: np.ndarray, angle: float) -> np.ndarray:
        return np.cos(positions @ wavenumber - angle + phase)[..., None] * np.asarray(polarization, float)

    return wave
