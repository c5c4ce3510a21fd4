"""Small meshes of tetrahedra, random materials and plans, for tests of the discontinuous Galerkin method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from element_kinds import QUIET
from jittered_boxes import jittered
from lithowave.backends import make_backend
from lithowave.description import Acquisition, Gaussian
from lithowave.mesh import TETRAHEDRON_FACES, TetrahedralMesh, exterior_triangles, layered_box, split_hexahedra
from lithowave.solvers import Schedule
from lithowave.solvers.discontinuous_galerkin import (
    KINDS,
    AbsorbingLayer,
    Clustering,
    DiscontinuousGalerkinPlan,
    DiscontinuousGalerkinSolver,
    ElementMaterials,
    MeshedModel,
    limit_cluster_jumps,
    make_plan,
    make_tasks,
    mode_count,
)

# Compiling the kernels takes most of the time of these tests: on the CPU they use these orders alone.
ORDER, ANISOTROPIC_ORDER = 3, 2


def box(counts: tuple[int, int, int] = (2, 2, 2), jitter: float = 0.15, cut: str = "six") -> TetrahedralMesh:
    """A box of cubes of 1 m below z = 0, its inner vertices moved."""
    x, y, z = counts
    return jittered(split_hexahedra(layered_box((0, x), (0, y), [0, -z], [(1, 1)]), cut), jitter).local()


def rocks(count: int, fluids: float = 0.3, anisotropic: float = 0.0, seed: int = 0) -> ElementMaterials:
    """Random materials, a part of them fluids, and a part anisotropic, of stiffnesses without any symmetry."""
    random = np.random.default_rng(seed)
    vs = random.uniform(1, 1.8, count) * (random.random(count) >= fluids)
    found = ElementMaterials.isotropic(random.uniform(3, 4, count), vs, random.uniform(1, 2, count))
    if not anisotropic:
        return found
    parts = random.normal(size=(3, 6, 6))
    stiffness = np.diag([20.0] * 3 + [10.0] * 3) + 0.25 * parts @ parts.swapaxes(1, 2)
    number = np.where(random.random(count) < anisotropic, random.integers(0, 3, count), -1)
    return replace(found, number=number, stiffness=stiffness, fastest=np.full(3, 6.0), slowest=np.full(3, 3.0))


def outer_faces(mesh: TetrahedralMesh, kinds: Sequence[str]) -> dict[str, np.ndarray]:
    """The outer faces, dealt out in turn to some kinds."""
    faces = exterior_triangles(mesh.neighbors)
    turn = np.arange(len(faces)) % len(kinds)
    dealt = {kind: faces[turn == number] for number, kind in enumerate(kinds)}
    return {kind: dealt.get(kind, faces[:0]) for kind in KINDS}


def small_plan(
    mesh: TetrahedralMesh,
    materials: ElementMaterials,
    order: int,
    precision: str = "double",
    kinds: Sequence[str] = ("free",),
    step: float = 0.9,
    cluster: np.ndarray | None = None,
    layer: AbsorbingLayer | None = None,
    **more: Any,
) -> DiscontinuousGalerkinPlan:
    """A plan; step : the shortest time step over the largest that is stable. cluster : of each element."""

    def clusters(limits: np.ndarray, _: np.ndarray) -> Clustering:
        own = np.zeros(len(limits), np.int64) if cluster is None else cluster
        shortest = step * float((limits / 2.0**own).min())
        longest = shortest * 2.0 ** own.max()
        return Clustering(Schedule(longest, limits.min(), longest, 2), shortest, own, 1.0)

    model = MeshedModel(mesh, materials, outer_faces(mesh, kinds), None, layer=layer)
    return make_plan(model, order, clusters, precision, **more)


def random_clusters(mesh: TetrahedralMesh, most: int = 2, seed: int = 0) -> np.ndarray:
    """Clusters from 0 to `most`, all of them used."""
    raw = np.random.default_rng(seed).choice([0, most, most + 2, most + 3], mesh.element_count)
    found = limit_cluster_jumps(raw, element_neighbors(mesh))
    assert set(found) >= set(range(min(most, 2)))
    return np.minimum(found, most)


def element_neighbors(mesh: TetrahedralMesh) -> np.ndarray:
    """(elements, 4): -1 for none."""
    return np.where(mesh.neighbors >= 0, mesh.neighbors // 4, -1)


def noise(plan: DiscontinuousGalerkinPlan, seed: int = 0) -> np.ndarray:
    """Random coefficients (elements, 9, functions) that a medium can have: a fluid has nothing but pressure."""
    shape = (plan.element_count, 9, mode_count(plan.order))
    found = np.random.default_rng(seed).normal(size=shape)
    fluid = plan.materials.is_fluid
    found[fluid, 1:3] = found[fluid, :1]
    found[fluid, 3:6] = 0
    return found


def described_plan(
    counts: tuple[int, int, int], order: int, precision: str, case: str = "global"
) -> DiscontinuousGalerkinPlan:
    """The plan of a case of the benchmarks, of this many cubes of twelve elements along x, y and z."""
    [task] = make_tasks(make_backend("cpu", precision, 1), [case], [counts], [order])
    return task.plan


def make_solver(
    plan: DiscontinuousGalerkinPlan, backend: Any = None, simulation: Any = QUIET
) -> DiscontinuousGalerkinSolver:
    """Without sources and receivers, on the CPU unless told otherwise, in the precision of the plan."""
    if backend is None:
        backend = make_backend("cpu", "single" if plan.value_bytes == 4 else "double", 1)
    return DiscontinuousGalerkinSolver(plan, simulation, backend)


def advanced(solver: DiscontinuousGalerkinSolver, values: np.ndarray, steps: int) -> np.ndarray:
    """Coefficients after some steps of the run."""
    solver.set_coefficients(values)
    for step in range(steps):
        solver.advance(step)
    return solver.host_coefficients().astype(float)


def energy(plan: DiscontinuousGalerkinPlan, values: np.ndarray) -> float:
    """Of coefficients, J: half of stress times strain and of density times velocity squared."""
    own = plan.materials
    jacobian = 6.0 * plan.mesh.volumes()
    total = 0.5 * (jacobian * own.rho * (values[:, 6:] ** 2).sum(axis=(1, 2))).sum()
    fluid = own.is_fluid
    total += 0.5 * (jacobian[fluid] / own.lam[fluid] * (values[fluid, 0] ** 2).sum(axis=1)).sum()
    solid = np.flatnonzero(~fluid)
    compliance = np.linalg.inv(own.matrix(solid))
    stress = values[solid, :6]
    return float(total + 0.5 * np.einsum("n,nak,nab,nbk->", jacobian[solid], stress, compliance, stress))


def momentum(plan: DiscontinuousGalerkinPlan, values: np.ndarray) -> np.ndarray:
    """(3,), N s: the first function is the root of 6, whose integral over the reference is a sixth of that."""
    mass = 6.0 * plan.mesh.volumes() * plan.materials.rho
    return np.sqrt(6.0) / 6.0 * (mass[:, None] * values[:, 6:, 0]).sum(axis=0)


def experiment(sources: Sequence[Any] = (), receivers: Sequence[Sequence[float]] = ()) -> Any:
    """What a solver asks of a simulation."""
    named = [SimpleNamespace(name=f"R{number}", position=place) for number, place in enumerate(receivers)]
    return SimpleNamespace(
        acquisition=Acquisition((tuple(sources),), (tuple(named),)), domain=None,
        output=SimpleNamespace(peak_motion=False, tensors=False), resolved_frequency=None,
        highest_frequency=max((one.time_function.maximum_frequency() for one in sources), default=1.0),
    )  # fmt: skip


def source(position: Sequence[float], sigma: float, **what: Any) -> Any:
    """A point source with a Gaussian, at its peak at 6 sigma, s; what : force (3,), N, or moment (6,), N m, in the
    order of stress."""
    kinds = {"force": None, "moment": None} | what
    return SimpleNamespace(position=position, side="below", time_function=Gaussian(sigma=sigma), **kinds)


def check_conforming(mesh: TetrahedralMesh, euler: int = 1) -> None:
    """Each face belongs to one or two elements, on opposite sides; the boundaries are the faces of one; no holes."""
    assert (np.diff(mesh.elements, axis=1) > 0).all()
    corners = mesh.elements[:, TETRAHEDRON_FACES].reshape(-1, 3)
    keys = corners @ [len(mesh.vertices) ** 2, len(mesh.vertices), 1]
    faces, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    assert counts.max() <= 2
    exterior = np.flatnonzero(counts[places] == 1)
    drawn = np.concatenate([4 * sides[:, 0] + sides[:, 1] for sides in mesh.boundaries.values()])
    np.testing.assert_array_equal(np.sort(drawn), exterior)
    a, b, c = np.moveaxis(mesh.vertices[corners], 1, 0)
    opposite = mesh.vertices[mesh.elements[:, [3, 2, 1, 0]].ravel()]
    sides = np.sign(np.einsum("ij,ij->i", np.cross(b - a, c - a), opposite - a))
    assert (sides != 0).all()
    total = np.bincount(places, sides)
    assert (total[counts == 2] == 0).all()
    ends = mesh.elements[:, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]].reshape(-1, 2)
    edges = np.unique(ends @ [len(mesh.vertices), 1])
    assert len(np.unique(mesh.elements)) - len(edges) + len(faces) - mesh.element_count == euler
