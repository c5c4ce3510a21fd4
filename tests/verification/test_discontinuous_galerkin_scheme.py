"""One step against a dense weak form, made anew from quadrature and eigenvectors of the flux; what is conserved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from cuda_devices import make_device
from jittered_boxes import periodic_box
from lithowave.mesh import TETRAHEDRON_FACES
from lithowave.solvers.discontinuous_galerkin import (
    ABSORBING,
    FREE,
    ORDERS,
    RIGID,
    DiscontinuousGalerkinPlan,
    basis_gradients,
    basis_values,
    tetrahedron_rule,
    triangle_rule,
)
from tetrahedra_plans import (
    ANISOTROPIC_ORDER,
    ORDER,
    advanced,
    box,
    energy,
    make_solver,
    momentum,
    noise,
    random_clusters,
    rocks,
    small_plan,
)

TENSOR = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])  # places of xx, yy, zz, xy, xz, yz
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def jacobians(stiffness: np.ndarray, rho: float) -> np.ndarray:
    """A_i (3, 9, 9) of dq/dt + sum of A_i dq/dx_i = 0, for stress and velocity."""
    found = np.zeros((3, 9, 9))
    for i in range(3):
        found[i, :6, 6:] = -stiffness[:, TENSOR[i]]
        found[i, [6, 7, 8], TENSOR[i]] = -1.0 / rho
    return found


def travelling(matrix: np.ndarray, sign: int) -> np.ndarray:
    """States (9, waves) that travel along (+1) or against (-1) the direction of a flux matrix."""
    shift = 1e-4 * np.abs(np.linalg.eigvals(matrix)).max() * np.eye(9)
    _, vectors, count = scipy.linalg.schur(sign * matrix - shift, output="real", sort="rhp")
    return vectors[:, :count]


def face_motion(states: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Traction and velocity (6, ...) of states (9, ...) at a face."""
    return np.concatenate([np.einsum("ij...,j->i...", states[TENSOR], normal), states[6:]])


def state_at_face(own: np.ndarray, flux: np.ndarray, other: Any, normal: np.ndarray) -> np.ndarray:
    """What a Riemann problem leaves on the element's side of a face: its own state and waves that enter it.

    own : (9, points). flux : the element's matrix along the outward normal. other : the kind of an outer face, or the
    neighbour's state and matrix.
    """
    waves = travelling(flux, -1)
    seen = face_motion(np.column_stack([waves, own]), normal)
    moving, present = seen[:, : waves.shape[1]], seen[:, waves.shape[1] :]
    if isinstance(other, tuple):
        state, matrix = other
        beyond = travelling(matrix, 1)
        system = np.column_stack([moving, -face_motion(beyond, normal)])
        jump = face_motion(state, normal) - present
        if system.shape[1] < 6:  # a fluid slides: only the normal velocity and all of the traction are continuous
            kept = np.zeros((4, 6))
            kept[:3, :3], kept[3, 3:] = np.eye(3), normal
            system, jump = kept @ system, kept @ jump
        gains = np.linalg.lstsq(system, jump, rcond=None)[0][: waves.shape[1]]
    elif other == FREE:
        gains = np.linalg.lstsq(moving[:3], -present[:3], rcond=None)[0]
    elif other == RIGID:
        along = np.eye(3) if waves.shape[1] == 3 else normal[None]
        gains = np.linalg.lstsq(along @ moving[3:], -along @ present[3:], rcond=None)[0]
    else:
        assert other == ABSORBING
        both = np.column_stack([moving, face_motion(travelling(flux, 1), normal)])
        gains = -np.linalg.lstsq(both, present, rcond=None)[0][: waves.shape[1]]
    return own + waves @ gains


def weak_step(plan: DiscontinuousGalerkinPlan, values: np.ndarray) -> np.ndarray:
    """Coefficients after a step of all elements: <phi, q'> = <phi, q> + <d_i phi, A_i I> - <phi, A_n I*> at the faces,
    with I the integral over the step of the Taylor series of the element alone."""
    order, step, mesh = plan.order, plan.schedule.time_step, plan.mesh
    points, weights = tetrahedron_rule(order + 2)
    on_face, face_weights = triangle_rule(order + 2)
    phi, slopes = basis_values(order, points), basis_gradients(order, points)
    corners = CORNERS[TETRAHEDRON_FACES]
    places = [face[0] + on_face @ (face[1:] - face[0]) for face in corners]
    traces = [basis_values(order, place) for place in places]
    stiffness = plan.materials.matrix(np.arange(plan.element_count))
    matrices = np.array([jacobians(*one) for one in zip(stiffness, plan.materials.rho, strict=True)])
    vertices = mesh.element_vertices()
    maps = np.linalg.inv((vertices[:, 1:] - vertices[:, :1]).swapaxes(1, 2))  # d xi_c / d x_i
    integrals, found = np.empty_like(values), np.empty_like(values)
    for e in range(plan.element_count):
        gradients = np.einsum("ckn,ci->ikn", slopes, maps[e])
        derivative = np.einsum("kn,n,iln->ikl", phi, weights, gradients)
        term, factor = values[e], step
        integrals[e] = step * term
        for d in range(1, order):
            term = -np.einsum("iab,bl,ikl->ak", matrices[e], term, derivative)
            factor *= step / (d + 1)
            integrals[e] += factor * term
        found[e] = values[e] + np.einsum("iab,bl,ilk->ak", matrices[e], integrals[e], derivative)
    for e in range(plan.element_count):
        jacobian = abs(np.linalg.det(vertices[e, 1:] - vertices[e, 0]))
        for face in range(4):
            a, b, c = vertices[e, TETRAHEDRON_FACES[face]]
            normal = np.cross(b - a, c - a)
            normal *= np.sign(normal @ (a - vertices[e, 3 - face]))
            twice_area = np.linalg.norm(normal)
            normal /= twice_area
            flux = np.einsum("iab,i->ab", matrices[e], normal)
            other = plan.face_neighbors[e, face]
            if other >= 0:
                # The neighbour's values at the same places of space, found anew from these.
                there = a + on_face @ np.array([b - a, c - a])
                within = (there - vertices[other, 0]) @ maps[other].T
                across = integrals[other] @ basis_values(order, within)
                other = across, np.einsum("iab,i->ab", matrices[other], normal)
            star = state_at_face(integrals[e] @ traces[face], flux, other, normal)
            found[e] -= twice_area / jacobian * (flux @ star) * face_weights @ traces[face].T
    return found


def check_against_the_weak_form(order: int, anisotropic: bool, backend: Any = None, precision: str = "double") -> None:
    mesh = box((2, 1, 2))
    materials = rocks(mesh.element_count, anisotropic=0.4 if anisotropic else 0.0)
    assert materials.is_fluid.any() and (~materials.is_fluid).any()
    plan = small_plan(mesh, materials, order, precision, kinds=("free", "absorbing", "rigid"))
    assert {FREE, ABSORBING, RIGID} < set(plan.face_neighbors.ravel())
    before = noise(plan)
    found, expected = advanced(make_solver(plan, backend), before, 1), weak_step(plan, before)
    tolerance = 1e-12 if precision == "double" else 2e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert np.abs(expected - before).max() > 0.1  # there is much in it


@pytest.mark.parametrize("order, anisotropic", [(ORDER, False), (ANISOTROPIC_ORDER, True)])
def test_a_step_is_that_of_the_weak_form(order: int, anisotropic: bool) -> None:
    check_against_the_weak_form(order, anisotropic)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_step_of_every_order_on_a_device_is_that_of_the_weak_form(
    order: int, anisotropic: bool, precision: str
) -> None:
    check_against_the_weak_form(order, anisotropic, make_device("device", precision), precision)


def test_a_constant_state_of_rest_remains() -> None:
    """Pressure alone in fluids and solids, in a box without an outside: nothing moves."""
    mesh = periodic_box((3, 3, 3), jitter=0.15, cut="six").local()
    plan = small_plan(mesh, rocks(mesh.element_count), ORDER)
    values = np.zeros_like(noise(plan))
    values[:, :3, 0] = 1.0
    found = advanced(make_solver(plan), values, 5)
    np.testing.assert_allclose(found, values, atol=1e-12)


@pytest.mark.parametrize("clusters", [False, True])
def test_momentum_is_conserved_and_energy_never_grows(clusters: bool) -> None:
    """Free faces and faces between fluids, solids and time steps of all kinds give and take nothing but energy."""
    mesh = box((3, 3, 3))
    cluster = random_clusters(mesh) if clusters else None
    plan = small_plan(mesh, rocks(mesh.element_count), ORDER, cluster=cluster)
    assert plan.clustering.count == (3 if clusters else 1)
    solver, values = make_solver(plan), noise(plan)
    solver.set_coefficients(values)
    before, energies = momentum(plan, values), [energy(plan, values)]
    scale = (6.0 * plan.mesh.volumes() * plan.materials.rho).sum()
    for step in range(800):
        solver.advance(step)
        if step % 100 == 99:
            found = solver.host_coefficients()
            energies.append(energy(plan, found))
            np.testing.assert_allclose(momentum(plan, found), before, atol=1e-12 * scale)
    assert (np.diff(energies) < 0).all()
    # Much of the noise is gone, and what the mesh resolves is not.
    assert 1e-4 * energies[0] < energies[-1] < 0.5 * energies[0], energies


def test_a_free_body_moves_on() -> None:
    """Constant velocity with free faces: an exact solution, whatever it is made of."""
    mesh = box((2, 2, 2))
    plan = small_plan(mesh, rocks(mesh.element_count), ORDER)
    values = np.zeros_like(noise(plan))
    values[:, 6:, 0] = [1.0, -2.0, 0.5]
    np.testing.assert_allclose(advanced(make_solver(plan), values, 20), values, atol=1e-12)
