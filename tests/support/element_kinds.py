"""Boxes of spectral elements of any one kind, also of kinds that no description has everywhere, and their solvers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lithowave.description import Simulation
from lithowave.earth import RadialGravity, largest_softness, phase_speed_range, transverse_moduli
from lithowave.mesh import curved, layered_box
from lithowave.physics import isotropic_stiffness
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers import Schedule
from lithowave.solvers.spectral_element import (
    AbsorbingLayer,
    ElementKind,
    ElementMaterials,
    Losses,
    MeshedModel,
    SpectralElementPlan,
    SpectralElementSolver,
    TransverseMaterials,
    carrier_sets,
    make_plan,
)

SIZE, VP, VS, RHO = 100.0, 5000.0, 2900.0, 2700.0  # of elements, m, and their material
SIDES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")
QUIET = Simulation.from_text("""\
title: without sources and receivers
domain: {x: [0, 1000], y: [0, 1000], z: [-1000, 0]}
material: {homogeneous: {vp: 5000, vs: 2900, rho: 2700}}
boundaries: {absorption: stacey}
sources: []
receivers: []
duration: 1
solver: {method: spectral_element, spacing: 100}
""")


def quiet_solver(plan: SpectralElementPlan, backend: Any, halo: Any = None) -> SpectralElementSolver:
    """The solver of any plan, without sources and receivers."""
    return SpectralElementSolver(plan, QUIET, backend, halo)


HIGH_QUALITY, LOW_QUALITY = 200.0, 2.0  # of elements with memory variables at some points, and at all
GRAVITY, CENTER_DEPTH = 0.1, 1000.0  # acceleration in units of vs^2 over the size of elements; in these sizes


def kind_plan(
    counts: tuple[int, int, int], degree: int, precision: str, kind: ElementKind, *, absorbing: bool = True,
    deterministic: bool = False,
) -> SpectralElementPlan:  # fmt: skip
    """The plan of a box of elements of one kind, free on top and absorbing elsewhere.

    Trilinear, triquadratic and upright elements are deformed by smooth waves, affine ones sheared; the moduli of
    varying elements differ between points.
    """
    ends = [(0.0, SIZE * count) for count in counts]
    mesh = layered_box(ends[0], ends[1], [0.0, -ends[2][1]], [(SIZE, SIZE)]).local()
    if kind.map != "cuboid":
        mesh = deformed(mesh, kind.map, kind.layer if kind.aligned else 0)
    if kind.gravity:  # towards a point below the box
        mesh = replace(mesh, vertices=mesh.vertices + [0.0, 0.0, CENTER_DEPTH * SIZE])
    faces = np.concatenate([faces for name, faces in mesh.boundaries.items() if name != "z_max"])
    none = np.zeros((0, 2), np.int64)
    kinds = {"absorbing": faces if absorbing else none, "rigid": none, "free": mesh.boundaries["z_max"]}
    materials = kind_materials(mesh.element_count, degree, kind, precision)
    gravity = None
    if kind.gravity:
        mass = GRAVITY * VS**2 / SIZE * (CENTER_DEPTH * SIZE) ** 2
        gravity = RadialGravity(np.array([0.0, 1.0]), np.array([mass, mass]))
    model = MeshedModel(mesh, materials, kinds, kind_layer(counts, kind), SIZE, gravity=gravity)
    return make_plan(model, degree, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), precision, deterministic)


def kind_layer(counts: tuple[int, int, int], kind: ElementKind) -> AbsorbingLayer | None:
    """An absorbing layer in which all elements of the box are, along the active axes of the kind, or damped
    along x and y."""
    if not kind.layer:
        return None
    thickness = dict.fromkeys(SIDES, 0.0)
    ends = [(-2 * SIZE, -SIZE), (-2 * SIZE, -SIZE), (-SIZE * (counts[2] + 2), -SIZE * (counts[2] + 1))]
    for axis in range(3):
        if (3 if kind.damped else kind.layer) >> axis & 1:
            thickness[f"{'xyz'[axis]}_max"] = SIZE * (counts[axis] + 2)
    return AbsorbingLayer(tuple(ends), thickness, counts[0], frequency=VS / SIZE, matched=not kind.damped)


def deformed(mesh: Any, shape: str, straight: int = 0) -> Any:
    """The mesh deformed by waves of a few elements' length, by up to a tenth of an element, vertically if its elements
    are upright; affine elements are sheared.

    straight : axes, as a sum of 1 for x, 2 for y and 4 for z, along which elements remain aligned.
    """
    bends = [1 - (straight >> axis & 1) for axis in range(3)]

    def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (2 * np.pi * bend * one / (6.3 * SIZE) for bend, one in zip(bends, (x, y, z), strict=True))
        waves = np.sin(b + c), np.sin(c + a), np.sin(a + b)
        return tuple(0.1 * SIZE * bend * wave for bend, wave in zip(bends, waves, strict=True))

    def shear(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (0.1 * bend * one for bend, one in zip(bends, (x, y, z), strict=True))
        return bends[0] * (b + c), bends[1] * c, bends[2] * a

    def lift(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (bend * one / SIZE for bend, one in zip(bends, (x, y, z), strict=True))
        return 0 * x, 0 * y, 0.1 * SIZE * bends[2] * np.sin(a + b + c)

    move = {"affine": shear, "upright": lift}.get(shape, bend)
    if shape in ("triquadratic", "upright"):
        return curved(mesh, move)
    return replace(mesh, vertices=mesh.vertices + np.stack(move(*mesh.vertices.T), axis=1))


def kind_materials(elements: int, degree: int, kind: ElementKind, precision: str) -> ElementMaterials:
    """Moduli that vary by a tenth between points, or one set for all elements."""
    mu = 0.0 if kind.fluid else RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    values = None
    if kind.varying:
        dtype = np.float32 if precision == "single" else np.float64
        ripple = 1 + 0.1 * np.sin(np.arange((degree + 1) ** 3, dtype=dtype)).reshape((degree + 1,) * 3)
        values = np.empty((3, elements, *ripple.shape), dtype)
        for part, value in zip(values, (lam, mu, RHO), strict=True):
            part[:] = value * ripple
    stiffness = isotropic_stiffness(np.array([lam]), np.array([mu]))
    losses = None
    if kind.mechanisms:  # Q such that the carrying points are those of the kind
        quality = LOW_QUALITY if kind.carriers == len(carrier_sets(degree)) else HIGH_QUALITY
        body = fit_body(QualityLaw(), (1.0, 100.0), kind.mechanisms, (1.0 / quality, 1.0 / quality))
        shape = (2, 1) if values is None else (2, *values.shape[1:])
        losses = Losses(body, np.broadcast_to(1.0 / quality, shape))
    tables = (
        np.zeros(elements, np.int64), stiffness, np.array([RHO]), np.array([kind.anisotropic]), np.array([VP]),
        np.array([VP if kind.fluid else VS]), values, losses,
    )  # fmt: skip
    if not (kind.varying and kind.anisotropic):
        return ElementMaterials(*tables)
    return TransverseMaterials(*tables, *transverse_values(values), np.arange(elements))


def transverse_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tensors, speeds and softness of `TransverseMaterials` for values of an isotropic medium, made
    anisotropic by 10% along axes that differ between points."""
    lam, mu, rho = values
    love = (1.05 * (lam + 2 * mu), 0.95 * (lam + 2 * mu), 0.95 * mu, 1.05 * mu, lam)
    angle = np.arange(math.prod(values.shape[2:])).reshape(values.shape[2:])
    axis = np.stack([np.cos(angle), np.sin(angle), np.ones(angle.shape)], axis=-1) / math.sqrt(2.0)
    speeds = np.stack(phase_speed_range(love, rho)).astype(values.dtype)
    soft = largest_softness(love).max(axis=(1, 2, 3))
    return transverse_moduli(love, axis).astype(values.dtype), speeds, soft
