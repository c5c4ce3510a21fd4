r"""Exact solution of the Riemann problem at the faces, for any two elastic or fluid media.

At a face with unit normal n, outward from an element (-) to its neighbor (+), traction t = sigma n and velocity v jump
to t*, v*. Waves that leave the face on either side have t* - t^- = Z^- (v* - v^-) and t* - t^+ = -Z^+ (v* - v^+) with
the impedances

.. math::
    Z(n) = \rho\,\Gamma^{1/2}, \quad \Gamma_{ik} = C_{ijkl} n_j n_l / \rho; \qquad
    Z = Z_s + (Z_p - Z_s)\, n n^T, \; Z_p = \sqrt{(\lambda + 2\mu)\rho}, \; Z_s = \sqrt{\mu\rho}

of an isotropic medium. With w = t^+ + Z^+ v^+, which the neighbor sends, and u = t^- + Z^+ v^-,

.. math::
    v^* - v^- = (Z^- + Z^+)^{-1} (w - u), \qquad t^* - t^- = Z^- (v^* - v^-).

A fluid has Z_s = 0, and if this holds on both sides the tangential velocities are independent: the inverse is that of
the normal part only. A free surface is a neighbor with Z^+ = 0 that sends zeros, an absorbing face one with Z^+ = Z^-
(which is exact for waves along its normal), a rigid one has a Z^+ beyond the floating-point resolution.

Toro (2009), Riemann Solvers and Numerical Methods for Fluid Dynamics, section 2.3, for linear systems; Käser & Dumbser
(2006), GJI 166, 855-877, for the waves of isotropic media.
"""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part
from lithowave.physics.tensors import TENSOR_INDEX
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES, ElementMaterials

FREE, ABSORBING, RIGID = -1, -2, -3  # instead of a neighbor
KINDS = {"free": FREE, "absorbing": ABSORBING, "rigid": RIGID}

# Coefficients of a face: normal, 1 / (Zs + Zs'), 1 / (Zp + Zp') less that; 0, S lambda, S mu; S Zs / rho, S (Zp - Zs) /
# rho, Zs', Zp' - Zs'; Zs, Zp - Zs, with S = time step * area / (3 volume).
ISOTROPIC_NUMBERS = 14
# Coefficients of a face next to anisotropic elements: flux of a jump w - u to the nine quantities (9, 3), times S;
# normal; Z and Z' (xx, yy, zz, xy, xz, yz).
ANISOTROPIC_NUMBERS = 3 * QUANTITIES + 3 + 6 + 6
FACE_NUMBERS = {False: ISOTROPIC_NUMBERS, True: ANISOTROPIC_NUMBERS}  # of isotropic and of anisotropic elements
# Coefficients of an elastic law: d xi_c / d x_i (3, 3), lambda, mu, 1 / rho; or `elastic_matrices`.
ISOTROPIC_LAW, ANISOTROPIC_LAW = 9 + 3, QUANTITIES * 9
LAW_NUMBERS = {False: ISOTROPIC_LAW, True: ANISOTROPIC_LAW}
JUMP = 3 * QUANTITIES  # coefficients of the flux of a jump to the nine quantities
# Further coefficients in an absorbing layer, see `layer`: gains along x, y, z, or with these gains the law (see
# `elastic_matrices`) and the fluxes of the jumps at the four faces; decay of the memory variables; damping.
LAYER_NUMBERS = {False: 3 + 1 + 1, True: ANISOTROPIC_LAW + 4 * JUMP + 1 + 1}

# Further coefficients of anisotropic elements with attenuation: see `relaxation.isotropic_stresses`.
STRAIN_NUMBERS = STRESSES * (STRESSES + 1)


def law_numbers(anisotropic: bool, layer: bool, mechanisms: int = 0) -> int:
    """Return the number of coefficients of the law of an element, in an absorbing layer or not: of the elastic law, of
    the layer, and of attenuation with a number of relaxation mechanisms (see `relaxation`)."""
    relaxing = 2 * mechanisms + (STRAIN_NUMBERS if anisotropic and mechanisms else 0)
    return LAW_NUMBERS[anisotropic] + layer * LAYER_NUMBERS[anisotropic] + relaxing


def neighbor_impedance(own: np.ndarray, across: np.ndarray, kind: np.ndarray, epsilon: float) -> np.ndarray:
    """Return Z^+ from that of the element, that of its neighbor if there is one, and the kind of the face.

    kind : the neighbor (0 or more), or FREE, ABSORBING, RIGID; has the shape of the impedances, or is broadcast.
    """
    outside = np.select([kind == ABSORBING, kind == RIGID], [own, own / epsilon], 0.0)
    return np.where(kind >= 0, across, outside)


def isotropic_faces(
    materials: ElementMaterials,
    elements: np.ndarray,
    neighbors: np.ndarray,
    normals: np.ndarray,
    scale: np.ndarray,
    epsilon: float,
) -> np.ndarray:
    """Return coefficients of the faces (n, 4, ISOTROPIC_NUMBERS) of some elements.

    neighbors : (n, 4), element or kind of face. normals : (n, 4, 3), outward. scale : S (n, 4), s/m. epsilon : of the
    precision of the run.
    """
    found = np.empty((len(elements), 4, ISOTROPIC_NUMBERS))
    media = materials.lam, materials.mu, materials.rho
    compute_isotropic_faces(elements, neighbors, normals, scale, epsilon, media, found)
    return found


@exact_part
def compute_isotropic_faces(elements, neighbors, normals, scale, epsilon, media, found):  # pragma: no cover - compiled
    """Compute `isotropic_faces`. media : lambda, mu and density of all elements."""
    for n in range(len(elements)):
        lam, mu, rho = media[0][elements[n]], media[1][elements[n]], media[2][elements[n]]
        zp, zs = np.sqrt((lam + 2 * mu) * rho), np.sqrt(mu * rho)
        for face in range(4):
            across, size, numbers = neighbors[n, face], scale[n, face], found[n, face]
            if across >= 0:
                stiff, rigid, heavy = media[0][across], media[1][across], media[2][across]
                zp_across, zs_across = np.sqrt((stiff + 2 * rigid) * heavy), np.sqrt(rigid * heavy)
            elif across == ABSORBING:
                zp_across, zs_across = zp, zs
            elif across == RIGID:
                zp_across, zs_across = zp / epsilon, zs / epsilon
            else:
                zp_across, zs_across = 0.0, 0.0
            p, s = 1.0 / (zp + zp_across), zs + zs_across
            s = 1.0 / s if s > 0 else 0.0
            numbers[:3], numbers[3], numbers[4], numbers[5] = normals[n, face], s, p - s, 0.0
            numbers[6], numbers[7] = size * lam, size * mu
            numbers[8], numbers[9] = size * zs / rho, size * (zp - zs) / rho
            numbers[10], numbers[11], numbers[12], numbers[13] = zs_across, zp_across - zs_across, zs, zp - zs


def impedance_matrices(stiffness: np.ndarray, rho: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return Z(n) (..., 3, 3), kg/(m^2 s), of stiffness (..., 6, 6), ordered as `STRESS`, for normals (..., 3)."""
    tractions = traction_matrices(stiffness, normals)
    christoffel = np.einsum("...iaj,...a->...ij", tractions[..., TENSOR_INDEX, :], normals)
    values, vectors = np.linalg.eigh(christoffel * rho[..., None, None])
    # In a fluid two eigenvalues vanish up to round-off, but the root of round-off is not small.
    values = np.where(values > 1e-12 * values[..., -1:], values, 0.0)
    return np.einsum("...ik,...k,...jk->...ij", vectors, np.sqrt(values), vectors)


def traction_matrices(stiffness: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return C : (n d) for the unit vectors d: (..., 6, 3), Pa; stress in the order of `STRESS`."""
    return np.einsum("...ajl,...l->...aj", stiffness[..., TENSOR_INDEX], normals)


def anisotropic_faces(
    materials: ElementMaterials,
    elements: np.ndarray,
    neighbors: np.ndarray,
    normals: np.ndarray,
    scale: np.ndarray,
    epsilon: float,
) -> np.ndarray:
    """Return coefficients of the faces (n, 4, ANISOTROPIC_NUMBERS) of some elements; see `isotropic_faces`."""
    own, across = both_impedances(materials, elements, neighbors, normals, epsilon)
    rows, columns = np.array([[0, 0], [1, 1], [2, 2], [0, 1], [0, 2], [1, 2]]).T
    return np.concatenate(
        [
            jump_matrices(materials, elements, own, across, normals, scale),
            normals,
            own[..., rows, columns],
            across[..., rows, columns],
        ],
        axis=-1,
    )


def both_impedances(
    materials: ElementMaterials, elements: np.ndarray, neighbors: np.ndarray, normals: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return Z^- and Z^+ (n, 4, 3, 3) at the faces of some elements; see `isotropic_faces`."""
    inside = np.maximum(neighbors, 0)
    rho = materials.rho[elements][:, None] + np.zeros(inside.shape)
    own = impedance_matrices(materials.matrix(elements)[:, None], rho, normals)
    around = materials.matrix(inside.ravel()).reshape(*inside.shape, 6, 6)
    across = impedance_matrices(around, materials.rho[inside], normals)
    return own, neighbor_impedance(own, across, neighbors[..., None, None], epsilon)


def jump_matrices(
    materials: ElementMaterials, elements: np.ndarray, own: np.ndarray, across: np.ndarray, normals: np.ndarray,
    scale: np.ndarray, gains: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the flux of a jump w - u to the quantities (n, 4, JUMP).

    own, across : Z^-, Z^+. gains : of the directions (n, 3), for memory variables; see `layer`.
    """
    stiffness, rho = materials.matrix(elements)[:, None], materials.rho[elements][:, None, None, None]
    inverse = np.linalg.pinv(own + across, rcond=1e-10, hermitian=True)
    velocity = own / rho
    if gains is not None:
        velocity *= (normals**2 * gains[:, None]).sum(axis=-1)[..., None, None]
        normals = normals * gains[:, None]
    jump = np.concatenate([traction_matrices(stiffness, normals), velocity], axis=-2) @ inverse
    return (scale[..., None, None] * jump).reshape(*scale.shape, JUMP)


def elastic_matrices(materials: ElementMaterials, elements: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return the matrices of the reference derivatives along the directions c: (n, 9, 3, 3).

    The rate of quantity a is the sum over c and j of [a, c, j] times the derivative c of the quantity SOURCES[a, j]. A
    stress depends on the velocities x, y, z, a velocity on the stresses in its row.

    gradients : (n, 3, 3), d xi_c / d x_i, in directions c, 1/m.
    """
    stiffness = materials.matrix(elements)
    stress = np.einsum("najl,ncl->nacj", stiffness[:, :, TENSOR_INDEX], gradients)
    velocity = gradients / materials.rho[elements][:, None, None]
    return np.concatenate([stress, np.repeat(velocity[:, None], 3, axis=1)], axis=1)


def stretched_laws(
    materials: ElementMaterials, elements: np.ndarray, neighbors: np.ndarray, normals: np.ndarray, scale: np.ndarray,
    epsilon: float, gradients: np.ndarray, gains: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return `elastic_matrices` and the four `jump_matrices` of elements (n, ANISOTROPIC_LAW + 4 JUMP) with gains of
    the directions (n, 3); see `isotropic_faces` and `elastic_matrices` for the other parameters."""
    impedances = both_impedances(materials, elements, neighbors, normals, epsilon)
    law = elastic_matrices(materials, elements, gradients * gains[:, None])
    jumps = jump_matrices(materials, elements, *impedances, normals, scale, gains)
    return np.column_stack([law.reshape(-1, ANISOTROPIC_LAW), jumps.reshape(-1, 4 * JUMP)])


SOURCES = np.concatenate([np.tile(np.arange(STRESSES, QUANTITIES), (STRESSES, 1)), TENSOR_INDEX])
